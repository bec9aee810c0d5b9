//! What may change the state: log entries and the commands in them.
//!
//! Entries are kept for ever and replayed by later versions: fields and variants are added, each with a new number, and never
//! changed or reused (ADR 0002).

use minicbor::{Decode, Encode};

use crate::{
    Attempt, Digest, IndexSet, JobId, MemoryMib, NodeId, RequestId, TimeLimit, TimeMs, accounting,
    dependency::Dependency,
    history::Forget,
    job::{ExitStatus, NodeAlloc, Owner, SignalScope, Usage},
    node::Inventory,
    partition::{MemoryLimit, Partition, PartitionState},
    reservation::{Reservation, ReservationChange},
    settings::Settings,
    spec::{GresRequest, JobSpec, LicenseRequest},
    step::NewStep,
};

/// The version that this build writes into entries. Readers take any version up to their own.
///
/// Since 2, request ids are remembered over a jump of the clock. Since 3, there are dependencies, licences, layouts, heterogeneous
/// and suspended jobs, and a hold of a running job counts once it waits again. Since 4, a job's
/// reservation has to be there. Since 5, accounts, associations and their limits hold. Since 6, there are steps. Since 9,
/// a deadline ends the job that misses it, and a node that is well cannot be resumed.
pub const ENTRY_VERSION: u16 = 9;

/// One entry of the replicated log: a batch of commands with the leader's time.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct Entry {
    /// Version of the commands' meaning.
    #[n(0)]
    pub version: u16,
    /// The leader's clock. `apply` never lets time run backwards.
    #[n(1)]
    pub stamp: TimeMs,
    /// Applied in this order; each has its own outcome.
    #[n(2)]
    pub commands: Vec<Command>,
}

/// A caller, as the kernel or a signature told the controller; never from a request's body.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub struct Identity {
    /// User id.
    #[n(0)]
    pub uid: u32,
    /// Primary group id.
    #[n(1)]
    pub gid: u32,
}

/// Bytes kept by digest.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Blob {
    /// BLAKE3 of `bytes`; the proposer computed it.
    #[n(0)]
    pub digest: Digest,
    /// The bytes.
    #[cbor(n(1), with = "minicbor::bytes")]
    pub bytes: Vec<u8>,
}

/// A submission.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
#[cbor(map)]
pub struct Submit {
    /// Makes a repeated submission one job.
    #[n(0)]
    pub request: RequestId,
    /// The submitter.
    #[n(1)]
    pub owner: Owner,
    /// What is asked for.
    #[n(2)]
    pub spec: JobSpec,
    /// The batch script.
    #[n(3)]
    pub script: Digest,
    /// The environment.
    #[n(4)]
    pub environment: Digest,
    /// Those of the two that the proposer did not see in the state.
    #[cbor(n(5), default, skip_if = "Vec::is_empty")]
    pub blobs: Vec<Blob>,
    /// Further components of a heterogeneous job; `spec` is the first.
    #[cbor(n(6), default, skip_if = "Vec::is_empty")]
    pub components: Vec<JobSpec>,
}

/// Which jobs: a number as users write it, and for arrays perhaps some of its tasks.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct JobRef {
    /// A job, an array (all of its tasks), or one task by its own number.
    #[n(0)]
    pub job: JobId,
    /// Only these tasks of the array.
    #[n(1)]
    pub tasks: Option<IndexSet>,
    /// Only this component of a heterogeneous job.
    #[n(2)]
    pub component: Option<u32>,
}

