//! What clients ask: requests translated, identities from the kernel, answers from the log or from a view.

use std::{pin::Pin, sync::Arc};

use gpun_core::{
    Command, Digest, JobId, Outcome, Refusal, RequestId, State,
    accounting::Change,
    authz::may_read_script,
    command::{Act, Blob, Identity, JobRef, Submit},
    job::Owner,
    mirror::Table,
    spec::JobSpec,
};
use gpun_proto::{
    decode, encode,
    pb::{self, controller_server::Controller, submit_reply},
};
use gpun_raft_store::{ProposeError, ReadError, Store};
use tokio::sync::mpsc;
use tokio_stream::{Stream, wrappers::ReceiverStream};
use tonic::{Request, Response, Status, transport::server::UdsConnectInfo};

use crate::{
    app::App,
    estimate::estimate,
    filter::{Filter, bad},
    propose::{Proposer, clock_now},
    read::{
        About, Soft, active_reservations, cluster_view, job_view, node_view, partition_view, planned_nodes,
        reservation_views,
    },
    records,
    users::Users,
};

/// Longest environment and script together, in bytes; both go into one log entry.
const SUBMIT_BYTES_MAX: usize = 1 << 20;
/// Chunks of a listing are closed at about this size, in bytes.
const CHUNK_BYTES: usize = 256 << 10;

/// The service for local callers.
pub struct Rpc {
    /// The log and the state.
    pub store: Store<App>,
    /// The way into the log.
    pub proposer: Proposer,
    /// What the loop knows.
    pub soft: Arc<Soft>,
    /// Names of users.
    pub users: Arc<Users>,
    /// The controller itself.
    pub about: About,
    /// The address that nodes dial.
    pub link_address: String,
}

type RecordsStream = Pin<Box<dyn Stream<Item = Result<pb::ListRecordsReply, Status>> + Send>>;
type JobsStream = Pin<Box<dyn Stream<Item = Result<pb::ListJobsReply, Status>> + Send>>;

#[tonic::async_trait]
impl Controller for Rpc {
    type ListJobsStream = JobsStream;
    type ListRecordsStream = RecordsStream;

    async fn submit(&self, request: Request<pb::SubmitRequest>) -> Result<Response<pb::SubmitReply>, Status> {
        let who = caller(&request)?;
        let request = request.into_inner();
        let spec: JobSpec = decode(&request.spec).map_err(bad)?;
        let components: Vec<JobSpec> =
            request.components.iter().map(|one| decode(one).map_err(bad)).collect::<Result<_, _>>()?;
        if (request.user.is_some() || request.group.is_some()) && who.uid != 0 {
            let refusal = encode(&Refusal::AccessDenied);
            return Ok(Response::new(pb::SubmitReply { result: Some(submit_reply::Result::Refusal(refusal)) }));
        }
        let owner = self.owner(self.run_as(who, request.user, request.group)).await?;
        if request.test_only {
            let state = self.view();
            let tried = tokio::task::spawn_blocking(move || estimate(&state, owner, spec, components, clock_now()));
            let result = match tried.await.map_err(|error| Status::internal(error.to_string()))? {
                Ok(Some(estimate)) => submit_reply::Result::Estimate(pb::StartEstimate {
                    job_id: estimate.job.0,
                    start_ms: estimate.start.0,
                    cpus: estimate.cpus,
                    nodes: estimate.nodes,
                    partition: estimate.partition,
                }),
                Ok(None) => submit_reply::Result::JobId(0),
                Err(refusal) => submit_reply::Result::Refusal(encode(&refusal)),
            };
            return Ok(Response::new(pb::SubmitReply { result: Some(result) }));
        }
        let bytes = request.script.len() + request.environment.len();
        if bytes > SUBMIT_BYTES_MAX {
            return Err(Status::resource_exhausted(format!(
                "script and environment have {bytes} bytes, at most {SUBMIT_BYTES_MAX} are taken: put large data into files"
            )));
        }
        let request_id = <[u8; 16]>::try_from(request.request_id.as_slice()).map(RequestId).map_err(bad)?;
        let outcome = self.submit_job(request_id, owner, spec, components, request.script, request.environment).await?;
        let result = match outcome {
            Outcome::Submitted { job } => submit_reply::Result::JobId(job.0),
            Outcome::Refused(refusal) => submit_reply::Result::Refusal(encode(&refusal)),
            _ => return Err(Status::internal("an unexpected outcome of a submission")),
        };
        Ok(Response::new(pb::SubmitReply { result: Some(result) }))
    }

