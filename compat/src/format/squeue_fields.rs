//! The fields of `squeue`, one a row.

use super::job::{JobRow, NULL, or_null, or_star};
use super::{Key, Shown};
use crate::names::{job_state, reason};
use crate::{hostlist, time};

/// One field.
pub struct Field {
    /// Its letter for `-o`.
    pub letter: Option<char>,
    /// Its name for `-O`.
    pub name: &'static str,
    /// Its header.
    pub header: &'static str,
    /// Its text.
    pub value: fn(&JobRow<'_>, &Shown<'_>) -> String,
}

type Value = fn(&JobRow<'_>, &Shown<'_>) -> String;

const fn field(letter: char, name: &'static str, header: &'static str, value: Value) -> Field {
    Field { letter: Some(letter), name, header, value }
}

const fn named(name: &'static str, header: &'static str, value: Value) -> Field {
    Field { letter: None, name, header, value }
}

/// A field that has the same text for every job here.
macro_rules! fixed {
    ($name:literal, $header:literal, $text:expr) => {
        named($name, $header, |_, _| $text.to_owned())
    };
    ($letter:literal, $name:literal, $header:literal, $text:expr) => {
        field($letter, $name, $header, |_, _| $text.to_owned())
    };
}

/// A text, or `N/A`.
fn or_na(text: Option<String>) -> String {
    text.unwrap_or_else(|| "N/A".to_owned())
}

/// `n1,n2` in ranged form, or nothing.
fn list(nodes: &[String]) -> String {
    hostlist::compress(nodes)
}

fn reason_list(r: &JobRow<'_>, _: &Shown<'_>) -> String {
    let job = &r.view.job;
    let shows_nodes = r.has_run() && matches!(job_state::base(job.state).compact, "R" | "S" | "CD" | "TO")
        || job.is_completing()
        || job.is_requeuing();
    if shows_nodes { r.node_list() } else { format!("({})", reason::of(r.view)) }
}

