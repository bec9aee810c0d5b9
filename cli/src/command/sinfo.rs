//! `sinfo`: lists partitions and nodes.

use std::{collections::BTreeSet, thread, time::Duration};

use gpun_compat::{
    format::{
        reservation,
        sinfo::{Cluster, list, report},
    },
    moment,
    option::sinfo::{COMMAND, Options, parse},
};
use gpun_proto::{
    core::view::{NodeView, PartitionView},
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
    let asked = match parse(args, &slurm::variable, &slurm::context(&zone)) {
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
    loop {
        if asked.iterate_s.is_some() {
            out.line(&moment::headline(slurm::now_s(), &zone));
        }
        let status = once(&asked, &zone, &mut out);
        let Some(pause_s) = asked.iterate_s.filter(|_| status == 0) else { return out.finish(status) };
        out.line("");
        out.flush();
        if out.is_gone() {
            return out.finish(status);
        }
        thread::sleep(Duration::from_secs(u64::from(pause_s)));
    }
}

fn once(asked: &Options, zone: &TimeZone, out: &mut Out) -> u8 {
    let mut quick = match controller::connect() {
        Ok(quick) => quick,
        Err(error) => return slurm::failed("slurm_load_partitions: ", &error),
    };
    if let Err(text) = slurm::check_clusters(&mut quick, COMMAND.program, asked.clusters.as_deref()) {
        complain(&text);
        return 1;
    }
    let (partitions, nodes, display) = match load(&mut quick, zone) {
        Ok(loaded) => loaded,
        Err(error) => return slurm::failed("slurm_load_partitions: ", &error),
    };
    if asked.clusters.is_some() {
        out.line(&format!("CLUSTER: {}", display.cluster()));
    }
    if asked.reservations {
        return match controller::list_reservations(&mut quick) {
            Ok((views, _)) if views.is_empty() => {
                out.line("No reservations in the system");
                0
            }
            Ok((views, _)) => {
                display.with(asked.noconvert, |shown| out.text(&reservation::table(&views, asked.no_header, shown)));
                0
            }
            Err(error) => slurm::failed("slurm_load_reservations: ", &error),
        };
    }
    let planned = planned(&nodes);
    let cluster = Cluster { partitions: &partitions, nodes: &nodes, planned: &planned };
    let report = display.with(asked.noconvert, |shown| report(cluster, asked, shown));
    if !report.stderr.is_empty() {
        complain(report.stderr.trim_end_matches('\n'));
    }
    out.text(&report.stdout);
    u8::try_from(report.status).unwrap_or(1)
}

/// Names of the nodes that the last plan keeps for waiting jobs.
pub fn planned(nodes: &[NodeView]) -> BTreeSet<String> {
    nodes.iter().filter(|view| view.planned).map(|view| view.node.name.clone()).collect()
}

fn load(quick: &mut Quick, zone: &TimeZone) -> Result<(Vec<PartitionView>, Vec<NodeView>, Display), CallError> {
    let cluster = controller::show_cluster(quick)?;
    let partitions = controller::list_partitions(quick, Vec::new())?;
    let (nodes, now_ms) = controller::list_nodes(quick, Vec::new())?;
    Ok((partitions, nodes, Display::new(&cluster, now_ms, zone)))
}
