//! What the read side shows: records with what only the whole state or the last plan knows.

use minicbor::{Decode, Encode};

use crate::{
    IndexSet, MemoryMib, Shared, TimeMs,
    job::{GresAlloc, Job, Reason},
    node::Node,
    partition::Partition,
    reservation::Reservation,
    settings::Settings,
};

/// A job as shown.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct JobView {
    /// The job.
    #[n(0)]
    pub job: Shared<Job>,
    /// Names of its nodes, in the order of its allocations.
    #[cbor(n(1), default, skip_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Why it waits (from the last plan) or how it ended.
    #[n(2)]
    pub reason: Reason,
    /// When it is expected to start, from the last plan.
    #[n(3)]
    pub start_estimate: Option<TimeMs>,
    /// Where it is expected to start.
    #[cbor(n(4), default, skip_if = "Vec::is_empty")]
    pub planned_nodes: Vec<String>,
    /// Partitions with the default filled in.
    #[cbor(n(5), default)]
    pub partitions: Vec<String>,
    /// When the planner last looked at it.
    #[n(6)]
    pub last_evaluated: Option<TimeMs>,
    /// Memory of each node that the job will get or has, with defaults filled in.
    #[cbor(n(7), default)]
    pub memory_per_node: MemoryMib,
}

/// A node as shown.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct NodeView {
    /// The node.
    #[n(0)]
    pub node: Node,
    /// CPUs that jobs have.
    #[n(1)]
    pub cpus_taken: u32,
    /// Memory that jobs have.
    #[n(2)]
    pub memory_taken: MemoryMib,
    /// Generic resources that jobs have.
    #[cbor(n(3), default)]
    pub gres_taken: Vec<GresAlloc>,
    /// How many jobs hold something.
    #[n(4)]
    pub jobs: u32,
    /// How many of those are completing.
    #[n(5)]
    pub completing: u32,
    /// Names of its partitions.
    #[cbor(n(6), default)]
    pub partitions: Vec<String>,
    /// Last message from it; not part of the replicated state.
    #[n(7)]
    pub last_contact: Option<TimeMs>,
    /// Load of its CPUs, in hundredths; not part of the replicated state.
    #[n(8)]
    pub load_hundredths: Option<u32>,
    /// Free memory of the machine; not part of the replicated state.
    #[n(9)]
    pub memory_unused: Option<MemoryMib>,
    /// CPU numbers that jobs have.
    #[cbor(n(10), default)]
    pub cpu_numbers_taken: IndexSet,
    /// The last plan keeps it for a waiting job.
    #[cbor(n(11), default)]
    pub planned: bool,
    /// Name of the reservation that holds it now.
    #[n(12)]
    pub reservation: Option<String>,
    /// That reservation is for maintenance.
    #[cbor(n(13), default)]
    pub maint: bool,
}

/// A partition as shown.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct PartitionView {
    /// The partition.
    #[n(0)]
    pub partition: Partition,
    /// Names of its nodes that exist.
    #[cbor(n(1), default)]
    pub nodes: Vec<String>,
    /// CPUs of its nodes.
    #[n(2)]
    pub cpus: u64,
    /// Memory of its nodes.
    #[n(3)]
    pub memory: MemoryMib,
}

/// A reservation as shown.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ReservationView {
    /// The reservation.
    #[n(0)]
    pub reservation: Reservation,
    /// CPUs of its nodes.
    #[n(1)]
    pub cpus: u64,
    /// Cores of its nodes.
    #[n(2)]
    pub cores: u64,
}

/// The cluster as shown.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ClusterView {
    /// Settings.
    #[n(0)]
    pub settings: Settings,
    /// The controller's version.
    #[n(1)]
    pub version: String,
    /// The controller's host.
    #[n(2)]
    pub host: String,
    /// When the controller started.
    #[n(3)]
    pub started: TimeMs,
    /// The next job's number.
    #[n(4)]
    pub next_job: u32,
    /// The controller's time.
    #[n(5)]
    pub now: TimeMs,
    /// More that the configuration says, name and value, in the order to show.
    #[cbor(n(6), default)]
    pub more: Vec<(String, String)>,
    /// Licences, in the order of names.
    #[cbor(n(7), default)]
    pub licenses: Vec<LicenseView>,
}

/// A licence as shown.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct LicenseView {
    /// Its name.
    #[n(0)]
    pub name: String,
    /// How many there are.
    #[n(1)]
    pub total: u32,
    /// How many jobs have.
    #[n(2)]
    pub used: u32,
}

/// Why a job waits, from the code that decided.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct WhyView {
    /// The job.
    #[n(0)]
    pub job: JobView,
    /// What stands before it, most important first.
    #[cbor(n(1), default)]
    pub causes: Vec<Cause>,
    /// Jobs before it in the queue.
    #[n(2)]
    pub ahead: u32,
}

/// One thing that keeps a job from starting.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Cause {
    /// Jobs that hold what it needs, and when the last of those that must end reaches its limit.
    #[n(0)]
    WaitsFor {
        /// The jobs, first to end first.
        #[n(0)]
        jobs: Vec<crate::JobId>,
        /// When enough is free at the latest.
        #[n(1)]
        until: Option<TimeMs>,
    },
    /// Another job goes first.
    #[n(1)]
    Behind {
        /// The first of them.
        #[n(0)]
        job: crate::JobId,
    },
    /// On so many nodes something is short.
    #[n(2)]
    Short {
        /// What: `cpus`, `memory`, `gres/NAME`, `feature NAME`, `size`, `whole nodes`, `drained`, `down`, `excluded`,
        /// `kept for jobs before it`.
        #[n(0)]
        what: String,
        /// On how many nodes of its partitions.
        #[n(1)]
        nodes: u32,
        /// Of how many.
        #[n(2)]
        of: u32,
    },
    /// A limit of its partition or array.
    #[n(3)]
    Limit {
        /// Which, in words.
        #[n(0)]
        what: String,
    },
    /// Held, until someone releases it.
    #[n(4)]
    Held {
        /// By an operator, so that only an operator may release it.
        #[n(0)]
        by_operator: bool,
    },
    /// Not before its begin time.
    #[n(5)]
    Begin {
        /// The time.
        #[n(0)]
        at: TimeMs,
    },
}
