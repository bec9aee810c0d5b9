//! The fields of `sinfo`, one a row.

use std::collections::BTreeSet;

use gpun_core::node::GresInventory;
use gpun_core::partition::PartitionState;
use gpun_core::view::{NodeView, PartitionView};
use gpun_core::{TimeLimit, TimeMs};

use super::Shown;
use crate::array;
use crate::hostlist;
use crate::names::node_state::{self, State};
use crate::time::Limit;

/// Nodes that share a line, and the partition that the line speaks of.
pub struct Group<'a> {
    /// The partition; the first of several.
    pub partition: &'a PartitionView,
    /// The nodes; none where a partition has no node to show.
    pub nodes: Vec<&'a NodeView>,
    /// Names of nodes that the plan keeps for waiting jobs.
    pub planned: &'a BTreeSet<String>,
}

impl Group<'_> {
    fn state(&self, node: &NodeView) -> State {
        node_state::of(node, self.planned.contains(&node.node.name))
    }

    /// The state of the first node.
    pub fn first_state(&self) -> Option<State> {
        self.nodes.first().map(|n| self.state(n))
    }

    /// `(busy, free, other)` nodes.
    fn nodes_by_use(&self) -> (usize, usize, usize) {
        let mut out = (0, 0, 0);
        for node in &self.nodes {
            let state = self.state(node);
            match (state.base, state.is_busy()) {
                (node_state::Base::Down | node_state::Base::Unknown, _) => out.2 += 1,
                (_, true) => out.0 += 1,
                (_, false) if state.drain => out.2 += 1,
                _ => out.1 += 1,
            }
        }
        out
    }

    /// `(busy, free, other)` CPUs.
    fn cpus_by_use(&self) -> (u32, u32, u32) {
        let mut out = (0u32, 0u32, 0u32);
        for node in &self.nodes {
            let free = node.node.inventory.cpus.saturating_sub(node.cpus_taken);
            out.0 = out.0.saturating_add(node.cpus_taken);
            let rest = if self.state(node).is_other() { &mut out.2 } else { &mut out.1 };
            *rest = rest.saturating_add(free);
        }
        out
    }

    /// `8`, or `8+` where the nodes differ: the least of them.
    fn least(&self, of: fn(&NodeView) -> u64) -> String {
        let (min, max) = self.range(of);
        if min < max { format!("{min}+") } else { min.to_string() }
    }

    fn range(&self, of: fn(&NodeView) -> u64) -> (u64, u64) {
        let values = || self.nodes.iter().map(|n| of(n));
        (values().min().unwrap_or(0), values().max().unwrap_or(0))
    }

    /// `low-high`, or one value where all are the same; missing ones come last.
    fn spread(&self, of: fn(&NodeView) -> Option<u64>, text: fn(Option<u64>) -> String) -> String {
        let values = || self.nodes.iter().map(|n| of(n)).map(|v| (v.is_none(), v));
        match (values().min(), values().max()) {
            (Some((_, low)), Some((_, high))) if low != high => format!("{}-{}", text(low), text(high)),
            (Some((_, low)), _) => text(low),
            _ => text(None),
        }
    }

    /// A value of the first node.
    fn first(&self, of: impl Fn(&NodeView) -> String) -> String {
        self.nodes.first().map_or_else(String::new, |n| of(n))
    }
}

/// How values of a field tell lines apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Of the partition: different values, different lines.
    Partition,
    /// Of the node: different values, different lines.
    Node,
    /// Of the node, shown as a range: different lines with `--exact` only.
    Range,
    /// Of all nodes of the line together.
    Sum,
}

/// One field.
pub struct Field {
    /// Its letter for `-o`.
    pub letter: Option<char>,
    /// Its name for `-O`.
    pub name: &'static str,
    /// Its header.
    pub header: &'static str,
    /// How it tells lines apart.
    pub scope: Scope,
    /// Its text.
    pub value: fn(&Group<'_>, &Shown<'_>) -> String,
}

type Value = fn(&Group<'_>, &Shown<'_>) -> String;

const fn field(letter: char, name: &'static str, header: &'static str, scope: Scope, value: Value) -> Field {
    Field { letter: Some(letter), name, header, scope, value }
}

const fn named(name: &'static str, header: &'static str, scope: Scope, value: Value) -> Field {
    Field { letter: None, name, header, scope, value }
}

use Scope::{Node, Partition, Range, Sum};

