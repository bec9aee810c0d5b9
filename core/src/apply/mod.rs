//! How an entry changes the state: a function of the state and the entry, and of nothing else.
//!
//! Every change of a job goes through [`Applying::change`], which keeps the indexes and the nodes' accounts in step and marks
//! the record for the mirror.

mod accounting;
mod act;
mod deadline;
mod depend;
mod het;
mod housekeeping;
mod license;
mod node;
mod partition;
mod place;
mod report;
mod reserve;
mod step;
mod submit;
mod suspend;
mod update;

use std::collections::BTreeSet;

use crate::{
    Command, Digest, Entry, JobId, NodeId, Outcome, Refusal, RequestId, Shared, State, TimeMs,
    accounting::Book,
    command::{Act, ENTRY_VERSION},
    history::{self, AttemptEnd, Forget},
    job::{Job, JobState},
    mirror::{MirrorSink, SINGLE, Table, encode, request_key},
};

impl State {
    /// Applies one entry. Every command gets an outcome; a refused one changes nothing. All changed records go to `mirror`.
    pub fn apply(&mut self, entry: Entry, mirror: &mut dyn MirrorSink) -> Vec<Outcome> {
        if entry.version > ENTRY_VERSION {
            let refusal = Refusal::NewerVersion { version: entry.version };
            return entry.commands.iter().map(|_| Outcome::Refused(refusal.clone())).collect();
        }
        let before = self.meta.now;
        self.meta.now = self.meta.now.max(entry.stamp);
        let mut applying = Applying {
            now: self.meta.now,
            state: self,
            mirror,
            dirty: Dirty::default(),
            moved: BTreeSet::new(),
            version: entry.version,
            ended_attempt: None,
        };
        if entry.version >= 2 {
            applying.remember_over_a_jump(before);
        }
        let outcomes = entry.commands.into_iter().map(|command| applying.command(command)).collect();
        applying.flush();
        outcomes
    }
}

/// Records that the entry changed.
#[derive(Default)]
struct Dirty {
    jobs: BTreeSet<JobId>,
    nodes: BTreeSet<NodeId>,
    partitions: BTreeSet<String>,
    requests: BTreeSet<RequestId>,
    settings: bool,
    reservations: BTreeSet<String>,
    /// Accounting before the entry, if it changed.
    book: Option<Book>,
    steps: BTreeSet<(JobId, u32)>,
}

/// An entry being applied.
struct Applying<'a> {
    state: &'a mut State,
    now: TimeMs,
    mirror: &'a mut dyn MirrorSink,
    dirty: Dirty,
    /// Jobs that others may have waited for and whose standing changed.
    moved: BTreeSet<JobId>,
    /// The entry's version.
    version: u16,
    /// An attempt as its node's last report leaves it, for the change that follows.
    ended_attempt: Option<Shared<Job>>,
}

