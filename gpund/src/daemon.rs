//! The event loop: takes in what the controller, the supervisors and the clock say, asks the agent, and carries its acts out.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gpun_core::TimeMs;
use gpun_core::desired::Desired;
use gpun_core::job::SignalScope;
use gpun_proto::pb::{self, FromNode, from_node};
use nix::libc::{SIGCONT, SIGKILL, SIGTERM};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{SysconfVar, sysconf};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::agent::{self, Act, Cause, Key, Stage};
use crate::jobdir::JobDir;
use crate::launcher::Site;
use crate::ledger::{Found, Ledger};
use crate::link;
use crate::notice;
use crate::phase::{ExitKind, Phase, Running};
use crate::probe;
use crate::recover::{self, NodePlaces};
use crate::reports::{Outbox, Said};
use crate::shimlink::{self, Target};
use crate::step::door::Asked;
use crate::step::keeper::{Keeper, World};
use crate::sys::Linux;
use crate::watch::{self, Watch};

/// Reports of what happens within this time go in one message.
const GATHER: Duration = Duration::from_millis(2);

/// The agent is asked at least this often: its clock also runs while the machine sleeps, the timer's does not.
const ASK_AT_LEAST: Duration = Duration::from_secs(30);

/// Everything that can happen to the daemon.
#[derive(Debug)]
pub enum Event {
    /// The stream to the controller.
    Link(link::News),
    /// A job's supervisor.
    Job(Key, watch::News),
    /// Somebody asks for a step.
    Step(Asked),
    /// The process of a step is gone.
    StepOver(Key, u32),
    /// The daemon is asked to stop.
    Stop,
}

/// The node daemon.
pub struct Daemon {
    site: Site,
    shim: PathBuf,
    ledger: Ledger,
    desired: Option<Desired>,
    orders: BTreeMap<Key, UnboundedSender<shimlink::Act>>,
    outbox: Outbox,
    link: Option<UnboundedSender<FromNode>>,
    last_sent: Option<Instant>,
    news: UnboundedSender<Event>,
    clock_tick_ms: u64,
    steps: Keeper,
}

impl Daemon {
    /// A daemon that finds again what an earlier one left. Gives the channel of its events too.
    ///
    /// # Errors
    /// The ledger can't be read.
    pub fn start(site: Site, shim: PathBuf, launches_max: usize) -> io::Result<(Self, UnboundedReceiver<Event>)> {
        let (news, events) = unbounded_channel();
        let mut ledger = Ledger::open(&site.node_dir, launches_max)?;
        let found = ledger.load()?;
        let ticks = sysconf(SysconfVar::CLK_TCK).ok().flatten().filter(|ticks| *ticks > 0).unwrap_or(100);
        let mut daemon = Self {
            site,
            shim,
            ledger,
            desired: None,
            orders: BTreeMap::new(),
            // Above all numbers of an earlier process, which cannot have sent a million messages a second.
            outbox: Outbox::new(probe::now().0.saturating_mul(1000)),
            link: None,
            last_sent: None,
            news,
            clock_tick_ms: 1000 / ticks as u64,
            steps: Keeper::default(),
        };
        daemon.sweep();
        for (key, state) in found {
            tracing::info!(job = %key, ?state, "found");
            if state == Found::Started {
                daemon.watch(key, None);
            }
        }
        Ok((daemon, events))
    }

    /// Takes away what belongs to no attempt that is known. Failing, it is tried again at the next start.
    fn sweep(&self) {
        let places = NodePlaces { cgroup_parent: self.site.cgroup_parent(), runc_root: self.site.runc_root() };
        let keep = self.ledger.entries().map(|(key, _)| format!("job_{key}")).collect();
        match recover::sweep(&Linux, &places, &keep) {
            Ok(taken) => taken.iter().for_each(|what| tracing::warn!(what, "left by nobody, taken away")),
            Err(error) => tracing::error!(%error, "what an earlier run left can't be taken away"),
        }
    }

