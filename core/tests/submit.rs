//! What is taken, what is refused, and that a repeated submission is one job.

mod build;

use build::*;
use gpun_core::{
    Command, IndexSet, JobId, MemoryMib, Outcome, Refusal, TimeLimit, TimeMs,
    command::{Act, PartitionChange},
    index_set::Range,
    job::{Hold, Reason},
    node::{GresInventory, Inventory},
    partition::{Partition, PartitionState},
    settings::Settings,
    spec::{ArrayRequest, GresRequest, JobSpec, MemoryRequest},
};

fn cluster() -> World {
    let mut world = World::new();
    let side = |name: &str| Partition { is_default: false, ..Partition::all_nodes(name) };
    let partitions = vec![
        Partition { state: PartitionState::Drain, ..side("drained") },
        Partition { state: PartitionState::Inactive, ..side("inactive") },
        Partition { state: PartitionState::Down, ..side("down") },
        Partition { root_only: true, ..side("root") },
        Partition { allow_accounts: vec!["lab".into()], ..side("lab") },
        Partition { deny_accounts: vec!["lab".into()], ..side("nolab") },
        Partition { default_time: Some(TimeLimit::Seconds(600)), max_time: TimeLimit::Seconds(3600), ..side("timed") },
    ];
    world.configure(Settings { max_array_size: 1001, ..settings() }, partitions);
    let gres = |kind: &str| GresInventory { name: "gpu".into(), kind: Some(kind.into()), count: 2, files: Vec::new() };
    let with_gpus = Inventory { gres: vec![gres("a100")], features: vec!["ib".into()], ..cpus(8) };
    world.register("n3", with_gpus);
    world
}

fn gpu(kind: Option<&str>, name: &str, count: u32) -> JobSpec {
    let gres = vec![GresRequest { name: name.into(), kind: kind.map(Into::into), count, bare: false }];
    JobSpec { gres, ..tasks(1) }
}

fn to(partition: &str) -> JobSpec {
    JobSpec { partitions: vec![partition.into()], ..tasks(1) }
}

fn with_array(tasks: IndexSet) -> JobSpec {
    JobSpec { array: Some(ArrayRequest { tasks, max_running: None }), ..build::tasks(1) }
}

#[test]
fn admission() {
    use Refusal::*;
    let range = |first, last, step| IndexSet::from_ranges(Range::new(first, last, step));
    let rows: Vec<(&str, JobSpec, Result<(), Refusal>)> = vec![
        ("nothing said", JobSpec::default(), Ok(())),
        ("as many CPUs as there are", tasks(16), Ok(())),
        ("one CPU more", tasks(17), Err(NodeConfigUnavailable)),
        ("on few nodes", JobSpec { nodes_max: Some(2), ..tasks(12) }, Ok(())),
        ("on too few nodes", JobSpec { nodes_max: Some(1), ..tasks(9) }, Err(NodeConfigUnavailable)),
        ("all nodes", JobSpec { nodes_min: Some(3), ..JobSpec::default() }, Ok(())),
        ("one node more", JobSpec { nodes_min: Some(4), ..JobSpec::default() }, Err(NodeConfigUnavailable)),
        ("one node more, held", JobSpec { nodes_min: Some(4), hold: true, ..JobSpec::default() }, Ok(())),
        (
            "fewer than the fewest",
            JobSpec { nodes_min: Some(2), nodes_max: Some(1), ..JobSpec::default() },
            Err(NodeCount),
        ),
        ("more memory than a node", JobSpec { memory: MemoryRequest::PerNode(MemoryMib(9)), ..tasks(1) }, Err(Memory)),
        ("a node's memory", JobSpec { memory: MemoryRequest::PerNode(MemoryMib(8)), ..tasks(1) }, Ok(())),
        ("a feature", JobSpec { features: vec!["ib".into()], ..tasks(1) }, Ok(())),
        ("no such feature", JobSpec { features: vec!["x".into()], ..tasks(1) }, Err(Feature)),
        (
            "one of two",
            JobSpec { feature_sets: vec![vec!["ib".into()], vec!["ib".into(), "ib".into()]], ..tasks(1) },
            Ok(()),
        ),
        ("none of them", JobSpec { feature_sets: vec![vec!["x".into()], vec!["ib".into()]], ..tasks(1) }, Err(Feature)),
        ("features of too few nodes", JobSpec { features: vec!["ib".into()], ..tasks(9) }, Err(NodeConfigUnavailable)),
        ("a GPU", gpu(None, "gpu", 2), Ok(())),
        ("a GPU of a kind", gpu(Some("a100"), "gpu", 1), Ok(())),
        ("of another kind", gpu(Some("v100"), "gpu", 1), Err(NodeConfigUnavailable)),
        ("more GPUs than a node has", gpu(None, "gpu", 3), Err(NodeConfigUnavailable)),
        ("no such resource", gpu(None, "fpga", 1), Err(Gres)),
        (
            "an unknown node",
            JobSpec { node_list: vec!["x".into()], ..tasks(1) },
            Err(UnknownNodeName { name: "x".into() }),
        ),
        ("all but one", JobSpec { exclude: vec!["n1".into(), "n2".into()], ..tasks(8) }, Ok(())),
        (
            "all but one, more",
            JobSpec { exclude: vec!["n1".into(), "n2".into()], ..tasks(9) },
            Err(NodeConfigUnavailable),
        ),
        ("no time", JobSpec { time_limit: Some(gpun_core::TimeLimit::Seconds(0)), ..tasks(1) }, Err(TimeLimit)),
        ("an unknown partition", to("x"), Err(UnknownPartition)),
        ("drained", to("drained"), Err(PartitionInactive)),
        ("inactive", to("inactive"), Err(PartitionInactive)),
        ("down", to("down"), Ok(())),
        ("root's", to("root"), Err(PartitionAccess)),
        ("the lab's: it waits", to("lab"), Ok(())),
        ("the lab's, from it", JobSpec { account: Some("lab".into()), ..to("lab") }, Ok(())),
        ("not the lab's, from it", JobSpec { account: Some("lab".into()), ..to("nolab") }, Ok(())),
        ("one of two", JobSpec { partitions: vec!["root".into(), "batch".into()], ..tasks(1) }, Ok(())),
        ("an empty array", with_array(IndexSet::new()), Err(Array)),
        ("a large array", with_array(range(0, 1000, 1)), Ok(())),
        ("too high a task", with_array(range(1001, 1001, 1)), Err(Array)),
        ("overcommitted", JobSpec { overcommit: true, ..tasks(99) }, Ok(())),
    ];
    for (name, spec, want) in rows {
        let mut world = cluster();
        assert_eq!(world.try_submit(&ALICE, spec.clone()).map(|_| ()), want, "{name}");
        assert_eq!(
            world.state.would_accept(&gpun_core::job::Owner { uid: 1001, ..Default::default() }, &spec).map(|_| ()),
            want,
            "{name}, asked"
        );
    }
    cluster().try_submit(&ROOT, to("root")).expect("root may");
}

