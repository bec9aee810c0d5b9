//! Clients of Slurm that the end-to-end tests run: Python packages, pinned by version and digest, in a virtual environment
//! that outlives the clone.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result, bail};

use crate::context::{self, Context, is_root};

/// Where they are: ordinary users reach it, and so do their jobs. `e2e/tests/clients.rs` names it too.
const INSTALLED: &str = "/opt/gpunion-clients";
/// The interpreter: the system's own, as jobs see `/usr`.
const PYTHON: &str = "/usr/bin/python3";

/// Installs them where they are missing or the pins have changed. The copy of the pins is written last: what was broken off
/// is done again.
pub fn prepare(context: &Context) -> Result<()> {
    let pins = context.root.join("e2e/clients/requirements.txt");
    let wanted = fs::read(&pins).with_context(|| format!("cannot read {}", pins.display()))?;
    let installed = Path::new(INSTALLED);
    let stamp = installed.join("requirements.txt");
    if fs::read(&stamp).is_ok_and(|have| have == wanted) {
        return Ok(());
    }
    if !is_root() {
        bail!("only root may install the tests' Python clients in {INSTALLED}: run `cargo xtask setup` as root once");
    }
    eprintln!("setup: Python clients for the end-to-end tests, in {INSTALLED}");
    if installed.exists() {
        fs::remove_dir_all(installed).with_context(|| format!("cannot remove {INSTALLED}"))?;
    }
    context::run(quiet(Command::new(PYTHON).args(["-m", "venv", INSTALLED])))?;
    let pip = ["install", "--quiet", "--disable-pip-version-check", "--no-input", "--require-hashes", "--requirement"];
    context::run(quiet(Command::new(installed.join("bin/pip")).args(pip).arg(&pins)))?;
    fs::write(&stamp, wanted).with_context(|| format!("cannot write {}", stamp.display()))
}

/// What `cargo xtask env` prints stays shell code.
fn quiet(command: &mut Command) -> &mut Command {
    command.stdin(std::process::Stdio::null()).stdout(std::io::stderr())
}
