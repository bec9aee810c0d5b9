//! Job arrays: `--array=0-15:4%3`, and sets of task numbers as they are printed.

use std::fmt::Write as _;

use gpun_core::IndexSet;
use gpun_core::index_set::Range;

/// The highest task number that may be written; the cluster's own limit is checked at submission.
pub const MAX_TASK: u32 = 4_000_001;

/// How much of a task list `squeue` prints before `...`, unless `SLURM_BITSTR_LEN` says otherwise.
pub const DEFAULT_SHOWN_LEN: usize = 64;

/// The text describes no array. Slurm finds this in the controller, so its text is an error of the submission.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Invalid job array specification")]
pub struct ArrayError;

/// The tasks that were asked for, and how many may run at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArraySpec {
    /// Task numbers.
    pub tasks: IndexSet,
    /// How many may run at the same time; `None`: all.
    pub max_running: Option<u32>,
}

/// Numbers in ranges with steps, all of them together: such ranges may cross each other, and are then spelled out.
const STEPPED_MAX: u64 = 4 * (MAX_TASK as u64 + 1);

/// Reads `0-3`, `1,3,5`, `0-15:4`, `[1-7]%2` and so on. `%0` and a bare `%` mean no limit.
///
/// # Errors
/// [`ArrayError`] for falling ranges, steps of 0 or without a range, anything that is no number, and for task numbers
/// above [`MAX_TASK`]. Also for ranges with steps that name more than four times as many numbers together.
pub fn parse(text: &str) -> Result<ArraySpec, ArrayError> {
    let (list, throttle) = match text.split_once('%') {
        Some((l, t)) => (l, number_or_nothing(t)?),
        None => (text, None),
    };
    let list = list.strip_prefix('[').and_then(|l| l.strip_suffix(']')).unwrap_or(list);
    let mut ranges = Vec::new();
    for part in list.split(',').filter(|p| !p.is_empty()) {
        ranges.push(range(part)?);
    }
    let stepped = ranges.iter().filter(|range| range.step > 1).map(|range| range.count());
    if ranges.is_empty() || stepped.sum::<u64>() > STEPPED_MAX {
        return Err(ArrayError);
    }
    Ok(ArraySpec { tasks: IndexSet::from_ranges(ranges), max_running: throttle.filter(|n| *n > 0) })
}

fn number_or_nothing(text: &str) -> Result<Option<u32>, ArrayError> {
    if text.is_empty() { Ok(None) } else { number(text).map(Some) }
}

fn number(text: &str) -> Result<u32, ArrayError> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let n: u32 = if plain { text.parse().map_err(|_| ArrayError)? } else { return Err(ArrayError) };
    if n <= MAX_TASK { Ok(n) } else { Err(ArrayError) }
}

fn range(part: &str) -> Result<Range, ArrayError> {
    let (span, step) = match part.split_once(':') {
        Some((span, step)) if span.contains('-') => (span, number(step)?),
        Some(_) => return Err(ArrayError),
        None => (part, 1),
    };
    let (lo, hi) = span.split_once('-').unwrap_or((span, span));
    Range::new(number(lo)?, number(hi)?, step).ok_or(ArrayError)
}

/// A longer list of evenly spaced numbers is printed as `first-last:step`.
const LISTED_LEN: usize = 14;

/// A set as Slurm prints it: runs of neighbours as `a-b`, everything else one by one (`0,4,8`, `1-3,7`), but a long row
/// of evenly spaced numbers as `0-900:2`.
pub fn show(tasks: &IndexSet) -> String {
    match even(tasks) {
        Some(r) if show_up_to(tasks, LISTED_LEN).len() > LISTED_LEN => format!("{}-{}:{}", r.first, r.last, r.step),
        _ => show_up_to(tasks, usize::MAX),
    }
}

/// The whole set as one range with a step above 1.
fn even(tasks: &IndexSet) -> Option<Range> {
    let mut numbers = tasks.iter();
    let (first, second) = (numbers.next()?, numbers.next()?);
    let step = second - first;
    let last = tasks.last()?;
    let evenly = step > 1 && (u64::from((last - first) / step) + 1) == tasks.len() && {
        let rest = numbers.zip(std::iter::successors(second.checked_add(step), |n| n.checked_add(step)));
        rest.into_iter().all(|(have, want)| have == want)
    };
    if evenly { Range::new(first, last, step) } else { None }
}

/// How many bytes of a task list are shown: the meaning of `SLURM_BITSTR_LEN`. 0: all.
pub fn shown_len(env: Option<&str>) -> usize {
    match env {
        None => DEFAULT_SHOWN_LEN,
        Some("") => 0,
        Some(text) => text.parse().unwrap_or(DEFAULT_SHOWN_LEN),
    }
}

/// As [`show`], cut to less than `len` bytes, the last of them `...`; 0: never cut.
pub fn show_short(tasks: &IndexSet, len: usize) -> String {
    let full = show(tasks);
    if len == 0 || full.len() < len {
        return full;
    }
    let dots = 3.min(len - 1);
    let keep = (len - 1).saturating_sub(dots);
    format!("{}{}", full.get(..keep).unwrap_or(""), "...".get(..dots).unwrap_or(""))
}

/// Prints until `enough` bytes are there; never walks a million tasks to print sixty characters.
fn show_up_to(tasks: &IndexSet, enough: usize) -> String {
    let mut out = String::new();
    let mut run: Option<(u32, u32)> = None;
    for r in tasks.ranges() {
        let dense = r.step == 1 || r.first == r.last;
        let singles = (r.first..=r.last).step_by(r.step.max(1) as usize);
        if dense {
            extend(&mut out, &mut run, r.first, r.last);
        } else {
            for n in singles {
                extend(&mut out, &mut run, n, n);
                if out.len() > enough {
                    return out;
                }
            }
        }
        if out.len() > enough {
            return out;
        }
    }
    flush(&mut out, run);
    out
}

