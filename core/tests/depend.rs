//! Dependencies: what a job waits for, and what ends the wait.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test's way to fail, in its helpers too.

mod build;

use build::*;
use gpun_core::{
    JobId, Refusal,
    command::{Act, EndedHow, JobChange},
    dependency::{Condition, Dependency, Kind},
    job::{Job, JobState, Reason},
    spec::JobSpec,
};

fn on(kind: Kind, job: JobId) -> Condition {
    Condition::new(kind, job)
}

fn all(conditions: &[Condition]) -> Option<Dependency> {
    Some(Dependency { conditions: conditions.to_vec(), any: false })
}

fn any(conditions: &[Condition]) -> Option<Dependency> {
    Some(Dependency { conditions: conditions.to_vec(), any: true })
}

fn waits(dependency: Option<Dependency>) -> JobSpec {
    JobSpec { dependency, ..tasks(1) }
}

/// How a job stands with what it depends on.
#[derive(Debug, PartialEq, Eq)]
enum Stand {
    Ready,
    Waits,
    Lost,
}

fn stand(job: &Job) -> Stand {
    assert_eq!(job.dependency.is_some(), job.eligible.is_none(), "eligible once it waits for nobody");
    match &job.dependency {
        None => Stand::Ready,
        Some(dependency) if dependency.is_lost() => Stand::Lost,
        Some(_) => Stand::Waits,
    }
}

/// How the other job ends.
#[derive(Debug, Clone, Copy)]
enum End {
    Well,
    Badly,
    Cancelled,
}

fn run(world: &mut World, job: JobId, end: End) {
    if let End::Cancelled = end {
        world.act(&ALICE, Act::Cancel(one(job))).expect("cancelled");
        return;
    }
    world.place(job, &["n1"]);
    finish(world, job, end);
}

fn finish(world: &mut World, job: JobId, end: End) {
    let attempt = world.job(job).attempt.0;
    let code = if let End::Well = end { 0 } else { 1 };
    world.end("n1", job, attempt, EndedHow::Exited, (code, 0));
}

#[test]
fn each_kind_is_met_or_lost_by_an_end() {
    use Kind::{After, AfterAny, AfterBurstBuffer, AfterCorr, AfterNotOk, AfterOk};
    for (kind, end, want) in [
        (After, End::Well, Stand::Ready),
        (After, End::Cancelled, Stand::Ready),
        (AfterAny, End::Well, Stand::Ready),
        (AfterAny, End::Badly, Stand::Ready),
        (AfterAny, End::Cancelled, Stand::Ready),
        (AfterOk, End::Well, Stand::Ready),
        (AfterOk, End::Badly, Stand::Lost),
        (AfterOk, End::Cancelled, Stand::Lost),
        (AfterNotOk, End::Well, Stand::Lost),
        (AfterNotOk, End::Badly, Stand::Ready),
        (AfterNotOk, End::Cancelled, Stand::Ready),
        (AfterCorr, End::Well, Stand::Ready),
        (AfterCorr, End::Badly, Stand::Lost),
        (AfterBurstBuffer, End::Badly, Stand::Ready),
    ] {
        // Submitted before and after the end: the same comes of it.
        let mut world = World::new();
        let first = world.submit(tasks(1));
        let before = world.submit(waits(all(&[on(kind, first)])));
        assert_eq!(stand(world.job(before)), Stand::Waits, "{kind:?}");
        assert!(world.try_place(world.placement(before, None, &["n1"])).is_err(), "it may not start");
        run(&mut world, first, end);
        let after = world.submit(waits(all(&[on(kind, first)])));
        for job in [before, after] {
            assert_eq!(stand(world.job(job)), want, "{kind:?} {end:?}");
        }
    }
}

