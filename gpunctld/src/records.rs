//! Records for accounting: what ended from the history on disk, what has not from the state; chosen here, sent in chunks.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use gpun_core::{
    JobId, Shared, State, TimeLimit, TimeMs,
    command::JobRef,
    history::{AttemptEnd, Record, RecordKey},
    job::{ArrayRole, Job, JobState},
    mirror::Table,
};
use gpun_proto::{decode, encode, pb};
use gpun_raft_store::{MirrorError, MirrorRead};
use gpun_sched::Plan;
use tokio::sync::mpsc;
use tonic::Status;

use crate::{filter::bad, propose::clock_now, read::job_view, users::Users};

/// Chunks of a listing are closed at about this size, in bytes.
const CHUNK_BYTES: usize = 256 << 10;

type Chunks = mpsc::Sender<Result<pb::ListRecordsReply, Status>>;

/// What an answer is sorted by: when it was submitted, then arrays behind the others, then numbers.
type Order = (u64, bool, JobId, u32, JobId);

/// Where a chosen record is.
enum Place {
    State(JobId),
    Disk(RecordKey),
}

/// Sends what a request asks for. Only places are kept until the order is known; records are read again as they are sent.
///
/// # Errors
/// The request or the history can't be read.
pub fn send(
    request: &pb::ListRecordsRequest,
    users: &Users,
    state: &State,
    plan: &Plan,
    mirror: &dyn MirrorRead,
    chunks: &Chunks,
) -> Result<(), Status> {
    let mut chunk = pb::ListRecordsReply { now_ms: clock_now().0, ..Default::default() };
    let filter = Filter::new(request, users, state, &mut chunk)?;
    if !chunk.unknown_users.is_empty() || !chunk.unknown_groups.is_empty() {
        let _ = chunks.blocking_send(Ok(chunk));
        return Ok(());
    }
    let mut bytes = 0;
    for place in places(&filter, state, plan, mirror)? {
        let record = match place {
            Place::State(id) => state.job(id).map(|job| encode(&living(state, plan, job))),
            Place::Disk(key) => mirror.get(Table::Record as u8, &key.key()).map_err(unreadable)?,
        };
        let Some(record) = record else { continue };
        bytes += record.len();
        chunk.records.push(record);
        if bytes >= CHUNK_BYTES {
            if chunks.blocking_send(Ok(std::mem::take(&mut chunk))).is_err() {
                return Ok(()); // The client left.
            }
            bytes = 0;
        }
    }
    let _ = chunks.blocking_send(Ok(chunk));
    Ok(())
}

/// The job of the last record with this number.
///
/// # Errors
/// The history can't be read.
pub fn last_of(mirror: &dyn MirrorRead, job: JobId) -> Result<Option<Shared<Job>>, Status> {
    let (from, to) = ([&job.key()[..], &[0; 12]].concat(), [&job.key()[..], &[0xff; 12]].concat());
    let mut found = None;
    let each = &mut |_: &[u8], value: &[u8]| {
        found = Some(decode::<Record>(value));
        false
    };
    mirror.scan_back(Table::Record as u8, Bound::Included(&from), Bound::Included(&to), each).map_err(unreadable)?;
    found.transpose().map(|record| record.map(|record| record.view.job)).map_err(bad)
}

fn unreadable(error: MirrorError) -> Status {
    Status::internal(format!("the history can't be read: {error}"))
}

fn living(state: &State, plan: &Plan, job: &Shared<Job>) -> Record {
    Record { view: job_view(state, plan, job), end: AttemptEnd::WithJob, steps: state.step_records(job.id) }
}

