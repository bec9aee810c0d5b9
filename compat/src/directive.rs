//! `#SBATCH` lines: what a batch script says about its own submission.
//!
//! All directives together make one argument list, read as a command line would be. They stand before the first line that is
//! neither blank nor a comment; a `#` outside quotes ends a directive; quotes may be single or double and a backslash
//! takes the next character as it is, inside quotes too. `#PBS` and `#BSUB` lines are translated for the options that have
//! an equivalent; they win over `#SBATCH`.

/// A script was refused before anything was sent. The texts are Slurm's, without the `sbatch: error: ` that stands before
/// each line of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// No byte in it.
    #[error("Batch script is empty!")]
    Empty,
    /// Nothing but blanks and line ends.
    #[error("Batch script contains only whitespace!")]
    Blank,
    /// The first line does not begin with `#!`.
    #[error(
        "This does not look like a batch script.  The first\nline must start with #! followed by the path to an interpreter.\nFor instance: #!/bin/sh"
    )]
    NoInterpreter,
    /// CR LF at a line's end.
    #[error("Batch script contains DOS line breaks (\\r\\n)\ninstead of expected UNIX line breaks (\\n).")]
    DosLineBreaks,
    /// A NUL byte.
    #[error("The Slurm controller does not allow scripts that\ncontain a NULL character '\\0'.")]
    Nul,
    /// A quote is opened and never closed. Printed as `sbatch: fatal:`.
    #[error("{file}: line {line}: Unmatched `{quote}` in [{rest}]")]
    Unmatched {
        /// The script's name, as given.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The quote.
        quote: char,
        /// The line from where the word begins.
        rest: String,
    },
    /// A colon on its own, which only separates components on a command line. Printed as `sbatch: fatal:`.
    #[error("{file}: line {line}: Unexpected `:` in [{rest}]")]
    Colon {
        /// The script's name, as given.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The line from where the colon stands.
        rest: String,
    },
    /// A line of another batch system that has no translation.
    #[error("line {line}: {text} has no equivalent here: write a #SBATCH line, or use --ignore-pbs")]
    Foreign {
        /// The line, from 1.
        line: usize,
        /// What was not understood.
        text: String,
    },
}

impl ScriptError {
    /// The whole text for standard error, each line with its prefix.
    pub fn report(&self, program: &str) -> String {
        let level = match self {
            Self::Unmatched { .. } | Self::Colon { .. } => "fatal",
            _ => "error",
        };
        self.to_string().lines().map(|l| format!("{program}: {level}: {l}\n")).collect()
    }

    /// The exit status.
    pub fn status(&self) -> i32 {
        1
    }
}

/// What a script says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Directives {
    /// The arguments of all `#SBATCH` lines, in order, up to the first `#SBATCH hetjob`.
    pub args: Vec<String>,
    /// The same for each further component.
    pub further: Vec<Vec<String>>,
    /// A component was begun by its old name.
    pub old_separator: bool,
    /// Arguments in `sbatch`'s words made of `#PBS` and `#BSUB` lines; they are read after `args`.
    pub foreign: Vec<String>,
}

/// Whether these bytes can be a batch script at all.
///
/// # Errors
/// [`ScriptError`] for an empty or blank script, one without an interpreter line, with DOS line breaks or NUL bytes.
pub fn check(script: &[u8]) -> Result<(), ScriptError> {
    if script.is_empty() {
        return Err(ScriptError::Empty);
    }
    if script.iter().all(u8::is_ascii_whitespace) {
        return Err(ScriptError::Blank);
    }
    if !script.starts_with(b"#!") {
        return Err(ScriptError::NoInterpreter);
    }
    if script.windows(2).any(|w| w == b"\r\n") {
        return Err(ScriptError::DosLineBreaks);
    }
    if script.contains(&0) {
        return Err(ScriptError::Nul);
    }
    Ok(())
}

/// Checks a script and takes its directives out. `file` is the script's name for messages; bytes that are no UTF-8 are
/// replaced in directives. With `ignore_pbs`, lines of other batch systems stay comments.
///
/// # Errors
/// [`ScriptError`].
pub fn extract(script: &[u8], file: &str, ignore_pbs: bool) -> Result<Directives, ScriptError> {
    check(script)?;
    let mut found = Directives::default();
    for (i, line) in script.split(|b| *b == b'\n').enumerate().skip(1) {
        let text = line.trim_ascii_start();
        if text.is_empty() {
            continue;
        }
        if !text.starts_with(b"#") {
            break;
        }
        let place = Place { file, line: i + 1 };
        if let Some(rest) = line.strip_prefix(b"#SBATCH") {
            let words = words(&String::from_utf8_lossy(rest), &place)?;
            if let Some(separator @ ("hetjob" | "packjob")) = words.first().map(String::as_str) {
                found.old_separator |= separator == "packjob";
                found.further.push(Vec::new());
                continue;
            }
            found.further.last_mut().unwrap_or(&mut found.args).extend(words);
        } else if let Some(rest) = line.strip_prefix(b"#PBS").filter(|_| !ignore_pbs) {
            let words = words(&String::from_utf8_lossy(rest), &place)?;
            translate(&words, PBS, &place, &mut found.foreign)?;
        } else if let Some(rest) = line.strip_prefix(b"#BSUB").filter(|_| !ignore_pbs) {
            let words = words(&String::from_utf8_lossy(rest), &place)?;
            translate(&words, BSUB, &place, &mut found.foreign)?;
        }
    }
    Ok(found)
}

