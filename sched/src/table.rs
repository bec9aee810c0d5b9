//! The nodes in the order in which they are used, and what is free on them.

use std::collections::BTreeMap;

use gpun_core::{
    IndexSet, JobId, MemoryMib, NodeId, State, TimeMs,
    job::{GresAlloc, Job, NodeAlloc},
    node::Node,
};

use crate::{
    level::{Level, Levels, Share},
    natural,
    request::Request,
    shape::Shape,
    timeline::Release,
};

/// A node of the plan.
#[derive(Debug, Clone)]
pub(crate) struct Slot<'a> {
    pub node: &'a Node,
    /// Takes jobs now.
    pub usable: bool,
    /// The place among all nodes by name.
    pub rank: u32,
}

/// Numbers taken on one node by this plan too.
#[derive(Debug, Clone)]
struct Picked<'a> {
    cpus: IndexSet,
    gres: BTreeMap<&'a str, IndexSet>,
}

/// All nodes: lighter ones first, then by name.
#[derive(Clone)]
pub(crate) struct Table<'a> {
    pub slots: Vec<Slot<'a>>,
    /// Free now.
    pub free: Levels,
    /// Free for jobs that outlast the start of a reservation: no more than what is free now and what the reservations leave.
    pub later: Option<Levels>,
    /// What is kept for reservations.
    pub reserved: Vec<(u32, Share)>,
    /// What this plan started and kept room for, since `releases` were last put in order.
    pub new_releases: Vec<Release>,
    /// What reservations leave on their nodes while they last.
    spare: BTreeMap<u32, Levels>,
    by_id: Vec<u32>,
    picked: BTreeMap<u32, Picked<'a>>,
}

const NOWHERE: u32 = u32::MAX;

impl<'a> Table<'a> {
    pub fn new(state: &'a State) -> Self {
        Self::of(state, Node::takes_jobs, level_of)
    }

    /// The same nodes as if all were in service and no job ran.
    pub fn all_in_service(state: &'a State) -> Self {
        let whole =
            |slot: &Slot<'_>| Level { cpus: slot.node.inventory.cpus, jobs: 0, memory: slot.node.inventory.memory.0 };
        let mut table = Self::of(state, |_| true, whole);
        table.free.gres =
            table.slots.iter().flat_map(|slot| slot.node.inventory.gres.iter().map(|gres| gres.count)).collect();
        table
    }