/// The places of all records that are asked for, in order.
fn places(filter: &Filter, state: &State, plan: &Plan, mirror: &dyn MirrorRead) -> Result<Vec<Place>, Status> {
    let mut chosen: BTreeMap<(Order, u64, u32), Place> = BTreeMap::new();
    let mut last: BTreeMap<JobId, (u64, u32)> = BTreeMap::new();
    let mut take = |record: &Record, ended: u64, place: Place| {
        if filter.matches(record) {
            let (job, life) = (&record.view.job, (ended, record.view.job.restarts));
            chosen.insert((order(job), life.0, life.1), place);
            let newest = last.entry(job.id).or_insert(life);
            *newest = life.max(*newest);
        }
    };
    for job in filter.living(state) {
        take(&living(state, plan, job), u64::MAX, Place::State(job.id));
    }
    let mut broken = None;
    filter.each_on_disk(mirror, &mut |key, value| match decode::<Record>(value) {
        Ok(record) => take(&record, key.ended.0, Place::Disk(key)),
        Err(error) => broken = Some(bad(error)),
    })?;
    if let Some(error) = broken {
        return Err(error);
    }
    let is_shown = |((order, ended, restarts), _): &(&(Order, u64, u32), _)| {
        filter.duplicates || last.get(&order.4) == Some(&(*ended, *restarts))
    };
    let shown: BTreeSet<_> = chosen.iter().filter(is_shown).map(|(key, _)| *key).collect();
    Ok(chosen.into_iter().filter(|(key, _)| shown.contains(key)).map(|(_, place)| place).collect())
}

fn order(job: &Job) -> Order {
    let group = job.array_id().or(job.het.map(|het| het.leader)).unwrap_or(job.id);
    let within = match &job.array {
        Some(ArrayRole::Waiting { .. }) => u32::MAX,
        Some(ArrayRole::Task { task, .. }) => *task,
        None => 0,
    };
    (job.submitted.as_s(), job.array.is_some(), group, within, job.id)
}

/// A request, understood.
struct Filter {
    jobs: Vec<JobRef>,
    uids: BTreeSet<u32>,
    gids: BTreeSet<u32>,
    nodes: BTreeSet<String>,
    window: Option<Window>,
    duplicates: bool,
    request: pb::ListRecordsRequest,
    default_partition: Option<String>,
}

/// A span of time, in whole seconds since 1970, and the states that are asked for.
#[derive(Debug, Clone)]
struct Window {
    from_s: u64,
    until_s: u64,
    states: Vec<u32>,
    requeued: bool,
}

impl Filter {
    fn new(
        request: &pb::ListRecordsRequest,
        users: &Users,
        state: &State,
        unknown: &mut pb::ListRecordsReply,
    ) -> Result<Self, Status> {
        let jobs = request.jobs.iter().map(|job| decode::<JobRef>(job).map_err(bad)).collect::<Result<_, _>>()?;
        let (mut uids, mut gids) = (BTreeSet::new(), BTreeSet::new());
        for name in &request.users {
            match users.uid(name) {
                Some(uid) => drop(uids.insert(uid)),
                None => unknown.unknown_users.push(name.clone()),
            }
        }
        for name in &request.groups {
            match users.group(name) {
                Some(gid) => drop(gids.insert(gid)),
                None => unknown.unknown_groups.push(name.clone()),
            }
        }
        let asks_states = !request.states.is_empty() || request.requeued;
        let window = (request.until_ms > 0 || asks_states).then(|| Window {
            from_s: request.from_ms / 1000,
            until_s: if request.until_ms > 0 { request.until_ms / 1000 } else { u64::MAX },
            states: request.states.clone(),
            requeued: request.requeued,
        });
        Ok(Self {
            jobs,
            uids,
            gids,
            nodes: request.nodes.iter().cloned().collect(),
            window,
            duplicates: request.duplicates,
            request: request.clone(),
            default_partition: state.default_partition().map(|partition| partition.name.clone()),
        })
    }

