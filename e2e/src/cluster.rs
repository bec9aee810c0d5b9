//! A whole cluster on this machine, as `gpun up` makes it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{Leftovers, program, wait_for};

/// Who runs a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    /// The superuser.
    Root,
    /// Somebody without an entry in the user directory.
    Guest(u32),
}

/// A command that ended.
#[derive(Debug)]
pub struct Ran {
    /// Exit status.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

/// A cluster, its folder and a folder for files of jobs.
pub struct Cluster {
    dir: PathBuf,
    work: PathBuf,
    args: Vec<String>,
    _temp: tempfile::TempDir,
}

impl Cluster {
    /// A cluster with these arguments of `gpun up` and this configuration.
    pub fn up(args: &[&str], toml: &str) -> Self {
        let temp = tempfile::Builder::new().prefix("gpe").tempdir_in("/var/tmp").expect("a temporary folder");
        let dir = temp.path().join("c");
        let work = temp.path().join("w");
        fs::create_dir(&dir).expect("a folder");
        fs::create_dir(&work).expect("a folder");
        for path in [temp.path(), &dir, &work] {
            open_up(path);
        }
        fs::write(dir.join("gpunion.toml"), toml).expect("the folder takes a file");
        // Guests can't enter every target folder (such as one below root's home), so their commands are a copy.
        fs::copy(program("gpun"), temp.path().join("gpun")).expect("the program can be copied");
        let cluster = Self { dir, work, args: args.iter().map(|arg| (*arg).to_owned()).collect(), _temp: temp };
        cluster.start();
        cluster
    }

    /// `gpun up` on the folder: starts what is not running.
    pub fn start(&self) {
        let dir = self.dir.to_string_lossy().into_owned();
        let mut args = vec!["up", "--dir", &dir];
        args.extend(self.args.iter().map(String::as_str));
        let ran = self.run(User::Root, "gpun", &args);
        assert_eq!(ran.code, 0, "gpun up: {ran:?}\n{}", self.logs());
    }

    /// The cluster's folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A folder that jobs may write to; anyone may.
    pub fn work(&self) -> &Path {
        &self.work
    }

    /// Runs a command of ours in the work folder.
    pub fn run(&self, user: User, name: &str, args: &[&str]) -> Ran {
        self.run_with(user, name, args, None)
    }

    /// Runs a command of ours in the work folder with this standard input.
    pub fn run_with(&self, user: User, name: &str, args: &[&str], stdin: Option<&[u8]>) -> Ran {
        let mut command = self.command(user, name);
        command.args(args).stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        if let (Some(bytes), Some(mut pipe)) = (stdin, child.stdin.take()) {
            use std::io::Write;
            let _ = pipe.write_all(bytes);
        }
        let Output { status, stdout, stderr } = child.wait_with_output().expect("the command ends");
        Ran {
            code: status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&stdout).into_owned(),
            err: String::from_utf8_lossy(&stderr).into_owned(),
        }
    }

    /// The command, not yet started: `gpun` by another name, for the cluster.
    pub fn command(&self, user: User, name: &str) -> Command {
        use std::os::unix::process::CommandExt;
        let guests = self.dir.with_file_name("gpun");
        let mut command = Command::new(if user == User::Root { program("gpun") } else { guests });
        command.arg0(name).current_dir(&self.work).env_clear();
        command
            .env("PATH", "/usr/bin:/bin")
            .env("GPUN_DIR", &self.dir)
            .env("HOME", "/")
            .env("LANG", "C.UTF-8")
            .env("TZ", "UTC");
        if let User::Guest(uid) = user {
            command.uid(uid).gid(uid);
        }
        command
    }

    /// Submits and gives the job's number.
    pub fn sbatch(&self, user: User, args: &[&str]) -> u32 {
        let mut all = vec!["--parsable"];
        all.extend(args);
        let ran = self.run(user, "sbatch", &all);
        ran.out.trim().parse().unwrap_or_else(|_| panic!("sbatch {args:?}: {ran:?}\n{}", self.logs()))
    }

    /// Submits a script of this text and gives the job's number.
    pub fn sbatch_script(&self, user: User, args: &[&str], script: &[u8]) -> u32 {
        let mut all = vec!["--parsable"];
        all.extend(args);
        let ran = self.run_with(user, "sbatch", &all, Some(script));
        ran.out.trim().parse().unwrap_or_else(|_| panic!("sbatch {args:?}: {ran:?}\n{}", self.logs()))
    }