    /// A sender of events for this daemon.
    pub fn events(&self) -> UnboundedSender<Event> {
        self.news.clone()
    }

    /// Runs until it is asked to stop. Jobs are not touched by that.
    pub async fn run(mut self, mut events: UnboundedReceiver<Event>) {
        const TOGETHER: usize = 512;
        let mut batch = Vec::with_capacity(TOGETHER);
        loop {
            let asked = self.act();
            let steps = self.look_at_steps();
            let sent = self.flush();
            let wake = [asked, steps, sent].into_iter().flatten().min().unwrap_or(ASK_AT_LEAST).min(ASK_AT_LEAST);
            tokio::select! {
                _ = events.recv_many(&mut batch, TOGETHER) => {}
                () = tokio::time::sleep(wake) => {}
            }
            for event in batch.drain(..) {
                match event {
                    Event::Stop => return,
                    Event::Link(news) => self.hear_controller(news),
                    Event::Job(key, news) => self.hear_job(key, news),
                    Event::Step(asked) => self.steps.ask(asked),
                    Event::StepOver(key, step) => self.steps.over(key, step),
                }
            }
        }
    }

    fn hear_controller(&mut self, news: link::News) {
        match news {
            link::News::Up(out) => {
                self.link = Some(out);
                self.outbox.clear();
                self.steps.nothing_taken();
                self.ledger.nothing_taken();
                let keys: Vec<Key> = self.ledger.entries().map(|(key, _)| key).collect();
                keys.into_iter().for_each(|key| self.outbox.push(self.ledger.reports(key)));
            }
            link::News::Down => self.link = None,
            link::News::Taken(number) => {
                for said in self.outbox.taken(number) {
                    match said {
                        Said::Started(key) => self.ledger.start_taken(key),
                        Said::Ended(key) => self.ledger.exit_taken(key),
                        Said::StepEnded(_) => {}
                    }
                }
            }
            link::News::Sync(desired, launches) => self.sync(desired, launches),
        }
    }

    fn look_at_steps(&mut self) -> Option<Duration> {
        let ledger = &self.ledger;
        let runs =
            |key: Key| ledger.view.held.get(&key).is_some_and(|held| matches!(held.stage, Stage::Running { .. }));
        let dir = |key: Key| ledger.job_dir(key);
        let world = World { runs: &runs, dir: &dir, shim: &self.shim };
        let (reports, wake) = self.steps.look(self.desired.as_ref(), &world, &self.news);
        self.push(reports);
        wake
    }

    fn sync(&mut self, desired: Desired, launches: Vec<pb::Launch>) {
        if self.desired.as_ref().is_some_and(|have| desired.as_of < have.as_of) {
            tracing::warn!(as_of = desired.as_of.0, "a document older than the last one is not obeyed");
            return;
        }
        let wanted = |launch: &pb::Launch| {
            desired.jobs.iter().any(|job| job.job.0 == launch.job_id && job.attempt.0 == launch.attempt)
        };
        for launch in launches.into_iter().filter(wanted) {
            let key = Key::new(launch.job_id, launch.attempt);
            if !self.ledger.accept(launch) {
                tracing::debug!(job = %key, "its launch came again");
            }
        }
        if self.ledger.desire(&desired, boot_ms()) {
            self.desired = Some(desired);
        } else {
            tracing::warn!(as_of = desired.as_of.0, "a deposed leader's document is not obeyed");
        }
    }

    fn hear_job(&mut self, key: Key, news: watch::News) {
        match news {
            watch::News::Phase(Phase::Creating) => self.ledger.creating(key),
            watch::News::Phase(Phase::Running(running)) => {
                let since_ms = self.since_ms(&running);
                self.ledger.running(key, &running, since_ms);
                self.report_started(key);
            }
            watch::News::Phase(Phase::Ended(exit)) => {
                tracing::info!(job = %key, kind = ?exit.kind, code = exit.code, signal = exit.signal, reason = exit.reason, "ended");
                let knew_start = self.ledger.entry(key).is_some_and(|entry| entry.started.is_some());
                if self.ledger.ended(key, exit) {
                    let reports = self.ledger.reports(key);
                    // That it started is already on its way if it was known.
                    self.push(reports.into_iter().filter(|report| !knew_start || is_end(report)).collect());
                }
            }
            watch::News::Closed => {
                self.orders.remove(&key);
                self.ledger.closed(key);
            }
        }
    }

