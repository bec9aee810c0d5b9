//! Everything that a job waits for, for people: computed on demand, since it looks at every node.

use std::collections::{BTreeMap, BTreeSet};

use gpun_core::{JobId, NodeId, State, TimeMs, job::Job, partition::Partition};

use crate::{
    Plan, Verdict,
    level::Level,
    request::{Memory, Request},
    reserved::Reserved,
    shape::Shape,
    standing,
    table::{Table, end_if_started},
    view::View,
};

/// What a node lacks for a job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shortage {
    /// Not in contact, or set down.
    Down,
    /// Drained.
    Drained,
    /// Named by the job's exclude list.
    Excluded,
    /// Without a feature that the job wants.
    Feature(String),
    /// Smaller than the job needs, were it empty.
    TooSmall,
    /// Used by others, and the job wants whole nodes.
    Shared,
    /// CPUs are taken.
    Cpus,
    /// Memory is taken.
    Memory,
    /// This generic resource is taken.
    Gres(String),
    /// Free, and kept for a job that stands before it and would start before this one ended.
    Kept,
}

/// Everything that a job waits for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Why {
    /// The verdict of the last plan.
    pub verdict: Verdict,
    /// When that plan was made.
    pub evaluated: TimeMs,
    /// The partition that the rest is about: the first that may run it.
    pub partition: Option<String>,
    /// How many jobs of this partition stand before it.
    pub ahead: u64,
    /// The first ten of those.
    pub ahead_first: Vec<JobId>,
    /// Fewest nodes that it needs.
    pub nodes_needed: u32,
    /// Nodes of the partition.
    pub nodes_total: u32,
    /// Nodes where at least one task of it, or its tasks for a node, would fit now.
    pub nodes_fitting: u32,
    /// On how many of the others what is missing first.
    pub shortages: Vec<(Shortage, u32)>,
}

const AHEAD_FIRST: usize = 10;

/// Says everything that a waiting job waits for; `None` for a job that does not wait.
pub fn why(state: &State, plan: &Plan, id: JobId) -> Option<Why> {
    let job = state.job(id)?;
    let verdict = plan.verdict(state, job)?;
    let mut why = Why { verdict, evaluated: plan.made_at, ..Why::default() };
    let open = state.partitions_of(job).find(|partition| standing::of_partition(job, partition).is_none());
    let Some(partition) = open.or_else(|| state.partitions_of(job).next()) else { return Some(why) };
    why.partition = Some(partition.name.clone());
    why.count_ahead(state, job, partition, plan.made_at);
    why.look_at_nodes(state, plan, job, partition);
    Some(why)
}

impl Why {
    fn count_ahead(&mut self, state: &State, job: &Job, partition: &Partition, now: TimeMs) {
        if !job.is_ready() {
            return;
        }
        let before = state.queue().take_while(|other| other.id != job.id);
        for other in before {
            let waits = other.spec.begin.is_none_or(|begin| begin <= now);
            if waits && state.partitions_of(other).any(|theirs| theirs.name == partition.name) {
                self.ahead += 1;
                if self.ahead_first.len() < AHEAD_FIRST {
                    self.ahead_first.push(other.id);
                }
            }
        }
    }

    fn look_at_nodes(&mut self, state: &State, plan: &Plan, job: &Job, partition: &Partition) {
        let table = Table::new(state);
        let slots = if partition.nodes.is_empty() {
            (0..table.slots.len() as u32).collect()
        } else {
            table.slots_named(state, &partition.nodes)
        };
        let view = View::new(&table, slots);
        let reserved = Reserved::new(state, &table);
        let (closed, within) = reserved.of(state, job, plan.made_at).unwrap_or((0, None));
        let request = Request::new(state, job, partition).reserved(closed, within);
        let shape = Shape::new(state, &table, &view, &reserved, request);
        self.nodes_needed = shape.request.nodes_min;
        self.nodes_total = view.slots.len() as u32;
        let end = end_if_started(job, plan.made_at);
        let before = plan
            .verdicts
            .iter()
            .filter(|(id, verdict)| **id != job.id && verdict.start_estimate.is_some_and(|start| start < end));
        let kept: BTreeSet<NodeId> = before.flat_map(|(_, verdict)| &verdict.planned_nodes).copied().collect();
        let mut counts: BTreeMap<Shortage, u32> = BTreeMap::new();
        for slot in &view.slots {
            let is_kept = kept.contains(&table.slots[*slot as usize].node.id);
            match shortage(&table, &shape, *slot).or(is_kept.then_some(Shortage::Kept)) {
                None => self.nodes_fitting += 1,
                Some(shortage) => *counts.entry(shortage).or_insert(0) += 1,
            }
        }
        self.shortages = counts.into_iter().collect();
        self.shortages.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    }
}

/// What a node lacks first.
fn shortage(table: &Table<'_>, shape: &Shape<'_>, slot: u32) -> Option<Shortage> {
    let at = slot as usize;
    let (node, request) = (table.slots[at].node, &shape.request);
    let inventory = &node.inventory;
    if let Some(feature) = request.features.iter().find(|feature| !inventory.features.contains(feature)) {
        return Some(Shortage::Feature(feature.clone()));
    }
    let has = |set: &Vec<String>| set.iter().all(|feature| inventory.features.contains(feature));
    if !request.feature_sets.is_empty() && !request.feature_sets.iter().any(has) {
        let sets: Vec<String> = request.feature_sets.iter().map(|set| set.join("&")).collect();
        return Some(Shortage::Feature(sets.join("|")));
    }
    if shape.excluded.binary_search(&slot).is_ok() {
        return Some(Shortage::Excluded);
    }
    let whole = Level { cpus: inventory.cpus, jobs: 0, memory: inventory.memory.0 };
    let all_gres: Vec<u32> = inventory.gres.iter().map(|gres| gres.count).collect();
    if !request.admits(node) || request.tasks_on(node, &whole, &all_gres, false) == 0 {
        return Some(Shortage::TooSmall);
    }
    if !table.slots[at].usable {
        return Some(if node.drain.is_some() { Shortage::Drained } else { Shortage::Down });
    }
    let (free, gres) = (table.free.nodes[at], table.free.gres_of(at));
    if request.tasks_on(node, &free, gres, false) > 0 {
        return None;
    }
    if request.exclusive && (free.jobs > 0 || free.cpus < inventory.cpus) {
        return Some(Shortage::Shared);
    }
    let least = request.tasks_least();
    let of_total = request.of_total_least(false);
    let gpus = request.gpus_of(least, &of_total);
    let cpus = request.cpus_for(node, least, gpus);
    if free.cpus < cpus {
        return Some(Shortage::Cpus);
    }
    let memory =
        if request.memory == Memory::Whole { inventory.memory.0 } else { request.memory_for(node, cpus, gpus) };
    if free.memory < memory {
        return Some(Shortage::Memory);
    }
    let mut wanted = request.gres_of(least, &of_total).peekable();
    let first = wanted.peek().copied();
    let missing = wanted.find(|(name, kind, count)| {
        let have = inventory
            .gres
            .iter()
            .zip(gres)
            .filter(|(have, _)| have.name == *name && (kind.is_none() || have.kind.as_deref() == *kind));
        have.map(|(_, count)| *count).sum::<u32>() < *count
    });
    missing.or(first).map(|(name, _, _)| Shortage::Gres(name.to_owned()))
}
