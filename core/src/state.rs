//! The whole state of the cluster, and its derived indexes.
//!
//! Persistent maps (ADR 0004): cloning a state costs a few pointers, so the planner and readers work on a view while entries go
//! on being applied.

use imbl::{OrdMap, OrdSet};

use crate::{
    Attempt, Digest, JobId, NodeId, RequestId, Shared, TimeMs,
    accounting::{Account, Association, Book, Holder, Qos, Used, User},
    job::{ArrayRole, GresAlloc, Job, JobState},
    mirror::{Meta, RequestRecord, Table, decode},
    node::{GresTaken, Liveness, Node},
    partition::Partition,
    reservation::Reservation,
    settings::Settings,
    step::{self, Step},
};

/// The place of a waiting job in the queue: highest priority first, then lowest number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueKey {
    /// `u32::MAX` minus the priority.
    pub rank: u32,
    /// The job.
    pub job: JobId,
}

/// How many tasks of an array have not ended, those that wait in one record too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ArrayCounts {
    /// Not over.
    pub open: u64,
    /// Of those, waiting.
    pub pending: u64,
}

/// A user and the digest of a job's name: short, so that an index of all jobs stays small. Names of the same digest are compared.
pub(crate) type NameKey = (u32, u64);

/// The state. Only [`crate::apply`] changes it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct State {
    /// Counters and time.
    pub(crate) meta: Meta,
    /// Settings.
    pub(crate) settings: Shared<Settings>,
    /// Jobs that are not yet history.
    pub(crate) jobs: OrdMap<JobId, Shared<Job>>,
    /// Nodes.
    pub(crate) nodes: OrdMap<NodeId, Shared<Node>>,
    /// Partitions.
    pub(crate) partitions: OrdMap<String, Shared<Partition>>,
    /// Request ids.
    pub(crate) requests: OrdMap<RequestId, RequestRecord>,
    /// Reservations.
    pub(crate) reservations: OrdMap<String, Shared<Reservation>>,
    /// Accounts, users, associations and qualities of service.
    pub(crate) book: Book,
    /// Steps of running jobs.
    pub(crate) steps: OrdMap<(JobId, u32), Shared<Step>>,

    // Derived from the above; rebuilt by `load`, proved by `check`.
    /// How many jobs use a blob.
    pub(crate) blob_uses: OrdMap<Digest, u32>,
    /// Waiting jobs in the order of the queue; the same values as in `jobs`, so that the planner's pass needs no look-ups.
    pub(crate) queue: OrdMap<QueueKey, Shared<Job>>,
    /// Jobs that are over, by end time.
    pub(crate) over: OrdSet<(TimeMs, JobId)>,
    /// Tasks of arrays that have a record of their own.
    pub(crate) array_tasks: OrdSet<(JobId, u32, JobId)>,
    /// How many tasks of an array hold resources.
    pub(crate) array_running: OrdMap<JobId, u32>,
    /// Node numbers by name.
    pub(crate) node_names: OrdMap<String, NodeId>,
    /// How many tasks of an array have not ended.
    pub(crate) array_counts: OrdMap<JobId, ArrayCounts>,
    /// Jobs, and those that wait for them.
    pub(crate) dependents: OrdSet<(JobId, JobId)>,
    /// Waiting jobs with a condition that time alone meets.
    pub(crate) delays: OrdSet<(TimeMs, JobId)>,
    /// Jobs with a deadline, by the time after which they miss it.
    pub(crate) deadlines: OrdSet<(TimeMs, JobId)>,
    /// Jobs that have not ended by user and name: those that hold resources first.
    pub(crate) named: OrdSet<(NameKey, bool, JobId)>,
    /// Jobs that wait for their name to be free.
    pub(crate) singletons: OrdSet<(NameKey, JobId)>,
    /// Licences that jobs have.
    pub(crate) licenses_taken: OrdMap<String, u64>,
    /// What jobs use of limits.
    pub(crate) used: OrdMap<Holder, Shared<Used>>,
    /// Request ids by the time they are forgotten.
    pub(crate) request_ends: OrdSet<(TimeMs, RequestId)>,
}

