//! Three members in one process, over a transport that can be cut.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test's way to fail, in its helpers too.

mod common;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{App, config, records, until};
use gpun_raft_store::{
    Bytes, Config, Lane, Member, ProposeError, ReadError, ServeError, SnapshotStream, Store, Transport, TransportError,
    TransportFuture,
};

/// Leads from every member to every other, except where it is cut.
#[derive(Default)]
struct Wires {
    stores: Mutex<BTreeMap<u64, Store<App>>>,
    cut: Mutex<Vec<u64>>,
    snapshots: Mutex<usize>,
    /// Urgent messages that were not delivered, by sender.
    refused: Mutex<BTreeMap<u64, usize>>,
}

/// One member's end of the wires.
struct Wire {
    wires: Arc<Wires>,
    from: u64,
}

impl Wire {
    fn target(&self, peer: &Member) -> Result<Store<App>, TransportError> {
        let cut = self.wires.cut.lock().unwrap();
        if cut.contains(&self.from) || cut.contains(&peer.node_id) {
            return Err(TransportError::Unreachable("the wire is cut".into()));
        }
        let stores = self.wires.stores.lock().unwrap();
        stores.get(&peer.node_id).cloned().ok_or_else(|| TransportError::Unreachable("not there".into()))
    }
}

fn answer(answer: Result<Bytes, ServeError>) -> Result<Bytes, TransportError> {
    answer.map_err(|e| match e {
        ServeError::Stopped(_) => TransportError::Unreachable(e.to_string()),
        _ => TransportError::Failed(e.to_string()),
    })
}

impl Transport for Wire {
    fn call<'a>(&'a self, peer: &'a Member, lane: Lane, request: Bytes, _: Duration) -> TransportFuture<'a> {
        Box::pin(async move {
            let store = self.target(peer).inspect_err(|_| {
                *self.wires.refused.lock().unwrap().entry(self.from).or_default() += usize::from(lane == Lane::Control);
            })?;
            let response = answer(store.serve(request).await);
            // The way back may be cut meanwhile.
            self.target(peer)?;
            response
        })
    }

    fn send_snapshot<'a>(&'a self, peer: &'a Member, mut chunks: SnapshotStream, _: Duration) -> TransportFuture<'a> {
        Box::pin(async move {
            let store = self.target(peer)?;
            *self.wires.snapshots.lock().unwrap() += 1;
            // Chunk by chunk, as a network would.
            let (sender, stream) = SnapshotStream::channel();
            let (_, response) = tokio::join!(
                async {
                    while let Some(chunk) = chunks.next().await {
                        if !sender.send(chunk).await {
                            break;
                        }
                    }
                    drop(sender);
                },
                store.serve_snapshot(stream)
            );
            answer(response)
        })
    }
}

struct Cluster {
    dirs: BTreeMap<u64, tempfile::TempDir>,
    wires: Arc<Wires>,
}

impl Cluster {
    fn config(&self, node_id: u64) -> Config {
        Config {
            heartbeat: Duration::from_millis(100),
            election_min: Duration::from_millis(400),
            election_max: Duration::from_millis(800),
            snapshot_every_entries: 500,
            keep_entries: 200,
            purge_step_entries: 100,
            lag_entries: 1000,
            ..config(self.dirs[&node_id].path(), node_id)
        }
    }

    async fn start(&self, node_id: u64) -> Store<App> {
        let wire = Arc::new(Wire { wires: self.wires.clone(), from: node_id });
        let store = Store::open(self.config(node_id), App::default(), wire).await.unwrap();
        self.wires.stores.lock().unwrap().insert(node_id, store.clone());
        store
    }

    async fn stop(&self, node_id: u64) {
        let store = self.wires.stores.lock().unwrap().remove(&node_id).unwrap();
        store.shutdown().await;
    }

    fn store(&self, node_id: u64) -> Store<App> {
        self.wires.stores.lock().unwrap()[&node_id].clone()
    }

    fn all(&self) -> Vec<Store<App>> {
        self.wires.stores.lock().unwrap().values().cloned().collect()
    }

    fn cut(&self, node_ids: &[u64]) {
        *self.wires.cut.lock().unwrap() = node_ids.to_vec();
    }

