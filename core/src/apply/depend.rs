//! Dependencies: looked at when a job is submitted or changed, and again whenever a job that it waits for moves. An index leads
//! from a job to those that wait for it, so nothing is searched.

use super::Applying;
use crate::{
    JobId, Refusal, Shared, State, TimeMs,
    dependency::{Condition, Dependency, Kind},
    job::{ArrayRole, Job, JobState, Reason},
};

/// How far a condition is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    Met,
    Open,
    Failed,
}

/// What of a job others may wait for: a change of it wakes them.
#[derive(PartialEq, Eq)]
pub(super) struct Standing {
    state: JobState,
    over: bool,
    holds: bool,
}

impl Standing {
    pub(super) fn of(job: &Job) -> Self {
        Self { state: job.state, over: job.is_over(), holds: job.holds_resources() }
    }
}

impl Applying<'_> {
    /// Looks again at all that waited for jobs which moved, until nothing moves any more.
    pub(super) fn settle(&mut self) {
        while let Some(id) = self.moved.pop_first() {
            let Some(job) = self.state.jobs.get(&id).cloned() else { continue };
            self.follow_leader(&job);
            let array = job.array_id().filter(|array| *array != id);
            for on in std::iter::once(id).chain(array) {
                let waiting: Vec<JobId> = self.state.dependents_of(on).collect();
                waiting.into_iter().for_each(|waiting| self.wake(waiting, &job));
            }
            if job.is_over() {
                self.wake_singletons(&job);
            }
        }
    }

    /// Looks at conditions whose time has come.
    pub(super) fn wake_due(&mut self) -> usize {
        let due: Vec<JobId> =
            self.state.delays.iter().take_while(|(at, _)| *at <= self.now).map(|(_, id)| *id).collect();
        due.iter().for_each(|id| self.reconsider(*id, None));
        due.len()
    }

    fn wake(&mut self, waiting: JobId, moved: &Job) {
        if let Some(task) = moved.array_task().filter(|_| moved.is_over()) {
            self.part_task(waiting, moved, task);
        }
        self.reconsider(waiting, Some(moved));
    }

    /// Gives a waiting array's task its own record once the task that corresponds to it has ended.
    fn part_task(&mut self, waiting: JobId, moved: &Job, task: u32) {
        let Some(job) = self.state.jobs.get(&waiting) else { return };
        let Some(ArrayRole::Waiting { tasks }) = &job.array else { return };
        let corresponds = |one: &Condition| one.kind == Kind::AfterCorr && Some(one.job) == moved.array_id();
        let wanted = job.dependency.as_ref().is_some_and(|all| all.conditions.iter().any(corresponds));
        if wanted
            && tasks.contains(task)
            && let Ok(own) = self.split_task(waiting, task)
        {
            self.reconsider(own, Some(moved));
        }
    }

    /// The first of those that wait for their name to be free; later ones wait for it in turn.
    fn wake_singletons(&mut self, ended: &Job) {
        let waiting: Vec<JobId> = self.state.singletons_named(ended).collect();
        for id in waiting {
            self.reconsider(id, None);
            let still = self.state.jobs.get(&id).and_then(|job| job.dependency.as_ref());
            if still.is_some_and(|all| all.has_singleton()) {
                return;
            }
        }
    }

    /// Looks at a dependency again; what is met leaves it.
    pub(super) fn reconsider(&mut self, id: JobId, moved: Option<&Job>) {
        let Some(job) = self.state.jobs.get(&id).filter(|job| job.state == JobState::Pending) else { return };
        let Some(dependency) = job.dependency.clone() else { return };
        let new = looked_at(self.state, job, &dependency, moved, self.now);
        if new.as_ref() == Some(&*dependency) {
            return;
        }
        let lost = new.as_ref().is_some_and(Dependency::is_lost);
        let ends = lost && job.spec.kill_on_invalid_dep == Some(true);
        let now = self.now;
        self.change(id, |job| {
            job.dependency = new.map(Shared::new);
            if ends {
                job.state = JobState::Cancelled;
                job.reason = Reason::DependencyNeverSatisfied;
                job.ended = Some(now);
            } else {
                job.refresh_queueing(now);
            }
        });
    }

    /// Looks at a job that was submitted or got a new dependency: what others did before counts too.
    pub(super) fn consider_new(&mut self, id: JobId) {
        let Some(dependency) = self.state.jobs.get(&id).and_then(|job| job.dependency.clone()) else { return };
        let correspond = dependency.conditions.iter().filter(|one| one.kind == Kind::AfterCorr && one.task.is_none());
        let ended: Vec<Shared<Job>> = correspond
            .flat_map(|one| self.state.array_tasks(one.job))
            .map(|(_, job)| job.clone())
            .filter(|job| job.is_over())
            .collect();
        for moved in ended {
            if let Some(task) = moved.array_task() {
                self.part_task(id, &moved, task);
            }
        }
        self.reconsider(id, None);
    }
}

/// What is left of a dependency; `None` once it is met.
fn looked_at(
    state: &State,
    job: &Job,
    dependency: &Dependency,
    moved: Option<&Job>,
    now: TimeMs,
) -> Option<Dependency> {
    let mut left = Vec::with_capacity(dependency.conditions.len());
    for condition in &dependency.conditions {
        let mut condition = *condition;
        if condition.failed {
            left.push(condition);
            continue;
        }
        match look(state, job, &mut condition, moved, now) {
            Look::Met if dependency.any => return None,
            Look::Met => continue,
            Look::Failed => condition.failed = true,
            Look::Open => {}
        }
        left.push(condition);
    }
    (!left.is_empty()).then_some(Dependency { conditions: left, any: dependency.any })
}

