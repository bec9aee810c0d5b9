//! What is kept of ended jobs, one record an attempt: the accounting history.
//!
//! Records are written when an attempt ends or is put back into the queue, and stay on disk in the mirror; the state in memory
//! holds none of them. Besides the record itself there are indexes by end time and by user, whose entries hold what decides
//! whether a record is looked at. What has not ended is read from the state.

use minicbor::{Decode, Encode};

use crate::{
    Digest, JobId, MemoryMib, State, TimeMs,
    job::{ExitStatus, Job, JobState, Usage},
    mirror::{MirrorSink, Table, encode},
    view::JobView,
};

/// One attempt of a job.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Record {
    /// The job as it was at the end of the attempt, or as it is now.
    #[n(0)]
    pub view: JobView,
    /// How the attempt ended.
    #[cbor(n(1), default)]
    pub end: AttemptEnd,
    /// Its steps besides the batch step, in the order of their start.
    #[cbor(n(2), default, skip_if = "Vec::is_empty")]
    pub steps: Vec<StepRecord>,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(index_only)]
pub enum AttemptEnd {
    /// With the job, or not yet: the job's own state tells.
    #[n(0)]
    #[default]
    WithJob,
    /// The job was put back into the queue by a wish.
    #[n(1)]
    Requeued,
    /// The job was put back into the queue as its node was lost.
    #[n(2)]
    NodeFail,
}

/// One step of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct StepRecord {
    /// Which.
    #[n(0)]
    pub id: StepId,
    /// Its name.
    #[n(1)]
    pub name: String,
    /// State.
    #[n(2)]
    pub state: JobState,
    /// How its tasks ended: the greatest status.
    #[cbor(n(3), default)]
    pub exit: ExitStatus,
    /// When it started.
    #[n(4)]
    pub started: TimeMs,
    /// When it ended.
    #[n(5)]
    pub ended: Option<TimeMs>,
    /// Names of its nodes.
    #[cbor(n(6), default, skip_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// CPUs over all nodes.
    #[n(7)]
    pub cpus: u64,
    /// Tasks over all nodes.
    #[n(8)]
    pub tasks: u32,
    /// Memory over all nodes.
    #[cbor(n(9), default)]
    pub memory: MemoryMib,
    /// Generic resources over all nodes, by name.
    #[cbor(n(10), default, skip_if = "Vec::is_empty")]
    pub gres: Vec<(String, u64)>,
    /// What it used, over all tasks; the peak of memory is of one task.
    #[cbor(n(11), default)]
    pub usage: Usage,
    /// The command line that started it.
    #[n(12)]
    pub submit_line: Option<String>,
    /// Who cancelled it.
    #[n(13)]
    pub cancelled_by: Option<u32>,
}

/// Which step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub enum StepId {
    /// What the job holds besides its steps.
    #[n(0)]
    Extern,
    /// The shell of an interactive allocation.
    #[n(1)]
    Interactive,
    /// By number, from 0.
    #[n(2)]
    Number(#[n(0)] u32),
}

/// Where a record is: a job's records stand together, the oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct RecordKey {
    /// The job.
    #[n(0)]
    pub job: JobId,
    /// When the attempt ended. Numbers of jobs come again after the greatest; times do not.
    #[n(1)]
    pub ended: TimeMs,
    /// How often the job had been put back into the queue: counts its lives, also those that never started.
    #[n(2)]
    pub restarts: u32,
}

/// Length of a record's key, in bytes.
pub const KEY_LEN: usize = 16;

impl RecordKey {
    /// The key in [`Table::Record`].
    pub fn key(&self) -> [u8; KEY_LEN] {
        let mut key = [0; KEY_LEN];
        key[..4].copy_from_slice(&self.job.key());
        key[4..12].copy_from_slice(&self.ended.key());
        key[12..].copy_from_slice(&self.restarts.to_be_bytes());
        key
    }

    /// Reads a key of [`Table::Record`].
    pub fn from_key(key: &[u8]) -> Option<Self> {
        let (job, rest) = key.split_first_chunk::<4>()?;
        let (ended, restarts) = rest.split_first_chunk::<8>()?;
        Some(Self {
            job: JobId(u32::from_be_bytes(*job)),
            ended: TimeMs(u64::from_be_bytes(*ended)),
            restarts: u32::from_be_bytes(restarts.try_into().ok()?),
        })
    }

    /// The key in [`Table::RecordByTime`]: by end time first.
    pub fn time_key(&self) -> Vec<u8> {
        let key = self.key();
        [&key[4..12], &key[..4], &key[12..]].concat()
    }

