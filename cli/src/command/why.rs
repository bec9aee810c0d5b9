//! `gpun why JOB`: what keeps a job from starting, in sentences, from the code that decided.

use std::fmt::Write as _;

use anyhow::{Context, bail};
use gpun_compat::{array, hostlist, jobid, moment, time};
use gpun_proto::{
    core::{
        JobId, TimeMs,
        job::{ArrayRole, Job, JobState, Reason},
        view::{Cause, WhyView},
    },
    decode, encode, pb,
};
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use crate::{
    args::{Args, Usage},
    controller,
    out::Out,
};

/// Of `gpun why`.
pub const USAGE: Usage = Usage {
    command: "gpun why",
    operands: "JOB",
    count: (1, 1),
    about: "Says why a job waits and when it will start, or how it ended.\n\
            The answer comes from the code that decides, as of its last plan. JOB is a number, an array's task such as 17_3,\n\
            or a whole array.",
    options: &[],
    examples: &[("gpun why 17", "what job 17 waits for")],
};

/// So many jobs are named, and the others counted.
const NAMED_MAX: usize = 6;

/// Asks and prints.
///
/// # Errors
/// Nobody answers, or there is no such job.
pub fn run(args: &Args, out: &mut Out) -> anyhow::Result<u8> {
    let text = &args.operands[0];
    let wanted =
        jobid::parse(text).with_context(|| format!("`{text}` is no job: write 17, 17_3 or 17_[1-4]"))?.reference();
    let reply = controller::connect()?.why(&pb::WhyRequest { job: encode(&wanted) })?;
    let answers: Vec<WhyView> = reply.answers.iter().map(|answer| decode(answer)).collect::<Result<_, _>>()?;
    if answers.is_empty() {
        bail!("no job {text} is known: it never was, or it ended more than a few minutes ago");
    }
    if args.has("--json") {
        let list: Vec<Value> = answers.iter().map(as_json).collect();
        out.line(&json!({ "jobs": list }).to_string());
        return Ok(0);
    }
    let zone = TimeZone::system();
    for answer in &answers {
        out.text(&sentences(answer, &zone));
    }
    Ok(0)
}

/// A job as users write it: `17`, `17_3`, `17_[4-9]`.
pub fn shown_id(job: &Job) -> String {
    match &job.array {
        None => job.id.to_string(),
        Some(ArrayRole::Task { array, task }) => format!("{array}_{task}"),
        Some(ArrayRole::Waiting { tasks }) => {
            format!("{}_[{}]", job.id, array::show_short(tasks, array::DEFAULT_SHOWN_LEN))
        }
    }
}

fn clock(at: TimeMs, zone: &TimeZone) -> String {
    moment::show(i64::try_from(at.as_s()).unwrap_or(i64::MAX), 0, zone, &moment::Style::Standard)
}

/// Everything there is to say of a job.
pub fn sentences(answer: &WhyView, zone: &TimeZone) -> String {
    let view = &answer.job;
    let job = &view.job;
    let mut out = format!("Job {} ({}) of {}", shown_id(job), job.spec.name, job.owner.user);
    let run = job.run.as_ref();
    let started = run.map(|run| clock(run.launched.unwrap_or(run.placed), zone)).unwrap_or_default();
    let nodes = hostlist::compress(view.nodes.iter().map(String::as_str));
    match job.state {
        JobState::Pending => out.push_str(&waiting(answer, zone)),
        JobState::Running => {
            let _ = write!(out, " runs since {started} on {nodes}.");
            match job.limit_end() {
                Some(end) => {
                    let _ = write!(out, "\n  It reaches its time limit at {}.", clock(end, zone));
                }
                None => out.push_str("\n  It has no time limit."),
            }
            if job.end_order.is_some() {
                out.push_str("\n  It is being ended.");
            }
        }
        JobState::Suspended => {
            let _ = write!(out, " is suspended on {nodes}.");
        }
        ended => out.push_str(&over(job, ended, zone)),
    }
    if let Some(text) = &job.reason_text {
        let _ = write!(out, "\n  {text}");
    }
    out.push('\n');
    out
}

