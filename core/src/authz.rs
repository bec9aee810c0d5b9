//! Who may do what: one pure function, tested as a table.

use crate::{
    Refusal, State, TimeLimit,
    accounting::{AdminLevel, Book, Change},
    command::{Act, Identity, JobChange},
    job::{Hold, Job, JobState},
};

/// True for root, the configured operators, and users whom accounting makes operators.
pub fn is_operator(state: &State, who: &Identity) -> bool {
    who.uid == 0
        || state.settings().operators.contains(&who.uid)
        || state.book().admin_level(who.uid) >= AdminLevel::Operator
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
                let pending = job.state == JobState::Pending;
                change.admin_comment.is_none()
                    && (!pending || (change.oversubscribe.is_none() && change.ntasks_per_node.is_none()))
                    && change
                        .end_time
                        .is_none_or(|end| job.limit_to_end_at(end).is_none_or(|new| new <= job.time_limit))
                    && change.deadline.is_none()
                    && change.contiguous.is_none()
                    && change.priority.is_none_or(|priority| priority <= job.priority)
                    && change.nice.is_none_or(|nice| nice >= job.spec.nice)
                    && change.time_limit.is_none_or(|limit| limit <= job.time_limit || may_grow_to(state, job, limit))
            })
        }
        // Each change is decided for itself.
        Act::Account(_) => true,
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

/// Decides whether `who` may do a change of accounting. Operators may do everything, but raise nobody above themselves;
/// coordinators may change what is in their accounts; users may choose among their own accounts.
///
/// # Errors
/// [`Refusal::AccessDenied`].
pub fn decide_accounting(state: &State, book: &Book, who: &Identity, change: &Change) -> Result<(), Refusal> {
    let all = who.uid == 0 || state.book().admin_level(who.uid) == AdminLevel::Administrator;
    let operator = is_operator(state, who);
    let coordinates = |account: &str| book.coordinates(who.uid, account);
    let allowed = match change {
        Change::ChangeUser { admin: Some(level), .. } => all || (operator && *level <= AdminLevel::Operator),
        _ if operator => true,
        Change::Found | Change::AddQos { .. } | Change::ChangeQos { .. } | Change::RemoveQos { .. } => false,
        Change::AddAccount { parent, .. } => parent.as_deref().is_some_and(coordinates),
        Change::AddUser { .. } => book.user_of(who.uid).is_some_and(|user| !user.coordinates.is_empty()),
        Change::AddAssociation { place }
        | Change::ChangeAssociation { place, .. }
        | Change::RemoveAssociation { place } => coordinates(&place.account),
        Change::AddCoordinator { account, .. } | Change::RemoveCoordinator { account, .. } => coordinates(account),
        Change::ChangeAccount { name, parent, .. } => coordinates(name) && parent.as_deref().is_none_or(coordinates),
        Change::ChangeUser { name, uid: _, default_account: Some(_), admin: None, default_wckey: None } => {
            book.user_of(who.uid).is_some_and(|user| user.name == *name)
        }
        Change::ChangeUser { .. } => false,
        Change::RemoveUser { name } => book.associations_of(name).all(|one| coordinates(&one.account)),
        Change::RemoveAccount { name } => {
            book.account(name).and_then(|one| one.parent.as_deref()).is_some_and(coordinates)
        }
    };
    if allowed { Ok(()) } else { Err(Refusal::AccessDenied) }
}
