//! Nodes' streams: the handshake, and messages turned into events.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use gpun_core::{Command, NodeId, Outcome, node::Inventory};
use gpun_proto::{
    WIRE_VERSION, decode,
    node_key::NodeKey,
    pb::{self, from_node, node_link_server::NodeLink, to_node},
};
use tokio::sync::mpsc;
use tokio_stream::{Stream, StreamExt, wrappers::ReceiverStream};
use tonic::{Request, Response, Status, Streaming};

use crate::{
    event::{Event, SessionId},
    filter::bad,
    propose::Proposer,
};

/// How long a node may take to answer the challenge.
const HELLO_WAIT: Duration = Duration::from_secs(10);
/// Messages that wait for a node at most. The loop never waits for a node: one that takes nothing loses its stream.
const TO_NODE_MAX: usize = 256;

/// The service that nodes dial.
pub struct Link {
    /// The loop.
    pub events: mpsc::Sender<Event>,
    /// The log.
    pub proposer: Proposer,
    /// The cluster's node key.
    pub key: NodeKey,
    /// The cluster's name.
    pub cluster_name: String,
    /// How often nodes show themselves.
    pub beat: Duration,
    /// Numbers of streams.
    pub sessions: Arc<AtomicU64>,
}

type ToNodeStream = Pin<Box<dyn Stream<Item = Result<pb::ToNode, Status>> + Send>>;

#[tonic::async_trait]
impl NodeLink for Link {
    type AttachStream = ToNodeStream;

    async fn attach(&self, request: Request<Streaming<pb::FromNode>>) -> Result<Response<ToNodeStream>, Status> {
        let (to_node, messages) = mpsc::channel(TO_NODE_MAX);
        let (errors, error) = mpsc::channel(1);
        let stream = Conversation {
            events: self.events.clone(),
            proposer: self.proposer.clone(),
            key: self.key.clone(),
            welcome: pb::Welcome {
                node_id: 0,
                cluster_name: self.cluster_name.clone(),
                beat_ms: self.beat.as_millis() as u32,
            },
            session: SessionId(self.sessions.fetch_add(1, Ordering::Relaxed) + 1),
            to_node,
        };
        let from_node = request.into_inner();
        tokio::spawn(async move {
            if let Err(status) = stream.run(from_node).await {
                tracing::warn!(reason = status.message(), "a node's stream ended");
                let _ = errors.send(status).await;
            }
        });
        let messages = ReceiverStream::new(messages).map(Ok).chain(ReceiverStream::new(error).map(Err));
        Ok(Response::new(Box::pin(messages)))
    }
}

/// One stream.
struct Conversation {
    events: mpsc::Sender<Event>,
    proposer: Proposer,
    key: NodeKey,
    welcome: pb::Welcome,
    session: SessionId,
    to_node: mpsc::Sender<pb::ToNode>,
}

impl Conversation {
    async fn run(self, mut from_node: Streaming<pb::FromNode>) -> Result<(), Status> {
        let node = self.greet(&mut from_node).await?;
        let session = self.session;
        let attached = Event::Attached { session, node, to_node: self.to_node.clone() };
        let gone = |_| Status::unavailable("the controller is stopping");
        self.events.send(attached).await.map_err(gone)?;
        // From here on only the loop holds the stream's way out: it drops it to end the stream.
        let Self { events, to_node, .. } = self;
        drop(to_node);
        let result = loop {
            let event = match from_node.message().await {
                Ok(Some(pb::FromNode { message: Some(from_node::Message::Reports(reports)) })) => {
                    Event::Reports { session, node, reports }
                }
                Ok(Some(pb::FromNode { message: Some(from_node::Message::Health(health)) })) => {
                    Event::Health { node, health }
                }
                Ok(Some(_)) => continue,
                Ok(None) => break Ok(()),
                Err(status) => break Err(status),
            };
            events.send(event).await.map_err(gone)?;
        };
        events.send(Event::Detached { session, node }).await.map_err(gone)?;
        result
    }

    async fn greet(&self, from_node: &mut Streaming<pb::FromNode>) -> Result<NodeId, Status> {
        let nonce: [u8; 32] = rand::random();
        let challenge = pb::Challenge { nonce: nonce.to_vec(), wire_version: WIRE_VERSION };
        self.send(to_node::Message::Challenge(challenge)).await?;
        let first = tokio::time::timeout(HELLO_WAIT, from_node.message())
            .await
            .map_err(|_| Status::deadline_exceeded("the node did not answer the challenge"))??;
        let Some(pb::FromNode { message: Some(from_node::Message::Hello(hello)) }) = first else {
            return Err(Status::invalid_argument("the node did not answer the challenge with hello"));
        };
        if hello.wire_version != WIRE_VERSION {
            return Err(Status::failed_precondition(format!(
                "the controller speaks version {WIRE_VERSION} of the link and the node {}: install the same release on both",
                hello.wire_version
            )));
        }
        if !self.key.accepts(&nonce, &hello.name, &hello.mac) {
            return Err(Status::unauthenticated(format!(
                "node `{}` does not have this cluster's key: copy node.key from the controller's folder",
                hello.name
            )));
        }
        let inventory: Inventory = decode(&hello.inventory).map_err(bad)?;
        let register = Command::RegisterNode { name: hello.name.clone(), inventory };
        let node = match self.proposer.propose(register).await {
            Ok(Outcome::Registered { node }) => node,
            Ok(Outcome::Refused(refusal)) => return Err(Status::failed_precondition(refusal.to_string())),
            Ok(_) => return Err(Status::internal("an unexpected outcome of a registration")),
            Err(error) => return Err(Status::unavailable(error.to_string())),
        };
        tracing::info!(node = hello.name, id = node.0, "node attached");
        self.send(to_node::Message::Welcome(pb::Welcome { node_id: node.0, ..self.welcome.clone() })).await?;
        Ok(node)
    }

    async fn send(&self, message: to_node::Message) -> Result<(), Status> {
        let message = pb::ToNode { message: Some(message) };
        self.to_node.send(message).await.map_err(|_| Status::cancelled("the node left"))
    }
}
