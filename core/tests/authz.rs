//! Who may do what: who × act × whose job, and what of an own job a user may change.

mod build;

use build::*;
use gpun_core::{
    Refusal, TimeLimit,
    command::{Act, Identity, JobChange, NodeChange},
    job::Hold,
    partition::Partition,
    spec::JobSpec,
};

/// Each act on a fresh job of Alice's in a state that allows it.
fn acts() -> Vec<(&'static str, Act, bool)> {
    let job = gpun_core::JobId(1);
    vec![
        ("cancel", Act::Cancel(one(job)), false),
        ("signal", signal(job), true),
        ("hold", Act::Hold { jobs: one(job), as_user: false }, false),
        ("uhold", Act::Hold { jobs: one(job), as_user: true }, false),
        ("release", Act::Release(one(job)), false),
        ("requeue", Act::Requeue { jobs: one(job), hold: false }, true),
        ("update", update(job, JobChange { comment: Some("x".into()), ..JobChange::default() }), false),
    ]
}

#[test]
fn jobs_are_for_their_owner_and_for_operators() {
    for (name, act, running) in acts() {
        for (who, allowed) in [(ALICE, true), (BOB, false), (OPERATOR, true), (ROOT, true)] {
            let mut world = World::new();
            let job = world.submit(tasks(1));
            if running {
                world.place(job, &["n1"]);
            }
            let want = if allowed { Ok(1) } else { Err(Refusal::AccessDenied) };
            assert_eq!(world.act(&who, act.clone()), want, "{name} by {}", who.uid);
        }
    }
}

#[test]
fn nodes_and_partitions_are_for_operators() {
    let acts = [
        Act::UpdateNode { name: "n1".into(), change: NodeChange::Drain { reason: "x".into() } },
        Act::UpdateNode { name: "n1".into(), change: NodeChange::Down { reason: "x".into() } },
        Act::UpdateNode { name: "n1".into(), change: NodeChange::Idle },
        Act::UpdateNode { name: "n1".into(), change: NodeChange::Undrain },
        Act::UpdateNode { name: "n1".into(), change: NodeChange::Set(Box::default()) },
        Act::UpdatePartition { name: "batch".into(), change: Box::default() },
    ];
    for act in acts {
        for (who, allowed) in [(ALICE, false), (OPERATOR, true), (ROOT, true)] {
            let want = if allowed { Ok(1) } else { Err(Refusal::AccessDenied) };
            assert_eq!(World::new().act(&who, act.clone()), want, "{act:?} by {}", who.uid);
        }
    }
}

#[test]
fn a_user_may_lower_but_not_raise() {
    let none = JobChange::default;
    let rows: [(&str, JobChange, bool); 11] = [
        ("shorter", JobChange { time_limit: Some(TimeLimit::Seconds(30)), ..none() }, true),
        ("longer, as the partition lets it", JobChange { time_limit: Some(TimeLimit::Seconds(600)), ..none() }, true),
        ("longer than the partition lets it", JobChange { time_limit: Some(TimeLimit::Seconds(601)), ..none() }, false),
        ("endless", JobChange { time_limit: Some(TimeLimit::Infinite), ..none() }, false),
        ("a lower priority", JobChange { priority: Some(50), ..none() }, true),
        ("a higher priority", JobChange { priority: Some(2_000), ..none() }, false),
        ("a deadline", JobChange { deadline: Some(START.plus_s(9_000)), ..none() }, false),
        ("nicer", JobChange { nice: Some(5), ..none() }, true),
        ("less nice", JobChange { nice: Some(-1), ..none() }, false),
        ("a name", JobChange { name: Some("x".into()), ..none() }, true),
        ("fewer tasks", JobChange { ntasks: Some(1), ..none() }, true),
    ];
    for (name, change, allowed) in rows {
        for (who, allowed) in [(ALICE, allowed), (OPERATOR, true), (BOB, false)] {
            let mut world = World::new();
            let limited = Partition { max_time: TimeLimit::Seconds(600), ..Partition::all_nodes("batch") };
            world.configure(settings(), vec![limited]);
            let job = world.submit(JobSpec { priority: Some(1_000), ..tasks(2) });
            let want = if allowed { Ok(1) } else { Err(Refusal::AccessDenied) };
            assert_eq!(world.act(&who, update(job, change.clone())), want, "{name} by {}", who.uid);
        }
    }
}

