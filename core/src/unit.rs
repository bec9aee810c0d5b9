//! Units as types: a number says what it counts.

use std::fmt;

use minicbor::{Decode, Encode};

/// Milliseconds since 1970-01-01T00:00:00Z, as stamped into a log entry by the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode)]
#[cbor(transparent)]
pub struct TimeMs(#[n(0)] pub u64);

impl TimeMs {
    /// This moment plus whole seconds; stays at the end of time instead of wrapping.
    pub fn plus_s(self, seconds: u64) -> Self {
        Self(self.0.saturating_add(seconds.saturating_mul(1000)))
    }

    /// Whole seconds since 1970.
    pub fn as_s(self) -> u64 {
        self.0 / 1000
    }

    /// Whole seconds from `earlier` to this moment; 0 where `earlier` is later.
    pub fn since_s(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0) / 1000
    }

    /// The key in ordered byte stores.
    pub fn key(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }
}

/// An amount of memory in mebibytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode)]
#[cbor(transparent)]
pub struct MemoryMib(#[n(0)] pub u64);

impl fmt::Display for MemoryMib {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} MiB", self.0)
    }
}

/// How long a job may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub enum TimeLimit {
    /// At most this many seconds.
    #[n(0)]
    Seconds(#[n(0)] u64),
    /// No limit. The last variant, so that limits compare by length.
    #[n(1)]
    Infinite,
}

impl TimeLimit {
    /// Seconds, or `None` without a limit.
    pub fn seconds(self) -> Option<u64> {
        match self {
            Self::Seconds(seconds) => Some(seconds),
            Self::Infinite => None,
        }
    }

    /// When a run that began at `start` reaches this limit.
    pub fn end_after(self, start: TimeMs) -> Option<TimeMs> {
        self.seconds().map(|seconds| start.plus_s(seconds))
    }
}
