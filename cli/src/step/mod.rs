//! A step as srun sees it: its tasks at the other end of a socket, their streams, and how they end.

pub mod ends;
pub mod session;
pub mod streams;
pub mod terminal;
pub mod variables;
