//! The one RocksDB of a member: its column families, how it is made and opened, and how writes meet a full disk.
//!
//! | column family | keys | values |
//! | --- | --- | --- |
//! | `meta` | `identity`, `vote`, `purged` | the records of `codec` |
//! | all three | see `marks` | nothing |
//! | `log` | the index, 8 bytes, big end first | entries |
//! | `state` | `0 name`: `slot`, `applied`, `membership`, `snapshot` | the records of `codec` |
//! | | `slot table key`, with slot 1 or 2 | the application's records |
//!
//! All share one write-ahead log, so the order of writes on disk is the order in which they were made: when a vote is
//! synced, so is every entry and every change of the mirror before it. `atomic_flush` keeps that so in the files that
//! the log is later replaced by, and lets no rarely written family hold old logs back.
//!
//! The live mirror is in one of two slots. A snapshot from a leader is written into the other one, as it comes, and
//! becomes the live one in a single write; a crash before that leaves only garbage, which the next start removes.

use std::fs;
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use rocksdb::{
    ColumnFamily, ColumnFamilyDescriptor, DB, DBCompressionType, DBRecoveryMode, ErrorKind, IteratorMode, Options,
    ReadOptions, WriteBatch, WriteOptions,
};

use crate::codec::{self, FORMAT, Kind};
use crate::config::{Config, OnDamage};
use crate::error::{MirrorError, OpenError};
use crate::marks;
use crate::mirror::{MirrorBatch, MirrorRead, Table};
use crate::space::Space;
use crate::types;
use crate::wal;

const META: &str = "meta";
const LOG: &str = "log";
const STATE: &str = "state";

pub(crate) const IDENTITY: &[u8] = b"identity";
pub(crate) const VOTE: &[u8] = b"vote";
pub(crate) const PURGED: &[u8] = b"purged";
pub(crate) const SLOT: &[u8] = b"\0slot";
pub(crate) const APPLIED: &[u8] = b"\0applied";
pub(crate) const MEMBERSHIP: &[u8] = b"\0membership";
pub(crate) const SNAPSHOT: &[u8] = b"\0snapshot";

/// How long a write waits before it is tried again on a full disk.
pub(crate) const RETRY: Duration = Duration::from_millis(100);

/// The open database.
pub(crate) struct Db {
    db: DB,
    /// For the statistics.
    #[cfg(test)]
    pub options: Options,
    /// The slot of the live mirror: 1 or 2.
    slot: AtomicU8,
    /// The number of the next mark.
    mark: AtomicU64,
    pub space: Space,
}

/// Turns RocksDB's error into one of the standard library.
pub(crate) fn io_error(error: rocksdb::Error) -> io::Error {
    let kind = match error.kind() {
        _ if no_space(&error) => io::ErrorKind::StorageFull,
        ErrorKind::Corruption => io::ErrorKind::InvalidData,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error.into_string())
}

fn no_space(error: &rocksdb::Error) -> bool {
    no_space_text(error.as_ref())
}

fn no_space_text(text: &str) -> bool {
    // RocksDB passes the subcode only as text; both of its words for a full disk, and the system's.
    text.contains("No space left on device") || text.contains("NoSpace") || text.contains("Space limit reached")
}

impl Db {
    /// Opens the store in `config.dir`, or makes a new one.
    pub(crate) fn open(config: &Config) -> Result<Self, OpenError> {
        let dir = |source| OpenError::Directory { path: config.dir.clone(), source };
        fs::create_dir_all(&config.dir).map_err(dir)?;
        let path = config.dir.join("db");
        if !path.exists() {
            create(config, &path)?;
        }
        if !path.join("CURRENT").exists() {
            // RocksDB would make a new, empty store here.
            return Err(OpenError::Damaged { path, detail: "the file CURRENT is missing".into() });
        }
        check_files(&path, config.on_damage)?;
        let (db, _options) = open_db(config, &path, false)?;
        let space = Space::new(&config.dir, config.min_free_mib << 20);
        let this = Self {
            db,
            #[cfg(test)]
            options: _options,
            slot: AtomicU8::new(1),
            mark: AtomicU64::new(0),
            space,
        };
        this.check_identity(config, &path)?;
        this.check_log(&path)?;
        let last_checks = || -> io::Result<()> {
            this.mark.store(marks::check(&this)?, Ordering::Relaxed);
            this.load_slot()?;
            let mut batch = WriteBatch::default();
            this.add_mark(&mut batch)?;
            this.write_once(batch, true)
        };
        last_checks().map_err(|e| match e.kind() {
            io::ErrorKind::StorageFull => OpenError::DiskFull { path: path.clone() },
            io::ErrorKind::InvalidData => OpenError::Damaged { path: path.clone(), detail: e.to_string() },
            _ => OpenError::Database { path: path.clone(), detail: e.to_string() },
        })?;
        Ok(this)
    }

