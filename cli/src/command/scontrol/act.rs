//! What `scontrol` changes.

use gpun_compat::{
    array, hostlist, jobid,
    names::error::{self, Doing},
    update::{self, JobsMeant, Update},
};
use gpun_proto::{
    core::{
        Outcome, Refusal, TimeLimit,
        command::{Act, JobChange, JobRef, NodeChange},
        job::ArrayRole,
    },
    pb,
    quick::Quick,
};
use jiff::tz::TimeZone;

use crate::{
    controller,
    out::{Out, complain},
    slurm,
};

/// What is to be done to jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Keep from starting.
    Hold {
        /// As the job's user would.
        as_user: bool,
    },
    /// Let start.
    Release,
    /// Stop.
    Suspend,
    /// Let go on.
    Resume,
    /// Put back.
    Requeue {
        /// And hold.
        hold: bool,
    },
}

impl Kind {
    fn act(self, jobs: JobRef) -> Act {
        match self {
            Self::Hold { as_user } => Act::Hold { jobs, as_user },
            Self::Release => Act::Release(jobs),
            Self::Suspend => Act::Suspend(jobs),
            Self::Resume => Act::Resume(jobs),
            Self::Requeue { hold } => Act::Requeue { jobs, hold },
        }
    }

    /// Slurm sums up hold and release in a line of their own.
    fn sums_up(self) -> bool {
        matches!(self, Self::Hold { .. } | Self::Release)
    }

    fn doing(self) -> Doing {
        if self.sums_up() { Doing::Change } else { Doing::Other }
    }
}

/// A job as it was named, and what it means.
struct Named {
    text: String,
    jobs: Option<JobRef>,
}

/// Does it to every job that the words name; gives the exit status.
pub fn each(kind: Kind, words: &[String]) -> u8 {
    let mut quick = match controller::connect() {
        Ok(quick) => quick,
        Err(error) => return slurm::failed("slurm_suspend error: ", &error),
    };
    let mut last = None;
    for word in words {
        let named = match meant(&mut quick, word) {
            Ok(named) => named,
            Err(status) => return status,
        };
        for job in named {
            let act = |jobs| kind.act(jobs);
            if let Some(text) = change(&mut quick, &job, act, kind.doing()) {
                last = Some(text);
            }
        }
    }
    let Some(text) = last else { return 0 };
    if kind.sums_up() {
        complain(&format!("slurm_suspend error: {text}"));
    }
    1
}

/// The jobs that a word means: `17`, `17,18_3`, `jobid=17`, `name=x`.
fn meant(quick: &mut Quick, word: &str) -> Result<Vec<Named>, u8> {
    let (key, value) = word.split_once('=').unwrap_or(("jobid", word));
    if key.to_ascii_lowercase().contains("name") {
        return by_name(quick, value);
    }
    Ok(jobid::split(value)
        .map(|text| Named { text: text.to_owned(), jobs: jobid::parse(text).map(|one| one.reference()) })
        .collect())
}

fn by_name(quick: &mut Quick, name: &str) -> Result<Vec<Named>, u8> {
    let request = pb::ListJobsRequest { names: vec![name.to_owned()], ..Default::default() };
    let found =
        controller::list_jobs(quick, &request).map_err(|error| slurm::failed("slurm_load_jobs error: ", &error))?;
    let mut named: Vec<Named> = Vec::new();
    for view in &found.jobs {
        let id = view.job.array_id().unwrap_or(view.job.id);
        let text = id.to_string();
        if named.iter().all(|one| one.text != text) {
            named.push(Named { text, jobs: Some(JobRef { job: id, tasks: None, component: None }) });
        }
    }
    if named.is_empty() {
        complain(&format!("Job name {name} not found"));
        return Err(1);
    }
    Ok(named)
}

/// Changes one job; what was refused is said and given back.
fn change(quick: &mut Quick, job: &Named, act: impl FnOnce(JobRef) -> Act, doing: Doing) -> Option<String> {
    let Some(jobs) = job.jobs.clone() else {
        let text = error::of(&Refusal::UnknownJob, doing);
        complain(&format!("{text} for job {}", job.text));
        return Some(text);
    };
    let text = match controller::act(quick, &act(jobs.clone())) {
        // To change what is not one's own is "Invalid user id"; to change more than a user may is "Access denied".
        Ok(Outcome::Refused(Refusal::AccessDenied)) if owns(quick, &jobs) => {
            error::of(&Refusal::AccessDenied, Doing::Other)
        }
        Ok(Outcome::Refused(why)) => error::of(&why, doing),
        Ok(_) => return None,
        Err(error) => controller::words(&error),
    };
    match tasks_of(quick, &jobs) {
        Some(tasks) => complain(&format!("{}_{tasks}: {text}", jobs.job)),
        None => complain(&format!("{text} for job {}", job.text)),
    }
    Some(text)
}

