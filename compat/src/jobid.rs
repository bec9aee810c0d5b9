//! Job ids as users write them: `17`, `17_3`, `17_[1-4,9]`, `17_*`, `17+1`, `17.0`, `17.batch`.

use gpun_core::command::JobRef;
use gpun_core::{IndexSet, JobId};

use crate::array;

/// A job, an array, some of its tasks, or a step of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector {
    /// The number in front.
    pub job: u32,
    /// Only these tasks of the array.
    pub tasks: Option<IndexSet>,
    /// Only this component of a heterogeneous job.
    pub component: Option<u32>,
    /// Only this step: a number, `batch`, `extern` or `interactive`.
    pub step: Option<String>,
}

impl Selector {
    /// For the controller, without the step.
    pub fn reference(&self) -> JobRef {
        JobRef { job: JobId(self.job), tasks: self.tasks.clone(), component: self.component }
    }
}

/// Reads one id; `None` where it is none, 0, or larger than any.
pub fn parse(text: &str) -> Option<Selector> {
    parse_numeric(text).flatten()
}

/// Reads one id; the inner `None` is a number that no job can have.
pub fn parse_numeric(text: &str) -> Option<Option<Selector>> {
    let (id, step) = match text.split_once('.') {
        Some((id, step)) => (id, Some(step)),
        None => (text, None),
    };
    let named = |s: &str| matches!(s, "batch" | "extern" | "interactive");
    if step.is_some_and(|s| s.is_empty() || !(named(s) || s.bytes().all(|b| b.is_ascii_digit()))) {
        return None;
    }
    let (id, component) = match id.split_once('+') {
        Some((id, component)) if !component.is_empty() && component.bytes().all(|b| b.is_ascii_digit()) => {
            (id, Some(component.parse().ok()?))
        }
        Some(_) => return None,
        None => (id, None),
    };
    let (job, tasks) = match id.split_once('_') {
        Some((job, "*")) => (job, None),
        Some((job, list)) => (job, Some(tasks(list)?)),
        None => (id, None),
    };
    if job.is_empty() || !job.bytes().all(|b| b.is_ascii_digit()) || job.bytes().all(|b| b == b'0') {
        return None;
    }
    Some(job.parse().ok().map(|job| Selector { job, tasks, component, step: step.map(str::to_owned) }))
}

fn tasks(list: &str) -> Option<IndexSet> {
    let bracketed = list.strip_prefix('[').map(|l| l.strip_suffix(']'));
    match bracketed {
        Some(inner) => inner.filter(|i| !i.contains('%')).and_then(|i| array::parse(i).ok()).map(|a| a.tasks),
        None if !list.is_empty() && list.bytes().all(|b| b.is_ascii_digit()) => {
            array::parse(list).ok().map(|a| a.tasks)
        }
        None => None,
    }
}

/// Cuts at commas outside brackets.
pub fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    text.split(move |c: char| {
        match c {
            '[' => inside = true,
            ']' => inside = false,
            _ => {}
        }
        c == ',' && !inside
    })
    .filter(|p| !p.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read() {
        for (text, want) in [
            ("17", Some((17, None, None))),
            ("17_3", Some((17, Some("3"), None))),
            ("17_[1-3,9]", Some((17, Some("1-3,9"), None))),
            ("17_*", Some((17, None, None))),
            ("17.0", Some((17, None, Some("0")))),
            ("17_3.batch", Some((17, Some("3"), Some("batch")))),
            ("0", None),
            ("junk", None),
            ("1x", None),
            ("1_x", None),
            ("1.x", None),
            ("1_[1-", None),
            ("1_[1-3%2]", None),
            ("1+", None),
            ("1+x", None),
            ("-1", None),
            ("", None),
            ("99999999999", None),
        ] {
            let got = parse(text).map(|s| (s.job, s.tasks.map(|t| array::show(&t)), s.step));
            let want = want
                .map(|(j, t, s): (u32, Option<&str>, Option<&str>)| (j, t.map(str::to_owned), s.map(str::to_owned)));
            assert_eq!(got, want, "{text}");
        }
        let component = parse("17+2").map(|s| (s.job, s.component, s.reference().component));
        assert_eq!(component, Some((17, Some(2), Some(2))));
        assert_eq!(split("1,2_[3,4],,5").collect::<Vec<_>>(), ["1", "2_[3,4]", "5"]);
        assert_eq!(parse_numeric("99999999999"), Some(None));
    }
}
