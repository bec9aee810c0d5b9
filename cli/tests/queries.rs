//! `squeue`, `sinfo`, `scancel`, `scontrol` and gpun's own commands as processes.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod common;

use common::{Fake, Ran, ran};
use gpun_proto::core::{
    JobId, TimeLimit,
    command::{Act, JobRef},
    job::{JobState, SignalScope},
    node::Liveness,
};

/// 17 is held, 18 an array of which task 1 runs (as 20), 19 runs.
fn busy() -> Fake {
    let fake = Fake::start();
    for line in [
        &["sbatch", "-H", "-J", "held", "--comment=https://ci/x?id=1", "--wrap", "true"][..],
        &["sbatch", "-a", "1-4%2", "-J", "arr", "--wrap", "true"],
        &["sbatch", "-J", "run", "-t", "5", "--wrap", "true"],
    ] {
        assert_eq!(fake.run(line).status, 0);
    }
    let mut held = fake.held.lock().unwrap();
    held.place(18, Some(1));
    held.place(19, None);
    drop(held);
    fake
}

fn out(fake: &Fake, line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let got = fake.run(&words);
    assert_eq!((got.status, got.err.as_str()), (0, ""), "{line}: {got:?}");
    got.out
}

#[test]
fn listings_of_jobs() {
    let fake = busy();
    let header = "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n";
    let held = "                17     debug     held    alice PD       0:00      1 (JobHeldUser)\n";
    let array = "        18_[2-4%2]     debug      arr    alice PD       0:00      1 (Priority)\n";
    let task = "              18_1     debug      arr    alice  R       0:00      1 n1\n";
    let run = "                19     debug      run    alice  R       0:00      1 n1\n";
    let rows = [
        ("squeue", format!("{header}{array}{held}{task}{run}")),
        ("squeue -h", format!("{array}{held}{task}{run}")),
        ("squeue --noheader -t R", format!("{task}{run}")),
        ("squeue -h -j 17", held.to_owned()),
        ("squeue -h -j 18_1", task.to_owned()),
        ("squeue -h -j 1,2", String::new()),
        ("squeue -h -n held", held.to_owned()),
        ("squeue -h -p long", String::new()),
        ("squeue -h -p debug -t PD", format!("{array}{held}")),
        ("squeue -h -w n1", format!("{task}{run}")),
        ("squeue -h -u alice -o %i", "18_[2-4%2]\n17\n18_1\n19\n".to_owned()),
        ("squeue -h -r -o %i", "18_2\n18_3\n18_4\n17\n18_1\n19\n".to_owned()),
        ("squeue -S -i -h -o %A", "19\n18\n20\n17\n".to_owned()),
        ("squeue -h --name=held --format=%k,%A", "https://ci/x?id=1,17\n".to_owned()),
        ("squeue -h -j 17 -O jobid:|,name:3|,state", "17|hel|PENDING             \n".to_owned()),
        ("squeue --only-job-state -h -j 17", "                17 PD\n".to_owned()),
        ("gpun squeue -h -j 17", held.to_owned()),
    ];
    for (line, right) in rows {
        let got = out(&fake, line);
        assert_eq!(got, right, "{line}");
    }
}

