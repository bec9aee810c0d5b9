//! A job as a line or block shows it: what the record says, with Slurm's rules for what it does not say.

use gpun_core::job::{ArrayRole, Hold, JobState};
use gpun_core::spec::{GresRequest, MemoryRequest};
use gpun_core::view::JobView;
use gpun_core::{TimeLimit, TimeMs};

use super::Shown;
use crate::pattern::{self, Values};
use crate::time::{self, Limit};
use crate::tres::Tres;
use crate::{array, dependency, hostlist, license, memory};

/// A job to show; or one waiting task of an array, with `squeue --array`.
#[derive(Clone, Copy)]
pub struct JobRow<'a> {
    /// The record.
    pub view: &'a JobView,
    /// Only this task of a waiting array.
    pub task: Option<u32>,
}

/// `(null)`, as C prints a missing text.
pub const NULL: &str = "(null)";

/// How long `%i` may get where `SLURM_BITSTR_LEN` is not set.
const ARRAY_ID_LEN: usize = 31;

/// A text or `(null)`.
pub fn or_null(text: Option<&str>) -> String {
    text.filter(|t| !t.is_empty()).unwrap_or(NULL).to_owned()
}

impl<'a> JobRow<'a> {
    /// A whole record.
    pub fn new(view: &'a JobView) -> Self {
        Self { view, task: None }
    }

