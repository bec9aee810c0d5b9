//! What is shown: records joined with what the last plan and the nodes' streams know.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use arc_swap::ArcSwap;
use gpun_core::{
    IndexSet, MemoryMib, NodeId, Shared, State, TimeMs,
    accounting::book::BookView,
    authz::is_operator,
    command::Identity,
    command::JobRef,
    job::{ArrayRole, GresAlloc, Job, Reason},
    node::Node,
    partition::Partition,
    reservation::{Flag, Reservation},
    settings::License,
    view::{Cause, ClusterView, JobView, LicenseView, NodeView, PartitionView, ReservationView, WhyView},
};
use gpun_sched::{Plan, Shortage, Verdict, Why};

/// What a node's stream last said.
#[derive(Debug, Clone, Copy, Default)]
pub struct Health {
    /// When.
    pub last_contact: TimeMs,
    /// Load, in hundredths.
    pub load_hundredths: Option<u32>,
    /// Free memory.
    pub memory_unused: Option<MemoryMib>,
}

/// What the loop knows and readers show; none of it is replicated.
#[derive(Default)]
pub struct Soft {
    /// The last plan; its verdicts are the words on waiting jobs.
    pub plan: ArcSwap<Plan>,
    /// What nodes last said.
    pub health: Mutex<BTreeMap<NodeId, Health>>,
}

impl Soft {
    /// What a node last said.
    pub fn health_of(&self, node: NodeId) -> Health {
        self.health.lock().ok().and_then(|health| health.get(&node).copied()).unwrap_or_default()
    }
}

/// A job as shown.
pub fn job_view(state: &State, plan: &Plan, job: &Shared<Job>) -> JobView {
    let verdict = plan.verdict(state, job);
    let name = |node: NodeId| state.node(node).map(|node| node.name.clone());
    let run = job.run.as_ref();
    let partitions = match run {
        Some(run) => vec![run.partition.clone()],
        None => state.partitions_of(job).map(|partition| partition.name.clone()).collect(),
    };
    let planned = verdict.as_ref().map(|verdict| verdict.planned_nodes.iter().filter_map(|node| name(*node)).collect());
    JobView {
        job: job.clone(),
        nodes: run.iter().flat_map(|run| &run.allocs).filter_map(|alloc| name(alloc.node)).collect(),
        reason: match (job.reason, &verdict) {
            (Reason::None, Some(verdict)) => verdict.reason,
            (reason, _) => reason,
        },
        start_estimate: verdict.as_ref().and_then(|verdict| verdict.start_estimate),
        planned_nodes: planned.unwrap_or_default(),
        last_evaluated: verdict.map(|_| plan.made_at),
        memory_per_node: state.memory_per_node(job),
        partitions,
    }
}

/// Nodes that the last plan keeps for waiting jobs.
pub fn planned_nodes(plan: &Plan) -> BTreeSet<NodeId> {
    plan.verdicts.values().flat_map(|verdict| &verdict.planned_nodes).copied().collect()
}

/// Reservations that hold now, by the name of each of their nodes; maintenance goes before others that it overlaps.
pub fn active_reservations(state: &State, now: TimeMs) -> BTreeMap<&str, &Reservation> {
    let mut active: Vec<&Reservation> = state.reservations().filter(|one| one.is_active(now)).collect();
    active.sort_by_key(|one| one.has(Flag::Maint));
    active.into_iter().flat_map(|one| one.nodes.iter().map(move |node| (node.as_str(), one))).collect()
}

/// A node as shown; `reservation` is the one that holds it now.
pub fn node_view(
    state: &State,
    soft: &Soft,
    node: &Node,
    planned: bool,
    reservation: Option<&Reservation>,
) -> NodeView {
    let health = soft.health_of(node.id);
    let jobs = node.taken.jobs.iter().filter_map(|id| state.job(*id));
    NodeView {
        cpus_taken: node.taken.cpus.len() as u32,
        memory_taken: node.taken.memory,
        gres_taken: gres_taken(node),
        jobs: node.taken.jobs.len() as u32,
        completing: jobs.filter(|job| job.is_completing()).count() as u32,
        partitions: partitions_of(state, node),
        last_contact: (health.last_contact > TimeMs(0)).then_some(health.last_contact),
        load_hundredths: health.load_hundredths,
        memory_unused: health.memory_unused,
        cpu_numbers_taken: node.taken.cpus.clone(),
        planned,
        reservation: reservation.map(|one| one.name.clone()),
        maint: reservation.is_some_and(|one| one.has(Flag::Maint)),
        node: node.clone(),
    }
}