    /// Adds the next mark to a write (see [`marks`]). Marks are made one at a time: at the start, then by the writer.
    pub(crate) fn add_mark(&self, batch: &mut WriteBatch) -> io::Result<()> {
        marks::add(self, batch, self.mark.fetch_add(1, Ordering::Relaxed))
    }

    fn cf(&self, name: &str) -> io::Result<&ColumnFamily> {
        self.db.cf_handle(name).ok_or_else(|| io::Error::other(format!("the column family {name} is missing")))
    }

    pub(crate) fn meta(&self) -> io::Result<&ColumnFamily> {
        self.cf(META)
    }

    pub(crate) fn log(&self) -> io::Result<&ColumnFamily> {
        self.cf(LOG)
    }

    pub(crate) fn state(&self) -> io::Result<&ColumnFamily> {
        self.cf(STATE)
    }

    pub(crate) fn raw(&self) -> &DB {
        &self.db
    }

    /// A record of `meta` or `state`.
    pub(crate) fn record<M: prost::Message + Default>(
        &self,
        cf: &ColumnFamily,
        key: &[u8],
        kind: Kind,
    ) -> io::Result<Option<M>> {
        let value = self.db.get_cf(cf, key).map_err(io_error)?;
        value.map(|value| codec::decode(kind, value.into())).transpose()
    }

    /// The last applied log id and the last applied membership.
    pub(crate) fn applied(&self) -> io::Result<(Option<types::LogId>, types::StoredMembership)> {
        let state = self.state()?;
        // One read of both, so that a concurrent write is not seen half.
        let mut found = self.db.multi_get_cf([(state, APPLIED), (state, MEMBERSHIP)]).into_iter();
        let mut next = || found.next().transpose().map(Option::flatten).map_err(io_error);
        decode_applied(next()?, next()?)
    }

    /// Writes a batch; with `sync`, it and all before it are on the disk when this returns.
    pub(crate) fn write_once(&self, batch: WriteBatch, sync: bool) -> io::Result<()> {
        let mut options = WriteOptions::default();
        options.set_sync(sync);
        self.db.write_opt(batch, &options).map_err(io_error)
    }

