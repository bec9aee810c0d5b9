//! `scontrol show node`.

use std::collections::BTreeSet;

use gpun_core::view::NodeView;

use super::Shown;
use super::job_block::Detail;
use super::sinfo_fields::{gres, gres_used};
use crate::names::node_state;
use crate::tres::Tres;

/// One node's block with its blank line, or its line. `planned` names the nodes that the plan keeps for waiting jobs.
pub fn show(view: &NodeView, planned: &BTreeSet<String>, detail: Detail, shown: &Shown<'_>) -> String {
    let node = &view.node;
    let inv = &node.inventory;
    let state = node_state::of(view, planned.contains(&node.name));
    let word = |name: &str, value: &str| if value.is_empty() { String::new() } else { format!("{name}={value} ") };
    let features = super::job::or_null(Some(&inv.features.join(",")));
    let available = super::job::or_null(Some(&node.features_available().join(",")));
    let or_name = |text: &str| if text.is_empty() { node.name.clone() } else { text.to_owned() };
    let mut lines = vec![
        format!("NodeName={} {}CoresPerSocket={} ", node.name, word("Arch", &inv.arch), inv.cores_per_socket),
        format!(
            "CPUAlloc={} CPUEfctv={} CPUTot={} CPULoad={}",
            view.cpus_taken,
            inv.cpus,
            inv.cpus,
            view.load_hundredths.map_or_else(|| "0.00".to_owned(), |h| format!("{}.{:02}", h / 100, h % 100))
        ),
        format!("AvailableFeatures={available}"),
        format!("ActiveFeatures={features}"),
        format!("Gres={}", gres(&inv.gres)),
    ];
    if detail.details {
        lines.push("GresDrain=N/A".to_owned());
        lines.push(format!("GresUsed={}", gres_used(view)));
    }
    let version = if inv.version.is_empty() { " ".to_owned() } else { format!(" Version={}", inv.version) };
    lines.push(format!("NodeAddr={} NodeHostName={} Port=0{version}", or_name(&inv.address), or_name(&inv.host_name)));
    if !inv.os.is_empty() {
        lines.push(format!("OS={} ", inv.os));
    }
    lines.push(format!(
        "RealMemory={} AllocMem={} FreeMem={} Sockets={} Boards={}",
        inv.memory.0,
        view.memory_taken.0,
        view.memory_unused.map_or_else(|| "N/A".to_owned(), |m| m.0.to_string()),
        inv.sockets,
        inv.boards.max(1)
    ));
    lines.push(format!(
        "State={} ThreadsPerCore={} TmpDisk={} Weight={} Owner=N/A MCS_label=N/A",
        state.flags(),
        inv.threads_per_core,
        inv.tmp_disk.0,
        inv.weight
    ));
    lines.push(format!("Partitions={} ", view.partitions.join(",")));
    lines.push(format!(
        "BootTime={} SlurmdStartTime={}",
        shown.time_or(Some(inv.boot_time), "None"),
        shown.time_or(Some(inv.daemon_start), "None")
    ));
    let busy = node.last_busy.or(Some(inv.daemon_start));
    lines.push(format!("LastBusyTime={} ResumeAfterTime=None", shown.time_or(busy, "Unknown")));
    let (has, used) = totals(view);
    lines.push(format!("CfgTRES={}", has.show()));
    lines.push(format!("AllocTRES={}", used.show()));
    lines.push("CurrentWatts=0 AveWatts=0".to_owned());
    finish(view, lines, detail, shown)
}

/// The reason and the reservation stand after an empty line.
fn finish(view: &NodeView, mut lines: Vec<String>, detail: Detail, shown: &Shown<'_>) -> String {
    let mark = node_state::mark(view);
    let reason = mark.map(|m| format!("Reason={} [{}@{}]", m.reason, shown.user(m.uid), shown.time(m.since)));
    let reservation = view.reservation.as_ref().map(|name| format!("ReservationName={name}"));
    lines.push(String::new());
    let text = |name: &str, text: &str| (!text.is_empty()).then(|| format!("{name}={text}"));
    lines.extend(text("Comment", &view.node.comment));
    lines.extend(text("Extra", &view.node.extra));
    lines.extend(reason);
    lines.extend(reservation);
    match detail.one_line {
        true => lines.join(" ") + "\n",
        false => lines.join("\n   ") + "\n\n",
    }
}

/// What the node has and what is in use.
fn totals(view: &NodeView) -> (Tres, Tres) {
    let inv = &view.node.inventory;
    let cpus = u64::from(inv.cpus);
    let mut has = Tres { cpus, memory_mib: inv.memory.0, nodes: 0, billing: Some(cpus), gres: Vec::new() };
    inv.gres.iter().for_each(|g| has.add_gres(&g.name, u64::from(g.count)));
    let mut used = Tres { cpus: u64::from(view.cpus_taken), memory_mib: view.memory_taken.0, ..Tres::default() };
    view.gres_taken.iter().for_each(|g| used.add_gres(&g.name, g.indexes.len()));
    (has, used)
}

/// What `scontrol show node` prints for a name that is none.
pub fn not_found(name: &str) -> String {
    format!("Node {name} not found\n")
}
