//! Daemons are killed at every moment; jobs go on or are told lost, and nothing is left behind.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test's way to fail, in its helpers too.

use std::{fs, time::Duration};

use gpun_e2e::{Cluster, User, rounds, wait_for};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

const TOML: &str = "[cluster]\nname = \"faults\"\nkill_wait_s = 2\n";
const ALICE: User = User::Guest(7001);

fn cluster() -> Cluster {
    Cluster::up(&["--nodes", "2", "--cpus", "4", "--mem", "4000"], TOML)
}

/// Waits for a file in the work folder, made by a job.
fn wait_file(cluster: &Cluster, name: &str) {
    wait_for(&format!("{name} appears"), Duration::from_secs(30), || cluster.work().join(name).exists().then_some(()));
}

/// A job that says that it runs, waits for a file and ends with 5.
fn patient(cluster: &Cluster, name: &str) -> u32 {
    let wrap = format!("touch {name}.runs; while [ ! -e {name}.go ]; do sleep 0.05; done; exit 5");
    let job = cluster.sbatch(ALICE, &["-n4", "--wrap", &wrap]);
    wait_file(cluster, &format!("{name}.runs"));
    job
}

#[test]
fn a_node_that_was_set_down_takes_jobs_again_once_resumed() {
    let cluster = Cluster::up(&["--nodes", "1", "--cpus", "2", "--mem", "1000"], TOML);
    let update = |words: &[&str]| {
        let ran = cluster.run(User::Root, "scontrol", &[&["update", "nodename=n1"], words].concat());
        assert_eq!(ran.code, 0, "{ran:?}");
    };
    update(&["state=down", "reason=smoke"]);
    let job = cluster.sbatch(ALICE, &["--wrap", "true"]);
    assert_eq!(cluster.state(job), "PENDING");
    update(&["state=resume"]);
    // Its stream was there all the time: nobody has to start it again.
    assert_eq!(cluster.wait_over(job), "COMPLETED");
}

#[test]
fn a_killed_node_daemon_disturbs_no_job() {
    let cluster = cluster();
    let job = patient(&cluster, "a");
    let node = cluster.field(job, "%N").unwrap();
    cluster.kill(&format!("nodes/{node}/gpund.pid"));
    fs::write(cluster.work().join("a.go"), "").unwrap();
    // It ends while nobody looks; the next daemon reports it.
    cluster.start();
    assert_eq!(cluster.wait_over(job), "FAILED");
    assert_eq!(cluster.shown(job, "ExitCode"), "5:0");
    assert_eq!(cluster.shown(job, "Restarts"), "0");

    let job = patient(&cluster, "b");
    let node = cluster.field(job, "%N").unwrap();
    cluster.kill(&format!("nodes/{node}/gpund.pid"));
    cluster.start();
    assert_eq!(cluster.state(job), "RUNNING");
    fs::write(cluster.work().join("b.go"), "").unwrap();
    assert_eq!(cluster.wait_over(job), "FAILED");
    assert_eq!(cluster.shown(job, "ExitCode"), "5:0");
    cluster.wait_clean();
}

#[test]
fn an_end_that_no_controller_hears_is_told_later() {
    let cluster = cluster();
    let job = patient(&cluster, "c");
    cluster.kill("ctl.pid");
    fs::write(cluster.work().join("c.go"), "").unwrap();
    wait_for("the container is gone", Duration::from_secs(30), || cluster.leftovers().cgroups.is_empty().then_some(()));
    cluster.start();
    assert_eq!(cluster.wait_over(job), "FAILED");
    assert_eq!(cluster.shown(job, "ExitCode"), "5:0");
    cluster.wait_clean();
}

/// Processes whose command line holds both texts.
fn processes(a: &str, b: &str) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
        let line = String::from_utf8_lossy(&fs::read(entry.path().join("cmdline")).unwrap_or_default()).into_owned();
        if line.contains(a) && line.contains(b) {
            found.push(pid);
        }
    }
    found
}

#[test]
fn a_killed_supervisor_sends_the_job_back_into_the_queue() {
    let cluster = cluster();
    let job = patient(&cluster, "d");
    let dir = cluster.dir().to_string_lossy().into_owned();
    let shims = processes("gpund-shim", &dir);
    assert_eq!(shims.len(), 1, "{shims:?}");
    kill(Pid::from_raw(shims[0]), Signal::SIGKILL).unwrap();
    // Requeued, run again from the start, and to its own end. (Were it told to go before that, its own end would count.)
    let again = || (cluster.shown(job, "Restarts") == "1").then_some(());
    wait_for("the job is back in the queue", Duration::from_secs(30), again);
    fs::write(cluster.work().join("d.go"), "").unwrap();
    assert_eq!(cluster.wait_over(job), "FAILED");
    assert_eq!(cluster.shown(job, "ExitCode"), "5:0");
    assert_eq!(cluster.shown(job, "Restarts"), "1");
    cluster.wait_clean();
}

#[test]
fn soak_runc_killed_in_the_middle_of_a_start_loses_no_job() {
    let cluster = cluster();
    let dir = cluster.dir().to_string_lossy().into_owned();
    for round in 0..rounds(8, 60) {
        let name = format!("r{round}");
        let job = cluster.sbatch(ALICE, &["-o", "/dev/null", "--wrap", &format!("echo {name} >> runs.txt")]);
        // Whatever is found first of the runtime's processes is shot, at another moment each time.
        let start = std::time::Instant::now();
        std::thread::sleep(Duration::from_millis(rand::random_range(0..40)));
        while start.elapsed() < Duration::from_millis(400) {
            let found = processes("runc", &dir);
            found.iter().for_each(|pid| {
                let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
            });
            if !found.is_empty() {
                break;
            }
        }
        let state = cluster.wait_over(job);
        assert!(matches!(state.as_str(), "COMPLETED" | "NODE_FAIL" | "FAILED"), "round {round}: {state}");
        if state != "COMPLETED" {
            assert_ne!(cluster.shown(job, "Reason"), "None", "round {round}: no reason is given");
        }
    }
    cluster.wait_clean();
}

#[test]
fn a_lost_node_gives_its_jobs_to_another() {
    let toml = "[cluster]\nname = \"lost\"\nkill_wait_s = 2\nnode_down_s = 10\n";
    let cluster = Cluster::up(&["--nodes", "2", "--cpus", "4", "--mem", "4000"], toml);
    let job = patient(&cluster, "e");
    let node = cluster.field(job, "%N").unwrap();
    let daemon = cluster.pid(&format!("nodes/{node}/gpund.pid"));
    kill(Pid::from_raw(daemon), Signal::SIGSTOP).unwrap();
    wait_for("the job is elsewhere", Duration::from_secs(40), || {
        let now = cluster.field(job, "%T %N").unwrap_or_default();
        (now.starts_with("RUNNING ") && !now.ends_with(&node)).then_some(())
    });
    // The old run is not wanted any more: when its node comes back, it ends without a word.
    kill(Pid::from_raw(daemon), Signal::SIGCONT).unwrap();
    wait_for("one run is left", Duration::from_secs(30), || {
        (cluster.leftovers().cgroups.len() <= per_job()).then_some(())
    });
    fs::write(cluster.work().join("e.go"), "").unwrap();
    assert_eq!(cluster.wait_over(job), "FAILED");
    assert_eq!(cluster.shown(job, "ExitCode"), "5:0");
    cluster.wait_clean();
}

/// Cgroup folders that one running job has: one for each hierarchy.
fn per_job() -> usize {
    let v1 = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    v1.lines().filter(|line| line.contains(" - cgroup ") || line.contains(" - cgroup2 ")).count()
}
