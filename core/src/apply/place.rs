//! Starting a job where the plan says, if that still fits.

use super::Applying;
use crate::{
    IndexSet, JobId, Refusal, State,
    command::Placement,
    job::{ArrayRole, ExitStatus, Hold, Job, JobState, NodeAlloc, Reason, Run},
    node::Node,
};

impl Applying<'_> {
    pub(super) fn place(&mut self, placement: Placement) -> Result<JobId, Refusal> {
        fits(self.state, &placement)?;
        let id = match placement.task {
            Some(task) => self.split_task(placement.job, task)?,
            None => placement.job,
        };
        let now = self.now;
        self.change(id, |job| {
            job.state = JobState::Running;
            job.reason = Reason::None;
            job.reason_text = None;
            job.attempt.0 += 1;
            job.exit = ExitStatus::default();
            job.end_order = None;
            job.signals.clear();
            job.run = Some(Run {
                partition: placement.partition,
                allocs: placement.allocs,
                placed: now,
                launched: None,
                released: false,
                usage: Default::default(),
            });
        });
        Ok(id)
    }

    /// Gives a task of a waiting array its own record. The last one keeps the array's number and record.
    pub(super) fn split_task(&mut self, array: JobId, task: u32) -> Result<JobId, Refusal> {
        let waiting = self.state.jobs.get(&array).ok_or(Refusal::UnknownJob)?;
        let Some(ArrayRole::Waiting { tasks }) = &waiting.array else { return Err(Refusal::UnknownJob) };
        if !tasks.contains(task) {
            return Err(Refusal::UnknownJob);
        }
        let role = ArrayRole::Task { array, task };
        if tasks.len() == 1 {
            self.change(array, |job| job.array = Some(role));
            return Ok(array);
        }
        let mut own = waiting.clone();
        let id = self.next_job_id()?;
        self.change(array, |job| {
            if let Some(ArrayRole::Waiting { tasks }) = &mut job.array {
                tasks.remove(task);
            }
        });
        let record = own.make_mut();
        record.id = id;
        record.array = Some(role);
        self.state.use_blob(own.script);
        self.state.use_blob(own.environment);
        self.enter(own);
        Ok(id)
    }
}

/// Checks a placement against the present state: the plan was made on an older one.
fn fits(state: &State, placement: &Placement) -> Result<(), Refusal> {
    let job = state.job(placement.job).ok_or(Refusal::UnknownJob)?;
    let stale = |why: &str| Err(Refusal::StalePlacement { why: why.to_owned() });
    if job.state != JobState::Pending || job.hold != Hold::None {
        return Err(Refusal::NotPending);
    }
    if job.attempt != placement.seen_attempt {
        return stale("another attempt");
    }
    if matches!(job.array, Some(ArrayRole::Waiting { .. })) != placement.task.is_some() {
        return stale("the array changed");
    }
    if job.spec.begin.is_some_and(|begin| begin > state.now()) {
        return stale("the begin time moved");
    }
    if !state.array_may_start(job) {
        return stale("the array runs as many tasks as it may");
    }
    let open = state.partition(&placement.partition).is_some_and(|partition| partition.starts_jobs());
    if !open || !state.partitions_of(job).any(|partition| partition.name == placement.partition) {
        return stale("the partition changed");
    }
    if placement.allocs.is_empty() {
        return stale("no nodes");
    }
    for (at, alloc) in placement.allocs.iter().enumerate() {
        let node = state.node(alloc.node).ok_or(Refusal::UnknownNode)?;
        let twice = placement.allocs[..at].iter().any(|other| other.node == alloc.node);
        let member = state.partition(&placement.partition).is_some_and(|partition| partition.has_node(&node.name));
        if twice || !member || !fits_on(job, node, alloc) {
            return stale("a node changed");
        }
    }
    Ok(())
}

fn fits_on(job: &Job, node: &Node, alloc: &NodeAlloc) -> bool {
    let in_range = |set: &IndexSet, count: u32| set.last().is_none_or(|last| last < count);
    let shares = job.spec.overcommit && alloc.cpus.is_empty();
    node.takes_jobs()
        && (!alloc.cpus.is_empty() || shares)
        && in_range(&alloc.cpus, node.inventory.cpus)
        && node.taken.cpus.is_disjoint(&alloc.cpus)
        && alloc.memory <= node.memory_free()
        && alloc.gres.iter().all(|gres| {
            let have = node.gres_positions(&gres.name, None);
            gres.indexes.iter().all(|index| have.contains(index))
                && node.gres_taken(&gres.name).is_disjoint(&gres.indexes)
        })
}