#[test]
fn nothing_can_be_submitted_to_a_bare_cluster() {
    assert_eq!(World::bare().try_submit(&ALICE, tasks(1)), Err(Refusal::NoDefaultPartition));
    let mut world = World::bare();
    world.configure(settings(), vec![Partition::all_nodes("batch")]);
    world.try_submit(&ALICE, tasks(1000)).expect("nodes may still come");
}

#[test]
fn time_limits_are_resolved() {
    let rows = [
        (to("timed"), Some(TimeLimit::Seconds(60))),
        (JobSpec { time_limit: None, ..to("timed") }, Some(TimeLimit::Seconds(600))),
        (JobSpec { time_limit: None, ..to("batch") }, Some(TimeLimit::Infinite)),
        // Longer than the partition allows: taken, and waits.
        (JobSpec { time_limit: Some(TimeLimit::Seconds(7200)), ..to("timed") }, Some(TimeLimit::Seconds(7200))),
    ];
    for (spec, want) in rows {
        let mut world = cluster();
        let got = world.try_submit(&ALICE, spec.clone()).ok().map(|job| world.job(job).time_limit);
        assert_eq!(got, want, "{spec:?}");
    }
}

#[test]
fn jobs_are_numbered_from_the_first_and_never_twice() {
    let mut world = World::new();
    world.configure(Settings { first_job_id: 70_001, max_job_id: 70_004, ..settings() }, Vec::new());
    let ids: Vec<u32> = (0..3).map(|_| world.submit(tasks(1)).0).collect();
    assert_eq!(ids, [70_001, 70_002, 70_003]);
    assert_eq!(world.try_submit(&ALICE, tasks(1)), Err(Refusal::NoJobIds));
    world.act(&ALICE, Act::Cancel(one(JobId(70_001)))).expect("cancelled");
    world.pass(10_000);
    assert_eq!(world.state.job_count(), 2);
    assert_eq!(world.try_submit(&ALICE, tasks(1)), Err(Refusal::NoJobIds), "not even when it is gone");
}

#[test]
fn the_queue_has_an_end() {
    let mut world = World::new();
    world.configure(Settings { max_job_count: 2, ..settings() }, Vec::new());
    let first = world.submit(tasks(1));
    world.submit(array(0, 99, None));
    assert_eq!(world.try_submit(&ALICE, tasks(1)), Err(Refusal::QueueFull));
    let change = gpun_core::command::JobChange { ntasks: Some(2), ..Default::default() };
    assert_eq!(world.act(&ALICE, update(first, change)), Ok(1), "a full queue keeps nobody from changing a job");
}

