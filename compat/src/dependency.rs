//! `--dependency`: `afterok:1:2,afterany:3_4`, `after:5+10`, `singleton`, joined by `,` (all) or `?` (any).

use gpun_core::JobId;
use gpun_core::dependency::{Condition, Dependency, Kind};

use crate::array;

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

const KINDS: &[(&str, Kind)] = &[
    ("after", Kind::After),
    ("afterany", Kind::AfterAny),
    ("afterok", Kind::AfterOk),
    ("afternotok", Kind::AfterNotOk),
    ("aftercorr", Kind::AfterCorr),
    ("afterburstbuffer", Kind::AfterBurstBuffer),
    ("singleton", Kind::Singleton),
];

/// Most conditions of one job: what a list of tasks stands for counts one by one.
const CONDITIONS_MAX: usize = 10_000;

fn write(condition: &Condition, out: &mut String) {
    out.push_str(KINDS.iter().find(|(_, kind)| *kind == condition.kind).map_or("", |(name, _)| name));
    if condition.kind == Kind::Singleton {
        return;
    }
    out.push_str(&format!(":{}", condition.job));
    match condition.task {
        Some(task) => out.push_str(&format!("_{task}")),
        None if condition.whole_array => out.push_str("_*"),
        None => {}
    }
    if condition.delay_min > 0 {
        out.push_str(&format!("+{}", condition.delay_min));
    }
}

fn join(dependency: &Dependency, mut one: impl FnMut(&Condition, &mut String)) -> String {
    let mut out = String::new();
    for condition in &dependency.conditions {
        if !out.is_empty() {
            out.push(if dependency.any { '?' } else { ',' });
        }
        one(condition, &mut out);
    }
    out
}

/// As it was asked for.
pub fn text(dependency: &Dependency) -> String {
    join(dependency, write)
}

/// With how far each condition is: `afterok:7(unfulfilled),afterany:8_*(failed)`.
pub fn show(dependency: &Dependency) -> String {
    join(dependency, |condition, out| {
        write(condition, out);
        out.push_str(if condition.failed { "(failed)" } else { "(unfulfilled)" });
    })
}

/// Reads a dependency. A bare number is `afterany`.
///
/// # Errors
/// [`DependencyError`].
pub fn parse(text: &str) -> Result<Dependency, DependencyError> {
    let any = text.contains('?');
    let mut conditions = Vec::new();
    // Slurm accepts a mixture of the two and then takes every one for "any".
    let mut inside = false;
    let joint = |c: char| {
        match c {
            '[' => inside = true,
            ']' => inside = false,
            _ => {}
        }
        !inside && matches!(c, ',' | '?')
    };
    for part in text.split(joint) {
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
            out.push(Condition::new(kind, JobId(0)));
            Ok(())
        }
        (Kind::Singleton, Some(_)) | (_, None) => Err(DependencyError::Invalid),
        (_, Some(jobs)) => jobs.split(':').try_for_each(|job| conditions(kind, job, out)),
    }
}

/// One job, or one condition for each task of a list.
fn conditions(kind: Kind, text: &str, out: &mut Vec<Condition>) -> Result<(), DependencyError> {
    let number = |t: &str| {
        let plain = !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
        if plain { t.parse::<u32>().map_err(|_| DependencyError::Invalid) } else { Err(DependencyError::Invalid) }
    };
    let (id, delay) = text.split_once('+').map_or((text, None), |(i, d)| (i, Some(d)));
    let delay_min = delay.map_or(Ok(0), number)?;
    let (job, tasks) = id.split_once('_').map_or((id, None), |(job, tasks)| (job, Some(tasks)));
    let job = JobId(number(job)?);
    if job.0 == 0 {
        return Err(DependencyError::Invalid);
    }
    let one = Condition { delay_min, ..Condition::new(kind, job) };
    match tasks {
        None => out.push(one),
        Some("*") => out.push(Condition { whole_array: true, ..one }),
        Some(list) => match list.strip_prefix('[').map(|list| list.strip_suffix(']')) {
            None => out.push(Condition { task: Some(number(list)?), ..one }),
            Some(list) => {
                let list = list.filter(|list| !list.contains('%')).and_then(|list| array::parse(list).ok());
                let tasks = list.ok_or(DependencyError::Invalid)?.tasks;
                if tasks.len() > CONDITIONS_MAX as u64 {
                    return Err(DependencyError::Invalid);
                }
                out.extend(tasks.iter().map(|task| Condition { task: Some(task), ..one }));
            }
        },
    }
    if out.len() > CONDITIONS_MAX { Err(DependencyError::Invalid) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_read() {
        for (given, want) in [
            ("afterok:7", Ok("afterok:7")),
            ("afterok:1:2", Ok("afterok:1,afterok:2")),
            ("after:1+5", Ok("after:1+5")),
            ("afterany:1+5", Ok("afterany:1+5")),
            ("singleton", Ok("singleton")),
            ("1", Ok("afterany:1")),
            ("1,2", Ok("afterany:1,afterany:2")),
            ("aftercorr:1_2", Ok("aftercorr:1_2")),
            ("afterok:1_*", Ok("afterok:1_*")),
            ("afterok:1_[0-2,5]", Ok("afterok:1_0,afterok:1_1,afterok:1_2,afterok:1_5")),
            ("afterok:1_[0-2,singleton", Err("Job dependency problem")),
            ("afterok:1_[0-4000000000]", Err("Job dependency problem")),
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
            let got = parse(given).map(|d| text(&d)).map_err(|e| e.to_string());
            assert_eq!(got, want.map(str::to_owned).map_err(str::to_owned), "{given}");
        }
    }

    #[test]
    fn how_far_each_condition_is() {
        let mut asked = parse("afterok:1,afterany:2_*").unwrap();
        asked.conditions[0].failed = true;
        assert_eq!(show(&asked), "afterok:1(failed),afterany:2_*(unfulfilled)");
        asked.any = true;
        assert_eq!(show(&asked), "afterok:1(failed)?afterany:2_*(unfulfilled)");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_answered(given in "[afteroksingl0-9:,?+_*\\[\\]-]{0,24}") {
            if let Ok(d) = parse(&given) {
                proptest::prop_assert_eq!(parse(&text(&d)).unwrap(), d);
            }
        }
    }
}
