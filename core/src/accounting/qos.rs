//! Qualities of service.

use minicbor::{Decode, Encode};

use super::limit::Limits;
use crate::id::QosId;

/// What happens to a job that gives way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(index_only)]
pub enum PreemptMode {
    /// As the cluster says.
    #[n(0)]
    #[default]
    Cluster,
    /// Nothing: it does not give way.
    #[n(1)]
    Off,
    /// It is cancelled.
    #[n(2)]
    Cancel,
    /// It is requeued.
    #[n(3)]
    Requeue,
    /// It is suspended.
    #[n(4)]
    Suspend,
    /// It takes turns.
    #[n(5)]
    Gang,
    /// It may give way to jobs of the same quality of service.
    #[n(6)]
    Within,
}

/// Flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(index_only)]
pub enum QosFlag {
    /// Jobs over a limit are refused at submission.
    #[n(0)]
    DenyOnLimit,
    /// Jobs below the usage threshold wait.
    #[n(1)]
    EnforceUsageThreshold,
    /// No room is kept for its jobs.
    #[n(2)]
    NoReserve,
    /// Stands above the partition's most nodes.
    #[n(3)]
    PartitionMaxNodes,
    /// Stands above the partition's fewest nodes.
    #[n(4)]
    PartitionMinNodes,
    /// Stands above the partition's quality of service.
    #[n(5)]
    OverPartQos,
    /// Stands above the partition's time limit.
    #[n(6)]
    PartitionTimeLimit,
    /// Jobs must name a reservation.
    #[n(7)]
    RequiresReservation,
    /// Its usage never fades.
    #[n(8)]
    NoDecay,
    /// Its limits are in percent of the cluster.
    #[n(9)]
    Relative,
    /// The usage factor counts at submission too.
    #[n(10)]
    UsageFactorSafe,
}

/// A quality of service.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Qos {
    /// Its number.
    #[n(0)]
    pub id: QosId,
    /// Its name, in lower case.
    #[n(1)]
    pub name: String,
    /// In words.
    #[cbor(n(2), default)]
    pub description: String,
    /// Weight in the priority of its jobs.
    #[cbor(n(3), default)]
    pub priority: u32,
    /// Time that a job gets to end when it gives way, in seconds.
    #[cbor(n(4), default)]
    pub grace_s: u32,
    /// Those whose jobs give way to its own.
    #[cbor(n(5), default, skip_if = "Vec::is_empty")]
    pub preempt: Vec<QosId>,
    /// How its jobs give way.
    #[cbor(n(6), default)]
    pub preempt_mode: PreemptMode,
    /// Its jobs don't give way before this time, in seconds.
    #[n(7)]
    pub preempt_exempt_s: Option<u32>,
    /// Flags, in order.
    #[cbor(n(8), default, skip_if = "Vec::is_empty")]
    pub flags: Vec<QosFlag>,
    /// Usage counts so many times, in millionths.
    #[cbor(n(9), default)]
    pub usage_factor_millionths: u64,
    /// Lowest share at which jobs are taken, in millionths.
    #[n(10)]
    pub usage_threshold_millionths: Option<u64>,
    /// Limits.
    #[cbor(n(11), default, skip_if = "Limits::is_empty")]
    pub limits: Limits,
}

impl Qos {
    /// One that limits nothing.
    pub fn new(id: QosId, name: &str) -> Self {
        Self {
            id,
            name: name.to_owned(),
            description: name.to_owned(),
            priority: 0,
            grace_s: 0,
            preempt: Vec::new(),
            preempt_mode: PreemptMode::Cluster,
            preempt_exempt_s: None,
            flags: Vec::new(),
            usage_factor_millionths: 1_000_000,
            usage_threshold_millionths: None,
            limits: Limits::default(),
        }
    }

    /// True if the flag is set.
    pub fn has(&self, flag: QosFlag) -> bool {
        self.flags.contains(&flag)
    }
}
