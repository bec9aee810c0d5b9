//! What jobs use of their limits, counted as they come and go: nothing is searched when a limit is looked at.

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};

use super::{Book, Tres};
use crate::{
    MemoryMib, Shared, State,
    id::{AssocId, QosId},
    job::{ArrayRole, Job, JobState},
    layout::GPU,
    spec::{JobSpec, MemoryRequest},
};

/// Whom a job is charged to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(map)]
pub struct Charge {
    /// The association.
    #[n(0)]
    pub association: Option<AssocId>,
    /// The quality of service.
    #[n(1)]
    pub qos: Option<QosId>,
}

/// Something whose jobs are counted together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// An association and all below it.
    Association(AssocId),
    /// A quality of service.
    Qos(QosId),
    /// A user in a quality of service.
    QosUser(QosId, u32),
    /// An account in a quality of service.
    QosAccount(QosId, String),
}

/// What jobs have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Used {
    /// Jobs that run.
    pub jobs: u64,
    /// Jobs that have not ended, tasks of arrays each.
    pub submitted: u64,
    /// Resources of those that run.
    pub tres: BTreeMap<Tres, u64>,
}

impl Used {
    /// How much of a resource.
    pub fn tres(&self, tres: &Tres) -> u64 {
        self.tres.get(tres).copied().unwrap_or(0)
    }

    /// Adds what another has.
    pub fn add(&mut self, other: &Self) {
        self.jobs += other.jobs;
        self.submitted += other.submitted;
        for (tres, count) in &other.tres {
            *self.tres.entry(tres.clone()).or_insert(0) += count;
        }
    }

    /// Takes away what another has.
    fn sub(&mut self, other: &Self) {
        self.jobs = self.jobs.saturating_sub(other.jobs);
        self.submitted = self.submitted.saturating_sub(other.submitted);
        for (tres, count) in &other.tres {
            if let Some(have) = self.tres.get_mut(tres) {
                *have = have.saturating_sub(*count);
            }
        }
        self.tres.retain(|_, count| *count > 0);
    }
}

impl Book {
    /// Everything that a job counts for.
    pub fn holders(&self, charge: Charge, uid: u32) -> Vec<Holder> {
        let association = charge.association.and_then(|id| self.association(id));
        let chain = association.into_iter().flat_map(|one| self.chain(one)).map(|one| Holder::Association(one.id));
        let mut holders: Vec<Holder> = chain.collect();
        if let Some(qos) = charge.qos {
            holders.extend([Holder::Qos(qos), Holder::QosUser(qos, uid)]);
            holders.extend(association.map(|one| Holder::QosAccount(qos, one.account.clone())));
        }
        holders
    }
}

/// How many jobs a record stands for.
fn count_of(job: &Job) -> u64 {
    match &job.array {
        Some(ArrayRole::Waiting { tasks }) => tasks.len(),
        _ => 1,
    }
}

/// What a job has on its nodes.
fn held(job: &Job) -> BTreeMap<Tres, u64> {
    let mut tres = BTreeMap::new();
    let mut add = |what: Tres, count: u64| {
        if count > 0 {
            *tres.entry(what).or_insert(0) += count;
        }
    };
    for alloc in job.run.iter().flat_map(|run| &run.allocs) {
        let cpus = alloc.cpus.len();
        add(Tres::Cpu, cpus);
        add(Tres::Billing, cpus);
        add(Tres::Memory, alloc.memory.0);
        add(Tres::Node, 1);
        for gres in &alloc.gres {
            add(Tres::Gres { name: gres.name.clone(), kind: None }, gres.indexes.len());
            if gres.kind.is_some() {
                add(Tres::Gres { name: gres.name.clone(), kind: gres.kind.clone() }, gres.indexes.len());
            }
        }
    }
    for (name, count) in job.spec.licenses_needed() {
        add(Tres::License(name.to_owned()), count);
    }
    tres
}