/// What `scontrol update job` may change; what is not given stays.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(map)]
pub struct JobChange {
    /// Name.
    #[n(0)]
    pub name: Option<String>,
    /// Time limit; only an operator may raise it.
    #[n(1)]
    pub time_limit: Option<TimeLimit>,
    /// Partitions, while pending.
    #[n(2)]
    pub partitions: Option<Vec<String>>,
    /// Priority; raising is for operators.
    #[n(3)]
    pub priority: Option<u32>,
    /// Nice.
    #[n(4)]
    pub nice: Option<i32>,
    /// Comment.
    #[n(5)]
    pub comment: Option<String>,
    /// Nodes that must be among the allocated ones, while pending.
    #[n(6)]
    pub node_list: Option<Vec<String>>,
    /// Nodes that must not be, while pending.
    #[n(7)]
    pub exclude: Option<Vec<String>>,
    /// Requeue after a node's failure.
    #[n(8)]
    pub requeue: Option<bool>,
    /// Begin time, while pending.
    #[n(9)]
    pub begin: Option<TimeMs>,
    /// Running tasks of an array at a time; 0 for no limit.
    #[n(10)]
    pub array_max_running: Option<u32>,
    /// Fewest nodes, while pending.
    #[n(11)]
    pub nodes_min: Option<u32>,
    /// Most nodes, while pending.
    #[n(12)]
    pub nodes_max: Option<u32>,
    /// Tasks, while pending.
    #[n(13)]
    pub ntasks: Option<u32>,
    /// CPUs for each task, while pending.
    #[n(14)]
    pub cpus_per_task: Option<u32>,
    /// Memory of each node, while pending.
    #[n(15)]
    pub memory_per_node: Option<MemoryMib>,
    /// Memory of each CPU, while pending.
    #[n(16)]
    pub memory_per_cpu: Option<MemoryMib>,
    /// Features, while pending.
    #[n(17)]
    pub features: Option<Vec<String>>,
    /// Account.
    #[n(18)]
    pub account: Option<String>,
    /// Quality of service.
    #[n(19)]
    pub qos: Option<String>,
    /// Standard output, while pending.
    #[n(20)]
    pub std_out: Option<String>,
    /// Standard error, while pending.
    #[n(21)]
    pub std_err: Option<String>,
    /// Deadline.
    #[n(22)]
    pub deadline: Option<TimeMs>,
    /// Working folder, while pending.
    #[n(23)]
    pub work_dir: Option<String>,
    /// What it waits for of other jobs, while pending; a list without conditions ends the wait.
    #[n(24)]
    pub dependency: Option<Dependency>,
    /// Licences, while pending.
    #[n(25)]
    pub licenses: Option<Vec<LicenseRequest>>,
    /// With `features`: lists one of which each node must have.
    #[n(26)]
    pub feature_sets: Option<Vec<Vec<String>>>,
    /// With `features`: how they were written.
    #[n(27)]
    pub features_text: Option<String>,
    /// Workload characterisation key.
    #[n(28)]
    pub wckey: Option<String>,
    /// Neighbouring nodes only, while pending; for operators.
    #[n(29)]
    pub contiguous: Option<bool>,
    /// Generic resources of each node, while pending.
    #[n(90)]
    pub gres: Option<Vec<GresRequest>>,
    /// Generic resources for each task, while pending.
    #[n(91)]
    pub gres_per_task: Option<Vec<GresRequest>>,
    /// Fewest CPUs of each node, while pending.
    #[n(92)]
    pub mincpus: Option<u32>,
    /// Features that nodes have if such are free, while pending.
    #[n(93)]
    pub prefer: Option<Vec<String>>,
    /// The shortest limit that the job would take; zero for none. Means nothing for a running job.
    #[n(94)]
    pub time_min: Option<TimeLimit>,
    /// Free text for those who schedule by it.
    #[n(95)]
    pub extra: Option<String>,
    /// Free text of operators.
    #[n(96)]
    pub admin_comment: Option<String>,
    /// Smallest temporary disk of a node, while pending.
    #[n(97)]
    pub tmp_disk: Option<MemoryMib>,
    /// Reservation to run in, while pending; empty for none.
    #[n(98)]
    pub reservation: Option<String>,
    /// CPUs may be shared, while pending; for operators.
    #[n(99)]
    pub oversubscribe: Option<bool>,
    /// When a running job shall end at the latest.
    #[n(100)]
    pub end_time: Option<TimeMs>,
    /// Standard input, while pending.
    #[n(101)]
    pub std_in: Option<String>,
    /// Tasks on each node, while pending; for operators.
    #[n(102)]
    pub ntasks_per_node: Option<u32>,
    /// CPUs over all nodes, while pending: as many tasks as that makes.
    #[n(103)]
    pub cpus: Option<u32>,
}

