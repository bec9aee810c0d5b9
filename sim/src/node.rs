//! A node: the real agent and outbox, over processes that are only told of, and a ledger in memory that keeps on a restart
//! what the real one keeps on disk.
//!
//! A node that is cut off goes on with what it runs, as `gpund` does.

use std::collections::BTreeMap;

use gpun_core::{
    IndexSet, TimeMs,
    command::{JobEvent, JobReport},
    desired::Desired,
    node::Inventory,
};
use gpund::{
    agent::{self, Act, Cause, Held, Key, Stage, View, Wish},
    ledger,
    phase::{ExitKind, ExitRecord},
    reports::{Outbox, Said},
};

use crate::{
    Break,
    load::Script,
    message::{FromNode, Launch, Ms, Session, ToNode},
};

/// How often a node shows itself.
const BEAT: Ms = 5_000;
/// A stream on which nothing was heard for this long is given up.
const DEAD_STREAM: Ms = 15_000;
/// How long SIGKILL takes.
const KILL: Ms = 100;
/// Launches in the making at once.
const LAUNCHES_MAX: usize = 4;

/// A container with a script in it.
#[derive(Debug, Clone)]
pub struct Process {
    /// Its CPUs.
    pub cpus: IndexSet,
    /// When it was made.
    pub made: Ms,
    /// When the script starts.
    pub starts: Ms,
    ends: Ms,
    kind: ExitKind,
    exit: (u8, u8),
    script: Script,
}

/// What the ledger knows of an attempt.
#[derive(Debug, Clone, Default)]
struct Record {
    launch: Option<Launch>,
    started: Option<TimeMs>,
    start_taken: bool,
    exit: Option<ExitRecord>,
    exit_taken: bool,
}

/// A node.
#[derive(Debug)]
pub struct SimNode {
    /// Its name.
    pub name: String,
    /// What it has.
    pub inventory: Inventory,
    /// Its network works.
    pub plugged: bool,
    /// Its daemon runs.
    pub daemon: bool,
    /// Containers that live.
    pub processes: BTreeMap<Key, Process>,
    /// The stream, once it is open.
    pub session: Option<Session>,
    /// The stream that is being opened.
    pub dialled: Option<Session>,
    /// Its power is on.
    power: bool,
    booted: Ms,
    /// How far its wall clock is off.
    skew: i64,
    view: View,
    records: BTreeMap<Key, Record>,
    desired: Option<Desired>,
    floor: TimeMs,
    outbox: Outbox,
    answered: Ms,
    next_beat: Ms,
    next_dial: Ms,
    /// What it said since it was last asked.
    pub says: Vec<FromNode>,
    /// What it started since it was last asked.
    pub launched: Vec<Key>,
    /// What ended on it since it was last asked, and how in truth.
    pub ended: Vec<(Key, ExitKind, (u8, u8))>,
    broken: Option<Break>,
}

impl SimNode {
    /// A node that is switched on at the start.
    pub fn new(name: String, inventory: Inventory, skew: i64, broken: Option<Break>) -> Self {
        Self {
            name,
            inventory,
            plugged: true,
            daemon: true,
            processes: BTreeMap::new(),
            session: None,
            dialled: None,
            power: true,
            booted: 0,
            skew,
            view: View { launches_max: LAUNCHES_MAX, ..View::default() },
            records: BTreeMap::new(),
            desired: None,
            floor: TimeMs(0),
            outbox: Outbox::new(0),
            answered: 0,
            next_beat: 0,
            next_dial: 0,
            says: Vec::new(),
            launched: Vec::new(),
            ended: Vec::new(),
            broken,
        }
    }

    /// True if nothing of any attempt is left.
    pub fn is_empty(&self) -> bool {
        self.processes.is_empty() && self.view.held.is_empty()
    }

    fn boot_ms(&self, now: Ms) -> u64 {
        now - self.booted
    }

    fn wall(&self, now: Ms) -> TimeMs {
        TimeMs((crate::START.0 + now).saturating_add_signed(self.skew))
    }

    // Breaking and mending

    /// The stream is gone.
    pub fn unlink(&mut self) {
        self.session = None;
        self.dialled = None;
        self.outbox.clear();
        self.says.clear();
    }

    /// The daemon is killed; containers and their supervisors go on.
    pub fn kill_daemon(&mut self) {
        self.daemon = false;
        self.unlink();
    }

