//! Random commands of every kind, in any order, with time jumping back and forth: everything that must hold after an entry is
//! checked after each (see `build::World::entry`): the invariants, a second replica, the mirror, and that a refusal changes
//! nothing.

mod build;

use build::*;
use gpun_core::{
    Attempt, Command, Digest, IndexSet, JobId, MemoryMib, NodeId, RequestId, TimeLimit, TimeMs,
    command::{
        Act, EndedHow, Identity, JobChange, JobEvent, JobRef, JobReport, NodeChange, PartitionChange, Placement,
        StepEnded,
    },
    dependency::{Condition, Dependency, Kind},
    index_set::Range,
    job::{ExitStatus, JobState, SignalScope, Usage},
    node::{GresInventory, Inventory},
    partition::{Partition, PartitionState},
    settings::Settings,
    spec::{ArrayRequest, GresRequest, JobSpec, MemoryRequest},
    step::{NewStep, StepSpec},
};
use proptest::prelude::*;

/// One thing that happens. Numbers are taken modulo what there is, so that every step means something.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant)] // A few hundred of them live for one case.
enum Step {
    Submit { who: Identity, spec: JobSpec, further: Vec<JobSpec>, repeats: Option<u8>, without_blobs: bool },
    Act { who: Identity, act: ActKind, job: u32, tasks: Option<Vec<u32>> },
    UpdateNode { who: Identity, node: u8, change: NodeChange },
    UpdatePartition { who: Identity, name: &'static str, change: PartitionChange },
    Place { pick: u8, nodes: u8, spoil: Spoil },
    Report { pick: u8, older: u32, other_node: bool, event: EventKind, twice: bool },
    Register { node: u8, inventory: Inventory },
    Share { who: Identity, pick: u8, request: u8, spec: StepSpec },
    Lose { node: u32 },
    Configure { settings: Settings, partition: Option<Partition> },
    Time { milliseconds: i64 },
    Tick { seconds: u64 },
}

#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant)] // A few hundred of them live for one case.
enum ActKind {
    Cancel,
    Signal,
    Hold { as_user: bool },
    Release,
    Requeue { hold: bool },
    Suspend,
    Resume,
    Update(JobChange),
}

#[derive(Debug, Clone, Copy)]
enum EventKind {
    Launched,
    Ended(EndedHow, u8, u8),
    StepEnded(u32, u8, bool),
}

/// What is wrong with a placement, if anything.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Spoil {
    Nothing,
    Cpus,
    Attempt,
    Task,
    Node,
    Memory,
    Twice,
}

fn who() -> impl Strategy<Value = Identity> {
    prop_oneof![3 => Just(ALICE), 2 => Just(BOB), 1 => Just(ROOT), 1 => Just(OPERATOR)]
}

fn optional<T: Clone + std::fmt::Debug>(some: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    prop_oneof![3 => Just(None), 1 => some.prop_map(Some)]
}

fn limit() -> impl Strategy<Value = TimeLimit> {
    prop_oneof![5 => (0..300_u64).prop_map(TimeLimit::Seconds), 1 => Just(TimeLimit::Infinite)]
}

fn moment() -> impl Strategy<Value = TimeMs> {
    (0..600_u64).prop_map(|seconds| START.plus_s(seconds))
}

fn names(of: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
    let some = prop::sample::subsequence(of, 0..=of.len());
    prop_oneof![4 => Just(Vec::new()), 1 => some.prop_map(|names| names.into_iter().map(str::to_owned).collect())]
}

fn array_request() -> impl Strategy<Value = ArrayRequest> {
    let tasks = prop_oneof![
        (0..6_u32, 0..8_u32, 1..4_u32)
            .prop_map(|(first, more, step)| { IndexSet::from_ranges(Range::new(first, first + more, step)) }),
        prop::collection::vec(0..12_u32, 1..5).prop_map(|tasks| tasks.into_iter().collect()),
        Just(IndexSet::first_n(2_000_000)),
        Just(IndexSet::new()),
    ];
    (tasks, optional(1..3_u32)).prop_map(|(tasks, max_running)| ArrayRequest { tasks, max_running })
}

