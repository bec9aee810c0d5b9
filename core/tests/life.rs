//! The life of a job: placed, launched, ended, cancelled, held, requeued, lost; attempts that come too late.

mod build;

use build::*;
use gpun_core::{
    Attempt, Command, JobId, MemoryMib, Outcome, Refusal, TimeLimit, TimeMs,
    command::{Act, EndedHow, JobChange, JobEvent, JobRef, NodeChange},
    desired::desired,
    job::{EndCause, Hold, JobState, Reason},
    settings::Settings,
    spec::JobSpec,
};

fn running(world: &mut World, spec: JobSpec) -> JobId {
    let job = world.submit(spec);
    world.place(job, &["n1"]);
    world.launch("n1", job, 1);
    job
}

#[test]
fn how_a_run_ends_gives_the_state() {
    use EndedHow::*;
    let rows = [
        (Exited, (0, 0), JobState::Completed, Reason::None),
        (Exited, (3, 0), JobState::Failed, Reason::NonZeroExitCode),
        (Exited, (0, 9), JobState::Failed, Reason::RaisedSignal(9)),
        (TimeLimit, (0, 15), JobState::Timeout, Reason::TimeLimit),
        (OutOfMemory, (0, 9), JobState::OutOfMemory, Reason::OutOfMemory),
        (LaunchFailed, (1, 0), JobState::Failed, Reason::LaunchFailure),
    ];
    for (how, exit, state, reason) in rows {
        let mut world = World::new();
        let job = running(&mut world, tasks(2));
        world.now = world.now.plus_s(10);
        world.end("n1", job, 1, how, exit);
        let record = world.job(job);
        assert_eq!((record.state, record.reason, record.ended), (state, reason, Some(world.now)), "{how:?}");
        assert_eq!((record.exit.code, record.exit.signal), exit);
        assert!(record.is_over());
        let node = world.state.node_named("n1").expect("node");
        assert_eq!((node.cpus_free(), node.memory_free(), node.taken.jobs.len()), (4, MemoryMib(4), 0));
        assert_eq!(node.last_busy, Some(world.now));
    }
}

/// What may be done in each state: pending, running, completing (cancelled, still there), over.
#[test]
fn acts_and_states() {
    let job = JobId(1);
    let requeue = Act::Requeue { jobs: one(job), hold: false };
    let hold = Act::Hold { jobs: one(job), as_user: true };
    use Refusal::*;
    let rows: [(&str, Act, [Result<u32, Refusal>; 4]); 6] = [
        ("cancel", Act::Cancel(one(job)), [Ok(1), Ok(1), Err(AlreadyDone), Err(AlreadyDone)]),
        ("signal", signal(job), [Err(JobPending), Ok(1), Err(AlreadyDone), Err(AlreadyDone)]),
        ("hold", hold, [Ok(1), Ok(1), Err(AlreadyDone), Err(AlreadyDone)]),
        ("release", Act::Release(one(job)), [Ok(1), Ok(1), Err(AlreadyDone), Err(AlreadyDone)]),
        ("requeue", requeue, [Err(JobPending), Ok(1), Err(AlreadyDone), Ok(1)]),
        (
            "update",
            update(job, JobChange { name: Some("x".into()), ..JobChange::default() }),
            [Ok(1), Ok(1), Err(AlreadyDone), Err(AlreadyDone)],
        ),
    ];
    for (name, act, wants) in rows {
        for (stage, want) in wants.into_iter().enumerate() {
            let mut world = World::new();
            world.submit(tasks(1));
            if stage >= 1 {
                world.place(job, &["n1"]);
            }
            if stage >= 2 {
                world.act(&ALICE, Act::Cancel(one(job))).expect("cancelled");
                assert!(world.job(job).is_completing());
            }
            if stage >= 3 {
                world.end("n1", job, 1, EndedHow::Ordered, (0, 15));
            }
            assert_eq!(world.act(&ALICE, act.clone()), want, "{name} at stage {stage}");
        }
    }
    assert_eq!(World::new().act(&ROOT, Act::Cancel(one(job))), Err(UnknownJob));
}

#[test]
fn a_hold_of_a_running_job_counts_once_it_waits_again() {
    let mut world = World::new();
    let job = running(&mut world, tasks(1));
    world.act(&ALICE, Act::Hold { jobs: one(job), as_user: false }).expect("held");
    assert_eq!((world.job_state(job), world.job(job).reason), (JobState::Running, Reason::HeldUser));
    world.act(&ALICE, Act::Requeue { jobs: one(job), hold: false }).expect("requeued");
    world.end("n1", job, 1, EndedHow::Ordered, (0, 15));
    assert_eq!(
        (world.job_state(job), world.job(job).hold, world.job(job).priority),
        (JobState::Pending, Hold::User, 0)
    );
}

