//! The controller: the real state and planner, and the leader's duties around them as `gpunctld` does them.

use std::collections::{BTreeMap, BTreeSet};

use gpun_core::{
    Command, Entry, NodeId, Outcome, State, TimeMs,
    command::ENTRY_VERSION,
    desired::{Desired, desired},
    history::{AttemptEnd, Record},
    job::Job,
    mirror::{MirrorSink, Table, decode, encode},
};
use gpund::agent::Key;

use crate::{
    Break, START,
    message::{Launch, Ms, Session},
};

/// A mirror in memory.
#[derive(Debug, Clone, Default)]
pub struct Mirror {
    records: BTreeMap<(u8, Vec<u8>), (Table, Vec<u8>)>,
    /// Records of jobs go astray.
    misses: bool,
}

impl MirrorSink for Mirror {
    fn put(&mut self, table: Table, key: &[u8], value: Vec<u8>) {
        if !(self.misses && table == Table::Job) {
            self.records.insert((table as u8, key.to_vec()), (table, value));
        }
    }

    fn delete(&mut self, table: Table, key: &[u8]) {
        self.records.remove(&(table as u8, key.to_vec()));
    }
}

impl Mirror {
    /// The state that a restart reads.
    ///
    /// # Errors
    /// A record that can't be read.
    pub fn load(&self) -> Result<State, String> {
        let mut state = State::default();
        let loaded = self.records.iter().filter(|(_, (table, _))| Table::LOADED.contains(table));
        for ((_, key), (table, value)) in loaded {
            state.load_record(*table, key, value).map_err(|error| error.to_string())?;
        }
        state.index();
        Ok(state)
    }

    /// Jobs that have ended.
    ///
    /// # Errors
    /// A record that can't be read.
    pub fn history(&self) -> Result<Vec<Job>, String> {
        let values = self.records.values().filter(|(table, _)| *table == Table::Record);
        let records = values.map(|(_, value)| decode::<Record>(value).map_err(|error| error.to_string()));
        let ended = |record: Record| (record.end == AttemptEnd::WithJob).then(|| (*record.view.job).clone());
        records.filter_map(|record| record.map(ended).transpose()).collect()
    }
}

/// A node's stream, as the controller sees it.
#[derive(Debug)]
pub struct Attached {
    /// Which of the simulated nodes.
    pub at: usize,
    /// The stream.
    pub session: Session,
    /// When it was last heard.
    pub heard: Ms,
    sent: Option<Desired>,
    carried: BTreeSet<Key>,
}

/// The controller and what it keeps.
#[derive(Debug, Default)]
pub struct Controller {
    /// The state.
    pub state: State,
    /// A second replica, fed the same encoded entries.
    pub replica: State,
    /// The mirror on disk.
    pub mirror: Mirror,
    /// Runs now.
    pub up: bool,
    /// How often it was started.
    pub life: u64,
    /// When it was started.
    pub started: Ms,
    /// Nodes' streams.
    pub attached: BTreeMap<NodeId, Attached>,
    /// A plan is made or proposed.
    pub planning: bool,
    /// Something changed since the last plan began.
    pub plan_wanted: bool,
    /// How far the wall clock is off, in milliseconds.
    pub clock_off: i64,
    last_heard: BTreeMap<NodeId, Ms>,
    broken: Option<Break>,
}

impl Controller {
    /// A controller that has not been started yet.
    pub fn new(broken: Option<Break>) -> Self {
        Self { broken, ..Self::default() }
    }

    /// What its clock says.
    pub fn wall(&self, now: Ms) -> TimeMs {
        TimeMs((START.0 + now).saturating_add_signed(self.clock_off))
    }

    /// The second replica starts again from the mirror.
    ///
    /// # Errors
    /// The mirror can't be read or does not hold the state.
    pub fn restart_replica(&mut self) -> Result<(), String> {
        self.replica = self.mirror.load()?;
        if self.replica == self.state { Ok(()) } else { Err("the mirror does not hold the state".to_owned()) }
    }

