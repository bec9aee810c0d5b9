//! slurm.conf and gres.conf as a `gpunion.toml`.

use std::fmt::Write as _;

use super::{
    Fate, Note,
    keys::{Becomes, becomes},
    lines::Line,
    nodes::{self, Node, note},
    partitions::{self, Partition, Value},
};
use crate::hostlist;

/// Nodes show themselves every 5 seconds: a shorter silence says nothing.
const NODE_DOWN_MIN_S: u64 = 10;

/// A cluster's shape, as read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Imported {
    /// Keys of `[cluster]`, with their values as TOML writes them.
    pub cluster: Vec<(&'static str, String)>,
    /// Partitions in order.
    pub partitions: Vec<Partition>,
    /// Nodes in order.
    pub nodes: Vec<(String, Node)>,
    /// What became of each setting.
    pub notes: Vec<Note>,
}

/// Makes a cluster of what slurm.conf and gres.conf say.
pub fn import(conf: &[Line], gres: &[Line]) -> Imported {
    let mut made = Imported::default();
    for line in conf {
        globals(line, &mut made);
    }
    let nodes = nodes::nodes(conf, gres, &mut made.notes);
    let sets = |name: &str| node_set(conf, &nodes, name);
    made.partitions = partitions::partitions(conf, &sets, &mut made.notes);
    made.nodes = nodes;
    if made.partitions.is_empty() {
        let line = conf.last().cloned().unwrap_or(Line { file: "slurm.conf".to_owned(), number: 1, pairs: Vec::new() });
        made.notes.push(note(
            &line,
            "PartitionName".to_owned(),
            Fate::Wrong,
            "there is none: one partition of all nodes is made",
        ));
    }
    made
}

/// Settings that stand for themselves.
fn globals(line: &Line, made: &mut Imported) {
    for kind in ["NodeName", "PartitionName", "NodeSet"] {
        if line.is(kind) {
            return;
        }
    }
    for other in ["DownNodes", "FrontendName", "SlurmctldHost"] {
        if line.is(other) && other != "SlurmctldHost" {
            let setting = format!("{other}={}", line.get(other).unwrap_or_default());
            made.notes.push(note(line, setting, Fate::NotCarried, "use `scontrol update nodename=... state=down`"));
            return;
        }
    }
    for (key, value) in &line.pairs {
        let setting = format!("{key}={value}");
        let (fate, text) = match becomes(key) {
            Some(Becomes::Key(ours)) => match cluster_value(ours, value) {
                Ok((value, text)) => {
                    made.cluster.retain(|(have, _)| *have != ours);
                    made.cluster.push((ours, value));
                    let table = if ours == ENFORCE { "accounting" } else { "cluster" };
                    (Fate::Carried, text.unwrap_or_else(|| format!("{table}.{ours}")))
                }
                Err(why) => (Fate::Wrong, why),
            },
            Some(Becomes::NotNeeded(why)) => (Fate::NotNeeded, why.to_owned()),
            Some(Becomes::NotCarried(why)) => (Fate::NotCarried, why.to_owned()),
            None => (Fate::Wrong, "there is no such parameter".to_owned()),
        };
        made.notes.push(note(line, setting, fate, text));
    }
}

/// The value of a key of `[cluster]` in TOML, and a word where it is not the same.
fn cluster_value(key: &str, value: &str) -> Result<(String, Option<String>), String> {
    let number = || value.parse::<u64>().map_err(|_| "it has to be a number".to_owned());
    Ok(match key {
        "name" | "licenses" => (text(value), None),
        ENFORCE => enforced(value)?,
        "def_mem_per_cpu" => (text(&format!("{}M", number()?)), None),
        "node_down_s" => {
            let seconds = number()?;
            let least = seconds.max(NODE_DOWN_MIN_S);
            let raised = (least > seconds).then(|| format!("cluster.node_down_s, raised to {least}"));
            (least.to_string(), raised)
        }
        _ => (number()?.to_string(), None),
    })
}

/// The one key that is of `[accounting]`.
const ENFORCE: &str = "enforce";

/// What of accounting holds, and a word for what is left out.
fn enforced(value: &str) -> Result<(String, Option<String>), String> {
    let (mut kept, mut left) = (Vec::new(), Vec::new());
    for word in value.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        match word.to_lowercase().as_str() {
            "none" | "0" => kept.clear(),
            "all" | "1" => kept.extend(["associations", "limits", "qos"]),
            "associations" => kept.push("associations"),
            "limits" => kept.push("limits"),
            "qos" => kept.push("qos"),
            "nojobs" | "nosteps" | "safe" | "wckeys" => left.push(word),
            _ => return Err(format!("`{word}` is none of associations, limits, qos, all, none")),
        }
    }
    kept.sort_unstable();
    kept.dedup();
    let list: Vec<String> = kept.into_iter().map(text).collect();
    let word = (!left.is_empty()).then(|| format!("accounting.{ENFORCE}, without {}", left.join(", ")));
    Ok((format!("[{}]", list.join(", ")), word))
}

