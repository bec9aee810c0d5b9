//! The manual pages: made of the tables of options, fields and keys, and of prose.
//!
//! `gpun man DIR` writes them; those in the repository's `man/` are checked against this by a test.

#[cfg(test)]
mod check;
mod commands;
mod keys;
mod own;
mod roff;
mod slurm_options;
pub mod support;

use gpun_compat::option::{Flag, Support, Takes};
use roff::Page;

/// Every page: its file below the manual's folder, and its text.
pub fn pages() -> Vec<(String, String)> {
    let mut pages: Vec<Page> = commands::COMMANDS.iter().map(commands::page).collect();
    pages.extend(own::pages());
    pages.extend(keys::pages());
    let mut files: Vec<_> = pages.into_iter().map(|page| (page.file(), page.finish())).collect();
    files.sort();
    files
}

/// The OPTIONS section, from a table.
fn options(page: &mut Page, flags: &[&Flag]) {
    page.heading("OPTIONS");
    for flag in flags {
        page.item(&term(flag), &meaning(flag));
    }
}

/// The part of ENVIRONMENT that a table says.
fn variables(page: &mut Page, program: &str, flags: &[&Flag]) {
    let mut rows: Vec<(&str, Vec<String>)> = Vec::new();
    for flag in flags.iter().filter(|flag| !matches!(flag.support, Support::Refused(_))) {
        for name in flag.env {
            match rows.iter_mut().find(|(known, _)| known == name) {
                Some((_, options)) => options.push(format!("`{}`", flag.dashed())),
                None => rows.push((name, vec![format!("`{}`", flag.dashed())])),
            }
        }
    }
    rows.sort();
    if !rows.is_empty() {
        page.text(&format!(
            "These stand for options of `{program}`; what the command line says goes before them. For an option without a \
             value any text, the empty one too, switches it on."
        ));
    }
    for (name, options) in rows {
        page.item(&format!("`{name}`"), &format!("as {}", options.join(" and ")));
    }
}

fn term(flag: &Flag) -> String {
    let letter = flag.short.map_or_else(String::new, |letter| format!("`-{letter}`, "));
    let value = match flag.takes {
        Takes::Nothing => String::new(),
        Takes::Value(name) => format!("={name}"),
        Takes::Optional(name) | Takes::Perhaps(name) => format!("[={name}]"),
    };
    format!("{letter}`{}`{value}", flag.dashed())
}

/// What an option does, and whether it is done at all.
fn meaning(flag: &Flag) -> String {
    let mut text = sentence(flag.help);
    match flag.support {
        Support::Done => {}
        Support::Harmless(why) => text.push_str(&format!(" Accepted, and changes nothing: {why}.")),
        Support::Refused(why) => text.push_str(&format!(" Refused: {why}.")),
    }
    if !flag.man.is_empty() {
        text.push(' ');
        text.push_str(flag.man);
    }
    if !flag.env.is_empty() && !matches!(flag.support, Support::Refused(_)) {
        let names: Vec<String> = flag.env.iter().map(|name| format!("`{name}`")).collect();
        text.push_str(&format!(" Environment: {}.", names.join(", else ")));
    }
    text
}

/// The line for `--help` as a sentence.
fn sentence(help: &str) -> String {
    let mut signs = help.chars();
    let first = signs.next().map(|sign| sign.to_uppercase().collect::<String>()).unwrap_or_default();
    format!("{first}{}.", signs.as_str().trim_end_matches('.')).replace('`', "")
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
    }

    #[test]
    fn pages_have_no_fault() {
        for (file, text) in pages() {
            assert_eq!(check::faults(&text), Vec::<String>::new(), "{file}");
        }
    }

    #[test]
    fn the_pages_in_the_repository_are_these() {
        let folder = root().join("man");
        let right = pages();
        for (file, text) in &right {
            let there = std::fs::read_to_string(folder.join(file)).unwrap_or_default();
            assert!(there == *text, "man/{file} is not what the tables say: run `cargo xtask man`");
        }
        for section in ["man1", "man5", "man8"] {
            for entry in std::fs::read_dir(folder.join(section)).unwrap() {
                let name = format!("{section}/{}", entry.unwrap().file_name().to_string_lossy());
                assert!(right.iter().any(|(file, _)| *file == name), "man/{name} belongs to nothing: remove it");
            }
        }
    }

    #[test]
    fn the_list_in_the_documentation_is_this() {
        let file = root().join("docs/compatibility.md");
        let there = std::fs::read_to_string(&file).unwrap();
        let right = support::replace_in(&there).unwrap();
        assert!(there == right, "docs/compatibility.md is not what the tables say: run `cargo xtask man`");
    }

    #[test]
    fn every_command_has_a_page_and_what_a_page_names_is_there() {
        let pages = pages();
        let has =
            |name: &str, section: u8| pages.iter().any(|(file, _)| *file == format!("man{section}/{name}.{section}"));
        for name in crate::command::SLURM_NAMES.iter().filter(|name| crate::command::flags(name).is_some()) {
            assert!(has(name, 1), "{name}");
        }
        for usage in crate::command::OWN {
            assert!(has(&usage.command.replace(' ', "-"), 1), "{}", usage.command);
        }
        for (file, text) in &pages {
            let see = text.split(".SH SEE ALSO\n").nth(1).unwrap_or_else(|| panic!("{file} has no SEE ALSO"));
            for word in see.replace("\\fB", "").replace("\\fR", "").replace("\\-", "-").split([',', '\n']) {
                let Some((name, section)) = word.trim().strip_suffix(')').and_then(|word| word.split_once('(')) else {
                    assert!(word.trim().is_empty(), "{file}: {word}");
                    continue;
                };
                assert!(has(name, section.parse().unwrap()), "{file} names {word}");
            }
        }
    }

    #[test]
    fn an_option_says_all_of_itself() {
        let flag = |support, env| Flag {
            long: "mem",
            short: Some('m'),
            takes: Takes::Optional("size"),
            env,
            help: "how `much`",
            man: "More.",
            support,
        };
        assert_eq!(term(&flag(Support::Done, &[])), "`-m`, `--mem`[=size]");
        for (support, env, text) in [
            (Support::Done, &["A", "B"][..], "How much. More. Environment: `A`, else `B`."),
            (Support::Harmless("always so"), &[][..], "How much. Accepted, and changes nothing: always so. More."),
            (Support::Refused("leave it out"), &["A"][..], "How much. Refused: leave it out. More."),
        ] {
            assert_eq!(meaning(&flag(support, env)), text);
        }
    }
}
