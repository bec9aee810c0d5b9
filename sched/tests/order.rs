//! Who comes first, whom nobody may delay, and why the others wait.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test's way to fail, in its helpers too.

mod build;

use build::*;
use gpun_core::{
    Command, JobId, Outcome, Refusal, TimeLimit,
    command::{Act, JobRef, NodeChange, PartitionChange},
    dependency::{Condition, Dependency, Kind},
    job::Reason,
    partition::{Partition, PartitionState},
    settings::{License, Settings},
    spec::{JobSpec, LicenseRequest},
};
use gpun_sched::{PlanLimits, Shortage, Verdict, why};

fn verdict(cluster: &Cluster, job: JobId) -> Verdict {
    let job = cluster.state.job(job).expect("job");
    cluster.plan().verdict(&cluster.state, job).expect("it waits")
}

fn priority(spec: JobSpec, priority: u32) -> JobSpec {
    JobSpec { priority: Some(priority), ..spec }
}

#[test]
fn the_queue_is_in_order_of_priority_then_number() {
    let mut cluster = Cluster::of(1, cpus(3));
    for value in [5, 9, 5, 7] {
        cluster.submit(priority(tasks(1, 60), value));
    }
    let plan = cluster.run_plan();
    assert_eq!(cluster.starts(&plan), ["2=n1:1", "4=n1:1", "1=n1:1"]);
}

#[test]
fn a_higher_tier_goes_first() {
    let fast = Partition { priority_tier: Some(5), ..partition("fast", &[]) };
    let mut cluster = Cluster::new(vec![("n1", cpus(1))], vec![Partition::all_nodes("batch"), fast]);
    cluster.submit(priority(tasks(1, 60), 900));
    cluster.submit(priority(JobSpec { partitions: vec!["fast".into()], ..tasks(1, 60) }, 1));
    let plan = cluster.run_plan();
    assert_eq!(cluster.starts(&plan), ["2=n1:1"]);
}

#[test]
fn a_job_in_two_partitions_starts_once_where_it_fits() {
    let fast = Partition { priority_tier: Some(5), ..partition("fast", &["n1"]) };
    for tier in [None, Some(5)] {
        let slow = Partition { priority_tier: tier, ..partition("slow", &["n2"]) };
        let mut cluster = Cluster::new(vec![("n1", cpus(1)), ("n2", cpus(1))], vec![fast.clone(), slow]);
        let both = || JobSpec { partitions: vec!["fast".into(), "slow".into()], ..tasks(1, 60) };
        cluster.submit(both());
        cluster.submit(both());
        cluster.submit(both());
        let plan = cluster.run_plan();
        assert_eq!(cluster.starts(&plan), ["1=n1:1", "2=n2:1"], "{tier:?}");
        assert_eq!(verdict(&cluster, JobId(3)).reason, Reason::Resources);
    }
}

/// One node of 4 CPUs: job 1 has 3 of them for 100 s; job 2 wants 4. What of the rest starts?
#[test]
fn backfill_never_delays_the_first_that_waits() {
    let rows: &[(u32, u64, bool)] = &[(1, 100, true), (1, 99, true), (1, 101, false), (2, 50, false)];
    for (size, seconds, starts) in rows {
        let mut cluster = Cluster::of(1, cpus(4));
        let first = cluster.submit(tasks(3, 100));
        cluster.run_plan();
        cluster.launch(first);
        let big = cluster.submit(tasks(4, 100));
        let small = cluster.submit(tasks(*size, *seconds));
        let plan = cluster.run_plan();
        let started = plan.placements.iter().any(|placement| placement.job == small);
        assert_eq!(started, *starts, "{size} CPUs for {seconds} s");
        let waits = plan.verdict(&cluster.state, cluster.state.job(big).expect("job")).expect("verdict");
        assert_eq!((waits.reason, waits.start_estimate), (Reason::Resources, Some(START.plus_s(100))));
        assert_eq!(waits.planned_nodes.len(), 1);
        if !starts {
            let behind = verdict(&cluster, small);
            assert_eq!((behind.reason, behind.behind), (Reason::Priority, Some(big)));
        }
    }
}