/// The nodes of a `NodeSet` line: by name, or by feature.
fn node_set(conf: &[Line], nodes: &[(String, Node)], name: &str) -> Option<String> {
    let sets = conf.iter().filter(|line| line.is("NodeSet") && line.get("NodeSet") == Some(name));
    let mut found: Vec<String> = Vec::new();
    let mut known = false;
    for line in sets {
        known = true;
        if let Some(list) = line.get("Nodes") {
            found.extend(hostlist::expand(list).unwrap_or_default());
        }
        if let Some(feature) = line.get("Feature") {
            let with = nodes.iter().filter(|(_, node)| node.features.iter().any(|have| have == feature));
            found.extend(with.map(|(host, _)| host.clone()));
        }
    }
    let mut once: Vec<&str> = Vec::new();
    for host in &found {
        if !once.contains(&host.as_str()) {
            once.push(host);
        }
    }
    known.then(|| hostlist::compress(once))
}

impl Imported {
    /// As `gpunion.toml`; `from` names the file that it was made from.
    pub fn to_toml(&self, from: &str) -> String {
        let mut out = format!("# Made from {from} by `gpun import`.\n\n[cluster]\n");
        for (key, value) in self.cluster.iter().filter(|(key, _)| *key != ENFORCE) {
            line(&mut out, key, value);
        }
        for (key, value) in self.cluster.iter().filter(|(key, _)| *key == ENFORCE) {
            out.push_str("\n[accounting]\n");
            line(&mut out, key, value);
        }
        for (name, keys) in &self.partitions {
            out.push_str("\n[[partition]]\n");
            line(&mut out, "name", &text(name));
            for (key, value) in keys {
                line(&mut out, key, &shown(value));
            }
        }
        for (hosts, node) in grouped(&self.nodes) {
            out.push_str("\n[[node]]\n");
            line(&mut out, "name", &text(&hosts));
            write_node(&mut out, node);
        }
        out
    }

    /// What the user is told: what became of each setting, and what to do.
    pub fn report(&self) -> String {
        let mut out = String::new();
        let heads = [
            (Fate::Wrong, "not understood"),
            (Fate::NotCarried, "not carried over"),
            (Fate::NotNeeded, "not needed here"),
        ];
        for (fate, head) in heads {
            let notes: Vec<&Note> = self.notes.iter().filter(|note| note.fate == fate).collect();
            if notes.is_empty() {
                continue;
            }
            let _ = writeln!(out, "{head}:");
            for (text, settings) in by_text(&notes) {
                let _ = writeln!(out, "  {text}:");
                for setting in settings {
                    let _ = writeln!(out, "    {setting}");
                }
            }
        }
        let count = |fate: Fate| self.notes.iter().filter(|note| note.fate == fate).count();
        let _ = writeln!(
            out,
            "{} nodes, {} partitions and {} settings carried over; {} settings not carried over, {} not needed, {} not understood",
            self.nodes.len(),
            self.partitions.len(),
            self.cluster.len(),
            count(Fate::NotCarried),
            count(Fate::NotNeeded),
            count(Fate::Wrong),
        );
        out
    }
}

/// Settings of which the same is to be said, each once with the first place where it stands.
fn by_text<'a>(notes: &[&'a Note]) -> Vec<(&'a str, Vec<String>)> {
    let mut texts: Vec<(&str, Vec<&Note>)> = Vec::new();
    for note in notes {
        let at = texts.iter().position(|(text, _)| *text == note.text).unwrap_or_else(|| {
            texts.push((&note.text, Vec::new()));
            texts.len() - 1
        });
        if !texts[at].1.iter().any(|have| have.setting == note.setting) {
            texts[at].1.push(note);
        }
    }
    let shown = |note: &&Note| format!("{}:{}: {}", note.file, note.line, note.setting);
    texts.into_iter().map(|(text, notes)| (text, notes.iter().map(shown).collect())).collect()
}

/// Neighbours that have the same, as one host list.
fn grouped(nodes: &[(String, Node)]) -> Vec<(String, &Node)> {
    let mut groups: Vec<(Vec<&str>, &Node)> = Vec::new();
    for (host, node) in nodes {
        match groups.last_mut() {
            Some((hosts, same)) if *same == node => hosts.push(host),
            _ => groups.push((vec![host], node)),
        }
    }
    groups.into_iter().map(|(hosts, node)| (hostlist::compress(hosts), node)).collect()
}

