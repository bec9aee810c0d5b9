//! A full disk: writes are refused with a clear error, nothing acknowledged is lost, service returns by itself.
//!
//! Each test mounts a small tmpfs of its own, and unmounts it.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test's way to fail, in its helpers too.

mod common;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{App, config, until};
use gpun_raft_store::{Config, NoTransport, OpenError, ProposeError, Store};
use nix::mount::{MntFlags, MsFlags, mount, umount2};

/// A disk of a given size.
struct Disk {
    dir: tempfile::TempDir,
}

impl Disk {
    fn new(mib: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = format!("size={mib}m");
        mount(Some("tmpfs"), dir.path(), Some("tmpfs"), MsFlags::empty(), Some(options.as_str())).unwrap();
        Self { dir }
    }

    fn ballast(&self) -> PathBuf {
        self.dir.path().join("ballast")
    }

    /// Fills the disk up to `leave` bytes.
    fn fill(&self, leave: u64) {
        let stat = nix::sys::statvfs::statvfs(self.dir.path()).unwrap();
        let free = stat.blocks_available() * stat.fragment_size();
        let mut file = fs::OpenOptions::new().create(true).append(true).open(self.ballast()).unwrap();
        let piece = vec![1_u8; 1 << 16];
        let mut left = free.saturating_sub(leave);
        while left > 0 {
            let size = usize::try_from(left).unwrap().min(piece.len());
            if file.write_all(&piece[..size]).is_err() {
                break;
            }
            left -= size as u64;
        }
    }

    fn empty(&self) {
        fs::remove_file(self.ballast()).unwrap();
    }

    fn config(&self, min_free_mib: u64) -> Config {
        Config { min_free_mib, write_buffer_mib: 4, ..config(&self.dir.path().join("state"), 1) }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        umount2(self.dir.path(), MntFlags::MNT_DETACH).unwrap();
    }
}

async fn open(config: Config) -> Result<Store<App>, OpenError> {
    let store = Store::open(config, App::default(), Arc::new(NoTransport)).await?;
    if !store.status().disk_full {
        store.initialize_single("here").await.unwrap();
    }
    Ok(store)
}

/// Proposes `keyN` with a value of a kilobyte.
async fn put(store: &Store<App>, key: &str) -> Result<(), ProposeError> {
    let start = Instant::now();
    let answer = store.propose(format!("{key}={}", "v".repeat(1000)).into_bytes()).await;
    assert!(start.elapsed() < Duration::from_secs(3), "the client had to wait {:?} for {answer:?}", start.elapsed());
    answer.map(|(_, answer)| {
        answer.unwrap();
    })
}

