//! `gpun --help`, which teaches, and versions.

use crate::{
    command::{OWN, SLURM_NAMES},
    out::{Out, complain},
};

/// The Slurm whose options, output and messages are spoken.
pub const SLURM_SPOKEN: &str = "24.11.5";

/// The first line of Slurm's commands' `--version`; tools read its second word.
pub fn slurm_version() -> String {
    format!("slurm {SLURM_SPOKEN} (gpunion {})", env!("CARGO_PKG_VERSION"))
}

/// `gpun --version`.
pub fn version(args: &[String]) -> u8 {
    let mut out = Out::default();
    if args.iter().any(|arg| arg == "--json") {
        out.line(&serde_json::json!({ "version": env!("CARGO_PKG_VERSION"), "slurm": SLURM_SPOKEN }).to_string());
    } else {
        out.line(&format!("gpun {} (speaks Slurm {SLURM_SPOKEN})", env!("CARGO_PKG_VERSION")));
    }
    out.finish(0)
}

/// `gpun --help`, or of one command.
pub fn run(args: &[String], status: u8) -> u8 {
    let mut out = Out::default();
    if let Some(name) = args.first() {
        let Some(usage) = OWN.iter().find(|usage| usage.command.strip_prefix("gpun ") == Some(name.as_str())) else {
            complain(&format!("gpun: there is no command `{name}`; `{name} --help` may know more"));
            return 2;
        };
        out.text(&usage.help());
        return out.finish(0);
    }
    out.text(
        "gpun: share a campus's GPUs. The commands are Slurm's, underneath every job runs in a container.\n\n\
         First steps, on one machine:\n\
         \x20 gpun up --nodes 2 --cpus 4 --mem 4000     a cluster of two virtual nodes on this machine\n\
         \x20 export PATH=/var/lib/gpunion/bin:$PATH    sbatch, squeue and the others are links to gpun\n\
         \x20 sbatch --wrap 'echo hello from $(hostname)'\n\
         \x20 squeue; gpun why 1                        what runs, and why a job waits\n\
         \x20 gpun down                                 stop it; nothing that was accepted is lost\n\n\
         Commands of gpun:\n",
    );
    for usage in OWN {
        let name = usage.command.strip_prefix("gpun ").unwrap_or(usage.command);
        let first = usage.about.lines().next().unwrap_or_default();
        out.line(&format!("  {name:14} {first}"));
    }
    out.line(&format!("\nSlurm's commands, also as `gpun NAME`:\n  {}", SLURM_NAMES.join(" ")));
    out.text(
        "\nThe cluster is the folder that GPUN_DIR names; without it /etc/gpunion if that has a gpunion.toml,\n\
         else /var/lib/gpunion. `gpun COMMAND --help` tells more.\n",
    );
    out.finish(status)
}