#[test]
fn a_suspended_run_keeps_what_it_has_and_its_time_stands() {
    let mut world = World::new();
    let job = running(&mut world, tasks(1));
    world.launch("n1", job, 1);
    let launched = world.now;
    let act = |world: &mut World, who, act: fn(JobRef) -> Act| world.act(who, act(one(job)));
    assert_eq!(act(&mut world, &ALICE, Act::Suspend), Err(Refusal::AccessDenied));
    assert_eq!(act(&mut world, &OPERATOR, Act::Resume), Err(Refusal::NotSuspended));
    world.pass(10);
    assert_eq!(act(&mut world, &OPERATOR, Act::Suspend), Ok(1));
    assert_eq!(act(&mut world, &OPERATOR, Act::Suspend), Ok(1), "it stays so");
    let node = world.state.node_named("n1").expect("node");
    assert_eq!((world.job_state(job), node.cpus_free()), (JobState::Suspended, 3));
    let wished = |world: &World| {
        let node = world.state.node_named("n1").expect("node").id;
        let job = desired(&world.state, node).jobs.remove(0);
        (job.suspended, job.time_limit)
    };
    assert_eq!(wished(&world), (true, TimeLimit::Infinite));
    assert_eq!(world.job(job).limit_end(), None);
    world.pass(100);
    assert_eq!(world.job(job).suspended_ms(world.now), 100_000);
    assert_eq!(act(&mut world, &OPERATOR, Act::Resume), Ok(1));
    assert_eq!(wished(&world), (false, TimeLimit::Seconds(160)));
    assert_eq!(world.job(job).limit_end(), Some(launched.plus_s(160)));
    world.pass(5);
    assert_eq!(act(&mut world, &OPERATOR, Act::Suspend), Ok(1));
    let suspension = world.job(job).suspension.expect("moments");
    assert_eq!((suspension.ran_s, suspension.total_ms, suspension.changed), (15, 100_000, world.now));
    world.pass(5);
    world.act(&ALICE, Act::Cancel(one(job))).expect("cancelled");
    assert_eq!(act(&mut world, &OPERATOR, Act::Resume), Err(Refusal::AlreadyDone));
    world.end("n1", job, 1, EndedHow::Ordered, (0, 15));
    assert_eq!(world.job(job).suspended_ms(world.now.plus_s(1000)), 105_000, "its end ends that too");
    let waiting = world.submit(tasks(1));
    assert_eq!(world.act(&ROOT, Act::Suspend(one(waiting))), Err(Refusal::JobPending));
    world.place(waiting, &["n1"]);
    world.act(&ROOT, Act::Suspend(one(waiting))).expect("suspended");
    world.act(&ALICE, Act::Requeue { jobs: one(waiting), hold: false }).expect("requeued");
    world.end("n1", waiting, 1, EndedHow::Ordered, (0, 15));
    assert_eq!((world.job_state(waiting), world.job(waiting).suspension), (JobState::Pending, None));
}

#[test]
fn cancelling() {
    let mut world = World::new();
    let held = world.submit(JobSpec { hold: true, ..tasks(1) });
    world.act(&ALICE, Act::Cancel(one(held))).expect("cancelled");
    assert_eq!(world.job(held).reason, Reason::HeldUser, "why it waited stays to be read");
    let mut world = World::new();
    let waiting = world.submit(tasks(1));
    world.act(&ALICE, Act::Cancel(one(waiting))).expect("cancelled");
    assert!(world.job(waiting).is_over());
    let job = running(&mut world, tasks(1));
    world.act(&OPERATOR, Act::Cancel(one(job))).expect("cancelled");
    let record = world.job(job);
    assert_eq!((record.state, record.cancelled_by), (JobState::Cancelled, Some(OPERATOR.uid)));
    assert_eq!(record.end_order.map(|order| order.cause), Some(EndCause::Cancelled { uid: OPERATOR.uid }));
    // Whatever its end looks like, it stays cancelled.
    world.end("n1", job, 1, EndedHow::Exited, (0, 0));
    assert_eq!((world.job_state(job), world.job(job).is_over()), (JobState::Cancelled, true));
}

