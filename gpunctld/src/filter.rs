//! Which jobs a listing shows.

use std::collections::BTreeSet;

use gpun_core::{
    JobId, State,
    command::JobRef,
    job::{ArrayRole, Job},
};
use gpun_proto::{decode, encode, pb};
use tonic::Status;

use crate::users::Users;

/// A request for jobs, understood.
pub struct Filter {
    jobs: Vec<JobRef>,
    uids: Option<BTreeSet<u32>>,
    partitions: Vec<String>,
    names: Vec<String>,
    accounts: Vec<String>,
    states: Vec<u32>,
    completing: bool,
    all_states: bool,
    nodes: Vec<gpun_core::NodeId>,
    on_nodes: bool,
    default_partition: Option<String>,
}

impl Filter {
    /// Understands a request; also tells the users that nobody knows.
    pub fn new(
        request: &pb::ListJobsRequest,
        caller: u32,
        users: &Users,
        state: &State,
    ) -> Result<(Self, Vec<String>), Status> {
        let jobs = request.jobs.iter().map(|job| decode::<JobRef>(job).map_err(bad)).collect::<Result<_, _>>()?;
        let mut unknown = Vec::new();
        let mut uids: BTreeSet<u32> = BTreeSet::new();
        for name in &request.users {
            match users.uid(name) {
                Some(uid) => {
                    uids.insert(uid);
                }
                None => unknown.push(name.clone()),
            }
        }
        if request.mine {
            uids.insert(caller);
        }
        let by_user = request.mine || !request.users.is_empty();
        let filter = Self {
            jobs,
            uids: by_user.then_some(uids),
            partitions: request.partitions.clone(),
            names: request.names.clone(),
            accounts: request.accounts.clone(),
            states: request.states.clone(),
            completing: request.completing,
            all_states: request.all_states,
            nodes: request.nodes.iter().filter_map(|name| state.node_named(name)).map(|node| node.id).collect(),
            on_nodes: !request.nodes.is_empty(),
            default_partition: state.default_partition().map(|partition| partition.name.clone()),
        };
        Ok((filter, unknown))
    }

    /// The records that may match: only those named, where jobs are named.
    pub fn candidates<'a>(&self, state: &'a State) -> Box<dyn Iterator<Item = &'a gpun_core::Shared<Job>> + 'a> {
        if self.jobs.is_empty() {
            return Box::new(state.jobs());
        }
        let mut ids: BTreeSet<JobId> = BTreeSet::new();
        for wanted in &self.jobs {
            ids.insert(wanted.job);
            ids.extend(state.array_tasks(wanted.job).map(|(_, job)| job.id));
            ids.extend(state.components_of(wanted.job).map(|job| job.id));
        }
        Box::new(ids.into_iter().filter_map(|id| state.job(id)))
    }

    /// True if the job is to be shown.
    pub fn matches(&self, job: &Job) -> bool {
        let list = |list: &[String], value: &str| list.is_empty() || list.iter().any(|one| one == value);
        self.state_matches(job)
            && self.job_matches(job)
            && self.uids.as_ref().is_none_or(|uids| uids.contains(&job.owner.uid))
            && list(&self.names, &job.spec.name)
            && list(&self.accounts, job.spec.account.as_deref().unwrap_or_default())
            && self.partition_matches(job)
            && self.node_matches(job)
    }

    fn state_matches(&self, job: &Job) -> bool {
        if self.all_states {
            return true;
        }
        if self.states.is_empty() && !self.completing {
            return !job.is_over();
        }
        (self.completing && job.is_completing()) || self.states.contains(&state_index(job))
    }

    fn job_matches(&self, job: &Job) -> bool {
        self.jobs.is_empty()
            || self.jobs.iter().any(|wanted| {
                let het = job.het.filter(|het| het.leader == wanted.job);
                let named = job.id == wanted.job || job.array_id() == Some(wanted.job) || het.is_some();
                let tasks = wanted.tasks.as_ref().is_none_or(|tasks| match &job.array {
                    Some(ArrayRole::Task { task, .. }) => tasks.contains(*task),
                    Some(ArrayRole::Waiting { tasks: waiting }) => !tasks.is_disjoint(waiting),
                    None => false,
                });
                let component = wanted.component.is_none_or(|component| het.is_some_and(|het| het.offset == component));
                named && tasks && component
            })
    }

    fn partition_matches(&self, job: &Job) -> bool {
        let wanted = |name: &String| self.partitions.contains(name);
        self.partitions.is_empty()
            || match &job.run {
                Some(run) => wanted(&run.partition),
                None if job.spec.partitions.is_empty() => self.default_partition.iter().any(wanted),
                None => job.spec.partitions.iter().any(wanted),
            }
    }

    fn node_matches(&self, job: &Job) -> bool {
        !self.on_nodes || job.run.iter().flat_map(|run| &run.allocs).any(|alloc| self.nodes.contains(&alloc.node))
    }
}

/// The state's number in the schema: its CBOR index.
fn state_index(job: &Job) -> u32 {
    encode(&job.state).first().copied().map(u32::from).unwrap_or_default()
}

/// Bytes that are no value of ours.
pub fn bad(error: impl std::fmt::Display) -> Status {
    Status::invalid_argument(format!(
        "the request can't be read ({error}): are client and controller of the same version?"
    ))
}
