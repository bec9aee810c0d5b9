//! Project tasks: demo, test, ci, soak, man.

fn main() {}