impl State {
    /// The latest stamp.
    pub fn now(&self) -> TimeMs {
        self.meta.now
    }

    /// The next job's number.
    pub fn next_job(&self) -> JobId {
        self.meta.next_job
    }

    /// Settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// A job that is not yet history.
    pub fn job(&self, id: JobId) -> Option<&Shared<Job>> {
        self.jobs.get(&id)
    }

    /// Jobs by number.
    pub fn jobs(&self) -> impl Iterator<Item = &Shared<Job>> {
        self.jobs.values()
    }

    /// How many jobs.
    pub fn job_count(&self) -> usize {
        self.jobs.len()
    }

    /// Waiting jobs, held ones too, in the order of the queue.
    pub fn queue(&self) -> impl Iterator<Item = &Shared<Job>> {
        self.queue.values()
    }

    /// How many records wait.
    pub fn queue_len(&self) -> usize {
        self.queue.len()
    }

    /// A node.
    pub fn node(&self, id: NodeId) -> Option<&Shared<Node>> {
        self.nodes.get(&id)
    }

    /// A node by name.
    pub fn node_named(&self, name: &str) -> Option<&Shared<Node>> {
        self.nodes.get(self.node_names.get(name)?)
    }

    /// Nodes by number.
    pub fn nodes(&self) -> impl Iterator<Item = &Shared<Node>> {
        self.nodes.values()
    }

    /// A partition.
    pub fn partition(&self, name: &str) -> Option<&Shared<Partition>> {
        self.partitions.get(name)
    }

    /// Partitions by name.
    pub fn partitions(&self) -> impl Iterator<Item = &Shared<Partition>> {
        self.partitions.values()
    }

    /// The partition of jobs that name none.
    pub fn default_partition(&self) -> Option<&Shared<Partition>> {
        self.partitions.values().find(|partition| partition.is_default)
    }

    /// The partitions that a job may run in, in its order; those that no longer exist are left out.
    pub fn partitions_of<'a>(&'a self, job: &'a Job) -> impl Iterator<Item = &'a Shared<Partition>> {
        let by_default = self.default_partition().filter(|_| job.spec.partitions.is_empty());
        job.spec.partitions.iter().filter_map(|name| self.partitions.get(name)).chain(by_default)
    }

