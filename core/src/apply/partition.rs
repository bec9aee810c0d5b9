//! Changing a partition (`scontrol update partition`).

use super::Applying;
use crate::{
    MemoryMib, Refusal, State,
    authz::decide,
    command::{Act, Identity, PartitionChange},
    partition::{MemoryLimit, Partition},
};

impl Applying<'_> {
    pub(super) fn update_partition(
        &mut self,
        who: &Identity,
        act: &Act,
        name: &str,
        how: &PartitionChange,
    ) -> Result<u32, Refusal> {
        decide(self.state, who, act, None)?;
        let mut partition = self.state.partition(name).ok_or(Refusal::UnknownPartition)?.clone();
        let changed = partition.make_mut();
        changed.nodes = nodes(self.state, changed, how)?;
        changed.state = how.state.unwrap_or(changed.state);
        changed.max_time = how.max_time.unwrap_or(changed.max_time);
        changed.default_time = how.default_time.or(changed.default_time);
        changed.is_default = how.is_default.unwrap_or(changed.is_default);
        changed.min_nodes = how.min_nodes.or(changed.min_nodes);
        changed.max_nodes = how.max_nodes.or(changed.max_nodes).filter(|most| *most != u32::MAX);
        changed.priority_tier = how.priority_tier.or(changed.priority_tier);
        changed.priority_job_factor = how.priority_job_factor.or(changed.priority_job_factor);
        changed.hidden = how.hidden.unwrap_or(changed.hidden);
        changed.root_only = how.root_only.unwrap_or(changed.root_only);
        changed.exclusive = how.exclusive.unwrap_or(changed.exclusive);
        let lists = [
            (&mut changed.allow_accounts, &how.allow_accounts),
            (&mut changed.deny_accounts, &how.deny_accounts),
            (&mut changed.allow_qos, &how.allow_qos),
            (&mut changed.deny_qos, &how.deny_qos),
        ];
        for (list, new) in lists {
            if let Some(new) = new {
                list.clone_from(new);
            }
        }
        if let Some(groups) = &how.allow_groups {
            changed.allow_groups.clone_from(groups);
        }
        if let Some(limit) = how.max_mem {
            changed.max_mem = Some(limit).filter(|limit| limit.memory() != MemoryMib(0));
        }
        if let Some(memory) = how.def_mem {
            (changed.def_mem_per_node, changed.def_mem_per_cpu) = match memory {
                MemoryLimit::PerNode(memory) => (Some(memory).filter(|memory| memory.0 > 0), None),
                MemoryLimit::PerCpu(memory) => (None, Some(memory).filter(|memory| memory.0 > 0)),
            };
        }
        let changed = changed.clone();
        self.put_partition(changed);
        Ok(1)
    }
}

/// The partition's nodes after a change; none for all nodes.
fn nodes(state: &State, partition: &Partition, how: &PartitionChange) -> Result<Vec<String>, Refusal> {
    let named = how.nodes.iter().flatten().chain(&how.nodes_add).chain(&how.nodes_remove);
    if let Some(unknown) = named.into_iter().find(|name| state.node_named(name).is_none()) {
        return Err(Refusal::UnknownNodeName { name: unknown.clone() });
    }
    let mut nodes = how.nodes.clone().unwrap_or_else(|| partition.nodes.clone());
    if how.nodes_add.is_empty() && how.nodes_remove.is_empty() {
        return Ok(nodes);
    }
    if nodes.is_empty() {
        // It has all of them: there is nothing to add, and what is left after some are taken away has to be named.
        if how.nodes_remove.is_empty() {
            return Ok(nodes);
        }
        nodes = state.nodes().map(|node| node.name.clone()).collect();
    }
    let new = how.nodes_add.iter().filter(|name| !nodes.contains(name)).cloned().collect::<Vec<_>>();
    nodes.extend(new);
    nodes.retain(|name| !how.nodes_remove.contains(name));
    if nodes.is_empty() { Err(Refusal::NoNodesLeft) } else { Ok(nodes) }
}