#[test]
fn requeueing() {
    for (hold, reason) in [(false, Reason::None), (true, Reason::RequeuedHeld)] {
        let mut world = World::new();
        let job = running(&mut world, tasks(1));
        world.act(&ALICE, Act::Requeue { jobs: one(job), hold }).expect("ordered");
        assert_eq!(world.job_state(job), JobState::Running, "until its nodes say that it is gone");
        world.end("n1", job, 1, EndedHow::Ordered, (0, 15));
        let record = world.job(job);
        assert_eq!((record.state, record.reason, record.restarts), (JobState::Pending, reason, 1));
        assert_eq!((record.hold == Hold::User, record.run.is_none(), record.ended), (hold, true, None));
        assert_eq!((record.exit.code, record.exit.signal), (0, 0));
        if !hold {
            world.place(job, &["n2"]);
            assert_eq!(world.job(job).attempt, Attempt(2));
        }
    }
    let mut world = World::new();
    let job = running(&mut world, JobSpec { requeue: Some(false), ..tasks(1) });
    assert_eq!(world.act(&ALICE, Act::Requeue { jobs: one(job), hold: false }), Err(Refusal::RequeueDisabled));
    let job = running(&mut world, tasks(1));
    world.act(&ALICE, Act::Requeue { jobs: one(job), hold: false }).expect("ordered");
    world.act(&ALICE, Act::Cancel(one(job))).expect("the later wish counts");
    world.end("n1", job, 1, EndedHow::Ordered, (0, 15));
    assert_eq!(world.job_state(job), JobState::Cancelled);
    world.act(&ALICE, Act::Requeue { jobs: one(job), hold: false }).expect("an ended job may run again");
    assert_eq!((world.job_state(job), world.job(job).cancelled_by), (JobState::Pending, None));
}

#[test]
fn late_reports_are_refused() {
    let stale = Outcome::Refused(Refusal::StaleReport);
    let done = Outcome::Done { count: 1 };
    let mut world = World::new();
    let job = world.submit(tasks(1));
    assert_eq!(world.end("n1", job, 0, EndedHow::Exited, (0, 0)), stale, "before it was placed");
    world.place(job, &["n1"]);
    assert_eq!(world.launch("n2", job, 1), stale, "from another node");
    assert_eq!(world.launch("n1", job, 2), stale, "of a later attempt");
    assert_eq!(world.launch("n1", job, 1), done);
    world.done(Command::NodeLost { node: world.state.node_named("n1").expect("node").id });
    assert_eq!(world.end("n1", job, 1, EndedHow::Exited, (0, 0)), stale, "after its node was given up");
    world.place(job, &["n2"]);
    assert_eq!(world.end("n1", job, 1, EndedHow::Exited, (0, 0)), stale, "of the attempt before");
    assert_eq!(world.end("n2", job, 1, EndedHow::Exited, (0, 0)), stale, "of the attempt before, from the new node");
    assert_eq!(world.job_state(job), JobState::Running);
    assert_eq!(world.end("n2", job, 2, EndedHow::Exited, (0, 0)), done);
    assert_eq!(world.end("n2", job, 2, EndedHow::Exited, (1, 0)), stale, "twice");
    assert_eq!(world.job_state(job), JobState::Completed);
    assert_eq!(world.launch("n2", job, 2), stale, "a launch after the end");
}

#[test]
fn a_nodes_clock_is_not_believed_beyond_what_can_be() {
    for (launch_s, launched_want) in [(-50, 0), (5, 5), (900, 10)] {
        let mut world = World::new();
        let job = world.submit(tasks(1));
        world.place(job, &["n1"]);
        let placed = world.now;
        let at = |seconds: i64| TimeMs(placed.0.saturating_add_signed(seconds * 1000));
        world.now = placed.plus_s(10);
        world.report("n1", job, 1, JobEvent::Launched { at: at(launch_s) });
        assert_eq!(world.job(job).run.as_ref().and_then(|run| run.launched), Some(at(launched_want)), "{launch_s}");
        world.now = placed.plus_s(20);
        world.report("n1", job, 1, JobEvent::Ended(ended(at(launch_s - 1), EndedHow::Exited, (0, 0))));
        let end = world.job(job).ended.expect("ended");
        assert!(end >= at(launched_want) && end <= world.now, "{launch_s} {end:?}");
    }
}

