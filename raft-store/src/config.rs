//! What a store is told at its start.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::OpenError;

/// The settings of one member. [`Config::new`] gives defaults that are right for a controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Where the store keeps its files. It is made if it is missing.
    pub dir: PathBuf,
    /// This member's number. A number is never used again for another member, nor for a member whose data was wiped:
    /// it would vote twice in one term.
    pub node_id: u64,
    /// The cluster's name: messages from another cluster are refused.
    pub cluster: String,
    /// How often a leader shows that it lives.
    pub heartbeat: Duration,
    /// The shortest wait for a leader before an election.
    pub election_min: Duration,
    /// The longest wait for a leader before an election.
    pub election_max: Duration,
    /// A snapshot is marked after so many entries. It costs next to nothing: the mirror on disk is the snapshot.
    pub snapshot_every_entries: u64,
    /// So many entries that a snapshot covers are kept, for followers that lag. At 100,000 entries a second and a
    /// transfer of a few seconds, openraft's default of 1,000 would start each transfer again from the beginning.
    pub keep_entries: u64,
    /// The log is purged in steps of at least so many entries: each step leaves a range tombstone, and many small ones
    /// make every seek slow.
    pub purge_step_entries: u64,
    /// The log is cut earlier when its entries weigh more than this.
    pub keep_log_mib: u64,
    /// A follower that is so many entries behind gets a snapshot instead of entries.
    pub lag_entries: u64,
    /// The largest entry that is taken, in bytes.
    pub max_entry_bytes: usize,
    /// The largest message to a peer, in bytes (gRPC's default limit is 4 MiB).
    pub max_message_bytes: usize,
    /// Writes are refused while less than this is free on the disk of `dir`. RocksDB needs room for flushes and
    /// compactions besides the log.
    pub min_free_mib: u64,
    /// The memory for entries that were written a moment ago, which followers and `apply` read.
    pub cache_mib: usize,
    /// The memory of RocksDB's write buffers.
    pub write_buffer_mib: usize,
    /// How long [`crate::Store::open`] waits, with a single member, for the end of the log's replay.
    pub open_wait: Duration,
    /// What to do with a log whose middle is damaged.
    pub on_damage: OnDamage,
}

/// What to do when a record in the middle of the write-ahead log is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnDamage {
    /// Refuse to open: acknowledged entries would be lost. The default.
    #[default]
    Refuse,
    /// Cut the log before the damage. Only for an operator who has no backup and accepts the loss.
    CutAndLose,
}

impl Config {
    /// Settings for member `node_id` in `dir`, with the defaults.
    pub fn new(dir: impl Into<PathBuf>, node_id: u64) -> Self {
        Self {
            dir: dir.into(),
            node_id,
            cluster: "gpunion".into(),
            heartbeat: Duration::from_millis(100),
            election_min: Duration::from_millis(400),
            election_max: Duration::from_millis(800),
            snapshot_every_entries: 200_000,
            keep_entries: 400_000,
            purge_step_entries: 100_000,
            keep_log_mib: 1024,
            lag_entries: 1_000_000,
            max_entry_bytes: 2 << 20,
            max_message_bytes: 3 << 20,
            min_free_mib: 256,
            cache_mib: 32,
            write_buffer_mib: 64,
            open_wait: Duration::from_secs(30),
            on_damage: OnDamage::Refuse,
        }
    }

    /// The same settings in openraft's words.
    pub(crate) fn raft(&self) -> Result<openraft::Config, OpenError> {
        if self.max_entry_bytes >= self.max_message_bytes {
            return Err(OpenError::Config("max_entry_bytes must be below max_message_bytes".into()));
        }
        let election_max = ms(self.election_max);
        let config = openraft::Config {
            cluster_name: self.cluster.clone(),
            heartbeat_interval: ms(self.heartbeat),
            election_timeout_min: ms(self.election_min),
            election_timeout_max: election_max,
            snapshot_policy: openraft::SnapshotPolicy::LogsSinceLast(self.snapshot_every_entries),
            max_in_snapshot_log_to_keep: self.keep_entries,
            purge_batch_size: self.purge_step_entries,
            replication_lag_threshold: self.lag_entries,
            max_payload_entries: 4096,
            // The transport's own time limit for a snapshot; the stream also has one for silence.
            install_snapshot_timeout: 600_000,
            // Off by default in openraft: without them a member that comes back from a partition disturbs a healthy
            // leader, and a leader without a majority keeps its followers from electing another.
            enable_pre_vote: Some(true),
            quorum_loss_probe_interval: Some(2 * election_max),
            // A restarted leader stands for election again (at once, if it is alone): the mirror's last writes are not
            // synced, so after a power cut it may be behind what it had already answered.
            enable_leader_restore: Some(false),
            ..openraft::Config::default()
        };
        config.validate().map_err(|e| OpenError::Config(e.to_string()))
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timings_are_checked() {
        assert!(Config::new("/x", 1).raft().is_ok());
        let mut config = Config::new("/x", 1);
        config.election_min = Duration::from_millis(50);
        assert!(matches!(config.raft(), Err(OpenError::Config(_))));
        let mut config = Config::new("/x", 1);
        config.max_entry_bytes = config.max_message_bytes;
        assert!(matches!(config.raft(), Err(OpenError::Config(_))));
    }
}
