//! `gpun install-links`: Slurm's names for this program.

use std::{
    fs, io,
    os::unix::fs::{PermissionsExt, symlink},
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
            gpun is among them. Where other users cannot reach this program, it is copied to DIR first.\n\
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
        out.line(&format!("{} of {} links made in {}", made.len(), SLURM_NAMES.len() + 1, dir.display()));
    }
    Ok(0)
}

/// The daemons, which `gpun up` looks for beside the program that it is.
const DAEMONS: [&str; 3] = ["gpunctld", "gpund", "gpund-shim"];

/// Makes those of the links that are missing or point elsewhere at a gpun; tells which. `gpun` itself is among the names.
/// A program that others cannot reach (built below a private home) is copied there first.
///
/// # Errors
/// As [`run`].
pub fn install(dir: &Path) -> anyhow::Result<Vec<&'static str>> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    install_from(&program, dir, others_reach(&program))
}

/// As [`install`], for a cluster's own `bin`, which its jobs see too: a program that jobs cannot reach is copied as well.
///
/// # Errors
/// As [`run`].
pub fn install_for_jobs(dir: &Path) -> anyhow::Result<Vec<&'static str>> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    install_from(&program, dir, others_reach(&program) && jobs_reach(&program))
}

fn install_from(program: &Path, dir: &Path, is_reachable: bool) -> anyhow::Result<Vec<&'static str>> {
    let here = dir.join("gpun");
    let at_home = program == here;
    let mut made = Vec::new();
    let target = if is_reachable || at_home { program } else { here.as_path() };
    if target == program && !at_home {
        let is_copy = fs::symlink_metadata(&here).is_ok_and(|meta| meta.is_file());
        if is_copy {
            fs::remove_file(&here).with_context(|| format!("cannot replace {}", here.display()))?;
        }
        link("gpun", program, dir, &mut made)?;
    } else if !at_home {
        copy(program, &here)?;
        for name in DAEMONS {
            let daemon = program.with_file_name(name);
            if daemon.is_file() {
                link(name, &daemon, dir, &mut Vec::new())?;
            }
        }
    }
    for name in SLURM_NAMES {
        link(name, target, dir, &mut made)?;
    }
    Ok(made)
}

/// One link, unless it is there.
fn link(name: &'static str, program: &Path, dir: &Path, made: &mut Vec<&'static str>) -> anyhow::Result<()> {
    let link = dir.join(name);
    match fs::read_link(&link) {
        Ok(to) if to == program => return Ok(()),
        Ok(to) if to.file_name() != program.file_name() => {
            bail!("{} links to {}, which is not gpun: move it away first", link.display(), to.display())
        }
        Ok(_) => fs::remove_file(&link).with_context(|| format!("cannot replace {}", link.display()))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(_) => bail!("{} is there and is no link to gpun: move it away first", link.display()),
    }
    symlink(program, &link).with_context(|| format!("cannot make {}", link.display()))?;
    made.push(name);
    Ok(())
}

/// A copy that anyone may run; whoever runs the old one meanwhile is not disturbed.
fn copy(program: &Path, to: &Path) -> anyhow::Result<()> {
    let failed = || format!("cannot copy {} to {}", program.display(), to.display());
    let aside = to.with_extension("new");
    fs::copy(program, &aside).with_context(failed)?;
    fs::set_permissions(&aside, fs::Permissions::from_mode(0o755)).with_context(failed)?;
    fs::rename(&aside, to).with_context(failed)
}

/// Whether a program lies in what every container shows of the host.
fn jobs_reach(program: &Path) -> bool {
    ["/usr", "/bin", "/opt"].iter().any(|shown| program.starts_with(shown))
}

/// Whether every user may enter the folders above a program, and run it.
fn others_reach(program: &Path) -> bool {
    let mode = |path: &Path| fs::metadata(path).map_or(0, |meta| meta.permissions().mode());
    mode(program) & 0o005 == 0o005 && program.ancestors().skip(1).all(|folder| mode(folder) & 0o001 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program and its daemons in a folder with this mode, and an empty folder for the links.
    fn built(mode: u32) -> (tempfile::TempDir, PathBuf, PathBuf) {
        let temp = tempfile::tempdir().unwrap();
        let target = temp.path().join("target");
        fs::create_dir(&target).unwrap();
        for name in ["gpun", "gpunctld", "gpund"] {
            fs::write(target.join(name), name).unwrap();
            fs::set_permissions(target.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::set_permissions(temp.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(&target, fs::Permissions::from_mode(mode)).unwrap();
        let bin = temp.path().join("bin");
        fs::create_dir(&bin).unwrap();
        (temp, target.join("gpun"), bin)
    }

    #[test]
    fn a_reachable_program_is_linked() {
        let (_temp, program, bin) = built(0o755);
        assert!(others_reach(&program));
        assert_eq!(install_from(&program, &bin, true).unwrap().len(), SLURM_NAMES.len() + 1);
        for name in ["gpun", "sbatch"] {
            assert_eq!(fs::read_link(bin.join(name)).unwrap(), program);
        }
        assert!(!bin.join("gpund").exists());
        assert!(install_from(&program, &bin, true).unwrap().is_empty(), "all is there");
    }

    #[test]
    fn a_hidden_program_is_copied_and_finds_its_daemons() {
        let (_temp, program, bin) = built(0o700);
        assert!(!others_reach(&program));
        install_from(&program, &bin, false).unwrap();
        let copy = bin.join("gpun");
        assert!(fs::symlink_metadata(&copy).unwrap().is_file() && others_reach(&copy));
        assert_eq!(fs::read_link(bin.join("sbatch")).unwrap(), copy);
        assert_eq!(fs::read_to_string(bin.join("gpund")).unwrap(), "gpund");
        // The copy itself may be the one that runs; a new build replaces it; and a place that all can reach ends the need.
        assert!(install_from(&copy, &bin, true).unwrap().is_empty());
        fs::write(&program, "newer").unwrap();
        assert!(install_from(&program, &bin, false).unwrap().is_empty());
        assert_eq!(fs::read_to_string(&copy).unwrap(), "newer");
        assert_eq!(install_from(&program, &bin, true).unwrap().len(), SLURM_NAMES.len() + 1);
        assert_eq!(fs::read_link(&copy).unwrap(), program);
    }

    #[test]
    fn what_is_not_ours_stays() {
        let (_temp, program, bin) = built(0o755);
        symlink("/usr/bin/true", bin.join("squeue")).unwrap();
        assert!(install_from(&program, &bin, true).unwrap_err().to_string().contains("which is not gpun"));
        fs::remove_file(bin.join("squeue")).unwrap();
        fs::write(bin.join("squeue"), "").unwrap();
        assert!(install_from(&program, &bin, true).unwrap_err().to_string().contains("is no link to gpun"));
    }
}