#[test]
fn long_jobs_fill_what_a_reservation_leaves() {
    let mut cluster = Cluster::of(2, cpus(4));
    cluster.submit(on(tasks(3, 100), &["n1"]));
    cluster.submit(on(tasks(4, 500), &["n2"]));
    cluster.run_plan();
    // Room for 2 CPUs is kept on n1 from 100 s on: of its 4, two stay free for long jobs, of which one is free now.
    let waits = cluster.submit(tasks(2, 1000));
    let long = cluster.submit(tasks(1, 5000));
    let longer = cluster.submit(tasks(1, 5000));
    let plan = cluster.run_plan();
    assert_eq!(plan.placements.iter().map(|placement| placement.job).collect::<Vec<_>>(), [long]);
    assert_eq!(verdict(&cluster, waits).start_estimate, Some(START.plus_s(100)));
    assert_eq!(verdict(&cluster, longer).reason, Reason::Priority);
}

#[test]
fn each_partition_has_its_own_first_job() {
    let all = vec![partition("a", &["n1"]), partition("b", &["n2"])];
    let mut cluster = Cluster::new(vec![("n1", cpus(1)), ("n2", cpus(1))], all);
    let to = |name: &str, seconds| JobSpec { partitions: vec![name.to_owned()], ..tasks(1, seconds) };
    cluster.submit(to("a", 100));
    cluster.submit(to("b", 200));
    cluster.run_plan();
    let (a, b, c) = (cluster.submit(to("a", 10)), cluster.submit(to("b", 10)), cluster.submit(to("b", 10)));
    let got = [a, b, c].map(|job| {
        let verdict = verdict(&cluster, job);
        (verdict.reason, verdict.start_estimate.map(|time| time.since_s(START)))
    });
    assert_eq!(got, [(Reason::Resources, Some(100)), (Reason::Resources, Some(200)), (Reason::Priority, None)]);
}

#[test]
fn partitions_that_share_nodes_respect_each_other() {
    let all = vec![partition("a", &["n1", "n2"]), partition("b", &["n2"])];
    let mut cluster = Cluster::new(vec![("n1", cpus(2)), ("n2", cpus(2))], all);
    let to = |name: &str, spec: JobSpec| JobSpec { partitions: vec![name.to_owned()], ..spec };
    cluster.submit(to("a", on(tasks(1, 100), &["n1"])));
    cluster.run_plan();
    let wide = cluster.submit(to("a", nodes(2, 2, 300)));
    let short = cluster.submit(to("b", tasks(2, 100)));
    let plan = cluster.run_plan();
    assert_eq!(cluster.starts(&plan), [format!("{short}=n2:2")]);
    assert_eq!(verdict(&cluster, wide).start_estimate, Some(START.plus_s(100)));
    // Room is kept on n2 from 100 s to 400 s: the next one there comes after it.
    let long = cluster.submit(to("b", tasks(2, 101)));
    let waits = verdict(&cluster, long);
    assert_eq!((waits.reason, waits.start_estimate), (Reason::Resources, Some(START.plus_s(400))));
}

#[test]
fn arrays_start_many_tasks_at_once() {
    let rows = [(10, None, vec![2, 3, 4, 5]), (10, Some(2), vec![2, 3]), (3, None, vec![2, 3])];
    for (last, max_running, want) in rows {
        let mut cluster = Cluster::of(2, cpus(2));
        let id = cluster.submit(array(tasks(1, 60), 2, last, max_running));
        let plan = cluster.run_plan();
        let got: Vec<u32> = plan.placements.iter().filter_map(|placement| placement.task).collect();
        assert_eq!(got, want);
        if let Some(job) = cluster.state.job(id).filter(|job| job.run.is_none()) {
            let reason = if max_running.is_some() { Reason::ArrayTaskLimit } else { Reason::Resources };
            assert_eq!(plan.verdict(&cluster.state, job).expect("verdict").reason, reason);
            assert_eq!(verdict(&cluster, id).reason, reason, "again");
        }
    }
}

