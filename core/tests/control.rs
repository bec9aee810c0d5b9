//! What `scontrol update` may change of jobs, nodes and partitions, and deadlines.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test's way to fail, in its helpers too.

mod build;

use build::*;
use gpun_core::{
    Command, JobId, MemoryMib, Outcome, Refusal, TimeLimit,
    command::{Act, Identity, JobChange, NodeChange, NodeSettings, PartitionChange},
    job::{JobState, Reason},
    node::{GresInventory, Inventory},
    partition::{MemoryLimit, Partition},
    spec::{GresRequest, JobSpec, MemoryRequest},
};

fn gpu(count: u32) -> Vec<GresRequest> {
    vec![GresRequest { name: "gpu".into(), kind: None, count, bare: false }]
}

fn world() -> World {
    let mut world = World::new();
    let gres = vec![GresInventory { name: "gpu".into(), kind: None, count: 2, files: Vec::new() }];
    let features = vec!["fast".to_owned(), "ib".to_owned()];
    world.register("n1", Inventory { gres, features, ..cpus(4) });
    world
}

fn none() -> JobChange {
    JobChange::default()
}

#[test]
fn keys_of_a_job() {
    type Seen = fn(&JobSpec) -> bool;
    let text = |text: &str| Some(text.to_owned());
    let denied = Err(Refusal::AccessDenied);
    let started = Err(Refusal::NotPending);
    // What a user's own change gives while the job waits and while it runs; whether an operator's change took.
    let rows: Vec<(JobChange, Result<u32, Refusal>, Result<u32, Refusal>, Seen)> = vec![
        (JobChange { gres: Some(gpu(1)), ..none() }, Ok(1), started.clone(), |s| s.gres == gpu(1)),
        (JobChange { gres_per_task: Some(gpu(1)), ..none() }, Ok(1), started.clone(), |s| s.gres_per_task == gpu(1)),
        (JobChange { mincpus: Some(2), ..none() }, Ok(1), started.clone(), |s| s.mincpus == Some(2)),
        (JobChange { prefer: Some(vec!["ib".into()]), ..none() }, Ok(1), started.clone(), |s| s.prefer == ["ib"]),
        (JobChange { time_min: Some(TimeLimit::Seconds(30)), ..none() }, Ok(1), Ok(1), |s| {
            s.time_min == Some(TimeLimit::Seconds(30))
        }),
        (JobChange { time_min: Some(TimeLimit::Seconds(0)), ..none() }, Ok(1), Ok(1), |s| s.time_min.is_none()),
        (JobChange { extra: text("x"), ..none() }, Ok(1), Ok(1), |s| s.extra.as_deref() == Some("x")),
        (JobChange { admin_comment: text("x"), ..none() }, denied.clone(), denied.clone(), |s| {
            s.admin_comment.as_deref() == Some("x")
        }),
        (JobChange { tmp_disk: Some(MemoryMib(9)), ..none() }, Ok(1), started.clone(), |s| {
            s.tmp_disk == Some(MemoryMib(9))
        }),
        (JobChange { reservation: text(""), ..none() }, Ok(1), started.clone(), |s| s.reservation.is_none()),
        (JobChange { oversubscribe: Some(true), ..none() }, denied.clone(), started.clone(), |s| {
            s.oversubscribe == Some(true)
        }),
        (JobChange { std_in: text("/x"), ..none() }, Ok(1), started.clone(), |s| s.std_in.as_deref() == Some("/x")),
        (JobChange { ntasks_per_node: Some(1), ..none() }, denied, started.clone(), |s| s.ntasks_per_node == Some(1)),
        (JobChange { cpus: Some(3), ..none() }, Ok(1), started, |s| s.ntasks == Some(3)),
    ];
    for (change, waiting, running, seen) in rows {
        let mut world = world();
        let job = world.submit(tasks(1));
        assert_eq!(world.act(&ALICE, update(job, change.clone())), waiting, "{change:?}");
        assert_eq!(world.act(&OPERATOR, update(job, change.clone())), Ok(1), "{change:?}");
        assert!(seen(&world.job(job).spec), "{change:?}");
        assert_eq!(world.act(&BOB, update(job, change.clone())), Err(Refusal::AccessDenied), "{change:?}");
        let job = world.submit(tasks(1));
        world.place(job, &["n1"]);
        assert_eq!(world.act(&ALICE, update(job, change.clone())), running, "{change:?} while it runs");
    }
}

