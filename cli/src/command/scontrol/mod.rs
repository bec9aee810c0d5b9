//! `scontrol`: shows and changes jobs, nodes and partitions.

mod act;
mod admin;
mod hosts;
mod reservation;
mod show;
mod top;
mod words;

use std::{
    fs,
    io::{self, BufRead, IsTerminal, Write},
    os::unix::fs::OpenOptionsExt,
    thread,
    time::Duration,
};

use gpun_compat::{
    jobid,
    names::error,
    option::scontrol::{self, COMMAND, Options, message},
};
use gpun_proto::{core::job::JobState, pb};
use jiff::tz::TimeZone;

use crate::{
    command::help::slurm_version,
    controller,
    out::{Out, complain},
    slurm,
};

/// Between two looks of `wait_job`.
const WAIT_PAUSE: Duration = Duration::from_millis(100);

/// Runs the command; gives the exit status.
pub fn run(args: &[String]) -> u8 {
    let zone = TimeZone::UTC;
    let asked = match scontrol::parse(args, &slurm::variable, &slurm::context(&zone)) {
        Ok(asked) => asked,
        Err(error) => return slurm::refuse(&error),
    };
    if let Some(show) = asked.show {
        return slurm::show(show, &COMMAND, words::SYNOPSIS, "<command>");
    }
    let mut out = Out::default();
    let status = match asked.words.as_slice() {
        [] => converse(&asked, &mut out),
        words => one(&asked, words, &mut out),
    };
    out.finish(status)
}

/// Says what is wrong; the status of every mistake is 1.
fn wrong(text: &str) -> u8 {
    complain(text.strip_suffix('\n').unwrap_or(text));
    1
}

/// Reads commands from standard input, as `scontrol` without a command does.
fn converse(asked: &Options, out: &mut Out) -> u8 {
    let (mut status, mut last) = (0, String::new());
    let prompts = io::stdin().is_terminal();
    loop {
        if prompts {
            out.text("scontrol: ");
            out.flush();
        }
        let mut line = String::new();
        match io::stdin().lock().read_line(&mut line) {
            Ok(0) | Err(_) => return status,
            Ok(_) => {}
        }
        if !prompts {
            out.text(&format!("scontrol: {}", if line.ends_with('\n') { line.clone() } else { format!("{line}\n") }));
        }
        if line.trim() == "!!" {
            line.clone_from(&last);
        }
        last.clone_from(&line);
        let words = words::split(&line);
        match words.first().and_then(|word| scontrol::keyword(word)) {
            Some("exit" | "quit") => return status,
            _ if words.is_empty() => {}
            _ => status = status.max(one(asked, &words, out)),
        }
        out.flush();
        if out.is_gone() {
            return status;
        }
    }
}

/// One command.
fn one(asked: &Options, words: &[String], out: &mut Out) -> u8 {
    let Some((first, rest)) = words.split_first() else { return 0 };
    let Some(keyword) = scontrol::keyword(first) else { return wrong(&message::invalid_keyword(first)) };
    match (keyword, rest) {
        ("exit" | "quit" | "all" | "details" | "hide" | "oneliner" | "quiet" | "verbose" | "cluster", _) => 0,
        ("help", _) => {
            out.text(&words::help());
            0
        }
        ("version", _) => {
            out.line(&slurm_version());
            0
        }
        ("show", [])
        | (
            "hold" | "holdu" | "uhold" | "release" | "requeue" | "requeuehold" | "suspend" | "resume" | "top"
            | "wait_job" | "write" | "update" | "errnumstr",
            [],
        ) => wrong(&message::too_few(keyword)),
        ("show", [entity, names @ ..]) => show::run(asked, entity, names, out),
        ("ping", []) => ping(out),
        ("ping", _) => wrong(&message::too_many("ping")),
        ("hold", jobs) => act::each(act::Kind::Hold { as_user: false }, jobs),
        ("holdu" | "uhold", jobs) => act::each(act::Kind::Hold { as_user: true }, jobs),
        ("release", jobs) => act::each(act::Kind::Release, jobs),
        ("requeue", jobs) => act::each(act::Kind::Requeue { hold: false }, jobs),
        ("requeuehold", jobs) => act::each(act::Kind::Requeue { hold: true }, jobs),
        ("suspend", jobs) => act::each(act::Kind::Suspend, jobs),
        ("resume", jobs) => act::each(act::Kind::Resume, jobs),
        ("top", jobs) => top::run(jobs),
        ("update", changes) => act::update(changes, out),
        ("create" | "delete", words) => reservation::run(keyword, words, out),
        ("write", [what, rest @ ..]) => write_script(what, rest, out),
        ("wait_job", [job]) => wait_job(job),
        ("wait_job", _) => wrong(&message::too_many("wait_job")),
        ("errnumstr", [number]) => match number.parse().map(error::by_number) {
            Ok(Some(text)) => {
                out.line(text);
                0
            }
            Ok(None) => wrong(&format!("{number} is no error number in use")),
            Err(_) => wrong("numeric arguments required for keyword:errnumstr"),
        },
        ("completing", []) => show::completing(out),
        (other, words) if let Some(text) = admin::answer(other, words, is_root()) => wrong(&text),
        (other, _) => wrong(&format!("scontrol: error: `scontrol {other}` comes with a later version of gpunion")),
    }
}

