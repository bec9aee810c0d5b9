//! The decision: `plan(&State, now) -> Plan`. Pure: no clock, no chance, no hash order, no fractions.
//!
//! Jobs are looked at by partition tier, then priority, then number. What fits starts. For the first job of each partition that
//! does not fit, room is kept at the first time at which running jobs' limits say that it will (EASY backfill); later jobs start
//! only where they end before that time, or leave that room.
//!
//! What is free only shrinks while a plan is made. So a request that did not fit is not tried again, and a search goes on where
//! the last one for the same request ended.
//!
//! | module | noun |
//! | --- | --- |
//! | [`Plan`], [`Verdict`], [`PlanLimits`] | what comes out, and how much of it |
//! | `standing` | what a job and its partition tell without a look at nodes |
//! | `reserved` | which nodes reservations close to which jobs |
//! | `request`, `shape` | what a job needs; what is known of all that need the same |
//! | `table`, `level`, `view` | nodes, what is free on them, and a tree of it for each partition |
//! | `pick`, `timeline` | which nodes, and when |
//! | `planner`, `het` | the pass over the queue, and jobs of several components in it |
//! | [`why()`] | everything that a job waits for, for people |

mod het;
mod level;
mod limits;
mod natural;
mod pick;
mod plan;
mod planner;
mod request;
mod reserved;
mod shape;
mod standing;
mod table;
mod timeline;
mod view;
mod why;

use gpun_core::{State, TimeMs};

pub use limits::PlanLimits;
pub use plan::{Plan, Verdict};
pub use why::{Shortage, Why, why};

/// Decides what to start now, and why the rest waits.
///
/// `now` is the planner's time; entries that carry the placements must not be stamped earlier, or begin times refuse them.
pub fn plan(state: &State, now: TimeMs, limits: &PlanLimits) -> Plan {
    planner::Planner::new(state, now.max(state.now()), *limits).run()
}
