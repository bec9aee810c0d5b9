//! The state's own invariants hold, and its time never runs backwards.

use super::Broken;
use crate::world::World;

/// After each entry.
///
/// # Errors
/// They do not, or it does.
pub fn holds(world: &mut World) -> Result<(), Broken> {
    let state = &world.controller.state;
    state.check().map_err(|how| Broken::new("the state is sound", how.to_string()))?;
    if state.now() < world.witness.latest {
        return Err(Broken::new("time runs forwards", format!("{:?} after {:?}", state.now(), world.witness.latest)));
    }
    world.witness.latest = state.now();
    Ok(())
}
