//! Heterogeneous jobs: components that start together, and end with the first of them.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test's way to fail, in its helpers too.

mod build;

use build::*;
use gpun_core::{
    Command, JobId, Refusal,
    command::{Act, EndedHow, JobRef, NodeChange},
    desired::desired,
    job::{Hold, JobState, Reason},
    spec::JobSpec,
};

const LEADER: JobId = JobId(1);
const OTHER: JobId = JobId(2);

fn submit(world: &mut World, components: &[JobSpec]) -> Result<JobId, Refusal> {
    let mut submit = world.submission(&ALICE, components[0].clone());
    submit.components = components[1..].to_vec();
    submitted(world.apply(Command::Submit(Box::new(submit))))
}

/// One task beside two.
fn two() -> [JobSpec; 2] {
    [tasks(1), tasks(2)]
}

fn waiting() -> World {
    let mut world = World::new();
    assert_eq!(submit(&mut world, &two()), Ok(LEADER));
    world
}

fn start(world: &mut World) {
    let placements = vec![world.placement(LEADER, None, &["n1"]), world.placement(OTHER, None, &["n2"])];
    world.done(Command::PlaceTogether(placements));
}

fn running() -> World {
    let mut world = waiting();
    start(&mut world);
    world
}

fn states(world: &World) -> [JobState; 2] {
    [LEADER, OTHER].map(|job| world.job_state(job))
}

#[test]
fn components_have_numbers_one_behind_the_other() {
    let mut world = waiting();
    let roles: Vec<_> =
        world.state.components_of(LEADER).map(|job| job.het.map(|het| (het.leader.0, het.offset))).collect();
    assert_eq!(roles, [Some((1, 0)), Some((1, 1))]);
    assert_eq!(world.state.components_of(OTHER).count(), 0, "only the first stands for all");
    assert_eq!(world.submit(tasks(1)), JobId(3));
    assert_eq!(submit(&mut world, &[tasks(1), array(0, 3, None)]), Err(Refusal::Array));
    assert_eq!(submit(&mut world, &[tasks(1), tasks(1000)]), Err(Refusal::NodeConfigUnavailable));
    assert_eq!(world.submit(tasks(1)), JobId(4), "what was refused took no number");
}

#[test]
fn all_start_or_none() {
    let mut world = waiting();
    let alone = world.placement(LEADER, None, &["n1"]);
    assert!(matches!(world.try_place(alone.clone()), Err(Refusal::StalePlacement { .. })));
    let half = world.apply(Command::PlaceTogether(vec![alone.clone()]));
    assert!(matches!(half, gpun_core::Outcome::Refused(_)), "{half:?}");
    let blocker = world.submit(tasks(4));
    let other = world.placement(OTHER, None, &["n2"]);
    world.place(blocker, &["n2"]);
    let late = world.apply(Command::PlaceTogether(vec![alone, other]));
    assert!(matches!(late, gpun_core::Outcome::Refused(_)), "{late:?}");
    assert_eq!(states(&world), [JobState::Pending, JobState::Pending], "the first was taken back");
    world.end("n2", blocker, 1, EndedHow::Exited, (0, 0));
    start(&mut world);
    assert_eq!(states(&world), [JobState::Running, JobState::Running]);
    let scripts = |name: &str| desired(&world.state, world.state.node_named(name).expect("node").id).jobs.len();
    assert_eq!((scripts("n1"), scripts("n2")), (1, 0), "only the first runs a script");
}

#[test]
fn all_end_with_the_first() {
    for (how, exit, want) in [
        (EndedHow::Exited, (0, 0), JobState::Completed),
        (EndedHow::Exited, (3, 0), JobState::Failed),
        (EndedHow::TimeLimit, (0, 15), JobState::Timeout),
    ] {
        let mut world = running();
        world.end("n1", LEADER, 1, how, exit);
        assert_eq!(states(&world), [want, want]);
        assert!(world.job(OTHER).is_over() && world.job(OTHER).ended == world.job(LEADER).ended);
        world.pass(world.state.settings().min_job_age_s);
        assert_eq!(world.state.job_count(), 0);
    }
}

