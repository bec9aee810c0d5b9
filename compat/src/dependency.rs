//! `--dependency`: `afterok:1:2,afterany:3_4+5`, `singleton`, joined by `,` (all) or `?` (any).

use std::fmt;

/// The text describes no dependency. Slurm finds this in the controller, so its text is an error of the submission.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DependencyError {
    /// Nothing that can be read.
    #[error("Job dependency problem")]
    Invalid,
    /// A type that is not offered.
    #[error("Requested operation not supported on this system")]
    Unsupported,
}

/// What must have happened to the other job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It has started or was cancelled; a delay may follow.
    After,
    /// It has ended.
    AfterAny,
    /// It has ended with success.
    AfterOk,
    /// It has ended without success.
    AfterNotOk,
    /// The task with the same number has ended with success.
    AfterCorr,
    /// Its burst buffer is staged out.
    AfterBurstBuffer,
    /// No job of the same name and user runs.
    Singleton,
}

const KINDS: &[(&str, Kind)] = &[
    ("after", Kind::After),
    ("afterany", Kind::AfterAny),
    ("afterok", Kind::AfterOk),
    ("afternotok", Kind::AfterNotOk),
    ("aftercorr", Kind::AfterCorr),
    ("afterburstbuffer", Kind::AfterBurstBuffer),
    ("singleton", Kind::Singleton),
];

impl Kind {
    /// As it is written.
    pub fn name(self) -> &'static str {
        KINDS.iter().find(|(_, k)| *k == self).map_or("", |(n, _)| n)
    }
}

/// Which tasks of the other job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tasks {
    /// The whole job.
    Job,
    /// One task of the array.
    One(u32),
}

/// One condition on one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Condition {
    /// What must have happened.
    pub kind: Kind,
    /// To which job; 0 for [`Kind::Singleton`].
    pub job: u32,
    /// To which of its tasks.
    pub tasks: Tasks,
    /// How long after that, in minutes.
    pub delay_min: u32,
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())?;
        if self.kind == Kind::Singleton {
            return Ok(());
        }
        write!(f, ":{}", self.job)?;
        if let Tasks::One(task) = self.tasks {
            write!(f, "_{task}")?;
        }
        if self.delay_min > 0 { write!(f, "+{}", self.delay_min) } else { Ok(()) }
    }
}

/// All that a job waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    /// The conditions, in order.
    pub conditions: Vec<Condition>,
    /// One is enough.
    pub any: bool,
}

impl fmt::Display for Dependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joint = if self.any { "?" } else { "," };
        for (i, c) in self.conditions.iter().enumerate() {
            write!(f, "{}{c}", if i > 0 { joint } else { "" })?;
        }
        Ok(())
    }
}

/// Reads a dependency. A bare number is `afterany`.
///
/// # Errors
/// [`DependencyError`].
pub fn parse(text: &str) -> Result<Dependency, DependencyError> {
    let any = text.contains('?');
    let mut conditions = Vec::new();
    // Slurm accepts a mixture of the two and then takes every one for "any".
    for part in text.split([',', '?']) {
        group(part, &mut conditions)?;
    }
    Ok(Dependency { conditions, any })
}

fn group(part: &str, out: &mut Vec<Condition>) -> Result<(), DependencyError> {
    let (word, jobs) = match part.split_once(':') {
        Some((w, j)) => (w, Some(j)),
        None if part.starts_with(|c: char| c.is_ascii_digit()) => ("afterany", Some(part)),
        None => (part, None),
    };
    if word == "expand" {
        return Err(DependencyError::Unsupported);
    }
    let kind = KINDS.iter().find(|(n, _)| *n == word).map(|(_, k)| *k).ok_or(DependencyError::Invalid)?;
    match (kind, jobs) {
        (Kind::Singleton, None) => {
            out.push(Condition { kind, job: 0, tasks: Tasks::Job, delay_min: 0 });
            Ok(())
        }
        (Kind::Singleton, Some(_)) | (_, None) => Err(DependencyError::Invalid),
        (_, Some(jobs)) => jobs.split(':').try_for_each(|job| {
            out.push(condition(kind, job)?);
            Ok(())
        }),
    }
}

fn condition(kind: Kind, text: &str) -> Result<Condition, DependencyError> {
    let number = |t: &str| {
        let plain = !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
        if plain { t.parse::<u32>().map_err(|_| DependencyError::Invalid) } else { Err(DependencyError::Invalid) }
    };
    let (id, delay) = text.split_once('+').map_or((text, None), |(i, d)| (i, Some(d)));
    let delay_min = delay.map_or(Ok(0), number)?;
    let (job, tasks) = match id.split_once('_') {
        None | Some((_, "*")) => (id.split('_').next().unwrap_or(id), Tasks::Job),
        Some((job, task)) => (job, Tasks::One(number(task)?)),
    };
    let job = number(job)?;
    if job == 0 {
        return Err(DependencyError::Invalid);
    }
    Ok(Condition { kind, job, tasks, delay_min })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_read() {
        for (text, want) in [
            ("afterok:7", Ok("afterok:7")),
            ("afterok:1:2", Ok("afterok:1,afterok:2")),
            ("after:1+5", Ok("after:1+5")),
            ("afterany:1+5", Ok("afterany:1+5")),
            ("singleton", Ok("singleton")),
            ("1", Ok("afterany:1")),
            ("1,2", Ok("afterany:1,afterany:2")),
            ("aftercorr:1_2", Ok("aftercorr:1_2")),
            ("afterok:1_*", Ok("afterok:1")),
            ("afterok:1,afterany:2", Ok("afterok:1,afterany:2")),
            ("afterok:1?afterany:2", Ok("afterok:1?afterany:2")),
            ("afterok:1,afterany:2?after:1", Ok("afterok:1?afterany:2?after:1")),
            ("afterburstbuffer:3", Ok("afterburstbuffer:3")),
            ("expand:1", Err("Requested operation not supported on this system")),
            ("foo", Err("Job dependency problem")),
            ("afterok", Err("Job dependency problem")),
            ("afterok:", Err("Job dependency problem")),
            ("afterok:x", Err("Job dependency problem")),
            ("afterok:1,", Err("Job dependency problem")),
            ("afterok: 1", Err("Job dependency problem")),
            ("AFTEROK:1", Err("Job dependency problem")),
            ("singleton:1", Err("Job dependency problem")),
            ("afterok:0", Err("Job dependency problem")),
            ("", Err("Job dependency problem")),
        ] {
            let got = parse(text).map(|d| d.to_string()).map_err(|e| e.to_string());
            assert_eq!(got, want.map(str::to_owned).map_err(str::to_owned), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_answered(text in "[afteroksingl0-9:,?+_*]{0,24}") {
            if let Ok(d) = parse(&text) {
                proptest::prop_assert_eq!(parse(&d.to_string()).unwrap(), d);
            }
        }
    }
}
