//! Ids as types, so that a job's number can't stand where a node's belongs.

use std::fmt;

use minicbor::{Decode, Encode};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode)]
        #[cbor(transparent)]
        pub struct $name(#[n(0)] pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(
    /// A job's number, counted up from [`crate::settings::Settings::first_job_id`]; never given twice.
    JobId(u32)
);
id!(
    /// Which run of a job this is, counted from 1; 0 before the first placement. Every launch and report carries it, and a
    /// report of an older attempt is refused.
    Attempt(u32)
);
id!(
    /// A node's number, given at its first registration and never reused.
    NodeId(u32)
);

id!(
    /// An association's number; never given twice.
    AssocId(u32)
);
id!(
    /// A quality of service's number; never given twice.
    QosId(u32)
);

impl AssocId {
    /// The key in ordered byte stores: big-endian, so that byte order is number order.
    pub fn key(self) -> [u8; 4] {
        self.0.to_be_bytes()
    }
}

impl QosId {
    /// The key in ordered byte stores: big-endian, so that byte order is number order.
    pub fn key(self) -> [u8; 4] {
        self.0.to_be_bytes()
    }
}

impl JobId {
    /// The key in ordered byte stores: big-endian, so that byte order is number order.
    pub fn key(self) -> [u8; 4] {
        self.0.to_be_bytes()
    }
}

impl NodeId {
    /// The key in ordered byte stores: big-endian, so that byte order is number order.
    pub fn key(self) -> [u8; 4] {
        self.0.to_be_bytes()
    }
}

/// Made by the client for each submission: the same id gives the same job for an hour, however often it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct RequestId(#[cbor(n(0), with = "minicbor::bytes")] pub [u8; 16]);

/// BLAKE3 digest of a blob (a script or an environment). Equal blobs are kept once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct Digest(#[cbor(n(0), with = "minicbor::bytes")] pub [u8; 32]);

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
