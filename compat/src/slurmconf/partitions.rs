//! `PartitionName` lines, as `[[partition]]`s.

use super::{Fate, Note, lines::Line, nodes::note};

/// Keys that are carried: Slurm's, ours, and how the value is written.
const CARRIED: &[(&str, &str, Form)] = &[
    ("Nodes", "nodes", Form::Nodes),
    ("Default", "default", Form::Flag),
    ("MaxTime", "max_time", Form::Text),
    ("DefaultTime", "default_time", Form::Text),
    ("State", "state", Form::State),
    ("MinNodes", "min_nodes", Form::Count),
    ("MaxNodes", "max_nodes", Form::Count),
    ("RootOnly", "root_only", Form::Flag),
    ("AllowAccounts", "allow_accounts", Form::List),
    ("DenyAccounts", "deny_accounts", Form::List),
    ("PriorityJobFactor", "priority_job_factor", Form::Count),
    ("PriorityTier", "priority_tier", Form::Count),
    ("DefMemPerCPU", "def_mem_per_cpu", Form::Memory),
    ("Hidden", "hidden", Form::Flag),
];

/// Keys that are not carried, and what to do.
const NOT_CARRIED: &[(&str, &str)] = &[
    ("AllocNodes", "jobs may be submitted from everywhere"),
    ("AllowGroups", "use allow_accounts"),
    ("AllowQos", "partitions that are open to some qualities of service come with a later version"),
    ("Alternate", "name several partitions with --partition"),
    ("CpuBind", "jobs are bound to the CPUs that they were given"),
    ("DefCpuPerGPU", "ask with --cpus-per-gpu"),
    ("DefMemPerGPU", "ask with --mem-per-gpu"),
    ("DefMemPerNode", "set def_mem_per_cpu instead"),
    ("DenyQos", "qualities of service come with a later version"),
    ("DisableRootJobs", "root may submit"),
    ("ExclusiveTopo", "topology comes with a later version"),
    ("ExclusiveUser", "ask with --exclusive"),
    ("GraceTime", "preemption comes with a later version"),
    ("JobDefaults", "ask with --cpus-per-gpu and --mem-per-gpu"),
    ("LLN", "nodes are taken by weight, fullest first"),
    ("MaxCPUsPerNode", "there is no such limit"),
    ("MaxCPUsPerSocket", "there is no such limit"),
    ("MaxMemPerCPU", "there is no limit below a node's memory"),
    ("MaxMemPerNode", "there is no limit below a node's memory"),
    ("OverSubscribe", "CPUs are not shared between jobs"),
    ("OverTimeLimit", "a limit is a limit"),
    ("PowerDownOnIdle", "nodes are not switched on and off"),
    ("PreemptMode", "preemption comes with a later version"),
    ("Priority", "use priority_tier and priority_job_factor"),
    ("QOS", "qualities of service come with a later version"),
    ("ReqResv", "reservations come with a later version"),
    ("ResumeTimeout", "nodes are not switched on and off"),
    ("SelectTypeParameters", "cores, memory and generic resources are always given"),
    ("Shared", "CPUs are not shared between jobs"),
    ("SuspendTime", "nodes are not switched on and off"),
    ("SuspendTimeout", "nodes are not switched on and off"),
    ("Topology", "topology comes with a later version"),
    ("TRESBillingWeights", "billing weights come with a later version"),
];

/// How a value is written in ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Flag,
    Count,
    List,
    Nodes,
    State,
    Memory,
}

/// The value of a key in TOML.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(String),
    /// True or false.
    Flag(bool),
    /// A number.
    Count(u64),
    /// Texts.
    List(Vec<String>),
}

/// A partition: its name, and keys with their values.
pub type Partition = (String, Vec<(&'static str, Value)>);

/// Reads the partitions in the order of the file; `sets` gives the nodes of a `NodeSet`.
pub fn partitions(lines: &[Line], sets: &dyn Fn(&str) -> Option<String>, notes: &mut Vec<Note>) -> Vec<Partition> {
    let mut defaults: Vec<(String, String)> = Vec::new();
    let mut out: Vec<Partition> = Vec::new();
    for line in lines.iter().filter(|line| line.is("PartitionName")) {
        let name = line.get("PartitionName").unwrap_or_default();
        for (key, value) in line.pairs.iter().skip(1) {
            if carried(key).is_none() {
                let why = NOT_CARRIED.iter().find(|(have, _)| have.eq_ignore_ascii_case(key));
                let (fate, text) =
                    why.map_or((Fate::Wrong, "a partition has no such parameter"), |(_, why)| (Fate::NotCarried, *why));
                notes.push(note(line, format!("{key}={value}"), fate, text));
            }
        }
        if name.eq_ignore_ascii_case("DEFAULT") {
            defaults.extend(line.pairs.iter().skip(1).cloned());
            continue;
        }
        let mut keys: Vec<(&'static str, Value)> = Vec::new();
        for (key, value) in defaults.iter().chain(line.pairs.iter().skip(1)) {
            let Some((ours, form)) = carried(key) else { continue };
            keys.retain(|(have, _)| *have != ours);
            match value_of(form, value, sets) {
                Ok(Some(value)) => keys.push((ours, value)),
                Ok(None) => {}
                Err(why) => notes.push(note(line, format!("{key}={value}"), Fate::Wrong, why)),
            }
        }
        for name in name.split(',') {
            match out.iter_mut().find(|(have, _)| have == name) {
                // As in Slurm: a second line for it adds to the first.
                Some((_, have)) => {
                    have.retain(|(key, _)| !keys.iter().any(|(new, _)| new == key));
                    have.extend(keys.clone());
                }
                None => out.push((name.to_owned(), keys.clone())),
            }
        }
    }
    out
}

fn carried(key: &str) -> Option<(&'static str, Form)> {
    CARRIED.iter().find(|(have, _, _)| have.eq_ignore_ascii_case(key)).map(|(_, ours, form)| (*ours, *form))
}

/// None: it says what is so anyhow.
fn value_of(form: Form, value: &str, sets: &dyn Fn(&str) -> Option<String>) -> Result<Option<Value>, String> {
    let is = |word: &str| value.eq_ignore_ascii_case(word);
    Ok(match form {
        Form::Text if is("NONE") => None,
        Form::Text => Some(Value::Text(value.to_owned())),
        Form::Flag => match () {
            () if is("YES") || is("TRUE") => Some(Value::Flag(true)),
            () if is("NO") || is("FALSE") => None,
            () => return Err("it has to be YES or NO".to_owned()),
        },
        Form::Count if is("UNLIMITED") || is("INFINITE") => None,
        Form::Count => Some(Value::Count(value.parse().map_err(|_| "it has to be a number".to_owned())?)),
        Form::List if is("ALL") => None,
        Form::List => Some(Value::List(value.split(',').map(str::to_owned).collect())),
        Form::Nodes if is("ALL") => None,
        Form::Nodes => Some(Value::Text(sets(value).unwrap_or_else(|| value.to_owned()))),
        Form::State => match ["up", "down", "drain", "inactive"].into_iter().find(|state| is(state)) {
            Some("up") => None,
            Some(state) => Some(Value::Text(state.to_owned())),
            None => return Err("it has to be UP, DOWN, DRAIN or INACTIVE".to_owned()),
        },
        Form::Memory if is("UNLIMITED") => None,
        Form::Memory => {
            let mib: u64 = value.parse().map_err(|_| "it has to be a number of megabytes".to_owned())?;
            (mib > 0).then(|| Value::Text(format!("{mib}M")))
        }
    })
}