fn look(state: &State, job: &Job, condition: &mut Condition, moved: Option<&Job>, now: TimeMs) -> Look {
    if let Some(due) = condition.due {
        return if due <= now { Look::Met } else { Look::Open };
    }
    if condition.kind == Kind::Singleton {
        return if state.name_is_free_for(job) { Look::Met } else { Look::Open };
    }
    match target(state, job, condition) {
        Target::One(other) => look_at_one(other, condition, now),
        Target::Array => look_at_array(state, condition, moved, now),
        // Those who wait are told before a record leaves, so this is one of which nothing is known.
        Target::Gone if condition.kind.needs_outcome() => Look::Failed,
        Target::Gone => Look::Met,
    }
}

enum Target<'a> {
    One(&'a Job),
    Array,
    Gone,
}

fn target<'a>(state: &'a State, job: &Job, condition: &Condition) -> Target<'a> {
    let task = match (condition.kind, condition.task, job.array_task()) {
        (_, Some(task), _) => Some((task, true)),
        (Kind::AfterCorr, None, Some(own)) if condition.whole_array => Some((own, false)),
        _ => None,
    };
    if let Some((task, named)) = task {
        match state.array_task(condition.job, task) {
            Some(record) => return Target::One(record),
            None if named => return Target::Gone,
            // Without a task of the same number, the whole array counts.
            None => {}
        }
    }
    if condition.whole_array {
        return Target::Array;
    }
    state.jobs.get(&condition.job).map_or(Target::Gone, |record| Target::One(record))
}

fn look_at_one(other: &Job, condition: &mut Condition, now: TimeMs) -> Look {
    let well = other.state == JobState::Completed;
    match condition.kind {
        Kind::After if other.state == JobState::Pending => Look::Open,
        Kind::After => started(condition, start_of(other, now), now),
        _ if !other.is_over() => Look::Open,
        Kind::AfterOk | Kind::AfterCorr if !well => Look::Failed,
        Kind::AfterNotOk if well => Look::Failed,
        _ => Look::Met,
    }
}

fn look_at_array(state: &State, condition: &mut Condition, moved: Option<&Job>, now: TimeMs) -> Look {
    let of_it = |job: &Job| job.array_id() == Some(condition.job);
    let fault = |job: &Job| job.is_over() && job.state != JobState::Completed;
    condition.fault_seen |= match moved.filter(|job| of_it(job)) {
        Some(moved) => fault(moved),
        None => state.array_records(condition.job).any(|job| fault(job)),
    };
    let counts = state.array_counts(condition.job);
    match condition.kind {
        Kind::After if counts.pending > 0 => Look::Open,
        Kind::After => {
            let last = state.array_records(condition.job).map(|job| start_of(job, now)).max();
            started(condition, last.unwrap_or(now), now)
        }
        _ if counts.open > 0 => Look::Open,
        Kind::AfterOk | Kind::AfterCorr if condition.fault_seen => Look::Failed,
        Kind::AfterNotOk if !condition.fault_seen => Look::Failed,
        _ => Look::Met,
    }
}

fn start_of(job: &Job, now: TimeMs) -> TimeMs {
    job.run.as_ref().map(|run| run.placed).or(job.ended).unwrap_or(now)
}

fn started(condition: &mut Condition, start: TimeMs, now: TimeMs) -> Look {
    let due = start.plus_s(u64::from(condition.delay_min) * 60);
    if due <= now {
        return Look::Met;
    }
    condition.due = Some(due);
    Look::Open
}

/// Checks the jobs that a dependency names, and drops conditions that are met because nothing is known of their job. `job` is
/// the one that is to wait, where it exists already.
pub(super) fn admit_dependency(
    state: &State,
    job: Option<JobId>,
    asked: &Dependency,
) -> Result<Option<Dependency>, Refusal> {
    let mut conditions = Vec::with_capacity(asked.conditions.len());
    for condition in &asked.conditions {
        let mut condition = Condition {
            delay_min: condition.delay_min,
            task: condition.task,
            ..Condition::new(condition.kind, condition.job)
        };
        if condition.kind != Kind::Singleton {
            let mut records = state.array_records(condition.job).peekable();
            let is_array = records.peek().is_some();
            drop(records);
            let known = match condition.task {
                Some(task) => state.array_task(condition.job, task).is_some(),
                None => is_array || state.jobs.contains_key(&condition.job),
            };
            if Some(condition.job) == job || (!known && condition.kind.needs_outcome()) {
                return Err(Refusal::Dependency);
            }
            if !known {
                if asked.any {
                    return Ok(None);
                }
                continue;
            }
            condition.whole_array = is_array && condition.task.is_none();
        }
        conditions.push(condition);
    }
    if let Some(job) = job
        && is_circular(state, job, &conditions)
    {
        return Err(Refusal::CircularDependency);
    }
    Ok((!conditions.is_empty()).then_some(Dependency { conditions, any: asked.any }))
}

/// True if one of the conditions' jobs waits, in turn, for `job`.
fn is_circular(state: &State, job: JobId, conditions: &[Condition]) -> bool {
    let mut seen = std::collections::BTreeSet::new();
    let mut next: Vec<JobId> = conditions.iter().map(|condition| condition.job).collect();
    while let Some(id) = next.pop() {
        if id == job {
            return true;
        }
        if seen.insert(id) {
            let waits = |id: JobId| state.jobs.get(&id).and_then(|job| job.dependency.as_ref());
            next.extend(waits(id).into_iter().flat_map(|all| all.jobs()));
        }
    }
    false
}
