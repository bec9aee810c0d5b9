//! The one stream to a controller: this node dials, proves itself, and starts again whenever the stream ends.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use gpun_core::desired::Desired;
use gpun_core::node::Inventory;
use gpun_proto::pb::{self, FromNode, ToNode, from_node, to_node};
use gpun_proto::{WIRE_VERSION, client, node_key::NodeKey};
use thiserror::Error;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::Streaming;

use crate::daemon::Event;
use crate::probe;

/// Longest wait for each word of the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// First wait after a round of controllers that did not answer; it doubles from round to round.
const BACKOFF_MIN: Duration = Duration::from_millis(50);

/// Longest wait between two rounds.
const BACKOFF_MAX: Duration = Duration::from_secs(2);

/// A stream that lasted this long was a good one: the next wait is short again.
const GOOD: Duration = Duration::from_secs(5);

/// What the daemon hears of the stream.
#[derive(Debug)]
pub enum News {
    /// A controller has taken this node in; messages go out here.
    Up(UnboundedSender<FromNode>),
    /// What this node shall have.
    Sync(Desired, Vec<pb::Launch>),
    /// Reports up to this number are in the replicated log.
    Taken(u64),
    /// The stream is gone.
    Down,
}

/// Why a stream ended.
#[derive(Debug, Error)]
pub enum LinkError {
    /// Nobody answers.
    #[error(transparent)]
    Connect(#[from] client::ConnectError),
    /// It answers, but not in time.
    #[error("the controller did not speak within {0:?}")]
    Silent(Duration),
    /// It refused, or the stream broke.
    #[error("{}", .0.message())]
    Refused(Box<tonic::Status>),
    /// It closed the stream.
    #[error("the controller closed the stream")]
    Closed,
    /// It says what it should not.
    #[error("the controller sent {0} where it should not; is it of the same version as this node?")]
    OutOfPlace(&'static str),
    /// Its document can't be read.
    #[error("the controller's document can't be read; is it of the same version as this node?")]
    Document(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The daemon ended.
    #[error("the daemon stops")]
    Stop,
}

impl From<tonic::Status> for LinkError {
    fn from(status: tonic::Status) -> Self {
        Self::Refused(Box::new(status))
    }
}

/// How to find and convince a controller.
pub struct Link {
    /// Addresses of controllers, as `host:port`.
    pub controllers: Vec<String>,
    /// This node's name.
    pub name: String,
    /// The cluster's node key.
    pub key: NodeKey,
    /// What this node has.
    pub inventory: Inventory,
    /// Where the daemon hears of it.
    pub news: UnboundedSender<Event>,
}

impl Link {
    /// Keeps one stream up until the daemon ends.
    pub async fn run(self) {
        let mut backoff = BACKOFF_MIN;
        loop {
            let mut good = false;
            for address in &self.controllers {
                let before = Instant::now();
                let error = match self.stream(address).await {
                    Err(LinkError::Stop) => return,
                    Err(error) => error,
                    Ok(never) => match never {},
                };
                good |= before.elapsed() >= GOOD;
                tracing::warn!(address, error = %Words(&error), "no stream to the controller");
            }
            backoff = if good { BACKOFF_MIN } else { backoff };
            sleep(jitter(backoff)).await;
            backoff = (backoff * 2).min(BACKOFF_MAX);
        }
    }

    /// One stream, from the dial to its end.
    async fn stream(&self, address: &str) -> Result<std::convert::Infallible, LinkError> {
        let mut client = client::connect_link(address).await?;
        let (out, outbound) = unbounded_channel();
        let attached = in_time(client.attach(UnboundedReceiverStream::new(outbound))).await?;
        let mut inbound = attached?.into_inner();
        let to_node::Message::Challenge(challenge) = in_time(next(&mut inbound)).await?? else {
            return Err(LinkError::OutOfPlace("no challenge"));
        };
        if challenge.wire_version != WIRE_VERSION {
            let (theirs, ours) = (challenge.wire_version, WIRE_VERSION);
            tracing::warn!(theirs, ours, "the controller speaks another version");
        }
        let hello = pb::Hello {
            name: self.name.clone(),
            mac: self.key.prove(&challenge.nonce, &self.name).to_vec(),
            inventory: gpun_proto::encode(&self.inventory),
            wire_version: WIRE_VERSION,
        };
        send(&out, from_node::Message::Hello(hello))?;
        let to_node::Message::Welcome(welcome) = in_time(next(&mut inbound)).await?? else {
            return Err(LinkError::OutOfPlace("no welcome"));
        };
        tracing::info!(address, node_id = welcome.node_id, cluster = welcome.cluster_name, "attached");
        self.tell(News::Up(out.clone()))?;
        let end = self.talk(inbound, &out, Duration::from_millis(u64::from(welcome.beat_ms.max(100)))).await;
        self.tell(News::Down)?;
        end
    }

    async fn talk(
        &self,
        mut inbound: Streaming<ToNode>,
        out: &UnboundedSender<FromNode>,
        beat: Duration,
    ) -> Result<std::convert::Infallible, LinkError> {
        let mut beats = interval(beat);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                message = next(&mut inbound) => self.hear(message?)?,
                _ = beats.tick() => send(out, from_node::Message::Health(health()))?,
            }
        }
    }

    fn hear(&self, message: to_node::Message) -> Result<(), LinkError> {
        match message {
            to_node::Message::Sync(sync) => {
                let desired = gpun_proto::decode(&sync.desired).map_err(|e| LinkError::Document(e.into()))?;
                self.tell(News::Sync(desired, sync.launches))
            }
            to_node::Message::ReportsTaken(number) => self.tell(News::Taken(number)),
            to_node::Message::Beat(_) => Ok(()),
            to_node::Message::Challenge(_) => Err(LinkError::OutOfPlace("a challenge")),
            to_node::Message::Welcome(_) => Err(LinkError::OutOfPlace("a welcome")),
        }
    }

    fn tell(&self, news: News) -> Result<(), LinkError> {
        self.news.send(Event::Link(news)).map_err(|_| LinkError::Stop)
    }
}

/// An error with its causes on one line.
struct Words<'a>(&'a LinkError);

