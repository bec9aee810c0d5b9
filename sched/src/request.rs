//! What a job needs, in numbers: jobs that need the same are planned with one look.

use gpun_core::{
    MemoryMib, State,
    job::Job,
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
    pub gres: &'a [GresRequest],
    pub features: &'a [String],
    pub node_list: &'a [String],
    pub exclude: &'a [String],
}

impl<'a> Request<'a> {
    pub fn new(state: &State, job: &'a Job, partition: &Partition) -> Self {
        let spec = &job.spec;
        let nodes_min = spec.nodes_min().max(partition.min_nodes.unwrap_or(1));
        let most = partition.max_nodes.unwrap_or(u32::MAX);
        let nodes_max = spec.nodes_max.unwrap_or(u32::MAX).min(most);
        let follows = spec.ntasks.is_none();
        let memory = match spec.memory {
            MemoryRequest::PerNode(MemoryMib(0)) | MemoryRequest::PerCpu(MemoryMib(0)) => Memory::Whole,
            MemoryRequest::PerNode(MemoryMib(mib)) => Memory::PerNode(mib),
            MemoryRequest::PerCpu(MemoryMib(mib)) => Memory::PerCpu(mib),
            MemoryRequest::Default => match partition.def_mem_per_cpu.or(state.settings().def_mem_per_cpu) {
                Some(MemoryMib(mib)) => Memory::PerCpu(mib),
                None => Memory::Whole,
            },
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
            exclusive: spec.exclusive,
            contiguous: spec.contiguous,
            overcommit: spec.overcommit,
            gres: &spec.gres,
            features: &spec.features,
            node_list: &spec.node_list,
            exclude: &spec.exclude,
        }
    }

    /// Tasks that one node must have at least: all, where they are to be on one node.
    pub fn tasks_on_one(&self) -> u32 {
        self.tasks.or(self.tasks_per_node).unwrap_or(1)
    }

    /// Fewest tasks of a node that takes part.
    pub fn tasks_least(&self) -> u32 {
        if self.tasks.is_some() { 1 } else { self.tasks_per_node.unwrap_or(1) }
    }

    /// True where one node may do.
    pub fn may_be_one_node(&self) -> bool {
        self.nodes_min <= 1 && self.nodes_wanted <= 1 && self.node_list.is_empty()
    }

    /// CPUs of a node for so many tasks.
    pub fn cpus_for(&self, node: &Node, tasks: u32) -> u32 {
        if self.exclusive {
            node.inventory.cpus
        } else if self.overcommit {
            1
        } else {
            tasks.max(1).saturating_mul(self.cpus_per_task)
        }
    }

    /// Memory of a node with so many CPUs, in MiB.
    pub fn memory_for(&self, node: &Node, cpus: u32) -> u64 {
        match self.memory {
            Memory::Whole => node.inventory.memory.0,
            Memory::PerNode(mib) => mib,
            Memory::PerCpu(mib) => mib.saturating_mul(u64::from(cpus)),
        }
    }

    /// True if nothing but other jobs and the node's health could keep this request from it.
    pub fn admits(&self, node: &Node) -> bool {
        self.features.iter().all(|feature| node.inventory.features.contains(feature))
            && self.tmp_disk <= node.inventory.tmp_disk
    }

    /// How many tasks fit on a node of which this is free.
    pub fn tasks_on(&self, node: &Node, level: &Level, gres_free: &[u32]) -> u32 {
        let inventory = &node.inventory;
        if level.cpus == 0 || (self.exclusive && (level.jobs > 0 || level.cpus < inventory.cpus)) {
            return 0;
        }
        let by_cpus = if self.overcommit { u32::MAX } else { level.cpus / self.cpus_per_task };
        let all_or_none = |fits: bool| if fits { u32::MAX } else { 0 };
        let by_memory = match self.memory {
            Memory::PerCpu(mib) if !self.exclusive && !self.overcommit => {
                let one_task = mib.saturating_mul(u64::from(self.cpus_per_task)).max(1);
                u32::try_from(level.memory / one_task).unwrap_or(u32::MAX)
            }
            _ => all_or_none(self.memory_for(node, self.cpus_for(node, 1)) <= level.memory),
        };
        let fits = by_cpus.min(by_memory).min(self.tasks_per_node.unwrap_or(u32::MAX));
        let gres_fits = || self.gres.is_empty() || self.gres_split(node, gres_free).is_some();
        if fits >= self.tasks_least() && gres_fits() { fits } else { 0 }
    }

    /// How many of each of the node's generic resources to take, in the order of its inventory; `None` if that is not there.
    pub fn gres_split(&self, node: &Node, free: &[u32]) -> Option<Vec<u32>> {
        let mut taken = vec![0; free.len()];
        let (typed, any): (Vec<_>, Vec<_>) = self.gres.iter().partition(|request| request.kind.is_some());
        for request in typed.into_iter().chain(any) {
            let mut missing = request.count;
            for (at, have) in node.inventory.gres.iter().enumerate() {
                if have.name == request.name && (request.kind.is_none() || have.kind == request.kind) {
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
        };
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
