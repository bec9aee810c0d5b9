//! `squeue`: lists jobs.

use std::{thread, time::Duration};

use gpun_compat::{
    format::squeue::{Caller, list, report},
    moment,
    names::job_state::Filter,
    option::squeue::{COMMAND, Options, parse},
};
use gpun_proto::{
    pb,
    quick::{CallError, Quick},
};
use jiff::tz::TimeZone;

use crate::{
    controller::{self, Jobs},
    display::Display,
    out::{Out, complain},
    slurm,
};

/// Runs the command; gives the exit status.
pub fn run(args: &[String]) -> u8 {
    let zone = TimeZone::system();
    let mut asked = match parse(args, &slurm::variable, &slurm::context(&zone)) {
        Ok(asked) => asked,
        Err(error) => return slurm::refuse(&error),
    };
    if let Some(show) = asked.show {
        return slurm::show(show, &COMMAND, "[OPTIONS...]", "");
    }
    let mut out = Out::default();
    if let Some(what) = asked.list {
        out.text(&list(what));
        return out.finish(0);
    }
    let users = std::mem::take(&mut asked.users);
    loop {
        if asked.iterate_s.is_some() {
            out.line(&moment::headline(slurm::now_s(), &zone));
        }
        let status = once(&asked, &users, &zone, &mut out);
        let Some(pause_s) = asked.iterate_s.filter(|_| status == 0) else { return out.finish(status) };
        out.line("");
        out.flush();
        if out.is_gone() {
            return out.finish(status);
        }
        thread::sleep(Duration::from_secs(u64::from(pause_s)));
    }
}

fn once(asked: &Options, users: &[String], zone: &TimeZone, out: &mut Out) -> u8 {
    let mut quick = match controller::connect() {
        Ok(quick) => quick,
        Err(error) => return slurm::failed("slurm_load_jobs error: ", &error),
    };
    if let Err(text) = slurm::check_clusters(&mut quick, COMMAND.program, asked.clusters.as_deref()) {
        complain(&text);
        return 1;
    }
    let (jobs, display) = match load(&mut quick, asked, users, zone) {
        Ok(loaded) => loaded,
        Err(error) => return slurm::failed("slurm_load_jobs error: ", &error),
    };
    for name in &jobs.unknown_users {
        complain(&format!("squeue: error: Invalid user: {name}\n"));
    }
    // One id that nobody knows is an error; among several, the others are what was asked for.
    if jobs.jobs.is_empty() && asked.jobs.as_ref().is_some_and(|named| named.len() == 1) {
        complain("slurm_load_jobs error: Invalid job id specified");
        return 1;
    }
    if asked.clusters.is_some() {
        out.line(&format!("CLUSTER: {}", display.cluster()));
    }
    let caller = Caller { uid: nix::unistd::Uid::effective().as_raw(), users: &[] };
    let report = display.with(asked.noconvert, |shown| report(&jobs.jobs, asked, caller, shown));
    if !report.stderr.is_empty() {
        complain(report.stderr.trim_end_matches('\n'));
    }
    out.text(&report.stdout);
    u8::try_from(report.status).unwrap_or(1)
}

/// Asks for what may be shown: the controller leaves out what is over, other users' jobs and jobs that were not named.
fn load(quick: &mut Quick, asked: &Options, users: &[String], zone: &TimeZone) -> Result<(Jobs, Display), CallError> {
    let cluster = controller::show_cluster(quick)?;
    if asked.jobs.as_ref().is_some_and(Vec::is_empty) {
        let none = Jobs { now_ms: cluster.now.0, ..Jobs::default() };
        return Ok((none, Display::new(&cluster, cluster.now.0, zone)));
    }
    let named = asked.jobs.as_deref().unwrap_or_default();
    let request = pb::ListJobsRequest {
        jobs: named.iter().map(|job| gpun_proto::encode(&job.reference())).collect(),
        users: users.to_vec(),
        mine: asked.me,
        // Named jobs are asked for in any state, so that one that has ended is told from one that never was.
        all_states: !named.is_empty() || !matches!(asked.states, Filter::Active),
        ..Default::default()
    };
    let jobs = controller::list_jobs(quick, &request)?;
    let display = Display::new(&cluster, jobs.now_ms, zone);
    Ok((jobs, display))
}
