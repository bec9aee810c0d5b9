//! Slurm as text: hostlists, times, memory, directives, options, output formats. Pure.
