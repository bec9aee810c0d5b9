//! The commands, each in its own file, and which of them is meant.

pub mod completion;
pub mod control;
pub mod down;
pub mod help;
pub mod import;
pub mod later;
pub mod links;
pub mod man;
pub mod sacct;
pub mod sacctmgr;
pub mod sbatch;
pub mod scancel;
pub mod scontrol;
pub mod sinfo;
pub mod squeue;
pub mod srun;
pub mod status;
pub mod up;
pub mod why;

use std::{ffi::OsString, path::Path};

use gpun_compat::option::{self, Flag};

use crate::{
    args::{Args, Usage},
    out::{Out, complain},
};

/// Slurm's command names, each of which may be a link to this program.
pub const SLURM_NAMES: [&str; 16] = [
    "sbatch", "squeue", "sinfo", "scancel", "scontrol", "srun", "salloc", "sattach", "sbcast", "sacct", "sacctmgr",
    "sprio", "sshare", "sstat", "sdiag", "sreport",
];

/// gpun's own commands.
pub const OWN: [&Usage; 9] = [
    &up::USAGE,
    &down::USAGE,
    &status::USAGE,
    &why::USAGE,
    &import::USAGE,
    &control::USAGE,
    &links::USAGE,
    &completion::USAGE,
    &man::USAGE,
];

/// The options of a Slurm command; `None` for one that this version does not have yet.
pub fn flags(name: &str) -> Option<Vec<&'static Flag>> {
    Some(match name {
        "sacct" => option::sacct::COMMAND.flags(),
        "sacctmgr" => sacctmgr::FLAGS.iter().collect(),
        "sbatch" => option::sbatch::COMMAND.flags(),
        "scancel" => option::scancel::COMMAND.flags(),
        "scontrol" => option::scontrol::COMMAND.flags(),
        "sinfo" => option::sinfo::COMMAND.flags(),
        "squeue" => option::squeue::COMMAND.flags(),
        "srun" => option::srun::COMMAND.flags(),
        _ => return None,
    })
}

/// Runs the command that the arguments mean, the program's name first; gives the exit status.
pub fn run(args: impl IntoIterator<Item = OsString>) -> u8 {
    // Slurm's texts are UTF-8 to us; what is not is shown with a replacement and refused by whoever looks it up.
    let mut args =
        args.into_iter().map(|arg| arg.into_string().unwrap_or_else(|arg| arg.to_string_lossy().into_owned()));
    let program = args.next().unwrap_or_default();
    let called = Path::new(&program).file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    if SLURM_NAMES.contains(&called.as_str()) {
        return slurm(&called, &args.collect::<Vec<_>>());
    }
    let Some(name) = args.next() else {
        return help::run(&[], 2);
    };
    let rest: Vec<String> = args.collect();
    if SLURM_NAMES.contains(&name.as_str()) { slurm(&name, &rest) } else { own(&name, &rest) }
}

fn slurm(name: &str, args: &[String]) -> u8 {
    match name {
        "sacct" => sacct::run(args),
        "sbatch" => sbatch::run(args),
        "squeue" => squeue::run(args),
        "sinfo" => sinfo::run(args),
        "scancel" => scancel::run(args),
        "sacctmgr" => sacctmgr::run(args),
        "scontrol" => scontrol::run(args),
        "srun" => srun::run(args),
        _ => later::run(name, args),
    }
}

fn own(name: &str, args: &[String]) -> u8 {
    match name {
        "up" => with(&up::USAGE, args, up::run),
        "down" => with(&down::USAGE, args, down::run),
        "status" => with(&status::USAGE, args, status::run),
        "why" => with(&why::USAGE, args, why::run),
        "import" => with(&import::USAGE, args, import::run),
        "controller" => with(&control::USAGE, args, control::run),
        "install-links" => with(&links::USAGE, args, links::run),
        "man" => with(&man::USAGE, args, man::run),
        "completion" => with(&completion::USAGE, args, completion::run),
        "help" | "--help" | "-h" => help::run(args, 0),
        "version" | "--version" | "-V" => help::version(args),
        _ => {
            complain(&format!("gpun: there is no command `{name}`"));
            complain("Commands are listed by `gpun --help`.");
            2
        }
    }
}

/// Reads a command's arguments and runs it; what goes wrong is said with its causes.
fn with(usage: &Usage, args: &[String], run: impl FnOnce(&Args, &mut Out) -> anyhow::Result<u8>) -> u8 {
    let args = match usage.parse(args) {
        Ok(args) => args,
        Err(wrong) => {
            complain(&format!("{}: {wrong}", usage.command));
            complain(&format!("Options are listed by `{} --help`.", usage.command));
            return 2;
        }
    };
    let mut out = Out::default();
    if args.has("--help") {
        out.text(&usage.help());
        return out.finish(0);
    }
    match run(&args, &mut out) {
        Ok(status) => out.finish(status),
        Err(error) => {
            out.flush();
            complain(&format!("{}: {error:#}", usage.command));
            1
        }
    }
}