/// Every field, in the order of `--helpFormat`.
#[rustfmt::skip]
pub static FIELDS: &[Field] = &[
    field('a', "Account", "ACCOUNT", |r, _| or_null(r.view.job.spec.account.as_deref())),
    named("AccrueTime", "ACCRUE_TIME", |r, s| s.time_or(r.view.job.eligible, "N/A")),
    fixed!("admin_comment", "ADMIN_COMMENT", NULL),
    named("AllocNodes", "ALLOC_NODES", |r, _| or_null(r.view.job.spec.submit_host.as_deref())),
    named("AllocSID", "ALLOC_SID", |r, _| r.view.job.spec.submit_sid.unwrap_or(0).to_string()),
    field('F', "ArrayJobId", "ARRAY_JOB_ID", |r, _| r.view.job.array_id().unwrap_or(r.view.job.id).to_string()),
    field('K', "ArrayTaskId", "ARRAY_TASK_ID", |r, s| r.tasks_text(s).unwrap_or_else(|| "N/A".to_owned())),
    fixed!("AssocId", "ASSOC_ID", "0"),
    fixed!("BatchFlag", "BATCH_FLAG", "1"),
    field('B', "BatchHost", "EXEC_HOST", |r, _| r.view.nodes.first().filter(|_| r.has_run()).cloned().unwrap_or_else(|| "n/a".to_owned())),
    fixed!("BoardsPerNode", "BOARDS_PER_NODE", "0"),
    fixed!("BurstBuffer", "BURST_BUFFER", NULL),
    fixed!("BurstBufferState", "BURST_BUFFER_STATE", NULL),
    named("Cluster", "CLUSTER", |_, s| s.cluster.to_owned()),
    fixed!("ClusterFeature", "CLUSTER_FEATURES", NULL),
    field('o', "Command", "COMMAND", |r, _| r.command()),
    field('k', "Comment", "COMMENT", |r, _| or_null(r.view.job.spec.comment.as_deref())),
    named("Container", "CONTAINER", |r, _| or_null(r.view.job.spec.container_image.as_deref())),
    fixed!("ContainerId", "CONTAINERID", NULL),
    field('O', "Contiguous", "CONTIGUOUS", |r, _| u8::from(r.view.job.spec.contiguous).to_string()),
    field('I', "Cores", "CORES_PER_SOCKET", |r, _| or_star(r.view.job.spec.layout.cores_per_socket)),
    fixed!('X', "CoreSpec", "CORE_SPEC", "N/A"),
    named("CPUsPerTask", "CPUS_PER_TASK", |r, _| r.view.job.spec.cpus_per_task().to_string()),
    named("cpus-per-task", "CPUS_PER_TASK", |r, _| r.view.job.spec.cpus_per_task().to_string()),
    named("cpus-per-tres", "CPUS_PER_TRES", |r, _| or_na(r.cpus_per_tres())),
    named("Deadline", "DEADLINE", |r, s| s.time_or(r.view.job.spec.deadline, "N/A")),
    fixed!("DelayBoot", "DELAY_BOOT", "0:00"),
    field('E', "Dependency", "DEPENDENCY", |r, _| r.dependency()),
    named("DerivedEC", "DERIVED_EC", |r, _| exit_code(r)),
    named("EligibleTime", "ELIGIBLE_TIME", |r, s| s.time_or(r.eligible(), "N/A")),
    field('e', "EndTime", "END_TIME", |r, s| s.time_or(r.end(), "N/A")),
    field('x', "ExcNodes", "EXC_NODES", |r, _| list(&r.view.job.spec.exclude)),
    named("exit_code", "EXIT_CODE", |r, _| exit_code(r)),
    field('f', "Feature", "FEATURES", |r, _| features(r)),
    field('G', "GroupId", "GROUP", |r, _| r.view.job.owner.gid.to_string()),
    field('g', "GroupName", "GROUP", |r, _| r.view.job.owner.group.clone()),
    named("HetJobId", "HET_JOB_ID", |r, _| or_na(r.view.job.het.map(|het| het.leader.to_string()))),
    named("HetJobIdSet", "HET_JOB_ID_SET", |r, _| or_na(r.het_set())),
    named("HetJobOffset", "HET_JOB_OFFSET", |r, _| or_na(r.view.job.het.map(|het| het.offset.to_string()))),
    field('i', "JobArrayId", "JOBID", |r, s| r.id(s)),
    field('A', "JobId", "JOBID", |r, _| r.view.job.id.to_string()),
    named("LastSchedEval", "LAST_SCHED_EVAL", |r, s| s.time_or(r.view.last_evaluated, "N/A")),
    field('W', "Licenses", "LICENSES", |r, _| r.licenses()),
    named("MaxCPUs", "MAX_CPUS", |r, _| r.cpu_count().to_string()),
    named("MaxNodes", "MAX_NODES", |r, _| r.view.job.spec.nodes_max.filter(|_| !r.has_run()).unwrap_or_else(|| r.node_count()).to_string()),
    named("mem-per-tres", "MEM_PER_TRES", |r, _| or_na(r.mem_per_tres())),
    fixed!("MCSLabel", "MCSLABEL", NULL),
    field('c', "MinCPUs", "MIN_CPUS", |r, _| r.min_cpus().to_string()),
    field('m', "MinMemory", "MIN_MEMORY", |r, s| JobRow::size(r.min_memory(s).1, s)),
    named("MinTime", "TIME_MIN", |r, _| r.view.job.spec.time_min.map_or_else(|| "0:00".to_owned(), |t| crate::time::Limit::from(t).short())),
    field('d', "MinTmpDisk", "MIN_TMP_DISK", |r, s| JobRow::size(r.view.job.spec.tmp_disk.map_or(0, |m| m.0), s)),
    field('j', "Name", "NAME", |r, _| r.view.job.spec.name.clone()),
    fixed!("Network", "NETWORK", NULL),
    field('y', "Nice", "NICE", |r, _| r.view.job.spec.nice.to_string()),
    field('N', "NodeList", "NODELIST", |r, _| r.node_list()),
    named("NTPerCore", "NTASKS_PER_CORE", |r, _| or_na(r.view.job.spec.layout.ntasks_per_core.map(|n| n.to_string()))),
    named("NTPerNode", "NTASKS_PER_NODE", |r, _| r.view.job.spec.ntasks_per_node.unwrap_or(0).to_string()),
    named("NTPerSocket", "NTASKS_PER_SOCKET", |r, _| or_na(r.view.job.spec.layout.ntasks_per_socket.map(|n| n.to_string()))),
    fixed!("NTPerBoard", "NTASKS_PER_BOARD", "0"),
    field('C', "NumCPUs", "CPUS", |r, _| r.cpu_count().to_string()),
    field('D', "NumNodes", "NODES", |r, _| r.node_count().to_string()),
    named("NumTasks", "TASKS", |r, _| r.task_count().to_string()),
    fixed!("Origin", "ORIGIN", "NA"),
    fixed!("OriginRaw", "ORIGIN_RAW", "NA"),
    field('h', "OverSubscribe", "OVER_SUBSCRIBE", |r, _| r.over_subscribe().to_owned()),
    field('P', "Partition", "PARTITION", |r, _| r.partition()),
    named("PendingTime", "PENDING_TIME", |r, s| pending_s(r, s).to_string()),
    fixed!("PreemptTime", "PREEMPT_TIME", "N/A"),
    named("Prefer", "PREFER", |r, _| or_null(Some(&r.view.job.spec.prefer.join("&")))),
    field('p', "Priority", "PRIORITY", |r, _| format!("{:.14}", f64::from(r.view.job.priority) / 4_294_967_296.0)),
    field('Q', "PriorityLong", "PRIORITY", |r, _| r.view.job.priority.to_string()),
    fixed!("Profile", "PROFILE", "NotSet"),
    field('q', "QOS", "QOS", |r, _| qos(r)),
    field('r', "Reason", "REASON", |r, _| reason::of(r.view)),
    field('R', "ReasonList", "NODELIST(REASON)", reason_list),
    fixed!("Reboot", "REBOOT", "0"),
    field('n', "ReqNodes", "REQ_NODES", |r, _| list(&r.view.job.spec.node_list)),
    fixed!("ReqSwitch", "REQ_SWITCH", "0"),
    named("Requeue", "REQUEUE", |r, _| u8::from(r.view.job.may_requeue()).to_string()),
    field('v', "Reservation", "RESERVATION", |r, _| or_null(r.view.job.spec.reservation.as_deref())),
    fixed!("ResizeTime", "RESIZE_TIME", "N/A"),
    named("RestartCnt", "RESTART_COUNT", |r, _| r.restarts().to_string()),
    field('Y', "SchedNodes", "SCHEDNODES", |r, _| or_null(Some(&list(&r.view.planned_nodes)))),
    field('z', "SCT", "S:C:T", |r, _| {
        let layout = &r.view.job.spec.layout;
        [layout.sockets_per_node, layout.cores_per_socket, layout.threads_per_core].map(or_star).join(":")
    }),
    fixed!("SiblingsActive", "ACTIVE_SIBLINGS", "NA"),
    fixed!("SiblingsActiveRaw", "ACTIVE_SIBLINGS_RAW", "NA"),
    fixed!("SiblingsViable", "VIABLE_SIBLINGS", "NA"),
    fixed!("SiblingsViableRaw", "VIALBLE_SIBLINGS_RAW", "NA"),
    field('H', "Sockets", "SOCKETS_PER_NODE", |r, _| or_star(r.view.job.spec.layout.sockets_per_node)),
    fixed!("SPerBoard", "SOCKETS_PER_BOARD", "0"),
    field('S', "StartTime", "START_TIME", |r, s| s.time_or(r.start(), "N/A")),
    field('T', "State", "STATE", |r, _| job_state::of(&r.view.job).long.to_owned()),
    field('t', "StateCompact", "ST", |r, _| job_state::of(&r.view.job).compact.to_owned()),
    named("StdErr", "STDERR", |r, s| file(r, s, r.std_err())),
    named("StdIn", "STDIN", |r, s| file(r, s, Some(r.std_in()))),
    named("StdOut", "STDOUT", |r, s| file(r, s, Some(r.std_out()))),
    field('V', "SubmitTime", "SUBMIT_TIME", |r, s| s.time(r.view.job.submitted)),
    fixed!("system_comment", "SYSTEM_COMMENT", NULL),
    field('J', "Threads", "THREADS_PER_CORE", |r, _| or_star(r.view.job.spec.layout.threads_per_core)),
    field('L', "TimeLeft", "TIME_LEFT", |r, s| r.left(s)),
    field('l', "TimeLimit", "TIME_LIMIT", |r, _| crate::time::Limit::from(r.view.job.time_limit).short()),
    field('M', "TimeUsed", "TIME", |r, s| time::short(r.used_s(s))),
    named("tres-alloc", "TRES_ALLOC", |r, s| r.tres(s).show()),
    named("tres-bind", "TRES_BIND", |r, _| or_na(r.view.job.spec.tres_bind.clone())),
    fixed!("tres-freq", "TRES_FREQ", "N/A"),
    named("tres-per-job", "TRES_PER_JOB", |r, _| or_na(r.tres_per_job())),
    field('b', "tres-per-node", "TRES_PER_NODE", |r, _| r.tres_per_node().unwrap_or_else(|| "N/A".to_owned())),
    named("tres-per-socket", "TRES_PER_SOCKET", |r, _| or_na(r.tres_per_socket())),
    named("tres-per-task", "TRES_PER_TASK", |r, _| or_na(r.tres_per_task())),
    field('U', "UserId", "UID", |r, _| r.view.job.owner.uid.to_string()),
    field('u', "UserName", "USER", |r, _| r.view.job.owner.user.clone()),
    fixed!("Wait4Switch", "WAIT4SWITCH", "0:00"),
    field('w', "WCKey", "WCKEY", |r, _| or_null(r.view.job.spec.wckey.as_deref())),
    field('Z', "WorkDir", "WORK_DIR", |r, _| r.view.job.spec.work_dir.clone()),
];

