//! `gpun install-links`: Slurm's names for this program.

use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use serde_json::json;

use crate::{
    args::{Args, Usage},
    command::SLURM_NAMES,
    out::Out,
};

/// Of `gpun install-links`.
pub const USAGE: Usage = Usage {
    command: "gpun install-links",
    operands: "DIR",
    count: (1, 1),
    about: "Makes links with Slurm's command names (sbatch, squeue, ...) to this program in DIR.\n\
            A file in DIR that is no link to gpun is left alone, and said.",
    options: &[],
    examples: &[("gpun install-links /usr/local/bin", "every user has sbatch, squeue and the others on the PATH")],
};

/// Makes the links.
///
/// # Errors
/// The folder can't be written, or a name is taken by something else.
pub fn run(args: &Args, out: &mut Out) -> anyhow::Result<u8> {
    let dir = PathBuf::from(&args.operands[0]);
    let made = install(&dir)?;
    if args.has("--json") {
        out.line(&json!({ "dir": dir, "made": made, "names": SLURM_NAMES }).to_string());
    } else {
        out.line(&format!("{} of {} links made in {}", made.len(), SLURM_NAMES.len(), dir.display()));
    }
    Ok(0)
}

/// Makes those of the links that are missing or point elsewhere at a gpun; tells which.
///
/// # Errors
/// As [`run`].
pub fn install(dir: &Path) -> anyhow::Result<Vec<&'static str>> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let mut made = Vec::new();
    for name in SLURM_NAMES {
        let link = dir.join(name);
        match fs::read_link(&link) {
            Ok(to) if to == program => continue,
            Ok(to) if to.file_name() != program.file_name() => {
                bail!("{} links to {}, which is not gpun: move it away first", link.display(), to.display())
            }
            Ok(_) => fs::remove_file(&link).with_context(|| format!("cannot replace {}", link.display()))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(_) => bail!("{} is there and is no link to gpun: move it away first", link.display()),
        }
        symlink(&program, &link).with_context(|| format!("cannot make {}", link.display()))?;
        made.push(name);
    }
    Ok(made)
}