/// Start a job on these nodes, as planned on an older state.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Placement {
    /// The job or array.
    #[n(0)]
    pub job: JobId,
    /// The task of an array that waits in one record.
    #[n(1)]
    pub task: Option<u32>,
    /// The attempt that the plan saw; another one refuses the placement.
    #[n(2)]
    pub seen_attempt: Attempt,
    /// The partition.
    #[n(3)]
    pub partition: String,
    /// Node by node; the batch script runs on the first.
    #[n(4)]
    pub allocs: Vec<NodeAlloc>,
}

/// What a node says of one attempt.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct JobReport {
    /// The job.
    #[n(0)]
    pub job: JobId,
    /// The attempt.
    #[n(1)]
    pub attempt: Attempt,
    /// What happened.
    #[n(2)]
    pub event: JobEvent,
}

/// What happened to an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum JobEvent {
    /// The script runs.
    #[n(0)]
    Launched {
        /// When, by the node's clock.
        #[n(0)]
        at: TimeMs,
    },
    /// It ended and nothing of it is left on the node.
    #[n(1)]
    Ended(#[n(0)] Ended),
    /// A step ended and none of its tasks is left.
    #[n(2)]
    StepEnded(#[n(0)] StepEnded),
}

/// How a step ended.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct StepEnded {
    /// Its number.
    #[n(0)]
    pub step: u32,
    /// When, by the node's clock.
    #[n(1)]
    pub at: TimeMs,
    /// The greatest exit of its tasks.
    #[n(2)]
    pub exit: ExitStatus,
    /// What its tasks used; the peak of memory is of one task.
    #[n(3)]
    pub usage: Usage,
    /// It was ended from outside.
    #[cbor(n(4), default)]
    pub cancelled: bool,
    /// The kernel killed a task for want of memory.
    #[cbor(n(5), default)]
    pub oom: bool,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Ended {
    /// When, by the node's clock.
    #[n(0)]
    pub at: TimeMs,
    /// What made it end.
    #[n(1)]
    pub how: EndedHow,
    /// The script's exit.
    #[n(2)]
    pub exit: ExitStatus,
    /// More in words.
    #[n(3)]
    pub text: Option<String>,
    /// What it used.
    #[n(4)]
    pub usage: Usage,
}

/// What made an attempt end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum EndedHow {
    /// By itself, or by a signal that its user sent.
    #[n(0)]
    Exited,
    /// At its time limit, by the node.
    #[n(1)]
    TimeLimit,
    /// By the kernel, over its memory.
    #[n(2)]
    OutOfMemory,
    /// It never started, and would not on another try: a missing image, a refused mount.
    #[n(3)]
    LaunchFailed,
    /// Lost through no fault of its own: the supervisor or the runtime died.
    #[n(4)]
    Lost,
    /// Ended because the controller wished it.
    #[n(5)]
    Ordered,
}

/// What `scontrol update node` may change.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum NodeChange {
    /// No new jobs.
    #[n(0)]
    Drain {
        /// Why.
        #[n(0)]
        reason: String,
    },
    /// Takes jobs again.
    #[n(1)]
    Resume,
    /// Given up: its jobs are requeued or failed.
    #[n(2)]
    Down {
        /// Why.
        #[n(0)]
        reason: String,
    },
    /// Takes jobs again, if it was drained.
    #[n(90)]
    Undrain,
    /// No new jobs: it is about to fail.
    #[n(91)]
    Fail {
        /// Why.
        #[n(0)]
        reason: String,
    },
    /// Another reason for what it is already; nothing for a node that is well.
    #[n(92)]
    Reason {
        /// Why.
        #[n(0)]
        reason: String,
    },
    /// What it is taken for.
    #[n(93)]
    Set(#[n(0)] Box<NodeSettings>),
    /// Takes jobs again, whatever kept it from that.
    #[n(94)]
    Idle,
}

