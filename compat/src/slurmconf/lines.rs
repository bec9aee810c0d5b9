//! The text of slurm.conf and gres.conf: `Key=Value` pairs, line by line.

use thiserror::Error;

/// Included files within included files, at most.
const DEPTH_MAX: usize = 16;
/// Included files in all: a file that includes itself twice would be read for ever.
const INCLUDES_MAX: usize = 1000;

/// A line that says something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The file.
    pub file: String,
    /// The number of its first line, from 1.
    pub number: usize,
    /// Keys and values in order; keys as written.
    pub pairs: Vec<(String, String)>,
}

impl Line {
    /// The value of a key, in whatever case it is written; the last one if it is there more than once.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.pairs.iter().rev().find(|(have, _)| have.eq_ignore_ascii_case(key)).map(|(_, value)| value.as_str())
    }

    /// True if the line begins with this key.
    pub fn is(&self, key: &str) -> bool {
        self.pairs.first().is_some_and(|(have, _)| have.eq_ignore_ascii_case(key))
    }
}

/// The text can't be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReadError {
    /// A word that is no pair.
    #[error("{file}:{line}: `{word}` is not KEY=VALUE")]
    NoPair {
        /// The file.
        file: String,
        /// The line.
        line: usize,
        /// The word.
        word: String,
    },
    /// A quote without its end.
    #[error("{file}:{line}: a quote has no end")]
    OpenQuote {
        /// The file.
        file: String,
        /// The line.
        line: usize,
    },
    /// A file that can't be read.
    #[error("{file}:{line}: cannot include {path}: {why}")]
    Include {
        /// The file that includes.
        file: String,
        /// The line.
        line: usize,
        /// The one that can't be read.
        path: String,
        /// Why.
        why: String,
    },
}

/// Reads a text and all that it includes; `load` gives an included file's text, or says why it can't.
///
/// # Errors
/// See [`ReadError`].
pub fn read(
    file: &str,
    text: &str,
    load: &mut dyn FnMut(&str) -> Result<String, String>,
) -> Result<Vec<Line>, ReadError> {
    let mut reader = Reader { lines: Vec::new(), load, includes: 0 };
    reader.read(file, text, 0)?;
    Ok(reader.lines)
}

struct Reader<'a> {
    lines: Vec<Line>,
    load: &'a mut dyn FnMut(&str) -> Result<String, String>,
    includes: usize,
}

impl Reader<'_> {
    fn read(&mut self, file: &str, text: &str, depth: usize) -> Result<(), ReadError> {
        for (number, line) in joined(text) {
            let line = uncommented(&line);
            let trimmed = line.trim();
            let (word, rest) = trimmed.split_once(char::is_whitespace).unwrap_or((trimmed, ""));
            if word.eq_ignore_ascii_case("include") && !rest.trim_start().starts_with('=') {
                let path = rest.trim();
                let text = self.included(path, depth).map_err(|why| {
                    let (file, path) = (file.to_owned(), path.to_owned());
                    ReadError::Include { file, line: number, path, why }
                })?;
                self.read(path, &text, depth + 1)?;
                continue;
            }
            let pairs = pairs(file, number, trimmed)?;
            if !pairs.is_empty() {
                self.lines.push(Line { file: file.to_owned(), number, pairs });
            }
        }
        Ok(())
    }

    fn included(&mut self, path: &str, depth: usize) -> Result<String, String> {
        if depth >= DEPTH_MAX {
            return Err("files include each other too deeply".to_owned());
        }
        if self.includes >= INCLUDES_MAX {
            return Err(format!("more than {INCLUDES_MAX} files are included"));
        }
        self.includes += 1;
        (self.load)(path)
    }
}

/// Lines with their continuations, each with the number of its first.
fn joined(text: &str) -> Vec<(usize, String)> {
    let mut out: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim_end_matches('\r');
        let (body, goes_on) = match line.strip_suffix('\\') {
            Some(body) => (body, true),
            None => (line, false),
        };
        match out.last_mut() {
            Some((_, last)) if open => last.push_str(body),
            _ => out.push((number, body.to_owned())),
        }
        open = goes_on;
    }
    out
}

/// Without its comment; `\#` is a sign like any other.
fn uncommented(line: &str) -> String {
    let mut out = String::new();
    let mut escaped = false;
    for c in line.chars() {
        match c {
            '#' if escaped => {
                out.pop();
                out.push('#');
            }
            '#' => break,
            c => out.push(c),
        }
        escaped = c == '\\';
    }
    out
}

