//! `cargo xtask build`: every crate and every target.

use anyhow::Result;
use clap::Args;

use super::setup;
use crate::context::{self, Context};

/// How to build.
#[derive(Args)]
pub struct Options {
    /// Optimised, in the release profile
    #[arg(long)]
    release: bool,
}

/// One selection of packages for all cargo calls: another one would resolve other features and build the
/// dependencies again.
pub const EVERYTHING: &[&str] = &["--workspace", "--all-targets"];

/// Runs the command.
pub fn run(context: &mut Context, options: &Options) -> Result<()> {
    setup::prepare(context)?;
    everything(context, if options.release { "release" } else { "dev" })
}

/// Builds every target in a profile; the end-to-end tests start the binaries that this leaves in the target folder.
pub fn everything(context: &Context, profile: &str) -> Result<()> {
    let mut command = context.cargo();
    command.arg("build").args(EVERYTHING).args(context.locked()).args(["--profile", profile]);
    context::run(&mut command)
}
