//! Settings of the cluster that `apply` needs; proposed from the configuration file by the leader.

use minicbor::{Decode, Encode};

use crate::{Digest, MemoryMib};

/// Settings. Fields are only ever added, each with a new number.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Settings {
    /// The cluster's name.
    #[n(0)]
    pub cluster_name: String,
    /// The first job's number.
    #[n(1)]
    pub first_job_id: u32,
    /// Job numbers end here.
    #[n(2)]
    pub max_job_id: u32,
    /// Most jobs at a time.
    #[n(3)]
    pub max_job_count: u32,
    /// One more than the highest task number of an array, and the most tasks of one.
    #[n(4)]
    pub max_array_size: u32,
    /// How long an ended job stays in the queue's records, in seconds.
    #[n(5)]
    pub min_job_age_s: u64,
    /// Between SIGTERM and SIGKILL, in seconds.
    #[n(6)]
    pub kill_wait_s: u64,
    /// A node without contact for this long is down, in seconds.
    #[n(7)]
    pub node_down_s: u64,
    /// Memory for each CPU of a job that names none; the whole node's if not given.
    #[n(8)]
    pub def_mem_per_cpu: Option<MemoryMib>,
    /// How long request ids are remembered, in seconds.
    #[n(9)]
    pub request_memory_s: u64,
    /// Users, besides root, who may do everything.
    #[cbor(n(10), default)]
    pub operators: Vec<u32>,
    /// Runs lost in a row to faults of ours before a job is given up.
    #[n(11)]
    pub launch_faults_max: u32,
    /// Digest of the configuration that was last proposed: partitions that a command changed stay changed over a restart, until
    /// the file itself changes.
    #[n(12)]
    pub config_digest: Option<Digest>,
    /// Records of ended jobs are kept for so many days; for ever if not given.
    #[n(40)]
    pub history_days: Option<u32>,
    /// Licences, in the order of names.
    #[cbor(n(13), default, skip_if = "Vec::is_empty")]
    pub licenses: Vec<License>,
    /// What of accounting is enforced once there are accounts.
    #[cbor(n(41), default, skip_if = "Enforce::is_none")]
    pub enforce: Enforce,
}

/// What of accounting is enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(map)]
pub struct Enforce {
    /// Jobs need an association.
    #[cbor(n(0), default)]
    pub associations: bool,
    /// Limits hold.
    #[cbor(n(1), default)]
    pub limits: bool,
    /// Jobs need a quality of service that their association has.
    #[cbor(n(2), default)]
    pub qos: bool,
}

impl Enforce {
    /// True if nothing is enforced.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// A licence that jobs share.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct License {
    /// Its name.
    #[n(0)]
    pub name: String,
    /// How many there are.
    #[n(1)]
    pub total: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            cluster_name: "gpunion".to_owned(),
            first_job_id: 1,
            max_job_id: 0x03ff_0000,
            max_job_count: 1_000_000,
            max_array_size: 1_000_001,
            min_job_age_s: 300,
            kill_wait_s: 30,
            node_down_s: 300,
            def_mem_per_cpu: None,
            request_memory_s: 3600,
            operators: Vec::new(),
            launch_faults_max: 3,
            config_digest: None,
            history_days: None,
            licenses: Vec::new(),
            enforce: Enforce::default(),
        }
    }
}
