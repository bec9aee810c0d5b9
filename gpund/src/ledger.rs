//! What this node holds, in memory and on disk: one folder an attempt, `jobs/<job>.<attempt>` below the node's folder.
//!
//! The folder's own files say how far an attempt is ([`crate::phase`]); beside them stands `agent.json`, a [`Record`] of
//! what was asked for and done. Reports are derived from both, so none is lost whenever this process is killed. A folder
//! goes when its end is in the replicated log and the desired document does not name it.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use gpun_core::command::{Ended, EndedHow, JobEvent, JobReport};
use gpun_core::desired::Desired;
use gpun_core::job::{ExitStatus, Usage};
use gpun_core::{TimeMs, id::JobId};
use gpun_proto::pb;
use serde::{Deserialize, Serialize};

use crate::agent::{Act, Cause, Done, Held, Key, Stage, View, Warning, Wish};
use crate::jobdir::{JobDir, write_json};
use crate::phase::{ExitKind, ExitRecord, Running};

/// Attempts that were forgotten and are still remembered in memory as past.
const PAST_MAX: usize = 100_000;

/// Texts for the job's standard error; `{time}` stands for the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notices {
    /// It is cancelled.
    pub cancelled: String,
    /// It reached its limit.
    pub time_limit: String,
    /// The kernel killed a process of it for want of memory.
    pub out_of_memory: String,
    /// It goes back into the queue.
    pub requeued: String,
}

impl Notices {
    /// The text for that cause; none: nothing is said.
    pub fn of(&self, cause: Cause) -> Option<&str> {
        let text = match cause {
            Cause::TimeLimit => &self.time_limit,
            Cause::Cancelled => &self.cancelled,
            Cause::Requeued => &self.requeued,
            Cause::Unwanted | Cause::Missing => return None,
        };
        (!text.is_empty()).then_some(text)
    }
}

/// `agent.json`: what was asked for and done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// What the last desired document said.
    pub wish: Wish,
    /// Signal before the limit.
    pub warning: Option<Warning>,
    /// Texts for the job's standard error.
    pub notices: Notices,
    /// What was done.
    pub done: Done,
}

/// What the node knows of an attempt beside what the agent decides by.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    /// Its launch, until it is started.
    pub launch: Option<Box<pb::Launch>>,
    /// Texts for the job's standard error.
    pub notices: Notices,
    /// When its script started, by the node's clock.
    pub started: Option<TimeMs>,
    /// That it started is in the replicated log.
    pub start_taken: bool,
    /// How it ended.
    pub exit: Option<ExitRecord>,
    /// That it ended is in the replicated log.
    pub exit_taken: bool,
    /// Its supervisor is gone.
    pub closed: bool,
}

/// What a folder that was found at the start holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// A supervisor may live.
    Started,
    /// It is over.
    Ended,
}

/// The oldest desired document that may still be obeyed.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Floor {
    as_of_ms: u64,
}

/// What this node holds.
#[derive(Debug)]
pub struct Ledger {
    dir: PathBuf,
    /// What the agent decides by.
    pub view: View,
    entries: BTreeMap<Key, Entry>,
    floor: Floor,
}

