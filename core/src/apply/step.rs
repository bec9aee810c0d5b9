//! Steps come and go.

use super::Applying;
use crate::{
    JobId, NodeId, Outcome, Refusal, Shared, TimeMs,
    command::{Identity, StepEnded},
    job::{JobState, Usage},
    step::{NewStep, NoStep, Step},
};

impl Applying<'_> {
    /// Makes a step of a running job.
    pub(super) fn create_step(&mut self, who: &Identity, new: NewStep) -> Result<Outcome, Refusal> {
        let job = self.state.jobs.get(&new.job).ok_or(Refusal::UnknownJob)?.clone();
        if who.uid != job.owner.uid && who.uid != 0 {
            return Err(Refusal::AccessDenied);
        }
        if let Some(step) = self.state.steps_of(new.job).find(|step| step.request == new.request) {
            return Ok(made(step));
        }
        if job.state == JobState::Pending {
            return Err(Refusal::JobPending);
        }
        let run = job.run.as_ref().filter(|run| !run.released);
        let alloc = run.and_then(|run| run.allocs.first());
        let Some(alloc) = alloc.filter(|_| job.state == JobState::Running && job.end_order.is_none()) else {
            return Err(Refusal::AlreadyDone);
        };
        let alloc = self.state.share_out(&job, alloc, &new.spec).map_err(|why| match why {
            NoStep::Busy => Refusal::StepBusy,
            NoStep::TooManyCpus => Refusal::StepCpus,
            NoStep::TooManyNodes => Refusal::StepNodes,
            NoStep::SeveralNodes => Refusal::StepOnSeveralNodes,
        })?;
        let number = self.state.steps_of(new.job).last().map_or(0, |last| last.number + 1);
        let step = Step {
            record: self.state.step_record(&job, &new.spec, number, &alloc),
            number,
            overlap: new.spec.overlap,
            allocs: vec![alloc],
            request: new.request,
            token: new.token,
        };
        let outcome = made(&step);
        self.touch_steps(&step);
        self.put_step(new.job, step);
        Ok(outcome)
    }

    /// What a node says of a step's end.
    pub(super) fn step_ended(&mut self, job: JobId, ended: &StepEnded) {
        let Some(step) = self.state.steps.get(&(job, ended.step)).filter(|step| step.is_live()) else { return };
        let mut step = (**step).clone();
        let state = match (ended.cancelled, ended.oom, ended.exit.code, ended.exit.signal) {
            (true, ..) => JobState::Cancelled,
            (_, true, ..) => JobState::OutOfMemory,
            (_, _, 0, 0) => JobState::Completed,
            _ => JobState::Failed,
        };
        let at = TimeMs(ended.at.0.clamp(step.record.started.0, self.now.0.max(step.record.started.0)));
        step.end(at, state, ended.exit, ended.usage);
        self.touch_steps(&step);
        self.put_step(job, step);
    }

    /// The attempt ends: so do its steps.
    pub(super) fn end_steps(&mut self, job: JobId, state: JobState) {
        let live: Vec<Step> = self.state.steps_of(job).filter(|step| step.is_live()).cloned().collect();
        for mut step in live {
            let state = if state == JobState::Completed { JobState::Cancelled } else { state };
            step.end(self.now, state, step.record.exit, Usage::default());
            self.put_step(job, step);
        }
    }

    /// The attempt is history: its steps went with it.
    pub(super) fn forget_steps(&mut self, job: JobId) {
        let numbers: Vec<u32> = self.state.steps_of(job).map(|step| step.number).collect();
        for number in numbers {
            self.state.steps.remove(&(job, number));
            self.dirty.steps.insert((job, number));
        }
    }

    fn put_step(&mut self, job: JobId, step: Step) {
        self.dirty.steps.insert((job, step.number));
        self.state.steps.insert((job, step.number), Shared::new(step));
    }

    /// The documents of its nodes change.
    fn touch_steps(&mut self, step: &Step) {
        let nodes: Vec<NodeId> = step.allocs.iter().map(|alloc| alloc.node).collect();
        for id in nodes {
            if let Some(node) = self.state.nodes.get_mut(&id) {
                // The dispatcher sees another value, and sends what follows from it.
                let _ = node.make_mut();
            }
        }
    }
}

fn made(step: &Step) -> Outcome {
    Outcome::StepMade { step: step.number, allocs: step.allocs.clone() }
}
