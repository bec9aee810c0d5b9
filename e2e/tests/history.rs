//! What `sacct` tells of jobs that left the queue, over a crash of the controller.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test's way to fail, in its helpers too.

use std::time::Duration;

use gpun_e2e::{Cluster, User, wait_for};

const TOML: &str = "[cluster]\nname = \"past\"\nkill_wait_s = 2\nmin_job_age_s = 1\n[accounting]\nkeep_days = 30\n\
                    [[partition]]\nname = \"debug\"\n";
const ALICE: User = User::Guest(7001);
const BOB: User = User::Guest(7002);

fn sacct(cluster: &Cluster, user: User, args: &[&str]) -> String {
    let ran = cluster.run(user, "sacct", args);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "sacct {args:?}: {ran:?}");
    ran.out
}

#[test]
fn jobs_are_remembered_after_they_left_the_queue() {
    let cluster = Cluster::up(&["--nodes", "1", "--cpus", "4", "--mem", "4000"], TOML);
    let good = cluster.sbatch(ALICE, &["-J", "good", "-o", "/dev/null", "--wrap", "echo from good"]);
    let bad = cluster.sbatch(ALICE, &["-J", "bad", "-o", "/dev/null", "--wrap", "exit 3"]);
    let array = cluster.sbatch(ALICE, &["-J", "many", "-a", "1-2", "-o", "/dev/null", "--wrap", "true"]);
    let waiting = cluster.sbatch(ALICE, &["-J", "held", "-H", "--wrap", "true"]);
    wait_for("all but one left the queue", Duration::from_secs(60), || {
        let queue = cluster.run(User::Root, "squeue", &["-h", "-t", "all", "-o", "%A"]);
        (queue.out.trim() == waiting.to_string()).then_some(())
    });
    let want = format!(
        "{good}|good|COMPLETED|0:0\n{good}.batch|batch|COMPLETED|0:0\n{bad}|bad|FAILED|3:0\n{bad}.batch|batch|FAILED|3:0\n\
         {array}_1|many|COMPLETED|0:0\n{array}_1.batch|batch|COMPLETED|0:0\n\
         {array}_2|many|COMPLETED|0:0\n{array}_2.batch|batch|COMPLETED|0:0\n"
    );
    let fields = ["-n", "-P", "-o", "jobid,jobname,state,exitcode"];
    let by_job = format!("{good},{bad},{array}");
    let looks: [(User, &[&str]); 3] =
        [(BOB, &["-j", &by_job]), (ALICE, &["-S", "now-1hour"]), (User::Root, &["-u", "7001", "-S", "now-1hour"])];
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let check = || {
        for (user, look) in looks {
            let got = sacct(&cluster, user, &[&fields[..], look].concat());
            // Which comes first within a second is not said.
            assert_eq!(sorted(&got), sorted(&want), "{look:?}");
        }
        let held = sacct(&cluster, BOB, &["-n", "-P", "-j", &waiting.to_string(), "-o", "jobname,state,start"]);
        assert_eq!(held, "held|PENDING|Unknown\n");
        let failed =
            sacct(&cluster, ALICE, &["-n", "-X", "-P", "-s", "F", "-S", "now-1hour", "-E", "now", "-o", "jobname"]);
        assert_eq!(failed, "bad\n");
        assert_eq!(sacct(&cluster, BOB, &["-n", "-S", "now-1hour"]), "", "others' jobs are asked for by name");
    };
    check();
    let script = sacct(&cluster, ALICE, &["-B", "-j", &good.to_string()]);
    assert!(script.starts_with(&format!("Batch Script for {good}\n")) && script.contains("echo from good"), "{script}");
    let others = cluster.run(BOB, "sacct", &["-B", "-j", &good.to_string()]);
    assert!(others.code != 0 && !others.out.contains("echo from good"), "{others:?}");
    cluster.kill("ctl.pid");
    cluster.start();
    check();
}