struct Place<'a> {
    file: &'a str,
    line: usize,
}

/// Cuts one directive into words.
fn words(text: &str, place: &Place<'_>) -> Result<Vec<String>, ScriptError> {
    let mut out = Vec::new();
    let mut rest = text;
    loop {
        let blanks = rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\u{b}', '\u{c}']).len();
        let body = rest.get(blanks..).unwrap_or("");
        if body.is_empty() || body.starts_with('#') {
            return Ok(out);
        }
        let (word, used, quoted) = word(body, rest, place)?;
        if word == ":" && !quoted {
            return Err(ScriptError::Colon { file: place.file.to_owned(), line: place.line, rest: rest.to_owned() });
        }
        // An empty word, such as `""`, is as if it were not there.
        if !word.is_empty() {
            out.push(word);
        }
        rest = body.get(used..).unwrap_or("");
    }
}

/// One word, how many bytes of `body` it took, and whether quotes or backslashes were in it.
fn word(body: &str, rest: &str, place: &Place<'_>) -> Result<(String, usize, bool), ScriptError> {
    let mut word = String::new();
    let (mut quote, mut quoted) = (None, false);
    let mut chars = body.char_indices();
    while let Some((at, c)) = chars.next() {
        match (c, quote) {
            ('\\', _) => {
                quoted = true;
                word.extend(chars.next().map(|(_, next)| next));
            }
            ('"' | '\'', None) => {
                quoted = true;
                quote = Some(c);
            }
            (c, Some(q)) if c == q => quote = None,
            ('#', None) => return Ok((word, at, quoted)),
            (c, None) if c.is_ascii_whitespace() => return Ok((word, at, quoted)),
            (c, _) => word.push(c),
        }
    }
    match quote {
        None => Ok((word, body.len(), quoted)),
        Some(quote) => {
            Err(ScriptError::Unmatched { file: place.file.to_owned(), line: place.line, quote, rest: rest.to_owned() })
        }
    }
}

/// How an option of another batch system is said here.
#[derive(Clone, Copy)]
enum Meaning {
    /// The same value under this option.
    As(&'static str),
    /// A flag without a value here and there.
    Flag(&'static str),
    /// Has a value there and no meaning here.
    Nothing,
    /// A flag there, without meaning here.
    NothingFlag,
    /// `#PBS -l name=value,...`.
    Resources,
    /// Hours and minutes.
    HoursMinutes,
}

type Table = &'static [(&'static str, Meaning)];

const PBS: Table = &[
    ("-N", Meaning::As("--job-name")),
    ("-A", Meaning::As("--account")),
    ("-q", Meaning::As("--partition")),
    ("-o", Meaning::As("--output")),
    ("-e", Meaning::As("--error")),
    ("-p", Meaning::As("--priority")),
    ("-a", Meaning::As("--begin")),
    ("-J", Meaning::As("--array")),
    ("-t", Meaning::As("--array")),
    ("-l", Meaning::Resources),
    ("-h", Meaning::Flag("--hold")),
    ("-j", Meaning::Nothing),
    ("-S", Meaning::Nothing),
    ("-V", Meaning::NothingFlag),
];

const BSUB: Table = &[
    ("-J", Meaning::As("--job-name")),
    ("-q", Meaning::As("--partition")),
    ("-P", Meaning::As("--account")),
    ("-o", Meaning::As("--output")),
    ("-e", Meaning::As("--error")),
    ("-i", Meaning::As("--input")),
    ("-n", Meaning::As("--ntasks")),
    ("-W", Meaning::HoursMinutes),
    ("-x", Meaning::Flag("--exclusive")),
    ("-H", Meaning::Flag("--hold")),
];

