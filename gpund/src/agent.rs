//! What to do on this node: what it shall have minus what it has.
//!
//! [`step`] is pure: the daemon carries its acts out, records them with [`Held::done`], and asks again until there is
//! nothing to do. It is level-triggered, so it never matters which message or restart came between. Time is the
//! machine's boot clock in milliseconds: setting the machine's date ends no job.

use std::collections::BTreeMap;
use std::fmt;

use gpun_core::desired::{Desired, DesiredJob};
use gpun_core::job::{EndCause, SignalScope};
use gpun_core::{Attempt, JobId, TimeLimit};
use serde::{Deserialize, Serialize};

/// How long a SIGKILL may take before it is sent again, in milliseconds.
pub const KILL_AGAIN_MS: u64 = 5_000;

/// How long an attempt may stand on the desired document without its launch having come, in milliseconds. After that it
/// counts as lost.
pub const MISSING_MS: u64 = 15_000;

/// One attempt of one job. Shown as `7.1`, which is also its folder's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The job.
    pub job: JobId,
    /// The attempt.
    pub attempt: Attempt,
}

impl Key {
    /// From plain numbers.
    pub fn new(job: u32, attempt: u32) -> Self {
        Self { job: JobId(job), attempt: Attempt(attempt) }
    }

    /// Reads a folder's name; only the one way to write it counts.
    pub fn parse(name: &str) -> Option<Self> {
        let (job, attempt) = name.split_once('.')?;
        let key = Self::new(job.parse().ok()?, attempt.parse().ok()?);
        (key.to_string() == name).then_some(key)
    }

    fn of(job: &DesiredJob) -> Self {
        Self { job: job.job, attempt: job.attempt }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.job, self.attempt)
    }
}

/// How far an attempt has come on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Its launch is here and nothing was started; not on disk.
    Ready,
    /// Its supervisor was started.
    Creating,
    /// Its supervisor was started before this process was, and how far it is has still to be told.
    Found,
    /// Its script runs.
    Running {
        /// Since when, by the boot clock.
        since_ms: u64,
    },
    /// Nothing is left but its folder.
    Ended {
        /// The end is in the replicated log and the supervisor is gone.
        settled: bool,
    },
}

/// Why the agent ended an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// It reached its limit.
    TimeLimit,
    /// Its user or an operator cancelled it.
    Cancelled,
    /// It goes back into the queue.
    Requeued,
    /// The desired document does not name it.
    Unwanted,
    /// The desired document names it, but its launch never came, or its folder is gone.
    Missing,
}

impl From<EndCause> for Cause {
    fn from(cause: EndCause) -> Self {
        match cause {
            EndCause::Cancelled { .. } => Self::Cancelled,
            EndCause::Requeue { .. } => Self::Requeued,
        }
    }
}

/// What the last desired document said of an attempt; kept on disk, so that limits hold with no controller in reach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wish {
    /// Limit of the run time in seconds; none: unlimited.
    pub limit_s: Option<u64>,
    /// Why it shall end.
    pub end: Option<Cause>,
    /// Between SIGTERM and SIGKILL, in seconds.
    pub kill_wait_s: u64,
    /// Its processes are to be stopped.
    #[serde(default)]
    pub suspended: bool,
}

impl Wish {
    /// What the document says of that job.
    pub fn of(job: &DesiredJob, kill_wait_s: u64) -> Self {
        Self {
            limit_s: job.time_limit.seconds(),
            end: job.end.map(|order| order.cause.into()),
            kill_wait_s,
            suspended: job.suspended,
        }
    }
}

impl Default for Wish {
    fn default() -> Self {
        Self { limit_s: TimeLimit::Infinite.seconds(), end: None, kill_wait_s: 30, suspended: false }
    }
}

/// A signal before the time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// The signal's number.
    pub signal: i32,
    /// How long before the limit, in seconds.
    pub before_s: u32,
    /// To the batch script; else to its steps.
    pub batch_only: bool,
}