/// What an operator says of a node; what is not given stays.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(map)]
pub struct NodeSettings {
    /// Scheduling weight, until the node's daemon states another one.
    #[n(0)]
    pub weight: Option<u32>,
    /// Features that it may have, until its daemon states others.
    #[n(1)]
    pub available_features: Option<Vec<String>>,
    /// Those of them that it has now.
    #[n(2)]
    pub active_features: Option<Vec<String>>,
    /// Free text; empty for none.
    #[n(3)]
    pub comment: Option<String>,
    /// Free text for those who schedule by it; empty for none.
    #[n(4)]
    pub extra: Option<String>,
}

/// What `scontrol update partition` may change; what is not given stays.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(map)]
pub struct PartitionChange {
    /// State.
    #[n(0)]
    pub state: Option<PartitionState>,
    /// Longest limit of a job.
    #[n(1)]
    pub max_time: Option<TimeLimit>,
    /// Limit of a job that names none.
    #[n(2)]
    pub default_time: Option<TimeLimit>,
    /// Default partition.
    #[n(3)]
    pub is_default: Option<bool>,
    /// Its nodes; all if empty.
    #[n(90)]
    pub nodes: Option<Vec<String>>,
    /// Nodes to add.
    #[cbor(n(91), default, skip_if = "Vec::is_empty")]
    pub nodes_add: Vec<String>,
    /// Nodes to take away.
    #[cbor(n(92), default, skip_if = "Vec::is_empty")]
    pub nodes_remove: Vec<String>,
    /// Fewest nodes of a job.
    #[n(93)]
    pub min_nodes: Option<u32>,
    /// Most nodes of a job; the highest number for no limit.
    #[n(94)]
    pub max_nodes: Option<u32>,
    /// Tier.
    #[n(95)]
    pub priority_tier: Option<u32>,
    /// Weight in the priority of its jobs.
    #[n(96)]
    pub priority_job_factor: Option<u32>,
    /// Not shown to those who may not use it.
    #[n(97)]
    pub hidden: Option<bool>,
    /// Only the superuser may submit.
    #[n(98)]
    pub root_only: Option<bool>,
    /// Accounts that may submit; all if empty.
    #[n(99)]
    pub allow_accounts: Option<Vec<String>>,
    /// Accounts that may not.
    #[n(100)]
    pub deny_accounts: Option<Vec<String>>,
    /// Groups that may submit, with their numbers as the proposer found them; all if empty.
    #[n(101)]
    pub allow_groups: Option<Vec<(String, u32)>>,
    /// Qualities of service whose jobs may start; all if empty.
    #[n(102)]
    pub allow_qos: Option<Vec<String>>,
    /// Qualities of service whose jobs may not.
    #[n(103)]
    pub deny_qos: Option<Vec<String>>,
    /// Memory of jobs that name none; zero for the cluster's.
    #[n(104)]
    pub def_mem: Option<MemoryLimit>,
    /// Most memory of a job; zero for no limit.
    #[n(105)]
    pub max_mem: Option<MemoryLimit>,
    /// Every job has its nodes for itself.
    #[n(106)]
    pub exclusive: Option<bool>,
}

