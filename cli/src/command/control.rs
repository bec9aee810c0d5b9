//! `gpun controller list`: the members of the consensus group.

use anyhow::bail;
use gpun_proto::pb;
use serde_json::json;

use crate::{
    args::{Args, Usage},
    controller,
    out::Out,
};

/// Of `gpun controller`.
pub const USAGE: Usage = Usage {
    command: "gpun controller",
    operands: "list",
    count: (1, 1),
    about: "Lists the controllers of the cluster: who leads, and how far each has come.\n\
            LAG is how many log entries a member has yet to apply.",
    options: &[],
    examples: &[("gpun controller list --json", "for scripts")],
};

/// Lists the members.
///
/// # Errors
/// Nobody answers, or there is no such action.
pub fn run(args: &Args, out: &mut Out) -> anyhow::Result<u8> {
    let action = &args.operands[0];
    if action != "list" {
        bail!("there is no action `{action}`: `list` is what this version has");
    }
    let members = controller::connect()?.show_members(&pb::ShowMembersRequest {})?.members;
    let newest = members.iter().map(|member| member.last_log_index).max().unwrap_or(0);
    let lag = |member: &pb::Member| newest.saturating_sub(member.applied_index);
    if args.has("--json") {
        let list: Vec<_> = members
            .iter()
            .map(|m| {
                json!({
                    "id": m.id, "addr": m.address, "pid": m.pid, "leader": m.leader, "term": m.term,
                    "applied": m.applied_index, "lag": lag(m),
                })
            })
            .collect();
        out.line(&json!({ "controllers": list }).to_string());
        return Ok(0);
    }
    out.line(&format!(
        "{:>4} {:<22} {:>8} {:<8} {:>6} {:>10} {:>6}",
        "ID", "ADDRESS", "PID", "ROLE", "TERM", "APPLIED", "LAG"
    ));
    for m in &members {
        let role = if m.leader { "leader" } else { "follower" };
        let row = format!(
            "{:>4} {:<22} {:>8} {role:<8} {:>6} {:>10} {:>6}",
            m.id,
            m.address,
            m.pid,
            m.term,
            m.applied_index,
            lag(m)
        );
        out.line(&row);
    }
    Ok(0)
}
