//! Associations: a user in an account.

use minicbor::{Decode, Encode};

use super::limit::Limits;
use crate::id::{AssocId, QosId};

/// The share of an association among its siblings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Fairshare {
    /// So many.
    #[n(0)]
    Shares(#[n(0)] u32),
    /// What the account has, shared by all of its users.
    #[n(1)]
    Parent,
}

impl Default for Fairshare {
    fn default() -> Self {
        Self::Shares(1)
    }
}

/// Which qualities of service may be used: those of the account above, changed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(map)]
pub struct QosList {
    /// Instead of the account's.
    #[n(0)]
    pub exactly: Option<Vec<QosId>>,
    /// Besides the account's.
    #[cbor(n(1), default, skip_if = "Vec::is_empty")]
    pub added: Vec<QosId>,
    /// The account's without these.
    #[cbor(n(2), default, skip_if = "Vec::is_empty")]
    pub removed: Vec<QosId>,
}

impl QosList {
    /// The list, in order, where the account above has `above`.
    pub fn over(&self, above: &[QosId]) -> Vec<QosId> {
        let mut list = self.exactly.clone().unwrap_or_else(|| above.to_vec());
        list.extend(&self.added);
        list.retain(|qos| !self.removed.contains(qos));
        list.sort_unstable();
        list.dedup();
        list
    }

    /// Takes a quality of service out for good.
    pub fn forget(&mut self, gone: QosId) {
        for list in [self.exactly.as_mut(), Some(&mut self.added), Some(&mut self.removed)].into_iter().flatten() {
            list.retain(|qos| *qos != gone);
        }
    }
}

/// A user in an account, perhaps in one partition only; without a user, the account itself.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Association {
    /// Its number.
    #[n(0)]
    pub id: AssocId,
    /// The account.
    #[n(1)]
    pub account: String,
    /// The user.
    #[n(2)]
    pub user: Option<String>,
    /// The partition.
    #[n(3)]
    pub partition: Option<String>,
    /// Shares.
    #[cbor(n(4), default)]
    pub fairshare: Fairshare,
    /// Weight in the priority of its jobs.
    #[n(5)]
    pub priority: Option<u32>,
    /// Limits of its own.
    #[cbor(n(6), default, skip_if = "Limits::is_empty")]
    pub limits: Limits,
    /// Qualities of service.
    #[cbor(n(7), default)]
    pub qos: QosList,
    /// Quality of service of jobs that name none.
    #[n(8)]
    pub default_qos: Option<QosId>,
}
