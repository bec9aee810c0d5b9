//! The three small formats between `gpund-shim` and process 1 of a container: the task that the shim writes to
//! `/.gpun/task`, the end that process 1 writes to `/.gpun/exit`, and the value that rides on a control signal.
//!
//! They are hand-made so that the static binary carries no parser generator: it is mapped, dumped and restored with
//! every job.

mod end;
mod order;
mod task;

pub use end::{END_FILE_SIZE, End};
pub use order::Order;
pub use task::{BadTask, Task};

/// Where the run folder is bound inside every container.
pub const RUN_DIR: &str = "/.gpun";
/// What stands at the beginning of `/.gpun/exit` from when process 1 takes orders until its end: the kernel drops a signal
/// for a process 1 that does not wait for it yet.
pub const READY: &[u8] = b"ready";

/// Slurm's signal number for "a standard stream could not be opened".
pub const SIGNAL_IO: u8 = 53;
