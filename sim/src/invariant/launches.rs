//! An attempt is started once, on one node.

use super::Broken;
use crate::world::World;

/// Takes note of what was started.
///
/// # Errors
/// An attempt was started a second time.
pub fn once(world: &mut World) -> Result<(), Broken> {
    for (at, node) in world.nodes.iter_mut().enumerate() {
        for key in node.launched.drain(..) {
            if let Some(before) = world.witness.launched.insert(key, at) {
                let how = format!("{key} was started on node {before} and again on node {at}");
                return Err(Broken::new("an attempt is started once", how));
            }
        }
    }
    Ok(())
}