#[test]
fn reasons_that_no_node_decides() {
    let mut down = partition("down", &[]);
    down.state = PartitionState::Down;
    let mut cluster = Cluster::new(
        vec![("n1", cpus(4)), ("n2", cpus(4))],
        vec![
            Partition::all_nodes("batch"),
            down,
            Partition { max_nodes: Some(1), max_time: TimeLimit::Seconds(600), ..partition("small", &[]) },
            partition("late", &[]),
        ],
    );
    let to = |name: &str, spec: JobSpec| JobSpec { partitions: vec![name.to_owned()], ..spec };
    let begin = START.plus_s(50);
    let rows = [
        (JobSpec { hold: true, ..tasks(1, 60) }, Reason::HeldUser, None),
        (JobSpec { priority: Some(0), ..tasks(1, 60) }, Reason::HeldAdmin, None),
        (JobSpec { begin: Some(begin), ..tasks(1, 60) }, Reason::BeginTime, Some(begin)),
        (to("down", tasks(1, 60)), Reason::PartitionDown, None),
        (to("small", tasks(1, 700)), Reason::PartitionTimeLimit, None),
        (to("small", nodes(2, 1, 60)), Reason::PartitionNodeLimit, None),
        (to("late", tasks(1, 60)), Reason::PartitionInactive, None),
        (JobSpec { deadline: Some(START.plus_s(30)), ..tasks(1, 60) }, Reason::DeadLine, None),
    ];
    let ids: Vec<JobId> = rows.iter().map(|(spec, _, _)| cluster.submit(spec.clone())).collect();
    let change = PartitionChange { state: Some(PartitionState::Inactive), ..PartitionChange::default() };
    cluster
        .done(Command::Act { who: ROOT, act: Act::UpdatePartition { name: "late".into(), change: Box::new(change) } });
    let plan = cluster.run_plan();
    assert_eq!(plan.placements, []);
    assert_eq!(plan.next_due, Some(begin));
    for (id, (_, reason, start)) in ids.iter().zip(rows) {
        let got = verdict(&cluster, *id);
        assert_eq!((got.reason, got.start_estimate), (reason, start), "job {id}");
    }
    cluster.pass(50);
    assert_eq!(cluster.run_plan().placements.len(), 1);
}

#[test]
fn jobs_that_depend_on_others_are_no_candidates() {
    let mut cluster = Cluster::of(1, cpus(1));
    let on = |kind, job, any| {
        let dependency = Dependency { conditions: vec![Condition::new(kind, job)], any };
        JobSpec { dependency: Some(dependency), ..tasks(1, 60) }
    };
    let running = cluster.submit(tasks(1, 60));
    cluster.run_plan();
    let first = cluster.submit(priority(on(Kind::AfterAny, running, false), 9_000_000));
    let next = cluster.submit(tasks(1, 60));
    assert_eq!(verdict(&cluster, first).reason, Reason::Dependency);
    assert_eq!(verdict(&cluster, next).reason, Reason::Resources, "it stands behind nobody");
    assert_eq!(cluster.plan().looked_at, 1, "the pass ends at the first that depends on another");
    cluster.done(Command::Act { who: ROOT, act: Act::Cancel(JobRef { job: next, tasks: None, component: None }) });
    let lost = cluster.submit(on(Kind::AfterOk, next, true));
    assert_eq!(verdict(&cluster, lost).reason, Reason::DependencyNeverSatisfied);
}

