//! What a job needs, in numbers: jobs that need the same are planned with one look.

use gpun_core::{
    MemoryMib, State,
    job::Job,
    layout::{Counted, GPU, Layout},
    node::Node,
    partition::Partition,
    spec::{GresRequest, MemoryRequest},
};

use crate::level::Level;

/// Memory of each node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Memory {
    /// All that the node has.
    Whole,
    /// In MiB.
    PerNode(u64),
    /// For each CPU, in MiB.
    PerCpu(u64),
    /// For each GPU, in MiB.
    PerGpu(u64),
}

/// What a job needs in one partition. Equal requests fit on the same nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Request<'a> {
    /// Fewest nodes.
    pub nodes_min: u32,
    /// As many nodes as can be had, up to this number, where the tasks follow the nodes; else as `nodes_min`.
    pub nodes_wanted: u32,
    /// Most nodes.
    pub nodes_max: u32,
    /// Tasks over all nodes; `None` where each node has `tasks_per_node`.
    pub tasks: Option<u32>,
    /// Tasks on a node: at most so many, or exactly where `tasks` is `None`.
    pub tasks_per_node: Option<u32>,
    pub cpus_per_task: u32,
    pub memory: Memory,
    pub tmp_disk: MemoryMib,
    pub exclusive: bool,
    pub contiguous: bool,
    pub overcommit: bool,
    /// Of each node.
    pub gres: &'a [GresRequest],
    /// Of the whole job.
    pub gres_total: &'a [GresRequest],
    pub gres_per_task: &'a [GresRequest],
    pub gres_per_socket: &'a [GresRequest],
    pub cpus_per_gpu: u32,
    pub mincpus: u32,
    pub layout: Layout,
    /// Over as many nodes as may be.
    pub spread: bool,
    /// Features that are wanted besides, for as long as such nodes are free.
    pub prefer: &'a [String],
    pub features: &'a [String],
    /// Lists one of which a node must have; empty if nothing was said.
    pub feature_sets: &'a [Vec<String>],
    pub node_list: &'a [String],
    pub exclude: &'a [String],
    /// Reservations whose nodes are closed to the job, as bits by their order.
    pub closed: u128,
    /// The reservation that it shall run in, by its order.
    pub within: Option<u8>,
}

impl<'a> Request<'a> {
    pub fn new(state: &State, job: &'a Job, partition: &Partition) -> Self {
        let spec = &job.spec;
        let nodes_min = spec.nodes_min().max(partition.min_nodes.unwrap_or(1));
        let most = partition.max_nodes.unwrap_or(u32::MAX);
        let nodes_max = spec.nodes_max.unwrap_or(u32::MAX).min(most);
        let follows = spec.ntasks.is_none();
        let asked = match spec.memory {
            MemoryRequest::Default => partition.default_memory(state.settings()),
            asked => asked,
        };
        let memory = match asked {
            MemoryRequest::PerNode(MemoryMib(0)) | MemoryRequest::PerCpu(MemoryMib(0)) | MemoryRequest::Default => {
                Memory::Whole
            }
            MemoryRequest::PerNode(MemoryMib(mib)) => Memory::PerNode(mib),
            MemoryRequest::PerCpu(MemoryMib(mib)) => Memory::PerCpu(mib),
            MemoryRequest::PerGpu(MemoryMib(mib)) => Memory::PerGpu(mib),
        };
        Self {
            nodes_min,
            nodes_wanted: if follows {
                spec.nodes_max.unwrap_or(nodes_min).min(most).max(nodes_min)
            } else {
                nodes_min
            },
            nodes_max,
            tasks: spec.ntasks.map(|tasks| tasks.max(1)),
            tasks_per_node: spec.ntasks_per_node.or(follows.then_some(1)).map(|tasks| tasks.max(1)),
            cpus_per_task: spec.cpus_per_task(),
            memory,
            tmp_disk: spec.tmp_disk.unwrap_or_default(),
            exclusive: spec.exclusive || partition.exclusive,
            contiguous: spec.contiguous,
            overcommit: spec.overcommit,
            gres: &spec.gres,
            gres_total: &spec.gres_total,
            gres_per_task: &spec.gres_per_task,
            gres_per_socket: &spec.gres_per_socket,
            cpus_per_gpu: spec.cpus_per_gpu.unwrap_or(0),
            mincpus: spec.mincpus.unwrap_or(0),
            layout: spec.layout,
            spread: spec.spread,
            prefer: &[],
            features: &spec.features,
            feature_sets: &spec.feature_sets,
            node_list: &spec.node_list,
            exclude: &spec.exclude,
            closed: 0,
            within: None,
        }
    }

