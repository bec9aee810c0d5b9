//! The handle of a member: open, propose, read, change members, shut down.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_util::StreamExt;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{
    ClientWriteError, Fatal, ForwardReason, ForwardToLeader, InitializeError, LinearizableReadError, RaftError,
};
use openraft::raft::{ClientWriteResponse, WriteResponse};
use openraft::{BasicNode, ReadPolicy, ServerState};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::apply::{Apply, Published, Publisher};
use crate::config::Config;
use crate::db::Db;
use crate::error::{MemberError, OpenError, ProposeError, ReadError};
use crate::log::{LogStore, Tail};
use crate::machine::{Machine, blocking};
use crate::mirror::MirrorRead;
use crate::network::{Member, Network, Transport};
use crate::snapshot::Stage;
use crate::types::{C, Payload, Raft};

/// How long a linearizable read waits for the state to catch up.
const READ_WAIT: Duration = Duration::from_secs(5);
/// How long a new leader waits before it tries a write again that it could not take yet.
const LEASE_RETRY: Duration = Duration::from_millis(5);
/// How often the log's weight is looked at.
const HOUSEKEEPING: Duration = Duration::from_secs(1);
/// How long a shutdown waits for Raft's tasks to let go of the database.
const CLOSE_WAIT: Duration = Duration::from_secs(10);

/// One member of the cluster: its log, its state and its part in Raft. Clones are the same member.
pub struct Store<A: Apply> {
    inner: Arc<Inner<A>>,
}

impl<A: Apply> Clone for Store<A> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

pub(crate) struct Inner<A: Apply> {
    pub raft: Raft,
    pub config: Config,
    pub stage: Arc<Stage>,
    db: Arc<Db>,
    stop: Arc<AtomicBool>,
    published: Arc<ArcSwap<Published<A::View>>>,
    applied: watch::Receiver<u64>,
    role: watch::Receiver<Role>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

/// Who leads, as this member knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Role {
    /// True if this member leads.
    pub is_leader: bool,
    /// The leader, if one is known.
    pub leader: Option<Member>,
    /// The current term.
    pub term: u64,
}

/// How a member does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// This member's number.
    pub node_id: u64,
    /// Who leads.
    pub role: Role,
    /// The index of the log's last entry; `None` when it never had one.
    pub last_log_index: Option<u64>,
    /// The index of the last applied entry.
    pub applied_index: Option<u64>,
    /// The index that the last snapshot covers.
    pub snapshot_index: Option<u64>,
    /// The index up to which the log was purged.
    pub purged_index: Option<u64>,
    /// All members, by number.
    pub members: Vec<MemberStatus>,
    /// True while writes are refused for lack of room on the disk.
    pub disk_full: bool,
    /// What stopped this member, if something did. It must be restarted.
    pub failed: Option<String>,
}

/// One member in a [`Status`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberStatus {
    /// Who it is.
    pub member: Member,
    /// True if it votes; a learner only follows.
    pub voter: bool,
    /// On the leader: the last entry that is known to be in this member's log.
    pub matched_index: Option<u64>,
}

