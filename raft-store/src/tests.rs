//! What can only be seen from inside: how often the disk is synced, snapshots over a crash, the format's version.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use openraft::storage::{RaftLogReader, RaftLogStorage, RaftLogStorageExt};
use openraft::{BasicNode, EntryPayload};
use rocksdb::WriteBatch;
use rocksdb::statistics::Ticker;

use crate::codec::{self, Kind};
use crate::config::Config;
use crate::db::{APPLIED, Db, IDENTITY, MEMBERSHIP, SNAPSHOT};
use crate::error::OpenError;
use crate::log::LogStore;
use crate::mirror::{MirrorBatch, MirrorRead};
use crate::snapshot::{SnapshotStream, Stage, pin};
use crate::types::{Entry, LeaderId, LogId, Membership, Payload, StoredMembership};

const TABLE: u8 = 9;

fn config(dir: &Path) -> Config {
    Config { min_free_mib: 0, write_buffer_mib: 4, ..Config::new(dir, 1) }
}

fn log_id(index: u64) -> LogId {
    LogId::new(LeaderId { term: 1, node_id: 1 }, index)
}

fn entries(from: u64, to: u64) -> Vec<Entry> {
    (from..to)
        .map(|index| Entry { log_id: log_id(index), payload: EntryPayload::Normal(Payload(vec![7; 300].into())) })
        .collect()
}

/// Writes `count` records that hold `mark`, as applied at `index`.
fn fill(db: &Db, count: u32, mark: u8, index: u64) {
    let mut changes = MirrorBatch::new();
    for n in 0..count {
        changes.put(TABLE, &n.to_be_bytes(), vec![mark; 100]);
    }
    let mut batch = WriteBatch::default();
    db.add_changes(&mut batch, &changes).unwrap();
    let nodes = std::collections::BTreeMap::from([(1, BasicNode::new("a".to_string()))]);
    let membership = Membership::new(vec![[1].into()], nodes).unwrap();
    let membership = codec::Membership::from(&StoredMembership::new(Some(log_id(0)), membership));
    let id = codec::encode(Kind::LogId, &codec::LogId::from(&log_id(index)));
    batch.put_cf(db.state().unwrap(), APPLIED, &id);
    batch.put_cf(db.state().unwrap(), SNAPSHOT, &id);
    batch.put_cf(db.state().unwrap(), MEMBERSHIP, codec::encode(Kind::Membership, &membership));
    db.write_once(batch, true).unwrap();
}

