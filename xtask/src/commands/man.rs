//! `cargo xtask man`: the manual pages and the list of options, from the tables.

use anyhow::Result;
use clap::Args;

use super::setup;
use crate::context::{self, Context};

/// Whether to write.
#[derive(Args)]
pub struct Options {
    /// Only say whether the pages are what the tables say
    #[arg(long)]
    check: bool,
}

/// The tests that compare the pages with the tables; `cargo xtask test` runs them with all others.
const TESTS: &str = "man::";

/// Runs the command.
pub fn run(context: &mut Context, options: &Options) -> Result<()> {
    setup::prepare(context)?;
    if options.check {
        let mut command = context.cargo();
        command.args(["test", "--package", "gpun-cli", "--lib"]).args(context.locked()).args(["--", TESTS]);
        return context::run(&mut command);
    }
    let mut command = context.cargo();
    command.args(["run", "--quiet", "--package", "gpun-cli", "--bin", "gpun"]).args(context.locked());
    command.args(["--", "man", "man", "--options-list", "docs/compatibility.md"]);
    context::run(&mut command)
}