    fn of(state: &'a State, usable: fn(&Node) -> bool, level: impl Fn(&Slot<'_>) -> Level) -> Self {
        let mut nodes: Vec<&Node> = state.nodes().map(|node| &**node).collect();
        nodes.sort_by(|a, b| natural::compare(&a.name, &b.name));
        let mut slots: Vec<Slot<'_>> = nodes
            .into_iter()
            .enumerate()
            .map(|(rank, node)| Slot { node, usable: usable(node), rank: rank as u32 })
            .collect();
        slots.sort_by_key(|slot| slot.node.inventory.weight);
        let highest = slots.iter().map(|slot| slot.node.id.0).max().unwrap_or(0);
        let mut by_id = vec![NOWHERE; highest as usize + 1];
        let mut free = Levels { gres_at: vec![0], ..Levels::default() };
        for (at, slot) in slots.iter().enumerate() {
            by_id[slot.node.id.0 as usize] = at as u32;
            free.nodes.push(level(slot));
            free.gres.extend(gres_free(slot.node));
            free.gres_at.push(free.gres.len() as u32);
        }
        Self {
            slots,
            free,
            later: None,
            reserved: Vec::new(),
            new_releases: Vec::new(),
            spare: BTreeMap::new(),
            by_id,
            picked: BTreeMap::new(),
        }
    }

    pub fn slot_of(&self, node: NodeId) -> Option<u32> {
        self.by_id.get(node.0 as usize).copied().filter(|slot| *slot != NOWHERE)
    }

    /// What is free for a job: now, or later too.
    pub fn levels(&self, later: bool) -> &Levels {
        self.later.as_ref().filter(|_| later).unwrap_or(&self.free)
    }

    /// The slots of these names that exist, ascending.
    pub fn slots_named(&self, state: &State, names: &[String]) -> Vec<u32> {
        let found = names.iter().filter_map(|name| self.slot_of(state.node_named(name)?.id));
        let mut slots: Vec<u32> = found.collect();
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    /// How many tasks of a request fit on a node; none where it takes no jobs or lacks what can't change.
    pub fn tasks_on(&self, shape: &Shape<'_>, slot: u32, levels: &Levels, alone: bool) -> u32 {
        let at = slot as usize;
        let here = &self.slots[at];
        if here.usable && shape.admits(slot, here.node) {
            shape.request.tasks_on(here.node, &levels.nodes[at], levels.gres_of(at), alone)
        } else {
            0
        }
    }

    /// What a request takes of a node for so many tasks, and of what the whole job asks for.
    pub fn share(&self, request: &Request<'_>, slot: u32, tasks: u32, of_total: &[u32], levels: &Levels) -> Share {
        let node = self.slots[slot as usize].node;
        let gpus = request.gpus_of(tasks, of_total);
        let cpus = request.cpus_for(node, tasks, gpus);
        let gres = if request.has_gres() {
            request.gres_split(node, levels.gres_of(slot as usize), tasks, of_total).unwrap_or_default()
        } else {
            Vec::new()
        };
        Share { cpus, memory: request.memory_for(node, cpus, gpus), gres }
    }

    /// How resources of the whole job are spread over its nodes: one of each kind everywhere, then lighter nodes are filled first.
    /// Less than what is asked for where the nodes do not have it.
    pub fn spread_total(&self, request: &Request<'_>, picked: &[(u32, u32)], levels: &Levels) -> Vec<Vec<u32>> {
        let mut spread: Vec<Vec<u32>> = picked.iter().map(|_| request.of_total_least(false)).collect();
        if request.gres_total.is_empty() {
            return spread;
        }
        let mut order: Vec<usize> = (0..picked.len()).collect();
        order.sort_by_key(|at| picked[*at].0);
        for (kind, one) in request.gres_total.iter().enumerate() {
            let given: u32 = spread.iter().map(|counts| counts[kind]).sum();
            let mut missing = one.count.saturating_sub(given);
            for at in &order {
                let (slot, tasks) = picked[*at];
                let node = self.slots[slot as usize].node;
                let (level, gres) = (&levels.nodes[slot as usize], levels.gres_of(slot as usize));
                while missing > 0 {
                    spread[*at][kind] += 1;
                    if !request.has_room(node, level, gres, tasks, &spread[*at]) {
                        spread[*at][kind] -= 1;
                        break;
                    }
                    missing -= 1;
                }
            }
        }
        spread
    }

    /// Gives a job its share: lowest CPU numbers and lowest devices first.
    pub fn allocate(&mut self, slot: u32, tasks: u32, share: &Share) -> NodeAlloc {
        let node = self.slots[slot as usize].node;
        let picked = self.picked.entry(slot).or_insert_with(|| Picked {
            cpus: node.taken.cpus.clone(),
            gres: node.taken.gres.iter().map(|gres| (gres.name.as_str(), gres.indexes.clone())).collect(),
        });
        let cpus = lowest_free(0, node.inventory.cpus, &picked.cpus, share.cpus);
        picked.cpus.insert_all(&cpus);
        let mut gres = Vec::new();
        let mut positions: BTreeMap<&str, u32> = BTreeMap::new();
        for (have, count) in node.inventory.gres.iter().zip(&share.gres) {
            let from = positions.entry(&have.name).or_insert(0);
            let end = *from + have.count;
            if *count > 0 {
                let taken = picked.gres.entry(&have.name).or_default();
                let indexes = lowest_free(*from, end, taken, *count);
                taken.insert_all(&indexes);
                gres.push(GresAlloc { name: have.name.clone(), kind: have.kind.clone(), indexes });
            }
            *from = end;
        }
        NodeAlloc { node: node.id, cpus, memory: MemoryMib(share.memory), tasks, gres }
    }

    /// Gives a share to a job that starts now; `later` if it outlasts the start of a reservation.
    pub fn start(&mut self, slot: u32, share: Share, later: bool, end: TimeMs) {
        self.free.take(slot as usize, &share);
        if later && let Some(spare) = self.spare.get_mut(&slot) {
            spare.take(0, &share);
        }
        self.lower_later(slot);
        self.new_releases.push(Release { end, slot, share });
    }

    /// Keeps a share for a job that starts when `then` is free, and ends at `end`.
    pub fn reserve(&mut self, slot: u32, share: Share, then: &Levels, end: TimeMs) {
        let mut spare = then.one(slot as usize);
        spare.take(0, &share);
        if let Some(before) = self.spare.get_mut(&slot) {
            before.take(0, &share);
            spare.lower_to(0, before, 0);
        }
        self.spare.insert(slot, spare);
        self.later.get_or_insert_with(|| self.free.clone());
        self.lower_later(slot);
        self.reserved.push((slot, share.clone()));
        self.new_releases.push(Release { end, slot, share });
    }

    fn lower_later(&mut self, slot: u32) {
        let Some(later) = &mut self.later else { return };
        later.lower_to(slot as usize, &self.free, slot as usize);
        if let Some(spare) = self.spare.get(&slot) {
            later.lower_to(slot as usize, spare, 0);
        }
    }

    /// What running jobs give back, by time.
    pub fn releases(&self, state: &State, now: TimeMs) -> Vec<Release> {
        let mut ends: BTreeMap<JobId, TimeMs> = BTreeMap::new();
        let mut releases = Vec::new();
        for (at, slot) in self.slots.iter().enumerate() {
            for id in &slot.node.taken.jobs {
                let Some(job) = state.job(*id) else { continue };
                let allocs = job.run.iter().flat_map(|run| &run.allocs);
                let Some(alloc) = allocs.into_iter().find(|alloc| alloc.node == slot.node.id) else { continue };
                let many = job.run.as_ref().is_some_and(|run| run.allocs.len() > 1);
                let end = match ends.get(id) {
                    Some(end) => *end,
                    None => release_time(state, job, now),
                };
                if many {
                    ends.insert(*id, end);
                }
                releases.push(Release { end, slot: at as u32, share: share_of(slot.node, alloc) });
            }
        }
        releases.sort_by_key(|release| release.end);
        releases
    }
}

