//! Jobs: one submission, its state, its place and its runs.

use minicbor::{Decode, Encode};

use crate::{
    Attempt, Digest, IndexSet, JobId, MemoryMib, NodeId, Shared, TimeLimit, TimeMs,
    accounting::{Charge, Policy},
    dependency::Dependency,
    spec::JobSpec,
};

/// Who submitted a job, as the kernel told the controller; resolved to names once, at submission.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(map)]
pub struct Owner {
    /// User id.
    #[n(0)]
    pub uid: u32,
    /// Primary group id.
    #[n(1)]
    pub gid: u32,
    /// Supplementary group ids.
    #[cbor(n(2), default)]
    pub groups: Vec<u32>,
    /// Name of `uid`, or the number as text.
    #[cbor(n(3), default)]
    pub user: String,
    /// Name of `gid`, or the number as text.
    #[cbor(n(4), default)]
    pub group: String,
    /// Home folder.
    #[cbor(n(5), default)]
    pub home: String,
}

/// The base state of a job. Whether it is still completing is told by [`Job::is_completing`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(index_only)]
pub enum JobState {
    /// Waits for resources, time or release.
    #[n(0)]
    Pending,
    /// Placed on nodes.
    #[n(1)]
    Running,
    /// Placed and stopped.
    #[n(2)]
    Suspended,
    /// Ended with exit code 0.
    #[n(3)]
    Completed,
    /// Cancelled by its user or an operator.
    #[n(4)]
    Cancelled,
    /// Ended with another exit code, a signal, or never started.
    #[n(5)]
    Failed,
    /// Reached its time limit.
    #[n(6)]
    Timeout,
    /// Lost its node.
    #[n(7)]
    NodeFail,
    /// Gave way to another job.
    #[n(8)]
    Preempted,
    /// Its node did not come up.
    #[n(9)]
    BootFail,
    /// Could not end by its deadline.
    #[n(10)]
    Deadline,
    /// Used more memory than it was given.
    #[n(11)]
    OutOfMemory,
}

impl JobState {
    /// True for states that no run leaves again.
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Pending | Self::Running | Self::Suspended)
    }
}

