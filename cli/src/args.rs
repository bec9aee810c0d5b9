//! Options of gpun's own commands: one table a command gives the parser, the help and the completion.

use std::{collections::BTreeMap, fmt::Write as _};

/// One option.
#[derive(Debug, Clone, Copy)]
pub struct Opt {
    /// With its dashes.
    pub name: &'static str,
    /// What its value is called; `None` for a switch.
    pub value: Option<&'static str>,
    /// What it does, in a line.
    pub help: &'static str,
}

/// A command of gpun itself.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// As it is typed, such as `gpun up`.
    pub command: &'static str,
    /// What stands behind the options, such as `JOB`.
    pub operands: &'static str,
    /// How many operands it takes.
    pub count: (usize, usize),
    /// What it does: the first line, and more.
    pub about: &'static str,
    /// Its options; `--help` and `--json` come by themselves.
    pub options: &'static [Opt],
    /// A few command lines with what they do.
    pub examples: &'static [(&'static str, &'static str)],
}

const COMMON: [Opt; 2] = [
    Opt { name: "--json", value: None, help: "print JSON; fields are only added to, never changed" },
    Opt { name: "--help", value: None, help: "print this help" },
];

/// What was given.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Args {
    values: BTreeMap<&'static str, Vec<String>>,
    /// What is no option.
    pub operands: Vec<String>,
}

impl Args {
    /// True if the switch was given.
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// The option's last value.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name)?.last().map(String::as_str)
    }

    /// All of the option's values.
    pub fn all(&self, name: &str) -> &[String] {
        self.values.get(name).map(Vec::as_slice).unwrap_or_default()
    }
}

impl Usage {
    /// Every option, the common ones last.
    pub fn all_options(&self) -> impl Iterator<Item = &Opt> {
        self.options.iter().chain(&COMMON)
    }

    /// Reads the arguments behind the command's name.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn parse(&self, args: &[String]) -> Result<Args, String> {
        let mut got = Args::default();
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            match arg.as_str() {
                "--" => got.operands.extend(rest.by_ref().cloned()),
                "-h" => self.keep(&mut got, "--help", None, &mut rest)?,
                long if long.starts_with("--") => match long.split_once('=') {
                    Some((name, value)) => self.keep(&mut got, name, Some(value), &mut rest)?,
                    None => self.keep(&mut got, long, None, &mut rest)?,
                },
                short if short.starts_with('-') && short.len() > 1 => {
                    // The value of a letter may stand right behind it: -oFILE.
                    let (name, glued) = short.split_at_checked(2).unwrap_or((short, ""));
                    self.keep(&mut got, name, (!glued.is_empty()).then_some(glued), &mut rest)?;
                }
                operand => got.operands.push(operand.to_owned()),
            }
        }
        let (least, most) = self.count;
        match got.operands.len() {
            _ if got.has("--help") => Ok(got),
            n if n < least => Err(format!("{} is missing", self.operands)),
            n if n > most => Err(format!("`{}` is one argument too many", got.operands[most])),
            _ => Ok(got),
        }
    }

    fn keep<'a>(
        &self,
        got: &mut Args,
        name: &str,
        value: Option<&str>,
        rest: &mut impl Iterator<Item = &'a String>,
    ) -> Result<(), String> {
        let opt = self.all_options().find(|opt| opt.name == name);
        let opt = opt.ok_or_else(|| format!("there is no option {name}"))?;
        let value = match (opt.value, value) {
            (None, None) => String::new(),
            (None, Some(_)) => return Err(format!("{name} takes no value")),
            (Some(_), Some(value)) => value.to_owned(),
            (Some(what), None) => rest.next().cloned().ok_or_else(|| format!("{name} needs a value: {what}"))?,
        };
        got.values.entry(opt.name).or_default().push(value);
        Ok(())
    }

    /// The whole help.
    pub fn help(&self) -> String {
        let operands = if self.operands.is_empty() { String::new() } else { format!(" {}", self.operands) };
        let mut out = format!("Usage: {} [OPTIONS]{operands}\n\n{}\n\nOptions:\n", self.command, self.about);
        let left = |opt: &Opt| opt.value.map_or(opt.name.to_owned(), |value| format!("{} {value}", opt.name));
        let wide = self.all_options().map(|opt| left(opt).len()).max().unwrap_or(0);
        for opt in self.all_options() {
            let _ = writeln!(out, "  {:wide$}  {}", left(opt), opt.help);
        }
        if !self.examples.is_empty() {
            out.push_str("\nExamples:\n");
            let wide = self.examples.iter().map(|(line, _)| line.len()).max().unwrap_or(0);
            for (line, what) in self.examples {
                let _ = writeln!(out, "  {line:wide$}  {what}");
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USAGE: Usage = Usage {
        command: "gpun test",
        operands: "[JOB]",
        count: (0, 1),
        about: "Tests.",
        options: &[
            Opt { name: "--dir", value: Some("DIR"), help: "a folder" },
            Opt { name: "--quick", value: None, help: "quick" },
            Opt { name: "-o", value: Some("FILE"), help: "a file" },
        ],
        examples: &[("gpun test 1", "tests 1")],
    };

    fn parse(text: &str) -> Result<Args, String> {
        USAGE.parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn good_lines() {
        let got = parse("--dir a --dir=b 7 --quick").unwrap();
        assert_eq!(
            (got.get("--dir"), got.has("--quick"), got.all("--dir").len(), got.operands.as_slice()),
            (Some("b"), true, 2, ["7".to_owned()].as_slice())
        );
        assert!(parse("-h").unwrap().has("--help") && parse("").unwrap() == Args::default());
        for text in ["-o a 7", "-oa 7", "7 -o b -o a"] {
            let got = parse(text).unwrap();
            assert_eq!((got.get("-o"), got.operands.as_slice()), (Some("a"), ["7".to_owned()].as_slice()), "{text}");
        }
        assert_eq!(parse("-- --dir").unwrap().operands, ["--dir"]);
    }

    #[test]
    fn bad_lines_say_what_is_wrong() {
        let rows = [
            ("--dri x", "there is no option --dri"),
            ("-q", "there is no option -q"),
            ("-\u{e9}", "there is no option -\u{e9}"),
            ("-o", "-o needs a value: FILE"),
            ("--dir", "--dir needs a value: DIR"),
            ("--quick=1", "--quick takes no value"),
            ("1 2", "`2` is one argument too many"),
        ];
        for (text, right) in rows {
            assert_eq!(parse(text).unwrap_err(), right, "{text}");
        }
        let strict = Usage { count: (1, 1), operands: "JOB", ..USAGE };
        assert_eq!(strict.parse(&[]).unwrap_err(), "JOB is missing");
    }

    #[test]
    fn help_names_everything() {
        let help = USAGE.help();
        for needle in ["Usage: gpun test [OPTIONS] [JOB]", "--dir DIR", "--json", "--help", "gpun test 1"] {
            assert!(help.contains(needle), "{needle} in {help}");
        }
    }
}
