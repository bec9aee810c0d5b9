//! `NodeName` lines of slurm.conf and `gres.conf`, as `[[node]]`s.

use std::collections::{BTreeMap, BTreeSet};

use super::{Fate, Note, lines::Line};
use crate::hostlist::{self, Hostlist};

/// What a node has, as `[[node]]` says it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Node {
    /// CPUs.
    pub cpus: Option<u32>,
    /// Sockets.
    pub sockets: Option<u32>,
    /// Cores of a socket.
    pub cores: Option<u32>,
    /// Threads of a core.
    pub threads: Option<u32>,
    /// Memory in MiB.
    pub memory_mib: Option<u64>,
    /// Temporary disk in MiB.
    pub tmp_disk_mib: Option<u64>,
    /// `NAME[:TYPE]:COUNT[:FILES]`.
    pub gres: Vec<String>,
    /// Features.
    pub features: Vec<String>,
    /// Weight.
    pub weight: Option<u32>,
}

/// Keys of a node that are read.
const READ: &[&str] = &[
    "NodeName",
    "CPUs",
    "Procs",
    "Boards",
    "Sockets",
    "SocketsPerBoard",
    "CoresPerSocket",
    "ThreadsPerCore",
    "RealMemory",
    "TmpDisk",
    "Gres",
    "Feature",
    "Features",
    "Weight",
];

/// Keys of a node that need no counterpart, and why.
const NOT_NEEDED: &[(&str, &str)] = &[
    ("NodeHostname", "a node is named by its own daemon"),
    ("NodeAddr", "a node dials the controller, not the other way"),
    ("BcastAddr", "a node dials the controller, not the other way"),
    ("Port", "a node dials the controller, not the other way"),
    ("State", "a node is there when its daemon is; `scontrol update` drains it"),
    ("Reason", "a node is there when its daemon is; `scontrol update` drains it"),
];

/// Keys of a node that are there in Slurm and not here, and what to do.
const NOT_CARRIED: &[(&str, &str)] = &[
    ("CoreSpecCount", "cores cannot be set aside for the system: state fewer CPUs"),
    ("CpuSpecList", "CPUs cannot be set aside for the system: state fewer CPUs"),
    ("CpuBind", "jobs are bound to the CPUs that they were given"),
    ("MemSpecLimit", "memory cannot be set aside for the system: state less memory"),
    ("Parameters", "there are no parameters of nodes"),
    ("RestrictedCoresPerGPU", "cores cannot be kept for jobs with GPUs"),
    ("Topology", "topology comes with a later version"),
    ("TRESWeights", "billing weights come with a later version"),
];

/// Nodes of a cluster, named twice or not: as many as Slurm can have.
const NODES_MAX: u64 = 65_536;
/// Nodes in all the lines of gres.conf together: sixteen lines for each.
const FILES_MAX: u64 = 16 * NODES_MAX;

/// Reads the nodes, in the order of the file, and says what was not taken over.
pub fn nodes(lines: &[Line], gres: &[Line], notes: &mut Vec<Note>) -> Vec<(String, Node)> {
    let mut defaults: Vec<(String, String)> = Vec::new();
    let mut out: Vec<(String, Node)> = Vec::new();
    let mut names: BTreeSet<String> = BTreeSet::new();
    let mut left = NODES_MAX;
    for line in lines.iter().filter(|line| line.is("NodeName")) {
        let name = line.get("NodeName").unwrap_or_default();
        unknown(line, notes);
        if name.eq_ignore_ascii_case("DEFAULT") {
            let said = line.pairs.iter().skip(1).cloned();
            defaults.extend(said);
            continue;
        }
        let pairs = defaults.iter().chain(&line.pairs).cloned().collect();
        let whole = Line { pairs, ..line.clone() };
        let hosts = match expand(name, &mut left) {
            Ok(hosts) => hosts,
            Err(why) => {
                notes.push(note(line, format!("NodeName={name}"), Fate::Wrong, why));
                continue;
            }
        };
        let node = node(&whole, notes);
        let mut again = Vec::new();
        for host in hosts {
            if names.insert(host.clone()) {
                out.push((host, node.clone()));
            } else {
                again.push(host);
            }
        }
        if !again.is_empty() {
            let setting = format!("NodeName={}", hostlist::compress(again));
            notes.push(note(line, setting, Fate::Wrong, "it is named twice; the first counts"));
        }
    }
    let files = files(gres, notes);
    for (host, node) in &mut out {
        node.gres = node.gres.iter().map(|one| with_files(host, one, &files)).collect();
    }
    out
}

/// The names in a list, taken from how many may still be named.
fn expand(list: &str, left: &mut u64) -> Result<Vec<String>, String> {
    let hosts = Hostlist::parse(list).map_err(|error| error.to_string())?;
    *left = left.checked_sub(hosts.len()).ok_or("too many nodes are named")?;
    Ok(hosts.iter().collect())
}

/// Notes on the keys of a line that are not read.
fn unknown(line: &Line, notes: &mut Vec<Note>) {
    for (key, value) in line.pairs.iter().filter(|(key, _)| !has(READ, key)) {
        let find = |table: &[(&str, &str)]| {
            table.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, why)| (*why).to_owned())
        };
        let (fate, text) = match (find(NOT_NEEDED), find(NOT_CARRIED)) {
            (Some(why), _) => (Fate::NotNeeded, why),
            (_, Some(why)) => (Fate::NotCarried, why),
            _ => (Fate::Wrong, "a node has no such parameter".to_owned()),
        };
        notes.push(note(line, format!("{key}={value}"), fate, text));
    }
}