#[test]
fn changes_of_a_job_that_make_no_sense() {
    let rows = [
        (
            JobChange { gres: Some(vec![GresRequest { name: "foo".into(), ..gpu(1)[0].clone() }]), ..none() },
            Refusal::Gres,
        ),
        (JobChange { mincpus: Some(99), ..none() }, Refusal::CpusPerNode),
        (JobChange { prefer: Some(vec!["nope".into()]), ..none() }, Refusal::Prefer),
        (JobChange { time_min: Some(TimeLimit::Seconds(9_999)), ..none() }, Refusal::TimeMin),
        (JobChange { reservation: Some("nope".into()), ..none() }, Refusal::Reservation),
        (JobChange { end_time: Some(START.plus_s(50)), ..none() }, Refusal::NotRunning),
        (JobChange { deadline: Some(START), ..none() }, Refusal::Time),
        (JobChange { exclude: Some(vec!["n9".into()]), ..none() }, Refusal::UnknownNodeName { name: "n9".into() }),
    ];
    for (change, refusal) in rows {
        let mut world = world();
        let job = world.submit(tasks(1));
        world.now = world.now.plus_s(5);
        assert_eq!(world.act(&ROOT, update(job, change.clone())), Err(refusal), "{change:?}");
    }
}

#[test]
fn the_end_of_a_running_job_can_be_moved() {
    let mut world = world();
    let job = world.submit(tasks(1));
    world.place(job, &["n1"]);
    let begin = world.job(job).run.as_ref().unwrap().placed;
    let end = |seconds| JobChange { end_time: Some(begin.plus_s(seconds)), ..none() };
    assert_eq!(world.act(&ALICE, update(job, end(40))), Ok(1));
    assert_eq!(world.job(job).time_limit, TimeLimit::Seconds(40));
    assert_eq!(world.act(&ALICE, update(job, end(90))), Err(Refusal::AccessDenied));
    assert_eq!(world.act(&OPERATOR, update(job, end(90))), Ok(1));
    assert_eq!(world.job(job).time_limit, TimeLimit::Seconds(90));
}

fn node(world: &mut World, change: NodeChange) -> Result<u32, Refusal> {
    world.act(&ROOT, Act::UpdateNode { name: "n1".into(), change })
}

#[test]
fn states_of_a_node() {
    let reason = || "r".to_owned();
    let drain = || NodeChange::Drain { reason: reason() };
    let fail = || NodeChange::Fail { reason: reason() };
    let down = || NodeChange::Down { reason: reason() };
    // What is done, the answer to the last, and whether the node takes jobs then.
    let rows: Vec<(Vec<NodeChange>, Result<u32, Refusal>, bool)> = vec![
        (vec![NodeChange::Resume], Err(Refusal::NodeState), true),
        (vec![NodeChange::Idle], Ok(1), true),
        (vec![NodeChange::Undrain], Ok(1), true),
        (vec![drain()], Ok(1), false),
        (vec![drain(), NodeChange::Resume], Ok(1), true),
        (vec![drain(), NodeChange::Idle], Ok(1), true),
        (vec![drain(), NodeChange::Undrain], Ok(1), true),
        (vec![fail()], Ok(1), false),
        (vec![fail(), NodeChange::Undrain], Ok(1), false),
        (vec![fail(), NodeChange::Resume], Ok(1), true),
        (vec![down(), NodeChange::Undrain], Ok(1), false),
        (vec![NodeChange::Reason { reason: reason() }], Ok(1), true),
    ];
    for (changes, right, takes) in rows {
        let mut world = world();
        let last = changes.iter().map(|change| node(&mut world, change.clone())).last();
        assert_eq!(last, Some(right), "{changes:?}");
        assert_eq!(world.state.node_named("n1").unwrap().takes_jobs(), takes, "{changes:?}");
    }
    for first in [drain(), down(), fail()] {
        let mut world = world();
        node(&mut world, first).unwrap();
        node(&mut world, NodeChange::Reason { reason: "other".into() }).unwrap();
        let node = world.state.node_named("n1").unwrap();
        assert_eq!(node.drain.as_ref().or(node.down.as_ref()).unwrap().reason, "other");
    }
}

fn features(node: &gpun_core::node::Node) -> (String, String) {
    (node.features_available().join(","), node.inventory.features.join(","))
}

#[test]
fn features_of_a_node() {
    let list = |text: &str| Some(text.split(',').filter(|one| !one.is_empty()).map(str::to_owned).collect::<Vec<_>>());
    let bad = Err(Refusal::ActiveFeatures);
    let rows = [
        (list("a,b"), None, bad.clone(), ("fast,ib", "fast,ib")),
        (None, list("x"), bad, ("fast,ib", "fast,ib")),
        (None, list("ib"), Ok(1), ("fast,ib", "ib")),
        (None, list(""), Ok(1), ("fast,ib", "")),
        (list("fast,ib,x"), None, Ok(1), ("fast,ib,x", "fast,ib,x")),
        (list("a,b"), list("a"), Ok(1), ("a,b", "a")),
    ];
    for (available_features, active_features, right, seen) in rows {
        let mut world = world();
        let settings = NodeSettings { available_features, active_features, ..NodeSettings::default() };
        assert_eq!(node(&mut world, NodeChange::Set(Box::new(settings.clone()))), right, "{settings:?}");
        let (available, active) = features(world.state.node_named("n1").unwrap());
        assert_eq!((available.as_str(), active.as_str()), seen, "{settings:?}");
    }
}

