//! The real core, scheduler and agent on virtual time with one seed and injected faults.
//!
//! | module | noun |
//! | --- | --- |
//! | [`world`] | everything together: the queue of events, the network, the log |
//! | [`controller`] | the state, a second replica, the mirror, and the leader's duties |
//! | [`node`] | a machine: the real agent and outbox over processes that are only told of |
//! | [`load`] | the cluster's shape, submissions and wishes, all from the seed |
//! | [`message`] | what is said, and what can happen |
//! | [`invariant`] | what must hold, one to a file |
//!
//! A run is a function of its [`Plan`]: the same one gives the same trace, whose digest is part of the [`Report`].

pub mod controller;
pub mod dice;
pub mod invariant;
pub mod load;
pub mod message;
pub mod node;
pub mod world;

use gpun_core::TimeMs;

/// Wall-clock time at the start of a run.
pub const START: TimeMs = TimeMs(1_800_000_000_000);

/// A rule that is broken on purpose, to see that a run notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Break {
    /// A client hears of its job before that is in the log.
    AnswersBeforeCommit,
    /// A node's daemon forgets on a restart what it has started.
    ForgetsLedger,
    /// A node starts what it started before.
    LaunchesAgain,
    /// A node goes on with what it is no longer wanted for.
    KeepsUnwanted,
    /// The mirror misses some records.
    LosesRecords,
    /// A node reports success whatever the exit was.
    LiesAboutExit,
    /// A killed daemon takes its reports with it.
    ForgetsReports,
    /// The second replica is fed an entry with another time.
    ReplicaClock,
}

impl Break {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::AnswersBeforeCommit,
        Self::ForgetsLedger,
        Self::LaunchesAgain,
        Self::KeepsUnwanted,
        Self::LosesRecords,
        Self::LiesAboutExit,
        Self::ForgetsReports,
        Self::ReplicaClock,
    ];
}

/// What to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Where all chance comes from.
    pub seed: u64,
    /// A rule to break.
    pub broken: Option<Break>,
}

/// What a run saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Report {
    /// Events.
    pub events: u64,
    /// Entries of the log.
    pub entries: u64,
    /// Submissions that were acknowledged.
    pub acknowledged: u64,
    /// Attempts that were started.
    pub launches: u64,
    /// Faults that were injected.
    pub faults: u64,
    /// Digest of the trace (FNV-1a).
    pub trace: u64,
}

/// A run that broke an invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Which invariant, and how.
    pub what: String,
    /// The last events before it.
    pub last: Vec<String>,
}

/// Runs one plan to its end.
///
/// # Errors
/// An invariant does not hold.
pub fn run(plan: Plan) -> Result<Report, Box<Failure>> {
    world::World::new(plan).run()
}
