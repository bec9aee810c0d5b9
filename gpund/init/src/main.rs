//! Process 1 of every container: runs the batch script, reaps, forwards signals, reports the exit.

fn main() {}
