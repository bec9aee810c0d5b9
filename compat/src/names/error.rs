//! What users read when something is refused: Slurm's words and numbers for our refusals, in one table.

use gpun_core::Refusal;

use super::reason;

/// A message with Slurm's number for it (as `scontrol errnumstr` takes it).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// Slurm's error number.
    pub number: u32,
    /// Slurm's text.
    pub text: &'static str,
}

const fn message(number: u32, text: &'static str) -> Message {
    Message { number, text }
}

/// The messages in use.
pub const ALL: &[Message] = &[
    message(2000, "Invalid partition name specified"),
    message(2001, "No partition specified or system default partition"),
    message(2002, "Access/permission denied"),
    message(2003, "User's group not permitted to use this partition"),
    message(2004, "Requested nodes not in this partition"),
    message(2006, "Node count specification invalid"),
    message(2007, "Unable to create job record, try again"),
    message(2008, "Job size specification needs to be provided"),
    message(2009, "Job script not specified"),
    message(2010, "Invalid user id"),
    message(2012, "Pathname of a file, directory or other parameter too long"),
    message(2014, "Requested node configuration is not available"),
    message(2015, "Requested partition configuration not available now"),
    message(2016, "Requested nodes are busy"),
    message(2017, "Invalid job id specified"),
    message(2018, "Invalid node name specified"),
    message(2019, "I/O error writing script/environment to file"),
    message(2020, "Job can not be altered now, try again later"),
    message(2021, "Job/step already completing or completed"),
    message(2024, "Job is pending execution"),
    message(2025, "Task count specification invalid"),
    message(2027, "Slurm backup controller in standby mode"),
    message(2028, "Invalid node state specified"),
    message(2029, "Invalid feature specification"),
    message(2031, "Active features not subset of available features"),
    message(2036, "Requested operation not supported on this system"),
    message(2037, "Requested operation is presently disabled"),
    message(2038, "Job dependency problem"),
    message(2042, "Job is in held state, pending scheduler release"),
    message(2044, "Memory required by task is not available"),
    message(2045, "Invalid account or account/partition combination specified"),
    message(2048, "Invalid license specification"),
    message(2050, "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"),
    message(2051, "Requested time limit is invalid (missing or exceeds some limit)"),
    message(2053, "Requested reservation is invalid"),
    message(2054, "Invalid time specified"),
    message(2063, "Job cannot be submitted without the current working directory specified."),
    message(2066, "Invalid qos specification"),
    message(2068, "Required node not available (down, drained or reserved)"),
    message(2069, "CPU count specification invalid"),
    message(2070, "Required partition not available (inactive or drain)"),
    message(2071, "Circular job dependency"),
    message(2072, "Invalid generic resource (gres) specification"),
    message(2073, "Job is no longer pending execution"),
    message(2081, "Invalid job array specification"),
    message(2083, "Job has already started"),
    message(2084, "Job has already finished"),
    message(2085, "Job is not running"),
    message(2087, "Job is not suspended"),
    message(2090, "Slurm internal error, contact system administrator"),
    message(2106, "Job not heterogeneous job"),
    message(2107, "Job not heterogeneous job leader"),
    message(2114, "Job --batch option is invalid or not a subset of --constraint"),
    message(2115, "Invalid Trackable RESource (TRES) specification"),
    message(2124, "Invalid time-min specification (exceeds job's time or other limits)"),
    message(2133, "Invalid preferred feature specification"),
];

/// Printed when no controller answers.
pub const NO_CONTROLLER: &str = "Unable to contact slurm controller (connect failure)";

/// The text of a number, as `scontrol errnumstr` prints it.
pub fn by_number(number: u32) -> Option<&'static str> {
    ALL.iter().find(|m| m.number == number).map(|m| m.text)
}

fn text(number: u32) -> &'static str {
    by_number(number).unwrap_or("Unspecified error")
}

/// Where a refusal is shown: some read differently behind another command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// A submission.
    Submit,
    /// `scontrol update`, `hold`, `release` and so on.
    Change,
    /// `scancel`, `scontrol show` and the rest.
    Other,
}

