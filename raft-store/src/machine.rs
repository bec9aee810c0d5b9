//! openraft's state machine: entries go to the application, its changes and the applied index to the mirror.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::{Stream, StreamExt};
use openraft::storage::{ApplyResponder, EntryResponder, RaftSnapshotBuilder, RaftStateMachine};
use openraft::{EntryPayload, OptionalSend};
use rocksdb::WriteBatch;

use crate::apply::ErasedApply;
use crate::codec::{self, Kind};
use crate::db::{APPLIED, Db, MEMBERSHIP, RETRY, SNAPSHOT};
use crate::mirror::MirrorBatch;
use crate::snapshot::{SnapshotData, Stage, pin};
use crate::types::{C, LogId, Reply, SnapshotMeta, StoredMembership};

/// Batches of at least so many entries move their thread out of the runtime's way.
const LARGE_BATCH: usize = 64;

/// The state machine of one member.
pub(crate) struct Machine {
    db: Arc<Db>,
    app: Box<dyn ErasedApply>,
    stage: Arc<Stage>,
    stop: Arc<AtomicBool>,
    applied: Option<LogId>,
    membership: StoredMembership,
    changes: MirrorBatch,
}

type Item = EntryResponder<C>;
type Answers = Vec<(ApplyResponder<C>, Reply)>;
type Snapshot = openraft::alias::SmSnapshotOf<C, Machine>;

impl Machine {
    /// Loads the application from the mirror.
    pub(crate) fn open(
        db: Arc<Db>,
        mut app: Box<dyn ErasedApply>,
        stage: Arc<Stage>,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, crate::error::BoxError> {
        let (applied, membership) = db.applied()?;
        app.load(&*db)?;
        app.publish(applied.map_or(0, |id| id.index));
        Ok(Self { db, app, stage, stop, applied, membership, changes: MirrorBatch::new() })
    }

    /// Applies entries to the application; returns the mirror's write and the answers that may go out after it.
    fn apply_all(&mut self, items: Vec<Item>) -> io::Result<(WriteBatch, Answers)> {
        let mut batch = WriteBatch::default();
        let mut answers = Answers::new();
        let mut membership_changed = false;
        for (entry, responder) in items {
            self.applied = Some(entry.log_id);
            let reply = match entry.payload {
                EntryPayload::Blank => Reply(None),
                EntryPayload::Normal(payload) => {
                    Reply(Some(self.app.apply(entry.log_id.index, &payload.0, &mut self.changes)))
                }
                EntryPayload::Membership(membership) => {
                    self.membership = StoredMembership::new(Some(entry.log_id), membership);
                    membership_changed = true;
                    Reply(None)
                }
            };
            if let Some(responder) = responder {
                answers.push((responder, reply));
            }
        }
        let state = self.db.state()?;
        self.db.add_changes(&mut batch, &self.changes)?;
        self.changes.clear();
        if let Some(applied) = &self.applied {
            batch.put_cf(state, APPLIED, codec::encode(Kind::LogId, &codec::LogId::from(applied)));
        }
        if membership_changed {
            let membership = codec::Membership::from(&self.membership);
            batch.put_cf(state, MEMBERSHIP, codec::encode(Kind::Membership, &membership));
        }
        Ok((batch, answers))
    }

    /// Writes the mirror; on a full disk it waits, without holding a thread of the runtime.
    async fn write(&self, mut batch: WriteBatch, large: bool) -> io::Result<()> {
        let again = batch.data().to_vec();
        loop {
            // Not synced: the log, which is, replays whatever of this a power cut takes.
            let written =
                if large { blocking(|| self.db.write_once(batch, false)) } else { self.db.write_once(batch, false) };
            match written {
                Err(e) if e.kind() == io::ErrorKind::StorageFull && !self.stop.load(Ordering::Relaxed) => {
                    self.db.space.set_stuck(true);
                    tokio::time::sleep(RETRY).await;
                    batch = WriteBatch::from_data(&again);
                }
                Err(e) => return Err(e),
                Ok(()) => {
                    self.db.space.set_stuck(false);
                    return Ok(());
                }
            }
        }
    }
}

/// Runs a closure that may take long, without holding up the runtime's other tasks.
pub(crate) fn blocking<R>(run: impl FnOnce() -> R) -> R {
    match tokio::runtime::Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(tokio::runtime::RuntimeFlavor::MultiThread) => tokio::task::block_in_place(run),
        _ => run(),
    }
}

