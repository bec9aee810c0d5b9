//! Starting a job where the plan says, if that still fits.

use super::Applying;
use crate::{
    IndexSet, JobId, Refusal, State,
    command::Placement,
    job::{ArrayRole, ExitStatus, GresAlloc, Hold, Job, JobState, NodeAlloc, Reason, Run},
    layout::GPU,
    node::Node,
    partition::Partition,
    spec::JobSpec,
};

impl Applying<'_> {
    pub(super) fn place(&mut self, placement: Placement) -> Result<JobId, Refusal> {
        if self.state.job(placement.job).is_some_and(|job| job.het.is_some()) {
            return Err(Refusal::StalePlacement { why: "a component starts with the others".to_owned() });
        }
        self.place_one(placement)
    }

    /// Starts all of these or none.
    pub(super) fn place_together(&mut self, placements: Vec<Placement>) -> Result<u32, Refusal> {
        let jobs: Vec<JobId> = placements.iter().map(|placement| placement.job).collect();
        let whole: Vec<JobId> =
            jobs.first().into_iter().flat_map(|leader| self.state.components_of(*leader)).map(|job| job.id).collect();
        if jobs != whole || jobs.is_empty() {
            return Err(Refusal::StalePlacement { why: "the components changed".to_owned() });
        }
        // A view costs a few pointers, so what was begun is taken back whole.
        let before = self.state.clone();
        for placement in placements {
            if let Err(refusal) = self.place_one(placement) {
                *self.state = before;
                return Err(refusal);
            }
        }
        Ok(jobs.len() as u32)
    }

    fn place_one(&mut self, placement: Placement) -> Result<JobId, Refusal> {
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
            job.suspension = None;
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
    if job.dependency.is_some() {
        return stale("it waits for another job");
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
    if !state.licenses_free_for(job) {
        return stale("licences are taken");
    }
    if state.policy_of(job, None).is_some() {
        return stale("a limit is reached");
    }
    if !state.array_may_start(job) {
        return stale("the array runs as many tasks as it may");
    }
    let account = job.spec.account.as_deref();
    let takes = |partition: &Partition| {
        partition.starts_jobs() && partition.takes_account(account) && partition.takes_qos(job.spec.qos.as_deref())
    };
    let open = state.partition(&placement.partition).is_some_and(|partition| takes(partition));
    if !open || !state.partitions_of(job).any(|partition| partition.name == placement.partition) {
        return stale("the partition changed");
    }
    let names = placement.allocs.iter().filter_map(|alloc| state.node(alloc.node)).map(|node| node.name.clone());
    if !state.reservations_let(job, state.now(), names) {
        return stale("nodes are reserved");
    }
    if !is_what_is_wanted(state, job, placement) {
        return stale("the request changed");
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

/// True if the placement is what the job asks for now: it may have been changed since it was planned.
fn is_what_is_wanted(state: &State, job: &Job, placement: &Placement) -> bool {
    let (spec, allocs) = (&job.spec, &placement.allocs);
    let Some(partition) = state.partition(&placement.partition) else { return false };
    let count = allocs.len() as u32;
    let tasks: u64 = allocs.iter().map(|alloc| u64::from(alloc.tasks)).sum();
    let names: Vec<&str> =
        allocs.iter().filter_map(|alloc| state.node(alloc.node)).map(|node| node.name.as_str()).collect();
    count >= spec.nodes_min()
        && spec.nodes_max.is_none_or(|most| count <= most)
        && partition.max_nodes.is_none_or(|most| count <= most)
        && job.time_limit <= partition.max_time
        && spec.ntasks.is_none_or(|wanted| u64::from(wanted.max(1)) == tasks)
        && spec.gres_total.iter().all(|wanted| {
            let all = allocs.iter().map(|alloc| given(alloc, &wanted.name, wanted.kind.as_deref())).sum::<u64>();
            all >= u64::from(wanted.count)
        })
        && has_common_set(state, spec, allocs)
        && spec.node_list.iter().all(|name| names.contains(&name.as_str()))
        && allocs
            .iter()
            .all(|alloc| state.node(alloc.node).is_some_and(|node| is_share(state, job, partition, node, alloc)))
}

/// True if all nodes have the same list of features, where that is asked for.
fn has_common_set(state: &State, spec: &JobSpec, allocs: &[NodeAlloc]) -> bool {
    let has = |alloc: &NodeAlloc, set: &[String]| {
        let node = state.node(alloc.node);
        node.is_some_and(|node| set.iter().all(|feature| node.inventory.features.contains(feature)))
    };
    let mut sets = spec.common_sets().peekable();
    sets.peek().is_none() || sets.any(|set| allocs.iter().all(|alloc| has(alloc, set)))
}

/// True if what is given on one node is what the job asks for on each.
fn is_share(state: &State, job: &Job, partition: &Partition, node: &Node, alloc: &NodeAlloc) -> bool {
    let spec = &job.spec;
    let cpus = alloc.cpus.len();
    let gpus = given(alloc, GPU, None) as u32;
    let needed = u64::from(spec.cpus_of_node(&node.inventory, alloc.tasks, gpus));
    cpus >= needed
        && spec.layout.fits(&node.inventory)
        && alloc.tasks <= spec.layout.tasks_max(&node.inventory)
        && (!(spec.exclusive || partition.exclusive) || cpus == u64::from(node.inventory.cpus))
        && alloc.memory == state.memory_on(job, partition, node, cpus as u32, gpus)
        && spec.ntasks_per_node.is_none_or(|most| alloc.tasks <= most)
        && !spec.exclude.contains(&node.name)
        && spec.admits_features(&node.inventory.features)
        && spec.gres_of_node(alloc.tasks).all(|(name, kind, count)| given(alloc, name, kind) >= u64::from(count))
}

/// How many of a generic resource an allocation has, of one type or of any.
fn given(alloc: &NodeAlloc, name: &str, kind: Option<&str>) -> u64 {
    let same = |gres: &&GresAlloc| gres.name == name && (kind.is_none() || gres.kind.as_deref() == kind);
    alloc.gres.iter().filter(same).map(|gres| gres.indexes.len()).sum()
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
