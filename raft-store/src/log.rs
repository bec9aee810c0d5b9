//! openraft's log storage: the log and the vote in RocksDB, with the newest entries in memory.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use openraft::storage::{IOFlushed, LogState, RaftLogReader, RaftLogStorage};
use openraft::{EntryPayload, OptionalSend};
use rocksdb::{IteratorMode, ReadOptions};
use tokio::sync::{Notify, oneshot};

use crate::codec::{self, Kind};
use crate::db::{Db, VOTE, index_of, io_error};
use crate::types::{C, Entry, LogId, Vote};
use crate::writer::{self, Op};

/// So many bytes may wait for the writer before `append` waits too. It is reached only while the disk is full.
const MAX_QUEUED: usize = 64 << 20;

/// The newest entries, in memory: those that are not yet on disk, and some that are, for followers and `apply`.
pub(crate) struct Tail {
    state: Mutex<TailState>,
    room: Notify,
    cache_bytes: usize,
}

#[derive(Default)]
struct TailState {
    /// Consecutive entries; the last one is the log's last.
    entries: VecDeque<Entry>,
    bytes: usize,
    /// All entries up to here are on disk.
    flushed: Option<u64>,
    /// Bytes that wait for the writer.
    queued: usize,
    last: Option<LogId>,
    purged: Option<LogId>,
    vote: Option<Vote>,
    /// The weight of the log's entries on disk, as far as they were written by this process.
    log_bytes: u64,
}

impl Tail {
    fn lock(&self) -> MutexGuard<'_, TailState> {
        // A panic under this lock leaves plain data, whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The writer has synced (or given up) the entries up to `last`, `bytes` of them.
    pub(crate) fn flushed(&self, last: u64, bytes: usize, ok: bool) {
        let mut state = self.lock();
        state.queued = state.queued.saturating_sub(bytes);
        if ok {
            state.flushed = state.flushed.max(Some(last));
            state.shrink(self.cache_bytes);
        }
        drop(state);
        self.room.notify_waiters();
    }

    /// The weight of the log in bytes, and the index of its last entry.
    pub(crate) fn weight(&self) -> (u64, Option<u64>) {
        let state = self.lock();
        (state.log_bytes, state.last.map(|id| id.index))
    }
}

impl TailState {
    fn shrink(&mut self, cache_bytes: usize) {
        while self.bytes > cache_bytes
            && self.entries.front().is_some_and(|entry| Some(entry.log_id.index) <= self.flushed)
            && let Some(entry) = self.entries.pop_front()
        {
            self.bytes -= weight(&entry);
        }
    }

    fn keep_up_to(&mut self, last: Option<u64>) {
        while let Some(entry) = self.entries.back().filter(|entry| Some(entry.log_id.index) > last) {
            self.bytes -= weight(entry);
            self.entries.pop_back();
        }
    }

    fn drop_up_to(&mut self, purged: u64) {
        while let Some(entry) = self.entries.front().filter(|entry| entry.log_id.index <= purged) {
            self.bytes -= weight(entry);
            self.entries.pop_front();
        }
    }

    fn next_index(&self) -> u64 {
        self.last.map_or(0, |id| id.index + 1)
    }
}

/// An entry's weight in bytes, with what goes with it.
fn weight(entry: &Entry) -> usize {
    64 + match &entry.payload {
        EntryPayload::Normal(payload) => payload.0.len(),
        EntryPayload::Blank | EntryPayload::Membership(_) => 0,
    }
}

/// The log, as openraft writes it.
pub(crate) struct LogStore {
    db: Arc<Db>,
    tail: Arc<Tail>,
    queue: mpsc::Sender<Op>,
}

/// The log, as openraft reads it.
#[derive(Clone)]
pub(crate) struct LogReader {
    db: Arc<Db>,
    tail: Arc<Tail>,
}

