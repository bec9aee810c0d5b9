//! How far a launch has come, as told over `shim.sock` and kept in the job's folder.

use serde::{Deserialize, Serialize};

/// How far a launch has come. It only moves down this list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// The container is being made.
    Creating,
    /// The container runs; kept as `phase.json`.
    Running(Running),
    /// It is over and nothing of it is left on the node; kept as `exit.json`.
    Ended(ExitRecord),
}

/// A container that runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Running {
    /// The container's process 1 as the host sees it.
    pub init_pid: i32,
    /// Start time of that process in clock ticks since boot (`/proc/PID/stat`), which tells it from a later process with
    /// the same id.
    pub init_start_ticks: u64,
    /// When it started, in Unix milliseconds.
    pub started_ms: u64,
}

/// How a launch ended. Serialised as `exit.json`; when that file exists, nothing of the attempt is left on the node but
/// its folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExitRecord {
    /// The job's id.
    pub job_id: u32,
    /// The attempt.
    pub attempt: u32,
    /// Whether the script ran.
    pub kind: ExitKind,
    /// Exit code of the script, the left half of Slurm's `code:signal`.
    pub code: u8,
    /// The signal that ended it, the right half; 0: none. 53 as in Slurm when a standard stream could not be opened.
    pub signal: u8,
    /// A process of the job was killed for want of memory.
    pub oom: bool,
    /// What went wrong, for people; the whole story, on one line.
    pub reason: Option<String>,
    /// When the container started, in Unix milliseconds; 0: it never did.
    pub started_ms: u64,
    /// When it ended, in Unix milliseconds.
    pub ended_ms: u64,
    /// What it used.
    pub usage: Usage,
}

/// Whether the script ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitKind {
    /// The container ran; `code` and `signal` are its result.
    Exited,
    /// The container could not be started for a reason that lies in the request (image, mount, path): another attempt
    /// on this or another node fails alike.
    LaunchFailed,
    /// The container could not be started, or was lost, for a reason that lies in the node (runtime, cgroup, disk, a
    /// killed supervisor): the job may be tried again elsewhere.
    NodeFailed,
}

/// What a job used, from its cgroup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// The most memory at once, in KiB (page cache included).
    pub max_rss_kib: u64,
    /// CPU time in user mode, in microseconds.
    pub user_us: u64,
    /// CPU time in the kernel, in microseconds.
    pub sys_us: u64,
}

/// What the job's folder says, see [`crate::recover::inspect`].
#[derive(Clone, Debug, PartialEq)]
pub struct Inspection {
    /// How far it came.
    pub phase: Phase,
    /// Whether the supervisor lives. When it does not and the phase is not `Ended`, call
    /// [`crate::recover::clean_orphan`].
    pub shim_alive: bool,
}
