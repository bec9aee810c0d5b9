//! `sacct`: jobs and their steps, those that ended too.

use gpun_compat::{
    format::{
        sacct::{Listing, blob_header, list},
        sacct_json::{Document, Meta},
    },
    moment,
    names::job_state::{self, Name},
    option::{
        sacct::{COMMAND, Options, USAGE, Window, parse},
        submission::Show,
    },
};
use gpun_proto::{
    core::{history::Record, job::JobState},
    pb,
    quick::{CallError, Quick},
};
use jiff::tz::TimeZone;

use crate::{
    command::help::SLURM_SPOKEN,
    controller,
    display::Display,
    out::{Out, complain},
    people::People,
    slurm,
};

/// Runs the command; gives the exit status.
pub fn run(args: &[String]) -> u8 {
    let zone = TimeZone::system();
    let asked = match parse(args, &slurm::variable, &slurm::context(&zone)) {
        Ok(asked) => asked,
        Err(error) => return slurm::refuse(&error),
    };
    let mut out = Out::default();
    if asked.show == Some(Show::Usage) {
        out.text(USAGE);
        return out.finish(0);
    }
    if let Some(show) = asked.show {
        return slurm::show(show, &COMMAND, "[OPTIONS...]", "");
    }
    if let Some(which) = asked.list {
        out.text(&list(which).stdout);
        return out.finish(0);
    }
    if let Some(wrong) = refused(&asked) {
        complain(wrong);
        return 1;
    }
    let status = answer(&asked, &zone, &mut out);
    out.finish(status)
}

fn refused(asked: &Options) -> Option<&'static str> {
    let wants_blob = asked.batch_script || asked.env_vars;
    if asked.completion {
        return Some("Slurm job completion is disabled");
    }
    match (&asked.jobs, asked.batch_script) {
        (None, true) => {
            Some("sacct: fatal: When requesting job scripts you must also request specific jobs with the '-j' option.")
        }
        (None, false) if wants_blob => Some(
            "sacct: fatal: When requesting job environment you must also request specific jobs with the '-j' option.",
        ),
        _ => None,
    }
}

fn answer(asked: &Options, zone: &TimeZone, out: &mut Out) -> u8 {
    let now_s = slurm::now_s();
    let midnight_s = moment::parse_past("today", now_s, zone).unwrap_or(now_s);
    let window = match asked.window(now_s, midnight_s) {
        Ok(window) => window,
        Err(Window { from_s, until_s }) => {
            let show = |at_s| moment::show(at_s, now_s, zone, &moment::Style::Standard);
            let (from, until) = (show(from_s), show(until_s));
            complain(&format!("sacct: error: Start time ({from}) requested is after end time ({until})."));
            return 1;
        }
    };
    let mut listing = match Listing::new(asked, window) {
        Ok(listing) => listing,
        Err(wrong) => {
            complain(&format!("sacct: error: {wrong}"));
            return 1;
        }
    };
    let mut quick = match controller::connect() {
        Ok(quick) => quick,
        Err(error) => return slurm::failed("sacct: error: ", &error),
    };
    match show(&mut quick, asked, window, &mut listing, zone, out) {
        Ok(status) => status,
        Err(error) => slurm::failed("sacct: error: ", &error),
    }
}

fn show(
    quick: &mut Quick,
    asked: &Options,
    window: Option<Window>,
    listing: &mut Listing<'_>,
    zone: &TimeZone,
    out: &mut Out,
) -> Result<u8, CallError> {
    let cluster = controller::show_cluster(quick)?;
    let display = Display::new(&cluster, cluster.now.0, zone);
    let own = &cluster.settings.cluster_name;
    let is_own = |name: &str| name.eq_ignore_ascii_case("all") || name == own;
    let elsewhere = asked.clusters.as_deref().is_some_and(|names| !names.split(',').any(is_own));
    let mut document = asked.json.then(Document::default);
    let wants_blob = asked.batch_script || asked.env_vars;
    let mut blobs: Vec<(u32, String)> = Vec::new();
    let mut unknown = Vec::new();
    let nothing = asked.jobs.as_ref().is_some_and(Vec::is_empty) && wants_blob;
    if !elsewhere && !nothing {
        controller::each_records(quick, &request(asked, window), |chunk| {
            unknown.extend(chunk.unknown_users.iter().map(|name| format!("Invalid user id: {name}")));
            unknown.extend(chunk.unknown_groups.iter().map(|name| format!("Invalid group id: {name}")));
            display.with(asked.noconvert, |shown| {
                for record in &chunk.records {
                    if wants_blob {
                        blobs.push((record.view.job.id.0, id_of(record, shown)));
                    } else if let Some(document) = &mut document {
                        document.add(record, shown);
                    } else {
                        listing.add(record, shown);
                    }
                }
            });
            if unknown.is_empty() && !wants_blob && !asked.json {
                out.text(&listing.take());
            }
        })?;
    }
    if let Some(wrong) = unknown.first() {
        complain(&format!("sacct: error: {wrong}"));
        return Ok(1);
    }
    if wants_blob {
        return print_blobs(quick, &blobs, asked.env_vars, out);
    }
    match document {
        Some(document) => out.text(&document.finish(&meta(own))),
        None => out.text(&listing.take()),
    }
    Ok(0)
}