    /// The power goes.
    pub fn crash(&mut self) {
        self.kill_daemon();
        self.power = false;
        self.processes.clear();
    }

    /// The machine, if it was off, and the daemon start.
    pub fn back(&mut self, now: Ms) {
        if !self.power {
            self.power = true;
            self.booted = now;
        }
        if self.daemon {
            return;
        }
        self.daemon = true;
        self.desired = None;
        self.next_dial = now;
        self.outbox = Outbox::new(now);
        self.load(now);
    }

    /// What the ledger finds on disk: everything that was started.
    fn load(&mut self, now: Ms) {
        let held = std::mem::take(&mut self.view.held);
        self.view = View { launches_max: LAUNCHES_MAX, ..View::default() };
        for (key, mut held) in held.into_iter().filter(|(_, held)| held.stage != Stage::Ready) {
            let is_over = self.records.get(&key).is_some_and(|record| record.exit.is_some());
            match self.broken {
                Some(Break::ForgetsLedger) if !is_over => continue,
                Some(Break::LaunchesAgain) if is_over => {
                    let launch = self.records.get(&key).and_then(|record| record.launch.clone());
                    self.records.insert(key, Record { launch, ..Record::default() });
                    self.view.held.insert(key, Held::ready(Wish::default(), None));
                    continue;
                }
                _ => self.view.mark_past(key),
            }
            let wall = self.wall(now);
            let record = self.records.entry(key).or_default();
            (record.start_taken, record.exit_taken) = (false, false);
            if record.exit.is_some() {
                held.stage = Stage::Ended { settled: self.broken == Some(Break::ForgetsReports) };
                record.exit_taken = self.broken == Some(Break::ForgetsReports);
            } else if self.processes.contains_key(&key) {
                held.stage = Stage::Found;
            } else {
                // Its supervisor died with the machine.
                record.exit = Some(exit_record(key, ExitKind::NodeFailed, (0, 0), record.started, wall));
                held.stage = Stage::Ended { settled: false };
            }
            self.view.held.insert(key, held);
        }
        let view = &self.view;
        self.records.retain(|key, _| view.held.contains_key(key));
    }

    // Hearing

    /// Takes in what the controller says.
    pub fn hear(&mut self, message: ToNode, now: Ms) {
        match message {
            ToNode::Welcome => {
                self.answered = self.answered.max(now.saturating_sub(1));
                self.next_beat = now;
                self.nothing_taken();
            }
            ToNode::Echo { sent } => self.answered = self.answered.max(sent),
            ToNode::Taken(number) => {
                for said in self.outbox.taken(number) {
                    match said {
                        Said::Started(key) => self.records.entry(key).or_default().start_taken = true,
                        Said::StepEnded(_) => {}
                        Said::Ended(key) => {
                            self.records.entry(key).or_default().exit_taken = true;
                            if let Some(held) = self.view.held.get_mut(&key)
                                && matches!(held.stage, Stage::Ended { .. })
                            {
                                held.stage = Stage::Ended { settled: true };
                            }
                        }
                    }
                }
            }
            ToNode::Sync(desired, launches) => self.sync(desired, launches, now),
        }
    }

    fn sync(&mut self, desired: Desired, launches: Vec<Launch>, now: Ms) {
        let older = self.desired.as_ref().is_some_and(|have| desired.as_of < have.as_of);
        if older || desired.as_of < self.floor {
            return;
        }
        let key_of = |job: &gpun_core::desired::DesiredJob| Key { job: job.job, attempt: job.attempt };
        for launch in launches.into_iter().filter(|launch| desired.jobs.iter().any(|job| key_of(job) == launch.key)) {
            if !self.view.is_past(launch.key) && !self.view.held.contains_key(&launch.key) {
                self.view.held.insert(launch.key, Held::ready(Wish::default(), None));
                self.records.insert(launch.key, Record { launch: Some(launch), ..Record::default() });
            }
        }
        self.view.missing.retain(|key, _| desired.jobs.iter().any(|job| key_of(job) == *key));
        let boot_ms = self.boot_ms(now);
        for job in &desired.jobs {
            match self.view.held.get_mut(&key_of(job)) {
                Some(held) => {
                    held.wish = Wish::of(job, desired.kill_wait_s);
                    self.view.missing.remove(&key_of(job));
                }
                None => {
                    self.view.missing.entry(key_of(job)).or_insert(boot_ms);
                }
            }
        }
        self.desired = Some(desired);
    }

