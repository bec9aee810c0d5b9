//! What Slurm's commands share: reading their surroundings, showing help and versions, naming clusters.

use std::time::{SystemTime, UNIX_EPOCH};

use gpun_compat::option::{Command, Context, OptionError, help, submission::Show};
use gpun_proto::quick::{CallError, Quick};
use jiff::tz::TimeZone;

use crate::{command::help::slurm_version, controller, out};

/// A variable of the environment as text.
pub fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// Seconds since 1970.
pub fn now_s() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).ok().and_then(|now| i64::try_from(now.as_secs()).ok()).unwrap_or(0)
}

/// What option values may depend on.
pub fn context(zone: &TimeZone) -> Context<'_> {
    Context { now_s: now_s(), zone, is_root: nix::unistd::Uid::effective().is_root() }
}

/// Says what is wrong with an option; gives the exit status.
pub fn refuse(error: &OptionError) -> u8 {
    out::complain(error.text.strip_suffix('\n').unwrap_or(&error.text));
    u8::try_from(error.status & 0xff).unwrap_or(1)
}

/// Prints help, usage or the version instead of doing something.
pub fn show<T>(show: Show, command: &Command<T>, synopsis: &str, operands: &str) -> u8 {
    let mut out = out::Out::default();
    match show {
        Show::Help => out.text(&help::help(command.program, synopsis, &command.flags())),
        Show::Usage => out.text(&help::usage(command.program, operands, &command.flags())),
        Show::Version => out.line(&slurm_version()),
    }
    out.finish(0)
}

/// Checks `--clusters`: only the cluster's own name, or `all`, means anything here.
///
/// # Errors
/// The lines for standard error, without the last line end; or nobody answers.
pub fn check_clusters(quick: &mut Quick, program: &str, clusters: Option<&str>) -> Result<(), String> {
    let Some(clusters) = clusters else { return Ok(()) };
    let own = match controller::show_cluster(quick) {
        Ok(cluster) => cluster.settings.cluster_name,
        Err(error) => return Err(format!("{program}: error: {}", controller::words(&error))),
    };
    match clusters.split(',').find(|name| *name != own && !name.eq_ignore_ascii_case("all")) {
        None => Ok(()),
        Some(other) => Err(format!(
            "{program}: error: No cluster '{other}' known by database.\n\
             {program}: error: '{other}' can't be reached now, or it is an invalid entry for --cluster.  Use 'sacctmgr list \
             clusters' to see available clusters."
        )),
    }
}

/// Says that a call failed: Slurm's line, and on a terminal what to do.
pub fn failed(prefix: &str, error: &CallError) -> u8 {
    out::complain(&format!("{prefix}{}", controller::words(error)));
    controller::hint(error);
    1
}