    /// Reads a key of [`Table::RecordByTime`].
    pub fn from_time_key(key: &[u8]) -> Option<Self> {
        let (ended, rest) = key.split_at_checked(8)?;
        let (job, restarts) = rest.split_at_checked(4)?;
        Self::from_key(&[job, ended, restarts].concat())
    }

    /// The key in [`Table::RecordByUser`]: by user, then end time.
    pub fn user_key(&self, uid: u32) -> Vec<u8> {
        [&uid.to_be_bytes()[..], &self.time_key()].concat()
    }

    /// The key in [`Table::RecordByArray`]: by the number of the array that the job is a task of.
    pub fn array_key(&self, array: JobId) -> Vec<u8> {
        [&array.key()[..], &self.key()].concat()
    }

    /// The key in [`Table::RecordBlob`]: by the digest of a script or environment.
    pub fn blob_key(&self, digest: &Digest) -> Vec<u8> {
        [&digest.0[..], &self.key()].concat()
    }
}

/// What the indexes say of a record, so that most records need not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Entry {
    /// Whose.
    #[n(0)]
    pub uid: u32,
    /// State at the end.
    #[n(1)]
    pub state: JobState,
    /// When it was submitted.
    #[n(2)]
    pub submitted: TimeMs,
    /// When it started, if it did.
    #[n(3)]
    pub started: Option<TimeMs>,
}

/// All that is to be forgotten of one record.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Forget {
    /// The record.
    #[n(0)]
    pub record: RecordKey,
    /// Whose it is.
    #[n(1)]
    pub uid: u32,
    /// The digests of its script and environment.
    #[n(2)]
    pub uses: Vec<Digest>,
    /// Those of them that no other record uses.
    #[n(3)]
    pub last_uses: Vec<Digest>,
    /// The array that the job was a task of.
    #[n(4)]
    pub array: Option<JobId>,
}

/// Writes the record of an attempt that ended, and its entries in the indexes.
pub(crate) fn write(state: &State, job: &Job, end: AttemptEnd, ended: TimeMs, mirror: &mut dyn MirrorSink) {
    let key = RecordKey { job: job.id, ended, restarts: job.restarts };
    let entry = encode(&Entry {
        uid: job.owner.uid,
        state: job.state,
        submitted: job.submitted,
        started: job.run.as_ref().map(|run| run.launched.unwrap_or(run.placed)),
    });
    let record = Record { view: view(state, job), end, steps: state.step_records(job.id) };
    mirror.put(Table::Record, &key.key(), encode(&record));
    mirror.put(Table::RecordByTime, &key.time_key(), entry.clone());
    mirror.put(Table::RecordByUser, &key.user_key(job.owner.uid), entry);
    if let Some(array) = job.array_id() {
        mirror.put(Table::RecordByArray, &key.array_key(array), Vec::new());
    }
    for digest in [job.script, job.environment] {
        mirror.put(Table::RecordBlob, &key.blob_key(&digest), Vec::new());
    }
}

/// Deletes a record with its entries. Blobs stay while a job of the state uses them.
pub(crate) fn forget(state: &State, forget: &Forget, mirror: &mut dyn MirrorSink) {
    let key = &forget.record;
    mirror.delete(Table::Record, &key.key());
    mirror.delete(Table::RecordByTime, &key.time_key());
    mirror.delete(Table::RecordByUser, &key.user_key(forget.uid));
    if let Some(array) = forget.array {
        mirror.delete(Table::RecordByArray, &key.array_key(array));
    }
    for digest in &forget.uses {
        mirror.delete(Table::RecordBlob, &key.blob_key(digest));
    }
    for digest in forget.last_uses.iter().filter(|digest| !state.has_blob(digest)) {
        mirror.delete(Table::Blob, &digest.0);
    }
}

/// A job with the names that only the state knows.
fn view(state: &State, job: &Job) -> JobView {
    let run = job.run.as_ref();
    let allocs = run.map(|run| run.allocs.as_slice()).unwrap_or_default();
    let names = allocs.iter().filter_map(|alloc| state.node(alloc.node));
    JobView {
        nodes: names.map(|node| node.name.clone()).collect(),
        reason: job.reason,
        start_estimate: None,
        planned_nodes: Vec::new(),
        partitions: match run {
            Some(run) => vec![run.partition.clone()],
            None => state.partitions_of(job).map(|partition| partition.name.clone()).collect(),
        },
        last_evaluated: None,
        memory_per_node: state.memory_per_node(job),
        job: crate::Shared::new(job.clone()),
    }
}