    /// Nodes of a partition by number.
    pub fn nodes_of<'a>(&'a self, partition: &'a Partition) -> Box<dyn Iterator<Item = &'a Shared<Node>> + 'a> {
        if partition.nodes.is_empty() {
            Box::new(self.nodes.values())
        } else {
            Box::new(partition.nodes.iter().filter_map(|name| self.node_named(name)))
        }
    }

    /// True if the bytes of a blob are kept, so that a submission need not bring them.
    pub fn has_blob(&self, digest: &Digest) -> bool {
        self.blob_uses.contains_key(digest)
    }

    /// The job that an earlier submission with this request id made.
    pub fn request(&self, request: RequestId) -> Option<JobId> {
        self.requests.get(&request).map(|record| record.job)
    }

    /// Records of an array's tasks: number and record.
    pub fn array_tasks(&self, array: JobId) -> impl Iterator<Item = (u32, &Shared<Job>)> {
        self.array_tasks
            .range((array, 0, JobId(0))..=(array, u32::MAX, JobId(u32::MAX)))
            .filter_map(|(_, task, id)| Some((*task, self.jobs.get(id)?)))
    }

    /// The components of a heterogeneous job, by its leader; nothing for any other job.
    pub fn components_of(&self, leader: JobId) -> impl Iterator<Item = &Shared<Job>> {
        let size =
            self.jobs.get(&leader).and_then(|job| job.het).filter(|het| het.leader == leader).map(|het| het.size);
        let last = JobId(leader.0.saturating_add(size.unwrap_or(0)));
        let of_it = move |job: &&Shared<Job>| job.het.is_some_and(|het| het.leader == leader);
        self.jobs.range(leader..last).map(|(_, job)| job).filter(of_it)
    }

    /// The record of one task of an array, which may stand for others too.
    pub fn array_task(&self, array: JobId, task: u32) -> Option<&Shared<Job>> {
        let own = self.array_tasks.range((array, task, JobId(0))..=(array, task, JobId(u32::MAX))).next();
        if let Some((_, _, id)) = own {
            return self.jobs.get(id);
        }
        let waits =
            |job: &&Shared<Job>| matches!(&job.array, Some(ArrayRole::Waiting { tasks }) if tasks.contains(task));
        self.jobs.get(&array).filter(waits)
    }

    /// All records of an array.
    pub fn array_records(&self, array: JobId) -> impl Iterator<Item = &Shared<Job>> {
        let waiting = self.jobs.get(&array).filter(|job| matches!(job.array, Some(ArrayRole::Waiting { .. })));
        waiting.into_iter().chain(self.array_tasks(array).map(|(_, job)| job))
    }

    /// How many tasks of an array have not ended.
    pub fn array_counts(&self, array: JobId) -> ArrayCounts {
        self.array_counts.get(&array).copied().unwrap_or_default()
    }

    /// The jobs that wait for a job or array.
    pub fn dependents_of(&self, job: JobId) -> impl Iterator<Item = JobId> {
        self.dependents.range((job, JobId(0))..=(job, JobId(u32::MAX))).map(|(_, waiting)| *waiting)
    }

    /// True if no earlier job of the same user and name is left, and none runs.
    pub(crate) fn name_is_free_for(&self, job: &Job) -> bool {
        let key = name_key(job);
        let running = self.named.range((key, false, JobId(0))..=(key, false, JobId(u32::MAX)));
        let earlier = self.named.range((key, true, JobId(0))..(key, true, job.id));
        let same = |id: &JobId| {
            *id != job.id
                && self.jobs.get(id).is_some_and(|other| other.spec.name == job.spec.name && !same_array(other, job))
        };
        !running.chain(earlier).any(|(_, _, id)| same(id))
    }

    /// Jobs that wait for the name of this one to be free, by number.
    pub(crate) fn singletons_named(&self, job: &Job) -> impl Iterator<Item = JobId> {
        let key = name_key(job);
        self.singletons.range((key, JobId(0))..=(key, JobId(u32::MAX))).map(|(_, id)| *id)
    }

    /// How many tasks of an array hold resources.
    pub fn array_running(&self, array: JobId) -> u32 {
        self.array_running.get(&array).copied().unwrap_or(0)
    }

    /// True if the array's own limit lets one more task start.
    pub fn array_may_start(&self, job: &Job) -> bool {
        match (job.array_id(), job.array_shape.and_then(|shape| shape.max_running)) {
            (Some(array), Some(limit)) => self.array_running(array) < limit,
            _ => true,
        }
    }

    /// The earliest time at which [`crate::Command::Tick`] has something to do.
    pub fn next_due(&self) -> Option<TimeMs> {
        let purge = self.over.get_min().map(|(ended, _)| ended.plus_s(self.settings.min_job_age_s));
        let forget = self.request_ends.get_min().map(|(forget, _)| *forget);
        let delay = self.delays.get_min().map(|(due, _)| *due);
        let reserved = self.reservations.values().map(|one| one.end).min();
        let deadline = self.deadlines.get_min().map(|(due, _)| TimeMs(due.0.saturating_add(1)));
        purge.into_iter().chain(forget).chain(delay).chain(reserved).chain(deadline).min()
    }

    /// The node that runs a job's script, for a job that holds resources: the first of its allocations.
    pub fn runs_script_of(&self, job: JobId) -> Option<NodeId> {
        let job = self.jobs.get(&job).filter(|job| job.holds_resources() && job.runs_script())?;
        job.run.as_ref()?.allocs.first().map(|alloc| alloc.node)
    }

    /// Nodes that a leader has to give up when they are silent: those in contact, and those set down that have still to end
    /// jobs. Silence is for the leader to tell, by a clock that never jumps.
    pub fn nodes_to_hear(&self) -> impl Iterator<Item = &Shared<Node>> {
        let runs = |node: &Node| node.taken.jobs.iter().any(|job| self.runs_script_of(*job) == Some(node.id));
        self.nodes.values().filter(move |node| node.liveness == Liveness::Up || runs(node))
    }

    /// Memory that a job gets on a node where it has so many CPUs and GPUs.
    pub fn memory_on(&self, job: &Job, partition: &Partition, node: &Node, cpus: u32, gpus: u32) -> crate::MemoryMib {
        use crate::{MemoryMib, spec::MemoryRequest};
        let whole = node.inventory.memory;
        let per_cpu = |mib: MemoryMib| MemoryMib(mib.0.saturating_mul(u64::from(cpus)));
        match job.spec.memory {
            MemoryRequest::PerNode(MemoryMib(0)) | MemoryRequest::PerCpu(MemoryMib(0)) => whole,
            MemoryRequest::PerNode(memory) => memory,
            MemoryRequest::PerCpu(memory) => per_cpu(memory),
            MemoryRequest::PerGpu(MemoryMib(mib)) => MemoryMib(mib.saturating_mul(u64::from(gpus))),
            MemoryRequest::Default => match partition.default_memory(&self.settings) {
                MemoryRequest::PerCpu(memory) if memory.0 > 0 => per_cpu(memory),
                MemoryRequest::PerNode(memory) if memory.0 > 0 => memory,
                _ => whole,
            },
        }
    }

    /// Memory that a job has, or would get, on its first node.
    pub fn memory_per_node(&self, job: &Job) -> crate::MemoryMib {
        if let Some(alloc) = job.run.as_ref().and_then(|run| run.allocs.first()) {
            return alloc.memory;
        }
        let Some(partition) = self.partitions_of(job).next() else { return crate::MemoryMib(0) };
        let nodes = u64::from(job.spec.nodes_min());
        let each = |all: u64| u32::try_from(all.div_ceil(nodes)).unwrap_or(u32::MAX);
        let (cpus, gpus) = (each(job.spec.cpus_of_job()), each(job.spec.gpus_of_job()));
        let node = self.nodes_of(partition).next();
        node.map(|node| self.memory_on(job, partition, node, cpus, gpus)).unwrap_or_default()
    }

    /// Takes in one record while the state is loaded; call [`State::index`] after the last.
    ///
    /// # Errors
    /// A record that can't be read: the message says which.
    pub fn load_record(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), LoadError> {
        let fail = |source| LoadError { table, key: key.to_vec(), source };
        match table {
            Table::Meta => self.meta = decode(value).map_err(fail)?,
            Table::Settings => self.settings = decode(value).map_err(fail)?,
            Table::Job => {
                let job: Shared<Job> = decode(value).map_err(fail)?;
                self.jobs.insert(job.id, job);
            }
            Table::Node => {
                let node: Shared<Node> = decode(value).map_err(fail)?;
                self.nodes.insert(node.id, node);
            }
            Table::Partition => {
                let partition: Shared<Partition> = decode(value).map_err(fail)?;
                self.partitions.insert(partition.name.clone(), partition);
            }
            Table::Request => {
                let id =
                    key.try_into().map(RequestId).map_err(|_| fail(minicbor::decode::Error::message("key length")))?;
                self.requests.insert(id, decode(value).map_err(fail)?);
            }
            Table::Reservation => {
                let reservation: Shared<Reservation> = decode(value).map_err(fail)?;
                self.reservations.insert(reservation.name.clone(), reservation);
            }
            Table::Step => {
                let place = step::from_key(key);
                let place = place.ok_or_else(|| fail(minicbor::decode::Error::message("key length")))?;
                self.steps.insert(place, decode(value).map_err(fail)?);
            }
            Table::Blob
            | Table::Record
            | Table::RecordByArray
            | Table::RecordByTime
            | Table::RecordByUser
            | Table::RecordBlob => {}
            Table::Account => {
                let account: Shared<Account> = decode(value).map_err(fail)?;
                self.book.accounts.insert(account.name.clone(), account);
            }
            Table::User => {
                let user: Shared<User> = decode(value).map_err(fail)?;
                self.book.users.insert(user.name.clone(), user);
            }
            Table::Association => {
                let association: Shared<Association> = decode(value).map_err(fail)?;
                self.book.associations.insert(association.id, association);
            }
            Table::Qos => {
                let qos: Shared<Qos> = decode(value).map_err(fail)?;
                self.book.qos.insert(qos.id, qos);
            }
            Table::AccountingCounters => self.book.counters = decode(value).map_err(fail)?,
        }
        Ok(())
    }

    /// Rebuilds what is derived from the records.
    pub fn index(&mut self) {
        let bare = Self {
            meta: self.meta,
            settings: self.settings.clone(),
            partitions: std::mem::take(&mut self.partitions),
            requests: std::mem::take(&mut self.requests),
            reservations: std::mem::take(&mut self.reservations),
            book: std::mem::take(&mut self.book),
            steps: std::mem::take(&mut self.steps),
            ..Self::default()
        };
        let loaded = std::mem::replace(self, bare);
        self.book.index();
        self.request_ends = self.requests.iter().map(|(id, record)| (record.forget, *id)).collect();
        for mut node in loaded.nodes.into_iter().map(|(_, node)| node) {
            node.make_mut().taken = Default::default();
            self.node_names.insert(node.name.clone(), node.id);
            self.nodes.insert(node.id, node);
        }
        for (id, job) in loaded.jobs {
            self.use_blob(job.script);
            self.use_blob(job.environment);
            self.index_job(&job);
            if job.holds_resources() {
                self.take_nodes(&job);
            }
            self.jobs.insert(id, job);
        }
    }

    pub(crate) fn use_blob(&mut self, digest: Digest) -> u32 {
        let uses = self.blob_uses.entry(digest).or_insert(0);
        *uses += 1;
        *uses
    }

    /// Enters a job into the indexes.
    pub(crate) fn index_job(&mut self, job: &Shared<Job>) {
        self.charge(job);
        if job.state == JobState::Pending {
            self.queue.insert(queue_key(job), job.clone());
            if let Some(dependency) = &job.dependency {
                dependency.jobs().into_iter().for_each(|on| {
                    self.dependents.insert((on, job.id));
                });
                if let Some(due) = dependency.next_due() {
                    self.delays.insert((due, job.id));
                }
                if dependency.has_singleton() {
                    self.singletons.insert((name_key(job), job.id));
                }
            }
        }
        if let Some(due) = job.deadline_due() {
            self.deadlines.insert((due, job.id));
        }
        if !job.is_over() {
            self.named.insert((name_key(job), !job.holds_resources(), job.id));
            if let Some((array, counts)) = array_counts_of(job) {
                let all = self.array_counts.entry(array).or_default();
                all.open += counts.open;
                all.pending += counts.pending;
            }
        }
        if let (true, Some(ended)) = (job.is_over(), job.ended) {
            self.over.insert((ended, job.id));
        }
        if let Some(ArrayRole::Task { array, task }) = job.array {
            self.array_tasks.insert((array, task, job.id));
            if job.holds_resources() {
                *self.array_running.entry(array).or_insert(0) += 1;
            }
        }
    }

    /// Takes a job out of the indexes.
    pub(crate) fn unindex_job(&mut self, job: &Job) {
        self.discharge(job);
        if job.state == JobState::Pending {
            self.queue.remove(&queue_key(job));
            if let Some(dependency) = &job.dependency {
                dependency.jobs().into_iter().for_each(|on| {
                    self.dependents.remove(&(on, job.id));
                });
                if let Some(due) = dependency.next_due() {
                    self.delays.remove(&(due, job.id));
                }
                if dependency.has_singleton() {
                    self.singletons.remove(&(name_key(job), job.id));
                }
            }
        }
        if let Some(due) = job.deadline_due() {
            self.deadlines.remove(&(due, job.id));
        }
        if !job.is_over() {
            self.named.remove(&(name_key(job), !job.holds_resources(), job.id));
            if let Some((array, counts)) = array_counts_of(job) {
                let left = self.array_counts(array);
                let left = ArrayCounts { open: left.open - counts.open, pending: left.pending - counts.pending };
                if left.open == 0 {
                    self.array_counts.remove(&array);
                } else {
                    self.array_counts.insert(array, left);
                }
            }
        }
        if let (true, Some(ended)) = (job.is_over(), job.ended) {
            self.over.remove(&(ended, job.id));
        }
        if let Some(ArrayRole::Task { array, task }) = job.array {
            self.array_tasks.remove(&(array, task, job.id));
            if job.holds_resources() {
                let running = self.array_running(array).saturating_sub(1);
                if running == 0 {
                    self.array_running.remove(&array);
                } else {
                    self.array_running.insert(array, running);
                }
            }
        }
    }

    /// Gives a job what its allocations say.
    pub(crate) fn take_nodes(&mut self, job: &Job) {
        self.take_licenses(job);
        for alloc in job.run.iter().flat_map(|run| &run.allocs) {
            let Some(node) = self.nodes.get_mut(&alloc.node) else { continue };
            let taken = &mut node.make_mut().taken;
            taken.cpus.insert_all(&alloc.cpus);
            taken.memory.0 += alloc.memory.0;
            for gres in &alloc.gres {
                take_gres(&mut taken.gres, gres);
            }
            if let Err(at) = taken.jobs.binary_search(&job.id) {
                taken.jobs.insert(at, job.id);
            }
        }
    }

    /// Takes back what a job's allocations say.
    pub(crate) fn free_nodes(&mut self, job: &Job) {
        self.free_licenses(job);
        for alloc in job.run.iter().flat_map(|run| &run.allocs) {
            let Some(node) = self.nodes.get_mut(&alloc.node) else { continue };
            let taken = &mut node.make_mut().taken;
            taken.cpus.remove_all(&alloc.cpus);
            taken.memory.0 = taken.memory.0.saturating_sub(alloc.memory.0);
            for gres in &alloc.gres {
                if let Some(have) = taken.gres.iter_mut().find(|have| have.name == gres.name) {
                    have.indexes.remove_all(&gres.indexes);
                }
            }
            taken.gres.retain(|have| !have.indexes.is_empty());
            taken.jobs.retain(|id| *id != job.id);
        }
    }

    /// The attempt of a job that holds resources and whose script this node runs.
    pub fn attempt_run_by(&self, job: JobId, node: NodeId) -> Option<Attempt> {
        (self.runs_script_of(job)? == node).then(|| self.jobs.get(&job).map(|job| job.attempt))?
    }
}

