//! The parts of a long command: each is timed, each is run even when another failed, and one table closes the run.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// What became of one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    NotRun,
}

struct Part {
    name: String,
    took: Duration,
    outcome: Outcome,
}

/// The parts run so far.
#[derive(Default)]
pub struct Parts {
    parts: Vec<Part>,
    errors: Vec<String>,
}

impl Parts {
    /// Runs a part; its error is kept for the end. Returns whether it passed.
    pub fn run(&mut self, name: &str, part: impl FnOnce() -> Result<()>) -> bool {
        println!("\n==> {name}");
        let started = Instant::now();
        let result = part();
        let outcome = if result.is_ok() { Outcome::Passed } else { Outcome::Failed };
        if let Err(error) = result {
            println!("{name} failed: {error:#}");
            self.errors.push(format!("{name}: {error:#}"));
        }
        self.parts.push(Part { name: name.to_owned(), took: started.elapsed(), outcome });
        outcome == Outcome::Passed
    }

    /// Notes a part that could not run, which fails the whole.
    pub fn not_run(&mut self, name: &str, why: &str) {
        self.errors.push(format!("{name}: not run: {why}"));
        self.parts.push(Part { name: name.to_owned(), took: Duration::ZERO, outcome: Outcome::NotRun });
    }

    /// Prints the table; an error if any part failed or did not run.
    pub fn finish(self) -> Result<()> {
        print!("\n{}", self.table());
        if self.errors.is_empty() {
            return Ok(());
        }
        bail!("{} of {} parts failed:\n  {}", self.errors.len(), self.parts.len(), self.errors.join("\n  "))
    }

    fn table(&self) -> String {
        let mut text = String::new();
        for part in &self.parts {
            let outcome = match part.outcome {
                Outcome::Passed => "passed",
                Outcome::Failed => "FAILED",
                Outcome::NotRun => "NOT RUN",
            };
            let _ = writeln!(text, "{:<24} {:>9}  {outcome}", part.name, seconds(part.took));
        }
        let total = self.parts.iter().map(|part| part.took).sum();
        let _ = writeln!(text, "{:<24} {:>9}", "total", seconds(total));
        text
    }
}

/// A duration as people read it: `3.2 s` or `4 min 05 s`.
pub fn seconds(duration: Duration) -> String {
    match duration.as_secs() {
        0..60 => format!("{:.1} s", duration.as_secs_f64()),
        whole => format!("{} min {:02} s", whole / 60, whole % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_part_fails_the_whole_and_the_others_still_run() {
        let mut parts = Parts::default();
        assert!(!parts.run("first", || bail!("broken")));
        assert!(parts.run("second", || Ok(())));
        assert!(parts.table().contains("FAILED") && parts.table().contains("passed"));
        let error = parts.finish().expect_err("one part failed").to_string();
        assert!(error.contains("first: broken") && error.contains("1 of 2"), "{error}");
    }

    #[test]
    fn a_part_that_did_not_run_fails_the_whole() {
        let mut parts = Parts::default();
        parts.not_run("tests", "the build failed");
        assert!(parts.finish().is_err());
    }

    #[test]
    fn durations_are_readable() {
        for (millis, shown) in [(50, "0.1 s"), (3_210, "3.2 s"), (65_000, "1 min 05 s"), (3_600_000, "60 min 00 s")] {
            assert_eq!(seconds(Duration::from_millis(millis)), shown);
        }
    }
}
