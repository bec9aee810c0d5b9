//! What a waiting job and its partitions tell without a look at the nodes.

use gpun_core::{
    State, TimeMs,
    job::{Hold, Job, Reason},
    partition::{Partition, PartitionState},
};

use crate::Verdict;

/// Why a job can't start now whatever is free; `None` if only nodes decide.
pub(crate) fn of_job(state: &State, job: &Job, now: TimeMs) -> Option<Verdict> {
    if job.hold != Hold::None {
        let by = if job.hold == Hold::User { Reason::HeldUser } else { Reason::HeldAdmin };
        let reason = if job.reason == Reason::None { by } else { job.reason };
        return Some(Verdict::of(reason));
    }
    if let Some(dependency) = &job.dependency {
        let reason = if dependency.is_lost() { Reason::DependencyNeverSatisfied } else { Reason::Dependency };
        return Some(Verdict::of(reason));
    }
    if let Some(begin) = job.spec.begin.filter(|begin| *begin > now) {
        return Some(Verdict { start_estimate: Some(begin), ..Verdict::of(Reason::BeginTime) });
    }
    let mut first = None;
    for partition in state.partitions_of(job) {
        match of_partition(job, partition) {
            None => return of_job_itself(state, job, now),
            Some(reason) => first = first.or(Some(reason)),
        }
    }
    Some(Verdict::of(first.unwrap_or(Reason::PartitionDown)))
}

/// As [`of_job`], for what does not depend on the partition and stands after it.
pub(crate) fn of_job_itself(state: &State, job: &Job, now: TimeMs) -> Option<Verdict> {
    let late = |deadline| job.time_limit.end_after(now).is_some_and(|end| end > deadline);
    if job.spec.deadline.is_some_and(late) {
        return Some(Verdict::of(Reason::DeadLine));
    }
    if let Some(policy) = state.policy_of(job, None) {
        return Some(Verdict::of(Reason::Policy(policy)));
    }
    (!state.array_may_start(job)).then(|| Verdict::of(Reason::ArrayTaskLimit))
}

/// Why a job can't start in a partition whatever is free.
pub(crate) fn of_partition(job: &Job, partition: &Partition) -> Option<Reason> {
    match partition.state {
        PartitionState::Up | PartitionState::Drain => {}
        PartitionState::Down => return Some(Reason::PartitionDown),
        PartitionState::Inactive => return Some(Reason::PartitionInactive),
    }
    if !partition.takes_account(job.spec.account.as_deref()) {
        return Some(Reason::AccountNotAllowed);
    }
    if !partition.takes_qos(job.spec.qos.as_deref()) {
        return Some(Reason::QosNotAllowed);
    }
    if !partition.takes_memory(job.spec.memory, job.spec.cpus_on_one_node_min()) {
        return Some(Reason::MaxMemPerLimit);
    }
    if job.time_limit > partition.max_time {
        return Some(Reason::PartitionTimeLimit);
    }
    let too_many = partition.max_nodes.is_some_and(|most| job.spec.nodes_min() > most);
    let too_few = partition.min_nodes.zip(job.spec.nodes_max).is_some_and(|(fewest, most)| most < fewest);
    (too_many || too_few).then_some(Reason::PartitionNodeLimit)
}
