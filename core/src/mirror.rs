//! How the state's records are kept on disk: tables of keys and values. Who writes them stands outside.

use minicbor::{Decode, Encode};

use crate::{JobId, NodeId, RequestId, TimeMs};

/// Tables of the mirror. Numbers are part of the disk format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Table {
    /// One record: [`Meta`].
    Meta = 0,
    /// Settings; one record.
    Settings = 1,
    /// Jobs by number.
    Job = 2,
    /// Nodes by number.
    Node = 3,
    /// Partitions by name.
    Partition = 4,
    /// Blobs by digest.
    Blob = 5,
    /// Request ids.
    Request = 6,
    /// Reservations by name.
    Reservation = 8,
    /// Records of array tasks by the array's number; nothing in the values.
    RecordByArray = 15,
    /// Ended attempts of jobs: see [`crate::history::RecordKey`]. 7 was once something else.
    Record = 16,
    /// Records by end time.
    RecordByTime = 17,
    /// Records by user and end time.
    RecordByUser = 18,
    /// Records by the digests of their scripts and environments; nothing in the values.
    RecordBlob = 19,
    /// Accounts by name.
    Account = 20,
    /// Users by name.
    User = 21,
    /// Associations by number.
    Association = 22,
    /// Qualities of service by number.
    Qos = 23,
    /// One record: the next numbers of accounting.
    AccountingCounters = 24,
    /// Steps of running jobs by job and number.
    Step = 25,
}

impl Table {
    /// All tables that [`crate::State`] is loaded from. Blobs' bytes and the history stay on disk.
    pub const LOADED: [Self; 13] = [
        Self::Meta,
        Self::Settings,
        Self::Job,
        Self::Node,
        Self::Partition,
        Self::Request,
        Self::Reservation,
        Self::Account,
        Self::User,
        Self::Association,
        Self::Qos,
        Self::AccountingCounters,
        Self::Step,
    ];
}

/// Takes the changes of records that applying an entry made.
pub trait MirrorSink {
    /// The record is now `value`.
    fn put(&mut self, table: Table, key: &[u8], value: Vec<u8>);
    /// The record is gone.
    fn delete(&mut self, table: Table, key: &[u8]);
}

/// Counters and the state's own time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(map)]
pub struct Meta {
    /// The next job's number.
    #[n(0)]
    pub next_job: JobId,
    /// The next node's number.
    #[n(1)]
    pub next_node: NodeId,
    /// The latest stamp.
    #[n(2)]
    pub now: TimeMs,
}

/// A remembered request id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct RequestRecord {
    /// Its job.
    #[n(0)]
    pub job: JobId,
    /// When it is forgotten.
    #[n(1)]
    pub forget: TimeMs,
}

/// The key of the one record in a table of one.
pub const SINGLE: &[u8] = b"";

/// The key of a request id.
pub fn request_key(request: RequestId) -> [u8; 16] {
    request.0
}

/// Encodes a record. Encoding into a vector can't fail.
pub fn encode<T: Encode<()>>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(256);
    #[expect(
        clippy::unwrap_used,
        reason = "the error type of writing to a Vec is Infallible and our impls raise none"
    )]
    minicbor::encode(value, &mut bytes).unwrap();
    bytes
}

/// Decodes a record.
pub fn decode<T: for<'b> Decode<'b, ()>>(bytes: &[u8]) -> Result<T, minicbor::decode::Error> {
    minicbor::decode(bytes)
}