#[test]
fn licences_are_shared_by_the_whole_cluster() {
    let mut cluster = Cluster::of(2, cpus(8));
    let license = |name: &str, total| License { name: name.to_owned(), total };
    let licenses = vec![license("ansys", 1), license("matlab", 4)];
    let settings = Settings { licenses, ..cluster.state.settings().clone() };
    cluster.done(Command::Configure { settings: Box::new(settings), partitions: Vec::new() });
    let wants = |licenses: &[(&str, Option<u32>)]| {
        let one = |(name, count): &(&str, Option<u32>)| LicenseRequest { name: (*name).to_owned(), count: *count };
        JobSpec { licenses: licenses.iter().map(one).collect(), ..tasks(1, 60) }
    };
    for (licenses, allowed) in [
        (&[("matlab", Some(4))][..], true),
        (&[("matlab", Some(5))], false),
        (&[("matlab", Some(3)), ("matlab", Some(2))], false),
        (&[("other", None)], false),
        (&[("other", Some(0))], false),
    ] {
        let taken = cluster.try_submit(JobSpec { hold: true, ..wants(licenses) });
        assert_eq!(taken != Outcome::Refused(Refusal::License), allowed, "{licenses:?}");
    }
    let first = cluster.submit(wants(&[("matlab", Some(3)), ("ansys", None)]));
    let second = cluster.submit(wants(&[("matlab", Some(2))]));
    let third = cluster.submit(wants(&[("matlab", None)]));
    let fourth = cluster.submit(tasks(1, 60));
    let plan = cluster.run_plan();
    let started: Vec<JobId> = plan.placements.iter().map(|placement| placement.job).collect();
    assert_eq!(started, [first, third, fourth], "one that waits for licences keeps nobody else");
    assert_eq!((cluster.state.license_used("matlab"), cluster.state.license_used("ansys")), (4, 1));
    assert_eq!(verdict(&cluster, second).reason, Reason::Licenses);
    let large = cluster.submit(priority(nodes(2, 8, 60), 2_000_000_000));
    assert_eq!(verdict(&cluster, large).reason, Reason::Resources);
    assert_eq!(verdict(&cluster, second).reason, Reason::Priority, "it would not start with licences either");
    cluster.done(Command::Act { who: ROOT, act: Act::Cancel(JobRef { job: large, tasks: None, component: None }) });
    cluster.end(first);
    cluster.end(third);
    let plan = cluster.run_plan();
    assert_eq!(plan.placements.len(), 1);
    assert_eq!((cluster.state.license_used("matlab"), cluster.state.license_used("ansys")), (2, 0));
}

#[test]
fn reasons_of_nodes_that_are_away() {
    let mut cluster = Cluster::of(3, cpus(2));
    let named = cluster.submit(on(tasks(1, 60), &["n2", "n3"]));
    let wide = cluster.submit(nodes(3, 1, 60));
    cluster.node("n3", NodeChange::Down { reason: "test".into() });
    let small = cluster.submit(tasks(1, 60));
    let plan = cluster.run_plan();
    assert_eq!(cluster.starts(&plan), [format!("{small}=n1:1")]);
    let got = verdict(&cluster, named);
    let away = cluster.state.node_named("n3").expect("node").id;
    assert_eq!((got.reason, got.unavailable_nodes), (Reason::ReqNodeNotAvail, vec![away]));
    let got = verdict(&cluster, wide);
    assert_eq!((got.reason, got.needs_down_nodes, got.start_estimate), (Reason::Resources, true, None));
}

#[test]
fn what_no_node_could_run_blocks_nobody() {
    let mut cluster = Cluster::of(2, cpus(2));
    let broken = cluster.submit(tasks(4, 60));
    cluster.done(Command::RegisterNode { name: "n1".into(), inventory: cpus(1) });
    let small = cluster.submit(tasks(1, 60));
    let plan = cluster.run_plan();
    assert_eq!(cluster.starts(&plan), [format!("{small}=n1:1")]);
    assert_eq!(verdict(&cluster, broken).reason, Reason::BadConstraints);
}

