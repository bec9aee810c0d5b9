//! The way into the log: commands that wait are put into one entry, so that one fsync serves them all.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use gpun_core::{Command, Entry, Outcome, TimeMs, command::ENTRY_VERSION, mirror::encode};
use gpun_raft_store::{ProposeError, Store};
use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::app::App;

/// Entries under way at the same time. The next one is filled while this many are being written.
const ENTRIES_IN_FLIGHT: usize = 4;
/// An entry is closed at about this size, well below what the store takes.
const ENTRY_BYTES_MAX: usize = 1 << 20;
/// Commands that wait at most; beyond that callers wait to hand theirs in.
const QUEUE_MAX: usize = 16_384;

/// The controller's clock, in the one place that reads it.
pub fn clock_now() -> TimeMs {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    TimeMs(since.as_millis() as u64)
}

type Answer = oneshot::Sender<Result<Outcome, ProposeError>>;

struct Waiting {
    command: Command,
    bytes: usize,
    answer: Answer,
}

/// Hands commands to the log.
#[derive(Clone)]
pub struct Proposer {
    queue: mpsc::Sender<Waiting>,
}

impl Proposer {
    /// Starts the task that fills entries.
    pub fn start(store: Store<App>, batch_max: usize) -> Self {
        let (queue, waiting) = mpsc::channel(QUEUE_MAX);
        tokio::spawn(fill(store, waiting, batch_max));
        Self { queue }
    }

    /// Proposes one command. The answer comes when it is on disk and applied.
    ///
    /// # Errors
    /// The store's own; the command may or may not have been applied where the error says so.
    pub async fn propose(&self, command: Command) -> Result<Outcome, ProposeError> {
        let (answer, outcome) = oneshot::channel();
        let bytes = size_hint(&command);
        self.queue.send(Waiting { command, bytes, answer }).await.map_err(|_| ProposeError::Shutdown)?;
        outcome.await.map_err(|_| ProposeError::Shutdown)?
    }
}

/// A rough size of a command, from the parts that can be large.
fn size_hint(command: &Command) -> usize {
    match command {
        Command::Submit(submit) => 1024 + submit.blobs.iter().map(|blob| blob.bytes.len()).sum::<usize>(),
        Command::Place(placement) => 128 + placement.allocs.len() * 64,
        Command::Report { reports, .. } => 64 + reports.len() * 96,
        _ => 512,
    }
}

async fn fill(store: Store<App>, mut waiting: mpsc::Receiver<Waiting>, batch_max: usize) {
    let in_flight = Arc::new(Semaphore::new(ENTRIES_IN_FLIGHT));
    let mut held: Option<Waiting> = None;
    loop {
        let first = match held.take() {
            Some(first) => first,
            None => match waiting.recv().await {
                Some(first) => first,
                None => return,
            },
        };
        let Ok(permit) = in_flight.clone().acquire_owned().await else { return };
        let mut bytes = first.bytes;
        let mut batch = vec![first];
        while batch.len() < batch_max {
            let Ok(next) = waiting.try_recv() else { break };
            if bytes + next.bytes > ENTRY_BYTES_MAX {
                held = Some(next);
                break;
            }
            bytes += next.bytes;
            batch.push(next);
        }
        let (commands, answers): (Vec<_>, Vec<_>) = batch.into_iter().map(|one| (one.command, one.answer)).unzip();
        let entry = encode(&Entry { version: ENTRY_VERSION, stamp: clock_now(), commands });
        // Entries under way may overtake one another: whoever needs an order waits for the outcome of the earlier command.
        let store = store.clone();
        tokio::spawn(async move {
            let result = store.propose(entry).await;
            drop(permit);
            match result {
                Ok((_, outcomes)) => answers.into_iter().zip(outcomes).for_each(|(answer, outcome)| {
                    let _ = answer.send(Ok(outcome));
                }),
                Err(error) => answers.into_iter().for_each(|answer| {
                    let _ = answer.send(Err(error.clone()));
                }),
            }
        });
    }
}
