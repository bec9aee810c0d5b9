//! Users as accounting knows them: by name, since accounts may be set up before a machine knows the person.

use minicbor::{Decode, Encode};

/// What a user may do beyond own jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Encode, Decode)]
#[cbor(index_only)]
pub enum AdminLevel {
    /// Nothing.
    #[n(0)]
    #[default]
    None,
    /// Act on others' jobs and change accounting.
    #[n(1)]
    Operator,
    /// Everything.
    #[n(2)]
    Administrator,
}

/// A user.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct User {
    /// The name, in lower case.
    #[n(0)]
    pub name: String,
    /// The number, where the controller's machine knows the user.
    #[n(1)]
    pub uid: Option<u32>,
    /// Charged where a job names no account.
    #[n(2)]
    pub default_account: Option<String>,
    /// Rights.
    #[cbor(n(3), default)]
    pub admin: AdminLevel,
    /// Accounts that the user coordinates, in order; those below them too.
    #[cbor(n(4), default, skip_if = "Vec::is_empty")]
    pub coordinates: Vec<String>,
    /// Workload key where a job names none.
    #[n(5)]
    pub default_wckey: Option<String>,
}
