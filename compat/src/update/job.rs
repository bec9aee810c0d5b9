//! Keys of a job.

use gpun_core::command::JobChange;
use gpun_core::dependency::Dependency;
use gpun_core::spec::GresRequest;
use gpun_core::{MemoryMib, TimeMs};

use super::{JobsMeant, Update, UpdateError, hosts, key_is, list, pair, refuse, time_limit, unsupported, yes_or_no};
use crate::option::Context;
use crate::{constraint, count, gres, license, memory, moment};

/// Reads the words of a change of jobs.
pub(super) fn parse(words: &[String], context: &Context<'_>) -> Result<Update, UpdateError> {
    let named = words.iter().filter_map(|word| word.split_once('=')).find(|(key, _)| key_is(key, "JobId", 3));
    let mut change = JobChange::default();
    let (mut by_s, mut name) = (None, None);
    for word in words {
        let (key, value) = pair(word)?;
        match key {
            // As Slurm: nobody can change whose job it is, and nothing is said about it.
            _ if key_is(key, "JobId", 3) || key_is(key, "UserID", 4) => {}
            _ if key_is(key, "JobName", 4) || key_is(key, "Name", 4) => name = Some(value.to_owned()),
            _ if key_is(key, "TimeLimit", 5) => match value.strip_prefix(['+', '-']).filter(|_| value != "-1") {
                Some(rest) => {
                    let limit = time_limit(rest).map_err(|_| bad_time())?;
                    let seconds = limit.seconds().and_then(|s| i64::try_from(s).ok()).ok_or_else(bad_time)?;
                    by_s = Some(if value.starts_with('-') { -seconds } else { seconds });
                }
                None => change.time_limit = Some(time_limit(value).map_err(|_| bad_time())?),
            },
            _ => set_job(&mut change, key, value, word, context)?,
        }
    }
    let jobs = match (named, &name) {
        (Some((_, ids)), _) => {
            change.name = name;
            JobsMeant::Ids(ids.to_owned())
        }
        (None, Some(name)) => JobsMeant::Named(name.clone()),
        (None, None) => return refuse("No changes specified"),
    };
    if change == JobChange::default() && by_s.is_none() {
        return refuse("No changes specified");
    }
    Ok(Update::Jobs { jobs, change: Box::new(change), time_limit_by_s: by_s })
}

fn bad_time() -> UpdateError {
    UpdateError("scontrol: error: Invalid TimeLimit value".to_owned())
}

/// Keys that Slurm knows and that cannot be changed, and why.
const NOT_HERE: &[(&str, usize, &str)] = &[
    ("ClusterFeatures", 8, "there is one cluster"),
    ("CoreSpec", 4, "cores are not kept for the system"),
    ("DelayBoot", 5, "nodes are not booted for jobs"),
    ("Reboot", 3, "nodes are not booted for jobs"),
    ("ReqCores", 8, "submit the job again"),
    ("ReqSockets", 8, "submit the job again"),
    ("ReqThreads", 8, "submit the job again"),
    ("SiteFactor", 4, "use Priority or Nice"),
    ("Switches", 2, "nodes have no switches here"),
    ("ThreadSpec", 4, "threads are not kept for the system"),
    ("TresPerJob", 8, "submit the job again"),
    ("TresPerSocket", 8, "submit the job again"),
    ("wait-for-switch", 4, "nodes have no switches here"),
];

