//! A request in one partition, and what this plan already knows of it.

use gpun_core::{State, node::Node};

use crate::{request::Request, reserved::Reserved, table::Table, view::View};

/// What the plan knows of all jobs with the same request.
pub(crate) struct Shape<'a> {
    pub request: Request<'a>,
    /// Slots that must be among the allocated ones, ascending.
    pub required: Vec<u32>,
    /// Slots that must not be, ascending.
    pub excluded: Vec<u32>,
    /// Some required node is not in the partition or not in the cluster.
    pub required_missing: bool,
    /// What is free only shrinks while a plan is made, so that a search goes on where the last one ended. One for jobs that end
    /// before the first reservation starts, one for longer jobs.
    pub search: [Search; 2],
    /// It fits on no set of the nodes that take jobs, were they all free.
    pub never: Option<Never>,
}

/// Where a search stands.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Search {
    /// Nothing before this place of the view fits.
    pub from: usize,
    /// Nothing fits any more.
    pub over: bool,
}

/// Why a request can't be run by the nodes that take jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Never {
    /// It named nodes that take no jobs.
    NamedNodesUnavailable,
    /// With the nodes that are down or drained it could.
    NodesUnavailable,
    /// Not with all nodes.
    Impossible,
}

impl<'a> Shape<'a> {
    pub fn new(state: &State, table: &Table<'_>, view: &View, reserved: &Reserved<'_>, request: Request<'a>) -> Self {
        let required = table.slots_named(state, request.node_list);
        let named = request.node_list.iter().collect::<std::collections::BTreeSet<_>>().len();
        let required_missing = required.len() < named || required.iter().any(|slot| view.place_of(*slot).is_none());
        let mut excluded = table.slots_named(state, request.exclude);
        reserved.exclude(&request, table.slots.len() as u32, &mut excluded);
        Self { request, required, excluded, required_missing, search: Default::default(), never: None }
    }

    /// True if nothing but other jobs and the node's health could keep this request from it.
    pub fn admits(&self, slot: u32, node: &Node) -> bool {
        self.excluded.binary_search(&slot).is_err() && self.request.admits(node)
    }
}
