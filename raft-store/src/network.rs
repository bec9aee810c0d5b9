//! How members talk: opaque bytes over a [`Transport`], with openraft's messages inside.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable};
use openraft::network::{RPCOption, RPCTypes, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderError, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::{BasicNode, OptionalSend};
use prost::Message;

use crate::codec::{self, Kind, bad};
use crate::snapshot::{SnapshotData, SnapshotStream};
use crate::types::{C, LogId, Vote};

/// A future that a [`Transport`] returns.
pub type TransportFuture<'a> = Pin<Box<dyn Future<Output = Result<Bytes, TransportError>> + Send + 'a>>;

/// A member of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    /// Its number.
    pub node_id: u64,
    /// Where its transport listens.
    pub addr: String,
}

/// What a message is about. A transport may give each lane a connection of its own, so that a large message does not
/// hold up a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Votes and heartbeats: small and urgent.
    Control,
    /// Entries.
    Log,
    /// Snapshots.
    Snapshot,
}

/// Carries bytes to other members. The other side gives them to [`crate::Store::serve`] and
/// [`crate::Store::serve_snapshot`] and sends the answer back.
///
/// A transport needs no authentication of its own for correctness: every message names the cluster and the member that
/// it is for, and others refuse it. It must not deliver a message twice, nor an answer to the wrong request.
pub trait Transport: Send + Sync + 'static {
    /// Sends `request` and waits for the answer.
    fn call<'a>(&'a self, peer: &'a Member, lane: Lane, request: Bytes, timeout: Duration) -> TransportFuture<'a>;

    /// Sends the chunks of a snapshot, in order, and waits for the answer. `timeout` is for the whole of it.
    fn send_snapshot<'a>(&'a self, peer: &'a Member, chunks: SnapshotStream, timeout: Duration) -> TransportFuture<'a>;
}

/// Why a message did not get its answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// No connection: the next attempt waits a little longer each time.
    #[error("the peer cannot be reached: {0}")]
    Unreachable(String),
    /// A connection that broke, or an answer that says the peer could not serve the request: the next attempt follows
    /// at once.
    #[error("the request failed: {0}")]
    Failed(String),
    /// No answer in time.
    #[error("the peer did not answer in time")]
    Timeout,
}

/// The transport of a cluster of one.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoTransport;

impl Transport for NoTransport {
    fn call<'a>(&'a self, peer: &'a Member, _: Lane, _: Bytes, _: Duration) -> TransportFuture<'a> {
        Box::pin(async move { Err(TransportError::Unreachable(format!("no transport leads to {}", peer.addr))) })
    }

    fn send_snapshot<'a>(&'a self, peer: &'a Member, _: SnapshotStream, timeout: Duration) -> TransportFuture<'a> {
        self.call(peer, Lane::Snapshot, Bytes::new(), timeout)
    }
}

/// Who sends a message to whom.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Envelope {
    #[prost(string, tag = "1")]
    pub cluster: String,
    #[prost(uint64, tag = "2")]
    pub from: u64,
    #[prost(uint64, tag = "3")]
    pub to: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AppendRequest {
    #[prost(message, optional, tag = "1")]
    pub envelope: Option<Envelope>,
    #[prost(message, optional, tag = "2")]
    pub vote: Option<codec::Vote>,
    #[prost(message, optional, tag = "3")]
    pub prev: Option<codec::LogId>,
    #[prost(message, optional, tag = "4")]
    pub commit: Option<codec::LogId>,
    #[prost(message, repeated, tag = "5")]
    pub entries: Vec<codec::Entry>,
}