fn level_of(slot: &Slot<'_>) -> Level {
    let node = slot.node;
    if !slot.usable {
        return Level::default();
    }
    Level { cpus: node.cpus_free(), memory: node.memory_free().0, jobs: node.taken.jobs.len() as u32 }
}

fn gres_free(node: &Node) -> Vec<u32> {
    if node.inventory.gres.is_empty() {
        return Vec::new();
    }
    let mut positions: BTreeMap<&str, u32> = BTreeMap::new();
    let free = node.inventory.gres.iter().map(|have| {
        let from = positions.entry(&have.name).or_insert(0);
        let end = *from + have.count;
        let taken = node.taken.gres.iter().find(|taken| taken.name == have.name);
        let here = taken.map_or(0, |taken| taken.indexes.iter().filter(|at| (*from..end).contains(at)).count());
        *from = end;
        have.count.saturating_sub(here as u32)
    });
    free.collect()
}

fn share_of(node: &Node, alloc: &NodeAlloc) -> Share {
    let gres = if alloc.gres.is_empty() {
        Vec::new()
    } else {
        let mut positions: BTreeMap<&str, u32> = BTreeMap::new();
        let counts = node.inventory.gres.iter().map(|have| {
            let from = positions.entry(&have.name).or_insert(0);
            let end = *from + have.count;
            let mine = alloc.gres.iter().filter(|gres| gres.name == have.name).flat_map(|gres| gres.indexes.iter());
            let here = mine.filter(|at| (*from..end).contains(at)).count();
            *from = end;
            here as u32
        });
        counts.collect()
    };
    Share { cpus: alloc.cpus.len() as u32, memory: alloc.memory.0, gres }
}

/// A job without a limit is taken to end a year after its start, as good as never.
const ENDLESS_S: u64 = 365 * 24 * 3600;

/// When a job that holds resources is expected to give them back.
fn release_time(state: &State, job: &Job, now: TimeMs) -> TimeMs {
    let kill_wait_s = state.settings().kill_wait_s;
    let ending = job.end_order.map(|order| order.since.plus_s(kill_wait_s));
    let placed = job.run.as_ref().map_or(now, |run| run.placed);
    let end = ending.or(job.limit_end()).unwrap_or_else(|| placed.plus_s(ENDLESS_S));
    // One that is over its time is about to be killed.
    if end > now { end } else { now.plus_s(1) }
}

/// When a job that starts now is expected to end.
pub(crate) fn end_if_started(job: &Job, now: TimeMs) -> TimeMs {
    job.time_limit.end_after(now).unwrap_or_else(|| now.plus_s(ENDLESS_S))
}

/// The `count` lowest numbers from `from` to before `end` that are not taken.
fn lowest_free(from: u32, end: u32, taken: &IndexSet, count: u32) -> IndexSet {
    let mut ranges = Vec::new();
    let mut missing = count;
    let mut next = from;
    let mut give = |from: u32, to: u32, missing: &mut u32| {
        let last = to.min(from.saturating_add(*missing));
        if from < last {
            *missing -= last - from;
            ranges.extend(gpun_core::index_set::Range::new(from, last - 1, 1));
        }
    };
    for range in taken.ranges() {
        if missing == 0 {
            break;
        }
        if range.last < from || range.first >= end {
            continue;
        }
        if range.step == 1 || range.first == range.last {
            give(next, range.first.min(end), &mut missing);
            next = next.max(range.last.saturating_add(1));
        } else {
            for number in (range.first..=range.last).step_by(range.step as usize) {
                give(next, number.min(end), &mut missing);
                next = next.max(number.saturating_add(1));
            }
        }
    }
    give(next, end, &mut missing);
    IndexSet::from_ranges(ranges)
}