/// The tasks of an array, as messages about a whole array name them.
fn tasks_of(quick: &mut Quick, jobs: &JobRef) -> Option<String> {
    if jobs.tasks.is_some() {
        return None;
    }
    let found = controller::list_jobs(quick, &controller::request_jobs([jobs])).ok()?;
    let mut tasks = gpun_proto::core::IndexSet::new();
    for view in &found.jobs {
        match &view.job.array {
            Some(ArrayRole::Waiting { tasks: waiting }) => tasks.insert_all(waiting),
            Some(ArrayRole::Task { task, .. }) => tasks.insert(*task),
            None => return None,
        }
    }
    (!tasks.is_empty()).then(|| array::show_short(&tasks, array::DEFAULT_SHOWN_LEN))
}

/// `scontrol update`; gives the exit status.
pub fn update(words: &[String], out: &mut Out) -> u8 {
    let zone = TimeZone::system();
    let update = match update::parse(words, &slurm::context(&zone)) {
        Ok(update) => update,
        Err(error) => {
            complain(&error.to_string());
            return 1;
        }
    };
    let mut quick = match controller::connect() {
        Ok(quick) => quick,
        Err(error) => return slurm::failed("slurm_update error: ", &error),
    };
    match update {
        Update::Jobs { jobs, change, time_limit_by_s } => update_jobs(&mut quick, &jobs, &change, time_limit_by_s),
        Update::Nodes { names, changes } => update_nodes(&mut quick, &names, &changes),
        Update::Reservation(change) => super::reservation::update(&mut quick, *change, out),
        Update::Partition { name, change } => {
            let act = Act::UpdatePartition { name, change };
            one(&mut quick, &act)
        }
    }
}

/// A change without a job; what is refused is said in a line.
fn one(quick: &mut Quick, act: &Act) -> u8 {
    let text = match controller::act(quick, act) {
        Ok(Outcome::Refused(why)) => error::of(&why, Doing::Change),
        Ok(_) => return 0,
        Err(error) => controller::words(&error),
    };
    complain(&format!("slurm_update error: {text}"));
    1
}

fn update_jobs(quick: &mut Quick, jobs: &JobsMeant, change: &JobChange, by_s: Option<i64>) -> u8 {
    let named = match jobs {
        JobsMeant::Ids(ids) => meant(quick, &format!("jobid={ids}")),
        JobsMeant::Named(name) => by_name(quick, name),
    };
    let named = match named {
        Ok(named) => named,
        Err(status) => return status,
    };
    let mut status = 0;
    for job in &named {
        let mut how = change.clone();
        if let Some(by_s) = by_s {
            match moved_limit(quick, job, by_s) {
                Some(limit) => how.time_limit = Some(limit),
                None => {
                    complain("Invalid job id specified or no time limit to change");
                    status = 1;
                    continue;
                }
            }
        }
        let act = |jobs| Act::UpdateJob { jobs, change: Box::new(how) };
        if self::change(quick, job, act, Doing::Change).is_some() {
            status = 1;
        }
    }
    status
}

/// True if the jobs are the caller's own.
fn owns(quick: &mut Quick, jobs: &JobRef) -> bool {
    let own = nix::unistd::Uid::effective().as_raw();
    let found = controller::list_jobs(quick, &controller::request_jobs([jobs]));
    found.is_ok_and(|found| found.jobs.iter().all(|view| view.job.owner.uid == own))
}

fn moved_limit(quick: &mut Quick, job: &Named, by_s: i64) -> Option<TimeLimit> {
    let found = controller::list_jobs(quick, &controller::request_jobs(job.jobs.as_ref())).ok()?;
    let now = found.jobs.first()?.job.time_limit.seconds()?;
    now.checked_add_signed(by_s).map(TimeLimit::Seconds)
}

fn update_nodes(quick: &mut Quick, names: &str, changes: &[NodeChange]) -> u8 {
    let names = if names.eq_ignore_ascii_case("ALL") { Ok(all_nodes(quick)) } else { hostlist::expand(names) };
    let Ok(names) = names else {
        complain("slurm_update error: Invalid node name specified");
        return 1;
    };
    let mut status = 0;
    for name in names {
        for change in changes {
            let failed = one(quick, &Act::UpdateNode { name: name.clone(), change: change.clone() });
            status = status.max(failed);
            if failed != 0 {
                break;
            }
        }
    }
    status
}

fn all_nodes(quick: &mut Quick) -> Vec<String> {
    let nodes = controller::list_nodes(quick, Vec::new()).map(|(nodes, _)| nodes).unwrap_or_default();
    nodes.into_iter().map(|view| view.node.name).collect()
}
