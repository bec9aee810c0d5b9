//! The process that runs one step: it starts the tasks through process 1 of the job's container, carries their streams to srun
//! and back, and records how the step ended. It outlives gpund, as the job's supervisor does.
//!
//! What the tasks write waits in their pipes when srun does not read: a slow reader slows the tasks and nothing else.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use gpun_init::Order;
use gpun_proto::pb::{
    FromStep, StepDone, StepLaunch, StepReady, TaskBytes, TaskEnded, TaskStarted, ToStep, from_step::Message as Say,
    to_step::Message as Heard,
};
use gpun_proto::step::{Frames, PIECE_BYTES, frame};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf, pipe};
use tokio::sync::mpsc::{Receiver, Sender, UnboundedReceiver, UnboundedSender, channel, unbounded_channel};
use tokio::time::{Instant, interval, timeout};

use super::record::{StepEnd, StepFiles};
use super::task::{self, Common, Ends, Place, TASKS_MAX};
use crate::cgroup::Cgroups;
use crate::jobdir::JobDir;
use crate::spec::LaunchSpec;
use crate::supervise::start_ticks;
use crate::sys::{Linux, Sys};

/// How long srun may take to say what to start.
const LAUNCH_WAIT: Duration = Duration::from_secs(60);

/// How long tasks may take to be ready, from the order to start them.
const READY_WAIT: Duration = Duration::from_secs(60);

/// How long the streams may stay open after the last task has ended and all that it left was killed.
const DRAIN_WAIT: Duration = Duration::from_secs(5);

/// How long killed processes may resist.
const KILL_PATIENCE: Duration = Duration::from_secs(10);

/// How often the container is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Runs the step with that number of the job in that folder; `socket` leads to srun, which was let in.
///
/// # Errors
/// What kept it from starting; srun was told.
pub fn run(dir: &JobDir, step: u32, socket: OwnedFd) -> Result<()> {
    let files = StepFiles::new(dir.path(), step);
    let Some(_claim) = files.claim().context("the step's folder can't be written")? else {
        bail!("step {step} was started before");
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let end = runtime.block_on(serve(dir, step, socket));
    runtime.shutdown_background();
    let (end, problem) = match end {
        Ok(end) => (end, None),
        Err(error) => (StepEnd { code: 1, cancelled: true, ..StepEnd::default() }, Some(error)),
    };
    files.write_end(&StepEnd { ended_ms: Linux.now_ms(), ..end }).context("the step's end can't be recorded")?;
    problem.map_or(Ok(()), Err)
}

async fn serve(dir: &JobDir, step: u32, socket: OwnedFd) -> Result<StepEnd> {
    let spec = dir.read_launch().context("cannot read launch.json")?;
    let running = dir.read_running()?.context("the job does not run")?;
    let stream = std::os::unix::net::UnixStream::from(socket);
    stream.set_nonblocking(true)?;
    let (reader, mut writer) = UnixStream::from_std(stream)?.into_split();
    let mut client = Client { reader, frames: Frames::default() };
    writer.write_all(&frame(&FromStep { message: Some(Say::Ready(StepReady {})) })).await?;
    let launch = match timeout(LAUNCH_WAIT, client.next()).await {
        Ok(Some(Heard::Launch(launch))) => launch,
        Ok(_) => bail!("srun went without a word"),
        Err(_) => bail!("srun did not say what to start"),
    };
    let system = Linux;
    let cgroups = Cgroups::detect(&system).context("cannot read the mounted cgroups")?;
    let prepared = Prepared::new(dir, step, &spec, &launch, running.init_pid);
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            let why = format!("the step can't be started on {}: {error}", spec.node_name);
            let refused = FromStep { message: Some(Say::Refused(why.clone())) };
            let _ = writer.write_all(&frame(&refused)).await;
            bail!(why);
        }
    };
    let group = format!("{}/step_{step}", spec.cgroup());
    let job_group = spec.cgroup();
    let oom_before = cgroups.oom_kills(&system, &job_group);
    let place = Placed {
        system: &system,
        cgroups: &cgroups,
        group,
        job_group,
        oom_before,
        init_pid: running.init_pid,
        init_start_ticks: running.init_start_ticks,
    };
    Ok(prepared.run(place, client, writer).await)
}

/// srun, heard.
struct Client {
    reader: OwnedReadHalf,
    frames: Frames,
}

