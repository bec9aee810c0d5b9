//! A process that proposes is killed at random moments; what it printed as acknowledged is there afterwards.
//!
//! Not under the test harness: this program starts itself again as the process to be killed.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test's way to fail, in its helpers too.

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use common::{App, config, records};
use gpun_raft_store::{Config, NoTransport, Store};
use rand::Rng;

const ROUNDS: u32 = 12;
const TASKS: u32 = 32;

/// Small thresholds: snapshots, purges and flushes happen all the time.
fn settings(dir: &Path) -> Config {
    Config {
        snapshot_every_entries: 300,
        keep_entries: 100,
        purge_step_entries: 100,
        write_buffer_mib: 1,
        cache_mib: 0,
        ..config(dir, 1)
    }
}

async fn open(dir: &Path) -> Store<App> {
    let store = Store::open(settings(dir), App::default(), Arc::new(NoTransport)).await.unwrap();
    store.initialize_single("here").await.unwrap();
    store
}

/// Proposes for ever and prints `index key` for each acknowledged entry.
async fn child(dir: &Path, round: &str) {
    let store = open(dir).await;
    println!("ready");
    let mut tasks = Vec::new();
    for task in 0..TASKS {
        let (store, round) = (store.clone(), round.to_string());
        tasks.push(tokio::spawn(async move {
            for n in 0_u64.. {
                let key = format!("{round}.{task}.{n}");
                let (index, _) = store.propose(format!("{key}={}", "v".repeat(200)).into_bytes()).await.unwrap();
                let mut out = std::io::stdout().lock();
                writeln!(out, "{index} {key}").unwrap();
                out.flush().unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
}

/// Runs a child, kills it after `life`, returns the complete lines that it printed.
fn run_and_kill(dir: &Path, round: u32, life: Duration) -> Vec<String> {
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["child", dir.to_str().unwrap(), &round.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(process.stdout.take().unwrap());
    let (sender, lines) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        // A line without its end may be cut: it was not printed.
        for line in out.split(b'\n').map_while(Result::ok) {
            sender.send(String::from_utf8(line).unwrap()).unwrap();
        }
    });
    let first = lines.recv_timeout(Duration::from_secs(30)).expect("the child did not start");
    assert_eq!(first, "ready");
    std::thread::sleep(life);
    process.kill().unwrap();
    process.wait().unwrap();
    reader.join().unwrap();
    let mut seen: Vec<String> = lines.iter().collect();
    // `split` also yields what stood behind the last line end.
    seen.pop();
    seen
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    if let [_, mode, dir, round] = args.as_slice()
        && mode == "child"
    {
        runtime.block_on(child(Path::new(dir), round));
        return;
    }
    if args.iter().any(|arg| arg == "--list") {
        println!("killed_at_random_moments: test");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut acknowledged: BTreeMap<u64, String> = BTreeMap::new();
    for round in 0..ROUNDS {
        let life = Duration::from_millis(rand::rng().random_range(0..400));
        let lines = run_and_kill(dir.path(), round, life);
        for line in &lines {
            let (index, key) = line.split_once(' ').unwrap();
            let old = acknowledged.insert(index.parse().unwrap(), key.into());
            assert_eq!(old, None, "index {index} was given twice");
        }
        let start = Instant::now();
        runtime.block_on(async {
            let store = open(dir.path()).await;
            let view = store.view();
            for (index, key) in &acknowledged {
                assert!(view.view.values.contains_key(key), "entry {index} ({key}) was acknowledged and is lost");
            }
            // One record more than values: what the first entry that is applied brings. It may have been killed before that.
            let (records, values) = (records(&store).len(), view.view.values.len());
            assert!(
                records == values + 1 || (records, values) == (0, 0),
                "the mirror and the state differ: {records} {values}"
            );
            store.shutdown().await;
        });
        println!("round {round}: killed after {life:?} and {} entries; opened in {:?}", lines.len(), start.elapsed());
    }
    assert!(acknowledged.len() > 100, "only {} entries in all", acknowledged.len());
    println!("test killed_at_random_moments ... ok ({} entries)", acknowledged.len());
}