#[test]
fn a_request_id_is_one_job_for_an_hour() {
    let mut world = World::new();
    let submit = world.submission(&ALICE, tasks(1));
    let send = |world: &mut World| submitted(world.apply(Command::Submit(Box::new(submit.clone()))));
    let first = send(&mut world);
    assert_eq!(first, Ok(JobId(1)));
    assert_eq!(send(&mut world), first, "again at once");
    world.act(&ALICE, Act::Cancel(one(JobId(1)))).expect("cancelled");
    for _ in 0..7 {
        world.pass(500);
    }
    world.pass(99);
    assert_eq!(world.state.job_count(), 0, "the job itself is history");
    assert_eq!(send(&mut world), first, "within the hour");
    world.pass(1);
    assert_eq!(send(&mut world), Ok(JobId(2)), "after the hour it is a new one");
    let other = world.submission(&ALICE, tasks(1));
    assert_eq!(submitted(world.apply(Command::Submit(Box::new(other)))), Ok(JobId(3)), "another id is another job");
}

#[test]
fn a_clock_that_jumps_makes_nobody_forget() {
    for jumps_s in [&[3_600][..], &[-3_600], &[3_600, -3_600], &[90_000, 7]] {
        let mut world = World::new();
        let submit = world.submission(&ALICE, tasks(1));
        let send = |world: &mut World| submitted(world.apply(Command::Submit(Box::new(submit.clone()))));
        let first = send(&mut world);
        for jump_s in jumps_s {
            world.now = TimeMs(world.now.0.saturating_add_signed(jump_s * 1_000));
            world.pass(1);
            assert_eq!(send(&mut world), first, "{jumps_s:?}");
        }
    }
}

#[test]
fn one_request_id_twice_in_one_entry_is_one_job() {
    let mut world = World::new();
    let submit = world.submission(&ALICE, tasks(1));
    let commands = vec![Command::Submit(Box::new(submit.clone())), Command::Submit(Box::new(submit))];
    let outcomes = world.entry(world.now, commands);
    assert_eq!(outcomes, vec![Outcome::Submitted { job: JobId(1) }; 2]);
    assert_eq!(world.state.job_count(), 1);
}

#[test]
fn a_refused_request_id_may_be_sent_again() {
    let mut world = World::new();
    let mut submit = world.submission(&ALICE, tasks(1));
    submit.blobs.clear();
    let send = |world: &mut World, submit: &gpun_core::command::Submit| {
        submitted(world.apply(Command::Submit(Box::new(submit.clone()))))
    };
    assert_eq!(send(&mut world, &submit), Err(Refusal::BlobMissing));
    submit.blobs = world.submission(&ALICE, tasks(1)).blobs;
    assert_eq!(send(&mut world, &submit), Ok(JobId(1)));
}

#[test]
fn blobs_are_kept_as_long_as_a_job_uses_them() {
    let mut world = World::new();
    let first = world.submit(tasks(1));
    let mut without = world.submission(&ALICE, array(0, 2, None));
    without.blobs.clear();
    assert_eq!(submitted(world.apply(Command::Submit(Box::new(without)))), Ok(JobId(2)), "they are there already");
    assert!(world.state.has_blob(&digest(1)) && world.state.has_blob(&digest(2)));
    assert_eq!(world.mirror.blobs(), 2);
    world.act(&ALICE, Act::Cancel(one(first))).expect("cancelled");
    world.pass(1000);
    assert_eq!((world.mirror.blobs(), world.mirror.history()), (2, 1), "the array still uses them");
    world.place_task(JobId(2), 1, "n1");
    world.act(&ALICE, Act::Cancel(some(JobId(2), &[0]))).expect("cancelled");
    world.pass(1000);
    assert_eq!(world.mirror.blobs(), 2);
    world.act(&ALICE, Act::Cancel(one(JobId(2)))).expect("cancelled");
    let job = world.task(JobId(2), 1).expect("task 1");
    world.end("n1", job, 1, gpun_core::command::EndedHow::Ordered, (0, 15));
    world.pass(1000);
    assert_eq!(
        (world.state.job_count(), world.mirror.blobs(), world.mirror.history()),
        (0, 2, 4),
        "the history names them"
    );
}

#[test]
fn submitted_held() {
    let rows = [
        (JobSpec { hold: true, ..tasks(1) }, Hold::User, Reason::HeldUser),
        (JobSpec { priority: Some(0), ..tasks(1) }, Hold::Admin, Reason::HeldAdmin),
        (tasks(1), Hold::None, Reason::None),
    ];
    for (spec, hold, reason) in rows {
        let mut world = World::new();
        let job = world.submit(spec);
        let job = world.job(job);
        assert_eq!((job.hold, job.reason, job.priority == 0), (hold, reason, hold != Hold::None));
        assert_eq!(job.eligible.is_some(), hold == Hold::None);
    }
}

#[test]
fn a_partition_that_closes_takes_no_more() {
    let mut world = World::new();
    let change = PartitionChange { state: Some(PartitionState::Drain), ..PartitionChange::default() };
    world.act(&ROOT, Act::UpdatePartition { name: "batch".into(), change: Box::new(change) }).expect("closed");
    assert_eq!(world.try_submit(&ALICE, tasks(1)), Err(Refusal::PartitionInactive));
}
