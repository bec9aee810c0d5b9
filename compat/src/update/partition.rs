//! Keys of a partition.

use gpun_core::MemoryMib;
use gpun_core::command::PartitionChange;
use gpun_core::partition::{MemoryLimit, PartitionState};

use super::{Update, UpdateError, hosts, key_is, list, pair, refuse, time_limit, yes_or_no};

/// Keys that Slurm knows and that cannot be changed, and why.
const NOT_HERE: &[(&str, usize, &str)] = &[
    ("AllocNodes", 6, "jobs may be submitted from every host that reaches the controller"),
    ("Alternate", 3, "jobs name several partitions instead"),
    ("CpuBind", 7, "tasks are not bound by partition"),
    ("DisableRootJobs", 7, "root's jobs are as others'"),
    ("ExclusiveTopo", 10, "nodes have no switches here"),
    ("ExclusiveUser", 10, "use OverSubscribe=EXCLUSIVE"),
    ("GraceTime", 5, "preemption waits for kill_wait_s"),
    ("JobDefaults", 4, "jobs name what they need"),
    ("LLN", 3, "nodes are filled one after the other"),
    ("MaxCPUsPerNode", 10, "use OverSubscribe or a reservation"),
    ("MaxCPUsPerSocket", 10, "use OverSubscribe or a reservation"),
    ("OverTimeLimit", 5, "a limit is a limit"),
    ("PowerDownOnIdle", 2, "nodes are not switched off"),
    ("PreemptMode", 3, "a quality of service says it"),
    ("QOS", 3, "jobs and associations name it"),
    ("ReqResv", 4, "use a reservation of all its nodes"),
    ("TRESBillingWeights", 5, "billing counts CPUs"),
];

/// The highest that Slurm takes.
const PRIORITY_MAX: u32 = 0xffff - 2;

/// Reads the words of a change of a partition.
pub(super) fn parse(words: &[String]) -> Result<Update, UpdateError> {
    let (mut name, mut change) = (String::new(), PartitionChange::default());
    for word in words {
        let (key, value) = pair(word)?;
        if key_is(key, "PartitionName", 4) {
            value.clone_into(&mut name);
        } else {
            set(&mut change, key, value, word)?;
        }
    }
    if change == PartitionChange::default() {
        return refuse("scontrol: error: No changes specified");
    }
    Ok(Update::Partition { name, change: Box::new(change) })
}

