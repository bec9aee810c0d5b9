//! How much is free on each node, at one time.

/// What is free on one node, but for generic resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Level {
    pub cpus: u32,
    /// Jobs that hold something.
    pub jobs: u32,
    /// In MiB.
    pub memory: u64,
}

/// What one job takes of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Share {
    pub cpus: u32,
    pub memory: u64,
    /// In the order of the node's inventory; may be shorter.
    pub gres: Vec<u32>,
}

/// What is free on all nodes. Generic resources of all nodes lie in one row.
#[derive(Debug, Clone, Default)]
pub(crate) struct Levels {
    pub nodes: Vec<Level>,
    pub gres: Vec<u32>,
    /// Where a node's generic resources begin; one more than there are nodes.
    pub gres_at: Vec<u32>,
}

impl Levels {
    pub fn gres_of(&self, slot: usize) -> &[u32] {
        &self.gres[self.gres_at[slot] as usize..self.gres_at[slot + 1] as usize]
    }

    fn gres_mut(&mut self, slot: usize) -> &mut [u32] {
        &mut self.gres[self.gres_at[slot] as usize..self.gres_at[slot + 1] as usize]
    }

    /// Less than nothing is nothing.
    pub fn take(&mut self, slot: usize, share: &Share) {
        let level = &mut self.nodes[slot];
        level.cpus = level.cpus.saturating_sub(share.cpus);
        level.memory = level.memory.saturating_sub(share.memory);
        level.jobs += 1;
        for (have, less) in self.gres_mut(slot).iter_mut().zip(&share.gres) {
            *have = have.saturating_sub(*less);
        }
    }

    pub fn give(&mut self, slot: usize, share: &Share) {
        let level = &mut self.nodes[slot];
        level.cpus += share.cpus;
        level.memory += share.memory;
        level.jobs = level.jobs.saturating_sub(1);
        for (have, more) in self.gres_mut(slot).iter_mut().zip(&share.gres) {
            *have += more;
        }
    }

    /// Lowers a node to what a node of `other` has, where that is less.
    pub fn lower_to(&mut self, slot: usize, other: &Self, other_slot: usize) {
        let (level, least) = (&mut self.nodes[slot], other.nodes[other_slot]);
        level.cpus = level.cpus.min(least.cpus);
        level.memory = level.memory.min(least.memory);
        level.jobs = level.jobs.max(least.jobs);
        for (have, least) in self.gres_mut(slot).iter_mut().zip(other.gres_of(other_slot)) {
            *have = (*have).min(*least);
        }
    }

    /// One node by itself.
    pub fn one(&self, slot: usize) -> Self {
        let gres = self.gres_of(slot).to_vec();
        Self { nodes: vec![self.nodes[slot]], gres_at: vec![0, gres.len() as u32], gres }
    }
}