fn write_node(out: &mut String, node: &Node) {
    let number = |value: Option<u64>| value.map(|value| value.to_string());
    let rows = [
        ("cpus", number(node.cpus.map(u64::from))),
        ("sockets", number(node.sockets.map(u64::from))),
        ("cores", number(node.cores.map(u64::from))),
        ("threads", number(node.threads.map(u64::from))),
        ("mem", number(node.memory_mib)),
        ("tmp_disk", number(node.tmp_disk_mib)),
        ("gres", (!node.gres.is_empty()).then(|| shown(&Value::List(node.gres.clone())))),
        ("features", (!node.features.is_empty()).then(|| shown(&Value::List(node.features.clone())))),
        ("weight", number(node.weight.map(u64::from))),
    ];
    for (key, value) in rows {
        if let Some(value) = value {
            line(out, key, &value);
        }
    }
}

fn line(out: &mut String, key: &str, value: &str) {
    let _ = writeln!(out, "{key} = {value}");
}

fn shown(value: &Value) -> String {
    match value {
        Value::Text(value) => text(value),
        Value::Flag(value) => value.to_string(),
        Value::Count(value) => value.to_string(),
        Value::List(values) => format!("[{}]", values.iter().map(|value| text(value)).collect::<Vec<_>>().join(", ")),
    }
}

