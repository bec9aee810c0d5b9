//! All that can happen to the controller's loop.

use gpun_core::NodeId;
use gpun_proto::pb;
use gpun_sched::Plan;
use tokio::sync::mpsc;

/// One stream of one node; a later one of the same node has a higher number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionId(pub u64);

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// Entries were applied.
    Applied,
    /// A plan was made and its placements were proposed.
    Planned(Plan),
    /// The planner stopped; it must not stay stopped.
    PlannerDied(String),
    /// A node opened a stream and is registered.
    Attached {
        /// The stream.
        session: SessionId,
        /// The node.
        node: NodeId,
        /// The way to it.
        to_node: mpsc::Sender<pb::ToNode>,
    },
    /// A node reports.
    Reports {
        /// The stream.
        session: SessionId,
        /// The node.
        node: NodeId,
        /// What.
        reports: pb::Reports,
    },
    /// A node shows that it lives.
    Health {
        /// The node.
        node: NodeId,
        /// How it is.
        health: pb::Health,
    },
    /// A stream ended.
    Detached {
        /// The stream.
        session: SessionId,
        /// The node.
        node: NodeId,
    },
    /// A second passed.
    Second,
}
