//! What manual pages say of an option beyond its line for `--help`: how its value is written, what holds without it, and
//! what it has to do with others. In our own words. `word` in backquotes becomes bold, an empty line begins a paragraph.
//!
//! The texts stand apart from the tables so that those stay one row a flag; [`of`] puts them together when the tables are compiled.

mod accounting;
mod query;
mod step;
mod submission;

pub use accounting::{SACCT, SACCTMGR};
pub use query::{SCANCEL, SCONTROL, SINFO, SQUEUE};
pub use step::STEP;
pub use submission::SUBMISSION;

/// Long names of options with their texts.
pub type Texts = &'static [(&'static str, &'static str)];

/// The text of an option; empty where there is none.
pub const fn of(texts: Texts, long: &str) -> &'static str {
    let mut rest = texts;
    while let [(name, text), more @ ..] = rest {
        if is_same(name.as_bytes(), long.as_bytes()) {
            return text;
        }
        rest = more;
    }
    ""
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    match (a, b) {
        ([], []) => true,
        ([x, a @ ..], [y, b @ ..]) => *x == *y && is_same(a, b),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Flag, Support, sacct, sbatch, scancel, scontrol, sinfo, squeue, srun};
    use super::*;

    /// What needs no more words than its line for `--help`.
    const PLAIN: &[&str] = &["help", "usage", "version", "verbose"];

    #[test]
    fn every_option_has_words_and_every_word_an_option() {
        for (program, flags, texts) in [
            ("sbatch", sbatch::COMMAND.flags(), SUBMISSION),
            ("squeue", squeue::COMMAND.flags(), SQUEUE),
            ("sinfo", sinfo::COMMAND.flags(), SINFO),
            ("scancel", scancel::COMMAND.flags(), SCANCEL),
            ("scontrol", scontrol::COMMAND.flags(), SCONTROL),
            ("sacct", sacct::COMMAND.flags(), SACCT),
            ("srun", srun::COMMAND.flags(), STEP),
        ] {
            let needs_words = |flag: &&&Flag| flag.support == Support::Done && !PLAIN.contains(&flag.long);
            let without: Vec<_> = flags.iter().filter(needs_words).filter(|flag| flag.man.is_empty()).collect();
            assert!(without.is_empty(), "{program}: no words in compat/src/option/man for {without:?}");
            for (name, text) in texts {
                let flag = flags.iter().find(|flag| flag.long == *name);
                assert_eq!(flag.map(|flag| flag.man), Some(*text), "{program}: {name}");
            }
        }
    }

    #[test]
    fn words_are_whole_sentences() {
        for texts in [SUBMISSION, SQUEUE, SINFO, SCANCEL, SCONTROL, SACCT, SACCTMGR] {
            assert!(texts.is_sorted_by(|a, b| a.0 < b.0), "sorted, each once");
            for (name, text) in texts {
                assert!(
                    text.ends_with('.') && text.starts_with(|c: char| c.is_uppercase() || c == '`'),
                    "{name}: {text}"
                );
                assert!(
                    text.matches('`').count().is_multiple_of(2) && text.is_ascii() && !text.contains("  "),
                    "{name}"
                );
            }
        }
    }
}
