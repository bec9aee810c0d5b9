//! A plan is a function of the state and the time.

use gpun_core::{State, TimeMs};
use gpun_sched::{Plan, PlanLimits};

use super::Broken;

/// Planning again gives the same plan.
///
/// # Errors
/// It does not.
pub fn same_again(state: &State, now: TimeMs, plan: &Plan) -> Result<(), Broken> {
    let again = gpun_sched::plan(&state.clone(), now, &PlanLimits::default());
    if again == *plan {
        Ok(())
    } else {
        Err(Broken::new("plans are the same again", format!("{plan:?} and {again:?}")))
    }
}