fn pairs(file: &str, line: usize, text: &str) -> Result<Vec<(String, String)>, ReadError> {
    let mut pairs = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let end = rest.find(|c: char| c == '=' || c.is_whitespace()).unwrap_or(rest.len());
        let (key, after) = rest.split_at(end);
        // Blanks may stand around the equals sign.
        let Some(value) = after.trim_start().strip_prefix('=').map(str::trim_start).filter(|_| !key.is_empty()) else {
            let word = rest.split_whitespace().next().unwrap_or_default().to_owned();
            return Err(ReadError::NoPair { file: file.to_owned(), line, word });
        };
        let (value, after) = match value.strip_prefix('"') {
            Some(quoted) => {
                let end = quoted.find('"').ok_or_else(|| ReadError::OpenQuote { file: file.to_owned(), line })?;
                (&quoted[..end], &quoted[end + 1..])
            }
            None => value.split_at(value.find(char::is_whitespace).unwrap_or(value.len())),
        };
        pairs.push((key.to_owned(), value.to_owned()));
        rest = after.trim_start();
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Result<String, String> {
        let mut load = |path: &str| match path {
            "nodes.conf" => Ok("NodeName=n1 CPUs=2\n".to_owned()),
            "round.conf" => Ok("Include round.conf\n".to_owned()),
            _ => Err("no such file".to_owned()),
        };
        let lines = read("slurm.conf", text, &mut load).map_err(|error| error.to_string())?;
        let line = |line: &Line| {
            let pairs: Vec<String> = line.pairs.iter().map(|(key, value)| format!("{key}=<{value}>")).collect();
            format!("{}:{} {}", line.file, line.number, pairs.join(" "))
        };
        Ok(lines.iter().map(line).collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn lines_are_read_as_slurm_reads_them() {
        let rows = [
            (
                "ClusterName=ref\n\n# a comment\nSlurmUser=root # another\n",
                Ok("slurm.conf:1 ClusterName=<ref>\nslurm.conf:4 SlurmUser=<root>"),
            ),
            (
                "NodeName=n[1-2] CPUs=8 \\\n  RealMemory=16000\\\n Weight=2\nX=1",
                Ok("slurm.conf:1 NodeName=<n[1-2]> CPUs=<8> RealMemory=<16000> Weight=<2>\nslurm.conf:4 X=<1>"),
            ),
            ("Reason=\"bad dimm\" State=DOWN", Ok("slurm.conf:1 Reason=<bad dimm> State=<DOWN>")),
            ("KillWait = 5\r\n", Ok("slurm.conf:1 KillWait=<5>")),
            ("Prolog=/a\\#b", Ok("slurm.conf:1 Prolog=</a#b>")),
            ("A=\nB=1", Ok("slurm.conf:1 A=<>\nslurm.conf:2 B=<1>")),
            (
                "A=1\ninclude nodes.conf\nB=2",
                Ok("slurm.conf:1 A=<1>\nnodes.conf:1 NodeName=<n1> CPUs=<2>\nslurm.conf:3 B=<2>"),
            ),
            (
                "SchedulerParameters=bf_interval=5,bf_continue",
                Ok("slurm.conf:1 SchedulerParameters=<bf_interval=5,bf_continue>"),
            ),
            ("A=1\nhello", Err("slurm.conf:2: `hello` is not KEY=VALUE")),
            ("=1", Err("slurm.conf:1: `=1` is not KEY=VALUE")),
            ("A=\"open", Err("slurm.conf:1: a quote has no end")),
            ("Include none.conf", Err("slurm.conf:1: cannot include none.conf: no such file")),
            ("Include round.conf", Err("round.conf:1: cannot include round.conf: files include each other too deeply")),
        ];
        for (text, right) in rows {
            assert_eq!(shown(text), right.map(str::to_owned).map_err(str::to_owned), "{text}");
        }
    }

    #[test]
    fn keys_have_no_case_and_the_last_counts() {
        let lines = read("f", "nodename=a cpus=1 CPUs=2", &mut |_| Err(String::new())).unwrap();
        assert!(lines[0].is("NodeName"));
        assert_eq!((lines[0].get("CPUS"), lines[0].get("x")), (Some("2"), None));
    }

    #[test]
    fn a_file_that_is_included_again_and_again_is_refused() {
        // Files of ten levels, each of which includes the next one ten times.
        let mut load = |name: &str| {
            let level: u32 = name.parse().map_err(|_| "no such file".to_owned())?;
            Ok(format!("Include {}\n", level + 1).repeat(if level < 10 { 10 } else { 0 }))
        };
        let deep = read("f", "Include 1", &mut load).unwrap_err().to_string();
        assert!(deep.ends_with("more than 1000 files are included"), "{deep}");
        let wide = read("f", &"Include a\n".repeat(1001), &mut |_| Ok("A=1".to_owned())).unwrap_err();
        assert_eq!(wide.to_string(), "f:1001: cannot include a: more than 1000 files are included");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[A-Za-z0-9=\\\\#\"\\[\\], \n]{0,200}") {
            let _ = read("f", &text, &mut |_| Err(String::new()));
        }
    }
}
