//! Real scripts in real containers: how they end, what they print, what holds them.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test's way to fail, in its helpers too.

use std::{fs, time::Duration};

use gpun_e2e::{Cluster, User, wait_for};

const TOML: &str = "[cluster]\nname = \"jobs\"\nkill_wait_s = 2\n[[partition]]\nname = \"debug\"\n";
const ALICE: User = User::Guest(7001);

fn cluster() -> Cluster {
    Cluster::up(&["--nodes", "2", "--cpus", "4", "--mem", "4000"], TOML)
}

#[test]
fn ends_are_told_as_they_were() {
    let cluster = cluster();
    // script, state, exit code as scontrol prints it
    let rows: [(&str, &str, &str); 7] = [
        ("#!/bin/sh\ntrue\n", "COMPLETED", "0:0"),
        ("#!/bin/sh\nexit 7\n", "FAILED", "7:0"),
        ("#!/bin/sh\nkill -9 $$\n", "FAILED", "0:9"),
        ("#!/bin/bash\nkill -TERM $$\n", "FAILED", "0:15"),
        ("#!/bin/sh\n(sleep 300 &) ; exit 3\n", "FAILED", "3:0"),
        ("#!/usr/bin/env python3\nimport sys; sys.exit(5)\n", "FAILED", "5:0"),
        ("#!/no/such/interpreter\n", "FAILED", "2:0"),
    ];
    let jobs: Vec<u32> = rows.iter().map(|(script, ..)| cluster.sbatch_script(ALICE, &[], script.as_bytes())).collect();
    for (job, (script, state, exit)) in jobs.iter().zip(rows) {
        assert_eq!(cluster.wait_over(*job), state, "{script}");
        assert_eq!(cluster.shown(*job, "ExitCode"), exit, "{script}");
    }
    cluster.wait_clean();
}

#[test]
fn output_is_the_users_and_byte_exact() {
    let cluster = cluster();
    let script = b"#!/bin/sh\nhead -c 50000000 /dev/urandom > big.bin\ncat big.bin\nid -u; id -g; umask; pwd\n";
    let job = cluster.sbatch_script(ALICE, &["-o", "big.out", "-D", &cluster.work().to_string_lossy()], script);
    assert_eq!(cluster.wait_over(job), "COMPLETED");
    let out = fs::read(cluster.work().join("big.out")).unwrap();
    let raw = fs::read(cluster.work().join("big.bin")).unwrap();
    assert_eq!(raw.len(), 50_000_000);
    assert!(out.starts_with(&raw), "the output differs from what was written");
    let tail = String::from_utf8_lossy(&out[raw.len()..]).into_owned();
    assert_eq!(tail, format!("7001\n7001\n0022\n{}\n", cluster.work().display()));
    let owner = std::os::unix::fs::MetadataExt::uid(&fs::metadata(cluster.work().join("big.out")).unwrap());
    assert_eq!(owner, 7001);
}

#[test]
fn a_suspended_job_stands_still() {
    let cluster = cluster();
    let job = cluster.sbatch(ALICE, &["--wrap", "while :; do echo x >> ticks.txt; sleep 0.01; done"]);
    let ticks = || fs::metadata(cluster.work().join("ticks.txt")).map_or(0, |file| file.len());
    wait_for("the job works", Duration::from_secs(20), || (ticks() > 10).then_some(()));
    cluster.run(User::Root, "scontrol", &["suspend", &job.to_string()]);
    assert_eq!(cluster.shown(job, "JobState"), "SUSPENDED");
    // Two looks at the same count: its processes stand.
    let mut before = ticks();
    wait_for("the job stands still", Duration::from_secs(20), || {
        std::thread::sleep(Duration::from_millis(300));
        let now = ticks();
        (std::mem::replace(&mut before, now) == now).then_some(())
    });
    cluster.run(User::Root, "scontrol", &["resume", &job.to_string()]);
    wait_for("the job goes on", Duration::from_secs(20), || (ticks() > before).then_some(()));
    cluster.run(User::Root, "scontrol", &["suspend", &job.to_string()]);
    cluster.run(ALICE, "scancel", &[&job.to_string()]);
    assert_eq!(cluster.wait_over(job), "CANCELLED");
    cluster.wait_clean();
}

