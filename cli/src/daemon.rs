//! The daemons of an embedded cluster: started as sessions of their own, found again by their pid files, stopped by SIGTERM.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::{fs::OpenOptionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// The controller's pid file, which it writes itself.
pub const CONTROLLER_PID: &str = "ctl.pid";
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(20);
/// How much of a log is shown when a daemon does not come up, in lines.
const LOG_LINES: usize = 8;

/// A program beside this one.
///
/// # Errors
/// It is not there.
pub fn program(name: &str) -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find this program's own file")?;
    let path = own.with_file_name(name);
    if !path.is_file() {
        bail!("{} is not there: {name} has to stand beside gpun (build it with `cargo xtask build`)", path.display());
    }
    Ok(path)
}

/// A daemon, by its pid file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Daemon {
    /// What it is called in messages.
    pub title: String,
    /// The file with its process id.
    pub pid_file: PathBuf,
    /// The file with what it says.
    pub log: PathBuf,
    /// A word that its command line has: a process id may have gone to another program.
    pub mark: Vec<String>,
}

impl Daemon {
    /// The controller of the cluster in `dir`.
    pub fn controller(dir: &Path) -> Self {
        Self {
            title: "gpunctld".to_owned(),
            pid_file: dir.join(CONTROLLER_PID),
            log: dir.join("log/gpunctld.log"),
            mark: vec!["gpunctld".to_owned()],
        }
    }

    /// The daemon of a node of the cluster in `dir`.
    pub fn node(dir: &Path, name: &str) -> Self {
        Self {
            title: format!("gpund {name}"),
            pid_file: dir.join("run").join(format!("gpund-{name}.pid")),
            log: dir.join("log").join(format!("gpund-{name}.log")),
            mark: vec!["gpund".to_owned(), name.to_owned()],
        }
    }

    /// Its process id, if it runs.
    pub fn pid(&self) -> Option<Pid> {
        let pid: i32 = fs::read_to_string(&self.pid_file).ok()?.trim().parse().ok()?;
        self.runs_as(pid).then_some(Pid::from_raw(pid))
    }

    /// True if the process of this id is this daemon.
    fn runs_as(&self, pid: i32) -> bool {
        self.find_in_command_line(pid).unwrap_or(false)
    }

    fn find_in_command_line(&self, pid: i32) -> Option<bool> {
        let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let words: Vec<String> = line.split(|b| *b == 0).map(|w| String::from_utf8_lossy(w).into_owned()).collect();
        let program = words.first().and_then(|word| Path::new(word).file_name()).map(|name| name.to_string_lossy());
        let (first, others) = self.mark.split_first()?;
        let ours = program.is_some_and(|name| name == first.as_str()) && others.iter().all(|mark| words.contains(mark));
        Some(ours && !is_zombie(pid))
    }

    /// Starts it, without a terminal, with its log as output.
    ///
    /// # Errors
    /// It can't be started.
    pub fn start(&self, command: &mut Command) -> anyhow::Result<Child> {
        for file in [&self.log, &self.pid_file] {
            let parent = file.parent().unwrap_or(Path::new("/"));
            fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        }
        let log = OpenOptions::new().create(true).append(true).mode(0o640).open(&self.log);
        let log = log.with_context(|| format!("cannot write {}", self.log.display()))?;
        let errors = log.try_clone()?;
        own_session(command).stdin(Stdio::null()).stdout(log).stderr(errors).current_dir("/");
        let child = command.spawn().with_context(|| format!("cannot start {}", self.title))?;
        Ok(child)
    }

