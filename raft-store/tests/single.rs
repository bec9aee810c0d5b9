//! One member: propose, read, restart, snapshot, purge.

mod common;

use std::ops::Bound;
use std::sync::Arc;

use common::{App, VALUES, config, open_single, records, until};
use gpun_raft_store::{Bytes, NoTransport, OpenError, ProposeError, Store};

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_is_there_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_single(dir.path()).await.unwrap();
    let (first, answer) = store.propose("a=1".as_bytes().to_vec()).await.unwrap();
    assert_eq!(answer, Ok(1));
    let (second, answer) = store.propose("b=2".as_bytes().to_vec()).await.unwrap();
    assert_eq!((second, answer), (first + 1, Ok(2)));
    assert_eq!(store.propose("nonsense".as_bytes().to_vec()).await.unwrap().1, Err("no =".into()));
    store.propose("-a".as_bytes().to_vec()).await.unwrap().1.unwrap();
    let view = store.linearizable_view().await.unwrap();
    assert_eq!(view.view.values.iter().collect::<Vec<_>>(), [(&"b".to_string(), &"2".to_string())]);
    assert_eq!(view.applied_index, second + 2);
    assert_eq!(*store.watch_applied().borrow(), second + 2);
    let before = records(&store);
    store.shutdown().await;
    assert_eq!(store.propose("c=3".as_bytes().to_vec()).await, Err(ProposeError::Shutdown));
    drop(store);

    let store = open_single(dir.path()).await.unwrap();
    assert_eq!(store.view().view, view.view);
    assert_eq!(records(&store), before);
    let status = store.status();
    assert!(status.role.is_leader && status.failed.is_none() && !status.disk_full, "{status:?}");
    assert_eq!(status.members.len(), 1);
    store.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_proposals_at_once_keep_their_order_and_their_answers() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_single(dir.path()).await.unwrap();
    let answers = store.propose_many((0..1000).map(|i| Bytes::from(format!("k{i}=v")))).await.unwrap();
    let counts: Vec<u64> = answers.into_iter().map(|a| a.unwrap().1.unwrap()).collect();
    assert_eq!(counts, (1..=1000).collect::<Vec<_>>());
    let mut tasks = Vec::new();
    for i in 0..500 {
        let store = store.clone();
        tasks.push(tokio::spawn(async move { store.propose(format!("t{i}={i}").into_bytes()).await.unwrap() }));
    }
    let mut seen = std::collections::BTreeSet::new();
    for task in tasks {
        assert!(seen.insert(task.await.unwrap().0), "two entries with one index");
    }
    assert_eq!(store.view().view.values.len(), 1500);
    store.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_purged_behind_a_snapshot_and_the_state_stays() {
    let dir = tempfile::tempdir().unwrap();
    let small = || gpun_raft_store::Config {
        snapshot_every_entries: 200,
        keep_entries: 100,
        purge_step_entries: 50,
        ..config(dir.path(), 1)
    };
    let store = Store::open(small(), App::default(), Arc::new(NoTransport)).await.unwrap();
    store.initialize_single("here").await.unwrap();
    for i in 0..20 {
        let answers = store.propose_many((0..100).map(|j| Bytes::from(format!("k{i}.{j}=v")))).await.unwrap();
        assert!(answers.iter().all(Result::is_ok));
    }
    until("the log is purged", || store.status().purged_index > Some(1000)).await;
    let status = store.status();
    assert!(status.snapshot_index >= status.purged_index, "{status:?}");
    let before = records(&store);
    assert_eq!(before.len(), 2001);
    store.shutdown().await;
    drop(store);
    let store = Store::open(small(), App::default(), Arc::new(NoTransport)).await.unwrap();
    assert_eq!(records(&store), before);
    assert_eq!(store.view().view.count, 2000);
    store.propose("x=y".as_bytes().to_vec()).await.unwrap().1.unwrap();
    store.snapshot_and_purge(0).await.unwrap();
    let last = store.status().applied_index;
    until("the whole log is purged", || store.status().purged_index == last).await;
    store.shutdown().await;
    drop(store);
    let store = Store::open(small(), App::default(), Arc::new(NoTransport)).await.unwrap();
    assert_eq!(store.view().view.count, 2001);
    store.propose("after=purge".as_bytes().to_vec()).await.unwrap().1.unwrap();
    store.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_mirror_is_read_by_ranges() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_single(dir.path()).await.unwrap();
    store.propose_many(["a", "b", "c", "d"].map(|k| Bytes::from(format!("{k}=v")))).await.unwrap();
    let mirror = store.mirror();
    let read = |from: Bound<&[u8]>, to: Bound<&[u8]>, back: bool| {
        let mut keys = String::new();
        let mut each = |key: &[u8], _: &[u8]| {
            keys.push_str(&String::from_utf8_lossy(key));
            keys.len() < 3
        };
        if back { mirror.scan_back(VALUES, from, to, &mut each) } else { mirror.scan(VALUES, from, to, &mut each) }
            .unwrap();
        keys
    };
    use Bound::{Excluded, Included, Unbounded};
    assert_eq!(read(Unbounded, Unbounded, false), "abc");
    assert_eq!(read(Unbounded, Unbounded, true), "dcb");
    assert_eq!(read(Included(b"b"), Excluded(b"d"), false), "bc");
    assert_eq!(read(Excluded(b"b"), Included(b"d"), true), "dc");
    assert_eq!(read(Included(b"x"), Unbounded, false), "");
    drop(mirror);
    store.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_knows_whose_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_single(dir.path()).await.unwrap();
    assert!(matches!(open_single(dir.path()).await.err(), Some(OpenError::InUse { .. })));
    assert!(store.is_initialized().await.unwrap());
    assert!(store.initialize(&[]).await.is_err());
    store.shutdown().await;
    drop(store);
    let other = Store::open(config(dir.path(), 2), App::default(), Arc::new(NoTransport)).await.err();
    assert!(matches!(other, Some(OpenError::Identity { .. })), "{other:?}");
    let mut cluster = config(dir.path(), 1);
    cluster.cluster = "another".into();
    let other = Store::open(cluster, App::default(), Arc::new(NoTransport)).await.err();
    assert!(matches!(other, Some(OpenError::Identity { .. })), "{other:?}");
    std::fs::remove_file(dir.path().join("db/CURRENT")).unwrap();
    let error = open_single(dir.path()).await.err();
    assert!(matches!(&error, Some(OpenError::Damaged { detail, .. }) if detail.contains("CURRENT")), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_is_too_large_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_single(dir.path()).await.unwrap();
    let refused = store.propose(vec![b'x'; 3 << 20]).await;
    assert!(matches!(refused, Err(ProposeError::TooLarge { .. })));
    store.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_heavy_log_is_purged_before_its_number_of_entries_would() {
    let dir = tempfile::tempdir().unwrap();
    let heavy = gpun_raft_store::Config { keep_log_mib: 1, ..config(dir.path(), 1) };
    let store = Store::open(heavy, App::default(), Arc::new(NoTransport)).await.unwrap();
    store.initialize_single("here").await.unwrap();
    for i in 0..40 {
        store.propose(format!("k{i}={}", "v".repeat(100_000)).into_bytes()).await.unwrap().1.unwrap();
    }
    until("half of the log is purged", || store.status().purged_index >= Some(20)).await;
    assert_eq!(store.view().view.values.len(), 40);
    store.shutdown().await;
}
