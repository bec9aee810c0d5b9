//! Job states, long and compact, and the filter of `squeue --states`.

use gpun_core::job::{Job, JobState, Reason};

/// One state as Slurm names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name {
    /// `PENDING`.
    pub long: &'static str,
    /// `PD`.
    pub compact: &'static str,
}

const fn name(long: &'static str, compact: &'static str) -> Name {
    Name { long, compact }
}

/// Every state, in the order in which `squeue` sorts the base states and lists the rest.
pub const ALL: &[Name] = &[
    name("PENDING", "PD"),
    name("RUNNING", "R"),
    name("SUSPENDED", "S"),
    name("COMPLETED", "CD"),
    name("CANCELLED", "CA"),
    name("FAILED", "F"),
    name("TIMEOUT", "TO"),
    name("NODE_FAIL", "NF"),
    name("PREEMPTED", "PR"),
    name("BOOT_FAIL", "BF"),
    name("DEADLINE", "DL"),
    name("OUT_OF_MEMORY", "OOM"),
    name("COMPLETING", "CG"),
    name("CONFIGURING", "CF"),
    name("RESIZING", "RS"),
    name("RESV_DEL_HOLD", "RD"),
    name("REQUEUED", "RQ"),
    name("REQUEUE_FED", "RF"),
    name("REQUEUE_HOLD", "RH"),
    name("REVOKED", "RV"),
    name("SIGNALING", "SI"),
    name("SPECIAL_EXIT", "SE"),
    name("STAGE_OUT", "SO"),
    name("STOPPED", "ST"),
];

const COMPLETING: Name = name("COMPLETING", "CG");
const REQUEUE_HOLD: Name = name("REQUEUE_HOLD", "RH");

/// The name of a base state.
pub fn base(state: JobState) -> Name {
    match state {
        JobState::Pending => name("PENDING", "PD"),
        JobState::Running => name("RUNNING", "R"),
        JobState::Suspended => name("SUSPENDED", "S"),
        JobState::Completed => name("COMPLETED", "CD"),
        JobState::Cancelled => name("CANCELLED", "CA"),
        JobState::Failed => name("FAILED", "F"),
        JobState::Timeout => name("TIMEOUT", "TO"),
        JobState::NodeFail => name("NODE_FAIL", "NF"),
        JobState::Preempted => name("PREEMPTED", "PR"),
        JobState::BootFail => name("BOOT_FAIL", "BF"),
        JobState::Deadline => name("DEADLINE", "DL"),
        JobState::OutOfMemory => name("OUT_OF_MEMORY", "OOM"),
    }
}

/// The name of a job's state as it is shown: `COMPLETING` while its nodes clean up.
pub fn of(job: &Job) -> Name {
    if job.is_completing() || job.is_requeuing() { COMPLETING } else { base(job.state) }
}

/// Whether a job is in the state of this name, flags such as `COMPLETING` counted.
pub fn is(job: &Job, state: Name) -> bool {
    base(job.state) == state
        || of(job) == state
        || (state == REQUEUE_HOLD && job.state == JobState::Pending && job.reason == Reason::RequeuedHeld)
}

/// Which states to show.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Filter {
    /// Waiting, running, suspended and completing jobs.
    #[default]
    Active,
    /// Every one.
    All,
    /// These.
    Only(Vec<Name>),
}

/// A state that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Invalid job state specified: {0}")]
pub struct UnknownState(pub String);

impl Filter {
    /// Reads a comma-separated list of names, long or compact, in any case; `all` is every state.
    ///
    /// # Errors
    /// [`UnknownState`] with the first name that is none.
    pub fn parse(text: &str) -> Result<Self, UnknownState> {
        if text.eq_ignore_ascii_case("all") {
            return Ok(Self::All);
        }
        text.split(',').filter(|p| !p.is_empty()).map(find).collect::<Result<_, _>>().map(Self::Only)
    }

    /// Whether a job is among them.
    pub fn matches(&self, job: &Job) -> bool {
        match self {
            Self::Active => !job.is_over(),
            Self::All => true,
            Self::Only(names) => names.iter().any(|n| is(job, *n)),
        }
    }
}

/// The state of this name, long or compact, in any case.
///
/// # Errors
/// [`UnknownState`].
pub fn find(text: &str) -> Result<Name, UnknownState> {
    ALL.iter()
        .find(|n| n.long.eq_ignore_ascii_case(text) || n.compact.eq_ignore_ascii_case(text))
        .copied()
        .ok_or_else(|| UnknownState(text.to_owned()))
}

/// The states' names in small letters, as messages list them.
pub fn list() -> String {
    ALL.iter().map(|n| n.long.to_ascii_lowercase()).collect::<Vec<_>>().join(",")
}

/// The place of a job's base state in the order of states.
pub fn rank(job: &Job) -> u32 {
    job.state as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_read() {
        assert_eq!(Filter::parse("all"), Ok(Filter::All));
        assert_eq!(Filter::parse("R,pending").map(|f| matches!(f, Filter::Only(n) if n.len() == 2)), Ok(true));
        assert_eq!(Filter::parse("R,FOO"), Err(UnknownState("FOO".to_owned())));
        assert_eq!(
            list(),
            "pending,running,suspended,completed,cancelled,failed,timeout,node_fail,preempted,boot_fail,deadline,out_of_memory,completing,configuring,resizing,resv_del_hold,requeued,requeue_fed,requeue_hold,revoked,signaling,special_exit,stage_out,stopped"
        );
    }
}
