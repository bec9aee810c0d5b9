//! How many proposals a second one member takes, with every entry synced to the disk.
//!
//! `cargo run --release -p gpun-raft-store --example propose_rate [-- DIR [SECONDS]]`

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement stops at the first error and prints")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gpun_raft_store::{Apply, BoxError, Bytes, Config, MirrorBatch, MirrorRead, NoTransport, Store};

const ENTRY_BYTES: usize = 300;

/// Counts entries, and mirrors one record for each.
struct Count(u64);

impl Apply for Count {
    type Response = u64;
    type View = u64;

    fn load(&mut self, mirror: &dyn MirrorRead) -> Result<(), BoxError> {
        self.0 = 0;
        mirror.scan_all(1, &mut |_, _| {
            self.0 += 1;
            true
        })?;
        Ok(())
    }

    fn apply(&mut self, index: u64, entry: &[u8], mirror: &mut MirrorBatch) -> u64 {
        self.0 += 1;
        mirror.put(1, &index.to_be_bytes(), entry.to_vec());
        self.0
    }

    fn view(&self) -> u64 {
        self.0
    }
}

async fn measure(store: &Store<Count>, in_flight: usize, time: Duration) {
    let stop = Arc::new(AtomicBool::new(false));
    let start = Instant::now();
    let tasks: Vec<_> = (0..in_flight)
        .map(|_| {
            let (store, stop) = (store.clone(), stop.clone());
            tokio::spawn(async move {
                let entry = Bytes::from(vec![7; ENTRY_BYTES]);
                let mut times = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let start = Instant::now();
                    store.propose(entry.clone()).await.unwrap();
                    times.push(start.elapsed());
                }
                times
            })
        })
        .collect();
    tokio::time::sleep(time).await;
    stop.store(true, Ordering::Relaxed);
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await.unwrap());
    }
    let elapsed = start.elapsed();
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    println!(
        "{in_flight:>4} in flight: {:>8.0}/s   p50 {:>9.3?}   p99 {:>9.3?}",
        times.len() as f64 / elapsed.as_secs_f64(),
        at(50),
        at(99)
    );
}

#[tokio::main]
async fn main() {
    let mut args = std::env::args().skip(1);
    let dir = args.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let seconds = args.next().map_or(3, |s| s.parse().unwrap());
    let dir = dir.join(format!("propose_rate.{}", std::process::id()));
    let store = Store::open(Config::new(&dir, 1), Count(0), Arc::new(NoTransport)).await.unwrap();
    store.initialize_single("here").await.unwrap();
    println!("{ENTRY_BYTES}-byte entries, each synced, one record mirrored for each, in {}", dir.display());
    for in_flight in [1, 8, 64, 512] {
        measure(&store, in_flight, Duration::from_secs(seconds)).await;
    }
    let status = store.status();
    println!("{status:?}");
    store.shutdown().await;
    drop(store);
    let start = Instant::now();
    let store = Store::open(Config::new(&dir, 1), Count(0), Arc::new(NoTransport)).await.unwrap();
    println!("restart with {} records: {:.3?}", store.view().view, start.elapsed());
    store.shutdown().await;
    drop(store);
    std::fs::remove_dir_all(&dir).unwrap();
}