fn extend(out: &mut String, run: &mut Option<(u32, u32)>, first: u32, last: u32) {
    match run {
        Some((_, end)) if end.checked_add(1) == Some(first) => *end = last,
        _ => {
            flush(out, *run);
            *run = Some((first, last));
        }
    }
}

fn flush(out: &mut String, run: Option<(u32, u32)>) {
    let Some((first, last)) = run else { return };
    let comma = if out.is_empty() { "" } else { "," };
    // Writing to a String cannot fail.
    let _ = if first == last { write!(out, "{comma}{first}") } else { write!(out, "{comma}{first}-{last}") };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_read_and_shown_as_slurm_does() {
        for (text, want) in [
            ("0-3", Some(("0-3", None))),
            ("0-3%2", Some(("0-3", Some(2)))),
            ("1,3,5", Some(("1,3,5", None))),
            ("1-7:2", Some(("1,3,5,7", None))),
            ("5", Some(("5", None))),
            ("0-0", Some(("0", None))),
            ("0-3%0", Some(("0-3", None))),
            ("1,1", Some(("1", None))),
            ("01-03", Some(("1-3", None))),
            ("[1-3]", Some(("1-3", None))),
            ("1-3,2-4", Some(("1-4", None))),
            ("1,,2", Some(("1-2", None))),
            ("0-15:4%3", Some(("0,4,8,12", Some(3)))),
            ("1-3%", Some(("1-3", None))),
            ("1-5:2,7,9-10", Some(("1,3,5,7,9-10", None))),
            ("0-4:5", Some(("0", None))),
            ("0-10:3,11-20:3", Some(("0,3,6,9,11,14,17,20", None))),
            ("0,2,4,6,7,8,10", Some(("0,2,4,6-8,10", None))),
            ("0-2000000", Some(("0-2000000", None))),
            ("0-10:2", Some(("0,2,4,6,8,10", None))),
            ("0-12:2", Some(("0-12:2", None))),
            ("0-40:10", Some(("0,10,20,30,40", None))),
            ("0-50:10", Some(("0-50:10", None))),
            ("0-1000:200", Some(("0-1000:200", None))),
            ("1,3,5,7,9,11,13,15,17%4", Some(("1-17:2", Some(4)))),
            ("0,2,4,6,8,10,12,14,16,18,20,22,23", Some(("0,2,4,6,8,10,12,14,16,18,20,22-23", None))),
            ("0-4:2,3", Some(("0,2-4", None))),
            ("0-10:2,1-11:2", Some(("0-11", None))),
            ("0-10:2,0-10:5", Some(("0,2,4-6,8,10", None))),
            ("3-1", None),
            ("a", None),
            ("1-", None),
            ("1,a", None),
            ("1:2", None),
            ("1 2", None),
            ("", None),
            ("-1", None),
            ("0-10:0", None),
            ("0-99999999999", None),
            ("%2", None),
            ("1-3%a", None),
            ("1-5%-1", None),
        ] {
            let got = parse(text).ok().map(|a| (show(&a.tasks), a.max_running));
            assert_eq!(got, want.map(|(s, m)| (s.to_owned(), m)), "{text}");
        }
    }

    #[test]
    fn ranges_that_cross_each_other_cost_what_they_name() {
        for (text, want) in [
            ("0-4000000:2,1-4000000:2".to_owned(), Some(4_000_001)),
            ("0-4000000:2,0-4000000:3".to_owned(), Some(2_666_668)),
            ("0-4000000,".repeat(10_000), Some(4_000_001)),
            ((0..4000).map(|n| format!("{n}-{},", n + 4000)).collect(), Some(8000)),
            ((0..20_000).map(|n| format!("{},", n * 2)).collect(), Some(20_000)),
            ("0-4000000:2,".repeat(9), None),
        ] {
            assert_eq!(parse(&text).ok().map(|spec| spec.tasks.len()), want, "{text:.40}");
        }
    }

    #[test]
    fn long_lists_are_cut() {
        let tasks =
            parse(&((0..=300).step_by(3).map(|n| n.to_string()).collect::<Vec<_>>().join(",") + ",500")).unwrap().tasks;
        for (len, want) in [
            (5, "0..."),
            (10, "0,3,6,..."),
            (20, "0,3,6,9,12,15,18..."),
            (22, "0,3,6,9,12,15,18,2..."),
            (64, "0,3,6,9,12,15,18,21,24,27,30,33,36,39,42,45,48,51,54,57,60,6..."),
        ] {
            assert_eq!(show_short(&tasks, len), want);
        }
        assert_eq!(show_short(&parse("2-5").unwrap().tasks, 3), "..");
        assert_eq!(show_short(&tasks, 0).len(), show(&tasks).len());
        let lens = [(None, 64), (Some(""), 0), (Some("0"), 0), (Some("-1"), 64), (Some("9"), 9)];
        assert!(lens.iter().all(|(env, want)| shown_len(*env) == *want));
    }

    proptest::proptest! {
        #[test]
        fn shown_sets_read_back(numbers in proptest::collection::btree_set(0u32..500, 1..60)) {
            let set: IndexSet = numbers.iter().copied().collect();
            let back = parse(&show(&set)).unwrap();
            proptest::prop_assert!(back.tasks.same_members(&set));
        }

        #[test]
        fn any_text_is_answered(text in "[0-9,:%\\-\\[\\] a]{0,20}", len in 0usize..80) {
            if let Ok(a) = parse(&text) {
                let shown = show_short(&a.tasks, len);
                proptest::prop_assert!(len == 0 || shown.len() < len.max(1));
            }
        }
    }
}