    /// A field of a job, as `squeue -o` prints it; nothing for a job that is not known.
    pub fn field(&self, job: u32, format: &str) -> Option<String> {
        let ran = self.run(User::Root, "squeue", &["-h", "-t", "all", "-j", &job.to_string(), "-o", format]);
        (ran.code == 0 && !ran.out.trim().is_empty()).then(|| ran.out.trim_end().to_owned())
    }

    /// The job's state, long.
    pub fn state(&self, job: u32) -> String {
        self.field(job, "%T").unwrap_or_default()
    }

    /// Waits for a state.
    pub fn wait_state(&self, job: u32, state: &str) {
        let start = std::time::Instant::now();
        loop {
            let now = self.state(job);
            if now == state {
                return;
            }
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "job {job} is {now}, not {state}\n{}\n{}",
                self.run(User::Root, "scontrol", &["show", "job", &job.to_string()]).out,
                self.logs()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until the job is over, whatever its end; gives its state.
    pub fn wait_over(&self, job: u32) -> String {
        let state = || {
            Some(self.state(job)).filter(|state| {
                !matches!(state.as_str(), "PENDING" | "RUNNING" | "COMPLETING" | "SUSPENDED" | "CONFIGURING")
            })
        };
        wait_for(&format!("job {job} ends\n{}", self.logs()), Duration::from_secs(120), state)
    }

    /// One key of `scontrol show job`.
    pub fn shown(&self, job: u32, key: &str) -> String {
        let ran = self.run(User::Root, "scontrol", &["show", "job", "-o", &job.to_string()]);
        let found = ran.out.split_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
        found.unwrap_or_else(|| panic!("no {key} in {ran:?}")).to_owned()
    }

    /// A file in the work folder; empty if it is not there.
    pub fn read(&self, name: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.work.join(name)).unwrap_or_default()).into_owned()
    }

    /// What is in a file of the work folder, if it is there.
    pub fn read_if(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.work.join(name)).ok()
    }

    /// The process in a pid file of the cluster's folder.
    pub fn pid(&self, file: &str) -> i32 {
        let text = fs::read_to_string(self.dir.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        text.trim().parse().expect("a pid file holds a number")
    }

    /// `kill -9` of the process in a pid file, and the wait for its end.
    pub fn kill(&self, file: &str) {
        let pid = self.pid(file);
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        wait_for("the process is gone", Duration::from_secs(10), || gone(pid).then_some(()));
    }

    /// Waits until no job holds anything and nothing of any is left.
    pub fn wait_clean(&self) {
        let nothing = Leftovers::default();
        wait_for("nothing is left of any job", Duration::from_secs(60), || {
            let ran = self.run(User::Root, "squeue", &["-h", "-t", "R,CG", "-o", "%i"]);
            (ran.code == 0 && ran.out.trim().is_empty() && self.leftovers() == nothing).then_some(())
        });
        let used = self.run(User::Root, "sinfo", &["-h", "-o", "%C"]).out;
        assert!(used.lines().all(|line| line.trim().starts_with("0/")), "CPUs are still taken: {used}");
    }

    /// Cgroups and mounts of this cluster's jobs.
    pub fn leftovers(&self) -> Leftovers {
        let dir = self.dir.to_string_lossy();
        let unique = self.dir.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        let _ = dir;
        Leftovers::find(&unique, &self.dir)
    }

    /// The daemons' logs, for a failing test.
    pub fn logs(&self) -> String {
        let mut text = String::new();
        for entry in fs::read_dir(self.dir.join("log")).into_iter().flatten().flatten() {
            let log = fs::read_to_string(entry.path()).unwrap_or_default();
            let tail: Vec<&str> = log.lines().rev().take(30).collect();
            text += &format!("--- {}\n", entry.path().display());
            tail.iter().rev().for_each(|line| text += &format!("{line}\n"));
        }
        text
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let dir = self.dir.to_string_lossy().into_owned();
        let ran = self.run(User::Root, "gpun", &["down", "--dir", &dir]);
        if ran.code != 0 && !std::thread::panicking() {
            panic!("gpun down: {ran:?}");
        }
    }
}

fn gone(pid: i32) -> bool {
    // A zombie is dead enough: whoever started it may not have looked yet.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.trim().chars().next()).is_none_or(|state| state == 'Z')
}

fn open_up(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let mode = if path.ends_with("w") { 0o777 } else { 0o755 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("the folder is ours");
}