#[test]
fn root_submits_for_others_and_environments_come_from_elsewhere() {
    let cluster = cluster();
    let job = cluster.sbatch(User::Root, &["--uid=7001", "-o", "id.txt", "--wrap", "id -u; id -g"]);
    assert_eq!(cluster.wait_over(job), "COMPLETED");
    assert_eq!(cluster.read("id.txt"), "7001\n7001\n");
    let refused = cluster.run(ALICE, "sbatch", &["--uid=0", "--wrap", "true"]);
    assert_eq!((refused.code, refused.err.as_str()), (255, "sbatch: error: --uid only permitted by root user\n"));
    fs::write(cluster.work().join("env"), b"FROM_FILE=a b\0").unwrap();
    let job = cluster.sbatch(ALICE, &["--export-file=env", "-o", "env.txt", "--wrap", "echo $FROM_FILE"]);
    assert_eq!(cluster.wait_over(job), "COMPLETED");
    assert_eq!(cluster.read("env.txt"), "a b\n");
    cluster.wait_clean();
}

#[test]
fn the_job_knows_itself() {
    let cluster = cluster();
    let wrap =
        "env | sort > env.txt; cat /proc/self/cgroup > cgroup.txt; (touch /usr/x) 2>&1 | grep -o Read-only > ro.txt";
    let job = cluster.sbatch(ALICE, &["-J", "who", "-n2", "-c2", "-t", "5", "--mem", "500", "--wrap", wrap]);
    assert_eq!(cluster.wait_over(job), "COMPLETED", "{}", cluster.read(&format!("slurm-{job}.out")));
    let env = cluster.read("env.txt");
    for line in [
        format!("SLURM_JOB_ID={job}"),
        format!("SLURM_JOBID={job}"),
        "SLURM_JOB_NAME=who".to_owned(),
        "SLURM_JOB_PARTITION=debug".to_owned(),
        "SLURM_NTASKS=2".to_owned(),
        "SLURM_CPUS_PER_TASK=2".to_owned(),
        "SLURM_JOB_CPUS_PER_NODE=4".to_owned(),
        "SLURM_TASKS_PER_NODE=2".to_owned(),
        "SLURM_MEM_PER_NODE=500".to_owned(),
        "SLURM_JOB_NUM_NODES=1".to_owned(),
        "SLURM_CLUSTER_NAME=jobs".to_owned(),
        "SLURM_JOB_UID=7001".to_owned(),
        "SLURM_PROCID=0".to_owned(),
        format!("SLURM_SUBMIT_DIR={}", cluster.work().display()),
    ] {
        assert!(env.lines().any(|have| have == line), "{line} is missing:\n{env}");
    }
    assert!(cluster.read("cgroup.txt").contains(&format!("job_{job}")), "{}", cluster.read("cgroup.txt"));
    assert_eq!(cluster.read("ro.txt").trim(), "Read-only");
}

#[test]
fn a_script_asks_the_cluster_and_submits_more() {
    let cluster = cluster();
    let script = "#!/bin/sh\n\
        scontrol show hostnames \"$SLURM_JOB_NODELIST\" > names.txt\n\
        squeue -h -j $SLURM_JOB_ID -o '%i %T %u' > self.txt\n\
        sbatch --parsable -o next.out --wrap 'echo next; id -u' > next.txt\n";
    let job = cluster.sbatch_script(ALICE, &["-N2"], script.as_bytes());
    assert_eq!(cluster.wait_over(job), "COMPLETED", "{}", cluster.read(&format!("slurm-{job}.out")));
    assert_eq!(cluster.read("names.txt"), "n1\nn2\n");
    assert!(cluster.read("self.txt").starts_with(&format!("{job} RUNNING ")), "{}", cluster.read("self.txt"));
    let next: u32 = cluster.read("next.txt").trim().parse().unwrap();
    assert_eq!(cluster.wait_over(next), "COMPLETED");
    assert_eq!(cluster.read("next.out"), "next\n7001\n");
}

#[test]
fn carriage_returns_are_refused_as_slurm_does() {
    let cluster = cluster();
    let ran = cluster.run_with(ALICE, "sbatch", &[], Some(b"#!/bin/sh\r\necho hi\r\n"));
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("sbatch: error: Batch script contains DOS line breaks (\\r\\n)"), "{}", ran.err);
    assert!(ran.err.contains("sbatch: error: instead of expected UNIX line breaks (\\n)."), "{}", ran.err);
}

