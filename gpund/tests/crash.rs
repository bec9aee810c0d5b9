//! The supervisor or the runtime is killed at any moment: what was launched is taken away again.
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod common;

use std::fs;
use std::time::{Duration, Instant};

use common::{Node, out, until};
use gpund::phase::{ExitKind, Phase};
use gpund::recover::{self, CleanError};
use gpund::shimlink::Act;
use gpund::sys::Linux;

/// Processes whose command line names that text.
fn named(text: &str) -> Vec<i32> {
    let pids = fs::read_dir("/proc").unwrap().filter_map(|e| e.unwrap().file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|p| {
        let line = fs::read(format!("/proc/{p}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(text)
    })
    .collect()
}

fn kill(pid: u32) {
    let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid as i32), nix::sys::signal::SIGKILL);
}

/// A different moment for each round, over the 40 ms that a launch takes.
fn moment(round: u32) -> Duration {
    Duration::from_micros(u64::from(round.wrapping_mul(7919) % 40_000))
}

fn wait_for(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}

#[test]
fn the_supervisor_killed_at_any_moment_leaves_nothing() {
    let node = Node::new();
    let mut phases = std::collections::BTreeMap::new();
    for round in 0..40 {
        let mut spec = node.spec();
        let marker = format!("{}", 100_000 + spec.job_id);
        spec.args = vec![marker.as_str().into()];
        let mut job = node.launch(&spec, "#!/bin/sh\nexec sleep $1\n");
        if round % 4 == 3 {
            job.until_running();
        }
        wait_for(moment(round));
        kill(job.shim.id());
        job.shim.wait().unwrap();
        // Another thread's fork may hold a copy of the lock until its exec.
        until("its lock is free", || !recover::inspect(job.dir.path()).unwrap().shim_alive);
        let seen = recover::inspect(job.dir.path()).unwrap();
        *phases.entry(format!("{:?}", seen.phase).split('(').next().unwrap().to_owned()).or_insert(0) += 1;
        let exit = loop {
            match recover::clean_orphan(&Linux, job.dir.path()) {
                Err(CleanError::Alive(_)) => {}
                other => break other.unwrap(),
            }
        };
        assert_eq!(exit.kind, ExitKind::NodeFailed, "{exit:?}");
        until("cleaning again changes nothing", || match recover::clean_orphan(&Linux, job.dir.path()) {
            Err(CleanError::Alive(_)) => false,
            other => other.unwrap() == exit,
        });
        node.assert_clean(&spec);
        assert_eq!(named(&marker), Vec::<i32>::new());
        assert_eq!(
            named(&node.root.path().join("jobs").join(spec.container_id()).display().to_string()),
            Vec::<i32>::new()
        );
        assert!(matches!(recover::inspect(job.dir.path()).unwrap().phase, Phase::Ended(_)));
    }
    assert_eq!(phases.len(), 2, "both while it is made and while it runs: {phases:?}");
}

#[test]
fn the_runtime_killed_at_any_moment_is_a_failed_launch() {
    let node = Node::new();
    let mut hit = 0;
    for round in 0..40 {
        let mut spec = node.spec();
        let marker = format!("{}", 200_000 + spec.job_id);
        spec.args = vec![marker.as_str().into()];
        let mut job = node.launch(&spec, "#!/bin/sh\nexec sleep $1\n");
        let bundle = job.dir.bundle().display().to_string();
        let runtime = loop {
            let found = named(&bundle).into_iter().find(|&p| p != job.shim.id() as i32);
            if found.is_some() || matches!(recover::inspect(job.dir.path()).unwrap().phase, Phase::Running(_)) {
                break found;
            }
        };
        wait_for(moment(round) / 2);
        if let Some(pid) = runtime {
            kill(pid as u32);
        }
        // It hit before the container ran, or too late.
        let exit = loop {
            match job.client.next_event().unwrap() {
                Some(gpund::shimlink::Event::Phase(Phase::Ended(exit))) => break exit,
                Some(gpund::shimlink::Event::Phase(Phase::Running(_))) => {
                    job.client.send(Act::Kill).unwrap();
                }
                Some(_) => {}
                None => panic!("no end"),
            }
        };
        job.shim.wait().unwrap();
        if exit.kind == ExitKind::NodeFailed {
            hit += 1;
            assert!(exit.reason.as_deref().unwrap().contains("runtime was killed by signal 9"), "{exit:?}");
        }
        node.assert_clean(&spec);
        assert_eq!(named(&marker), Vec::<i32>::new());
    }
    assert!(hit > 5, "the runtime was hit {hit} times of 40");
}

