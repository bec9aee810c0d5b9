//! How a step ended, as a file in its job's folder: `steps/N.end`. Beside it `steps/N.lock` is locked while the step's process
//! lives, and is there once it was ever started.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::jobdir::write_json;

/// How a step ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepEnd {
    /// When, in milliseconds since 1970.
    pub ended_ms: u64,
    /// Exit code of the task with the greatest.
    pub code: u8,
    /// Its signal; 0: none.
    pub signal: u8,
    /// It was ended from outside, or nobody ever asked for its tasks.
    pub cancelled: bool,
    /// The kernel killed one of it for want of memory.
    pub oom: bool,
    /// The biggest task, in KiB.
    pub max_rss_kib: u64,
    /// CPU time of all tasks in user mode, in microseconds.
    pub user_us: u64,
    /// CPU time of all tasks in the kernel, in microseconds.
    pub system_us: u64,
}

/// The files of one step.
#[derive(Clone, Debug)]
pub struct StepFiles {
    folder: PathBuf,
    step: u32,
}

impl StepFiles {
    /// Of that step of the job with this folder.
    pub fn new(job_dir: &Path, step: u32) -> Self {
        Self { folder: job_dir.join("steps"), step }
    }

    fn end(&self) -> PathBuf {
        self.folder.join(format!("{}.end", self.step))
    }

    fn lock_path(&self) -> PathBuf {
        self.folder.join(format!("{}.lock", self.step))
    }

    /// Claims the step for the process that runs it; the claim holds while the file is open. None: it was started before.
    ///
    /// # Errors
    /// The folder can't be written.
    pub fn claim(&self) -> io::Result<Option<File>> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let opened = OpenOptions::new().create_new(true).write(true).mode(0o600).open(self.lock_path());
        match opened {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
            other => {
                let file = other?;
                file.lock()?;
                Ok(Some(file))
            }
        }
    }

    /// Whether it was ever started.
    pub fn is_begun(&self) -> bool {
        self.lock_path().exists()
    }

    /// Whether the process that runs it lives.
    pub fn is_alive(&self) -> bool {
        let Ok(file) = File::open(self.lock_path()) else { return false };
        matches!(file.try_lock(), Err(TryLockError::WouldBlock))
    }

    /// How it ended; none: not yet.
    pub fn read_end(&self) -> Option<StepEnd> {
        serde_json::from_slice(&fs::read(self.end()).ok()?).ok()
    }

    /// Records how it ended.
    ///
    /// # Errors
    /// The folder can't be written.
    pub fn write_end(&self, end: &StepEnd) -> io::Result<()> {
        write_json(&self.end(), end, true)
    }
}
