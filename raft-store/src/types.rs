//! openraft's types as this crate fills them in. They stay inside: nothing here is public.

use std::any::Any;
use std::fmt;

use bytes::Bytes;

/// The bytes of one entry.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Payload(pub Bytes);

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// The application's answer; empty for entries that are not the application's.
#[derive(Default)]
pub struct Reply(pub Option<Box<dyn Any + Send + Sync>>);

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "reply" } else { "no reply" })
    }
}

#[allow(deprecated, missing_docs, reason = "the macro names openraft's own alias of its tokio runtime")]
mod declared {
    openraft::declare_raft_types!(
        pub TypeConfig:
            D = super::Payload,
            R = super::Reply,
            NodeId = u64,
            Node = openraft::BasicNode,
    );
}

pub(crate) use declared::TypeConfig;

pub(crate) type C = TypeConfig;
pub(crate) type Vote = openraft::alias::VoteOf<C>;
pub(crate) type LogId = openraft::alias::LogIdOf<C>;
pub(crate) type LeaderId = openraft::alias::LeaderIdOf<C>;
pub(crate) type Entry = openraft::alias::EntryOf<C>;
pub(crate) type StoredMembership = openraft::alias::StoredMembershipOf<C>;
pub(crate) type Membership = openraft::Membership<u64, openraft::BasicNode>;
pub(crate) type SnapshotMeta = openraft::alias::SnapshotMetaOf<C>;
pub(crate) type Raft = openraft::Raft<C, crate::machine::Machine>;