pub(super) fn has(keys: &[&str], key: &str) -> bool {
    keys.iter().any(|have| have.eq_ignore_ascii_case(key))
}

pub(super) fn note(line: &Line, setting: String, fate: Fate, text: impl Into<String>) -> Note {
    Note { file: line.file.clone(), line: line.number, setting, fate, text: text.into() }
}

/// A number, or a note that it is none.
pub(super) fn number<T: std::str::FromStr>(line: &Line, key: &str, notes: &mut Vec<Note>) -> Option<T> {
    let value = line.get(key)?;
    let read = value.parse().ok();
    if read.is_none() {
        notes.push(note(line, format!("{key}={value}"), Fate::Wrong, "it has to be a number"));
    }
    read
}

fn node(line: &Line, notes: &mut Vec<Note>) -> Node {
    let mut get = |key: &str| number::<u32>(line, key, notes);
    let boards = get("Boards").unwrap_or(1).max(1);
    let sockets = get("SocketsPerBoard").map(|each| each.saturating_mul(boards)).or_else(|| get("Sockets"));
    let (cores, threads) = (get("CoresPerSocket"), get("ThreadsPerCore"));
    let cpus = get("CPUs").or_else(|| get("Procs"));
    let product = sockets.unwrap_or(1).saturating_mul(cores.unwrap_or(1)).saturating_mul(threads.unwrap_or(1));
    let weight = get("Weight");
    let list = |key: &str| -> Vec<String> {
        let items = line.get(key).into_iter().flat_map(|text| text.split(','));
        items.map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
    };
    let features = list("Feature").into_iter().chain(list("Features")).collect();
    let gres = list("Gres").into_iter().filter(|one| !one.eq_ignore_ascii_case("(null)"));
    Node {
        // Slurm counts one CPU for each thread where no number is said.
        cpus: cpus.or((sockets.is_some() || cores.is_some() || threads.is_some()).then_some(product)),
        sockets,
        cores,
        threads,
        memory_mib: number(line, "RealMemory", notes),
        tmp_disk_mib: number(line, "TmpDisk", notes),
        gres: gres.map(|one| counted(&one)).collect(),
        features,
        weight,
    }
}

/// `gpu:a100:2(S:0)` without what stands in parentheses, and with the number that Slurm takes where none is said.
fn counted(gres: &str) -> String {
    let plain = gres.split('(').next().unwrap_or_default().replace(":no_consume", "");
    let last = plain.rsplit(':').next().unwrap_or_default();
    if last.starts_with(|c: char| c.is_ascii_digit()) && plain.contains(':') { plain } else { format!("{plain}:1") }
}

/// Device files by node (none: every node), name and type.
type Files = BTreeMap<(Option<String>, String, Option<String>), Vec<String>>;

fn files(gres: &[Line], notes: &mut Vec<Note>) -> Files {
    let mut files = Files::new();
    let mut default_nodes: Option<String> = None;
    let mut left = FILES_MAX;
    for line in gres {
        if let Some(how) = line.get("AutoDetect") {
            let text = "devices are found by themselves where a node's sizes are not stated";
            notes.push(note(line, format!("AutoDetect={how}"), Fate::NotNeeded, text));
        }
        if line.is("NodeName") && line.get("Name").is_none() {
            default_nodes = line.get("NodeName").map(str::to_owned);
            continue;
        }
        for key in ["Cores", "CPUs", "Links", "Flags", "MultipleFiles"] {
            if let Some(value) = line.get(key) {
                let text = "devices are not tied to cores or links yet";
                notes.push(note(line, format!("{key}={value}"), Fate::NotCarried, text));
            }
        }
        let (Some(name), Some(file)) = (line.get("Name"), line.get("File")) else { continue };
        let kind = line.get("Type").map(str::to_owned);
        let nodes = line.get("NodeName").map(str::to_owned).or_else(|| default_nodes.clone());
        let hosts: Vec<Option<String>> = match nodes.as_deref().map(|nodes| expand(nodes, &mut left)) {
            None => vec![None],
            Some(Ok(hosts)) => hosts.into_iter().map(Some).collect(),
            Some(Err(why)) => {
                notes.push(note(line, format!("NodeName={}", nodes.unwrap_or_default()), Fate::Wrong, why));
                continue;
            }
        };
        for host in hosts {
            files.entry((host, name.to_owned(), kind.clone())).or_default().push(file.to_owned());
        }
    }
    files
}

/// `gpu:a100:4` with its files behind it, where gres.conf names them.
fn with_files(host: &str, gres: &str, files: &Files) -> String {
    let mut parts = gres.split(':');
    let name = parts.next().unwrap_or_default().to_owned();
    let kind = match (parts.next(), parts.next()) {
        (Some(kind), Some(_)) => Some(kind.to_owned()),
        _ => None,
    };
    let of = |host: Option<String>| files.get(&(host, name.clone(), kind.clone()));
    match of(Some(host.to_owned())).or_else(|| of(None)) {
        // One without a type has a place for it, so that the files are not taken for one.
        Some(found) if kind.is_some() => format!("{gres}:{}", found.join(",")),
        _ => gres.to_owned(),
    }
}
