//! The container side of the node daemon: what a launch is ([`spec`]), the folder it lives in ([`jobdir`]), the per-job
//! supervisor and how to talk to it ([`shimlink`]), and what to do when it was killed ([`recover`]).
//!
//! For gpund a launch is: [`jobdir::JobDir::prepare`], [`jobdir::JobDir::shim_command`], then events from `shim.sock`
//! until [`phase::Phase::Ended`]. After a restart: [`recover::inspect`] each folder, reconnect where the shim lives,
//! [`recover::clean_orphan`] where it does not, and once [`recover::sweep`].

pub mod bundle;
pub mod cgroup;
pub mod container;
pub mod embed;
pub mod hostroot;
pub mod image;
pub mod jobdir;
pub mod phase;
pub mod raw;
pub mod recover;
pub mod shimlink;
pub mod spec;
pub mod supervise;
pub mod sys;
