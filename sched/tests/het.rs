//! Jobs of several components: all start in one plan, or none.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test's way to fail, in its helpers too.

mod build;

use build::*;
use gpun_core::{JobId, job::Reason, spec::JobSpec};

fn starts(cluster: &mut Cluster) -> Vec<Vec<u32>> {
    let plan = cluster.run_plan();
    let numbers = |placements: &Vec<gpun_core::command::Placement>| placements.iter().map(|one| one.job.0).collect();
    plan.together.iter().map(numbers).chain(plan.placements.iter().map(|one| vec![one.job.0])).collect()
}

fn reason(cluster: &Cluster, job: u32) -> Reason {
    let job = cluster.state.job(JobId(job)).expect("job");
    cluster.plan().verdict(&cluster.state, job).expect("it waits").reason
}

#[test]
fn components_start_together() {
    let mut cluster = Cluster::of(3, cpus(4));
    cluster.submit_het(&[tasks(2, 60), nodes(2, 4, 60)]);
    assert_eq!(starts(&mut cluster), [vec![1, 2]]);
}

#[test]
fn what_a_component_took_is_given_back_if_another_does_not_fit() {
    let mut cluster = Cluster::of(2, cpus(4));
    let running = cluster.submit(tasks(2, 60));
    assert_eq!(starts(&mut cluster), [vec![1]]);
    // The first fits on n1 and n2, the second then nowhere; what stands behind them does.
    let leader = cluster.submit_het(&[tasks(4, 600), tasks(4, 600)]);
    let small = cluster.submit(tasks(2, 30));
    let large = cluster.submit(tasks(4, 30));
    assert_eq!(starts(&mut cluster), [vec![small.0], vec![large.0]], "both end before room is kept");
    assert_eq!((reason(&cluster, leader.0), reason(&cluster, leader.0 + 1)), (Reason::Resources, Reason::Resources));
    [running, small, large].into_iter().for_each(|job| cluster.end(job));
    assert_eq!(starts(&mut cluster), [vec![leader.0, leader.0 + 1]]);
}

#[test]
fn a_component_that_waits_holds_all_back() {
    let mut cluster = Cluster::of(2, cpus(4));
    cluster.submit_het(&[tasks(1, 60), JobSpec { hold: true, ..tasks(1, 60) }]);
    let later = JobSpec { begin: Some(START.plus_s(100)), ..tasks(1, 60) };
    cluster.submit_het(&[tasks(1, 60), later]);
    assert_eq!(starts(&mut cluster), Vec::<Vec<u32>>::new());
    assert_eq!(reason(&cluster, 4), Reason::BeginTime);
    cluster.pass(100);
    assert_eq!(starts(&mut cluster), [vec![3, 4]]);
}

#[test]
fn many_of_them_share_a_plan() {
    let mut cluster = Cluster::of(4, cpus(2));
    (0..6).for_each(|_| {
        cluster.submit_het(&[tasks(1, 60), tasks(1, 60)]);
    });
    assert_eq!(starts(&mut cluster), [vec![1, 2], vec![3, 4], vec![5, 6], vec![7, 8]]);
}
