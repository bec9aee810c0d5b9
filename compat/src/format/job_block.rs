//! `scontrol show job`: a block of lines, or one line with `-o`.

use gpun_core::job::{ArrayRole, Hold, Job, JobState, NodeAlloc};
use gpun_core::view::JobView;

use super::Shown;
use super::job::{JobRow, NULL, or_null, or_star};
use super::squeue_fields::{exit_code, features, qos};
use crate::names::{job_state, reason};
use crate::time::Limit;
use crate::{array, hostlist, memory, time};

/// How much is shown.
#[derive(Debug, Clone, Copy, Default)]
pub struct Detail {
    /// One line a record (`-o`).
    pub one_line: bool,
    /// CPUs and devices of each node (`-d`).
    pub details: bool,
}

/// One job's block with its blank line, or its line.
pub fn show(view: &JobView, detail: Detail, shown: &Shown<'_>) -> String {
    let row = JobRow::new(view);
    let mut lines = vec![head(&row, shown)];
    lines.extend(row.het_set().map(|set| format!("HetJobIdSet={set}")));
    lines.extend(identity(&row, detail));
    lines.extend(times(&row, shown));
    lines.extend(place(&row));
    lines.extend(resources(&row, detail, shown));
    lines.extend(files(&row));
    super::job_block::join(&lines, detail.one_line)
}

/// Joins the lines of a block: each after the first is indented; on one line they are parted by blanks.
pub fn join(lines: &[String], one_line: bool) -> String {
    if one_line { lines.join(" ") + " \n" } else { lines.join("\n   ") + "\n   \n\n" }
}

fn head(row: &JobRow<'_>, shown: &Shown<'_>) -> String {
    let job = &row.view.job;
    let array = match (&job.array, job.array_id()) {
        (Some(role), Some(id)) => {
            let task = match role {
                ArrayRole::Task { task, .. } => task.to_string(),
                ArrayRole::Waiting { .. } => row.tasks_text(shown).unwrap_or_default(),
            };
            let throttle = row.throttle().map_or_else(String::new, |n| format!("ArrayTaskThrottle={n} "));
            format!("ArrayJobId={id} ArrayTaskId={task} {throttle}")
        }
        _ => match job.het {
            Some(het) => format!("HetJobId={} HetJobOffset={} ", het.leader, het.offset),
            None => String::new(),
        },
    };
    format!("JobId={} {array}JobName={}", job.id, job.spec.name)
}

fn identity(row: &JobRow<'_>, detail: Detail) -> Vec<String> {
    let job = &row.view.job;
    let owner = &job.owner;
    let mut out = vec![
        format!("UserId={}({}) GroupId={}({}) MCS_label=N/A", owner.user, owner.uid, owner.group, owner.gid),
        format!(
            "Priority={} Nice={} Account={} QOS={}",
            job.priority,
            job.spec.nice,
            or_null(job.spec.account.as_deref()),
            qos(row)
        ),
        format!(
            "JobState={} Reason={} Dependency={}",
            job_state::of(job).long,
            reason::word(row.view),
            row.dependency()
        ),
        format!(
            "Requeue={} Restarts={} BatchFlag=1 Reboot=0 ExitCode={}",
            u8::from(job.may_requeue()),
            row.restarts(),
            exit_code(row)
        ),
    ];
    if detail.details {
        // Steps have their own exit codes; without any, nothing is derived.
        out.push("DerivedExitCode=0:0".to_owned());
    }
    out
}

fn times(row: &JobRow<'_>, shown: &Shown<'_>) -> Vec<String> {
    let job = &row.view.job;
    let waits = job.state == JobState::Pending;
    // What runs has waited, even if it was held since.
    let began = job.run.as_ref().filter(|_| !waits).map(|run| run.placed);
    let accrue = job.eligible.filter(|e| !waits || (job.hold == Hold::None && *e <= shown.now())).or(began);
    let mut out = vec![
        format!(
            "RunTime={} TimeLimit={} TimeMin={}",
            time::long(row.used_s(shown)),
            Limit::from(job.time_limit).long(),
            job.spec.time_min.map_or_else(|| "N/A".to_owned(), |t| Limit::from(t).long())
        ),
        format!("SubmitTime={} EligibleTime={}", shown.time(job.submitted), shown.time_or(row.eligible(), "Unknown")),
        format!("AccrueTime={}", shown.time_or(accrue, "Unknown")),
        format!(
            "StartTime={} EndTime={} Deadline={}",
            shown.time_or(row.start(), "Unknown"),
            shown.time_or(row.end(), "Unknown"),
            shown.time_or(job.spec.deadline, "N/A")
        ),
    ];
    if !waits && !job.is_requeuing() {
        out.push(format!("PreemptEligibleTime={} PreemptTime=None", shown.time_or(row.start(), "Unknown")));
    }
    let seen = row.view.last_evaluated.or(Some(job.submitted));
    out.push(format!(
        "SuspendTime={} SecsPreSuspend={} LastSchedEval={} Scheduler=Main",
        job.suspension.map_or_else(|| "None".to_owned(), |one| shown.time(one.changed)),
        job.suspension.map_or(0, |one| one.ran_s),
        shown.time_or(seen, "Unknown")
    ));
    out
}

