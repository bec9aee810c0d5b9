//! The output engine: columns for `squeue` and `sinfo`, blocks for `scontrol show`.
//!
//! A field is one row of a table: letter, long name, header, and a function from the record to its text. The same row serves
//! `-o`, `-O`, sorting and `--helpformat`.

pub mod config;
pub mod job;
pub mod job_block;
pub mod license;
pub mod node_block;
pub mod partition_block;
pub mod reservation;
pub mod sacct;
pub mod sacct_fields;
pub mod sacct_json;
pub mod sinfo;
pub mod sinfo_fields;
pub mod squeue;
pub mod squeue_fields;
pub mod template;
pub mod words;

use gpun_core::TimeMs;
use jiff::tz::TimeZone;

use crate::moment::{self, Style};

/// What printing depends on besides the records. Nothing is read from the system here.
pub struct Shown<'a> {
    /// The cluster's time, in seconds since 1970.
    pub now_s: i64,
    /// The zone in which times are printed.
    pub zone: &'a TimeZone,
    /// How times are printed (`SLURM_TIME_FORMAT`).
    pub style: Style,
    /// The cluster's name.
    pub cluster: &'a str,
    /// A user's name, if there is one.
    pub user_name: &'a dyn Fn(u32) -> Option<String>,
    /// Memory for each CPU of a job that names none, in mebibytes, as the cluster's settings say.
    pub def_mem_per_cpu_mib: Option<u64>,
    /// The value of `SLURM_BITSTR_LEN`: how much of a task list is shown.
    pub bitstr_len: Option<String>,
    /// Memory without units.
    pub noconvert: bool,
}

impl Shown<'_> {
    /// A point in time.
    pub fn time(&self, at: TimeMs) -> String {
        let seconds = i64::try_from(at.as_s()).unwrap_or(i64::MAX);
        moment::show(seconds, self.now_s, self.zone, &self.style)
    }

    /// A point in time, or a word where there is none.
    pub fn time_or(&self, at: Option<TimeMs>, none: &str) -> String {
        at.filter(|t| t.0 > 0).map_or_else(|| none.to_owned(), |t| self.time(t))
    }

    /// The cluster's time.
    pub fn now(&self) -> TimeMs {
        TimeMs(u64::try_from(self.now_s).unwrap_or(0).saturating_mul(1000))
    }

    /// A user's name, or the number.
    pub fn user(&self, uid: u32) -> String {
        (self.user_name)(uid).unwrap_or_else(|| uid.to_string())
    }
}

/// What a command prints.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// For standard output.
    pub stdout: String,
    /// For standard error.
    pub stderr: String,
    /// The exit status.
    pub status: i32,
}

/// A value to sort by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A number.
    Number(i64),
    /// A text.
    Text(String),
    /// Two numbers, such as an array's id and a task.
    Pair(i64, i64),
}

/// One field to sort by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SortField {
    /// The letter.
    pub letter: char,
    /// Largest first.
    pub reverse: bool,
    /// In the order of the configuration (`#P`).
    pub natural: bool,
}

/// Reads `P,t,-p`; signs and `#` stand before their letter.
pub fn sort_fields(text: &str) -> Vec<SortField> {
    let mut out = Vec::new();
    let (mut reverse, mut natural) = (false, false);
    for c in text.chars() {
        match c {
            '-' => reverse = true,
            '+' => reverse = false,
            '#' => natural = true,
            ',' | ' ' => {}
            letter => {
                out.push(SortField { letter, reverse, natural });
                (reverse, natural) = (false, false);
            }
        }
    }
    out
}

/// Compares two rows of keys, each in its own direction.
fn compare_keys(a: &[Key], b: &[Key], fields: &[SortField]) -> std::cmp::Ordering {
    let pairs = a.iter().zip(b).zip(fields);
    let mut orders = pairs.map(|((x, y), f)| if f.reverse { y.cmp(x) } else { x.cmp(y) });
    orders.find(|o| o.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
}

/// Letters in rows of eight, as `--helpformat` prints them.
fn letter_list(letters: impl Iterator<Item = char>) -> String {
    let mut out = String::new();
    for (i, c) in letters.enumerate() {
        if i > 0 && i % 8 == 0 {
            out.push('\n');
        }
        out.push_str(&format!("%{c:<5}"));
    }
    out.push('\n');
    out
}

/// Names in rows of four, as `--helpFormat` prints them.
fn name_list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut out = String::new();
    for (i, name) in names.enumerate() {
        if i > 0 && i % 4 == 0 {
            out.push('\n');
        }
        out.push_str(&format!("{name:<20}"));
    }
    out.push('\n');
    out
}
