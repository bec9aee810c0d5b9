//! Changing a job's request (`scontrol update job`).

use super::{Applying, depend::admit_dependency, submit::admit};
use crate::{
    JobId, Refusal, Shared, TimeLimit,
    command::JobChange,
    job::{Hold, Job, JobState},
    spec::MemoryRequest,
};

impl Applying<'_> {
    /// What a job would be after a change, or why it can't be. A priority of 0 holds it as `hold` says.
    pub(super) fn changed_job(&self, id: JobId, change: &JobChange, hold: Hold) -> Result<Shared<Job>, Refusal> {
        let job = self.state.job(id).ok_or(Refusal::UnknownJob)?;
        if job.state != JobState::Pending && needs_pending(change) {
            return Err(Refusal::NotPending);
        }
        if self.version >= 9 && change.deadline.is_some_and(|deadline| deadline <= self.now) {
            return Err(Refusal::Time);
        }
        let mut changed = job.clone();
        changed.make_mut().take_change(change, hold);
        if let Some(end) = change.end_time {
            changed.make_mut().time_limit = job.limit_to_end_at(end.max(self.now)).ok_or(Refusal::NotRunning)?;
        }
        if change.time_min.is_some() && changed.spec.time_min.is_some_and(|least| least > changed.time_limit) {
            return Err(Refusal::TimeMin);
        }
        if change.account.is_some() || change.qos.is_some() || change.partitions.is_some() {
            let job = changed.make_mut();
            if let Some(charged) = self.state.charged(&job.owner, &job.spec)? {
                let spec = job.spec.make_mut();
                (spec.account, spec.qos) = (charged.account, charged.qos);
                job.charge = Some(charged.charge);
            }
        }
        // A job that was once taken is looked at again only for what concerns its place: its nodes may be away for now.
        let again = needs_pending(change) || change.time_limit.is_some() || change.account.is_some();
        if job.state == JobState::Pending && again {
            let limit = admit(self.state, &changed.owner, &changed.spec)?;
            if change.time_limit.is_some() || (change.partitions.is_some() && changed.spec.time_limit.is_none()) {
                changed.make_mut().time_limit = limit;
            }
        }
        if let Some(asked) = &change.dependency {
            let dependency = admit_dependency(self.state, Some(id), asked)?;
            let job = changed.make_mut();
            job.spec.make_mut().dependency = Some(asked.clone()).filter(|asked| !asked.conditions.is_empty());
            job.dependency = dependency.map(Shared::new);
        }
        Ok(changed)
    }

    pub(super) fn update_job(&mut self, id: JobId, change: &JobChange, hold: Hold) -> Result<(), Refusal> {
        let now = self.now;
        let changed = self.changed_job(id, change, hold)?;
        self.change(id, |job| {
            job.clone_from(&changed);
            if job.state == JobState::Pending {
                job.refresh_queueing(now);
            }
        })
        .ok_or(Refusal::UnknownJob)?;
        if change.dependency.is_some() {
            self.consider_new(id);
        }
        Ok(())
    }
}

/// True for changes of what a running job already has.
fn needs_pending(change: &JobChange) -> bool {
    change.partitions.is_some()
        || change.node_list.is_some()
        || change.exclude.is_some()
        || change.begin.is_some()
        || change.nodes_min.is_some()
        || change.nodes_max.is_some()
        || change.ntasks.is_some()
        || change.cpus_per_task.is_some()
        || change.memory_per_node.is_some()
        || change.memory_per_cpu.is_some()
        || change.features.is_some()
        || change.std_out.is_some()
        || change.std_err.is_some()
        || change.work_dir.is_some()
        || change.dependency.is_some()
        || change.licenses.is_some()
        || change.contiguous.is_some()
        || change.gres.is_some()
        || change.gres_per_task.is_some()
        || change.mincpus.is_some()
        || change.prefer.is_some()
        || change.tmp_disk.is_some()
        || change.reservation.is_some()
        || change.oversubscribe.is_some()
        || change.std_in.is_some()
        || change.ntasks_per_node.is_some()
        || change.cpus.is_some()
}

