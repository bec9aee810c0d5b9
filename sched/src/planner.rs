//! The pass over the queue: start what fits, keep room for the first that does not, fill the gaps.

use std::{cmp::Reverse, collections::BTreeMap};

use gpun_core::{
    JobId, State, TimeMs,
    accounting::policy::Tally,
    command::Placement,
    job::{ArrayRole, Job, Reason},
    partition::Partition,
};

use crate::{
    Plan, PlanLimits, Verdict,
    pick::{Picked, pick_at, pick_now},
    request::Request,
    reserved::Reserved,
    shape::{Never, Shape},
    standing,
    table::{Table, end_if_started},
    timeline::{Release, Start, first_start},
    view::View,
};

/// A partition during the pass.
pub(crate) struct Part<'a> {
    pub partition: &'a Partition,
    view: Option<usize>,
    /// For how many of its jobs room is kept.
    reservations: usize,
    /// Nothing is free and all the room that may be kept is kept.
    pub closed: bool,
}

/// Room kept for a job.
struct Reservation {
    start: TimeMs,
    slots: Vec<u32>,
}

/// What an array or job started in this plan.
#[derive(Default, Clone, Copy)]
struct Started {
    count: u32,
    last_task: Option<u32>,
}

/// Whether to go on with the queue.
#[derive(PartialEq)]
pub(crate) enum Next {
    Job,
    Stop,
}

pub(crate) struct Planner<'a> {
    pub(crate) state: &'a State,
    pub(crate) now: TimeMs,
    pub(crate) limits: PlanLimits,
    pub(crate) table: Table<'a>,
    pub(crate) views: Vec<View>,
    /// Node lists of the views.
    view_keys: Vec<&'a [String]>,
    pub(crate) parts: Vec<Part<'a>>,
    part_names: BTreeMap<&'a str, usize>,
    default_part: Option<usize>,
    pub(crate) shapes: Vec<Shape<'a>>,
    shape_numbers: BTreeMap<(usize, Request<'a>), usize>,
    pub(crate) reserved: Reserved<'a>,
    releases: Option<Vec<Release>>,
    reservations: Vec<Reservation>,
    /// Tasks of arrays started in this plan.
    array_started: BTreeMap<JobId, u32>,
    /// Licences given by this plan.
    pub(crate) licenses_started: BTreeMap<&'a str, u64>,
    /// What this plan started, as limits count it.
    pub(crate) tally: Tally,
    started: BTreeMap<JobId, Started>,
    tests: u64,
    pub(crate) plan: Plan,
}

impl<'a> Planner<'a> {
    pub fn new(state: &'a State, now: TimeMs, limits: PlanLimits) -> Self {
        let parts: Vec<Part<'a>> = state
            .partitions()
            .map(|partition| Part { partition, view: None, reservations: 0, closed: false })
            .collect();
        let part_names = parts.iter().enumerate().map(|(at, part)| (part.partition.name.as_str(), at)).collect();
        let default_part = parts.iter().position(|part| part.partition.is_default);
        let table = Table::new(state);
        let reserved = Reserved::new(state, &table);
        Self {
            state,
            now,
            limits,
            table,
            reserved,
            views: Vec::new(),
            view_keys: Vec::new(),
            parts,
            part_names,
            default_part,
            shapes: Vec::new(),
            shape_numbers: BTreeMap::new(),
            releases: None,
            reservations: Vec::new(),
            array_started: BTreeMap::new(),
            licenses_started: BTreeMap::new(),
            tally: Tally::default(),
            started: BTreeMap::new(),
            tests: 0,
            plan: Plan { made_at: now, ..Plan::default() },
        }
    }