/// What the user reads.
pub fn of(refusal: &Refusal, doing: Doing) -> String {
    let number = match refusal {
        Refusal::UnknownJob => 2017,
        Refusal::UnknownPartition => 2000,
        Refusal::UnknownNode | Refusal::UnknownNodeName { .. } => 2018,
        // Another user's job is "Invalid user id" to scontrol and "Access/permission denied" to scancel.
        Refusal::AccessDenied if doing == Doing::Change => 2010,
        Refusal::AccessDenied | Refusal::PartitionAccess => 2002,
        Refusal::AlreadyDone if doing == Doing::Change => 2084,
        Refusal::AlreadyDone => 2021,
        Refusal::JobPending => 2024,
        Refusal::NotPending => 2073,
        Refusal::NoDefaultPartition => 2001,
        Refusal::PartitionInactive => 2070,
        Refusal::NodeConfigUnavailable => 2014,
        Refusal::NodeCount => 2006,
        // Slurm prints this line of its own before the error; it is the one that tells something.
        Refusal::Memory => return "Memory specification can not be satisfied".to_owned(),
        Refusal::TimeLimit => 2051,
        Refusal::Array => 2081,
        Refusal::QueueFull | Refusal::NoJobIds => {
            return "Slurm temporarily unable to accept job, sleeping and retrying".to_owned();
        }
        Refusal::Gres => 2072,
        Refusal::RequeueDisabled => 2037,
        Refusal::Dependency => 2038,
        Refusal::NotHetLeader => 2107,
        Refusal::NotSuspended => 2087,
        Refusal::JobHeld => 2042,
        Refusal::Feature => 2029,
        Refusal::License => 2048,
        Refusal::Reservation => 2053,
        Refusal::ReservationAccess => return "Access denied to requested reservation".to_owned(),
        Refusal::ReservationName => return "Duplicate reservation name".to_owned(),
        Refusal::ReservationTime => return "Invalid time specified".to_owned(),
        Refusal::ReservationUsers => return "Invalid user id".to_owned(),
        Refusal::ReservationNodes => return "Invalid node name specified".to_owned(),
        Refusal::ReservationBusy => return "Requested nodes are busy".to_owned(),
        Refusal::ReservationOverlap => return "Requested reservation overlaps with another reservation".to_owned(),
        Refusal::NotRunning => 2085,
        Refusal::TimeMin => 2124,
        Refusal::Time => 2054,
        Refusal::NodeState => 2028,
        Refusal::ActiveFeatures => 2031,
        Refusal::PartitionGroup => 2003,
        Refusal::CpusPerNode if doing == Doing::Change => 2015,
        // Slurm prints these lines of its own before the error.
        Refusal::CpusPerNode => return "CPU count per node can not be satisfied".to_owned(),
        Refusal::Layout => return "Socket, core and/or thread specification can not be satisfied".to_owned(),
        Refusal::Prefer => 2133,
        Refusal::BatchFeatures => 2114,
        Refusal::CircularDependency => 2071,
        Refusal::Account => 2045,
        Refusal::Qos => 2066,
        Refusal::Policy(_) => 2050,
        Refusal::StepBusy => 2016,
        Refusal::StepNodes => 2006,
        Refusal::StepCpus => return "More processors requested than permitted".to_owned(),
        other => return other.to_string(),
    };
    text(number).to_owned()
}

/// What `sbatch` prints on standard error for a refusal.
pub fn submission(refusal: &Refusal) -> String {
    let said = of(refusal, Doing::Submit);
    match refusal {
        Refusal::Policy(policy) => {
            let limit = reason::limit(*policy);
            format!("sbatch: error: {limit}\nsbatch: error: Batch job submission failed: {said}\n")
        }
        Refusal::Memory | Refusal::CpusPerNode | Refusal::Layout => {
            format!("sbatch: error: {said}\nsbatch: error: Batch job submission failed: {}\n", text(2014))
        }
        _ => format!("sbatch: error: Batch job submission failed: {said}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_read_as_slurm_writes_them() {
        for (refusal, doing, want) in [
            (Refusal::UnknownJob, Doing::Other, "Invalid job id specified"),
            (Refusal::AccessDenied, Doing::Submit, "Access/permission denied"),
            (Refusal::AccessDenied, Doing::Change, "Invalid user id"),
            (Refusal::AlreadyDone, Doing::Change, "Job has already finished"),
            (Refusal::AlreadyDone, Doing::Other, "Job/step already completing or completed"),
            (Refusal::PartitionInactive, Doing::Submit, "Required partition not available (inactive or drain)"),
            (Refusal::Array, Doing::Submit, "Invalid job array specification"),
        ] {
            assert_eq!(of(&refusal, doing), want);
        }
        assert_eq!(
            submission(&Refusal::UnknownPartition),
            "sbatch: error: Batch job submission failed: Invalid partition name specified\n"
        );
        assert_eq!(by_number(2017), Some("Invalid job id specified"));
        assert!(ALL.is_sorted_by_key(|m| m.number));
    }
}