#[test]
fn what_queries_refuse() {
    let fake = busy();
    let no_job = "slurm_load_jobs error: Invalid job id specified\n";
    let usage = "Usage: squeue [-A account]";
    let rows = [
        ("squeue -j 999", ran(1, "", no_job)),
        ("squeue -j 18_9", ran(1, "", no_job)),
        ("squeue -j junk", ran(1, "", "squeue: error: Invalid job id: junk\n")),
        ("squeue -h -u nosuch", ran(0, "", "squeue: error: Invalid user: nosuch\n\n")),
        ("squeue -w nosuch", ran(1, "", "squeue: error: Invalid node name nosuch\n")),
        ("scontrol show job 999", ran(1, "", no_job)),
        ("scontrol show job abc", ran(1, "", "scontrol_print_job error: Invalid job id specified\n")),
        ("scontrol show node zz", ran(1, "Node zz not found\n", "")),
        ("scontrol show partition zz", ran(1, "Partition zz not found\n", "")),
        ("scontrol show foo", ran(1, "", "invalid entity:foo for keyword:show \n")),
        ("scontrol show", ran(1, "", "too few arguments for keyword:show\n")),
        ("scontrol foo", ran(1, "", "invalid keyword: foo\n")),
        (
            "gpun why 999",
            ran(1, "", "gpun why: no job 999 is known: it never was, or it ended more than a few minutes ago\n"),
        ),
        ("gpun nosuch", ran(2, "", "gpun: there is no command `nosuch`\nCommands are listed by `gpun --help`.\n")),
        (
            "gpun up --nods 2",
            ran(2, "", "gpun up: there is no option --nods\nOptions are listed by `gpun up --help`.\n"),
        ),
        (
            "gpun controller add",
            ran(1, "", "gpun controller: there is no action `add`: `list` is what this version has\n"),
        ),
        ("sacct -j abc", ran(1, "", "sacct: fatal: Bad job/step specified: abc\n")),
        ("sacct -o foo", ran(1, "", "sacct: error: Invalid field requested: \"foo\"\n")),
        ("sacct -c", ran(1, "", "Slurm job completion is disabled\n")),
    ];
    for (line, right) in rows {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(fake.run(&words), right, "{line}");
    }
    let stray = fake.run(&["squeue", "foo"]);
    assert!(stray.status == 1 && stray.err == "squeue: error: Unrecognized option: foo\n" && stray.out.contains(usage));
    let nobody = fake.dir.path().join("nobody");
    for (line, prefix) in [("squeue", "slurm_load_jobs error: "), ("sinfo", "slurm_load_partitions: ")] {
        let got = Ran::from(fake.command(&[line]).env("GPUN_DIR", &nobody).output().unwrap());
        let right = format!("{prefix}Unable to contact slurm controller (connect failure)\n");
        assert_eq!(got, ran(1, "", &right), "{line}");
    }
}

#[test]
fn nodes_and_partitions_are_listed() {
    let fake = busy();
    let rows = [
        (
            "sinfo",
            "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n\
             debug*       up    1:00:00      1    mix n1\n\
             debug*       up    1:00:00      1   idle n2\n\
             long         up   infinite      1    mix n1\n\
             long         up   infinite      1   idle n2\n\
             rootonly     up   infinite      1    mix n1\n\
             rootonly     up   infinite      1   idle n2\n",
        ),
        ("sinfo -h -p debug -o %P|%D|%t|%N", "debug*|1|mix|n1\ndebug*|1|idle|n2\n"),
        ("sinfo -h -N -p debug -o %N|%t|%c|%m", "n1|mix|8|16000\nn2|idle|8|16000\n"),
        ("sinfo -s -h -p debug", "debug*       up    1:00:00          1/1/0/2 n[1-2]\n"),
        ("sinfo -h -n n2 -p long -o %n", "n2\n"),
        ("scontrol ping", "Slurmctld(primary) at vm is UP\n"),
        ("scontrol show hostnames n[1-3,07]", "n1\nn2\nn3\nn07\n"),
        ("scontrol show hostlist n1,n2,n3", "n[1-3]\n"),
        ("scontrol errnumstr 2017", "Invalid job id specified\n"),
    ];
    for (line, right) in rows {
        assert_eq!(out(&fake, line), right, "{line}");
    }
    for (line, needles) in [
        ("scontrol show config", &["ClusterName             = ref", "MaxArraySize            = 1001"][..]),
        ("scontrol show JobId=17", &["JobId=17 JobName=held"]),
        ("scontrol show node=n1", &["NodeName=n1"]),
        ("scontrol show node n1", &["NodeName=n1", "CPUAlloc=2 CPUEfctv=8 CPUTot=8", "State=MIXED"]),
        (
            "scontrol -o show job 17",
            &["JobId=17 JobName=held", "JobState=PENDING Reason=JobHeldUser", "Comment=https://ci/x?id=1"],
        ),
        (
            "scontrol show partition debug",
            &["PartitionName=debug", "Default=YES", "MaxTime=01:00:00", "TotalCPUs=16 TotalNodes=2"],
        ),
        ("gpun controller list", &["leader", "127.0.0.1:7"]),
        ("gpun status", &["Cluster ref: controller 0.1.0 on vm", "2 running, 3 waiting, 1 held"]),
        ("gpun why 17", &["Job 17 (held) of alice waits.", "Job 1 has a higher priority and goes first."]),
        ("gpun --help", &["gpun up", "install-links", "sbatch"]),
        ("squeue --version", &["slurm 24.11"]),
    ] {
        let got = out(&fake, line);
        for needle in needles {
            assert!(got.contains(needle), "{line}: {needle} in\n{got}");
        }
    }
    let list = out(&fake, "gpun controller list --json");
    assert_eq!(
        list,
        "{\"controllers\":[{\"addr\":\"127.0.0.1:7\",\"applied\":10,\"id\":1,\"lag\":2,\"leader\":true,\"pid\":99,\"term\":3}]}\n"
    );
    let mut offline = fake.command(&["scontrol", "show", "hostname"]);
    let got = offline.env("SLURM_JOB_NODELIST", "n[1-2]").env("GPUN_DIR", "/nowhere").output().unwrap();
    assert_eq!(Ran::from(got), ran(0, "n1\nn2\n", ""));
}

