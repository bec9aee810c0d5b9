//! Snapshots: the mirror of one moment as a stream of chunks, and the way such a stream becomes the mirror here.
//!
//! The sender reads from a RocksDB snapshot on a thread of its own; `apply` goes on. The receiver writes into the slot
//! that is not live (see `db`) as the chunks come, so neither side ever holds more than a few chunks in memory.
//! The stream: one `SnapshotMeta`, any number of `SnapshotRecords`, one `SnapshotEnd` with the number of records and
//! the checksum of all of them.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use rocksdb::{IteratorMode, ReadOptions, WriteBatch};
use tokio::sync::{Mutex, OwnedMutexGuard, mpsc, oneshot};

use crate::codec::{self, Kind, bad};
use crate::db::{APPLIED, Db, MEMBERSHIP, SLOT, SNAPSHOT, decode_applied, io_error, mirror_key, other_slot};
use crate::machine::blocking;
use crate::types::{LogId, SnapshotMeta, StoredMembership};

/// A chunk is sent when it holds so many bytes.
const CHUNK: usize = 512 << 10;
/// So many chunks may wait between the reader and the network.
const WAITING: usize = 4;
/// A sender that is silent for so long is given up.
const SILENCE: Duration = Duration::from_secs(30);

/// A snapshot under way, as opaque chunks. A [`crate::Transport`] carries them in order from one member to another.
#[derive(Debug)]
pub struct SnapshotStream {
    chunks: mpsc::Receiver<io::Result<Bytes>>,
    /// A chunk that goes before the others.
    before: Option<Bytes>,
}

/// The other end of a [`SnapshotStream`].
#[derive(Debug, Clone)]
pub struct SnapshotSender {
    chunks: mpsc::Sender<io::Result<Bytes>>,
}

impl SnapshotStream {
    /// A stream and the end that fills it. The receiving side of a transport puts the chunks in as they come.
    pub fn channel() -> (SnapshotSender, Self) {
        let (sender, chunks) = mpsc::channel(WAITING);
        (SnapshotSender { chunks: sender }, Self { chunks, before: None })
    }

    /// The next chunk; `None` at the end.
    ///
    /// # Errors
    /// The sender could not read on, or the connection broke.
    pub async fn next(&mut self) -> Option<io::Result<Bytes>> {
        match self.before.take() {
            Some(chunk) => Some(Ok(chunk)),
            None => self.chunks.recv().await,
        }
    }

    /// The same stream with one more chunk in front.
    pub(crate) fn behind(mut self, chunk: Bytes) -> Self {
        self.before = Some(chunk);
        self
    }
}

impl SnapshotSender {
    /// Puts a chunk in, or the error that ends the stream. False if nobody reads any more.
    pub async fn send(&self, chunk: io::Result<Bytes>) -> bool {
        self.chunks.send(chunk).await.is_ok()
    }