const SUCCESS: u32 = 1;
const PARTIAL: u32 = 2;
const CONFLICT: u32 = 3;
const HIGHER_VOTE: u32 = 4;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AppendResponse {
    #[prost(uint32, tag = "1")]
    pub outcome: u32,
    #[prost(message, optional, tag = "2")]
    pub partial: Option<codec::LogId>,
    #[prost(message, optional, tag = "3")]
    pub higher: Option<codec::Vote>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct VoteMessage {
    #[prost(message, optional, tag = "1")]
    pub envelope: Option<Envelope>,
    #[prost(message, optional, tag = "2")]
    pub vote: Option<codec::Vote>,
    #[prost(message, optional, tag = "3")]
    pub last_log_id: Option<codec::LogId>,
    #[prost(bool, tag = "4")]
    pub leadership_transfer: bool,
    /// Only a question whether the vote would be given.
    #[prost(bool, tag = "5")]
    pub pre_vote: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct VoteAnswer {
    #[prost(message, optional, tag = "1")]
    pub vote: Option<codec::Vote>,
    #[prost(bool, tag = "2")]
    pub granted: bool,
    #[prost(message, optional, tag = "3")]
    pub last_log_id: Option<codec::LogId>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TransferMessage {
    #[prost(message, optional, tag = "1")]
    pub envelope: Option<Envelope>,
    #[prost(message, optional, tag = "2")]
    pub from_leader: Option<codec::Vote>,
    #[prost(uint64, tag = "3")]
    pub to_node_id: u64,
    #[prost(message, optional, tag = "4")]
    pub last_log_id: Option<codec::LogId>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TransferAnswer {
    /// Set if the transfer was refused because the vote had changed, to the vote now.
    #[prost(message, optional, tag = "1")]
    pub vote_changed: Option<codec::Vote>,
    /// True if it was refused because the log is not there yet.
    #[prost(bool, tag = "2")]
    pub not_flushed: bool,
    #[prost(message, optional, tag = "3")]
    pub last_log_id: Option<codec::LogId>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SnapshotMessage {
    #[prost(message, optional, tag = "1")]
    pub envelope: Option<Envelope>,
    #[prost(message, optional, tag = "2")]
    pub vote: Option<codec::Vote>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SnapshotAnswer {
    #[prost(message, optional, tag = "1")]
    pub vote: Option<codec::Vote>,
}

/// A vote that a message must carry.
pub(crate) fn need_vote(vote: &Option<codec::Vote>) -> io::Result<Vote> {
    vote.as_ref().map(Vote::from).ok_or_else(|| bad("a message has no vote"))
}

pub(crate) fn some_log_id(id: &Option<codec::LogId>) -> Option<LogId> {
    id.as_ref().map(LogId::from)
}

impl TryFrom<AppendRequest> for AppendEntriesRequest<C> {
    type Error = io::Error;

    fn try_from(message: AppendRequest) -> io::Result<Self> {
        Ok(Self {
            vote: need_vote(&message.vote)?,
            prev_log_id: some_log_id(&message.prev),
            leader_commit: some_log_id(&message.commit),
            entries: message.entries.into_iter().map(codec::Entry::into_raft).collect::<io::Result<_>>()?,
        })
    }
}

impl From<&AppendEntriesResponse<C>> for AppendResponse {
    fn from(response: &AppendEntriesResponse<C>) -> Self {
        let (outcome, partial, higher) = match response {
            AppendEntriesResponse::Success => (SUCCESS, None, None),
            AppendEntriesResponse::PartialSuccess(id) => (PARTIAL, id.as_ref().map(Into::into), None),
            AppendEntriesResponse::Conflict => (CONFLICT, None, None),
            AppendEntriesResponse::HigherVote(vote) => (HIGHER_VOTE, None, Some(vote.into())),
        };
        Self { outcome, partial, higher }
    }
}

impl TryFrom<&AppendResponse> for AppendEntriesResponse<C> {
    type Error = io::Error;

    fn try_from(message: &AppendResponse) -> io::Result<Self> {
        match message.outcome {
            SUCCESS => Ok(Self::Success),
            PARTIAL => Ok(Self::PartialSuccess(some_log_id(&message.partial))),
            CONFLICT => Ok(Self::Conflict),
            HIGHER_VOTE => Ok(Self::HigherVote(need_vote(&message.higher)?)),
            other => Err(bad(format!("outcome {other} of an append is unknown"))),
        }
    }
}

/// Makes a connection for each peer.
pub(crate) struct Network {
    pub transport: Arc<dyn Transport>,
    pub cluster: String,
    pub node_id: u64,
    pub max_message_bytes: usize,
}

impl Network {
    fn client(&self, target: u64, node: &BasicNode, lane: Lane) -> Connection {
        Connection {
            transport: self.transport.clone(),
            peer: Member { node_id: target, addr: node.addr.clone() },
            envelope: Envelope { cluster: self.cluster.clone(), from: self.node_id, to: target },
            lane,
            max_message_bytes: self.max_message_bytes,
        }
    }
}

impl RaftNetworkFactory<C> for Network {
    type Network = Connection;

    async fn new_client(&mut self, target: u64, node: &BasicNode) -> Connection {
        self.client(target, node, Lane::Log)
    }

    async fn new_heartbeat_client(&mut self, target: u64, node: &BasicNode) -> Connection {
        self.client(target, node, Lane::Control)
    }

    async fn new_snapshot_client(&mut self, target: u64, node: &BasicNode) -> Connection {
        self.client(target, node, Lane::Snapshot)
    }
}

/// Talks to one peer.
pub(crate) struct Connection {
    transport: Arc<dyn Transport>,
    peer: Member,
    envelope: Envelope,
    lane: Lane,
    max_message_bytes: usize,
}

impl Connection {
    async fn call(&self, lane: Lane, kind: RPCTypes, request: Bytes, option: &RPCOption) -> Result<Bytes, RPCError<C>> {
        let timeout = option.soft_ttl();
        let answer = tokio::time::timeout(timeout, self.transport.call(&self.peer, lane, request, timeout)).await;
        answer.unwrap_or(Err(TransportError::Timeout)).map_err(|e| self.rpc_error(kind, timeout, e))
    }

    fn rpc_error(&self, action: RPCTypes, timeout: Duration, error: TransportError) -> RPCError<C> {
        match error {
            TransportError::Unreachable(_) => RPCError::Unreachable(Unreachable::new(&error)),
            TransportError::Failed(_) => RPCError::Network(NetworkError::new(&error)),
            TransportError::Timeout => {
                RPCError::Timeout(Timeout { action, id: self.envelope.from, target: self.peer.node_id, timeout })
            }
        }
    }

    async fn ask_vote(
        &self,
        rpc: VoteRequest<C>,
        pre_vote: bool,
        option: RPCOption,
    ) -> Result<VoteResponse<C>, RPCError<C>> {
        let message = VoteMessage {
            envelope: Some(self.envelope.clone()),
            vote: Some((&rpc.vote).into()),
            last_log_id: rpc.last_log_id.as_ref().map(Into::into),
            leadership_transfer: rpc.leadership_transfer,
            pre_vote,
        };
        let request = codec::encode(Kind::VoteRequest, &message);
        let answer = self.call(Lane::Control, RPCTypes::Vote, request.into(), &option).await?;
        let answer: VoteAnswer = codec::decode(Kind::VoteResponse, answer).map_err(unreadable)?;
        let vote = need_vote(&answer.vote).map_err(unreadable)?;
        Ok(VoteResponse::new(vote, some_log_id(&answer.last_log_id), answer.granted))
    }
}

/// An answer that cannot be read: the peer runs another version, and trying again at once would not help.
fn unreadable(error: io::Error) -> RPCError<C> {
    RPCError::Unreachable(Unreachable::new(&error))
}

impl RaftNetworkV2<C> for Connection {
    type SnapshotData = SnapshotData;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<C>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<C>, RPCError<C>> {
        let total = rpc.entries.len();
        let mut message = AppendRequest {
            envelope: Some(self.envelope.clone()),
            vote: Some((&rpc.vote).into()),
            prev: rpc.prev_log_id.as_ref().map(Into::into),
            commit: rpc.leader_commit.as_ref().map(Into::into),
            entries: Vec::with_capacity(total),
        };
        // openraft counts entries, not bytes: what does not fit is left out, and said so in the answer.
        let mut bytes = 256;
        for entry in &rpc.entries {
            let entry = codec::Entry::from(entry);
            bytes += entry.encoded_len() + 8;
            if bytes > self.max_message_bytes && !message.entries.is_empty() {
                break;
            }
            message.entries.push(entry);
        }
        let sent = message.entries.len();
        let request = codec::encode(Kind::AppendRequest, &message);
        let answer = self.call(self.lane, RPCTypes::AppendEntries, request.into(), &option).await?;
        let answer: AppendResponse = codec::decode(Kind::AppendResponse, answer).map_err(unreadable)?;
        let answer = AppendEntriesResponse::try_from(&answer).map_err(unreadable)?;
        if matches!(answer, AppendEntriesResponse::Success) && sent < total {
            let last = sent.checked_sub(1).and_then(|i| rpc.entries.get(i)).map(|entry| entry.log_id);
            return Ok(AppendEntriesResponse::PartialSuccess(last.or(rpc.prev_log_id)));
        }
        Ok(answer)
    }

    async fn vote(&mut self, rpc: VoteRequest<C>, option: RPCOption) -> Result<VoteResponse<C>, RPCError<C>> {
        self.ask_vote(rpc, false, option).await
    }

    async fn pre_vote(&mut self, rpc: VoteRequest<C>, option: RPCOption) -> Result<VoteResponse<C>, RPCError<C>> {
        self.ask_vote(rpc, true, option).await
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: openraft::alias::SnapshotOf<C, SnapshotData>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<C>, StreamingError<C>> {
        let SnapshotData::Stream(stream) = snapshot.snapshot else {
            return Err(NetworkError::from_string("a snapshot that was received cannot be sent on").into());
        };
        let message = SnapshotMessage { envelope: Some(self.envelope.clone()), vote: Some((&vote).into()) };
        let stream = stream.behind(codec::encode(Kind::SnapshotRequest, &message).into());
        let timeout = option.soft_ttl();
        let answer = tokio::select! {
            closed = cancel => return Err(closed.into()),
            answer = tokio::time::timeout(timeout, self.transport.send_snapshot(&self.peer, stream, timeout)) => answer,
        };
        // A snapshot that failed is not tried again at once: it costs the peer a lot.
        let answer = answer.unwrap_or(Err(TransportError::Timeout)).map_err(|e| Unreachable::new(&e))?;
        let answer: SnapshotAnswer = codec::decode(Kind::SnapshotResponse, answer).map_err(|e| Unreachable::new(&e))?;
        Ok(SnapshotResponse::new(need_vote(&answer.vote).map_err(|e| Unreachable::new(&e))?))
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<C>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<C>, RPCError<C>> {
        let message = TransferMessage {
            envelope: Some(self.envelope.clone()),
            from_leader: Some(request.from_leader().into()),
            to_node_id: *request.to_node_id(),
            last_log_id: request.last_log_id().map(Into::into),
        };
        let bytes = codec::encode(Kind::TransferRequest, &message);
        let answer = self.call(Lane::Control, RPCTypes::TransferLeader, bytes.into(), &option).await?;
        let answer: TransferAnswer = codec::decode(Kind::TransferResponse, answer).map_err(unreadable)?;
        if let Some(actual) = &answer.vote_changed {
            let expected = *request.from_leader();
            return Ok(Err(TransferLeaderError::VoteChanged { expected, actual: actual.into() }));
        }
        if answer.not_flushed {
            let expected = request.last_log_id().copied();
            return Ok(Err(TransferLeaderError::LogNotFlushed { expected, actual: some_log_id(&answer.last_log_id) }));
        }
        Ok(Ok(()))
    }
}

impl From<&TransferLeaderResponse<C>> for TransferAnswer {
    fn from(answer: &TransferLeaderResponse<C>) -> Self {
        match answer {
            Ok(()) => Self::default(),
            Err(TransferLeaderError::VoteChanged { actual, .. }) => {
                Self { vote_changed: Some(actual.into()), ..Self::default() }
            }
            Err(TransferLeaderError::LogNotFlushed { actual, .. }) => {
                Self { not_flushed: true, last_log_id: actual.as_ref().map(Into::into), ..Self::default() }
            }
        }
    }
}
