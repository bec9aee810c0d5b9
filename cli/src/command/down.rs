//! `gpun down`: stops an embedded cluster. What was accepted stays in the queue.

use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use gpun_proto::{
    core::{
        Outcome,
        command::{Act, JobRef, NodeChange},
        job::JobState,
        view::JobView,
    },
    pb,
    quick::Quick,
};
use serde_json::json;

use crate::{
    args::{Args, Opt, Usage},
    cluster,
    command::up,
    controller,
    daemon::{self, Daemon},
    out::{Out, complain},
};

/// Of `gpun down`.
pub const USAGE: Usage = Usage {
    command: "gpun down",
    operands: "",
    count: (0, 0),
    about: "Stops the cluster on this machine; nothing that was accepted is lost.\n\
            Running jobs are put back into the queue first (those with --no-requeue are cancelled), so that they start\n\
            again after the next `gpun up`. With --keep-jobs they run on without their daemons, and `gpun up` finds them\n\
            again.",
    options: &[
        Opt { name: "--dir", value: Some("DIR"), help: "the cluster's folder (GPUN_DIR, else /var/lib/gpunion)" },
        Opt { name: "--keep-jobs", value: None, help: "let running jobs go on" },
    ],
    examples: &[
        ("gpun down", "stop it"),
        ("gpun down --keep-jobs && gpun up", "restart the daemons; jobs notice nothing"),
    ],
};

/// Why nodes are drained while the cluster stops; `gpun up` lends nodes with this reason again.
pub const REASON: &str = "gpun down";

/// How long running jobs may take to end: KillWait and more.
const JOBS_WAIT: Duration = Duration::from_secs(90);
/// How long a daemon may take to end.
const DAEMON_WAIT: Duration = Duration::from_secs(20);
/// How long is waited for a controller that is there but does not answer.
const ANSWER_WAIT: Duration = Duration::from_secs(10);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// Stops the cluster.
///
/// # Errors
/// Jobs or daemons do not end in time; the message says what to do.
pub fn run(args: &Args, out: &mut Out) -> anyhow::Result<u8> {
    let dir = up::dir(args)?;
    if !dir.exists() {
        bail!("there is no cluster in {}", dir.display());
    }
    let _lock = daemon::lock(&dir)?;
    let running = Daemon::controller(&dir).pid().is_some();
    let mut requeued = 0;
    if running && !args.has("--keep-jobs") {
        requeued = clear(&dir).context("running jobs can't be put back; `gpun down --keep-jobs` stops without that")?;
    }
    let nodes = node_daemons(&dir);
    let asked: Vec<_> = nodes.iter().filter_map(|daemon| Some((daemon, daemon.ask_to_end()?))).collect();
    for (daemon, pid) in &asked {
        daemon.wait_end(*pid, DAEMON_WAIT)?;
    }
    let controller = Daemon::controller(&dir);
    let ending = controller.ask_to_end();
    if let Some(pid) = ending {
        controller.wait_end(pid, DAEMON_WAIT)?;
    }
    let stopped = asked.len() + usize::from(ending.is_some());
    if args.has("--json") {
        out.line(&json!({ "dir": dir, "stopped": stopped, "requeued": requeued }).to_string());
    } else if stopped == 0 {
        out.line(&format!("nothing was running in {}", dir.display()));
    } else {
        let jobs = if requeued == 1 { "1 running job".to_owned() } else { format!("{requeued} running jobs") };
        let back = if requeued > 0 { format!("; {jobs} put back into the queue") } else { String::new() };
        out.line(&format!("gpunion in {} is down{back}", dir.display()));
    }
    Ok(0)
}

/// Daemons of nodes, running or not, by their pid files.
fn node_daemons(dir: &Path) -> Vec<Daemon> {
    let Ok(files) = fs::read_dir(dir.join("run")) else { return Vec::new() };
    let mut names: Vec<String> = files
        .flatten()
        .filter_map(|file| file.file_name().into_string().ok())
        .filter_map(|name| Some(name.strip_prefix("gpund-")?.strip_suffix(".pid")?.to_owned()))
        .collect();
    names.sort();
    names.iter().map(|name| Daemon::node(dir, name)).collect()
}

/// Drains the nodes, puts running jobs back, and waits until nothing is left on the nodes; tells how many jobs.
fn clear(dir: &Path) -> anyhow::Result<usize> {
    let mut quick = Quick::connect(&cluster::socket(dir))?;
    quick.set_timeout(Some(ANSWER_WAIT))?;
    let (nodes, _) = controller::list_nodes(&mut quick, Vec::new())?;
    for view in nodes.iter().filter(|view| view.node.drain.is_none()) {
        let change = NodeChange::Drain { reason: REASON.to_owned() };
        let drained = controller::act(&mut quick, &Act::UpdateNode { name: view.node.name.clone(), change })?;
        if let Outcome::Refused(why) = drained {
            bail!("node {} can't be drained: {why}", view.node.name);
        }
    }
    // After the drain: nothing new starts any more.
    let placed = holding(&mut quick)?;
    for view in &placed {
        end(&mut quick, view)?;
    }
    let started = Instant::now();
    loop {
        let left = holding(&mut quick)?;
        if left.is_empty() {
            return Ok(placed.iter().filter(|view| is_running(view) && view.job.may_requeue()).count());
        }
        if started.elapsed() > JOBS_WAIT {
            let ids: Vec<String> = left.iter().map(|view| view.job.id.to_string()).collect();
            bail!("jobs {} do not end", ids.join(", "));
        }
        thread::sleep(PAUSE);
    }
}

fn is_running(view: &JobView) -> bool {
    matches!(view.job.state, JobState::Running | JobState::Suspended)
}

/// Jobs that hold something on a node.
fn holding(quick: &mut Quick) -> anyhow::Result<Vec<JobView>> {
    let states = [JobState::Running, JobState::Suspended].map(controller::state_number).to_vec();
    let request = pb::ListJobsRequest { states, completing: true, ..Default::default() };
    Ok(controller::list_jobs(quick, &request)?.jobs)
}

fn end(quick: &mut Quick, view: &JobView) -> anyhow::Result<()> {
    if !is_running(view) {
        return Ok(());
    }
    let jobs = JobRef {
        job: view.job.id,
        tasks: view.job.array_task().map(|task| [task].into_iter().collect()),
        component: None,
    };
    let jobs = match view.job.array_id() {
        Some(array) => JobRef { job: array, ..jobs },
        None => jobs,
    };
    if !view.job.may_requeue() {
        complain(&format!("gpun down: job {} may not be requeued and is cancelled", view.job.id));
        controller::act(quick, &Act::Cancel(jobs))?;
        return Ok(());
    }
    // A refusal means that the job ended by itself meanwhile.
    controller::act(quick, &Act::Requeue { jobs, hold: false })?;
    Ok(())
}
