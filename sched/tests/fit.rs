//! Which nodes, CPUs and devices a job gets on a free or partly used cluster.

mod build;

use build::*;
use gpun_core::{
    IndexSet, MemoryMib,
    command::NodeChange,
    node::Inventory,
    spec::{JobSpec, MemoryRequest},
};

fn weighted(weight: u32, inventory: Inventory) -> Inventory {
    Inventory { weight, ..inventory }
}

fn featured(features: &[&str], inventory: Inventory) -> Inventory {
    Inventory { features: features.iter().map(|name| (*name).to_owned()).collect(), ..inventory }
}

/// Nodes that were submitted to in this order, and what is to start, all in one plan.
fn check(name: &str, nodes: Vec<(&str, Inventory)>, jobs: Vec<JobSpec>, want: &[&str]) {
    let all = gpun_core::partition::Partition::all_nodes("batch");
    let mut cluster = Cluster::new(nodes, vec![all]);
    for job in jobs {
        cluster.submit(job);
    }
    let plan = cluster.run_plan();
    assert_eq!(cluster.starts(&plan), want, "{name}");
}

fn n(count: u32, inventory: Inventory) -> Vec<(&'static str, Inventory)> {
    ["n1", "n2", "n3", "n4", "n5", "n6"]
        .into_iter()
        .take(count as usize)
        .map(|name| (name, inventory.clone()))
        .collect()
}

#[test]
fn nodes_are_taken_by_weight_then_name() {
    let one = || tasks(1, 60);
    check("lowest name", n(3, cpus(4)), vec![one()], &["1=n1:1"]);
    check("n2 before n10", vec![("n10", cpus(1)), ("n2", cpus(1))], vec![one(), one()], &["1=n2:1", "2=n10:1"]);
    let light = vec![("n1", weighted(20, cpus(4))), ("n2", weighted(10, cpus(4)))];
    check("lightest", light, vec![one()], &["1=n2:1"]);
    check("packed", n(2, cpus(2)), vec![one(), one(), one()], &["1=n1:1", "2=n1:1", "3=n2:1"]);
    check("first that fits", n(2, cpus(4)), vec![tasks(3, 60), tasks(2, 60), one()], &["1=n1:3", "2=n2:2", "3=n1:1"]);
}

#[test]
fn tasks_are_spread_over_nodes() {
    let n_min_max = |count, spec: JobSpec| JobSpec { nodes_min: Some(count), nodes_max: Some(count), ..spec };
    check("as few nodes as will do", n(4, cpus(4)), vec![tasks(6, 60)], &["1=n1:4,n2:2"]);
    check("one each, then in order", n(4, cpus(8)), vec![n_min_max(2, tasks(4, 60))], &["1=n1:3,n2:1"]);
    let wide = n_min_max(2, JobSpec { cpus_per_task: Some(2), ..tasks(4, 60) });
    check("CPUs for each task", n(2, cpus(6)), vec![wide], &["1=n1:3,n2:1"]);
    check("tasks for each node", n(3, cpus(8)), vec![nodes(2, 3, 60)], &["1=n1:3,n2:3"]);
    let at_most = JobSpec { ntasks_per_node: Some(2), ..tasks(5, 60) };
    check("at most two on a node", n(4, cpus(8)), vec![at_most], &["1=n1:2,n2:2,n3:1"]);
    let range = JobSpec { nodes_min: Some(2), nodes_max: Some(4), ..JobSpec::default() };
    check("as many of a range as there are", n(3, cpus(1)), vec![range.clone()], &["1=n1:1,n2:1,n3:1"]);
    check("no more than the range", n(6, cpus(1)), vec![range], &["1=n1:1,n2:1,n3:1,n4:1"]);
    check(
        "the larger nodes where the first ones are too small",
        vec![("n1", cpus(1)), ("n2", cpus(4)), ("n3", cpus(1)), ("n4", cpus(4))],
        vec![n_min_max(2, tasks(8, 60))],
        &["1=n2:4,n4:4"],
    );
    check("more nodes than tasks", n(3, cpus(2)), vec![n_min_max(3, tasks(2, 60))], &["1=n1:1,n2:1,n3:0"]);
    check(
        "heavier nodes only when needed",
        vec![("n1", weighted(9, cpus(4))), ("n2", cpus(2)), ("n3", cpus(2))],
        vec![tasks(4, 60), tasks(3, 60)],
        &["1=n2:2,n3:2", "2=n1:3"],
    );
}