    fn report_started(&mut self, key: Key) {
        let reports = self.ledger.reports(key);
        self.push(reports);
    }

    fn push(&mut self, reports: Vec<gpun_core::command::JobReport>) {
        if self.link.is_some() {
            self.outbox.push(reports);
        }
    }

    /// When the container's process 1 started, by the boot clock.
    fn since_ms(&self, running: &Running) -> u64 {
        let now_ms = boot_ms();
        // 0: its supervisor could not tell, as it had ended already.
        let told = Some(running.init_start_ticks).filter(|ticks| *ticks > 0);
        told.map_or(now_ms, |ticks| ticks.saturating_mul(self.clock_tick_ms).min(now_ms))
    }

    /// Does all that is to be done now; gives how long until something else may be.
    fn act(&mut self) -> Option<Duration> {
        // An act may make the next one due, such as a launch that turns out to be impossible; each round does some.
        const ROUNDS_MAX: usize = 100;
        for _ in 0..ROUNDS_MAX {
            let now_ms = boot_ms();
            let step = agent::step(self.desired.as_ref(), &self.ledger.view, now_ms);
            if step.acts.is_empty() {
                return step.wake_ms.map(|wake_ms| Duration::from_millis(wake_ms.saturating_sub(now_ms).max(1)));
            }
            step.acts.iter().for_each(|act| self.carry_out(act, now_ms));
        }
        tracing::error!("the agent finds no end of things to do");
        Some(Duration::from_millis(100))
    }

    fn carry_out(&mut self, act: &Act, now_ms: u64) {
        tracing::debug!(?act);
        let before = self.ledger.view.held.get(&act.key()).map(|held| held.stage);
        match *act {
            Act::Launch(key) => self.launch(key, now_ms),
            Act::Forget(key) => self.forget(key),
            Act::Kill { key, cause } => {
                self.ledger.record(act, now_ms);
                match before {
                    None | Some(Stage::Ready) => self.give_up(key, cause),
                    _ => self.order(key, shimlink::Act::Kill),
                }
            }
            Act::Term { key, cause } => {
                self.ledger.record(act, now_ms);
                if let Some(text) = self.ledger.entry(key).and_then(|entry| entry.notices.of(cause)) {
                    let text = notice::line(text);
                    self.order(key, shimlink::Act::Notice { text });
                }
                self.order(key, shimlink::Act::Signal { signal: SIGCONT, to: Target::All });
                self.order(key, shimlink::Act::Signal { signal: SIGTERM, to: Target::All });
            }
            Act::Freeze { key, on } => {
                self.ledger.record(act, now_ms);
                self.order(key, shimlink::Act::Freeze { on });
            }
            Act::Signal { key, signal, scope, .. } | Act::Warn { key, signal, scope } => {
                self.ledger.record(act, now_ms);
                self.signal(key, signal, scope);
            }
        }
    }

    fn signal(&self, key: Key, signal: i32, scope: SignalScope) {
        match (scope, signal) {
            (SignalScope::All, SIGKILL) => self.order(key, shimlink::Act::Kill),
            (SignalScope::All, _) => self.order(key, shimlink::Act::Signal { signal, to: Target::All }),
            (SignalScope::Batch, _) => self.order(key, shimlink::Act::Signal { signal, to: Target::Script }),
            (SignalScope::Steps, _) => tracing::debug!(job = %key, signal, "it has no steps to signal"),
        }
    }

    fn order(&self, key: Key, act: shimlink::Act) {
        // A supervisor that is gone needs no orders: its end is on the way.
        if let Some(orders) = self.orders.get(&key) {
            let _ = orders.send(act);
        }
    }

