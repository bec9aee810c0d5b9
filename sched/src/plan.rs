//! What a plan says.

use std::collections::BTreeMap;

use gpun_core::{
    JobId, NodeId, State, TimeMs,
    command::Placement,
    job::{Job, JobState, Reason},
};

use crate::standing;

/// The outcome of planning: what to start now, and why the rest waits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// The time that the plan was made for.
    pub made_at: TimeMs,
    /// What to start, in the order to apply. Each is checked again by `apply`.
    pub placements: Vec<Placement>,
    /// Jobs to start together or not at all: components of heterogeneous jobs.
    pub together: Vec<Vec<Placement>>,
    /// Verdicts that the job and its partition alone don't tell. Ask [`Plan::verdict`] instead of looking here.
    pub verdicts: BTreeMap<JobId, Verdict>,
    /// The first job that waits for resources in each partition: all later ones of the partition stand behind it.
    pub blocked: BTreeMap<String, JobId>,
    /// When to plan again though no entry was applied: a begin time comes.
    pub next_due: Option<TimeMs>,
    /// The plan ended at [`crate::PlanLimits::placements_max`]: plan again once its placements are applied.
    pub unfinished: bool,
    /// How many waiting records it looked at.
    pub looked_at: u64,
}

/// What the planner decided of a job that it did not start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verdict {
    /// Why it waits; `None` where no plan has looked at it yet.
    pub reason: Reason,
    /// When it is expected to start, if that is known.
    pub start_estimate: Option<TimeMs>,
    /// The nodes where room is kept for it, in the order of its allocation.
    pub planned_nodes: Vec<NodeId>,
    /// Nodes that it named and that take no jobs now.
    pub unavailable_nodes: Vec<NodeId>,
    /// It would fit, were more of the nodes that are down or drained in service.
    pub needs_down_nodes: bool,
    /// Nodes that it could use are reserved for maintenance before it would have ended.
    pub reserved_for_maintenance: bool,
    /// The job that stands before it, if that is what it waits for.
    pub behind: Option<JobId>,
}

impl Verdict {
    pub(crate) fn of(reason: Reason) -> Self {
        Self { reason, ..Self::default() }
    }
}

impl Plan {
    /// The verdict of any job that waits, whether the plan came to look at it or not; jobs that do not wait have none.
    pub fn verdict(&self, state: &State, job: &Job) -> Option<Verdict> {
        if job.state != JobState::Pending {
            return None;
        }
        if let Some(verdict) = self.verdicts.get(&job.id) {
            return Some(verdict.clone());
        }
        if let Some(standing) = standing::of_job(state, job, self.made_at) {
            return Some(standing);
        }
        let first = state.partitions_of(job).find_map(|partition| self.blocked.get(&partition.name));
        Some(match first {
            Some(first) if *first != job.id => Verdict { behind: Some(*first), ..Verdict::of(Reason::Priority) },
            _ => Verdict::default(),
        })
    }
}
