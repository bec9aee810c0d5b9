//! `scontrol show partition`.

use gpun_core::partition::{MemoryLimit, PartitionState};
use gpun_core::view::{NodeView, PartitionView};

use super::job_block::Detail;
use crate::hostlist;
use crate::time::Limit;
use crate::tres::Tres;

/// One partition's block with its blank line, or its line. `nodes` are all nodes, for what they have.
pub fn show(view: &PartitionView, nodes: &[NodeView], detail: Detail) -> String {
    let p = &view.partition;
    let yes = |on: bool| if on { "YES" } else { "NO" };
    let count = |n: Option<u32>| n.map_or_else(|| "UNLIMITED".to_owned(), |n| n.to_string());
    let accounts = match (p.allow_accounts.is_empty(), p.deny_accounts.is_empty()) {
        (true, false) => format!("DenyAccounts={}", p.deny_accounts.join(",")),
        (true, true) => "AllowAccounts=ALL".to_owned(),
        (false, _) => format!("AllowAccounts={}", p.allow_accounts.join(",")),
    };
    let names = |all: &[String]| if all.is_empty() { "ALL".to_owned() } else { all.join(",") };
    let groups: Vec<String> = p.allow_groups.iter().map(|(name, _)| name.clone()).collect();
    let qos = if p.allow_qos.is_empty() && !p.deny_qos.is_empty() {
        format!("DenyQos={}", p.deny_qos.join(","))
    } else {
        format!("AllowQos={}", names(&p.allow_qos))
    };
    let default = match (p.def_mem_per_node, p.def_mem_per_cpu) {
        (Some(m), _) => format!("DefMemPerNode={}", m.0),
        (None, Some(m)) => format!("DefMemPerCPU={}", m.0),
        (None, None) => "DefMemPerNode=UNLIMITED".to_owned(),
    };
    let most = match p.max_mem {
        Some(MemoryLimit::PerNode(m)) => format!("MaxMemPerNode={}", m.0),
        Some(MemoryLimit::PerCpu(m)) => format!("MaxMemPerCPU={}", m.0),
        None => "MaxMemPerNode=UNLIMITED".to_owned(),
    };
    let memory = format!("{default} {most}");
    let state = match p.state {
        PartitionState::Up => "UP",
        PartitionState::Down => "DOWN",
        PartitionState::Drain => "DRAIN",
        PartitionState::Inactive => "INACTIVE",
    };
    let lines = [
        format!("PartitionName={}", p.name),
        format!("AllowGroups={} {accounts} {qos}", names(&groups)),
        format!("AllocNodes=ALL Default={} QoS=N/A", yes(p.is_default)),
        format!(
            "DefaultTime={} DisableRootJobs=NO ExclusiveUser=NO ExclusiveTopo=NO GraceTime=0 Hidden={}",
            p.default_time.map_or_else(|| "NONE".to_owned(), |t| Limit::from(t).long()),
            yes(p.hidden)
        ),
        format!(
            "MaxNodes={} MaxTime={} MinNodes={} LLN=NO MaxCPUsPerNode=UNLIMITED MaxCPUsPerSocket=UNLIMITED",
            count(p.max_nodes),
            Limit::from(p.max_time).long(),
            p.min_nodes.unwrap_or(0)
        ),
        format!("Nodes={}", hostlist::compress(&view.nodes)),
        format!(
            "PriorityJobFactor={} PriorityTier={} RootOnly={} ReqResv=NO OverSubscribe={}",
            p.priority_job_factor.unwrap_or(1),
            p.priority_tier.unwrap_or(1),
            yes(p.root_only),
            if p.exclusive { "EXCLUSIVE" } else { "NO" }
        ),
        "OverTimeLimit=NONE PreemptMode=OFF".to_owned(),
        format!("State={state} TotalCPUs={} TotalNodes={} SelectTypeParameters=NONE", view.cpus, view.nodes.len()),
        "JobDefaults=(null)".to_owned(),
        memory,
        format!("TRES={}", totals(view, nodes).show()),
    ];
    if detail.one_line { lines.join(" ") + "\n" } else { lines.join("\n   ") + "\n\n" }
}

fn totals(view: &PartitionView, nodes: &[NodeView]) -> Tres {
    let mut out = Tres {
        cpus: view.cpus,
        memory_mib: view.memory.0,
        nodes: view.nodes.len() as u64,
        billing: Some(view.cpus),
        gres: Vec::new(),
    };
    let members = nodes.iter().filter(|n| view.nodes.contains(&n.node.name));
    members.flat_map(|n| &n.node.inventory.gres).for_each(|g| out.add_gres(&g.name, u64::from(g.count)));
    out
}

/// What `scontrol show partition` prints for a name that is none.
pub fn not_found(name: &str) -> String {
    format!("Partition {name} not found\n")
}