    fn job(&self) -> &'a gpun_core::job::Job {
        &self.view.job
    }

    /// `%i`: `7`, `7_3`, `7_[0-9%2]`.
    pub fn id(&self, shown: &Shown<'_>) -> String {
        match (self.job().array_id(), self.tasks_text(shown)) {
            (None, _) => match self.job().het {
                Some(het) => format!("{}+{}", het.leader, het.offset),
                None => self.job().id.to_string(),
            },
            (Some(array), Some(waiting)) if self.task.is_none() && self.is_waiting_array() => {
                let mut text = format!("{array}_[{waiting}]");
                if shown.bitstr_len.is_none() && text.len() > ARRAY_ID_LEN {
                    text.truncate(ARRAY_ID_LEN);
                }
                text
            }
            (Some(array), Some(task)) => format!("{array}_{task}"),
            (Some(array), None) => array.to_string(),
        }
    }

    fn is_waiting_array(&self) -> bool {
        matches!(self.job().array, Some(ArrayRole::Waiting { .. }))
    }

    /// `%K`: a task's number, or the waiting ones; `None` for what is no array.
    pub fn tasks_text(&self, shown: &Shown<'_>) -> Option<String> {
        if let Some(task) = self.task {
            return Some(task.to_string());
        }
        match self.job().array.as_ref()? {
            ArrayRole::Task { task, .. } => Some(task.to_string()),
            ArrayRole::Waiting { tasks } => {
                let list = array::show_short(tasks, array::shown_len(shown.bitstr_len.as_deref()));
                Some(match self.throttle() {
                    Some(n) => format!("{list}%{n}"),
                    None => list,
                })
            }
        }
    }

    /// How many tasks of the array may run at once.
    pub fn throttle(&self) -> Option<u32> {
        self.job().array_shape.and_then(|s| s.max_running).filter(|n| *n > 0)
    }

    /// Numbers to sort ids by: the array's or job's, then the task's. Waiting tasks come last.
    pub fn id_key(&self) -> (i64, i64) {
        let job = self.job();
        let first = job.array_id().or(job.het.map(|het| het.leader));
        let id = i64::from(first.unwrap_or(job.id).0);
        let task = match (self.task, &job.array) {
            (Some(t), _) => i64::from(t),
            (None, Some(ArrayRole::Task { task, .. })) => i64::from(*task),
            (None, Some(ArrayRole::Waiting { .. })) => i64::MAX,
            (None, None) => job.het.map_or(0, |het| i64::from(het.offset)),
        };
        (id, task)
    }

    /// Whether the job has nodes, or had.
    pub fn has_run(&self) -> bool {
        self.job().run.is_some() && self.job().state != JobState::Pending
    }

    /// Whether resources were ever given to this run.
    pub fn has_alloc(&self) -> bool {
        self.has_run() && self.job().run.as_ref().is_some_and(|r| !r.allocs.is_empty())
    }

    /// Number of nodes.
    pub fn node_count(&self) -> u32 {
        match &self.job().run {
            Some(run) if self.has_run() => u32::try_from(run.allocs.len()).unwrap_or(u32::MAX),
            _ => self.job().spec.nodes_min(),
        }
    }

    /// Number of tasks.
    pub fn task_count(&self) -> u64 {
        match &self.job().run {
            Some(run) if self.has_run() => run.allocs.iter().map(|a| u64::from(a.tasks)).sum(),
            _ => u64::from(self.job().spec.tasks()),
        }
    }

    /// Number of CPUs.
    pub fn cpu_count(&self) -> u64 {
        let spec = &self.job().spec;
        match &self.job().run {
            Some(run) if self.has_run() => run.cpus(),
            _ => spec.cpus_of_job().max(u64::from(spec.nodes_min())),
        }
    }

    /// CPUs that each node must have at least.
    pub fn min_cpus(&self) -> u64 {
        let spec = &self.job().spec;
        let by_tasks = u64::from(spec.ntasks_per_node.unwrap_or(1).max(1)) * u64::from(spec.cpus_per_task());
        by_tasks.max(u64::from(spec.mincpus.unwrap_or(0)))
    }

    /// `("CPU" or "Node", mebibytes)`: the memory asked for and what it is counted by.
    pub fn min_memory(&self, shown: &Shown<'_>) -> (&'static str, u64) {
        match (self.job().spec.memory, shown.def_mem_per_cpu_mib) {
            (MemoryRequest::PerNode(m), _) => ("Node", m.0),
            (MemoryRequest::PerCpu(m), _) => ("CPU", m.0),
            (MemoryRequest::PerGpu(m), _) => ("TRES", m.0),
            (MemoryRequest::Default, Some(m)) => ("CPU", m),
            (MemoryRequest::Default, None) => ("Node", 0),
        }
    }

    fn memory_total(&self, shown: &Shown<'_>) -> u64 {
        match (&self.job().run, self.min_memory(shown)) {
            (Some(run), _) if self.has_run() => run.allocs.iter().map(|a| a.memory.0).sum(),
            (_, ("CPU", m)) => m.saturating_mul(self.cpu_count()),
            (_, ("TRES", m)) => m.saturating_mul(self.job().spec.gpus_of_job()),
            (_, (_, 0)) => self.view.memory_per_node.0.saturating_mul(u64::from(self.node_count())),
            (_, (_, m)) => m.saturating_mul(u64::from(self.node_count())),
        }
    }

    /// What was asked for, or what is allocated.
    pub fn tres(&self, shown: &Shown<'_>) -> Tres {
        let cpus = self.cpu_count();
        let mut out = Tres {
            cpus,
            memory_mib: self.memory_total(shown),
            nodes: u64::from(self.node_count()),
            billing: Some(cpus),
            gres: Vec::new(),
        };
        match &self.job().run {
            Some(run) if self.has_run() => {
                let all = run.allocs.iter().flat_map(|a| &a.gres);
                all.for_each(|g| out.add_gres(&g.name, g.indexes.len()));
            }
            _ => {
                let asked = self.job().spec.gres_of_job();
                asked.iter().for_each(|(name, _, count)| out.add_gres(name, u64::from(*count)));
            }
        }
        out
    }

    /// `gres/gpu:a100:2`, if generic resources were asked for.
    pub fn tres_per_node(&self) -> Option<String> {
        gres_list(&self.job().spec.gres, ':')
    }

    /// When it started; for a waiting job, when it is expected to, or may at the earliest.
    pub fn start(&self) -> Option<TimeMs> {
        let job = self.job();
        match &job.run {
            Some(run) if self.has_run() => Some(run.launched.unwrap_or(run.placed)),
            _ if job.state == JobState::Pending => {
                let begin = job.spec.begin.filter(|b| *b > job.submitted);
                begin.max(self.view.start_estimate.filter(|_| job.hold == Hold::None))
            }
            _ => job.ended,
        }
    }

    /// When it ended or will reach its limit.
    pub fn end(&self) -> Option<TimeMs> {
        let job = self.job();
        job.ended.filter(|_| job.state.is_final()).or_else(|| {
            let limit = Limit::from(job.time_limit).shown().seconds()?;
            match &job.run {
                // Where a run is stopped, its end is shown as if it went on at once.
                Some(run) if self.has_run() && job.state == JobState::Suspended => {
                    let stopped_s = job.suspension.map_or(0, |one| one.total_ms / 1000);
                    Some(run.launched.unwrap_or(run.placed).plus_s(limit + stopped_s))
                }
                Some(_) if self.has_run() => job.limit_end(),
                _ => self.start().map(|s| s.plus_s(limit)),
            }
        })
    }

    /// Since when it could start; `None` while held or before its begin time is known.
    pub fn eligible(&self) -> Option<TimeMs> {
        let job = self.job();
        job.eligible.or(job.spec.begin.filter(|b| *b > job.submitted))
    }

    /// Run time so far, in seconds.
    pub fn used_s(&self, shown: &Shown<'_>) -> u64 {
        let (true, Some(start)) = (self.has_run(), self.start()) else { return 0 };
        let job = self.job();
        if job.is_requeuing() {
            return 0;
        }
        let until = job.ended.unwrap_or_else(|| shown.now());
        TimeMs(until.0.saturating_sub(job.suspended_ms(shown.now()))).since_s(start)
    }

    /// What is left of the limit.
    pub fn left(&self, shown: &Shown<'_>) -> String {
        match Limit::from(self.job().time_limit).shown().seconds() {
            None => "UNLIMITED".to_owned(),
            Some(limit) => time::short(limit.saturating_sub(self.used_s(shown))),
        }
    }

    /// The nodes in ranged form; empty if it has none.
    pub fn node_list(&self) -> String {
        if self.has_run() { hostlist::compress(&self.view.nodes) } else { String::new() }
    }

    /// The partition that it runs in; all that it may run in while it waits.
    pub fn partition(&self) -> String {
        match &self.job().run {
            Some(run) if self.has_run() => run.partition.clone(),
            _ => self.view.partitions.join(","),
        }
    }

    /// What it still waits for of other jobs, each with how far that is.
    pub fn dependency(&self) -> String {
        self.job().dependency.as_ref().map_or_else(|| NULL.to_owned(), |all| dependency::show(all))
    }

    /// Licences as they were asked for.
    pub fn licenses(&self) -> String {
        or_null(Some(&license::text(&self.job().spec.licenses)))
    }

    /// `gres/gpu:2` of the whole job, if any are asked for so. Those that just follow from the tasks have no number of their own.
    pub fn tres_per_job(&self) -> Option<String> {
        let asked = self.job().spec.gres_total.iter().filter(|one| !one.bare || one.kind.is_some());
        gres_list(&asked.cloned().collect::<Vec<_>>(), ':')
    }

    /// `gres/gpu:1` of each socket.
    pub fn tres_per_socket(&self) -> Option<String> {
        gres_list(&self.job().spec.gres_per_socket, ':')
    }

    /// `cpu=2,gres/gpu=1` of each task.
    pub fn tres_per_task(&self) -> Option<String> {
        let spec = &self.job().spec;
        let cpus = spec.cpus_per_task.filter(|n| *n > 1).map(|n| format!("cpu={n}"));
        let parts: Vec<String> = cpus.into_iter().chain(gres_list(&spec.gres_per_task, '=')).collect();
        (!parts.is_empty()).then(|| parts.join(","))
    }

    /// `gres/gpu:3`: CPUs for each GPU.
    pub fn cpus_per_tres(&self) -> Option<String> {
        self.job().spec.cpus_per_gpu.map(|each| format!("gres/gpu:{each}"))
    }

    /// `gres/gpu:100`: memory for each GPU, in mebibytes.
    pub fn mem_per_tres(&self) -> Option<String> {
        match self.job().spec.memory {
            MemoryRequest::PerGpu(each) => Some(format!("gres/gpu:{}", each.0)),
            _ => None,
        }
    }

    /// `17-19`: the numbers of all components of a heterogeneous job.
    pub fn het_set(&self) -> Option<String> {
        let het = self.job().het?;
        Some(format!("{}-{}", het.leader, het.leader.0 + het.size.saturating_sub(1)))
    }

    /// How often it was put back into the queue, the time that is under way counted.
    pub fn restarts(&self) -> u32 {
        self.job().restarts + u32::from(self.job().is_requeuing())
    }

    /// `OK`, `NO` or `YES`: how CPUs are shared.
    pub fn over_subscribe(&self) -> &'static str {
        let spec = &self.job().spec;
        match (spec.exclusive, spec.oversubscribe) {
            (true, _) => "NO",
            (false, Some(true)) => "YES",
            (false, _) => "OK",
        }
    }

    /// The script with its arguments.
    pub fn command(&self) -> String {
        let spec = &self.job().spec;
        match &spec.command {
            None => NULL.to_owned(),
            Some(command) => std::iter::once(command).chain(&spec.args).cloned().collect::<Vec<_>>().join(" "),
        }
    }

    /// A pattern as an absolute path, its letters left as they are.
    fn absolute(&self, pattern: &str) -> String {
        if pattern.starts_with('/') { pattern.to_owned() } else { format!("{}/{pattern}", self.job().spec.work_dir) }
    }

    /// Standard output's pattern.
    pub fn std_out(&self) -> String {
        let default = if self.job().array_id().is_some() { pattern::DEFAULT_ARRAY } else { pattern::DEFAULT };
        self.absolute(self.job().spec.std_out.as_deref().unwrap_or(default))
    }

    /// Standard error's pattern, if one was given.
    pub fn std_err(&self) -> Option<String> {
        self.job().spec.std_err.as_deref().map(|p| self.absolute(p))
    }

    /// Standard input's pattern.
    pub fn std_in(&self) -> String {
        self.absolute(self.job().spec.std_in.as_deref().unwrap_or("/dev/null"))
    }

    /// A pattern with what the submission decides filled in.
    pub fn expanded(&self, pattern: &str) -> String {
        let job = self.job();
        let values = Values {
            job: job.id.0,
            array_job: job.array_id().map(|a| a.0),
            array_task: self.task.or_else(|| job.array_task()),
            name: &job.spec.name,
            user: &job.owner.user,
            ..Values::default()
        };
        pattern::expand_shown(pattern, &values)
    }

    /// A size, with or without units.
    pub fn size(mib: u64, shown: &Shown<'_>) -> String {
        match (shown.noconvert, mib) {
            (_, 0) => "0".to_owned(),
            (true, m) => format!("{m}M"),
            (false, m) => memory::exact(m),
        }
    }
}

/// A number, or `*` where none is asked for.
pub fn or_star(number: Option<u32>) -> String {
    number.map_or_else(|| "*".to_owned(), |number| number.to_string())
}

fn gres_text(request: &GresRequest, joint: char) -> String {
    let kind = request.kind.as_deref().map_or_else(String::new, |kind| format!(":{kind}"));
    let count = if request.bare && joint == ':' { String::new() } else { format!("{joint}{}", request.count) };
    format!("gres/{}{kind}{count}", request.name)
}

fn gres_list(list: &[GresRequest], joint: char) -> Option<String> {
    let parts: Vec<String> = list.iter().map(|one| gres_text(one, joint)).collect();
    (!parts.is_empty()).then(|| parts.join(","))
}

impl From<TimeLimit> for Limit {
    fn from(limit: TimeLimit) -> Self {
        match limit {
            TimeLimit::Seconds(s) => Self::Seconds(s),
            TimeLimit::Infinite => Self::Infinite,
        }
    }
}