/// A text as TOML's basic string.
fn text(value: &str) -> String {
    let mut out = String::from('"');
    for c in value.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slurmconf::read;

    fn made(conf: &str, gres: &str) -> Imported {
        let lines = |file: &str, text: &str| read(file, text, &mut |_| Err("none".to_owned())).unwrap();
        import(&lines("slurm.conf", conf), &lines("gres.conf", gres))
    }

    const CONF: &str = r"
ClusterName=ref
SlurmUser=root
KillWait=5
MinJobAge=300
FirstJobId=70001
DefMemPerCPU=200
MaxArraySize=1001
SlurmdTimeout=3
Licenses=matlab:4,ansys:2
PriorityWeightAge=1000
NodeName=DEFAULT CPUs=8 Boards=1 SocketsPerBoard=2 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=16000 TmpDisk=10000 State=UNKNOWN
NodeName=n1 NodeHostname=localhost Gres=gpu:a100:4 Feature=a100,gpu,ib Weight=20
NodeName=n2 NodeHostname=localhost Gres=gpu:a100:4 Feature=a100,gpu,ib Weight=20
NodeName=n[3-4] Gres=gpu:v100:2 Feature=v100,gpu Weight=15
NodeName=n7 Feature=cpu Weight=10
NodeSet=fast Feature=gpu
PartitionName=DEFAULT State=UP MaxTime=1:00:00
PartitionName=debug Nodes=n[1-4] Default=YES DefaultTime=10:00 PriorityJobFactor=10
PartitionName=held Nodes=ALL MaxTime=UNLIMITED State=DOWN
PartitionName=priv Nodes=fast AllowAccounts=chem,physics MaxNodes=1 OverSubscribe=NO
";

    #[test]
    fn what_of_accounting_holds() {
        let rows = [
            ("associations,limits,qos", Some("[\"associations\", \"limits\", \"qos\"]"), None),
            ("Limits, SAFE", Some("[\"limits\"]"), Some("accounting.enforce, without SAFE")),
            ("all", Some("[\"associations\", \"limits\", \"qos\"]"), None),
            ("none", Some("[]"), None),
            ("users", None, None),
        ];
        for (value, right, word) in rows {
            let made = enforced(value).ok();
            assert_eq!(made, right.map(|list| (list.to_owned(), word.map(str::to_owned))), "{value}");
        }
    }

    #[test]
    fn a_whole_cluster() {
        let made = made(
            CONF,
            "NodeName=n[1-2] Name=gpu Type=a100 File=/dev/g[0-3]\nNodeName=n4 Name=gpu Type=v100 File=/dev/v0,/dev/v1\n",
        );
        let right = r#"# Made from slurm.conf by `gpun import`.

[cluster]
name = "ref"
kill_wait_s = 5
min_job_age_s = 300
first_job_id = 70001
def_mem_per_cpu = "200M"
max_array_size = 1001
node_down_s = 10
licenses = "matlab:4,ansys:2"

[[partition]]
name = "debug"
max_time = "1:00:00"
nodes = "n[1-4]"
default = true
default_time = "10:00"
priority_job_factor = 10

[[partition]]
name = "held"
max_time = "UNLIMITED"
state = "down"

[[partition]]
name = "priv"
max_time = "1:00:00"
nodes = "n[1-4]"
allow_accounts = ["chem", "physics"]
max_nodes = 1

[[node]]
name = "n[1-2]"
cpus = 8
sockets = 2
cores = 4
threads = 1
mem = 16000
tmp_disk = 10000
gres = ["gpu:a100:4:/dev/g[0-3]"]
features = ["a100", "gpu", "ib"]
weight = 20

[[node]]
name = "n3"
cpus = 8
sockets = 2
cores = 4
threads = 1
mem = 16000
tmp_disk = 10000
gres = ["gpu:v100:2"]
features = ["v100", "gpu"]
weight = 15

[[node]]
name = "n4"
cpus = 8
sockets = 2
cores = 4
threads = 1
mem = 16000
tmp_disk = 10000
gres = ["gpu:v100:2:/dev/v0,/dev/v1"]
features = ["v100", "gpu"]
weight = 15

[[node]]
name = "n7"
cpus = 8
sockets = 2
cores = 4
threads = 1
mem = 16000
tmp_disk = 10000
features = ["cpu"]
weight = 10
"#;
        assert_eq!(made.to_toml("slurm.conf"), right);
        let report = made.report();
        for needle in [
            "not carried over:\n  priorities come from arrival, --priority and --nice until fair-share comes with a later version:\n    slurm.conf:11: PriorityWeightAge=1000\n",
            "  gpunctld and gpund have their own places for files, logs and ports:\n    slurm.conf:3: SlurmUser=root\n",
            "  CPUs are not shared between jobs:\n    slurm.conf:21: OverSubscribe=NO\n",
            "5 nodes, 3 partitions and 8 settings carried over; 2 settings not carried over,",
            "0 not understood",
        ] {
            assert!(report.contains(needle), "{needle}\n{report}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_said_with_its_line() {
        let rows = [
            ("KillWait=x\nPartitionName=p", "  it has to be a number:\n    slurm.conf:1: KillWait=x\n"),
            ("Frob=1\nPartitionName=p", "  there is no such parameter:\n    slurm.conf:1: Frob=1\n"),
            ("NodeName=n[1- CPUs=1\nPartitionName=p", ":\n    slurm.conf:1: NodeName=n[1-\n"),
            (
                "NodeName=n1\nNodeName=n[1-2]\nPartitionName=p",
                "  it is named twice; the first counts:\n    slurm.conf:2: NodeName=n1\n",
            ),
            (
                "NodeName=a[0-65535]\nNodeName=b1\nPartitionName=p",
                "  too many nodes are named:\n    slurm.conf:2: NodeName=b1\n",
            ),
            ("NodeName=n1 CPUs=many\nPartitionName=p", "  it has to be a number:\n    slurm.conf:1: CPUs=many\n"),
            ("NodeName=n1 Frob=1\nPartitionName=p", "  a node has no such parameter:\n    slurm.conf:1: Frob=1\n"),
            ("PartitionName=p Default=MAYBE", "  it has to be YES or NO:\n    slurm.conf:1: Default=MAYBE\n"),
            (
                "PartitionName=p State=SIDEWAYS",
                "  it has to be UP, DOWN, DRAIN or INACTIVE:\n    slurm.conf:1: State=SIDEWAYS\n",
            ),
            (
                "ClusterName=x",
                "  there is none: one partition of all nodes is made:\n    slurm.conf:1: PartitionName\n",
            ),
        ];
        for (conf, needle) in rows {
            let report = made(conf, "").report();
            assert!(report.contains(needle), "{conf}: {report}");
        }
    }

    #[test]
    fn numbers_of_generic_resources_and_cpus() {
        let rows = [
            ("NodeName=a Gres=gpu", "gres = [\"gpu:1\"]"),
            ("NodeName=a Gres=gpu:2,fpga:x:1", "gres = [\"gpu:2\", \"fpga:x:1\"]"),
            ("NodeName=a Gres=gpu:a100:2(S:0-1)", "gres = [\"gpu:a100:2\"]"),
            ("NodeName=a Sockets=2 CoresPerSocket=8 ThreadsPerCore=2", "cpus = 32"),
            ("NodeName=a Boards=2 SocketsPerBoard=2 CPUs=4", "sockets = 4"),
            ("NodeName=a Procs=3", "cpus = 3"),
        ];
        for (conf, needle) in rows {
            let toml = made(conf, "").to_toml("x");
            assert!(toml.contains(needle), "{conf}: {toml}");
        }
    }
}
