//! Builds `gpun-init` for embedding: always static and small, whatever profile and flags gpund itself is built with.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("gpun-init cannot be built: {why}");
            ExitCode::FAILURE
        }
    }
}

fn build() -> Result<(), String> {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR").map_err(|e| e.to_string())?);
    let out = PathBuf::from(env::var("OUT_DIR").map_err(|e| e.to_string())?);
    let target = env::var("TARGET").map_err(|e| e.to_string())?;
    for watched in ["init/src", "init/Cargo.toml", "../Cargo.toml", "build.rs"] {
        println!("cargo::rerun-if-changed={}", here.join(watched).display());
    }
    // The target is named so that the flags below are for the program and not for build scripts. Everything that the
    // outer cargo put into the environment for its own build (clippy's wrapper, coverage flags) is taken out.
    let mut cargo = Command::new(env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    cargo.current_dir(&here).args(["build", "--quiet", "--offline", "-p", "gpun-init", "--bin", "gpun-init"]);
    cargo.args(["--profile", "init", "--target", &target, "--target-dir"]).arg(out.join("target"));
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        let own = text.starts_with("CARGO_") || text.starts_with("RUSTC") || text.starts_with("RUSTFLAGS");
        let keep = matches!(&*text, "CARGO_HOME" | "RUSTUP_HOME" | "RUSTUP_TOOLCHAIN")
            || text.starts_with("CARGO_REGISTR")
            || text.starts_with("CARGO_SOURCE")
            || text.starts_with("CARGO_HTTP")
            || text.starts_with("CARGO_NET");
        if own && !keep {
            cargo.env_remove(&name);
        }
    }
    cargo.env("RUSTFLAGS", "-Ctarget-feature=+crt-static -Crelocation-model=static");
    let status = cargo.status().map_err(|e| format!("{cargo:?}: {e}"))?;
    if !status.success() {
        return Err(format!("{cargo:?}: {status}"));
    }
    let built = out.join("target").join(&target).join("init/gpun-init");
    replace_if_other(&built, &out.join("gpun-init"))
}

/// Leaves the copy's time alone when nothing changed, so that gpund is not compiled again for nothing.
fn replace_if_other(built: &Path, copy: &Path) -> Result<(), String> {
    let new = std::fs::read(built).map_err(|e| format!("{}: {e}", built.display()))?;
    if std::fs::read(copy).is_ok_and(|old| old == new) {
        return Ok(());
    }
    std::fs::write(copy, new).map_err(|e| format!("{}: {e}", copy.display()))
}
