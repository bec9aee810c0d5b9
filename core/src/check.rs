//! Every invariant of the state, as one function: tests call it after each entry, daemons after loading.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::{
    IndexSet, JobId, NodeId, State,
    job::{ArrayRole, Hold, Job, JobState},
    mirror::encode,
    node::Taken,
};

/// An invariant that does not hold: a fault of this program, never of its input.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Broken {
    /// A job contradicts itself.
    #[error("job {job}: {what}")]
    Job {
        /// The job.
        job: JobId,
        /// How.
        what: &'static str,
    },
    /// What a node has given is not what its jobs have.
    #[error("node {node}: what is taken is not what its jobs hold")]
    Taken {
        /// The node.
        node: NodeId,
    },
    /// Two jobs have the same CPU or device.
    #[error("node {node}: {what} given twice (job {job})")]
    DoubleBooked {
        /// The node.
        node: NodeId,
        /// The later of the jobs.
        job: JobId,
        /// What.
        what: &'static str,
    },
    /// An index differs from what the records say.
    #[error("the derived index {index} differs from the records")]
    Index {
        /// Which.
        index: &'static str,
    },
    /// Records of accounting contradict each other.
    #[error("accounting: {what}")]
    Accounting {
        /// How.
        what: &'static str,
    },
    /// More than one default partition.
    #[error("more than one default partition")]
    DefaultPartition,
    /// A reservation contradicts itself.
    #[error("reservation {name}: {what}")]
    Reservation {
        /// Which.
        name: String,
        /// How.
        what: &'static str,
    },
}

impl State {
    /// Checks every invariant.
    ///
    /// # Errors
    /// The first that does not hold.
    pub fn check(&self) -> Result<(), Broken> {
        self.jobs.iter().try_for_each(|(id, job)| check_job(self, *id, job))?;
        self.check_nodes()?;
        self.check_steps()?;
        self.check_indexes()?;
        if let Some(what) = self.book.broken() {
            return Err(Broken::Accounting { what });
        }
        if self.partitions.values().filter(|partition| partition.is_default).count() > 1 {
            return Err(Broken::DefaultPartition);
        }
        for (name, one) in &self.reservations {
            let rules = [
                ("stands under another name", one.name == *name),
                ("ends before it starts", one.start < one.end),
                ("has no nodes", !one.nodes.is_empty()),
                ("is for nobody", !one.uids.is_empty() || !one.accounts.is_empty()),
            ];
            if let Some((what, _)) = rules.into_iter().find(|(_, holds)| !holds) {
                return Err(Broken::Reservation { name: name.clone(), what });
            }
        }
        Ok(())
    }

    fn check_nodes(&self) -> Result<(), Broken> {
        let mut taken: BTreeMap<NodeId, Taken> = self.nodes.keys().map(|id| (*id, Taken::default())).collect();
        for job in self.jobs.values().filter(|job| job.holds_resources()) {
            for alloc in job.run.iter().flat_map(|run| &run.allocs) {
                let double = |what| Broken::DoubleBooked { node: alloc.node, job: job.id, what };
                self.nodes.get(&alloc.node).ok_or(Broken::Taken { node: alloc.node })?;
                let have = taken.entry(alloc.node).or_default();
                if !have.cpus.is_disjoint(&alloc.cpus) {
                    return Err(double("a CPU"));
                }
                have.cpus.insert_all(&alloc.cpus);
                have.memory.0 += alloc.memory.0;
                for gres in &alloc.gres {
                    let mine = have.gres.iter_mut().find(|mine| mine.name == gres.name);
                    if mine.as_ref().is_some_and(|mine| !mine.indexes.is_disjoint(&gres.indexes)) {
                        return Err(double("a device"));
                    }
                    match mine {
                        Some(mine) => mine.indexes.insert_all(&gres.indexes),
                        None => have
                            .gres
                            .push(crate::node::GresTaken { name: gres.name.clone(), indexes: gres.indexes.clone() }),
                    }
                }
                // Memory is a sum, and a node may come back with less of it: `place` refuses what does not fit then.
                have.jobs.push(job.id);
            }
        }
        for (id, node) in &self.nodes {
            let (have, want) = (&node.taken, taken.remove(id).unwrap_or_default());
            let gres_same = have.gres.len() == want.gres.len()
                && want.gres.iter().all(|gres| node.gres_taken(&gres.name).same_members(&gres.indexes));
            let same = have.cpus.same_members(&want.cpus) && have.memory == want.memory && have.jobs == want.jobs;
            if !same || !gres_same {
                return Err(Broken::Taken { node: *id });
            }
        }
        Ok(())
    }

