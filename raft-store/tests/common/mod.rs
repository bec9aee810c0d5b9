//! A small application for the tests: a map of keys to values, and the order in which entries came.

#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "shared by several tests")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpun_raft_store::{Apply, BoxError, Config, MirrorBatch, MirrorRead, NoTransport, OpenError, Store};

/// The table of the values.
pub const VALUES: u8 = 1;
/// The table of the counter.
pub const COUNTER: u8 = 2;

/// `key=value` sets, `-key` deletes; anything else is refused. Counts all entries.
#[derive(Debug, Clone, Default)]
pub struct App {
    pub state: View,
}

/// What the application has in memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct View {
    pub values: Arc<BTreeMap<String, String>>,
    pub count: u64,
}

impl Apply for App {
    type Response = Result<u64, String>;
    type View = View;

    fn load(&mut self, mirror: &dyn MirrorRead) -> Result<(), BoxError> {
        let mut values = BTreeMap::new();
        mirror.scan_all(VALUES, &mut |key, value| {
            values.insert(String::from_utf8_lossy(key).into_owned(), String::from_utf8_lossy(value).into_owned());
            true
        })?;
        let count = mirror.get(COUNTER, b"")?.map_or(Ok([0; 8]), |v| v.as_slice().try_into())?;
        self.state = View { values: Arc::new(values), count: u64::from_be_bytes(count) };
        Ok(())
    }

    fn apply(&mut self, _index: u64, entry: &[u8], mirror: &mut MirrorBatch) -> Self::Response {
        self.state.count += 1;
        mirror.put(COUNTER, b"", self.state.count.to_be_bytes().to_vec());
        let text = std::str::from_utf8(entry).map_err(|e| e.to_string())?;
        if let Some(key) = text.strip_prefix('-') {
            Arc::make_mut(&mut self.state.values).remove(key);
            mirror.delete(VALUES, key.as_bytes());
        } else {
            let (key, value) = text.split_once('=').ok_or("no =")?;
            Arc::make_mut(&mut self.state.values).insert(key.into(), value.into());
            mirror.put(VALUES, key.as_bytes(), value.as_bytes().to_vec());
        }
        Ok(self.state.count)
    }

    fn view(&self) -> View {
        self.state.clone()
    }
}

/// A configuration for a test: a small disk is enough.
pub fn config(dir: &std::path::Path, node_id: u64) -> Config {
    Config { min_free_mib: 0, write_buffer_mib: 8, ..Config::new(dir, node_id) }
}

/// Opens a cluster of one.
pub async fn open_single(dir: &std::path::Path) -> Result<Store<App>, OpenError> {
    let store = Store::open(config(dir, 1), App::default(), Arc::new(NoTransport)).await?;
    store.initialize_single("here").await.unwrap();
    Ok(store)
}

/// Waits until `check` is true; fails after 30 s with `what`.
pub async fn until(what: &str, mut check: impl FnMut() -> bool) {
    let start = Instant::now();
    while !check() {
        assert!(start.elapsed() < Duration::from_secs(30), "not in 30 s: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// All records of the test application's tables, as bytes.
pub fn records(store: &Store<App>) -> Vec<(u8, Vec<u8>, Vec<u8>)> {
    let mut out = Vec::new();
    let mirror = store.mirror();
    for table in [VALUES, COUNTER] {
        mirror
            .scan_all(table, &mut |key, value| {
                out.push((table, key.to_vec(), value.to_vec()));
                true
            })
            .unwrap();
    }
    out
}
