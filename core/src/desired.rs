//! What each node shall run: computed from the state alone, so that a new leader needs no queue (dispatch is level, not edge).

use minicbor::{Decode, Encode};

use crate::{
    Attempt, Digest, IndexSet, JobId, NodeId, State, TimeLimit, TimeMs,
    job::{EndOrder, Job, JobState, SignalOrder},
};

/// One attempt that a node shall have.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct DesiredJob {
    /// The job.
    #[n(0)]
    pub job: JobId,
    /// The attempt.
    #[n(1)]
    pub attempt: Attempt,
    /// Limit of the run time, counted from the launch; it may change while the job runs.
    #[n(2)]
    pub time_limit: TimeLimit,
    /// Given: end it, with SIGTERM first and SIGKILL after [`Desired::kill_wait_s`].
    #[n(3)]
    pub end: Option<EndOrder>,
    /// Signals to send, each once, by their numbers.
    #[cbor(n(4), default, skip_if = "Vec::is_empty")]
    pub signals: Vec<SignalOrder>,
    /// Stopped: its processes are not given the CPU.
    #[cbor(n(5), default, skip_if = "is_false")]
    pub suspended: bool,
    /// Its steps here that have not ended.
    #[cbor(n(6), default, skip_if = "Vec::is_empty")]
    pub steps: Vec<DesiredStep>,
}

/// A step that a node shall let its owner start.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct DesiredStep {
    /// Its number.
    #[n(0)]
    pub step: u32,
    /// Digest of the secret that opens it.
    #[n(1)]
    pub token: Digest,
    /// Its CPUs here.
    #[n(2)]
    pub cpus: IndexSet,
    /// Its tasks here.
    #[n(3)]
    pub tasks: u32,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// All that a node shall have. What a node has beyond it is to be killed and forgotten.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(map)]
pub struct Desired {
    /// The state's time when this was computed.
    #[n(0)]
    pub as_of: TimeMs,
    /// Between SIGTERM and SIGKILL, in seconds.
    #[n(1)]
    pub kill_wait_s: u64,
    /// Attempts, by job.
    #[cbor(n(2), default)]
    pub jobs: Vec<DesiredJob>,
}

fn steps(state: &State, job: JobId, node: NodeId) -> Vec<DesiredStep> {
    let live = state.steps_of(job).filter(|step| step.is_live());
    let here = live.filter_map(|step| Some((step, step.allocs.iter().find(|alloc| alloc.node == node)?)));
    here.map(|(step, alloc)| DesiredStep {
        step: step.number,
        token: step.token,
        cpus: alloc.cpus.clone(),
        tasks: alloc.tasks,
    })
    .collect()
}

/// A node counts from the launch; time in which the job was stopped is added, and while it is none ends.
fn limit(job: &Job) -> TimeLimit {
    match (job.state, job.time_limit, &job.suspension) {
        (JobState::Suspended, ..) => TimeLimit::Infinite,
        (_, TimeLimit::Seconds(seconds), Some(suspension)) => {
            TimeLimit::Seconds(seconds.saturating_add(suspension.total_ms.div_ceil(1000)))
        }
        (_, limit, _) => limit,
    }
}

/// The desired document of a node. A job is on the document of its first node, which runs the batch script.
pub fn desired(state: &State, node: NodeId) -> Desired {
    let held = state.node(node).map(|node| node.taken.jobs.as_slice()).unwrap_or_default();
    let jobs = held.iter().filter_map(|id| {
        let job = state.job(*id)?;
        let first = job.run.as_ref()?.allocs.first().filter(|_| job.runs_script())?;
        (first.node == node).then(|| DesiredJob {
            job: job.id,
            attempt: job.attempt,
            time_limit: limit(job),
            end: job.end_order,
            signals: job.signals.clone(),
            suspended: job.state == JobState::Suspended,
            steps: steps(state, job.id, node),
        })
    });
    Desired { as_of: state.now(), kill_wait_s: state.settings().kill_wait_s, jobs: jobs.collect() }
}
