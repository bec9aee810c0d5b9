//! Reservations made, changed, ended.

use super::Applying;
use crate::{
    Refusal, Shared, State, TimeMs,
    authz::decide,
    command::{Act, Identity},
    node::Node,
    reservation::{Flag, Reservation, ReservationChange},
};

const DAY_S: u64 = 86_400;

impl Applying<'_> {
    /// Makes a reservation; gives its name.
    pub(super) fn reserve(&mut self, who: &Identity, act: &Act) -> Result<String, Refusal> {
        match act {
            Act::CreateReservation(wanted) => self.create_reservation(who, act, wanted),
            _ => Err(Refusal::Invalid { what: "the act".to_owned() }),
        }
    }

    pub(super) fn create_reservation(
        &mut self,
        who: &Identity,
        act: &Act,
        wanted: &Reservation,
    ) -> Result<String, Refusal> {
        decide(self.state, who, act, None)?;
        let mut made = Reservation { created: self.now, ..wanted.clone() };
        if made.name.is_empty() {
            let first = made.users.iter().chain(&made.accounts).next();
            made.name = free_name(self.state, first.map_or("resv", String::as_str));
        } else if self.state.reservations.contains_key(&made.name) {
            return Err(Refusal::ReservationName);
        }
        if made.uids.is_empty() && made.accounts.is_empty() {
            return Err(Refusal::ReservationUsers);
        }
        check_time(&made, self.now)?;
        choose_nodes(self.state, &mut made, self.now)?;
        let name = made.name.clone();
        self.put_reservation(made)?;
        Ok(name)
    }

    pub(super) fn update_reservation(
        &mut self,
        who: &Identity,
        act: &Act,
        name: &str,
        change: &ReservationChange,
    ) -> Result<u32, Refusal> {
        decide(self.state, who, act, None)?;
        let mut changed = self.state.reservation(name).ok_or(Refusal::Reservation)?.clone();
        let length_ms = changed.end.0.saturating_sub(changed.start.0);
        if let Some(start) = change.start {
            changed.start = start;
            changed.end = TimeMs(start.0.saturating_add(length_ms));
        }
        changed.end = change.end.unwrap_or(changed.end);
        if let Some(seconds) = change.duration_s {
            changed.end = changed.start.plus_s(seconds);
        }
        if let Some(nodes) = &change.nodes {
            changed.nodes.clone_from(nodes);
            changed.node_count = None;
        }
        if let Some(users) = &change.users {
            (changed.users, changed.uids) = users.iter().cloned().unzip();
        }
        changed.accounts = change.accounts.clone().unwrap_or(changed.accounts);
        changed.flags = change.flags.clone().unwrap_or(changed.flags);
        if changed.uids.is_empty() && changed.accounts.is_empty() {
            return Err(Refusal::ReservationUsers);
        }
        if changed.end <= changed.start || changed.end <= self.now {
            return Err(Refusal::ReservationTime);
        }
        check_nodes(self.state, &changed, self.now)?;
        self.put_reservation(changed)
    }

    pub(super) fn delete_reservation(&mut self, who: &Identity, act: &Act, name: &str) -> Result<u32, Refusal> {
        decide(self.state, who, act, None)?;
        if self.state.reservation(name).is_none() {
            return Err(Refusal::Reservation);
        }
        let used = |job: &crate::job::Job| job.holds_resources() && job.spec.reservation.as_deref() == Some(name);
        if self.state.jobs().any(|job| used(job)) {
            return Err(Refusal::ReservationBusy);
        }
        self.state.reservations.remove(name);
        self.dirty.reservations.insert(name.to_owned());
        Ok(1)
    }

    fn put_reservation(&mut self, reservation: Reservation) -> Result<u32, Refusal> {
        self.dirty.reservations.insert(reservation.name.clone());
        self.state.reservations.insert(reservation.name.clone(), Shared::new(reservation));
        Ok(1)
    }

    /// Takes away reservations that are over, and moves those that come again.
    pub(super) fn end_reservations(&mut self) -> usize {
        let over: Vec<Reservation> = self.state.reservations().filter(|one| one.end <= self.now).cloned().collect();
        for mut one in over.iter().cloned() {
            let period_s = match () {
                () if one.has(Flag::Daily) => DAY_S,
                () if one.has(Flag::Weekly) => 7 * DAY_S,
                () => 0,
            };
            self.dirty.reservations.insert(one.name.clone());
            if period_s == 0 {
                self.state.reservations.remove(&one.name);
                continue;
            }
            let behind = self.now.0.saturating_sub(one.end.0) / (period_s * 1_000) + 1;
            (one.start, one.end) = (one.start.plus_s(behind * period_s), one.end.plus_s(behind * period_s));
            self.state.reservations.insert(one.name.clone(), Shared::new(one));
        }
        over.len()
    }
}