#[test]
fn after_counts_from_the_start_and_may_wait_on() {
    let mut world = World::new();
    let first = world.submit(tasks(1));
    let plain = world.submit(waits(all(&[on(Kind::After, first)])));
    let later = world.submit(waits(all(&[Condition { delay_min: 2, ..on(Kind::After, first) }])));
    world.place(first, &["n1"]);
    assert_eq!((stand(world.job(plain)), stand(world.job(later))), (Stand::Ready, Stand::Waits));
    assert_eq!(world.state.next_due().map(|due| due.since_s(world.now)), Some(120));
    finish(&mut world, first, End::Badly);
    world.pass(119);
    assert_eq!(stand(world.job(later)), Stand::Waits);
    let late = world.submit(waits(all(&[Condition { delay_min: 2, ..on(Kind::After, first) }])));
    world.pass(1);
    assert_eq!((stand(world.job(later)), stand(world.job(late))), (Stand::Ready, Stand::Ready));
}

#[test]
fn all_of_several_or_any() {
    for (met_first, any_of, want) in [
        (End::Well, false, [Stand::Waits, Stand::Ready]),
        (End::Badly, false, [Stand::Lost, Stand::Lost]),
        (End::Well, true, [Stand::Ready, Stand::Ready]),
        (End::Badly, true, [Stand::Waits, Stand::Ready]),
    ] {
        let mut world = World::new();
        let (a, b) = (world.submit(tasks(1)), world.submit(tasks(1)));
        let conditions = [on(Kind::AfterOk, a), on(Kind::AfterOk, b)];
        let job = world.submit(waits(if any_of { any(&conditions) } else { all(&conditions) }));
        run(&mut world, a, met_first);
        let first = stand(world.job(job));
        run(&mut world, b, End::Well);
        assert_eq!([first, stand(world.job(job))], want, "{met_first:?} {any_of}");
    }
}

#[test]
fn a_whole_array_counts_when_its_last_task_ends() {
    for (kind, ends, want) in [
        (Kind::AfterOk, [End::Well, End::Well], Stand::Ready),
        (Kind::AfterOk, [End::Badly, End::Well], Stand::Lost),
        (Kind::AfterNotOk, [End::Badly, End::Well], Stand::Ready),
        (Kind::AfterNotOk, [End::Well, End::Well], Stand::Lost),
        (Kind::AfterAny, [End::Badly, End::Badly], Stand::Ready),
        (Kind::AfterCorr, [End::Well, End::Well], Stand::Ready),
    ] {
        let mut world = World::new();
        let id = world.submit(array(0, 1, None));
        let job = world.submit(waits(all(&[on(kind, id)])));
        assert!(world.job(job).dependency.as_ref().unwrap().conditions[0].whole_array);
        for (task, end) in [0, 1].into_iter().zip(ends) {
            assert_eq!(stand(world.job(job)), Stand::Waits, "{kind:?} before task {task}");
            let task = world.place_task(id, task, "n1");
            finish(&mut world, task, end);
            // What has ended may leave the records: it is remembered.
            world.pass(world.state.settings().min_job_age_s);
        }
        assert_eq!(stand(world.job(job)), want, "{kind:?} {ends:?}");
    }
    let mut world = World::new();
    let id = world.submit(array(0, 1, None));
    let start = world.submit(waits(all(&[on(Kind::After, id)])));
    world.place_task(id, 0, "n1");
    assert_eq!(stand(world.job(start)), Stand::Waits);
    world.place_task(id, 1, "n1");
    assert_eq!(stand(world.job(start)), Stand::Ready);
}

#[test]
fn one_task_of_an_array() {
    let mut world = World::new();
    let id = world.submit(array(0, 2, None));
    let task = |number| Condition { task: Some(number), ..on(Kind::AfterOk, id) };
    let job = world.submit(waits(all(&[task(1)])));
    assert_eq!(world.try_submit(&ALICE, waits(all(&[task(7)]))), Err(Refusal::Dependency), "no such task");
    for number in [0, 1] {
        assert_eq!(stand(world.job(job)), Stand::Waits);
        let own = world.place_task(id, number, "n1");
        finish(&mut world, own, End::Well);
    }
    assert_eq!(stand(world.job(job)), Stand::Ready);
    world.act(&ALICE, Act::Cancel(one(id))).expect("the rest");
    let lost = world.submit(waits(all(&[task(2)])));
    assert_eq!(stand(world.job(lost)), Stand::Lost, "it was cancelled while it waited");
}