/// Every field, in the order of `--helpFormat`.
#[rustfmt::skip]
pub static FIELDS: &[Field] = &[
    named("AllocMem", "ALLOCMEM", Node, |g, _| g.first(|n| n.memory_taken.0.to_string())),
    field('S', "AllocNodes", "ALLOCNODES", Partition, |_, _| "all".to_owned()),
    field('a', "Available", "AVAIL", Partition, |g, _| availability(g).to_owned()),
    field('V', "Cluster", "CLUSTER", Sum, |_, _| "N/A".to_owned()),
    named("Comment", "COMMENT", Node, |_, _| "(null)".to_owned()),
    field('Y', "Cores", "CORES", Range, |g, _| g.least(|n| u64::from(n.node.inventory.cores_per_socket))),
    field('c', "CPUs", "CPUS", Range, |g, _| g.least(|n| u64::from(n.node.inventory.cpus))),
    field('O', "CPUsLoad", "CPU_LOAD", Range, |g, _| g.spread(|n| n.load_hundredths.map(u64::from), load)),
    field('C', "CPUsState", "CPUS(A/I/O/T)", Sum, |g, _| { let (a, i, o) = g.cpus_by_use(); format!("{a}/{i}/{o}/{}", a + i + o) }),
    field('L', "DefaultTime", "DEFAULTTIME", Partition, |g, _| g.partition.partition.default_time.map_or_else(|| "n/a".to_owned(), limit)),
    field('d', "Disk", "TMP_DISK", Range, |g, _| g.least(|n| n.node.inventory.tmp_disk.0)),
    named("Extra", "EXTRA", Node, |_, _| "(null)".to_owned()),
    field('f', "Features", "AVAIL_FEATURES", Node, |g, _| g.first(features)),
    field('b', "features_act", "ACTIVE_FEATURES", Node, |g, _| g.first(features)),
    field('e', "FreeMem", "FREE_MEM", Range, |g, _| g.spread(|n| n.memory_unused.map(|m| m.0), |v| v.map_or_else(|| "N/A".to_owned(), |m| m.to_string()))),
    field('G', "Gres", "GRES", Node, |g, _| g.first(|n| gres(&n.node.inventory.gres))),
    named("GresUsed", "GRES_USED", Node, |g, _| g.first(gres_used)),
    field('g', "Groups", "GROUPS", Partition, |_, _| "all".to_owned()),
    field('B', "MaxCPUsPerNode", "MAX_CPUS_PER_NODE", Partition, |_, _| "UNLIMITED".to_owned()),
    field('m', "Memory", "MEMORY", Range, |g, _| g.least(|n| n.node.inventory.memory.0)),
    field('o', "NodeAddr", "NODE_ADDR", Node, |g, _| g.first(|n| n.node.inventory.address.clone())),
    field('A', "NodeAI", "NODES(A/I)", Sum, |g, _| { let (a, i, _) = g.nodes_by_use(); format!("{a}/{i}") }),
    field('F', "NodeAIOT", "NODES(A/I/O/T)", Sum, |g, _| { let (a, i, o) = g.nodes_by_use(); format!("{a}/{i}/{o}/{}", a + i + o) }),
    field('n', "NodeHost", "HOSTNAMES", Node, |g, _| g.first(host_name)),
    field('N', "NodeList", "NODELIST", Sum, |g, _| hostlist::compress(g.nodes.iter().map(|n| &n.node.name))),
    field('D', "Nodes", "NODES", Sum, |g, _| g.nodes.len().to_string()),
    field('h', "OverSubscribe", "OVERSUBSCRIBE", Partition, |_, _| "NO".to_owned()),
    field('P', "Partition", "PARTITION", Partition, |g, _| format!("{}{}", g.partition.partition.name, if g.partition.partition.is_default { "*" } else { "" })),
    field('R', "PartitionName", "PARTITION", Partition, |g, _| g.partition.partition.name.clone()),
    named("Port", "PORT", Sum, |_, _| "0".to_owned()),
    field('M', "PreemptMode", "PREEMPT_MODE", Partition, |_, _| "OFF".to_owned()),
    field('I', "PriorityJobFactor", "PRIO_JOB_FACTOR", Partition, |g, _| g.partition.partition.priority_job_factor.unwrap_or(1).to_string()),
    field('p', "PriorityTier", "PRIO_TIER", Partition, |g, _| g.partition.partition.priority_tier.unwrap_or(1).to_string()),
    field('E', "Reason", "REASON", Node, |g, _| g.first(|n| node_state::mark(n).map_or_else(|| "none".to_owned(), |m| m.reason))),
    field('i', "Reservation", "RESERVATION", Node, |_, _| String::new()),
    field('r', "Root", "ROOT", Partition, |g, _| if g.partition.partition.root_only { "yes" } else { "no" }.to_owned()),
    field('s', "Size", "JOB_SIZE", Partition, |g, _| job_size(g)),
    field('X', "Sockets", "SOCKETS", Range, |g, _| g.least(|n| u64::from(n.node.inventory.sockets))),
    field('z', "SocketCoreThread", "S:C:T", Range, |g, _| format!(
        "{}:{}:{}",
        g.least(|n| u64::from(n.node.inventory.sockets)),
        g.least(|n| u64::from(n.node.inventory.cores_per_socket)),
        g.least(|n| u64::from(n.node.inventory.threads_per_core)),
    )),
    field('t', "StateCompact", "STATE", Node, |g, _| g.first_state().map_or_else(|| "n/a".to_owned(), State::compact)),
    named("StateComplete", "STATECOMPLETE", Node, |g, _| g.first_state().map_or_else(|| "n/a".to_owned(), State::complete)),
    field('T', "StateLong", "STATE", Node, |g, _| g.first_state().map_or_else(|| "n/a".to_owned(), State::long)),
    field('Z', "Threads", "THREADS", Range, |g, _| g.least(|n| u64::from(n.node.inventory.threads_per_core))),
    field('l', "Time", "TIMELIMIT", Partition, |g, _| limit(g.partition.partition.max_time)),
    field('H', "TimeStamp", "TIMESTAMP", Node, |g, s| s.time_or(marked(g).map(|(_, at)| at), "Unknown")),
    field('u', "User", "USER", Node, |g, s| marked(g).map_or_else(|| "Unknown".to_owned(), |(uid, _)| s.user(uid))),
    field('U', "UserLong", "USER", Node, |g, s| marked(g).map_or_else(|| "Unknown".to_owned(), |(uid, _)| format!("{}({uid})", s.user(uid)))),
    field('v', "Version", "VERSION", Node, |g, _| g.first(|n| Some(n.node.inventory.version.clone()).filter(|v| !v.is_empty()).unwrap_or_else(|| "N/A".to_owned()))),
    field('w', "Weight", "WEIGHT", Range, |g, _| g.least(|n| u64::from(n.node.inventory.weight))),
];

