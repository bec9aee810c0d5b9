//! Job arrays: one record for all that waits, one for each task that has a life of its own.

mod build;

use build::*;
use gpun_core::{
    JobId, Refusal,
    command::{Act, EndedHow, JobChange},
    job::{ArrayRole, Hold, JobState},
};

/// Task numbers of the waiting record.
fn waiting(world: &World, array: JobId) -> Vec<u32> {
    match world.state.job(array).and_then(|job| job.array.clone()) {
        Some(ArrayRole::Waiting { tasks }) => tasks.iter().collect(),
        _ => Vec::new(),
    }
}

#[test]
fn tasks_get_numbers_as_they_start_and_the_last_keeps_the_arrays() {
    let mut world = World::new();
    let id = world.submit(array(1, 3, None));
    let next = world.submit(tasks(1));
    assert_eq!((id, next), (JobId(1), JobId(2)), "a waiting array has one number");
    assert_eq!(world.place_task(id, 2, "n1"), JobId(3));
    assert_eq!(world.place_task(id, 1, "n1"), JobId(4));
    assert_eq!(waiting(&world, id), [3]);
    assert_eq!(world.place_task(id, 3, "n2"), id);
    let tasks: Vec<(u32, u32)> = world.state.array_tasks(id).map(|(task, job)| (task, job.id.0)).collect();
    assert_eq!(tasks, [(1, 4), (2, 3), (3, 1)]);
    assert_eq!(world.state.array_running(id), 3);
    let shape = world.job(JobId(4)).array_shape.expect("shape");
    assert_eq!((shape.count, shape.min, shape.max, shape.step), (3, 1, 3, 1));
    assert!(world.state.jobs().take(1).all(|job| job.array_id() == Some(id)));
}

#[test]
fn no_more_run_than_may() {
    let mut world = World::new();
    let id = world.submit(array(0, 5, Some(2)));
    let first = world.place_task(id, 0, "n1");
    world.place_task(id, 1, "n1");
    let third = world.placement(id, Some(2), &["n1"]);
    assert!(matches!(world.try_place(third.clone()), Err(Refusal::StalePlacement { .. })));
    world.end("n1", first, 1, EndedHow::Exited, (0, 0));
    world.try_place(world.placement(id, Some(2), &["n1"])).expect("one ended");
    let change = JobChange { array_max_running: Some(3), ..JobChange::default() };
    world.act(&ALICE, update(id, change)).expect("changed");
    world.try_place(world.placement(id, Some(3), &["n1"])).expect("one more may");
}

#[test]
fn a_placement_must_name_a_waiting_task() {
    let mut world = World::new();
    let id = world.submit(array(0, 3, None));
    let plain = world.submit(tasks(1));
    let mut placement = world.placement(id, Some(0), &["n1"]);
    placement.task = None;
    assert!(world.try_place(placement.clone()).is_err(), "not the whole array");
    placement.task = Some(7);
    assert!(world.try_place(placement.clone()).is_err(), "no such task");
    placement.task = Some(0);
    world.try_place(placement.clone()).expect("a task");
    assert!(world.try_place(placement).is_err(), "not twice");
    assert!(world.try_place(world.placement(plain, Some(0), &["n1"])).is_err(), "a plain job has none");
}

