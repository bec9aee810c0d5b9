//! `scontrol update`: `jobid=17 timelimit=5`, `nodename=n[1-4] state=drain reason="bad fan"`, `partition=debug state=down`.

mod job;
mod node;
mod partition;

use gpun_core::TimeLimit;
use gpun_core::command::{JobChange, NodeChange, PartitionChange};

use crate::option::Context;
use crate::time::Limit;
use crate::{hostlist, reservation};

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
        /// How, one after the other.
        changes: Vec<NodeChange>,
    },
    /// A reservation.
    Reservation(Box<reservation::Change>),
    /// A partition.
    Partition {
        /// Which.
        name: String,
        /// How.
        change: Box<PartitionChange>,
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
        Some(Entity::Job) => job::parse(&glued, context),
        Some(Entity::Node) => node::parse(&glued),
        Some(Entity::Partition) => partition::parse(&glued),
        Some(Entity::Reservation) => reservation::update(&glued, context)
            .map(|change| Update::Reservation(Box::new(change)))
            .map_err(UpdateError),
        Some(Entity::Later(what)) => refuse(format!("scontrol: error: {what} come with a later version")),
        None if glued.iter().any(|word| key_is(word.split('=').next().unwrap_or(""), "JobName", 4)) => {
            job::parse(&glued, context)
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

fn list(value: &str) -> Vec<String> {
    value.split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn hosts(value: &str) -> Result<Vec<String>, UpdateError> {
    hostlist::expand(value).or_else(|_| refuse("Invalid node name specified"))
}

fn time_limit(value: &str) -> Result<TimeLimit, UpdateError> {
    match Limit::parse(value) {
        Ok(Limit::Seconds(s)) => Ok(TimeLimit::Seconds(s)),
        Ok(Limit::Infinite) => Ok(TimeLimit::Infinite),
        Err(e) => refuse(e.to_string()),
    }
}

/// Yes or no, in any case.
fn yes_or_no(value: &str) -> Option<bool> {
    match value.to_ascii_uppercase().as_str() {
        "YES" => Some(true),
        "NO" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use gpun_core::command::NodeSettings;
    use gpun_core::partition::{MemoryLimit, PartitionState};
    use gpun_core::spec::GresRequest;
    use gpun_core::{MemoryMib, TimeMs};
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
        let gres = |kind: Option<&str>, count| {
            vec![GresRequest { name: "gpu".into(), kind: kind.map(str::to_owned), count, bare: false }]
        };
        let rows: [(&str, JobChange); 39] = [
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
            ("gres=gpu:2", JobChange { gres: Some(gres(None, 2)), ..none() }),
            ("TresPerNode=gres/gpu:a100:1", JobChange { gres: Some(gres(Some("a100"), 1)), ..none() }),
            ("trespertask=gres/gpu:1", JobChange { gres_per_task: Some(gres(None, 1)), ..none() }),
            ("gres=", JobChange { gres: Some(Vec::new()), ..none() }),
            ("mincpusnode=2", JobChange { mincpus: Some(2), ..none() }),
            ("prefer=a&b", JobChange { prefer: Some(vec!["a".into(), "b".into()]), ..none() }),
            ("timemin=5", JobChange { time_min: Some(TimeLimit::Seconds(300)), ..none() }),
            ("extra=x admincomment=y", JobChange { extra: text("x"), admin_comment: text("y"), ..none() }),
            ("mintmpdisknode=100", JobChange { tmp_disk: Some(MemoryMib(100)), ..none() }),
            ("reservationname=r", JobChange { reservation: text("r"), ..none() }),
            ("shared=yes", JobChange { oversubscribe: Some(true), ..none() }),
            ("endtime=now+1hour", JobChange { end_time: Some(TimeMs(1_003_600_000)), ..none() }),
            ("stdin=/x", JobChange { std_in: text("/x"), ..none() }),
            ("taskspernode=2", JobChange { ntasks_per_node: Some(2), ..none() }),
            ("numcpus=2-4", JobChange { cpus: Some(2), ..none() }),
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
            ("jobid=17 timemin=banana", "scontrol: error: Invalid TimeMin value"),
            (
                "jobid=17 numcpus=x",
                "scontrol: error: Invalid numeric value \"x\" for NumCPUs.\nscontrol: error: Invalid NumCPUs value: x",
            ),
            ("jobid=17 shared=exclusive", "scontrol: error: Invalid OverSubscribe value: exclusive"),
            ("jobid=17 requeue=x", "scontrol: error: Invalid Requeue value: x"),
            ("jobid=17 switches=1", "scontrol: error: Switches"),
            ("jobid=17 burstbuffer=x", "Requested operation not supported on this system"),
            ("jobid=17 licenses=x:y", "Invalid license specification"),
            ("nodename=n1 state=drain", "You must specify a reason when DOWNING or DRAINING a node. Request denied"),
            ("nodename=n1 state=foo", "Invalid input: state=foo\nRequest aborted\nValid states are"),
            ("nodename=n1 state=power_up", "slurm_update error: Invalid node state specified"),
            ("nodename=n1 weight=x", "scontrol: error: Invalid value weight=x for Weight"),
            ("nodename=n1 gres=gpu:1", "slurm_update error: Invalid generic resource (gres) specification"),
            ("nodename=n1 state=fail", "You must specify a reason when DOWNING or DRAINING a node. Request denied"),
            ("nodename=n1 resumeafter=10", "You can only specify a resume time when DOWNING or DRAINING a node"),
            ("nodename=n1", "No changes specified"),
            ("partition=p", "scontrol: error: No changes specified"),
            ("partition=p hidden=foo", "scontrol: error: Acceptable Hidden values are YES and NO"),
            ("partition=p maxnodes=x", "scontrol: error: Invalid numeric value \"x\" for MaxNodes."),
            ("partition=p prioritytier=x", "scontrol: error: Invalid PriorityTier value: x"),
            ("partition=p priorityjobfactor=99999999", "scontrol: error: Invalid PriorityJobFactor value: 99999999"),
            ("partition=p defmempercpu=1G", "scontrol: error: Invalid DefMemPerCPU value: 1G"),
            (
                "partition=p oversubscribe=foo",
                "scontrol: error: Acceptable OverSubscribe values are NO, EXCLUSIVE, YES:#, and FORCE:#",
            ),
            ("partition=p oversubscribe=yes:2", "scontrol: error: OverSubscribe=YES and FORCE"),
            ("partition=p gracetime=2", "scontrol: error: GraceTime"),
            ("partition=p nodes=", "scontrol: error: a partition needs nodes"),
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
        let node = |names: &str, change| Update::Nodes { names: names.to_owned(), changes: vec![change] };
        let reason = || "two words".to_owned();
        let part = |change| Update::Partition { name: "p".to_owned(), change: Box::new(change) };
        let none = PartitionChange::default;
        let names = |all: &[&str]| Some(all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>());
        let settings = NodeChange::Set(Box::new(NodeSettings {
            weight: Some(5),
            available_features: names(&["a", "b"]),
            active_features: names(&["a"]),
            comment: Some("c".to_owned()),
            extra: Some(String::new()),
        }));
        let rows = [
            ("nodename=n[1-2] state=drain reason=two~words", node("n[1-2]", NodeChange::Drain { reason: reason() })),
            ("NodeName=n1 State=DOWN Reason=two~words", node("n1", NodeChange::Down { reason: reason() })),
            ("node=n1 state=resume", node("n1", NodeChange::Resume)),
            ("node n1 state=undrain", node("n1", NodeChange::Undrain)),
            ("node=n1 state=idle", node("n1", NodeChange::Idle)),
            ("node=n1 state=fail reason=two~words", node("n1", NodeChange::Fail { reason: reason() })),
            ("node=n1 reason=two~words", node("n1", NodeChange::Reason { reason: reason() })),
            (
                "node=n1 weight=5 state=resume features=a,b activefeatures=a comment=c extra=",
                Update::Nodes { names: "n1".to_owned(), changes: vec![settings, NodeChange::Resume] },
            ),
            ("part=p nodes=n[1-2]", part(PartitionChange { nodes: names(&["n1", "n2"]), ..none() })),
            ("part=p nodes=ALL", part(PartitionChange { nodes: Some(Vec::new()), ..none() })),
            (
                "part=p nodes=+n3,-n1",
                part(PartitionChange { nodes_add: vec!["n3".into()], nodes_remove: vec!["n1".into()], ..none() }),
            ),
            (
                "part=p maxnodes=unlimited minnodes=2",
                part(PartitionChange { max_nodes: Some(u32::MAX), min_nodes: Some(2), ..none() }),
            ),
            (
                "part=p priority=3",
                part(PartitionChange { priority_tier: Some(3), priority_job_factor: Some(3), ..none() }),
            ),
            (
                "part=p hidden=yes rootonly=no",
                part(PartitionChange { hidden: Some(true), root_only: Some(false), ..none() }),
            ),
            (
                "part=p allowaccounts=a,b denyaccounts=c",
                part(PartitionChange { allow_accounts: names(&["a", "b"]), deny_accounts: names(&["c"]), ..none() }),
            ),
            ("part=p allowgroups=g", part(PartitionChange { allow_groups: Some(vec![("g".into(), 0)]), ..none() })),
            ("part=p allowgroups=ALL", part(PartitionChange { allow_groups: Some(Vec::new()), ..none() })),
            ("part=p oversubscribe=exclusive", part(PartitionChange { exclusive: Some(true), ..none() })),
            (
                "part=p defmempercpu=100 maxmempernode=500",
                part(PartitionChange {
                    def_mem: Some(MemoryLimit::PerCpu(MemoryMib(100))),
                    max_mem: Some(MemoryLimit::PerNode(MemoryMib(500))),
                    ..none()
                }),
            ),
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
