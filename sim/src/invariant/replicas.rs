//! Replicas that were fed the same log are equal, and the mirror holds the state.

use super::Broken;
use crate::world::World;

/// The whole states are compared after every so many entries.
const EVERY: u64 = 8;

/// Both replicas are the same.
///
/// # Errors
/// They are not.
pub fn agree(world: &mut World) -> Result<(), Broken> {
    world.witness.entries += 1;
    let name = "replicas agree";
    if !world.witness.entries.is_multiple_of(EVERY) {
        return Ok(());
    }
    if world.controller.state != world.controller.replica {
        return Err(Broken::new(name, "the states differ"));
    }
    Ok(())
}

/// A restart would read what is in memory, byte by byte.
///
/// # Errors
/// It would not.
pub fn mirror_holds_the_state(world: &World) -> Result<(), Broken> {
    let name = "the mirror holds the state";
    let loaded = world.controller.mirror.load().map_err(|how| Broken::new(name, how))?;
    for (what, other) in [("the mirror", &loaded), ("the second replica", &world.controller.replica)] {
        if other.fingerprint() != world.controller.state.fingerprint() {
            return Err(Broken::new(name, format!("{what} is not what is in memory")));
        }
    }
    Ok(())
}