/// Older names of fields, which scripts still use.
const ALIASES: &[(&str, &str)] =
    &[("gres", "tres-per-node"), ("Shared", "OverSubscribe"), ("JobArrayID", "JobArrayId")];

/// The quality of service; `normal` where none was asked for.
pub fn qos(r: &JobRow<'_>) -> String {
    r.view.job.spec.qos.clone().unwrap_or_else(|| "normal".to_owned())
}

/// The features asked for, as one expression.
pub fn features(r: &JobRow<'_>) -> String {
    let spec = &r.view.job.spec;
    or_null(Some(&spec.features_text.clone().unwrap_or_else(|| spec.features.join("&"))))
}

/// `code:signal`.
pub fn exit_code(r: &JobRow<'_>) -> String {
    format!("{}:{}", r.view.job.exit.code, r.view.job.exit.signal)
}

fn pending_s(r: &JobRow<'_>, s: &Shown<'_>) -> u64 {
    let started = r.start().filter(|_| r.has_run());
    started.unwrap_or_else(|| s.now()).since_s(r.view.job.submitted)
}

fn file(r: &JobRow<'_>, _: &Shown<'_>, pattern: Option<String>) -> String {
    pattern.map_or_else(|| NULL.to_owned(), |p| r.expanded(&p))
}