/// Why a job waits or how it ended. Kept in the state only where an entry decided it; the reasons of waiting jobs come from the
/// last plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
pub enum Reason {
    /// Nothing to say.
    #[n(0)]
    #[default]
    None,
    /// Jobs with a higher priority wait for the same partition.
    #[n(1)]
    Priority,
    /// Not enough is free.
    #[n(2)]
    Resources,
    /// A job that this one depends on has not ended.
    #[n(3)]
    Dependency,
    /// Held by its user.
    #[n(4)]
    HeldUser,
    /// Held by an operator.
    #[n(5)]
    HeldAdmin,
    /// Its begin time is not reached.
    #[n(6)]
    BeginTime,
    /// Its partition is down.
    #[n(7)]
    PartitionDown,
    /// Its partition is inactive.
    #[n(8)]
    PartitionInactive,
    /// Longer than its partition allows.
    #[n(9)]
    PartitionTimeLimit,
    /// More or fewer nodes than its partition allows.
    #[n(10)]
    PartitionNodeLimit,
    /// Nodes that it needs are down, drained or reserved.
    #[n(11)]
    ReqNodeNotAvail,
    /// The array's own limit of running tasks.
    #[n(12)]
    ArrayTaskLimit,
    /// The container or the script could not be started.
    #[n(13)]
    LaunchFailure,
    /// Ended with an exit code other than 0.
    #[n(14)]
    NonZeroExitCode,
    /// Ended by this signal.
    #[n(15)]
    RaisedSignal(#[n(0)] u8),
    /// Reached its limit.
    #[n(16)]
    TimeLimit,
    /// Used more memory than it was given.
    #[n(17)]
    OutOfMemory,
    /// Its node was lost.
    #[n(18)]
    NodeFail,
    /// The last run is still being cleaned up.
    #[n(19)]
    Cleaning,
    /// No node of its partitions could ever run it.
    #[n(20)]
    BadConstraints,
    /// Held after it was requeued.
    #[n(21)]
    RequeuedHeld,
    /// All its licences are in use.
    #[n(22)]
    Licenses,
    /// Its deadline passed.
    #[n(23)]
    DeadLine,
    /// What it depends on can't happen any more.
    #[n(24)]
    DependencyNeverSatisfied,
    /// Its reservation has not begun, or is too short for it.
    #[n(25)]
    Reservation,
    /// Its reservation is gone.
    #[n(26)]
    ReservationDeleted,
    /// A limit of its association or its quality of service.
    #[n(40)]
    Policy(#[n(0)] Policy),
    /// Its partition is not open to its account.
    #[n(41)]
    AccountNotAllowed,
    /// Its partition is not open to its quality of service.
    #[n(90)]
    QosNotAllowed,
    /// More memory than its partition allows.
    #[n(91)]
    MaxMemPerLimit,
}

/// How a script ended: its exit code, and the signal that ended it (0 if none).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
pub struct ExitStatus {
    /// Exit code, 0 to 255.
    #[n(0)]
    pub code: u8,
    /// Signal number, or 0.
    #[n(1)]
    pub signal: u8,
}

/// Who holds a job back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(index_only)]
pub enum Hold {
    /// Nobody.
    #[n(0)]
    #[default]
    None,
    /// Its user; the user may release it.
    #[n(1)]
    User,
    /// An operator; only an operator may release it.
    #[n(2)]
    Admin,
}

/// The part that a record plays in a job array.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum ArrayRole {
    /// All tasks that have not been placed, in one record, whose id is the array's id.
    #[n(0)]
    Waiting {
        /// Task numbers.
        #[n(0)]
        tasks: IndexSet,
    },
    /// One task on its own. The last one placed keeps the array's id.
    #[n(1)]
    Task {
        /// The array's id.
        #[n(0)]
        array: JobId,
        /// Task number.
        #[n(1)]
        task: u32,
    },
}

/// What an array's tasks know of the whole array; the same for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct ArrayShape {
    /// How many tasks were submitted.
    #[n(0)]
    pub count: u32,
    /// Lowest task number.
    #[n(1)]
    pub min: u32,
    /// Highest task number.
    #[n(2)]
    pub max: u32,
    /// Distance of task numbers.
    #[n(3)]
    pub step: u32,
    /// How many may run at the same time.
    #[n(4)]
    pub max_running: Option<u32>,
}

/// Generic resources given on one node.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct GresAlloc {
    /// Such as `gpu`.
    #[n(0)]
    pub name: String,
    /// The node's type of it, if it names one.
    #[n(1)]
    pub kind: Option<String>,
    /// Positions in the node's inventory of this name.
    #[n(2)]
    pub indexes: IndexSet,
}

/// What a job has on one node.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct NodeAlloc {
    /// The node.
    #[n(0)]
    pub node: NodeId,
    /// CPU numbers.
    #[n(1)]
    pub cpus: IndexSet,
    /// Memory.
    #[n(2)]
    pub memory: MemoryMib,
    /// Tasks on this node.
    #[n(3)]
    pub tasks: u32,
    /// Generic resources.
    #[cbor(n(4), default, skip_if = "Vec::is_empty")]
    pub gres: Vec<GresAlloc>,
}

/// Resources that a run used, as its node measured them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(map)]
pub struct Usage {
    /// Peak of resident memory, in KiB.
    #[n(0)]
    pub max_rss_kib: u64,
    /// CPU time in user mode, in milliseconds.
    #[n(1)]
    pub user_ms: u64,
    /// CPU time in the kernel, in milliseconds.
    #[n(2)]
    pub system_ms: u64,
}

/// Where the current or last run is.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Run {
    /// The partition that it runs in.
    #[n(0)]
    pub partition: String,
    /// What it has, node by node; the batch script runs on the first.
    #[n(1)]
    pub allocs: Vec<NodeAlloc>,
    /// When it was placed.
    #[n(2)]
    pub placed: TimeMs,
    /// When its first node said that the script runs.
    #[n(3)]
    pub launched: Option<TimeMs>,
    /// True once the nodes said that nothing of it is left: its resources are free.
    #[n(4)]
    pub released: bool,
    /// What it used.
    #[cbor(n(5), default)]
    pub usage: Usage,
}