#[test]
fn faults_of_ours_are_tried_again_and_not_for_ever() {
    let mut world = World::new();
    world.configure(Settings { launch_faults_max: 3, ..settings() }, Vec::new());
    let job = world.submit(tasks(1));
    for attempt in 1..=3 {
        world.place(job, &["n1"]);
        world.end("n1", job, attempt, EndedHow::Lost, (0, 0));
        let want = if attempt < 3 { JobState::Pending } else { JobState::NodeFail };
        assert_eq!((world.job_state(job), world.job(job).launch_faults), (want, attempt));
    }
    let job = world.submit(JobSpec { requeue: Some(false), ..tasks(1) });
    world.place(job, &["n1"]);
    world.end("n1", job, 1, EndedHow::Lost, (0, 0));
    assert_eq!(world.job_state(job), JobState::NodeFail, "not where its user wants no second run");
}

#[test]
fn losing_a_node() {
    for by_hand in [false, true] {
        let mut world = World::new();
        let again = running(&mut world, tasks(1));
        let once = running(&mut world, JobSpec { requeue: Some(false), ..tasks(1) });
        let gone = running(&mut world, tasks(1));
        world.act(&ALICE, Act::Cancel(one(gone))).expect("cancelled");
        let held = running(&mut world, tasks(1));
        world.act(&ALICE, Act::Requeue { jobs: one(held), hold: true }).expect("ordered");
        let node = world.state.node_named("n1").expect("node").id;
        if by_hand {
            // Once for a node that may still answer; again for one that is known to be dead.
            for holds in [true, false] {
                let change = NodeChange::Down { reason: "smoke".into() };
                world.act(&ROOT, Act::UpdateNode { name: "n1".into(), change }).expect("down");
                assert_eq!(world.job(again).holds_resources(), holds);
            }
        } else {
            assert_eq!(world.done(Command::NodeLost { node }), Outcome::Done { count: 4 });
        }
        let got = [again, once, gone, held].map(|job| (world.job_state(job), world.job(job).holds_resources()));
        let want = [JobState::Pending, JobState::NodeFail, JobState::Cancelled, JobState::Pending];
        assert_eq!(got, want.map(|state| (state, false)));
        assert_eq!(world.job(held).reason, Reason::RequeuedHeld);
        let down = world.state.node(node).expect("node");
        assert_eq!((down.takes_jobs(), down.down.is_some(), down.taken.jobs.len()), (false, true, 0));
        let placement = world.placement(again, None, &["n1"]);
        assert!(matches!(world.try_place(placement), Err(Refusal::StalePlacement { .. })));
        assert_eq!(world.register("n1", cpus(4)), node, "it keeps its number");
        world.place(again, &["n1"]);
    }
}

/// A job on two nodes whose script runs on n1.
#[test]
fn losing_a_node_that_only_helps() {
    for (requeue, state) in [(None, JobState::Pending), (Some(false), JobState::NodeFail)] {
        let mut world = World::new();
        let job = world.submit(JobSpec { requeue, nodes_min: Some(2), ..tasks(2) });
        world.place(job, &["n1", "n2"]);
        let n2 = world.state.node_named("n2").expect("node").id;
        world.done(Command::NodeLost { node: n2 });
        let record = world.job(job);
        assert!(record.holds_resources() && record.end_order.is_some(), "n1 has still to end it");
        assert_eq!(world.end("n2", job, 1, EndedHow::Ordered, (0, 0)), Outcome::Refused(Refusal::StaleReport));
        world.end("n1", job, 1, EndedHow::Ordered, (0, 15));
        assert_eq!((world.job_state(job), world.job(job).holds_resources()), (state, false));
    }
    let mut world = World::new();
    let job = world.submit(JobSpec { nodes_min: Some(2), ..tasks(2) });
    world.place(job, &["n1", "n2"]);
    for name in ["n2", "n1"] {
        let node = world.state.node_named(name).expect("node").id;
        world.done(Command::NodeLost { node });
    }
    assert_eq!((world.job_state(job), world.job(job).holds_resources()), (JobState::Pending, false));
}