impl RaftStateMachine<C> for Machine {
    type SnapshotData = SnapshotData;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        Ok((self.applied, self.membership.clone()))
    }

    async fn apply<Strm>(&mut self, mut entries: Strm) -> io::Result<()>
    where
        Strm: Stream<Item = io::Result<Item>> + Unpin + OptionalSend,
    {
        let mut items = Vec::new();
        while let Some(item) = entries.next().await {
            items.push(item?);
        }
        if items.is_empty() {
            return Ok(());
        }
        let large = items.len() >= LARGE_BATCH;
        let (batch, answers) = if large { blocking(|| self.apply_all(items)) } else { self.apply_all(items) }?;
        self.write(batch, large).await?;
        // The mirror, then the view, then the answers: whoever has an answer finds the entry in both.
        self.app.publish(self.applied.map_or(0, |id| id.index));
        for (responder, reply) in answers {
            responder.send(reply);
        }
        Ok(())
    }

    async fn try_create_snapshot_builder(&mut self, force: bool) -> Option<Builder> {
        if self.db.space.is_full() && !force {
            return None;
        }
        Some(self.get_snapshot_builder().await)
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        Builder { db: self.db.clone(), stop: self.stop.clone() }
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, snapshot: SnapshotData) -> io::Result<()> {
        let staged = match snapshot {
            SnapshotData::Staged(staged) => staged,
            SnapshotData::Stream(stream) => self.stage.clone().receive(stream).await?,
        };
        blocking(|| {
            staged.install(meta, &|| !self.stop.load(Ordering::Relaxed))?;
            self.applied = meta.last_log_id;
            self.membership = meta.last_membership.clone();
            self.changes.clear();
            self.app.load(&*self.db).map_err(io::Error::other)?;
            self.app.publish(self.applied.map_or(0, |id| id.index));
            Ok(())
        })
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        let built: Option<codec::LogId> = self.db.record(self.db.state()?, SNAPSHOT, Kind::LogId)?;
        if built.is_none() {
            return Ok(None);
        }
        // What is sent is the mirror of this moment: at least as new as the snapshot that was marked.
        let (meta, stream) = pin(self.db.clone()).await?;
        Ok(Some(Snapshot { meta, snapshot: SnapshotData::Stream(stream) }))
    }
}

/// Builds a snapshot. The mirror on disk *is* the state at its applied index, so building one is to sync what was
/// written and to remember that it was done; entries are applied meanwhile.
pub(crate) struct Builder {
    db: Arc<Db>,
    stop: Arc<AtomicBool>,
}

impl RaftSnapshotBuilder<C> for Builder {
    type SnapshotData = SnapshotData;

    async fn build_snapshot(&mut self) -> io::Result<Snapshot> {
        let (meta, stream) = pin(self.db.clone()).await?;
        let (db, stop) = (self.db.clone(), self.stop.clone());
        let last = meta.last_log_id;
        blocking(move || {
            let mut batch = WriteBatch::default();
            if let Some(last) = last {
                batch.put_cf(db.state()?, SNAPSHOT, codec::encode(Kind::LogId, &codec::LogId::from(&last)));
            }
            // Synced, and with it every change of the mirror before it: after this openraft may purge the log.
            db.write(batch, true, &|| !stop.load(Ordering::Relaxed))
        })?;
        Ok(Snapshot { meta, snapshot: SnapshotData::Stream(stream) })
    }
}
