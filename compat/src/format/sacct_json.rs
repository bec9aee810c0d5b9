//! `sacct --json`: records as Slurm's data parser v0.0.42 writes them.

use gpun_core::TimeLimit;
use gpun_core::history::Record;
use gpun_core::job::{ArrayRole, ExitStatus, JobState};
use gpun_core::spec::MemoryRequest;
use serde_json::{Value, json};

use super::Shown;
use super::sacct::{Line, Part, lines_of};
use crate::tres::Tres;
use crate::{array, hostlist, license, signal};

/// Who asked what of whom: the `meta` of a document.
#[derive(Debug, Clone, Default)]
pub struct Meta {
    /// The command line, the command's name first.
    pub command: Vec<String>,
    /// The caller.
    pub user: String,
    /// The caller's group.
    pub group: String,
    /// The cluster.
    pub cluster: String,
    /// Slurm's version, such as `24.11.5`.
    pub version: String,
}

/// A document under way.
#[derive(Debug, Default)]
pub struct Document {
    jobs: Vec<Value>,
}

impl Document {
    /// Adds a record.
    pub fn add(&mut self, record: &Record, shown: &Shown<'_>) {
        let mut asked = record.view.clone();
        let job = asked.job.make_mut();
        (job.run, job.state) = (None, JobState::Pending);
        let lines = lines_of(record, &asked);
        let (steps, jobs): (Vec<_>, Vec<_>) = lines.iter().partition(|line| !line.is_job());
        let steps: Vec<Value> = steps.into_iter().map(|line| step(line, shown)).collect();
        self.jobs.extend(jobs.into_iter().map(|line| job_value(line, &steps, shown)));
    }

    /// The whole text.
    pub fn finish(self, meta: &Meta) -> String {
        let mut parts = meta.version.split('.').map(str::to_owned);
        let mut part = || parts.next().unwrap_or_default();
        let (major, minor, micro) = (part(), part(), part());
        let document = json!({
            "jobs": self.jobs,
            "meta": {
                "plugin": {
                    "type": "",
                    "name": "",
                    "data_parser": "data_parser/v0.0.42",
                    "accounting_storage": "accounting_storage/slurmdbd",
                },
                "client": {"source": "", "user": meta.user, "group": meta.group},
                "command": meta.command,
                "slurm": {
                    "version": {"major": major, "micro": micro, "minor": minor},
                    "release": meta.version,
                    "cluster": meta.cluster,
                },
            },
            "errors": [],
            "warnings": [],
        });
        format!("{document:#}\n")
    }
}

/// A number that may not be set.
fn number(value: Option<u64>) -> Value {
    json!({"set": value.is_some(), "infinite": false, "number": value.unwrap_or(0)})
}

fn processor_time(ms: u64) -> Value {
    json!({"seconds": ms / 1000, "microseconds": ms % 1000 * 1000})
}

fn exit_value(exit: ExitStatus) -> Value {
    let (code, by) = (u64::from(exit.code), u64::from(exit.signal));
    let status = match (code, by) {
        (0, 0) => "SUCCESS",
        (_, 0) => "ERROR",
        _ => "SIGNALED",
    };
    let name = if by == 0 { String::new() } else { signal::name(i32::from(exit.signal)) };
    json!({
        "status": [status],
        "return_code": number((by == 0).then_some(code)),
        "signal": {"id": number((by > 0).then_some(by)), "name": name},
    })
}

fn tres_value(tres: &Tres) -> Value {
    let one =
        |kind: &str, name: &str, id: u32, count: u64| json!({"type": kind, "name": name, "id": id, "count": count});
    let mut all = Vec::new();
    let fixed = [("cpu", 1, tres.cpus), ("mem", 2, tres.memory_mib), ("node", 4, tres.nodes)];
    all.extend(fixed.into_iter().filter(|(_, _, count)| *count > 0).map(|(kind, id, count)| one(kind, "", id, count)));
    all.extend(tres.billing.map(|count| one("billing", "", 5, count)));
    // Generic resources have numbers from 1001 on, in the order in which they are counted.
    all.extend((1001..).zip(&tres.gres).map(|(id, (name, count))| one("gres", name, id, *count)));
    Value::Array(all)
}

/// The first word of a state: who cancelled a job stands elsewhere.
fn state_word(line: &Line<'_>) -> String {
    line.state().split(' ').next().unwrap_or_default().to_owned()
}

fn times(line: &Line<'_>, shown: &Shown<'_>) -> Value {
    let usage = line.usage();
    json!({
        "elapsed": line.elapsed_s(shown),
        "suspended": line.suspended_s(shown),
        "system": processor_time(usage.system_ms),
        "user": processor_time(usage.user_ms),
        "total": processor_time(usage.system_ms.saturating_add(usage.user_ms)),
    })
}

fn with(mut object: Value, more: Value) -> Value {
    if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
        object.extend(more);
    }
    object
}

fn killer(line: &Line<'_>, shown: &Shown<'_>) -> String {
    line.record.view.job.cancelled_by.map_or_else(String::new, |uid| shown.user(uid))
}

