//! What a job asks of the insides of a node, and of generic resources beyond a number for each node.

use minicbor::{Decode, Encode};

use crate::{
    node::Inventory,
    spec::{GresRequest, JobSpec},
};

/// Sockets, cores and threads that a node must have, and how many tasks may share them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Encode, Decode)]
#[cbor(map)]
pub struct Layout {
    /// Fewest sockets of a node.
    #[n(0)]
    pub sockets_per_node: Option<u32>,
    /// Fewest cores of a socket.
    #[n(1)]
    pub cores_per_socket: Option<u32>,
    /// Fewest threads of a core; no more of them are used.
    #[n(2)]
    pub threads_per_core: Option<u32>,
    /// Most tasks on a socket.
    #[n(3)]
    pub ntasks_per_socket: Option<u32>,
    /// Most tasks on a core.
    #[n(4)]
    pub ntasks_per_core: Option<u32>,
}

impl Layout {
    /// True if nothing is asked.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// True if a node is built as asked.
    pub fn fits(&self, node: &Inventory) -> bool {
        let at_least = |wanted: Option<u32>, have: u32| wanted.is_none_or(|wanted| wanted <= have.max(1));
        at_least(self.sockets_per_node, node.sockets)
            && at_least(self.cores_per_socket, node.cores_per_socket)
            && at_least(self.threads_per_core, node.threads_per_core)
    }

    /// How many CPUs of a node one CPU of a job stands for: a core of which only some threads are used is taken whole.
    pub fn cpus_for_one(&self, node: &Inventory) -> u32 {
        let threads = node.threads_per_core.max(1);
        self.threads_per_core.map_or(1, |used| threads.div_ceil(used.clamp(1, threads)))
    }

    /// Most tasks on a node.
    pub fn tasks_max(&self, node: &Inventory) -> u32 {
        let sockets = node.sockets.max(1);
        let cores = sockets.saturating_mul(node.cores_per_socket.max(1));
        let by_socket = self.ntasks_per_socket.map_or(u32::MAX, |most| most.saturating_mul(sockets));
        let by_core = self.ntasks_per_core.map_or(u32::MAX, |most| most.saturating_mul(cores));
        by_socket.min(by_core)
    }
}

/// The name of generic resources that options such as `--cpus-per-gpu` count.
pub const GPU: &str = "gpu";

/// A generic resource and how many of it: name, type and number.
pub type Counted<'a> = (&'a str, Option<&'a str>, u32);

fn times<'a>(requests: &'a [GresRequest], factor: u32) -> impl Iterator<Item = Counted<'a>> {
    requests.iter().map(move |one| (one.name.as_str(), one.kind.as_deref(), one.count.saturating_mul(factor)))
}

impl JobSpec {
    /// Generic resources of one node with so many tasks, but for those of the whole job.
    pub fn gres_of_node(&self, tasks: u32) -> impl Iterator<Item = Counted<'_>> {
        let sockets = self.layout.sockets_per_node.unwrap_or(1);
        times(&self.gres, 1).chain(times(&self.gres_per_socket, sockets)).chain(times(&self.gres_per_task, tasks))
    }

    /// Generic resources of the whole job while it waits, as far as the request tells.
    pub fn gres_of_job(&self) -> Vec<Counted<'_>> {
        if !self.gres_total.is_empty() {
            return times(&self.gres_total, 1).collect();
        }
        let sockets = self.layout.sockets_per_node.unwrap_or(1);
        let nodes = self.nodes_min();
        times(&self.gres, nodes)
            .chain(times(&self.gres_per_socket, sockets.saturating_mul(nodes)))
            .chain(times(&self.gres_per_task, self.tasks()))
            .collect()
    }

    /// GPUs of the whole job while it waits.
    pub fn gpus_of_job(&self) -> u64 {
        self.gres_of_job().iter().filter(|(name, _, _)| *name == GPU).map(|(_, _, count)| u64::from(*count)).sum()
    }

    /// CPUs of the whole job while it waits.
    pub fn cpus_of_job(&self) -> u64 {
        let by_gpus = self.cpus_per_gpu.map_or(0, |each| u64::from(each).saturating_mul(self.gpus_of_job()));
        let by_tasks = if self.overcommit {
            u64::from(self.nodes_min())
        } else {
            u64::from(self.tasks()) * u64::from(self.cpus_per_task())
        };
        by_tasks.max(by_gpus)
    }

    /// Fewest CPUs of a node with so many tasks and GPUs; `node` tells what one CPU stands for.
    pub fn cpus_of_node(&self, node: &Inventory, tasks: u32, gpus: u32) -> u32 {
        let by_tasks = if self.overcommit { 0 } else { tasks.saturating_mul(self.cpus_per_task()) };
        let by_gpus = self.cpus_per_gpu.map_or(0, |each| each.saturating_mul(gpus));
        let by_need = by_tasks.max(by_gpus).saturating_mul(self.layout.cpus_for_one(node));
        by_need.max(self.mincpus.unwrap_or(0))
    }
}