#[test]
fn limits_end_a_plan_and_the_next_goes_on() {
    let mut cluster = Cluster::of(1, cpus(8));
    cluster.submit(array(tasks(1, 60), 0, 9, None));
    let limits = PlanLimits { placements_max: 3, ..PlanLimits::default() };
    let mut started = Vec::new();
    loop {
        let plan = gpun_sched::plan(&cluster.state, cluster.now, &limits);
        assert!(plan.placements.len() <= 3);
        started.extend(plan.placements.iter().filter_map(|placement| placement.task));
        for placement in &plan.placements {
            cluster.done(Command::Place(placement.clone()));
        }
        if !plan.unfinished {
            break;
        }
    }
    assert_eq!(started, [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn jobs_that_overrun_are_taken_to_end_at_once() {
    let mut cluster = Cluster::of(1, cpus(1));
    let first = cluster.submit(tasks(1, 60));
    cluster.run_plan();
    cluster.launch(first);
    let next = cluster.submit(tasks(1, 60));
    cluster.pass(100);
    assert_eq!(verdict(&cluster, next).start_estimate, Some(cluster.now.plus_s(1)));
    let jobs = JobRef { job: first, tasks: None, component: None };
    cluster.done(Command::Act { who: ROOT, act: Act::Cancel(jobs) });
    assert_eq!(verdict(&cluster, next).start_estimate, Some(cluster.now.plus_s(30)), "after the wait for its kill");
}

#[test]
fn why_tells_who_is_ahead_and_what_is_missing() {
    let mut cluster = Cluster::of(4, gpus(4, &[("a100", 2)]));
    cluster.submit(on(tasks(4, 100), &["n1"]));
    cluster.submit(with_gpus(on(tasks(1, 100), &["n2"]), None, 2));
    cluster.node("n3", NodeChange::Drain { reason: "test".into() });
    cluster.submit(on(with_memory(tasks(1, 100), 4), &["n4"]));
    cluster.run_plan();
    let first = cluster.submit(with_gpus(tasks(2, 100), None, 1));
    let job = cluster.submit(with_gpus(tasks(2, 100), Some("a100"), 1));
    let plan = cluster.run_plan();
    let got = why(&cluster.state, &plan, job).expect("it waits");
    assert_eq!((got.ahead, got.ahead_first, got.nodes_total, got.nodes_fitting), (1, vec![first], 4, 0));
    let want =
        vec![(Shortage::Drained, 1), (Shortage::Cpus, 1), (Shortage::Memory, 1), (Shortage::Gres("gpu".into()), 1)];
    assert_eq!(got.shortages, want);
    assert_eq!(got.verdict.behind, Some(first));
    assert_eq!(why(&cluster.state, &plan, JobId(1)), None, "a running job waits for nothing");
}

/// A reservation of n1 from in 100 s for 1000 s, and what jobs make of it.
#[test]
fn reservations_keep_their_nodes_for_their_users() {
    use gpun_core::reservation::{Flag, Reservation};
    let make = |cluster: &mut Cluster, flags: &[Flag]| {
        let start = cluster.now.plus_s(100);
        let one = Reservation {
            name: "r".into(),
            start,
            end: start.plus_s(1000),
            nodes: vec!["n1".into()],
            users: vec!["u".into()],
            uids: vec![1000],
            flags: flags.to_vec(),
            ..Reservation::default()
        };
        let act = Act::CreateReservation(Box::new(one));
        assert!(matches!(cluster.apply(Command::Act { who: ROOT, act }), Outcome::Reserved { .. }));
    };
    let inside = |spec: JobSpec| JobSpec { reservation: Some("r".into()), ..spec };

    // One that ends before it may start there, a longer one goes elsewhere.
    let mut cluster = Cluster::of(2, cpus(1));
    make(&mut cluster, &[]);
    let long = cluster.submit(tasks(1, 500));
    let short = cluster.submit(tasks(1, 50));
    let plan = cluster.run_plan();
    assert_eq!(cluster.starts(&plan), [format!("{long}=n2:1"), format!("{short}=n1:1")]);

    // Where nothing else is there, it waits, and says for what.
    for (flags, reason) in [(&[][..], Reason::Resources), (&[Flag::Maint][..], Reason::ReqNodeNotAvail)] {
        let mut cluster = Cluster::of(1, cpus(1));
        make(&mut cluster, flags);
        let long = cluster.submit(tasks(1, 500));
        assert!(cluster.plan().placements.is_empty());
        assert_eq!(verdict(&cluster, long).reason, reason);
        assert_eq!(verdict(&cluster, long).reserved_for_maintenance, reason == Reason::ReqNodeNotAvail);
        cluster.pass(1100);
        assert_eq!(cluster.starts(&cluster.plan()), [format!("{long}=n1:1")], "it is over");
    }

    // Its users' jobs wait for it, and start inside.
    let mut cluster = Cluster::of(2, cpus(1));
    make(&mut cluster, &[]);
    let own = cluster.submit(inside(tasks(1, 500)));
    assert_eq!(verdict(&cluster, own).reason, Reason::Reservation);
    assert_eq!(verdict(&cluster, own).start_estimate, Some(cluster.now.plus_s(100)));
    cluster.pass(100);
    assert_eq!(cluster.starts(&cluster.plan()), [format!("{own}=n1:1")]);
    cluster.pass(600);
    assert_eq!(verdict(&cluster, own).reason, Reason::Reservation, "no time is left for it");
}