    pub fn run(mut self) -> Plan {
        let tier = |part: &Part<'_>| part.partition.priority_tier.unwrap_or(1);
        let uniform = self.parts.windows(2).all(|pair| tier(&pair[0]) == tier(&pair[1]));
        let state = self.state;
        if uniform {
            let mut open = Vec::new();
            for job in state.queue() {
                // Held jobs and those that wait for others stand at the end.
                if !job.is_ready() {
                    break;
                }
                open.clear();
                self.parts_of(job, &mut open);
                if self.consider(job, &open) == Next::Stop {
                    break;
                }
            }
            return self.plan;
        }
        let mut turns: Vec<(Reverse<u32>, &'a Job, usize)> = Vec::new();
        let mut open = Vec::new();
        for job in state.queue().take_while(|job| job.is_ready()) {
            open.clear();
            self.parts_of(job, &mut open);
            turns.extend(open.iter().map(|part| (Reverse(tier(&self.parts[*part])), &**job, *part)));
        }
        turns.sort_by_key(|(tier, _, _)| *tier);
        for (_, job, part) in turns {
            if self.consider(job, &[part]) == Next::Stop {
                break;
            }
        }
        self.plan
    }

    pub(crate) fn parts_of(&self, job: &Job, into: &mut Vec<usize>) {
        if job.spec.partitions.is_empty() {
            into.extend(self.default_part);
        }
        into.extend(job.spec.partitions.iter().filter_map(|name| self.part_names.get(name.as_str())));
    }

    fn consider(&mut self, job: &'a Job, parts: &[usize]) -> Next {
        self.plan.looked_at += 1;
        if let Some(het) = job.het {
            return self.consider_together(job, het);
        }
        if let Some(begin) = job.spec.begin.filter(|begin| *begin > self.now) {
            self.plan.next_due = Some(self.plan.next_due.map_or(begin, |due| due.min(begin)));
            return Next::Job;
        }
        if parts.iter().all(|part| self.parts[*part].closed) {
            return Next::Job;
        }
        let may = |part: &&usize| standing::of_partition(job, self.parts[**part].partition).is_none();
        let mut open: Vec<usize> = parts.iter().filter(may).copied().collect();
        if open.is_empty() || standing::of_job_itself(self.state, job, self.now).is_some() {
            return Next::Job;
        }
        open.dedup();
        if let Err(verdict) = self.reserved.of(self.state, job, self.now) {
            self.judge(job, verdict);
            return Next::Job;
        }
        self.start_tasks(job, &open)
    }

    /// Starts a job, or as many tasks of an array as fit.
    fn start_tasks(&mut self, job: &'a Job, open: &[usize]) -> Next {
        let before = self.started.get(&job.id).copied().unwrap_or_default();
        let waiting = match &job.array {
            Some(ArrayRole::Waiting { tasks }) => Some(tasks),
            _ => None,
        };
        if waiting.is_none() && before.count > 0 {
            return Next::Job;
        }
        let mut tasks =
            waiting.into_iter().flat_map(|tasks| tasks.iter().map(Some)).chain(waiting.is_none().then_some(None));
        let mut last_task = before.last_task;
        while let Some(task) = tasks.find(|task| last_task.is_none() || *task > last_task) {
            if self.plan.placements.len() >= self.limits.placements_max {
                self.plan.unfinished = true;
                return Next::Stop;
            }
            if !self.array_may_start(job) {
                self.judge(job, Verdict::of(Reason::ArrayTaskLimit));
                return Next::Job;
            }
            if let Some(policy) = self.state.policy_of(job, Some(&self.tally)) {
                self.judge(job, Verdict::of(Reason::Policy(policy)));
                return Next::Job;
            }
            if !self.licenses_free_for(job) {
                // Behind a job that waits for nodes, that comes first.
                let behind = |part: &usize| self.plan.blocked.contains_key(&self.parts[*part].partition.name);
                if !open.iter().any(behind) {
                    self.judge(job, Verdict::of(Reason::Licenses));
                }
                return Next::Job;
            }
            if !self.start(job, task, open) {
                self.keep_room(job, open);
                return self.close(open);
            }
            if waiting.is_none() && self.plan.verdicts.remove(&job.id).is_some() {
                // Room was kept in a partition of a higher tier; here it starts at once.
                self.plan.blocked.retain(|_, first| *first != job.id);
            }
            last_task = task;
            let started = self.started.entry(job.id).or_default();
            *started = Started { count: started.count + 1, last_task: task };
            if let Some(array) = job.array_id() {
                *self.array_started.entry(array).or_insert(0) += 1;
            }
        }
        Next::Job
    }

    /// True if the licences that a job needs are there, less what this plan gave away.
    pub(crate) fn licenses_free_for(&self, job: &Job) -> bool {
        if job.spec.licenses.is_empty() {
            return true;
        }
        let free = |name: &str| {
            let here = self.licenses_started.get(name).copied().unwrap_or(0);
            u64::from(self.state.license_total(name).unwrap_or(0))
                .saturating_sub(self.state.license_used(name))
                .saturating_sub(here)
        };
        job.spec.licenses_needed().iter().all(|(name, count)| *count <= free(name))
    }

    fn array_may_start(&self, job: &Job) -> bool {
        match (job.array_id(), job.array_shape.and_then(|shape| shape.max_running)) {
            (Some(array), Some(limit)) => {
                let here = self.array_started.get(&array).copied().unwrap_or(0);
                self.state.array_running(array).saturating_add(here) < limit
            }
            _ => true,
        }
    }

    /// Marks partitions in which nothing can start any more; ends the pass when that is all of them.
    pub(crate) fn close(&mut self, open: &[usize]) -> Next {
        for at in open {
            let full = self.parts[*at].reservations >= self.limits.reservations_max.max(1);
            let free = self.parts[*at].view.is_none_or(|view| self.views[view].has_free());
            self.parts[*at].closed |= full && !free;
        }
        let done = |part: &Part<'_>| part.closed || !part.partition.starts_jobs();
        if self.parts.iter().all(done) { Next::Stop } else { Next::Job }
    }

    /// Starts a job or one task in the first partition where it fits.
    pub(crate) fn start(&mut self, job: &'a Job, task: Option<u32>, open: &[usize]) -> bool {
        let end = end_if_started(job, self.now);
        for part in open {
            let exhausted = self.tests > self.limits.tests_max && self.parts[*part].reservations > 0;
            if self.parts[*part].closed || exhausted {
                continue;
            }
            let view = self.view_of(*part);
            let later = self.views[view].reserved_from.is_some_and(|from| end > from);
            // Nodes with the preferred features first; where none is free, any will do.
            let preferred = (!job.spec.prefer.is_empty()).then_some(&job.spec.prefer);
            let preferred = preferred.into_iter().map(|all| all.as_slice()).chain(std::iter::once(&[][..]));
            for (prefer, set) in preferred.flat_map(|prefer| sets_of(job).map(move |set| (prefer, set))) {
                let shape = self.shape_preferring(job, *part, view, prefer, set);
                let picked = pick_now(&self.table, &self.views[view], &mut self.shapes[shape], later, &mut self.tests);
                if let Some(picked) = picked {
                    self.place(job, task, *part, shape, picked, later);
                    return true;
                }
            }
        }
        false
    }

    fn place(&mut self, job: &'a Job, task: Option<u32>, part: usize, shape: usize, picked: Picked, later: bool) {
        let end = end_if_started(job, self.now);
        let mut allocs = Vec::with_capacity(picked.len());
        let spread = self.table.spread_total(&self.shapes[shape].request, &picked, self.table.levels(later));
        for ((slot, tasks), of_total) in picked.into_iter().zip(spread) {
            let levels = self.table.levels(later);
            let share = self.table.share(&self.shapes[shape].request, slot, tasks, &of_total, levels);
            allocs.push(self.table.allocate(slot, tasks, &share));
            self.table.start(slot, share, later, end);
            self.views.iter_mut().for_each(|view| view.update(&self.table, slot));
        }
        self.tally.start(self.state, job);
        for (name, count) in job.spec.licenses_needed() {
            *self.licenses_started.entry(name).or_insert(0) += count;
        }
        self.plan.placements.push(Placement {
            job: job.id,
            task,
            seen_attempt: job.attempt,
            partition: self.parts[part].partition.name.clone(),
            allocs,
        });
    }

    /// Keeps room for a job that does not fit now, or says why it never will.
    pub(crate) fn keep_room(&mut self, job: &'a Job, open: &[usize]) {
        let mut best: Option<(usize, usize, Start)> = None;
        let mut never = None;
        for part in open.iter().copied() {
            if self.parts[part].reservations >= self.limits.reservations_max.max(1) {
                let view = self.view_of(part);
                never = never.or(self.named_unavailable(job, part, view).then_some(Never::NamedNodesUnavailable));
                continue;
            }
            let view = self.view_of(part);
            for set in sets_of(job) {
                let shape = self.shape_preferring(job, part, view, &[], set);
                match self.first_start(view, shape) {
                    Ok(start) if best.as_ref().is_none_or(|(_, _, best)| start.at < best.at) => {
                        best = Some((part, shape, start));
                    }
                    Ok(_) => {}
                    Err(why) => never = never.or(Some(why)),
                }
            }
        }
        if let Some((part, shape, start)) = best {
            self.reserve(job, part, shape, start);
        } else if let Some(why) = never {
            let verdict = self.never(job, why);
            self.judge(job, verdict);
        }
    }

    fn first_start(&mut self, view: usize, shape: usize) -> Result<Start, Never> {
        if let Some(never) = self.shapes[shape].never {
            return Err(never);
        }
        let releases = self.releases.get_or_insert_with(|| self.table.releases(self.state, self.now));
        if !self.table.new_releases.is_empty() {
            releases.append(&mut self.table.new_releases);
            releases.sort_by_key(|release| release.end);
        }
        let shape_ref = &self.shapes[shape];
        let start = first_start(&self.table, &self.views[view], shape_ref, releases, self.now, &mut self.tests);
        start.ok_or_else(|| {
            let never = self.why_never(view, shape);
            self.shapes[shape].never = Some(never);
            never
        })
    }

    /// Why no time comes at which a request fits. Room kept for others may be the cause too: then it is no fault of its own.
    fn why_never(&mut self, view: usize, shape: usize) -> Never {
        let shape = &self.shapes[shape];
        if shape.required.iter().any(|slot| !self.table.slots[*slot as usize].usable) {
            return Never::NamedNodesUnavailable;
        }
        let whole = Table::all_in_service(self.state);
        match pick_at(&whole, &self.views[view], shape, &whole.free, &mut self.tests) {
            Some(_) => Never::NodesUnavailable,
            None => Never::Impossible,
        }
    }

    fn named_unavailable(&mut self, job: &'a Job, part: usize, view: usize) -> bool {
        if job.spec.node_list.is_empty() {
            return false;
        }
        let shape = self.shape_of(job, part, view);
        self.shapes[shape].required.iter().any(|slot| !self.table.slots[*slot as usize].usable)
    }

    /// Reservations that are closed to a job now, as bits.
    fn closed_to(&self, job: &Job) -> u128 {
        self.reserved.of(self.state, job, self.now).map_or(0, |(closed, _)| closed)
    }

    fn never(&self, job: &Job, why: Never) -> Verdict {
        match why {
            Never::NamedNodesUnavailable => {
                let named = self.table.slots_named(self.state, &job.spec.node_list).into_iter();
                let out = named.map(|slot| &self.table.slots[slot as usize]).filter(|slot| !slot.usable);
                Verdict {
                    unavailable_nodes: out.map(|slot| slot.node.id).collect(),
                    ..Verdict::of(Reason::ReqNodeNotAvail)
                }
            }
            // With another time or without the reservation it would fit: it waits for that.
            Never::Impossible | Never::NodesUnavailable if self.closed_to(job) != 0 => {
                let maintenance = self.reserved.has_maintenance(self.closed_to(job));
                Verdict {
                    reserved_for_maintenance: maintenance,
                    ..Verdict::of(if maintenance { Reason::ReqNodeNotAvail } else { Reason::Resources })
                }
            }
            Never::NodesUnavailable => Verdict { needs_down_nodes: true, ..Verdict::of(Reason::Resources) },
            Never::Impossible => Verdict::of(Reason::BadConstraints),
        }
    }

    fn reserve(&mut self, job: &'a Job, part: usize, shape: usize, start: Start) {
        let slots: Vec<u32> = start.nodes.iter().map(|(slot, _)| *slot).collect();
        let spread = self.table.spread_total(&self.shapes[shape].request, &start.nodes, &start.levels);
        for ((slot, tasks), of_total) in start.nodes.iter().zip(&spread) {
            let share = self.table.share(&self.shapes[shape].request, *slot, *tasks, of_total, &start.levels);
            self.table.reserve(*slot, share, &start.levels, end_if_started(job, start.at));
        }
        for view in &mut self.views {
            view.reserve(&self.table, &slots, start.at);
        }
        self.reservations.push(Reservation { start: start.at, slots });
        let name = &self.parts[part].partition.name;
        let first = *self.plan.blocked.entry(name.clone()).or_insert(job.id);
        self.parts[part].reservations += 1;
        let verdict = Verdict {
            reason: if first == job.id { Reason::Resources } else { Reason::Priority },
            start_estimate: Some(start.at),
            planned_nodes: start.nodes.iter().map(|(slot, _)| self.table.slots[*slot as usize].node.id).collect(),
            behind: (first != job.id).then_some(first),
            ..Verdict::default()
        };
        self.judge(job, verdict);
    }

    pub(crate) fn judge(&mut self, job: &Job, verdict: Verdict) {
        if self.plan.verdicts.len() < self.limits.verdicts_max {
            self.plan.verdicts.entry(job.id).or_insert(verdict);
        }
    }

    /// The view of these slots as they are now.
    pub(crate) fn fresh_view(&self, slots: Vec<u32>) -> View {
        let mut view = View::new(&self.table, slots);
        for reservation in &self.reservations {
            view.reserve(&self.table, &reservation.slots, reservation.start);
        }
        view
    }

    fn view_of(&mut self, part: usize) -> usize {
        if let Some(view) = self.parts[part].view {
            return view;
        }
        let key = self.parts[part].partition.nodes.as_slice();
        let view = self.view_keys.iter().position(|have| *have == key).unwrap_or_else(|| {
            let slots = if key.is_empty() {
                (0..self.table.slots.len() as u32).collect()
            } else {
                self.table.slots_named(self.state, key)
            };
            let view = self.fresh_view(slots);
            self.views.push(view);
            self.view_keys.push(key);
            self.views.len() - 1
        });
        self.parts[part].view = Some(view);
        view
    }

    fn shape_of(&mut self, job: &'a Job, part: usize, view: usize) -> usize {
        self.shape_preferring(job, part, view, &[], None)
    }

    fn shape_preferring(
        &mut self,
        job: &'a Job,
        part: usize,
        view: usize,
        prefer: &'a [String],
        set: Option<&'a [String]>,
    ) -> usize {
        let (closed, within) = self.reserved.of(self.state, job, self.now).unwrap_or_default();
        let request = Request::new(self.state, job, self.parts[part].partition).preferring(prefer);
        let request = request.reserved(closed, within).with_set(set);
        if let Some(number) = self.shape_numbers.get(&(view, request)) {
            return *number;
        }
        let shape = Shape::new(self.state, &self.table, &self.views[view], &self.reserved, request);
        self.shapes.push(shape);
        self.shape_numbers.insert((view, request), self.shapes.len() - 1);
        self.shapes.len() - 1
    }
}

/// The lists of features that are tried one after the other for all nodes of a job; one try without where none are said.
fn sets_of(job: &Job) -> impl Iterator<Item = Option<&[String]>> {
    let none = job.spec.common_sets().next().is_none().then_some(None);
    job.spec.common_sets().map(|set| Some(set.as_slice())).chain(none)
}
