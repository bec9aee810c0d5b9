//! Options that count GPUs over the job, its tasks or sockets, and CPUs, memory and tasks by GPUs.

use gpun_core::MemoryMib;
use gpun_core::layout::GPU;
use gpun_core::spec::{GresRequest, JobSpec, MemoryRequest};

use super::submission::{Set, Submission, number, text};
use super::{Bad, Given};
use crate::{gres, memory};

const INVALID: &str = "Invalid generic resource (gres) specification";

pub(super) fn requests(parsed: Result<Vec<gres::Gres>, gres::GresError>) -> Result<Vec<GresRequest>, Bad> {
    let parsed = parsed.map_err(|e| Bad::Plain(e.to_string()))?;
    let one = |g: gres::Gres| -> Result<GresRequest, Bad> {
        let count = u32::try_from(g.count).map_err(|_| Bad::Plain(INVALID.to_owned()))?;
        Ok(GresRequest { name: g.name, kind: g.kind, count, bare: g.bare })
    };
    parsed.into_iter().map(one).collect()
}

fn gpu_requests(g: &Given<'_>) -> Result<Vec<GresRequest>, Bad> {
    requests(gres::parse_of(GPU, g.value))
}

pub(super) fn gres(o: &mut Submission, g: &Given<'_>) -> Set {
    o.spec.gres = requests(gres::parse(g.value))?;
    Ok(())
}

pub(super) fn gpus_per_node(o: &mut Submission, g: &Given<'_>) -> Set {
    o.spec.gres = gpu_requests(g)?;
    o.tell("SLURM_GPUS_PER_NODE", g.value);
    Ok(())
}

pub(super) fn gpus(o: &mut Submission, g: &Given<'_>) -> Set {
    o.spec.gres_total = gpu_requests(g)?;
    o.tell("SLURM_GPUS", g.value);
    Ok(())
}

pub(super) fn gpus_per_socket(o: &mut Submission, g: &Given<'_>) -> Set {
    o.spec.gres_per_socket = gpu_requests(g)?;
    o.tell("SLURM_GPUS_PER_SOCKET", g.value);
    Ok(())
}

pub(super) fn gpus_per_task(o: &mut Submission, g: &Given<'_>) -> Set {
    o.spec.gres_per_task = gpu_requests(g)?;
    Ok(())
}

pub(super) fn ntasks_per_gpu(o: &mut Submission, g: &Given<'_>) -> Set {
    o.spec.ntasks_per_gpu = number(g)?;
    o.tell("SLURM_NTASKS_PER_GPU", g.value);
    Ok(())
}

pub(super) fn cpus_per_gpu(o: &mut Submission, g: &Given<'_>) -> Set {
    o.spec.cpus_per_gpu = number(g)?;
    o.tell("SLURM_CPUS_PER_GPU", g.value);
    Ok(())
}

pub(super) fn mem_per_gpu(o: &mut Submission, g: &Given<'_>) -> Set {
    let mib = memory::parse_mib(g.value).map_err(|_| Bad::Value)?;
    o.set_memory(2, g, MemoryRequest::PerGpu(MemoryMib(mib)));
    Ok(())
}

/// `cpu=2,gres/gpu=1`: CPUs and generic resources of each task.
pub(super) fn tres_per_task(o: &mut Submission, g: &Given<'_>) -> Set {
    let bad = || Bad::Plain("Invalid Trackable RESource (TRES) specification".to_owned());
    let mut per_task = Vec::new();
    for part in text(g).unwrap_or_default().split(',').filter(|part| !part.is_empty()) {
        if part.starts_with("gres/") {
            per_task.extend(requests(gres::parse(part))?);
            continue;
        }
        match part.split_once(['=', ':']) {
            Some(("cpu", count)) => {
                o.spec.cpus_per_task = Some(count.parse().ok().filter(|n| *n > 0).ok_or_else(bad)?);
            }
            Some(("mem" | "license" | "bb", _)) => {
                let text = format!("--tres-per-task={part} is not supported: name cpu and gres/NAME only");
                return Err(Bad::Plain(text));
            }
            _ => return Err(bad()),
        }
    }
    o.spec.gres_per_task = per_task;
    Ok(())
}

