//! One binary, `gpun`, with Slurm's command names as links: one file for each command below [`command`].
//!
//! `sbatch` as a whole process has to take about a millisecond. So there is no runtime, no thread, no log set-up and no user
//! directory on the way of a command; the controller is asked through [`gpun_proto::quick`].

pub mod args;
pub mod cluster;
pub mod command;
pub mod controller;
pub mod daemon;
pub mod display;
pub mod environment;
pub mod login;
mod man;
pub mod nodefile;
mod out;
pub mod people;
pub mod slurm;
mod step;

pub use command::run;