fn job_value(line: &Line<'_>, steps: &[Value], shown: &Shown<'_>) -> Value {
    let (job, row) = (&line.record.view.job, &line.row);
    let (spec, owner) = (&job.spec, &job.owner);
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let seconds = |at: Option<gpun_core::TimeMs>| at.map_or(0, gpun_core::TimeMs::as_s);
    let limit = match job.time_limit {
        TimeLimit::Seconds(seconds) => number(Some(seconds.div_ceil(60))),
        _ => json!({"set": false, "infinite": true, "number": 0}),
    };
    let time = with(
        times(line, shown),
        json!({
            "eligible": seconds(row.eligible()),
            "end": seconds(line.ended()),
            "planned": number(line.planned_s(shown)),
            "start": seconds(line.started()),
            "submission": job.submitted.as_s(),
            "limit": limit,
        }),
    );
    let (task, waiting) = match &job.array {
        Some(ArrayRole::Task { task, .. }) => (Some(u64::from(*task)), String::new()),
        Some(ArrayRole::Waiting { tasks }) => (None, array::show(tasks)),
        None => (None, String::new()),
    };
    let (per_cpu, per_node) = match (spec.memory, shown.def_mem_per_cpu_mib) {
        (MemoryRequest::PerCpu(memory), _) => (Some(memory.0), None),
        (MemoryRequest::PerNode(memory), _) => (None, Some(memory.0)),
        (MemoryRequest::Default, memory) => (memory, None),
        (MemoryRequest::PerGpu(_), _) => (None, None),
    };
    let nodes = match line.nodes() {
        [] => "None assigned".to_owned(),
        nodes => hostlist::compress(nodes),
    };
    let flags: &[&str] = if row.has_run() { &["STARTED_ON_SCHEDULE", "START_RECEIVED"] } else { &["START_RECEIVED"] };
    let files = [Some(row.std_in()), Some(row.std_out()), row.std_err()].map(Option::unwrap_or_default);
    let [stdin_expanded, stdout_expanded, stderr_expanded] = files.each_ref().map(|pattern| row.expanded(pattern));
    let [stdin, stdout, stderr] = files;
    let allocated = if row.has_run() { tres_value(&row.tres(shown)) } else { json!([]) };
    let account = text(&spec.account);
    let het = job.het;
    let first = json!({
        "account": account,
        "comment": {"administrator": "", "job": text(&spec.comment), "system": ""},
        "allocation_nodes": line.nodes().len(),
        "array": {
            "job_id": job.array_id().map_or(0, |id| id.0),
            "limits": {"max": {"running": {"tasks": row.throttle().unwrap_or(0)}}},
            "task_id": number(task),
            "task": waiting,
        },
        "association": {"account": account, "cluster": shown.cluster, "partition": "", "user": owner.user, "id": 0},
        "block": "",
        "cluster": shown.cluster,
        "constraints": spec.features_text.clone().unwrap_or_else(|| spec.features.join("&")),
        "container": text(&spec.container_image),
        "derived_exit_code": exit_value(line.derived_exit()),
        "time": time,
        "exit_code": exit_value(line.exit()),
        "extra": text(&spec.extra),
        "failed_node": "",
        "flags": flags,
        "group": owner.group,
        "het": {
            "job_id": het.map_or(0, |het| het.leader.0),
            "job_offset": number(het.map(|het| u64::from(het.offset))),
        },
        "job_id": job.id.0,
        "name": spec.name,
        "licenses": license::text(&spec.licenses),
        "mcs": {"label": ""},
        "nodes": nodes,
        "partition": row.partition(),
        "hold": job.hold != gpun_core::job::Hold::None,
        "priority": number(Some(u64::from(job.priority))),
        "qos": spec.qos.clone().unwrap_or_else(|| "normal".to_owned()),
        "qosreq": text(&spec.qos),
    });
    let second = json!({
        "required": {
            "CPUs": line.asked.cpu_count(),
            "memory_per_cpu": number(per_cpu),
            "memory_per_node": number(per_node),
        },
        "kill_request_user": killer(line, shown),
        "restart_cnt": job.restarts,
        "reservation": {"id": 0, "name": text(&spec.reservation)},
        "script": "",
        "stdin_expanded": stdin_expanded,
        "stdout_expanded": stdout_expanded,
        "stderr_expanded": stderr_expanded,
        "stdout": stdout,
        "stderr": stderr,
        "stdin": stdin,
        "state": {"current": [state_word(line)], "reason": "None"},
        "steps": steps,
        "submit_line": text(&spec.submit_line),
        "tres": {"allocated": allocated, "requested": tres_value(&line.asked.tres(shown))},
        "used_gres": "",
        "user": owner.user,
        "wckey": {"wckey": text(&spec.wckey), "flags": []},
        "working_directory": spec.work_dir,
    });
    with(first, second)
}

fn step(line: &Line<'_>, shown: &Shown<'_>) -> Value {
    let at = |at: Option<gpun_core::TimeMs>| number(Some(at.map_or(0, gpun_core::TimeMs::as_s)));
    let killer = if state_word(line) == "CANCELLED" { killer(line, shown) } else { String::new() };
    let governor = if matches!(line.part, Part::Batch) { "0" } else { "Unknown" };
    json!({
        "time": with(times(line, shown), json!({"start": at(line.started()), "end": at(line.ended())})),
        "exit_code": exit_value(line.exit()),
        "nodes": {"count": line.nodes().len(), "range": hostlist::compress(line.nodes()), "list": line.nodes()},
        "tasks": {"count": line.tasks().unwrap_or(0)},
        "pid": "",
        "CPU": {
            "requested_frequency": {"min": number(Some(0)), "max": number(Some(0))},
            "governor": governor,
        },
        "kill_request_user": killer,
        "state": [state_word(line)],
        "statistics": {"CPU": {"actual_frequency": 0}, "energy": {"consumed": number(Some(0))}},
        "step": {"id": line.raw_id(), "name": line.name()},
        "task": {"distribution": "Unknown"},
        "tres": {
            "requested": {"max": [], "min": [], "average": [], "total": []},
            "consumed": {"max": [], "min": [], "average": [], "total": []},
            "allocated": tres_value(&line.allocated(shown)),
        },
    })
}