#[test]
fn requests_choose_nodes() {
    check("named", n(4, cpus(2)), vec![on(tasks(1, 60), &["n3"])], &["1=n3:1"]);
    let two = JobSpec { nodes_min: Some(2), ..on(tasks(2, 60), &["n3"]) };
    check("named and another", n(4, cpus(2)), vec![two], &["1=n1:1,n3:1"]);
    let not = JobSpec { exclude: vec!["n1".into(), "n2".into()], ..tasks(1, 60) };
    check("excluded", n(4, cpus(2)), vec![not], &["1=n3:1"]);
    let nodes = vec![("n1", cpus(2)), ("n2", featured(&["ib", "ssd"], cpus(2)))];
    check("features", nodes, vec![JobSpec { features: vec!["ssd".into()], ..tasks(1, 60) }], &["1=n2:1"]);
    let alone = JobSpec { exclusive: true, ..tasks(1, 60) };
    check("whole nodes", n(3, cpus(2)), vec![tasks(1, 60), alone, tasks(1, 60)], &["1=n1:1", "2=n2:1", "3=n1:1"]);
    let near = JobSpec { contiguous: true, nodes_min: Some(2), ..tasks(4, 60) };
    check("neighbours", n(4, cpus(2)), vec![on(tasks(2, 60), &["n2"]), near], &["1=n2:2", "2=n3:2,n4:2"]);
    let over = JobSpec { overcommit: true, ..tasks(9, 60) };
    check("overcommit", n(2, cpus(2)), vec![over], &["1=n1:9"]);
}

#[test]
fn memory_counts() {
    let big = |mib| with_memory(tasks(1, 60), mib);
    check("each node's", n(2, cpus(8)), vec![big(5), big(5), big(3)], &["1=n1:1", "2=n2:1", "3=n1:1"]);
    let per_cpu = |mib| JobSpec { memory: MemoryRequest::PerCpu(MemoryMib(mib)), ..tasks(3, 60) };
    check("each CPU's", n(2, cpus(8)), vec![per_cpu(2), per_cpu(2)], &["1=n1:3", "2=n2:3"]);
    check("spread by memory", n(2, cpus(8)), vec![per_cpu(4)], &["1=n1:2,n2:1"]);
    check("all of it", n(2, cpus(8)), vec![big(0), tasks(1, 60)], &["1=n1:1", "2=n2:1"]);
}

#[test]
fn gres_by_kind_and_position() {
    let mut cluster = Cluster::of(2, gpus(8, &[("a100", 2), ("v100", 2)]));
    for (kind, count) in [(Some("v100"), 1), (None, 3), (Some("a100"), 1), (None, 1)] {
        cluster.submit(with_gpus(tasks(1, 60), kind, count));
    }
    let plan = cluster.run_plan();
    let got: Vec<(String, Vec<(Option<String>, Vec<u32>)>)> = plan
        .placements
        .iter()
        .map(|placement| {
            let gres = placement.allocs[0].gres.iter().map(|gres| (gres.kind.clone(), numbers(&gres.indexes)));
            (cluster.nodes_of(placement)[0].0.clone(), gres.collect())
        })
        .collect();
    let (a, v) = (Some("a100".to_owned()), Some("v100".to_owned()));
    let want = vec![
        ("n1".to_owned(), vec![(v.clone(), vec![2])]),
        ("n1".to_owned(), vec![(a.clone(), vec![0, 1]), (v.clone(), vec![3])]),
        ("n2".to_owned(), vec![(a.clone(), vec![0])]),
        ("n2".to_owned(), vec![(a, vec![1])]),
    ];
    assert_eq!(got, want);
}

#[test]
fn cpus_are_the_lowest_free() {
    let mut cluster = Cluster::of(1, cpus(8));
    let first = cluster.submit(tasks(2, 60));
    cluster.submit(tasks(3, 60));
    cluster.run_plan();
    let who = ROOT;
    let jobs = gpun_core::command::JobRef { job: first, tasks: None, component: None };
    cluster.launch(first);
    cluster.done(gpun_core::Command::Act { who, act: gpun_core::command::Act::Cancel(jobs) });
    let (node, attempt) = {
        let job = cluster.state.job(first).expect("job");
        (job.run.as_ref().expect("run").allocs[0].node, job.attempt)
    };
    let ended = gpun_core::command::Ended {
        at: cluster.now,
        how: gpun_core::command::EndedHow::Ordered,
        exit: Default::default(),
        text: None,
        usage: Default::default(),
    };
    let event = gpun_core::command::JobEvent::Ended(ended);
    let report = gpun_core::command::JobReport { job: first, attempt, event };
    cluster.done(gpun_core::Command::Report { node, reports: vec![report] });
    cluster.submit(tasks(4, 60));
    let plan = cluster.run_plan();
    let want: IndexSet = [0, 1, 5, 6].into_iter().collect();
    assert!(plan.placements[0].allocs[0].cpus.same_members(&want), "{:?}", plan.placements);
}

#[test]
fn nodes_out_of_service_get_nothing() {
    let mut cluster = Cluster::of(3, cpus(1));
    cluster.node("n1", NodeChange::Drain { reason: "test".into() });
    cluster.node("n2", NodeChange::Down { reason: "test".into() });
    cluster.submit(tasks(1, 60));
    cluster.submit(tasks(1, 60));
    let plan = cluster.run_plan();
    assert_eq!(cluster.starts(&plan), ["1=n3:1"]);
}