fn contents(db: &Db) -> Vec<(Vec<u8>, u8)> {
    let mut out = Vec::new();
    db.scan_all(TABLE, &mut |key, value| {
        out.push((key.to_vec(), value[0]));
        true
    })
    .unwrap();
    out
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to.join(entry.file_name()));
        } else {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// Opens a copy of the files, as after a crash at this moment.
fn after_a_crash<T>(dir: &Path, look: impl FnOnce(&Db) -> T) -> T {
    let image = tempfile::tempdir().unwrap();
    copy(dir, image.path());
    look(&Db::open(&config(image.path())).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_that_are_appended_together_share_one_sync() {
    let dir = tempfile::tempdir().unwrap();
    let db = Arc::new(Db::open(&config(dir.path())).unwrap());
    let synced = |db: &Db| db.options.get_ticker_count(Ticker::WalFileSynced);
    let mut log = LogStore::open(db.clone(), 1 << 20, Arc::default()).unwrap();
    for (from, to) in [(0, 1), (1, 1001), (1001, 1002)] {
        let before = synced(&db);
        log.blocking_append(entries(from, to)).await.unwrap();
        assert_eq!(synced(&db) - before, 1, "entries {from} to {to}");
        // Acknowledged means on disk: a crash now finds them.
        after_a_crash(dir.path(), |db| assert_eq!(db.last_index().unwrap(), Some(to - 1)));
    }
    let before = synced(&db);
    let vote = crate::types::Vote::new(3, 1);
    log.save_vote(&vote).await.unwrap();
    assert_eq!(synced(&db) - before, 1);
    let image = tempfile::tempdir().unwrap();
    copy(dir.path(), image.path());
    let crashed = Arc::new(Db::open(&config(image.path())).unwrap());
    let mut crashed = LogStore::open(crashed, 1 << 20, Arc::default()).unwrap();
    let mut reader = crashed.get_log_reader().await;
    assert_eq!(reader.read_vote().await.unwrap(), Some(vote));
    assert_eq!(reader.try_get_log_entries(990..).await.unwrap(), entries(990, 1002));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_is_installed_whole_or_not_at_all() {
    let (leader_dir, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let leader = Arc::new(Db::open(&config(leader_dir.path())).unwrap());
    fill(&leader, 20_000, b'L', 5000);
    let db = Arc::new(Db::open(&config(dir.path())).unwrap());
    fill(&db, 300, b'F', 7);
    let old = contents(&db);
    let new = contents(&leader);

    // A transfer that breaks leaves the old state, also over a crash, and no garbage after it.
    let stage = Stage::new(db.clone());
    let (meta, mut stream) = pin(leader.clone()).await.unwrap();
    let (sender, broken) = SnapshotStream::channel();
    let feed = tokio::spawn(async move {
        for _ in 0..3 {
            assert!(sender.send(stream.next().await.unwrap()).await);
        }
    });
    let error = stage.clone().receive(broken).await.err().unwrap();
    feed.await.unwrap();
    assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
    assert_eq!(contents(&db), old);
    after_a_crash(dir.path(), |db| {
        assert_eq!(contents(db), old);
        assert_eq!(db.applied().unwrap().0, Some(log_id(7)));
        db.set_slot(crate::db::other_slot(db.slot()));
        assert_eq!(contents(db), [], "garbage of the transfer remains");
    });

    // Received whole, but not yet installed: still the old state, and nobody else may receive.
    let (_, stream) = pin(leader.clone()).await.unwrap();
    let staged = stage.clone().receive(stream).await.unwrap();
    assert_eq!(staged.meta, meta);
    assert_eq!(contents(&db), old);
    after_a_crash(dir.path(), |db| assert_eq!(contents(db), old));
    let (_, second) = pin(leader.clone()).await.unwrap();
    assert_eq!(stage.clone().receive(second).await.err().unwrap().kind(), std::io::ErrorKind::WouldBlock);

    // Installed: the new state, also over a crash. A write-ahead log cut within the switch: the old one.
    let log = newest_log(dir.path());
    let before = fs::metadata(&log).unwrap().len();
    staged.install(&meta, &|| true).unwrap();
    assert_eq!(contents(&db), new);
    assert_eq!(db.applied().unwrap().0, Some(log_id(5000)));
    after_a_crash(dir.path(), |db| {
        assert_eq!(contents(db), new);
        assert_eq!(db.applied().unwrap(), (Some(log_id(5000)), meta.last_membership.clone()));
    });
    for cut in 1..20 {
        let image = tempfile::tempdir().unwrap();
        copy(dir.path(), image.path());
        let log = newest_log(image.path());
        fs::OpenOptions::new().write(true).open(log).unwrap().set_len(before + cut * 3).unwrap();
        assert_eq!(contents(&Db::open(&config(image.path())).unwrap()), old, "cut {cut}");
    }
    // The way back to the first slot.
    fill(&leader, 10, b'M', 6000);
    let (meta, stream) = pin(leader.clone()).await.unwrap();
    stage.receive(stream).await.unwrap().install(&meta, &|| true).unwrap();
    assert_eq!(contents(&db), contents(&leader));
}

fn newest_log(dir: &Path) -> std::path::PathBuf {
    let files = fs::read_dir(dir.join("db")).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|e| e == "log")).max().unwrap()
}

/// A snapshot is of one moment, whatever is applied while it is read.
#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_is_of_one_moment() {
    let (leader_dir, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let leader = Arc::new(Db::open(&config(leader_dir.path())).unwrap());
    fill(&leader, 30_000, b'1', 10);
    let (meta, stream) = pin(leader.clone()).await.unwrap();
    // The reader is held up by the full stream; meanwhile everything is written anew.
    fill(&leader, 30_000, b'2', 20);
    let db = Arc::new(Db::open(&config(dir.path())).unwrap());
    Stage::new(db.clone()).receive(stream).await.unwrap().install(&meta, &|| true).unwrap();
    assert_eq!(meta.last_log_id, Some(log_id(10)));
    assert!(contents(&db).iter().all(|(_, mark)| *mark == b'1'));
    assert_eq!(contents(&db).len(), 30_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_snapshot_is_refused() {
    let (leader_dir, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let leader = Arc::new(Db::open(&config(leader_dir.path())).unwrap());
    fill(&leader, 20_000, b'L', 5000);
    let db = Arc::new(Db::open(&config(dir.path())).unwrap());
    for (damaged, at) in [(0, 0), (0, 1), (1, 0), (1, 1), (1, 5000), (2, 77), (3, 1)] {
        let (_, mut stream) = pin(leader.clone()).await.unwrap();
        let (sender, out) = SnapshotStream::channel();
        tokio::spawn(async move {
            let mut n = 0;
            while let Some(chunk) = stream.next().await {
                let mut chunk = chunk.unwrap().to_vec();
                // Chunk 3 stands for all that follow.
                if n.min(3) == damaged {
                    chunk[at] ^= 0x10;
                }
                n += 1;
                if !sender.send(Ok(chunk.into())).await {
                    return;
                }
            }
        });
        assert!(Stage::new(db.clone()).receive(out).await.is_err(), "chunk {damaged}, byte {at}");
    }
}

#[test]
fn another_format_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(&config(dir.path())).unwrap();
    let mut identity = db.raw().get_cf(db.meta().unwrap(), IDENTITY).unwrap().unwrap();
    identity[0] = 9;
    db.raw().put_cf(db.meta().unwrap(), IDENTITY, identity).unwrap();
    drop(db);
    let error = Db::open(&config(dir.path())).err().unwrap();
    assert!(matches!(error, OpenError::Format { found: 9, supported: 1, .. }), "{error}");
}

#[test]
fn a_hole_in_the_log_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(&config(dir.path())).unwrap();
    let mut batch = WriteBatch::default();
    for entry in entries(5, 8) {
        let value = codec::encode(Kind::Entry, &codec::Entry::from(&entry));
        batch.put_cf(db.log().unwrap(), entry.log_id.index.to_be_bytes(), value);
    }
    db.write_once(batch, true).unwrap();
    drop(db);
    let error = Db::open(&config(dir.path())).err().unwrap();
    assert!(matches!(&error, OpenError::Damaged { detail, .. } if detail.contains("entry 0 is missing")), "{error}");
}

#[test]
fn a_log_that_ends_before_the_applied_state_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(&config(dir.path())).unwrap();
    let mut batch = WriteBatch::default();
    let id = codec::encode(Kind::LogId, &codec::LogId::from(&log_id(4)));
    batch.put_cf(db.state().unwrap(), APPLIED, id);
    db.write_once(batch, true).unwrap();
    drop(db);
    let error = Db::open(&config(dir.path())).err().unwrap();
    assert!(matches!(&error, OpenError::Damaged { detail, .. } if detail.contains("were applied")), "{error}");
}