#[test]
fn corresponding_tasks_wait_for_each_other() {
    let mut world = World::new();
    let id = world.submit(array(0, 2, None));
    let first = world.place_task(id, 0, "n1");
    finish(&mut world, first, End::Well);
    let spec = JobSpec { dependency: all(&[on(Kind::AfterCorr, id)]), ..array(0, 3, None) };
    let next = world.submit(spec);
    let at = |world: &World, task| stand(world.state.array_task(next, task).expect("task"));
    assert_eq!([at(&world, 0), at(&world, 1), at(&world, 3)], [Stand::Ready, Stand::Waits, Stand::Waits]);
    let second = world.place_task(id, 1, "n1");
    finish(&mut world, second, End::Badly);
    assert_eq!([at(&world, 0), at(&world, 1), at(&world, 2)], [Stand::Ready, Stand::Lost, Stand::Waits]);
    let third = world.place_task(id, 2, "n1");
    finish(&mut world, third, End::Well);
    // Without a task of its number, a task waits for the whole array.
    assert_eq!([at(&world, 2), at(&world, 3)], [Stand::Ready, Stand::Lost]);
}

#[test]
fn a_singleton_waits_for_earlier_ones_and_running_ones_of_its_name() {
    let named = |name: &str, dependency| JobSpec { name: name.to_owned(), ..waits(dependency) };
    let single = || all(&[on(Kind::Singleton, JobId(0))]);
    let mut world = World::new();
    let plain = world.submit(named("a", None));
    let chain: Vec<JobId> = (0..3).map(|_| world.submit(named("a", single()))).collect();
    let other = world.submit(named("b", single()));
    let later = world.submit(named("a", None));
    let stands = |world: &World| chain.iter().map(|job| stand(world.job(*job))).collect::<Vec<_>>();
    assert_eq!(stand(world.job(other)), Stand::Ready, "another name");
    assert_eq!(stands(&world), [Stand::Waits, Stand::Waits, Stand::Waits]);
    let bobs = world.submission(&BOB, named("a", single()));
    let bobs = submitted(world.apply(gpun_core::Command::Submit(Box::new(bobs)))).unwrap();
    assert_eq!(stand(world.job(bobs)), Stand::Ready, "another user");
    world.place(later, &["n2"]);
    run(&mut world, plain, End::Well);
    assert_eq!(stands(&world), [Stand::Waits, Stand::Waits, Stand::Waits], "a later one runs");
    world.end("n2", later, 1, EndedHow::Exited, (0, 0));
    assert_eq!(stands(&world), [Stand::Ready, Stand::Waits, Stand::Waits]);
    run(&mut world, chain[1], End::Cancelled);
    run(&mut world, chain[0], End::Badly);
    assert_eq!(stand(world.job(chain[2])), Stand::Ready);
}

#[test]
fn what_is_lost_ends_the_job_where_it_said_so_and_those_that_wait_for_it() {
    let mut world = World::new();
    let first = world.submit(tasks(1));
    let kill = |dependency| JobSpec { kill_on_invalid_dep: Some(true), ..waits(dependency) };
    let second = world.submit(kill(all(&[on(Kind::AfterOk, first)])));
    let third = world.submit(kill(all(&[on(Kind::AfterOk, second)])));
    let fourth = world.submit(waits(all(&[on(Kind::AfterOk, third)])));
    let fifth = world.submit(waits(all(&[on(Kind::AfterNotOk, second)])));
    run(&mut world, first, End::Badly);
    for job in [second, third] {
        let job = world.job(job);
        assert_eq!((job.state, job.reason), (JobState::Cancelled, Reason::DependencyNeverSatisfied));
        assert!(job.dependency.is_some(), "shown as it was");
    }
    assert_eq!((stand(world.job(fourth)), stand(world.job(fifth))), (Stand::Lost, Stand::Ready));
    let late = world.submit(kill(all(&[on(Kind::AfterOk, first)])));
    assert_eq!(world.job_state(late), JobState::Cancelled);
}