/// `alice_1`, `alice_2` …
fn free_name(state: &State, front: &str) -> String {
    let taken = |name: &String| state.reservations.contains_key(name);
    (1u32..).map(|number| format!("{front}_{number}")).find(|name| !taken(name)).unwrap_or_default()
}

fn check_time(wanted: &Reservation, now: TimeMs) -> Result<(), Refusal> {
    // A start that has just passed is "now".
    let late = wanted.start.plus_s(60) < now && !wanted.has(Flag::Maint);
    if wanted.end <= wanted.start || wanted.end <= now || late { Err(Refusal::ReservationTime) } else { Ok(()) }
}

/// Finds the nodes where only their number was said, and checks those that were named.
fn choose_nodes(state: &State, wanted: &mut Reservation, now: TimeMs) -> Result<(), Refusal> {
    let partition = match wanted.partition.as_deref() {
        Some(name) => Some(state.partition(name).ok_or(Refusal::UnknownPartition)?),
        None => None,
    };
    let member = |node: &&Shared<Node>| partition.is_none_or(|partition| partition.has_node(&node.name));
    let all = || state.nodes().filter(member);
    if wanted.has(Flag::AllNodes) {
        wanted.nodes = all().map(|node| node.name.clone()).collect();
    } else if wanted.nodes.is_empty() {
        let count = wanted.node_count.ok_or(Refusal::ReservationNodes)? as usize;
        let mut chosen: Vec<String> = Vec::new();
        for node in all().filter(|node| node.takes_jobs()) {
            let alone = Reservation { nodes: vec![node.name.clone()], ..wanted.clone() };
            if chosen.len() < count && check_nodes(state, &alone, now).is_ok() {
                chosen.push(node.name.clone());
            }
        }
        if chosen.len() < count || count == 0 {
            return Err(Refusal::ReservationBusy);
        }
        wanted.nodes = chosen;
    } else if !wanted.has(Flag::SpecNodes) {
        wanted.flags.push(Flag::SpecNodes);
    }
    check_nodes(state, wanted, now)
}

/// The nodes are there, and neither another reservation nor a running job stands against it.
fn check_nodes(state: &State, wanted: &Reservation, now: TimeMs) -> Result<(), Refusal> {
    if wanted.nodes.is_empty() {
        return Err(Refusal::ReservationNodes);
    }
    if let Some(name) = wanted.nodes.iter().find(|name| state.node_named(name).is_none()) {
        return Err(Refusal::UnknownNodeName { name: name.clone() });
    }
    let shares = |other: &Reservation| other.nodes.iter().any(|name| wanted.nodes.contains(name));
    let lenient = |one: &Reservation| one.has(Flag::Maint) || one.has(Flag::Overlap);
    let other = state
        .reservations()
        .find(|other| other.name != wanted.name && other.overlaps(wanted.start, Some(wanted.end)) && shares(other));
    if !lenient(wanted) && other.is_some_and(|other| !lenient(other)) {
        return Err(Refusal::ReservationOverlap);
    }
    if wanted.has(Flag::Maint) || wanted.has(Flag::IgnoreJobs) {
        return Ok(());
    }
    let nodes = wanted.nodes.iter().filter_map(|name| state.node_named(name));
    let mut jobs = nodes.flat_map(|node| &node.taken.jobs).filter_map(|id| state.job(*id));
    let stands_against = |job: &Shared<crate::job::Job>| {
        let own = job.spec.reservation.as_deref() == Some(wanted.name.as_str());
        !own && job.limit_end().is_none_or(|end| end.max(now) > wanted.start)
    };
    if jobs.any(stands_against) { Err(Refusal::ReservationBusy) } else { Ok(()) }
}
