//! The conversation with the node that runs a step: streams both ways, signals, and the end.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use gpun_proto::pb::{
    FromStep, StepHello, StepLaunch, StepSignal, TaskBytes, ToStep, WindowSize, from_step::Message as Heard,
    to_step::Message as Say,
};
use gpun_proto::step::{Frames, INPUT_WINDOW, PIECE_BYTES, SOCKET_FOLDER, frame, socket_name};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use super::ends::{End, Ends, named};
use super::streams::{Streams, Which};
use super::terminal;
use crate::out::complain;

/// Another Ctrl-C within this time counts as the next.
const AGAIN: Duration = Duration::from_secs(1);

/// Ends of tasks within this time are told together.
const GATHER: Duration = Duration::from_millis(300);

/// How long the end of a step may take to be recorded while srun waits for it.
const CLOSE_WAIT: Duration = Duration::from_secs(2);

/// Between SIGTERM and SIGKILL to a step that is ended.
const KILL_WAIT: Duration = Duration::from_secs(30);

/// What the session does on its own.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Text before the step's number: `StepId=7.0`.
    pub step: String,
    /// Number of tasks.
    pub tasks: u32,
    /// The step ends when a task ends badly.
    pub kill_on_bad_exit: bool,
    /// So long after the first task's end the others are ended.
    pub wait: Option<Duration>,
    /// Ctrl-C goes to the tasks at once.
    pub hand_on_interrupts: bool,
    /// Ctrl-C ends the step at once.
    pub quit_on_interrupt: bool,
    /// The first task has a terminal.
    pub pty: bool,
    /// No messages but errors.
    pub quiet: bool,
}

/// Where the tasks' input comes from.
pub enum Input {
    /// Nowhere.
    None,
    /// From here, to these tasks.
    From(File, Vec<u32>),
}

/// A session with one node.
pub struct Session {
    stream: UnixStream,
    frames: Frames,
    node: String,
    rules: Rules,
}

/// Why there is no session.
#[derive(Debug)]
pub enum NoSession {
    /// The node can't be reached.
    Connect(io::Error),
    /// It closed without a word: it may be starting anew, and nothing was started.
    Closed,
    /// It let nobody in.
    Refused(String),
}

impl Session {
    /// Knocks at the node's door and waits until it opens.
    pub fn open(cluster: &Path, node: &str, hello: &StepHello, rules: &Rules) -> Result<Self, NoSession> {
        let folder = File::open(cluster.join(SOCKET_FOLDER)).map_err(NoSession::Connect)?;
        // By way of the folder: a socket's address takes no long path.
        let path = format!("/proc/self/fd/{}/{}", folder.as_raw_fd(), socket_name(node));
        let stream = UnixStream::connect(path).map_err(NoSession::Connect)?;
        let mut session = Self { stream, frames: Frames::default(), node: node.to_owned(), rules: rules.clone() };
        session.say(Say::Hello(hello.clone())).map_err(NoSession::Connect)?;
        match session.next() {
            Ok(Some(Heard::Ready(_))) => Ok(session),
            Ok(Some(Heard::Refused(why))) => Err(NoSession::Refused(why)),
            Ok(None) => Err(NoSession::Closed),
            Ok(Some(_)) => Err(NoSession::Refused("the node does not speak as it should".to_owned())),
            Err(error) => Err(NoSession::Connect(error)),
        }
    }

    fn say(&mut self, message: Say) -> io::Result<()> {
        self.stream.write_all(&frame(&ToStep { message: Some(message) }))
    }

    /// The next message, waited for; none: the node closed.
    fn next(&mut self) -> io::Result<Option<Heard>> {
        loop {
            if let Some(message) = self.frames.next_message::<FromStep>().map_err(io::Error::other)? {
                return Ok(message.message);
            }
            if !self.read()? {
                return Ok(None);
            }
        }
    }

    /// Reads what is there; false: the node closed.
    fn read(&mut self) -> io::Result<bool> {
        let mut buffer = vec![0; PIECE_BYTES * 2];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Ok(false),
                Ok(read) => {
                    self.frames.push(&buffer[..read]);
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    /// Starts the tasks and stays until all have ended; gives the exit status.
    pub fn run(mut self, launch: StepLaunch, mut streams: Streams, input: Input) -> u8 {
        let signals = match watched() {
            Ok(signals) => signals,
            Err(error) => {
                complain(&format!("srun: error: signals can't be watched: {error}"));
                return 1;
            }
        };
        if let Err(error) = self.say(Say::Launch(launch)) {
            return self.lost(&error.to_string());
        }
        let raw = self.rules.pty.then(terminal::Raw::enter).flatten();
        let mut live = Live::new(input);
        let result = self.converse(&mut live, &signals, &mut streams);
        if result.is_ok() && !live.lost {
            self.wait_closed();
        }
        drop(raw);
        let finished = streams.finish();
        for line in live.ends.tell(&self.node) {
            complain(&line);
        }
        if live.ends.any_killed() && !self.rules.quiet && !live.lost {
            complain(&format!("srun: Force Terminated {}", self.rules.step));
        }
        match result.and(finished) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => crate::out::GONE,
            Err(error) => {
                complain(&format!("srun: error: the tasks' output can't be written: {error}"));
                1
            }
            Ok(()) if live.lost => self.lost("the connection ended before the step did"),
            Ok(()) => live.ends.status(),
        }
    }

    /// The node closes once the step's end is recorded; but nobody waits long for that.
    fn wait_closed(&mut self) {
        let until = Instant::now() + CLOSE_WAIT;
        while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            if self.stream.set_read_timeout(Some(left)).is_err() || !matches!(self.read(), Ok(true)) {
                return;
            }
        }
    }