impl Client {
    /// What it says next; none: it is gone, or speaks no sense.
    async fn next(&mut self) -> Option<Heard> {
        loop {
            match self.frames.next_message::<ToStep>() {
                Ok(Some(ToStep { message: Some(message) })) => return Some(message),
                Ok(Some(_)) => continue,
                Ok(None) => {}
                Err(_) => return None,
            }
            let mut buffer = vec![0; PIECE_BYTES];
            match self.reader.read(&mut buffer).await {
                Ok(0) | Err(_) => return None,
                Ok(read) => self.frames.push(&buffer[..read]),
            }
        }
    }
}

/// Where the step is in the machine.
struct Placed<'a> {
    system: &'a Linux,
    cgroups: &'a Cgroups,
    group: String,
    job_group: String,
    oom_before: u64,
    init_pid: i32,
    init_start_ticks: u64,
}

impl Placed<'_> {
    /// Moves a task into the step's group, so that whatever it leaves behind is found. Version 1: only where processes are
    /// frozen, as limits and counters are the job's.
    fn enter(&self, pid: i32) -> io::Result<()> {
        let Some(folder) = self.cgroups.folder("freezer", &self.group) else { return Ok(()) };
        match std::fs::create_dir(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        self.system.write(&folder.join("cgroup.procs"), pid.to_string().as_bytes())
    }

    fn kill(&self) {
        if let Err(error) = self.cgroups.kill(self.system, &self.group, KILL_PATIENCE) {
            eprintln!("gpund-shim step: {error}");
        }
    }

    fn remove(&self) {
        let _ = self.cgroups.remove(self.system, &self.group);
    }

    fn had_oom(&self) -> bool {
        self.cgroups.oom_kills(self.system, &self.job_group) > self.oom_before
    }

    /// The container's process 1 lives.
    fn lives(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.init_pid)).unwrap_or_default();
        // The number may be another's by now; a start time of 0 was never known.
        start_ticks(&stat).is_some_and(|ticks| self.init_start_ticks == 0 || ticks == self.init_start_ticks)
    }

    /// Children of process 1 by the numbers that they have inside.
    fn children(&self) -> Vec<(i32, i32)> {
        let path = format!("/proc/{0}/task/{0}/children", self.init_pid);
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.split_whitespace().filter_map(|pid| pid.parse().ok()).filter_map(|pid| Some((inside(pid)?, pid))).collect()
    }
}

/// The number of a process in its innermost namespace.
fn inside(pid: i32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("NSpid:"))?.split_whitespace().last()?.parse().ok()
}

/// One task.
struct OneTask {
    /// Its number in the step.
    number: u32,
    sequence: u32,
    inside: Option<i32>,
    host: Option<i32>,
    ready: bool,
    end: Option<(u8, u8)>,
    keep: Vec<std::fs::File>,
    input: Option<UnboundedSender<Input>>,
}

enum Input {
    Bytes(Vec<u8>),
    End,
}

/// All that is ready before the first task is started.
struct Prepared {
    tasks: Vec<OneTask>,
    ends: Vec<Ends>,
    status: pipe::Receiver,
    go: std::fs::File,
    place: Place,
}

impl Prepared {
    fn new(dir: &JobDir, step: u32, spec: &LaunchSpec, launch: &StepLaunch, init_pid: i32) -> io::Result<Self> {
        let count = launch.tasks.len();
        if launch.argv.is_empty() || count == 0 || count > TASKS_MAX as usize {
            return Err(io::Error::other(format!(
                "it has no program or {count} tasks, and 1 to {TASKS_MAX} are possible"
            )));
        }
        if launch.terminal.is_some() && count > 1 {
            return Err(io::Error::other("a terminal is for one task"));
        }
        let mut place = Place::make(&dir.run(), spec)?;
        let (status_path, status) = place.pipe(&format!("s{step}"))?;
        let (go_path, go) = place.pipe(&format!("g{step}"))?;
        let receiver = pipe::OpenOptions::new().read_write(true).open_receiver(&status_path)?;
        let go_file = open_both(go_path)?;
        let common = Common { spec, launch, init_pid, status, go };
        let (mut tasks, mut ends) = (Vec::new(), Vec::new());
        for (asked, index) in launch.tasks.iter().zip(0..) {
            let sequence = task::sequence(step, index).ok_or_else(|| io::Error::other("the job had too many steps"))?;
            let mut end = task::prepare(&mut place, &common, asked, sequence)?;
            let keep = match &mut end {
                Ends::Pipes { keep, .. } => std::mem::take(keep),
                Ends::Terminal(_) => Vec::new(),
            };
            ends.push(end);
            tasks.push(OneTask {
                number: asked.task,
                sequence,
                inside: None,
                host: None,
                ready: false,
                end: None,
                keep,
                input: None,
            });
        }
        Ok(Self { tasks, ends, status: receiver, go: go_file, place })
    }

