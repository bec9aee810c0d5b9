//! Reservations as the planner sees them: which slots each has, and to which jobs it is closed.

use gpun_core::{
    State, TimeMs,
    job::{Job, Reason},
    reservation::{Flag, Reservation, Unusable},
};

use crate::{Verdict, request::Request, table::Table};

/// More than so many reservations are not planned with: those that start last are left to `apply`, which refuses.
const MOST: usize = 128;

/// All reservations, those that start first before others.
pub(crate) struct Reserved<'a> {
    all: Vec<(&'a Reservation, Vec<u32>)>,
}

impl<'a> Reserved<'a> {
    pub fn new(state: &'a State, table: &Table<'_>) -> Self {
        let mut all: Vec<&Reservation> = state.reservations().collect();
        all.sort_by_key(|one| one.start);
        all.truncate(MOST);
        Self { all: all.into_iter().map(|one| (one, table.slots_named(state, &one.nodes))).collect() }
    }

    /// What reservations mean for a job that starts now: bits of those that are closed to it, and the one that it runs in.
    /// `Err` if it can't start now whatever is free.
    pub fn of(&self, state: &State, job: &Job, now: TimeMs) -> Result<(u128, Option<u8>), Verdict> {
        if self.all.is_empty() && job.spec.reservation.is_none() {
            return Ok((0, None));
        }
        let until = job.time_limit.end_after(now);
        let own = match state.own_reservation(job, now) {
            Ok(own) => own,
            Err(Unusable::Gone) => return Err(Verdict::of(Reason::ReservationDeleted)),
            Err(Unusable::NotYet(start)) => {
                return Err(Verdict { start_estimate: Some(start), ..Verdict::of(Reason::Reservation) });
            }
            Err(Unusable::TooShort) => return Err(Verdict::of(Reason::Reservation)),
        };
        let (mut closed, mut within) = (0, None);
        for (at, (one, _)) in self.all.iter().enumerate() {
            if own.is_some_and(|own| own.name == one.name) {
                within = (!one.has(Flag::Flex)).then_some(at as u8);
            } else if one.overlaps(now, until) {
                closed |= 1 << at;
            }
        }
        Ok((closed, within))
    }

    /// Adds the slots that are closed to a request.
    pub fn exclude(&self, request: &Request<'_>, slots: u32, excluded: &mut Vec<u32>) {
        for (at, (_, slots)) in self.all.iter().enumerate() {
            if request.closed & (1 << at) != 0 {
                excluded.extend(slots);
            }
        }
        if let Some((_, inside)) = request.within.and_then(|at| self.all.get(usize::from(at))) {
            excluded.extend((0..slots).filter(|slot| inside.binary_search(slot).is_err()));
        }
        excluded.sort_unstable();
        excluded.dedup();
    }

    /// True if one of these reservations is for maintenance.
    pub fn has_maintenance(&self, closed: u128) -> bool {
        self.all.iter().enumerate().any(|(at, (one, _))| closed & (1 << at) != 0 && one.has(Flag::Maint))
    }
}
