//! From a launch to a bundle that the runtime can start: files, root file system, configuration; and its removal.

use std::io;
use std::path::{Path, PathBuf};

use gpun_init::{END_FILE_SIZE, Task};
use sha2::{Digest, Sha256};

use crate::bundle::{self, Parts};
use crate::cgroup::Cgroups;
use crate::hostroot::{self, Bind, Entry, HostFacts, HostPlan, Reached, SYSTEM};
use crate::image;
use crate::jobdir::JobDir;
use crate::phase::ExitKind;
use crate::pin;
use crate::raw::{RawText, to_hex};
use crate::spec::{ImageRoot, LaunchSpec, Root, Stdio};
use crate::sys::{Kind, Sys, behind_links, ensure_dir, ensure_dirs};

/// Why a container could not be made.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct LaunchError {
    /// [`ExitKind::LaunchFailed`] or [`ExitKind::NodeFailed`].
    pub kind: ExitKind,
    /// For the user.
    pub reason: String,
}

impl LaunchError {
    /// It lies in the request.
    pub fn request(reason: impl Into<String>) -> Self {
        Self { kind: ExitKind::LaunchFailed, reason: reason.into() }
    }

    /// It lies in the node.
    pub fn node(reason: impl Into<String>) -> Self {
        Self { kind: ExitKind::NodeFailed, reason: reason.into() }
    }
}

/// Says what failed on the node.
pub fn on_node<'a>(what: &'a str, path: &'a Path) -> impl FnOnce(io::Error) -> LaunchError + 'a {
    move |e| LaunchError::node(format!("{what} {}: {e}", path.display()))
}

/// The root file system, mounted or planned, and what it asks of the task.
struct Rooted {
    rootfs: PathBuf,
    read_only: bool,
    binds: Vec<Bind>,
    argv_front: Vec<RawText>,
    env: Vec<RawText>,
    work_dir: RawText,
    stdio: Stdio,
}

/// Makes everything that the runtime needs, in this order: a mount namespace for the shim, the root file system, the run
/// folder, and last `config.json`.
pub fn prepare(sys: &dyn Sys, dir: &JobDir, spec: &LaunchSpec, cgroups: &Cgroups) -> Result<(), LaunchError> {
    // Whatever the runtime or we mount from here on is gone when the last process of the launch is, also by kill -9.
    sys.private_mounts().map_err(|e| LaunchError::node(format!("cannot make a mount namespace: {e}")))?;
    let bundle = dir.bundle();
    ensure_dir(sys, &bundle, 0o755, None).map_err(on_node("cannot make", &bundle))?;
    let mounts = check_mounts(sys, spec)?;
    let mut rooted = match &spec.root {
        Root::Host { writable } => host_root(sys, dir, spec, writable, &mounts)?,
        Root::Image(image) => image_root(sys, dir, spec, image)?,
    };
    let run = dir.run();
    let own = Bind::plain(&run, Path::new(gpun_init::RUN_DIR), false);
    // First: an image's streams lie below it, and no mount of the launch may.
    rooted.binds.insert(0, own);
    rooted.binds.extend(mounts);
    fill_run_folder(sys, dir, spec, &rooted)?;
    pin::hold(sys, dir, spec, &mut rooted.binds)?;
    let parts = Parts {
        rootfs: &rooted.rootfs,
        read_only: rooted.read_only,
        binds: &rooted.binds,
        limit_swap: cgroups.can_limit_swap(sys),
        cgroup_v2: cgroups.is_v2(),
        oom_score_adj: own_oom_score(sys).filter(|score| *score < 0).map(|_| 0),
    };
    let config = bundle::config(spec, &parts).map_err(|e| LaunchError::request(e.to_string()))?;
    let path = bundle.join("config.json");
    sys.create(&path, &config, 0o600, None).map_err(on_node("cannot write", &path))
}

/// Arguments of the runtime that start the container.
pub fn runtime_args(dir: &JobDir, spec: &LaunchSpec) -> Vec<String> {
    // `run --detach` is create and start in one process: it spares a start of the Go runtime, 5 ms here.
    let mut args = vec!["--root".to_owned(), spec.runc_root.to_string_lossy().into_owned()];
    args.extend(["run", "--detach", "--bundle"].map(str::to_owned));
    args.push(dir.bundle().to_string_lossy().into_owned());
    args.push("--pid-file".to_owned());
    args.push(pid_file(dir).to_string_lossy().into_owned());
    args.push(spec.container_id());
    args
}