fn state(fake: &Fake, job: u32) -> JobState {
    fake.job(job).state
}

#[test]
fn jobs_are_cancelled_and_signalled() {
    let error = |id: &str, text: &str| format!("scancel: error: Kill job error on job id {id}: {text}\n");
    let rows: [(&str, Ran, &[u32]); 21] = [
        ("scancel 17", ran(0, "", ""), &[17]),
        ("scancel 17 19", ran(0, "", ""), &[17, 19]),
        ("scancel 18", ran(0, "", ""), &[18, 20]),
        ("scancel 18_1", ran(0, "", ""), &[20]),
        ("scancel 999", ran(0, "", ""), &[]),
        (
            "scancel -v 999",
            ran(0, "", &format!("scancel: Terminating job 999\n{}", error("999", "Invalid job id specified"))),
            &[],
        ),
        ("scancel 99999999999", ran(0, "", ""), &[]),
        ("scancel -n held 99999999999", ran(0, "", ""), &[]),
        ("scancel junk", ran(1, "", "scancel: error: Invalid job id junk\n"), &[]),
        ("scancel", ran(1, "", "scancel: error: No job identification provided\n"), &[]),
        ("scancel -n held", ran(0, "", ""), &[17]),
        ("scancel -u alice -t PD", ran(0, "", ""), &[17, 18]),
        ("scancel -t R", ran(0, "", ""), &[19, 20]),
        ("scancel --me", ran(0, "", ""), &[17, 18, 19, 20]),
        ("scancel -p long", ran(0, "", ""), &[]),
        ("scancel -p debug -n run", ran(0, "", ""), &[19]),
        ("scancel -q normal -n run", ran(0, "", ""), &[19]),
        ("scancel -q high", ran(0, "", ""), &[]),
        ("scancel -w n1", ran(0, "", ""), &[19, 20]),
        ("scancel -u nosuch", ran(1, "", "scancel: error: Invalid user name: nosuch\n"), &[]),
        (
            "scancel -v -n none",
            ran(0, "", "scancel: error: No active jobs match ALL job filters, including: job_name=none \n"),
            &[],
        ),
    ];
    for (line, right, ended) in rows {
        let fake = busy();
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(fake.run(&words), right, "{line}");
        let gone: Vec<u32> = (17..21).filter(|id| state(&fake, *id) == JobState::Cancelled).collect();
        assert_eq!(gone, ended, "{line}");
    }
    let fake = busy();
    let signals = [
        ("scancel -s USR1 19", Act::Signal { jobs: job(19), signal: 10, scope: SignalScope::Steps }),
        ("scancel -b 19", Act::Signal { jobs: job(19), signal: 9, scope: SignalScope::Batch }),
        ("scancel -b --signal=TERM 19", Act::Signal { jobs: job(19), signal: 15, scope: SignalScope::Batch }),
        ("scancel -f -s SIGUSR2 19", Act::Signal { jobs: job(19), signal: 12, scope: SignalScope::All }),
        ("scancel -s KILL 19", Act::Cancel(job(19))),
    ];
    for (line, right) in signals {
        assert_eq!(out(&fake, line), "", "{line}");
        assert_eq!(fake.held.lock().unwrap().acts.last(), Some(&right), "{line}");
    }
    let pending = fake.run(&["scancel", "-s", "USR1", "17"]);
    assert_eq!(pending, ran(228, "", &error("17", "Job can not be altered now, try again later")));
    let asked = fake.run_with_input(&["scancel", "-i", "17"], b"n\n");
    assert_eq!(asked, ran(0, "Cancel job_id=17 name=held partition=debug [y/n]? ", ""));
    assert_eq!(state(&fake, 17), JobState::Pending);
    fake.run_with_input(&["scancel", "-i", "17"], b"y\n");
    assert_eq!(state(&fake, 17), JobState::Cancelled);
}