impl Applying<'_> {
    fn command(&mut self, command: Command) -> Outcome {
        let result = match command {
            Command::Submit(submit) => self.submit(*submit).map(|job| Outcome::Submitted { job }),
            Command::Act { who, act: act @ Act::CreateReservation(_) } => {
                self.reserve(&who, &act).map(|name| Outcome::Reserved { name })
            }
            Command::Act { who, act } => self.act(&who, &act).map(|count| Outcome::Done { count }),
            Command::Place(placement) => self.place(placement).map(|_| Outcome::Done { count: 1 }),
            Command::PlaceTogether(placements) => self.place_together(placements).map(|count| Outcome::Done { count }),
            Command::Report { node, reports } => self.report(node, reports),
            Command::RegisterNode { name, inventory } => {
                self.register_node(name, inventory).map(|node| Outcome::Registered { node })
            }
            Command::NodeLost { node } => self.lose_node(node, None).map(|count| Outcome::Done { count }),
            Command::Configure { settings, partitions } => self.configure(*settings, partitions),
            Command::ForgetHistory(records) => Ok(self.forget_history(&records)),
            Command::Tick => Ok(self.tick()),
            Command::CreateStep { who, new } => self.create_step(&who, *new),
        };
        self.settle();
        result.unwrap_or_else(Outcome::Refused)
    }

    /// Changes a job, and with it the indexes and what its nodes have given.
    fn change<T>(&mut self, id: JobId, how: impl FnOnce(&mut Job) -> T) -> Option<T> {
        let mut job = self.state.jobs.remove(&id)?;
        self.state.unindex_job(&job);
        if job.holds_resources() {
            self.state.free_nodes(&job);
        }
        let before = depend::Standing::of(&job);
        let was_over = job.is_over();
        let ran = job.holds_resources().then(|| job.clone());
        let result = how(job.make_mut());
        self.record(&job, was_over, ran.as_deref());
        if depend::Standing::of(&job) != before {
            self.moved.insert(id);
        }
        self.enter(job);
        Some(result)
    }

    /// Writes the history's record where a change ended the job, or an attempt of it.
    fn record(&mut self, job: &Job, was_over: bool, ran: Option<&Job>) {
        let attempt = self.ended_attempt.take();
        if job.is_over() && !was_over {
            let ended = job.ended.unwrap_or(self.now);
            self.end_steps(job.id, job.state);
            history::write(self.state, job, AttemptEnd::WithJob, ended, self.mirror);
            return self.forget_steps(job.id);
        }
        let (Some(ran), None) = (attempt.as_deref().or(ran), &job.run) else { return };
        let end = if ran.is_requeuing() { AttemptEnd::Requeued } else { AttemptEnd::NodeFail };
        self.end_steps(ran.id, JobState::Cancelled);
        history::write(self.state, ran, end, ran.ended.unwrap_or(self.now), self.mirror);
        self.forget_steps(ran.id);
    }

    fn forget_history(&mut self, records: &[Forget]) -> Outcome {
        records.iter().for_each(|record| history::forget(self.state, record, self.mirror));
        Outcome::Done { count: u32::try_from(records.len()).unwrap_or(u32::MAX) }
    }

    /// Enters a new or changed job.
    fn enter(&mut self, job: Shared<Job>) {
        self.state.index_job(&job);
        if job.holds_resources() {
            self.state.take_nodes(&job);
        }
        self.dirty.jobs.insert(job.id);
        self.state.jobs.insert(job.id, job);
    }

    /// Takes a job out of the state and lets go of its blobs.
    fn remove(&mut self, id: JobId) -> Option<Shared<Job>> {
        let job = self.state.jobs.remove(&id)?;
        self.state.unindex_job(&job);
        if job.holds_resources() {
            self.state.free_nodes(&job);
        }
        self.dirty.jobs.insert(id);
        self.release_blob(job.script);
        self.release_blob(job.environment);
        Some(job)
    }

    fn release_blob(&mut self, digest: Digest) {
        let left = self.state.blob_uses.get(&digest).copied().unwrap_or(0).saturating_sub(1);
        if left == 0 {
            // The bytes stay for as long as the history names them.
            self.state.blob_uses.remove(&digest);
        } else {
            self.state.blob_uses.insert(digest, left);
        }
    }

    /// A number for a new job.
    fn next_job_id(&mut self) -> Result<JobId, Refusal> {
        let id = self.state.meta.next_job.0.max(self.state.settings.first_job_id).max(1);
        if id >= self.state.settings.max_job_id {
            return Err(Refusal::NoJobIds);
        }
        self.state.meta.next_job = JobId(id + 1);
        Ok(JobId(id))
    }

    /// Hands every changed record to the mirror, once.
    fn flush(self) {
        let Self { state, mirror, dirty, .. } = self;
        mirror.put(Table::Meta, SINGLE, encode(&state.meta));
        if dirty.settings {
            mirror.put(Table::Settings, SINGLE, encode(&*state.settings));
        }
        if let Some(before) = dirty.book {
            accounting::mirror_changes(&before, &state.book, mirror);
        }
        for place in dirty.steps {
            let key = crate::step::key(place.0, place.1);
            match state.steps.get(&place) {
                Some(step) => mirror.put(Table::Step, &key, encode(step)),
                None => mirror.delete(Table::Step, &key),
            }
        }
        for id in dirty.jobs {
            match state.jobs.get(&id) {
                Some(job) => mirror.put(Table::Job, &id.key(), encode(job)),
                None => mirror.delete(Table::Job, &id.key()),
            }
        }
        for id in dirty.nodes {
            match state.nodes.get(&id) {
                Some(node) => mirror.put(Table::Node, &id.key(), encode(node)),
                None => mirror.delete(Table::Node, &id.key()),
            }
        }
        for name in dirty.partitions {
            match state.partitions.get(&name) {
                Some(partition) => mirror.put(Table::Partition, name.as_bytes(), encode(partition)),
                None => mirror.delete(Table::Partition, name.as_bytes()),
            }
        }
        for name in dirty.reservations {
            match state.reservations.get(&name) {
                Some(one) => mirror.put(Table::Reservation, name.as_bytes(), encode(one)),
                None => mirror.delete(Table::Reservation, name.as_bytes()),
            }
        }
        for request in dirty.requests {
            match state.requests.get(&request) {
                Some(record) => mirror.put(Table::Request, &request_key(request), encode(record)),
                None => mirror.delete(Table::Request, &request_key(request)),
            }
        }
    }
}
