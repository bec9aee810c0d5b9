//! `cargo xtask ci`: the invariants by absence.

use anyhow::Result;
use clap::Args;

use crate::context::Context;
use crate::parts::Parts;
use crate::{borders, deny, tidy};

/// Nothing to choose.
#[derive(Args)]
pub struct Options {}

/// Runs the command.
pub fn run(context: &Context, _options: &Options) -> Result<()> {
    let mut parts = Parts::default();
    checks(context, &mut parts);
    parts.finish()
}

/// The checks that compile nothing of ours.
pub fn checks(context: &Context, parts: &mut Parts) {
    parts.run("tidy", || tidy::check(context));
    parts.run("borders", || borders::check(context));
    parts.run("licences and sources", || deny::check(context));
}