/// Who asks what.
fn meta(cluster: &str) -> Meta {
    let command = std::env::args().enumerate().map(|(at, word)| if at == 0 { "sacct".to_owned() } else { word });
    let mut people = People::default();
    Meta {
        command: command.collect(),
        user: people.name(nix::unistd::Uid::effective().as_raw()),
        group: nix::unistd::Gid::effective().to_string(),
        cluster: cluster.to_owned(),
        version: SLURM_SPOKEN.to_owned(),
    }
}

fn id_of(record: &Record, shown: &gpun_compat::format::Shown<'_>) -> String {
    gpun_compat::format::job::JobRow::new(&record.view).id(shown)
}

/// Prints scripts or environments, one job after the other.
fn print_blobs(quick: &mut Quick, jobs: &[(u32, String)], environment: bool, out: &mut Out) -> Result<u8, CallError> {
    for (at, (job_id, shown)) in jobs.iter().enumerate() {
        let reply = quick.show_script(&pb::ShowScriptRequest { job_id: *job_id, environment, ended: true })?;
        if at > 0 {
            out.line("");
        }
        out.text(&blob_header(shown, environment));
        if environment {
            let variables = reply.script.split(|byte| *byte == 0).filter(|one| !one.is_empty());
            variables.for_each(|one| {
                out.bytes(one);
                out.bytes(b"\n");
            });
        } else {
            out.bytes(&reply.script);
            if !reply.script.ends_with(b"\n") {
                out.line("");
            }
        }
    }
    Ok(0)
}

fn request(asked: &Options, window: Option<Window>) -> pb::ListRecordsRequest {
    let ms = |at_s: i64| u64::try_from(at_s).unwrap_or(0).saturating_mul(1000);
    let jobs = asked.jobs.as_deref().unwrap_or_default();
    let (states, requeued) = states(&asked.states);
    let (nodes_min, nodes_max) = asked.nodes_range.unwrap_or_default();
    let (cpus_min, cpus_max) = asked.cpus_range.unwrap_or_default();
    let limit_min = asked.limit_min.unwrap_or(0);
    // The greatest limit alone says nothing; the least alone means just that one.
    let limit_max = if limit_min > 0 { asked.limit_max.unwrap_or(limit_min) } else { 0 };
    pb::ListRecordsRequest {
        jobs: jobs.iter().map(|job| gpun_proto::encode(&job.reference())).collect(),
        users: users(asked),
        groups: asked.groups.clone(),
        accounts: asked.accounts.clone(),
        partitions: asked.partitions.clone(),
        names: asked.names.clone(),
        qos: asked.qos.clone(),
        nodes: asked.nodes.clone(),
        states,
        requeued,
        from_ms: window.map_or(0, |window| ms(window.from_s)),
        until_ms: window.map_or(0, |window| ms(window.until_s)),
        duplicates: asked.duplicates,
        nodes_min,
        nodes_max,
        cpus_min,
        cpus_max,
        limit_min,
        limit_max,
    }
}

/// Whose jobs: the caller's own, where nobody and no job is named and the caller is not root.
fn users(asked: &Options) -> Vec<String> {
    let me = nix::unistd::Uid::effective();
    if !asked.users.is_empty() {
        return if asked.all_users { Vec::new() } else { asked.users.clone() };
    }
    let everyone = asked.all_users || asked.jobs.is_some() || me.is_root();
    if everyone { Vec::new() } else { vec![me.to_string()] }
}

/// Base states, and whether attempts that were put back are asked for.
fn states(names: &[Name]) -> (Vec<u32>, bool) {
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
    let base = |name: &Name| BASE.into_iter().find(|state| job_state::base(*state) == *name);
    let numbers = names.iter().filter_map(base).map(controller::state_number).collect();
    (numbers, names.iter().any(|name| name.compact == "RQ"))
}
