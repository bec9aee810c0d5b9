//! `cargo xtask test`: every check and every test.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;

use super::build::EVERYTHING;
use super::{build, ci, setup};
use crate::clients;
use crate::context::{self, Context};
use crate::parts::Parts;
use crate::runner::{self, Limits, Tally};

/// Longest time for all tests together; then the run is ended and fails, rather than hang.
const LIMIT: Duration = Duration::from_secs(40 * 60);

/// Nothing to choose.
#[derive(Args)]
pub struct Options {}

/// Runs the command: every part, even when one before it failed, so that one run tells all there is to mend.
pub fn run(context: &mut Context, _options: &Options) -> Result<()> {
    let mut parts = Parts::default();
    if !parts.run("setup", || setup::prepare(context).and_then(|()| clients::prepare(context))) {
        return parts.finish();
    }
    let context = &*context;
    parts.run("format", || format(context));
    ci::checks(context, &mut parts);
    parts.run("clippy", || clippy(context));
    let mut tally = Tally::default();
    if parts.run("build", || build::everything(context, "dev")) {
        parts.run("tests", || tests(context, EVERYTHING, &mut tally));
        parts.run("doc tests", || tests(context, &["--workspace", "--doc"], &mut tally));
    } else {
        parts.not_run("tests", "the build failed");
    }
    let result = parts.finish();
    println!("\n{}", tally.closing_line());
    result?;
    if tally.passed == 0 {
        bail!("no test ran");
    }
    Ok(())
}

fn format(context: &Context) -> Result<()> {
    context::run(context.cargo().args(["fmt", "--all", "--check"]))
}

fn clippy(context: &Context) -> Result<()> {
    let mut command = context.cargo();
    command.arg("clippy").args(EVERYTHING).args(context.locked()).args(["--", "--deny", "warnings"]);
    context::run(&mut command)
}

fn tests(context: &Context, selection: &[&str], tally: &mut Tally) -> Result<()> {
    let mut command = context.cargo();
    command.args(["test", "--no-fail-fast"]).args(selection).args(context.locked());
    runner::run(&mut command, &context.target, Limits::of(LIMIT), tally)
}