impl Run {
    /// CPUs over all nodes.
    pub fn cpus(&self) -> u64 {
        self.allocs.iter().map(|alloc| alloc.cpus.len()).sum()
    }
}

/// Why a run is being ended before its own end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum EndCause {
    /// Cancelled by this user.
    #[n(0)]
    Cancelled {
        /// Who.
        #[n(0)]
        uid: u32,
    },
    /// To be put back into the queue.
    #[n(1)]
    Requeue {
        /// Held afterwards.
        #[n(0)]
        hold: bool,
    },
}

/// The order to end a run, and since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct EndOrder {
    /// Why.
    #[n(0)]
    pub cause: EndCause,
    /// When it was given.
    #[n(1)]
    pub since: TimeMs,
}

/// One job, array, or task of an array.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Job {
    /// Its number.
    #[n(0)]
    pub id: JobId,
    /// What was asked for.
    #[n(1)]
    pub spec: Shared<JobSpec>,
    /// Who asked.
    #[n(2)]
    pub owner: Shared<Owner>,
    /// The batch script.
    #[n(3)]
    pub script: Digest,
    /// The environment, NUL-separated.
    #[n(4)]
    pub environment: Digest,
    /// When it was accepted.
    #[n(5)]
    pub submitted: TimeMs,
    /// Since when it could have started.
    #[n(6)]
    pub eligible: Option<TimeMs>,
    /// State.
    #[n(7)]
    pub state: JobState,
    /// Reason, where an entry decided it.
    #[cbor(n(8), default)]
    pub reason: Reason,
    /// More about the reason, in words, such as why a container did not start.
    #[n(9)]
    pub reason_text: Option<String>,
    /// Who holds it.
    #[cbor(n(10), default)]
    pub hold: Hold,
    /// Priority; higher starts earlier. 0 while held.
    #[n(11)]
    pub priority: u32,
    /// The current or last run's number.
    #[cbor(n(12), default)]
    pub attempt: Attempt,
    /// How often it was put back into the queue.
    #[cbor(n(13), default)]
    pub restarts: u32,
    /// Limit of the run time, as resolved.
    #[n(14)]
    pub time_limit: TimeLimit,
    /// The part in an array.
    #[n(15)]
    pub array: Option<ArrayRole>,
    /// The array as a whole.
    #[n(16)]
    pub array_shape: Option<ArrayShape>,
    /// The current or last run.
    #[n(17)]
    pub run: Option<Run>,
    /// How the script ended.
    #[cbor(n(18), default)]
    pub exit: ExitStatus,
    /// When it ended.
    #[n(19)]
    pub ended: Option<TimeMs>,
    /// Order to end the run.
    #[n(20)]
    pub end_order: Option<EndOrder>,
    /// Who cancelled it.
    #[n(21)]
    pub cancelled_by: Option<u32>,
    /// Signals sent to the run, counted up, so that a node gives each once.
    #[cbor(n(22), default, skip_if = "Vec::is_empty")]
    pub signals: Vec<SignalOrder>,
    /// Runs lost in a row to faults of ours; ends the retries.
    #[cbor(n(23), default)]
    pub launch_faults: u32,
    /// What it still waits for of other jobs.
    #[n(24)]
    pub dependency: Option<Shared<Dependency>>,
    /// The part in a heterogeneous job.
    #[n(25)]
    pub het: Option<HetRole>,
    /// When this run was stopped, if ever.
    #[n(26)]
    pub suspension: Option<Suspension>,
    /// Whom it is charged to, where there are accounts.
    #[n(40)]
    pub charge: Option<Charge>,
}

/// When and for how long a run was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Suspension {
    /// Since when it is stopped; not given for one that runs again.
    #[n(0)]
    pub since: Option<TimeMs>,
    /// How long it was stopped before that, in milliseconds.
    #[n(1)]
    pub total_ms: u64,
    /// When it was last stopped or resumed.
    #[n(2)]
    pub changed: TimeMs,
    /// How long it had run when it was last stopped, in seconds.
    #[n(3)]
    pub ran_s: u64,
}

/// The part of a component in a heterogeneous job, whose components start and end together. The first is the leader: it runs the
/// script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct HetRole {
    /// The first component; those behind it have the next numbers.
    #[n(0)]
    pub leader: JobId,
    /// The place of this one, from 0.
    #[n(1)]
    pub offset: u32,
    /// How many there are.
    #[n(2)]
    pub size: u32,
}