    /// Jobs of the state that have not ended.
    fn living<'a>(&self, state: &'a State) -> Vec<&'a Shared<Job>> {
        if self.jobs.is_empty() {
            return state.jobs().filter(|job| !job.is_over()).collect();
        }
        let mut ids: BTreeSet<JobId> = BTreeSet::new();
        for wanted in &self.jobs {
            ids.insert(wanted.job);
            ids.extend(state.array_tasks(wanted.job).map(|(_, job)| job.id));
            // Components have the numbers behind their leader's.
            let size = state.job(wanted.job).and_then(|job| job.het).map_or(0, |het| het.size);
            ids.extend((0..size).map(|offset| JobId(wanted.job.0.saturating_add(offset))));
        }
        ids.into_iter().filter_map(|id| state.job(id)).filter(|job| !job.is_over()).collect()
    }

    /// The records on disk that may match: by number, by user or by time, whichever leads to the fewest.
    fn each_on_disk(&self, mirror: &dyn MirrorRead, each: &mut dyn FnMut(RecordKey, &[u8])) -> Result<(), Status> {
        let mut keys = BTreeSet::new();
        for wanted in &self.jobs {
            of_job(mirror, wanted.job, &mut keys)?;
        }
        let since = TimeMs(self.window.as_ref().map_or(0, |window| window.from_s.saturating_mul(1000)));
        if self.jobs.is_empty() && !self.uids.is_empty() {
            for uid in &self.uids {
                let (from, to) =
                    ([&uid.to_be_bytes()[..], &since.key()].concat(), [&uid.to_be_bytes()[..], &[0xff; 16]].concat());
                scan(mirror, Table::RecordByUser, &from, &to, |key| {
                    keys.extend(key.get(4..).and_then(RecordKey::from_time_key));
                })?;
            }
        } else if self.jobs.is_empty() {
            scan(mirror, Table::RecordByTime, &since.key(), &[0xff; 16], |key| {
                keys.extend(RecordKey::from_time_key(key));
            })?;
        }
        for key in keys {
            if let Some(value) = mirror.get(Table::Record as u8, &key.key()).map_err(unreadable)? {
                each(key, &value);
            }
        }
        Ok(())
    }

    /// True if the record is asked for.
    fn matches(&self, record: &Record) -> bool {
        let job = &record.view.job;
        let listed = |list: &[String], value: &str| list.is_empty() || list.iter().any(|one| one == value);
        let between = |value: u64, least: u32, most: u32| {
            (least == 0 && most == 0) || (value >= u64::from(least) && (most == 0 || value <= u64::from(most)))
        };
        let run = job.run.as_ref();
        let nodes = run.map_or(0, |run| run.allocs.len() as u64);
        let limit_min = match job.time_limit {
            TimeLimit::Seconds(seconds) => seconds / 60,
            _ => u64::MAX,
        };
        let asked = &self.request;
        self.job_matches(job)
            && (self.uids.is_empty() || self.uids.contains(&job.owner.uid))
            && (self.gids.is_empty() || self.gids.contains(&job.owner.gid))
            && listed(&asked.names, &job.spec.name)
            && listed(&asked.accounts, job.spec.account.as_deref().unwrap_or_default())
            && listed(&asked.qos, job.spec.qos.as_deref().unwrap_or("normal"))
            && self.partition_matches(record)
            && (self.nodes.is_empty() || record.view.nodes.iter().any(|node| self.nodes.contains(node)))
            && between(nodes, asked.nodes_min, asked.nodes_max)
            && between(run.map_or(0, gpun_core::job::Run::cpus), asked.cpus_min, asked.cpus_max)
            && between(limit_min, asked.limit_min, asked.limit_max)
            && self.window.as_ref().is_none_or(|window| window.matches(record))
    }

    fn job_matches(&self, job: &Job) -> bool {
        self.jobs.is_empty()
            || self.jobs.iter().any(|wanted| {
                let leader = job.het.map(|het| het.leader);
                let named = job.id == wanted.job || job.array_id() == Some(wanted.job) || leader == Some(wanted.job);
                let tasks = wanted.tasks.as_ref().is_none_or(|tasks| match &job.array {
                    Some(ArrayRole::Task { task, .. }) => tasks.contains(*task),
                    _ => false,
                });
                let component = wanted.component.is_none_or(|wanted| job.het.is_some_and(|het| het.offset == wanted));
                named && tasks && component
            })
    }

    fn partition_matches(&self, record: &Record) -> bool {
        let wanted = &self.request.partitions;
        let default = self.default_partition.iter().filter(|_| record.view.partitions.is_empty());
        wanted.is_empty() || record.view.partitions.iter().chain(default).any(|name| wanted.contains(name))
    }
}