impl LogStore {
    /// Opens the log of `db` and starts its writer.
    pub(crate) fn open(db: Arc<Db>, cache_bytes: usize, stop: Arc<AtomicBool>) -> io::Result<Self> {
        let purged = db.purged()?;
        let last = match db.last_index()? {
            Some(index) => Some(
                read_entries(&db, index, index + 1)?
                    .first()
                    .map(|e| e.log_id)
                    .ok_or_else(|| codec::bad(format!("entry {index} was found and then was not")))?,
            ),
            None => purged,
        };
        let vote: Option<codec::Vote> = db.record(db.meta()?, VOTE, Kind::Vote)?;
        let state = TailState {
            flushed: last.map(|id| id.index),
            last,
            purged,
            vote: vote.as_ref().map(Vote::from),
            ..TailState::default()
        };
        let tail = Arc::new(Tail { state: Mutex::new(state), room: Notify::new(), cache_bytes });
        let queue = writer::start(db.clone(), &tail, stop)?;
        Ok(Self { db, tail, queue })
    }

    pub(crate) fn tail(&self) -> Arc<Tail> {
        self.tail.clone()
    }

    async fn ask(&self, op: impl FnOnce(oneshot::Sender<io::Result<()>>) -> Op) -> io::Result<()> {
        let (done, answer) = oneshot::channel();
        self.send(op(done))?;
        answer.await.map_err(|_| writer_gone())?
    }

    fn send(&self, op: Op) -> io::Result<()> {
        self.queue.send(op).map_err(|_| writer_gone())
    }

    async fn wait_for_room(&self) {
        loop {
            let room = self.tail.room.notified();
            tokio::pin!(room);
            room.as_mut().enable();
            if self.tail.lock().queued < MAX_QUEUED {
                return;
            }
            room.await;
        }
    }
}

fn writer_gone() -> io::Error {
    io::Error::other("the thread that writes the log has ended")
}

impl RaftLogStorage<C> for LogStore {
    type LogReader = LogReader;

    async fn get_log_state(&mut self) -> io::Result<LogState<C>> {
        let state = self.tail.lock();
        Ok(LogState { last_purged_log_id: state.purged, last_log_id: state.last })
    }

    async fn get_log_reader(&mut self) -> LogReader {
        LogReader { db: self.db.clone(), tail: self.tail.clone() }
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        let vote = *vote;
        self.ask(|done| Op::Vote { vote, done }).await?;
        self.tail.lock().vote = Some(vote);
        Ok(())
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<C>) -> io::Result<()>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<Entry> = entries.into_iter().collect();
        self.wait_for_room().await;
        let bytes = entries.iter().map(weight).sum();
        {
            let mut state = self.tail.lock();
            for entry in &entries {
                let next = state.next_index();
                if state.last.is_some() && entry.log_id.index != next {
                    return Err(codec::bad(format!("entry {} would leave a hole behind {next}", entry.log_id.index)));
                }
                state.last = Some(entry.log_id);
                state.entries.push_back(entry.clone());
            }
            state.bytes += bytes;
            state.queued += bytes;
            state.log_bytes += bytes as u64;
        }
        self.send(Op::Append { entries, bytes, done: callback })
    }

    async fn truncate_after(&mut self, last_log_id: Option<LogId>) -> io::Result<()> {
        let keep = last_log_id.map(|id| id.index);
        let last = {
            let mut state = self.tail.lock();
            let last = state.last.map(|id| id.index);
            if last <= keep {
                return Ok(());
            }
            state.keep_up_to(keep);
            state.last = last_log_id.or(state.purged);
            last
        };
        let from = keep.map_or(0, |index| index + 1);
        self.ask(|done| Op::Truncate { from, last: last.unwrap_or(from), done }).await?;
        let mut state = self.tail.lock();
        state.flushed = state.flushed.min(keep);
        Ok(())
    }

    async fn purge(&mut self, log_id: LogId) -> io::Result<()> {
        let first = {
            let mut state = self.tail.lock();
            let first = state.purged.map_or(0, |id| id.index + 1);
            let held = state.next_index().saturating_sub(first);
            let left = state.next_index().saturating_sub(log_id.index + 1);
            state.log_bytes = (state.log_bytes as u128 * u128::from(left) / u128::from(held.max(1))) as u64;
            state.drop_up_to(log_id.index);
            state.purged = Some(log_id);
            if state.last < Some(log_id) {
                // A snapshot is ahead of the whole log.
                state.last = Some(log_id);
                state.flushed = Some(log_id.index);
            }
            first
        };
        self.ask(|done| Op::Purge { first, upto: log_id, done }).await
    }
}

