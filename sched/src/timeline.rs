//! When a request will fit: what is free as running jobs reach their limits.

use gpun_core::TimeMs;

use crate::{
    level::{Levels, Share},
    pick::{Picked, pick_at},
    shape::Shape,
    table::Table,
    view::View,
};

/// Something that a job will give back.
#[derive(Debug, Clone)]
pub(crate) struct Release {
    pub end: TimeMs,
    pub slot: u32,
    pub share: Share,
}

/// The first time at which a request fits, the nodes, and what is free then.
pub(crate) struct Start {
    pub at: TimeMs,
    pub nodes: Picked,
    /// Free then, less the reservations that have not ended.
    pub levels: Levels,
}

/// Finds the first time at which a request fits; `releases` are in the order of their times. `None` if it never will.
///
/// What earlier reservations keep counts as taken until they end: that may be later than needed, and never too early.
pub(crate) fn first_start(
    table: &Table<'_>,
    view: &View,
    shape: &Shape<'_>,
    releases: &[Release],
    now: TimeMs,
    tests: &mut u64,
) -> Option<Start> {
    let at_count = |count: usize| {
        let mut levels = table.free.clone();
        for release in releases[..count].iter().filter(|release| table.slots[release.slot as usize].usable) {
            levels.give(release.slot as usize, &release.share);
        }
        for (slot, share) in &table.reserved {
            levels.take(*slot as usize, share);
        }
        levels
    };
    // All that ends at one time counts together.
    let moments: Vec<usize> = (1..=releases.len())
        .filter(|count| releases.get(*count).is_none_or(|next| next.end > releases[count - 1].end))
        .collect();
    let mut levels = at_count(releases.len());
    let mut nodes = pick_at(table, view, shape, &levels, tests)?;
    let (mut low, mut high) = (0, moments.len().saturating_sub(1));
    while low < high {
        let middle = (low + high) / 2;
        let then = at_count(moments[middle]);
        match pick_at(table, view, shape, &then, tests) {
            Some(picked) => (high, levels, nodes) = (middle, then, picked),
            None => low = middle + 1,
        }
    }
    let at = moments.get(high).map_or(now, |count| releases[count - 1].end);
    Some(Start { at, nodes, levels })
}
