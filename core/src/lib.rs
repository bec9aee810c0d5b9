//! The truth: ids, units, jobs, nodes, partitions; `State`, `Command`, `apply`, `authz` and `check`. Pure.
//!
//! Nothing here reads a clock, a file, the network, the environment or chance: time comes stamped in the entry and ids come
//! from counters in [`State`]. Maps are ordered, numbers are whole, and a second replica that is fed the same log is equal to
//! the byte. Slurm's texts never enter: names of states, messages and patterns live in `gpun-compat`.
//!
//! | module | noun |
//! | --- | --- |
//! | [`id`], [`unit`], [`index_set`] | ids, units, sets of numbers |
//! | [`spec`], [`layout`], [`dependency`] | what a user asked for, of the cluster and of other jobs |
//! | [`job`], [`node`], [`partition`], [`settings`] | what the cluster holds |
//! | [`accounting`] | accounts, users, associations, qualities of service |
//! | [`command`], [`outcome`] | what may change it, and the answers |
//! | [`state`], [`apply`] | the whole, and how an entry changes it |
//! | [`authz`] | who may do what |
//! | [`check`] | every invariant |
//! | [`history`] | what is kept of ended jobs |
//! | [`desired`] | what each node shall run |
//! | [`mirror`] | how records are kept on disk |

pub mod accounting;
pub mod apply;
pub mod authz;
pub mod check;
pub mod command;
pub mod dependency;
pub mod desired;
pub mod history;
pub mod id;
pub mod index_set;
pub mod job;
pub mod layout;
pub mod mirror;
pub mod node;
pub mod outcome;
pub mod partition;
pub mod reservation;
pub mod settings;
pub mod shared;
pub mod spec;
pub mod state;
pub mod step;
pub mod unit;
pub mod view;

pub use command::{Command, Entry};
pub use id::{AssocId, Attempt, Digest, JobId, NodeId, QosId, RequestId};
pub use index_set::IndexSet;
pub use outcome::{Outcome, Refusal};
pub use shared::Shared;
pub use state::State;
pub use unit::{MemoryMib, TimeLimit, TimeMs};