fn place(row: &JobRow<'_>) -> Vec<String> {
    let spec = &row.view.job.spec;
    let list = |nodes: &[String]| or_null(Some(&hostlist::compress(nodes)));
    let planned = match row.view.planned_nodes.is_empty() || row.has_run() {
        true => String::new(),
        false => format!(" SchedNodeList={}", hostlist::compress(&row.view.planned_nodes)),
    };
    let mut out = vec![
        format!(
            "Partition={} AllocNode:Sid={}:{}",
            row.partition(),
            spec.submit_host.as_deref().unwrap_or("localhost"),
            spec.submit_sid.unwrap_or(0)
        ),
        format!("ReqNodeList={} ExcNodeList={}", list(&spec.node_list), list(&spec.exclude)),
        format!("NodeList={}{planned}", row.node_list()),
    ];
    out.extend(row.view.nodes.first().filter(|_| row.has_run()).map(|first| format!("BatchHost={first}")));
    out.extend((!spec.batch_features.is_empty()).then(|| format!("BatchFeatures={}", spec.batch_features.join("&"))));
    out
}

/// True for a job that was submitted held and says nothing that would make Slurm count its CPUs.
fn never_looked_at(job: &Job) -> bool {
    let spec = &job.spec;
    let held_from_the_start = spec.hold && job.hold != Hold::None && job.attempt.0 == 0;
    held_from_the_start
        && spec.cpus_per_task() == 1
        && spec.ntasks_per_node.is_none()
        && spec.layout.ntasks_per_core.is_none()
}

fn node_range(row: &JobRow<'_>) -> String {
    let job = &row.view.job;
    let spec = &job.spec;
    if job.state != JobState::Pending {
        return row.node_count().to_string();
    }
    let min = spec.nodes_min();
    match spec.nodes_max {
        Some(max) => format!("{min}-{max}"),
        // A job that the scheduler never looked at still shows what its one task made of it.
        None if never_looked_at(job) && min == 1 => "1-1".to_owned(),
        None => min.to_string(),
    }
}

fn resources(row: &JobRow<'_>, detail: Detail, shown: &Shown<'_>) -> Vec<String> {
    let job = &row.view.job;
    let spec = &job.spec;
    let tasks = if job.state.is_final() && !row.has_alloc() { "N/A".to_owned() } else { row.task_count().to_string() };
    let tres = row.tres(shown).show();
    let (per, memory_mib) = row.min_memory(shown);
    let mut out = vec![
        format!(
            "NumNodes={} NumCPUs={} NumTasks={tasks} CPUs/Task={} ReqB:S:C:T=0:0:{}:{}",
            node_range(row),
            row.cpu_count(),
            spec.cpus_per_task(),
            or_star(spec.layout.cores_per_socket),
            or_star(spec.layout.threads_per_core)
        ),
        format!("ReqTRES={tres}"),
        format!("AllocTRES={}", if row.has_alloc() { tres.as_str() } else { NULL }),
        format!(
            "Socks/Node={} NtasksPerN:B:S:C={}:0:{}:{} CoreSpec=*",
            or_star(spec.layout.sockets_per_node),
            spec.ntasks_per_node.unwrap_or(0),
            or_star(spec.layout.ntasks_per_socket),
            or_star(spec.layout.ntasks_per_core)
        ),
    ];
    if detail.details && row.has_alloc() {
        out.extend(allocations(row));
    }
    let tmp_disk = memory::exact(spec.tmp_disk.map_or(0, |m| m.0));
    out.push(format!(
        "MinCPUsNode={} MinMemory{per}={} MinTmpDiskNode={tmp_disk}",
        row.min_cpus(),
        JobRow::size(memory_mib, shown)
    ));
    out.push(format!("Features={} DelayBoot=00:00:00", features(row)));
    out.extend((!spec.prefer.is_empty()).then(|| format!("Prefer={}", spec.prefer.join("&"))));
    out.extend(spec.reservation.as_deref().map(|r| format!("Reservation={r}")));
    out.push(format!(
        "OverSubscribe={} Contiguous={} Licenses={} Network={NULL}",
        row.over_subscribe(),
        u8::from(spec.contiguous),
        row.licenses()
    ));
    out
}