fn set<T: Clone>(field: &mut T, new: &Option<T>) {
    if let Some(new) = new {
        field.clone_from(new);
    }
}

fn set_some<T: Clone>(field: &mut Option<T>, new: &Option<T>) {
    if new.is_some() {
        field.clone_from(new);
    }
}

impl Job {
    fn take_change(&mut self, change: &JobChange, hold: Hold) {
        let spec = self.spec.make_mut();
        set(&mut spec.name, &change.name);
        set(&mut spec.partitions, &change.partitions);
        set(&mut spec.nice, &change.nice);
        set(&mut spec.node_list, &change.node_list);
        set(&mut spec.exclude, &change.exclude);
        if let Some(features) = &change.features {
            spec.features.clone_from(features);
            spec.feature_sets = change.feature_sets.clone().unwrap_or_default();
            spec.features_text.clone_from(&change.features_text);
            spec.features_same = false;
        }
        set(&mut spec.contiguous, &change.contiguous);
        set_some(&mut spec.wckey, &change.wckey);
        set(&mut spec.work_dir, &change.work_dir);
        set(&mut spec.licenses, &change.licenses);
        set_some(&mut spec.comment, &change.comment);
        set_some(&mut spec.requeue, &change.requeue);
        set_some(&mut spec.begin, &change.begin);
        set_some(&mut spec.nodes_min, &change.nodes_min);
        set_some(&mut spec.nodes_max, &change.nodes_max);
        set_some(&mut spec.ntasks, &change.ntasks);
        set_some(&mut spec.cpus_per_task, &change.cpus_per_task);
        set_some(&mut spec.account, &change.account);
        set_some(&mut spec.qos, &change.qos);
        set_some(&mut spec.std_out, &change.std_out);
        set_some(&mut spec.std_err, &change.std_err);
        set_some(&mut spec.deadline, &change.deadline);
        set(&mut spec.gres, &change.gres);
        set(&mut spec.gres_per_task, &change.gres_per_task);
        set(&mut spec.prefer, &change.prefer);
        set_some(&mut spec.mincpus, &change.mincpus);
        set_some(&mut spec.tmp_disk, &change.tmp_disk);
        set_some(&mut spec.extra, &change.extra);
        set_some(&mut spec.admin_comment, &change.admin_comment);
        set_some(&mut spec.oversubscribe, &change.oversubscribe);
        set_some(&mut spec.std_in, &change.std_in);
        set_some(&mut spec.ntasks_per_node, &change.ntasks_per_node);
        if let Some(least) = change.time_min.filter(|_| self.state == JobState::Pending) {
            spec.time_min = Some(least).filter(|least| *least != TimeLimit::Seconds(0));
        }
        if let Some(name) = &change.reservation {
            spec.reservation = Some(name.clone()).filter(|name| !name.is_empty());
        }
        if let Some(cpus) = change.cpus {
            spec.ntasks = Some(cpus.div_ceil(spec.cpus_per_task()).max(1));
        }
        if let Some(memory) = change.memory_per_node {
            spec.memory = MemoryRequest::PerNode(memory);
        }
        if let Some(memory) = change.memory_per_cpu {
            spec.memory = MemoryRequest::PerCpu(memory);
        }
        if let Some(limit) = change.time_limit {
            spec.time_limit = Some(limit);
            self.time_limit = limit;
        }
        if let Some(priority) = change.priority {
            spec.priority = (priority > 0).then_some(priority);
            // A user's wish never weakens an operator's hold; one who may raise the priority may end it.
            let held = if self.hold == Hold::Admin { Hold::Admin } else { hold };
            self.hold = if priority == 0 { held } else { Hold::None };
        }
        if let (Some(max), Some(shape)) = (change.array_max_running, &mut self.array_shape) {
            shape.max_running = (max > 0).then_some(max);
        }
    }
}
