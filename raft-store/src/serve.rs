//! The receiving side of a transport: messages from peers.

use std::io;

use bytes::Bytes;
use openraft::alias::SnapshotOf;
use openraft::errors::{Fatal, RaftError};
use openraft::raft::{AppendEntriesRequest, TransferLeaderRequest, VoteRequest};

use crate::apply::Apply;
use crate::codec::{self, Kind};
use crate::error::ServeError;
use crate::handle::Store;
use crate::network::{
    AppendRequest, AppendResponse, Envelope, SnapshotAnswer, SnapshotMessage, TransferAnswer, TransferMessage,
    VoteAnswer, VoteMessage, need_vote, some_log_id,
};
use crate::snapshot::{SnapshotData, SnapshotStream};
use crate::types::C;

impl<A: Apply> Store<A> {
    /// Answers a message that a peer sent with [`crate::Transport::call`].
    ///
    /// # Errors
    /// See [`ServeError`]. The peer's transport reports [`crate::TransportError::Failed`], or `Unreachable` for
    /// [`ServeError::Stopped`].
    pub async fn serve(&self, request: Bytes) -> Result<Bytes, ServeError> {
        let kind = request.get(1).copied().unwrap_or(0);
        match kind {
            k if k == Kind::AppendRequest as u8 => self.serve_append(request).await,
            k if k == Kind::VoteRequest as u8 => self.serve_vote(request).await,
            k if k == Kind::TransferRequest as u8 => self.serve_transfer(request).await,
            other => Err(ServeError::Misdirected(format!("a message of kind {other} is unknown"))),
        }
    }

    /// Receives a snapshot that a peer sent with [`crate::Transport::send_snapshot`], and installs it.
    ///
    /// # Errors
    /// See [`ServeError`].
    pub async fn serve_snapshot(&self, mut chunks: SnapshotStream) -> Result<Bytes, ServeError> {
        let first = chunks.next().await.ok_or_else(|| ServeError::Snapshot("it is empty".into()))?;
        let first = first.map_err(|e| ServeError::Snapshot(e.to_string()))?;
        let message: SnapshotMessage = codec::decode(Kind::SnapshotRequest, first).map_err(misdirected)?;
        self.check(&message.envelope)?;
        let vote = need_vote(&message.vote).map_err(misdirected)?;
        let staged = self.inner().stage.clone().receive(chunks).await.map_err(|e| match e.kind() {
            io::ErrorKind::WouldBlock => ServeError::Busy,
            _ => ServeError::Snapshot(e.to_string()),
        })?;
        let snapshot =
            SnapshotOf::<C, SnapshotData> { meta: staged.meta.clone(), snapshot: SnapshotData::Staged(staged) };
        let answer = self.inner().raft.install_full_snapshot(vote, snapshot).await.map_err(|e| fatal(&e))?;
        Ok(codec::encode(Kind::SnapshotResponse, &SnapshotAnswer { vote: Some((&answer.vote).into()) }).into())
    }

    async fn serve_append(&self, request: Bytes) -> Result<Bytes, ServeError> {
        let message: AppendRequest = codec::decode(Kind::AppendRequest, request).map_err(misdirected)?;
        self.check(&message.envelope)?;
        let request = AppendEntriesRequest::<C>::try_from(message).map_err(misdirected)?;
        let answer = self.inner().raft.append_entries(request).await.map_err(raft_fatal)?;
        Ok(codec::encode(Kind::AppendResponse, &AppendResponse::from(&answer)).into())
    }

    async fn serve_vote(&self, request: Bytes) -> Result<Bytes, ServeError> {
        let message: VoteMessage = codec::decode(Kind::VoteRequest, request).map_err(misdirected)?;
        self.check(&message.envelope)?;
        let mut request =
            VoteRequest::<C>::new(need_vote(&message.vote).map_err(misdirected)?, some_log_id(&message.last_log_id));
        request.leadership_transfer = message.leadership_transfer;
        let raft = &self.inner().raft;
        let answer = if message.pre_vote { raft.pre_vote(request).await } else { raft.vote(request).await };
        let answer = answer.map_err(raft_fatal)?;
        let answer = VoteAnswer {
            vote: Some((&answer.vote).into()),
            granted: answer.vote_granted,
            last_log_id: answer.last_log_id.as_ref().map(Into::into),
        };
        Ok(codec::encode(Kind::VoteResponse, &answer).into())
    }

    async fn serve_transfer(&self, request: Bytes) -> Result<Bytes, ServeError> {
        let message: TransferMessage = codec::decode(Kind::TransferRequest, request).map_err(misdirected)?;
        self.check(&message.envelope)?;
        let from = need_vote(&message.from_leader).map_err(misdirected)?;
        let request = TransferLeaderRequest::<C>::new(from, message.to_node_id, some_log_id(&message.last_log_id));
        let answer = self.inner().raft.handle_transfer_leader(request).await.map_err(|e| fatal(&e))?;
        Ok(codec::encode(Kind::TransferResponse, &TransferAnswer::from(&answer)).into())
    }

    /// A message for someone else would be taken for our peer's: a connection that now leads to another member, a
    /// machine that was given another's address.
    fn check(&self, envelope: &Option<Envelope>) -> Result<(), ServeError> {
        let config = &self.inner().config;
        let Some(envelope) = envelope else { return Err(ServeError::Misdirected("it has no address".into())) };
        if envelope.cluster != config.cluster || envelope.to != config.node_id {
            return Err(ServeError::Misdirected(format!(
                "it is for member {} of cluster {}, this is member {} of cluster {}",
                envelope.to, envelope.cluster, config.node_id, config.cluster
            )));
        }
        Ok(())
    }
}

fn misdirected(error: io::Error) -> ServeError {
    ServeError::Misdirected(error.to_string())
}

fn fatal(error: &Fatal<C>) -> ServeError {
    ServeError::Stopped(error.to_string())
}

fn raft_fatal(error: RaftError<C>) -> ServeError {
    ServeError::Stopped(error.to_string())
}