impl std::fmt::Display for Words<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = std::error::Error::source(self.0);
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

async fn in_time<T>(wait: impl Future<Output = T>) -> Result<T, LinkError> {
    timeout(HANDSHAKE_TIMEOUT, wait).await.map_err(|_| LinkError::Silent(HANDSHAKE_TIMEOUT))
}

/// The next message; one that this version does not know is passed over.
async fn next(inbound: &mut Streaming<ToNode>) -> Result<to_node::Message, LinkError> {
    loop {
        match inbound.message().await?.ok_or(LinkError::Closed)?.message {
            Some(message) => return Ok(message),
            None => tracing::debug!("a message of a kind that this version does not know"),
        }
    }
}

fn send(out: &UnboundedSender<FromNode>, message: from_node::Message) -> Result<(), LinkError> {
    out.send(FromNode { message: Some(message) }).map_err(|_| LinkError::Closed)
}

fn health() -> pb::Health {
    let health = probe::health();
    pb::Health { load_hundredths: health.load_hundredths, memory_unused_mib: health.memory_unused_mib }
}

/// Between half of it and the whole, so that the nodes of a restarted controller do not all come at once.
fn jitter(wait: Duration) -> Duration {
    let parts = RandomState::new().hash_one(0) % 512;
    wait * (512 + parts as u32) / 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_never_longer_than_asked_and_never_under_half() {
        for _ in 0..1000 {
            let wait = jitter(BACKOFF_MAX);
            assert!(wait <= BACKOFF_MAX && wait >= BACKOFF_MAX / 2, "{wait:?}");
        }
    }
}