fn assert_all(store: &Store<App>, keys: &[String]) {
    let view = store.view();
    for key in keys {
        assert!(view.view.values.contains_key(key), "{key} was acknowledged and is lost");
    }
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

async fn until_taken(store: &Store<App>, key: &str) {
    let start = Instant::now();
    while let Err(e) = put(store, key).await {
        assert!(matches!(e, ProposeError::DiskFull { .. }), "{e}");
        assert!(start.elapsed() < Duration::from_secs(40), "service did not return: {e}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_are_refused_before_the_disk_is_full() {
    let disk = Disk::new(96);
    let store = open(disk.config(32)).await.unwrap();
    put(&store, "a").await.unwrap();
    disk.fill(16 << 20);
    until("the store sees that the disk is full", || store.status().disk_full).await;
    match put(&store, "b").await {
        Err(ProposeError::DiskFull { free_mib, needed_mib, maybe_applied: false }) => {
            assert!(free_mib <= 16 && needed_mib == 36, "{free_mib} {needed_mib}");
        }
        other => panic!("{other:?}"),
    }
    assert!(store.linearizable_view().await.unwrap().view.values.contains_key("a"), "reads go on");
    disk.empty();
    until("the store sees that there is room", || !store.status().disk_full).await;
    put(&store, "b").await.unwrap();
    store.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_disk_fills_up_under_a_writer_and_is_emptied_again() {
    let disk = Disk::new(96);
    let store = open(disk.config(0)).await.unwrap();
    let mut keys: Vec<String> = Vec::new();
    for round in 0..3 {
        for n in 0..20 {
            let key = format!("r{round}.{n}");
            put(&store, &key).await.unwrap();
            keys.push(key);
        }
        disk.fill(0);
        // Somewhere here the log meets the end of the disk.
        let mut refused = None;
        for n in 0..20_000 {
            let key = format!("r{round}.full{n}");
            match put(&store, &key).await {
                Ok(()) => keys.push(key),
                Err(e) => {
                    refused = Some(e);
                    break;
                }
            }
        }
        assert!(matches!(refused, Some(ProposeError::DiskFull { .. })), "{refused:?}");
        assert!(store.status().disk_full && store.status().failed.is_none());
        // From now on the answer is immediate, and says that nothing was taken.
        assert!(matches!(put(&store, "x").await, Err(ProposeError::DiskFull { maybe_applied: false, .. })));
        assert_all(&store, &keys);

        // A crash at this moment loses nothing either.
        let image = tempfile::tempdir().unwrap();
        copy(&disk.dir.path().join("state"), image.path());
        let crashed = open(Config { write_buffer_mib: 4, ..config(image.path(), 1) }).await.unwrap();
        assert_all(&crashed, &keys);
        crashed.shutdown().await;

        disk.empty();
        until_taken(&store, &format!("r{round}.again")).await;
        keys.push(format!("r{round}.again"));
        assert_all(&store, &keys);

        // Nor a crash right after service returned, with the failed write still in an old log.
        let image = tempfile::tempdir().unwrap();
        copy(&disk.dir.path().join("state"), image.path());
        let crashed = open(Config { write_buffer_mib: 4, ..config(image.path(), 1) }).await.unwrap();
        assert_all(&crashed, &keys);
        crashed.shutdown().await;
    }
    store.shutdown().await;
    drop(store);
    let store = open(disk.config(0)).await.unwrap();
    assert_all(&store, &keys);
    store.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_writers_meet_a_full_disk() {
    let disk = Disk::new(96);
    let store = open(disk.config(0)).await.unwrap();
    put(&store, "a").await.unwrap();
    disk.fill(2 << 20);
    let writers: Vec<_> = (0..64)
        .map(|w| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut taken = Vec::new();
                for n in 0.. {
                    let key = format!("w{w}.{n}");
                    match put(&store, &key).await {
                        Ok(()) => taken.push(key),
                        Err(ProposeError::DiskFull { .. }) => return taken,
                        Err(e) => panic!("{e}"),
                    }
                }
                taken
            })
        })
        .collect();
    let mut keys = Vec::new();
    for writer in writers {
        keys.extend(writer.await.unwrap());
    }
    assert!(keys.len() > 64, "{}", keys.len());
    disk.empty();
    until_taken(&store, "again").await;
    assert_all(&store, &keys);
    store.shutdown().await;
    drop(store);
    let store = open(disk.config(0)).await.unwrap();
    assert_all(&store, &keys);
    store.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_on_a_full_disk_ends_and_a_start_says_why_not() {
    let disk = Disk::new(96);
    let store = open(disk.config(0)).await.unwrap();
    put(&store, "a").await.unwrap();
    disk.fill(0);
    let mut n = 0;
    while put(&store, &format!("k{n}")).await.is_ok() {
        n += 1;
    }
    let start = Instant::now();
    store.shutdown().await;
    assert!(start.elapsed() < Duration::from_secs(12), "{:?}", start.elapsed());
    drop(store);
    disk.fill(0);
    match open(disk.config(0)).await {
        Err(e @ OpenError::DiskFull { .. }) => assert!(e.to_string().contains("free some space"), "{e}"),
        Ok(store) => assert!(store.status().disk_full),
        Err(other) => panic!("{other}"),
    }
    disk.empty();
    let store = open(disk.config(0)).await.unwrap();
    let keys: Vec<String> = (0..n).map(|n| format!("k{n}")).collect();
    assert_all(&store, &keys);
    put(&store, "again").await.unwrap();
    store.shutdown().await;
}
