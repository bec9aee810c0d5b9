//! Is there room on the disk? Proposals are refused before the log needs what is not there.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// How old an answer of the file system may be.
const FRESH: Duration = Duration::from_millis(20);

/// Watches the free space of the store's disk.
#[derive(Debug)]
pub(crate) struct Space {
    dir: PathBuf,
    min_free: u64,
    started: Instant,
    checked_ms: AtomicU64,
    free: AtomicU64,
    /// A write has failed for lack of room and has not succeeded since.
    stuck: AtomicBool,
    full: watch::Sender<bool>,
}

impl Space {
    /// Watches the disk of `dir`; it counts as full with less than `min_free` bytes free.
    pub(crate) fn new(dir: &Path, min_free: u64) -> Self {
        let space = Self {
            dir: dir.to_owned(),
            min_free,
            started: Instant::now(),
            checked_ms: AtomicU64::new(0),
            free: AtomicU64::new(u64::MAX),
            stuck: AtomicBool::new(false),
            full: watch::Sender::new(false),
        };
        space.look();
        space
    }

    /// True if the disk is full, as of a moment ago.
    pub(crate) fn is_full(&self) -> bool {
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        if now.saturating_sub(self.checked_ms.load(Ordering::Relaxed)) >= FRESH.as_millis() as u64 {
            self.checked_ms.store(now, Ordering::Relaxed);
            self.look();
        }
        *self.full.borrow()
    }

    /// Asks the file system.
    fn look(&self) {
        // A file system that does not answer is not taken for a full one: writes will show.
        if let Ok(stat) = nix::sys::statvfs::statvfs(&self.dir) {
            self.free.store(stat.blocks_available().saturating_mul(stat.fragment_size()), Ordering::Relaxed);
        }
        self.decide();
    }

    fn decide(&self) {
        self.full.send_if_modified(|full| {
            // Read under the channel's lock: of two that decide at once, the later one has seen all that the first has.
            let free = self.free.load(Ordering::Relaxed);
            let stuck = self.stuck.load(Ordering::SeqCst);
            // A little more must be free to begin again than to stop, or the answer would flicker.
            let needed = if *full { self.min_free + self.min_free / 8 } else { self.min_free };
            let now = stuck || free < needed;
            std::mem::replace(full, now) != now
        });
    }

    /// A write failed for lack of room (`true`), or succeeded (`false`).
    pub(crate) fn set_stuck(&self, stuck: bool) {
        if self.stuck.swap(stuck, Ordering::SeqCst) != stuck || stuck {
            self.look();
        }
    }

    /// What is free and what must be, in MiB.
    pub(crate) fn free_and_needed_mib(&self) -> (u64, u64) {
        (self.free.load(Ordering::Relaxed) >> 20, (self.min_free + self.min_free / 8) >> 20)
    }

    /// Follows the answer.
    pub(crate) fn watch(&self) -> watch::Receiver<bool> {
        self.full.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_and_stuck() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!Space::new(dir.path(), 0).is_full());
        assert!(Space::new(dir.path(), u64::MAX / 4).is_full());
        let space = Space::new(dir.path(), 0);
        let watch = space.watch();
        space.set_stuck(true);
        assert!(space.is_full() && *watch.borrow());
        space.set_stuck(false);
        assert!(!space.is_full() && !*watch.borrow());
    }
}