fn translate(words: &[String], table: Table, place: &Place<'_>, out: &mut Vec<String>) -> Result<(), ScriptError> {
    let foreign = |text: &str| ScriptError::Foreign { line: place.line, text: text.to_owned() };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let (_, meaning) = table
            .iter()
            .find(|(flag, m)| {
                word == flag || (word.starts_with(flag) && !matches!(m, Meaning::Flag(_) | Meaning::NothingFlag))
            })
            .ok_or_else(|| foreign(word))?;
        let mut value = || match word.get(2..) {
            Some(glued) if !glued.is_empty() => Ok(glued.to_owned()),
            _ => words.next().cloned().ok_or_else(|| foreign(word)),
        };
        match meaning {
            Meaning::As(long) => out.push(format!("{long}={}", value()?)),
            Meaning::Flag(long) => out.push((*long).to_owned()),
            Meaning::Nothing => drop(value()?),
            Meaning::NothingFlag => {}
            Meaning::HoursMinutes => {
                let text = value()?;
                // Two fields are hours and minutes there; with seconds behind them they are so here too.
                let seconds = if text.contains(':') { ":00" } else { "" };
                out.push(format!("--time={text}{seconds}"));
            }
            Meaning::Resources => pbs_resources(&value()?, out).map_err(|part| foreign(&part))?,
        }
    }
    Ok(())
}

