//! GPUs counted over a job, a task or a socket, and what a job asks of the insides of nodes.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test's way to fail, in its helpers too.

mod build;

use build::*;
use gpun_core::{
    Command, MemoryMib, Outcome, Refusal,
    layout::Layout,
    node::Inventory,
    partition::Partition,
    spec::{GresRequest, JobSpec, MemoryRequest},
};

/// Two light nodes with two GPUs each, and two heavier ones with four; 8 CPUs in 2 sockets each.
fn cluster() -> Cluster {
    let node = |kind, count, weight| Inventory {
        sockets: 2,
        cores_per_socket: 4,
        threads_per_core: 1,
        weight,
        features: vec![format!("{kind}")],
        memory: MemoryMib(1000),
        ..gpus(8, &[(kind, count)])
    };
    let (light, heavy) = (node("v100", 2, 10), node("a100", 4, 20));
    let nodes = vec![("n1", heavy.clone()), ("n2", heavy), ("n3", light.clone()), ("n4", light)];
    Cluster::new(nodes, vec![Partition::all_nodes("batch")])
}

fn gpu(kind: Option<&str>, count: u32) -> Vec<GresRequest> {
    vec![GresRequest { name: "gpu".to_owned(), kind: kind.map(str::to_owned), count, bare: false }]
}

fn one_task() -> JobSpec {
    JobSpec { ntasks: Some(1), nodes_min: Some(1), ..tasks(1, 60) }
}

fn free(count: u32) -> JobSpec {
    JobSpec { ntasks: None, nodes_min: None, gres_total: gpu(None, count), ..tasks(1, 60) }
}

/// What a job gets: `node:tasks/cpus/gpus/MiB`.
fn got(spec: JobSpec) -> Result<String, Refusal> {
    let mut cluster = cluster();
    match cluster.try_submit(spec) {
        Outcome::Submitted { .. } => {}
        Outcome::Refused(refusal) => return Err(refusal),
        other => panic!("{other:?}"),
    }
    let plan = cluster.run_plan();
    let placement = plan.placements.first();
    let allocs = placement.iter().flat_map(|placement| &placement.allocs).map(|alloc| {
        let name = &cluster.state.node(alloc.node).expect("node").name;
        let gpus: u64 = alloc.gres.iter().map(|gres| gres.indexes.len()).sum();
        format!("{name}:{}/{}/{gpus}/{}", alloc.tasks, alloc.cpus.len(), alloc.memory.0)
    });
    Ok(allocs.collect::<Vec<_>>().join(" "))
}

fn check(name: &str, spec: JobSpec, want: &str) {
    assert_eq!(got(spec).as_deref(), Ok(want), "{name}");
}

#[test]
fn gpus_of_the_whole_job() {
    check("on the lightest node that has them", free(2), "n3:1/1/2/1");
    check("over several where one has too few", free(6), "n1:1/1/2/1 n3:1/1/2/1 n4:1/1/2/1");
    let on = |nodes, spec| JobSpec { nodes_min: Some(nodes), nodes_max: Some(nodes), ..spec };
    check("one everywhere, then lighter nodes first", on(2, free(3)), "n3:1/1/2/1 n4:1/1/1/1");
    check("the richest where few may be used", on(2, free(8)), "n1:1/1/4/1 n2:1/1/4/1");
    check("one node only", on(1, free(4)), "n1:1/1/4/1");
    check("of a type", JobSpec { gres_total: gpu(Some("a100"), 2), ..free(0) }, "n1:1/1/2/1");
    let each = JobSpec { cpus_per_gpu: Some(3), ..on(2, free(4)) };
    check("CPUs for each", each, "n3:1/6/2/6 n4:1/6/2/6");
    let memory = JobSpec { memory: MemoryRequest::PerGpu(MemoryMib(100)), ..free(2) };
    check("memory for each", memory, "n3:1/1/2/200");
    assert_eq!(got(free(13)), Err(Refusal::NodeConfigUnavailable), "more than there are");
    assert!(got(JobSpec { hold: true, ..free(13) }).is_ok(), "a held job is looked at when it is released");
}

#[test]
fn gpus_for_each_task_and_socket() {
    let per_task = |tasks: u32| JobSpec { ntasks: Some(tasks), gres_per_task: gpu(None, 1), ..one_task() };
    check("one for each task", per_task(2), "n3:2/2/2/2");
    check("as many tasks as a node has GPUs", per_task(4), "n3:2/2/2/2 n4:2/2/2/2");
    let two = JobSpec { gres_per_task: gpu(None, 2), ..per_task(3) };
    check("as few nodes as will do", two, "n1:2/2/4/2 n2:1/1/2/1");
    let layout = Layout { sockets_per_node: Some(2), ..Layout::default() };
    let per_socket = JobSpec { gres_per_socket: gpu(None, 1), layout, ..one_task() };
    check("one for each socket", per_socket, "n3:1/1/2/1");
    let on_each = JobSpec { cpus_per_gpu: Some(2), ..with_gpus(nodes(2, 1, 60), None, 2) };
    check("CPUs for each of a node's", on_each, "n3:1/4/2/4 n4:1/4/2/4");
}

#[test]
fn devices_are_given_once() {
    let mut cluster = cluster();
    (0..7).for_each(|_| {
        cluster.submit(free(2));
    });
    let plan = cluster.run_plan();
    assert_eq!(plan.placements.len(), 6, "12 GPUs, two for each job");
    let mut mixed = self::cluster();
    mixed.submit(with_gpus(nodes(1, 1, 60), Some("v100"), 1));
    mixed.submit(free(4));
    let plan = mixed.run_plan();
    assert_eq!(mixed.starts(&plan), ["1=n3:1", "2=n1:1"], "one node before several");
}

