//! Which jobs a listing shows.

use std::collections::BTreeSet;

use gpun_core::{
    JobId, State,
    authz::is_operator,
    command::{Identity, JobRef},
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
    hidden: BTreeSet<String>,
}

impl Filter {
    /// Understands a request; also tells the users that nobody knows.
    pub fn new(
        request: &pb::ListJobsRequest,
        caller: &Identity,
        users: &Users,
        state: &State,
    ) -> Result<(Self, Vec<String>), Status> {
        let hides = request.no_hidden && request.partitions.is_empty() && !is_operator(state, caller);
        let hidden = state.partitions().filter(|partition| hides && partition.hidden);
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
            uids.insert(caller.uid);
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
            hidden: hidden.map(|partition| partition.name.clone()).collect(),
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
            && !self.is_hidden(job)
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

    /// True if the job runs, or could only run, in hidden partitions.
    fn is_hidden(&self, job: &Job) -> bool {
        let hidden = |name: &String| self.hidden.contains(name);
        !self.hidden.is_empty()
            && match &job.run {
                Some(run) => hidden(&run.partition),
                None if job.spec.partitions.is_empty() => self.default_partition.iter().any(hidden),
                None => job.spec.partitions.iter().all(hidden),
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

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

    use gpun_core::{
        Command, Digest, Entry, RequestId, TimeMs,
        command::{Blob, ENTRY_VERSION, Submit},
        job::Owner,
        mirror::{MirrorSink, Table},
        partition::Partition,
        settings::Settings,
        spec::JobSpec,
    };

    use super::*;

    struct Nowhere;

    impl MirrorSink for Nowhere {
        fn put(&mut self, _: Table, _: &[u8], _: Vec<u8>) {}
        fn delete(&mut self, _: Table, _: &[u8]) {}
    }

    #[test]
    fn jobs_in_hidden_partitions_are_for_those_who_ask_and_for_operators() {
        let hidden = Partition { hidden: true, is_default: false, ..Partition::all_nodes("dark") };
        let partitions = vec![Partition::all_nodes("open"), hidden];
        let mut commands = vec![Command::Configure { settings: Box::new(Settings::default()), partitions }];
        let blob = |number| Blob { digest: Digest([number; 32]), bytes: vec![number] };
        for (number, names) in [(1, vec![]), (2, vec!["dark"]), (3, vec!["dark", "open"])] {
            let partitions = names.into_iter().map(str::to_owned).collect();
            commands.push(Command::Submit(Box::new(Submit {
                request: RequestId([number; 16]),
                owner: Owner { uid: 1000, gid: 1000, ..Owner::default() },
                spec: JobSpec { partitions, ..JobSpec::default() },
                script: Digest([1; 32]),
                environment: Digest([2; 32]),
                blobs: vec![blob(1), blob(2)],
                components: Vec::new(),
            })));
        }
        let mut state = State::default();
        state.apply(Entry { version: ENTRY_VERSION, stamp: TimeMs(1), commands }, &mut Nowhere);
        let request = |no_hidden: bool, partitions: &[&str]| pb::ListJobsRequest {
            no_hidden,
            partitions: partitions.iter().map(|name| (*name).to_owned()).collect(),
            ..Default::default()
        };
        let rows: [(u32, pb::ListJobsRequest, &[u32]); 4] = [
            (1000, request(true, &[]), &[1, 3]),
            (1000, request(false, &[]), &[1, 2, 3]),
            (1000, request(true, &["dark"]), &[2, 3]),
            (0, request(true, &[]), &[1, 2, 3]),
        ];
        for (uid, request, right) in rows {
            let caller = Identity { uid, gid: uid };
            let (filter, _) = Filter::new(&request, &caller, &Users::default(), &state).expect("understood");
            let seen: Vec<u32> = state.jobs().filter(|job| filter.matches(job)).map(|job| job.id.0).collect();
            assert_eq!(seen, right, "{uid} {request:?}");
        }
    }
}
