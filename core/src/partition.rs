//! Partitions: named groups of nodes with limits.

use minicbor::{Decode, Encode};

use crate::{MemoryMib, TimeLimit};

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

    /// True if jobs may be submitted.
    pub fn takes_submissions(&self) -> bool {
        matches!(self.state, PartitionState::Up | PartitionState::Down)
    }

    /// True if jobs may be started.
    pub fn starts_jobs(&self) -> bool {
        matches!(self.state, PartitionState::Up | PartitionState::Drain)
    }
}

fn is_first(rank: &u32) -> bool {
    *rank == 0
}
