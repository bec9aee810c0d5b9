//! The per-job supervisor: starts one container, is its parent, answers gpund, and reports the end when nothing of it
//! is left.
//!
//! [`Supervisor`] knows what to do at each event and acts through [`Sys`]; [`run`] waits for the events. It sleeps in
//! `poll` and wakes for nothing else than a child's end or a word from gpund.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use gpun_init::{End, Order};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::cgroup::Cgroups;
use crate::container::{self, LaunchError};
use crate::jobdir::{JobDir, write_json};
use crate::phase::{ExitKind, ExitRecord, Phase, Running, Usage};
use crate::shimlink::{Act, Event, Request, Target};
use crate::spec::LaunchSpec;
use crate::sys::{self, Reaped, Sys, gone_is_fine};

/// How long a process may resist SIGKILL (in a hung file system) until the supervisor gives its cgroup up.
const KILL_PATIENCE: Duration = Duration::from_secs(30);

/// A line from gpund longer than this is refused.
const LINE_MAX: usize = 64 << 10;

/// One launch, from creation to its end.
pub struct Supervisor<'a> {
    sys: &'a dyn Sys,
    dir: JobDir,
    spec: LaunchSpec,
    cgroups: Cgroups,
    phase: Phase,
    runtime: Option<i32>,
    /// Children that ended before it was known what they were.
    early: Vec<Reaped>,
    /// Orders that came before process 1 could take them.
    waiting: VecDeque<Order>,
    killed: bool,
    log_start: u64,
}

impl<'a> Supervisor<'a> {
    /// For the launch in that folder.
    pub fn new(sys: &'a dyn Sys, dir: JobDir, spec: LaunchSpec, cgroups: Cgroups) -> Self {
        Self {
            sys,
            dir,
            spec,
            cgroups,
            phase: Phase::Creating,
            runtime: None,
            early: Vec::new(),
            waiting: VecDeque::new(),
            killed: false,
            log_start: 0,
        }
    }

    /// How far it is.
    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Makes the container and starts the runtime. A failure is the end of the launch, cleaned up.
    pub fn start(&mut self, log_start: u64) {
        self.log_start = log_start;
        let result = container::prepare(self.sys, &self.dir, &self.spec, &self.cgroups).and_then(|()| {
            let args = container::runtime_args(&self.dir, &self.spec);
            let spawned = self.sys.spawn(&self.spec.runc, &args);
            spawned.map_err(container::on_node("cannot start the OCI runtime", &self.spec.runc))
        });
        match result {
            Ok(pid) => self.runtime = Some(pid),
            Err(e) => self.finish(Err(e)),
        }
    }

    /// A child ended. Says whether the phase changed.
    pub fn child_ended(&mut self, child: Reaped) -> bool {
        if Some(child.pid) == self.runtime {
            self.runtime = None;
            self.runtime_ended(&child);
            return true;
        }
        match &self.phase {
            Phase::Running(running) if running.init_pid == child.pid => {
                let started_ms = running.started_ms;
                self.finish(Ok((child.code_signal().1, started_ms)));
                true
            }
            // Only until the runtime has told which child is the container; other orphans are of no interest.
            Phase::Creating => {
                self.early.push(child);
                false
            }
            _ => false,
        }
    }

    fn runtime_ended(&mut self, child: &Reaped) {
        if child.code_signal() != (0, 0) {
            let error = self.runtime_problem(child);
            return self.finish(Err(error));
        }
        let running = match self.read_running() {
            Ok(running) => running,
            Err(e) => return self.finish(Err(LaunchError::node(format!("the OCI runtime left no pid file: {e}")))),
        };
        let pid = running.init_pid;
        // A lost phase.json costs only what a restarted gpund shows meanwhile.
        let _ = write_json(&self.dir.running(), &running, false);
        self.phase = Phase::Running(running);
        if let Some(i) = self.early.iter().position(|c| c.pid == pid) {
            let child = self.early.swap_remove(i);
            self.child_ended(child);
            return;
        }
        self.early.clear();
        if self.killed {
            let _ = self.kill_everything();
        }
        while let Some(order) = self.waiting.pop_front() {
            let _ = self.sys.order(pid, order);
        }
    }

