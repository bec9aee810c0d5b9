//! Reservations: who may make them, what stands against them, and what they keep from whom.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test's way to fail, in its helpers too.

mod build;

use build::*;
use gpun_core::{
    Command, Outcome, Refusal, TimeLimit, TimeMs,
    command::{Act, Identity},
    reservation::{Flag, Reservation, ReservationChange, Unusable},
    spec::JobSpec,
};

/// n1 for Alice, from in `from_s` seconds for `length_s`.
fn wanted(world: &World, from_s: u64, length_s: u64) -> Reservation {
    let start = world.now.plus_s(from_s);
    Reservation {
        name: "r".into(),
        start,
        end: start.plus_s(length_s),
        nodes: vec!["n1".into()],
        users: vec!["alice".into()],
        uids: vec![ALICE.uid],
        ..Reservation::default()
    }
}

fn make(world: &mut World, who: &Identity, wanted: Reservation) -> Result<String, Refusal> {
    let act = Act::CreateReservation(Box::new(wanted));
    match world.apply(Command::Act { who: who.clone(), act }) {
        Outcome::Reserved { name } => Ok(name),
        Outcome::Refused(refusal) => Err(refusal),
        other => panic!("{other:?}"),
    }
}

fn limited(seconds: u64, reservation: Option<&str>) -> JobSpec {
    JobSpec { time_limit: Some(TimeLimit::Seconds(seconds)), reservation: reservation.map(str::to_owned), ..tasks(1) }
}

#[test]
fn what_is_wrong_is_refused() {
    type Change = fn(&mut Reservation);
    let rows: [(&str, Change, Refusal); 7] = [
        ("no such node", |r| r.nodes = vec!["n9".into()], Refusal::UnknownNodeName { name: "n9".into() }),
        ("nobody", |r| r.uids.clear(), Refusal::ReservationUsers),
        ("no nodes", |r| r.nodes.clear(), Refusal::ReservationNodes),
        ("too many nodes", |r| (r.nodes, r.node_count) = (Vec::new(), Some(99)), Refusal::ReservationBusy),
        ("ends first", |r| r.end = r.start, Refusal::ReservationTime),
        ("long ago", |r| (r.start, r.end) = (TimeMs(1), TimeMs(2)), Refusal::ReservationTime),
        ("no such partition", |r| r.partition = Some("none".into()), Refusal::UnknownPartition),
    ];
    for (what, change, refusal) in rows {
        let mut world = World::new();
        let mut one = wanted(&world, 100, 100);
        change(&mut one);
        assert_eq!(make(&mut world, &ROOT, one), Err(refusal), "{what}");
    }
    let mut world = World::new();
    let one = wanted(&world, 100, 100);
    assert_eq!(make(&mut world, &ALICE, one.clone()), Err(Refusal::AccessDenied));
    assert_eq!(make(&mut world, &OPERATOR, one.clone()), Ok("r".into()));
    assert_eq!(make(&mut world, &ROOT, one.clone()), Err(Refusal::ReservationName));
    let second = Reservation { name: String::new(), ..one.clone() };
    assert_eq!(make(&mut world, &ROOT, second.clone()), Err(Refusal::ReservationOverlap));
    let maintenance = Reservation { flags: vec![Flag::Maint], ..second.clone() };
    assert_eq!(make(&mut world, &ROOT, maintenance), Ok("alice_1".into()));
    let later = Reservation { start: one.end, end: one.end.plus_s(10), ..second };
    assert_eq!(make(&mut world, &ROOT, later), Ok("alice_2".into()));
}

#[test]
fn a_number_of_nodes_takes_those_that_are_free_by_then() {
    let mut world = World::new();
    let job = world.submit(limited(1000, None));
    world.place(job, &["n1"]);
    let count = |count| Reservation { nodes: Vec::new(), node_count: Some(count), ..wanted(&World::new(), 100, 100) };
    let start = world.now.plus_s(100);
    let at = |one: Reservation| Reservation { start, end: start.plus_s(100), ..one };
    assert_eq!(make(&mut world, &ROOT, at(count(1))), Ok("r".into()));
    assert!(!world.state.reservation("r").expect("made").nodes.contains(&"n1".to_owned()), "n1 is taken until later");
}

