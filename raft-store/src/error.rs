//! What can go wrong, in words that say what to do next.

use std::path::PathBuf;

/// An error of the application, boxed: this crate does not know its type.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a store did not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory could not be made or listed.
    #[error("cannot use the state directory {path}: {source}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// Another process has the store open.
    #[error("the store {path} is open in another process: stop that one first (one controller per directory)")]
    InUse {
        /// The store's directory.
        path: PathBuf,
    },
    /// There is no room for what a start writes.
    #[error("the disk of the store {path} is full: free some space, then start again. Nothing is lost")]
    DiskFull {
        /// The store's directory.
        path: PathBuf,
    },
    /// The disk's format is newer (or older) than this program can read.
    #[error(
        "the store {path} has format {found}, this program reads format {supported}: start the version that wrote it, \
         or move the data with that version's export"
    )]
    Format {
        /// The store's directory.
        path: PathBuf,
        /// The version found on disk.
        found: u64,
        /// The version that this program reads and writes.
        supported: u64,
    },
    /// The directory belongs to another member of the cluster, or to another cluster.
    #[error(
        "the store {path} belongs to {found}, not to {expected}: check the directory and the node id in the configuration"
    )]
    Identity {
        /// The store's directory.
        path: PathBuf,
        /// Whose it is.
        found: String,
        /// Who asked.
        expected: String,
    },
    /// A file is damaged or missing. What was acknowledged may be lost, so nothing is served from the rest.
    #[error(
        "the store {path} is damaged: {detail}. It is not used. Restore the directory from a backup; or, if this is \
         one of several members, remove the member, empty the directory and join again under a new node id"
    )]
    Damaged {
        /// The store's directory.
        path: PathBuf,
        /// What is wrong, and where.
        detail: String,
    },
    /// The database refused for another reason.
    #[error("cannot open the store {path}: {detail}")]
    Database {
        /// The store's directory.
        path: PathBuf,
        /// The database's own words.
        detail: String,
    },
    /// The configuration contradicts itself.
    #[error("the Raft timings or sizes are not usable: {0}")]
    Config(String),
    /// The application could not rebuild its state from the mirror.
    #[error("cannot rebuild the state from the store: {0}")]
    Load(#[source] BoxError),
    /// Raft did not start.
    #[error("Raft did not start: {0}")]
    Raft(String),
}

/// Why a proposal was not acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// This member does not lead: send the proposal to `leader`, or retry in a moment if there is none yet.
    #[error("this member is not the leader{}", leader.as_ref().map(|l| format!(", {} at {} is", l.node_id, l.addr)).unwrap_or_else(|| ": there is none at present, retry".into()))]
    NotLeader {
        /// The leader, if one is known.
        leader: Option<crate::Member>,
    },
    /// The disk of the store is full. Nothing that was acknowledged is lost; service returns when there is room.
    #[error(
        "the disk of the state directory is full ({free_mib} MiB free, {needed_mib} MiB needed): free some space, the \
         controller goes on by itself{}", if *maybe_applied { "; this request may have been taken: retry it with the same request id" } else { "" }
    )]
    DiskFull {
        /// What is free now, in MiB.
        free_mib: u64,
        /// What must be free before writes are taken again, in MiB.
        needed_mib: u64,
        /// True if the entry was already on its way: it may still be applied when there is room.
        maybe_applied: bool,
    },
    /// Leadership was lost with the entry under way: it may or may not be applied. A retry must carry the same request id.
    #[error(
        "leadership changed while the request was under way: it may or may not be taken, retry it with the same request id"
    )]
    Uncertain {
        /// The new leader, if one is known.
        leader: Option<crate::Member>,
    },
    /// The entry is larger than [`crate::Config::max_entry_bytes`].
    #[error("the entry has {bytes} bytes, at most {max} are taken: store large data as a blob")]
    TooLarge {
        /// Its size in bytes.
        bytes: usize,
        /// The limit in bytes.
        max: usize,
    },
    /// The storage failed; this member takes no more part until it is restarted.
    #[error("the storage of this member failed, it must be restarted: {0}")]
    Storage(String),
    /// The store is shut down.
    #[error("the controller is shutting down")]
    Shutdown,
}

/// Why a linearizable read cannot be served here and now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// This member does not lead: ask `leader`, or retry if there is none yet.
    #[error("this member is not the leader{}", leader.as_ref().map(|l| format!(", {} at {} is", l.node_id, l.addr)).unwrap_or_else(|| ": there is none at present, retry".into()))]
    NotLeader {
        /// The leader, if one is known.
        leader: Option<crate::Member>,
    },
    /// A majority did not answer.
    #[error("no majority of the controllers answers: retry, or read stale data")]
    NoQuorum,
    /// The read waited too long for the state to catch up.
    #[error("the state did not catch up in {0} ms: retry, or read stale data")]
    Timeout(u64),
    /// The storage failed; see [`ProposeError::Storage`].
    #[error("the storage of this member failed, it must be restarted: {0}")]
    Storage(String),
    /// The store is shut down.
    #[error("the controller is shutting down")]
    Shutdown,
}

/// Why the membership was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MemberError {
    /// This member does not lead.
    #[error("this member is not the leader{}", leader.as_ref().map(|l| format!(", {} at {} is", l.node_id, l.addr)).unwrap_or_else(|| ": there is none at present, retry".into()))]
    NotLeader {
        /// The leader, if one is known.
        leader: Option<crate::Member>,
    },
    /// The store already has members.
    #[error("the store already has members: add to them instead of initialising again")]
    AlreadyInitialized,
    /// Refused by Raft, in its own words (for example: another change is under way).
    #[error("the membership change was refused: {0}")]
    Refused(String),
    /// The storage failed or the store is shut down.
    #[error("this member takes no part any more: {0}")]
    Stopped(String),
}

/// Why a message from a peer was not served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServeError {
    /// The message is meant for another member or another cluster, or cannot be read.
    #[error("the message is not for this member: {0}")]
    Misdirected(String),
    /// Another snapshot is being received.
    #[error("another snapshot is being received, retry later")]
    Busy,
    /// The stream of a snapshot broke or its content is damaged.
    #[error("the snapshot could not be received: {0}")]
    Snapshot(String),
    /// The storage failed or the store is shut down.
    #[error("this member takes no part any more: {0}")]
    Stopped(String),
}

/// Why the mirror could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot read the store: {0}")]
pub struct MirrorError(pub String);