/// The records of a job, of an array's tasks, and of a heterogeneous job's components.
fn of_job(mirror: &dyn MirrorRead, job: JobId, keys: &mut BTreeSet<RecordKey>) -> Result<(), Status> {
    let (from, to) = ([&job.key()[..], &[0; 12]].concat(), [&job.key()[..], &[0xff; 12]].concat());
    let mut size = 0;
    let each = &mut |key: &[u8], value: &[u8]| {
        keys.extend(RecordKey::from_key(key));
        let het = decode::<Record>(value).ok().and_then(|record| record.view.job.het);
        size = het.filter(|het| het.leader == job).map_or(size, |het| het.size.max(size));
        true
    };
    mirror.scan(Table::Record as u8, Bound::Included(&from), Bound::Included(&to), each).map_err(unreadable)?;
    if size > 1 {
        let (first, last) = (JobId(job.0.saturating_add(1)), JobId(job.0.saturating_add(size - 1)));
        let (from, to) = ([&first.key()[..], &[0; 12]].concat(), [&last.key()[..], &[0xff; 12]].concat());
        scan(mirror, Table::Record, &from, &to, |key| keys.extend(RecordKey::from_key(key)))?;
    }
    let (from, to) = ([&job.key()[..], &[0; 16]].concat(), [&job.key()[..], &[0xff; 16]].concat());
    scan(mirror, Table::RecordByArray, &from, &to, |key| keys.extend(key.get(4..).and_then(RecordKey::from_key)))
}

fn scan(
    mirror: &dyn MirrorRead,
    table: Table,
    from: &[u8],
    to: &[u8],
    mut each: impl FnMut(&[u8]),
) -> Result<(), Status> {
    let each = &mut |key: &[u8], _: &[u8]| {
        each(key);
        true
    };
    mirror.scan(table as u8, Bound::Included(from), Bound::Included(to), each).map_err(unreadable)
}

impl Window {
    /// True if the job is in the window: in one of the states at some time of it, or, where none is named, known to the queue.
    fn matches(&self, record: &Record) -> bool {
        let job = &record.view.job;
        let ended_s = ended(record).map(TimeMs::as_s);
        let started_s = job.run.as_ref().map(|run| run.launched.unwrap_or(run.placed).as_s());
        let eligible_s = job.eligible.map(TimeMs::as_s);
        let not_ended_before = ended_s.is_none_or(|at| at >= self.from_s);
        // Up to now includes the second that is now: a job may come and go within it.
        let waited = eligible_s.is_some_and(|at| at <= self.until_s);
        if self.states.is_empty() && !self.requeued {
            return waited && not_ended_before;
        }
        let ended_within = ended_s.is_some_and(|at| (self.from_s..=self.until_s).contains(&at));
        let ran = started_s.is_some_and(|at| at < self.until_s) && not_ended_before;
        let was = |state: JobState| match state {
            JobState::Pending => waited && started_s.map_or(not_ended_before, |at| at > self.from_s),
            JobState::Running => ran,
            JobState::Suspended => ran && job.state == state,
            JobState::NodeFail => ended_within && (job.state == state || record.end == AttemptEnd::NodeFail),
            _ => ended_within && job.state == state && record.end == AttemptEnd::WithJob,
        };
        (self.requeued && ended_within && record.end == AttemptEnd::Requeued)
            || ALL_STATES.into_iter().any(|state| self.states.contains(&number(state)) && was(state))
    }
}

const ALL_STATES: [JobState; 12] = [
    JobState::Pending,
    JobState::Running,
    JobState::Suspended,
    JobState::Completed,
    JobState::Cancelled,
    JobState::Failed,
    JobState::Timeout,
    JobState::NodeFail,
    JobState::Preempted,
    JobState::BootFail,
    JobState::Deadline,
    JobState::OutOfMemory,
];

/// A state's number in the schema: its CBOR index.
fn number(state: JobState) -> u32 {
    encode(&state).first().copied().map(u32::from).unwrap_or_default()
}

/// When the attempt ended.
fn ended(record: &Record) -> Option<TimeMs> {
    let job = &record.view.job;
    job.ended.filter(|_| job.state.is_final() || record.end != AttemptEnd::WithJob)
}