/// Names of a node's partitions, in the order of the configuration.
fn partitions_of(state: &State, node: &Node) -> Vec<String> {
    let mut all: Vec<&Shared<Partition>> = state.partitions().filter(|one| one.has_node(&node.name)).collect();
    all.sort_by_key(|one| one.rank);
    all.into_iter().map(|one| one.name.clone()).collect()
}

/// What jobs have taken, by name and kind; positions count within the name.
fn gres_taken(node: &Node) -> Vec<GresAlloc> {
    node.inventory
        .gres
        .iter()
        .map(|gres| {
            let kind = node.gres_positions(&gres.name, gres.kind.as_deref());
            let indexes: IndexSet = node.gres_taken(&gres.name).iter().filter(|index| kind.contains(*index)).collect();
            GresAlloc { name: gres.name.clone(), kind: gres.kind.clone(), indexes }
        })
        .collect()
}

/// A partition as shown.
pub fn partition_view(state: &State, partition: &Partition) -> PartitionView {
    let nodes: Vec<&Shared<Node>> = state.nodes_of(partition).collect();
    PartitionView {
        partition: partition.clone(),
        cpus: nodes.iter().map(|node| u64::from(node.inventory.cpus)).sum(),
        memory: MemoryMib(nodes.iter().map(|node| node.inventory.memory.0).sum()),
        nodes: nodes.iter().map(|node| node.name.clone()).collect(),
    }
}

/// Reservations as shown, in the order in which they were made.
pub fn reservation_views(state: &State) -> Vec<ReservationView> {
    let mut all: Vec<&Reservation> = state.reservations().collect();
    all.sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
    let view = |one: &Reservation| {
        let nodes = || one.nodes.iter().filter_map(|name| state.node_named(name));
        let cores = |node: &Node| u64::from(node.inventory.cpus / node.inventory.threads_per_core.max(1));
        ReservationView {
            reservation: one.clone(),
            cpus: nodes().map(|node| u64::from(node.inventory.cpus)).sum(),
            cores: nodes().map(|node| cores(node)).sum(),
        }
    };
    all.into_iter().map(view).collect()
}

/// The controller as shown.
#[derive(Debug, Clone)]
pub struct About {
    /// Its host.
    pub host: String,
    /// When it started.
    pub started: TimeMs,
    /// The cluster's folder.
    pub cluster_dir: String,
    /// More that the configuration says.
    pub more: Arc<Vec<(String, String)>>,
}

/// The cluster as shown.
pub fn cluster_view(state: &State, about: &About, now: TimeMs) -> ClusterView {
    ClusterView {
        settings: state.settings().clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        host: about.host.clone(),
        started: about.started,
        next_job: state.next_job().0.max(state.settings().first_job_id),
        now,
        more: about.more.to_vec(),
        licenses: licenses(state),
    }
}

fn licenses(state: &State) -> Vec<LicenseView> {
    let one = |license: &License| LicenseView {
        name: license.name.clone(),
        total: license.total,
        used: u32::try_from(state.license_used(&license.name)).unwrap_or(u32::MAX),
    };
    state.settings().licenses.iter().map(one).collect()
}

/// Why the records that a reference means wait.
pub fn why(state: &State, plan: &Plan, wanted: &JobRef) -> Vec<WhyView> {
    let own = state.array_tasks(wanted.job).map(|(_, job)| job);
    let jobs = state.job(wanted.job).into_iter().chain(own.filter(|job| job.id != wanted.job));
    let meant = jobs.filter(|job| match (&wanted.tasks, &job.array) {
        (None, _) => true,
        (Some(tasks), Some(ArrayRole::Task { task, .. })) => tasks.contains(*task),
        (Some(tasks), Some(ArrayRole::Waiting { tasks: waiting })) => !tasks.is_disjoint(waiting),
        (Some(_), None) => false,
    });
    meant.map(|job| why_job(state, plan, job)).collect()
}

