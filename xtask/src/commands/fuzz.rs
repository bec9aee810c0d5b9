//! `cargo xtask fuzz`: the targets of the crate `fuzz` under libFuzzer, one after the other.
//!
//! The fuzzer needs no nightly compiler: the coverage that it is led by comes from an LLVM pass, and the pass is asked for
//! with stable options. Memory errors need no sanitizer, since what is fuzzed has no unsafe code.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use clap::Args;

use crate::context::{self, Context};
use crate::parts::Parts;

/// Seconds after which one input takes too long.
const INPUT_LIMIT_S: u32 = 10;
const MEMORY_LIMIT_MIB: u32 = 2048;
/// Longer inputs than most are worth: a square of this is long enough to be seen.
const INPUT_MAX_BYTES: u32 = 16 << 10;
/// The pass, and what it writes down: which edges were taken, and what was compared with what.
const COVERAGE: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// What and how long.
#[derive(Args)]
pub struct Options {
    /// Only this target; all without it
    pub target: Option<String>,
    /// Seconds for each target
    #[arg(long, default_value_t = 60)]
    pub seconds: u32,
}

/// Runs the command.
pub fn run(context: &Context, options: &Options) -> Result<()> {
    let mut parts = Parts::default();
    targets(context, options, &mut parts)?;
    parts.finish()
}

/// Builds the fuzzer and runs each target as a part of its own.
pub fn targets(context: &Context, options: &Options, parts: &mut Parts) -> Result<()> {
    let all = names(&context.root.join("fuzz/corpus"))?;
    let chosen: Vec<&String> =
        all.iter().filter(|name| options.target.as_ref().is_none_or(|want| want == *name)).collect();
    if chosen.is_empty() {
        bail!("there is no such target; there are: {}", all.join(" "));
    }
    let home = context.target.join("fuzz");
    let program = build(context, &home)?;
    for name in chosen {
        parts.run(&format!("fuzz {name}"), || one(context, &program, &home, name, options.seconds));
    }
    Ok(())
}

/// Each target has a folder of seeds; a test sees to that.
fn names(corpus: &Path) -> Result<Vec<String>> {
    let listed = fs::read_dir(corpus).with_context(|| format!("cannot read {}", corpus.display()))?;
    let mut names = Vec::new();
    for entry in listed {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// In a target folder of its own, since the options of the compiler are others. With a named platform, build scripts and
/// macros stay as they are.
fn build(context: &Context, home: &Path) -> Result<PathBuf> {
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut command = context.cargo();
    command.args(["build", "--profile", "fuzz", "--package", "gpun-fuzz", "--features", "libfuzzer"]);
    command.args(["--bin", "gpun-fuzz", "--target", &platform]).args(context.locked());
    command.env("CARGO_TARGET_DIR", home).env("RUSTFLAGS", COVERAGE.join(" "));
    context::run(&mut command)?;
    Ok(home.join(platform).join("fuzz/gpun-fuzz"))
}

/// What was learned stays below the target folder, and a later run goes on from there.
fn one(context: &Context, program: &Path, home: &Path, name: &str, seconds: u32) -> Result<()> {
    let (learned, found) = (home.join("corpus").join(name), home.join("found").join(name));
    for folder in [&learned, &found] {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let mut command = Command::new(program);
    command.current_dir(&context.root).env("GPUN_FUZZ_TARGET", name);
    command.args([
        format!("-max_total_time={seconds}"),
        format!("-timeout={INPUT_LIMIT_S}"),
        format!("-rss_limit_mb={MEMORY_LIMIT_MIB}"),
        format!("-max_len={INPUT_MAX_BYTES}"),
        format!("-artifact_prefix={}/", found.display()),
        "-print_final_stats=1".to_owned(),
        "-verbosity=0".to_owned(),
    ]);
    command.arg(&learned).arg(context.root.join("fuzz/corpus").join(name));
    context::run(&mut command).with_context(|| {
        format!("the input lies in {}: put it into fuzz/corpus/{name} once it is understood", found.display())
    })
}