/// A signal for a running job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct SignalOrder {
    /// Counted from 1 within the run.
    #[n(0)]
    pub number: u32,
    /// The signal.
    #[n(1)]
    pub signal: i32,
    /// To whom.
    #[n(2)]
    pub scope: SignalScope,
}

/// Which processes of a job get a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum SignalScope {
    /// Steps, but not the batch script (the default of `scancel --signal`).
    #[n(0)]
    Steps,
    /// The batch script only (`scancel --batch`).
    #[n(1)]
    Batch,
    /// Everything (`scancel --full`).
    #[n(2)]
    All,
}

impl Job {
    /// True while the job holds resources on nodes.
    pub fn holds_resources(&self) -> bool {
        self.run.as_ref().is_some_and(|run| !run.released)
    }

    /// True once ended but not yet cleaned up by its nodes.
    pub fn is_completing(&self) -> bool {
        self.state.is_final() && self.holds_resources()
    }

    /// True if its nodes run the batch script: all but later components of heterogeneous jobs do.
    pub fn runs_script(&self) -> bool {
        self.het.is_none_or(|het| het.offset == 0)
    }

    /// True while nothing but resources keeps it from starting: it waits, is not held and depends on no other job.
    pub fn is_ready(&self) -> bool {
        self.state == JobState::Pending && self.hold == Hold::None && self.dependency.is_none()
    }

    /// True while its run is ended to be put back into the queue.
    pub fn is_requeuing(&self) -> bool {
        self.end_order.is_some_and(|order| matches!(order.cause, EndCause::Requeue { .. }))
    }

    /// True if nothing changes any more.
    pub fn is_over(&self) -> bool {
        self.state.is_final() && !self.holds_resources()
    }

    /// The array's id, for arrays and their tasks.
    pub fn array_id(&self) -> Option<JobId> {
        match self.array {
            None => None,
            Some(ArrayRole::Waiting { .. }) => Some(self.id),
            Some(ArrayRole::Task { array, .. }) => Some(array),
        }
    }

    /// The task number, for a task on its own.
    pub fn array_task(&self) -> Option<u32> {
        match self.array {
            Some(ArrayRole::Task { task, .. }) => Some(task),
            _ => None,
        }
    }

    /// True if a lost run may be started again.
    pub fn may_requeue(&self) -> bool {
        self.spec.requeue.unwrap_or(true)
    }

    /// After this time the job misses its deadline: one that waits could not end in time any more, one that runs is over it. None
    /// without a deadline, and for a job that ends already.
    pub fn deadline_due(&self) -> Option<TimeMs> {
        let deadline = self.spec.deadline.filter(|_| !self.state.is_final())?;
        if self.state != JobState::Pending {
            return Some(deadline).filter(|_| self.end_order.is_none());
        }
        // A job that would take less starts with less.
        let least = self.spec.time_min.filter(|least| *least < self.time_limit).unwrap_or(self.time_limit);
        let needs_ms = least.seconds().unwrap_or(0).saturating_mul(1000);
        Some(TimeMs(deadline.0.saturating_sub(needs_ms)))
    }

    /// The limit with which the run would end at this time; none for a job that does not run.
    pub fn limit_to_end_at(&self, end: TimeMs) -> Option<TimeLimit> {
        let run = self.run.as_ref().filter(|_| matches!(self.state, JobState::Running | JobState::Suspended))?;
        let begin = run.launched.unwrap_or(run.placed);
        Some(TimeLimit::Seconds(end.0.saturating_sub(begin.0) / 1000))
    }

    /// When the run reaches its limit; unknown while it is suspended.
    pub fn limit_end(&self) -> Option<TimeMs> {
        let run = self.run.as_ref()?;
        let suspended_ms = match self.suspension {
            Some(Suspension { since: Some(_), .. }) => return None,
            suspension => suspension.map_or(0, |before| before.total_ms),
        };
        let end = self.time_limit.end_after(run.launched.unwrap_or(run.placed))?;
        Some(TimeMs(end.0.saturating_add(suspended_ms)))
    }
}