/// Where the runtime leaves the container's pid.
pub fn pid_file(dir: &JobDir) -> PathBuf {
    dir.bundle().join("pid")
}

/// Removes all that [`prepare`] made, but for the launch itself and the logs.
pub fn remove_files(sys: &dyn Sys, dir: &JobDir, spec: &LaunchSpec) -> io::Result<()> {
    if matches!(spec.root, Root::Image(_)) {
        // Seen only from the shim's own mount namespace; from any other there is nothing to detach.
        let _ = sys.unmount(&dir.bundle().join("rootfs"));
    }
    for name in ["tmp", "vartmp", "upper", "work", "run", "bundle"] {
        sys.remove_tree(&dir.path().join(name))?;
    }
    crate::sys::gone_is_fine(sys.remove_file(&dir.running()))
}

fn own_oom_score(sys: &dyn Sys) -> Option<i32> {
    String::from_utf8_lossy(&sys.read(Path::new("/proc/self/oom_score_adj")).ok()?).trim().parse().ok()
}

/// `/.gpun`: root's folder, so the job cannot exchange what is in it; `exit` is its own.
fn fill_run_folder(sys: &dyn Sys, dir: &JobDir, spec: &LaunchSpec, rooted: &Rooted) -> Result<(), LaunchError> {
    let run = dir.run();
    let owner = (spec.identity.uid, spec.identity.gid);
    let failed = || on_node("cannot fill", &run);
    match sys.link(&spec.init, &run.join("init")) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        other => other.map_err(failed())?,
    }
    sys.own(&dir.script(), 0o500, owner).map_err(failed())?;
    sys.create(&run.join("exit"), &[0; END_FILE_SIZE], 0o600, Some(owner)).map_err(failed())?;
    let mut argv = rooted.argv_front.clone();
    argv.push(format!("{}/script", gpun_init::RUN_DIR).into());
    argv.extend(spec.args.iter().cloned());
    let bytes = |list: &[RawText]| list.iter().map(|t| t.0.clone()).collect();
    let task = Task {
        node: spec.node_name.clone().into_bytes(),
        argv: bytes(&argv),
        env: bytes(&rooted.env),
        work_dir: rooted.work_dir.0.clone(),
        stdin: rooted.stdio.stdin.0.clone(),
        stdout: rooted.stdio.stdout.0.clone(),
        stderr: rooted.stdio.stderr.0.clone(),
        append: spec.stdio.open_mode == crate::spec::OpenMode::Append,
        umask: spec.umask,
        rlimits: spec.rlimits.iter().filter_map(|r| Some((rlimit_number(&r.name)?, r.soft))).collect(),
        ..Task::default()
    };
    sys.create(&run.join("task"), &task.encode(), 0o400, Some(owner)).map_err(failed())
}

fn rlimit_number(name: &str) -> Option<u32> {
    Some(match name {
        "AS" => libc::RLIMIT_AS,
        "CORE" => libc::RLIMIT_CORE,
        "CPU" => libc::RLIMIT_CPU,
        "DATA" => libc::RLIMIT_DATA,
        "FSIZE" => libc::RLIMIT_FSIZE,
        "MEMLOCK" => libc::RLIMIT_MEMLOCK,
        "NOFILE" => libc::RLIMIT_NOFILE,
        "NPROC" => libc::RLIMIT_NPROC,
        "RSS" => libc::RLIMIT_RSS,
        "STACK" => libc::RLIMIT_STACK,
        _ => return None,
    })
}

fn host_root(
    sys: &dyn Sys,
    dir: &JobDir,
    spec: &LaunchSpec,
    writable: &[PathBuf],
    mounts: &[Bind],
) -> Result<Rooted, LaunchError> {
    let (tmp, var_tmp) = (dir.path().join("tmp"), dir.path().join("vartmp"));
    for private in [&tmp, &var_tmp] {
        ensure_dir(sys, private, 0o1777, None).map_err(on_node("cannot make", private))?;
    }
    let facts = host_facts(sys, spec, writable, mounts)?;
    let plan = hostroot::plan(&facts, &tmp, &var_tmp);
    let mut binds = plan.binds.clone();
    for stream in streams(spec).filter(|p| plan.private_tmp.iter().any(|t| p.parent() == Some(t))) {
        make_stream(sys, spec, stream)?;
        binds.push(Bind::of_user(stream, stream, false));
    }
    Ok(Rooted {
        rootfs: skeleton(sys, dir, spec, &plan)?,
        read_only: true,
        binds,
        argv_front: Vec::new(),
        env: spec.env.clone(),
        work_dir: spec.work_dir.clone(),
        stdio: spec.stdio.clone(),
    })
}