    fn send_now(&self, chunk: io::Result<Bytes>) -> bool {
        self.chunks.blocking_send(chunk).is_ok()
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Meta {
    #[prost(message, optional, tag = "1")]
    pub last_log_id: Option<codec::LogId>,
    #[prost(message, optional, tag = "2")]
    pub membership: Option<codec::Membership>,
}

#[derive(Clone, PartialEq, Message)]
struct Record {
    /// The table (1 byte) and the key in it.
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct Records {
    #[prost(message, repeated, tag = "1")]
    records: Vec<Record>,
}

#[derive(Clone, PartialEq, Message)]
struct End {
    #[prost(uint64, tag = "1")]
    records: u64,
    /// CRC-32C of all `Records` chunks, one after the other.
    #[prost(fixed32, tag = "2")]
    crc: u32,
}

impl From<&SnapshotMeta> for Meta {
    fn from(meta: &SnapshotMeta) -> Self {
        Self {
            last_log_id: meta.last_log_id.as_ref().map(Into::into),
            membership: Some((&meta.last_membership).into()),
        }
    }
}

impl TryFrom<&Meta> for SnapshotMeta {
    type Error = io::Error;

    fn try_from(meta: &Meta) -> io::Result<Self> {
        let membership = meta.membership.as_ref().map(StoredMembership::try_from).transpose()?;
        Ok(Self {
            last_log_id: meta.last_log_id.as_ref().map(LogId::from),
            last_membership: membership.unwrap_or_default(),
        })
    }
}

/// What openraft carries as a snapshot's data.
pub(crate) enum SnapshotData {
    /// On its way out of a mirror.
    Stream(SnapshotStream),
    /// Received whole, in the slot that is not live.
    Staged(Staged),
}

/// Takes a RocksDB snapshot and streams the mirror in it from a thread of its own. The thread ends when the stream is
/// dropped.
pub(crate) async fn pin(db: Arc<Db>) -> io::Result<(SnapshotMeta, SnapshotStream)> {
    let (sender, stream) = SnapshotStream::channel();
    let (meta_sender, meta) = oneshot::channel();
    std::thread::Builder::new().name("gpun-snapshot".into()).spawn(move || stream_out(&db, meta_sender, &sender))?;
    let meta = meta.await.map_err(|_| io::Error::other("the thread that reads the snapshot has ended"))??;
    Ok((meta, stream))
}

fn stream_out(db: &Db, meta_sender: oneshot::Sender<io::Result<SnapshotMeta>>, out: &SnapshotSender) {
    let snapshot = db.raw().snapshot();
    let read = || -> io::Result<(SnapshotMeta, u8)> {
        let state = db.state()?;
        let get = |key: &[u8]| snapshot.get_cf(state, key).map_err(io_error);
        let (last_log_id, last_membership) = decode_applied(get(APPLIED)?, get(MEMBERSHIP)?)?;
        let slot: Option<codec::Slot> = get(SLOT)?.map(|v| codec::decode(Kind::Slot, v.into())).transpose()?;
        let slot = u8::try_from(slot.map_or(1, |slot| slot.slot)).map_err(|_| bad("the live slot is not valid"))?;
        Ok((SnapshotMeta { last_log_id, last_membership }, slot))
    };
    let (meta, slot) = match read() {
        Ok((meta, slot)) => (meta, slot),
        Err(e) => {
            let _ = meta_sender.send(Err(e));
            return;
        }
    };
    let first = codec::encode(Kind::SnapshotMeta, &Meta::from(&meta));
    if meta_sender.send(Ok(meta)).is_err() || !out.send_now(Ok(first.into())) {
        return;
    }
    let stream = || -> io::Result<()> {
        let mut options = ReadOptions::default();
        options.set_iterate_range([slot].as_slice()..[slot + 1].as_slice());
        options.fill_cache(false);
        let (mut chunk, mut size, mut end) = (Records::default(), 0, End::default());
        for item in snapshot.iterator_cf_opt(db.state()?, options, IteratorMode::Start) {
            let (key, value) = item.map_err(io_error)?;
            size += key.len() + value.len();
            chunk.records.push(Record { key: key.get(1..).unwrap_or_default().to_vec(), value: value.into_vec() });
            if size >= CHUNK && !send_records(&mut chunk, &mut end, out) {
                return Ok(());
            }
            size = if chunk.records.is_empty() { 0 } else { size };
        }
        if send_records(&mut chunk, &mut end, out) {
            out.send_now(Ok(codec::encode(Kind::SnapshotEnd, &end).into()));
        }
        Ok(())
    };
    if let Err(e) = stream() {
        tracing::error!(error = %e, "a snapshot could not be read");
        out.send_now(Err(e));
    }
}

fn send_records(chunk: &mut Records, end: &mut End, out: &SnapshotSender) -> bool {
    if chunk.records.is_empty() {
        return true;
    }
    let bytes = codec::encode(Kind::SnapshotRecords, chunk);
    end.records += chunk.records.len() as u64;
    end.crc = crc32c::crc32c_append(end.crc, &bytes);
    chunk.records.clear();
    out.send_now(Ok(bytes.into()))
}

/// The place for an incoming snapshot: the slot that is not live. Only one is received at a time.
pub(crate) struct Stage {
    db: Arc<Db>,
    turn: Arc<Mutex<()>>,
}

/// A snapshot that was received whole.
pub(crate) struct Staged {
    db: Arc<Db>,
    slot: u8,
    pub meta: SnapshotMeta,
    _turn: OwnedMutexGuard<()>,
}

impl Stage {
    pub(crate) fn new(db: Arc<Db>) -> Arc<Self> {
        Arc::new(Self { db, turn: Arc::new(Mutex::new(())) })
    }

    /// Receives a snapshot into the free slot.
    ///
    /// # Errors
    /// `WouldBlock` if another is being received; else the stream broke, is damaged, or there is no room for it.
    pub(crate) async fn receive(self: Arc<Self>, mut stream: SnapshotStream) -> io::Result<Staged> {
        let turn = self.turn.clone().try_lock_owned();
        let turn = turn.map_err(|_| io::Error::from(io::ErrorKind::WouldBlock))?;
        let db = self.db.clone();
        let slot = other_slot(db.slot());
        let first = next(&mut stream).await?;
        let meta: Meta = codec::decode(Kind::SnapshotMeta, first)?;
        let meta = SnapshotMeta::try_from(&meta)?;
        blocking(|| db.clear_slot(slot))?;
        let mut seen = End::default();
        loop {
            let chunk = next(&mut stream).await?;
            if chunk.get(1) == Some(&(Kind::SnapshotEnd as u8)) {
                let end: End = codec::decode(Kind::SnapshotEnd, chunk)?;
                if end != seen {
                    return Err(bad(format!("the snapshot should be {end:?}, it is {seen:?}")));
                }
                return Ok(Staged { db, slot, meta, _turn: turn });
            }
            seen.crc = crc32c::crc32c_append(seen.crc, &chunk);
            let records: Records = codec::decode(Kind::SnapshotRecords, chunk)?;
            seen.records += records.records.len() as u64;
            blocking(|| write_records(&db, slot, records))?;
        }
    }
}

async fn next(stream: &mut SnapshotStream) -> io::Result<Bytes> {
    match tokio::time::timeout(SILENCE, stream.next()).await {
        Ok(Some(chunk)) => chunk,
        Ok(None) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the snapshot ended early")),
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the sender of the snapshot is silent")),
    }
}

fn write_records(db: &Db, slot: u8, records: Records) -> io::Result<()> {
    let mut batch = WriteBatch::default();
    let state = db.state()?;
    for record in records.records {
        let (table, key) = record.key.split_first().ok_or_else(|| bad("a record of the snapshot has no table"))?;
        batch.put_cf(state, mirror_key(slot, *table, key), record.value);
    }
    db.write_once(batch, false)
}

impl Staged {
    /// Makes the received snapshot the live mirror, in one synced write: a crash leaves the old one or the new one.
    pub(crate) fn install(self, meta: &SnapshotMeta, go_on: &dyn Fn() -> bool) -> io::Result<()> {
        let old = other_slot(self.slot);
        let state = self.db.state()?;
        let mut batch = WriteBatch::default();
        batch.put_cf(state, SLOT, codec::encode(Kind::Slot, &codec::Slot { slot: u32::from(self.slot) }));
        let membership = codec::Membership::from(&meta.last_membership);
        batch.put_cf(state, MEMBERSHIP, codec::encode(Kind::Membership, &membership));
        if let Some(last) = &meta.last_log_id {
            let last = codec::encode(Kind::LogId, &codec::LogId::from(last));
            batch.put_cf(state, APPLIED, &last);
            batch.put_cf(state, SNAPSHOT, &last);
        }
        // Readers of the mirror change over first: the new slot is whole, the old one is about to go.
        self.db.set_slot(self.slot);
        if let Err(e) = self.db.write(batch, true, go_on) {
            self.db.set_slot(old);
            return Err(e);
        }
        // What remains of the old mirror is garbage: the next snapshot, or the next start, removes it otherwise.
        if let Err(e) = self.db.clear_slot(old) {
            tracing::warn!(error = %e, "the mirror before the snapshot could not be removed now");
        }
        Ok(())
    }
}