    /// A new stream starts from everything that may not be in the log.
    fn nothing_taken(&mut self) {
        self.outbox.clear();
        if self.broken == Some(Break::ForgetsReports) {
            return;
        }
        for record in self.records.values_mut() {
            (record.start_taken, record.exit_taken) = (false, false);
        }
        for held in self.view.held.values_mut().filter(|held| matches!(held.stage, Stage::Ended { .. })) {
            held.stage = Stage::Ended { settled: false };
        }
        let keys: Vec<Key> = self.view.held.keys().copied().collect();
        keys.into_iter().for_each(|key| self.report(key));
    }

    // Doing

    /// Does what is due; gives when to look again.
    pub fn turn(&mut self, now: Ms, seed: u64) -> Ms {
        self.processes_go_on(now);
        let mut next = now + BEAT;
        if self.daemon {
            next = next.min(self.act(now, seed));
            self.link(now);
        }
        let moments = self.processes.values().flat_map(|process| [process.starts, process.ends]);
        moments.filter(|at| *at > now).chain([next]).min().unwrap_or(next)
    }

    fn processes_go_on(&mut self, now: Ms) {
        let keys: Vec<Key> = self.processes.keys().copied().collect();
        for key in keys {
            let Some(process) = self.processes.get(&key).cloned() else { continue };
            let started = now >= process.starts && process.starts < process.ends;
            if started && self.records.get(&key).is_some_and(|record| record.started.is_none()) {
                self.records.entry(key).or_default().started = Some(self.wall(process.starts));
            }
            if now >= process.ends {
                self.processes.remove(&key);
                self.ended.push((key, process.kind, process.exit));
                let at = self.wall(now);
                let record = self.records.entry(key).or_default();
                let told = if self.broken == Some(Break::LiesAboutExit) { (0, 0) } else { process.exit };
                record.exit = Some(exit_record(key, process.kind, told, record.started, at));
            }
            if self.daemon {
                self.learn(key, &process, started);
            }
        }
    }

    /// The daemon learns from the supervisor how far an attempt is.
    fn learn(&mut self, key: Key, process: &Process, started: bool) {
        let since_ms = process.starts.saturating_sub(self.booted);
        let Some(held) = self.view.held.get_mut(&key) else { return };
        let before = held.stage;
        if self.records.get(&key).is_some_and(|record| record.exit.is_some()) {
            held.stage = Stage::Ended { settled: false };
        } else if started && matches!(before, Stage::Creating | Stage::Found) {
            held.stage = Stage::Running { since_ms };
        } else if before == Stage::Found {
            held.stage = Stage::Creating;
        }
        if held.stage != before {
            self.report(key);
        }
    }

    fn act(&mut self, now: Ms, seed: u64) -> Ms {
        let boot_ms = self.boot_ms(now);
        for _ in 0..1000 {
            let step = agent::step(self.desired.as_ref(), &self.view, boot_ms);
            if step.acts.is_empty() {
                return step.wake_ms.map_or(now + BEAT, |wake| (wake + self.booted).max(now + 1));
            }
            step.acts.iter().for_each(|act| self.carry_out(act, now, seed));
        }
        now + 1
    }

    fn carry_out(&mut self, act: &Act, now: Ms, seed: u64) {
        let key = act.key();
        let before = self.view.held.get(&key).map(|held| held.stage);
        let boot_ms = self.boot_ms(now);
        if let Some(held) = self.view.held.get_mut(&key) {
            held.done(act, boot_ms);
        }
        match *act {
            Act::Launch(_) => {
                self.view.mark_past(key);
                self.launch(key, now, seed);
            }
            Act::Forget(_) => {
                if before != Some(Stage::Ready) {
                    self.floor = self.floor.max(self.desired.as_ref().map_or(TimeMs(0), |desired| desired.as_of));
                }
                self.view.held.remove(&key);
                self.records.remove(&key);
            }
            // No load of the simulation suspends a job.
            Act::Freeze { .. } => {}
            Act::Kill { cause, .. } => {
                self.view.mark_past(key);
                match before {
                    None | Some(Stage::Ready) => self.give_up(key, cause, now),
                    _ if cause == Cause::Unwanted && self.broken == Some(Break::KeepsUnwanted) => {}
                    _ => self.end_process(key, now + KILL, (0, 9)),
                }
            }
            Act::Term { .. } => {
                if let Some(after) = self.processes.get(&key).and_then(|process| process.script.after_term) {
                    self.end_process(key, now + after, (0, 15));
                }
            }
            Act::Signal { .. } | Act::Warn { .. } => {}
        }
    }