#[test]
fn a_live_supervisor_is_left_alone_and_many_may_listen() {
    let node = Node::new();
    let spec = node.spec();
    let mut job = node.launch(&spec, "#!/bin/sh\necho ready; sleep 1000\n");
    let running = job.until_running();
    assert!(matches!(recover::clean_orphan(&Linux, job.dir.path()), Err(CleanError::Alive(_))));
    let error = job.dir.shim_command(std::path::Path::new(common::SHIM)).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "no second supervisor");
    let seen = recover::inspect(job.dir.path()).unwrap();
    assert!(seen.shim_alive);
    assert_eq!(seen.phase, Phase::Running(running.clone()));

    // gpund was restarted: a new connection is told where things stand.
    let mut second = gpund::shimlink::ShimClient::connect(job.dir.path()).unwrap();
    second.set_timeout(Duration::from_secs(20)).unwrap();
    assert_eq!(second.next_event().unwrap(), Some(gpund::shimlink::Event::Phase(Phase::Running(running))));
    until("it runs", || out(&spec).contains("ready"));
    let seq = second.send(Act::Usage).unwrap();
    let Some(gpund::shimlink::Event::Done { seq: answered, error: None, usage: Some(usage) }) =
        second.next_event().unwrap()
    else {
        panic!("no usage")
    };
    assert_eq!(answered, seq);
    assert!(usage.max_rss_kib > 0);
    second.send(Act::Signal { signal: 99, to: gpund::shimlink::Target::All }).unwrap();
    assert!(matches!(second.next_event().unwrap(), Some(gpund::shimlink::Event::Done { error: Some(_), .. })));
    second.send(Act::Kill).unwrap();
    assert_eq!(job.wait().signal, 9);
    node.assert_clean(&spec);
}

#[test]
fn killed_while_it_is_made() {
    let node = Node::new();
    for round in 0..10 {
        let spec = node.spec();
        let mut job = node.launch(&spec, "#!/bin/sh\nexec sleep 1000\n");
        wait_for(moment(round));
        job.client.send(Act::Kill).unwrap();
        let exit = job.wait();
        node.assert_clean(&spec);
        assert_eq!((exit.kind, exit.code, exit.signal), (ExitKind::Exited, 0, 9), "{exit:?}");
    }
}

#[test]
fn a_sweep_takes_what_has_no_folder_and_keeps_the_rest() {
    let node = Node::new();
    let (lost, kept) = (node.spec(), node.spec());
    let mut gone = node.launch(&lost, "#!/bin/sh\nsleep 1000\n");
    gone.until_running();
    let mut stays = node.launch(&kept, "#!/bin/sh\nsleep 1000\n");
    stays.until_running();
    kill(gone.shim.id());
    gone.shim.wait().unwrap();
    fs::remove_dir_all(gone.dir.path()).unwrap();
    let keep = [kept.container_id()].into();
    let taken = recover::sweep(&Linux, &node.places, &keep).unwrap();
    assert_eq!(taken, [format!("cgroup {}", lost.cgroup()), format!("container {}", lost.container_id())]);
    assert_eq!(recover::sweep(&Linux, &node.places, &keep).unwrap(), Vec::<String>::new());
    stays.client.send(Act::Kill).unwrap();
    assert_eq!(stays.wait().signal, 9);
}