impl Ledger {
    /// Opens the ledger below the node's folder. What a removal left half done is removed.
    ///
    /// # Errors
    /// The folders can't be made or read.
    pub fn open(dir: &Path, launches_max: usize) -> io::Result<Self> {
        for name in ["jobs", "trash"] {
            DirBuilder::new().recursive(true).mode(0o700).create(dir.join(name))?;
        }
        for left in fs::read_dir(dir.join("trash"))? {
            remove_any(&left?.path())?;
        }
        let floor = match fs::read(dir.join("floor.json")) {
            Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_else(|error| {
                tracing::warn!(%error, "floor.json can't be read; older desired documents are not refused");
                Floor::default()
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Floor::default(),
            Err(error) => return Err(error),
        };
        Ok(Self {
            dir: dir.to_owned(),
            view: View { launches_max, ..View::default() },
            entries: BTreeMap::new(),
            floor,
        })
    }

    /// Reads what an earlier run of the daemon left. Folders in which nothing was started are removed: their launch
    /// comes again.
    ///
    /// # Errors
    /// The folder of jobs can't be read.
    pub fn load(&mut self) -> io::Result<Vec<(Key, Found)>> {
        let mut found = Vec::new();
        for item in fs::read_dir(self.dir.join("jobs"))? {
            let item = item?;
            let Some(key) = item.file_name().to_str().and_then(Key::parse) else {
                tracing::warn!(path = %item.path().display(), "not a job's folder, left alone");
                continue;
            };
            match self.load_one(key) {
                Ok(Some(state)) => found.push((key, state)),
                Ok(None) => remove_any(&item.path())?,
                Err(error) => tracing::error!(job = %key, %error, "a job's folder can't be read, left alone"),
            }
        }
        found.sort_by_key(|(key, _)| *key);
        Ok(found)
    }

    fn load_one(&mut self, key: Key) -> io::Result<Option<Found>> {
        let dir = self.job_dir(key);
        let exit = dir.read_exit()?;
        // It is written before the supervisor is started: without it nothing was.
        let record = match fs::read(record_path(&dir)) {
            Ok(bytes) => Some(serde_json::from_slice(&bytes).unwrap_or_else(|error| {
                tracing::error!(job = %key, %error, "agent.json can't be read: its limits come with the next document");
                Record::default()
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        // Nor was anything where no supervisor lives and none had begun its work.
        if exit.is_none() && (record.is_none() || (!dir.shim_alive()? && !dir.is_begun())) {
            return Ok(None);
        }
        let Record { wish, warning, notices, done } = record.unwrap_or_default();
        self.view.held.insert(key, Held { stage: Stage::Found, wish, warning, done });
        self.view.mark_past(key);
        self.entries.insert(key, Entry { notices, closed: exit.is_some(), ..Entry::default() });
        let state = if exit.is_some() { Found::Ended } else { Found::Started };
        if let Some(exit) = exit {
            self.ended(key, exit);
        }
        Ok(Some(state))
    }

    /// The folder of an attempt, there or not.
    pub fn job_dir(&self, key: Key) -> JobDir {
        JobDir::new(self.dir.join("jobs").join(key.to_string()))
    }

    /// What is known of an attempt.
    pub fn entry(&self, key: Key) -> Option<&Entry> {
        self.entries.get(&key)
    }

    /// All attempts with what is known of them.
    pub fn entries(&self) -> impl Iterator<Item = (Key, &Entry)> {
        self.entries.iter().map(|(key, entry)| (*key, entry))
    }

    /// Takes a launch in. False: it is known, or past, and changes nothing.
    pub fn accept(&mut self, launch: pb::Launch) -> bool {
        let key = Key::new(launch.job_id, launch.attempt);
        if self.view.is_past(key) || self.view.held.contains_key(&key) {
            return false;
        }
        let warning = launch.warn.as_ref().map(|warn| Warning {
            signal: warn.signal,
            before_s: warn.before_s,
            batch_only: warn.batch_only,
        });
        let notices = launch.notices.clone().unwrap_or_default();
        let notices = Notices {
            cancelled: notices.cancelled,
            time_limit: notices.time_limit,
            out_of_memory: notices.out_of_memory,
            requeued: notices.requeued,
        };
        self.view.held.insert(key, Held::ready(Wish::default(), warning));
        self.entries.insert(key, Entry { launch: Some(Box::new(launch)), notices, ..Entry::default() });
        true
    }

    /// Takes a desired document in: what it says of the attempts that are here is kept on disk. False: it is older than
    /// one by which an attempt was forgotten (a deposed leader's), and is not to be obeyed.
    pub fn desire(&mut self, desired: &Desired, now_ms: u64) -> bool {
        if desired.as_of.0 < self.floor.as_of_ms {
            return false;
        }
        self.view
            .missing
            .retain(|key, _| desired.jobs.iter().any(|job| job.job == key.job && job.attempt == key.attempt));
        for job in &desired.jobs {
            let key = Key { job: job.job, attempt: job.attempt };
            let wish = Wish::of(job, desired.kill_wait_s);
            match self.view.held.get_mut(&key) {
                Some(held) => {
                    self.view.missing.remove(&key);
                    if held.wish != wish {
                        held.wish = wish;
                        self.save(key);
                    }
                }
                None => {
                    self.view.missing.entry(key).or_insert(now_ms);
                }
            }
        }
        true
    }

    /// Records that an act is about to be carried out, on disk as well.
    pub fn record(&mut self, act: &Act, now_ms: u64) {
        let key = act.key();
        let Some(held) = self.view.held.get_mut(&key) else { return };
        let before = held.done;
        held.done(act, now_ms);
        let changed = held.done != before;
        if matches!(act, Act::Launch(_) | Act::Kill { .. }) {
            self.view.mark_past(key);
        }
        if changed {
            self.save(key);
        }
    }

    /// Writes `agent.json` into the attempt's folder.
    ///
    /// # Errors
    /// It can't be written; what is in memory still holds, and only a restart would forget it.
    pub fn write_record(&self, key: Key) -> io::Result<()> {
        let (Some(held), Some(entry)) = (self.view.held.get(&key), self.entries.get(&key)) else { return Ok(()) };
        let record =
            Record { wish: held.wish.clone(), warning: held.warning, notices: entry.notices.clone(), done: held.done };
        write_json(&record_path(&self.job_dir(key)), &record, false)
    }

    fn save(&self, key: Key) {
        let has_folder = self.view.held.get(&key).is_some_and(|held| held.stage != Stage::Ready);
        if has_folder && let Err(error) = self.write_record(key) {
            tracing::error!(job = %key, %error, "agent.json can't be written");
        }
    }

    /// Takes the launch out of an attempt that is about to be started.
    pub fn take_launch(&mut self, key: Key) -> Option<Box<pb::Launch>> {
        self.entries.get_mut(&key)?.launch.take()
    }

    /// Its container is being made.
    pub fn creating(&mut self, key: Key) {
        if let Some(held) = self.view.held.get_mut(&key)
            && held.stage == Stage::Found
        {
            held.stage = Stage::Creating;
        }
    }

    /// The script runs. `since_ms` is by the boot clock.
    pub fn running(&mut self, key: Key, running: &Running, since_ms: u64) {
        let (Some(held), Some(entry)) = (self.view.held.get_mut(&key), self.entries.get_mut(&key)) else { return };
        if matches!(held.stage, Stage::Creating | Stage::Found) {
            held.stage = Stage::Running { since_ms };
            entry.started = Some(TimeMs(running.started_ms));
        }
    }

    /// It is over. False: that was known.
    pub fn ended(&mut self, key: Key, exit: ExitRecord) -> bool {
        let (Some(held), Some(entry)) = (self.view.held.get_mut(&key), self.entries.get_mut(&key)) else {
            return false;
        };
        if entry.exit.is_some() {
            return false;
        }
        held.stage = Stage::Ended { settled: false };
        if exit.started_ms > 0 {
            entry.started = Some(TimeMs(exit.started_ms));
        }
        entry.exit = Some(exit);
        true
    }

    /// Gives an attempt up that no supervisor has, with its end on disk.
    pub fn give_up(&mut self, key: Key, cause: Option<Cause>, kind: ExitKind, reason: String, now: TimeMs) {
        let held = self.view.held.entry(key).or_insert_with(|| Held::ready(Wish::default(), None));
        held.done.cause = held.done.cause.or(cause);
        self.view.missing.remove(&key);
        self.view.mark_past(key);
        let entry = self.entries.entry(key).or_default();
        entry.launch = None;
        entry.closed = true;
        let exit = ExitRecord {
            job_id: key.job.0,
            attempt: key.attempt.0,
            kind,
            code: 0,
            signal: 0,
            oom: false,
            reason: Some(reason),
            started_ms: 0,
            ended_ms: now.0,
            usage: crate::phase::Usage::default(),
        };
        let dir = self.job_dir(key);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(dir.path());
        if let Err(error) = made.and_then(|()| dir.write_exit(&exit)) {
            tracing::error!(job = %key, %error, "an attempt's end can't be written");
        }
        self.ended(key, exit);
        self.save(key);
    }

    /// The supervisor of an attempt is gone.
    pub fn closed(&mut self, key: Key) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.closed = true;
        }
        self.settle(key);
    }

    /// That it started is in the replicated log.
    pub fn start_taken(&mut self, key: Key) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.start_taken = true;
        }
    }

    /// That it ended is in the replicated log.
    pub fn exit_taken(&mut self, key: Key) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.exit_taken = true;
        }
        self.settle(key);
    }