/// A change that someone asks for.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum Act {
    /// End jobs for good.
    #[n(0)]
    Cancel(#[n(0)] JobRef),
    /// Send a signal to running jobs.
    #[n(1)]
    Signal {
        /// Which.
        #[n(0)]
        jobs: JobRef,
        /// Signal number.
        #[n(1)]
        signal: i32,
        /// To whom.
        #[n(2)]
        scope: SignalScope,
    },
    /// Keep pending jobs from starting.
    #[n(2)]
    Hold {
        /// Which.
        #[n(0)]
        jobs: JobRef,
        /// As the job's user would, though an operator does it (`uhold`).
        #[n(1)]
        as_user: bool,
    },
    /// Let held jobs start.
    #[n(3)]
    Release(#[n(0)] JobRef),
    /// Put running or ended jobs back into the queue.
    #[n(4)]
    Requeue {
        /// Which.
        #[n(0)]
        jobs: JobRef,
        /// Held afterwards.
        #[n(1)]
        hold: bool,
    },
    /// Change jobs.
    #[n(5)]
    UpdateJob {
        /// Which.
        #[n(0)]
        jobs: JobRef,
        /// How.
        #[n(1)]
        change: Box<JobChange>,
    },
    /// Change a node.
    #[n(6)]
    UpdateNode {
        /// Its name.
        #[n(0)]
        name: String,
        /// How.
        #[n(1)]
        change: NodeChange,
    },
    /// Stop running jobs.
    #[n(8)]
    Suspend(#[n(0)] JobRef),
    /// Let stopped jobs go on.
    #[n(9)]
    Resume(#[n(0)] JobRef),
    /// Change a partition.
    #[n(7)]
    UpdatePartition {
        /// Its name.
        #[n(0)]
        name: String,
        /// How.
        #[n(1)]
        change: Box<PartitionChange>,
    },
    /// Keep nodes for some users.
    #[n(20)]
    CreateReservation(#[n(0)] Box<Reservation>),
    /// Change a reservation.
    #[n(21)]
    UpdateReservation {
        /// Its name.
        #[n(0)]
        name: String,
        /// How.
        #[n(1)]
        change: Box<ReservationChange>,
    },
    /// End a reservation.
    #[n(22)]
    DeleteReservation {
        /// Its name.
        #[n(0)]
        name: String,
    },
    /// Change accounts, users, associations and qualities of service: all of it or nothing.
    #[n(40)]
    Account(#[n(0)] Vec<accounting::Change>),
}

/// One change of the state.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub enum Command {
    /// Accept a job.
    #[n(0)]
    Submit(#[n(0)] Box<Submit>),
    /// A user's or operator's wish.
    #[n(1)]
    Act {
        /// Who.
        #[n(0)]
        who: Identity,
        /// What.
        #[n(1)]
        act: Act,
    },
    /// The planner's decision.
    #[n(2)]
    Place(#[n(0)] Placement),
    /// A node's reports.
    #[n(3)]
    Report {
        /// The node.
        #[n(0)]
        node: NodeId,
        /// What it says.
        #[n(1)]
        reports: Vec<JobReport>,
    },
    /// A node is there.
    #[n(4)]
    RegisterNode {
        /// Its name.
        #[n(0)]
        name: String,
        /// What it has.
        #[n(1)]
        inventory: Inventory,
    },
    /// A node was not heard of for too long.
    #[n(5)]
    NodeLost {
        /// The node.
        #[n(0)]
        node: NodeId,
    },
    /// The configuration, as the leader read it.
    #[n(6)]
    Configure {
        /// Settings.
        #[n(0)]
        settings: Box<Settings>,
        /// Partitions to add or replace.
        #[n(1)]
        partitions: Vec<Partition>,
    },
    /// The planner's decision on jobs that start together or not at all.
    #[n(8)]
    PlaceTogether(#[n(0)] Vec<Placement>),
    /// Records of the history that are older than they shall be kept; the leader found them.
    #[n(40)]
    ForgetHistory(#[n(0)] Vec<Forget>),
    /// Time passes: ended jobs leave, request ids are forgotten, begin times come.
    #[n(7)]
    Tick,
    /// A step of a running job.
    #[n(41)]
    CreateStep {
        /// Who.
        #[n(0)]
        who: Identity,
        /// What.
        #[n(1)]
        new: Box<NewStep>,
    },
}