    /// Writes a batch, and on a full disk waits until there is room again: openraft takes every error of its storage
    /// for the end, and a full disk is not the end. Proposals are refused meanwhile (see [`Space`]). RocksDB stops all
    /// writes after such an error and resumes by itself, some seconds after it finds room.
    ///
    /// `go_on` ends the wait when it says false. The wait holds its thread: never on one of the runtime.
    pub(crate) fn write(&self, mut batch: WriteBatch, sync: bool, go_on: &dyn Fn() -> bool) -> io::Result<()> {
        // A write takes the batch with it, also when it fails.
        let again = batch.data().to_vec();
        loop {
            match self.write_once(batch, sync) {
                Ok(()) => {
                    self.space.set_stuck(false);
                    return Ok(());
                }
                Err(e) if e.kind() == io::ErrorKind::StorageFull && go_on() => {
                    tracing::warn!(error = %e, "the disk of the store is full: writes wait, proposals are refused");
                    self.space.set_stuck(true);
                    std::thread::sleep(RETRY);
                    batch = WriteBatch::from_data(&again);
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// Everything written so far reaches the disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.db.flush_wal(true).map_err(io_error)
    }

    pub(crate) fn slot(&self) -> u8 {
        self.slot.load(Ordering::Acquire)
    }

    pub(crate) fn set_slot(&self, slot: u8) {
        self.slot.store(slot, Ordering::Release);
    }

    /// Adds the application's changes to a write.
    pub(crate) fn add_changes(&self, out: &mut WriteBatch, changes: &MirrorBatch) -> io::Result<()> {
        let (state, slot) = (self.state()?, self.slot());
        for change in changes.changes() {
            let key = mirror_key(slot, change.table, &change.key);
            match &change.value {
                Some(value) => out.put_cf(state, key, value),
                None => out.delete_cf(state, key),
            }
        }
        Ok(())
    }

    fn check_identity(&self, config: &Config, path: &Path) -> Result<(), OpenError> {
        let damaged = |detail: String| OpenError::Damaged { path: path.to_owned(), detail };
        let meta = self.meta().map_err(|e| damaged(e.to_string()))?;
        let value = self.db.get_cf(meta, IDENTITY).map_err(|e| damaged(e.into_string()))?;
        let Some(value) = value else { return Err(damaged("its identity is missing".into())) };
        if let Some(found) = value.first().filter(|version| **version != FORMAT) {
            let (found, supported) = (u64::from(*found), u64::from(FORMAT));
            return Err(OpenError::Format { path: path.to_owned(), found, supported });
        }
        let found: codec::Identity = codec::decode(Kind::Identity, value.into()).map_err(|e| damaged(e.to_string()))?;
        if (found.node_id, found.cluster.as_str()) != (config.node_id, config.cluster.as_str()) {
            let name = |node_id: u64, cluster: &str| format!("member {node_id} of cluster {cluster}");
            return Err(OpenError::Identity {
                path: path.to_owned(),
                found: name(found.node_id, &found.cluster),
                expected: name(config.node_id, &config.cluster),
            });
        }
        Ok(())
    }

    /// The log must begin right behind what was purged, and reach as far as what was applied from it.
    fn check_log(&self, path: &Path) -> Result<(), OpenError> {
        let check = || -> io::Result<()> {
            let purged = self.purged()?.map(|id| id.index);
            let applied = self.applied()?.0.map(|id| id.index);
            let snapshot: Option<codec::LogId> = self.record(self.state()?, SNAPSHOT, Kind::LogId)?;
            let (first, last) = (self.first_index()?, self.last_index()?);
            let expected = purged.map_or(0, |index| index + 1);
            if let Some(first) = first.filter(|first| *first != expected) {
                return Err(codec::bad(format!("the log begins at entry {first}, entry {expected} is missing")));
            }
            // A snapshot from a leader is ahead of the log until the log is purged up to it.
            let reach = last.max(purged);
            if applied > reach && applied != snapshot.map(|id| id.index) {
                return Err(codec::bad(format!(
                    "the log ends at entry {reach:?}, but entries up to {applied:?} were applied from it"
                )));
            }
            Ok(())
        };
        check().map_err(|e| OpenError::Damaged { path: path.to_owned(), detail: e.to_string() })
    }

    pub(crate) fn purged(&self) -> io::Result<Option<types::LogId>> {
        let found: Option<codec::LogId> = self.record(self.meta()?, PURGED, Kind::LogId)?;
        Ok(found.as_ref().map(types::LogId::from))
    }

    /// The index of the first entry on disk. Range tombstones lie before it, so the seek starts at the purged index.
    pub(crate) fn first_index(&self) -> io::Result<Option<u64>> {
        let from = self.purged()?.map_or(0, |id| id.index + 1);
        let mut options = ReadOptions::default();
        options.set_iterate_lower_bound(from.to_be_bytes());
        options.set_iterate_upper_bound([0xff]);
        let mut entries = self.db.iterator_cf_opt(self.log()?, options, IteratorMode::Start);
        entries.next().transpose().map_err(io_error)?.map(|(key, _)| index_of(&key)).transpose()
    }

    /// The index of the last entry on disk.
    pub(crate) fn last_index(&self) -> io::Result<Option<u64>> {
        let mut options = ReadOptions::default();
        // The marks lie behind.
        options.set_iterate_upper_bound([0xff]);
        let mut entries = self.db.iterator_cf_opt(self.log()?, options, IteratorMode::End);
        entries.next().transpose().map_err(io_error)?.map(|(key, _)| index_of(&key)).transpose()
    }

    /// Reads which slot is live and removes what a broken snapshot transfer left in the other one.
    fn load_slot(&self) -> io::Result<()> {
        let state = self.state()?;
        let found: Option<codec::Slot> = self.record(state, SLOT, Kind::Slot)?;
        let slot = match found.map_or(1, |found| found.slot) {
            1 => 1,
            2 => 2,
            other => return Err(codec::bad(format!("the live slot is {other}, it must be 1 or 2"))),
        };
        self.set_slot(slot);
        self.clear_slot(other_slot(slot))
    }

    /// Deletes everything in a slot.
    pub(crate) fn clear_slot(&self, slot: u8) -> io::Result<()> {
        let state = self.state()?;
        let mut options = ReadOptions::default();
        options.set_iterate_range([slot].as_slice()..[slot + 1].as_slice());
        let used = self.db.iterator_cf_opt(state, options, IteratorMode::Start).next().transpose().map_err(io_error)?;
        if used.is_some() {
            let mut batch = WriteBatch::default();
            batch.delete_range_cf(state, [slot], [slot + 1]);
            self.write_once(batch, false)?;
        }
        Ok(())
    }

    fn read_mirror(
        &self,
        table: Table,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        back: bool,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> io::Result<()> {
        let slot = self.slot();
        let mut options = ReadOptions::default();
        options.set_iterate_lower_bound(match range.0 {
            Bound::Included(key) => mirror_key(slot, table, key),
            Bound::Excluded(key) => successor(mirror_key(slot, table, key)),
            Bound::Unbounded => vec![slot, table],
        });
        options.set_iterate_upper_bound(match range.1 {
            Bound::Included(key) => successor(mirror_key(slot, table, key)),
            Bound::Excluded(key) => mirror_key(slot, table, key),
            Bound::Unbounded => table.checked_add(1).map_or(vec![slot + 1], |next| vec![slot, next]),
        });
        let mode = if back { IteratorMode::End } else { IteratorMode::Start };
        for item in self.db.iterator_cf_opt(self.state()?, options, mode) {
            let (key, value) = item.map_err(io_error)?;
            if !each(key.get(2..).unwrap_or_default(), &value) {
                break;
            }
        }
        Ok(())
    }
}

impl MirrorRead for Db {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, MirrorError> {
        let read = || self.db.get_cf(self.state()?, mirror_key(self.slot(), table, key)).map_err(io_error);
        read().map_err(|e| MirrorError(e.to_string()))
    }

    fn scan(
        &self,
        table: Table,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), MirrorError> {
        self.read_mirror(table, (from, to), false, each).map_err(|e| MirrorError(e.to_string()))
    }

    fn scan_back(
        &self,
        table: Table,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), MirrorError> {
        self.read_mirror(table, (from, to), true, each).map_err(|e| MirrorError(e.to_string()))
    }
}

pub(crate) fn other_slot(slot: u8) -> u8 {
    3 - slot
}

pub(crate) fn mirror_key(slot: u8, table: Table, key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(2 + key.len());
    out.extend_from_slice(&[slot, table]);
    out.extend_from_slice(key);
    out
}

/// The smallest key greater than `key`.
fn successor(mut key: Vec<u8>) -> Vec<u8> {
    key.push(0);
    key
}

/// The index in a key of the log.
pub(crate) fn index_of(key: &[u8]) -> io::Result<u64> {
    let key = <[u8; 8]>::try_from(key).map_err(|_| codec::bad(format!("a key of the log has {} bytes", key.len())))?;
    Ok(u64::from_be_bytes(key))
}

pub(crate) fn decode_applied(
    applied: Option<Vec<u8>>,
    membership: Option<Vec<u8>>,
) -> io::Result<(Option<types::LogId>, types::StoredMembership)> {
    let applied: Option<codec::LogId> =
        applied.map(|value| codec::decode(Kind::LogId, Bytes::from(value))).transpose()?;
    let membership: Option<codec::Membership> =
        membership.map(|value| codec::decode(Kind::Membership, Bytes::from(value))).transpose()?;
    let membership = membership.as_ref().map(types::StoredMembership::try_from).transpose()?.unwrap_or_default();
    Ok((applied.as_ref().map(types::LogId::from), membership))
}

/// Makes a new store beside `path` and moves it there when it is whole: a crash half-way leaves no store, not a broken one.
fn create(config: &Config, path: &Path) -> Result<(), OpenError> {
    let new = path.with_extension("new");
    let dir = |source| OpenError::Directory { path: new.clone(), source };
    if new.exists() {
        fs::remove_dir_all(&new).map_err(dir)?;
    }
    let (db, _) = open_db(config, &new, true)?;
    let identity = codec::Identity { node_id: config.node_id, cluster: config.cluster.clone() };
    let database = |detail: String| OpenError::Database { path: new.clone(), detail };
    let meta = db.cf_handle(META).ok_or_else(|| database("the column family meta was not made".into()))?;
    let mut options = WriteOptions::default();
    options.set_sync(true);
    db.put_cf_opt(meta, IDENTITY, codec::encode(Kind::Identity, &identity), &options)
        .map_err(|e| database(e.into_string()))?;
    drop(db);
    fs::rename(&new, path).map_err(dir)?;
    // The rename itself must survive a power cut.
    fs::File::open(&config.dir).and_then(|dir| dir.sync_all()).map_err(dir)
}

fn open_db(config: &Config, path: &Path, create: bool) -> Result<(DB, Options), OpenError> {
    let mut options = Options::default();
    options.create_if_missing(create);
    options.create_missing_column_families(create);
    // See `wal`: what may be cut off was cut off there; all else is refused.
    options.set_wal_recovery_mode(DBRecoveryMode::AbsoluteConsistency);
    options.set_track_and_verify_wals_in_manifest(true);
    options.set_paranoid_checks(true);
    options.set_atomic_flush(true);
    // A recycled log has old records behind its end: nothing could tell them from damage.
    options.set_recycle_log_file_num(0);
    options.set_max_total_wal_size((config.write_buffer_mib as u64) << 21);
    options.set_db_write_buffer_size(config.write_buffer_mib << 20);
    options.set_max_background_jobs(2);
    options.set_keep_log_file_num(4);
    options.set_max_log_file_size(4 << 20);
    options.set_stats_dump_period_sec(0);
    options.set_max_open_files(512);
    #[cfg(test)]
    options.enable_statistics();
    // RocksDB always has the family `default`. It is not used, but the size of its buffer, 64 MiB unless told, counts in
    // what RocksDB wants to see free before it resumes after a full disk.
    let families = [("default", false), (META, false), (LOG, false), (STATE, true)].map(|(name, compressed)| {
        let mut family = Options::default();
        family.set_write_buffer_size(config.write_buffer_mib << 20);
        family.set_level_compaction_dynamic_level_bytes(true);
        family.set_compression_type(if compressed { DBCompressionType::Lz4 } else { DBCompressionType::None });
        ColumnFamilyDescriptor::new(name, family)
    });
    let db = DB::open_cf_descriptors(&options, path, families).map_err(|e| open_error(path, e))?;
    Ok((db, options))
}

fn open_error(path: &Path, error: rocksdb::Error) -> OpenError {
    let path = path.to_owned();
    let (kind, detail) = (error.kind(), error.into_string());
    if detail.contains("lock") && (detail.contains("/LOCK") || detail.contains("lock hold")) {
        return OpenError::InUse { path };
    }
    if no_space_text(&detail) {
        return OpenError::DiskFull { path };
    }
    // A file that the MANIFEST names and that is gone comes as an I/O error.
    match kind {
        ErrorKind::Corruption => OpenError::Damaged { path, detail },
        ErrorKind::IOError if detail.contains("No such file") => OpenError::Damaged { path, detail },
        _ => OpenError::Database { path, detail },
    }
}

/// Looks through the logs and the MANIFEST, cuts a torn end, refuses a damaged file.
fn check_files(path: &Path, on_damage: OnDamage) -> Result<(), OpenError> {
    let dir = |source| OpenError::Directory { path: path.to_owned(), source };
    let damaged = |detail: String| OpenError::Damaged { path: path.to_owned(), detail };
    let read = |name: &str| fs::read(path.join(name)).map_err(|e| damaged(format!("cannot read {name}: {e}")));

    let current = String::from_utf8_lossy(&read("CURRENT")?).into_owned();
    let Some(manifest) = current.strip_suffix('\n').filter(|name| is_manifest(name)) else {
        return Err(damaged(format!("the file CURRENT does not name a MANIFEST but says {current:?}")));
    };
    if let wal::End::Damaged { at, why, .. } = wal::scan(&read(manifest)?).end {
        return Err(damaged(format!("{manifest}, byte {at}: {why}")));
    }

    let mut logs = Vec::new();
    for entry in fs::read_dir(path).map_err(dir)? {
        let file = entry.map_err(dir)?.path();
        let number = file.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse::<u64>().ok());
        if let (Some(number), Some("log")) = (number, file.extension().and_then(|e| e.to_str())) {
            logs.push((number, file));
        }
    }
    logs.sort();
    let mut scans = Vec::new();
    for (number, file) in logs {
        let bytes = fs::read(&file).map_err(|e| damaged(format!("cannot read {}: {e}", file.display())))?;
        scans.push((number, file, wal::scan(&bytes)));
    }
    cut_logs(&scans, on_damage).map_err(damaged)
}

fn is_manifest(name: &str) -> bool {
    name.strip_prefix("MANIFEST-").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// Decides about all logs first, then cuts: a refusal changes nothing.
fn cut_logs(scans: &[(u64, PathBuf, wal::Scan)], on_damage: OnDamage) -> Result<(), String> {
    let lose = on_damage == OnDamage::CutAndLose;
    let mut cuts = Vec::new();
    let mut lost = None;
    for (i, (number, file, scan)) in scans.iter().enumerate() {
        // A later log may follow a torn one: a write failed on a full disk, and RocksDB went on in a new log with the
        // same sequence number. If the numbers leave a gap, records are lost that later ones build on.
        let later = scans.get(i + 1..).unwrap_or_default().iter().find_map(|(_, _, scan)| scan.first_sequence);
        let gap = scan.next_sequence.zip(later).is_some_and(|(next, later)| later > next);
        match &scan.end {
            wal::End::Whole => {}
            wal::End::Torn { at } if !gap => cuts.push((number, file, *at)),
            wal::End::Torn { at } | wal::End::Damaged { batch: at, .. } if lose => {
                cuts.push((number, file, *at));
                lost = Some(i + 1);
                break;
            }
            wal::End::Torn { at } => {
                return Err(format!(
                    "write-ahead log {number:06}.log ends in the middle of a record at byte {at}, and later logs go on \
                     after it"
                ));
            }
            wal::End::Damaged { at, why, .. } => {
                return Err(format!("write-ahead log {number:06}.log, byte {at}: {why}"));
            }
        }
    }
    for (number, file, at) in cuts {
        tracing::warn!(log = number, at, "a write was cut short by a crash or a full disk: it is dropped");
        let cut = || fs::OpenOptions::new().write(true).open(file).and_then(|f| f.set_len(at as u64).and(f.sync_all()));
        cut().map_err(|e| format!("cannot cut {} to {at} bytes: {e}", file.display()))?;
    }
    for (number, file, _) in lost.and_then(|from| scans.get(from..)).unwrap_or_default() {
        tracing::warn!(log = number, "put aside: the log before it was damaged and cut, as the configuration asked");
        fs::rename(file, file.with_extension("lost")).map_err(|e| format!("cannot rename {}: {e}", file.display()))?;
    }
    Ok(())
}
