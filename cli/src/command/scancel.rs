//! `scancel`: ends jobs, or sends them signals.

use std::io::{self, BufRead, Write};

use gpun_compat::{
    jobid::Selector,
    names::{error, job_state},
    option::scancel::{self, COMMAND, Options},
};
use gpun_proto::{
    core::{
        Outcome, Refusal,
        command::{Act, JobRef},
        job::{ArrayRole, JobState, SignalScope},
        view::JobView,
    },
    pb,
    quick::{CallError, Quick},
};
use jiff::tz::TimeZone;
use nix::libc::SIGKILL;

use crate::{command::why::shown_id, controller, out::complain, slurm};

/// What the quality of service of a job is called that asked for none.
const DEFAULT_QOS: &str = "normal";

/// Runs the command; gives the exit status.
pub fn run(args: &[String]) -> u8 {
    let utc = TimeZone::UTC;
    let asked = match scancel::parse(args, &slurm::variable, &slurm::context(&utc)) {
        Ok(asked) => asked,
        Err(error) => return slurm::refuse(&error),
    };
    if let Some(show) = asked.show {
        return slurm::show(show, &COMMAND, "[OPTIONS...] [JOB_ID[_TASK]...]", "[job_id[_array_id][.step_id]]");
    }
    // Only numbers that no job can have were named: there is nothing to end, whatever the filters let through.
    let named = COMMAND.split(args).is_ok_and(|line| !line.operands.is_empty());
    if named && asked.jobs.is_empty() {
        return 0;
    }
    if let Some(step) = asked.jobs.iter().find(|job| job.step.is_some()) {
        let step = format!("{}.{}", step.job, step.step.as_deref().unwrap_or_default());
        complain(&format!(
            "scancel: error: Kill job error on job step id {step}: steps come with a later version of gpunion"
        ));
        return 1;
    }
    let mut quick = match controller::connect() {
        Ok(quick) => quick,
        Err(error) => {
            let first = asked.jobs.first().filter(|_| !asked.has_filter());
            let prefix = match first {
                Some(job) => format!("scancel: error: Kill job error on job id {}: ", shown(job)),
                None => "slurm_load_jobs error: ".to_owned(),
            };
            return slurm::failed(&prefix, &error);
        }
    };
    if let Err(text) = slurm::check_clusters(&mut quick, COMMAND.program, asked.clusters.as_deref()) {
        complain(&text);
        return 1;
    }
    let targets = match targets(&mut quick, &asked) {
        Ok(targets) => targets,
        Err(status) => return status,
    };
    let targets: Vec<Target> = targets.into_iter().filter(|target| !asked.interactive || confirmed(target)).collect();
    end(&mut quick, &asked, &targets)
}

/// A job to act on.
struct Target {
    jobs: JobRef,
    /// As messages name it.
    id: String,
    /// What is known of it, where it was looked up.
    known: Option<(u32, String, String)>,
}

fn shown(job: &Selector) -> String {
    match &job.tasks {
        None => job.job.to_string(),
        Some(tasks) if tasks.len() == 1 => format!("{}_{}", job.job, tasks.first().unwrap_or_default()),
        Some(tasks) => format!("{}_[{}]", job.job, gpun_compat::array::show(tasks)),
    }
}

