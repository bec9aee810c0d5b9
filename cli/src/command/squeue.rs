//! `squeue`: lists jobs.

use std::{thread, time::Duration};

use gpun_compat::{
    format::squeue::{Caller, Listing, list},
    moment,
    names::job_state::{self, Filter},
    option::{
        squeue::{COMMAND, Options, USAGE, parse},
        submission::Show,
    },
};
use gpun_proto::{
    core::job::JobState,
    pb,
    quick::{CallError, Quick},
};
use jiff::tz::TimeZone;

use crate::{
    controller,
    display::Display,
    out::{Out, complain},
    slurm,
};

/// Runs the command; gives the exit status.
pub fn run(args: &[String]) -> u8 {
    let zone = TimeZone::system();
    let mut asked = match parse(args, &slurm::variable, &slurm::context(&zone)) {
        Ok(asked) => asked,
        Err(mut error) => {
            // The usage behind a stray word goes to standard output.
            let mut out = Out::default();
            if let Some(said) = error.text.strip_suffix(USAGE) {
                error.text = said.to_owned();
                out.text(USAGE);
            }
            return out.finish(slurm::refuse(&error));
        }
    };
    let mut out = Out::default();
    if asked.show == Some(Show::Usage) {
        out.text(USAGE);
        return out.finish(0);
    }
    if let Some(show) = asked.show {
        return slurm::show(show, &COMMAND, "[OPTIONS...]", "");
    }
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
    if let Some(status) = unknown_node(&mut quick, asked) {
        return status;
    }
    match show(&mut quick, asked, users, zone, out) {
        Ok(status) => status,
        Err(error) => slurm::failed("slurm_load_jobs error: ", &error),
    }
}

/// Asks for what may be shown, and shows it. The controller leaves out what makes the answer long; the rest is chosen from
/// its answer, record by record as they come.
fn show(quick: &mut Quick, asked: &Options, users: &[String], zone: &TimeZone, out: &mut Out) -> Result<u8, CallError> {
    // The usual columns need nothing of the cluster's settings, and to ask for them is a round trip.
    let is_usual = asked.format.is_none() && asked.long_format.is_none() && asked.clusters.is_none();
    let cluster = if is_usual { None } else { Some(controller::show_cluster(quick)?) };
    let caller = Caller { uid: nix::unistd::Uid::effective().as_raw(), users: &[] };
    let mut listing = Listing::new(asked, caller);
    let mut display = None;
    let display_of = |now_ms| match &cluster {
        Some(cluster) => Display::new(cluster, now_ms, zone),
        None => Display::plain(now_ms, zone),
    };
    let mut found = 0;
    let mut unknown_users = Vec::new();
    if asked.jobs.as_ref().is_none_or(|named| !named.is_empty()) {
        controller::each_jobs(quick, &request(asked, users), |chunk| {
            let display = display.get_or_insert_with(|| display_of(chunk.now_ms));
            display.with(asked.noconvert, |shown| chunk.jobs.iter().for_each(|job| listing.add(job, shown)));
            found += chunk.jobs.len();
            unknown_users.extend(chunk.unknown_users);
        })?;
    }
    for name in &unknown_users {
        complain(&format!("squeue: error: Invalid user: {name}\n"));
    }
    // One id that nobody knows is an error; among several, the others are what was asked for.
    if found == 0 && asked.jobs.as_ref().is_some_and(|named| named.len() == 1) {
        complain("slurm_load_jobs error: Invalid job id specified");
        return Ok(1);
    }
    let display = display.unwrap_or_else(|| display_of(cluster.as_ref().map_or(0, |cluster| cluster.now.0)));
    if asked.clusters.is_some() {
        out.line(&format!("CLUSTER: {}", display.cluster()));
    }
    let report = display.with(asked.noconvert, |shown| listing.finish(shown));
    if !report.stderr.is_empty() {
        complain(report.stderr.trim_end_matches('\n'));
    }
    out.text(&report.stdout);
    Ok(u8::try_from(report.status).unwrap_or(1))
}

fn request(asked: &Options, users: &[String]) -> pb::ListJobsRequest {
    let named = asked.jobs.as_deref().unwrap_or_default();
    let (states, completing, all) = match &asked.states {
        Filter::Active => (Vec::new(), false, false),
        Filter::All => (Vec::new(), false, true),
        Filter::Only(names) => states(names),
    };
    // Whether a single job exists decides between an error and an empty list: it is looked for in every state.
    let single = named.len() == 1;
    pb::ListJobsRequest {
        jobs: named.iter().map(|job| gpun_proto::encode(&job.reference())).collect(),
        users: users.to_vec(),
        names: if single { Vec::new() } else { asked.names.clone() },
        accounts: if single { Vec::new() } else { asked.accounts.clone() },
        states,
        completing,
        all_states: all || single,
        mine: asked.me,
        // A partition or a job that is named is shown.
        no_hidden: !asked.all && asked.partitions.is_empty() && named.is_empty(),
        ..Default::default()
    }
}

/// Base states, completing, and whether other names make it necessary to look at all.
fn states(names: &[job_state::Name]) -> (Vec<u32>, bool, bool) {
    const BASE: [JobState; 12] = [
        JobState::Pending,
        JobState::Running,
        JobState::Suspended,
        JobState::Completed,
        JobState::Cancelled,
        JobState::Failed,
        JobState::Timeout,
        JobState::NodeFail,
        JobState::Preempted,
        JobState::BootFail,
        JobState::Deadline,
        JobState::OutOfMemory,
    ];
    let base = |name: &job_state::Name| BASE.into_iter().find(|state| job_state::base(*state) == *name);
    let numbers: Vec<u32> = names.iter().filter_map(base).map(controller::state_number).collect();
    let others = names.iter().any(|name| base(name).is_none() && name.compact != "CG");
    // A job that is put back and still cleaned up is both pending and completing.
    let completing = names.iter().any(|name| name.compact == "CG");
    (numbers, completing, others || completing)
}

/// A node that does not exist is an error.
fn unknown_node(quick: &mut Quick, asked: &Options) -> Option<u8> {
    if asked.nodes.is_empty() {
        return None;
    }
    let (known, _) = match controller::list_nodes(quick, asked.nodes.clone()) {
        Ok(known) => known,
        Err(error) => return Some(slurm::failed("slurm_load_node error: ", &error)),
    };
    let missing = asked.nodes.iter().find(|name| !known.iter().any(|view| view.node.name == **name))?;
    complain(&format!("squeue: error: Invalid node name {missing}"));
    Some(1)
}

#[cfg(test)]
mod tests {
    use gpun_compat::jobid;

    use super::*;

    #[test]
    fn the_controller_is_asked_for_little() {
        let active = request(&Options::default(), &[]);
        assert_eq!((active.all_states, active.states.len(), active.completing), (false, 0, false));
        let parse = |text: &str| Options { states: Filter::parse(text).unwrap(), ..Options::default() };
        let rows = [
            ("all", (true, 0, false)),
            ("PD,R", (false, 2, false)),
            ("CG", (true, 0, true)),
            ("REQUEUE_HOLD", (true, 0, false)),
        ];
        for (text, right) in rows {
            let got = request(&parse(text), &[]);
            assert_eq!((got.all_states, got.states.len(), got.completing), right, "{text}");
        }
        let jobs = |text: &str| Options { jobs: jobid::split(text).map(jobid::parse).collect(), ..parse("R") };
        assert!(request(&jobs("17"), &[]).all_states && !request(&jobs("17,18"), &[]).all_states);
    }
}