#[test]
fn jobs_that_are_not_known() {
    let mut world = World::new();
    let gone = JobId(9_999);
    for kind in [Kind::AfterOk, Kind::AfterNotOk, Kind::AfterCorr] {
        assert_eq!(world.try_submit(&ALICE, waits(all(&[on(kind, gone)]))), Err(Refusal::Dependency), "{kind:?}");
    }
    for kind in [Kind::After, Kind::AfterAny, Kind::AfterBurstBuffer] {
        let job = world.submit(waits(all(&[on(kind, gone)])));
        assert_eq!(stand(world.job(job)), Stand::Ready, "{kind:?}");
    }
    let known = world.submit(tasks(1));
    let job = world.submit(waits(any(&[on(Kind::AfterOk, known), on(Kind::AfterAny, gone)])));
    assert_eq!(stand(world.job(job)), Stand::Ready);
}

#[test]
fn a_change_of_the_dependency() {
    let mut world = World::new();
    let (a, b) = (world.submit(tasks(1)), world.submit(tasks(1)));
    let c = world.submit(waits(all(&[on(Kind::AfterOk, b)])));
    let change = |world: &mut World, job, dependency: Option<Dependency>| {
        let change = JobChange { dependency: dependency.or(Some(Dependency::default())), ..JobChange::default() };
        world.act(&ALICE, update(job, change)).map(|_| stand(world.job(job)))
    };
    assert_eq!(change(&mut world, a, all(&[on(Kind::AfterOk, a)])), Err(Refusal::Dependency), "itself");
    assert_eq!(change(&mut world, b, all(&[on(Kind::AfterAny, c)])), Err(Refusal::CircularDependency));
    assert_eq!(change(&mut world, b, all(&[on(Kind::AfterAny, a)])), Ok(Stand::Waits));
    assert_eq!(change(&mut world, a, all(&[on(Kind::AfterAny, c)])), Err(Refusal::CircularDependency), "through two");
    assert_eq!(change(&mut world, b, None), Ok(Stand::Ready));
    run(&mut world, a, End::Well);
    assert_eq!(change(&mut world, b, all(&[on(Kind::AfterOk, a)])), Ok(Stand::Ready), "met already");
    assert_eq!(change(&mut world, b, all(&[on(Kind::AfterNotOk, a)])), Ok(Stand::Lost));
    assert_eq!(change(&mut world, b, None), Ok(Stand::Ready));
    world.place(b, &["n1"]);
    assert_eq!(change(&mut world, b, all(&[on(Kind::AfterOk, a)])), Err(Refusal::NotPending));
}

#[test]
fn holding_and_waiting_are_apart() {
    let mut world = World::new();
    let first = world.submit(tasks(1));
    let job = world.submit(JobSpec { hold: true, ..waits(all(&[on(Kind::AfterOk, first)])) });
    run(&mut world, first, End::Well);
    assert!(world.job(job).dependency.is_none() && world.job(job).priority == 0);
    world.act(&ALICE, Act::Release(one(job))).expect("released");
    assert_eq!(stand(world.job(job)), Stand::Ready);
}

#[test]
fn those_that_wait_stand_behind_the_queue_and_are_found_by_an_index() {
    let mut world = World::bare();
    world.configure(settings(), vec![gpun_core::partition::Partition::all_nodes("batch")]);
    world.register("n1", cpus(4));
    let first = world.submit(tasks(1));
    let unrelated = world.submit(tasks(1));
    let count = 2_000;
    for _ in 0..count {
        let submit = world.submission(&ALICE, waits(all(&[on(Kind::AfterAny, first)])));
        let entry = gpun_core::Entry {
            version: gpun_core::command::ENTRY_VERSION,
            stamp: world.now,
            commands: vec![gpun_core::Command::Submit(Box::new(submit))],
        };
        world.state.apply(entry, &mut Mirror::default());
    }
    assert_eq!(world.state.dependents_of(first).count(), count);
    assert_eq!(world.state.dependents_of(unrelated).count(), 0);
    assert_eq!(world.state.queue().take_while(|job| job.is_ready()).count(), 2, "those that wait stand behind");
}
