//! Slurm as text: hostlists, times, memory, directives, options, output formats. Pure.

pub mod hostlist;
pub mod memory;
pub mod moment;
pub mod time;