    /// The same, as far as reservations let it.
    pub fn reserved(self, closed: u128, within: Option<u8>) -> Self {
        Self { closed, within, ..self }
    }

    /// Tasks that one node must have at least: all, where they are to be on one node.
    pub fn tasks_on_one(&self) -> u32 {
        self.tasks.or(self.tasks_per_node).unwrap_or(1)
    }

    /// True where no number of nodes could do if none can by itself.
    pub fn needs_one_node(&self) -> bool {
        self.nodes_max <= 1 || (self.tasks.is_none_or(|tasks| tasks <= 1) && self.gres_total.is_empty())
    }

    /// Fewest tasks of a node that takes part.
    pub fn tasks_least(&self) -> u32 {
        if self.tasks.is_some() { 1 } else { self.tasks_per_node.unwrap_or(1) }
    }

    /// True where one node may do.
    pub fn may_be_one_node(&self) -> bool {
        let spreads = self.spread && self.tasks.is_some_and(|tasks| tasks > 1) && self.nodes_max > 1;
        self.nodes_min <= 1 && self.nodes_wanted <= 1 && self.node_list.is_empty() && !spreads
    }

    /// The same, on nodes with the preferred features too.
    pub fn preferring(self, prefer: &'a [String]) -> Self {
        Self { prefer, ..self }
    }

    /// The same, where all nodes have this list of features.
    pub fn with_set(self, set: Option<&'a [String]>) -> Self {
        match set {
            Some(features) => Self { features, feature_sets: &[], ..self },
            None => self,
        }
    }

    /// CPUs of a node for so many tasks and GPUs.
    pub fn cpus_for(&self, node: &Node, tasks: u32, gpus: u32) -> u32 {
        if self.exclusive {
            return node.inventory.cpus;
        }
        let by_tasks = if self.overcommit { 1 } else { tasks.max(1).saturating_mul(self.cpus_per_task) };
        let by_need = by_tasks.max(self.cpus_per_gpu.saturating_mul(gpus));
        by_need.saturating_mul(self.layout.cpus_for_one(&node.inventory)).max(self.mincpus)
    }

    /// Memory of a node with so many CPUs and GPUs, in MiB.
    pub fn memory_for(&self, node: &Node, cpus: u32, gpus: u32) -> u64 {
        match self.memory {
            Memory::Whole => node.inventory.memory.0,
            Memory::PerNode(mib) => mib,
            Memory::PerCpu(mib) => mib.saturating_mul(u64::from(cpus)),
            Memory::PerGpu(mib) => mib.saturating_mul(u64::from(gpus)),
        }
    }

    /// True if any generic resource is asked for.
    pub fn has_gres(&self) -> bool {
        !(self.gres.is_empty()
            && self.gres_total.is_empty()
            && self.gres_per_task.is_empty()
            && self.gres_per_socket.is_empty())
    }

