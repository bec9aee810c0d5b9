//! Wishes of users and operators.

use super::Applying;
use crate::{
    JobId, Refusal,
    authz::{decide, is_operator},
    command::{Act, Identity, JobRef},
    job::{ArrayRole, EndCause, EndOrder, Hold, Job, JobState, Reason, SignalOrder, SignalScope},
};

/// Signals kept for a run. More are refused: a node takes them within milliseconds, so this many waiting means it is gone.
const SIGNALS_MAX: usize = 64;

impl Applying<'_> {
    pub(super) fn act(&mut self, who: &Identity, act: &Act) -> Result<u32, Refusal> {
        match act {
            Act::Cancel(jobs)
            | Act::Signal { jobs, .. }
            | Act::Hold { jobs, .. }
            | Act::Release(jobs)
            | Act::Requeue { jobs, .. }
            | Act::Suspend(jobs)
            | Act::Resume(jobs)
            | Act::UpdateJob { jobs, .. } => self.act_on_jobs(who, act, jobs),
            Act::UpdateNode { name, change } => self.update_node(who, act, name, change),
            Act::UpdatePartition { name, change } => self.update_partition(who, act, name, change),
            Act::CreateReservation(wanted) => self.create_reservation(who, act, wanted).map(|_| 1),
            Act::UpdateReservation { name, change } => self.update_reservation(who, act, name, change),
            Act::DeleteReservation { name } => self.delete_reservation(who, act, name),
            Act::Account(changes) => self.change_accounting(who, changes),
        }
    }

    /// Does it to every job that is meant. One that refuses does not keep the others from it; if none took it, the first
    /// refusal is the answer.
    fn act_on_jobs(&mut self, who: &Identity, act: &Act, jobs: &JobRef) -> Result<u32, Refusal> {
        // Looked at before tasks are split off for it: a refused act changes nothing.
        let meant = self.meant(act, jobs)?;
        let mut count = 0;
        let mut refused = None;
        for (id, task) in meant {
            match self.act_on(who, act, id, task) {
                Ok(()) => count += 1,
                Err(refusal) => refused = refused.or(Some(refusal)),
            }
        }
        match refused {
            Some(refusal) if count == 0 => Err(refusal),
            _ => Ok(count),
        }
    }

    fn act_on(&mut self, who: &Identity, act: &Act, id: JobId, task: Option<u32>) -> Result<(), Refusal> {
        let job = self.state.job(id).ok_or(Refusal::UnknownJob)?;
        decide(self.state, who, act, Some(job))?;
        may(act, job)?;
        self.may_change(who, act, job)?;
        let id = match task {
            Some(task) => self.split_task(id, task)?,
            None => id,
        };
        match act {
            Act::Cancel(_) => self.cancel(who, id),
            Act::Signal { signal, scope, .. } => self.signal(id, *signal, *scope),
            Act::Hold { as_user, .. } => self.hold(who, id, *as_user),
            Act::Release(_) => self.release(id),
            Act::Requeue { hold, .. } => self.requeue_job(id, *hold),
            Act::Suspend(_) => self.suspend(id),
            Act::Resume(_) => self.resume(id),
            Act::UpdateJob { change, .. } => self.update_job(id, change, self.hold_by(who)),
            Act::UpdateNode { .. }
            | Act::UpdatePartition { .. }
            | Act::CreateReservation(_)
            | Act::UpdateReservation { .. }
            | Act::DeleteReservation { .. }
            | Act::Account(_) => Ok(()),
        }
    }

    /// What only the job's present values decide. Asked before a task is split off: a refused act changes nothing.
    fn may_change(&self, who: &Identity, act: &Act, job: &Job) -> Result<(), Refusal> {
        match act {
            Act::Release(_) if job.hold == Hold::Admin && !is_operator(self.state, who) => Err(Refusal::AccessDenied),
            Act::Signal { .. } if job.signals.len() >= SIGNALS_MAX => {
                Err(Refusal::Invalid { what: "one more signal for this run".to_owned() })
            }
            Act::UpdateJob { change, .. } => self.changed_job(job.id, change, self.hold_by(who)).map(|_| ()),
            _ => Ok(()),
        }
    }

    fn hold_by(&self, who: &Identity) -> Hold {
        if is_operator(self.state, who) { Hold::Admin } else { Hold::User }
    }

    /// The records that a reference means, each perhaps with a task to split off first.
    fn meant(&self, act: &Act, jobs: &JobRef) -> Result<Vec<(JobId, Option<u32>)>, Refusal> {
        let record = self.state.job(jobs.job);
        if let Some(component) = jobs.component {
            let mut all = self.state.components_of(jobs.job);
            let one = all.find(|job| job.het.is_some_and(|het| het.offset == component));
            return one.map(|job| vec![(job.id, None)]).ok_or(Refusal::UnknownJob);
        }
        // The first component stands for all, but for a change of what is its own, and for signals to the script.
        if !matches!(act, Act::UpdateJob { .. } | Act::Signal { .. }) {
            let all: Vec<_> = self.state.components_of(jobs.job).map(|job| (job.id, None)).collect();
            if !all.is_empty() {
                return Ok(all);
            }
        }
        let own = self.state.array_tasks(jobs.job).map(|(task, job)| (task, job.id));
        let Some(wanted) = &jobs.tasks else {
            let mut all: Vec<(JobId, Option<u32>)> = own.map(|(_, id)| (id, None)).collect();
            if let Some(job) = record
                && !all.contains(&(job.id, None))
            {
                all.push((job.id, None));
            }
            return if all.is_empty() { Err(Refusal::UnknownJob) } else { Ok(all) };
        };
        let mut found: Vec<(JobId, Option<u32>)> =
            own.filter(|(task, _)| wanted.contains(*task)).map(|(_, id)| (id, None)).collect();
        if let Some(ArrayRole::Waiting { tasks }) = record.and_then(|job| job.array.as_ref()) {
            if tasks.iter().all(|task| wanted.contains(task)) {
                found.push((jobs.job, None));
            } else {
                found.extend(tasks.iter().filter(|task| wanted.contains(*task)).map(|task| (jobs.job, Some(task))));
            }
        }
        if found.is_empty() { Err(Refusal::UnknownJob) } else { Ok(found) }
    }

    fn cancel(&mut self, who: &Identity, id: JobId) -> Result<(), Refusal> {
        let now = self.now;
        let uid = who.uid;
        self.change(id, |job| {
            if !job.runs_script() && job.holds_resources() {
                job.cancelled_by = Some(uid);
                return job.finish(now, JobState::Cancelled, Reason::None);
            }
            if job.state != JobState::Pending {
                job.reason = Reason::None;
            }
            job.state = JobState::Cancelled;
            job.cancelled_by = Some(uid);
            job.ended = Some(now);
            if job.holds_resources() {
                job.end_order = Some(EndOrder { cause: EndCause::Cancelled { uid }, since: now });
            }
        })
        .ok_or(Refusal::UnknownJob)
    }

    fn signal(&mut self, id: JobId, signal: i32, scope: SignalScope) -> Result<(), Refusal> {
        self.change(id, |job| {
            let number = job.signals.last().map_or(1, |order| order.number + 1);
            job.signals.push(SignalOrder { number, signal, scope });
        })
        .ok_or(Refusal::UnknownJob)
    }

    fn hold(&mut self, who: &Identity, id: JobId, as_user: bool) -> Result<(), Refusal> {
        let now = self.now;
        let operator = is_operator(self.state, who);
        self.change(id, |job| {
            let owner = job.owner.uid == who.uid;
            let new = if operator && !as_user && !(owner && who.uid != 0) { Hold::Admin } else { Hold::User };
            // A user's hold never weakens an operator's.
            if job.hold != Hold::Admin || operator {
                job.hold = new;
            }
            job.refresh_queueing(now);
        })
        .ok_or(Refusal::UnknownJob)
    }

    fn release(&mut self, id: JobId) -> Result<(), Refusal> {
        let now = self.now;
        self.change(id, |job| {
            job.hold = Hold::None;
            job.launch_faults = 0;
            if job.spec.priority == Some(0) {
                job.spec.make_mut().priority = None;
            }
            job.refresh_queueing(now);
        })
        .ok_or(Refusal::UnknownJob)
    }

    fn requeue_job(&mut self, id: JobId, hold: bool) -> Result<(), Refusal> {
        let now = self.now;
        self.change(id, |job| {
            if job.holds_resources() {
                job.end_order = Some(EndOrder { cause: EndCause::Requeue { hold }, since: now });
            } else {
                job.requeue(now, if hold { Hold::User } else { Hold::None });
            }
        })
        .ok_or(Refusal::UnknownJob)
    }
}