#[test]
fn a_priority_is_no_release() {
    let mut world = World::new();
    let job = world.submit(JobSpec { hold: true, ..tasks(1) });
    let change = JobChange { priority: Some(5), ..JobChange::default() };
    assert_eq!(world.act(&BOB, update(job, change.clone())), Err(Refusal::AccessDenied));
    assert_eq!(world.act(&ALICE, update(job, change.clone())), Err(Refusal::JobHeld));
    assert_eq!(world.act(&OPERATOR, update(job, change)), Ok(1));
    assert_eq!(world.job(job).hold, Hold::None);
}

#[test]
fn the_limit_of_a_running_job_is_raised_by_operators() {
    let mut world = World::new();
    let job = world.submit(tasks(1));
    world.place(job, &["n1"]);
    let longer = JobChange { time_limit: Some(TimeLimit::Seconds(61)), ..JobChange::default() };
    assert_eq!(world.act(&ALICE, update(job, longer.clone())), Err(Refusal::AccessDenied));
    assert_eq!(world.act(&OPERATOR, update(job, longer)), Ok(1));
}

/// Who holds, who then releases, and whether it is open afterwards.
#[test]
fn only_an_operator_ends_an_operators_hold() {
    let user = Act::Hold { jobs: one(gpun_core::JobId(1)), as_user: true };
    let admin = Act::Hold { jobs: one(gpun_core::JobId(1)), as_user: false };
    let zero = update(gpun_core::JobId(1), JobChange { priority: Some(0), ..JobChange::default() });
    let rows: Vec<(Vec<(&Identity, &Act)>, Hold, bool)> = vec![
        (vec![(&ALICE, &admin)], Hold::User, true),
        (vec![(&OPERATOR, &admin)], Hold::Admin, false),
        (vec![(&ROOT, &admin)], Hold::Admin, false),
        (vec![(&OPERATOR, &user)], Hold::User, true),
        (vec![(&OPERATOR, &admin), (&ALICE, &admin)], Hold::Admin, false),
        (vec![(&OPERATOR, &admin), (&ALICE, &zero)], Hold::Admin, false),
        (vec![(&ALICE, &admin), (&OPERATOR, &admin)], Hold::Admin, false),
        (vec![(&ALICE, &zero)], Hold::User, true),
        (vec![(&OPERATOR, &zero)], Hold::Admin, false),
    ];
    for (holds, want, user_may_release) in rows {
        let mut world = World::new();
        let job = world.submit(tasks(1));
        for (who, act) in &holds {
            world.act(who, (*act).clone()).expect("held");
        }
        assert_eq!((world.job(job).hold, world.job(job).priority), (want, 0), "{holds:?}");
        let released = world.act(&ALICE, Act::Release(one(job)));
        assert_eq!(released.is_ok(), user_may_release, "{holds:?}");
        world.act(&OPERATOR, Act::Release(one(job))).expect("an operator may");
        assert_eq!(world.job(job).hold, Hold::None);
        assert!(world.job(job).priority > 0);
    }
}

#[test]
fn scripts_are_read_by_those_who_may() {
    let mut world = World::new();
    let job = world.submit(tasks(1));
    for (who, may) in [(ALICE, true), (BOB, false), (OPERATOR, true), (ROOT, true)] {
        assert_eq!(gpun_core::authz::may_read_script(&world.state, &who, world.job(job)), may, "{}", who.uid);
    }
}
