//! Accounts, users, associations and qualities of service: who is charged for a job, and which limits hold for it.
//!
//! An association is the place of a user in an account, perhaps for one partition only; each account has one of its own, without
//! a user. Limits that an association does not say come from its account, then from that one's parent.
//!
//! | module | noun |
//! | --- | --- |
//! | [`account`], [`user`], [`association`], [`qos`] | the records |
//! | [`limit`] | what can be limited, and to how much |
//! | [`book`] | all records together, and how they are found |
//! | [`change`], `apply` | what may change them, and how |
//! | [`usage`] | what jobs use, counted as they come and go |
//! | [`policy`] | what of it keeps a job from being taken or started |

pub mod account;
mod apply;
pub mod association;
pub mod book;
pub mod change;
pub mod limit;
pub mod policy;
pub mod qos;
pub mod usage;
pub mod user;

pub use account::Account;
pub use association::{Association, Fairshare, QosList};
pub use book::Book;
pub use change::{Change, Edit, QosChange, QosListChange, RuleChange};
pub use limit::{Limit, Limits, Rule, Tres, TresClass};
pub use policy::Policy;
pub use qos::{PreemptMode, Qos, QosFlag};
pub use usage::{Charge, Holder, Used};
pub use user::{AdminLevel, User};

/// The account above all others; it and its user are there from the start.
pub const ROOT: &str = "root";
/// The quality of service that is there from the start.
pub const NORMAL: &str = "normal";
