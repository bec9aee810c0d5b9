//! `gpun`, and Slurm's commands by the name that it is called by.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(gpun_cli::run(std::env::args_os()))
}