    async fn act(&self, request: Request<pb::ActRequest>) -> Result<Response<pb::ActReply>, Status> {
        let who = caller(&request)?;
        let mut act: Act = decode(&request.into_inner().act).map_err(bad)?;
        if let Act::CreateReservation(wanted) = &mut act {
            match self.users_of(wanted.users.clone()).await? {
                Some(uids) => wanted.uids = uids,
                None => return Ok(Response::new(pb::ActReply { outcome: encode(&unknown_user()) })),
            }
        }
        if let Act::UpdateReservation { change, .. } = &mut act
            && let Some(users) = &mut change.users
        {
            let names = users.iter().map(|(name, _)| name.clone()).collect();
            match self.users_of(names).await? {
                Some(uids) => users.iter_mut().zip(uids).for_each(|((_, uid), found)| *uid = found),
                None => return Ok(Response::new(pb::ActReply { outcome: encode(&unknown_user()) })),
            }
        }
        if let Act::UpdatePartition { change, .. } = &mut act
            && let Some(groups) = &mut change.allow_groups
        {
            self.fill_in_groups(groups).await?;
        }
        if let Act::Account(changes) = &mut act {
            self.fill_in_uids(changes).await?;
        }
        let outcome = self.proposer.propose(Command::Act { who, act }).await.map_err(not_taken)?;
        Ok(Response::new(pb::ActReply { outcome: encode(&outcome) }))
    }

