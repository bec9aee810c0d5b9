//! Partitions: named groups of nodes with limits.

use minicbor::{Decode, Encode};

use crate::{MemoryMib, TimeLimit, settings::Settings, spec::MemoryRequest};

/// Whether jobs may be submitted and started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(index_only)]
pub enum PartitionState {
    /// Both.
    #[n(0)]
    #[default]
    Up,
    /// Submitted, not started.
    #[n(1)]
    Down,
    /// Started, not submitted.
    #[n(2)]
    Drain,
    /// Neither.
    #[n(3)]
    Inactive,
}

/// One partition.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Partition {
    /// Its name.
    #[n(0)]
    pub name: String,
    /// Names of its nodes; every node if empty.
    #[cbor(n(1), default)]
    pub nodes: Vec<String>,
    /// Used where a job names none.
    #[cbor(n(2), default)]
    pub is_default: bool,
    /// Longest limit of a job.
    #[n(3)]
    pub max_time: TimeLimit,
    /// Limit of a job that names none; `max_time` if not given.
    #[n(4)]
    pub default_time: Option<TimeLimit>,
    /// State.
    #[cbor(n(5), default)]
    pub state: PartitionState,
    /// Fewest nodes of a job.
    #[n(6)]
    pub min_nodes: Option<u32>,
    /// Most nodes of a job.
    #[n(7)]
    pub max_nodes: Option<u32>,
    /// Only the superuser may submit.
    #[cbor(n(8), default)]
    pub root_only: bool,
    /// Accounts that may submit; all if empty.
    #[cbor(n(9), default)]
    pub allow_accounts: Vec<String>,
    /// Accounts that may not.
    #[cbor(n(10), default)]
    pub deny_accounts: Vec<String>,
    /// Weight in the priority of its jobs.
    #[n(11)]
    pub priority_job_factor: Option<u32>,
    /// Jobs of a higher tier are planned first.
    #[n(12)]
    pub priority_tier: Option<u32>,
    /// Memory for each CPU of a job that names none.
    #[n(13)]
    pub def_mem_per_cpu: Option<MemoryMib>,
    /// Not shown to those who may not use it.
    #[cbor(n(14), default)]
    pub hidden: bool,
    /// Its place in listings, lowest first.
    #[cbor(n(15), default, skip_if = "is_first")]
    pub rank: u32,
    /// Groups that may submit, with their numbers; all if empty.
    #[cbor(n(90), default, skip_if = "Vec::is_empty")]
    pub allow_groups: Vec<(String, u32)>,
    /// Qualities of service whose jobs may start; all if empty.
    #[cbor(n(91), default, skip_if = "Vec::is_empty")]
    pub allow_qos: Vec<String>,
    /// Qualities of service whose jobs may not.
    #[cbor(n(92), default, skip_if = "Vec::is_empty")]
    pub deny_qos: Vec<String>,
    /// Memory of each node for a job that names none; goes before `def_mem_per_cpu`.
    #[n(93)]
    pub def_mem_per_node: Option<MemoryMib>,
    /// Most memory of a job.
    #[n(94)]
    pub max_mem: Option<MemoryLimit>,
    /// Every job has its nodes for itself.
    #[cbor(n(95), default, skip_if = "is_false")]
    pub exclusive: bool,
}

/// An amount of memory, of each node or for each CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum MemoryLimit {
    /// Of each node.
    #[n(0)]
    PerNode(#[n(0)] MemoryMib),
    /// For each CPU.
    #[n(1)]
    PerCpu(#[n(0)] MemoryMib),
}

impl MemoryLimit {
    /// The amount.
    pub fn memory(self) -> MemoryMib {
        match self {
            Self::PerNode(memory) | Self::PerCpu(memory) => memory,
        }
    }
}

impl Partition {
    /// A partition of all nodes, without limits.
    pub fn all_nodes(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            nodes: Vec::new(),
            is_default: true,
            max_time: TimeLimit::Infinite,
            default_time: None,
            state: PartitionState::Up,
            min_nodes: None,
            max_nodes: None,
            root_only: false,
            allow_accounts: Vec::new(),
            deny_accounts: Vec::new(),
            priority_job_factor: None,
            priority_tier: None,
            def_mem_per_cpu: None,
            hidden: false,
            rank: 0,
            allow_groups: Vec::new(),
            allow_qos: Vec::new(),
            deny_qos: Vec::new(),
            def_mem_per_node: None,
            max_mem: None,
            exclusive: false,
        }
    }

    /// True if the node of this name belongs to it.
    pub fn has_node(&self, name: &str) -> bool {
        self.nodes.is_empty() || self.nodes.iter().any(|node| node == name)
    }

    /// True if jobs of the account may start.
    pub fn takes_account(&self, account: Option<&str>) -> bool {
        let named = |accounts: &[String]| account.is_some_and(|account| accounts.iter().any(|name| name == account));
        (self.allow_accounts.is_empty() || named(&self.allow_accounts)) && !named(&self.deny_accounts)
    }

    /// True if members of these groups may submit.
    pub fn takes_groups(&self, gid: u32, groups: &[u32]) -> bool {
        let member = |group: &u32| *group == gid || groups.contains(group);
        self.allow_groups.is_empty() || self.allow_groups.iter().any(|(_, group)| member(group))
    }

    /// True if jobs of the quality of service may start.
    pub fn takes_qos(&self, qos: Option<&str>) -> bool {
        let named = |all: &[String]| qos.is_some_and(|qos| all.iter().any(|name| name == qos));
        (self.allow_qos.is_empty() || named(&self.allow_qos)) && !named(&self.deny_qos)
    }

    /// True if a job that asks for this much memory, on a node of at least so many CPUs, stays below the limit.
    pub fn takes_memory(&self, asked: MemoryRequest, cpus_least: u32) -> bool {
        let cpus = u64::from(cpus_least.max(1));
        match (self.max_mem, asked) {
            (None, _) | (_, MemoryRequest::Default | MemoryRequest::PerGpu(_)) => true,
            // All that a node has.
            (Some(_), MemoryRequest::PerNode(MemoryMib(0)) | MemoryRequest::PerCpu(MemoryMib(0))) => false,
            (Some(MemoryLimit::PerNode(most)), MemoryRequest::PerNode(asked)) => asked <= most,
            (Some(MemoryLimit::PerNode(most)), MemoryRequest::PerCpu(asked)) => asked.0.saturating_mul(cpus) <= most.0,
            (Some(MemoryLimit::PerCpu(most)), MemoryRequest::PerCpu(asked)) => asked <= most,
            (Some(MemoryLimit::PerCpu(most)), MemoryRequest::PerNode(asked)) => asked.0 <= most.0.saturating_mul(cpus),
        }
    }

    /// Memory of a job that names none: the partition's default, else the cluster's, else all that a node has.
    pub fn default_memory(&self, settings: &Settings) -> MemoryRequest {
        match (self.def_mem_per_node, self.def_mem_per_cpu.or(settings.def_mem_per_cpu)) {
            (Some(memory), _) => MemoryRequest::PerNode(memory),
            (None, Some(memory)) => MemoryRequest::PerCpu(memory),
            (None, None) => MemoryRequest::PerNode(MemoryMib(0)),
        }
    }

    /// True if jobs may be submitted.
    pub fn takes_submissions(&self) -> bool {
        matches!(self.state, PartitionState::Up | PartitionState::Down)
    }

    /// True if jobs may be started.
    pub fn starts_jobs(&self) -> bool {
        matches!(self.state, PartitionState::Up | PartitionState::Drain)
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_first(rank: &u32) -> bool {
    *rank == 0
}
