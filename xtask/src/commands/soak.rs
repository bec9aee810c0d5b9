//! `cargo xtask soak`: the long proofs, optimised.
//!
//! A long proof is a test whose name contains `soak`. It runs a few rounds, so that `cargo xtask test` proves that it
//! works; with GPUN_SOAK it runs its own many, or GPUN_SOAK_ROUNDS of them. It prints each figure as a line
//! `soak: NAME = VALUE`.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;

use super::{build, fuzz, setup};
use crate::context::Context;
use crate::parts::Parts;
use crate::runner::{self, Limits, Tally};

/// Cargo's profile of the proofs.
const PROFILE: &str = "soak";
/// What every long proof has in its name.
const ALL: &str = "soak";

/// How long and what.
#[derive(Args)]
pub struct Options {
    /// Only the tests whose name contains this
    #[arg(default_value = ALL)]
    filter: String,
    /// Rounds of each proof, instead of its own number
    #[arg(long)]
    rounds: Option<u32>,
    /// Hours after which the run is ended and fails
    #[arg(long, default_value_t = 12)]
    limit_hours: u64,
    /// Seconds for each target of the fuzzer; 0: not at all
    #[arg(long, default_value_t = 60)]
    fuzz_seconds: u32,
}

/// Runs the command.
pub fn run(context: &mut Context, options: &Options) -> Result<()> {
    setup::prepare(context)?;
    let context = &*context;
    let mut parts = Parts::default();
    let mut tally = Tally::default();
    if parts.run("build", || build::everything(context, PROFILE)) {
        parts.run("soak", || soak(context, options, &mut tally));
    }
    // A filter asks for some proof alone.
    if options.fuzz_seconds > 0 && options.filter == ALL {
        let options = fuzz::Options { target: None, seconds: options.fuzz_seconds };
        fuzz::targets(context, &options, &mut parts)?;
    }
    println!("\nfigures:");
    for figure in &tally.figures {
        println!("  {figure}");
    }
    let result = parts.finish();
    println!("\n{}", tally.closing_line());
    result?;
    if tally.passed == 0 {
        bail!("no soak test ran: is the filter right?");
    }
    Ok(())
}

fn soak(context: &Context, options: &Options, tally: &mut Tally) -> Result<()> {
    let mut command = context.cargo();
    // Without the benches, which know no test names.
    command.args(["test", "--profile", PROFILE, "--no-fail-fast", "--workspace", "--lib", "--bins", "--tests"]);
    command.args(context.locked());
    // One at a time: each has the machine to itself, so that its figures mean something.
    command.args(["--", "--nocapture", "--test-threads=1"]).arg(&options.filter);
    command.env("GPUN_SOAK", "1");
    if let Some(rounds) = options.rounds {
        command.env("GPUN_SOAK_ROUNDS", rounds.to_string());
    }
    let limits = Limits::of(Duration::from_secs(options.limit_hours * 3600));
    runner::run(&mut command, &context.target, limits, tally)
}
