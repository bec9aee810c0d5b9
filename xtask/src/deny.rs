//! `cargo deny`: licences, bans, sources and advisories, by the rules in `deny.toml`.
//!
//! The tool is built once into the cache, in the version named here and without optimisation: that takes less than a
//! minute on two cores, and it runs for a second.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::context::{self, Context};

const VERSION: &str = "0.20.2";

/// Licences, bans and sources always; advisories when their database can be had, and a loud notice when not.
pub fn check(context: &Context) -> Result<()> {
    let tool = install(context)?;
    context::run(deny(context, &tool).args(["check", "licenses", "bans", "sources"]))?;
    let fetched =
        deny(context, &tool).args(["--log-level", "off", "fetch", "db"]).output().context("cannot start cargo-deny")?;
    if fetched.status.success() {
        return context::run(deny(context, &tool).args(["check", "--disable-fetch", "advisories"]));
    }
    println!("****************************************************************************");
    println!("* ADVISORIES WERE NOT CHECKED: their database cannot be reached from here. *");
    println!("* Run `cargo xtask ci` where it can before a release.                      *");
    println!("****************************************************************************");
    Ok(())
}

fn deny(context: &Context, tool: &PathBuf) -> Command {
    let mut command = Command::new(tool);
    command.current_dir(&context.root);
    command
}

fn install(context: &Context) -> Result<PathBuf> {
    let root = context.cache.join(format!("cargo-deny-{VERSION}"));
    let tool = root.join("bin/cargo-deny");
    if tool.is_file() {
        return Ok(tool);
    }
    println!("deny: building cargo-deny {VERSION} once into {}", context.cache.display());
    let build = context.cache.join(format!("cargo-deny-{VERSION}.build"));
    let mut command = context.cargo();
    // Away from the clone, whose pinned toolchain and configuration are none of the tool's.
    command.current_dir("/").env("CARGO_TARGET_DIR", &build);
    command
        .args(["install", "--quiet", "--locked", "--debug", "cargo-deny", "--version", VERSION, "--root"])
        .arg(&root);
    context::run(&mut command)?;
    fs::remove_dir_all(&build).with_context(|| format!("cannot remove {}", build.display()))?;
    Ok(tool)
}
