//! Steps on this node: who asks for one is let in by its token, and a process of its own, `gpund-shim step`, runs it.
//!
//! | module | noun |
//! | --- | --- |
//! | [`door`] | the socket on which srun asks |
//! | [`keeper`] | which steps may be started, run, or have ended |
//! | [`run`] | the process that runs one step: its tasks, their streams, srun at the other end |
//! | [`task`] | one task: its pipes or its terminal |
//! | [`record`] | how a step ended, as a file |

pub mod door;
pub mod keeper;
pub mod record;
pub mod run;
pub mod task;
