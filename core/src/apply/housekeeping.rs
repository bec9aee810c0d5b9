//! Nodes coming and going, the configuration, and the passing of time.

use super::Applying;
use crate::{
    JobId, NodeId, Outcome, Refusal, Shared, TimeMs,
    job::{EndCause, EndOrder, Hold, JobState, Reason},
    mirror::RequestRecord,
    node::{Inventory, Liveness, Mark, Node},
    partition::Partition,
    settings::Settings,
};

/// Most records that one tick purges of each kind, so that no entry takes long to apply; the rest goes with the next tick.
const PURGE_MAX: usize = 5_000;

/// Time that passes between two entries beyond this counts as a jump of the clock, in milliseconds.
const JUMP_MS: u64 = 600_000;

impl Applying<'_> {
    pub(super) fn register_node(&mut self, name: String, inventory: Inventory) -> Result<NodeId, Refusal> {
        if name.is_empty() || inventory.cpus == 0 {
            return Err(Refusal::Invalid { what: "a node's name or number of CPUs".to_owned() });
        }
        let now = self.now;
        let id = match self.state.node_names.get(&name) {
            Some(id) => *id,
            None => {
                let id = NodeId(self.state.meta.next_node.0 + 1);
                self.state.meta.next_node = id;
                self.state.node_names.insert(name.clone(), id);
                let node = Node {
                    id,
                    name,
                    inventory: Shared::default(),
                    liveness: Liveness::Unknown,
                    down: None,
                    drain: None,
                    since: now,
                    last_busy: None,
                    silent: false,
                    taken: Default::default(),
                    comment: String::new(),
                    extra: String::new(),
                    failing: false,
                    stated: None,
                    available_features: None,
                };
                self.state.nodes.insert(id, Shared::new(node));
                id
            }
        };
        if let Some(node) = self.state.nodes.get_mut(&id) {
            let node = node.make_mut();
            node.register(inventory);
            if node.liveness != Liveness::Up {
                node.since = now;
            }
            node.liveness = Liveness::Up;
            node.silent = false;
            node.down = None;
        }
        self.dirty.nodes.insert(id);
        Ok(id)
    }

    /// Gives a node up: its jobs go back into the queue, or fail where they may not.
    pub(super) fn lose_node(&mut self, id: NodeId, mark: Option<Mark>) -> Result<u32, Refusal> {
        let now = self.now;
        let node = self.state.nodes.get_mut(&id).ok_or(Refusal::UnknownNode)?.make_mut();
        node.silent |= mark.is_none();
        // One that was set down and falls silent too keeps its mark.
        let mark = mark.or_else(|| node.down.take().filter(|_| node.liveness == Liveness::Down));
        node.liveness = Liveness::Down;
        node.since = now;
        let silent = || Mark { reason: "Not responding".to_owned(), uid: 0, since: now };
        node.down = Some(mark.unwrap_or_else(silent));
        let jobs: Vec<JobId> = node.taken.jobs.clone();
        self.dirty.nodes.insert(id);
        for job in &jobs {
            if self.state.runs_script_of(*job) != Some(id) {
                self.lose_part(*job, id);
                continue;
            }
            self.change(*job, |job| match job.end_order.map(|order| order.cause) {
                _ if job.state.is_final() => job.finish(now, job.state, job.reason),
                Some(EndCause::Requeue { hold: true }) => job.requeue(now, Hold::User),
                _ if job.may_requeue() => job.requeue(now, Hold::None),
                _ => job.finish(now, JobState::NodeFail, Reason::NodeFail),
            });
        }
        Ok(jobs.len() as u32)
    }

    /// Sets a node down by hand. One in contact has still to end its jobs, and what they have is free once it says so: else a
    /// job could run twice. One that stays silent is given up by [`crate::Command::NodeLost`], and one that is set down again at
    /// once.
    pub(super) fn set_down(&mut self, id: NodeId, mark: Mark) -> Result<(), Refusal> {
        let now = self.now;
        let node = self.state.nodes.get_mut(&id).ok_or(Refusal::UnknownNode)?;
        if node.liveness != Liveness::Up {
            return self.lose_node(id, Some(mark)).map(|_| ());
        }
        let node = node.make_mut();
        node.liveness = Liveness::Down;
        node.silent = false;
        node.since = now;
        node.down = Some(mark);
        let jobs = node.taken.jobs.clone();
        self.dirty.nodes.insert(id);
        for job in jobs {
            if self.state.runs_script_of(job) == Some(id) {
                self.order_end(job);
            } else {
                self.lose_part(job, id);
            }
        }
        Ok(())
    }

    /// Takes from a job a node that does not run its script: it ends, or goes on with the others if it said so.
    fn lose_part(&mut self, job: JobId, node: NodeId) {
        let goes_on = self.state.job(job).is_some_and(|job| job.spec.no_kill == Some(true));
        if !goes_on {
            return self.order_end(job);
        }
        self.change(job, |job| {
            if let Some(run) = &mut job.run {
                run.allocs.retain(|alloc| alloc.node != node);
            }
        });
    }

    /// Orders a job to end that lost one of its nodes.
    fn order_end(&mut self, id: JobId) {
        let now = self.now;
        // The whole of a heterogeneous job ends with one of its components.
        let id = self.state.job(id).and_then(|job| job.het).map_or(id, |het| het.leader);
        self.change(id, |job| {
            if job.end_order.is_some() {
                return;
            }
            let cause =
                if job.may_requeue() { EndCause::Requeue { hold: false } } else { EndCause::Cancelled { uid: 0 } };
            if !job.may_requeue() {
                job.state = JobState::NodeFail;
                job.reason = Reason::NodeFail;
                job.ended = Some(now);
            }
            job.end_order = Some(EndOrder { cause, since: now });
        });
    }

    pub(super) fn configure(&mut self, settings: Settings, partitions: Vec<Partition>) -> Result<Outcome, Refusal> {
        if settings.first_job_id == 0 || settings.max_job_id <= settings.first_job_id {
            return Err(Refusal::Invalid { what: "the range of job numbers".to_owned() });
        }
        if *self.state.settings != settings {
            self.state.settings = Shared::new(settings);
            self.dirty.settings = true;
        }
        let count = partitions.len() as u32;
        for partition in partitions {
            self.put_partition(partition);
        }
        Ok(Outcome::Done { count })
    }

    pub(super) fn put_partition(&mut self, partition: Partition) {
        if partition.is_default {
            let others: Vec<String> =
                self.state.partitions.keys().filter(|name| **name != partition.name).cloned().collect();
            for name in others {
                if let Some(other) = self.state.partitions.get_mut(&name).filter(|other| other.is_default) {
                    other.make_mut().is_default = false;
                    self.dirty.partitions.insert(name);
                }
            }
        }
        self.dirty.partitions.insert(partition.name.clone());
        self.state.partitions.insert(partition.name.clone(), Shared::new(partition));
    }

    /// Request ids are remembered for a time that passed, not for one that a clock jumped over: else a client that asks again
    /// at that moment would get a second job. A quiet log looks the same; then they are remembered longer, which does no harm.
    pub(super) fn remember_over_a_jump(&mut self, before: TimeMs) {
        let jump_ms = self.now.0.saturating_sub(before.0);
        if jump_ms <= JUMP_MS || self.state.requests.is_empty() {
            return;
        }
        let requests: Vec<_> = self.state.requests.iter().map(|(id, record)| (*id, *record)).collect();
        self.state.request_ends.clear();
        for (id, record) in requests {
            let forget = TimeMs(record.forget.0.saturating_add(jump_ms));
            self.state.requests.insert(id, RequestRecord { forget, ..record });
            self.state.request_ends.insert((forget, id));
            self.dirty.requests.insert(id);
        }
    }

    pub(super) fn tick(&mut self) -> Outcome {
        let age_s = self.state.settings.min_job_age_s;
        let old = self.state.over.iter().take_while(|(ended, _)| ended.plus_s(age_s) <= self.now);
        let old: Vec<JobId> = old.map(|(_, id)| *id).take(PURGE_MAX).collect();
        for id in &old {
            self.remove(*id);
        }
        let due = self.wake_due() + self.end_reservations() + self.end_late();
        let ends = self.state.request_ends.iter().take_while(|(forget, _)| *forget <= self.now);
        let ends: Vec<_> = ends.copied().take(PURGE_MAX).collect();
        for (forget, request) in &ends {
            self.state.requests.remove(request);
            self.state.request_ends.remove(&(*forget, *request));
            self.dirty.requests.insert(*request);
        }
        Outcome::Done { count: (old.len() + ends.len() + due) as u32 }
    }
}