fn job(id: u32) -> JobRef {
    JobRef { job: JobId(id), tasks: None, component: None }
}

#[test]
fn scontrol_changes_jobs() {
    let fake = busy();
    let suspend =
        |first: &str, text: &str| ran(1, "", &format!("{text} for job {first}\nslurm_suspend error: {text}\n"));
    let rows = [
        ("scontrol release 17", ran(0, "", "")),
        ("scontrol hold 17", ran(0, "", "")),
        ("scontrol hold name=held", ran(0, "", "")),
        ("scontrol hold 999", suspend("999", "Invalid job id specified")),
        ("scontrol hold abc", suspend("abc", "Invalid job id specified")),
        ("scontrol hold", ran(1, "", "too few arguments for keyword:hold\n")),
        ("scontrol requeue 17", ran(1, "", "Job is pending execution for job 17\n")),
        ("scontrol update jobid=17 timelimit=7 name=two", ran(0, "", "")),
        ("scontrol update jobid=17 timelimit=-2", ran(0, "", "")),
        ("scontrol update jobid=17 partition=nope", ran(1, "", "Invalid partition name specified for job 17\n")),
        ("scontrol update jobid=999 timelimit=5", ran(1, "", "Invalid job id specified for job 999\n")),
        (
            "scontrol update jobid=17 foo=bar",
            ran(1, "", "Update of this parameter is not supported: foo=bar\nRequest aborted\n"),
        ),
        ("scontrol update", ran(1, "", "too few arguments for update keyword\n")),
        ("scontrol update nodename=n1 state=drain reason=x", ran(1, "", "slurm_update error: Invalid user id\n")),
        ("scontrol update partition=debug state=down", ran(1, "", "slurm_update error: Invalid user id\n")),
        ("scontrol write batch_script 999", ran(1, "", "job script retrieval failed: Invalid job id specified\n")),
        ("scontrol requeuehold 19", ran(0, "", "")),
    ];
    for (line, right) in rows {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(fake.run(&words), right, "{line}");
    }
    let changed = fake.job(17);
    assert_eq!(changed.time_limit, TimeLimit::Seconds(5 * 60));
    assert_eq!(changed.spec.name, "two");
    assert_eq!(out(&fake, "scontrol write batch_script 17"), "batch script for job 17 written to slurm-17.sh\n");
    assert!(fake.work().join("slurm-17.sh").exists());
    let talk = fake.run_with_input(&["scontrol"], b"show hostnames n[1-2]\nfoo\nquit\nping\n");
    assert_eq!(
        talk,
        ran(1, "scontrol: show hostnames n[1-2]\nn1\nn2\nscontrol: foo\nscontrol: quit\n", "invalid keyword: foo\n")
    );
    assert!(fake.held.lock().unwrap().state.nodes().all(|node| node.liveness == Liveness::Up));
}