#[test]
fn an_operators_word_on_a_node_holds_until_its_daemon_states_something_new() {
    let mut world = world();
    let stated = (*world.state.node_named("n1").unwrap().inventory).clone();
    let settings = NodeSettings {
        weight: Some(7),
        active_features: Some(vec!["ib".into()]),
        comment: Some("c".into()),
        extra: Some("e".into()),
        ..NodeSettings::default()
    };
    node(&mut world, NodeChange::Set(Box::new(settings))).unwrap();
    let effective = (*world.state.node_named("n1").unwrap().inventory).clone();
    let seen = |world: &World| {
        let node = world.state.node_named("n1").unwrap();
        (node.inventory.weight, features(node).1, node.comment.clone(), node.extra.clone())
    };
    let said = |weight, features: &str| (weight, features.to_owned(), "c".to_owned(), "e".to_owned());
    // The daemon starts again, and the controller brings it back by what it has of it.
    for again in [&stated, &effective, &stated] {
        world.register("n1", again.clone());
        assert_eq!(seen(&world), said(7, "ib"));
    }
    world.register("n1", Inventory { weight: 3, ..stated.clone() });
    assert_eq!(seen(&world), said(3, "ib"));
    world.register("n1", Inventory { weight: 3, features: vec!["new".into()], ..stated });
    assert_eq!(seen(&world), said(3, "new"));
    assert_eq!(world.state.node_named("n1").unwrap().stated, None);
}

fn partition(world: &mut World, change: PartitionChange) -> Result<u32, Refusal> {
    world.act(&OPERATOR, Act::UpdatePartition { name: "batch".into(), change: Box::new(change) })
}

#[test]
fn nodes_of_a_partition() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let same = PartitionChange::default;
    let unknown = Err(Refusal::UnknownNodeName { name: "n9".into() });
    let rows: Vec<(Vec<PartitionChange>, Result<u32, Refusal>, &[&str])> = vec![
        (vec![PartitionChange { nodes: Some(names(&["n2"])), ..same() }], Ok(1), &["n2"]),
        (vec![PartitionChange { nodes: Some(names(&["n9"])), ..same() }], unknown, &[]),
        (vec![PartitionChange { nodes_remove: names(&["n1"]), ..same() }], Ok(1), &["n2"]),
        (vec![PartitionChange { nodes_remove: names(&["n1", "n2"]), ..same() }], Err(Refusal::NoNodesLeft), &[]),
        (
            vec![
                PartitionChange { nodes: Some(names(&["n2"])), ..same() },
                PartitionChange { nodes_add: names(&["n1"]), ..same() },
            ],
            Ok(1),
            &["n2", "n1"],
        ),
        (vec![PartitionChange { nodes_add: names(&["n1"]), ..same() }], Ok(1), &[]),
    ];
    for (changes, right, nodes) in rows {
        let mut world = world();
        let last = changes.iter().map(|change| partition(&mut world, change.clone())).last();
        assert_eq!(last, Some(right), "{changes:?}");
        assert_eq!(world.state.partition("batch").unwrap().nodes, nodes, "{changes:?}");
    }
}

#[test]
fn limits_of_a_partition() {
    let mut world = world();
    let change = PartitionChange {
        min_nodes: Some(1),
        max_nodes: Some(2),
        priority_tier: Some(3),
        priority_job_factor: Some(4),
        hidden: Some(true),
        root_only: Some(false),
        allow_accounts: Some(vec!["lab".into()]),
        deny_accounts: Some(vec!["old".into()]),
        allow_groups: Some(vec![("staff".into(), 50)]),
        allow_qos: Some(vec!["high".into()]),
        deny_qos: Some(vec!["low".into()]),
        def_mem: Some(MemoryLimit::PerNode(MemoryMib(2))),
        max_mem: Some(MemoryLimit::PerCpu(MemoryMib(3))),
        exclusive: Some(true),
        ..PartitionChange::default()
    };
    assert_eq!(partition(&mut world, change), Ok(1));
    let have = world.state.partition("batch").unwrap();
    let right = Partition {
        min_nodes: Some(1),
        max_nodes: Some(2),
        priority_tier: Some(3),
        priority_job_factor: Some(4),
        hidden: true,
        allow_accounts: vec!["lab".into()],
        deny_accounts: vec!["old".into()],
        allow_groups: vec![("staff".into(), 50)],
        allow_qos: vec!["high".into()],
        deny_qos: vec!["low".into()],
        def_mem_per_node: Some(MemoryMib(2)),
        max_mem: Some(MemoryLimit::PerCpu(MemoryMib(3))),
        exclusive: true,
        ..Partition::all_nodes("batch")
    };
    assert_eq!(**have, right);
    assert!(have.takes_qos(Some("high")) && !have.takes_qos(Some("low")) && !have.takes_qos(None));
    let back = PartitionChange {
        max_nodes: Some(u32::MAX),
        allow_groups: Some(Vec::new()),
        def_mem: Some(MemoryLimit::PerCpu(MemoryMib(1))),
        max_mem: Some(MemoryLimit::PerNode(MemoryMib(0))),
        ..PartitionChange::default()
    };
    assert_eq!(partition(&mut world, back), Ok(1));
    let have = world.state.partition("batch").unwrap();
    assert_eq!((have.max_nodes, have.max_mem, have.def_mem_per_node), (None, None, None));
    assert_eq!(have.def_mem_per_cpu, Some(MemoryMib(1)));
}