fn set_job(
    change: &mut JobChange,
    key: &str,
    value: &str,
    word: &str,
    context: &Context<'_>,
) -> Result<(), UpdateError> {
    let is = |name, least| key_is(key, name, least);
    let number = |what: &str| {
        value.parse::<u32>().or_else(|_| refuse(format!("scontrol: error: Invalid {what} value: {value}")))
    };
    let text = || Some(value.to_owned());
    match key {
        _ if is("Licenses", 3) => {
            change.licenses = Some(license::parse(value).map_err(|e| UpdateError(e.to_string()))?);
        }
        _ if is("Dependency", 3) => change.dependency = Some(dependency(value)?),
        _ if is("Account", 3) => change.account = text(),
        _ if is("ArrayTaskThrottle", 10) => change.array_max_running = Some(number("ArrayTaskThrottle")?),
        _ if is("Comment", 3) => change.comment = text(),
        _ if is("CPUsPerTask", 4) => change.cpus_per_task = Some(number("CPUsPerTask")?),
        _ if is("Deadline", 3) => change.deadline = Some(moment_ms(value, context)?),
        _ if is("EligibleTime", 4) || is("StartTime", 3) => change.begin = Some(moment_ms(value, context)?),
        _ if is("ExcNodeList", 3) => change.exclude = Some(hosts(value)?),
        _ if is("ReqNodeList", 8) || is("NodeList", 8) => change.node_list = Some(hosts(value)?),
        _ if is("Features", 1) => {
            let asked =
                constraint::parse(value).map_err(|_| UpdateError("Invalid feature specification".to_owned()))?;
            if asked.same {
                return refuse("scontrol: error: features in brackets cannot be changed to: submit the job again");
            }
            (change.features, change.feature_sets, change.features_text) =
                (Some(asked.all), Some(asked.any).filter(|any| !any.is_empty()), asked.text);
        }
        _ if is("WCKey", 1) => change.wckey = text(),
        _ if is("Contiguous", 3) => {
            change.contiguous = Some(match value.to_ascii_lowercase().as_str() {
                "yes" | "1" => true,
                "no" | "0" => false,
                _ => return refuse(format!("Invalid input: {word}\nRequest aborted")),
            });
        }
        _ if is("MinMemoryNode", 10) => change.memory_per_node = Some(mib(value)?),
        _ if is("MinMemoryCPU", 10) => change.memory_per_cpu = Some(mib(value)?),
        _ if is("Nice", 2) => change.nice = Some(nice(value)?),
        _ if is("NumNodes", 4) || is("ReqNodes", 8) => {
            let range = count::nodes(value).map_err(|e| UpdateError(format!("scontrol: error: {e}")))?;
            (change.nodes_min, change.nodes_max) = (Some(range.min), Some(range.max));
        }
        _ if is("NumTasks", 4) || is("ReqProcs", 4) => change.ntasks = Some(number("NumTasks")?),
        _ if is("Partition", 2) => change.partitions = Some(list(value)),
        _ if is("Priority", 2) => change.priority = Some(number("Priority")?),
        _ if is("QOS", 3) => change.qos = text(),
        _ if is("Requeue", 4) => change.requeue = Some(number("Requeue")? > 0),
        _ if is("StdErr", 4) => change.std_err = text(),
        _ if is("StdOut", 4) => change.std_out = text(),
        _ if is("WorkDir", 5) => change.work_dir = text(),
        _ if is("Gres", 2) || is("TresPerNode", 8) => change.gres = Some(resources(value)?),
        _ if is("TresPerTask", 8) => change.gres_per_task = Some(resources(value)?),
        _ if is("MinCPUsNode", 4) => change.mincpus = Some(number("MinCPUsNode")?),
        _ if is("MinTmpDiskNode", 5) => change.tmp_disk = Some(MemoryMib(u64::from(number("MinTmpDiskNode")?))),
        _ if is("Prefer", 3) => {
            let asked = constraint::parse(value);
            let all = asked.ok().filter(|asked| asked.any.is_empty()).map(|asked| asked.all);
            change.prefer = Some(all.ok_or_else(|| UpdateError("Invalid preferred feature specification".to_owned()))?);
        }
        _ if is("TimeMin", 5) => {
            let least = time_limit(value).map_err(|_| UpdateError("scontrol: error: Invalid TimeMin value".to_owned()));
            change.time_min = Some(least?);
        }
        _ if is("Extra", 2) => change.extra = text(),
        _ if is("AdminComment", 3) => change.admin_comment = text(),
        _ if is("ReservationName", 3) => change.reservation = text(),
        _ if is("OverSubscribe", 2) || is("Shared", 2) => {
            let shared = yes_or_no(value).map_or_else(
                || refuse(format!("scontrol: error: Invalid OverSubscribe value: {value}")),
                |shared| Ok(Some(shared)),
            );
            change.oversubscribe = shared?;
        }
        _ if is("EndTime", 2) => change.end_time = Some(moment_ms(value, context)?),
        _ if is("StdIn", 4) => change.std_in = text(),
        _ if is("TasksPerNode", 3) || is("NtasksPerNode", 3) => {
            change.ntasks_per_node = Some(number("TasksPerNode")?);
        }
        _ if is("NumCPUs", 4) || is("ReqCPUs", 4) => {
            let least = value.split_once('-').map_or(value, |(least, _)| least);
            change.cpus = Some(least.parse().or_else(|_| {
                refuse(format!(
                    "scontrol: error: Invalid numeric value \"{value}\" for NumCPUs.\nscontrol: error: Invalid NumCPUs \
                     value: {value}"
                ))
            })?);
        }
        _ if is("BurstBuffer", 2) => return refuse("Requested operation not supported on this system"),
        _ => match NOT_HERE.iter().find(|(name, least, _)| key_is(key, name, *least)) {
            Some((name, _, why)) => return refuse(format!("scontrol: error: {name} cannot be changed: {why}")),
            None => return unsupported(word),
        },
    }
    Ok(())
}

/// Generic resources of each node or task.
fn resources(value: &str) -> Result<Vec<GresRequest>, UpdateError> {
    let bad = || UpdateError("Invalid generic resource (gres) specification".to_owned());
    let parsed = gres::parse(value).map_err(|_| bad())?;
    let one = |one: gres::Gres| {
        let count = u32::try_from(one.count).map_err(|_| bad())?;
        Ok(GresRequest { name: one.name, kind: one.kind, count, bare: one.bare })
    };
    parsed.into_iter().map(one).collect()
}

fn dependency(value: &str) -> Result<Dependency, UpdateError> {
    if value.is_empty() {
        return Ok(Dependency::default());
    }
    crate::dependency::parse(value).map_err(|e| UpdateError(e.to_string()))
}

fn mib(value: &str) -> Result<MemoryMib, UpdateError> {
    memory::parse_mib(value)
        .map(MemoryMib)
        .or_else(|_| refuse(format!("scontrol: error: Invalid memory value: {value}")))
}

fn nice(value: &str) -> Result<i32, UpdateError> {
    if value.is_empty() {
        return Ok(100);
    }
    value
        .parse()
        .or_else(|_| refuse(format!("Invalid nice value, must be between -2147483645 and 2147483645: {value}")))
}

fn moment_ms(value: &str, context: &Context<'_>) -> Result<TimeMs, UpdateError> {
    let at = moment::parse(value, context.now_s, context.zone).map_err(|e| UpdateError(e.to_string()))?;
    Ok(TimeMs(u64::try_from(at).unwrap_or(0).saturating_mul(1000)))
}