    /// Generic resources of a node with so many tasks; `of_total` says how many it gives of each that the whole job asks for.
    pub fn gres_of(&self, tasks: u32, of_total: &[u32]) -> impl Iterator<Item = Counted<'a>> {
        let sockets = self.layout.sockets_per_node.unwrap_or(1);
        let times = |requests: &'a [GresRequest], factor: u32| {
            requests.iter().map(move |one| (one.name.as_str(), one.kind.as_deref(), one.count.saturating_mul(factor)))
        };
        let total = self.gres_total.iter().zip(of_total.to_vec());
        times(self.gres, 1)
            .chain(times(self.gres_per_socket, sockets))
            .chain(times(self.gres_per_task, tasks))
            .chain(total.map(|(one, count)| (one.name.as_str(), one.kind.as_deref(), count)))
    }

    /// GPUs of a node with so many tasks.
    pub fn gpus_of(&self, tasks: u32, of_total: &[u32]) -> u32 {
        if !self.has_gres() {
            return 0;
        }
        let gpus = self.gres_of(tasks, of_total).filter(|(name, _, _)| *name == GPU);
        gpus.fold(0, |sum, (_, _, count)| sum.saturating_add(count))
    }

    /// What one node must give at least of resources of the whole job: all of them if it is the only one.
    pub fn of_total_least(&self, alone: bool) -> Vec<u32> {
        self.gres_total.iter().map(|one| if alone { one.count } else { one.count.min(1) }).collect()
    }

    /// True if so many tasks, with what goes along, fit on a node of which this is free.
    pub fn has_room(&self, node: &Node, level: &Level, gres_free: &[u32], tasks: u32, of_total: &[u32]) -> bool {
        let gpus = self.gpus_of(tasks, of_total);
        let cpus = self.cpus_for(node, tasks, gpus);
        cpus <= level.cpus
            && self.memory_for(node, cpus, gpus) <= level.memory
            && (!self.has_gres() || self.gres_split(node, gres_free, tasks, of_total).is_some())
    }

    /// True if nothing but other jobs and the node's health could keep this request from it.
    pub fn admits(&self, node: &Node) -> bool {
        let has = |feature: &String| node.inventory.features.contains(feature);
        self.features.iter().chain(self.prefer).all(has)
            && (self.feature_sets.is_empty() || self.feature_sets.iter().any(|set| set.iter().all(has)))
            && self.layout.fits(&node.inventory)
            && self.mincpus <= node.inventory.cpus
            && self.tmp_disk <= node.inventory.tmp_disk
    }

    /// How many tasks fit on a node of which this is free; `alone` if no other node takes part.
    pub fn tasks_on(&self, node: &Node, level: &Level, gres_free: &[u32], alone: bool) -> u32 {
        let inventory = &node.inventory;
        if level.cpus == 0 || (self.exclusive && (level.jobs > 0 || level.cpus < inventory.cpus)) {
            return 0;
        }
        let each = self.cpus_per_task.saturating_mul(self.layout.cpus_for_one(inventory));
        let by_cpus = if self.overcommit { u32::MAX } else { level.cpus / each };
        let all_or_none = |fits: bool| if fits { u32::MAX } else { 0 };
        let by_memory = match self.memory {
            Memory::PerCpu(mib) if !self.exclusive && !self.overcommit => {
                let one_task = mib.saturating_mul(u64::from(each)).max(1);
                u32::try_from(level.memory / one_task).unwrap_or(u32::MAX)
            }
            Memory::PerGpu(_) => u32::MAX,
            _ => all_or_none(self.memory_for(node, self.cpus_for(node, 1, 0), 0) <= level.memory),
        };
        let by_layout = self.layout.tasks_max(inventory).min(self.tasks_per_node.unwrap_or(u32::MAX));
        let mut fits = by_cpus.min(by_memory).min(by_layout);
        if !self.has_gres() && self.mincpus == 0 {
            return if fits >= self.tasks_least() { fits } else { 0 };
        }
        let of_total = self.of_total_least(alone);
        let all: u32 = gres_free.iter().fold(0, |sum, count| sum.saturating_add(*count));
        for one in self.gres_per_task.iter().filter(|one| one.count > 0) {
            fits = fits.min(all / one.count);
        }
        // What grows with the tasks is tried from above; the rest fits or does not.
        let grows = !self.gres_per_task.is_empty();
        while fits >= self.tasks_least() {
            if self.has_room(node, level, gres_free, if grows { fits } else { 1 }, &of_total) {
                return fits;
            }
            if !grows {
                return 0;
            }
            fits -= 1;
        }
        0
    }

    /// How many of each of the node's generic resources to take, in the order of its inventory; `None` if that is not there.
    pub fn gres_split(&self, node: &Node, free: &[u32], tasks: u32, of_total: &[u32]) -> Option<Vec<u32>> {
        let mut taken = vec![0; free.len()];
        let (typed, any): (Vec<_>, Vec<_>) = self.gres_of(tasks, of_total).partition(|(_, kind, _)| kind.is_some());
        for (name, kind, count) in typed.into_iter().chain(any) {
            let mut missing = count;
            for (at, have) in node.inventory.gres.iter().enumerate() {
                if have.name == name && (kind.is_none() || have.kind.as_deref() == kind) {
                    let more = missing.min(free.get(at).copied().unwrap_or(0) - taken[at]);
                    taken[at] += more;
                    missing -= more;
                }
            }
            if missing > 0 {
                return None;
            }
        }
        Some(taken)
    }

    /// The least that a node must have free for so many tasks: what the tree of peaks is searched with.
    pub fn bound(&self, tasks: u32) -> Bound {
        let cpus = if self.exclusive || self.overcommit { 1 } else { tasks.max(1).saturating_mul(self.cpus_per_task) };
        let memory = match self.memory {
            Memory::Whole => 0,
            Memory::PerNode(mib) => mib,
            Memory::PerCpu(mib) => mib.saturating_mul(u64::from(cpus)),
            Memory::PerGpu(_) => 0,
        };
        let cpus = cpus.max(self.mincpus);
        let gres = self.gres.iter().map(|request| request.count).fold(0, u32::saturating_add);
        Bound { cpus, memory, gres, idle: self.exclusive, whole_memory: self.memory == Memory::Whole }
    }
}

/// What a node must have free at least.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bound {
    pub cpus: u32,
    pub memory: u64,
    pub gres: u32,
    /// No job at all.
    pub idle: bool,
    /// All of its memory.
    pub whole_memory: bool,
}
