//! `cargo xtask setup`: what the build and the tests need and cargo does not bring.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Result, bail};
use clap::Args;

use crate::clients;
use crate::context::{self, Context, is_root, on_path};
use crate::rocksdb;

/// Nothing to choose.
#[derive(Args)]
pub struct Options {}

/// How a package is known to be there.
enum Presence {
    /// A program on the PATH: wherever it comes from, it will do.
    Program(&'static str),
    /// libclang with its headers.
    Libclang,
    /// What the system's Python makes virtual environments with.
    PythonVenv,
}

struct Package {
    name: &'static str,
    presence: Presence,
    purpose: &'static str,
}

const PACKAGES: &[Package] = &[
    Package { name: "libclang-dev", presence: Presence::Libclang, purpose: "bindgen reads RocksDB's header with it" },
    Package { name: "g++", presence: Presence::Program("c++"), purpose: "compiles RocksDB and links it" },
    Package { name: "make", presence: Presence::Program("make"), purpose: "builds small C test helpers" },
    Package { name: "runc", presence: Presence::Program("runc"), purpose: "runs every job's container" },
    Package {
        name: "iptables",
        presence: Presence::Program("iptables-restore"),
        purpose: "CRIU locks a job's network with it; tests cut the network with it",
    },
    Package {
        name: "busybox-static",
        presence: Presence::Program("busybox"),
        purpose: "the tests make a container image of it",
    },
    Package {
        name: "python3-venv",
        presence: Presence::PythonVenv,
        purpose: "the tests run Python programs that drive Slurm",
    },
];

/// Runs the command.
pub fn run(context: &mut Context, _options: &Options) -> Result<()> {
    prepare(context)?;
    clients::prepare(context)?;
    if let Some(folder) = &context.rocksdb {
        println!("rocksdb: {}", folder.display());
    }
    println!("setup: everything is there");
    Ok(())
}

/// Installs what is missing; the other commands call it first. Speaks on standard error only, so that what
/// `cargo xtask env` prints stays shell code.
pub fn prepare(context: &mut Context) -> Result<()> {
    let missing: Vec<&Package> = PACKAGES.iter().filter(|package| !package.presence.is_there()).collect();
    if !missing.is_empty() {
        install(&missing)?;
    }
    rocksdb::prepare(context)
}

fn install(missing: &[&Package]) -> Result<()> {
    for package in missing {
        eprintln!("setup: {} is missing: {}", package.name, package.purpose);
    }
    let names: Vec<&str> = missing.iter().map(|package| package.name).collect();
    let command = format!("apt-get install --yes --no-install-recommends {}", names.join(" "));
    if !on_path("apt-get") {
        bail!(
            "this machine has no apt: install what the packages {} hold, in its own way, and try again",
            names.join(", ")
        );
    }
    if !is_root() {
        bail!("only root may install packages; run this and try again:\n  sudo {command}");
    }
    eprintln!("setup: {command}");
    context::run(&mut apt(&["update", "--quiet"]))?;
    context::run(apt(&["install", "--yes", "--no-install-recommends", "--quiet"]).args(&names))?;
    let absent = missing.iter().filter(|package| !package.presence.is_there());
    let absent: Vec<&str> = absent.map(|package| package.name).collect();
    if !absent.is_empty() {
        bail!(
            "apt installed {}, and still it is not found: see PACKAGES in xtask/src/commands/setup.rs",
            absent.join(", ")
        );
    }
    Ok(())
}

fn apt(arguments: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    command.stdin(Stdio::null()).stdout(std::io::stderr());
    command
}

impl Presence {
    fn is_there(&self) -> bool {
        match self {
            Self::Program(name) => on_path(name) || Path::new("/usr/sbin").join(name).is_file(),
            Self::PythonVenv => {
                let mut python = Command::new("/usr/bin/python3");
                python.args(["-c", "import ensurepip, venv"]).stdin(Stdio::null()).stderr(Stdio::null());
                python.status().is_ok_and(|status| status.success())
            }
            Self::Libclang => std::env::var_os("LIBCLANG_PATH").is_some() || libclang_in(Path::new("/usr")),
        }
    }
}

/// The library alone is not enough: bindgen also needs the compiler's own headers (`stdbool.h`), which lie in
/// `lib/clang/VERSION/include` beside it.
fn libclang_in(usr: &Path) -> bool {
    let debian = entries(&usr.join("lib"), "llvm-").into_iter().map(|llvm| llvm.join("lib"));
    let others = ["lib64", "lib"].map(|lib| usr.join(lib));
    debian.chain(others).any(|lib| {
        let headers =
            entries(&lib.join("clang"), "").into_iter().any(|version| version.join("include/stdbool.h").is_file());
        headers && !entries(&lib, "libclang").is_empty()
    })
}

fn entries(folder: &Path, prefix: &str) -> Vec<std::path::PathBuf> {
    let found = std::fs::read_dir(folder).into_iter().flatten().flatten();
    found.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix)).map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libclang_counts_with_its_headers_only() {
        let usr = tempfile::tempdir().expect("a temporary folder");
        let lib = usr.path().join("lib/llvm-14/lib");
        let headers = lib.join("clang/14.0.6/include");
        std::fs::create_dir_all(&headers).expect("a folder");
        std::fs::write(lib.join("libclang-14.so.1"), "").expect("a file");
        assert!(!libclang_in(usr.path()), "the library alone");
        std::fs::write(headers.join("stdbool.h"), "").expect("a file");
        assert!(libclang_in(usr.path()));
        std::fs::remove_file(lib.join("libclang-14.so.1")).expect("removed");
        assert!(!libclang_in(usr.path()), "the headers alone");
    }

    #[test]
    fn every_package_is_said_to_be_for_something() {
        assert!(PACKAGES.iter().all(|package| !package.purpose.is_empty() && !package.name.contains(' ')));
    }
}
