//! What must hold, one to a file.

pub mod acknowledged;
pub mod ends;
pub mod launches;
pub mod orphans;
pub mod plans;
pub mod progress;
pub mod replicas;
pub mod resources;
pub mod soundness;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use gpun_core::{JobId, RequestId, TimeMs};
use gpund::{agent::Key, phase::ExitKind};

use crate::{message::Ms, world::World};

/// An invariant that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Which.
    pub name: &'static str,
    /// What was seen.
    pub how: String,
}

impl Broken {
    /// This invariant, seen so.
    pub fn new(name: &'static str, how: impl Into<String>) -> Self {
        Self { name, how: how.into() }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\" does not hold: {}", self.name, self.how)
    }
}

/// What was seen so far.
#[derive(Debug, Default)]
pub struct Witness {
    accepted: BTreeMap<RequestId, JobId>,
    taken_ids: BTreeSet<JobId>,
    reused: Option<String>,
    launched: BTreeMap<Key, usize>,
    ended: BTreeMap<Key, (ExitKind, (u8, u8))>,
    given_up: BTreeMap<usize, Ms>,
    orphans: BTreeMap<(usize, Key), Ms>,
    latest: TimeMs,
    entries: u64,
}

impl Witness {
    /// The log has accepted a submission as this job.
    pub fn accepted(&mut self, request: RequestId, job: JobId) {
        match self.accepted.get(&request) {
            Some(before) if *before != job => {
                self.reused = Some(format!("one request is {before} and {job}"));
            }
            Some(_) => {}
            None => {
                self.accepted.insert(request, job);
                if !self.taken_ids.insert(job) {
                    self.reused = Some(format!("{job} was given twice"));
                }
            }
        }
    }

    /// The controller has given a node up.
    pub fn given_up(&mut self, node: usize, now: Ms) {
        self.given_up.insert(node, now);
    }

    /// So many attempts were started.
    pub fn launches(&self) -> u64 {
        self.launched.len() as u64
    }
}

/// What can be told after each event.
///
/// # Errors
/// The first invariant that does not hold.
pub fn after_each_event(world: &mut World) -> Result<(), Broken> {
    launches::once(world)?;
    ends::witness(world);
    resources::once_on_each_node(world)?;
    orphans::only_for_a_while(world)
}

/// What can be told after each entry of the log.
///
/// # Errors
/// The first invariant that does not hold.
pub fn after_each_entry(world: &mut World) -> Result<(), Broken> {
    soundness::holds(world)?;
    replicas::agree(world)?;
    acknowledged::ids_are_unique(world)
}

/// What can be told when all is over.
///
/// # Errors
/// The first invariant that does not hold.
pub fn at_the_end(world: &mut World) -> Result<(), Broken> {
    replicas::mirror_holds_the_state(world)?;
    acknowledged::all_exist(world)?;
    ends::are_true(world)?;
    progress::nothing_is_left(world)
}
