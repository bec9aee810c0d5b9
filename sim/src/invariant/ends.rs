//! What the state says of an end is what happened.

use gpun_core::job::{Job, JobState, Reason};
use gpund::{agent::Key, phase::ExitKind};

use super::Broken;
use crate::world::World;

/// Takes note of what ended, and how in truth.
pub fn witness(world: &mut World) {
    for node in &mut world.nodes {
        for (key, kind, exit) in node.ended.drain(..) {
            world.witness.ended.insert(key, (kind, exit));
        }
    }
}

/// Jobs that completed did, and jobs that failed failed so.
///
/// # Errors
/// One did not.
pub fn are_true(world: &World) -> Result<(), Broken> {
    let name = "ends are true";
    let history = world.controller.mirror.history().map_err(|how| Broken::new(name, how))?;
    let state = world.controller.state.jobs().map(|job| (**job).clone());
    state.chain(history).try_for_each(|job| is_true(world, &job).map_err(|how| Broken::new(name, how)))
}

fn is_true(world: &World, job: &Job) -> Result<(), String> {
    let truth = world.witness.ended.get(&Key { job: job.id, attempt: job.attempt });
    let (id, code) = (job.id, job.exit.code);
    match (job.state, job.reason, truth) {
        (JobState::Completed, _, Some((ExitKind::Exited, (0, 0)))) => Ok(()),
        (JobState::Completed, ..) => Err(format!("{id} is said to have completed, it ended as {truth:?}")),
        (JobState::Failed, Reason::NonZeroExitCode, Some((ExitKind::Exited, (real, _)))) if *real == code => Ok(()),
        (JobState::Failed, Reason::NonZeroExitCode, _) => {
            Err(format!("{id} is said to have failed with {code}, it ended as {truth:?}"))
        }
        _ if !job.is_over() => Err(format!("{id} is not over")),
        _ => Ok(()),
    }
}
