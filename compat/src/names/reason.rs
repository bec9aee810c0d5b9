//! Why a job waits or how it ended, as Slurm writes it.

use gpun_core::job::{EndCause, Reason};
use gpun_core::view::JobView;

use crate::{hostlist, signal};

/// All reasons that need no number, as lists name them.
pub const ALL: [Reason; 24] = [
    Reason::None,
    Reason::Priority,
    Reason::Dependency,
    Reason::Resources,
    Reason::PartitionNodeLimit,
    Reason::PartitionTimeLimit,
    Reason::PartitionDown,
    Reason::PartitionInactive,
    Reason::HeldAdmin,
    Reason::BeginTime,
    Reason::Licenses,
    Reason::HeldUser,
    Reason::ReqNodeNotAvail,
    Reason::ArrayTaskLimit,
    Reason::LaunchFailure,
    Reason::NonZeroExitCode,
    Reason::TimeLimit,
    Reason::OutOfMemory,
    Reason::NodeFail,
    Reason::Cleaning,
    Reason::BadConstraints,
    Reason::RequeuedHeld,
    Reason::DeadLine,
    Reason::DependencyNeverSatisfied,
];

/// The text as `squeue` shows it.
pub fn text(reason: Reason) -> String {
    let plain = match reason {
        Reason::None => "None",
        Reason::Priority => "Priority",
        Reason::Resources => "Resources",
        Reason::Dependency => "Dependency",
        Reason::HeldUser => "JobHeldUser",
        Reason::HeldAdmin => "JobHeldAdmin",
        Reason::BeginTime => "BeginTime",
        Reason::PartitionDown => "PartitionDown",
        Reason::PartitionInactive => "PartitionInactive",
        Reason::PartitionTimeLimit => "PartitionTimeLimit",
        Reason::PartitionNodeLimit => "PartitionNodeLimit",
        Reason::ReqNodeNotAvail => "ReqNodeNotAvail",
        Reason::ArrayTaskLimit => "JobArrayTaskLimit",
        Reason::LaunchFailure => "JobLaunchFailure",
        Reason::NonZeroExitCode => "NonZeroExitCode",
        Reason::RaisedSignal(n) => {
            return format!("RaisedSignal:{n}({})", signal::description(i32::from(n)));
        }
        Reason::TimeLimit => "TimeLimit",
        Reason::OutOfMemory => "OutOfMemory",
        Reason::NodeFail => "NodeDown",
        Reason::Cleaning => "Cleaning",
        Reason::BadConstraints => "BadConstraints",
        Reason::RequeuedHeld => "job requeued in held state",
        Reason::Licenses => "Licenses",
        Reason::Reservation => "Reservation",
        Reason::ReservationDeleted => "ReservationDeleted",
        Reason::DeadLine => "DeadLine",
        Reason::DependencyNeverSatisfied => "DependencyNeverSatisfied",
    };
    plain.to_owned()
}

/// A job's reason as `squeue` shows it: the nodes that are missing are named.
pub fn of(view: &JobView) -> String {
    if view.reason == Reason::ReqNodeNotAvail && !view.job.spec.node_list.is_empty() {
        return format!("ReqNodeNotAvail, UnavailableNodes:{}", hostlist::compress(&view.job.spec.node_list));
    }
    let held_next = EndCause::Requeue { hold: true };
    if view.job.end_order.is_some_and(|order| order.cause == held_next) {
        return text(Reason::RequeuedHeld);
    }
    text(view.reason)
}

/// The same as one word, for `scontrol show`: blanks become underscores.
pub fn word(view: &JobView) -> String {
    of(view).replace(' ', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_slurms_names() {
        for (reason, want) in [
            (Reason::None, "None"),
            (Reason::HeldUser, "JobHeldUser"),
            (Reason::ArrayTaskLimit, "JobArrayTaskLimit"),
            (Reason::RaisedSignal(9), "RaisedSignal:9(Killed)"),
            (Reason::RaisedSignal(10), "RaisedSignal:10(User defined signal 1)"),
            (Reason::RequeuedHeld, "job requeued in held state"),
        ] {
            assert_eq!(text(reason), want);
        }
    }
}
