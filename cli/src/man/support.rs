//! The list in `docs/compatibility.md` of what became of each of Slurm's options.

use std::fmt::Write as _;

use anyhow::Context;
use gpun_compat::option::{Flag, Support};

use super::slurm_options as slurm;
use crate::command::flags;

const BEGIN: &str = "<!-- options: made by `cargo xtask man` -->\n";
const END: &str = "<!-- end of options -->\n";

/// The commands that submit, with the options of their manual pages in Slurm 24.11.
const SUBMIT: [(&str, &[&str]); 3] = [("sbatch", slurm::SBATCH), ("srun", slurm::SRUN), ("salloc", slurm::SALLOC)];

/// Puts the list between its marks in a document.
///
/// # Errors
/// The marks are not there.
pub fn replace_in(document: &str) -> anyhow::Result<String> {
    let (before, rest) = document.split_once(BEGIN).with_context(|| format!("`{}` is missing", BEGIN.trim()))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("`{}` is missing", END.trim()))?;
    Ok(format!("{before}{BEGIN}{}{END}{after}", list()))
}

fn list() -> String {
    let mut out = String::new();
    for (command, names) in SUBMIT {
        let _ = write!(out, "\n### {command}\n\n");
        match flags(command) {
            Some(flags) => out.push_str(&of_command(&flags, names)),
            None => {
                let _ = write!(
                    out,
                    "The command is refused as a whole, and says so; with it {} options:\n\n{}.\n",
                    names.len(),
                    dashed(names.iter().copied())
                );
            }
        }
    }
    out.push('\n');
    out
}

fn of_command(flags: &[&Flag], names: &[&str]) -> String {
    let all_done = |flag: &&&Flag| flag.support == Support::Done;
    let (own, done): (Vec<&str>, Vec<&str>) =
        flags.iter().filter(all_done).map(|flag| flag.long).partition(|long| !names.contains(long));
    let mut out = format!("Done: {}.\n\n", dashed(done.into_iter()));
    if !own.is_empty() {
        let _ = write!(out, "Besides Slurm's own: {}.\n\n", dashed(own.into_iter()));
    }
    out.push_str("| option | what happens |\n| --- | --- |\n");
    for flag in flags {
        let _ = match flag.support {
            Support::Done => Ok(()),
            Support::Harmless(why) => writeln!(out, "| `--{}` | accepted without effect: {why} |", flag.long),
            Support::Refused(why) => writeln!(out, "| `--{}` | refused: {why} |", flag.long),
        };
    }
    out
}

fn dashed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("`--{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_of_slurm_is_in_our_tables() {
        for (command, names) in SUBMIT {
            assert!(names.len() > 90 && names.is_sorted(), "{command}");
            let Some(flags) = flags(command) else { continue };
            let missing: Vec<_> = names.iter().filter(|name| !flags.iter().any(|flag| flag.long == **name)).collect();
            assert!(missing.is_empty(), "{command} would take these for unknown options: {missing:?}");
        }
    }

    #[test]
    fn the_list_stands_between_its_marks() {
        let document = format!("a\n{BEGIN}what was there\n{END}b\n");
        let made = replace_in(&document).unwrap();
        assert!(made.starts_with(&format!("a\n{BEGIN}\n### sbatch\n")) && made.ends_with(&format!("\n{END}b\n")));
        assert_eq!(replace_in(&made).unwrap(), made);
        assert!(!made.contains("what was there"));
        assert!(replace_in("a\nb\n").is_err());
    }
}