#[test]
fn cancel_hold_release_and_arrays() {
    let cluster = cluster();
    let long = cluster.sbatch(ALICE, &["-t", "10", "--wrap", "sleep 600"]);
    cluster.wait_state(long, "RUNNING");
    let stranger = cluster.run(User::Guest(7002), "scancel", &[&long.to_string()]);
    assert!(stranger.err.contains("Access/permission denied"), "{stranger:?}");
    assert_eq!(cluster.run(ALICE, "scancel", &[&long.to_string()]).code, 0);
    cluster.wait_state(long, "CANCELLED");

    let held = cluster.sbatch(ALICE, &["-H", "-o", "held.out", "--wrap", "echo free"]);
    assert_eq!(cluster.field(held, "%T %r").unwrap(), "PENDING JobHeldUser");
    assert_eq!(cluster.run(ALICE, "scontrol", &["release", &held.to_string()]).code, 0);
    assert_eq!(cluster.wait_over(held), "COMPLETED");
    assert_eq!(cluster.read("held.out"), "free\n");

    let array = cluster.sbatch(ALICE, &["-a", "1-6%2", "-o", "a_%A_%a.out", "--wrap", "echo $SLURM_ARRAY_TASK_ID"]);
    wait_for("all tasks end", Duration::from_secs(60), || {
        let ran = cluster.run(User::Root, "squeue", &["-h", "-r", "-t", "all", "-j", &array.to_string(), "-o", "%T"]);
        (ran.out.lines().count() == 6 && ran.out.lines().all(|line| line == "COMPLETED")).then_some(())
    });
    for task in 1..=6 {
        assert_eq!(cluster.read(&format!("a_{array}_{task}.out")), format!("{task}\n"));
    }
    cluster.wait_clean();
}

#[test]
fn an_image_that_is_not_there_fails_with_the_reason_and_frees_its_cpus() {
    let cluster = cluster();
    let job = cluster.sbatch(ALICE, &["--container-image=/no/such/image.tar", "--wrap", "true"]);
    assert_eq!(cluster.wait_over(job), "FAILED");
    assert_eq!(cluster.shown(job, "Reason"), "JobLaunchFailure");
    let next = cluster.sbatch(ALICE, &["-n4", "--wrap", "true"]);
    assert_eq!(cluster.wait_over(next), "COMPLETED");
    cluster.wait_clean();
}

#[test]
fn a_batch_script_runs_once_whatever_the_nodes_and_tasks() {
    let cluster = cluster();
    let job = cluster.sbatch(ALICE, &["-N2", "--ntasks-per-node=2", "--wrap", "echo x >> once.txt"]);
    assert_eq!(cluster.wait_over(job), "COMPLETED");
    assert_eq!(cluster.read("once.txt"), "x\n");
}

#[test]
fn a_work_folder_inside_the_clusters_folder_can_be_written_to() {
    let cluster = cluster();
    let work = cluster.dir().join("work");
    fs::create_dir(&work).unwrap();
    let job = cluster.sbatch(User::Root, &["-D", &work.to_string_lossy(), "-o", "out.txt", "--wrap", "echo written"]);
    assert_eq!(cluster.wait_over(job), "COMPLETED");
    assert_eq!(fs::read_to_string(work.join("out.txt")).unwrap(), "written\n");
}

#[test]
fn reservations_are_made_used_and_ended() {
    let cluster = cluster();
    let root = |words: &[&str]| cluster.run(User::Root, "scontrol", words);
    let made =
        root(&["create", "reservation", "reservationname=r", "starttime=now", "duration=30", "nodes=n1", "users=root"]);
    assert_eq!((made.code, made.out.as_str()), (0, "Reservation created: r\n"), "{made:?}");
    assert!(root(&["show", "reservation", "r"]).out.contains("State=ACTIVE"));
    let shown = root(&["show", "node", "n1"]).out;
    assert!(shown.contains("State=IDLE+RESERVED ") && shown.contains("   ReservationName=r\n"), "{shown}");
    let listed = cluster.run(ALICE, "sinfo", &["-h", "-n", "n1", "-t", "resv", "-o", "%t %T"]);
    assert_eq!(listed.out, "resv reserved\n", "{listed:?}");
    let table = cluster.run(ALICE, "sinfo", &["-T"]);
    assert!(table.out.contains("\nr            ACTIVE "), "{table:?}");
    // A stranger's job goes elsewhere, may not name it, and may not end it.
    let job = cluster.sbatch(ALICE, &["--wrap", "true"]);
    assert_eq!(cluster.wait_over(job), "COMPLETED");
    assert_eq!(cluster.shown(job, "NodeList"), "n2");
    let named = cluster.run(ALICE, "sbatch", &["--reservation=r", "--wrap", "true"]);
    assert!(named.err.contains("Access denied to requested reservation"), "{named:?}");
    let ended = cluster.run(ALICE, "scontrol", &["delete", "reservation=r"]);
    assert!(ended.code == 1 && ended.err.contains("delete_reservation reservation=r: Invalid user id"), "{ended:?}");
    let own = cluster.sbatch(User::Root, &["--reservation=r", "-t", "1", "--wrap", "true"]);
    assert_eq!(cluster.wait_over(own), "COMPLETED");
    assert_eq!(cluster.shown(own, "NodeList"), "n1");
    assert_eq!(root(&["update", "reservation=r", "duration=60"]).out, "Reservation updated.\n");
    assert_eq!(root(&["delete", "reservation=r"]).code, 0);
    assert_eq!(root(&["show", "reservation"]).out, "No reservations in the system\n");
}
