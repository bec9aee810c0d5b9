//! `scontrol show`: records in blocks.

use gpun_compat::{
    format::{config, job_block, job_block::Detail, license, node_block, partition_block, reservation},
    hostlist::{self, Form},
    jobid,
    option::scontrol::{Options, entity as entity_of, message},
};
use gpun_proto::{
    core::{command::JobRef, view::JobView},
    pb,
    quick::{CallError, Quick},
};
use jiff::tz::TimeZone;

use super::{hosts, wrong};
use crate::{command::sinfo::planned, controller, display::Display, out::Out, slurm};

/// Shows records of a kind; gives the exit status.
pub fn run(asked: &Options, entity: &str, names: &[String], out: &mut Out) -> u8 {
    // `show node=n1` and `show JobId=17` are other ways to say `show node n1` and `show job 17`.
    if let Some((key, value)) = entity.split_once('=') {
        let key = key.to_ascii_lowercase();
        let key = key.strip_suffix("name").or_else(|| key.strip_suffix("id")).unwrap_or(&key).to_owned();
        return run(asked, &key, &[&[value.to_owned()], names].concat(), out);
    }
    let Some(kind) = entity_of(entity) else { return wrong(&message::invalid_entity(entity)) };
    let first = names.first().map(String::as_str);
    match (kind, names) {
        ("hostnames", _) => hosts::show(Form::Names, first, out),
        ("hostlist", _) => hosts::show(Form::List, first, out),
        ("hostlistsorted", _) => hosts::show(Form::Sorted, first, out),
        ("job", _) => jobs(asked, names, out),
        ("node", [] | [_]) => nodes(asked, first, out),
        ("partition", [] | [_]) => partitions(asked, first, out),
        ("reservation", [] | [_]) => reservations(asked, first, out),
        ("config", _) => cluster_config(out),
        ("daemons", _) => {
            out.line("slurmctld slurmd");
            0
        }
        // There is nothing of the kind, and Slurm prints nothing where there is nothing.
        ("aliases" | "burstbuffer" | "federation" | "topology", _) => 0,
        ("licenses", [] | [_]) => licenses(asked, first, out),
        ("node" | "partition" | "licenses", _) => wrong(&message::too_many("show")),
        (other, _) => wrong(&format!("scontrol: error: `scontrol show {other}` comes with a later version of gpunion")),
    }
}

fn detail(asked: &Options) -> Detail {
    Detail { one_line: asked.one_line, details: asked.details > 0 }
}

fn jobs(asked: &Options, names: &[String], out: &mut Out) -> u8 {
    if names.is_empty() {
        return show_jobs(asked, None, out);
    }
    names.iter().map(|name| show_jobs(asked, Some(name), out)).max().unwrap_or(0)
}

fn show_jobs(asked: &Options, name: Option<&str>, out: &mut Out) -> u8 {
    let wanted = match name.map(jobid::parse) {
        None => None,
        Some(Some(selector)) => Some(selector.reference()),
        Some(None) => return wrong("scontrol_print_job error: Invalid job id specified"),
    };
    let found = controller::connect().and_then(|mut quick| load_jobs(&mut quick, wanted.as_ref(), asked.all));
    let (views, display) = match found {
        Ok(found) => found,
        Err(error) => return slurm::failed("slurm_load_jobs error: ", &error),
    };
    if let (Some(name), true) = (name, views.is_empty() && wanted.as_ref().is_some_and(|job| job.component.is_some())) {
        return wrong(&format!("Job {name} not found"));
    }
    if views.is_empty() && wanted.is_some() {
        return wrong("slurm_load_jobs error: Invalid job id specified");
    }
    if views.is_empty() && !asked.quiet {
        out.line("No jobs in the system");
    }
    display.with(false, |shown| {
        views.iter().for_each(|view| out.text(&job_block::show(view, detail(asked), shown)));
    });
    0
}

fn load_jobs(quick: &mut Quick, wanted: Option<&JobRef>, all: bool) -> Result<(Vec<JobView>, Display), CallError> {
    let cluster = controller::show_cluster(quick)?;
    let request = match wanted {
        Some(job) => controller::request_jobs([job]),
        None => pb::ListJobsRequest { all_states: true, no_hidden: !all, ..Default::default() },
    };
    let jobs = controller::list_jobs(quick, &request)?;
    Ok((jobs.jobs, Display::new(&cluster, jobs.now_ms, &TimeZone::system())))
}