impl RaftLogReader<C> for LogReader {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> io::Result<Vec<Entry>> {
        let from = match range.start_bound() {
            Bound::Included(index) => *index,
            Bound::Excluded(index) => index.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let to = match range.end_bound() {
            Bound::Included(index) => index.saturating_add(1),
            Bound::Excluded(index) => *index,
            Bound::Unbounded => u64::MAX,
        };
        self.read(from, to)
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        Ok(self.tail.lock().vote)
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> io::Result<Vec<Entry>> {
        // A follower that is far behind is sent some MiB at a time, not everything that it lacks.
        let mut entries = self.read(start, end.min(start.saturating_add(4096)))?;
        let mut bytes = 0;
        let fit = entries.iter().take_while(|entry| {
            bytes += weight(entry);
            bytes <= MAX_QUEUED / 8
        });
        let keep = fit.count().max(1);
        entries.truncate(keep);
        Ok(entries)
    }
}

impl LogReader {
    /// The entries from `from` up to but without `to`, as far as the log holds them.
    fn read(&self, from: u64, to: u64) -> io::Result<Vec<Entry>> {
        let (from, disk_end, cached) = {
            let state = self.tail.lock();
            let from = from.max(state.purged.map_or(0, |id| id.index + 1));
            let to = to.min(state.next_index());
            let cache_start = state.entries.front().map_or(state.next_index(), |entry| entry.log_id.index);
            let skip = usize::try_from(from.saturating_sub(cache_start)).unwrap_or(usize::MAX);
            let take = usize::try_from(to.saturating_sub(from.max(cache_start))).unwrap_or(usize::MAX);
            let cached: Vec<Entry> = state.entries.iter().skip(skip).take(take).cloned().collect();
            (from, to.min(cache_start), cached)
        };
        if from >= disk_end {
            return Ok(cached);
        }
        let mut entries = read_entries(&self.db, from, disk_end)?;
        entries.extend(cached);
        check_holes(&entries)?;
        Ok(entries)
    }
}

fn check_holes(entries: &[Entry]) -> io::Result<()> {
    let hole = entries.windows(2).find(|pair| matches!(pair, [a, b] if a.log_id.index + 1 != b.log_id.index));
    match hole {
        Some([before, ..]) => Err(codec::bad(format!("entry {} is missing in the log", before.log_id.index + 1))),
        _ => Ok(()),
    }
}

/// Reads entries from the disk. The range is bounded at both ends: the tombstones of purged entries lie below it.
fn read_entries(db: &Db, from: u64, to: u64) -> io::Result<Vec<Entry>> {
    let mut options = ReadOptions::default();
    options.set_iterate_range(from.to_be_bytes().as_slice()..to.to_be_bytes().as_slice());
    let mut entries = Vec::new();
    for item in db.raw().iterator_cf_opt(db.log()?, options, IteratorMode::Start) {
        let (key, value) = item.map_err(io_error)?;
        let entry: codec::Entry = codec::decode(Kind::Entry, Vec::from(value).into())?;
        let entry = entry.into_raft()?;
        let index = index_of(&key)?;
        if entry.log_id.index != index {
            return Err(codec::bad(format!("entry {index} of the log says that it is {}", entry.log_id.index)));
        }
        entries.push(entry);
    }
    Ok(entries)
}
