//! What a job may leave on a machine and must not: cgroups, mounts, processes.

use std::{fs, path::Path};

/// What is left below a node's cgroup and a cluster's folder.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Cgroup folders of jobs.
    pub cgroups: Vec<String>,
    /// Mount points.
    pub mounts: Vec<String>,
}

impl Leftovers {
    /// Looks for cgroups whose path has `cluster` in it and ends in a job, and for mounts below `dir`.
    pub fn find(cluster: &str, dir: &Path) -> Self {
        let mut cgroups = Vec::new();
        visit(Path::new("/sys/fs/cgroup"), 5, &mut |path| {
            let text = path.to_string_lossy();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if text.contains(cluster) && name.starts_with("job_") {
                cgroups.push(text.into_owned());
            }
        });
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mounts = table.lines().filter_map(|line| line.split(' ').nth(4));
        let dir = dir.to_string_lossy();
        let mounts = mounts.filter(|point| point.starts_with(&*dir)).map(str::to_owned).collect();
        Self { cgroups, mounts }
    }
}

fn visit(dir: &Path, depth: usize, see: &mut dyn FnMut(&Path)) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        see(&entry.path());
        if depth > 0 {
            visit(&entry.path(), depth - 1, see);
        }
    }
}