/// Jobs that are meant: those named, without a question to the controller; or those that the filters let through.
fn targets(quick: &mut Quick, asked: &Options) -> Result<Vec<Target>, u8> {
    if !asked.has_filter() && !asked.interactive {
        let named = asked.jobs.iter();
        return Ok(named.map(|job| Target { jobs: job.reference(), id: shown(job), known: None }).collect());
    }
    let refs: Vec<JobRef> = asked.jobs.iter().map(Selector::reference).collect();
    let request = pb::ListJobsRequest {
        jobs: refs.iter().map(gpun_proto::encode).collect(),
        users: asked.user.iter().cloned().collect(),
        names: asked.names.clone(),
        accounts: asked.accounts.clone(),
        states: asked.states.iter().filter_map(|name| base_state(*name)).map(controller::state_number).collect(),
        nodes: asked.nodes.clone(),
        mine: asked.me,
        ..Default::default()
    };
    let found =
        controller::list_jobs(quick, &request).map_err(|error| slurm::failed("slurm_load_jobs error: ", &error))?;
    if let Some(user) = found.unknown_users.first() {
        complain(&format!("scancel: error: Invalid user name: {user}"));
        return Err(1);
    }
    let wanted = |view: &&JobView| {
        let spec = &view.job.spec;
        // Jobs that named no partition are in the default one, which the view knows.
        (asked.partitions.is_empty() || asked.partitions.iter().any(|name| view.partitions.contains(name)))
            && (asked.qos.is_empty() || asked.qos.iter().any(|qos| qos == spec.qos.as_deref().unwrap_or(DEFAULT_QOS)))
            && asked.wckey.as_ref().is_none_or(|key| spec.wckey.as_ref() == Some(key))
            && !view.job.state.is_final()
    };
    let targets: Vec<Target> = found.jobs.iter().filter(wanted).map(|view| target(view, &refs)).collect();
    if targets.is_empty() && asked.verbose > 0 {
        complain(&format!("scancel: error: No active jobs match ALL job filters, including: {}", filters(asked)));
    }
    Ok(targets)
}

/// The controller's request can hold base states only, and scancel takes no others.
fn base_state(name: job_state::Name) -> Option<JobState> {
    [JobState::Pending, JobState::Running, JobState::Suspended]
        .into_iter()
        .find(|state| job_state::base(*state) == name)
}

fn target(view: &JobView, refs: &[JobRef]) -> Target {
    let job = &view.job;
    let jobs = match &job.array {
        None => JobRef { job: job.id, tasks: None, component: None },
        Some(ArrayRole::Task { array, task }) => {
            JobRef { job: *array, tasks: Some([*task].into_iter().collect()), component: None }
        }
        // Of the tasks that still wait in one record only those that were named, if any were.
        Some(ArrayRole::Waiting { tasks }) => {
            let named: Vec<&JobRef> = refs.iter().filter(|one| one.job == job.id).collect();
            let tasks = if named.iter().all(|one| one.tasks.is_some()) && !named.is_empty() {
                let is_meant =
                    |task: &u32| named.iter().any(|one| one.tasks.as_ref().is_some_and(|some| some.contains(*task)));
                tasks.iter().filter(is_meant).collect()
            } else {
                tasks.clone()
            };
            JobRef { job: job.id, tasks: Some(tasks), component: None }
        }
    };
    let partition = view.partitions.first().cloned().unwrap_or_default();
    Target { jobs, id: shown_id(job), known: Some((job.id.0, job.spec.name.clone(), partition)) }
}

fn filters(asked: &Options) -> String {
    let mut out = String::new();
    let mut add =
        |name: &str, values: &[String]| values.iter().for_each(|value| out.push_str(&format!("{name}={value} ")));
    add("account", &asked.accounts);
    add("job_name", &asked.names);
    add("partition", &asked.partitions);
    add("qos", &asked.qos);
    add("state", &asked.states.iter().map(|state| state.long.to_owned()).collect::<Vec<_>>());
    add("user_name", &asked.user.iter().cloned().collect::<Vec<_>>());
    add("wckey", &asked.wckey.iter().cloned().collect::<Vec<_>>());
    add("nodelist", &asked.nodes);
    out
}

/// Asks before a job, on standard output, as Slurm does.
fn confirmed(target: &Target) -> bool {
    let (_, name, partition) = target.known.clone().unwrap_or_default();
    let mut stdout = io::stdout().lock();
    let mut answer = String::new();
    loop {
        let asked = write!(stdout, "Cancel job_id={} name={name} partition={partition} [y/n]? ", target.id);
        if asked.and_then(|()| stdout.flush()).is_err() {
            return false;
        }
        answer.clear();
        match io::stdin().lock().read_line(&mut answer) {
            Ok(0) | Err(_) => return false,
            Ok(_) if answer.starts_with(['y', 'Y']) => return true,
            Ok(_) if answer.starts_with(['n', 'N']) => return false,
            Ok(_) => {}
        }
    }
}

