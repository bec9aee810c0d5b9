//! openraft over RocksDB: log, vote, mirrored state and snapshots, generic over what is applied.
//!
//! An application implements [`Apply`]: it gives the entries of the log their meaning. [`Store::propose`] returns when
//! an entry is on the disks of a majority and applied. The application's records are mirrored into the same database
//! with the index of the last applied entry, in one write: a restart loads the mirror and replays the rest of the log.
//!
//! No type of openraft or RocksDB is in this crate's interface.
//!
//! | file | what |
//! | --- | --- |
//! | `handle` | [`Store`]: open, propose, read, members, shutdown |
//! | `serve` | the receiving side of a [`Transport`] |
//! | `apply`, `mirror` | what the application implements and what it is given |
//! | `log`, `writer` | openraft's log storage; the thread that syncs |
//! | `machine`, `snapshot` | openraft's state machine; snapshots out and in |
//! | `network` | openraft's network over a [`Transport`] |
//! | `db`, `wal`, `marks`, `space` | the database, how its files are checked, how a full disk is met |
//! | `codec`, `types` | the encoding on disk and on the wire; openraft's types, filled in |
//!
//! # Where openraft needs care
//!
//! | trap | here |
//! | --- | --- |
//! | success before fsync; vote and entries reordered | one queue, one write-ahead log, callbacks after the sync (`writer`) |
//! | one fsync an entry | all that waits goes into one synced write (`writer`) |
//! | a snapshot builder that stalls `apply` | the mirror is the snapshot; readers use a RocksDB snapshot (`snapshot`) |
//! | a snapshot half installed | written beside the live mirror, switched in one write (`snapshot`, `db`) |
//! | the log purged under a follower's transfer; tombstones | thresholds of 10⁵ entries, purges in big steps, bounded seeks (`config`, `log`) |
//! | a restarted leader that answers from an older state | it stands for election again; alone, it replays before `open` returns (`config`, `handle`) |
//! | no pre-vote, no check quorum by default; pre-vote granted by default | both on, pre-vote carried (`config`, `network`) |
//! | timeouts too tight for slow disks | heartbeats do not wait for the disk (`writer`), 400 to 800 ms (`config`) |
//! | membership changes in parallel, ids used again | one at a time, waits for the lease (`handle`); ids: [`Config::node_id`] |
//! | messages larger than the transport takes | cut by bytes, the rest follows (`network`) |
//! | metrics held over an await block the core | copied out in a block (`handle`) |
//! | any storage error is the end | a full disk is waited out (`db`, `machine`), others are the end ([`Status::failed`]) |
//! | messages to the wrong member | each names cluster and member (`serve`) |
//! | an upgrade that changes the format | our own encoding, golden bytes in the tests (`codec`) |

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by a panic"))]

mod apply;
mod codec;
mod config;
mod db;
mod error;
mod handle;
mod log;
mod machine;
mod marks;
mod mirror;
mod network;
mod serve;
mod snapshot;
mod space;
#[cfg(test)]
mod suite;
#[cfg(test)]
mod tests;
mod types;
mod wal;
mod writer;

pub use apply::{Apply, Published};
pub use bytes::Bytes;
pub use config::{Config, OnDamage};
pub use error::{BoxError, MemberError, MirrorError, OpenError, ProposeError, ReadError, ServeError};
pub use handle::{MemberStatus, Role, Status, Store};
pub use mirror::{Change, MemMirror, MirrorBatch, MirrorRead, Table};
pub use network::{Lane, Member, NoTransport, Transport, TransportError, TransportFuture};
pub use snapshot::{SnapshotSender, SnapshotStream};
