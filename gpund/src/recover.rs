//! What a launch left behind, and how to take it away when its supervisor or its runtime was killed.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gpun_init::End;

use crate::cgroup::Cgroups;
use crate::hostroot::mount_points;
use crate::jobdir::JobDir;
use crate::phase::{ExitKind, ExitRecord, Inspection, Phase};
use crate::spec::LaunchSpec;
use crate::supervise;
use crate::sys::Sys;

/// Why an orphan could not be cleaned.
#[derive(Debug, thiserror::Error)]
pub enum CleanError {
    /// There is nothing to clean: the supervisor lives.
    #[error("the supervisor of {0} lives; talk to it instead")]
    Alive(PathBuf),
    /// A file of the folder cannot be read or written.
    #[error("cannot read or write in {path}")]
    Folder {
        /// The job's folder.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// Something is left; try again later.
    #[error("something of {path} is left on the node; it will be tried again")]
    Left {
        /// The job's folder.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
}

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

/// Takes away all that a launch left whose supervisor is gone, and writes its `exit.json`: the script's own end when it
/// had come to it, else [`ExitKind::NodeFailed`]. Idempotent; the record of a launch that ended in order is only read.
pub fn clean_orphan(sys: &dyn Sys, job_dir: &Path) -> Result<ExitRecord, CleanError> {
    let dir = JobDir::new(job_dir);
    let folder = |source| CleanError::Folder { path: job_dir.into(), source };
    // Held to the end, so that no supervisor starts meanwhile.
    let Some(_lock) = dir.lock().map_err(folder)? else { return Err(CleanError::Alive(job_dir.into())) };
    if let Some(exit) = dir.read_exit().map_err(folder)? {
        return Ok(exit);
    }
    let spec = dir.read_launch().map_err(folder)?;
    let record = orphan_record(sys, &dir, &spec).map_err(folder)?;
    take_away(sys, &dir, &spec).map_err(|source| CleanError::Left { path: job_dir.into(), source })?;
    dir.write_exit(&record).map_err(folder)?;
    Ok(record)
}

fn orphan_record(sys: &dyn Sys, dir: &JobDir, spec: &LaunchSpec) -> io::Result<ExitRecord> {
    let cgroups = Cgroups::detect(sys)?;
    let group = spec.cgroup();
    let started_ms = dir.read_running()?.map_or(0, |r| r.started_ms);
    let end = sys.read(&dir.run().join("exit")).ok().and_then(|bytes| End::decode(&bytes));
    let lost = "the job's supervisor was killed, and the job with it".to_owned();
    let (kind, end) = match end {
        Some(end) => (ExitKind::Exited, end),
        None => (ExitKind::NodeFailed, End { reason: lost, ..End::default() }),
    };
    Ok(ExitRecord {
        job_id: spec.job_id,
        attempt: spec.attempt,
        kind,
        code: end.code,
        signal: end.signal,
        oom: cgroups.oom_kills(sys, &group) > 0,
        reason: Some(end.reason).filter(|r| !r.is_empty()),
        started_ms,
        ended_ms: sys.now_ms(),
        usage: cgroups.usage(sys, &group),
    })
}

fn take_away(sys: &dyn Sys, dir: &JobDir, spec: &LaunchSpec) -> io::Result<()> {
    end_runtime(sys, &dir.bundle())?;
    let state = spec.runc_root.join(spec.container_id());
    if sys.kind(&state).is_ok() {
        let args = ["--root", &spec.runc_root.to_string_lossy(), "delete", "--force", &spec.container_id()];
        // Its own opinion of a half-made container does not matter: what is left goes below.
        let _ = sys.run(&spec.runc, &args.map(str::to_owned));
    }
    let mounts = unmount_below(sys, &[dir.path(), &state]);
    let cgroups = Cgroups::detect(sys)?;
    mounts.and(supervise::clean(sys, dir, spec, &cgroups)).and(supervise::remove_socket(sys, dir))
}

/// The runtime dies with its supervisor, but a moment later than the supervisor's lock is free; what it makes in that
/// moment would be missed.
fn end_runtime(sys: &dyn Sys, bundle: &Path) -> io::Result<()> {
    let bundle = bundle.as_os_str().as_encoded_bytes();
    for _ in 0..2_000 {
        let mut found = false;
        for pid in sys.list(Path::new("/proc"))?.iter().filter_map(|n| n.parse::<i32>().ok()) {
            let line = sys.read(Path::new(&format!("/proc/{pid}/cmdline"))).unwrap_or_default();
            if line.split(|&b| b == 0).any(|arg| arg == bundle) {
                found = true;
                let _ = sys.kill(pid, libc::SIGKILL);
            }
        }
        if !found {
            return Ok(());
        }
        sys.pause(Duration::from_millis(1));
    }
    Err(io::Error::other("the OCI runtime does not die"))
}

/// Detaches what is mounted below these folders in this mount namespace, the innermost first.
fn unmount_below(sys: &dyn Sys, folders: &[&Path]) -> io::Result<()> {
    let mountinfo = sys.read(Path::new("/proc/self/mountinfo"))?;
    let mut result = Ok(());
    for at in mount_points(&String::from_utf8_lossy(&mountinfo)).iter().rev() {
        if folders.iter().any(|f| at.starts_with(f)) {
            result = result.and(sys.unmount(at));
        }
    }
    result
}

/// Where a node's leftovers can lie.
#[derive(Clone, Debug)]
pub struct NodePlaces {
    /// [`LaunchSpec::cgroup_parent`] of this node's launches.
    pub cgroup_parent: String,
    /// [`LaunchSpec::runc_root`].
    pub runc_root: PathBuf,
}

/// Takes away what belongs to no launch in `keep` (container ids, `job_7.1`): cgroups with all their processes, the
/// runtime's state. Says what it took. Not while launches start that `keep` does not name.
pub fn sweep(sys: &dyn Sys, places: &NodePlaces, keep: &BTreeSet<String>) -> io::Result<Vec<String>> {
    let cgroups = Cgroups::detect(sys)?;
    let mut taken = Vec::new();
    let mut groups = BTreeSet::new();
    for folder in cgroups.folders(&places.cgroup_parent) {
        groups.extend(sys.list(&folder).unwrap_or_default().into_iter().filter(|n| n.starts_with("job_")));
    }
    for group in groups.iter().filter(|g| !keep.iter().any(|id| id.split('.').next() == Some(g))) {
        let path = format!("{}/{group}", places.cgroup_parent.trim_end_matches('/'));
        cgroups.kill(sys, &path, Duration::from_secs(10))?;
        cgroups.remove(sys, &path)?;
        taken.push(format!("cgroup {path}"));
    }
    for id in sys.list(&places.runc_root).unwrap_or_default().iter().filter(|id| !keep.contains(*id)) {
        let state = places.runc_root.join(id);
        unmount_below(sys, &[&state])?;
        sys.remove_tree(&state)?;
        taken.push(format!("container {id}"));
    }
    Ok(taken)
}

/// Removes the node's own, empty cgroup when the node is taken down for good.
pub fn remove_node_cgroup(sys: &dyn Sys, cgroup_parent: &str) -> io::Result<()> {
    Cgroups::detect(sys)?.remove(sys, cgroup_parent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::tests::{MOUNTS, spec};
    use crate::sys::record::Record;

    /// A launch whose supervisor is gone, half made: the folder is real, the rest of the system a double.
    fn orphan(more: &[(&str, &str)]) -> (tempfile::TempDir, Record) {
        let folder = tempfile::tempdir().unwrap();
        JobDir::prepare(folder.path(), &spec(), b"#!/bin/sh\n").unwrap();
        let mut files = vec![("/proc/1/cmdline", "init\0")];
        files.extend(more);
        let sys = Record::with(&files);
        let mounts = format!(
            "{MOUNTS}40 1 0:9 / {0}/bundle/rootfs rw - overlay o rw\n41 1 0:9 / {0}/bundle/rootfs/x rw - tmpfs t rw\n",
            folder.path().display()
        );
        sys.files.borrow_mut().insert("/proc/self/mountinfo".into(), Some(mounts.into_bytes()));
        (folder, sys)
    }

    #[test]
    fn the_runtime_ends_first_then_mounts_processes_groups_state_and_files_go() {
        let (folder, sys) =
            orphan(&[("/node/runc/job_7.2/state.json", "{}"), ("/sys/fs/cgroup/n1/job_7/cgroup.procs", "31\n32\n")]);
        let bundle = folder.path().join("bundle");
        let runc = format!("runc\0run\0--bundle\0{}\0job_7.2\0", bundle.display());
        sys.files.borrow_mut().insert("/proc/55/cmdline".into(), Some(runc.into_bytes()));
        let exit = clean_orphan(&sys, folder.path()).unwrap();
        assert_eq!((exit.kind, exit.code, exit.signal), (ExitKind::NodeFailed, 0, 0));
        let acts = sys.acts.borrow().clone();
        let order = [
            "kill -9 55".to_owned(),
            "run /usr/sbin/runc --root /node/runc delete --force job_7.2".to_owned(),
            format!("unmount {}/bundle/rootfs/x", folder.path().display()),
            format!("unmount {}/bundle/rootfs", folder.path().display()),
            "write /sys/fs/cgroup/n1/job_7/cgroup.kill 1".to_owned(),
            "kill -9 31".to_owned(),
            "kill -9 32".to_owned(),
            "rmdir /sys/fs/cgroup/n1/job_7".to_owned(),
            "rm -r /node/runc/job_7.2".to_owned(),
            format!("rm -r {}/tmp", folder.path().display()),
        ];
        let mut at = 0;
        for act in &order {
            let found = acts[at..].iter().position(|a| a == act);
            at += found.unwrap_or_else(|| panic!("no `{act}` from {at} on in {acts:#?}")) + 1;
        }
        let count = acts.len();
        assert_eq!(clean_orphan(&sys, folder.path()).unwrap(), exit);
        assert_eq!(sys.acts.borrow().len(), count, "once cleaned, nothing is done again");
    }

    #[test]
    fn what_cannot_be_taken_away_is_tried_again_and_no_end_is_told() {
        let (folder, sys) = orphan(&[("/sys/fs/cgroup/n1/job_7/cgroup.procs", "")]);
        *sys.fail.borrow_mut() = Some(("rmdir".into(), libc::EIO));
        let error = clean_orphan(&sys, folder.path()).unwrap_err();
        assert!(matches!(error, CleanError::Left { .. }), "{error}");
        assert!(!matches!(inspect(folder.path()).unwrap().phase, Phase::Ended(_)));
        *sys.fail.borrow_mut() = None;
        clean_orphan(&sys, folder.path()).unwrap();
        assert!(matches!(inspect(folder.path()).unwrap().phase, Phase::Ended(_)));
    }

    #[test]
    fn a_script_that_had_ended_keeps_its_end() {
        let (folder, sys) = orphan(&[]);
        let exit = folder.path().join("run/exit");
        sys.files.borrow_mut().insert(exit, Some(b"end 3 0 99 \n".to_vec()));
        let record = clean_orphan(&sys, folder.path()).unwrap();
        assert_eq!((record.kind, record.code, record.signal), (ExitKind::Exited, 3, 0));
    }
}
