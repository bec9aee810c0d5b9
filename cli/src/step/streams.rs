//! Where the tasks' output goes: srun's own streams, files, or nowhere; with labels or as it is.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use gpun_compat::pattern;

/// Which output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Which {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

/// What `--output`, `--error` or `--input` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// srun's own stream, for all tasks.
    Ours,
    /// srun's own stream, for one task; the others have none.
    OnlyOf(u32),
    /// Nothing.
    None,
    /// A file, or one each where the name says so.
    File(String),
}

impl Mode {
    /// Reads an option's value. A name with blanks around it is a name.
    pub fn parse(text: Option<&str>) -> Self {
        match text {
            None | Some("all") => Self::Ours,
            Some("none") => Self::None,
            Some(text) => text.parse().map_or_else(|_| Self::File(text.to_owned()), Self::OnlyOf),
        }
    }
}

/// What file names are made of.
pub struct Names<'a> {
    /// The job.
    pub job: u32,
    /// The job's array and this task of it.
    pub array: Option<(u32, u32)>,
    /// The step.
    pub step: u32,
    /// The step's name.
    pub name: &'a str,
    /// The user.
    pub user: &'a str,
    /// The node.
    pub node: &'a str,
}

impl Names<'_> {
    /// The file of one task.
    pub fn file(&self, pattern: &str, task: u32) -> String {
        let step = self.step.to_string();
        pattern::expand(
            pattern,
            &pattern::Values {
                job: self.job,
                array_job: self.array.map(|(job, _)| job),
                array_task: self.array.map(|(_, task)| task),
                name: self.name,
                user: self.user,
                host: self.node,
                node: 0,
                task,
                step: &step,
            },
        )
    }
}

enum Sink {
    Out,
    Err,
    File(usize),
    Nowhere,
}

/// All outputs of a step.
pub struct Streams {
    sinks: BTreeMap<(u32, Which), Sink>,
    files: Vec<File>,
    label_width: Option<usize>,
    partial: BTreeMap<(u32, Which), Vec<u8>>,
}

impl Streams {
    /// Opens the files.
    ///
    /// # Errors
    /// One can't be opened: its name, and why.
    pub fn open(
        modes: [(Which, &Mode); 2],
        tasks: u32,
        names: &Names<'_>,
        append: bool,
        label: bool,
    ) -> Result<Self, (String, io::Error)> {
        let mut paths: Vec<String> = Vec::new();
        let mut sinks = BTreeMap::new();
        let mut files = Vec::new();
        for (which, mode) in modes {
            for task in 0..tasks {
                let own = if which == Which::Output { Sink::Out } else { Sink::Err };
                let sink = match mode {
                    Mode::Ours => own,
                    Mode::OnlyOf(one) if *one == task => own,
                    Mode::OnlyOf(_) | Mode::None => Sink::Nowhere,
                    Mode::File(pattern) => {
                        let path = names.file(pattern, task);
                        let at = match paths.iter().position(|have| *have == path) {
                            Some(at) => at,
                            None => {
                                files.push(create(&path, append).map_err(|error| (path.clone(), error))?);
                                paths.push(path);
                                files.len() - 1
                            }
                        };
                        Sink::File(at)
                    }
                };
                sinks.insert((task, which), sink);
            }
        }
        let width = tasks.saturating_sub(1).to_string().len();
        Ok(Self { sinks, files, label_width: label.then_some(width), partial: BTreeMap::new() })
    }

    /// A task wrote something.
    ///
    /// # Errors
    /// It can't be written on: nobody reads srun's output, or a disk is full.
    pub fn write(&mut self, task: u32, which: Which, bytes: &[u8]) -> io::Result<()> {
        let Some(width) = self.label_width else { return self.put(task, which, bytes) };
        let mut held = self.partial.remove(&(task, which)).unwrap_or_default();
        held.extend_from_slice(bytes);
        let whole = held.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let mut text = Vec::with_capacity(whole + 16);
        for line in held[..whole].split_inclusive(|byte| *byte == b'\n') {
            let _ = write!(text, "{task:>width$}: ");
            text.extend_from_slice(line);
        }
        let rest = held.split_off(whole);
        if !rest.is_empty() {
            self.partial.insert((task, which), rest);
        }
        self.put(task, which, &text)
    }

    /// All has been written: what waits for the end of its line is shown.
    ///
    /// # Errors
    /// As [`Streams::write`].
    pub fn finish(&mut self) -> io::Result<()> {
        let width = self.label_width.unwrap_or(0);
        for ((task, which), rest) in std::mem::take(&mut self.partial) {
            let mut text = format!("{task:>width$}: ").into_bytes();
            text.extend_from_slice(&rest);
            text.push(b'\n');
            self.put(task, which, &text)?;
        }
        Ok(())
    }

    fn put(&mut self, task: u32, which: Which, bytes: &[u8]) -> io::Result<()> {
        match self.sinks.get(&(task, which)) {
            Some(Sink::Out) => {
                let mut out = io::stdout().lock();
                out.write_all(bytes).and_then(|()| out.flush())
            }
            Some(Sink::Err) => io::stderr().lock().write_all(bytes),
            Some(Sink::File(at)) => self.files.get_mut(*at).map_or(Ok(()), |file| file.write_all(bytes)),
            Some(Sink::Nowhere) | None => Ok(()),
        }
    }
}

fn create(path: &str, append: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).write(true).append(append).truncate(!append);
    options.open(Path::new(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_read() {
        for (text, right) in [
            (None, Mode::Ours),
            (Some("all"), Mode::Ours),
            (Some("none"), Mode::None),
            (Some("3"), Mode::OnlyOf(3)),
            (Some("out-%t"), Mode::File("out-%t".into())),
        ] {
            assert_eq!(Mode::parse(text), right);
        }
    }

    #[test]
    fn labels_stand_before_whole_lines() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("o").to_string_lossy().into_owned();
        let names = Names { job: 7, array: None, step: 1, name: "x", user: "u", node: "n1" };
        let mode = Mode::File(path.clone());
        let mut streams =
            Streams::open([(Which::Output, &mode), (Which::Error, &mode)], 11, &names, false, true).unwrap();
        streams.write(0, Which::Output, b"a\nb").unwrap();
        streams.write(10, Which::Error, b"x\n").unwrap();
        streams.write(0, Which::Output, b"c\n\nd").unwrap();
        streams.finish().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), " 0: a\n10: x\n 0: bc\n 0: \n 0: d\n");
        assert_eq!(names.file("%j-%s-%t-%N-%2n", 3), "7-1-3-n1-00");
    }
}