    fn read_running(&self) -> io::Result<Running> {
        let text = self.sys.read(&container::pid_file(&self.dir))?;
        let pid = String::from_utf8_lossy(&text).trim().parse().map_err(io::Error::other)?;
        let stat = self.sys.read(Path::new(&format!("/proc/{pid}/stat"))).unwrap_or_default();
        Ok(Running {
            init_pid: pid,
            init_start_ticks: start_ticks(&String::from_utf8_lossy(&stat)).unwrap_or(0),
            started_ms: self.sys.now_ms(),
        })
    }

    fn runtime_problem(&self, child: &Reaped) -> LaunchError {
        let (code, signal) = child.code_signal();
        if signal != 0 {
            return LaunchError::node(format!("the OCI runtime was killed by signal {signal}"));
        }
        let said = runtime_message(&read_from(&self.dir.path().join("shim.log"), self.log_start));
        let reason = if said.is_empty() { format!("exit code {code}") } else { said };
        // What cannot be mounted was asked for; everything else is between the node and its runtime.
        let kind = if reason.contains("mount") { ExitKind::LaunchFailed } else { ExitKind::NodeFailed };
        LaunchError { kind, reason: format!("{}: {reason}", self.spec.runc.display()) }
    }

    /// Carries out a request.
    pub fn act(&mut self, act: Act) -> Result<Option<Usage>, String> {
        match act {
            Act::Usage => Ok(Some(self.cgroups.usage(self.sys, &self.spec.cgroup()))),
            Act::Kill => self.kill().map(|()| None),
            Act::Freeze { on } => {
                let frozen = self.cgroups.freeze(self.sys, &self.spec.cgroup(), on);
                frozen.map(|()| None).map_err(|e| format!("it can't be stopped or resumed: {e}"))
            }
            Act::Signal { signal, to: Target::All } if signal == libc::SIGKILL => self.kill().map(|()| None),
            Act::Signal { signal, to } => {
                let number = u8::try_from(signal).ok().filter(|n| (1..=64).contains(n));
                let number = number.ok_or_else(|| format!("there is no signal {signal}"))?;
                self.order(match to {
                    Target::Script => Order::Script(number),
                    Target::Group => Order::Group(number),
                    Target::All => Order::All(number),
                })
            }
            Act::Notice { text } => {
                let notice = self.dir.run().join("notice");
                self.sys.create(&notice, text.as_bytes(), 0o644, None).map_err(|e| e.to_string())?;
                self.order(Order::Notice)
            }
        }
    }

    fn order(&mut self, order: Order) -> Result<Option<Usage>, String> {
        match &self.phase {
            Phase::Creating => self.waiting.push_back(order),
            Phase::Running(running) => self.sys.order(running.init_pid, order).map_err(|e| e.to_string())?,
            Phase::Ended(_) => return Err("the job has ended".into()),
        }
        Ok(None)
    }

    fn kill(&mut self) -> Result<(), String> {
        self.killed = true;
        if let Some(runtime) = self.runtime {
            self.sys.kill(runtime, libc::SIGKILL).map_err(|e| e.to_string())?;
        }
        self.kill_everything().map_err(|e| e.to_string())
    }

    fn kill_everything(&self) -> io::Result<()> {
        if let Phase::Running(running) = &self.phase {
            // With process 1 the kernel ends the whole pid namespace, against any number of forks. Not yet collected,
            // its pid cannot be another's.
            let _ = self.sys.kill(running.init_pid, libc::SIGKILL);
        }
        self.cgroups.kill(self.sys, &self.spec.cgroup(), KILL_PATIENCE)
    }

    /// The end: takes away what is left, then puts the record on disk.
    fn finish(&mut self, how: Result<(i32, u64), LaunchError>) {
        let group = self.spec.cgroup();
        let usage = self.cgroups.usage(self.sys, &group);
        let oom = self.cgroups.oom_kills(self.sys, &group) > 0;
        let end = self.sys.read(&self.dir.run().join("exit")).ok().and_then(|bytes| End::decode(&bytes));
        let mut record = self.record(how, end, usage);
        record.oom = oom;
        let clean = clean(self.sys, &self.dir, &self.spec, &self.cgroups);
        if let Err(e) = clean {
            let left = format!("not all could be taken away: {e}");
            record.reason = Some(record.reason.map_or(left.clone(), |r| format!("{r}; {left}")));
        }
        if let Err(e) = self.dir.write_exit(&record) {
            // gpund still hears it; if that is gone too, the launch counts as lost.
            eprintln!("cannot write {}: {e}", self.dir.exit().display());
        }
        self.phase = Phase::Ended(record);
    }

