//! `scontrol update`: `jobid=17 timelimit=5`, `nodename=n[1-4] state=drain reason="bad fan"`, `partition=debug state=down`.

use gpun_core::command::{JobChange, NodeChange, PartitionChange};
use gpun_core::dependency::Dependency;
use gpun_core::partition::PartitionState;
use gpun_core::{MemoryMib, TimeLimit, TimeMs};

use crate::option::Context;
use crate::time::Limit;
use crate::{constraint, count, hostlist, license, memory, moment, reservation};

/// Which jobs are to be changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobsMeant {
    /// A list of ids, as it was written.
    Ids(String),
    /// Every job of this name.
    Named(String),
}

/// What is to be changed.
#[derive(Debug, Clone, PartialEq)]
pub enum Update {
    /// Jobs.
    Jobs {
        /// Which.
        jobs: JobsMeant,
        /// How.
        change: Box<JobChange>,
        /// The time limit by this many seconds more or less, instead of to a value.
        time_limit_by_s: Option<i64>,
    },
    /// Nodes; the names as they were written.
    Nodes {
        /// Which.
        names: String,
        /// How; `None` where only the reason changes.
        change: Option<NodeChange>,
        /// A new reason alone.
        reason: Option<String>,
    },
    /// A reservation.
    Reservation(Box<reservation::Change>),
    /// A partition.
    Partition {
        /// Which.
        name: String,
        /// How.
        change: PartitionChange,
    },
}

/// The line for standard error, without its end; the exit status is 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UpdateError(pub String);

fn refuse<T>(text: impl Into<String>) -> Result<T, UpdateError> {
    Err(UpdateError(text.into()))
}

/// A key with its value.
type Pair<'a> = (&'a str, &'a str);

/// Reads the words behind `update`.
///
/// # Errors
/// [`UpdateError`] in Slurm's words.
pub fn parse(words: &[String], context: &Context<'_>) -> Result<Update, UpdateError> {
    if words.is_empty() {
        return refuse("too few arguments for update keyword");
    }
    // `update job 17 timelimit=5` is the same as `update job=17 timelimit=5`.
    let glued = match words {
        [entity, id, rest @ ..] if !entity.contains('=') && !id.contains('=') && entity_of(entity).is_some() => {
            let mut all = vec![format!("{entity}={id}")];
            all.extend_from_slice(rest);
            all
        }
        _ => words.to_vec(),
    };
    let first = glued.iter().filter_map(|word| word.split_once('=')).find_map(|(key, _)| entity_of(key));
    match first {
        Some(Entity::Job) => jobs(&glued, context),
        Some(Entity::Node) => nodes(&glued),
        Some(Entity::Partition) => partition(&glued),
        Some(Entity::Reservation) => reservation::update(&glued, context)
            .map(|change| Update::Reservation(Box::new(change)))
            .map_err(UpdateError),
        Some(Entity::Later(what)) => refuse(format!("scontrol: error: {what} come with a later version")),
        None if glued.iter().any(|word| key_is(word.split('=').next().unwrap_or(""), "JobName", 4)) => {
            jobs(&glued, context)
        }
        None => refuse(
            "No valid entity in update command\nInput line must include \"NodeName\", \"PartitionName\", \"Reservation\", \
             \"JobId\", or \"SlurmctldDebug\"",
        ),
    }
}

enum Entity {
    Job,
    Node,
    Partition,
    Reservation,
    Later(&'static str),
}

fn entity_of(key: &str) -> Option<Entity> {
    let is = |name, least| key_is(key, name, least);
    match key {
        _ if is("JobId", 3) => Some(Entity::Job),
        _ if is("NodeName", 4) && !is("NodeList", 5) => Some(Entity::Node),
        _ if is("PartitionName", 4) => Some(Entity::Partition),
        _ if is("ReservationName", 4) => Some(Entity::Reservation),
        _ if is("StepId", 4) => Some(Entity::Later("steps")),
        _ => None,
    }
}

/// Whether `key` stands for `name`: the name itself or a beginning of it of at least `least` letters, in any case.
fn key_is(key: &str, name: &str, least: usize) -> bool {
    key.len() >= least
        && key.len() <= name.len()
        && name.get(..key.len()).is_some_and(|start| start.eq_ignore_ascii_case(key))
}

fn pair(word: &str) -> Result<Pair<'_>, UpdateError> {
    word.split_once('=').map_or_else(|| refuse(format!("Invalid input: {word}\nRequest aborted")), Ok)
}

