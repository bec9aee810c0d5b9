//! What Slurm calls things: states of jobs and nodes, reasons, errors.

pub mod error;
pub mod job_state;
pub mod node_state;
pub mod reason;