    /// Steps are of running jobs, and share out what these have.
    fn check_steps(&self) -> Result<(), Broken> {
        let mut shared: BTreeMap<(JobId, NodeId), IndexSet> = BTreeMap::new();
        for ((id, number), step) in &self.steps {
            let broken = |what| Broken::Job { job: *id, what };
            let run = self.jobs.get(id).filter(|job| job.holds_resources()).and_then(|job| job.run.as_ref());
            let run = run.ok_or(broken("a step of a job that does not run"))?;
            if step.number != *number {
                return Err(broken("a step under another's number"));
            }
            for alloc in &step.allocs {
                let held = run.allocs.iter().find(|held| held.node == alloc.node);
                let mut beyond = alloc.cpus.clone();
                held.iter().for_each(|held| beyond.remove_all(&held.cpus));
                if held.is_none() || !beyond.is_empty() {
                    return Err(broken("a step has more than its job"));
                }
                if step.overlap || !step.is_live() {
                    continue;
                }
                let taken = shared.entry((*id, alloc.node)).or_default();
                if !taken.is_disjoint(&alloc.cpus) {
                    return Err(broken("two steps have the same CPU"));
                }
                taken.insert_all(&alloc.cpus);
            }
        }
        Ok(())
    }

    /// Rebuilds the indexes from the records and compares.
    fn check_indexes(&self) -> Result<(), Broken> {
        let mut rebuilt = self.clone();
        rebuilt.index();
        let pairs = [
            ("blob uses", rebuilt.blob_uses == self.blob_uses),
            ("queue", rebuilt.queue == self.queue),
            ("over", rebuilt.over == self.over),
            ("array tasks", rebuilt.array_tasks == self.array_tasks),
            ("array running", rebuilt.array_running == self.array_running),
            ("array counts", rebuilt.array_counts == self.array_counts),
            ("dependents", rebuilt.dependents == self.dependents),
            ("delays", rebuilt.delays == self.delays),
            ("deadlines", rebuilt.deadlines == self.deadlines),
            ("names", rebuilt.named == self.named),
            ("singletons", rebuilt.singletons == self.singletons),
            ("licences", rebuilt.licenses_taken == self.licenses_taken),
            ("node names", rebuilt.node_names == self.node_names),
            ("used", rebuilt.used == self.used),
            ("request ends", rebuilt.request_ends == self.request_ends),
        ];
        for (index, same) in pairs {
            if !same {
                return Err(Broken::Index { index });
            }
        }
        Ok(())
    }

    /// All records as bytes, in order: two replicas are equal if these are.
    pub fn fingerprint(&self) -> Vec<u8> {
        let mut bytes = encode(&self.meta);
        bytes.extend(encode(&*self.settings));
        self.jobs.values().for_each(|job| bytes.extend(encode(job)));
        self.nodes.values().for_each(|node| bytes.extend(encode(node)));
        self.partitions.values().for_each(|partition| bytes.extend(encode(partition)));
        self.requests.values().for_each(|record| bytes.extend(encode(record)));
        self.reservations.values().for_each(|one| bytes.extend(encode(one)));
        bytes.extend(encode(&self.book.view("")));
        self.steps.values().for_each(|step| bytes.extend(encode(step)));
        bytes
    }
}

fn check_job(state: &State, id: JobId, job: &Job) -> Result<(), Broken> {
    let held = job.hold != Hold::None;
    let pending = job.state == JobState::Pending;
    let rules = [
        ("stands under another number", job.id == id),
        ("has a number that was not given out", id < state.meta.next_job),
        (
            "runs without a place",
            !matches!(job.state, JobState::Running | JobState::Suspended) || job.holds_resources(),
        ),
        (
            "is suspended without a moment, or has one without",
            job.state.is_final()
                || (job.state == JobState::Suspended) == job.suspension.is_some_and(|one| one.since.is_some()),
        ),
        ("waits with a place", !pending || !job.holds_resources()),
        ("is final without an end time", job.state.is_final() == job.ended.is_some()),
        ("is held with a priority, or open without", !pending || held == (job.priority == 0)),
        ("has a run but no attempt", job.run.is_none() || job.attempt.0 > 0),
        ("is ordered to end without a place", job.end_order.is_none() || job.holds_resources()),
        ("runs before what it waits for", !job.holds_resources() || job.dependency.is_none()),
        (
            "waits for others without a condition",
            job.dependency.as_ref().is_none_or(|dependency| !dependency.conditions.is_empty()),
        ),
        ("is an empty array", !matches!(&job.array, Some(ArrayRole::Waiting { tasks }) if tasks.is_empty())),
        (
            "is a whole array with a place",
            !matches!(&job.array, Some(ArrayRole::Waiting { .. })) || !job.holds_resources(),
        ),
    ];
    match rules.iter().find(|(_, holds)| !holds) {
        Some((what, _)) => Err(Broken::Job { job: id, what }),
        None => Ok(()),
    }
}
