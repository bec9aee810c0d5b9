//! The per-job supervisor: parent of one container, outlives gpund.

fn main() {}