#[test]
fn the_insides_of_nodes() {
    let with = |layout, spec| JobSpec { layout, ..spec };
    let empty = Layout::default();
    check("sockets", with(Layout { sockets_per_node: Some(2), ..empty }, one_task()), "n3:1/1/0/1");
    for layout in [
        Layout { sockets_per_node: Some(3), ..empty },
        Layout { cores_per_socket: Some(8), ..empty },
        Layout { threads_per_core: Some(2), ..empty },
    ] {
        assert_eq!(got(with(layout, one_task())), Err(Refusal::Layout), "{layout:?}");
    }
    let four = || JobSpec { ntasks: Some(4), ..one_task() };
    check("tasks on a socket", with(Layout { ntasks_per_socket: Some(1), ..empty }, four()), "n3:2/2/0/2 n4:2/2/0/2");
    check("two of them", with(Layout { ntasks_per_socket: Some(2), ..empty }, four()), "n3:4/4/0/4");
    check("tasks on a core", with(Layout { ntasks_per_core: Some(1), ..empty }, four()), "n3:4/4/0/4");
    check("CPUs of a node", JobSpec { mincpus: Some(4), ..one_task() }, "n3:1/4/0/4");
    assert_eq!(got(JobSpec { mincpus: Some(9), ..one_task() }), Err(Refusal::CpusPerNode));
    check("spread", JobSpec { ntasks: Some(3), spread: true, ..one_task() }, "n1:1/1/0/1 n3:1/1/0/1 n4:1/1/0/1");
    let range = JobSpec { ntasks: Some(6), spread: true, nodes_max: Some(3), ..one_task() };
    check("spread within a range", range, "n1:4/4/0/4 n3:1/1/0/1 n4:1/1/0/1");
}

#[test]
fn one_thread_of_a_core_takes_the_core() {
    let node = Inventory { sockets: 1, cores_per_socket: 4, threads_per_core: 2, ..cpus(8) };
    let mut cluster = Cluster::of(1, node);
    let layout = Layout { threads_per_core: Some(1), ..Layout::default() };
    let spec = JobSpec { layout, ..tasks(3, 60) };
    let job = cluster.submit(spec.clone());
    cluster.submit(JobSpec { ntasks: Some(2), ..spec });
    let plan = cluster.run_plan();
    assert_eq!(plan.placements.len(), 1, "three of four cores are taken");
    assert_eq!(cluster.state.job(job).and_then(|job| job.run.as_ref()).map(|run| run.cpus()), Some(6));
}

#[test]
fn nodes_have_one_of_several_features_each() {
    let sets = |sets: &[&[&str]]| JobSpec {
        feature_sets: sets.iter().map(|set| set.iter().map(|one| (*one).to_owned()).collect()).collect(),
        ..nodes(3, 1, 60)
    };
    check("mixed", sets(&[&["a100"], &["v100"]]), "n1:1/1/0/1 n3:1/1/0/1 n4:1/1/0/1");
    assert_eq!(got(sets(&[&["a100", "v100"], &["v100"]])), Err(Refusal::NodeConfigUnavailable), "two nodes have it");
    assert_eq!(got(sets(&[&["none"], &["v100"]])), Err(Refusal::Feature));
}

#[test]
fn nodes_have_the_same_one_of_several_features() {
    let same = |count: u32, sets: &[&str]| JobSpec {
        feature_sets: sets.iter().map(|set| vec![(*set).to_owned()]).collect(),
        features_same: true,
        ..nodes(count, 1, 60)
    };
    check("the first that does", same(2, &["a100", "v100"]), "n1:1/1/0/1 n2:1/1/0/1");
    check("the second", same(2, &["v100", "a100"]), "n3:1/1/0/1 n4:1/1/0/1");
    assert_eq!(got(same(3, &["a100", "v100"])), Err(Refusal::NodeConfigUnavailable), "no three nodes have the same");
    // Where nodes of neither are free now, room is kept on nodes of one.
    let mut cluster = cluster();
    let busy = cluster.submit(JobSpec { node_list: vec!["n1".to_owned(), "n3".to_owned()], ..nodes(2, 8, 60) });
    assert_eq!(cluster.run_plan().placements.len(), 1);
    let waits = cluster.submit(same(2, &["a100", "v100"]));
    let plan = cluster.run_plan();
    assert!(plan.placements.is_empty());
    assert_eq!(plan.verdicts[&waits].planned_nodes.len(), 2);
    assert!(cluster.state.job(busy).is_some());
}

#[test]
fn preferred_features_are_taken_while_they_are_free() {
    let mut cluster = cluster();
    let prefer = |feature: &str| JobSpec { prefer: vec![feature.to_owned()], ..tasks(8, 60) };
    assert_eq!(cluster.try_submit(prefer("none")), Outcome::Refused(Refusal::Prefer));
    let batch = JobSpec { batch_features: vec!["a100".to_owned()], ..tasks(1, 60) };
    assert_eq!(cluster.try_submit(batch), Outcome::Refused(Refusal::BatchFeatures));
    (0..3).for_each(|_| {
        cluster.submit(prefer("a100"));
    });
    let plan = cluster.run_plan();
    assert_eq!(cluster.starts(&plan), ["1=n1:8", "2=n2:8", "3=n3:8"]);
    cluster.done(Command::Tick);
}
