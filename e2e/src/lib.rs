//! End-to-end tests: real daemons, real commands, real containers, killed at every moment.
//!
//! [`Controller`] is a controller alone, for what concerns the log; [`Cluster`] is what `gpun up` makes. Both live in a folder
//! of their own and stop what they started, by pid. The daemons are the ones in the target folder: `cargo xtask test` builds
//! them first, and so does `cargo build --workspace`.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test's way to fail.

mod cluster;
mod controller;
mod leftovers;

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

pub use cluster::{Cluster, Ran, User};
pub use controller::{Controller, submit};
pub use leftovers::Leftovers;

/// A program of ours, in the target folder of this test.
pub fn program(name: &str) -> PathBuf {
    let mut dir = std::env::current_exe().expect("this test has a path");
    dir.pop();
    if dir.ends_with("deps") {
        dir.pop();
    }
    let path = dir.join(name);
    assert!(
        path.exists(),
        "{} is not built: run `cargo xtask test`, or `cargo build --workspace` first",
        path.display()
    );
    path
}

/// Waits until `done` gives a value.
///
/// # Panics
/// It did not for `longest`.
pub fn wait_for<T>(what: &str, longest: Duration, mut done: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = done() {
            return value;
        }
        assert!(start.elapsed() < longest, "{what}: not after {} s", longest.as_secs());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// How many rounds of a long proof: `short` in the tests, `GPUN_SOAK_ROUNDS` or `long` in the soak.
pub fn rounds(short: usize, long: usize) -> usize {
    if std::env::var_os("GPUN_SOAK").is_none() {
        return short;
    }
    std::env::var("GPUN_SOAK_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(long)
}