    async fn three() -> Self {
        let dirs = (1..=3).map(|id| (id, tempfile::tempdir().unwrap())).collect();
        let cluster = Self { dirs, wires: Arc::default() };
        for id in 1..=3 {
            cluster.start(id).await;
        }
        let members: Vec<Member> = (1..=3).map(|node_id| Member { node_id, addr: format!("m{node_id}") }).collect();
        cluster.store(1).initialize(&members).await.unwrap();
        cluster.leader(&[]).await;
        cluster
    }

    /// The leader that all reachable members agree on, other than `not`.
    async fn leader(&self, not: &[u64]) -> Store<App> {
        let mut leader = None;
        until("a leader", || {
            leader = self.all().into_iter().find(|s| {
                let status = s.status();
                status.role.is_leader && !not.contains(&status.node_id)
            });
            leader.is_some()
        })
        .await;
        leader.unwrap()
    }

    async fn same_everywhere(&self) {
        let stores = self.all();
        let last = stores.iter().map(|s| s.view().applied_index).max();
        until("all have applied the same", || stores.iter().all(|s| Some(s.view().applied_index) >= last)).await;
        let first = records(&stores[0]);
        for store in &stores {
            assert!(records(store) == first, "member {} differs", store.status().node_id);
            assert_eq!(store.view().view, stores[0].view().view);
        }
    }

    async fn end(self) {
        self.cut(&[]);
        let ids: Vec<u64> = self.wires.stores.lock().unwrap().keys().copied().collect();
        for id in ids {
            self.stop(id).await;
        }
    }
}

async fn put(store: &Store<App>, entry: String) -> u64 {
    store.propose(entry.into_bytes()).await.unwrap().0
}