    async fn list_jobs(&self, request: Request<pb::ListJobsRequest>) -> Result<Response<JobsStream>, Status> {
        let who = caller(&request)?;
        let state = self.fresh_view().await?;
        let (filter, unknown_users) = Filter::new(request.get_ref(), &who, &self.users, &state)?;
        let plan = self.soft.plan.load_full();
        let (chunks, stream) = mpsc::channel(4);
        tokio::task::spawn_blocking(move || {
            let first = pb::ListJobsReply { jobs: Vec::new(), now_ms: clock_now().0, unknown_users };
            let (mut chunk, mut bytes) = (first, 0);
            for job in filter.candidates(&state).filter(|job| filter.matches(job)) {
                let view = encode(&job_view(&state, &plan, job));
                bytes += view.len();
                chunk.jobs.push(view);
                if bytes >= CHUNK_BYTES {
                    if chunks.blocking_send(Ok(std::mem::take(&mut chunk))).is_err() {
                        return; // The client left.
                    }
                    bytes = 0;
                }
            }
            let _ = chunks.blocking_send(Ok(chunk));
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }

    async fn list_records(&self, request: Request<pb::ListRecordsRequest>) -> Result<Response<RecordsStream>, Status> {
        let state = self.fresh_view().await?;
        let (plan, mirror, users) = (self.soft.plan.load_full(), self.store.mirror(), self.users.clone());
        let request = request.into_inner();
        let (chunks, stream) = mpsc::channel(4);
        tokio::task::spawn_blocking(move || {
            let sent = records::send(&request, &users, &state, &plan, &*mirror, &chunks);
            if let Err(status) = sent {
                let _ = chunks.blocking_send(Err(status));
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }

    async fn list_nodes(&self, request: Request<pb::ListNodesRequest>) -> Result<Response<pb::ListNodesReply>, Status> {
        let state = self.fresh_view().await?;
        let names = request.into_inner().names;
        let mut nodes: Vec<_> = state.nodes().filter(|node| names.is_empty() || names.contains(&node.name)).collect();
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        let planned = planned_nodes(&self.soft.plan.load());
        let now = clock_now();
        let reserved = active_reservations(&state, now);
        let view = |node: &gpun_core::node::Node| {
            let reservation = reserved.get(node.name.as_str()).copied();
            node_view(&state, &self.soft, node, planned.contains(&node.id), reservation)
        };
        let nodes = nodes.into_iter().map(|node| encode(&view(node))).collect();
        Ok(Response::new(pb::ListNodesReply { nodes, now_ms: now.0 }))
    }

    async fn list_partitions(
        &self,
        request: Request<pb::ListPartitionsRequest>,
    ) -> Result<Response<pb::ListPartitionsReply>, Status> {
        let state = self.fresh_view().await?;
        let names = request.into_inner().names;
        let mut wanted: Vec<_> =
            state.partitions().filter(|one| names.is_empty() || names.contains(&one.name)).collect();
        wanted.sort_by(|a, b| (a.rank, &a.name).cmp(&(b.rank, &b.name)));
        let partitions = wanted.into_iter().map(|partition| encode(&partition_view(&state, partition))).collect();
        Ok(Response::new(pb::ListPartitionsReply { partitions }))
    }

    async fn list_reservations(
        &self,
        _: Request<pb::ListReservationsRequest>,
    ) -> Result<Response<pb::ListReservationsReply>, Status> {
        let state = self.fresh_view().await?;
        let reservations = reservation_views(&state).iter().map(encode).collect();
        Ok(Response::new(pb::ListReservationsReply { reservations, now_ms: clock_now().0 }))
    }

    async fn show_cluster(&self, _: Request<pb::ShowClusterRequest>) -> Result<Response<pb::ShowClusterReply>, Status> {
        let view = cluster_view(&*self.fresh_view().await?, &self.about, clock_now());
        Ok(Response::new(pb::ShowClusterReply { cluster: encode(&view) }))
    }

    async fn show_accounting(
        &self,
        request: Request<pb::ShowAccountingRequest>,
    ) -> Result<Response<pb::ShowAccountingReply>, Status> {
        let who = caller(&request)?;
        let state = self.fresh_view().await?;
        let caller = self.owner(who.clone()).await?.user;
        let book = encode(&crate::read::book_view(&state, &who, caller));
        Ok(Response::new(pb::ShowAccountingReply { book }))
    }

    async fn why(&self, request: Request<pb::WhyRequest>) -> Result<Response<pb::WhyReply>, Status> {
        let wanted: JobRef = decode(&request.into_inner().job).map_err(bad)?;
        let state = self.fresh_view().await?;
        let soft = self.soft.clone();
        let answers = tokio::task::spawn_blocking(move || crate::read::why(&state, &soft.plan.load(), &wanted));
        let answers = answers.await.map_err(|error| Status::internal(error.to_string()))?;
        Ok(Response::new(pb::WhyReply { answers: answers.iter().map(encode).collect() }))
    }

    async fn show_script(
        &self,
        request: Request<pb::ShowScriptRequest>,
    ) -> Result<Response<pb::ShowScriptReply>, Status> {
        let who = caller(&request)?;
        let request = request.into_inner();
        let id = JobId(request.job_id);
        let state = self.fresh_view().await?;
        let mirror = self.store.mirror();
        let ended = || if request.ended { records::last_of(&*mirror, id) } else { Ok(None) };
        let job = match state.job(id).cloned() {
            Some(job) => Some(job),
            None => ended()?,
        };
        let job = job.ok_or_else(|| Status::not_found(format!("no job {id}")))?;
        if !may_read_script(&state, &who, &job) {
            return Err(Status::permission_denied(format!("the script of job {id} belongs to {}", job.owner.user)));
        }
        let digest = if request.environment { job.environment } else { job.script };
        let script = mirror.get(Table::Blob as u8, &digest.0);
        let script = script.map_err(|error| Status::internal(error.to_string()))?;
        let script = script.ok_or_else(|| Status::internal("the script is missing from the store"))?;
        Ok(Response::new(pb::ShowScriptReply { script }))
    }

    async fn create_step(
        &self,
        request: Request<pb::CreateStepRequest>,
    ) -> Result<Response<pb::CreateStepReply>, Status> {
        let who = caller(&request)?;
        self.make_step(who, request.into_inner()).await
    }

    async fn show_members(&self, _: Request<pb::ShowMembersRequest>) -> Result<Response<pb::ShowMembersReply>, Status> {
        let status = self.store.status();
        let member = pb::Member {
            id: status.node_id,
            address: self.link_address.clone(),
            leader: status.role.is_leader,
            term: status.role.term,
            last_log_index: status.last_log_index.unwrap_or(0),
            applied_index: status.applied_index.unwrap_or(0),
            pid: std::process::id(),
        };
        Ok(Response::new(pb::ShowMembersReply { members: vec![member] }))
    }
}

/// What is answered where a reservation names somebody who is not known.
fn unknown_user() -> Outcome {
    Outcome::Refused(Refusal::ReservationUsers)
}

impl Rpc {
    /// The numbers of users; none if one is not known. The user directory may be slow, so it is asked off the runtime's threads.
    async fn users_of(&self, names: Vec<String>) -> Result<Option<Vec<u32>>, Status> {
        let users = self.users.clone();
        let found = tokio::task::spawn_blocking(move || names.iter().map(|name| users.uid(name)).collect());
        found.await.map_err(|error| Status::internal(error.to_string()))
    }

    pub(crate) fn view(&self) -> State {
        self.store.view().view.clone()
    }

    /// A view that has everything acknowledged before this call.
    async fn fresh_view(&self) -> Result<Arc<State>, Status> {
        let published = self.store.linearizable_view().await.map_err(not_readable)?;
        Ok(Arc::new(published.view.clone()))
    }

    /// Who a submission is for: the caller, or whom the superuser named. A user without a named group has the user's own.
    fn run_as(&self, who: Identity, user: Option<u32>, group: Option<u32>) -> Identity {
        let own = user.map(|uid| Identity { uid, gid: self.users.gid(uid).unwrap_or(uid) }).unwrap_or(who);
        Identity { gid: group.unwrap_or(own.gid), ..own }
    }

    /// The owner record of a caller; the user directory may be slow, so it is asked off the runtime's threads.
    async fn owner(&self, who: Identity) -> Result<Owner, Status> {
        if let Some(owner) = self.users.remembered(who.uid, who.gid) {
            return Ok(owner);
        }
        let users = self.users.clone();
        let owner = tokio::task::spawn_blocking(move || users.owner(who.uid, who.gid));
        owner.await.map_err(|error| Status::internal(error.to_string()))
    }

    /// Numbers of users that a change names: the log holds what was known when it was asked for.
    async fn fill_in_uids(&self, changes: &mut [Change]) -> Result<(), Status> {
        let users = self.users.clone();
        let mut filled = changes.to_vec();
        let filled = tokio::task::spawn_blocking(move || {
            for change in &mut filled {
                if let Change::AddUser { name, uid } | Change::ChangeUser { name, uid, .. } = change {
                    *uid = users.uid_of_name(name);
                }
            }
            filled
        });
        let filled = filled.await.map_err(|error| Status::internal(error.to_string()))?;
        changes.clone_from_slice(&filled);
        Ok(())
    }

    /// The numbers of groups. As with Slurm, one that is not known is kept, and nobody is in it.
    async fn fill_in_groups(&self, groups: &mut [(String, u32)]) -> Result<(), Status> {
        let users = self.users.clone();
        let names: Vec<String> = groups.iter().map(|(name, _)| name.clone()).collect();
        let found = tokio::task::spawn_blocking(move || {
            names.iter().map(|name| users.group(name).unwrap_or(u32::MAX)).collect::<Vec<_>>()
        });
        let found = found.await.map_err(|error| Status::internal(error.to_string()))?;
        groups.iter_mut().zip(found).for_each(|((_, gid), found)| *gid = found);
        Ok(())
    }

    async fn submit_job(
        &self,
        request: RequestId,
        owner: Owner,
        spec: JobSpec,
        components: Vec<JobSpec>,
        script: Vec<u8>,
        environment: Vec<u8>,
    ) -> Result<Outcome, Status> {
        let blob = |bytes: Vec<u8>| Blob { digest: Digest(*blake3::hash(&bytes).as_bytes()), bytes };
        let (script, environment) = (blob(script), blob(environment));
        let mut submit = Submit {
            request,
            owner,
            spec,
            script: script.digest,
            environment: environment.digest,
            blobs: Vec::new(),
            components,
        };
        let view = self.view();
        // A blob that the state has need not travel again; one that leaves it meanwhile is asked for with a refusal.
        submit.blobs =
            [&script, &environment].into_iter().filter(|blob| !view.has_blob(&blob.digest)).cloned().collect();
        let outcome = self.proposer.propose(Command::Submit(Box::new(submit.clone()))).await.map_err(not_taken)?;
        if outcome != Outcome::Refused(Refusal::BlobMissing) {
            return Ok(outcome);
        }
        submit.blobs = vec![script, environment];
        self.proposer.propose(Command::Submit(Box::new(submit))).await.map_err(not_taken)
    }
}

/// The caller, as the kernel says.
fn caller<T>(request: &Request<T>) -> Result<Identity, Status> {
    let peer = request.extensions().get::<UdsConnectInfo>().and_then(|info| info.peer_cred);
    let peer = peer.ok_or_else(|| Status::unauthenticated("the kernel does not say who is calling"))?;
    Ok(Identity { uid: peer.uid(), gid: peer.gid() })
}

pub(crate) fn not_taken(error: ProposeError) -> Status {
    let text = error.to_string();
    match error {
        ProposeError::DiskFull { .. } => Status::resource_exhausted(text),
        ProposeError::TooLarge { .. } => Status::invalid_argument(text),
        _ => Status::unavailable(text),
    }
}

fn not_readable(error: ReadError) -> Status {
    Status::unavailable(error.to_string())
}
