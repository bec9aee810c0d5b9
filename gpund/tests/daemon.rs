//! The whole node against a controller that does as it is told: real daemon, real supervisors, real containers.
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that can't go on fails")]

mod cluster;

use std::fs;
use std::time::{Duration, Instant};

use cluster::{Cluster, until};
use gpun_core::TimeLimit;
use gpun_core::command::{EndedHow, JobEvent};
use gpun_core::job::{ExitStatus, SignalOrder, SignalScope};
use gpun_proto::pb;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Says that it runs, and goes on when told.
const WAITS: &str = "#!/bin/sh\necho run\nwhile ! test -e go; do sleep 0.02; done\nexit 4\n";
const ENDLESS: &str = "#!/bin/sh\necho run\nsleep 1000\n";

fn exit(code: u8, signal: u8) -> ExitStatus {
    ExitStatus { code, signal }
}

#[test]
fn a_job_runs_and_its_end_is_told() {
    let cluster = Cluster::new();
    cluster.controller.want(cluster.job(5, "#!/bin/sh\nid -u; hostname; exit 3\n"));
    let ended = cluster.controller.ended(5);
    assert_eq!((ended.how, ended.exit, &ended.text), (EndedHow::Exited, exit(3, 0), &None));
    let events = cluster.controller.reports(5, 1);
    assert!(matches!(&events[..], [JobEvent::Launched { at }, JobEvent::Ended(end)] if *at <= end.at), "{events:?}");
    assert_eq!(cluster.out(5), "7001\nn1\n");
    cluster.until_empty();
    let inventory = cluster.controller.inventory().unwrap();
    assert_eq!((inventory.cpus, inventory.memory.0, inventory.stated), (8, 4000, true));
    until("it shows its health", || cluster.controller.health() > 1);
}

#[test]
fn jobs_go_on_when_gpund_is_killed() {
    let mut cluster = Cluster::new();
    cluster.controller.want(cluster.job(5, WAITS));
    cluster.controller.launched(5);
    cluster.kill_and_start();
    until("it is attached again", || cluster.controller.sessions() == 2);
    cluster.stop(Signal::SIGTERM);
    assert!(cluster.job_dir(5, 1).exists());
    // It ends while no gpund is there.
    fs::write(cluster.work().join("go"), "").unwrap();
    until("its end is on disk", || cluster.job_dir(5, 1).join("exit.json").exists());
    assert!(!cluster.controller.reports(5, 1).iter().any(|event| matches!(event, JobEvent::Ended(_))));
    cluster.start();
    assert_eq!(cluster.controller.ended(5).exit, exit(4, 0));
    assert_eq!(cluster.out(5), "run\n", "it ran once");
    cluster.until_empty();
}

#[test]
fn an_end_that_no_controller_heard_of_is_told_later() {
    let mut cluster = Cluster::new();
    cluster.controller.want(cluster.job(5, WAITS));
    cluster.controller.launched(5);
    cluster.controller.down();
    fs::write(cluster.work().join("go"), "").unwrap();
    until("its end is on disk", || cluster.job_dir(5, 1).join("exit.json").exists());
    cluster.kill_and_start();
    cluster.controller.up();
    assert_eq!(cluster.controller.ended(5).exit, exit(4, 0));
    cluster.until_empty();
}

#[test]
fn a_killed_supervisor_is_a_lost_attempt_and_nothing_is_left() {
    let mut cluster = Cluster::new();
    cluster.controller.want(cluster.job(5, ENDLESS));
    cluster.controller.want(cluster.job(6, ENDLESS));
    let kill_shim = |cluster: &Cluster, job| {
        let shims = cluster.processes(&cluster.job_dir(job, 1));
        assert_eq!(shims.len(), 1);
        kill(Pid::from_raw(shims[0]), Signal::SIGKILL).unwrap();
    };
    let check = |cluster: &Cluster, job| {
        let ended = cluster.controller.ended(job);
        assert_eq!(ended.how, EndedHow::Lost);
        assert!(ended.text.is_some_and(|text| text.contains("supervisor was killed")));
    };
    cluster.controller.launched(5);
    cluster.controller.launched(6);
    kill_shim(&cluster, 5);
    check(&cluster, 5);
    // And while no gpund watches.
    cluster.stop(Signal::SIGKILL);
    kill_shim(&cluster, 6);
    cluster.start();
    check(&cluster, 6);
    cluster.until_empty();
}