async fn put_many(store: &Store<App>, prefix: &str, count: usize) {
    for from in (0..count).step_by(100) {
        let entries = (from..(from + 100).min(count)).map(|i| Bytes::from(format!("{prefix}{i}={}", "v".repeat(50))));
        for answer in store.propose_many(entries).await.unwrap() {
            answer.unwrap().1.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn entries_reach_every_member() {
    let cluster = Cluster::three().await;
    let leader = cluster.leader(&[]).await;
    put_many(&leader, "k", 300).await;
    let id = leader.status().node_id;
    let follower = cluster.all().into_iter().find(|s| s.status().node_id != id).unwrap();
    until("the follower knows the leader", || follower.status().role.leader.is_some_and(|l| l.node_id == id)).await;
    match follower.propose("x=y".as_bytes().to_vec()).await {
        Err(ProposeError::NotLeader { leader: Some(at) }) => {
            assert_eq!(at, Member { node_id: id, addr: format!("m{id}") })
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(follower.linearizable_view().await, Err(ReadError::NotLeader { leader: Some(_) })));
    assert_eq!(leader.linearizable_view().await.unwrap().view.count, 300);
    until("the leader knows what the others have", || {
        leader.status().members.iter().filter(|m| m.voter && m.matched_index.is_some()).count() >= 2
    })
    .await;
    cluster.same_everywhere().await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn another_leads_when_the_leader_stops() {
    let cluster = Cluster::three().await;
    let old = cluster.leader(&[]).await;
    let old_id = old.status().node_id;
    put_many(&old, "before", 50).await;
    drop(old);
    cluster.stop(old_id).await;
    let stopped = Instant::now();
    let new = cluster.leader(&[old_id]).await;
    put(&new, "after=1".into()).await;
    let took = stopped.elapsed();
    println!("first entry after the leader stopped: {took:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");
    // It comes back as a follower and catches up.
    let back = cluster.start(old_id).await;
    until("the old leader has caught up", || back.view().view.values.contains_key("after")).await;
    cluster.same_everywhere().await;
    drop((new, back));
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_follower_far_behind_gets_a_snapshot() {
    let cluster = Cluster::three().await;
    let leader = cluster.leader(&[]).await;
    let leader_id = leader.status().node_id;
    let behind = if leader_id == 3 { 1 } else { 3 };
    put_many(&leader, "early", 50).await;
    cluster.same_everywhere().await;
    cluster.stop(behind).await;
    put_many(&leader, "late", 3000).await;
    put(&leader, "-early7".into()).await;
    until("the leader has purged what the follower lacks", || leader.status().purged_index > Some(1000)).await;
    let store = cluster.start(behind).await;
    // Entries go on during the transfer.
    put_many(&leader, "during", 300).await;
    until("the follower has everything", || store.view().view.values.len() == 50 + 3000 - 1 + 300).await;
    assert!(*cluster.wires.snapshots.lock().unwrap() > 0, "no snapshot was sent");
    cluster.same_everywhere().await;
    // And after a restart it still has.
    drop(store);
    cluster.stop(behind).await;
    let store = cluster.start(behind).await;
    assert_eq!(store.view().view.values.len(), 3349);
    put(&cluster.leader(&[]).await, "last=1".into()).await;
    until("the last entry", || store.view().view.values.contains_key("last")).await;
    cluster.same_everywhere().await;
    drop((store, leader));
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_leader_without_a_majority_acknowledges_nothing() {
    let cluster = Cluster::three().await;
    let old = cluster.leader(&[]).await;
    let old_id = old.status().node_id;
    put(&old, "a=1".into()).await;
    cluster.same_everywhere().await;
    let term = old.status().role.term;
    cluster.cut(&[old_id]);
    let lost = {
        let old = old.clone();
        tokio::spawn(async move { old.propose("lost=1".as_bytes().to_vec()).await })
    };
    let new = cluster.leader(&[old_id]).await;
    put(&new, "b=2".into()).await;
    assert!(matches!(
        old.linearizable_view().await,
        Err(ReadError::NoQuorum | ReadError::Timeout(_) | ReadError::NotLeader { .. })
    ));
    cluster.cut(&[]);
    let answer = lost.await.unwrap();
    assert!(matches!(answer, Err(ProposeError::Uncertain { .. } | ProposeError::NotLeader { .. })), "{answer:?}");
    until("the old leader follows", || old.view().view.values.contains_key("b")).await;
    assert!(!old.view().view.values.contains_key("lost"));
    cluster.same_everywhere().await;
    assert!(new.status().role.term > term);
    drop((old, new));
    cluster.end().await;
}

/// Without pre-vote the member that was away would come back with a higher term and depose a healthy leader.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_member_that_was_away_does_not_disturb() {
    let cluster = Cluster::three().await;
    let leader = cluster.leader(&[]).await;
    let id = leader.status().node_id;
    let away = if id == 2 { 3 } else { 2 };
    put(&leader, "a=1".into()).await;
    let term = leader.status().role.term;
    cluster.cut(&[away]);
    let away_store = cluster.store(away);
    until("it has asked for votes several times", || cluster.wires.refused.lock().unwrap().get(&away) >= Some(&6))
        .await;
    put(&leader, "b=2".into()).await;
    cluster.cut(&[]);
    until("it is back", || away_store.view().view.values.contains_key("b")).await;
    assert_eq!(leader.status().role.term, term);
    assert!(leader.status().role.is_leader);
    drop((leader, away_store));
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cluster_of_one_becomes_three_and_two() {
    let dirs = (1..=3).map(|id| (id, tempfile::tempdir().unwrap())).collect();
    let cluster = Cluster { dirs, wires: Arc::default() };
    let first = cluster.start(1).await;
    first.initialize_single("m1").await.unwrap();
    put_many(&first, "k", 2000).await;
    for node_id in [2, 3] {
        cluster.start(node_id).await;
        first.add_learner(&Member { node_id, addr: format!("m{node_id}") }).await.unwrap();
    }
    first.change_voters(&[1, 2, 3]).await.unwrap();
    put(&first, "three=1".into()).await;
    cluster.same_everywhere().await;
    assert_eq!(first.status().members.iter().filter(|m| m.voter).count(), 3);
    first.transfer_leadership(2).await.unwrap();
    let second = cluster.store(2);
    until("member 2 leads", || second.status().role.is_leader).await;
    second.change_voters(&[2, 3]).await.unwrap();
    drop(first);
    cluster.stop(1).await;
    put(&second, "two=1".into()).await;
    cluster.same_everywhere().await;
    drop(second);
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn messages_for_others_are_refused() {
    let cluster = Cluster::three().await;
    let store = cluster.store(2);
    for bytes in [vec![], vec![1], vec![1, 16], vec![1, 18], vec![1, 20, 255], vec![9, 16], vec![1, 200]] {
        let refused = store.serve(Bytes::from(bytes)).await;
        assert!(matches!(refused, Err(ServeError::Misdirected(_))), "{refused:?}");
    }
    let (sender, stream) = SnapshotStream::channel();
    drop(sender);
    assert!(store.serve_snapshot(stream).await.is_err());
    drop(store);
    cluster.end().await;
}