    /// Applies one entry to both replicas and the mirror.
    ///
    /// # Errors
    /// An entry that does not survive the way through bytes, or outcomes that differ.
    pub fn apply(&mut self, stamp: TimeMs, command: Command) -> Result<Outcome, String> {
        let bytes = encode(&Entry { version: ENTRY_VERSION, stamp, commands: vec![command] });
        let read = || decode::<Entry>(&bytes).map_err(|error| format!("an entry can't be read: {error}"));
        self.mirror.misses = self.broken == Some(Break::LosesRecords) && stamp.0.is_multiple_of(16);
        let outcomes = self.state.apply(read()?, &mut self.mirror);
        let mut again = read()?;
        if self.broken == Some(Break::ReplicaClock) {
            again.stamp.0 += 1;
        }
        let other = self.replica.apply(again, &mut Mirror::default());
        if outcomes != other {
            return Err(format!("replicas answer differently: {outcomes:?} and {other:?}"));
        }
        outcomes.into_iter().next().ok_or_else(|| "no outcome".to_owned())
    }

    /// What is only in memory is gone.
    pub fn die(&mut self) {
        self.up = false;
        self.life += 1;
        self.attached.clear();
        self.last_heard.clear();
        self.planning = false;
    }

    /// Starts from the mirror.
    ///
    /// # Errors
    /// The mirror can't be read or does not hold the state.
    pub fn start(&mut self, now: Ms) -> Result<(), String> {
        let loaded = self.mirror.load()?;
        if loaded != self.state {
            return Err("the mirror does not hold the state".to_owned());
        }
        self.state = loaded;
        self.up = true;
        self.started = now;
        self.plan_wanted = true;
        Ok(())
    }

    /// A node's stream is open.
    pub fn attach(&mut self, node: NodeId, at: usize, session: Session, now: Ms) {
        if self.attached.get(&node).is_some_and(|have| have.session > session) {
            return;
        }
        self.attached.insert(node, Attached { at, session, heard: now, sent: None, carried: BTreeSet::new() });
        self.last_heard.insert(node, now);
    }

    /// The node of a stream, if that is its present one; it was heard now.
    pub fn heard(&mut self, at: usize, session: Session, now: Ms) -> Option<NodeId> {
        let (node, attached) = self.attached.iter_mut().find(|(_, have)| have.at == at && have.session == session)?;
        attached.heard = now;
        self.last_heard.insert(*node, now);
        Some(*node)
    }

    /// Nodes that were silent for so long.
    pub fn silent(&self, now: Ms, limit: Ms) -> Vec<NodeId> {
        let since = |id| self.last_heard.get(&id).copied().unwrap_or(self.started);
        self.state.nodes_to_hear().map(|node| node.id).filter(|id| now.saturating_sub(since(*id)) >= limit).collect()
    }

    /// Nodes that speak though they count as down.
    pub fn back(&self, now: Ms, limit: Ms) -> Vec<Command> {
        let speaks = |id: &NodeId| self.attached.get(id).is_some_and(|have| now.saturating_sub(have.heard) < limit);
        let back = self.state.nodes().filter(|node| node.wants_back() && speaks(&node.id));
        back.map(|node| Command::RegisterNode { name: node.name.clone(), inventory: (*node.inventory).clone() })
            .collect()
    }

    /// The document for a node, with the launches that its stream has not carried, if it is not what was sent last.
    pub fn dispatch(&mut self, node: NodeId) -> Option<(usize, Session, Desired, Vec<Launch>)> {
        let attached = self.attached.get_mut(&node)?;
        let document = desired(&self.state, node);
        let same = |sent: &Desired| sent.jobs == document.jobs && sent.kill_wait_s == document.kill_wait_s;
        if attached.sent.as_ref().is_some_and(same) {
            return None;
        }
        let mut launches = Vec::new();
        for wanted in &document.jobs {
            let key = Key { job: wanted.job, attempt: wanted.attempt };
            let Some(job) = self.state.job(wanted.job) else { continue };
            let Some(run) = &job.run else { continue };
            if run.launched.is_some() || wanted.end.is_some() || attached.carried.contains(&key) {
                continue;
            }
            let Some(alloc) = run.allocs.first() else { continue };
            let origin = job.array_id().unwrap_or(job.id);
            launches.push(Launch { key, cpus: alloc.cpus.clone(), task: job.array_task().unwrap_or(0), origin });
            attached.carried.insert(key);
        }
        attached.sent = Some(document.clone());
        Some((attached.at, attached.session, document, launches))
    }
}
