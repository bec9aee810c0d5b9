//! The per-job supervisor: parent of one container, outlives gpund.
//!
//! Started by [`gpund::jobdir::JobDir::shim_command`] with the job's folder as its argument, its lock as standard input
//! and its listening socket as standard output.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use gpund::cgroup::Cgroups;
use gpund::jobdir::JobDir;
use gpund::supervise::{self, Supervisor};
use gpund::sys::{self, Linux};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("gpund-shim: {e:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let mut args = std::env::args_os().skip(1);
    if std::env::args_os().nth(1).is_some_and(|first| first == "step") {
        return run_step(args.nth(1), args.next());
    }
    let (Some(path), None) = (args.next(), args.next()) else {
        bail!("usage: gpund-shim JOB_FOLDER, started by gpund")
    };
    let dir = JobDir::new(path);
    if dir.lock()?.is_some() {
        bail!("{} is not locked: start it as gpund does", dir.path().display());
    }
    let (listener, log_start) = inherited()?;
    sys::become_session_leader();
    sys::become_subreaper()?;
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o022));
    let children = sys::child_signal_fd()?;
    let spec = dir.read_launch().context("cannot read launch.json")?;
    dir.reserve_exit().context("cannot reserve room for exit.json")?;
    let system = Linux;
    let cgroups = Cgroups::detect(&system).context("cannot read the mounted cgroups")?;
    if let Err(e) = cgroups.leave_service(&system, &spec.cgroup_parent) {
        // Stopping gpund's service may then stop this job; that is no reason not to run it.
        eprintln!("gpund-shim: cannot leave the service's cgroup: {e}");
    }
    let mut supervisor = Supervisor::new(&system, dir.clone(), spec, cgroups);
    supervise::run(&mut supervisor, &listener, &children, log_start)?;
    supervise::remove_socket(&system, &dir)?;
    Ok(())
}

/// `gpund-shim step JOB_FOLDER STEP`, with srun's connection as standard input.
fn run_step(folder: Option<OsString>, step: Option<OsString>) -> Result<()> {
    let step = step.and_then(|step| step.into_string().ok()).and_then(|step| step.parse().ok());
    let (Some(folder), Some(step)) = (folder, step) else {
        bail!("usage: gpund-shim step JOB_FOLDER STEP, started by gpund")
    };
    sys::become_session_leader();
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o022));
    let dir = JobDir::new(folder);
    let spec = dir.read_launch().context("cannot read launch.json")?;
    let cgroups = Cgroups::detect(&Linux).context("cannot read the mounted cgroups")?;
    if let Err(e) = cgroups.leave_service(&Linux, &spec.cgroup_parent) {
        eprintln!("gpund-shim: cannot leave the service's cgroup: {e}");
    }
    let socket: OwnedFd = std::io::stdin().as_fd().try_clone_to_owned()?;
    gpund::step::run::run(&dir, step, socket)
}

/// Copies of the inherited descriptors that the runtime does not inherit in its turn.
fn inherited() -> Result<(UnixListener, u64)> {
    let stdout: OwnedFd = std::io::stdout().as_fd().try_clone_to_owned()?;
    let listener = UnixListener::from(stdout);
    listener.local_addr().context("standard output is not a socket: start it as gpund does")?;
    let log: File = std::io::stderr().as_fd().try_clone_to_owned()?.into();
    Ok((listener, log.metadata()?.len()))
}