#[test]
fn the_time_limit_holds_with_no_controller_in_reach() {
    let mut cluster = Cluster::new();
    let stubborn = "#!/bin/sh\ntrap 'echo term' TERM\necho run\nwhile :; do sleep 0.05; done\n";
    let mut wanted = cluster.job(5, stubborn);
    wanted.job.time_limit = TimeLimit::Seconds(1000);
    cluster.controller.want(wanted);
    cluster.controller.launched(5);
    cluster.controller.change_job(5, |job| job.time_limit = TimeLimit::Seconds(3));
    let record = cluster.job_dir(5, 1).join("agent.json");
    until("it knows the new limit", || fs::read_to_string(&record).is_ok_and(|text| text.contains("\"limit_s\":3")));
    cluster.controller.down();
    cluster.kill_and_start();
    until("its end is on disk", || cluster.job_dir(5, 1).join("exit.json").exists());
    cluster.controller.up();
    let ended = cluster.controller.ended(5);
    assert_eq!((ended.how, ended.exit), (EndedHow::TimeLimit, exit(0, 9)));
    let JobEvent::Launched { at } = cluster.controller.reports(5, 1)[0] else { panic!("not launched") };
    let ran_ms = ended.at.0 - at.0;
    assert!((3900..8000).contains(&ran_ms), "TERM after 3 s, KILL one second later: {ran_ms}");
    let out = cluster.out(5);
    assert!(out.contains(" DUE TO TIME LIMIT ***\n"), "{out}");
    assert_eq!(out.matches("term\n").count(), 1, "{out}");
    cluster.until_empty();
}

#[test]
fn a_cancelled_job_gets_one_term_and_may_end_in_order() {
    let mut cluster = Cluster::new();
    cluster.controller.set_kill_wait(60);
    let tidy = "#!/bin/sh\ntrap 'echo term' TERM\necho run\nwhile ! test -e go; do sleep 0.02; done\nexit 5\n";
    cluster.controller.want(cluster.job(5, tidy));
    until("it runs", || cluster.out(5) == "run\n");
    cluster.controller.launched(5);
    cluster.controller.cancel(5);
    until("it got TERM", || cluster.out(5).contains("term"));
    cluster.kill_and_start();
    until("it is attached again", || cluster.controller.sessions() == 2);
    cluster.controller.sync();
    fs::write(cluster.work().join("go"), "").unwrap();
    let ended = cluster.controller.ended(5);
    assert_eq!((ended.how, ended.exit), (EndedHow::Ordered, exit(5, 0)));
    let out = cluster.out(5);
    let lines: Vec<&str> = out.lines().filter(|line| !line.contains("Terminated")).collect();
    assert!(matches!(lines[..], ["run", notice, "term"] if notice.starts_with("*** JOB 5 CANCELLED AT 20")), "{out}");
    cluster.until_empty();
}

#[test]
fn the_same_document_again_changes_nothing() {
    let cluster = Cluster::new();
    cluster.controller.set_repeat();
    cluster.controller.want(cluster.job(5, "#!/bin/sh\necho run >> runs\nwhile ! test -e go; do sleep 0.02; done\n"));
    for _ in 0..20 {
        cluster.controller.sync();
    }
    cluster.controller.launched(5);
    for _ in 0..20 {
        cluster.controller.sync();
    }
    fs::write(cluster.work().join("go"), "").unwrap();
    cluster.controller.ended(5);
    for _ in 0..20 {
        cluster.controller.sync();
    }
    cluster.until_empty();
    assert_eq!(fs::read_to_string(cluster.work().join("runs")).unwrap(), "run\n");
}

#[test]
fn what_is_not_wanted_any_more_is_killed_and_the_next_attempt_starts() {
    let cluster = Cluster::new();
    cluster.controller.want(cluster.attempt(5, 1, ENDLESS));
    cluster.controller.launched(5);
    cluster.controller.want(cluster.attempt(5, 2, "#!/bin/sh\necho second\n"));
    assert_eq!(cluster.controller.ended_attempt(5, 2).exit, exit(0, 0));
    let first = cluster.controller.ended_attempt(5, 1);
    assert_eq!((first.how, first.exit), (EndedHow::Ordered, exit(0, 9)));
    assert_eq!(cluster.out(5), "second\n");
    cluster.until_empty();
}

#[test]
fn what_cannot_be_started_is_said_in_words() {
    let cluster = Cluster::new();
    let mut no_image = cluster.job(5, "#!/bin/sh\n");
    no_image.launch.image = Some(pb::Image { path: "/not/there.tar".into(), work_dir: None });
    let mut no_user = cluster.job(6, "#!/bin/sh\n");
    no_user.launch.user = None;
    cluster.controller.want(no_image);
    cluster.controller.want(no_user);
    for (job, words) in [(5, "/not/there.tar"), (6, "has no user")] {
        let ended = cluster.controller.ended(job);
        assert_eq!(ended.how, EndedHow::LaunchFailed, "{ended:?}");
        assert!(ended.text.as_ref().is_some_and(|text| text.contains(words)), "{ended:?}");
    }
    // Cancelled before this node ever had it.
    let gone = cluster.job(7, "#!/bin/sh\n");
    cluster.controller.change(|jobs| {
        jobs.insert(gone.job.job, gone.clone());
        jobs.get_mut(&gone.job.job).unwrap().launch.job_id = 1007;
    });
    cluster.controller.cancel(7);
    assert_eq!(cluster.controller.ended(7).how, EndedHow::Ordered);
    cluster.until_empty();
}

