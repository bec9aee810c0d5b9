//! `sacctmgr` as text: its command lines, what each changes, and what is printed. Pure: the records come in as a [`Book`], and
//! changes go out, so that what a command would do is known before anybody is asked.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`words`] | command lines cut into verbs, entities and `name=value` words |
//! | [`limit`] | names of limits and of resources, read and shown |
//! | [`settings`] | what can be said of associations and qualities of service |
//! | [`table`] | columns, widths, `format=` |
//! | [`show`], [`columns`] | `show` and `list` |
//! | [`add`], [`modify`], [`delete`] | what their names say |
//! | [`dump`], [`load`] | all records as a file |

pub mod add;
pub mod columns;
pub mod delete;
pub mod dump;
pub mod limit;
pub mod load;
pub mod modify;
pub mod settings;
pub mod show;
pub mod table;
pub mod words;

use gpun_core::accounting::{Book, Change};

/// The records, with what the command has to know besides.
#[derive(Debug, Clone, Default)]
pub struct World {
    /// The records.
    pub book: Book,
    /// The cluster's name.
    pub cluster: String,
    /// The caller may change everything.
    pub is_operator: bool,
    /// The caller's name.
    pub caller: String,
    /// Generic resources that nodes have.
    pub gres: Vec<String>,
    /// Associations with jobs that have not ended.
    pub active: Vec<gpun_core::AssocId>,
}

impl World {
    /// True if the caller coordinates an account.
    pub fn is_coordinator(&self) -> bool {
        self.book.user(&self.caller).is_some_and(|user| !user.coordinates.is_empty())
    }
}

/// A change that is ready to be made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proposal {
    /// For standard output, before anybody is asked; `-Q` leaves it out.
    pub text: String,
    /// What is to be done.
    pub changes: Vec<Change>,
    /// Said before a refusal of the controller, such as ` Problem adding QOS: `.
    pub trouble: &'static str,
}

/// What ends a command without a change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stop {
    /// For standard output.
    pub out: String,
    /// For standard error.
    pub err: String,
    /// Exit status.
    pub status: u8,
}

impl Stop {
    /// With a text for standard output.
    pub fn out(text: impl Into<String>) -> Self {
        Self { out: text.into(), err: String::new(), status: 1 }
    }

    /// With a text for standard error.
    pub fn err(text: impl Into<String>) -> Self {
        Self { out: String::new(), err: text.into(), status: 1 }
    }
}

/// What is asked before a change is made.
pub const COMMIT_QUESTION: &str = "Would you like to commit changes? (You have 30 seconds to decide)\n(N/y): ";
/// How long an answer is waited for, in seconds.
pub const COMMIT_WAIT_S: u64 = 30;
/// What is said when it is not made.
pub const DISCARDED: &str = " Changes Discarded\n";

/// An association as changes print it.
pub(crate) fn association_line(cluster: &str, account: &str, user: Option<&str>) -> String {
    match user {
        None => format!("  C = {cluster:<10.10} A = {account:<20.20}\n"),
        Some(user) => format!("  C = {cluster:<10.10} A = {account:<20.20} U = {user:<9.9}\n"),
    }
}
