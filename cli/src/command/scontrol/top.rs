//! `scontrol top`: jobs before the others of the same user, account, quality of service and partition.

use gpun_compat::{
    jobid,
    names::error::{self, Doing},
};
use gpun_proto::{
    core::{
        Outcome, Refusal,
        command::{Act, JobChange, JobRef},
        job::{Job, JobState},
        view::JobView,
    },
    pb,
    quick::{CallError, Quick},
};

use crate::{controller, out::complain, slurm};

/// Moves the jobs that the words name, the first of them foremost; gives the exit status.
pub fn run(words: &[String]) -> u8 {
    let mut quick = match controller::connect() {
        Ok(quick) => quick,
        Err(error) => return slurm::failed("slurm_top_job error: ", &error),
    };
    let named: Vec<&str> = words.iter().flat_map(|word| jobid::split(word)).collect();
    // The last one named is moved first, so that each goes before those that were named behind it.
    let mut status = 0;
    for text in named.into_iter().rev() {
        let refused = match jobid::parse(text) {
            None => Some(error::of(&Refusal::UnknownJob, Doing::Other)),
            Some(selector) => match move_up(&mut quick, &selector.reference()) {
                Ok(refusal) => refusal.map(|why| error::of(&why, Doing::Other)),
                Err(error) => Some(controller::words(&error)),
            },
        };
        if let Some(why) = refused {
            complain(&format!("{why} for job {text}"));
            status = 1;
        }
    }
    status
}

/// True for jobs that stand in the same line.
fn beside(one: &JobView, other: &JobView) -> bool {
    let line = |job: &Job| (job.owner.uid, job.spec.account.clone(), job.spec.qos.clone());
    line(&one.job) == line(&other.job) && one.partitions == other.partitions
}

fn move_up(quick: &mut Quick, jobs: &JobRef) -> Result<Option<Refusal>, CallError> {
    let found = controller::list_jobs(quick, &controller::request_jobs([jobs]))?;
    let Some(first) = found.jobs.first() else { return Ok(Some(Refusal::UnknownJob)) };
    // As Slurm does where `enable_user_top` is not set.
    if nix::unistd::Uid::current().as_raw() != 0 {
        return Ok(Some(Refusal::AccessDenied));
    }
    if first.job.state != JobState::Pending {
        return Ok(Some(Refusal::NotPending));
    }
    let all = pb::ListJobsRequest { users: vec![first.job.owner.uid.to_string()], ..Default::default() };
    let queue = controller::list_jobs(quick, &all)?;
    let waiting = queue.jobs.iter().filter(|view| view.job.state == JobState::Pending && beside(view, first));
    let highest = waiting.map(|view| view.job.priority).max().unwrap_or(0);
    if first.job.priority == highest {
        return Ok(None);
    }
    let priority = Some(highest.saturating_add(1).min(u32::MAX - 2));
    let change = Box::new(JobChange { priority, ..JobChange::default() });
    match controller::act(quick, &Act::UpdateJob { jobs: jobs.clone(), change })? {
        Outcome::Refused(why) => Ok(Some(why)),
        _ => Ok(None),
    }
}
