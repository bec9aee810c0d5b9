//! Reports on their way to the replicated log.
//!
//! They are not kept here but derived from the ledger: a new stream starts from all that is not taken.

use std::collections::{BTreeMap, VecDeque};

use gpun_core::command::{JobEvent, JobReport};

use crate::agent::Key;

/// Most reports in one message.
const BATCH_MAX: usize = 1000;

/// What a report said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// That it started.
    Started(Key),
    /// That it ended.
    Ended(Key),
    /// That a step of it ended: the next document says so too.
    StepEnded(Key),
}

/// Reports that wait for the next message, and those under way.
#[derive(Debug)]
pub struct Outbox {
    next: u64,
    waiting: VecDeque<JobReport>,
    under_way: BTreeMap<u64, Vec<Said>>,
}

impl Outbox {
    /// Messages are counted up from `first`, which must be above any number used before.
    pub fn new(first: u64) -> Self {
        Self { next: first, waiting: VecDeque::new(), under_way: BTreeMap::new() }
    }

    /// A stream was lost: what was waiting or under way comes again from the ledger.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.under_way.clear();
    }

    /// Puts reports behind those that wait.
    pub fn push(&mut self, reports: impl IntoIterator<Item = JobReport>) {
        self.waiting.extend(reports);
    }

    /// True if nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The next message and its number.
    pub fn next_batch(&mut self) -> Option<(u64, Vec<JobReport>)> {
        if self.waiting.is_empty() {
            return None;
        }
        let batch: Vec<JobReport> = self.waiting.drain(..self.waiting.len().min(BATCH_MAX)).collect();
        let number = self.next;
        self.next += 1;
        self.under_way.insert(number, batch.iter().map(said).collect());
        Some((number, batch))
    }

    /// What is now in the replicated log.
    pub fn taken(&mut self, number: u64) -> Vec<Said> {
        let later = number.checked_add(1).map(|next| self.under_way.split_off(&next)).unwrap_or_default();
        std::mem::replace(&mut self.under_way, later).into_values().flatten().collect()
    }
}

fn said(report: &JobReport) -> Said {
    let key = Key { job: report.job, attempt: report.attempt };
    match report.event {
        JobEvent::Launched { .. } => Said::Started(key),
        JobEvent::Ended(_) => Said::Ended(key),
        JobEvent::StepEnded(_) => Said::StepEnded(key),
    }
}

#[cfg(test)]
mod tests {
    use gpun_core::TimeMs;

    use super::*;

    fn started(job: u32) -> JobReport {
        let key = Key::new(job, 1);
        JobReport { job: key.job, attempt: key.attempt, event: JobEvent::Launched { at: TimeMs(5) } }
    }

    fn keys(said: Vec<Said>) -> Vec<u32> {
        said.into_iter()
            .map(|said| match said {
                Said::Started(key) | Said::Ended(key) | Said::StepEnded(key) => key.job.0,
            })
            .collect()
    }

    #[test]
    fn a_number_stands_for_all_up_to_it() {
        let mut outbox = Outbox::new(100);
        assert!(outbox.next_batch().is_none());
        for job in 1..=3 {
            outbox.push([started(job)]);
            assert_eq!(
                outbox.next_batch().map(|(number, batch)| (number, batch.len())),
                Some((99 + u64::from(job), 1))
            );
        }
        assert_eq!(keys(outbox.taken(99)), [0; 0]);
        assert_eq!(keys(outbox.taken(101)), [1, 2]);
        assert_eq!(keys(outbox.taken(101)), [0; 0]);
        assert_eq!(keys(outbox.taken(u64::MAX)), [3]);
    }

    #[test]
    fn much_is_sent_in_several_messages_and_a_lost_stream_forgets() {
        let mut outbox = Outbox::new(0);
        outbox.push((0..2500).map(started));
        let sizes: Vec<usize> = std::iter::from_fn(|| outbox.next_batch()).map(|(_, batch)| batch.len()).collect();
        assert_eq!(sizes, [1000, 1000, 500]);
        outbox.push([started(7)]);
        outbox.clear();
        assert!(outbox.is_empty() && outbox.taken(u64::MAX).is_empty());
        outbox.push([started(7)]);
        assert_eq!(outbox.next_batch().map(|(number, _)| number), Some(3), "numbers go on");
    }
}
