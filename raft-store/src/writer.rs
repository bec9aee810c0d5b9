//! The thread that writes the log: everything that openraft hands over while one write is synced goes into the next.
//!
//! openraft's core must not wait for a disk: it sends the heartbeats. So `append` returns as soon as the entries can be
//! read (from memory), and the callback comes when they are synced. All writes of log and vote pass through this one
//! queue, in order, into one write-ahead log: a vote can never overtake an entry, nor an entry a vote.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Weak};

use openraft::storage::IOFlushed;
use rocksdb::WriteBatch;
use tokio::sync::oneshot;

use crate::codec::{self, Kind};
use crate::db::{Db, PURGED, VOTE};
use crate::log::Tail;
use crate::marks;
use crate::types::{C, Entry, LogId, Vote};

/// One synced write holds at most so many bytes of entries.
const MAX_WRITE: usize = 8 << 20;

/// What the thread is asked to do.
pub(crate) enum Op {
    Append {
        entries: Vec<Entry>,
        bytes: usize,
        done: IOFlushed<C>,
    },
    Vote {
        vote: Vote,
        done: oneshot::Sender<io::Result<()>>,
    },
    /// Removes the entries from `from` to `last`.
    Truncate {
        from: u64,
        last: u64,
        done: oneshot::Sender<io::Result<()>>,
    },
    /// Removes the entries from `first` up to and including `upto`.
    Purge {
        first: u64,
        upto: LogId,
        done: oneshot::Sender<io::Result<()>>,
    },
}

/// Whom to tell.
enum Done {
    Flushed { last: u64, bytes: usize, done: IOFlushed<C> },
    Sender(oneshot::Sender<io::Result<()>>),
}

/// Starts the thread. It ends when the last sender is gone; `stop` ends a wait for room on a full disk.
pub(crate) fn start(db: Arc<Db>, tail: &Arc<Tail>, stop: Arc<AtomicBool>) -> io::Result<mpsc::Sender<Op>> {
    let (sender, queue) = mpsc::channel();
    let tail = Arc::downgrade(tail);
    std::thread::Builder::new().name("gpun-log".into()).spawn(move || run(&db, &tail, &stop, &queue))?;
    Ok(sender)
}

fn run(db: &Db, tail: &Weak<Tail>, stop: &AtomicBool, queue: &mpsc::Receiver<Op>) {
    let mut unmarked = 0;
    while let Ok(first) = queue.recv() {
        let mut batch = WriteBatch::default();
        let mut waiting = Vec::new();
        let mut result = add(db, &mut batch, first, &mut waiting);
        while result.is_ok() && batch.size_in_bytes() < MAX_WRITE {
            let Ok(op) = queue.try_recv() else { break };
            result = add(db, &mut batch, op, &mut waiting);
        }
        unmarked += batch.size_in_bytes();
        if unmarked >= marks::EVERY_BYTES {
            unmarked = 0;
            result = result.and_then(|()| db.add_mark(&mut batch));
        }
        let result = result.and_then(|()| db.write(batch, true, &|| !stop.load(Ordering::Relaxed)));
        if let Err(e) = &result {
            tracing::error!(error = %e, "the log cannot be written");
        }
        let tail = tail.upgrade();
        for done in waiting {
            tell(done, &result, tail.as_deref());
        }
    }
}

fn add(db: &Db, batch: &mut WriteBatch, op: Op, waiting: &mut Vec<Done>) -> io::Result<()> {
    let (log, meta) = (db.log()?, db.meta()?);
    match op {
        Op::Append { entries, bytes, done } => {
            for entry in &entries {
                let value = codec::encode(Kind::Entry, &codec::Entry::from(entry));
                batch.put_cf(log, entry.log_id.index.to_be_bytes(), value);
            }
            let last = entries.last().map_or(0, |entry| entry.log_id.index);
            waiting.push(Done::Flushed { last, bytes, done });
        }
        Op::Vote { vote, done } => {
            batch.put_cf(meta, VOTE, codec::encode(Kind::Vote, &codec::Vote::from(&vote)));
            waiting.push(Done::Sender(done));
        }
        Op::Truncate { from, last, done } => {
            if from <= last {
                batch.delete_range_cf(log, from.to_be_bytes().as_slice(), after(last).as_slice());
            }
            waiting.push(Done::Sender(done));
        }
        Op::Purge { first, upto, done } => {
            if first <= upto.index {
                batch.delete_range_cf(log, first.to_be_bytes().as_slice(), after(upto.index).as_slice());
            }
            batch.put_cf(meta, PURGED, codec::encode(Kind::LogId, &codec::LogId::from(&upto)));
            waiting.push(Done::Sender(done));
        }
    }
    Ok(())
}

/// The end of a range that contains `index`: half-open ranges have no room for `u64::MAX + 1`, a longer key has.
fn after(index: u64) -> Vec<u8> {
    let mut key = index.to_be_bytes().to_vec();
    key.push(0);
    key
}

fn tell(done: Done, result: &io::Result<()>, tail: Option<&Tail>) {
    let result = match result {
        Ok(()) => Ok(()),
        Err(e) => Err(io::Error::new(e.kind(), e.to_string())),
    };
    match done {
        Done::Flushed { last, bytes, done } => {
            if let Some(tail) = tail {
                tail.flushed(last, bytes, result.is_ok());
            }
            done.io_completed(result);
        }
        Done::Sender(sender) => {
            // Nobody waits any more when Raft is shut down.
            let _ = sender.send(result);
        }
    }
}