/// `JOB_GRES=` and a line for nodes with the same CPUs, memory and devices.
fn allocations(row: &JobRow<'_>) -> Vec<String> {
    let allocs: &[NodeAlloc] = row.view.job.run.as_ref().map_or(&[], |r| &r.allocs);
    let mut totals: Vec<(String, u64)> = Vec::new();
    for gres in allocs.iter().flat_map(|a| &a.gres) {
        let name = gres.kind.as_deref().map_or_else(|| gres.name.clone(), |k| format!("{}:{k}", gres.name));
        match totals.iter_mut().find(|(n, _)| *n == name) {
            Some((_, total)) => *total += gres.indexes.len(),
            None => totals.push((name, gres.indexes.len())),
        }
    }
    let total = totals.iter().map(|(n, c)| format!("{n}:{c}")).collect::<Vec<_>>().join(",");
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for (alloc, name) in allocs.iter().zip(&row.view.nodes) {
        let one = |g: &gpun_core::job::GresAlloc| {
            let kind = g.kind.as_deref().map_or_else(String::new, |k| format!(":{k}"));
            format!("{}{kind}:{}(IDX:{})", g.name, g.indexes.len(), array::show(&g.indexes))
        };
        let gres = alloc.gres.iter().map(one).collect::<Vec<_>>().join(",");
        let text = format!("CPU_IDs={} Mem={} GRES={gres}", array::show(&alloc.cpus), alloc.memory.0);
        match groups.iter_mut().find(|(t, _)| *t == text) {
            Some((_, names)) => names.push(name),
            None => groups.push((text, vec![name])),
        }
    }
    let mut out = vec![format!("JOB_GRES={}", or_null(Some(&total)))];
    out.extend(groups.into_iter().map(|(text, names)| format!("  Nodes={} {text}", hostlist::compress(names))));
    out
}

fn files(row: &JobRow<'_>) -> Vec<String> {
    let spec = &row.view.job.spec;
    let out_file = row.expanded(&row.std_out());
    let mut out = vec![format!("Command={}", row.command()), format!("WorkDir={}", spec.work_dir)];
    out.extend(spec.admin_comment.as_deref().map(|c| format!("AdminComment={c} ")));
    out.extend(spec.comment.as_deref().map(|c| format!("Comment={c} ")));
    out.extend(spec.extra.as_deref().map(|e| format!("Extra={e} ")));
    out.push(format!("StdErr={}", row.std_err().map_or_else(|| out_file.clone(), |p| row.expanded(&p))));
    out.push(format!("StdIn={}", row.expanded(&row.std_in())));
    out.push(format!("StdOut={out_file}"));
    out.extend(spec.spread.then(|| "SpreadJob=Yes".to_owned()));
    let yes = |on: bool| if on { "Yes" } else { "No" };
    out.extend(spec.gres_binding.map(|on| format!("GresEnforceBind={}", yes(on))));
    out.extend(spec.kill_on_invalid_dep.map(|on| format!("KillOInInvalidDependent={}", yes(on))));
    out.extend(row.cpus_per_tres().map(|t| format!("CpusPerTres={t}")));
    out.extend(row.mem_per_tres().map(|t| format!("MemPerTres={t}")));
    out.extend(spec.tres_bind.as_deref().map(|t| format!("TresBind={t}")));
    out.extend(row.tres_per_job().map(|t| format!("TresPerJob={t}")));
    out.extend(row.tres_per_node().map(|t| format!("TresPerNode={t}")));
    out.extend(row.tres_per_socket().map(|t| format!("TresPerSocket={t}")));
    out.extend(row.tres_per_task().map(|t| format!("TresPerTask={t}")));
    out.extend(spec.ntasks_per_gpu.map(|n| format!("NtasksPerTRES={n}")));
    out.extend(spec.container_image.as_deref().map(|i| format!("Container={i}")));
    out
}
