//! A node in a temporary folder, and launches on it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]
#![allow(dead_code, reason = "each test program uses another part")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use gpund::cgroup::Cgroups;
use gpund::embed::install_init;
use gpund::jobdir::JobDir;
use gpund::phase::{ExitRecord, Phase, Running};
use gpund::recover::{self, NodePlaces};
use gpund::shimlink::{Act, Event, ShimClient, Target};
use gpund::spec::{Identity, LaunchSpec, Limits, OpenMode, Root, Stdio};
use gpund::sys::Linux;

pub const SHIM: &str = env!("CARGO_BIN_EXE_gpund-shim");
pub const UID: u32 = 7001;

static NEXT: AtomicU32 = AtomicU32::new(1);

/// Removes everything when it goes.
pub struct Node {
    pub root: tempfile::TempDir,
    pub places: NodePlaces,
    init: PathBuf,
}

impl Node {
    pub fn new() -> Self {
        assert!(nix::unistd::geteuid().is_root(), "these tests make containers and need root");
        let root = tempfile::Builder::new().prefix("gpun-node").tempdir_in("/var/tmp").unwrap();
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let name = format!("{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let places = NodePlaces { cgroup_parent: format!("/gpun_test_{name}"), runc_root: root.path().join("runc") };
        let init = install_init(&root.path().join("bin")).unwrap();
        Self { root, places, init }
    }

    /// A folder that belongs to the test user, outside the private /tmp.
    pub fn user_dir(&self, name: &str) -> PathBuf {
        let dir = self.root.path().join(name);
        fs::create_dir_all(&dir).unwrap();
        chown(&dir, Some(UID), Some(UID)).unwrap();
        dir
    }

    /// A launch as the test user, with output in a work directory of its own.
    pub fn spec(&self) -> LaunchSpec {
        let job_id = NEXT.fetch_add(1, Ordering::Relaxed);
        let work = self.user_dir(&format!("work{job_id}"));
        LaunchSpec {
            job_id,
            attempt: 1,
            node_name: "n1".into(),
            identity: Identity {
                uid: UID,
                gid: UID,
                groups: vec![UID, 7100],
                user_name: "alice".into(),
                home: self.user_dir("home").as_path().into(),
            },
            work_dir: work.as_path().into(),
            args: vec![],
            env: vec!["PATH=/usr/bin:/bin".into(), "SLURM_JOB_ID=1".into()],
            stdio: Stdio {
                stdin: "/dev/null".into(),
                stdout: work.join("out").as_path().into(),
                stderr: work.join("out").as_path().into(),
                open_mode: OpenMode::Truncate,
            },
            umask: 0o022,
            rlimits: vec![],
            limits: Limits { cpu: None, memory_mib: None, pids_max: Some(200) },
            root: Root::Host { writable: vec![] },
            mounts: vec![],
            cgroup_parent: self.places.cgroup_parent.clone(),
            runc: "/usr/sbin/runc".into(),
            runc_root: self.places.runc_root.clone(),
            share: self.root.path().join("share"),
            init: self.init.clone(),
        }
    }

    fn start(&self, spec: &LaunchSpec, script: &str) -> (JobDir, Child) {
        let path = self.root.path().join("jobs").join(spec.container_id());
        let dir = JobDir::prepare(path, spec, script.as_bytes()).unwrap();
        let shim = dir.shim_command(Path::new(SHIM)).unwrap().spawn().unwrap();
        (dir, shim)
    }

    /// Starts a script that lasts until it is connected to.
    pub fn launch(&self, spec: &LaunchSpec, script: &str) -> Job {
        let (dir, shim) = self.start(spec, script);
        let client = ShimClient::connect(dir.path()).unwrap();
        client.set_timeout(Duration::from_secs(60)).unwrap();
        Job { dir, shim, client }
    }

    /// Runs a script to its end; gives the record and the output.
    pub fn run(&self, spec: &LaunchSpec, script: &str) -> (ExitRecord, String) {
        // Without a connection: one that ends at once takes its socket away before there could be any.
        let (dir, mut shim) = self.start(spec, script);
        assert!(shim.wait().unwrap().success());
        let exit = dir.read_exit().unwrap().unwrap();
        self.assert_clean(spec);
        (exit, out(spec))
    }

    /// Nothing of the launch is left: cgroup, container, mount, process.
    pub fn assert_clean(&self, spec: &LaunchSpec) {
        let cgroups = Cgroups::detect(&Linux).unwrap();
        for folder in cgroups.folders(&spec.cgroup()) {
            assert!(!folder.exists(), "{} is left", folder.display());
        }
        assert!(!spec.runc_root.join(spec.container_id()).exists(), "the runtime's state is left");
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let job = self.root.path().join("jobs").join(spec.container_id());
        assert!(!mounts.contains(job.to_str().unwrap()), "a mount is left: {mounts}");
        let left: Vec<String> = fs::read_dir(&job)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .filter(|n| !matches!(n.as_str(), "launch.json" | "exit.json" | "shim.lock" | "shim.log"))
            .collect();
        assert!(left.is_empty(), "left in the folder: {left:?}");
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let swept = recover::sweep(&Linux, &self.places, &Default::default());
        let removed = recover::remove_node_cgroup(&Linux, &self.places.cgroup_parent);
        if !std::thread::panicking() {
            assert_eq!(swept.unwrap(), Vec::<String>::new(), "swept at the end");
            removed.unwrap();
        }
    }
}

/// A launch that runs.
pub struct Job {
    pub dir: JobDir,
    pub shim: Child,
    pub client: ShimClient,
}

impl Job {
    pub fn until_running(&mut self) -> Running {
        loop {
            match self.client.next_event().unwrap() {
                Some(Event::Phase(Phase::Running(running))) => return running,
                Some(Event::Phase(Phase::Ended(exit))) => panic!("ended before it ran: {exit:?}"),
                Some(_) => {}
                None => panic!("the shim is gone"),
            }
        }
    }

    pub fn signal(&mut self, signal: i32, to: Target) {
        self.client.send(Act::Signal { signal, to }).unwrap();
    }

    pub fn wait(mut self) -> ExitRecord {
        let exit = loop {
            match self.client.next_event().unwrap() {
                Some(Event::Phase(Phase::Ended(exit))) => break exit,
                Some(Event::Done { error: Some(e), .. }) => panic!("refused: {e}"),
                Some(_) => {}
                None => panic!("no end: {}", fs::read_to_string(self.dir.path().join("shim.log")).unwrap()),
            }
        };
        assert!(self.shim.wait().unwrap().success());
        assert_eq!(self.dir.read_exit().unwrap().as_ref(), Some(&exit));
        exit
    }
}

pub fn out(spec: &LaunchSpec) -> String {
    fs::read_to_string(spec.stdio.stdout.as_path()).unwrap_or_default()
}

/// Waits for a state, not for a time.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < end, "still not: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
