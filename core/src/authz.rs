//! Who may do what: one pure function, tested as a table.

use crate::{
    Refusal, State, TimeLimit,
    command::{Act, Identity, JobChange},
    job::{Hold, Job, JobState},
};

/// True for root and the configured operators.
pub fn is_operator(state: &State, who: &Identity) -> bool {
    who.uid == 0 || state.settings().operators.contains(&who.uid)
}

/// Decides whether `who` may do `act` to `job`; acts that concern no job take `None`.
///
/// # Errors
/// [`Refusal::AccessDenied`]; [`Refusal::JobHeld`] for a priority that would end a hold.
pub fn decide(state: &State, who: &Identity, act: &Act, job: Option<&Job>) -> Result<(), Refusal> {
    if is_operator(state, who) {
        return Ok(());
    }
    let owns = job.is_some_and(|job| job.owner.uid == who.uid);
    let allowed = match act {
        Act::Cancel(_) | Act::Signal { .. } | Act::Hold { .. } | Act::Release(_) | Act::Requeue { .. } => owns,
        // What a user may change of an own job is decided field by field, against the job's present values.
        Act::UpdateJob { change, .. } if owns && job.is_some_and(|job| wants_out_of_hold(job, change)) => {
            return Err(Refusal::JobHeld);
        }
        Act::UpdateJob { change, .. } => {
            owns && job.is_some_and(|job| {
                change.deadline.is_none()
                    && change.contiguous.is_none()
                    && change.priority.is_none_or(|priority| priority <= job.priority)
                    && change.nice.is_none_or(|nice| nice >= job.spec.nice)
                    && change.time_limit.is_none_or(|limit| limit <= job.time_limit || may_grow_to(state, job, limit))
            })
        }
        Act::Suspend(_)
        | Act::Resume(_)
        | Act::UpdateNode { .. }
        | Act::UpdatePartition { .. }
        | Act::CreateReservation(_)
        | Act::UpdateReservation { .. }
        | Act::DeleteReservation { .. } => false,
    };
    if allowed { Ok(()) } else { Err(Refusal::AccessDenied) }
}

/// True where a priority would end a hold: a release does that.
fn wants_out_of_hold(job: &Job, change: &JobChange) -> bool {
    job.state == JobState::Pending && job.hold != Hold::None && change.priority.is_some_and(|priority| priority > 0)
}

/// True for a waiting job whose limit may be raised as far as a partition of it lets every job go.
fn may_grow_to(state: &State, job: &Job, limit: TimeLimit) -> bool {
    job.state == JobState::Pending && state.partitions_of(job).any(|partition| limit <= partition.max_time)
}

/// True if `who` may see the script and the environment of a job.
pub fn may_read_script(state: &State, who: &Identity, job: &Job) -> bool {
    is_operator(state, who) || job.owner.uid == who.uid
}