#[test]
fn acts_on_the_whole_and_on_components() {
    let component = |component| JobRef { job: LEADER, tasks: None, component: Some(component) };
    let mut world = waiting();
    let hold = |jobs| Act::Hold { jobs, as_user: false };
    assert_eq!(world.act(&ALICE, hold(component(1))), Ok(1));
    assert_eq!((world.job(LEADER).hold, world.job(OTHER).hold), (Hold::None, Hold::User));
    assert_eq!(world.act(&ALICE, hold(one(LEADER))), Ok(2));
    assert_eq!(world.act(&ALICE, Act::Release(one(LEADER))), Ok(2));
    assert_eq!(world.act(&ALICE, hold(component(2))), Err(Refusal::UnknownJob));
    let change = gpun_core::command::JobChange { name: Some("z".into()), ..Default::default() };
    assert_eq!(world.act(&ALICE, update(LEADER, change)), Ok(1));
    assert_eq!((world.job(LEADER).spec.name.as_str(), world.job(OTHER).spec.name.as_str()), ("z", ""));
    assert_eq!(world.act(&ALICE, Act::Cancel(one(LEADER))), Ok(2));
    assert_eq!(states(&world), [JobState::Cancelled, JobState::Cancelled]);

    let mut world = running();
    assert_eq!(world.act(&ALICE, Act::Requeue { jobs: one(OTHER), hold: false }), Err(Refusal::NotHetLeader));
    world.act(&ALICE, Act::Cancel(component(1))).expect("cancelled");
    assert_eq!(states(&world), [JobState::Running, JobState::Cancelled]);
    assert!(world.job(OTHER).is_over(), "nothing of it runs on its nodes");
    world.act(&ALICE, Act::Cancel(one(LEADER))).expect("the rest");
    world.end("n1", LEADER, 1, EndedHow::Ordered, (0, 15));
    assert_eq!(states(&world), [JobState::Cancelled, JobState::Cancelled]);
}

#[test]
fn a_requeue_is_one_of_the_whole() {
    let mut world = running();
    world.act(&ALICE, Act::Requeue { jobs: one(LEADER), hold: true }).expect("requeued");
    assert_eq!(states(&world), [JobState::Running, JobState::Running]);
    world.end("n1", LEADER, 1, EndedHow::Ordered, (0, 15));
    assert_eq!(states(&world), [JobState::Pending, JobState::Pending]);
    for job in [LEADER, OTHER] {
        assert_eq!((world.job(job).hold, world.job(job).reason), (Hold::User, Reason::RequeuedHeld));
    }
    world.act(&ALICE, Act::Release(one(LEADER))).expect("released");
    start(&mut world);
    world.end("n1", LEADER, 2, EndedHow::Exited, (0, 0));
    assert_eq!(states(&world), [JobState::Completed, JobState::Completed]);
    world.act(&ALICE, Act::Requeue { jobs: one(LEADER), hold: false }).expect("what is over can run again");
    assert_eq!(states(&world), [JobState::Pending, JobState::Pending]);
}

#[test]
fn a_lost_node_is_one_of_the_whole() {
    for (lost, requeue, want) in [
        ("n1", true, JobState::Pending),
        ("n1", false, JobState::NodeFail),
        ("n2", true, JobState::Pending),
        ("n2", false, JobState::NodeFail),
    ] {
        let mut world = World::new();
        let specs = two().map(|spec| JobSpec { requeue: Some(requeue), ..spec });
        submit(&mut world, &specs).expect("accepted");
        start(&mut world);
        let node = world.state.node_named(lost).expect("node").id;
        world.done(Command::NodeLost { node });
        if lost == "n2" {
            assert!(world.job(LEADER).end_order.is_some(), "the script is ended first");
            world.end("n1", LEADER, 1, EndedHow::Ordered, (0, 15));
        }
        assert_eq!(states(&world), [want, want], "{lost} {requeue}");
    }
    let mut world = running();
    let down = NodeChange::Down { reason: "x".into() };
    world.act(&ROOT, Act::UpdateNode { name: "n2".into(), change: down }).expect("down");
    world.end("n1", LEADER, 1, EndedHow::Ordered, (0, 15));
    assert_eq!(states(&world), [JobState::Pending, JobState::Pending]);
}
