//! What runs is what the controller believes to run, but for nodes that it had given up, and there not for long after they
//! are back.

use gpund::agent::Key;

use super::Broken;
use crate::{message::Ms, world::World};

/// How long a node that is in contact may take to end what it is no longer wanted for.
const WHILE: Ms = 20_000;

/// No attempt runs unknown to the controller on a node that it never gave up, and none for long on one in contact.
///
/// # Errors
/// One does.
pub fn only_for_a_while(world: &mut World) -> Result<(), Broken> {
    let mut orphans = Vec::new();
    for (at, node) in world.nodes.iter().enumerate() {
        let id = world.controller.state.node_named(&node.name).map(|node| node.id);
        let believed =
            |key: &Key| id.and_then(|id| world.controller.state.attempt_run_by(key.job, id)) == Some(key.attempt);
        orphans.extend(node.processes.keys().filter(|key| !believed(key)).map(|key| (at, *key)));
    }
    world.witness.orphans.retain(|orphan, _| orphans.contains(orphan));
    for (at, key) in orphans {
        if !world.witness.given_up.contains_key(&at) {
            let how = format!("{key} runs on node {at}, which was never given up, and the controller does not know");
            return Err(Broken::new("the controller knows what runs", how));
        }
        let attached = world.is_attached(at);
        let since = world.witness.orphans.entry((at, key)).or_insert(world.now);
        if !attached {
            *since = world.now;
        }
        if world.now - *since > WHILE {
            let how = format!("{key} still runs on node {at}, which is in contact and was told otherwise");
            return Err(Broken::new("what is not wanted ends", how));
        }
    }
    Ok(())
}