#[test]
fn signals_and_the_warning_come_once_each() {
    let cluster = Cluster::new();
    let counts = "#!/bin/sh\ntrap 'echo usr1' USR1\ntrap 'echo usr2' USR2\necho run\nwhile :; do sleep 0.02; done\n";
    let mut wanted = cluster.job(5, counts);
    wanted.job.time_limit = TimeLimit::Seconds(3);
    wanted.launch.warn = Some(pb::Warn { signal: Signal::SIGUSR2 as i32, before_s: 1, batch_only: true });
    cluster.controller.want(wanted);
    until("it runs", || cluster.out(5) == "run\n");
    let order = |number, scope| SignalOrder { number, signal: Signal::SIGUSR1 as i32, scope };
    cluster.controller.signal(5, order(1, SignalScope::Batch));
    until("one", || cluster.out(5).matches("usr1").count() == 1);
    cluster.controller.signal(5, order(2, SignalScope::Steps));
    cluster.controller.signal(5, order(3, SignalScope::All));
    cluster.controller.sync();
    until("two", || cluster.out(5).matches("usr1").count() == 2);
    assert_eq!(cluster.controller.ended(5).how, EndedHow::TimeLimit);
    let out = cluster.out(5);
    assert_eq!((out.matches("usr1\n").count(), out.matches("usr2\n").count()), (2, 1), "{out}");
    cluster.until_empty();
}

#[test]
fn want_of_memory_is_told_to_the_user() {
    let cluster = Cluster::new();
    let mut wanted = cluster.job(5, "#!/bin/sh\nhead -c 300000000 /dev/zero | tail\n");
    if let Some(limits) = &mut wanted.launch.limits {
        limits.memory_mib = 40;
    }
    cluster.controller.want(wanted);
    assert_eq!(cluster.controller.ended(5).how, EndedHow::OutOfMemory);
    let out = cluster.out(5);
    assert!(out.ends_with("out of memory\n"), "{out:?}");
    cluster.until_empty();
}

#[test]
fn one_daemon_a_node() {
    let cluster = Cluster::new();
    until("it is attached", || cluster.controller.sessions() == 1);
    let second = cluster.command().output().unwrap();
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(!second.status.success() && said.contains("node n1 already runs"), "{said}");
    let mut wrong_key = Cluster::without_node();
    fs::write(wrong_key.root.path().join("node.key"), "no key").unwrap();
    let refused = wrong_key.command().output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("node.key"), "{said}");
    wrong_key.arguments.push("--gres=gpu:x:many".into());
    fs::write(wrong_key.root.path().join("node.key"), gpun_proto::node_key::NodeKey::new([3; 32]).to_text()).unwrap();
    let refused = wrong_key.command().output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("gpu:x:many"), "{said}");
}

/// Numbers that look random and are the same in every run.
fn next_random(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

#[test]
fn kill_9_of_gpund_at_any_moment_loses_no_end_and_starts_nothing_twice() {
    const JOBS: u32 = 40;
    let mut cluster = Cluster::new();
    let script = |job| format!("#!/bin/sh\necho run >> {job}.runs\nexit {job}\n");
    let jobs: Vec<_> = (1..=JOBS).map(|job| cluster.job(job, &script(job))).collect();
    cluster.controller.change(|wanted| wanted.extend(jobs.into_iter().map(|job| (job.job.job, job))));
    let mut seed = 1;
    for _ in 0..25 {
        std::thread::sleep(Duration::from_millis(next_random(&mut seed) % 120));
        cluster.kill_and_start();
    }
    until("all have ended", || cluster.controller.wanted() == 0);
    for job in 1..=JOBS {
        let ended = cluster.controller.ended(job);
        assert_eq!((ended.how, ended.exit), (EndedHow::Exited, exit(job as u8, 0)), "job {job}: {ended:?}");
        let runs = fs::read_to_string(cluster.work().join(format!("{job}.runs"))).unwrap_or_default();
        assert_eq!(runs, "run\n", "job {job} ran once");
    }
    cluster.until_empty();
}

#[test]
fn many_small_jobs_flow() {
    const JOBS: u32 = 60;
    let cluster = Cluster::new();
    until("it is attached", || cluster.controller.sessions() == 1);
    let before = Instant::now();
    let jobs: Vec<_> = (1..=JOBS).map(|job| cluster.job(job, "#!/bin/sh\n")).collect();
    cluster.controller.change(|wanted| wanted.extend(jobs.into_iter().map(|job| (job.job.job, job))));
    until("all have ended", || cluster.controller.wanted() == 0);
    println!("{JOBS} jobs in {:?}, {} messages", before.elapsed(), cluster.controller.messages());
    for job in 1..=JOBS {
        assert_eq!(cluster.controller.ended(job).exit, exit(0, 0));
    }
    cluster.until_empty();
}
