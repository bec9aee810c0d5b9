//! Calls to the controller, and what is said when one fails.

use std::{
    io,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use gpun_proto::{
    core::{
        command::{Act, JobRef},
        history::Record,
        job::JobState,
        outcome::Outcome,
        view::{JobView, NodeView, PartitionView, ReservationView},
    },
    decode, encode, pb,
    quick::{CallError, Quick},
};

use crate::cluster;

/// How long a query waits for a controller that is being restarted.
pub const QUERY_PATIENCE: Duration = Duration::from_secs(3);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(50);
/// Longest wait for an answer.
const ANSWER_WAIT: Duration = Duration::from_secs(60);

/// What Slurm says when nobody answers.
pub const UNREACHABLE: &str = "Unable to contact slurm controller (connect failure)";

/// gRPC codes that have words of their own.
mod code {
    pub const PERMISSION_DENIED: u32 = 7;
    pub const NOT_FOUND: u32 = 5;
    pub const UNIMPLEMENTED: u32 = 12;
}

/// Connects to the controller of the cluster that is meant.
///
/// # Errors
/// Nobody answers within a few seconds.
pub fn connect() -> Result<Quick, CallError> {
    let quick = connect_to(&cluster::dir(), QUERY_PATIENCE)?;
    quick.set_timeout(Some(ANSWER_WAIT))?;
    Ok(quick)
}

/// Connects to the controller of the cluster in `dir`; while the folder is there, tries again for some time.
///
/// # Errors
/// Nobody answers in that time.
pub fn connect_to(dir: &Path, patience: Duration) -> Result<Quick, CallError> {
    let socket = cluster::socket(dir);
    let started = Instant::now();
    loop {
        match Quick::connect(&socket) {
            Err(error) if may_come(&error) && started.elapsed() < patience && dir.exists() => thread::sleep(PAUSE),
            result => return result,
        }
    }
}

/// True where the controller may only be restarting.
fn may_come(error: &CallError) -> bool {
    match error {
        CallError::Connect { source, .. } => {
            matches!(source.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
        }
        _ => false,
    }
}

/// A failed call in Slurm's words where it has some, else in the controller's.
pub fn words(error: &CallError) -> String {
    match error {
        CallError::Connect { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            "Access/permission denied".to_owned()
        }
        CallError::Connect { .. } | CallError::Io(_) => UNREACHABLE.to_owned(),
        CallError::Status { code: code::PERMISSION_DENIED, .. } => "Access/permission denied".to_owned(),
        CallError::Status { code: code::NOT_FOUND, .. } => "Invalid job id specified".to_owned(),
        CallError::Status { code: code::UNIMPLEMENTED, .. } => {
            "The controller is of an older version than this command".to_owned()
        }
        CallError::Status { message, .. } => message.clone(),
        CallError::Protocol(_) => error.to_string(),
    }
}

/// What to do about a failed call, for a person on a terminal.
pub fn hint(error: &CallError) {
    if let CallError::Connect { .. } | CallError::Io(_) = error {
        let dir = cluster::dir();
        crate::out::hint(&format!(
            "no controller answers for {}: start one with `gpun up --dir {}`, or name another cluster with GPUN_DIR",
            dir.display(),
            dir.display()
        ));
    }
}

fn unreadable(error: impl std::fmt::Display) -> CallError {
    CallError::Protocol(error.to_string())
}

/// Jobs, as the controller found them, with its time in milliseconds since 1970.
#[derive(Debug, Default)]
pub struct Jobs {
    /// By number.
    pub jobs: Vec<JobView>,
    /// When they were looked at, in milliseconds since 1970.
    pub now_ms: u64,
    /// Users that were named and that nobody knows.
    pub unknown_users: Vec<String>,
}

/// Asks for jobs.
///
/// # Errors
/// [`CallError`].
pub fn list_jobs(quick: &mut Quick, request: &pb::ListJobsRequest) -> Result<Jobs, CallError> {
    let mut all = Jobs::default();
    each_jobs(quick, request, |chunk| {
        if chunk.now_ms > 0 {
            all.now_ms = chunk.now_ms;
        }
        all.unknown_users.extend(chunk.unknown_users);
        all.jobs.extend(chunk.jobs);
    })?;
    Ok(all)
}

/// Asks for jobs and hands them on as they come, some at a time; the time and the users that nobody knows are in the first.
///
/// # Errors
/// [`CallError`].
pub fn each_jobs(
    quick: &mut Quick,
    request: &pb::ListJobsRequest,
    mut each: impl FnMut(Jobs),
) -> Result<(), CallError> {
    let mut bad = None;
    quick.list_jobs(request, |chunk| match chunk.jobs.iter().map(|job| decode(job)).collect() {
        Ok(jobs) => each(Jobs { jobs, now_ms: chunk.now_ms, unknown_users: chunk.unknown_users }),
        Err(error) => bad = Some(unreadable(error)),
    })?;
    bad.map_or(Ok(()), Err)
}

/// Records, with what was named and nobody knows.
#[derive(Debug, Default)]
pub struct Records {
    /// By submission.
    pub records: Vec<Record>,
    /// Users that were named and that nobody knows.
    pub unknown_users: Vec<String>,
    /// Groups that were named and that nobody knows.
    pub unknown_groups: Vec<String>,
}

/// Asks for records and hands them on as they come, some at a time.
///
/// # Errors
/// [`CallError`].
pub fn each_records(
    quick: &mut Quick,
    request: &pb::ListRecordsRequest,
    mut each: impl FnMut(Records),
) -> Result<(), CallError> {
    let mut bad = None;
    quick.list_records(request, |chunk| match chunk.records.iter().map(|record| decode(record)).collect() {
        Ok(records) => {
            each(Records { records, unknown_users: chunk.unknown_users, unknown_groups: chunk.unknown_groups });
        }
        Err(error) => bad = Some(unreadable(error)),
    })?;
    bad.map_or(Ok(()), Err)
}

/// A request for these jobs in any state.
pub fn request_jobs<'a>(jobs: impl IntoIterator<Item = &'a JobRef>) -> pb::ListJobsRequest {
    pb::ListJobsRequest { jobs: jobs.into_iter().map(encode).collect(), all_states: true, ..Default::default() }
}

/// The number of a state in requests.
pub fn state_number(state: JobState) -> u32 {
    encode(&state).first().copied().map_or(0, u32::from)
}

/// Asks for nodes; all if none is named.
///
/// # Errors
/// [`CallError`].
pub fn list_nodes(quick: &mut Quick, names: Vec<String>) -> Result<(Vec<NodeView>, u64), CallError> {
    let reply = quick.list_nodes(&pb::ListNodesRequest { names })?;
    let nodes = reply.nodes.iter().map(|node| decode(node).map_err(unreadable)).collect::<Result<_, _>>()?;
    Ok((nodes, reply.now_ms))
}

/// Asks for partitions; all if none is named.
///
/// # Errors
/// [`CallError`].
pub fn list_partitions(quick: &mut Quick, names: Vec<String>) -> Result<Vec<PartitionView>, CallError> {
    let reply = quick.list_partitions(&pb::ListPartitionsRequest { names })?;
    reply.partitions.iter().map(|partition| decode(partition).map_err(unreadable)).collect()
}

/// Asks for reservations, with the controller's time.
///
/// # Errors
/// [`CallError`].
pub fn list_reservations(quick: &mut Quick) -> Result<(Vec<ReservationView>, u64), CallError> {
    let reply = quick.list_reservations(&pb::ListReservationsRequest {})?;
    let all = reply.reservations.iter().map(|one| decode(one).map_err(unreadable)).collect::<Result<_, _>>()?;
    Ok((all, reply.now_ms))
}

/// Asks for the cluster's settings.
///
/// # Errors
/// [`CallError`].
pub fn show_cluster(quick: &mut Quick) -> Result<gpun_proto::core::view::ClusterView, CallError> {
    decode(&quick.show_cluster(&pb::ShowClusterRequest {})?.cluster).map_err(unreadable)
}

/// Asks for accounts, users, associations and qualities of service.
///
/// # Errors
/// [`CallError`].
pub fn show_accounting(quick: &mut Quick) -> Result<gpun_proto::core::accounting::book::BookView, CallError> {
    decode(&quick.show_accounting(&pb::ShowAccountingRequest {})?.book).map_err(unreadable)
}

/// Asks for a change.
///
/// # Errors
/// [`CallError`]; that the controller refuses the change is an [`Outcome`].
pub fn act(quick: &mut Quick, act: &Act) -> Result<Outcome, CallError> {
    decode(&quick.act(&pb::ActRequest { act: encode(act) })?.outcome).map_err(unreadable)
}