    /// A folder that could not be removed: the attempt stays until its end is taken again.
    pub fn unsettle(&mut self, key: Key) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.exit_taken = false;
        }
        if let Some(held) = self.view.held.get_mut(&key)
            && matches!(held.stage, Stage::Ended { .. })
        {
            held.stage = Stage::Ended { settled: false };
        }
    }

    fn settle(&mut self, key: Key) {
        let (Some(held), Some(entry)) = (self.view.held.get_mut(&key), self.entries.get(&key)) else { return };
        if matches!(held.stage, Stage::Ended { .. }) && entry.exit_taken && entry.closed {
            held.stage = Stage::Ended { settled: true };
        }
    }

    /// A new stream: what an earlier one said of reports is not relied on, as a report may have been lost with the
    /// controller that took it.
    pub fn nothing_taken(&mut self) {
        let ended: Vec<Key> = self.entries.keys().copied().collect();
        self.entries.values_mut().for_each(|entry| entry.start_taken = false);
        ended.into_iter().for_each(|key| self.unsettle(key));
    }

    /// Reports of an attempt that are not in the replicated log.
    pub fn reports(&self, key: Key) -> Vec<JobReport> {
        let (Some(held), Some(entry)) = (self.view.held.get(&key), self.entries.get(&key)) else { return Vec::new() };
        let started = entry.started.filter(|_| !entry.start_taken && !entry.exit_taken);
        let started = started.map(|at| JobEvent::Launched { at });
        let exit = entry.exit.as_ref().filter(|_| !entry.exit_taken);
        let ended = exit.map(|exit| JobEvent::Ended(ended(exit, held.done.cause)));
        let events = started.into_iter().chain(ended);
        events.map(|event| JobReport { job: key.job, attempt: key.attempt, event }).collect()
    }

    /// Forgets an attempt. Gives the folder to remove, moved aside, if it had one.
    ///
    /// # Errors
    /// The folder can't be moved: the attempt is kept.
    pub fn forget(&mut self, key: Key, as_of: TimeMs) -> io::Result<Option<PathBuf>> {
        let ready = self.view.held.get(&key).is_none_or(|held| held.stage == Stage::Ready);
        let aside = if ready { None } else { self.move_aside(key, as_of)? };
        self.view.held.remove(&key);
        self.entries.remove(&key);
        while self.view.newest.len() > PAST_MAX {
            let Some(oldest) = self.oldest_past() else { break };
            self.view.newest.remove(&oldest);
        }
        Ok(aside)
    }

    fn oldest_past(&self) -> Option<JobId> {
        self.view.newest.keys().find(|job| !self.view.held.keys().any(|key| key.job == **job)).copied()
    }

    fn move_aside(&mut self, key: Key, as_of: TimeMs) -> io::Result<Option<PathBuf>> {
        if as_of.0 > self.floor.as_of_ms {
            self.floor.as_of_ms = as_of.0;
            if let Err(error) = write_json(&self.dir.join("floor.json"), &self.floor, false) {
                tracing::error!(%error, "floor.json can't be written");
            }
        }
        let aside = self.dir.join("trash").join(key.to_string());
        match fs::rename(self.job_dir(key).path(), &aside) {
            Ok(()) => Ok(Some(aside)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn record_path(dir: &JobDir) -> PathBuf {
    dir.path().join("agent.json")
}

fn remove_any(path: &Path) -> io::Result<()> {
    let removed = if fs::symlink_metadata(path)?.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// How an attempt ended, as the controller is told.
pub fn ended(exit: &ExitRecord, cause: Option<Cause>) -> Ended {
    let how = match (cause, exit.kind) {
        (Some(Cause::TimeLimit), _) => EndedHow::TimeLimit,
        (Some(Cause::Cancelled | Cause::Requeued | Cause::Unwanted), _) => EndedHow::Ordered,
        (Some(Cause::Missing), _) | (None, ExitKind::NodeFailed) => EndedHow::Lost,
        (None, ExitKind::LaunchFailed) => EndedHow::LaunchFailed,
        (None, ExitKind::Exited) if exit.oom => EndedHow::OutOfMemory,
        (None, ExitKind::Exited) => EndedHow::Exited,
    };
    Ended {
        at: TimeMs(exit.ended_ms),
        how,
        exit: ExitStatus { code: exit.code, signal: exit.signal },
        text: exit.reason.clone(),
        usage: Usage {
            max_rss_kib: exit.usage.max_rss_kib,
            user_ms: exit.usage.user_us / 1000,
            system_ms: exit.usage.sys_us / 1000,
        },
    }
}

#[cfg(test)]
mod tests;
