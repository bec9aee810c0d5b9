//! Heterogeneous jobs: components that start together, and end with the first of them.

use super::Applying;
use crate::job::{Hold, Job, JobState, Reason};

/// True for a component that ended because its leader did, and not by itself.
fn ended_with_it(job: &Job) -> bool {
    job.is_over() && job.attempt.0 > 0 && job.cancelled_by.is_none()
}

impl Applying<'_> {
    /// Brings the components of a job to where its leader has come: the nodes of the others run nothing of their own.
    pub(super) fn follow_leader(&mut self, moved: &Job) {
        let Some(het) = moved.het.filter(|het| het.offset == 0) else { return };
        let now = self.now;
        let others: Vec<_> =
            self.state.components_of(het.leader).filter(|job| job.id != moved.id).map(|job| job.id).collect();
        for id in others {
            let Some(job) = self.state.job(id) else { continue };
            let runs = job.holds_resources() && !job.state.is_final();
            if moved.is_over() && !job.is_over() {
                let (state, reason, exit) = (moved.state, moved.reason, moved.exit);
                let ended = moved.ended;
                self.change(id, |job| {
                    job.ended = job.ended.or(ended);
                    job.exit = exit;
                    job.cancelled_by = moved.cancelled_by;
                    let reason = if job.state == JobState::Pending { job.reason } else { reason };
                    job.finish(now, state, reason);
                });
            } else if moved.state == JobState::Pending && (runs || ended_with_it(job)) {
                let hold = moved.hold;
                self.change(id, |job| {
                    job.requeue(now, hold);
                    if hold == Hold::User && moved.reason == Reason::RequeuedHeld {
                        job.reason = Reason::RequeuedHeld;
                    }
                });
            } else if moved.state == JobState::Suspended && job.state == JobState::Running && runs {
                self.change(id, |job| (job.state, job.suspension) = (JobState::Suspended, moved.suspension));
            } else if moved.state == JobState::Running && job.state == JobState::Suspended && runs {
                self.change(id, |job| (job.state, job.suspension) = (JobState::Running, moved.suspension));
            }
        }
    }
}