    fn record(&self, how: Result<(i32, u64), LaunchError>, end: Option<End>, usage: Usage) -> ExitRecord {
        let ended_ms = self.sys.now_ms();
        let mut record = ExitRecord {
            job_id: self.spec.job_id,
            attempt: self.spec.attempt,
            kind: ExitKind::Exited,
            code: 0,
            signal: 0,
            oom: false,
            reason: None,
            started_ms: 0,
            ended_ms,
            usage,
        };
        match (how, end) {
            (Err(_), _) if self.killed => {
                record.signal = libc::SIGKILL as u8;
                record.reason = Some("killed before it started".into());
            }
            (Err(e), _) => {
                record.kind = e.kind;
                record.reason = Some(e.reason);
            }
            (Ok((_, started_ms)), Some(end)) => {
                record.started_ms = started_ms;
                (record.code, record.signal) = (end.code, end.signal);
                record.reason = Some(end.reason).filter(|r| !r.is_empty());
                record.usage.max_rss_kib = Some(end.max_rss_kib).filter(|&k| k > 0).unwrap_or(usage.max_rss_kib);
            }
            // Process 1 was killed before it could write: by us, or for want of memory.
            (Ok((signal, started_ms)), None) => {
                record.started_ms = started_ms;
                record.signal = u8::try_from(signal).ok().filter(|&s| s != 0).unwrap_or(libc::SIGKILL as u8);
            }
        }
        record
    }
}

/// Takes away what a launch left on the node, whatever state it is in: processes, cgroups, the runtime's state, mounts,
/// files. It can be repeated.
pub fn clean(sys: &dyn Sys, dir: &JobDir, spec: &LaunchSpec, cgroups: &Cgroups) -> io::Result<()> {
    let group = spec.cgroup();
    // What `runc delete` does for a stopped container (no hooks are set), without its 4 ms.
    let removed = match cgroups.remove_idle(sys, &group) {
        true => Ok(()),
        false => cgroups.kill(sys, &group, KILL_PATIENCE).and_then(|()| cgroups.remove(sys, &group)),
    };
    let state = sys.remove_tree(&spec.runc_root.join(spec.container_id()));
    let files = container::remove_files(sys, dir, spec);
    removed.and(state).and(files)
}

/// Field 22 of `/proc/PID/stat`. The second field, a name in parentheses, may hold anything.
pub(crate) fn start_ticks(stat: &str) -> Option<u64> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

fn read_from(path: &Path, start: u64) -> String {
    let read = || -> io::Result<String> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(64 << 10).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    read().unwrap_or_default()
}

/// The runtime's last error, out of its log line.
fn runtime_message(said: &str) -> String {
    let Some(line) = said.lines().rev().find(|l| !l.trim().is_empty()) else { return String::new() };
    let quoted = line.split_once("msg=\"").and_then(|(_, rest)| rest.rsplit_once('"')).map(|(text, _)| text);
    quoted.map_or_else(|| line.trim().to_owned(), |text| text.replace("\\\"", "\"").replace("\\\\", "\\"))
}

/// One connection of gpund.
struct Client {
    stream: UnixStream,
    got: Vec<u8>,
}

impl Client {
    /// False: it does not read, and is dropped. An event is far smaller than a socket's buffer.
    fn tell(&mut self, event: &Event) -> bool {
        let mut line = serde_json::to_vec(event).unwrap_or_default();
        line.push(b'\n');
        self.stream.write_all(&line).is_ok()
    }

