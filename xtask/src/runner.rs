//! Runs `cargo test`, shows its output as it comes and keeps the tally.
//!
//! Three things that cargo lets pass are failures here: an ignored test, a run without a test, and a process of ours
//! that a test left behind. A run that takes longer than its limit is ended.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, PipeReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::context::shown;
use crate::parts::seconds;
use crate::processes;

/// How long the output may stay open after cargo has ended: only a process that a test left can hold it.
const DRAIN: Duration = Duration::from_secs(3);
const SHOWN_BINARIES: usize = 12;

/// How long things may take.
#[derive(Clone, Copy)]
pub struct Limits {
    /// The whole run.
    pub run: Duration,
    /// A daemon that was told to stop when its test ended.
    pub leave: Duration,
}

impl Limits {
    /// So long for the run, and the usual time for what is just ending.
    pub fn of(run: Duration) -> Self {
        Self { run, leave: Duration::from_secs(10) }
    }
}

/// What the test binaries said.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Tests that passed.
    pub passed: u64,
    /// Tests that failed.
    pub failed: u64,
    /// Tests that were ignored.
    pub ignored: u64,
    /// Lines that a soak test prints: `soak: NAME = VALUE`.
    pub figures: Vec<String>,
    binaries: Vec<(String, Duration)>,
}

/// Runs a cargo test command and adds what its binaries said to the tally, also when it fails. Processes that run a
/// program from below `target` are looked for before and after.
pub fn run(command: &mut Command, target: &Path, limits: Limits, sum: &mut Tally) -> Result<()> {
    let before = processes::running_from(target);
    let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
    command.stdout(writer.try_clone().context("cannot share the pipe")?).stderr(writer);
    let mut child = command.spawn().with_context(|| format!("cannot start {}", shown(command)))?;
    let called = shown(command);
    // The command holds two writing ends of the pipe: while they are open the output never ends.
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let lines = read_lines(reader);
    let mut tally = Tally::default();
    let started = Instant::now();
    let status = loop {
        tally.take(&lines, Duration::from_millis(100), started);
        if let Some(status) = child.try_wait().context("cannot wait for cargo")? {
            break status;
        }
        if started.elapsed() > limits.run {
            let mut hung = processes::descendants(child.id());
            hung.push(child.id());
            processes::kill(&hung);
            child.wait().context("cannot wait for cargo")?;
            bail!("{called} took longer than {} and was ended; the last lines show where", seconds(limits.run));
        }
    };
    tally.drain(&lines, started);
    tally.close(started.elapsed());
    tally.print_slowest();
    let verdict = tally.verdict(&called, status, &left_behind(&before, target, limits.leave));
    sum.add(tally);
    verdict
}

fn read_lines(reader: PipeReader) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        // A test may print bytes that are no text.
        for line in BufReader::new(reader).split(b'\n') {
            let Ok(line) = line else { break };
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                break;
            }
        }
    });
    receiver
}