    fn lost(&self, why: &str) -> u8 {
        complain(&format!("srun: error: {}: {why}", self.node));
        1
    }

    fn converse(&mut self, live: &mut Live, signals: &SignalFd, streams: &mut Streams) -> io::Result<()> {
        loop {
            while let Some(message) = self.frames.next_message::<FromStep>().map_err(io::Error::other)? {
                match message.message {
                    Some(Heard::Done(_)) => return Ok(()),
                    Some(Heard::Refused(why)) => {
                        complain(&format!("srun: error: {why}"));
                        live.ends.add(0, End { code: 1, signal: 0, oom: false });
                        return Ok(());
                    }
                    Some(message) => self.hear(message, live, streams)?,
                    None => {}
                }
            }
            let now = Instant::now();
            self.on_time(live, now);
            let take_input = live.may_take_input();
            let mut fds = vec![
                PollFd::new(self.stream.as_fd(), PollFlags::POLLIN),
                PollFd::new(signals.as_fd(), PollFlags::POLLIN),
            ];
            if let Some(file) = live.input.as_ref().filter(|_| take_input) {
                fds.push(PollFd::new(file.as_fd(), PollFlags::POLLIN));
            }
            let wait = live.next_due(&self.rules, now).map_or(PollTimeout::NONE, |due| {
                PollTimeout::try_from(due.saturating_duration_since(now) + Duration::from_millis(1))
                    .unwrap_or(PollTimeout::MAX)
            });
            match poll(&mut fds, wait) {
                Err(nix::errno::Errno::EINTR) | Ok(0) => continue,
                Err(error) => return Err(error.into()),
                Ok(_) => {}
            }
            let ready: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(true)).collect();
            drop(fds);
            if ready[1] {
                while let Ok(Some(info)) = signals.read_signal() {
                    self.on_signal(live, info.ssi_signo as i32);
                }
            }
            if ready.get(2).is_some_and(|ready| *ready) {
                self.take_input(live);
            }
            if ready[0] && !self.read()? {
                live.lost = true;
                return Ok(());
            }
        }
    }

    fn hear(&mut self, message: Heard, live: &mut Live, streams: &mut Streams) -> io::Result<()> {
        match message {
            Heard::Output(piece) => streams.write(piece.task, Which::Output, &piece.bytes),
            Heard::Error(piece) => streams.write(piece.task, Which::Error, &piece.bytes),
            Heard::InputTaken(task) => {
                *live.room.entry(task).or_insert(0) += 1;
                Ok(())
            }
            Heard::Ended(ended) => {
                let byte = |n: u32| u8::try_from(n).unwrap_or(u8::MAX);
                let end = End { code: byte(ended.code), signal: byte(ended.signal), oom: ended.out_of_memory };
                live.ends.add(ended.task, end);
                live.room.remove(&ended.task);
                live.untold_since.get_or_insert_with(Instant::now);
                live.first_end.get_or_insert_with(Instant::now);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// What is to be done because time passed.
    fn on_time(&mut self, live: &mut Live, now: Instant) {
        let others = live.ends.count() < self.rules.tasks as usize;
        if others && live.untold_since.is_some_and(|since| now >= since + GATHER) {
            live.untold_since = None;
            live.ends.tell(&self.node).iter().for_each(|line| complain(line));
        }
        if self.rules.kill_on_bad_exit && others && live.ends.any_bad() && live.terminated.is_none() {
            live.ends.tell(&self.node).iter().for_each(|line| complain(line));
            self.terminate(live, now);
        }
        let waited = self.rules.wait.zip(live.first_end).filter(|(wait, first)| now >= *first + *wait);
        if let Some((wait, _)) = waited.filter(|_| others && live.terminated.is_none()) {
            let running: Vec<u32> = (0..self.rules.tasks).filter(|task| !live.ends.has(*task)).collect();
            complain(&format!("srun: First task exited {}s ago", wait.as_secs()));
            complain(&format!("srun: {} {}: running", self.rules.step, named(&running)));
            self.terminate(live, now);
        }
        if live.terminated.is_some_and(|since| now >= since + KILL_WAIT) {
            live.terminated = Some(now);
            self.signal(nix::libc::SIGKILL);
        }
    }

    fn terminate(&mut self, live: &mut Live, now: Instant) {
        live.terminated = Some(now);
        complain(&format!("srun: Terminating {}", self.rules.step));
        self.signal(nix::libc::SIGCONT);
        self.signal(nix::libc::SIGTERM);
    }

    fn signal(&mut self, signal: i32) {
        // A node that is gone is noticed when it is read from.
        let _ = self.say(Say::Signal(StepSignal { signal }));
    }

    fn on_signal(&mut self, live: &mut Live, number: i32) {
        match Signal::try_from(number) {
            Ok(Signal::SIGWINCH) => {
                if let Some((rows, columns)) = terminal::window_size().filter(|_| self.rules.pty) {
                    let _ = self.say(Say::Resize(WindowSize { rows, columns }));
                }
            }
            Ok(Signal::SIGINT) if self.rules.quit_on_interrupt => self.force(),
            Ok(Signal::SIGINT) if !self.rules.hand_on_interrupts => self.interrupted(live),
            Ok(Signal::SIGTERM) => self.force(),
            Ok(_) => self.signal(number),
            Err(_) => {}
        }
    }

    fn force(&mut self) {
        complain("srun: forcing job termination");
        self.signal(nix::libc::SIGKILL);
    }

    /// Once tells, twice hands on, three times kills; each within a second of the one before.
    fn interrupted(&mut self, live: &mut Live) {
        let now = Instant::now();
        let count = live.interrupts.filter(|(_, at)| now <= *at + AGAIN).map_or(1, |(count, _)| count + 1);
        live.interrupts = Some((count, now));
        match count {
            1 => {
                complain("srun: interrupt (one more within 1 sec to abort)");
                let (ended, running): (Vec<u32>, Vec<u32>) =
                    (0..self.rules.tasks).partition(|task| live.ends.has(*task));
                for (tasks, state) in [(running, "running"), (ended, "exited")] {
                    if !tasks.is_empty() {
                        complain(&format!("srun: {} {}: {state}", self.rules.step, named(&tasks)));
                    }
                }
            }
            2 => {
                complain(&format!("srun: sending Ctrl-C to {}", self.rules.step));
                self.signal(nix::libc::SIGINT);
            }
            _ => self.force(),
        }
    }

    fn take_input(&mut self, live: &mut Live) {
        let mut buffer = vec![0; PIECE_BYTES];
        let Some(file) = &mut live.input else { return };
        let read = match file.read(&mut buffer) {
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => return,
            // A terminal that is not ours to read from has nothing for us.
            Ok(0) | Err(_) => 0,
            Ok(read) => read,
        };
        let tasks: Vec<u32> = live.room.keys().copied().collect();
        if read == 0 {
            live.input = None;
        }
        for task in tasks {
            let message = if read == 0 {
                Say::InputEnd(task)
            } else {
                if let Some(room) = live.room.get_mut(&task) {
                    *room = room.saturating_sub(1);
                }
                Say::Input(TaskBytes { task, bytes: buffer[..read].to_vec() })
            };
            let _ = self.say(message);
        }
    }
}

/// What changes during a session.
struct Live {
    ends: Ends,
    input: Option<File>,
    /// How many pieces of input each task takes yet.
    room: BTreeMap<u32, u32>,
    untold_since: Option<Instant>,
    first_end: Option<Instant>,
    terminated: Option<Instant>,
    interrupts: Option<(u32, Instant)>,
    lost: bool,
}

impl Live {
    fn new(input: Input) -> Self {
        let (input, tasks) = match input {
            Input::None => (None, Vec::new()),
            Input::From(file, tasks) => (Some(file), tasks),
        };
        Self {
            ends: Ends::default(),
            input,
            room: tasks.into_iter().map(|task| (task, INPUT_WINDOW)).collect(),
            untold_since: None,
            first_end: None,
            terminated: None,
            interrupts: None,
            lost: false,
        }
    }

    /// The slowest of the tasks decides how fast input is read.
    fn may_take_input(&self) -> bool {
        !self.room.is_empty() && self.room.values().all(|room| *room > 0)
    }

    fn next_due(&self, rules: &Rules, now: Instant) -> Option<Instant> {
        let told = self.untold_since.map(|since| since + GATHER);
        let waited = rules.wait.zip(self.first_end).filter(|_| self.terminated.is_none());
        let waited = waited.map(|(wait, first)| first + wait);
        let killed = self.terminated.map(|since| since + KILL_WAIT);
        [told, waited, killed].into_iter().flatten().filter(|due| *due >= now).min()
    }
}

/// Signals that are taken from here on, instead of ending srun.
fn watched() -> nix::Result<SignalFd> {
    let mut set = SigSet::empty();
    for signal in [
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGQUIT,
        Signal::SIGHUP,
        Signal::SIGUSR1,
        Signal::SIGUSR2,
        Signal::SIGALRM,
        Signal::SIGWINCH,
    ] {
        set.add(signal);
    }
    set.thread_block()?;
    SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
}