/// An array of tasks 0 to 5, of which 0 runs as job 2; what is cancelled, and what is left of it.
#[test]
fn cancelling_parts() {
    let rows: Vec<(&str, Option<&[u32]>, u32, Vec<u32>, bool)> = vec![
        ("all", None, 2, vec![], false),
        ("the running one", Some(&[0]), 1, vec![1, 2, 3, 4, 5], false),
        ("some that wait", Some(&[2, 4]), 2, vec![1, 3, 5], true),
        ("of both", Some(&[0, 1]), 2, vec![2, 3, 4, 5], false),
        ("more than there are", Some(&[3, 4, 5, 6, 99]), 3, vec![1, 2], true),
        ("all that wait", Some(&[1, 2, 3, 4, 5]), 1, vec![], true),
    ];
    for (name, chosen, count, left, runs) in rows {
        let mut world = World::new();
        let id = world.submit(array(0, 5, None));
        let first = world.place_task(id, 0, "n1");
        let jobs = chosen.map_or(one(id), |tasks| some(id, tasks));
        assert_eq!(world.act(&ALICE, Act::Cancel(jobs)), Ok(count), "{name}");
        let still: Vec<u32> = if world.job_state(id) == JobState::Pending { waiting(&world, id) } else { vec![] };
        assert_eq!(still, left, "{name}");
        assert_eq!(world.job_state(first) == JobState::Running, runs, "{name}");
    }
    let mut world = World::new();
    let id = world.submit(array(0, 5, None));
    assert_eq!(world.act(&ALICE, Act::Cancel(some(id, &[9]))), Err(Refusal::UnknownJob));
    assert_eq!(world.act(&BOB, Act::Cancel(some(id, &[1]))), Err(Refusal::AccessDenied));
    assert_eq!(world.state.job_count(), 1, "nothing was split off for what was refused");
}

#[test]
fn one_task_held_waits_alone() {
    let mut world = World::new();
    let id = world.submit(array(0, 2, None));
    world.act(&ALICE, Act::Hold { jobs: some(id, &[1]), as_user: true }).expect("held");
    let held = world.task(id, 1).expect("its own record");
    assert_eq!((world.job(held).hold, world.job(held).state), (Hold::User, JobState::Pending));
    assert_eq!(waiting(&world, id), [0, 2]);
    assert_eq!(world.job(id).hold, Hold::None);
    world.act(&ALICE, Act::Hold { jobs: one(id), as_user: true }).expect("all held");
    world.act(&ALICE, Act::Release(one(held))).expect("by its own number");
    assert_eq!((world.job(held).hold, world.job(id).hold), (Hold::None, Hold::User));
    world.place(held, &["n1"]);
}

#[test]
fn a_task_refused_a_change_is_not_split_off() {
    let mut world = World::new();
    let id = world.submit(array(0, 2, None));
    let change = Box::new(JobChange { partitions: Some(vec!["x".into()]), ..JobChange::default() });
    let act = Act::UpdateJob { jobs: some(id, &[1]), change };
    assert_eq!(world.act(&ALICE, act), Err(Refusal::UnknownPartition));
    world.act(&OPERATOR, Act::Hold { jobs: one(id), as_user: false }).expect("held");
    assert_eq!(world.act(&ALICE, Act::Release(some(id, &[1]))), Err(Refusal::AccessDenied));
    assert_eq!(waiting(&world, id), [0, 1, 2]);
}

#[test]
fn a_task_requeued_stays_a_task() {
    let mut world = World::new();
    let id = world.submit(array(0, 2, Some(1)));
    let first = world.place_task(id, 0, "n1");
    world.act(&ALICE, Act::Requeue { jobs: one(first), hold: false }).expect("ordered");
    world.end("n1", first, 1, EndedHow::Ordered, (0, 15));
    assert_eq!((world.job(first).array_task(), world.job_state(first)), (Some(0), JobState::Pending));
    assert_eq!(world.state.array_running(id), 0);
    world.place(first, &["n1"]);
    assert_eq!(world.state.array_running(id), 1);
    let next = world.placement(id, Some(1), &["n1"]);
    assert!(world.try_place(next).is_err(), "it counts among those that run");
}

#[test]
fn numbers_left_decide_whether_a_task_may_start() {
    let mut world = World::new();
    world.configure(gpun_core::settings::Settings { max_job_id: 2, ..settings() }, Vec::new());
    let id = world.submit(array(0, 1, None));
    let placement = world.placement(id, Some(0), &["n1"]);
    assert_eq!(world.try_place(placement), Err(Refusal::NoJobIds));
    assert_eq!(waiting(&world, id), [0, 1]);
}

#[test]
fn a_million_tasks_are_one_record() {
    let mut world = World::new();
    let id = world.submit(array(0, 999_999, None));
    assert_eq!(world.state.job_count(), 1);
    world.place_task(id, 500_000, "n1");
    assert_eq!(world.act(&ALICE, Act::Cancel(one(id))), Ok(2));
}