    async fn run(mut self, placed: Placed<'_>, client: Client, writer: OwnedWriteHalf) -> StepEnd {
        let (data, data_out) = channel(4);
        let (words, words_out) = unbounded_channel();
        let mut writing = tokio::spawn(write(writer, data_out, words_out));
        let (said, mut hear) = channel(4);
        tokio::spawn(listen(client, said));
        let mut terminal = None;
        for (task, ends) in self.tasks.iter_mut().zip(std::mem::take(&mut self.ends)) {
            let (input, inputs) = unbounded_channel();
            task.input = Some(input);
            match ends {
                Ends::Pipes { input, output, error, .. } => {
                    tokio::spawn(carry(output, task.number, false, data.clone()));
                    tokio::spawn(carry(error, task.number, true, data.clone()));
                    match input {
                        Some(pipe) => drop(tokio::spawn(feed(pipe, inputs, task.number, words.clone()))),
                        None => task.input = None,
                    }
                }
                Ends::Terminal(master) => match (master.try_clone(), master.try_clone()) {
                    (Ok(one), Ok(other)) => {
                        let as_file = |fd: OwnedFd| tokio::fs::File::from_std(fd.into());
                        tokio::spawn(carry_terminal(as_file(one), task.number, data.clone()));
                        tokio::spawn(feed_terminal(as_file(other), inputs, task.number, words.clone()));
                        terminal = Some(master);
                    }
                    _ => eprintln!("gpund-shim step: the terminal can't be watched: no more descriptors"),
                },
            }
        }
        let mut live = Live {
            tasks: self.tasks,
            go: Some(self.go),
            gone: None,
            words: words.clone(),
            placed,
            started: Instant::now(),
            end: StepEnd::default(),
            partial: Vec::new(),
            terminal,
        };
        // Each stream has a sender of its own: when the last is gone, all is written.
        drop(data);
        drop(words);
        live.run(&mut self.status, &mut hear).await;
        live.end_streams();
        let drained = timeout(DRAIN_WAIT, &mut writing).await;
        if drained.is_err() {
            // Somebody outside the step holds its output open, or srun does not read: its time is over.
            writing.abort();
        }
        drop(self.place);
        live.end
    }
}

fn open_both(path: PathBuf) -> io::Result<std::fs::File> {
    std::fs::OpenOptions::new().read(true).write(true).open(path)
}

/// A step while it runs.
struct Live<'a> {
    tasks: Vec<OneTask>,
    /// Where the tasks wait; none once they were let go.
    go: Option<std::fs::File>,
    /// The same, after that.
    gone: Option<std::fs::File>,
    words: UnboundedSender<FromStep>,
    placed: Placed<'a>,
    started: Instant,
    end: StepEnd,
    partial: Vec<u8>,
    terminal: Option<OwnedFd>,
}

