//! Why a job waits or how it ended, as Slurm writes it.

use gpun_core::accounting::{Policy, Rule, TresClass};
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
        Reason::AccountNotAllowed => "AccountNotAllowed",
        Reason::QosNotAllowed => "QOSNotAllowed",
        Reason::MaxMemPerLimit => "MaxMemPerLimit",
        Reason::Policy(policy) => return limit(policy),
        Reason::DeadLine => "DeadLine",
        Reason::DependencyNeverSatisfied => "DependencyNeverSatisfied",
    };
    plain.to_owned()
}

/// A limit by the name that Slurm gives it as a reason.
pub fn limit(policy: Policy) -> String {
    use Rule::*;
    let whose = if policy.of_qos { "QOS" } else { "Assoc" };
    let class = policy.tres.unwrap_or(TresClass::Other);
    let resource = match class {
        TresClass::Cpu => "Cpu",
        TresClass::Memory => "Mem",
        TresClass::Energy => "Energy",
        TresClass::Node => "Node",
        TresClass::Billing => "Billing",
        TresClass::Gres => "GRES",
        TresClass::License => "License",
        TresClass::Other => "Unknown",
    };
    // Of an association memory is `Mem`, of a quality of service `Memory`, but for what all have together.
    let long = if policy.of_qos && class == TresClass::Memory { "Memory" } else { resource };
    // The oldest of the names end in a word that the others do not have.
    let old = if matches!(class, TresClass::Cpu | TresClass::Node) { "Limit" } else { "" };
    let upper = if class == TresClass::Cpu { "CPU" } else { resource };
    let only_cpu = if class == TresClass::Cpu { "Limit" } else { "" };
    match policy.rule {
        GrpJobs | GrpJobsAccrue => format!("{whose}GrpJobsLimit"),
        GrpSubmit => format!("{whose}GrpSubmitJobsLimit"),
        GrpWallMin => format!("{whose}GrpWallLimit"),
        GrpTres if class == TresClass::Memory => format!("{whose}GrpMemLimit"),
        GrpTres => format!("{whose}Grp{resource}{old}"),
        GrpTresMin => format!("{whose}Grp{upper}Minutes{only_cpu}"),
        GrpTresRunMin => format!("{whose}Grp{upper}RunMinutes{only_cpu}"),
        MaxJobs | MaxJobsAccrue => format!("{whose}MaxJobsLimit"),
        MaxSubmit => format!("{whose}MaxSubmitJobLimit"),
        MaxWallMin => format!("{whose}MaxWallDurationPerJobLimit"),
        MaxTres => format!("{whose}Max{long}PerJob{old}"),
        MaxTresPerNode => format!("{whose}Max{long}PerNode"),
        MaxTresMin => format!("{whose}Max{long}MinutesPerJob{only_cpu}"),
        MinTres if class == TresClass::Cpu => "QOSMinCpuNotSatisfied".to_owned(),
        MinTres => format!("QOSMin{long}"),
        MinPriority => format!("{whose}MinPrioThreshold"),
        MaxJobsPerUser | MaxJobsAccruePerUser => "QOSMaxJobsPerUserLimit".to_owned(),
        MaxSubmitPerUser => "QOSMaxSubmitJobPerUserLimit".to_owned(),
        MaxTresPerUser | MaxTresRunMinPerUser => format!("QOSMax{long}PerUser{old}"),
        MaxJobsPerAccount | MaxJobsAccruePerAccount => "MaxJobsPerAccount".to_owned(),
        MaxSubmitPerAccount => "MaxSubmitJobsPerAccount".to_owned(),
        MaxTresPerAccount | MaxTresRunMinPerAccount => format!("Max{long}PerAccount"),
    }
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
    fn limits_have_slurms_names() {
        let rows = [
            (true, Rule::MaxTresPerUser, Some(TresClass::Cpu), "QOSMaxCpuPerUserLimit"),
            (true, Rule::MaxTresPerUser, Some(TresClass::Memory), "QOSMaxMemoryPerUser"),
            (true, Rule::MaxTresPerUser, Some(TresClass::Gres), "QOSMaxGRESPerUser"),
            (true, Rule::MaxJobsPerUser, None, "QOSMaxJobsPerUserLimit"),
            (true, Rule::MaxSubmitPerUser, None, "QOSMaxSubmitJobPerUserLimit"),
            (true, Rule::MaxWallMin, None, "QOSMaxWallDurationPerJobLimit"),
            (true, Rule::GrpTres, Some(TresClass::Node), "QOSGrpNodeLimit"),
            (true, Rule::MinTres, Some(TresClass::Cpu), "QOSMinCpuNotSatisfied"),
            (false, Rule::GrpTres, Some(TresClass::Cpu), "AssocGrpCpuLimit"),
            (false, Rule::GrpTres, Some(TresClass::Memory), "AssocGrpMemLimit"),
            (false, Rule::GrpTres, Some(TresClass::Gres), "AssocGrpGRES"),
            (false, Rule::GrpTresMin, Some(TresClass::Cpu), "AssocGrpCPUMinutesLimit"),
            (false, Rule::MaxJobs, None, "AssocMaxJobsLimit"),
            (false, Rule::MaxTres, Some(TresClass::Node), "AssocMaxNodePerJobLimit"),
            (false, Rule::MaxTres, Some(TresClass::Memory), "AssocMaxMemPerJob"),
            (false, Rule::MaxTresMin, Some(TresClass::Cpu), "AssocMaxCpuMinutesPerJobLimit"),
        ];
        for (of_qos, rule, tres, want) in rows {
            assert_eq!(text(Reason::Policy(Policy { of_qos, rule, tres })), want);
        }
    }

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