#[test]
fn running_jobs_stand_against_it_unless_it_ignores_them() {
    for (limit_s, flags, refused) in [
        (1000, vec![], true),
        (50, vec![], false),
        (1000, vec![Flag::Maint], false),
        (1000, vec![Flag::IgnoreJobs], false),
    ] {
        let mut world = World::new();
        let job = world.submit(limited(limit_s, None));
        world.place(job, &["n1"]);
        let one = Reservation { flags: flags.clone(), ..wanted(&world, 100, 100) };
        let made = make(&mut world, &ROOT, one);
        assert_eq!(made.is_err(), refused, "{limit_s} {flags:?}: {made:?}");
    }
}

/// Whether a job may start on a node now, beside a reservation of n1 for Alice from 100 s to 1100 s.
#[test]
fn it_keeps_its_nodes_for_its_users() {
    // limit, names the reservation, node, how much later it is → may start
    let rows = [
        (50, false, "n1", 0, true),
        (200, false, "n1", 0, false),
        (200, false, "n2", 0, true),
        (50, false, "n1", 500, false),
        (50, true, "n1", 0, false),
        (50, true, "n1", 500, true),
        (5000, true, "n1", 500, false),
        (50, true, "n2", 500, false),
        (50, false, "n1", 1200, true),
    ];
    for (limit_s, named, node, later_s, may) in rows {
        let mut world = World::new();
        let one = wanted(&world, 100, 1000);
        make(&mut world, &ROOT, one).expect("made");
        let job = world.submit(limited(limit_s, named.then_some("r")));
        world.pass(later_s);
        let placement = world.placement(job, None, &[node]);
        let got = world.try_place(placement);
        assert_eq!(got.is_ok(), may, "{limit_s} {named} {node} {later_s}: {got:?}");
    }
}

#[test]
fn only_its_users_may_name_it() {
    let mut world = World::new();
    let one = Reservation { accounts: vec!["lab".into()], ..wanted(&world, 100, 1000) };
    make(&mut world, &ROOT, one).expect("made");
    let with_account = JobSpec { account: Some("lab".into()), ..limited(50, Some("r")) };
    assert_eq!(world.try_submit(&ALICE, limited(50, Some("r"))).map(|_| ()), Ok(()));
    assert_eq!(world.try_submit(&BOB, limited(50, Some("r"))), Err(Refusal::ReservationAccess));
    assert_eq!(world.try_submit(&BOB, with_account).map(|_| ()), Ok(()));
    assert_eq!(world.try_submit(&ALICE, limited(50, Some("none"))), Err(Refusal::Reservation));
}

#[test]
fn it_changes_ends_and_comes_again() {
    let mut world = World::new();
    let one = wanted(&world, 100, 1000);
    make(&mut world, &ROOT, one.clone()).expect("made");
    let change = ReservationChange { duration_s: Some(600), ..ReservationChange::default() };
    let update = |change| Act::UpdateReservation { name: "r".into(), change: Box::new(change) };
    assert_eq!(world.act(&ALICE, update(change.clone())), Err(Refusal::AccessDenied));
    assert_eq!(world.act(&ROOT, update(change)), Ok(1));
    assert_eq!(world.state.reservation("r").expect("there").end, one.start.plus_s(600));
    let job = world.submit(limited(50, Some("r")));
    world.pass(200);
    world.place(job, &["n1"]);
    let delete = || Act::DeleteReservation { name: "r".into() };
    assert_eq!(world.act(&ROOT, delete()), Err(Refusal::ReservationBusy));
    world.pass(600);
    assert!(world.state.reservation("r").is_none(), "it is over");
    assert_eq!(world.act(&ROOT, delete()), Err(Refusal::Reservation));
    let gone = world.job(job).clone();
    assert_eq!(world.state.own_reservation(&gone, world.now), Err(Unusable::Gone));

    let daily = Reservation { flags: vec![Flag::Daily], nodes: vec!["n2".into()], ..wanted(&world, 100, 1000) };
    make(&mut world, &ROOT, daily.clone()).expect("made");
    world.pass(3 * 86_400 + 500);
    assert_eq!(world.state.reservation("r").expect("there").start, daily.start.plus_s(3 * 86_400));
    world.pass(700);
    assert_eq!(world.state.reservation("r").expect("there").start, daily.start.plus_s(4 * 86_400));
}
