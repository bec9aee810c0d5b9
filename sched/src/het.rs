//! Jobs of several components: all start in one plan, or none.

use std::collections::BTreeMap;

use gpun_core::{
    Shared,
    accounting::policy::Tally,
    job::{HetRole, Job, Reason},
};

use crate::{
    Verdict,
    planner::{Next, Planner},
    shape::Search,
    standing,
    table::Table,
    view::View,
};

/// What a component that starts changes of the pass; put back if another one does not start.
struct Saved<'a> {
    table: Table<'a>,
    views: Vec<View>,
    searches: Vec<[Search; 2]>,
    placements: usize,
    licenses: BTreeMap<&'a str, u64>,
    tally: Tally,
}

impl<'a> Planner<'a> {
    /// Looks at all components when the first one's turn comes.
    pub(crate) fn consider_together(&mut self, job: &'a Job, het: HetRole) -> Next {
        if het.offset > 0 || self.plan.together.iter().flatten().any(|placement| placement.job == job.id) {
            return Next::Job;
        }
        let components: Vec<&'a Shared<Job>> = self.state.components_of(job.id).collect();
        if components.len() != het.size as usize {
            return Next::Job;
        }
        let mut open = Vec::with_capacity(components.len());
        for component in &components {
            match self.open_for(component) {
                Some(parts) => open.push(parts),
                None => return Next::Job,
            }
        }
        if self.plan.placements.len() + components.len() > self.limits.placements_max {
            self.plan.unfinished = true;
            return Next::Stop;
        }
        let saved = self.save();
        let mut over = None;
        let failed = components.iter().zip(&open).find(|(component, parts)| {
            over = self.state.policy_of(component, Some(&self.tally));
            over.is_some() || !self.licenses_free_for(component) || !self.start(component, None, parts)
        });
        match failed {
            None => {
                let placements = self.plan.placements.split_off(saved.placements);
                self.plan.together.push(placements);
                Next::Job
            }
            Some((component, parts)) => {
                self.restore(saved);
                if let Some(policy) = over {
                    components.iter().for_each(|job| self.judge(job, Verdict::of(Reason::Policy(policy))));
                    return Next::Job;
                }
                self.wait_together(&components, component, parts)
            }
        }
    }

    /// The partitions in which a component might start now.
    fn open_for(&mut self, job: &'a Job) -> Option<Vec<usize>> {
        if let Some(begin) = job.spec.begin.filter(|begin| *begin > self.now) {
            self.plan.next_due = Some(self.plan.next_due.map_or(begin, |due| due.min(begin)));
            return None;
        }
        let mut parts = Vec::new();
        self.parts_of(job, &mut parts);
        parts.retain(|part| {
            !self.parts[*part].closed && standing::of_partition(job, self.parts[*part].partition).is_none()
        });
        parts.dedup();
        let itself = standing::of_job_itself(self.state, job, self.now).is_none();
        if let Err(verdict) = self.reserved.of(self.state, job, self.now) {
            self.judge(job, verdict);
            return None;
        }
        (job.is_ready() && itself && !parts.is_empty()).then_some(parts)
    }

    /// Keeps room for the component that does not fit, and tells the others that they wait for it.
    fn wait_together(&mut self, components: &[&'a Shared<Job>], failed: &'a Job, parts: &[usize]) -> Next {
        if !self.licenses_free_for(failed) {
            components.iter().for_each(|job| self.judge(job, Verdict::of(Reason::Licenses)));
            return Next::Job;
        }
        self.keep_room(failed, parts);
        let verdict = self.plan.verdicts.get(&failed.id).map_or(Reason::Resources, |verdict| verdict.reason);
        components.iter().for_each(|job| self.judge(job, Verdict::of(verdict)));
        self.close(parts)
    }

    fn save(&self) -> Saved<'a> {
        Saved {
            table: self.table.clone(),
            views: self.views.clone(),
            searches: self.shapes.iter().map(|shape| shape.search).collect(),
            placements: self.plan.placements.len(),
            licenses: self.licenses_started.clone(),
            tally: self.tally.clone(),
        }
    }

    fn restore(&mut self, saved: Saved<'a>) {
        // Views and shapes that came since stand for what is free now, less what is given back here: they are made again.
        let views = saved.views.len();
        self.table = saved.table;
        for (view, before) in self.views.iter_mut().zip(saved.views) {
            *view = before;
        }
        for at in views..self.views.len() {
            self.views[at] = self.fresh_view(self.views[at].slots.clone());
        }
        for (at, shape) in self.shapes.iter_mut().enumerate() {
            shape.search = saved.searches.get(at).copied().unwrap_or_default();
        }
        self.plan.placements.truncate(saved.placements);
        self.licenses_started = saved.licenses;
        self.tally = saved.tally;
    }
}
