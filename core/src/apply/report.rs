//! What nodes say of their jobs.

use super::Applying;
use crate::{
    JobId, NodeId, Outcome, Refusal, TimeMs,
    command::{Ended, EndedHow, JobEvent, JobReport},
    job::{EndCause, EndOrder, ExitStatus, Hold, Job, JobState, Reason},
};

impl Applying<'_> {
    pub(super) fn report(&mut self, node: NodeId, reports: Vec<JobReport>) -> Result<Outcome, Refusal> {
        let mut count = 0;
        for report in reports {
            // A stale report is dropped: its node learns from the desired document that the attempt is not wanted.
            if self.state.attempt_run_by(report.job, node) != Some(report.attempt) {
                continue;
            }
            count += 1;
            match report.event {
                JobEvent::Launched { at } => self.launched(report.job, at),
                JobEvent::Ended(ended) => self.ended(report.job, ended),
                JobEvent::StepEnded(ended) => self.step_ended(report.job, &ended),
            }
        }
        if count == 0 { Err(Refusal::StaleReport) } else { Ok(Outcome::Done { count }) }
    }

    fn launched(&mut self, id: JobId, at: TimeMs) {
        let now = self.now;
        self.change(id, |job| {
            if let Some(run) = &mut job.run
                && run.launched.is_none()
            {
                // A node's clock may be off: the launch lies between the placement and now.
                run.launched = Some(at.clamp(run.placed, now.max(run.placed)));
            }
        });
    }

    fn ended(&mut self, id: JobId, ended: Ended) {
        let now = self.now;
        let faults_max = self.state.settings.launch_faults_max;
        for node in self.state.jobs.get(&id).and_then(|job| job.run.clone()).into_iter().flat_map(|run| run.allocs) {
            self.touch_busy(node.node);
        }
        let mut attempt = self.state.jobs.get(&id).cloned();
        if let Some(job) = &mut attempt {
            job.make_mut().take_end(now, &ended);
        }
        self.ended_attempt = attempt;
        self.change(id, |job| {
            job.take_end(now, &ended);
            job.end(now, &ended, faults_max);
        });
    }

    fn touch_busy(&mut self, node: NodeId) {
        let now = self.now;
        if let Some(node) = self.state.nodes.get_mut(&node) {
            node.make_mut().last_busy = Some(now);
        }
        self.dirty.nodes.insert(node);
    }
}

impl Job {
    /// Takes over what its node says of the end of its run.
    fn take_end(&mut self, now: TimeMs, ended: &Ended) {
        if let Some(run) = &mut self.run {
            run.usage = ended.usage;
            let at = ended.at.clamp(run.launched.unwrap_or(run.placed), now.max(run.placed));
            if !self.state.is_final() {
                self.ended = Some(at);
            }
        }
        self.exit = ended.exit;
    }

    /// Brings a job whose run is gone from its nodes to its next state.
    fn end(&mut self, now: TimeMs, ended: &Ended, faults_max: u32) {
        if let Some(EndOrder { cause: EndCause::Requeue { hold }, .. }) = self.end_order {
            return self.requeue(now, if hold { Hold::User } else { Hold::None });
        }
        if self.state.is_final() {
            return self.finish(now, self.state, self.reason);
        }
        let (state, reason) = match ended.how {
            EndedHow::TimeLimit => (JobState::Timeout, Reason::TimeLimit),
            EndedHow::OutOfMemory => (JobState::OutOfMemory, Reason::OutOfMemory),
            EndedHow::LaunchFailed => (JobState::Failed, Reason::LaunchFailure),
            EndedHow::Lost => {
                self.launch_faults += 1;
                self.reason_text.clone_from(&ended.text);
                if self.may_requeue() && self.launch_faults < faults_max {
                    return self.requeue(now, Hold::None);
                }
                (JobState::NodeFail, Reason::NodeFail)
            }
            EndedHow::Exited | EndedHow::Ordered => match ended.exit {
                ExitStatus { code: 0, signal: 0 } => (JobState::Completed, Reason::None),
                ExitStatus { signal: 0, .. } => (JobState::Failed, Reason::NonZeroExitCode),
                ExitStatus { signal, .. } => (JobState::Failed, Reason::RaisedSignal(signal)),
            },
        };
        self.reason_text.clone_from(&ended.text);
        self.finish(now, state, reason);
    }

    /// Ends the job; nothing of it is left anywhere.
    pub(super) fn finish(&mut self, now: TimeMs, state: JobState, reason: Reason) {
        self.state = state;
        self.reason = reason;
        self.ended = self.ended.or(Some(now));
        // What a run was stopped for at its end counts no longer.
        let suspended_ms = self.suspended_ms(now);
        if let Some(suspension) = self.suspension.as_mut().filter(|suspension| suspension.since.is_some()) {
            (suspension.since, suspension.total_ms) = (None, suspended_ms);
        }
        self.end_order = None;
        self.signals.clear();
        if let Some(run) = &mut self.run {
            run.released = true;
        }
    }

    /// Puts the job back into the queue.
    pub(super) fn requeue(&mut self, now: TimeMs, hold: Hold) {
        self.state = JobState::Pending;
        self.run = None;
        self.ended = None;
        self.end_order = None;
        self.cancelled_by = None;
        self.signals.clear();
        self.suspension = None;
        self.exit = ExitStatus::default();
        self.restarts += 1;
        // One that was held while it ran stays so.
        self.hold = if hold == Hold::None { self.hold } else { hold };
        self.refresh_queueing(now);
        if hold == Hold::User {
            self.reason = Reason::RequeuedHeld;
        }
    }
}
