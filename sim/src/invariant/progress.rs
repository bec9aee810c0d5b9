//! When nothing breaks any more, everything that was accepted comes to an end, and nothing is left of it on the nodes.

use gpun_sched::PlanLimits;

use super::Broken;
use crate::world::World;

/// What has not come to rest in time.
pub fn still_open(world: &World) -> Broken {
    let state = &world.controller.state;
    let plan = gpun_sched::plan(state, world.controller.wall(world.now), &PlanLimits::default());
    let open: Vec<String> = state
        .jobs()
        .filter(|job| !job.is_over())
        .map(|job| {
            let verdict = plan.verdict(state, job).map(|verdict| verdict.reason);
            let (attempt, run) = (job.attempt.0, job.run.is_some());
            format!(
                "{} {:?} {:?} attempt {attempt} run {run} verdict {verdict:?} {:?}",
                job.id, job.state, job.reason, job.spec
            )
        })
        .collect();
    let held: Vec<String> = world
        .nodes
        .iter()
        .filter(|node| !node.is_empty())
        .map(|node| format!("{}: {:?}", node.name, node.processes.keys().collect::<Vec<_>>()))
        .collect();
    let waiting = world.submissions.values().filter(|one| one.acknowledged.is_none() && !one.refused).count();
    let how = format!("jobs {open:?}; nodes {held:?}; {waiting} clients wait; controller up: {}", world.controller.up);
    Broken::new("everything comes to an end", how)
}

/// No node has anything, and no job holds anything.
///
/// # Errors
/// One does.
pub fn nothing_is_left(world: &World) -> Result<(), Broken> {
    let holds = world.controller.state.jobs().any(|job| job.holds_resources());
    let left = world.nodes.iter().any(|node| !node.is_empty());
    if holds || left { Err(still_open(world)) } else { Ok(()) }
}