/// Whether a job's state allows an act.
fn may(act: &Act, job: &Job) -> Result<(), Refusal> {
    let pending = job.state == JobState::Pending;
    match act {
        Act::Cancel(_) if job.state.is_final() => Err(Refusal::AlreadyDone),
        Act::Signal { .. } if pending => Err(Refusal::JobPending),
        Act::Signal { .. } if job.state.is_final() => Err(Refusal::AlreadyDone),
        Act::Hold { .. } | Act::Release(_) if job.state.is_final() => Err(Refusal::AlreadyDone),
        Act::Requeue { .. } if !job.runs_script() => Err(Refusal::NotHetLeader),
        Act::Requeue { .. } if pending => Err(Refusal::JobPending),
        Act::Requeue { .. } if !job.may_requeue() => Err(Refusal::RequeueDisabled),
        Act::Requeue { .. } if job.is_completing() => Err(Refusal::AlreadyDone),
        Act::Suspend(_) | Act::Resume(_) if pending => Err(Refusal::JobPending),
        Act::Suspend(_) | Act::Resume(_) if job.state.is_final() || job.end_order.is_some() => {
            Err(Refusal::AlreadyDone)
        }
        Act::Resume(_) if job.state != JobState::Suspended => Err(Refusal::NotSuspended),
        Act::UpdateJob { .. } if job.state.is_final() => Err(Refusal::AlreadyDone),
        _ => Ok(()),
    }
}