fn streams(spec: &LaunchSpec) -> impl Iterator<Item = &Path> {
    let all = [&spec.stdio.stdin, &spec.stdio.stdout, &spec.stdio.stderr];
    all.into_iter().map(RawText::as_path).filter(|p| p.is_absolute() && !p.starts_with("/dev"))
}

/// An output file in the host's `/tmp` is made beforehand, as a mount point needs it.
fn make_stream(sys: &dyn Sys, spec: &LaunchSpec, path: &Path) -> Result<(), LaunchError> {
    match sys.kind(path) {
        Ok(Kind::File) => Ok(()),
        Ok(_) => Err(LaunchError::request(format!("{} is not a plain file; choose another output", path.display()))),
        Err(_) => {
            let owner = (spec.identity.uid, spec.identity.gid);
            sys.create(path, b"", 0o666 & !spec.umask, Some(owner)).map_err(on_node("cannot make", path))
        }
    }
}

fn host_facts(
    sys: &dyn Sys,
    spec: &LaunchSpec,
    writable: &[PathBuf],
    mounts: &[Bind],
) -> Result<HostFacts, LaunchError> {
    let mountinfo = Path::new("/proc/self/mountinfo");
    let mounted = sys.read(mountinfo).map_err(on_node("cannot read", mountinfo))?;
    let system = SYSTEM.into_iter().filter_map(|n| Some((n, sys.kind(&Path::new("/").join(n)).ok()?))).collect();
    let reach = |path: &Path| nearest(sys, spec, path);
    let stream_folders = streams(spec).filter_map(Path::parent).filter_map(reach).collect();
    let is_dir = |path: &Path| matches!(sys.kind(&behind_links(sys, path)), Ok(Kind::Dir));
    let targets = mounts.iter().map(|m| (m.target.clone(), is_dir(&m.source))).collect();
    Ok(HostFacts {
        system,
        mount_points: hostroot::mount_points(&String::from_utf8_lossy(&mounted)),
        writable: writable.iter().filter(|w| matches!(sys.kind(w), Ok(Kind::Dir))).cloned().collect(),
        folders: [&spec.identity.home, &spec.work_dir].into_iter().filter_map(|p| reach(p.as_path())).collect(),
        stream_folders,
        work_dir: sys.reach(spec.work_dir.as_path(), &spec.identity).ok(),
        targets,
    })
}

/// The path as the user reaches it, or the nearest folder above that is there: what is missing below it can then be
/// made from inside.
fn nearest(sys: &dyn Sys, spec: &LaunchSpec, path: &Path) -> Option<Reached> {
    path.is_absolute().then_some(())?;
    for named in path.ancestors() {
        match sys.reach(named, &spec.identity) {
            Ok(real) => return Some(Reached { named: named.into(), real }),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(_) => return None,
        }
    }
    None
}

/// Makes the skeleton, or finds one that an earlier job made.
fn skeleton(sys: &dyn Sys, dir: &JobDir, spec: &LaunchSpec, plan: &HostPlan) -> Result<PathBuf, LaunchError> {
    let own = dir.bundle().join("rootfs");
    let build = || build_skeleton(sys, &own, plan).map_err(on_node("cannot make", &own));
    if !plan.shared {
        build()?;
        return Ok(own);
    }
    let key = to_hex(&Sha256::digest(format!("{:?}", plan.skeleton)));
    let roots = spec.share.join("roots");
    let path = roots.join(&key[..16]);
    if sys.kind(&path).is_ok() {
        return Ok(path);
    }
    ensure_dirs(sys, &roots).map_err(on_node("cannot make", &roots))?;
    build()?;
    // Another job may have been quicker, or `share` may be another file system: then this one is the job's own.
    match sys.rename(&own, &path) {
        Ok(()) => Ok(path),
        Err(_) => Ok(own),
    }
}

