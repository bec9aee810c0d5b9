//! Bans in one file's text.

use super::Finding;
use super::text::{Keep, line_of, mask, paths, test_items, without, words};

const MAX_LINES: usize = 900;

/// What to look for.
enum Pattern {
    /// A whole word of the code.
    Word(&'static str),
    /// A macro call.
    Macro(&'static str),
    /// A module of the standard library.
    Std(&'static str),
    /// Any text of the code.
    Code(&'static str),
    /// Any text of the code or its string literals.
    Literal(&'static str),
}

struct Ban {
    /// Paths begin with one of these; all Rust files when empty.
    within: &'static [&'static str],
    patterns: &'static [Pattern],
    /// Whether test code is held to it too.
    in_tests: bool,
    reason: &'static str,
    instead: &'static str,
}

const PURE: &[&str] = &["core/src/", "sched/src/"];
const LIBRARIES: &[&str] = &[
    "core/src/",
    "sched/src/",
    "compat/src/",
    "proto/src/",
    "raft-store/src/",
    "sim/src/",
    "gpunctld/src/",
    "gpund/src/",
];

const BANS: &[Ban] = &[
    Ban {
        within: PURE,
        patterns: &[Pattern::Word("SystemTime"), Pattern::Word("Instant")],
        in_tests: false,
        reason: "replicas would read different clocks",
        instead: "the time stamped in the log entry, or the now that plan is given",
    },
    Ban {
        within: PURE,
        patterns: &[
            Pattern::Std("fs"),
            Pattern::Std("net"),
            Pattern::Std("env"),
            Pattern::Std("process"),
            Pattern::Std("thread"),
            Pattern::Std("os"),
        ],
        in_tests: false,
        reason: "apply and plan see State and their arguments, nothing of the machine they run on",
        instead: "an argument; the daemon does the input and output",
    },
    Ban {
        within: PURE,
        patterns: &[
            Pattern::Word("HashMap"),
            Pattern::Word("HashSet"),
            Pattern::Word("RandomState"),
            Pattern::Word("DefaultHasher"),
        ],
        in_tests: false,
        reason: "a hash table's order differs from one process to the next, and with it what replicas do",
        instead: "BTreeMap and BTreeSet, or imbl::OrdMap and OrdSet where a view must be cheap",
    },
    Ban {
        within: &["core/src/state"],
        patterns: &[Pattern::Word("f32"), Pattern::Word("f64")],
        in_tests: false,
        reason: "floating-point results may differ between processors and compilers, and State must be byte-equal",
        instead: "integers in a stated unit",
    },
    Ban {
        within: &["sched/src/"],
        patterns: &[Pattern::Code("&mut State")],
        in_tests: false,
        reason: "the scheduler proposes; only apply changes State",
        instead: "&State, and the plan's own timeline for what-if",
    },
    Ban {
        within: PURE,
        patterns: &[Pattern::Literal("SLURM_"), Pattern::Literal("#SBATCH")],
        in_tests: false,
        reason: "Slurm's text never enters core",
        instead: "a typed value; gpun-compat reads and prints Slurm's words",
    },
    Ban {
        within: LIBRARIES,
        patterns: &[
            Pattern::Macro("println"),
            Pattern::Macro("print"),
            Pattern::Macro("eprintln"),
            Pattern::Macro("eprint"),
        ],
        in_tests: false,
        reason: "a library does not own its process's output, and a daemon's log has a structure",
        instead: "a returned value or, in a daemon, tracing",
    },
    Ban {
        within: &[],
        patterns: &[Pattern::Macro("todo"), Pattern::Macro("unimplemented"), Pattern::Macro("dbg")],
        in_tests: true,
        reason: "what is on main works",
        instead: "the real thing, or nothing at all",
    },
    Ban {
        within: &[],
        patterns: &[Pattern::Code("#[ignore")],
        in_tests: true,
        reason: "a test that does not run proves nothing",
        instead: "a test with `soak` in its name: few rounds in `cargo xtask test`, many in `cargo xtask soak`",
    },
];

/// Text that no file may hold, and why. Put together here, so that this file does not hold it either.
const TEXTS: &[(&str, &str)] = &[
    (concat!("/wo", "rk/main"), "an absolute path of one machine; write it relative to the clone"),
    (concat!("/wo", "rk/shared"), "an absolute path of one machine; write it relative to the clone"),
    (concat!("crates", ".io/"), "a registry's host; name the package, cargo knows where it is"),
    (concat!("py", "pi.org"), "a registry's host; name the package"),
    (concat!("npm", "js.org"), "a registry's host; name the package"),
    (concat!("deb.deb", "ian.org"), "a registry's host; apt is configured on the machine"),
];
/// Written by cargo, or word for word what others wrote.
const NOT_OURS: &[&str] = &["Cargo.lock", "LICENSE"];

/// Everything that is wrong with one file.
pub fn check(path: &str, source: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    if !NOT_OURS.contains(&path) {
        found.extend(forbidden_texts(path, source));
    }
    if path.ends_with(".rs") {
        found.extend(shape(path, source));
        found.extend(BANS.iter().filter(|ban| ban.covers(path)).flat_map(|ban| ban.findings(path, source)));
    }
    found
}

fn forbidden_texts(path: &str, source: &str) -> Vec<Finding> {
    let hits = TEXTS.iter().flat_map(|(text, why)| source.match_indices(text).map(move |(at, _)| (at, text, why)));
    let finding = |(at, text, why)| finding(path, source, at, format!("{text} is {why}"));
    hits.map(finding).collect()
}

fn shape(path: &str, source: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let lines = source.lines().count();
    if lines > MAX_LINES {
        found.push(finding(path, source, 0, format!("{lines} lines, at most {MAX_LINES}; split it by noun")));
    }
    let is_root = ["/src/lib.rs", "/src/main.rs"].iter().any(|end| path.ends_with(end)) || path.contains("/src/bin/");
    if is_root && !source.starts_with("//!") {
        found.push(finding(path, source, 0, "a crate's first line says what it is: //! …".to_owned()));
    }
    found
}

/// Whether the whole file is test code.
fn is_test(path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path);
    file == "tests.rs"
        || file.ends_with("_tests.rs")
        || ["/tests/", "/benches/", "/testing/"].iter().any(|part| path.contains(part))
}

/// A program's own file: it owns the output of its process. The loops of a job's supervisor and of a step
/// are such, their standard error is their log.
fn is_program(path: &str) -> bool {
    let loops = ["gpund/src/step/run.rs", "gpund/src/supervise.rs"];
    path.ends_with("/src/main.rs") || path.contains("/src/bin/") || loops.contains(&path)
}

impl Ban {
    fn covers(&self, path: &str) -> bool {
        if is_test(path) && !self.in_tests {
            return false;
        }
        if std::ptr::eq(self.within, LIBRARIES) && is_program(path) {
            return false;
        }
        self.within.is_empty() || self.within.iter().any(|prefix| path.starts_with(prefix))
    }

    fn findings(&self, path: &str, source: &str) -> Vec<Finding> {
        let code = mask(source, Keep::Code);
        let tests = if self.in_tests { Vec::new() } else { test_items(&code) };
        let mut found = Vec::new();
        for pattern in self.patterns {
            let keep = if matches!(pattern, Pattern::Literal(_)) { Keep::Strings } else { Keep::Code };
            let places = pattern.places(&without(&mask(source, keep), &tests));
            let message = || format!("{}: {}; use {}", pattern.shown(), self.reason, self.instead);
            found.extend(places.into_iter().map(|at| finding(path, source, at, message())));
        }
        found
    }
}

impl Pattern {
    fn places(&self, code: &str) -> Vec<usize> {
        match self {
            Self::Word(word) => words(code, word).collect(),
            Self::Macro(name) => words(code, name).filter(|at| code[at + name.len()..].starts_with('!')).collect(),
            Self::Std(module) => paths(code, "std", module),
            Self::Code(text) | Self::Literal(text) => code.match_indices(text).map(|(at, _)| at).collect(),
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::Word(text) | Self::Code(text) | Self::Literal(text) => (*text).to_owned(),
            Self::Macro(name) => format!("{name}!"),
            Self::Std(module) => format!("std::{module}"),
        }
    }
}

fn finding(path: &str, text: &str, at: usize, message: String) -> Finding {
    Finding { path: path.to_owned(), line: line_of(text, at), message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, source: &str) -> Vec<(usize, String)> {
        check(path, source).into_iter().map(|finding| (finding.line, finding.message)).collect()
    }

    #[test]
    fn each_ban_is_found_with_its_line_and_its_replacement() {
        for (path, source, line, word) in [
            ("core/src/job.rs", "use std::time::{Duration, SystemTime};", 1, "stamped in the log entry"),
            ("sched/src/plan.rs", "\n\nlet t = Instant::now();", 3, "plan is given"),
            ("core/src/a.rs", "use std::{fmt, fs};", 1, "std::fs"),
            ("core/src/a.rs", "std::env::var(\"X\")", 1, "std::env"),
            ("core/src/a.rs", "let x: std::net::IpAddr;", 1, "std::net"),
            ("sched/src/a.rs", "use std::collections::HashMap;", 1, "BTreeMap"),
            ("core/src/a.rs", "fn f(s: &HashSet<u8>) {}", 1, "BTreeSet"),
            ("core/src/state.rs", "struct A { b: f64 }", 1, "integers"),
            ("core/src/state/jobs.rs", "f32", 1, "integers"),
            ("sched/src/plan.rs", "fn f(state: &mut State) {}", 1, "only apply"),
            ("core/src/a.rs", "let x = \"SLURM_JOB_ID\";", 1, "gpun-compat"),
            ("raft-store/src/log.rs", "println!(\"x\")", 1, "tracing"),
            ("gpund/src/agent.rs", "eprintln!(\"x\")", 1, "tracing"),
            ("gpund/src/agent.rs", "todo!()", 1, "the real thing"),
            ("cli/tests/a.rs", "unimplemented!()", 1, "the real thing"),
            ("cli/src/a.rs", "dbg!(x)", 1, "the real thing"),
            ("cli/tests/a.rs", "#[test]\n#[ignore]\nfn a() {}", 2, "in its name"),
            ("cli/tests/a.rs", "#[ignore = \"slow\"]", 1, "in its name"),
            ("docs/a.md", concat!("see\n/wo", "rk/main/a"), 2, "relative to the clone"),
            (".ci/run", concat!("curl https://crates", ".io/x"), 1, "name the package"),
            ("core/src/lib.rs", "pub mod a;", 1, "what it is"),
            ("gpund/src/bin/shim.rs", "fn main() {}", 1, "what it is"),
        ] {
            let found = lines(path, source);
            assert_eq!(found.len(), 1, "{path}: {source}: {found:?}");
            assert_eq!(found[0].0, line, "{source}");
            assert!(found[0].1.contains(word), "{}", found[0].1);
        }
    }

    #[test]
    fn what_is_allowed_is_not_found() {
        for (path, source) in [
            ("core/src/a.rs", "// HashMap, SystemTime and SLURM_ in a comment\nuse std::time::Duration;"),
            ("core/src/a.rs", "#[cfg(test)]\nmod tests { use std::fs; use std::collections::HashMap; f(\"SLURM_\"); }"),
            ("core/src/a.rs", "let x = \"HashMap\"; let y = InstantRate;"),
            ("core/src/job/tests.rs", "use std::fs;"),
            ("core/tests/a.rs", "use std::fs; println!()"),
            ("core/src/priority.rs", "let share: f64;"),
            ("compat/src/env.rs", "\"SLURM_JOB_ID\""),
            ("gpund/src/main.rs", "//! x\nprintln!()"),
            ("cli/src/squeue.rs", "println!()"),
            ("cli/src/a.rs", "// todo!(), and \"unimplemented!()\"\nlet ignored = 1;"),
            ("Cargo.lock", concat!("https://crates", ".io/x")),
        ] {
            assert_eq!(lines(path, source), [], "{path}: {source}");
        }
    }

    #[test]
    fn a_long_file_is_found() {
        assert_eq!(lines("cli/src/a.rs", &"\n".repeat(MAX_LINES)), []);
        assert!(lines("cli/src/a.rs", &"\n".repeat(MAX_LINES + 1))[0].1.contains("split it by noun"));
        assert_eq!(lines("docs/a.md", &"\n".repeat(MAX_LINES + 1)), []);
    }

    #[test]
    fn literal_bans_skip_test_lines_only() {
        let source =
            "let a = \"SLURM_A\";\n#[cfg(test)]\nmod tests {\n  const B: &str = \"SLURM_B\";\n}\nlet c = \"SLURM_C\";";
        assert_eq!(lines("core/src/a.rs", source).into_iter().map(|(line, _)| line).collect::<Vec<_>>(), [1, 6]);
    }
}