#[test]
fn groups_of_a_partition() {
    let mut world = world();
    let groups = Some(vec![("staff".to_owned(), 50), ("lab".to_owned(), 1001)]);
    partition(&mut world, PartitionChange { allow_groups: groups, ..PartitionChange::default() }).unwrap();
    let rows: [(Identity, Result<(), Refusal>); 3] =
        [(ALICE, Ok(())), (BOB, Err(Refusal::PartitionGroup)), (ROOT, Ok(()))];
    for (who, right) in rows {
        let outcome = world.try_submit(&who, tasks(1));
        assert_eq!(outcome.map(|_| ()), right, "{}", who.uid);
    }
}

#[test]
fn memory_that_a_partition_takes() {
    use MemoryRequest::{Default, PerCpu, PerNode};
    let (node, cpu) =
        (|mib| Some(MemoryLimit::PerNode(MemoryMib(mib))), |mib| Some(MemoryLimit::PerCpu(MemoryMib(mib))));
    let rows = [
        (None, PerNode(MemoryMib(9)), 1, true),
        (node(8), PerNode(MemoryMib(8)), 1, true),
        (node(8), PerNode(MemoryMib(9)), 1, false),
        (node(8), PerNode(MemoryMib(0)), 1, false),
        (node(8), PerCpu(MemoryMib(2)), 4, true),
        (node(8), PerCpu(MemoryMib(3)), 4, false),
        (cpu(2), PerCpu(MemoryMib(3)), 1, false),
        (cpu(2), PerNode(MemoryMib(8)), 4, true),
        (cpu(2), PerNode(MemoryMib(9)), 4, false),
        (node(8), Default, 1, true),
    ];
    for (max_mem, asked, cpus, takes) in rows {
        let partition = Partition { max_mem, ..Partition::all_nodes("p") };
        assert_eq!(partition.takes_memory(asked, cpus), takes, "{max_mem:?} {asked:?} {cpus}");
    }
}

/// A job of a minute, its deadline, and what it is at some times after its submission.
#[test]
fn a_job_that_misses_its_deadline_is_ended() {
    use JobState::{Deadline, Pending, Running};
    let late = |seconds, state| (seconds, state);
    let rows: [(u64, Option<u64>, bool, &[(u64, JobState)]); 4] = [
        (100, None, false, &[late(40, Pending), late(41, Deadline)]),
        (100, Some(20), false, &[late(41, Pending), late(80, Pending), late(81, Deadline)]),
        (100, None, true, &[late(41, Running), late(100, Running), late(101, Deadline)]),
        (1000, None, false, &[late(900, Pending)]),
    ];
    for (deadline, least, runs, seen) in rows {
        let mut world = world();
        let begin = world.now;
        let spec = JobSpec {
            deadline: Some(begin.plus_s(deadline)),
            time_limit: Some(TimeLimit::Seconds(60)),
            time_min: least.map(TimeLimit::Seconds),
            ..tasks(1)
        };
        let job: JobId = world.submit(spec);
        if runs {
            world.place(job, &["n1"]);
        }
        for (seconds, state) in seen {
            let due = world.state.next_due().is_some_and(|due| due <= begin.plus_s(*seconds));
            let ended = *state == Deadline;
            assert!(due || !ended, "a tick comes");
            let outcomes = world.entry(begin.plus_s(*seconds), vec![Command::Tick]);
            assert!(matches!(outcomes[..], [Outcome::Done { .. }]));
            assert_eq!(world.job(job).state, *state, "{deadline} {least:?} after {seconds}");
            if ended {
                assert_eq!(world.job(job).reason, Reason::DeadLine);
                assert_eq!(world.job(job).end_order.is_some(), runs, "its node ends it");
            }
        }
    }
}