/// What becomes of a job on a node that was set down while in contact.
#[test]
fn a_node_set_down_has_still_to_end_its_jobs() {
    let down = || Act::UpdateNode { name: "n1".into(), change: NodeChange::Down { reason: "smoke".into() } };
    for (requeue, before, after) in
        [(None, JobState::Running, JobState::Pending), (Some(false), JobState::NodeFail, JobState::NodeFail)]
    {
        for answers in [true, false] {
            let mut world = World::new();
            let job = running(&mut world, JobSpec { requeue, ..tasks(1) });
            world.act(&ROOT, down()).expect("down");
            let node = world.state.node_named("n1").expect("node");
            assert!(!node.takes_jobs());
            assert_eq!(gpun_core::desired::desired(&world.state, node.id).jobs.len(), 1, "it is told to end it");
            assert_eq!((world.job_state(job), world.job(job).holds_resources()), (before, true));
            if answers {
                world.end("n1", job, 1, EndedHow::Ordered, (0, 15));
            } else {
                let id = node.id;
                assert!(world.state.nodes_to_hear().any(|node| node.id == id));
                world.done(Command::NodeLost { node: id });
            }
            assert_eq!(
                (world.job_state(job), world.job(job).holds_resources()),
                (after, false),
                "{requeue:?} {answers}"
            );
            assert!(world.state.nodes_to_hear().all(|node| node.name != "n1"), "nobody waits for it any more");
        }
    }
}

