//! `gpun status`: the cluster at a glance.

use gpun_compat::{gres, memory};
use gpun_proto::{
    core::{
        MemoryMib,
        job::JobState,
        node::Liveness,
        view::{ClusterView, NodeView},
    },
    pb,
};
use serde_json::{Value, json};

use crate::{
    args::{Args, Usage},
    cluster, controller,
    out::Out,
};

/// Of `gpun status`.
pub const USAGE: Usage = Usage {
    command: "gpun status",
    operands: "",
    count: (0, 0),
    about: "Shows the cluster at a glance: controller, nodes with what is taken, jobs that run and wait.",
    options: &[],
    examples: &[("gpun status --json", "for scripts")],
};

/// Asks and prints.
///
/// # Errors
/// Nobody answers.
pub fn run(args: &Args, out: &mut Out) -> anyhow::Result<u8> {
    let mut quick = controller::connect().inspect_err(controller::hint)?;
    let cluster = controller::show_cluster(&mut quick)?;
    let (nodes, now_ms) = controller::list_nodes(&mut quick, Vec::new())?;
    let jobs = controller::list_jobs(&mut quick, &pb::ListJobsRequest::default())?.jobs;
    let (mut running, mut pending, mut held) = (0u64, 0u64, 0u64);
    for view in &jobs {
        let job = &view.job;
        let count = match &job.array {
            Some(gpun_proto::core::job::ArrayRole::Waiting { tasks }) => tasks.len(),
            _ => 1,
        };
        match job.state {
            JobState::Pending if job.priority == 0 => held += count,
            JobState::Pending => pending += count,
            JobState::Running | JobState::Suspended => running += count,
            _ => {}
        }
    }
    if args.has("--json") {
        let list: Vec<Value> = nodes.iter().map(node_json).collect();
        let jobs = json!({ "running": running, "pending": pending, "held": held });
        let dir = cluster::dir();
        out.line(
            &json!({
                "dir": dir, "cluster": cluster.settings.cluster_name, "version": cluster.version, "host": cluster.host,
                "started_ms": cluster.started.0, "now_ms": now_ms, "jobs": jobs, "nodes": list,
            })
            .to_string(),
        );
        return Ok(0);
    }
    out.text(&text(&cluster, &nodes, now_ms));
    out.line(&format!("Jobs: {running} running, {pending} waiting, {held} held"));
    Ok(0)
}

/// One word for how a node is.
fn condition(view: &NodeView) -> &'static str {
    match (view.node.liveness, view.node.drain.is_some(), view.jobs) {
        (Liveness::Down, ..) => "down",
        (Liveness::Unknown, ..) => "unknown",
        (_, true, 0) => "drained",
        (_, true, _) => "draining",
        (_, false, 0) => "idle",
        _ => "busy",
    }
}

fn text(cluster: &ClusterView, nodes: &[NodeView], now_ms: u64) -> String {
    let up_s = now_ms.saturating_sub(cluster.started.0) / 1000;
    let up = gpun_compat::time::long(up_s);
    let mut out = format!(
        "Cluster {}: controller {} on {}, up {up}\n\n{:<16} {:<9} {:>5} {:>11} {:>17}  {:<20} {}\n",
        cluster.settings.cluster_name,
        cluster.version,
        cluster.host,
        "NODE",
        "STATE",
        "JOBS",
        "CPUS",
        "MEMORY",
        "GRES",
        "REASON"
    );
    for view in nodes {
        let inventory = &view.node.inventory;
        let mib = |MemoryMib(mib): MemoryMib| memory::exact(mib);
        let reason = view.node.down.as_ref().or(view.node.drain.as_ref()).map_or("", |mark| mark.reason.as_str());
        let line = format!(
            "{:<16} {:<9} {:>5} {:>11} {:>17}  {:<20} {reason}",
            view.node.name,
            condition(view),
            view.jobs,
            format!("{}/{}", view.cpus_taken, inventory.cpus),
            format!("{}/{}", mib(view.memory_taken), mib(inventory.memory)),
            gres_text(view),
        );
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out.push('\n');
    out
}

/// Taken of all, each kind.
fn gres_text(view: &NodeView) -> String {
    let taken = |name: &str, kind: Option<&str>| {
        let same = view.gres_taken.iter().filter(|taken| taken.name == name && taken.kind.as_deref() == kind);
        same.map(|taken| taken.indexes.len()).sum::<u64>()
    };
    let each = view.node.inventory.gres.iter().map(|gres| {
        let kind = gres.kind.as_deref();
        let name = kind.map_or_else(|| gres.name.clone(), |kind| format!("{}:{kind}", gres.name));
        format!("{name} {}/{}", taken(&gres.name, kind), gres.count)
    });
    each.collect::<Vec<_>>().join(", ")
}

fn node_json(view: &NodeView) -> Value {
    let inventory = &view.node.inventory;
    let has: Vec<gres::Gres> = inventory
        .gres
        .iter()
        .map(|gres| gres::Gres {
            name: gres.name.clone(),
            kind: gres.kind.clone(),
            count: u64::from(gres.count),
            bare: false,
        })
        .collect();
    json!({
        "name": view.node.name, "state": condition(view), "jobs": view.jobs,
        "cpus": inventory.cpus, "cpus_taken": view.cpus_taken,
        "memory_mib": inventory.memory.0, "memory_taken_mib": view.memory_taken.0,
        "gres": gres::show(&has), "gres_text": gres_text(view),
        "drain_reason": view.node.drain.as_ref().map(|mark| &mark.reason),
        "down_reason": view.node.down.as_ref().map(|mark| &mark.reason),
        "last_contact_ms": view.last_contact.map(|at| at.0),
    })
}