fn nodes(asked: &Options, name: Option<&str>, out: &mut Out) -> u8 {
    let loaded = controller::connect().and_then(|mut quick| {
        Ok((controller::show_cluster(&mut quick)?, controller::list_nodes(&mut quick, Vec::new())?))
    });
    let (cluster, (views, now_ms)) = match loaded {
        Ok(loaded) => loaded,
        Err(error) => return slurm::failed("slurm_load_node error: ", &error),
    };
    let wanted = match name.map(hostlist::expand) {
        None => views.iter().map(|view| view.node.name.clone()).collect(),
        Some(Ok(names)) => names,
        Some(Err(_)) => vec![name.unwrap_or_default().to_owned()],
    };
    if views.is_empty() && name.is_none() && !asked.quiet {
        out.line("No nodes in the system");
    }
    let planned = planned(&views);
    let display = Display::new(&cluster, now_ms, &TimeZone::system());
    display.with(false, |shown| {
        let show = |name: &String| match views.iter().find(|view| view.node.name == *name) {
            Some(view) => (node_block::show(view, &planned, detail(asked), shown), 0),
            None => (node_block::not_found(name), 1),
        };
        wanted.iter().map(show).fold(0, |status, (text, one)| {
            out.text(&text);
            status.max(one)
        })
    })
}

fn partitions(asked: &Options, name: Option<&str>, out: &mut Out) -> u8 {
    let loaded = controller::connect().and_then(|mut quick| {
        Ok((controller::list_partitions(&mut quick, Vec::new())?, controller::list_nodes(&mut quick, Vec::new())?.0))
    });
    let (views, nodes) = match loaded {
        Ok(loaded) => loaded,
        Err(error) => return slurm::failed("slurm_load_partitions error: ", &error),
    };
    let shown = views.iter().filter(|view| match name {
        Some(name) => view.partition.name == name,
        None => asked.all || !view.partition.hidden,
    });
    let texts: Vec<String> = shown.map(|view| partition_block::show(view, &nodes, detail(asked))).collect();
    texts.iter().for_each(|text| out.text(text));
    match name {
        Some(name) if texts.is_empty() => {
            out.text(&partition_block::not_found(name));
            1
        }
        _ => 0,
    }
}

fn reservations(asked: &Options, name: Option<&str>, out: &mut Out) -> u8 {
    let loaded = controller::connect()
        .and_then(|mut quick| Ok((controller::show_cluster(&mut quick)?, controller::list_reservations(&mut quick)?)));
    let (cluster, (views, now_ms)) = match loaded {
        Ok(loaded) => loaded,
        Err(error) => return slurm::failed("slurm_load_reservations error: ", &error),
    };
    if views.is_empty() && name.is_none() {
        out.line("No reservations in the system");
        return 0;
    }
    let meant: Vec<_> = views.iter().filter(|view| name.is_none_or(|name| view.reservation.name == name)).collect();
    if let (Some(name), true) = (name, meant.is_empty()) {
        out.text(&reservation::not_found(name));
        return 1;
    }
    Display::new(&cluster, now_ms, &TimeZone::system()).with(false, |shown| {
        meant.iter().for_each(|view| out.text(&reservation::show(view, asked.one_line, shown)));
    });
    0
}

fn licenses(asked: &Options, name: Option<&str>, out: &mut Out) -> u8 {
    match controller::connect().and_then(|mut quick| controller::show_cluster(&mut quick)) {
        Ok(cluster) if cluster.licenses.is_empty() => {
            out.line("No licenses configured in Slurm.");
            0
        }
        Ok(cluster) => {
            let wanted = cluster.licenses.iter().filter(|license| name.is_none_or(|name| license.name == name));
            wanted.for_each(|one| out.text(&license::show(one, asked.one_line)));
            0
        }
        Err(error) => slurm::failed("slurm_load_licenses error: ", &error),
    }
}

fn cluster_config(out: &mut Out) -> u8 {
    match controller::connect().and_then(|mut quick| controller::show_cluster(&mut quick)) {
        Ok(cluster) => {
            let display = Display::new(&cluster, cluster.now.0, &TimeZone::system());
            out.text(&display.with(false, |shown| config::show(&cluster, shown)));
            0
        }
        Err(error) => slurm::failed("slurm_load_ctl_conf error: ", &error),
    }
}

/// `scontrol completing`: jobs that their nodes are still cleaning up.
pub fn completing(out: &mut Out) -> u8 {
    let request = pb::ListJobsRequest { completing: true, ..Default::default() };
    match controller::connect().and_then(|mut quick| controller::list_jobs(&mut quick, &request)) {
        Ok(found) => {
            for view in &found.jobs {
                let nodes = hostlist::compress(view.nodes.iter().map(String::as_str));
                let seconds = view.job.ended.map_or(0, |ended| found.now_ms.saturating_sub(ended.0) / 1000);
                out.line(&format!(
                    "JobId={} EndTime={} CompletingTime={} Nodes(COMPLETING)={nodes}",
                    view.job.id,
                    view.job.ended.unwrap_or_default().as_s(),
                    gpun_compat::time::long(seconds)
                ));
            }
            0
        }
        Err(error) => slurm::failed("slurm_load_jobs error: ", &error),
    }
}