fn set(change: &mut PartitionChange, key: &str, value: &str, word: &str) -> Result<(), UpdateError> {
    let is = |name, least| key_is(key, name, least);
    let acceptable = |name: &str, values: &str| {
        UpdateError(format!(
            "scontrol: error: Invalid input: {word}\nscontrol: error: Acceptable {name} values are {values}"
        ))
    };
    let flag = |name: &str| yes_or_no(value).map(Some).ok_or_else(|| acceptable(name, "YES and NO"));
    let limit = || time_limit(value).map(Some).or_else(|_| refuse(format!("scontrol: error: Invalid input {word}")));
    let wrong = |name: &str| UpdateError(format!("scontrol: error: Invalid {name} value: {value}"));
    let priority = |name: &str| {
        value.parse::<u32>().ok().filter(|number| *number <= PRIORITY_MAX).map(Some).ok_or_else(|| wrong(name))
    };
    let count = |name: &str| {
        let said = || UpdateError(format!("scontrol: error: Invalid numeric value \"{value}\" for {name}."));
        value.parse::<u32>().map(Some).map_err(|_| said())
    };
    let memory = |name: &str| value.parse().map(MemoryMib).map_err(|_| wrong(name));
    match key {
        _ if is("State", 2) => {
            change.state = Some(match value.to_ascii_uppercase().as_str() {
                "UP" => PartitionState::Up,
                "DOWN" => PartitionState::Down,
                "DRAIN" => PartitionState::Drain,
                "INACTIVE" => PartitionState::Inactive,
                _ => return Err(acceptable("State", "UP, DOWN, DRAIN and INACTIVE")),
            });
        }
        _ if is("MaxTime", 4) => change.max_time = limit()?,
        _ if is("DefaultTime", 8) => change.default_time = limit()?,
        _ if is("Default", 7) => change.is_default = flag("Default")?,
        _ if is("Hidden", 1) => change.hidden = flag("Hidden")?,
        _ if is("RootOnly", 4) => change.root_only = flag("RootOnly")?,
        _ if is("MaxNodes", 4) && matches!(value.to_ascii_uppercase().as_str(), "UNLIMITED" | "INFINITE" | "-1") => {
            change.max_nodes = Some(u32::MAX);
        }
        _ if is("MaxNodes", 4) => change.max_nodes = count("MaxNodes")?,
        _ if is("MinNodes", 4) => change.min_nodes = count("MinNodes")?,
        _ if is("PriorityTier", 9) => change.priority_tier = priority("PriorityTier")?,
        _ if is("PriorityJobFactor", 9) && !is("Priority", 3) => {
            change.priority_job_factor = priority("PriorityJobFactor")?;
        }
        _ if is("Priority", 3) => {
            change.priority_tier = priority("Priority")?;
            change.priority_job_factor = change.priority_tier;
        }
        _ if is("Nodes", 1) => nodes(change, value)?,
        _ if is("AllowAccounts", 6) => change.allow_accounts = Some(names(value)),
        _ if is("AllowGroups", 6) => {
            change.allow_groups = Some(names(value).into_iter().map(|name| (name, 0)).collect());
        }
        _ if is("AllowQos", 6) => change.allow_qos = Some(names(value)),
        _ if is("DenyAccounts", 5) => change.deny_accounts = Some(names(value)),
        _ if is("DenyQos", 5) => change.deny_qos = Some(names(value)),
        _ if is("DefMemPerCPU", 10) => change.def_mem = Some(MemoryLimit::PerCpu(memory("DefMemPerCPU")?)),
        _ if is("DefMemPerNode", 10) => change.def_mem = Some(MemoryLimit::PerNode(memory("DefMemPerNode")?)),
        _ if is("MaxMemPerCPU", 10) => change.max_mem = Some(MemoryLimit::PerCpu(memory("MaxMemPerCPU")?)),
        _ if is("MaxMemPerNode", 10) => change.max_mem = Some(MemoryLimit::PerNode(memory("MaxMemPerNode")?)),
        _ if is("OverSubscribe", 5) || is("Shared", 2) => {
            let word = value.split(':').next().unwrap_or_default().to_ascii_uppercase();
            change.exclusive = Some(match word.as_str() {
                "NO" => false,
                "EXCLUSIVE" => true,
                "YES" | "FORCE" => {
                    return refuse(
                        "scontrol: error: OverSubscribe=YES and FORCE are not offered: CPUs are not shared between jobs",
                    );
                }
                _ => return Err(acceptable("OverSubscribe", "NO, EXCLUSIVE, YES:#, and FORCE:#")),
            });
        }
        _ => match NOT_HERE.iter().find(|(name, least, _)| key_is(key, name, *least)) {
            Some((name, _, why)) => {
                return refuse(format!("scontrol: error: {name} of a partition cannot be changed: {why}"));
            }
            None => {
                return refuse(format!(
                    "scontrol: error: Update of this parameter is not supported: {word}\n\nscontrol: error: Request aborted"
                ));
            }
        },
    }
    Ok(())
}

/// Names, of which `ALL` and nothing mean all of them.
fn names(value: &str) -> Vec<String> {
    if value.eq_ignore_ascii_case("ALL") { Vec::new() } else { list(value) }
}

/// `n[1-4]`, `ALL`, or what to add and to take away: `+n5,-n1`.
fn nodes(change: &mut PartitionChange, value: &str) -> Result<(), UpdateError> {
    if value.eq_ignore_ascii_case("ALL") {
        change.nodes = Some(Vec::new());
        return Ok(());
    }
    if value.is_empty() {
        return refuse("scontrol: error: a partition needs nodes: set its State to DOWN instead");
    }
    if !value.starts_with(['+', '-']) {
        change.nodes = Some(hosts(value)?);
        return Ok(());
    }
    let mut add = true;
    // A comma inside brackets does not part lists.
    let mut depth = 0;
    let parts = value.split(|c| {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    });
    for part in parts {
        let name = part.strip_prefix('+').or_else(|| part.strip_prefix('-')).unwrap_or(part);
        add = if part.starts_with(['+', '-']) { part.starts_with('+') } else { add };
        let list = if add { &mut change.nodes_add } else { &mut change.nodes_remove };
        list.extend(hosts(name)?);
    }
    Ok(())
}
