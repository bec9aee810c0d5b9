//! One binary, gpun, with Slurm's command names as links.

fn main() {}