/// What the agent has done to an attempt; kept on disk before it is done, so that a restart repeats no signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// When SIGTERM was sent.
    pub term_ms: Option<u64>,
    /// When SIGKILL was last sent.
    pub kill_ms: Option<u64>,
    /// Why; the first cause stays.
    pub cause: Option<Cause>,
    /// Signal orders up to this number were carried out.
    pub signals: u32,
    /// When the warning was sent.
    pub warned_ms: Option<u64>,
    /// Its processes are stopped.
    #[serde(default)]
    pub frozen: bool,
}

/// What the node has of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// How far it is.
    pub stage: Stage,
    /// What was last asked for.
    pub wish: Wish,
    /// The warning that was asked for.
    pub warning: Option<Warning>,
    /// What was done.
    pub done: Done,
}

impl Held {
    /// An attempt whose launch has just come.
    pub fn ready(wish: Wish, warning: Option<Warning>) -> Self {
        Self { stage: Stage::Ready, wish, warning, done: Done::default() }
    }

    /// Records that an act on this attempt is about to be carried out.
    pub fn done(&mut self, act: &Act, now_ms: u64) {
        match *act {
            Act::Launch(_) => self.stage = Stage::Creating,
            Act::Signal { number, .. } => self.done.signals = self.done.signals.max(number),
            Act::Warn { .. } => self.done.warned_ms = Some(now_ms),
            Act::Freeze { on, .. } => self.done.frozen = on,
            Act::Term { cause, .. } => {
                self.done.term_ms = Some(now_ms);
                self.done.cause.get_or_insert(cause);
            }
            Act::Kill { cause, .. } => {
                self.done.kill_ms = Some(now_ms);
                self.done.cause.get_or_insert(cause);
            }
            Act::Forget(_) => {}
        }
    }

    fn is_live(&self) -> bool {
        matches!(self.stage, Stage::Creating | Stage::Found | Stage::Running { .. })
    }
}

/// What the node has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The attempts that it holds.
    pub held: BTreeMap<Key, Held>,
    /// The newest attempt of each job that it ever started or gave up.
    pub newest: BTreeMap<JobId, Attempt>,
    /// Attempts on the document whose launch has not come, and since when.
    pub missing: BTreeMap<Key, u64>,
    /// How many launches may be in the making at once.
    pub launches_max: usize,
}

impl View {
    /// True if this attempt, or a newer one of the job, was started or given up here.
    pub fn is_past(&self, key: Key) -> bool {
        self.newest.get(&key.job).is_some_and(|newest| key.attempt <= *newest)
    }

    /// Remembers that this attempt is never to be started (again).
    pub fn mark_past(&mut self, key: Key) {
        let newest = self.newest.entry(key.job).or_insert(key.attempt);
        *newest = (*newest).max(key.attempt);
    }

    fn launch_free(&self, key: Key) -> bool {
        // One job's attempts share a control group: the older one has to be gone.
        let range = Key { job: key.job, attempt: Attempt(0) }..=Key { job: key.job, attempt: Attempt(u32::MAX) };
        !self.is_past(key) && !self.held.range(range).any(|(_, held)| held.is_live())
    }
}

/// One thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Start the supervisor.
    Launch(Key),
    /// Send an ordered signal.
    Signal {
        /// To which attempt.
        key: Key,
        /// The order's number.
        number: u32,
        /// The signal's number.
        signal: i32,
        /// To whom.
        scope: SignalScope,
    },
    /// Send the warning before the limit.
    Warn {
        /// To which attempt.
        key: Key,
        /// The signal's number.
        signal: i32,
        /// To whom.
        scope: SignalScope,
    },
    /// Stop all its processes, or let them go on.
    Freeze {
        /// Of which attempt.
        key: Key,
        /// Stop them.
        on: bool,
    },
    /// SIGCONT and SIGTERM to all its processes.
    Term {
        /// To which attempt.
        key: Key,
        /// Why.
        cause: Cause,
    },
    /// SIGKILL to all its processes; one that was never started is given up instead.
    Kill {
        /// To which attempt.
        key: Key,
        /// Why.
        cause: Cause,
    },
    /// Remove its folder.
    Forget(Key),
}

