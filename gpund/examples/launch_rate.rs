//! How many tiny jobs a second go through the supervisor, beside bare `runc create, start, delete` in the same run.
//!
//! `cargo run --release -p gpund --example launch_rate -- [JOBS] [IN_PARALLEL] [ROUNDS] [--shim]`, as root. It needs the shim of the
//! same profile beside it: `cargo build --release -p gpund --bins`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use gpund::jobdir::JobDir;
use gpund::phase::{ExitKind, Phase};
use gpund::shimlink::{Event, ShimClient};
use gpund::spec::{Identity, LaunchSpec, Limits, OpenMode, Root, Stdio as Streams};
use gpund::sys::Linux;
use nix::sys::resource::{UsageWho, getrusage};

const RUNC: &str = "runc";

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1).filter(|a| !a.starts_with('-')).map(|a| a.parse::<u32>());
    let mut next = |default| args.next().unwrap_or(Ok(default));
    let (jobs, parallel, rounds) = (next(1000)?, next(3)?, next(1)?);
    gpund::sys::become_subreaper()?;
    let root = tempfile::Builder::new().prefix("launch-rate").tempdir_in("/var/tmp")?;
    let bench = Bench::new(root.path())?;
    println!("{jobs} jobs, {parallel} in parallel, {rounds} rounds; CPU is user + system of all processes, a job");
    if std::env::args().any(|a| a == "--shim") {
        measure("gpund-shim", jobs, parallel, |n| bench.shim(n))?;
        return Ok(gpund::recover::remove_node_cgroup(&Linux, &bench.cgroup)?);
    }
    for _ in 0..rounds {
        let bare = measure("runc create, start, delete (`runc spec`)", jobs, parallel, |n| bench.bare("bare", n))?;
        let ours = measure("runc create, start, delete (our config)", jobs, parallel, |n| bench.bare("lean", n))?;
        let shim = measure("gpund-shim", jobs, parallel, |n| bench.shim(n))?;
        println!("gpund-shim / bare: {:.0} %; with our config: {:.0} %", 100.0 * shim / bare, 100.0 * shim / ours);
    }
    gpund::recover::remove_node_cgroup(&Linux, &bench.cgroup)?;
    Ok(())
}

/// Jobs a second.
fn measure(what: &str, jobs: u32, parallel: u32, job: impl Fn(u32) -> Result<()> + Sync) -> Result<f64> {
    let next = AtomicU32::new(0);
    let (start, cpu) = (Instant::now(), cpu_s()?);
    std::thread::scope(|scope| {
        let worker = || -> Result<()> {
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= jobs {
                    return Ok(());
                }
                job(n).with_context(|| format!("job {n}"))?;
            }
        };
        let workers: Vec<_> = (0..parallel).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().try_for_each(|w| w.join().map_err(|_| anyhow::anyhow!("a worker died"))?)
    })?;
    let rate = f64::from(jobs) / start.elapsed().as_secs_f64();
    let cpu_ms = 1000.0 * (cpu_s()? - cpu) / f64::from(jobs);
    println!("{what:45} {rate:7.1} /s   {cpu_ms:5.1} ms CPU");
    Ok(rate)
}

fn cpu_s() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let seconds = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

struct Bench {
    root: PathBuf,
    shim: PathBuf,
    init: PathBuf,
    cgroup: String,
    next: AtomicU32,
}

impl Bench {
    fn new(root: &Path) -> Result<Self> {
        let here = std::env::current_exe()?;
        let shim = here.parent().and_then(Path::parent).context("no target folder")?.join("gpund-shim");
        if !shim.exists() {
            bail!("{} is missing: run `cargo build --release -p gpund --bins` first", shim.display());
        }
        let init = gpund::embed::install_init(&root.join("bin"))?;
        let bench = Self {
            root: root.into(),
            shim,
            init,
            cgroup: format!("/launch_rate_{}", std::process::id()),
            next: AtomicU32::new(1),
        };
        bench.make_bare_bundle()?;
        bench.make_lean_bundle()?;
        Ok(bench)
    }

    /// What `runc spec` gives, with `gpun-init` as the static program to run: without a task it ends at once.
    fn make_bare_bundle(&self) -> Result<()> {
        let bundle = self.root.join("bare");
        fs::create_dir_all(bundle.join("rootfs"))?;
        fs::copy(&self.init, bundle.join("rootfs/true"))?;
        if !Command::new(RUNC).arg("spec").arg("--bundle").arg(&bundle).status()?.success() {
            bail!("runc spec failed");
        }
        let path = bundle.join("config.json");
        let mut config: serde_json::Value = serde_json::from_slice(&fs::read(&path)?)?;
        config["process"]["terminal"] = false.into();
        config["process"]["args"] = serde_json::json!(["/true"]);
        fs::write(path, serde_json::to_vec(&config)?)?;
        Ok(())
    }

