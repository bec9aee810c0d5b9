//! Suspending and resuming running jobs: what they have stays theirs, and the time does not count.

use super::Applying;
use crate::{
    JobId, Refusal, TimeMs,
    job::{Job, JobState, Suspension},
};

impl Job {
    /// How long this run has been suspended until `now`, in milliseconds.
    pub fn suspended_ms(&self, now: TimeMs) -> u64 {
        let Some(suspension) = &self.suspension else { return 0 };
        let open = suspension.since.map_or(0, |since| self.ended.unwrap_or(now).0.saturating_sub(since.0));
        suspension.total_ms.saturating_add(open)
    }
}

impl Applying<'_> {
    /// Stops a job. One that is stopped already stays so.
    pub(super) fn suspend(&mut self, id: JobId) -> Result<(), Refusal> {
        let now = self.now;
        self.change(id, |job| {
            if job.state == JobState::Suspended {
                return;
            }
            job.state = JobState::Suspended;
            let start = job.run.as_ref().map_or(now, |run| run.launched.unwrap_or(run.placed));
            let total_ms = job.suspension.map_or(0, |before| before.total_ms);
            let ran_s = now.0.saturating_sub(start.0).saturating_sub(total_ms) / 1000;
            job.suspension = Some(Suspension { since: Some(now), total_ms, changed: now, ran_s });
        })
        .ok_or(Refusal::UnknownJob)
    }

    /// Lets a stopped job go on.
    pub(super) fn resume(&mut self, id: JobId) -> Result<(), Refusal> {
        let now = self.now;
        self.change(id, |job| {
            job.state = JobState::Running;
            let total_ms = job.suspended_ms(now);
            let ran_s = job.suspension.map_or(0, |before| before.ran_s);
            job.suspension = Some(Suspension { since: None, total_ms, changed: now, ran_s });
        })
        .ok_or(Refusal::UnknownJob)
    }
}