fn over(job: &Job, state: JobState, zone: &TimeZone) -> String {
    let how = match state {
        JobState::Completed => "completed".to_owned(),
        JobState::Cancelled => "was cancelled".to_owned(),
        JobState::Timeout => "reached its time limit and was ended".to_owned(),
        JobState::NodeFail => "lost its node".to_owned(),
        JobState::Preempted => "gave way to another job".to_owned(),
        JobState::BootFail => "failed: its node did not come up".to_owned(),
        JobState::Deadline => "could not end by its deadline".to_owned(),
        JobState::OutOfMemory => "used more memory than it was given and was ended".to_owned(),
        _ => match (job.reason, job.exit) {
            (Reason::LaunchFailure, _) => "could not be started".to_owned(),
            (_, exit) if exit.signal > 0 => format!("was ended by signal {}", exit.signal),
            (_, exit) => format!("failed with exit code {}", exit.code),
        },
    };
    let ended = job.ended.map(|at| format!(" at {}", clock(at, zone))).unwrap_or_default();
    let cleaning = if job.is_completing() { "\n  Its nodes are still cleaning up." } else { "" };
    let ran = job.run.as_ref().zip(job.ended).map(|(run, ended)| ended.since_s(run.launched.unwrap_or(run.placed)));
    let ran = ran.map(|seconds| format!(", after {}", time::short(seconds))).unwrap_or_default();
    format!(" {how}{ended}{ran}.{cleaning}")
}

fn waiting(answer: &WhyView, zone: &TimeZone) -> String {
    let view = &answer.job;
    let mut out = String::from(" waits.");
    for cause in &answer.causes {
        let _ = write!(out, "\n  {}", sentence(cause, zone));
    }
    if answer.causes.is_empty() {
        out.push_str("\n  Nothing stands before it: it starts with the next plan, within moments.");
    }
    if answer.ahead > 0 {
        let s = if answer.ahead == 1 { "" } else { "s" };
        let _ = write!(out, "\n  {} job{s} stand before it in the queue.", answer.ahead);
    }
    if let Some(start) = view.start_estimate {
        let nodes = hostlist::compress(view.planned_nodes.iter().map(String::as_str));
        let place = if nodes.is_empty() { String::new() } else { format!(" on {nodes}") };
        let _ = write!(out, "\n  Expected start: {} at the latest{place}.", clock(start, zone));
    }
    out
}

fn named(jobs: &[JobId]) -> String {
    let list: Vec<String> = jobs.iter().take(NAMED_MAX).map(JobId::to_string).collect();
    let more = jobs.len().saturating_sub(NAMED_MAX);
    let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{tail}", list.join(", "))
}

fn sentence(cause: &Cause, zone: &TimeZone) -> String {
    match cause {
        Cause::WaitsFor { jobs, until } => {
            let s = if jobs.len() == 1 { "" } else { "s" };
            let when = match until {
                Some(at) => format!("; enough is free by {}", clock(*at, zone)),
                None => "; at least one of them has no time limit, so nobody knows until when".to_owned(),
            };
            format!("What it needs is held by job{s} {}{when}.", named(jobs))
        }
        Cause::Behind { job } => format!("Job {job} has a higher priority and goes first."),
        Cause::Short { what, nodes, of } => {
            let which = if nodes == of { format!("all {of} nodes") } else { format!("{nodes} of {of} nodes") };
            let which = if *of == 1 { "the only node".to_owned() } else { which };
            match (what.as_str(), *nodes == 1 || *of == 1) {
                ("drained", one) => format!("{} {} drained.", upper(&which), if one { "is" } else { "are" }),
                ("down", one) => format!("{} {} down.", upper(&which), if one { "is" } else { "are" }),
                ("excluded", one) => {
                    format!("{} {} excluded by the job itself.", upper(&which), if one { "is" } else { "are" })
                }
                ("features", one) => {
                    format!("{} {} not the features that it asks for.", upper(&which), if one { "has" } else { "have" })
                }
                ("cpus", _) => format!("Not enough CPUs are free on {which}."),
                ("memory", _) => format!("Not enough memory is free on {which}."),
                (other, _) => format!("Not enough {other} is free on {which}."),
            }
        }
        Cause::Limit { what } => format!("{}.", upper(what.trim_end_matches('.'))),
        Cause::Held { by_operator: true } => "It is held by an operator, who alone can release it.".to_owned(),
        Cause::Held { by_operator: false } => "It is held; `scontrol release` lets it start.".to_owned(),
        Cause::Begin { at } => format!("It was asked to start not before {}.", clock(*at, zone)),
    }
}

