//! openraft's own test suite for storage, run against this one.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arc_swap::ArcSwap;
use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};
use tokio::sync::watch;

use crate::apply::{Apply, Published, Publisher};
use crate::config::Config;
use crate::db::Db;
use crate::error::BoxError;
use crate::log::LogStore;
use crate::machine::Machine;
use crate::mirror::{MirrorBatch, MirrorRead};
use crate::snapshot::Stage;
use crate::types::C;

/// Remembers how many entries it has seen.
#[derive(Default)]
struct Count(u64);

impl Apply for Count {
    type Response = u64;
    type View = u64;

    fn load(&mut self, mirror: &dyn MirrorRead) -> Result<(), BoxError> {
        let stored = mirror.get(1, b"count")?;
        self.0 = stored.and_then(|v| v.first_chunk::<8>().copied()).map_or(0, u64::from_be_bytes);
        Ok(())
    }

    fn apply(&mut self, _: u64, _: &[u8], mirror: &mut MirrorBatch) -> u64 {
        self.0 += 1;
        mirror.put(1, b"count", self.0.to_be_bytes().to_vec());
        self.0
    }

    fn view(&self) -> u64 {
        self.0
    }
}

struct Builder {
    cache_bytes: usize,
}

impl StoreBuilder<C, LogStore, Machine, tempfile::TempDir> for Builder {
    async fn build(&self) -> Result<(tempfile::TempDir, LogStore, Machine), StorageError<C>> {
        let dir = tempfile::tempdir().unwrap();
        let config = Config { min_free_mib: 0, ..Config::new(dir.path(), 1) };
        let db = Arc::new(Db::open(&config).unwrap());
        let stop = Arc::new(AtomicBool::new(false));
        let published = Arc::new(ArcSwap::from_pointee(Published { applied_index: 0, view: 0 }));
        let app = Publisher { app: Count::default(), published, applied: watch::Sender::new(0) };
        let stage = Stage::new(db.clone());
        let machine = Machine::open(db.clone(), Box::new(app), stage, stop.clone()).unwrap();
        Ok((dir, LogStore::open(db, self.cache_bytes, stop).unwrap(), machine))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn openraft_suite() {
    Suite::test_all(Builder { cache_bytes: 32 << 20 }).await.unwrap();
}

/// The same with every read from the disk.
#[tokio::test(flavor = "multi_thread")]
async fn openraft_suite_without_cache() {
    Suite::test_all(Builder { cache_bytes: 0 }).await.unwrap();
}
