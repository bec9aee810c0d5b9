//! Torn and damaged files: the store opens with exactly what was there before the last write, or with it, or refuses.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test's way to fail, in its helpers too.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::{App, View, config, open_single};
use gpun_raft_store::{Config, NoTransport, OnDamage, OpenError, Store};

/// A store with three entries, cut off as if by a power cut: its files, and the write-ahead log's length before and
/// after the last write.
struct Fixture {
    dir: tempfile::TempDir,
    log: PathBuf,
    before: u64,
    after: u64,
}

fn newest(dir: &Path, suffix: &str) -> PathBuf {
    let mut files: Vec<PathBuf> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_string_lossy().ends_with(suffix))
        .collect();
    files.sort();
    files.pop().unwrap()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
        }
    }
}

/// Proposes `last` after two others, and copies the files of the running store before and after.
async fn fixture(last: &str) -> Fixture {
    let live = tempfile::tempdir().unwrap();
    let store = open_single(live.path()).await.unwrap();
    for entry in ["first=1", "second=2"] {
        store.propose(entry.as_bytes().to_vec()).await.unwrap().1.unwrap();
    }
    let log = newest(&live.path().join("db"), ".log");
    let before = fs::metadata(&log).unwrap().len();
    store.propose(last.as_bytes().to_vec()).await.unwrap().1.unwrap();
    let after = fs::metadata(&log).unwrap().len();
    let dir = tempfile::tempdir().unwrap();
    copy(live.path(), dir.path());
    let log = dir.path().join("db").join(log.file_name().unwrap());
    store.shutdown().await;
    Fixture { dir, log, before, after }
}

impl Fixture {
    /// Opens a copy of the files after `change` was made to the log's bytes.
    async fn open(&self, on_damage: OnDamage, change: impl FnOnce(&mut Vec<u8>)) -> Result<View, OpenError> {
        self.open_file(&self.log, on_damage, change).await
    }

    async fn open_file(
        &self,
        file: &Path,
        on_damage: OnDamage,
        change: impl FnOnce(&mut Vec<u8>),
    ) -> Result<View, OpenError> {
        let dir = tempfile::tempdir().unwrap();
        copy(self.dir.path(), dir.path());
        let path = dir.path().join(file.strip_prefix(self.dir.path()).unwrap());
        let mut bytes = fs::read(&path).unwrap();
        change(&mut bytes);
        fs::write(&path, bytes).unwrap();
        let config = Config { on_damage, ..config(dir.path(), 1) };
        let store = Store::open(config, App::default(), Arc::new(NoTransport)).await?;
        let view = store.view().view.clone();
        store.shutdown().await;
        Ok(view)
    }
}

fn state(pairs: &[(&str, &str)]) -> View {
    let values: BTreeMap<_, _> = pairs.iter().map(|(k, v)| ((*k).to_string(), (*v).to_string())).collect();
    View { count: values.len() as u64, values: Arc::new(values) }
}

/// The last write is the entry's own (synced) and the mirror's (not synced): a cut anywhere in them gives the state
/// before the entry, or with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_cut_at_every_byte_of_the_last_write() {
    let fixture = fixture("third=3").await;
    let (old, new) =
        (state(&[("first", "1"), ("second", "2")]), state(&[("first", "1"), ("second", "2"), ("third", "3")]));
    let mut seen_old = 0;
    let mut seen_new = 0;
    for length in fixture.before..=fixture.after {
        let opened = fixture.open(OnDamage::Refuse, |log| log.truncate(length as usize)).await;
        let view = opened.unwrap_or_else(|e| panic!("cut to {length}: {e}"));
        match view {
            v if v == old => seen_old += 1,
            v if v == new => seen_new += 1,
            other => panic!("cut to {length}: {other:?}"),
        }
        // Once the entry itself is whole, it is never lost again.
        assert!(seen_new == 0 || view_is(&fixture, length, &new).await, "cut to {length}");
    }
    assert!(seen_old > 20 && seen_new > 20, "{seen_old} {seen_new}");
}