    /// The configuration that the supervisor writes, to tell its own cost from that of the container it asks for.
    fn make_lean_bundle(&self) -> Result<()> {
        let bundle = self.root.join("lean");
        let run = self.root.join("lean-run");
        for name in ["usr", "etc", "opt", "proc", "sys", "dev", "tmp", "var/tmp", ".gpun", "home"] {
            fs::create_dir_all(bundle.join("rootfs").join(name))?;
        }
        fs::create_dir_all(&run)?;
        fs::copy(&self.init, run.join("init"))?;
        let bind =
            |source: &Path, target: &str, read_only| gpund::hostroot::Bind::plain(source, Path::new(target), read_only);
        let binds = [
            bind(Path::new("/usr"), "/usr", true),
            bind(Path::new("/etc"), "/etc", true),
            bind(Path::new("/opt"), "/opt", true),
            bind(&run, "/tmp", false),
            bind(&run, "/var/tmp", false),
            bind(&run, "/home", false),
            bind(&run, "/.gpun", false),
        ];
        let parts = gpund::bundle::Parts {
            rootfs: &bundle.join("rootfs"),
            read_only: true,
            binds: &binds,
            limit_swap: true,
            cgroup_v2: false,
            oom_score_adj: None,
        };
        fs::write(bundle.join("config.json"), gpund::bundle::config(&self.spec(0), &parts)?)?;
        Ok(())
    }

    fn bare(&self, kind: &str, n: u32) -> Result<()> {
        // Each has a cgroup of its own, as a job has.
        let id = format!("{kind}{n}");
        let bundle = self.root.join("bundles").join(&id);
        fs::create_dir_all(&bundle)?;
        let mut config: serde_json::Value =
            serde_json::from_slice(&fs::read(self.root.join(kind).join("config.json"))?)?;
        config["root"]["path"] = self.root.join(kind).join("rootfs").to_string_lossy().into();
        config["linux"]["cgroupsPath"] = format!("{}/{id}", self.cgroup).into();
        fs::write(bundle.join("config.json"), serde_json::to_vec(&config)?)?;
        let pid_file = bundle.join("pid");
        let run = |args: &[&str]| -> Result<()> {
            let mut command = Command::new(RUNC);
            command.arg("--root").arg(self.root.join("runc")).args(args);
            command.stdin(Stdio::null()).stdout(Stdio::null());
            if !command.status()?.success() {
                bail!("runc {args:?} failed");
            }
            Ok(())
        };
        run(&["create", "--bundle", &bundle.to_string_lossy(), "--pid-file", &pid_file.to_string_lossy(), &id])?;
        run(&["start", &id])?;
        let pid = nix::unistd::Pid::from_raw(fs::read_to_string(&pid_file)?.parse()?);
        nix::sys::wait::waitpid(pid, None)?;
        run(&["delete", &id])?;
        fs::remove_dir_all(bundle)?;
        Ok(())
    }

    fn spec(&self, job_id: u32) -> LaunchSpec {
        let home = self.root.join("home");
        LaunchSpec {
            job_id,
            attempt: 1,
            node_name: "n1".into(),
            identity: Identity {
                uid: 7001,
                gid: 7001,
                groups: vec![7001],
                user_name: "alice".into(),
                home: "/".into(),
            },
            work_dir: "/".into(),
            args: vec![],
            env: vec!["PATH=/usr/bin:/bin".into()],
            stdio: Streams {
                stdin: "/dev/null".into(),
                stdout: "/dev/null".into(),
                stderr: "/dev/null".into(),
                open_mode: OpenMode::Truncate,
            },
            umask: 0o022,
            rlimits: vec![],
            limits: Limits {
                cpu: Some(gpund::spec::CpuLimit { count: 1, quota: false, list: None }),
                memory_mib: Some(200),
                pids_max: Some(1000),
            },
            root: Root::Host { writable: vec![home] },
            mounts: vec![],
            cgroup_parent: self.cgroup.clone(),
            runc: "/usr/sbin/runc".into(),
            runc_root: self.root.join("runc"),
            share: self.root.join("share"),
            init: self.init.clone(),
        }
    }

    fn shim(&self, _: u32) -> Result<()> {
        let spec = self.spec(self.next.fetch_add(1, Ordering::Relaxed));
        let dir = JobDir::prepare(self.root.join("jobs").join(spec.container_id()), &spec, b"#!/bin/true\n")?;
        let mut shim = dir.shim_command(&self.shim)?.spawn()?;
        let mut client = ShimClient::connect(dir.path())?;
        client.set_timeout(Duration::from_secs(60))?;
        let exit = loop {
            match client.next_event()? {
                Some(Event::Phase(Phase::Ended(exit))) => break exit,
                Some(_) => {}
                None => bail!("the shim is gone"),
            }
        };
        if (exit.kind, exit.code, exit.signal) != (ExitKind::Exited, 0, 0) {
            bail!("{exit:?}");
        }
        shim.wait()?;
        fs::remove_dir_all(dir.path())?;
        Ok(())
    }
}