impl<A: Apply> Store<A> {
    /// Opens the store in `config.dir` (a new one if there is none), loads `app` from its mirror and takes part in Raft.
    /// Alone in its cluster, it leads and has replayed its log when this returns. Needs a tokio runtime.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub async fn open(config: Config, app: A, transport: Arc<dyn Transport>) -> Result<Self, OpenError> {
        let raft_config = Arc::new(config.raft()?);
        let path = config.dir.join("db");
        let damaged = |e: std::io::Error| OpenError::Damaged { path: path.clone(), detail: e.to_string() };
        let stop = Arc::new(AtomicBool::new(false));
        let db = Arc::new(blocking(|| Db::open(&config))?);
        let stage = Stage::new(db.clone());
        let published = Arc::new(ArcSwap::from_pointee(Published { applied_index: 0, view: app.view() }));
        let (applied_sender, applied) = watch::channel(0);
        let app = Publisher { app, published: published.clone(), applied: applied_sender };
        let machine = blocking(|| Machine::open(db.clone(), Box::new(app), stage.clone(), stop.clone()))
            .map_err(OpenError::Load)?;
        let log = LogStore::open(db.clone(), config.cache_mib << 20, stop.clone()).map_err(damaged)?;
        let tail = log.tail();
        let network = Network {
            transport,
            cluster: config.cluster.clone(),
            node_id: config.node_id,
            max_message_bytes: config.max_message_bytes,
        };
        let raft = Raft::new(config.node_id, raft_config, network, log, machine).await.map_err(|e| match e {
            Fatal::StorageError(e) => OpenError::Damaged { path: path.clone(), detail: e.to_string() },
            other => OpenError::Raft(other.to_string()),
        })?;
        let (role_sender, role) = watch::channel(Role::default());
        let tasks = vec![
            tokio::spawn(follow_role(raft.clone(), role_sender)),
            tokio::spawn(keep_house(raft.clone(), Arc::downgrade(&tail), config.keep_log_mib << 20)),
        ];
        drop(tail);
        let tasks = Mutex::new(tasks);
        let inner = Inner { raft, config, stage, db, stop, published, applied, role, tasks };
        let this = Self { inner: Arc::new(inner) };
        this.lead_if_alone().await?;
        Ok(this)
    }

    /// A sole voter need not wait for an election's timeout.
    async fn lead_if_alone(&self) -> Result<(), OpenError> {
        let raft = &self.inner.raft;
        // Asked of Raft's core: the metrics may not be there yet. The last membership may be in the log only.
        let voters = raft.with_raft_state(|state| state.membership_state.effective().voter_ids().collect::<Vec<u64>>());
        let voters = voters.await.map_err(|e| OpenError::Raft(e.to_string()))?;
        if voters != [self.inner.config.node_id] {
            return Ok(());
        }
        let failed = |e: String| OpenError::Raft(format!("the log was not replayed: {e}"));
        raft.trigger().elect(false).await.map_err(|e| failed(e.to_string()))?;
        let replayed = async {
            let wait = raft.wait(Some(self.inner.config.open_wait));
            wait.state(ServerState::Leader, "the only voter leads").await.map_err(|e| failed(e.to_string()))?;
            // The first entry of the new term commits all before it; this waits until it is applied.
            raft.ensure_linearizable(ReadPolicy::ReadIndex).await.map_err(|e| failed(e.to_string()))
        };
        let mut full = self.inner.db.space.watch();
        tokio::select! {
            biased;
            replayed = replayed => drop(replayed?),
            // Nothing can be written, not even a vote: reads can be served from what is there, and the rest follows
            // when there is room.
            _ = full.wait_for(|full| *full) => tracing::warn!("the disk is full: started without leading"),
        }
        Ok(())
    }

    /// True if the store has members, and [`Store::initialize`] must not be called.
    ///
    /// # Errors
    /// The member has failed or is shut down.
    pub async fn is_initialized(&self) -> Result<bool, MemberError> {
        self.inner.raft.is_initialized().await.map_err(|e| MemberError::Stopped(e.to_string()))
    }

    /// Makes this member a cluster of one, reachable for others at `addr`, if the store is pristine. Returns when it
    /// leads.
    ///
    /// # Errors
    /// See [`MemberError`].
    pub async fn initialize_single(&self, addr: &str) -> Result<(), MemberError> {
        if !self.is_initialized().await? {
            self.initialize(&[Member { node_id: self.inner.config.node_id, addr: addr.into() }]).await?;
        }
        let wait = self.inner.raft.wait(Some(self.inner.config.open_wait));
        let leads = wait.state(ServerState::Leader, "the only member leads").await;
        leads.map(drop).map_err(|e| MemberError::Refused(e.to_string()))
    }

    /// Makes a cluster of these members. To be called once, on one of them, while all are pristine.
    ///
    /// # Errors
    /// See [`MemberError`].
    pub async fn initialize(&self, members: &[Member]) -> Result<(), MemberError> {
        let nodes: BTreeMap<u64, BasicNode> =
            members.iter().map(|m| (m.node_id, BasicNode::new(m.addr.clone()))).collect();
        self.inner.raft.initialize(nodes).await.map_err(|e| match e {
            RaftError::APIError(InitializeError::NotAllowed(_)) => MemberError::AlreadyInitialized,
            RaftError::APIError(other) => MemberError::Refused(other.to_string()),
            RaftError::Fatal(fatal) => MemberError::Stopped(fatal.to_string()),
        })
    }

    /// Adds a member that follows without a vote, and waits until it has caught up. Only on the leader.
    ///
    /// # Errors
    /// See [`MemberError`].
    pub async fn add_learner(&self, member: &Member) -> Result<(), MemberError> {
        let node = BasicNode::new(member.addr.clone());
        self.change(|| self.inner.raft.add_learner(member.node_id, node.clone(), true)).await
    }

    /// Makes exactly these members the voters; all must have been added before. One change at a time. Only on the
    /// leader. Former voters leave the cluster.
    ///
    /// # Errors
    /// See [`MemberError`].
    pub async fn change_voters(&self, node_ids: &[u64]) -> Result<(), MemberError> {
        let voters: BTreeSet<u64> = node_ids.iter().copied().collect();
        self.change(|| self.inner.raft.change_membership(voters.clone(), false)).await
    }

    async fn change<F>(&self, step: impl Fn() -> F) -> Result<(), MemberError>
    where
        F: Future<Output = Result<ClientWriteResponse<C>, RaftError<C, ClientWriteError<C>>>>,
    {
        let lease = Lease::new(&self.inner.config);
        loop {
            match step().await {
                Ok(_) => return Ok(()),
                // A change in two steps begins again at the one that was not taken.
                Err(RaftError::APIError(e)) if lease.not_yet(&e).await => {}
                Err(e) => return Err(member_error(e)),
            }
        }
    }

    /// Proposes an entry and waits until a majority has it on disk and it is applied here. Entries that are proposed
    /// at the same time share one sync of the disk.
    ///
    /// Returns the entry's index and the application's answer. An entry whose call is dropped may still be applied.
    ///
    /// # Errors
    /// See [`ProposeError`]; after `Uncertain`, and `DiskFull` with `maybe_applied`, the entry may still be applied.
    pub async fn propose(&self, entry: impl Into<Bytes>) -> Result<(u64, A::Response), ProposeError> {
        let entry = Payload(self.admit(entry.into())?);
        let write = async {
            let lease = Lease::new(&self.inner.config);
            loop {
                match self.inner.raft.client_write(entry.clone()).await {
                    Ok(answer) => return Ok((answer.log_id.index, take(answer.data)?)),
                    Err(RaftError::APIError(e)) if lease.not_yet(&e).await => {}
                    Err(RaftError::APIError(e)) => return Err(write_error(e)),
                    Err(RaftError::Fatal(fatal)) => return Err(fatal_error(&fatal)),
                }
            }
        };
        self.unless_full(write).await
    }

    /// Proposes several entries, in order, with one message to Raft. The answers come in the same order.
    ///
    /// # Errors
    /// As [`Store::propose`], for the entries as a whole; within, for each.
    pub async fn propose_many(
        &self,
        entries: impl IntoIterator<Item = Bytes>,
    ) -> Result<Vec<Result<(u64, A::Response), ProposeError>>, ProposeError> {
        let entries = entries.into_iter().map(|e| self.admit(e).map(Payload)).collect::<Result<Vec<_>, _>>()?;
        let write = async {
            let lease = Lease::new(&self.inner.config);
            loop {
                let answers = self.inner.raft.client_write_many(entries.clone()).await.map_err(|e| fatal_error(&e))?;
                let answers: Vec<_> = answers.collect().await;
                // They are refused together or not at all, before any of them is in the log.
                if let Some(Ok(Err(e))) = answers.first()
                    && lease.not_yet(e).await
                {
                    continue;
                }
                let answer = |answer| match answer {
                    Ok(Ok(WriteResponse { log_id, response, .. })) => Ok((log_id.index, take(response)?)),
                    Ok(Err(e)) => Err(write_error(e)),
                    Err(fatal) => Err(fatal_error(&fatal)),
                };
                return Ok(answers.into_iter().map(answer).collect());
            }
        };
        self.unless_full(write).await
    }

    /// Waits for a write, but not for room on the disk.
    async fn unless_full<T>(&self, write: impl Future<Output = Result<T, ProposeError>>) -> Result<T, ProposeError> {
        let mut full = self.inner.db.space.watch();
        // The write first: an answer that is there counts more than the disk's state.
        tokio::select! {
            biased;
            answer = write => answer,
            _ = full.wait_for(|full| *full) => Err(self.disk_full(true)),
        }
    }

    fn admit(&self, entry: Bytes) -> Result<Bytes, ProposeError> {
        let max = self.inner.config.max_entry_bytes;
        if entry.len() > max {
            return Err(ProposeError::TooLarge { bytes: entry.len(), max });
        }
        if self.inner.db.space.is_full() {
            return Err(self.disk_full(false));
        }
        Ok(entry)
    }

    fn disk_full(&self, maybe_applied: bool) -> ProposeError {
        let (free_mib, needed_mib) = self.inner.db.space.free_and_needed_mib();
        ProposeError::DiskFull { free_mib, needed_mib, maybe_applied }
    }

    /// The newest view that was published here. On a follower, or on a leader that has lost its majority without
    /// knowing, it may be a little old; its index says how old.
    pub fn view(&self) -> Arc<Published<A::View>> {
        self.inner.published.load_full()
    }

    /// A view that contains every entry acknowledged before the call (read index). Only on the leader. Calls at the
    /// same time share one round to the followers.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn linearizable_view(&self) -> Result<Arc<Published<A::View>>, ReadError> {
        let read = self.inner.raft.ensure_linearizable(ReadPolicy::ReadIndex);
        match tokio::time::timeout(READ_WAIT, read).await {
            Ok(Ok(_)) => Ok(self.view()),
            Ok(Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(forward)))) => {
                Err(ReadError::NotLeader { leader: leader_of(&forward) })
            }
            Ok(Err(RaftError::APIError(LinearizableReadError::QuorumNotEnough(_)))) => Err(ReadError::NoQuorum),
            Ok(Err(RaftError::Fatal(Fatal::Stopped))) => Err(ReadError::Shutdown),
            Ok(Err(RaftError::Fatal(fatal))) => Err(ReadError::Storage(fatal.to_string())),
            Err(_) => Err(ReadError::Timeout(u64::try_from(READ_WAIT.as_millis()).unwrap_or(u64::MAX))),
        }
    }

    /// Follows the index of the last applied entry. The view is published before the index.
    pub fn watch_applied(&self) -> watch::Receiver<u64> {
        self.inner.applied.clone()
    }

    /// Follows who leads. The channel closes when this member has failed or is shut down.
    pub fn watch_role(&self) -> watch::Receiver<Role> {
        self.inner.role.clone()
    }

    /// Reads the mirror on disk, for tables that are not kept in memory. It is at most a batch ahead of [`Store::view`].
    pub fn mirror(&self) -> Arc<dyn MirrorRead + Send + Sync> {
        self.inner.db.clone()
    }

    /// How this member does.
    pub fn status(&self) -> Status {
        let metrics = self.inner.raft.metrics();
        let metrics = metrics.borrow_watched();
        let membership = &metrics.membership_config;
        let voters: BTreeSet<u64> = membership.voter_ids().collect();
        let member = |(id, node): (&u64, &BasicNode)| MemberStatus {
            member: Member { node_id: *id, addr: node.addr.clone() },
            voter: voters.contains(id),
            matched_index: metrics.replication.as_ref().and_then(|r| r.get(id)).copied().flatten().map(|id| id.index),
        };
        Status {
            node_id: self.inner.config.node_id,
            role: Role {
                is_leader: metrics.state == ServerState::Leader,
                leader: metrics.current_leader.map(|node_id| Member {
                    node_id,
                    addr: membership.get_node(&node_id).map(|node| node.addr.clone()).unwrap_or_default(),
                }),
                term: metrics.current_term,
            },
            last_log_index: metrics.last_log_index,
            // Raft's own figure is a moment behind.
            applied_index: metrics.last_applied.map(|id| id.index.max(self.view().applied_index)),
            snapshot_index: metrics.snapshot.map(|id| id.index),
            purged_index: metrics.purged.map(|id| id.index),
            members: membership.nodes().map(member).collect(),
            disk_full: self.inner.db.space.is_full(),
            failed: metrics.running_state.as_ref().err().map(ToString::to_string),
        }
    }

    /// Marks a snapshot now and, up to it, purges the log but for `keep` entries. Without it both happen by themselves.
    ///
    /// # Errors
    /// The member has failed or is shut down.
    pub async fn snapshot_and_purge(&self, keep: u64) -> Result<(), MemberError> {
        let stopped = |e: String| MemberError::Stopped(e);
        let raft = &self.inner.raft;
        let target = Some(self.view().applied_index);
        raft.trigger().snapshot().await.map_err(|e| stopped(e.to_string()))?;
        let covered = |m: &openraft::RaftMetrics<C>| m.snapshot.map(|id| id.index) >= target;
        let wait = raft.wait(Some(READ_WAIT)).metrics(covered, "a snapshot is marked").await;
        wait.map_err(|e| stopped(e.to_string()))?;
        let Some(upto) = target.and_then(|index| index.checked_sub(keep)) else { return Ok(()) };
        raft.trigger().purge_log(upto).await.map_err(|e| stopped(e.to_string()))
    }

    /// Asks another voter to lead. Only on the leader.
    ///
    /// # Errors
    /// The member has failed or is shut down.
    pub async fn transfer_leadership(&self, node_id: u64) -> Result<(), MemberError> {
        self.inner.raft.trigger().transfer_leader(node_id).await.map_err(|e| MemberError::Stopped(e.to_string()))
    }

    /// Ends this member's part in Raft and syncs the disk. The database is closed when the last clone of the store and
    /// the last mirror are dropped.
    pub async fn shutdown(&self) {
        self.inner.stop.store(true, Ordering::Relaxed);
        let tasks = std::mem::take(&mut *self.inner.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        for task in tasks {
            task.abort();
            let _ = task.await;
        }
        if let Err(e) = self.inner.raft.shutdown().await {
            tracing::warn!(error = %e, "Raft did not end as it should");
        }
        // Raft's tasks, the writer and a snapshot's reader hold the database a moment longer than Raft itself.
        let ours = 2;
        let closed = async {
            while Arc::strong_count(&self.inner.db) > ours {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        if tokio::time::timeout(CLOSE_WAIT, closed).await.is_err() {
            tracing::warn!("the database is still in use after the shutdown");
        }
        if let Err(e) = blocking(|| self.inner.db.sync()) {
            tracing::warn!(error = %e, "the last writes were not synced; the log has them");
        }
    }

    pub(crate) fn inner(&self) -> &Inner<A> {
        &self.inner
    }
}

/// A leader takes no writes until a majority has answered it once, and again when none did for a while. The first takes
/// some milliseconds, and no client need hear of it.
struct Lease {
    until: Instant,
}

impl Lease {
    fn new(config: &Config) -> Self {
        Self { until: Instant::now() + config.election_max }
    }

    /// True if the write was refused for want of a lease, and may be tried again now.
    async fn not_yet(&self, error: &ClientWriteError<C>) -> bool {
        let ClientWriteError::ForwardToLeader(forward) = error else { return false };
        if forward.reason != ForwardReason::LeaseExpired || Instant::now() >= self.until {
            return false;
        }
        tokio::time::sleep(LEASE_RETRY).await;
        true
    }
}

fn write_error(error: ClientWriteError<C>) -> ProposeError {
    match error {
        ClientWriteError::ForwardToLeader(forward) => ProposeError::NotLeader { leader: leader_of(&forward) },
        ClientWriteError::LogEntryDiscarded(forward) => ProposeError::Uncertain { leader: leader_of(&forward) },
        other => ProposeError::Storage(other.to_string()),
    }
}

/// The application's answer out of Raft's envelope.
fn take<R: 'static>(reply: impl Into<Option<crate::types::Reply>>) -> Result<R, ProposeError> {
    let reply = reply.into().and_then(|reply| reply.0);
    let reply = reply.and_then(|reply| reply.downcast::<R>().ok());
    reply.map(|reply| *reply).ok_or_else(|| ProposeError::Storage("the entry was applied without an answer".into()))
}

fn fatal_error(fatal: &Fatal<C>) -> ProposeError {
    match fatal {
        Fatal::Stopped => ProposeError::Shutdown,
        other => ProposeError::Storage(other.to_string()),
    }
}

fn leader_of(forward: &ForwardToLeader<C>) -> Option<Member> {
    if forward.reason == ForwardReason::LeaseExpired {
        // This very member led, but its majority is silent.
        return None;
    }
    let (node_id, node) = (forward.leader_id?, forward.leader_node.as_ref()?);
    Some(Member { node_id, addr: node.addr.clone() })
}

fn member_error(error: RaftError<C, ClientWriteError<C>>) -> MemberError {
    match error {
        RaftError::APIError(ClientWriteError::ForwardToLeader(f) | ClientWriteError::LogEntryDiscarded(f)) => {
            MemberError::NotLeader { leader: leader_of(&f) }
        }
        RaftError::APIError(other) => MemberError::Refused(other.to_string()),
        RaftError::Fatal(fatal) => MemberError::Stopped(fatal.to_string()),
    }
}

/// Publishes who leads whenever it changes.
async fn follow_role(raft: Raft, role: watch::Sender<Role>) {
    let mut metrics = raft.server_metrics();
    loop {
        let now = {
            // The reference must not live across an await: it blocks Raft's core.
            let m = metrics.borrow_watched();
            Role {
                is_leader: m.state == ServerState::Leader,
                leader: m.current_leader.map(|node_id| Member {
                    node_id,
                    addr: m.membership_config.get_node(&node_id).map(|node| node.addr.clone()).unwrap_or_default(),
                }),
                term: m.vote.leader_id.term,
            }
        };
        role.send_if_modified(|old| {
            let changed = *old != now;
            *old = now;
            changed
        });
        if metrics.changed().await.is_err() {
            return;
        }
    }
}

/// Purges a log that weighs too much before its number of entries would.
async fn keep_house(raft: Raft, tail: std::sync::Weak<Tail>, max_bytes: u64) {
    loop {
        tokio::time::sleep(HOUSEKEEPING).await;
        let Some((bytes, last)) = tail.upgrade().map(|tail| tail.weight()) else { return };
        let (applied, purged) = {
            let metrics = raft.metrics();
            let m = metrics.borrow_watched();
            (m.last_applied.map(|id| id.index), m.purged.map_or(0, |id| id.index))
        };
        let (Some(last), Some(applied)) = (last, applied) else { continue };
        if bytes <= max_bytes {
            continue;
        }
        // Half of it goes, so that the next time is not at once. Only what a snapshot covers is purged.
        let upto = (purged + last.saturating_sub(purged) / 2).min(applied);
        let asked = async {
            raft.trigger().snapshot().await?;
            raft.trigger().purge_log(upto).await
        };
        if asked.await.is_err() {
            return;
        }
    }
}
