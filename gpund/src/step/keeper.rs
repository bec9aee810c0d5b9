//! Which steps may be started, run, or have ended. What is wanted comes with the desired document; what was is in the steps'
//! files, so that nothing is lost when this process ends.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use gpun_core::command::{JobEvent, JobReport, StepEnded};
use gpun_core::desired::Desired;
use gpun_core::job::{ExitStatus, Usage};
use gpun_core::{TimeMs, desired::DesiredStep};
use gpun_proto::step::token_digest;
use tokio::process::Command;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use super::door::Asked;
use super::record::{StepEnd, StepFiles};
use crate::agent::Key;
use crate::daemon::Event;
use crate::jobdir::JobDir;
use crate::probe;

/// How long somebody who asks may be ahead of the document that names the step.
const DOCUMENT_WAIT: Duration = Duration::from_secs(10);

/// A step for which nobody ever asks is given up after this long.
const NOBODY_WAIT: Duration = Duration::from_secs(60);

/// Steps of an earlier process are looked after this often.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A step on this node.
type StepKey = (Key, u32);

/// What is known of steps.
#[derive(Default)]
pub struct Keeper {
    asked: Vec<(Instant, Asked)>,
    /// Since when a step is on the document.
    seen: BTreeMap<StepKey, Instant>,
    /// Steps whose processes are this one's children, with another hold on srun's connection.
    children: BTreeMap<StepKey, UnixStream>,
    /// Connections of steps that have ended. They stay open until the end is in the log, and srun until then: what comes after
    /// it finds the step's CPUs free.
    closing: BTreeMap<StepKey, UnixStream>,
    /// Ends that are on their way to the log.
    told: Vec<StepKey>,
}

impl Keeper {
    /// Somebody asks.
    pub fn ask(&mut self, asked: Asked) {
        self.asked.push((Instant::now(), asked));
    }

    /// The process of a step is gone.
    pub fn over(&mut self, key: Key, step: u32) {
        if let Some(stream) = self.children.remove(&(key, step)) {
            self.closing.insert((key, step), stream);
        }
    }

    /// A stream was lost: ends are told again.
    pub fn nothing_taken(&mut self) {
        self.told.clear();
    }

    /// Lets in who may, turns away who may not, and gives what there is to report; and when to look again.
    pub fn look(
        &mut self,
        desired: Option<&Desired>,
        world: &World<'_>,
        news: &UnboundedSender<Event>,
    ) -> (Vec<JobReport>, Option<Duration>) {
        let wanted: BTreeMap<StepKey, &DesiredStep> = desired
            .iter()
            .flat_map(|desired| &desired.jobs)
            .flat_map(|job| {
                let key = Key { job: job.job, attempt: job.attempt };
                job.steps.iter().map(move |step| ((key, step.step), step))
            })
            .collect();
        self.seen.retain(|key, _| wanted.contains_key(key));
        self.told.retain(|key| wanted.contains_key(key));
        self.closing.retain(|key, _| wanted.contains_key(key));
        for key in wanted.keys() {
            self.seen.entry(*key).or_insert_with(Instant::now);
        }
        self.let_in(&wanted, world, news);
        let reports = self.ends(&wanted, world);
        let wake = (!self.asked.is_empty()).then_some(LOOK_EVERY);
        let strangers = wanted.keys().any(|key| !self.children.contains_key(key) && !self.told.contains(key));
        (reports, wake.or(strangers.then_some(LOOK_EVERY)))
    }

    fn let_in(&mut self, wanted: &BTreeMap<StepKey, &DesiredStep>, world: &World<'_>, news: &UnboundedSender<Event>) {
        for (since, asked) in std::mem::take(&mut self.asked) {
            let hello = &asked.hello;
            let found = wanted.iter().find(|((key, step), _)| key.job.0 == hello.job_id && *step == hello.step);
            match found {
                Some((_, step)) if step.token != token_digest(&hello.token) => asked.refuse("the step is another's"),
                Some(((key, _), step)) if (world.runs)(*key) => {
                    let (key, number) = (*key, step.step);
                    match start(world, key, step, asked, news) {
                        Ok(Some(stream)) => drop(self.children.insert((key, number), stream)),
                        Ok(None) => {}
                        Err(error) => tracing::warn!(job = %key, step = number, %error, "a step can't be started"),
                    }
                }
                _ if since.elapsed() > DOCUMENT_WAIT => asked.refuse("this node knows no such step"),
                _ => self.asked.push((since, asked)),
            }
        }
    }

    fn ends(&mut self, wanted: &BTreeMap<StepKey, &DesiredStep>, world: &World<'_>) -> Vec<JobReport> {
        let mut reports = Vec::new();
        for &(key, step) in wanted.keys() {
            if self.told.contains(&(key, step)) || self.children.contains_key(&(key, step)) {
                continue;
            }
            let files = StepFiles::new((world.dir)(key).path(), step);
            let nobody = self.seen.get(&(key, step)).is_some_and(|since| since.elapsed() > NOBODY_WAIT);
            let end = match files.read_end() {
                Some(end) => end,
                None if files.is_begun() && !files.is_alive() => lost(9),
                None if !files.is_begun() && nobody => lost(0),
                None => continue,
            };
            self.told.push((key, step));
            reports.push(report(key, step, &end));
        }
        reports
    }
}

/// What of the node the keeper has to know.
pub struct World<'a> {
    /// Whether an attempt's container runs.
    pub runs: &'a dyn Fn(Key) -> bool,
    /// An attempt's folder.
    pub dir: &'a dyn Fn(Key) -> JobDir,
    /// The program that runs steps.
    pub shim: &'a Path,
}

fn start(
    world: &World<'_>,
    key: Key,
    step: &DesiredStep,
    asked: Asked,
    news: &UnboundedSender<Event>,
) -> std::io::Result<Option<UnixStream>> {
    let dir = (world.dir)(key);
    if StepFiles::new(dir.path(), step.step).is_begun() {
        asked.refuse("the step was started before");
        return Ok(None);
    }
    let held = asked.stream.try_clone()?;
    let log = std::fs::OpenOptions::new().create(true).append(true).open(dir.path().join("shim.log"))?;
    let socket: std::os::fd::OwnedFd = asked.stream.into();
    let mut command = Command::new(world.shim);
    command.arg("step").arg(dir.path()).arg(step.step.to_string());
    command.env_clear().current_dir("/").stdin(Stdio::from(socket)).stdout(Stdio::null()).stderr(Stdio::from(log));
    let mut child = command.spawn()?;
    let (news, number) = (news.clone(), step.step);
    tokio::spawn(async move {
        if let Err(error) = child.wait().await {
            tracing::warn!(job = %key, step = number, %error, "a step's process can't be waited for");
        }
        let _ = news.send(Event::StepOver(key, number));
    });
    Ok(Some(held))
}

/// The end of a step of which nobody can tell.
fn lost(signal: u8) -> StepEnd {
    StepEnd { ended_ms: probe::now().0, signal, cancelled: true, ..StepEnd::default() }
}

fn report(key: Key, step: u32, end: &StepEnd) -> JobReport {
    let ended = StepEnded {
        step,
        at: TimeMs(end.ended_ms),
        exit: ExitStatus { code: end.code, signal: end.signal },
        usage: Usage { max_rss_kib: end.max_rss_kib, user_ms: end.user_us / 1000, system_ms: end.system_us / 1000 },
        cancelled: end.cancelled,
        oom: end.oom,
    };
    JobReport { job: key.job, attempt: key.attempt, event: JobEvent::StepEnded(ended) }
}