/// `nodes=2:ppn=4,walltime=1:00:00,mem=1gb`.
fn pbs_resources(text: &str, out: &mut Vec<String>) -> Result<(), String> {
    for part in text.split(',').filter(|p| !p.is_empty()) {
        let (name, value) = part.split_once('=').ok_or_else(|| part.to_owned())?;
        match name {
            "walltime" | "cput" => out.push(format!("--time={value}")),
            "mem" => out.push(format!("--mem={value}")),
            "ncpus" => out.push(format!("--cpus-per-task={value}")),
            "file" => out.push(format!("--tmp={value}")),
            "nodes" | "select" => {
                let mut pieces = value.split(':');
                out.push(format!("--nodes={}", pieces.next().unwrap_or("")));
                for piece in pieces {
                    match piece.split_once('=') {
                        Some(("ppn" | "mpiprocs", n)) => out.push(format!("--ntasks-per-node={n}")),
                        Some(("mem", m)) => out.push(format!("--mem={m}")),
                        _ => return Err(piece.to_owned()),
                    }
                }
            }
            _ => return Err(part.to_owned()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(body: &str) -> Result<Vec<String>, String> {
        let script = format!("#!/bin/bash\n{body}");
        extract(script.as_bytes(), "job.sh", false).map(|d| d.args).map_err(|e| e.report("sbatch"))
    }

    #[test]
    fn directives_are_cut_into_words() {
        for (body, want) in [
            ("#SBATCH --job-name=foo\n#SBATCH --ntasks 2\nhostname\n", &["--job-name=foo", "--ntasks", "2"][..]),
            ("#SBATCH -J foo -N 2\n", &["-J", "foo", "-N", "2"]),
            ("#SBATCH\t-J\tfoo  \n", &["-J", "foo"]),
            ("#SBATCH --comment=\"a b  c\"\n", &["--comment=a b  c"]),
            ("#SBATCH --comment='it is \"quoted\"'\n", &["--comment=it is \"quoted\""]),
            ("#SBATCH -J \"fo\"'o b'ar\n", &["-J", "foo bar"]),
            ("#SBATCH -J my\\ job\n", &["-J", "my job"]),
            ("#SBATCH -J fo\\\"o\n", &["-J", "fo\"o"]),
            ("#SBATCH -J \"fo\\\"o\"\n", &["-J", "fo\"o"]),
            ("#SBATCH -J 'fo\\o'\n", &["-J", "foo"]),
            ("#SBATCH -J foo\\\n", &["-J", "foo"]),
            ("#SBATCH -J \"\"\n", &["-J"]),
            ("#SBATCH -J foo #comment\n", &["-J", "foo"]),
            ("#SBATCH -J foo#bar\n", &["-J", "foo"]),
            ("#SBATCH -J 'foo # bar'\n", &["-J", "foo # bar"]),
            ("#SBATCH -J ':'\n", &["-J", ":"]),
            ("#SBATCH -o a:b -d after:1:2\n", &["-o", "a:b", "-d", "after:1:2"]),
            ("#SBATCH-J foo\n", &["-J", "foo"]),
            ("#SBATCHX -J foo\n", &["X", "-J", "foo"]),
            ("#SBATCH -J\n#SBATCH -n2\n", &["-J", "-n2"]),
            (
                "# c\n#SBATCH -J foo\n\n## more\n#SBATCH -n 2\n   \n  # x\n#SBATCH -t 3\nhostname\n",
                &["-J", "foo", "-n", "2", "-t", "3"],
            ),
            ("#SBATCH -J foo\nhostname\n#SBATCH -n 2\n", &["-J", "foo"]),
            ("##SBATCH -J foo\n# SBATCH -n 2\n #SBATCH -t 1\n\t#SBATCH -t 1\n#sbatch -t 1\n", &[]),
            ("#SBATCH -J $USER\n", &["-J", "$USER"]),
            ("#SBATCH -D /home/u/work with space\n", &["-D", "/home/u/work", "with", "space"]),
            ("#SBATCH --time 1:00:00", &["--time", "1:00:00"]),
            ("#SBATCH -J jöb\n", &["-J", "jöb"]),
            ("", &[]),
        ] {
            assert_eq!(args(body), Ok(want.iter().map(|s| (*s).to_owned()).collect()), "{body}");
        }
    }

    #[test]
    fn bad_directives_name_the_line() {
        for (body, want) in [
            ("#SBATCH -J \"foo\n", "sbatch: fatal: job.sh: line 2: Unmatched `\"` in [ \"foo]\n"),
            ("\n#SBATCH -J 'foo\n", "sbatch: fatal: job.sh: line 3: Unmatched `'` in [ 'foo]\n"),
            ("#SBATCH -n2 : -n3\n", "sbatch: fatal: job.sh: line 2: Unexpected `:` in [ : -n3]\n"),
        ] {
            assert_eq!(args(body), Err(want.to_owned()), "{body}");
        }
        let het =
            extract(b"#!/bin/sh\n#SBATCH -n1\n#SBATCH hetjob\n#SBATCH -n2\n#SBATCH packjob\n", "f", false).unwrap();
        let further: Vec<Vec<&str>> = het.further.iter().map(|one| one.iter().map(String::as_str).collect()).collect();
        assert_eq!((het.args, further, het.old_separator), (vec!["-n1".to_owned()], vec![vec!["-n2"], vec![]], true));
    }

    #[test]
    fn scripts_are_checked() {
        let dos = "sbatch: error: Batch script contains DOS line breaks (\\r\\n)\nsbatch: error: instead of expected UNIX line breaks (\\n).\n";
        let none = "sbatch: error: This does not look like a batch script.  The first\nsbatch: error: line must start with #! followed by the path to an interpreter.\nsbatch: error: For instance: #!/bin/sh\n";
        for (script, want) in [
            (&b""[..], Some("sbatch: error: Batch script is empty!\n")),
            (b"\n", Some("sbatch: error: Batch script contains only whitespace!\n")),
            (b" \t", Some("sbatch: error: Batch script contains only whitespace!\n")),
            (b"#SBATCH -J foo\nhostname\n", Some(none)),
            (b"x", Some(none)),
            (b" #!/bin/sh\n", Some(none)),
            (b"\xef\xbb\xbf#!/bin/sh\n", Some(none)),
            (b"#!/bin/bash\r\n#SBATCH -J foo\r\nhostname\r\n", Some(dos)),
            (b"#!/bin/bash\nhostname\r\n", Some(dos)),
            (
                b"#!/bin/bash\nhostname\0\n",
                Some(
                    "sbatch: error: The Slurm controller does not allow scripts that\nsbatch: error: contain a NULL character '\\0'.\n",
                ),
            ),
            (b"#!/bin/bash", None),
            (b"#!\nhostname\n", None),
            (b"#!/usr/bin/env python3\nprint(1)\n", None),
        ] {
            assert_eq!(check(script).err().map(|e| e.report("sbatch")).as_deref(), want, "{script:?}");
        }
    }

    #[test]
    fn other_systems_are_translated() {
        let foreign = |body: &str| extract(format!("#!/bin/sh\n{body}\n").as_bytes(), "j", false).map(|d| d.foreign);
        for (body, want) in [
            ("#PBS -N pbsjob\n#PBS -l walltime=00:05:00", &["--job-name=pbsjob", "--time=00:05:00"][..]),
            (
                "#PBS -A opt -l nodes=2:ppn=3,walltime=10:00",
                &["--account=opt", "--nodes=2", "--ntasks-per-node=3", "--time=10:00"],
            ),
            ("#PBS -q long -j oe -V", &["--partition=long"]),
            ("#BSUB -J foo -n 2 -W 10", &["--job-name=foo", "--ntasks=2", "--time=10"]),
            ("#BSUB -W 1:30", &["--time=1:30:00"]),
        ] {
            assert_eq!(foreign(body), Ok(want.iter().map(|s| (*s).to_owned()).collect()), "{body}");
        }
        assert!(foreign("#PBS -Z").is_err());
        assert!(foreign("#PBS -l bogus=3").is_err());
        assert_eq!(extract(b"#!/bin/sh\n#PBS -Z\n", "j", true), Ok(Directives::default()));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_answered(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let _ = extract(&bytes, "f", false);
        }

        #[test]
        fn any_directive_is_answered(text in "[\"'\\\\#: a-zP\\-=éü\t]{0,40}") {
            let _ = args(&format!("#SBATCH {text}\n#PBS {text}\n"));
        }
    }
}
