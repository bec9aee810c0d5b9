//! One command, one file.

pub mod build;
pub mod ci;
pub mod demo;
pub mod env;
pub mod fuzz;
pub mod man;
pub mod setup;
pub mod soak;
pub mod test;