    /// The complete lines that have come. None: it is gone.
    fn requests(&mut self) -> Option<Vec<Vec<u8>>> {
        let mut buffer = [0; 4096];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(n) => self.got.extend_from_slice(&buffer[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
            if self.got.len() > LINE_MAX {
                return None;
            }
        }
        let mut lines = Vec::new();
        while let Some(end) = self.got.iter().position(|&b| b == b'\n') {
            let mut line: Vec<u8> = self.got.drain(..=end).collect();
            line.pop();
            lines.push(line);
        }
        Some(lines)
    }
}

/// Runs a launch to its end. `listener` is `shim.sock`, `children` a signal descriptor for SIGCHLD.
pub fn run(
    supervisor: &mut Supervisor<'_>,
    listener: &UnixListener,
    children: &OwnedFd,
    log_start: u64,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let mut clients: Vec<Client> = Vec::new();
    supervisor.start(log_start);
    while !matches!(supervisor.phase(), Phase::Ended(_)) {
        let ready = wait(children.as_fd(), listener.as_fd(), &clients)?;
        accept(listener, &mut clients, supervisor.phase());
        if ready {
            let mut drain = [0; 512];
            let _ = nix::unistd::read(children, &mut drain);
            let mut changed = false;
            while let Some(child) = sys::reap() {
                changed |= supervisor.child_ended(child);
            }
            if changed && !matches!(supervisor.phase(), Phase::Ended(_)) {
                broadcast(&mut clients, supervisor.phase());
            }
        }
        serve(supervisor, &mut clients);
    }
    // Who connected at the last moment hears the end as well.
    accept(listener, &mut clients, supervisor.phase());
    broadcast(&mut clients, supervisor.phase());
    Ok(())
}

/// Sleeps until something is readable; says whether a child ended.
fn wait(children: BorrowedFd<'_>, listener: BorrowedFd<'_>, clients: &[Client]) -> io::Result<bool> {
    let mut fds = vec![PollFd::new(children, PollFlags::POLLIN), PollFd::new(listener, PollFlags::POLLIN)];
    fds.extend(clients.iter().map(|c| PollFd::new(c.stream.as_fd(), PollFlags::POLLIN)));
    match poll(&mut fds, PollTimeout::NONE) {
        Ok(_) => Ok(fds[0].any().unwrap_or(true)),
        Err(nix::errno::Errno::EINTR) => Ok(true),
        Err(e) => Err(e.into()),
    }
}

fn accept(listener: &UnixListener, clients: &mut Vec<Client>, phase: &Phase) {
    while let Ok((stream, _)) = listener.accept() {
        let mut client = Client { stream, got: Vec::new() };
        let ended = matches!(phase, Phase::Ended(_));
        if client.stream.set_nonblocking(true).is_ok() && (ended || client.tell(&Event::Phase(phase.clone()))) {
            clients.push(client);
        }
    }
}

fn broadcast(clients: &mut Vec<Client>, phase: &Phase) {
    let event = Event::Phase(phase.clone());
    clients.retain_mut(|c| c.tell(&event));
}

fn serve(supervisor: &mut Supervisor<'_>, clients: &mut Vec<Client>) {
    clients.retain_mut(|client| {
        let Some(lines) = client.requests() else { return false };
        lines.iter().all(|line| match serde_json::from_slice::<Request>(line) {
            Ok(Request { seq, act }) => {
                let (usage, error) = match supervisor.act(act) {
                    Ok(usage) => (usage, None),
                    Err(e) => (None, Some(e)),
                };
                client.tell(&Event::Done { seq, error, usage })
            }
            Err(e) => client.tell(&Event::Done { seq: 0, error: Some(format!("not a request: {e}")), usage: None }),
        })
    });
}

/// Removes the launch's socket: there is nobody behind it any more.
pub fn remove_socket(sys: &dyn Sys, dir: &JobDir) -> io::Result<()> {
    gone_is_fine(sys.remove_file(&dir.path().join(crate::shimlink::SOCKET)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtimes_words_are_found() {
        let rows = [
            ("", ""),
            ("time=\"x\" level=error msg=\"runc run failed: no \\\"init\\\"\"\n", "runc run failed: no \"init\""),
            ("a warning\ntime=\"x\" level=error msg=\"last\"\n\n", "last"),
            ("fatal: plain\n", "fatal: plain"),
        ];
        for (said, expected) in rows {
            assert_eq!(runtime_message(said), expected, "{said}");
        }
    }

    #[test]
    fn the_start_time_is_found_behind_any_name() {
        let tail = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21";
        for name in ["sh", "a b", ") R 1 (", ""] {
            assert_eq!(start_ticks(&format!("99 ({name}) {tail}")), Some(4711), "{name}");
        }
        for bad in ["", "99 (sh) S 1", "99 (sh"] {
            assert_eq!(start_ticks(bad), None);
        }
    }
}