/// Our processes that were not there before; those that are just ending are given a moment.
fn left_behind(before: &BTreeMap<u32, PathBuf>, target: &Path, leave: Duration) -> Vec<String> {
    let deadline = Instant::now() + leave;
    loop {
        let mut now = processes::running_from(target);
        now.retain(|pid, _| !before.contains_key(pid) && *pid != std::process::id());
        if now.is_empty() || Instant::now() > deadline {
            return now.iter().map(|(pid, program)| format!("{} ({pid})", program.display())).collect();
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        self.figures.extend(other.figures);
    }

    /// The closing line of a test run.
    pub fn closing_line(&self) -> String {
        format!("{} passed, {} failed", self.passed, self.failed)
    }

    fn take(&mut self, lines: &Receiver<String>, wait: Duration, started: Instant) {
        if let Ok(line) = lines.recv_timeout(wait) {
            println!("{line}");
            self.line(&line, started.elapsed());
        }
    }

    fn drain(&mut self, lines: &Receiver<String>, started: Instant) {
        let deadline = Instant::now() + DRAIN;
        loop {
            match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    println!("{line}");
                    self.line(&line, started.elapsed());
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn line(&mut self, line: &str, at: Duration) {
        if let Some(name) = binary(line) {
            self.close(at);
            self.binaries.push((name, at));
        } else if let Some(counts) = result(line) {
            self.passed += counts[0];
            self.failed += counts[1];
            self.ignored += counts[2];
        } else if let Some(figure) = figure(line) {
            self.figures.push(figure.trim().to_owned());
        }
    }

    /// The last binary has run from its start, which stands in its place until now, to this moment.
    fn close(&mut self, at: Duration) {
        if let Some((_, span)) = self.binaries.last_mut() {
            *span = at.saturating_sub(*span);
        }
    }

    fn print_slowest(&self) {
        let mut binaries: Vec<_> = self.binaries.iter().collect();
        binaries.sort_by_key(|(_, span)| std::cmp::Reverse(*span));
        println!("\nslowest of {} test binaries:", binaries.len());
        for (name, span) in binaries.into_iter().take(SHOWN_BINARIES) {
            println!("{:>12}  {name}", seconds(*span));
        }
    }

    fn verdict(&self, called: &str, status: ExitStatus, left: &[String]) -> Result<()> {
        if !status.success() {
            bail!("{called} failed: {status}");
        }
        if self.ignored > 0 {
            bail!(
                "{} tests were ignored: a test runs or does not exist; long ones have `soak` in their name",
                self.ignored
            );
        }
        if !left.is_empty() {
            bail!("tests left processes running, they must stop what they start: {}", left.join(", "));
        }
        Ok(())
    }
}

/// The test binary that cargo announces: `Running tests/x.rs (target/debug/deps/x-0f)` or `Doc-tests x`.
fn binary(line: &str) -> Option<String> {
    let line = line.trim_start();
    if let Some(name) = line.strip_prefix("Doc-tests ") {
        return Some(format!("{name} doc tests"));
    }
    let rest = line.strip_prefix("Running ")?;
    let (source, path) = rest.strip_suffix(')')?.rsplit_once(" (")?;
    let file = path.rsplit('/').next()?;
    let name = file.rsplit_once('-').map_or(file, |(name, _)| name);
    Some(format!("{name} {source}"))
}

/// Passed, failed and ignored of a `test result:` line.
fn result(line: &str) -> Option<[u64; 3]> {
    let rest = line.trim_start().strip_prefix("test result: ")?;
    let (_, counts) = rest.split_once(". ")?;
    let count = |word: &str| {
        let part = counts.split(';').find_map(|part| part.trim().strip_suffix(word))?;
        part.trim().parse().ok()
    };
    Some([count("passed")?, count("failed")?, count("ignored")?])
}

/// What a soak test prints. With one test at a time its first line stands behind `test NAME ... `.
fn figure(line: &str) -> Option<&str> {
    let line = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... ")).map_or(line, |(_, rest)| rest);
    line.strip_prefix("soak: ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "   Compiling a v0.1.0
     Running unittests src/lib.rs (target/debug/deps/gpun_core-0f1e)
running 2 tests
test soak_kills ... soak: kills survived = 50
soak: lost = 0
ok
test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s
     Running tests/e2e.rs (/t/debug/deps/e2e-9a)
test result: FAILED. 3 passed; 1 failed; 2 ignored; 0 measured; 7 filtered out; finished in 1.10s
   Doc-tests gpun_core
test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s";

    #[test]
    fn every_binary_counts() {
        let mut tally = Tally::default();
        for (second, line) in (0..).zip(OUTPUT.lines()) {
            tally.line(line, Duration::from_secs(second));
        }
        tally.close(Duration::from_secs(20));
        assert_eq!((tally.passed, tally.failed, tally.ignored), (9, 1, 2));
        assert_eq!(tally.figures, ["kills survived = 50", "lost = 0"]);
        assert_eq!(tally.closing_line(), "9 passed, 1 failed");
        let binaries = tally.binaries.iter().map(|(name, span)| (name.as_str(), span.as_secs())).collect::<Vec<_>>();
        let expected = [("gpun_core unittests src/lib.rs", 6), ("e2e tests/e2e.rs", 2), ("gpun_core doc tests", 11)];
        assert_eq!(binaries, expected);
    }

    fn shell(script: &str, run_s: u64) -> Result<Tally> {
        let target = tempfile::tempdir().expect("a temporary folder");
        let mut tally = Tally::default();
        let limits = Limits::of(Duration::from_secs(run_s));
        run(Command::new("sh").args(["-c", script]), target.path(), limits, &mut tally).map(|()| tally)
    }

    #[test]
    fn a_run_is_tallied_and_its_failure_kept() {
        let line = |counts: &str| format!("echo 'test result: ok. {counts}; 0 measured'");
        let good = shell(&line("2 passed; 0 failed; 0 ignored"), 60).expect("passes");
        assert_eq!(good.passed, 2);
        let ignored = shell(&line("2 passed; 0 failed; 1 ignored"), 60).expect_err("an ignored test fails");
        assert!(ignored.to_string().contains("1 tests were ignored"), "{ignored}");
        let failed = shell("echo out; echo error >&2; exit 3", 60).expect_err("a failure is one");
        assert!(failed.to_string().contains("exit status: 3"), "{failed}");
    }

    #[test]
    fn a_run_that_hangs_is_ended_with_its_children() {
        let started = Instant::now();
        let error = shell("sleep 300 & wait", 1).expect_err("it hangs");
        assert!(error.to_string().contains("took longer"), "{error}");
        assert!(started.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn a_process_that_a_test_left_is_found() {
        let target = tempfile::tempdir().expect("a temporary folder");
        let program = target.path().join("daemon");
        std::fs::copy("/bin/sleep", &program).expect("a program");
        let script = format!("{} 30 >/dev/null 2>&1 &", program.display());
        let mut shell = Command::new("sh");
        let limits = Limits { run: Duration::from_secs(60), leave: Duration::from_millis(200) };
        let error = run(shell.args(["-c", &script]), target.path(), limits, &mut Tally::default());
        processes::kill(&processes::running_from(target.path()).into_keys().collect::<Vec<_>>());
        let error = error.expect_err("it left a process").to_string();
        assert!(error.contains("left processes") && error.contains("daemon"), "{error}");
    }
}