fn gpus_in(list: &[GresRequest]) -> u32 {
    list.iter().filter(|one| one.name == GPU).fold(0, |sum, one| sum.saturating_add(one.count))
}

fn refuse(first: &str) -> Bad {
    Bad::Plain(format!("{first}\n{INVALID}"))
}

/// Checks that hold only for the whole, and fills in tasks, nodes and GPUs that follow from each other.
pub(super) fn finish(spec: &mut JobSpec, nodes_given: bool) -> Result<(), Bad> {
    let total = gpus_in(&spec.gres_total);
    if !spec.gres_total.is_empty() && spec.nodes_min.is_some_and(|nodes| nodes_given && total < nodes) {
        return Err(refuse("Failed to validate job spec, --gpus < -N"));
    }
    if !spec.gres_per_socket.is_empty() && spec.layout.sockets_per_node.is_none() {
        return Err(refuse("--gpus-per-socket option requires --sockets-per-node specification"));
    }
    finish_per_task(spec, total)?;
    finish_per_gpu(spec, total)?;
    let per_node = gpus_in(&spec.gres);
    if per_node > 0 && total > 0 && !nodes_given && total.is_multiple_of(per_node) {
        (spec.nodes_min, spec.nodes_max) = (Some(total / per_node), Some(total / per_node));
    }
    let asks = [&spec.gres, &spec.gres_total, &spec.gres_per_task, &spec.gres_per_socket];
    let any = asks.into_iter().any(|list| list.iter().any(|one| one.name == GPU));
    if let (Some(each), false) = (spec.cpus_per_gpu, any) {
        return Err(refuse(&format!("Requested cpus_per_tres=gres/gpu:{each} but did not request any GPU.")));
    }
    if let (MemoryRequest::PerGpu(MemoryMib(each)), false) = (spec.memory, any) {
        return Err(refuse(&format!("Requested mem_per_tres=gres/gpu:{each} but did not request any GPU.")));
    }
    Ok(())
}

fn finish_per_task(spec: &mut JobSpec, total: u32) -> Result<(), Bad> {
    let each = gpus_in(&spec.gres_per_task);
    if spec.gres_per_task.is_empty() {
        return Ok(());
    }
    if spec.ntasks.is_none() {
        if total == 0 || each == 0 {
            return Err(refuse(
                "Failed to validate job spec. --gpus-per-task or --tres-per-task used without either --gpus or -n/--ntasks is not allowed.",
            ));
        }
        spec.ntasks = Some((total / each).max(1));
    }
    if each > 0 && spec.tres_bind.is_none() {
        spec.tres_bind = Some(format!("gres/gpu:per_task:{each}"));
    }
    Ok(())
}

fn finish_per_gpu(spec: &mut JobSpec, total: u32) -> Result<(), Bad> {
    let Some(each) = spec.ntasks_per_gpu else { return Ok(()) };
    let gpus = if total > 0 { total } else { gpus_in(&spec.gres).saturating_mul(spec.nodes_min()) };
    match (gpus, spec.ntasks) {
        (0, None) => Err(refuse(
            "gres_job_state_validate: --ntasks-per-tres needs either a GRES GPU specification or a node/ntask specification",
        )),
        (0, Some(tasks)) => {
            let count = tasks.div_ceil(each);
            spec.gres_total = vec![GresRequest { name: GPU.to_owned(), kind: None, count, bare: true }];
            Ok(())
        }
        (gpus, None) => {
            spec.ntasks = Some(gpus.saturating_mul(each));
            Ok(())
        }
        _ => Ok(()),
    }
}
