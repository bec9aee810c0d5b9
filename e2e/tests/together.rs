//! Jobs that wait for others, for licences, or start together: by real commands and daemons.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test's way to fail, in its helpers too.

use std::time::Duration;

use gpun_e2e::{Cluster, User, wait_for};

const ALICE: User = User::Guest(7001);
const TOML: &str =
    "[cluster]\nname = \"together\"\nkill_wait_s = 2\nlicenses = \"matlab:2\"\n[[partition]]\nname = \"debug\"\n";

fn cluster() -> Cluster {
    Cluster::up(&["--nodes", "3", "--cpus", "4", "--mem", "4000"], TOML)
}

#[test]
fn dependencies_order_jobs() {
    let cluster = cluster();
    let log = |line: &str| format!("echo {line} >> log.txt");
    let gate = cluster.sbatch(ALICE, &["-H", "--wrap", &log("gate")]);
    let on = |kind: &str, job: u32, line: &str| {
        cluster
            .sbatch(ALICE, &["-d", &format!("{kind}:{job}"), "--wrap", &format!("{}; test {line} != bad", log(line))])
    };
    let bad = on("afterok", gate, "bad");
    let never = on("afterok", bad, "never");
    let anyway = on("afterany", bad, "anyway");
    let last = on("afternotok", bad, "last");
    assert_eq!(cluster.field(never, "%r %E").unwrap(), format!("Dependency afterok:{bad}(unfulfilled)"));
    let array = cluster.sbatch(ALICE, &["-a", "0-3", "-d", &format!("afterok:{anyway}"), "--wrap", "true"]);
    let behind = on("afterok", array, "behind");
    cluster.run(ALICE, "scontrol", &["release", &gate.to_string()]);
    for (job, state) in [(bad, "FAILED"), (anyway, "COMPLETED"), (last, "COMPLETED"), (behind, "COMPLETED")] {
        assert_eq!(cluster.wait_over(job), state, "{job}");
    }
    let log = cluster.read("log.txt");
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!((lines[..2].to_vec(), lines.len()), (vec!["gate", "bad"], 5), "{log}");
    assert_eq!(cluster.field(never, "%r %E").unwrap(), format!("DependencyNeverSatisfied afterok:{bad}(failed)"));
    cluster.run(ALICE, "scontrol", &["update", &format!("jobid={never}"), "dependency="]);
    assert_eq!(cluster.wait_over(never), "COMPLETED");
    cluster.wait_clean();
}

#[test]
fn licences_are_counted() {
    let cluster = cluster();
    let wait = "while [ ! -e go ]; do sleep 0.02; done";
    let first = cluster.sbatch(ALICE, &["-L", "matlab:2", "--wrap", wait]);
    cluster.wait_state(first, "RUNNING");
    let second = cluster.sbatch(ALICE, &["-L", "matlab", "--wrap", "true"]);
    let other = cluster.sbatch(ALICE, &["--wrap", "true"]);
    assert_eq!(cluster.wait_over(other), "COMPLETED", "it needs no licence");
    assert_eq!(cluster.field(second, "%r").unwrap(), "Licenses");
    let shown = cluster.run(ALICE, "scontrol", &["-o", "show", "licenses"]).out;
    assert_eq!(shown, "LicenseName=matlab Total=2 Used=2 Free=0 Reserved=0 Remote=no\n");
    std::fs::write(cluster.work().join("go"), "").unwrap();
    assert_eq!((cluster.wait_over(first), cluster.wait_over(second)), ("COMPLETED".into(), "COMPLETED".into()));
    let refused = cluster.run(ALICE, "sbatch", &["-L", "matlab:3", "--wrap", "true"]);
    assert!(refused.err.contains("Invalid license specification"), "{}", refused.err);
    cluster.wait_clean();
}

#[test]
fn components_start_and_end_together() {
    let cluster = cluster();
    let wrap = "env > env.txt; while [ ! -e go ]; do sleep 0.02; done";
    let leader = cluster.sbatch(ALICE, &["-J", "x", "-n1", ":", "-J", "y", "-N2", "-n2", "--wrap", wrap]);
    // The leader's number stands for all components, the first of which is shown first.
    let wait = |state: &str| {
        let longest = Duration::from_secs(60);
        wait_for(state, longest, || (cluster.shown(leader, "JobState") == state).then_some(()));
    };
    wait("RUNNING");
    let listed = cluster.run(ALICE, "squeue", &["-h", "-o", "%i %j %T %D"]).out;
    assert_eq!(listed, format!("{leader}+0 x RUNNING 1\n{leader}+1 y RUNNING 2\n"));
    std::fs::write(cluster.work().join("go"), "").unwrap();
    wait("COMPLETED");
    assert_eq!(cluster.shown(leader + 1, "JobState"), "COMPLETED");
    let env = cluster.read("env.txt");
    for line in ["SLURM_HET_SIZE=2".to_owned(), format!("SLURM_JOB_ID_HET_GROUP_1={}", leader + 1)] {
        assert!(env.lines().any(|have| have == line), "{line} is missing:\n{env}");
    }
    cluster.wait_clean();
}