fn unsupported<T>(word: &str) -> Result<T, UpdateError> {
    refuse(format!("Update of this parameter is not supported: {word}\nRequest aborted"))
}

fn jobs(words: &[String], context: &Context<'_>) -> Result<Update, UpdateError> {
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

/// Keys that Slurm knows and that cannot be changed here yet.
const LATER: &[&str] = &[
    "AdminComment",
    "BurstBuffer",
    "ClusterFeatures",
    "DelayBoot",
    "EndTime",
    "Extra",
    "Gres",
    "MailType",
    "MailUser",
    "MinCPUsNode",
    "MinTmpDiskNode",
    "NumCPUs",
    "OverSubscribe",
    "Prefer",
    "Reboot",
    "ReqCores",
    "ReservationName",
    "Shared",
    "SiteFactor",
    "StdIn",
    "Switches",
    "TasksPerNode",
    "ThreadSpec",
    "TimeMin",
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
        _ => match LATER.iter().find(|name| key_is(key, name, 4.min(name.len()))) {
            Some(name) => {
                return refuse(format!("scontrol: error: {name} cannot be changed yet: submit the job again"));
            }
            None => return unsupported(word),
        },
    }
    Ok(())
}

fn dependency(value: &str) -> Result<Dependency, UpdateError> {
    if value.is_empty() {
        return Ok(Dependency::default());
    }
    crate::dependency::parse(value).map_err(|e| UpdateError(e.to_string()))
}