    fn launch(&mut self, key: Key, now_ms: u64) {
        let Some(launch) = self.ledger.take_launch(key) else { return };
        let spec = match self.site.spec(&launch) {
            Ok(spec) => spec,
            Err(error) => return self.end(key, None, ExitKind::LaunchFailed, error.to_string()),
        };
        if let Err(error) = JobDir::prepare(self.ledger.job_dir(key).path(), &spec, &launch.script) {
            let reason = format!("the job's folder on node {} can't be made: {error}", self.site.node_name);
            return self.end(key, None, ExitKind::NodeFailed, reason);
        }
        if let Err(error) = self.ledger.write_record(key) {
            let reason = format!("the job's folder on node {} can't be written: {error}", self.site.node_name);
            return self.end(key, None, ExitKind::NodeFailed, reason);
        }
        self.ledger.record(&Act::Launch(key), now_ms);
        self.watch(key, Some(self.shim.clone()));
    }

    fn watch(&mut self, key: Key, start: Option<PathBuf>) {
        let (orders, receiver) = unbounded_channel();
        self.orders.insert(key, orders);
        let oom_notice = self.ledger.entry(key).map(|entry| entry.notices.out_of_memory.clone()).unwrap_or_default();
        let watch = Watch { key, dir: self.ledger.job_dir(key), start, oom_notice, news: self.news.clone() };
        tokio::spawn(watch.run(receiver));
    }

    fn give_up(&mut self, key: Key, cause: Cause) {
        let (kind, reason) = match cause {
            Cause::Missing => {
                (ExitKind::NodeFailed, "node has nothing of it: its launch never came, or its folder is gone")
            }
            _ => (ExitKind::Exited, "ended before it started"),
        };
        self.end(key, Some(cause), kind, reason.to_owned());
    }

    /// Ends an attempt that has no supervisor.
    fn end(&mut self, key: Key, cause: Option<Cause>, kind: ExitKind, reason: String) {
        tracing::warn!(job = %key, reason, "not started");
        self.ledger.give_up(key, cause, kind, reason, probe::now());
        let reports = self.ledger.reports(key);
        self.push(reports);
    }

    fn forget(&mut self, key: Key) {
        let as_of = self.desired.as_ref().map(|desired| desired.as_of).unwrap_or(TimeMs(0));
        match self.ledger.forget(key, as_of) {
            Ok(None) => {}
            Ok(Some(folder)) => drop(spawn_blocking(move || remove(&folder))),
            Err(error) => {
                tracing::error!(job = %key, %error, "its folder can't be removed");
                // Kept, and tried again when its end is taken once more after a new stream.
                self.ledger.unsettle(key);
            }
        }
    }

    /// Sends the reports that wait; gives how long until those that still do are due.
    fn flush(&mut self) -> Option<Duration> {
        if self.outbox.is_empty() {
            return None;
        }
        let since = self.last_sent.map(|sent| sent.elapsed());
        if let Some(wait) = since.and_then(|since| GATHER.checked_sub(since)).filter(|wait| !wait.is_zero()) {
            return Some(wait);
        }
        let link = self.link.as_ref()?;
        while let Some((number, reports)) = self.outbox.next_batch() {
            let reports = reports.iter().map(gpun_proto::encode).collect();
            let message = from_node::Message::Reports(pb::Reports { number, reports });
            if link.send(FromNode { message: Some(message) }).is_err() {
                break;
            }
        }
        self.last_sent = Some(Instant::now());
        None
    }
}

fn is_end(report: &gpun_core::command::JobReport) -> bool {
    matches!(report.event, gpun_core::command::JobEvent::Ended(_))
}

fn remove(folder: &Path) {
    if let Err(error) = std::fs::remove_dir_all(folder) {
        tracing::warn!(path = %folder.display(), %error, "can't be removed; the next start tries again");
    }
}

/// The machine's boot clock, in milliseconds.
fn boot_ms() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME).map(Duration::from);
    now.map(|now| now.as_millis() as u64).unwrap_or_default()
}