impl Live<'_> {
    /// Starts the tasks, and comes back when all have ended and nothing of them is left.
    async fn run(&mut self, status: &mut pipe::Receiver, hear: &mut Receiver<Heard>) {
        for task in &self.tasks {
            if let Err(error) = self.placed.system.order(self.placed.init_pid, Order::Start(task.sequence)) {
                eprintln!("gpund-shim step: process 1 takes no order: {error}");
            }
        }
        let mut looks = interval(LOOK_EVERY);
        let mut buffer = vec![0; 4096];
        let mut listening = true;
        while self.tasks.iter().any(|task| task.end.is_none()) {
            tokio::select! {
                read = status.read(&mut buffer) => match read {
                    Ok(read) => self.news(&buffer[..read]),
                    Err(_) => self.give_up(),
                },
                said = hear.recv(), if listening => match said {
                    Some(said) => self.obey(said),
                    None => {
                        // Without srun nobody waits for the step.
                        listening = false;
                        self.end.cancelled = true;
                        self.kill();
                    }
                },
                _ = looks.tick() => {
                    let late = self.go.is_some() && self.started.elapsed() > READY_WAIT;
                    if late || !self.placed.lives() {
                        // What was told before the container went is still read.
                        while let Ok(read) = status.try_read(&mut buffer) {
                            self.news(&buffer[..read]);
                        }
                        self.give_up();
                    }
                }
            }
        }
        self.placed.kill();
        self.placed.remove();
    }

    fn news(&mut self, bytes: &[u8]) {
        self.partial.extend_from_slice(bytes);
        while let Some(end) = self.partial.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.partial.drain(..=end).collect();
            self.line(String::from_utf8_lossy(&line).trim_end());
        }
        // The pipe is the user's too: what is not a line of ours is nothing.
        if self.partial.len() > 4096 {
            self.partial.clear();
        }
        self.let_go();
    }

    fn line(&mut self, line: &str) {
        let mut words = line.split(' ');
        let (Some(what), Some(sequence)) = (words.next(), words.next().and_then(|word| word.parse().ok())) else {
            return;
        };
        let numbers: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
        let Some(task) = self.tasks.iter_mut().find(|task| task.sequence == sequence && task.end.is_none()) else {
            return;
        };
        match (what, numbers.as_slice()) {
            ("start", &[pid]) => {
                task.inside = i32::try_from(pid).ok();
                let started = TaskStarted { task: task.number, pid: pid as u32 };
                let _ = self.words.send(FromStep { message: Some(Say::Started(started)) });
            }
            ("open", _) => task.ready = true,
            ("exit", &[code, signal, rss_kib, user_us, system_us]) => {
                let end = (code.min(255) as u8, signal.min(255) as u8);
                self.end.max_rss_kib = self.end.max_rss_kib.max(rss_kib);
                self.end.user_us += user_us;
                self.end.system_us += system_us;
                self.task_ended(sequence, end);
            }
            _ => {}
        }
        for task in self.tasks.iter_mut().filter(|task| task.ready || task.end.is_some()) {
            task.keep.clear();
        }
    }

    fn task_ended(&mut self, sequence: u32, end: (u8, u8)) {
        let oom = end.1 == libc::SIGKILL as u8 && self.placed.had_oom();
        self.end.oom |= oom;
        let Some(task) = self.tasks.iter_mut().find(|task| task.sequence == sequence) else { return };
        task.end = Some(end);
        task.input = None;
        let ended = TaskEnded { task: task.number, code: end.0.into(), signal: end.1.into(), out_of_memory: oom };
        let _ = self.words.send(FromStep { message: Some(Say::Ended(ended)) });
        // The greatest wait status, as Slurm reports it.
        if (end.0, end.1) > (self.end.code, self.end.signal) {
            (self.end.code, self.end.signal) = end;
        }
    }

    /// When every task stands ready, they are put into the step's group and begin together.
    fn let_go(&mut self) {
        if !self.tasks.iter().all(|task| task.end.is_some() || (task.ready && task.inside.is_some())) {
            return;
        }
        let Some(go) = self.go.take() else { return };
        let children = self.placed.children();
        let mut waiting = 0;
        for task in self.tasks.iter_mut().filter(|task| task.end.is_none()) {
            waiting += 1;
            task.host = children.iter().find(|(inside, _)| Some(*inside) == task.inside).map(|(_, host)| *host);
            if let Some(Err(error)) = task.host.map(|pid| self.placed.enter(pid)) {
                eprintln!("gpund-shim step: a task is not put into the step's group: {error}");
            }
        }
        // Kept open until all have read: a pipe that nobody holds forgets what is in it.
        if io::Write::write_all(&mut &go, &vec![b'g'; waiting]).is_err() {
            eprintln!("gpund-shim step: the tasks can't be let go");
        }
        self.gone = Some(go);
    }

    fn obey(&mut self, said: Heard) {
        match said {
            Heard::Input(TaskBytes { task, bytes }) => self.give(task, Input::Bytes(bytes)),
            Heard::InputEnd(task) => self.give(task, Input::End),
            Heard::Signal(signal) if signal.signal == libc::SIGKILL => {
                self.end.cancelled = true;
                self.kill();
            }
            Heard::Signal(signal) => {
                for pid in self.tasks.iter().filter(|task| task.end.is_none()).filter_map(|task| task.host) {
                    let _ = self.placed.system.kill(-pid, signal.signal);
                }
            }
            Heard::Resize(size) => {
                if let Some(master) = &self.terminal {
                    let _ = task::resize(master, &size);
                }
            }
            Heard::Hello(_) | Heard::Launch(_) => {}
        }
    }

    fn give(&self, number: u32, input: Input) {
        let task = self.tasks.iter().find(|task| task.number == number);
        if let Some(to) = task.and_then(|task| task.input.as_ref()) {
            let _ = to.send(input);
        }
    }

    fn kill(&mut self) {
        // Those that wait to begin are found as children of process 1.
        let children = self.placed.children();
        for task in self.tasks.iter().filter(|task| task.end.is_none()) {
            let found = children.iter().find(|(inside, _)| Some(*inside) == task.inside).map(|(_, host)| *host);
            if let Some(pid) = task.host.or(found) {
                let _ = self.placed.system.kill(-pid, libc::SIGKILL);
                let _ = self.placed.system.kill(pid, libc::SIGKILL);
            }
        }
        self.placed.kill();
    }

    /// Nothing more will be told of the tasks that have not ended: the container is gone, or process 1 does not obey.
    fn give_up(&mut self) {
        self.end.cancelled = true;
        self.kill();
        let left: Vec<u32> = self.tasks.iter().filter(|task| task.end.is_none()).map(|task| task.sequence).collect();
        for sequence in left {
            self.task_ended(sequence, (0, libc::SIGKILL as u8));
        }
    }

    /// No more input; what is left of the output is written out.
    fn end_streams(&mut self) {
        for task in &mut self.tasks {
            task.keep.clear();
            task.input = None;
        }
        self.terminal = None;
        let (none, _) = unbounded_channel();
        self.words = none;
    }
}