fn list(value: &str) -> Vec<String> {
    value.split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn hosts(value: &str) -> Result<Vec<String>, UpdateError> {
    hostlist::expand(value).or_else(|_| refuse("Invalid node name specified"))
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

fn time_limit(value: &str) -> Result<TimeLimit, UpdateError> {
    match Limit::parse(value) {
        Ok(Limit::Seconds(s)) => Ok(TimeLimit::Seconds(s)),
        Ok(Limit::Infinite) => Ok(TimeLimit::Infinite),
        Err(e) => refuse(e.to_string()),
    }
}

fn nodes(words: &[String]) -> Result<Update, UpdateError> {
    let (mut names, mut state, mut reason) = (String::new(), None, None);
    for word in words {
        let (key, value) = pair(word)?;
        match key {
            _ if key_is(key, "NodeName", 4) => value.clone_into(&mut names),
            _ if key_is(key, "State", 1) => state = Some(value),
            _ if key_is(key, "Reason", 1) => reason = Some(value.to_owned()),
            _ => {
                let later = ["ActiveFeatures", "AvailableFeatures", "Comment", "CpuBind", "Extra", "Gres", "Weight"];
                return match later.iter().find(|name| key_is(key, name, 3)) {
                    Some(name) => refuse(format!(
                        "scontrol: error: {name} comes from the node itself: change its daemon's command line"
                    )),
                    None => unsupported(word),
                };
            }
        }
    }
    let because = |reason: Option<String>| {
        reason
            .filter(|text| !text.is_empty())
            .map_or_else(|| refuse("You must specify a reason when DOWNING or DRAINING a node. Request denied"), Ok)
    };
    let change = match state.map(str::to_ascii_uppercase).as_deref() {
        None => None,
        Some("DRAIN" | "FAIL") => Some(NodeChange::Drain { reason: because(reason.take())? }),
        Some("DOWN") => Some(NodeChange::Down { reason: because(reason.take())? }),
        Some("RESUME" | "UNDRAIN" | "IDLE") => Some(NodeChange::Resume),
        Some("POWER_UP" | "POWER_DOWN" | "NORESP" | "FUTURE" | "REBOOT" | "CLOUD") => {
            return refuse("slurm_update error: Invalid node state specified");
        }
        Some(_) => {
            let given = state.unwrap_or_default();
            return refuse(format!(
                "Invalid input: state={given}\nRequest aborted\nValid states are: DOWN DRAIN FAIL RESUME UNDRAIN\n\
                 Not all states are valid given a node's prior state"
            ));
        }
    };
    if change.is_none() && reason.is_none() {
        return refuse("No changes specified");
    }
    Ok(Update::Nodes { names, change, reason })
}

fn partition(words: &[String]) -> Result<Update, UpdateError> {
    let (mut name, mut change) = (String::new(), PartitionChange::default());
    for word in words {
        let (key, value) = pair(word)?;
        let invalid = || UpdateError(format!("scontrol: error: Invalid input {word}"));
        match key {
            _ if key_is(key, "PartitionName", 4) => value.clone_into(&mut name),
            _ if key_is(key, "State", 2) => {
                change.state = Some(match value.to_ascii_uppercase().as_str() {
                    "UP" => PartitionState::Up,
                    "DOWN" => PartitionState::Down,
                    "DRAIN" => PartitionState::Drain,
                    "INACTIVE" => PartitionState::Inactive,
                    _ => {
                        return refuse(format!(
                            "scontrol: error: Invalid input: {word}\nscontrol: error: Acceptable State values are UP, DOWN, \
                             DRAIN and INACTIVE"
                        ));
                    }
                });
            }
            _ if key_is(key, "MaxTime", 4) => change.max_time = Some(time_limit(value).map_err(|_| invalid())?),
            _ if key_is(key, "DefaultTime", 8) => change.default_time = Some(time_limit(value).map_err(|_| invalid())?),
            _ if key_is(key, "Default", 7) => {
                change.is_default = Some(match value.to_ascii_uppercase().as_str() {
                    "YES" => true,
                    "NO" => false,
                    _ => {
                        return refuse(format!(
                            "scontrol: error: Invalid input: {word}\nscontrol: error: Acceptable Default values are YES and NO"
                        ));
                    }
                });
            }
            _ => {
                return refuse(format!(
                    "scontrol: error: Update of this parameter is not supported: {word}\n\nscontrol: error: Request aborted"
                ));
            }
        }
    }
    if change == PartitionChange::default() {
        return refuse("No changes specified");
    }
    Ok(Update::Partition { name, change })
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;

    fn read(text: &str) -> Result<Update, String> {
        let zone = TimeZone::UTC;
        let context = Context { now_s: 1_000_000, zone: &zone, is_root: false };
        let words: Vec<String> = text.split(' ').filter(|w| !w.is_empty()).map(|w| w.replace('~', " ")).collect();
        parse(&words, &context).map_err(|e| e.0)
    }

    #[test]
    fn changes_of_a_job() {
        let job = |change: JobChange| Update::Jobs {
            jobs: JobsMeant::Ids("17".to_owned()),
            change: Box::new(change),
            time_limit_by_s: None,
        };
        let none = JobChange::default;
        let text = |t: &str| Some(t.to_owned());
        let rows: [(&str, JobChange); 24] = [
            ("timelimit=5", JobChange { time_limit: Some(TimeLimit::Seconds(300)), ..none() }),
            ("TimeLimit=1-0", JobChange { time_limit: Some(TimeLimit::Seconds(86_400)), ..none() }),
            ("timelimit=UNLIMITED", JobChange { time_limit: Some(TimeLimit::Infinite), ..none() }),
            ("name=x", JobChange { name: text("x"), ..none() }),
            ("jobname=x~y", JobChange { name: text("x y"), ..none() }),
            ("partition=a,b", JobChange { partitions: Some(vec!["a".into(), "b".into()]), ..none() }),
            ("Priority=0", JobChange { priority: Some(0), ..none() }),
            ("nice=", JobChange { nice: Some(100), ..none() }),
            ("nice=-5", JobChange { nice: Some(-5), ..none() }),
            ("comment=a~b", JobChange { comment: text("a b"), ..none() }),
            ("reqnodelist=n[1-2]", JobChange { node_list: Some(vec!["n1".into(), "n2".into()]), ..none() }),
            ("excnodelist=n1", JobChange { exclude: Some(vec!["n1".into()]), ..none() }),
            ("requeue=0", JobChange { requeue: Some(false), ..none() }),
            ("starttime=now+1hour", JobChange { begin: Some(TimeMs(1_003_600_000)), ..none() }),
            ("arraytaskthrottle=2", JobChange { array_max_running: Some(2), ..none() }),
            ("numnodes=1-2", JobChange { nodes_min: Some(1), nodes_max: Some(2), ..none() }),
            ("numtasks=3", JobChange { ntasks: Some(3), ..none() }),
            ("cpuspertask=2", JobChange { cpus_per_task: Some(2), ..none() }),
            ("minmemorynode=1G", JobChange { memory_per_node: Some(MemoryMib(1024)), ..none() }),
            ("minmemorycpu=100", JobChange { memory_per_cpu: Some(MemoryMib(100)), ..none() }),
            ("features=a&b", JobChange { features: Some(vec!["a".into(), "b".into()]), ..none() }),
            ("qos=high account=opt", JobChange { qos: text("high"), account: text("opt"), ..none() }),
            ("stdout=/x stderr=/y", JobChange { std_out: text("/x"), std_err: text("/y"), ..none() }),
            ("workdir=/", JobChange { work_dir: text("/"), ..none() }),
        ];
        for (words, change) in rows {
            for entity in ["jobid=17", "job=17", "JobId=17", "job 17"] {
                assert_eq!(read(&format!("{entity} {words}")), Ok(job(change.clone())), "{entity} {words}");
            }
        }
        let relative = read("jobid=17 timelimit=-2").unwrap();
        assert!(matches!(relative, Update::Jobs { time_limit_by_s: Some(-120), .. }), "{relative:?}");
        let by_name = read("jobname=two timelimit=6").unwrap();
        assert!(matches!(by_name, Update::Jobs { jobs: JobsMeant::Named(name), .. } if name == "two"));
    }

    #[test]
    fn what_is_refused() {
        let rows = [
            ("", "too few arguments for update keyword"),
            ("foo=bar", "No valid entity in update command"),
            ("jobid=17", "No changes specified"),
            ("jobid=17 foo=bar", "Update of this parameter is not supported: foo=bar\nRequest aborted"),
            ("jobid=17 foo", "Invalid input: foo\nRequest aborted"),
            ("jobid=17 timelimit=banana", "scontrol: error: Invalid TimeLimit value"),
            ("jobid=17 licenses=x:y", "Invalid license specification"),
            ("nodename=n1 state=drain", "You must specify a reason when DOWNING or DRAINING a node. Request denied"),
            ("nodename=n1 state=foo", "Invalid input: state=foo\nRequest aborted\nValid states are"),
            ("nodename=n1 foo=1", "Update of this parameter is not supported: foo=1"),
            ("partition=p state=foo", "Acceptable State values are UP, DOWN, DRAIN and INACTIVE"),
            ("partition=p default=foo", "Acceptable Default values are YES and NO"),
            ("partition=p maxtime=foo", "scontrol: error: Invalid input maxtime=foo"),
            ("partition=p foo=1", "Update of this parameter is not supported: foo=1"),
        ];
        for (words, right) in rows {
            let error = read(words).unwrap_err();
            assert!(error.contains(right), "{words}: {error}");
        }
    }

    #[test]
    fn changes_of_nodes_and_partitions() {
        let node = |names: &str, change| Update::Nodes { names: names.to_owned(), change: Some(change), reason: None };
        let reason = || "two words".to_owned();
        let part = |change| Update::Partition { name: "p".to_owned(), change };
        let none = PartitionChange::default;
        let rows = [
            ("nodename=n[1-2] state=drain reason=two~words", node("n[1-2]", NodeChange::Drain { reason: reason() })),
            ("NodeName=n1 State=DOWN Reason=two~words", node("n1", NodeChange::Down { reason: reason() })),
            ("node=n1 state=resume", node("n1", NodeChange::Resume)),
            ("node n1 state=undrain", node("n1", NodeChange::Resume)),
            ("partition=p state=down", part(PartitionChange { state: Some(PartitionState::Down), ..none() })),
            ("partitionname=p maxtime=5", part(PartitionChange { max_time: Some(TimeLimit::Seconds(300)), ..none() })),
            ("partition=p default=yes", part(PartitionChange { is_default: Some(true), ..none() })),
            ("part=p defaulttime=3", part(PartitionChange { default_time: Some(TimeLimit::Seconds(180)), ..none() })),
        ];
        for (words, right) in rows {
            assert_eq!(read(words), Ok(right), "{words}");
        }
    }
}
