//! The encoding of openraft's small types and of entries, on disk and on the wire.
//!
//! It is our own, so that an upgrade of openraft cannot change a byte on disk: two bytes (the format's version and the
//! record's kind), then a protobuf message. Fields are added, never changed. The golden bytes in the tests keep it so.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use bytes::Bytes;
use openraft::{BasicNode, EntryPayload};
use prost::Message;

use crate::types;

/// The version of the encoding below, and of the layout of the column families.
pub(crate) const FORMAT: u8 = 1;

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Vote = 1,
    LogId = 2,
    Membership = 3,
    Entry = 4,
    Identity = 5,
    Slot = 6,
    AppendRequest = 16,
    AppendResponse = 17,
    VoteRequest = 18,
    VoteResponse = 19,
    TransferRequest = 20,
    TransferResponse = 21,
    SnapshotRequest = 22,
    SnapshotMeta = 23,
    SnapshotRecords = 24,
    SnapshotEnd = 25,
    SnapshotResponse = 26,
}

/// Encodes a message behind its two bytes.
pub(crate) fn encode(kind: Kind, message: &impl Message) -> Vec<u8> {
    let mut out = Vec::with_capacity(2 + message.encoded_len());
    out.push(FORMAT);
    out.push(kind as u8);
    message.encode_raw(&mut out);
    out
}

/// Decodes what [`encode`] made.
pub(crate) fn decode<M: Message + Default>(kind: Kind, bytes: Bytes) -> io::Result<M> {
    let body = strip(kind, bytes)?;
    M::decode(body).map_err(|e| bad(format!("a {kind:?} record cannot be decoded: {e}")))
}

/// The body of a record, after a check of its two bytes.
pub(crate) fn strip(kind: Kind, bytes: Bytes) -> io::Result<Bytes> {
    match (bytes.first(), bytes.get(1)) {
        (Some(&FORMAT), Some(&k)) if k == kind as u8 => Ok(bytes.slice(2..)),
        (Some(&FORMAT), Some(&k)) => Err(bad(format!("record of kind {k} where a {kind:?} record was expected"))),
        (Some(&version), Some(_)) => {
            Err(bad(format!("{kind:?} record of format {version}, this program reads format {FORMAT}")))
        }
        _ => Err(bad(format!("{kind:?} record of {} bytes is too short", bytes.len()))),
    }
}