fn take_gres(taken: &mut Vec<GresTaken>, gres: &GresAlloc) {
    match taken.iter_mut().find(|have| have.name == gres.name) {
        Some(have) => have.indexes.insert_all(&gres.indexes),
        None => {
            taken.push(GresTaken { name: gres.name.clone(), indexes: gres.indexes.clone() });
            taken.sort_by(|a, b| a.name.cmp(&b.name));
        }
    }
}

/// The place of a waiting job in the queue.
pub(crate) fn queue_key(job: &Job) -> QueueKey {
    // Jobs that wait for others stand at the end like held ones: the planner's pass ends where they begin.
    let rank = if job.dependency.is_some() { u32::MAX } else { u32::MAX - job.priority };
    QueueKey { rank, job: job.id }
}

fn name_key(job: &Job) -> NameKey {
    // FNV-1a, as it needs no table and is the same everywhere.
    let digest = job
        .spec
        .name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    (job.owner.uid, digest)
}

fn same_array(a: &Job, b: &Job) -> bool {
    a.array_id().is_some() && a.array_id() == b.array_id()
}

fn array_counts_of(job: &Job) -> Option<(JobId, ArrayCounts)> {
    let open = match job.array.as_ref()? {
        ArrayRole::Waiting { tasks } => tasks.len(),
        ArrayRole::Task { .. } => 1,
    };
    let pending = if job.state == JobState::Pending { open } else { 0 };
    Some((job.array_id()?, ArrayCounts { open, pending }))
}

/// A record of the mirror that this program can't read.
#[derive(Debug, thiserror::Error)]
#[error("record {key:02x?} of table {table:?} can't be read: restore the state folder from a backup, or report this")]
pub struct LoadError {
    /// The table.
    pub table: Table,
    /// The key.
    pub key: Vec<u8>,
    /// The cause.
    #[source]
    pub source: minicbor::decode::Error,
}
