//! What a launch left behind, and how to take it away when its supervisor or its runtime was killed.

use std::io;
use std::path::Path;

use crate::jobdir::JobDir;
use crate::phase::{Inspection, Phase};

/// What the job's folder says. Reads only files and the shim's lock; fails with `NotFound` when there is no
/// `launch.json`.
pub fn inspect(job_dir: &Path) -> io::Result<Inspection> {
    let dir = JobDir::new(job_dir);
    std::fs::metadata(dir.launch())?;
    // The lock first: a shim that ends between the two looks writes exit.json before it lets go.
    let shim_alive = dir.shim_alive()?;
    let phase = match (dir.read_exit()?, dir.read_running()?) {
        (Some(exit), _) => Phase::Ended(exit),
        (None, Some(running)) => Phase::Running(running),
        (None, None) => Phase::Creating,
    };
    Ok(Inspection { phase, shim_alive })
}