fn upper(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

fn as_json(answer: &WhyView) -> Value {
    let job = &answer.job.job;
    let causes: Vec<Value> = answer
        .causes
        .iter()
        .map(|cause| {
            let text = sentence(cause, &TimeZone::UTC);
            match cause {
                Cause::WaitsFor { jobs, until } => json!({
                    "kind": "waits_for", "jobs": jobs.iter().map(|job| job.0).collect::<Vec<_>>(),
                    "until_ms": until.map(|at| at.0), "text": text,
                }),
                Cause::Behind { job } => json!({ "kind": "behind", "job": job.0, "text": text }),
                Cause::Short { what, nodes, of } => {
                    json!({ "kind": "short", "what": what, "nodes": nodes, "of": of, "text": text })
                }
                Cause::Limit { what } => json!({ "kind": "limit", "what": what, "text": text }),
                Cause::Held { by_operator } => json!({ "kind": "held", "by_operator": by_operator, "text": text }),
                Cause::Begin { at } => json!({ "kind": "begin", "at_ms": at.0, "text": text }),
            }
        })
        .collect();
    json!({
        "job_id": job.id.0, "id": shown_id(job), "name": job.spec.name, "user": job.owner.user,
        "state": format!("{:?}", job.state).to_uppercase(), "ahead": answer.ahead, "causes": causes,
        "start_estimate_ms": answer.job.start_estimate.map(|at| at.0),
        "planned_nodes": answer.job.planned_nodes, "nodes": answer.job.nodes,
        "text": sentences(answer, &TimeZone::UTC),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_is_a_sentence() {
        let at = TimeMs(1_796_097_214_000);
        let jobs = |ids: &[u32]| ids.iter().map(|id| JobId(*id)).collect::<Vec<_>>();
        let short = |what: &str, nodes, of| Cause::Short { what: what.to_owned(), nodes, of };
        let rows = [
            (
                Cause::WaitsFor { jobs: jobs(&[7]), until: Some(at) },
                "What it needs is held by job 7; enough is free by 2026-12-01T03:53:34.",
            ),
            (
                Cause::WaitsFor { jobs: jobs(&[1, 2, 3, 4, 5, 6, 7, 8]), until: None },
                "What it needs is held by jobs 1, 2, 3, 4, 5, 6 and 2 more; at least one of them has no time limit, so \
                 nobody knows until when.",
            ),
            (Cause::Behind { job: JobId(3) }, "Job 3 has a higher priority and goes first."),
            (short("cpus", 3, 4), "Not enough CPUs are free on 3 of 4 nodes."),
            (short("gres/gpu", 4, 4), "Not enough gres/gpu is free on all 4 nodes."),
            (short("memory", 1, 1), "Not enough memory is free on the only node."),
            (short("drained", 1, 4), "1 of 4 nodes is drained."),
            (short("features", 4, 4), "All 4 nodes have not the features that it asks for."),
            (Cause::Limit { what: "the partition is down".into() }, "The partition is down."),
            (Cause::Held { by_operator: true }, "It is held by an operator, who alone can release it."),
            (Cause::Begin { at }, "It was asked to start not before 2026-12-01T03:53:34."),
        ];
        for (cause, right) in rows {
            assert_eq!(sentence(&cause, &TimeZone::UTC), right, "{cause:?}");
        }
    }
}
