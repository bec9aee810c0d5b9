//! Answers to commands.

use minicbor::{Decode, Encode};
use thiserror::Error;

use crate::{JobId, NodeId, accounting::Policy, step::StepAlloc};

/// What a command did.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Outcome {
    /// The job was accepted, now or by an earlier try with the same request id.
    #[n(0)]
    Submitted {
        /// Its number.
        #[n(0)]
        job: JobId,
    },
    /// Done, on this many jobs, nodes or partitions.
    #[n(1)]
    Done {
        /// How many.
        #[n(0)]
        count: u32,
    },
    /// The node is registered.
    #[n(2)]
    Registered {
        /// Its number.
        #[n(0)]
        node: NodeId,
    },
    /// Nothing changed.
    #[n(3)]
    Refused(#[n(0)] Refusal),
    /// The step is made, now or by an earlier try with the same request id.
    #[n(5)]
    StepMade {
        /// Its number.
        #[n(0)]
        step: u32,
        /// What it has, node by node.
        #[n(1)]
        allocs: Vec<StepAlloc>,
    },
    /// The reservation is made.
    #[n(4)]
    Reserved {
        /// Its name.
        #[n(0)]
        name: String,
    },
}

/// Why nothing changed. The words that users see are in `gpun-compat`; these are for logs.
#[derive(Debug, Clone, PartialEq, Eq, Error, Encode, Decode)]
pub enum Refusal {
    /// No such job.
    #[n(0)]
    #[error("no such job")]
    UnknownJob,
    /// No such partition.
    #[n(1)]
    #[error("no such partition")]
    UnknownPartition,
    /// No such node.
    #[n(2)]
    #[error("no such node")]
    UnknownNode,
    /// Not allowed to this caller.
    #[n(3)]
    #[error("not allowed to this user")]
    AccessDenied,
    /// The job is ending or has ended.
    #[n(4)]
    #[error("the job has ended")]
    AlreadyDone,
    /// The job has not started.
    #[n(5)]
    #[error("the job is pending")]
    JobPending,
    /// The job has started.
    #[n(6)]
    #[error("the job is not pending")]
    NotPending,
    /// No default partition to put the job into.
    #[n(7)]
    #[error("no default partition")]
    NoDefaultPartition,
    /// The partition takes no submissions now.
    #[n(8)]
    #[error("the partition takes no jobs")]
    PartitionInactive,
    /// The submitter may not use the partition.
    #[n(9)]
    #[error("the partition is not open to this user or account")]
    PartitionAccess,
    /// No node or group of nodes of the partition could ever run it.
    #[n(10)]
    #[error("no nodes have what is asked for")]
    NodeConfigUnavailable,
    /// More nodes than there are or may be.
    #[n(11)]
    #[error("more nodes than the partition has or allows")]
    NodeCount,
    /// More memory than any node has.
    #[n(12)]
    #[error("more memory than a node has")]
    Memory,
    /// The time limit is missing, zero, or longer than allowed.
    #[n(13)]
    #[error("the time limit is not valid")]
    TimeLimit,
    /// Task numbers out of range.
    #[n(14)]
    #[error("the array's task numbers are not valid")]
    Array,
    /// Too many jobs.
    #[n(15)]
    #[error("the queue is full")]
    QueueFull,
    /// A blob that the state does not have; send it along.
    #[n(16)]
    #[error("script or environment must be sent along")]
    BlobMissing,
    /// No numbers left.
    #[n(17)]
    #[error("no job numbers are left")]
    NoJobIds,
    /// A named node does not exist.
    #[n(18)]
    #[error("node name {name} is not known")]
    UnknownNodeName {
        /// The name.
        #[n(0)]
        name: String,
    },
    /// The plan was made on an older state and no longer fits.
    #[n(19)]
    #[error("the placement does not fit the state any more: {why}")]
    StalePlacement {
        /// What changed.
        #[n(0)]
        why: String,
    },
    /// A report of an attempt that is not the current one.
    #[n(20)]
    #[error("the report is of an older attempt")]
    StaleReport,
    /// No such generic resource on any node.
    #[n(21)]
    #[error("the generic resource is not known")]
    Gres,
    /// The job can't be requeued.
    #[n(22)]
    #[error("the job may not be requeued")]
    RequeueDisabled,
    /// The entry is of a newer version.
    #[n(23)]
    #[error("the entry is of version {version}, newer than this program: upgrade it")]
    NewerVersion {
        /// The entry's version.
        #[n(0)]
        version: u16,
    },
    /// A value that makes no sense.
    #[n(24)]
    #[error("{what} is not valid")]
    Invalid {
        /// Which.
        #[n(0)]
        what: String,
    },
    /// A job that is depended on is not known, or is the job itself.
    #[n(25)]
    #[error("the dependency names a job that is not known or can't be waited for")]
    Dependency,
    /// A job that is depended on waits for this one.
    #[n(26)]
    #[error("the jobs would wait for each other")]
    CircularDependency,
    /// No such licence, or more than there are.
    #[n(27)]
    #[error("a licence is not known, or fewer are there than asked for")]
    License,
    /// No node has as many CPUs as each node shall have.
    #[n(28)]
    #[error("no node has as many CPUs as asked for on each")]
    CpusPerNode,
    /// No node is built as asked for.
    #[n(29)]
    #[error("no node has as many sockets, cores or threads as asked for")]
    Layout,
    /// A preferred feature that no node has.
    #[n(30)]
    #[error("no node has a feature that is preferred")]
    Prefer,
    /// Features of the script's node that are not among those of all nodes.
    #[n(31)]
    #[error("features of the script's node are not among those asked for of all")]
    BatchFeatures,
    /// Only the whole heterogeneous job can be treated so.
    #[n(32)]
    #[error("not the first component of the job")]
    NotHetLeader,
    /// The job runs.
    #[n(33)]
    #[error("the job is not suspended")]
    NotSuspended,
    /// The job is held; release it first.
    #[n(34)]
    #[error("the job is held")]
    JobHeld,
    /// A feature that no node has.
    #[n(35)]
    #[error("no node has a feature that is asked for")]
    Feature,
    /// No such reservation.
    #[n(40)]
    #[error("no such reservation")]
    Reservation,
    /// The submitter may not use the reservation.
    #[n(41)]
    #[error("the reservation is not open to this user or account")]
    ReservationAccess,
    /// There is a reservation of this name.
    #[n(42)]
    #[error("a reservation of this name is there")]
    ReservationName,
    /// It ends before it starts, or has passed.
    #[n(43)]
    #[error("the reservation's time is not valid")]
    ReservationTime,
    /// Nobody may use it.
    #[n(44)]
    #[error("the reservation names neither users nor accounts")]
    ReservationUsers,
    /// It says neither which nodes nor how many.
    #[n(45)]
    #[error("the reservation has no nodes")]
    ReservationNodes,
    /// Jobs run there for longer, or in it.
    #[n(46)]
    #[error("jobs stand against the reservation")]
    ReservationBusy,
    /// Another one has the nodes at that time.
    #[n(47)]
    #[error("another reservation has the nodes at that time")]
    ReservationOverlap,
    /// No such account, or not for this user or partition.
    #[n(60)]
    #[error("the account is not known, or not for this user or partition")]
    Account,
    /// No such quality of service, or not for this association.
    #[n(61)]
    #[error("the quality of service is not known, or not for this association")]
    Qos,
    /// Over a limit.
    #[n(62)]
    #[error("over a limit of the association or the quality of service")]
    Policy(#[n(0)] Policy),
    /// A record of accounting that is not there.
    #[n(63)]
    #[error("there is no {what}")]
    UnknownRecord {
        /// Which.
        #[n(0)]
        what: String,
    },
    /// A record of accounting that is there already.
    #[n(64)]
    #[error("there is already {what}")]
    RecordExists {
        /// Which.
        #[n(0)]
        what: String,
    },
    /// A record of accounting that others need.
    #[n(65)]
    #[error("{what} is in use")]
    RecordInUse {
        /// Which.
        #[n(0)]
        what: String,
    },
    /// Other steps have what the step needs.
    #[n(70)]
    #[error("other steps of the job have what it needs")]
    StepBusy,
    /// A step needs more CPUs than its job has.
    #[n(71)]
    #[error("the step needs more CPUs than its job has")]
    StepCpus,
    /// A step needs more nodes than its job has.
    #[n(72)]
    #[error("the step needs more nodes than its job has")]
    StepNodes,
    /// Steps on several nodes.
    #[n(73)]
    #[error("steps on several nodes are not there yet")]
    StepOnSeveralNodes,
    /// The job has not started or has ended.
    #[n(90)]
    #[error("the job does not run")]
    NotRunning,
    /// The shortest limit is longer than the limit.
    #[n(91)]
    #[error("the shortest time limit is longer than the time limit")]
    TimeMin,
    /// A time that has passed.
    #[n(92)]
    #[error("the time has passed")]
    Time,
    /// The node is not in a state from which this could be.
    #[n(93)]
    #[error("the node's state does not allow it")]
    NodeState,
    /// Features that the node can't have.
    #[n(94)]
    #[error("the active features are not among the available ones")]
    ActiveFeatures,
    /// The submitter is in no group that may use the partition.
    #[n(95)]
    #[error("the partition is not open to the user's groups")]
    PartitionGroup,
    /// A partition needs a node.
    #[n(96)]
    #[error("a partition without nodes can run nothing: set its state to DOWN instead")]
    NoNodesLeft,
}