/// What a request asks for, at least.
pub(super) fn asked(state: &State, spec: &JobSpec) -> BTreeMap<Tres, u64> {
    let nodes = u64::from(spec.nodes_min());
    let tasks = u64::from(spec.tasks());
    let cpus = (tasks * u64::from(spec.cpus_per_task())).max(nodes);
    let mut tres = BTreeMap::new();
    let mut add = |what: Tres, count: u64| {
        if count > 0 {
            *tres.entry(what).or_insert(0) += count;
        }
    };
    let mut gpus = 0;
    let requests =
        [(&spec.gres, nodes), (&spec.gres_total, 1), (&spec.gres_per_task, tasks), (&spec.gres_per_socket, nodes)];
    for (request, times) in requests.into_iter().flat_map(|(all, times)| all.iter().map(move |one| (one, times))) {
        let count = u64::from(request.count).saturating_mul(times);
        gpus += if request.name == GPU { count } else { 0 };
        add(Tres::Gres { name: request.name.clone(), kind: None }, count);
        if request.kind.is_some() {
            add(Tres::Gres { name: request.name.clone(), kind: request.kind.clone() }, count);
        }
    }
    let memory = match spec.memory {
        MemoryRequest::PerNode(MemoryMib(mib)) => mib.saturating_mul(nodes),
        MemoryRequest::PerCpu(MemoryMib(mib)) => mib.saturating_mul(cpus),
        MemoryRequest::PerGpu(MemoryMib(mib)) => mib.saturating_mul(gpus),
        MemoryRequest::Default => state.settings.def_mem_per_cpu.map_or(0, |memory| memory.0.saturating_mul(cpus)),
    };
    add(Tres::Cpu, cpus);
    add(Tres::Billing, cpus);
    add(Tres::Memory, memory);
    add(Tres::Node, nodes);
    for (name, count) in spec.licenses_needed() {
        add(Tres::License(name.to_owned()), count);
    }
    tres
}

/// What a job would add by starting.
pub(super) fn by_starting(state: &State, job: &Job) -> Used {
    Used { jobs: 1, submitted: 0, tres: asked(state, &job.spec) }
}

impl State {
    /// Accounts, users, associations and qualities of service.
    pub fn book(&self) -> &Book {
        &self.book
    }

    /// What jobs have that are counted together.
    pub fn used(&self, holder: &Holder) -> Option<&Used> {
        self.used.get(holder).map(|used| &**used)
    }

    /// Jobs of an association and all below it that have not ended.
    pub fn submitted_by(&self, association: AssocId) -> u64 {
        self.used(&Holder::Association(association)).map_or(0, |used| used.submitted)
    }

    /// Counts a job.
    pub(crate) fn charge(&mut self, job: &Job) {
        self.count(job, true);
    }

    /// Counts a job no longer.
    pub(crate) fn discharge(&mut self, job: &Job) {
        self.count(job, false);
    }

    fn count(&mut self, job: &Job, more: bool) {
        let Some(charge) = job.charge.filter(|_| !job.state.is_final()) else { return };
        let runs = job.state != JobState::Pending;
        let own = Used {
            jobs: u64::from(runs),
            submitted: count_of(job),
            tres: if runs { held(job) } else { BTreeMap::new() },
        };
        for holder in self.book.holders(charge, job.owner.uid) {
            let mut used = self.used.get(&holder).cloned().unwrap_or_default();
            let all: &mut Used = used.make_mut();
            if more {
                all.add(&own);
            } else {
                all.sub(&own);
            }
            if *all == Used::default() {
                self.used.remove(&holder);
            } else {
                self.used.insert(holder, used);
            }
        }
    }

    /// Counts all jobs anew: the tree that they count up has changed.
    pub(crate) fn recount(&mut self) {
        self.used = Default::default();
        let jobs: Vec<Shared<Job>> = self.jobs.values().filter(|job| job.charge.is_some()).cloned().collect();
        jobs.iter().for_each(|job| self.charge(job));
    }
}
