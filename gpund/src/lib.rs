//! The node daemon.
//!
//! What to do is decided by [`agent`], pure, from what the controller asks ([`link`]) and what is here ([`ledger`]);
//! [`daemon`] is the event loop around it, [`watch`] one task a job, [`reports`] the way back, [`launcher`] the way from a
//! controller's launch to ours, [`probe`] what the machine has and [`config`] what we are told.
//!
//! The container side: what a launch is ([`spec`]), the folder it lives in ([`jobdir`]), the per-job
//! supervisor and how to talk to it ([`shimlink`]), and what to do when it was killed ([`recover`]).
//!
//! For gpund a launch is: [`jobdir::JobDir::prepare`], [`jobdir::JobDir::shim_command`], then events from `shim.sock`
//! until [`phase::Phase::Ended`]. After a restart: [`recover::inspect`] each folder, reconnect where the shim lives,
//! [`recover::clean_orphan`] where it does not, and once [`recover::sweep`].

pub mod agent;
pub mod bundle;
pub mod cgroup;
pub mod config;
pub mod container;
pub mod daemon;
pub mod embed;
pub mod hostroot;
pub mod image;
pub mod jobdir;
pub mod launcher;
pub mod ledger;
pub mod link;
pub mod notice;
pub mod phase;
mod pin;
pub mod probe;
pub mod raw;
pub mod recover;
pub mod reports;
pub mod shimlink;
pub mod spec;
pub mod step;
pub mod supervise;
pub mod sys;
pub mod watch;
