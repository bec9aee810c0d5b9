//! Slurm as text: hostlists, times, memory, directives, options, output formats. Pure.

pub mod array;
pub mod count;
pub mod dependency;
pub mod directive;
pub mod format;
pub mod gres;
pub mod hostlist;
pub mod jobid;
pub mod memory;
pub mod moment;
pub mod names;
pub mod option;
pub mod pattern;
pub mod signal;
pub mod time;
pub mod tres;
pub mod update;