fn availability(g: &Group<'_>) -> &'static str {
    match g.partition.partition.state {
        PartitionState::Up => "up",
        PartitionState::Down => "down",
        PartitionState::Drain => "drain",
        PartitionState::Inactive => "inactive",
    }
}

fn limit(limit: TimeLimit) -> String {
    match Limit::from(limit) {
        Limit::Infinite => "infinite".to_owned(),
        finite => finite.short(),
    }
}

fn load(hundredths: Option<u64>) -> String {
    hundredths.map_or_else(|| "N/A".to_owned(), |h| format!("{}.{:02}", h / 100, h % 100))
}

fn features(node: &NodeView) -> String {
    super::job::or_null(Some(&node.node.inventory.features.join(",")))
}

fn host_name(node: &NodeView) -> String {
    let host = &node.node.inventory.host_name;
    if host.is_empty() { node.node.name.clone() } else { host.clone() }
}

fn job_size(g: &Group<'_>) -> String {
    let min = g.partition.partition.min_nodes.unwrap_or(1).max(1);
    match g.partition.partition.max_nodes {
        None => format!("{min}-infinite"),
        Some(max) if max == min => min.to_string(),
        Some(max) => format!("{min}-{max}"),
    }
}

/// Who said something about the first node, and when.
fn marked(g: &Group<'_>) -> Option<(u32, TimeMs)> {
    g.nodes.first().and_then(|n| node_state::mark(n)).map(|m| (m.uid, m.since))
}

/// `gpu:a100:4,fpga:1`.
pub fn gres(list: &[GresInventory]) -> String {
    let one = |g: &GresInventory| crate::gres::Gres {
        name: g.name.clone(),
        kind: g.kind.clone(),
        count: u64::from(g.count),
        bare: false,
    };
    crate::gres::show(&list.iter().map(one).collect::<Vec<_>>())
}

/// `gpu:a100:1(IDX:0)`: how many of each are in use, and which.
pub fn gres_used(node: &NodeView) -> String {
    let inventory = &node.node.inventory.gres;
    if inventory.is_empty() {
        return super::job::NULL.to_owned();
    }
    let one = |g: &GresInventory| {
        // Indexes count over all types of a name.
        let before = inventory
            .iter()
            .take_while(|x| !std::ptr::eq(*x, g))
            .filter(|x| x.name == g.name)
            .map(|x| x.count)
            .sum::<u32>();
        let taken = node.gres_taken.iter().filter(|t| t.name == g.name).flat_map(|t| t.indexes.iter());
        let mine: gpun_core::IndexSet =
            taken.filter(|i| (before..before.saturating_add(g.count)).contains(i)).collect();
        let shown = if mine.is_empty() { "N/A".to_owned() } else { array::show(&mine) };
        let kind = g.kind.as_deref().map_or_else(String::new, |k| format!(":{k}"));
        format!("{}{kind}:{}(IDX:{shown})", g.name, mine.len())
    };
    inventory.iter().map(one).collect::<Vec<_>>().join(",")
}

/// The place of the field with this letter.
pub fn by_letter(letter: char) -> Option<usize> {
    FIELDS.iter().position(|f| f.letter == Some(letter))
}

/// The place of the field with this name, in any case.
pub fn by_name(name: &str) -> Option<usize> {
    FIELDS.iter().position(|f| f.name.eq_ignore_ascii_case(name))
}