/// Hands on what srun says.
async fn listen(mut client: Client, said: Sender<Heard>) {
    while let Some(message) = client.next().await {
        if said.send(message).await.is_err() {
            return;
        }
    }
}

/// Writes to srun: words at once, data as it is taken. Ends, after a last word, when no more of either can come.
async fn write(mut writer: OwnedWriteHalf, mut data: Receiver<FromStep>, mut words: UnboundedReceiver<FromStep>) {
    let (mut data_open, mut words_open) = (true, true);
    while data_open || words_open {
        let message = tokio::select! {
            word = words.recv(), if words_open => {
                words_open = word.is_some();
                word
            }
            piece = data.recv(), if data_open => {
                data_open = piece.is_some();
                piece
            }
        };
        let Some(message) = message else { continue };
        if writer.write_all(&frame(&message)).await.is_err() {
            return;
        }
    }
    let done = FromStep { message: Some(Say::Done(StepDone {})) };
    // The connection is gpund's too, which closes it when the step's end is in the log.
    let _ = writer.write_all(&frame(&done)).await;
    writer.forget();
}

/// Carries a task's output to srun, up to its end.
async fn carry(mut from: pipe::Receiver, task: u32, is_error: bool, data: Sender<FromStep>) {
    let mut buffer = vec![0; PIECE_BYTES];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let piece = TaskBytes { task, bytes: buffer[..read].to_vec() };
        let say = if is_error { Say::Error(piece) } else { Say::Output(piece) };
        if data.send(FromStep { message: Some(say) }).await.is_err() {
            return;
        }
    }
}

/// Carries srun's input to a task; each piece that was taken makes room for another.
async fn feed(mut to: pipe::Sender, mut inputs: UnboundedReceiver<Input>, task: u32, words: UnboundedSender<FromStep>) {
    while let Some(Input::Bytes(bytes)) = inputs.recv().await {
        if to.write_all(&bytes).await.is_err() {
            return;
        }
        let _ = words.send(FromStep { message: Some(Say::InputTaken(task)) });
    }
}

/// Carries what appears on a terminal to srun, until nobody has it open any more.
async fn carry_terminal(mut master: tokio::fs::File, task: u32, data: Sender<FromStep>) {
    let mut buffer = vec![0; PIECE_BYTES];
    // A terminal that the last one closed reads as an error.
    while let Ok(read @ 1..) = master.read(&mut buffer).await {
        let piece = TaskBytes { task, bytes: buffer[..read].to_vec() };
        if data.send(FromStep { message: Some(Say::Output(piece)) }).await.is_err() {
            return;
        }
    }
}

/// Carries srun's keys to a terminal.
async fn feed_terminal(
    mut master: tokio::fs::File,
    mut inputs: UnboundedReceiver<Input>,
    task: u32,
    words: UnboundedSender<FromStep>,
) {
    const END_OF_TRANSMISSION: u8 = 4;
    while let Some(input) = inputs.recv().await {
        let bytes = match input {
            Input::Bytes(bytes) => bytes,
            Input::End => vec![END_OF_TRANSMISSION],
        };
        if master.write_all(&bytes).await.and(master.flush().await).is_err() {
            return;
        }
        let _ = words.send(FromStep { message: Some(Say::InputTaken(task)) });
    }
}