fn is_root() -> bool {
    nix::unistd::Uid::effective().is_root()
}

fn ping(out: &mut Out) -> u8 {
    let answered = controller::connect().and_then(|mut quick| controller::show_cluster(&mut quick));
    match answered {
        Ok(cluster) => {
            out.line(&format!("Slurmctld(primary) at {} is UP", cluster.host));
            0
        }
        Err(error) => {
            let host = crate::command::up::host_name();
            out.text(&format!(
                "Slurmctld(primary) at {host} is DOWN\n*****************************************\n\
                 ** RESTORE SLURMCTLD DAEMON TO SERVICE **\n*****************************************\n"
            ));
            controller::hint(&error);
            1
        }
    }
}

/// `scontrol write batch_script JOB [FILE]`; `-` is standard output.
fn write_script(what: &str, rest: &[String], out: &mut Out) -> u8 {
    let is_script = what.len() >= 2 && "batch_script".starts_with(&what.to_ascii_lowercase());
    let (job, file) = match rest {
        _ if !is_script => return wrong(&format!("invalid write argument:{what}")),
        [] => return wrong(&message::too_few("write")),
        [job] => (job, None),
        [job, file] => (job, Some(file.as_str())),
        _ => return wrong(&message::too_many("write")),
    };
    let failed = |text: &str| {
        complain(&format!("job script retrieval failed: {text}"));
        1
    };
    let Some(selector) = jobid::parse(job) else { return failed("Invalid job id specified") };
    let script = controller::connect()
        .and_then(|mut quick| quick.show_script(&pb::ShowScriptRequest { job_id: selector.job, ..Default::default() }))
        .map(|reply| reply.script);
    let script = match script {
        Ok(script) => script,
        Err(error) => {
            controller::hint(&error);
            return failed(&controller::words(&error));
        }
    };
    let path = file.map_or_else(|| format!("slurm-{}.sh", selector.job), str::to_owned);
    if path == "-" {
        out.bytes(&script);
        return 0;
    }
    // Created anew and for the caller alone: a script may hold what others shall not read.
    let written = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o700).open(&path);
    match written.and_then(|mut file| file.write_all(&script)) {
        Ok(()) => {
            out.line(&format!("batch script for job {} written to {path}", selector.job));
            0
        }
        Err(error) => wrong(&format!("failed to open file `{path}`: {error}")),
    }
}

/// Waits until a job's nodes are its own.
fn wait_job(job: &str) -> u8 {
    let Some(selector) = jobid::parse(job) else { return wrong(&format!("scontrol: error: Invalid job id {job}")) };
    let request = controller::request_jobs([&selector.reference()]);
    let mut quick = match controller::connect() {
        Ok(quick) => quick,
        Err(error) => return slurm::failed("scontrol: error: ", &error),
    };
    loop {
        let found = match controller::list_jobs(&mut quick, &request) {
            Ok(found) => found,
            Err(error) => return slurm::failed("scontrol: error: ", &error),
        };
        match found.jobs.first().map(|view| view.job.state) {
            Some(JobState::Running | JobState::Suspended) => {
                complain(&format!("scontrol: Nodes are ready for job {}", selector.job));
                return 0;
            }
            Some(JobState::Pending) => thread::sleep(WAIT_PAUSE),
            Some(_) => return wrong(&format!("scontrol: Job {} no longer running", selector.job)),
            None => return wrong("scontrol: error: Invalid job id specified"),
        }
    }
}
