//! How tasks ended, in Slurm's words.

use std::collections::BTreeMap;

use gpun_compat::hostlist;

/// How one task ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct End {
    /// Exit code.
    pub code: u8,
    /// Signal; 0: none.
    pub signal: u8,
    /// The kernel killed it for want of memory.
    pub oom: bool,
}

impl End {
    /// What srun's own exit status becomes of it.
    pub fn status(self) -> u8 {
        if self.signal > 0 { 128u8.saturating_add(self.signal) } else { self.code }
    }

    fn words(self) -> String {
        match (self.signal, self.oom) {
            (_, true) => "Out Of Memory".to_owned(),
            (0, _) => format!("Exited with exit code {}", self.code),
            (signal, _) => killed_by(signal),
        }
    }
}

/// What strsignal(3) of the GNU C library says.
fn killed_by(signal: u8) -> String {
    let text = match signal {
        1 => "Hangup",
        2 => "Interrupt",
        3 => "Quit",
        4 => "Illegal instruction",
        5 => "Trace/breakpoint trap",
        6 => "Aborted",
        7 => "Bus error",
        8 => "Floating point exception",
        9 => "Killed",
        10 => "User defined signal 1",
        11 => "Segmentation fault",
        12 => "User defined signal 2",
        13 => "Broken pipe",
        14 => "Alarm clock",
        15 => "Terminated",
        24 => "CPU time limit exceeded",
        25 => "File size limit exceeded",
        other => return format!("Unknown signal {other}"),
    };
    text.to_owned()
}

/// The ends of a step's tasks, as they come in.
#[derive(Debug, Default)]
pub struct Ends {
    ends: BTreeMap<u32, End>,
    told: Vec<u32>,
}

impl Ends {
    /// A task ended.
    pub fn add(&mut self, task: u32, end: End) {
        self.ends.entry(task).or_insert(end);
    }

    /// How many tasks ended.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// Whether this task ended.
    pub fn has(&self, task: u32) -> bool {
        self.ends.contains_key(&task)
    }

    /// Whether a task ended with an error.
    pub fn any_bad(&self) -> bool {
        self.ends.values().any(|end| end.status() != 0)
    }

    /// Whether a signal ended a task.
    pub fn any_killed(&self) -> bool {
        self.ends.values().any(|end| end.signal != 0)
    }

    /// srun's exit status: the highest of the tasks'.
    pub fn status(&self) -> u8 {
        self.ends.values().map(|end| end.status()).max().unwrap_or(0)
    }

    /// Lines for those that ended badly and were not told of yet; alike ones together.
    pub fn tell(&mut self, node: &str) -> Vec<String> {
        let mut alike: BTreeMap<End, Vec<u32>> = BTreeMap::new();
        for (task, end) in &self.ends {
            if end.status() != 0 && !self.told.contains(task) {
                alike.entry(*end).or_default().push(*task);
            }
        }
        self.told.extend(alike.values().flatten());
        let mut groups: Vec<_> = alike.into_iter().collect();
        groups.sort_by_key(|(_, tasks)| tasks.first().copied());
        groups
            .into_iter()
            .map(|(end, tasks)| format!("srun: error: {node}: {}: {}", named(&tasks), end.words()))
            .collect()
    }
}

/// `task 0`, `tasks 0-3,7`.
pub fn named(tasks: &[u32]) -> String {
    let names: Vec<String> = tasks.iter().map(u32::to_string).collect();
    match names.as_slice() {
        [one] => format!("task {one}"),
        many => {
            let list = hostlist::compress(many.iter().map(String::as_str));
            format!("tasks {}", list.trim_start_matches('[').trim_end_matches(']'))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_told_once_and_together() {
        let mut ends = Ends::default();
        let end = |code, signal| End { code, signal, oom: false };
        for task in [0, 1, 2, 5] {
            ends.add(task, end(2, 0));
        }
        ends.add(3, end(0, 0));
        ends.add(4, end(0, 9));
        assert_eq!(
            ends.tell("n5"),
            ["srun: error: n5: tasks 0-2,5: Exited with exit code 2", "srun: error: n5: task 4: Killed"]
        );
        assert_eq!(ends.tell("n5"), [""; 0]);
        assert_eq!((ends.status(), ends.count(), ends.any_killed()), (137, 6, true));
        ends.add(6, End { code: 0, signal: 9, oom: true });
        assert_eq!(ends.tell("n5"), ["srun: error: n5: task 6: Out Of Memory"]);
    }
}