impl Act {
    /// The attempt that it is about.
    pub fn key(&self) -> Key {
        match *self {
            Self::Launch(key) | Self::Forget(key) => key,
            Self::Signal { key, .. }
            | Self::Warn { key, .. }
            | Self::Freeze { key, .. }
            | Self::Term { key, .. }
            | Self::Kill { key, .. } => key,
        }
    }
}

/// What to do now, and when to ask again at the latest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// To do, in this order.
    pub acts: Vec<Act>,
    /// When to ask again, by the boot clock, if nothing happens before.
    pub wake_ms: Option<u64>,
}

impl Step {
    fn wake_at(&mut self, ms: u64) {
        self.wake_ms = Some(self.wake_ms.map_or(ms, |have| have.min(ms)));
    }

    /// True at or after `ms`; else it is a moment to ask again.
    fn due(&mut self, ms: u64, now_ms: u64) -> bool {
        if now_ms < ms {
            self.wake_at(ms);
        }
        now_ms >= ms
    }
}

/// What is wanted of a held attempt.
#[derive(Clone, Copy)]
enum Want<'a> {
    /// No controller has spoken since the start: what it said before holds.
    AsBefore,
    /// It is on the document.
    This(&'a DesiredJob),
    /// It is not.
    Nothing,
}

/// What is to be done for the node to have what it shall have. `desired` is none until a controller has spoken.
pub fn step(desired: Option<&Desired>, view: &View, now_ms: u64) -> Step {
    let mut step = Step::default();
    let wanted: BTreeMap<Key, &DesiredJob> =
        desired.iter().flat_map(|d| &d.jobs).map(|job| (Key::of(job), job)).collect();
    for (&key, held) in &view.held {
        let want = match (desired, wanted.get(&key)) {
            (None, _) => Want::AsBefore,
            (Some(_), Some(job)) => Want::This(job),
            (Some(_), None) => Want::Nothing,
        };
        let wish = match (want, desired) {
            (Want::This(job), Some(desired)) => Wish::of(job, desired.kill_wait_s),
            _ => held.wish.clone(),
        };
        one(&mut step, key, held, want, &wish, now_ms);
    }
    for (&key, job) in wanted.iter().filter(|(key, _)| !view.held.contains_key(key) && !view.is_past(**key)) {
        missing(&mut step, key, job, view, now_ms);
    }
    launches(&mut step, &wanted, view);
    step
}

fn one(step: &mut Step, key: Key, held: &Held, want: Want<'_>, wish: &Wish, now_ms: u64) {
    match held.stage {
        Stage::Ready => match (want, wish.end) {
            (Want::Nothing, _) => step.acts.push(Act::Forget(key)),
            (_, Some(cause)) => step.acts.push(Act::Kill { key, cause }),
            _ => {}
        },
        Stage::Creating => match (want, wish.end) {
            (Want::Nothing, _) => kill(step, key, held, Cause::Unwanted, now_ms),
            (_, Some(cause)) => kill(step, key, held, cause, now_ms),
            _ => {}
        },
        Stage::Found => {}
        Stage::Running { since_ms } => match want {
            Want::Nothing => kill(step, key, held, Cause::Unwanted, now_ms),
            Want::This(job) => {
                signals(step, key, held, job);
                running(step, key, held, wish, since_ms, now_ms);
            }
            Want::AsBefore => running(step, key, held, wish, since_ms, now_ms),
        },
        Stage::Ended { settled } => {
            if settled && matches!(want, Want::Nothing) {
                step.acts.push(Act::Forget(key));
            }
        }
    }
}