    fn launch(&mut self, key: Key, now: Ms, seed: u64) {
        let keeps = self.broken == Some(Break::LaunchesAgain);
        let take = |record: &mut Record| if keeps { record.launch.clone() } else { record.launch.take() };
        let Some(launch) = self.records.get_mut(&key).and_then(take) else { return };
        self.launched.push(key);
        let script = crate::load::script(seed, launch.origin.0, launch.task, key.attempt.0);
        let starts = now + script.start;
        let (ends, kind) = match script {
            Script { broken: true, .. } => (starts, ExitKind::LaunchFailed),
            Script { lost: true, .. } => (starts, ExitKind::NodeFailed),
            _ => (starts + script.runs.max(1), ExitKind::Exited),
        };
        self.processes
            .insert(key, Process { cpus: launch.cpus, made: now, starts, ends, kind, exit: script.exit, script });
    }

    fn end_process(&mut self, key: Key, at: Ms, exit: (u8, u8)) {
        if let Some(process) = self.processes.get_mut(&key)
            && at < process.ends
        {
            process.ends = at;
            process.exit = exit;
            process.kind = ExitKind::Exited;
        }
    }

    fn give_up(&mut self, key: Key, cause: Cause, now: Ms) {
        let kind = if cause == Cause::Missing { ExitKind::NodeFailed } else { ExitKind::Exited };
        let at = self.wall(now);
        let held = self.view.held.entry(key).or_insert_with(|| Held::ready(Wish::default(), None));
        held.done.cause.get_or_insert(cause);
        held.stage = Stage::Ended { settled: false };
        self.view.missing.remove(&key);
        let record = self.records.entry(key).or_default();
        record.launch = None;
        record.exit = Some(exit_record(key, kind, (0, 0), None, at));
        self.report(key);
    }

    /// Puts what is not in the log yet into the outbox.
    fn report(&mut self, key: Key) {
        let (Some(held), Some(record)) = (self.view.held.get(&key), self.records.get(&key)) else { return };
        let started = record.started.filter(|_| !record.start_taken && !record.exit_taken);
        let started = started.map(|at| JobEvent::Launched { at });
        let exit = record.exit.as_ref().filter(|_| !record.exit_taken);
        let ended = exit.map(|exit| JobEvent::Ended(ledger::ended(exit, held.done.cause)));
        let events = started.into_iter().chain(ended);
        let reports: Vec<JobReport> =
            events.map(|event| JobReport { job: key.job, attempt: key.attempt, event }).collect();
        if self.session.is_some() {
            self.outbox.push(reports);
        }
    }

    /// Speaks on the stream, or dials.
    fn link(&mut self, now: Ms) {
        if self.session.is_some() && now > self.answered + DEAD_STREAM {
            self.unlink();
        }
        if self.session.is_none() {
            if now >= self.next_dial {
                self.next_dial = now + 3_000;
                self.says.push(FromNode::Hello);
            }
            return;
        }
        while let Some((number, reports)) = self.outbox.next_batch() {
            self.says.push(FromNode::Reports(number, reports));
        }
        if now >= self.next_beat {
            self.next_beat = now + BEAT;
            self.says.push(FromNode::Beat { sent: now });
        }
    }

    /// Until when the controller has answered.
    pub fn answered(&mut self, at: Ms) {
        self.answered = self.answered.max(at);
    }
}

fn exit_record(key: Key, kind: ExitKind, (code, signal): (u8, u8), started: Option<TimeMs>, at: TimeMs) -> ExitRecord {
    ExitRecord {
        job_id: key.job.0,
        attempt: key.attempt.0,
        kind,
        code,
        signal,
        oom: false,
        reason: None,
        started_ms: started.map_or(0, |at| at.0),
        ended_ms: at.0,
        usage: Default::default(),
    }
}
