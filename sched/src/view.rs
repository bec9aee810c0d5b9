//! The nodes of one partition, with a tree of what is free for finding the first that fits.

use gpun_core::TimeMs;

use crate::{level::Levels, request::Bound, table::Table};

/// The most that any node below a place of the tree has free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Peak {
    cpus: u32,
    gres: u32,
    memory: u64,
    idle: bool,
    whole_memory: bool,
}

impl Peak {
    fn of(table: &Table<'_>, levels: &Levels, slot: u32) -> Self {
        let at = slot as usize;
        let (here, level) = (&table.slots[at], &levels.nodes[at]);
        if !here.usable || level.cpus == 0 {
            return Self::default();
        }
        Self {
            cpus: level.cpus,
            gres: levels.gres_of(at).iter().fold(0, |sum, count| sum.saturating_add(*count)),
            memory: level.memory,
            idle: level.jobs == 0,
            whole_memory: level.memory == here.node.inventory.memory.0,
        }
    }

    fn join(self, other: Self) -> Self {
        Self {
            cpus: self.cpus.max(other.cpus),
            gres: self.gres.max(other.gres),
            memory: self.memory.max(other.memory),
            idle: self.idle | other.idle,
            whole_memory: self.whole_memory | other.whole_memory,
        }
    }

    fn may_hold(&self, bound: &Bound) -> bool {
        self.cpus >= bound.cpus.max(1)
            && self.memory >= bound.memory
            && self.gres >= bound.gres
            && (self.idle || !bound.idle)
            && (self.whole_memory || !bound.whole_memory)
    }
}

/// The nodes of a partition in the order in which they are used.
#[derive(Debug, Clone)]
pub(crate) struct View {
    /// Slots, ascending.
    pub slots: Vec<u32>,
    /// The first start of a reservation on one of them.
    pub reserved_from: Option<TimeMs>,
    width: usize,
    now: Vec<Peak>,
    /// Only once there is a reservation.
    later: Vec<Peak>,
}

impl View {
    pub fn new(table: &Table<'_>, slots: Vec<u32>) -> Self {
        let width = slots.len().next_power_of_two();
        let mut view = Self { slots, reserved_from: None, width, now: Vec::new(), later: Vec::new() };
        view.now = view.peaks(table, &table.free);
        if let Some(later) = &table.later {
            view.later = view.peaks(table, later);
        }
        view
    }

    fn peaks(&self, table: &Table<'_>, levels: &Levels) -> Vec<Peak> {
        let mut tree = vec![Peak::default(); 2 * self.width];
        for (place, slot) in self.slots.iter().enumerate() {
            tree[self.width + place] = Peak::of(table, levels, *slot);
        }
        for at in (1..self.width).rev() {
            tree[at] = tree[2 * at].join(tree[2 * at + 1]);
        }
        tree
    }

    /// The place of a slot in this view.
    pub fn place_of(&self, slot: u32) -> Option<usize> {
        self.slots.binary_search(&slot).ok()
    }

    /// True if any node has a CPU free.
    pub fn has_free(&self) -> bool {
        self.now.get(1).is_some_and(|peak| peak.cpus > 0)
    }

    /// Takes in that what is free on a slot changed.
    pub fn update(&mut self, table: &Table<'_>, slot: u32) {
        let Some(place) = self.place_of(slot) else { return };
        set(&mut self.now, self.width + place, Peak::of(table, &table.free, slot));
        if let (Some(later), false) = (&table.later, self.later.is_empty()) {
            set(&mut self.later, self.width + place, Peak::of(table, later, slot));
        }
    }

    /// Takes in that a reservation was made on these slots.
    pub fn reserve(&mut self, table: &Table<'_>, slots: &[u32], start: TimeMs) {
        if !slots.iter().any(|slot| self.place_of(*slot).is_some()) {
            return;
        }
        self.reserved_from = Some(self.reserved_from.map_or(start, |from| from.min(start)));
        if let (Some(later), true) = (&table.later, self.later.is_empty()) {
            self.later = self.peaks(table, later);
        }
        slots.iter().for_each(|slot| self.update(table, *slot));
    }

    /// The first place at or after `from` that may hold `bound` and that `test` takes, with what `test` said.
    pub fn find<T>(
        &self,
        later: bool,
        from: usize,
        bound: &Bound,
        mut test: impl FnMut(u32) -> Option<T>,
    ) -> Option<(usize, T)> {
        let tree = if later && !self.later.is_empty() { &self.later } else { &self.now };
        if from >= self.slots.len() {
            return None;
        }
        let mut at = self.width + from;
        loop {
            // Up, as long as this is nothing or was looked at; down into the left half where it may be.
            if tree[at].may_hold(bound) {
                if at >= self.width {
                    let place = at - self.width;
                    if let Some(found) = self.slots.get(place).and_then(|slot| test(*slot)) {
                        return Some((place, found));
                    }
                } else {
                    at *= 2;
                    continue;
                }
            }
            while at & 1 == 1 {
                if at & (at + 1) == 0 {
                    // The last of its row: nothing stands to the right.
                    return None;
                }
                at /= 2;
            }
            at += 1;
        }
    }
}

fn set(tree: &mut [Peak], at: usize, peak: Peak) {
    let mut at = at;
    tree[at] = peak;
    while at > 1 {
        at /= 2;
        let joined = tree[2 * at].join(tree[2 * at + 1]);
        if tree[at] == joined {
            return;
        }
        tree[at] = joined;
    }
}