/// Whether a node's next word brings it back: one that was only silent, and one of which somebody has said that it may.
#[test]
fn which_nodes_want_back() {
    let down = |world: &mut World| {
        let change = NodeChange::Down { reason: "smoke".into() };
        world.act(&ROOT, Act::UpdateNode { name: "n1".into(), change }).expect("down");
    };
    let resume = |world: &mut World| {
        world.act(&ROOT, Act::UpdateNode { name: "n1".into(), change: NodeChange::Resume }).expect("resumed");
    };
    let lose = |world: &mut World| {
        let node = world.state.node_named("n1").expect("node").id;
        world.done(Command::NodeLost { node });
    };
    type Step<'a> = &'a dyn Fn(&mut World);
    let rows: [(&str, &[Step<'_>], bool); 6] = [
        ("nothing happened", &[], false),
        ("silent", &[&lose], true),
        ("set down", &[&down], false),
        ("set down, then resumed", &[&down, &resume], true),
        ("silent, then set down", &[&lose, &down], true),
        ("set down, and then silent too", &[&down, &lose], true),
    ];
    for (what, steps, wants) in rows {
        let mut world = World::new();
        steps.iter().for_each(|step| step(&mut world));
        assert_eq!(world.state.node_named("n1").expect("node").wants_back(), wants, "{what}");
        world.register("n1", cpus(4));
        let node = world.state.node_named("n1").expect("node");
        assert!(node.takes_jobs() && !node.wants_back(), "{what}");
    }
}

#[test]
fn draining_lets_jobs_finish() {
    let mut world = World::new();
    let job = running(&mut world, tasks(1));
    let drain = NodeChange::Drain { reason: "disk".into() };
    world.act(&ROOT, Act::UpdateNode { name: "n1".into(), change: drain }).expect("drained");
    assert_eq!(world.job_state(job), JobState::Running);
    let other = world.submit(tasks(1));
    let placement = world.placement(other, None, &["n1"]);
    assert!(matches!(world.try_place(placement), Err(Refusal::StalePlacement { .. })));
    world.register("n1", cpus(4));
    assert!(!world.state.node_named("n1").expect("node").takes_jobs(), "a restart of its daemon ends no drain");
    world.act(&ROOT, Act::UpdateNode { name: "n1".into(), change: NodeChange::Resume }).expect("resumed");
    world.place(other, &["n1"]);
}

/// What makes a placement no longer right.
#[test]
fn stale_placements_are_refused() {
    type Before = fn(&mut World, JobId);
    let rows: Vec<(&str, Before)> = vec![
        ("held", |world, job| drop(world.act(&ALICE, Act::Hold { jobs: one(job), as_user: true }))),
        ("cancelled", |world, job| drop(world.act(&ALICE, Act::Cancel(one(job))))),
        ("placed already", |world, job| world.place(job, &["n2"])),
        ("more tasks", |world, job| {
            drop(world.act(&ROOT, update(job, JobChange { ntasks: Some(2), ..JobChange::default() })))
        }),
        ("more memory", |world, job| {
            let change = JobChange { memory_per_node: Some(MemoryMib(3)), ..JobChange::default() };
            drop(world.act(&ROOT, update(job, change)))
        }),
        ("another node", |world, job| {
            drop(
                world.act(&ROOT, update(job, JobChange { node_list: Some(vec!["n2".into()]), ..JobChange::default() })),
            )
        }),
        ("not this node", |world, job| {
            drop(world.act(&ROOT, update(job, JobChange { exclude: Some(vec!["n1".into()]), ..JobChange::default() })))
        }),
        ("later", |world, job| {
            let begin = Some(world.now.plus_s(60));
            drop(world.act(&ROOT, update(job, JobChange { begin, ..JobChange::default() })))
        }),
        ("its CPU taken", |world, _| {
            let other = world.submit(tasks(1));
            world.place(other, &["n1"]);
        }),
        ("its node down", |world, _| {
            let node = world.state.node_named("n1").expect("node").id;
            world.done(Command::NodeLost { node });
        }),
        ("its partition closed", |world, _| {
            let state = Some(gpun_core::partition::PartitionState::Down);
            let change = gpun_core::command::PartitionChange { state, ..Default::default() };
            drop(world.act(&ROOT, Act::UpdatePartition { name: "batch".into(), change: Box::new(change) }))
        }),
        ("requeued since", |world, job| {
            world.place(job, &["n2"]);
            world.end("n2", job, 1, EndedHow::Lost, (0, 0));
        }),
    ];
    for (name, before) in rows {
        let mut world = World::new();
        let job = world.submit(tasks(1));
        let placement = world.placement(job, None, &["n1"]);
        let version = world.state.clone();
        before(&mut world, job);
        assert_ne!(world.state, version, "{name}: something changed");
        let refused = world.try_place(placement);
        assert!(matches!(refused, Err(Refusal::StalePlacement { .. } | Refusal::NotPending)), "{name}: {refused:?}");
    }
}

#[test]
fn time_never_runs_backwards() {
    let mut world = World::new();
    world.pass(100);
    let later = world.state.now();
    let outcomes = world.entry(START, vec![Command::Tick]);
    assert_eq!((outcomes, world.state.now()), (vec![Outcome::Done { count: 0 }], later));
    world.now = START;
    let job = world.submit(tasks(1));
    assert_eq!(world.job(job).submitted, later);
}

#[test]
fn ended_jobs_leave_after_their_age() {
    let mut world = World::new();
    let job = running(&mut world, tasks(1));
    world.end("n1", job, 1, EndedHow::Exited, (0, 0));
    assert_eq!(world.state.next_due(), Some(world.now.plus_s(300)));
    world.pass(299);
    assert_eq!(world.state.job_count(), 1);
    assert_eq!(world.pass(1), Outcome::Done { count: 1 });
    assert_eq!((world.state.job_count(), world.mirror.history()), (0, 1));
    assert_eq!(world.act(&ALICE, Act::Cancel(one(job))), Err(Refusal::UnknownJob));
}

#[test]
fn updates_of_a_running_job() {
    let rows = [
        ("its limit", JobChange { time_limit: Some(TimeLimit::Seconds(30)), ..JobChange::default() }, Ok(1)),
        ("its size", JobChange { ntasks: Some(2), ..JobChange::default() }, Err(Refusal::NotPending)),
        (
            "its partition",
            JobChange { partitions: Some(vec!["batch".into()]), ..JobChange::default() },
            Err(Refusal::NotPending),
        ),
    ];
    for (name, change, want) in rows {
        let mut world = World::new();
        let job = running(&mut world, tasks(1));
        assert_eq!(world.act(&ALICE, update(job, change)), want, "{name}");
    }
    let mut world = World::new();
    let job = world.submit(tasks(1));
    let change = JobChange { partitions: Some(vec!["x".into()]), ..JobChange::default() };
    assert_eq!(world.act(&ALICE, update(job, change)), Err(Refusal::UnknownPartition));
    for name in ["n1", "n2"] {
        world.register(name, gpun_core::node::Inventory { memory: MemoryMib(0), ..cpus(1) });
    }
    let change = JobChange { comment: Some("still there".into()), ..JobChange::default() };
    assert_eq!(world.act(&ALICE, update(job, change)), Ok(1), "whatever became of the nodes");
}

#[test]
fn newer_entries_are_refused_whole() {
    let mut world = World::new();
    let before = world.state.fingerprint();
    let version = gpun_core::command::ENTRY_VERSION + 1;
    let entry = gpun_core::Entry { version, stamp: world.now.plus_s(9), commands: vec![Command::Tick, Command::Tick] };
    let outcomes = world.state.apply(entry, &mut Mirror::default());
    assert_eq!(outcomes, vec![Outcome::Refused(Refusal::NewerVersion { version }); 2]);
    assert_eq!(world.state.fingerprint(), before);
}