fn build_skeleton(sys: &dyn Sys, root: &Path, plan: &HostPlan) -> io::Result<()> {
    sys.remove_tree(root)?;
    sys.make_dir(root, 0o755, None)?;
    for (at, entry) in &plan.skeleton {
        let at = root.join(at.strip_prefix("/").unwrap_or(at));
        match entry {
            Entry::Dir => sys.make_dir(&at, 0o755, None)?,
            Entry::File => sys.create(&at, b"", 0o644, None)?,
            Entry::Link(to) => sys.symlink(to, &at)?,
        }
    }
    Ok(())
}

fn image_root(sys: &dyn Sys, dir: &JobDir, spec: &LaunchSpec, image: &ImageRoot) -> Result<Rooted, LaunchError> {
    image::root(sys, dir, spec, image).map(|r| Rooted {
        rootfs: r.rootfs,
        read_only: image.read_only,
        binds: r.binds,
        argv_front: r.entrypoint,
        env: r.env,
        work_dir: r.work_dir,
        stdio: r.stdio,
    })
}

/// The launch's own mounts, checked: the sources are there and the user's to see, the targets are no one else's.
fn check_mounts(sys: &dyn Sys, spec: &LaunchSpec) -> Result<Vec<Bind>, LaunchError> {
    let mut binds = Vec::new();
    for mount in &spec.mounts {
        let (source, target) = (mount.source.as_path(), mount.target.as_path());
        let bad = |why: &str| {
            let pair = format!("{}:{}", mount.source.lossy(), mount.target.lossy());
            LaunchError::request(format!("cannot mount {pair}: {why}"))
        };
        let plain = |p: &Path| p.is_absolute() && !p.components().any(|c| c == std::path::Component::ParentDir);
        if !plain(source) || !plain(target) {
            return Err(bad("both paths must be absolute and without `..`"));
        }
        if target == Path::new("/") || ["/proc", "/sys", "/dev", "/.gpun"].iter().any(|s| target.starts_with(s)) {
            return Err(bad("the container has its own there; choose another target"));
        }
        let found = match mount.by_user {
            true => sys.reach(source, &spec.identity).map(|real| Bind::of_user(&real, target, mount.read_only)),
            false => sys.kind(source).map(|_| Bind::plain(source, target, mount.read_only)),
        };
        match found {
            Err(e) if mount.optional && e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(bad(&e.to_string())),
            Ok(bind) => binds.push(bind),
        }
    }
    Ok(binds)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::spec::{Identity, Limits, Mount, OpenMode};
    use crate::sys::record::Record;

    /// A launch for tests.
    pub fn spec() -> LaunchSpec {
        LaunchSpec {
            job_id: 7,
            attempt: 2,
            node_name: "n1".into(),
            identity: Identity {
                uid: 7001,
                gid: 7001,
                groups: vec![7001, 7100],
                user_name: "alice".into(),
                home: "/home/alice".into(),
            },
            work_dir: "/data/p".into(),
            args: vec!["x".into()],
            env: vec!["A=1".into()],
            stdio: Stdio {
                stdin: "/dev/null".into(),
                stdout: "/data/p/out".into(),
                stderr: "/data/p/out".into(),
                open_mode: OpenMode::Append,
            },
            umask: 0o027,
            rlimits: vec![crate::spec::Rlimit { name: "NOFILE".into(), soft: 9 }],
            limits: Limits::default(),
            root: Root::Host { writable: vec!["/home".into(), "/scratch".into()] },
            mounts: vec![],
            cgroup_parent: "/n1".into(),
            runc: "/usr/sbin/runc".into(),
            runc_root: "/node/runc".into(),
            share: "/node/share".into(),
            init: "/node/gpun-init".into(),
        }
    }

    pub(crate) const MOUNTS: &str = "1 1 0:1 / / rw - ext4 x rw\n30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";

    fn host() -> Record {
        Record::with(&[
            ("/proc/self/mountinfo", MOUNTS),
            ("/proc/self/oom_score_adj", "-900\n"),
            ("/usr/bin/sh", ""),
            ("/etc/passwd", ""),
            ("/home/alice/x", ""),
            ("/data/p/x", ""),
            ("/node/share/roots/x", ""),
        ])
    }

    #[test]
    fn nothing_is_mounted_before_the_mount_namespace_and_the_configuration_comes_last() {
        let sys = host();
        let dir = JobDir::new("/node/jobs/job_7.2");
        let cgroups = Cgroups::detect(&sys).unwrap();
        prepare(&sys, &dir, &spec(), &cgroups).unwrap();
        let acts = sys.acts.borrow().clone();
        assert_eq!(acts[0], "private mounts");
        assert_eq!(acts[1], "mkdir /node/jobs/job_7.2/bundle 755");
        assert_eq!(acts.last().unwrap(), "create /node/jobs/job_7.2/bundle/config.json 600 None");
        let at =
            |text: &str| acts.iter().position(|a| a.contains(text)).unwrap_or_else(|| panic!("no {text}: {acts:#?}"));
        assert!(at("run/exit 600 Some((7001, 7001))") < at("config.json"));
        assert!(acts.contains(&"create /node/jobs/job_7.2/run/task 400 Some((7001, 7001))".to_owned()));
        assert!(acts.contains(&"own /node/jobs/job_7.2/run/script 500 (7001, 7001)".to_owned()));

        let files = sys.files.borrow();
        let read = |name: &str| files[Path::new("/node/jobs/job_7.2").join(name).as_path()].clone().unwrap();
        let task = Task::decode(&read("run/task")).unwrap();
        assert_eq!(task.argv, [b"/.gpun/script".to_vec(), b"x".to_vec()]);
        assert_eq!((task.append, task.umask, task.rlimits), (true, 0o027, vec![(libc::RLIMIT_NOFILE, 9)]));
        let config = String::from_utf8(read("bundle/config.json")).unwrap();
        assert!(config.contains("\"oomScoreAdj\":0"), "the daemon's protection is not inherited");
        assert!(config.contains("\"/data/p\"") && config.contains("\"/home\"") && !config.contains("/scratch"));
        assert!(!config.contains("A=1"), "the environment is not for everybody who can read the bundle");
    }

    #[test]
    fn each_act_that_fails_says_what_and_where() {
        let rows = [
            ("private mounts", ExitKind::NodeFailed, "cannot make a mount namespace"),
            ("bundle 755", ExitKind::NodeFailed, "cannot make /node/jobs/job_7.2/bundle"),
            ("link /node/gpun-init", ExitKind::NodeFailed, "cannot fill /node/jobs/job_7.2/run"),
            ("config.json", ExitKind::NodeFailed, "cannot write /node/jobs/job_7.2/bundle/config.json"),
        ];
        for (act, kind, reason) in rows {
            let sys = host();
            *sys.fail.borrow_mut() = Some((act.into(), libc::ENOSPC));
            let cgroups = Cgroups::detect(&sys).unwrap();
            let error = prepare(&sys, &JobDir::new("/node/jobs/job_7.2"), &spec(), &cgroups).unwrap_err();
            assert_eq!(error.kind, kind);
            assert!(error.reason.starts_with(reason) && error.reason.contains("No space"), "{error}");
        }
    }

    #[test]
    fn mounts_are_checked_before_anything_is_mounted() {
        let mount = |source: &str, target: &str, optional| Mount {
            source: source.into(),
            target: target.into(),
            read_only: true,
            optional,
            by_user: true,
        };
        let rows = [
            (mount("/data/p", "/mnt/p", false), None),
            (mount("/none", "/mnt/p", true), None),
            (mount("/none", "/mnt/p", false), Some("cannot mount /none")),
            (mount("data", "/mnt/p", true), Some("must be absolute")),
            (mount("/data/p", "/mnt/../etc", false), Some("without `..`")),
            (mount("/data/p", "/", false), Some("choose another target")),
            (mount("/data/p", "/proc/1", false), Some("choose another target")),
            (mount("/data/p", "/.gpun/exit", false), Some("choose another target")),
        ];
        for (mount, expected) in rows {
            let sys = host();
            let mut spec = spec();
            spec.mounts = vec![mount.clone()];
            let cgroups = Cgroups::detect(&sys).unwrap();
            let result = prepare(&sys, &JobDir::new("/node/jobs/job_7.2"), &spec, &cgroups);
            match (result, expected) {
                (Ok(()), None) => {}
                (Err(e), Some(text)) => {
                    assert!(e.reason.contains(text) && e.kind == ExitKind::LaunchFailed, "{e}");
                }
                (result, _) => panic!("{result:?} for {mount:?}"),
            }
        }
    }
}
