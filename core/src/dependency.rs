//! What a job waits for of other jobs: conditions, and how far each has come.

use minicbor::{Decode, Encode};

use crate::{JobId, TimeMs};

/// What must have happened to the other job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Kind {
    /// It has started or was cancelled; a delay may follow.
    #[n(0)]
    After,
    /// It has ended.
    #[n(1)]
    AfterAny,
    /// It has ended with success.
    #[n(2)]
    AfterOk,
    /// It has ended without success.
    #[n(3)]
    AfterNotOk,
    /// The task with the same number has ended with success.
    #[n(4)]
    AfterCorr,
    /// Its burst buffer is staged out: with its end, as there is none.
    #[n(5)]
    AfterBurstBuffer,
    /// No earlier job of the same name and user is left, and none runs.
    #[n(6)]
    Singleton,
}

impl Kind {
    /// True where a job that is not known any more can't be said to have met it.
    pub fn needs_outcome(self) -> bool {
        matches!(self, Self::AfterOk | Self::AfterNotOk | Self::AfterCorr)
    }
}

/// One condition on one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Condition {
    /// What must have happened.
    #[n(0)]
    pub kind: Kind,
    /// To which job; 0 for [`Kind::Singleton`].
    #[n(1)]
    pub job: JobId,
    /// To which of its tasks; to the whole job if not given.
    #[n(2)]
    pub task: Option<u32>,
    /// How long after that, in minutes; only [`Kind::After`] waits for it.
    #[cbor(n(3), default)]
    pub delay_min: u32,
    /// The job is an array, all of which is meant.
    #[cbor(n(4), default)]
    pub whole_array: bool,
    /// It can't be met any more.
    #[cbor(n(5), default)]
    pub failed: bool,
    /// A task of the array has ended without success.
    #[cbor(n(6), default)]
    pub fault_seen: bool,
    /// Met at this time; nothing else is waited for.
    #[n(7)]
    pub due: Option<TimeMs>,
}

impl Condition {
    /// A condition on a whole job, nothing of which has happened yet.
    pub fn new(kind: Kind, job: JobId) -> Self {
        Self { kind, job, task: None, delay_min: 0, whole_array: false, failed: false, fault_seen: false, due: None }
    }
}

/// All that a job waits for. A list without conditions stands for none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(map)]
pub struct Dependency {
    /// The conditions that are not met, in order.
    #[n(0)]
    pub conditions: Vec<Condition>,
    /// One is enough.
    #[cbor(n(1), default)]
    pub any: bool,
}

impl Dependency {
    /// True if it can't be met any more.
    pub fn is_lost(&self) -> bool {
        let mut failed = self.conditions.iter().map(|condition| condition.failed);
        if self.any { failed.all(|failed| failed) } else { failed.any(|failed| failed) }
    }

    /// The jobs that it waits for, each once.
    pub fn jobs(&self) -> Vec<JobId> {
        let mut jobs: Vec<JobId> =
            self.conditions.iter().filter(|one| one.kind != Kind::Singleton).map(|one| one.job).collect();
        jobs.sort_unstable();
        jobs.dedup();
        jobs
    }

    /// True if it waits for earlier jobs of the same name.
    pub fn has_singleton(&self) -> bool {
        self.conditions.iter().any(|condition| condition.kind == Kind::Singleton)
    }

    /// The next time at which a condition is met without an event.
    pub fn next_due(&self) -> Option<TimeMs> {
        self.conditions.iter().filter_map(|condition| condition.due).min()
    }
}