    /// Writes its pid file.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn note_pid(&self, child: &Child) -> anyhow::Result<()> {
        fs::write(&self.pid_file, format!("{}\n", child.id()))
            .with_context(|| format!("cannot write {}", self.pid_file.display()))
    }

    /// The end of its log, for an error message.
    pub fn last_words(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        // A backtrace says nothing to those who read this; the words before it do.
        let text = text.rsplit_once("Stack backtrace:").map_or(text.as_str(), |(words, _)| words);
        let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
        let from = lines.len().saturating_sub(LOG_LINES);
        format!("the end of {}:\n{}", self.log.display(), lines[from..].join("\n"))
    }

    /// Asks it to end; does not wait.
    pub fn ask_to_end(&self) -> Option<Pid> {
        let pid = self.pid()?;
        // Gone meanwhile is what is wished for.
        let _ = kill(pid, Signal::SIGTERM);
        Some(pid)
    }

    /// Waits until the process that was asked to end is gone. Its pid file may go before it does.
    ///
    /// # Errors
    /// It does not end in that time.
    pub fn wait_end(&self, pid: Pid, longest: Duration) -> anyhow::Result<()> {
        let started = Instant::now();
        while self.runs_as(pid.as_raw()) {
            if started.elapsed() > longest {
                bail!(
                    "{} (process {pid}) does not end on SIGTERM after {} s: look at {}, or end it with `kill -9 {pid}`",
                    self.title,
                    longest.as_secs(),
                    self.log.display()
                );
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }
}

/// A child of ours that ended and was not waited for still has its number.
fn is_zombie(pid: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    status.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
}

#[expect(unsafe_code, reason = "the standard library has no safe way to start a child in a session of its own")]
fn own_session(command: &mut Command) -> &mut Command {
    let new_session = || nix::unistd::setsid().map(|_| ()).map_err(io::Error::from);
    // SAFETY: between fork and exec only setsid(2) is called, which is async-signal-safe and touches no memory of ours.
    unsafe { command.pre_exec(new_session) }
}

/// Keeps others from starting or stopping the same cluster meanwhile.
///
/// # Errors
/// The folder can't be written, or another `gpun` is at it.
pub fn lock(dir: &Path) -> anyhow::Result<File> {
    let path = dir.join("up.lock");
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
    let file = file.with_context(|| format!("cannot write {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => {
            bail!("another `gpun up` or `gpun down` is at work on {}: wait for it", dir.display())
        }
        Err(fs::TryLockError::Error(error)) => Err(error).with_context(|| format!("cannot lock {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program of the daemon's name that sleeps as many seconds as the node's name says.
    fn sleeper(dir: &Path) -> PathBuf {
        let program = dir.join("gpund");
        fs::copy("/bin/sleep", &program).unwrap();
        program
    }

    #[test]
    fn a_daemon_is_started_found_and_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let daemon = Daemon::node(dir.path(), "1000");
        assert_eq!(daemon.pid(), None);
        let mut child = daemon.start(Command::new(sleeper(dir.path())).arg("1000")).unwrap();
        daemon.note_pid(&child).unwrap();
        let pid = daemon.pid().unwrap();
        assert_eq!(pid.as_raw(), i32::try_from(child.id()).unwrap());
        assert_eq!(nix::unistd::getsid(Some(pid)).unwrap(), pid, "it has a session of its own");
        // The same process id under another node's name is another program.
        let other = Daemon::node(dir.path(), "2000");
        fs::write(&other.pid_file, format!("{pid}\n")).unwrap();
        assert_eq!(other.pid(), None);
        assert_eq!(daemon.ask_to_end(), Some(pid));
        daemon.wait_end(pid, Duration::from_secs(20)).unwrap();
        assert_eq!(daemon.pid(), None);
        child.wait().unwrap();
    }

    #[test]
    fn the_last_words_come_without_a_backtrace() {
        let dir = tempfile::tempdir().unwrap();
        let daemon = Daemon::controller(dir.path());
        fs::create_dir_all(dir.path().join("log")).unwrap();
        fs::write(&daemon.log, "a\nError: the port is taken\n\nStack backtrace:\n   0: x\n").unwrap();
        let words = daemon.last_words();
        assert!(words.ends_with("a\nError: the port is taken"), "{words}");
    }

    #[test]
    fn only_one_works_on_a_cluster_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let first = lock(dir.path()).unwrap();
        assert!(lock(dir.path()).unwrap_err().to_string().contains("another `gpun up`"));
        drop(first);
        lock(dir.path()).unwrap();
    }
}