/// The place of the field with this letter.
pub fn by_letter(letter: char) -> Option<usize> {
    FIELDS.iter().position(|f| f.letter == Some(letter))
}

/// The place of the field with this name, in any case.
pub fn by_name(name: &str) -> Option<usize> {
    let wanted = ALIASES.iter().find(|(a, _)| a.eq_ignore_ascii_case(name)).map_or(name, |(_, n)| *n);
    FIELDS.iter().position(|f| f.name.eq_ignore_ascii_case(wanted))
}

/// What to sort by for a letter; `None` for letters that cannot be sorted by.
pub fn key(letter: char, r: &JobRow<'_>, s: &Shown<'_>) -> Option<Key> {
    let number = |n: u64| Key::Number(i64::try_from(n).unwrap_or(i64::MAX));
    let at = |t: Option<gpun_core::TimeMs>| number(t.map_or(u64::MAX, |t| t.0));
    let job = &r.view.job;
    Some(match letter {
        'i' => {
            let (id, task) = r.id_key();
            Key::Pair(id, task)
        }
        'A' => number(u64::from(job.id.0)),
        'F' => number(r.id_key().0.unsigned_abs()),
        'K' => Key::Number(r.id_key().1),
        'C' => number(r.cpu_count()),
        'c' => number(r.min_cpus()),
        'D' => number(u64::from(r.node_count())),
        'd' => number(job.spec.tmp_disk.map_or(0, |m| m.0)),
        'e' => at(r.end()),
        'G' => number(u64::from(job.owner.gid)),
        'l' => number(job.time_limit.seconds().unwrap_or(u64::MAX)),
        'L' => number(job.time_limit.seconds().map_or(u64::MAX, |l| l.saturating_sub(r.used_s(s)))),
        'M' => number(r.used_s(s)),
        'm' => number(r.min_memory(s).1),
        'p' | 'Q' => number(u64::from(job.priority)),
        'S' => at(r.start()),
        't' | 'T' => number(u64::from(job_state::rank(job))),
        'U' => number(u64::from(job.owner.uid)),
        'V' => number(job.submitted.0),
        'y' => Key::Number(i64::from(job.spec.nice)),
        'o' | 'E' => return None,
        other => Key::Text((FIELDS.get(by_letter(other)?)?.value)(r, s)),
    })
}