async fn view_is(fixture: &Fixture, length: u64, expected: &View) -> bool {
    // Every 16th is enough for the second look.
    !length.is_multiple_of(16)
        || fixture.open(OnDamage::Refuse, |log| log.truncate(length as usize)).await.unwrap() == *expected
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bit_flipped_anywhere_in_the_log_is_refused() {
    let fixture = fixture("third=3").await;
    for at in 0..fixture.after as usize {
        // Each byte of the last write, and a dense sample of all before; another bit each time.
        if at < fixture.before as usize && at % 5 != 0 {
            continue;
        }
        match fixture.open(OnDamage::Refuse, |log| log[at] ^= 1 << (at % 8)).await {
            Err(OpenError::Damaged { detail, .. }) => {
                assert!(detail.contains("write-ahead log"), "byte {at}: {detail}")
            }
            other => panic!("byte {at}: {other:?}"),
        }
    }
}

/// A length that points beyond the end of the file looks like a torn write; it is none when the data is all there.
#[tokio::test(flavor = "multi_thread")]
async fn lengths_are_not_trusted() {
    let fixture = fixture("third=3").await;
    let bytes = fs::read(&fixture.log).unwrap();
    let mut at = 0;
    let mut records = 0;
    while at + 7 <= bytes.len() {
        let length = usize::from(u16::from_le_bytes([bytes[at + 4], bytes[at + 5]]));
        for bit in 0..16 {
            let opened = fixture.open(OnDamage::Refuse, |log| log[at + 4 + bit / 8] ^= 1 << (bit % 8)).await;
            assert!(matches!(opened, Err(OpenError::Damaged { .. })), "record at {at}, bit {bit}: {opened:?}");
        }
        at += 7 + length;
        records += 1;
    }
    assert!(records >= 6, "{records}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_may_cut_and_lose() {
    let fixture = fixture("third=3").await;
    let at = fixture.before as usize + 10;
    let view = fixture.open(OnDamage::CutAndLose, |log| log[at] ^= 1).await.unwrap();
    assert_eq!(view, state(&[("first", "1"), ("second", "2")]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_last_write_is_cut_as_a_whole() {
    let large = format!("large={}", "x".repeat(100_000));
    let fixture = fixture(&large).await;
    let old = state(&[("first", "1"), ("second", "2")]);
    for length in (fixture.before + 1..fixture.before + 100_000).step_by(7919) {
        let view = fixture.open(OnDamage::Refuse, |log| log.truncate(length as usize)).await.unwrap();
        assert_eq!(view, old, "cut to {length}");
        // The file had grown, the data had not arrived.
        let view = fixture
            .open(OnDamage::Refuse, |log| {
                log.truncate(fixture.before as usize + 100_000);
                log[length as usize..].fill(0);
            })
            .await;
        assert_eq!(view.unwrap(), old, "zeros from {length}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_other_files_are_watched_too() {
    let fixture = fixture("third=3").await;
    let db = fixture.dir.path().join("db");
    let manifest = fs::read_dir(&db)
        .unwrap()
        .map(|e| e.unwrap().path())
        .find(|p| p.file_name().unwrap().to_string_lossy().starts_with("MANIFEST-"))
        .unwrap();
    let length = fs::metadata(&manifest).unwrap().len() as usize;
    for at in (0..length).step_by(7) {
        let opened = fixture.open_file(&manifest, OnDamage::Refuse, |bytes| bytes[at] ^= 1 << (at % 8)).await;
        assert!(matches!(opened, Err(OpenError::Damaged { .. })), "MANIFEST byte {at}: {opened:?}");
    }
    let current = db.join("CURRENT");
    for at in 0..fs::metadata(&current).unwrap().len() as usize {
        let opened = fixture.open_file(&current, OnDamage::Refuse, |bytes| bytes[at] ^= 1 << (at % 8)).await;
        assert!(matches!(opened, Err(OpenError::Damaged { .. })), "CURRENT byte {at}: {opened:?}");
    }
    let opened = fixture.open_file(&current, OnDamage::Refuse, Vec::clear).await;
    assert!(matches!(opened, Err(OpenError::Damaged { .. })), "{opened:?}");
}

/// The MANIFEST cut at every length: what is lost of it must be covered by the logs, or refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_cut_manifest_never_loses_an_entry() {
    let live = tempfile::tempdir().unwrap();
    // Two starts, so that entries are in table files and old logs are gone.
    let store = open_single(live.path()).await.unwrap();
    for entry in ["first=1", "second=2"] {
        store.propose(entry.as_bytes().to_vec()).await.unwrap().1.unwrap();
    }
    store.shutdown().await;
    drop(store);
    let store = open_single(live.path()).await.unwrap();
    store.propose("third=3".as_bytes().to_vec()).await.unwrap().1.unwrap();
    let dir = tempfile::tempdir().unwrap();
    copy(live.path(), dir.path());
    store.shutdown().await;
    let db = dir.path().join("db");
    let manifest = fs::read_dir(&db)
        .unwrap()
        .map(|e| e.unwrap().path())
        .find(|p| p.file_name().unwrap().to_string_lossy().starts_with("MANIFEST-"))
        .unwrap();
    let length = fs::metadata(&manifest).unwrap().len();
    let log = newest(&db, ".log");
    let fixture = Fixture { dir, log, before: 0, after: 0 };
    let whole = state(&[("first", "1"), ("second", "2"), ("third", "3")]);
    let mut refused = 0;
    for cut in 0..=length {
        match fixture.open_file(&manifest, OnDamage::Refuse, |bytes| bytes.truncate(cut as usize)).await {
            Ok(view) => assert_eq!(view, whole, "MANIFEST cut to {cut} of {length}"),
            Err(OpenError::Damaged { .. }) => refused += 1,
            Err(other) => panic!("MANIFEST cut to {cut} of {length}: {other}"),
        }
    }
    assert!(refused > 0, "nothing was refused");
}
