//! Slurm's commands that this version does not have yet: said in a line, never half done.

use crate::{
    command::help,
    out::{Out, complain},
};

/// What stands in for each until then.
fn instead(name: &str) -> &'static str {
    match name {
        "salloc" => "until then, submit a script with sbatch",
        "sshare" | "sreport" => "accounts and limits are shown by sacctmgr",
        "sprio" => "priorities are shown by `squeue -o '%i %Q'`, reasons by `gpun why JOB`",
        _ => "",
    }
}

/// Says that the command comes with a later version.
pub fn run(name: &str, args: &[String]) -> u8 {
    if args.iter().any(|arg| arg == "-V" || arg == "--version") {
        let mut out = Out::default();
        out.line(&help::slurm_version());
        return out.finish(0);
    }
    let instead = instead(name);
    let tail = if instead.is_empty() { String::new() } else { format!(" ({instead})") };
    complain(&format!("{name}: error: {name} comes with a later version of gpunion{tail}"));
    1
}