/// What is to be done to a job.
fn act(asked: &Options, jobs: JobRef) -> Act {
    let kills = asked.signal.is_none_or(|signal| signal == SIGKILL);
    match (asked.batch, asked.full) {
        (true, _) => Act::Signal { jobs, signal: asked.signal.unwrap_or(SIGKILL), scope: SignalScope::Batch },
        (false, true) if !kills => {
            Act::Signal { jobs, signal: asked.signal.unwrap_or(SIGKILL), scope: SignalScope::All }
        }
        _ if kills => Act::Cancel(jobs),
        _ => Act::Signal { jobs, signal: asked.signal.unwrap_or(SIGKILL), scope: SignalScope::Steps },
    }
}

fn end(quick: &mut Quick, asked: &Options, targets: &[Target]) -> u8 {
    let acts: Vec<pb::ActRequest> = targets
        .iter()
        .map(|target| pb::ActRequest { act: gpun_proto::encode(&act(asked, target.jobs.clone())) })
        .collect();
    if asked.verbose > 0 {
        for target in targets {
            complain(&match (asked.batch, asked.signal) {
                (true, signal) => format!("scancel: Signal {} to batch job {}", signal.unwrap_or(SIGKILL), target.id),
                (false, Some(signal)) if signal != SIGKILL => format!("scancel: Signal {signal} to job {}", target.id),
                _ => format!("scancel: Terminating job {}", target.id),
            });
        }
    }
    let mut status = 0;
    let done = quick.acts(&acts, |nth, answer| {
        let Some(target) = targets.get(nth) else { return };
        if let Some((text, code)) = wrong(asked, target, answer) {
            complain(&text);
            status = code;
        }
    });
    match done {
        Ok(()) => status,
        Err(error) => slurm::failed("scancel: error: ", &error),
    }
}

/// What is said of an answer, and the exit status for it. A job that is over already is what was wished for.
fn wrong(asked: &Options, target: &Target, answer: Result<pb::ActReply, CallError>) -> Option<(String, u8)> {
    let prefix = format!("scancel: error: Kill job error on job id {}: ", target.id);
    let outcome = answer
        .and_then(|reply| gpun_proto::decode(&reply.outcome).map_err(|error| CallError::Protocol(error.to_string())));
    match outcome {
        Ok(Outcome::Refused(why)) => {
            let ends =
                matches!(act(asked, target.jobs.clone()), Act::Cancel(_)) || (asked.batch && asked.signal.is_none());
            let harmless = ends && matches!(why, Refusal::UnknownJob | Refusal::AlreadyDone);
            if harmless && asked.verbose == 0 {
                return None;
            }
            let (text, code) = match why {
                _ if harmless => (error::of(&why, error::Doing::Other), 0),
                Refusal::AccessDenied => (error::of(&why, error::Doing::Other), ACCESS_STATUS),
                Refusal::JobPending => ("Job can not be altered now, try again later".to_owned(), TRY_AGAIN_STATUS),
                // As Slurm, which looks for the job among those that run.
                Refusal::AlreadyDone => (error::of(&Refusal::UnknownJob, error::Doing::Other), 1),
                _ => (error::of(&why, error::Doing::Other), 1),
            };
            Some((format!("{prefix}{text}"), code))
        }
        Ok(_) => None,
        Err(error) => Some((format!("{prefix}{}", controller::words(&error)), 1)),
    }
}

/// Exit status for "Access/permission denied": the last eight bits of Slurm's error number 2002.
const ACCESS_STATUS: u8 = 210;
/// Exit status for "Job can not be altered now": of 2020.
const TRY_AGAIN_STATUS: u8 = 228;