/// An error about the content of stored or received bytes.
pub(crate) fn bad(detail: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, detail.into())
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Vote {
    #[prost(uint64, tag = "1")]
    pub term: u64,
    #[prost(uint64, tag = "2")]
    pub node_id: u64,
    #[prost(bool, tag = "3")]
    pub committed: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LogId {
    #[prost(uint64, tag = "1")]
    pub term: u64,
    #[prost(uint64, tag = "2")]
    pub node_id: u64,
    #[prost(uint64, tag = "3")]
    pub index: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct VoterSet {
    #[prost(uint64, repeated, tag = "1")]
    pub node_ids: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Membership {
    /// One set, or two while a change is under way.
    #[prost(message, repeated, tag = "1")]
    pub voters: Vec<VoterSet>,
    /// Every member's address, voters and learners.
    #[prost(btree_map = "uint64, string", tag = "2")]
    pub addrs: BTreeMap<u64, String>,
    /// The entry that brought this membership, if it is known.
    #[prost(message, optional, tag = "3")]
    pub log_id: Option<LogId>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Entry {
    #[prost(message, optional, tag = "1")]
    pub log_id: Option<LogId>,
    /// The application's bytes; with neither these nor a membership, the entry is a leader's blank one.
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub payload: Option<Bytes>,
    #[prost(message, optional, tag = "3")]
    pub membership: Option<Membership>,
}

/// Whose store this is.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Identity {
    #[prost(uint64, tag = "1")]
    pub node_id: u64,
    #[prost(string, tag = "2")]
    pub cluster: String,
}

/// Which of the two places holds the live mirror.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Slot {
    #[prost(uint32, tag = "1")]
    pub slot: u32,
}

impl From<&types::Vote> for Vote {
    fn from(vote: &types::Vote) -> Self {
        Self { term: vote.leader_id.term, node_id: vote.leader_id.node_id, committed: vote.committed }
    }
}

impl From<&Vote> for types::Vote {
    fn from(vote: &Vote) -> Self {
        if vote.committed { Self::new_committed(vote.term, vote.node_id) } else { Self::new(vote.term, vote.node_id) }
    }
}

impl From<&types::LogId> for LogId {
    fn from(id: &types::LogId) -> Self {
        Self { term: id.leader_id.term, node_id: id.leader_id.node_id, index: id.index }
    }
}

impl From<&LogId> for types::LogId {
    fn from(id: &LogId) -> Self {
        Self::new(types::LeaderId { term: id.term, node_id: id.node_id }, id.index)
    }
}

impl From<&types::Membership> for Membership {
    fn from(membership: &types::Membership) -> Self {
        let set = |ids: &BTreeSet<u64>| VoterSet { node_ids: ids.iter().copied().collect() };
        Self {
            voters: membership.get_joint_config().iter().map(set).collect(),
            addrs: membership.nodes().map(|(id, node)| (*id, node.addr.clone())).collect(),
            log_id: None,
        }
    }
}

impl TryFrom<&Membership> for types::Membership {
    type Error = io::Error;

    fn try_from(membership: &Membership) -> io::Result<Self> {
        let voters: Vec<BTreeSet<u64>> =
            membership.voters.iter().map(|set| set.node_ids.iter().copied().collect()).collect();
        let nodes: BTreeMap<u64, BasicNode> =
            membership.addrs.iter().map(|(id, addr)| (*id, BasicNode::new(addr.clone()))).collect();
        if voters.is_empty() && nodes.is_empty() {
            return Ok(Self::default());
        }
        Self::new(voters, nodes).map_err(|e| bad(format!("a stored membership is not valid: {e}")))
    }
}

impl From<&types::StoredMembership> for Membership {
    fn from(stored: &types::StoredMembership) -> Self {
        Self { log_id: stored.log_id().as_ref().map(LogId::from), ..Self::from(stored.membership()) }
    }
}

impl TryFrom<&Membership> for types::StoredMembership {
    type Error = io::Error;

    fn try_from(membership: &Membership) -> io::Result<Self> {
        Ok(Self::new(membership.log_id.as_ref().map(types::LogId::from), membership.try_into()?))
    }
}

impl From<&types::Entry> for Entry {
    fn from(entry: &types::Entry) -> Self {
        let (payload, membership) = match &entry.payload {
            EntryPayload::Blank => (None, None),
            EntryPayload::Normal(payload) => (Some(payload.0.clone()), None),
            EntryPayload::Membership(membership) => (None, Some(membership.into())),
        };
        Self { log_id: Some((&entry.log_id).into()), payload, membership }
    }
}

impl Entry {
    /// The entry in openraft's form.
    pub(crate) fn into_raft(self) -> io::Result<types::Entry> {
        let log_id = self.log_id.as_ref().ok_or_else(|| bad("an entry has no log id"))?.into();
        let payload = match (self.payload, &self.membership) {
            (None, None) => EntryPayload::Blank,
            (Some(payload), None) => EntryPayload::Normal(types::Payload(payload)),
            (None, Some(membership)) => EntryPayload::Membership(membership.try_into()?),
            (Some(_), Some(_)) => return Err(bad("an entry is both a membership and the application's")),
        };
        Ok(types::Entry { log_id, payload })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|b| format!("{b:02x}")).collect()
    }

    fn log_id(term: u64, node_id: u64, index: u64) -> types::LogId {
        types::LogId::new(types::LeaderId { term, node_id }, index)
    }

    fn membership() -> types::Membership {
        let nodes: BTreeMap<u64, BasicNode> = [(1, "a:1"), (2, "b:2"), (3, "c:3")]
            .into_iter()
            .map(|(id, addr)| (id, BasicNode::new(addr.to_string())))
            .collect();
        types::Membership::new(vec![BTreeSet::from([1, 2])], nodes).unwrap()
    }

    /// The bytes that format 1 wrote. A change here makes every existing store unreadable.
    #[test]
    fn golden_bytes() {
        let vote = types::Vote::new_committed(7, 3);
        assert_eq!(hex(&encode(Kind::Vote, &Vote::from(&vote))), "01010807100318".to_string() + "01");
        assert_eq!(hex(&encode(Kind::LogId, &LogId::from(&log_id(7, 3, 300)))), "01020807100318ac02");
        let stored = types::StoredMembership::new(Some(log_id(1, 1, 0)), membership());
        assert_eq!(
            hex(&encode(Kind::Membership, &Membership::from(&stored))),
            "01030a040a020102120708011203613a3112070802120362".to_string() + "3a3212070803120363" + "3a331a0408011001"
        );
        let entry =
            types::Entry { log_id: log_id(2, 1, 9), payload: EntryPayload::Normal(types::Payload("job".into())) };
        assert_eq!(hex(&encode(Kind::Entry, &Entry::from(&entry))), "01040a06080210011809".to_string() + "12036a6f62");
        assert_eq!(hex(&encode(Kind::Slot, &Slot { slot: 2 })), "01060802");
        let identity = Identity { node_id: 1, cluster: "c".into() };
        assert_eq!(hex(&encode(Kind::Identity, &identity)), "01050801120163");
    }

    #[test]
    fn entries_come_back() {
        let payloads = [
            EntryPayload::Blank,
            EntryPayload::Normal(types::Payload(Bytes::new())),
            EntryPayload::Normal(types::Payload(vec![0, 1, 255].into())),
            EntryPayload::Membership(membership()),
        ];
        for payload in payloads {
            let entry = types::Entry { log_id: log_id(1, 2, 3), payload };
            let bytes = encode(Kind::Entry, &Entry::from(&entry));
            let back: Entry = decode(Kind::Entry, bytes.into()).unwrap();
            assert_eq!(back.into_raft().unwrap(), entry);
        }
    }

    #[test]
    fn wrong_records_are_refused() {
        let bytes = encode(Kind::Slot, &Slot { slot: 1 });
        let rows: [(Vec<u8>, &str); 5] = [
            (vec![], "too short"),
            (vec![1], "too short"),
            (vec![9, Kind::Slot as u8], "format 9"),
            (encode(Kind::Vote, &Vote::default()), "kind 1"),
            (vec![1, Kind::Slot as u8, 0xff], "cannot be decoded"),
        ];
        assert!(decode::<Slot>(Kind::Slot, bytes.into()).is_ok());
        for (bytes, words) in rows {
            let error = decode::<Slot>(Kind::Slot, bytes.into()).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn an_empty_membership_comes_back() {
        let empty = types::StoredMembership::default();
        assert_eq!(types::StoredMembership::try_from(&Membership::from(&empty)).unwrap(), empty);
    }
}