fn why_job(state: &State, plan: &Plan, job: &Shared<Job>) -> WhyView {
    let view = job_view(state, plan, job);
    match gpun_sched::why(state, plan, job.id) {
        Some(why) => {
            WhyView { ahead: why.ahead.try_into().unwrap_or(u32::MAX), causes: causes(state, job, &why), job: view }
        }
        None => WhyView { job: view, causes: Vec::new(), ahead: 0 },
    }
}

/// What stands before a job, most important first.
fn causes(state: &State, job: &Job, why: &Why) -> Vec<Cause> {
    let mut causes = Vec::new();
    causes.extend(waits_for(state, &why.verdict));
    match why.verdict.reason {
        Reason::HeldUser | Reason::RequeuedHeld => causes.push(Cause::Held { by_operator: false }),
        Reason::HeldAdmin => causes.push(Cause::Held { by_operator: true }),
        Reason::BeginTime => causes.extend(job.spec.begin.map(|at| Cause::Begin { at })),
        Reason::PartitionDown | Reason::PartitionInactive => limit(&mut causes, why, "is not open"),
        Reason::PartitionTimeLimit => limit(&mut causes, why, "allows less time"),
        Reason::PartitionNodeLimit => limit(&mut causes, why, "allows another number of nodes"),
        Reason::ArrayTaskLimit => {
            causes.push(Cause::Limit { what: "the array runs as many tasks at a time as it allows".to_owned() });
        }
        _ => {}
    }
    causes.extend(why.verdict.behind.map(|job| Cause::Behind { job }));
    if why.nodes_fitting < why.nodes_needed {
        causes.extend(why.shortages.iter().map(|(shortage, nodes)| Cause::Short {
            what: shortage_name(shortage),
            nodes: *nodes,
            of: why.nodes_total,
        }));
    }
    causes
}

/// The jobs on its planned nodes that must end before it can start there.
fn waits_for(state: &State, verdict: &Verdict) -> Option<Cause> {
    let until = verdict.start_estimate?;
    let nodes = verdict.planned_nodes.iter().filter_map(|node| state.node(*node));
    let jobs = nodes.flat_map(|node| &node.taken.jobs).filter_map(|id| state.job(*id));
    let mut ending: Vec<_> =
        jobs.filter_map(|job| Some((job.limit_end()?, job.id))).filter(|(end, _)| *end <= until).collect();
    ending.sort_unstable();
    ending.dedup();
    let jobs: Vec<_> = ending.into_iter().map(|(_, id)| id).collect();
    (!jobs.is_empty()).then_some(Cause::WaitsFor { jobs, until: Some(until) })
}

fn limit(causes: &mut Vec<Cause>, why: &Why, what: &str) {
    let partition = why.partition.as_deref().unwrap_or("?");
    causes.push(Cause::Limit { what: format!("partition {partition} {what}") });
}

fn shortage_name(shortage: &Shortage) -> String {
    match shortage {
        Shortage::Down => "down".to_owned(),
        Shortage::Drained => "drained".to_owned(),
        Shortage::Excluded => "excluded".to_owned(),
        Shortage::Feature(name) => format!("feature {name}"),
        Shortage::TooSmall => "size".to_owned(),
        Shortage::Shared => "whole nodes".to_owned(),
        Shortage::Cpus => "cpus".to_owned(),
        Shortage::Memory => "memory".to_owned(),
        Shortage::Gres(name) => format!("gres/{name}"),
        Shortage::Kept => "kept for jobs before it".to_owned(),
    }
}

/// Accounting, as it is shown to one caller.
pub fn book_view(state: &State, who: &Identity, caller: String) -> BookView {
    let mut gres: Vec<String> =
        state.nodes().flat_map(|node| &node.inventory.gres).map(|gres| gres.name.clone()).collect();
    gres.sort();
    gres.dedup();
    let book = state.book();
    let active = book.associations_all().map(|one| (one.id, state.submitted_by(one.id))).filter(|(_, jobs)| *jobs > 0);
    BookView {
        is_operator: is_operator(state, who),
        caller,
        gres,
        active: active.collect(),
        ..book.view(&state.settings().cluster_name)
    }
}
