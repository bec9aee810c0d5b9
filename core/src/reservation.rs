//! Nodes that are kept for some users during some time.

use minicbor::{Decode, Encode};

use crate::{State, TimeMs, job::Job};

/// What is special about a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(index_only)]
pub enum Flag {
    /// For maintenance: running jobs do not stand against it, and it may overlap others.
    #[n(0)]
    Maint,
    /// Running jobs do not stand against it.
    #[n(1)]
    IgnoreJobs,
    /// It may overlap others.
    #[n(2)]
    Overlap,
    /// Its jobs may begin before it, end after it, and use other nodes too.
    #[n(3)]
    Flex,
    /// Again every day.
    #[n(4)]
    Daily,
    /// Again every week.
    #[n(5)]
    Weekly,
    /// The nodes were named.
    #[n(6)]
    SpecNodes,
    /// All nodes of the cluster or of its partition.
    #[n(7)]
    AllNodes,
}

/// A reservation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(map)]
pub struct Reservation {
    /// Its name.
    #[n(0)]
    pub name: String,
    /// From then on.
    #[n(1)]
    pub start: TimeMs,
    /// Until then.
    #[n(2)]
    pub end: TimeMs,
    /// Names of its nodes, in natural order.
    #[cbor(n(3), default)]
    pub nodes: Vec<String>,
    /// Names of those who may use it.
    #[cbor(n(4), default)]
    pub users: Vec<String>,
    /// The same as numbers.
    #[cbor(n(5), default)]
    pub uids: Vec<u32>,
    /// Accounts that may use it.
    #[cbor(n(6), default)]
    pub accounts: Vec<String>,
    /// The partition whose nodes it has.
    #[n(7)]
    pub partition: Option<String>,
    /// What is special about it.
    #[cbor(n(8), default)]
    pub flags: Vec<Flag>,
    /// So many nodes are wanted, where none is named.
    #[n(9)]
    pub node_count: Option<u32>,
    /// When it was made; that of a request means nothing.
    #[cbor(n(10), default)]
    pub created: TimeMs,
}

/// What `scontrol update reservation` may change; what is not given stays.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(map)]
pub struct ReservationChange {
    /// Start.
    #[n(0)]
    pub start: Option<TimeMs>,
    /// End.
    #[n(1)]
    pub end: Option<TimeMs>,
    /// Length in seconds, from the start.
    #[n(2)]
    pub duration_s: Option<u64>,
    /// Nodes.
    #[n(3)]
    pub nodes: Option<Vec<String>>,
    /// Users, as names and numbers.
    #[n(4)]
    pub users: Option<Vec<(String, u32)>>,
    /// Accounts.
    #[n(5)]
    pub accounts: Option<Vec<String>>,
    /// Flags.
    #[n(6)]
    pub flags: Option<Vec<Flag>>,
}

impl Reservation {
    /// True if it has this flag.
    pub fn has(&self, flag: Flag) -> bool {
        self.flags.contains(&flag)
    }

    /// True if it holds at this time.
    pub fn is_active(&self, now: TimeMs) -> bool {
        self.start <= now && now < self.end
    }

    /// True if any of the time from `from` to `until` is reserved; `until` none: for ever.
    pub fn overlaps(&self, from: TimeMs, until: Option<TimeMs>) -> bool {
        self.end > from && until.is_none_or(|until| self.start < until)
    }

    /// True if a job's owner may use it.
    pub fn admits(&self, uid: u32, account: Option<&str>) -> bool {
        let by_account = account.is_some_and(|account| self.accounts.iter().any(|have| have == account));
        self.uids.contains(&uid) || by_account
    }
}

impl State {
    /// A reservation by name.
    pub fn reservation(&self, name: &str) -> Option<&Reservation> {
        self.reservations.get(name).map(|reservation| &**reservation)
    }

    /// All reservations, by name.
    pub fn reservations(&self) -> impl Iterator<Item = &Reservation> {
        self.reservations.values().map(|reservation| &**reservation)
    }

    /// Reservations whose nodes a job may not use if it runs from `now` to its limit.
    pub fn closed_to<'a>(&'a self, job: &'a Job, now: TimeMs) -> impl Iterator<Item = &'a Reservation> {
        let until = job.time_limit.end_after(now);
        let own = job.spec.reservation.as_deref();
        self.reservations().filter(move |one| own != Some(one.name.as_str()) && one.overlaps(now, until))
    }

    /// The reservation that a job shall run in; `Err` if it can't at this time.
    ///
    /// # Errors
    /// See [`Unusable`].
    pub fn own_reservation<'a>(&'a self, job: &Job, now: TimeMs) -> Result<Option<&'a Reservation>, Unusable> {
        let Some(name) = job.spec.reservation.as_deref() else { return Ok(None) };
        let reservation = self.reservation(name).ok_or(Unusable::Gone)?;
        if reservation.has(Flag::Flex) {
            return Ok(Some(reservation));
        }
        if now < reservation.start {
            return Err(Unusable::NotYet(reservation.start));
        }
        if job.time_limit.end_after(now).is_none_or(|end| end > reservation.end) {
            return Err(Unusable::TooShort);
        }
        Ok(Some(reservation))
    }

    /// True if the nodes of a placement are open to a job at this time.
    pub(crate) fn reservations_let(&self, job: &Job, now: TimeMs, mut nodes: impl Iterator<Item = String>) -> bool {
        let Ok(own) = self.own_reservation(job, now) else { return false };
        let closed: Vec<&Reservation> = self.closed_to(job, now).collect();
        let inside = |node: &String| own.is_none_or(|own| own.has(Flag::Flex) || own.nodes.contains(node));
        nodes.all(|node| inside(&node) && !closed.iter().any(|one| one.nodes.contains(&node)))
    }
}

/// Why a job can't run in the reservation that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unusable {
    /// It is not there any more.
    Gone,
    /// It begins then.
    NotYet(TimeMs),
    /// The job may run for longer than is left of it.
    TooShort,
}