fn dependency() -> impl Strategy<Value = Dependency> {
    let kind = prop::sample::select(vec![
        Kind::After,
        Kind::AfterAny,
        Kind::AfterOk,
        Kind::AfterNotOk,
        Kind::AfterCorr,
        Kind::AfterBurstBuffer,
        Kind::Singleton,
    ]);
    let condition = (kind, 1..6_u32, prop_oneof![6 => Just(None), 1 => (0..8_u32).prop_map(Some)], 0..2_u32);
    let condition = condition.prop_map(|(kind, job, task, delay_min)| {
        let singleton = kind == Kind::Singleton;
        let job = JobId(if singleton { 0 } else { job });
        Condition { task: task.filter(|_| !singleton), delay_min, ..Condition::new(kind, job) }
    });
    (prop::collection::vec(condition, 1..3), any::<bool>()).prop_map(|(conditions, any)| Dependency { conditions, any })
}

prop_compose! {
    fn spec()(
        depends in (prop_oneof![2 => Just(None), 1 => dependency().prop_map(Some)], optional(any::<bool>())),
        sizes in (optional(0..4_u32), optional(0..4_u32), optional(0..6_u32), optional(0..4_u32), optional(0..4_u32)),
        memory in prop_oneof![
            4 => Just(MemoryRequest::Default),
            1 => (0..6_u64).prop_map(|mib| MemoryRequest::PerNode(MemoryMib(mib))),
            1 => (0..3_u64).prop_map(|mib| MemoryRequest::PerCpu(MemoryMib(mib))),
        ],
        gpus in optional(1..3_u32),
        lists in (names(&["batch", "side"]), names(&["n1", "n2", "nowhere"]), names(&["n1"])),
        times in (optional(limit()), optional(moment()), optional(moment())),
        flags in prop::collection::vec(prop::bool::weighted(0.1), 4),
        more in (optional(0..3_u32), optional(array_request()), optional(any::<bool>()), -5..5_i32),
    ) -> JobSpec {
        let gres = gpus.map(|count| GresRequest { name: "gpu".to_owned(), kind: None, count, bare: false });
        JobSpec {
            nodes_min: sizes.0,
            nodes_max: sizes.1,
            ntasks: sizes.2,
            ntasks_per_node: sizes.3,
            cpus_per_task: sizes.4,
            memory,
            gres: gres.into_iter().collect(),
            partitions: lists.0,
            node_list: lists.1,
            exclude: lists.2,
            time_limit: times.0,
            begin: times.1,
            deadline: times.2,
            hold: flags[0],
            exclusive: flags[1],
            overcommit: flags[2],
            contiguous: flags[3],
            priority: more.0,
            array: more.1,
            requeue: more.2,
            nice: more.3,
            dependency: depends.0,
            kill_on_invalid_dep: depends.1,
            ..JobSpec::default()
        }
    }
}

prop_compose! {
    fn change()(
        limit in optional(limit()),
        partitions in optional(names(&["batch", "side"])),
        priority in optional(0..3_u32),
        begin in optional(moment()),
        array_max_running in optional(0..3_u32),
        ntasks in optional(1..6_u32),
        requeue in optional(any::<bool>()),
        nice in optional(-3..3_i32),
        depends in optional(dependency()),
    ) -> JobChange {
        JobChange {
            time_limit: limit,
            partitions,
            priority,
            begin,
            array_max_running,
            ntasks,
            requeue,
            nice,
            dependency: depends,
            ..JobChange::default()
        }
    }
}

/// Further components, small enough to find room.
fn further() -> impl Strategy<Value = Vec<JobSpec>> {
    let small = (1..3_u32).prop_map(tasks);
    prop_oneof![4 => Just(Vec::new()), 1 => prop::collection::vec(small, 1..3)]
}

fn act() -> impl Strategy<Value = ActKind> {
    prop_oneof![
        3 => Just(ActKind::Cancel),
        1 => Just(ActKind::Signal),
        2 => any::<bool>().prop_map(|as_user| ActKind::Hold { as_user }),
        2 => Just(ActKind::Release),
        3 => any::<bool>().prop_map(|hold| ActKind::Requeue { hold }),
        2 => Just(ActKind::Suspend),
        2 => Just(ActKind::Resume),
        2 => change().prop_map(ActKind::Update),
    ]
}

fn event() -> impl Strategy<Value = EventKind> {
    use EndedHow::*;
    let how = prop::sample::select(vec![Exited, TimeLimit, OutOfMemory, LaunchFailed, Lost, Ordered]);
    prop_oneof![
        Just(EventKind::Launched),
        (0..4_u32, 0..2_u8, any::<bool>())
            .prop_map(|(step, code, cancelled)| EventKind::StepEnded(step, code, cancelled)),
        (how, 0..2_u8, prop_oneof![3 => Just(0), 1 => Just(9)])
            .prop_map(|(how, code, signal)| EventKind::Ended(how, code, signal)),
    ]
}

