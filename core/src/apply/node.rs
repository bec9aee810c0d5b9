//! What operators say of nodes (`scontrol update node`).

use super::Applying;
use crate::{
    NodeId, Refusal, Shared,
    authz::decide,
    command::{Act, Identity, NodeChange, NodeSettings},
    node::{Liveness, Mark, Node, Stated},
};

impl Applying<'_> {
    pub(super) fn update_node(
        &mut self,
        who: &Identity,
        act: &Act,
        name: &str,
        change: &NodeChange,
    ) -> Result<u32, Refusal> {
        decide(self.state, who, act, None)?;
        let id = *self.state.node_names.get(name).ok_or(Refusal::UnknownNode)?;
        let now = self.now;
        let mark = |reason: &String| Mark { reason: reason.clone(), uid: who.uid, since: now };
        match change {
            NodeChange::Down { reason } => self.set_down(id, mark(reason))?,
            NodeChange::Drain { reason } => self.on_node(id, |node| node.drain = Some(mark(reason))),
            NodeChange::Fail { reason } => self.on_node(id, |node| {
                node.drain = Some(mark(reason));
                node.failing = true;
            }),
            NodeChange::Resume if self.version >= 9 && self.state.nodes.get(&id).is_some_and(|node| is_well(node)) => {
                return Err(Refusal::NodeState);
            }
            NodeChange::Resume | NodeChange::Idle => self.on_node(id, |node| {
                node.drain = None;
                node.failing = false;
                // A node that nobody hears stays down; one set down by hand is taken back at its next contact.
                if node.liveness == Liveness::Down {
                    node.down = None;
                }
            }),
            NodeChange::Undrain => self.on_node(id, |node| {
                if !node.failing {
                    node.drain = None;
                }
            }),
            NodeChange::Reason { reason } => self.on_node(id, |node| {
                let down = node.down.as_mut().filter(|_| node.liveness == Liveness::Down);
                if let Some(have) = node.drain.as_mut().or(down) {
                    *have = mark(reason);
                }
            }),
            NodeChange::Set(settings) => self.set_on_node(id, settings)?,
        }
        Ok(1)
    }

    fn on_node(&mut self, id: NodeId, how: impl FnOnce(&mut Node)) {
        if let Some(node) = self.state.nodes.get_mut(&id) {
            how(node.make_mut());
            self.dirty.nodes.insert(id);
        }
    }

    fn set_on_node(&mut self, id: NodeId, settings: &NodeSettings) -> Result<(), Refusal> {
        let node = self.state.nodes.get(&id).ok_or(Refusal::UnknownNode)?;
        let available = settings.available_features.as_deref().unwrap_or_else(|| node.features_available());
        let active = settings.active_features.as_deref().unwrap_or(&node.inventory.features);
        if !active.iter().all(|feature| available.contains(feature)) {
            return Err(Refusal::ActiveFeatures);
        }
        self.on_node(id, |node| {
            node.comment = settings.comment.clone().unwrap_or_else(|| node.comment.clone());
            node.extra = settings.extra.clone().unwrap_or_else(|| node.extra.clone());
            let mut inventory = (*node.inventory).clone();
            let mut stated = node.stated.clone().unwrap_or(Stated { weight: None, features: None });
            if let Some(weight) = settings.weight {
                stated.weight = stated.weight.or(Some(inventory.weight));
                inventory.weight = weight;
            }
            // Where only what may be is said, that is what the node has.
            if let Some(active) = settings.active_features.as_ref().or(settings.available_features.as_ref()) {
                stated.features = stated.features.or_else(|| Some(inventory.features.clone()));
                let available = settings.available_features.clone();
                let available = available.unwrap_or_else(|| node.features_available().to_vec());
                inventory.features.clone_from(active);
                node.available_features = Some(available).filter(|available| available != active);
            }
            if stated.weight.is_some() || stated.features.is_some() {
                node.stated = Some(stated);
                node.inventory = Shared::new(inventory);
            }
        });
        Ok(())
    }
}

/// True if nothing keeps a node from taking jobs.
fn is_well(node: &Node) -> bool {
    node.liveness == Liveness::Up && node.drain.is_none()
}
