//! Steps: what `srun` starts inside a job, each with its share of what the job has.
//!
//! A step is entered when it is asked for and leaves the state with the attempt of its job, whose record of the history takes it
//! along. Its resources are the job's own: they are shared out here and never touch the nodes' books.

use minicbor::{Decode, Encode};

use crate::{
    Digest, IndexSet, JobId, MemoryMib, NodeId, RequestId, State, TimeMs,
    history::{StepId, StepRecord},
    job::{ExitStatus, Job, JobState, NodeAlloc, Usage},
};

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(map)]
pub struct StepSpec {
    /// Its name.
    #[n(0)]
    pub name: String,
    /// Tasks; one if not given.
    #[n(1)]
    pub ntasks: Option<u32>,
    /// CPUs of each task; one if not given.
    #[n(2)]
    pub cpus_per_task: Option<u32>,
    /// Only as many CPUs as its tasks need, instead of all that the job has on the node.
    #[cbor(n(3), default)]
    pub exact: bool,
    /// It shares CPUs with other steps.
    #[cbor(n(4), default)]
    pub overlap: bool,
    /// More tasks than CPUs are fine.
    #[cbor(n(5), default)]
    pub overcommit: bool,
    /// Number of nodes; all of the job's if not given.
    #[n(6)]
    pub nodes: Option<u32>,
    /// The command line that started it.
    #[n(7)]
    pub submit_line: Option<String>,
}

/// A wish for a step.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct NewStep {
    /// Of this job.
    #[n(0)]
    pub job: JobId,
    /// The same id gives the same step for as long as the job runs.
    #[n(1)]
    pub request: RequestId,
    /// What is asked for.
    #[n(2)]
    pub spec: StepSpec,
    /// Digest of the secret that opens the step on its nodes.
    #[n(3)]
    pub token: Digest,
}

/// What a step has on one node.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct StepAlloc {
    /// The node.
    #[n(0)]
    pub node: NodeId,
    /// Its CPUs, of those that the job has there.
    #[n(1)]
    pub cpus: IndexSet,
    /// Its tasks there.
    #[n(2)]
    pub tasks: u32,
}

/// One step of the current attempt of a job.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Step {
    /// What accounting shows of it.
    #[n(0)]
    pub record: StepRecord,
    /// Its number, from 0.
    #[n(1)]
    pub number: u32,
    /// What it has, node by node.
    #[n(2)]
    pub allocs: Vec<StepAlloc>,
    /// Its CPUs are others' as well.
    #[cbor(n(3), default)]
    pub overlap: bool,
    /// The request that it came from.
    #[n(4)]
    pub request: RequestId,
    /// Digest of the secret that opens it.
    #[n(5)]
    pub token: Digest,
}

impl Step {
    /// Its tasks have not ended.
    pub fn is_live(&self) -> bool {
        self.record.ended.is_none()
    }

    /// Ends it.
    pub(crate) fn end(&mut self, at: TimeMs, state: JobState, exit: ExitStatus, usage: Usage) {
        self.record.ended = Some(at.max(self.record.started));
        self.record.state = state;
        self.record.exit = exit;
        self.record.usage = usage;
    }
}

/// The key of a step in the mirror: a job's steps stand together, in their order.
pub fn key(job: JobId, step: u32) -> [u8; 8] {
    let mut key = [0; 8];
    key[..4].copy_from_slice(&job.key());
    key[4..].copy_from_slice(&step.to_be_bytes());
    key
}

/// Reads a key of the mirror.
pub fn from_key(key: &[u8]) -> Option<(JobId, u32)> {
    let (job, step) = key.split_first_chunk::<4>()?;
    Some((JobId(u32::from_be_bytes(*job)), u32::from_be_bytes(step.try_into().ok()?)))
}

/// Why a step can't be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoStep {
    /// Not while other steps run.
    Busy,
    /// The job has too few CPUs for it.
    TooManyCpus,
    /// The job has too few nodes for it.
    TooManyNodes,
    /// Steps on several nodes come later.
    SeveralNodes,
}

impl State {
    /// The steps of the current attempt of a job, in the order of their start.
    pub fn steps_of(&self, job: JobId) -> impl Iterator<Item = &Step> {
        self.steps.range((job, 0)..=(job, u32::MAX)).map(|(_, step)| &**step)
    }

    /// What a job's steps show in accounting.
    pub fn step_records(&self, job: JobId) -> Vec<StepRecord> {
        self.steps_of(job).map(|step| step.record.clone()).collect()
    }

    /// Which CPUs a step would get on the first node of a job.
    pub(crate) fn share_out(&self, job: &Job, alloc: &NodeAlloc, spec: &StepSpec) -> Result<StepAlloc, NoStep> {
        let nodes = job.run.as_ref().map_or(0, |run| run.allocs.len() as u32);
        match spec.nodes.unwrap_or(nodes) {
            wanted if wanted > nodes => return Err(NoStep::TooManyNodes),
            wanted if wanted > 1 => return Err(NoStep::SeveralNodes),
            _ => {}
        }
        let tasks = spec.ntasks.unwrap_or(1).max(1);
        let wanted = u64::from(tasks) * u64::from(spec.cpus_per_task.unwrap_or(1).max(1));
        let all = alloc.cpus.len();
        if wanted > all && !spec.overcommit {
            return Err(NoStep::TooManyCpus);
        }
        let mut free = alloc.cpus.clone();
        if !spec.overlap {
            let others = self.steps_of(job.id).filter(|step| step.is_live() && !step.overlap);
            for other in others.flat_map(|step| &step.allocs).filter(|other| other.node == alloc.node) {
                free.remove_all(&other.cpus);
            }
        }
        let wanted = wanted.min(all);
        if free.len() < wanted || free.is_empty() {
            return Err(NoStep::Busy);
        }
        let cpus = if spec.exact { free.iter().take(wanted as usize).collect() } else { free };
        Ok(StepAlloc { node: alloc.node, cpus, tasks })
    }

    /// What is recorded of a new step.
    pub(crate) fn step_record(&self, job: &Job, spec: &StepSpec, number: u32, alloc: &StepAlloc) -> StepRecord {
        let held = job.run.iter().flat_map(|run| &run.allocs).find(|held| held.node == alloc.node);
        StepRecord {
            id: StepId::Number(number),
            name: spec.name.clone(),
            state: JobState::Running,
            exit: ExitStatus::default(),
            started: self.now(),
            ended: None,
            nodes: self.node(alloc.node).map(|node| node.name.clone()).into_iter().collect(),
            cpus: alloc.cpus.len(),
            tasks: alloc.tasks,
            memory: held.map_or(MemoryMib(0), |held| held.memory),
            gres: held
                .map(|held| held.gres.iter().map(|gres| (gres.name.clone(), gres.indexes.len())).collect())
                .unwrap_or_default(),
            usage: Usage::default(),
            submit_line: spec.submit_line.clone(),
            cancelled_by: None,
        }
    }
}