fn new_step() -> impl Strategy<Value = StepSpec> {
    (optional(0..5_u32), optional(0..3_u32), any::<[bool; 3]>(), optional(0..3_u32)).prop_map(
        |(ntasks, cpus_per_task, [exact, overlap, overcommit], nodes)| StepSpec {
            ntasks,
            cpus_per_task,
            exact,
            overlap,
            overcommit,
            nodes,
            ..StepSpec::default()
        },
    )
}

fn inventory() -> impl Strategy<Value = Inventory> {
    (0..6_u32, 0..3_u32).prop_map(|(count, gpus)| {
        let gres = GresInventory { name: "gpu".to_owned(), kind: None, count: gpus, files: Vec::new() };
        Inventory { gres: vec![gres], ..cpus(count) }
    })
}

fn partition() -> impl Strategy<Value = Partition> {
    (prop::sample::select(vec!["batch", "side"]), names(&["n1", "n3"]), any::<bool>(), optional(limit())).prop_map(
        |(name, nodes, is_default, default_time)| Partition {
            nodes,
            is_default,
            default_time,
            ..Partition::all_nodes(name)
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let spoil = prop_oneof![
        6 => Just(Spoil::Nothing),
        2 => prop::sample::select(vec![Spoil::Cpus, Spoil::Attempt, Spoil::Task, Spoil::Node, Spoil::Memory, Spoil::Twice]),
    ];
    let node_change = prop_oneof![
        Just(NodeChange::Drain { reason: "test".to_owned() }),
        Just(NodeChange::Resume),
        Just(NodeChange::Down { reason: "test".to_owned() }),
    ];
    let partition_state = prop::sample::select(vec![
        PartitionState::Up,
        PartitionState::Down,
        PartitionState::Drain,
        PartitionState::Inactive,
    ]);
    let settings =
        (1..20_u32, 0..100_u64, optional(2..40_u32)).prop_map(|(first_job_id, min_job_age_s, max_job_count)| {
            Settings {
                first_job_id,
                min_job_age_s,
                max_job_count: max_job_count.unwrap_or(1000),
                launch_faults_max: 2,
                ..settings()
            }
        });
    prop_oneof![
        6 => (who(), spec(), further(), optional(any::<u8>()), prop::bool::weighted(0.1)).prop_map(
            |(who, spec, further, repeats, without_blobs)| Step::Submit { who, spec, further, repeats, without_blobs }
        ),
        5 => (who(), act(), 0..30_u32, optional(prop::collection::vec(0..12_u32, 0..4)))
            .prop_map(|(who, act, job, tasks)| Step::Act { who, act, job, tasks }),
        1 => (who(), any::<u8>(), node_change).prop_map(|(who, node, change)| Step::UpdateNode { who, node, change }),
        1 => (who(), prop::sample::select(vec!["batch", "side", "none"]), optional(partition_state), optional(any::<bool>()))
            .prop_map(|(who, name, state, is_default)| Step::UpdatePartition {
                who,
                name,
                change: PartitionChange { state, is_default, ..PartitionChange::default() },
            }),
        9 => (any::<u8>(), any::<u8>(), spoil).prop_map(|(pick, nodes, spoil)| Step::Place { pick, nodes, spoil }),
        8 => (any::<u8>(), prop_oneof![4 => Just(0), 1 => 1..3_u32], prop::bool::weighted(0.1), event(), prop::bool::weighted(0.2))
            .prop_map(|(pick, older, other_node, event, twice)| Step::Report { pick, older, other_node, event, twice }),
        2 => (any::<u8>(), inventory()).prop_map(|(node, inventory)| Step::Register { node, inventory }),
        1 => (0..5_u32).prop_map(|node| Step::Lose { node }),
        5 => (who(), any::<u8>(), any::<u8>(), new_step())
            .prop_map(|(who, pick, request, spec)| Step::Share { who, pick, request, spec }),
        1 => (settings, optional(partition())).prop_map(|(settings, partition)| Step::Configure { settings, partition }),
        2 => (-100_000..100_000_i64).prop_map(|milliseconds| Step::Time { milliseconds }),
        2 => prop_oneof![0..50_u64, 3000..4000_u64].prop_map(|seconds| Step::Tick { seconds }),
    ]
}

/// Counts what came of the steps, so that the test can tell that it tests something.
#[derive(Debug, Default, Clone, Copy)]
struct Seen {
    placed: u32,
    ended: u32,
    requeued: u32,
    /// Waits for other jobs that ended.
    freed: u32,
    /// Steps that were made.
    steps: u32,
}

fn take(world: &mut World, step: Step, seen: &mut Seen) {
    let command = match step {
        Step::Submit { who, spec, further, repeats, without_blobs } => {
            let mut submit = world.submission(&who, spec);
            submit.components = further;
            if let Some(earlier) = repeats {
                submit.request = RequestId(u128::from(earlier % 8).to_be_bytes());
            }
            if without_blobs {
                submit.blobs.clear();
            }
            Command::Submit(Box::new(submit))
        }
        Step::Act { who, act, job, tasks } => {
            let jobs =
                JobRef { job: JobId(job), tasks: tasks.map(|tasks| tasks.into_iter().collect()), component: None };
            let act = match act {
                ActKind::Cancel => Act::Cancel(jobs),
                ActKind::Signal => Act::Signal { jobs, signal: 10, scope: SignalScope::Batch },
                ActKind::Hold { as_user } => Act::Hold { jobs, as_user },
                ActKind::Release => Act::Release(jobs),
                ActKind::Requeue { hold } => Act::Requeue { jobs, hold },
                ActKind::Suspend => Act::Suspend(jobs),
                ActKind::Resume => Act::Resume(jobs),
                ActKind::Update(change) => Act::UpdateJob { jobs, change: Box::new(change) },
            };
            Command::Act { who, act }
        }
        Step::UpdateNode { who, node, change } => {
            Command::Act { who, act: Act::UpdateNode { name: format!("n{}", node % 4), change } }
        }
        Step::UpdatePartition { who, name, change } => {
            Command::Act { who, act: Act::UpdatePartition { name: name.to_owned(), change: Box::new(change) } }
        }
        Step::Place { pick, nodes, spoil } => match random_placement(world, pick, nodes, spoil) {
            Some(placement) => match together(world, &placement, nodes) {
                Some(all) => Command::PlaceTogether(all),
                None => Command::Place(placement),
            },
            None => return,
        },
        Step::Report { pick, older, other_node, event, twice } => {
            match random_report(world, pick, older, other_node, event, twice) {
                Some(command) => command,
                None => return,
            }
        }
        Step::Register { node, inventory } => Command::RegisterNode { name: format!("n{}", node % 4), inventory },
        Step::Share { who, pick, request, spec } => {
            let running: Vec<JobId> = world.state.jobs().filter(|job| job.run.is_some()).map(|job| job.id).collect();
            let job = running.get(usize::from(pick) % running.len().max(1)).copied().unwrap_or(JobId(u32::from(pick)));
            let before = world.state.steps_of(job).count();
            let request = RequestId(u128::from(request % 16).to_be_bytes());
            let new = Box::new(NewStep { job, request, spec, token: Digest([0; 32]) });
            world.apply(Command::CreateStep { who, new });
            seen.steps += u32::from(world.state.steps_of(job).count() > before);
            return;
        }
        Step::Lose { node } => Command::NodeLost { node: NodeId(node) },
        Step::Configure { settings, partition } => {
            Command::Configure { settings: Box::new(settings), partitions: partition.into_iter().collect() }
        }
        Step::Time { milliseconds } => {
            world.now = TimeMs(world.now.0.saturating_add_signed(milliseconds));
            return;
        }
        Step::Tick { seconds } => {
            world.now = world.now.plus_s(seconds);
            Command::Tick
        }
    };
    let before: Vec<(JobId, JobState, bool)> =
        world.state.jobs().map(|job| (job.id, job.state, job.dependency.is_some())).collect();
    world.apply(command);
    for (id, was, waited) in before {
        let Some(job) = world.state.job(id) else { continue };
        seen.freed += u32::from(waited && job.dependency.is_none());
        match (was, job.state) {
            (JobState::Pending, JobState::Running) => seen.placed += 1,
            (JobState::Running, JobState::Pending) => seen.requeued += 1,
            (JobState::Running, now) if now.is_final() => seen.ended += 1,
            _ => {}
        }
    }
}

/// A placement of some waiting job, right for as long as the nodes chosen have room, but for what is spoiled.
fn random_placement(world: &World, pick: u8, nodes: u8, spoil: Spoil) -> Option<Placement> {
    let waiting: Vec<JobId> = world.state.queue().map(|job| job.id).collect();
    let id = *waiting.get(usize::from(pick) % waiting.len().max(1))?;
    let job = world.state.job(id)?;
    let task = match &job.array {
        Some(gpun_core::job::ArrayRole::Waiting { tasks }) => tasks.first(),
        _ => None,
    };
    let names: Vec<String> = world.state.nodes().map(|node| node.name.clone()).collect();
    let count = (job.spec.nodes_min() as usize).clamp(1, names.len().max(1));
    let start = usize::from(nodes) % names.len().max(1);
    let chosen: Vec<&str> = names.iter().cycle().skip(start).take(count.min(names.len())).map(String::as_str).collect();
    if chosen.is_empty() || world.state.partitions_of(job).next().is_none() {
        return None;
    }
    let mut placement = world.placement(id, task, &chosen);
    let first = &mut placement.allocs[0];
    match spoil {
        Spoil::Nothing => {}
        Spoil::Cpus => first.cpus = [0, 3].into_iter().collect(),
        Spoil::Attempt => placement.seen_attempt = Attempt(placement.seen_attempt.0 + 1),
        Spoil::Task => placement.task = placement.task.map_or(Some(3), |task| (task % 2 == 0).then_some(task + 1)),
        Spoil::Node => first.node = NodeId(77),
        Spoil::Memory => first.memory = MemoryMib(first.memory.0 + 100),
        Spoil::Twice => placement.allocs.push(placement.allocs[0].clone()),
    }
    Some(placement)
}

/// Placements of all components of a heterogeneous job, one node each; none for any other job.
fn together(world: &World, placement: &Placement, nodes: u8) -> Option<Vec<Placement>> {
    let leader = world.job(placement.job).het?.leader;
    let names: Vec<String> = world.state.nodes().map(|node| node.name.clone()).collect();
    let of = |(at, job): (usize, &gpun_core::Shared<gpun_core::job::Job>)| {
        let name = names.get((usize::from(nodes) + at) % names.len())?;
        world.state.partitions_of(job).next()?;
        Some(world.placement(job.id, None, &[name.as_str()]))
    };
    world.state.components_of(leader).enumerate().map(of).collect()
}

fn random_report(
    world: &World,
    pick: u8,
    older: u32,
    other_node: bool,
    event: EventKind,
    twice: bool,
) -> Option<Command> {
    let ran: Vec<JobId> = world.state.jobs().filter(|job| job.attempt.0 > 0).map(|job| job.id).collect();
    let id = *ran.get(usize::from(pick) % ran.len().max(1))?;
    let job = world.state.job(id)?;
    let node = job.run.as_ref().map_or(NodeId(1), |run| run.allocs[0].node);
    let node = if other_node { NodeId(node.0 + 1) } else { node };
    // A node's clock may be anywhere.
    let at = TimeMs(world.now.0.saturating_add_signed(i64::from(pick) * 1000 - 100_000));
    let event = match event {
        EventKind::Launched => JobEvent::Launched { at },
        EventKind::StepEnded(step, code, cancelled) => JobEvent::StepEnded(StepEnded {
            step,
            at,
            exit: ExitStatus { code, signal: 0 },
            usage: Usage::default(),
            cancelled,
            oom: false,
        }),
        EventKind::Ended(how, code, signal) => {
            JobEvent::Ended(gpun_core::command::Ended { exit: ExitStatus { code, signal }, ..ended(at, how, (0, 0)) })
        }
    };
    let report = JobReport { job: id, attempt: Attempt(job.attempt.0.saturating_sub(older)), event };
    Some(Command::Report { node, reports: if twice { vec![report.clone(), report] } else { vec![report] } })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn everything_holds_after_every_entry(steps in prop::collection::vec(step(), 1..80)) {
        let mut world = World::new();
        let mut seen = Seen::default();
        for step in steps {
            take(&mut world, step, &mut seen);
        }
    }
}

/// The generator reaches what it is meant to reach: otherwise the test above would prove nothing.
#[test]
fn the_random_commands_reach_every_part() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let mut runner = TestRunner::deterministic();
    let mut seen = Seen::default();
    for _ in 0..60 {
        let steps = prop::collection::vec(step(), 80).new_tree(&mut runner).expect("a value").current();
        let mut world = World::new();
        steps.into_iter().for_each(|step| take(&mut world, step, &mut seen));
    }
    assert!(seen.placed > 50 && seen.ended > 20 && seen.requeued > 10 && seen.freed > 0 && seen.steps > 20, "{seen:?}");
}
