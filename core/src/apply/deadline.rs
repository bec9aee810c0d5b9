//! Deadlines: a job that misses its own is ended.

use super::Applying;
use crate::{
    JobId,
    job::{EndCause, EndOrder, JobState, Reason},
};

/// Most jobs that one tick ends; the rest goes with the next.
const LATE_MAX: usize = 5_000;

impl Applying<'_> {
    /// Ends jobs that can't meet their deadline any more, and those that run over it.
    pub(super) fn end_late(&mut self) -> usize {
        // Before, such a job waited for ever.
        if self.version < 9 {
            return 0;
        }
        let late = self.state.deadlines.iter().take_while(|(due, _)| *due < self.now);
        let late: Vec<JobId> = late.map(|(_, id)| *id).take(LATE_MAX).collect();
        for id in &late {
            // Components end together.
            let mut all: Vec<JobId> = match self.state.job(*id).and_then(|job| job.het) {
                Some(het) => self.state.components_of(het.leader).map(|job| job.id).collect(),
                None => vec![*id],
            };
            all.retain(|id| self.state.job(*id).is_some_and(|job| !job.state.is_final()));
            all.into_iter().for_each(|id| self.end_at_deadline(id));
        }
        late.len()
    }

    fn end_at_deadline(&mut self, id: JobId) {
        let now = self.now;
        self.change(id, |job| {
            if !job.holds_resources() || !job.runs_script() {
                return job.finish(now, JobState::Deadline, Reason::DeadLine);
            }
            job.state = JobState::Deadline;
            job.reason = Reason::DeadLine;
            job.ended = Some(now);
            job.end_order = Some(EndOrder { cause: EndCause::Cancelled { uid: 0 }, since: now });
        });
    }
}
