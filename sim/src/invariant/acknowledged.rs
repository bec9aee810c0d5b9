//! Every job that a client heard of exists, once; no number stands for two jobs.

use std::collections::BTreeSet;

use gpun_core::JobId;

use super::Broken;
use crate::world::World;

/// No number was given twice, and no request got two.
///
/// # Errors
/// One was.
pub fn ids_are_unique(world: &World) -> Result<(), Broken> {
    world.witness.reused.clone().map_or(Ok(()), |how| Err(Broken::new("ids are unique", how)))
}

/// Every acknowledged job is in the state or in the history.
///
/// # Errors
/// One is not.
pub fn all_exist(world: &World) -> Result<(), Broken> {
    let name = "no acknowledged job is lost";
    let history = world.controller.mirror.history().map_err(|how| Broken::new(name, how))?;
    let state = world.controller.state.jobs().map(|job| job.id);
    let known: BTreeSet<JobId> = state.chain(history.iter().map(|job| job.id)).collect();
    for (request, one) in &world.submissions {
        let Some(job) = one.acknowledged else { continue };
        if !known.contains(&job) {
            return Err(Broken::new(name, format!("{job} is not known")));
        }
        let accepted = world.witness.accepted.get(request);
        if accepted != Some(&job) {
            return Err(Broken::new(name, format!("a client was told {job}, the log says {accepted:?}")));
        }
    }
    Ok(())
}
