//! `gpun up` and `gpun down`: what is stopped loses nothing, what runs is left alone.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test's way to fail, in its helpers too.

use std::time::Duration;

use gpun_e2e::{Cluster, Leftovers, User, wait_for};

const TOML: &str = "[cluster]\nname = \"updown\"\nkill_wait_s = 2\n[[partition]]\nname = \"debug\"\n";
const ALICE: User = User::Guest(7001);

fn cluster() -> Cluster {
    Cluster::up(&["--nodes", "2", "--cpus", "1", "--mem", "1000"], TOML)
}

fn gpun(cluster: &Cluster, args: &[&str]) -> String {
    let ran = cluster.run(User::Root, "gpun", args);
    assert_eq!(ran.code, 0, "gpun {args:?}: {ran:?}\n{}", cluster.logs());
    ran.out
}

#[test]
fn a_stopped_cluster_keeps_its_jobs_and_starts_them_again() {
    let cluster = cluster();
    let runs = cluster.sbatch(ALICE, &["--wrap", "sleep 1000"]);
    let once = cluster.sbatch(ALICE, &["--no-requeue", "--wrap", "sleep 1000"]);
    let held = cluster.sbatch(ALICE, &["--hold", "--wrap", "true"]);
    cluster.wait_state(runs, "RUNNING");
    cluster.wait_state(once, "RUNNING");
    let down = gpun(&cluster, &["down"]);
    assert!(down.contains("is down; 1 running job put back into the queue"), "{down}");
    let leftovers = || (cluster.leftovers() == Leftovers::default()).then_some(());
    wait_for("nothing is left of the jobs", Duration::from_secs(20), leftovers);
    assert_eq!(gpun(&cluster, &["down"]), format!("nothing was running in {}\n", cluster.dir().display()));
    // Up at once: nothing of the stopped daemons may be in the way.
    cluster.start();
    cluster.wait_state(runs, "RUNNING");
    assert_eq!(cluster.shown(runs, "Restarts"), "1");
    assert_eq!(cluster.state(once), "CANCELLED");
    assert_eq!(cluster.state(held), "PENDING");
    // Nodes that were drained for the stop take jobs again.
    let more = cluster.sbatch(ALICE, &["--wrap", "true"]);
    assert_eq!(cluster.wait_over(more), "COMPLETED");
}

#[test]
fn kept_jobs_run_on_and_a_second_up_changes_nothing() {
    let cluster = cluster();
    let job = cluster.sbatch(ALICE, &["--wrap", "touch started; while [ ! -e end ]; do sleep 0.05; done; exit 3"]);
    cluster.wait_state(job, "RUNNING");
    let controller = cluster.pid("ctl.pid");
    cluster.start();
    assert_eq!(cluster.pid("ctl.pid"), controller, "a running cluster is left alone");
    let page = std::fs::read_to_string(cluster.dir().join("share/man/man1/sbatch.1")).unwrap();
    assert!(page.contains(".SH OPTIONS"), "man(1) finds the pages beside the bin on the PATH");
    gpun(&cluster, &["down", "--keep-jobs"]);
    // It ends while no daemon of ours is there to see it.
    std::fs::write(cluster.work().join("end"), "").unwrap();
    cluster.start();
    assert_eq!(cluster.wait_over(job), "FAILED");
    assert_eq!(cluster.shown(job, "ExitCode"), "3:0");
    assert_eq!(cluster.shown(job, "Restarts"), "0");
    cluster.wait_clean();
}