fn signals(step: &mut Step, key: Key, held: &Held, job: &DesiredJob) {
    let mut orders: Vec<_> = job.signals.iter().filter(|order| order.number > held.done.signals).collect();
    orders.sort_by_key(|order| order.number);
    step.acts.extend(orders.into_iter().map(|order| Act::Signal {
        key,
        number: order.number,
        signal: order.signal,
        scope: order.scope,
    }));
}

fn running(step: &mut Step, key: Key, held: &Held, wish: &Wish, since_ms: u64, now_ms: u64) {
    // What is to end has to go on first: a stopped process can't end itself.
    let frozen = wish.suspended && wish.end.is_none();
    if held.done.frozen != frozen && held.done.kill_ms.is_none() {
        step.acts.push(Act::Freeze { key, on: frozen });
    }
    if let Some(term_ms) = held.done.term_ms {
        let cause = held.done.cause.or(wish.end).unwrap_or(Cause::TimeLimit);
        if step.due(after(term_ms, wish.kill_wait_s), now_ms) {
            kill(step, key, held, cause, now_ms);
        }
        return;
    }
    if held.done.kill_ms.is_some() {
        return kill(step, key, held, held.done.cause.unwrap_or(Cause::Unwanted), now_ms);
    }
    if let Some(cause) = wish.end {
        return step.acts.push(Act::Term { key, cause });
    }
    let Some(limit_s) = wish.limit_s else { return };
    let end_ms = after(since_ms, limit_s);
    if step.due(end_ms, now_ms) {
        return step.acts.push(Act::Term { key, cause: Cause::TimeLimit });
    }
    let Some(warning) = held.warning else { return };
    // A limit that was raised after the warning is warned of again.
    let due_ms = end_ms.saturating_sub(u64::from(warning.before_s) * 1000).max(since_ms);
    if held.done.warned_ms.is_none_or(|warned_ms| warned_ms < due_ms) && step.due(due_ms, now_ms) {
        let scope = if warning.batch_only { SignalScope::Batch } else { SignalScope::Steps };
        step.acts.push(Act::Warn { key, signal: warning.signal, scope });
    }
}

fn kill(step: &mut Step, key: Key, held: &Held, cause: Cause, now_ms: u64) {
    let due_ms = held.done.kill_ms.map_or(now_ms, |sent_ms| sent_ms.saturating_add(KILL_AGAIN_MS));
    if step.due(due_ms, now_ms) {
        step.acts.push(Act::Kill { key, cause });
    }
}

fn missing(step: &mut Step, key: Key, job: &DesiredJob, view: &View, now_ms: u64) {
    if let Some(order) = job.end {
        return step.acts.push(Act::Kill { key, cause: order.cause.into() });
    }
    let Some(since_ms) = view.missing.get(&key) else { return };
    if step.due(since_ms.saturating_add(MISSING_MS), now_ms) {
        step.acts.push(Act::Kill { key, cause: Cause::Missing });
    }
}

fn launches(step: &mut Step, wanted: &BTreeMap<Key, &DesiredJob>, view: &View) {
    // What is not wanted any more still has its CPUs and devices, which the controller has given to others by now: nothing
    // starts until it is gone.
    if view.held.iter().any(|(key, held)| held.is_live() && !wanted.contains_key(key)) {
        return;
    }
    let making = view.held.values().filter(|held| held.stage == Stage::Creating).count();
    let ready = view.held.iter().filter(|(key, held)| {
        held.stage == Stage::Ready && wanted.get(key).is_some_and(|job| job.end.is_none()) && view.launch_free(**key)
    });
    let free = view.launches_max.saturating_sub(making);
    step.acts.extend(ready.take(free).map(|(key, _)| Act::Launch(*key)));
}

fn after(start_ms: u64, seconds: u64) -> u64 {
    start_ms.saturating_add(seconds.saturating_mul(1000))
}

#[cfg(test)]
mod tests;
