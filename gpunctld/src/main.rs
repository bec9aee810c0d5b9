//! The controller daemon: rpc, propose, plan, dispatch, read side.

fn main() {}
