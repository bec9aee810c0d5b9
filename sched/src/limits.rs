//! How much one plan may do.

/// Bounds of one plan. They keep it short on a huge queue; they never change which job comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanLimits {
    /// Most placements. At this number the plan ends with [`crate::Plan::unfinished`] set: apply it and plan again.
    pub placements_max: usize,
    /// Most verdicts kept. Jobs without one of their own are told by [`crate::Plan::verdict`] all the same.
    pub verdicts_max: usize,
    /// For how many waiting jobs of each partition room is kept. At least 1: with 1 this is EASY backfill.
    pub reservations_max: usize,
    /// Most tests of one request against one node. Beyond it no further job is backfilled in this plan.
    pub tests_max: u64,
}

impl Default for PlanLimits {
    fn default() -> Self {
        Self { placements_max: 4096, verdicts_max: 10_000, reservations_max: 1, tests_max: 20_000_000 }
    }
}
