//! How long a durable proposal takes: 300-byte entries, each acknowledged after its fsync, with so many waiting at a time.

#![allow(missing_docs, reason = "criterion's macros make functions without any")]
#![allow(clippy::expect_used, reason = "a measurement stops at the first error")]

use std::{sync::Arc, time::Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use gpun_raft_store::{Apply, BoxError, Bytes, Config, MirrorBatch, MirrorRead, NoTransport, Store};
use tokio::runtime::Runtime;

const ENTRY_BYTES: usize = 300;

/// Counts entries, and mirrors the last one.
struct Count(u64);

impl Apply for Count {
    type Response = u64;
    type View = u64;

    fn load(&mut self, mirror: &dyn MirrorRead) -> Result<(), BoxError> {
        self.0 = mirror.get(1, b"count")?.map_or(0, |_| 1);
        Ok(())
    }

    fn apply(&mut self, _: u64, entry: &[u8], mirror: &mut MirrorBatch) -> u64 {
        self.0 += 1;
        mirror.put(1, b"count", entry.to_vec());
        self.0
    }

    fn view(&self) -> u64 {
        self.0
    }
}

/// Proposes `total` entries from `waiting` tasks.
async fn propose(store: &Store<Count>, waiting: u64, total: u64) {
    let tasks: Vec<_> = (0..waiting)
        .map(|task| {
            let store = store.clone();
            let share = total / waiting + u64::from(task < total % waiting);
            tokio::spawn(async move {
                let entry = Bytes::from(vec![7; ENTRY_BYTES]);
                for _ in 0..share {
                    store.propose(entry.clone()).await.expect("the store takes it");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("the task ends");
    }
}

fn append(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let dir = tempfile::tempdir().expect("a folder");
    let store = runtime.block_on(async {
        let store = Store::open(Config::new(dir.path(), 1), Count(0), Arc::new(NoTransport)).await.expect("opens");
        store.initialize_single("here").await.expect("a single member");
        store.propose(vec![0; ENTRY_BYTES]).await.expect("it leads");
        store
    });
    let mut group = criterion.benchmark_group("append");
    group.sample_size(10).throughput(Throughput::Elements(1));
    for waiting in [1, 8, 64, 512] {
        group.bench_function(format!("{waiting} waiting"), |bencher| {
            bencher.iter_custom(|total| {
                let start = Instant::now();
                runtime.block_on(propose(&store, waiting, total));
                start.elapsed()
            });
        });
    }
    group.finish();
    runtime.block_on(store.shutdown());
}

criterion_group!(benches, append);
criterion_main!(benches);
