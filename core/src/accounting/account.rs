//! Accounts: whom jobs are charged to.

use minicbor::{Decode, Encode};

/// An account. Its limits and shares are in its association.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Account {
    /// Its name, in lower case.
    #[n(0)]
    pub name: String,
    /// In words.
    #[cbor(n(1), default)]
    pub description: String,
    /// The organisation.
    #[cbor(n(2), default)]
    pub organization: String,
    /// The account above it; only root has none.
    #[n(3)]
    pub parent: Option<String>,
}
