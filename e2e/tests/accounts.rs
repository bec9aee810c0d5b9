//! Accounts, users, associations and qualities of service from `sacctmgr` to the job: who may submit, which limits hold, what
//! stays over a crash.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test's way to fail, in its helpers too.

use gpun_e2e::{Cluster, Ran, User, wait_for};
use std::time::Duration;

const TOML: &str = "[cluster]\nname = \"accounts\"\nkill_wait_s = 2\n[accounting]\nenforce = [\"associations\", \"limits\", \
                    \"qos\"]\n[[partition]]\nname = \"debug\"\n";
/// A user that every Debian has.
const NOBODY: User = User::Guest(65534);

fn sacctmgr(cluster: &Cluster, user: User, words: &str) -> Ran {
    let args: Vec<&str> = ["-i", "-Q"].into_iter().chain(words.split(' ')).collect();
    cluster.run(user, "sacctmgr", &args)
}

fn cluster() -> Cluster {
    let cluster = Cluster::up(&["--nodes", "2", "--cpus", "4", "--mem", "4000"], TOML);
    for words in [
        "add account physics Description=physics Organization=sci",
        "add account chem Description=chem",
        "add qos low MaxJobsPerUser=1",
        "add qos tiny MaxWall=00:05:00 MaxSubmitJobsPerUser=1 Flags=DenyOnLimit",
        "add user nobody Account=physics",
        "modify user nobody set qos=normal,low,tiny",
    ] {
        let ran = sacctmgr(&cluster, User::Root, words);
        assert_eq!(ran.code, 0, "{words}: {ran:?}");
    }
    cluster
}

#[test]
fn who_may_submit_and_what_a_job_is_told() {
    let cluster = cluster();
    let job = cluster.sbatch(NOBODY, &["-o", "told.out", "--wrap", "echo $SLURM_JOB_ACCOUNT $SLURM_JOB_QOS"]);
    assert_eq!(cluster.wait_over(job), "COMPLETED");
    assert_eq!(cluster.read("told.out"), "physics normal\n");
    assert_eq!((cluster.shown(job, "Account"), cluster.shown(job, "QOS")), ("physics".into(), "normal".into()));

    let failed = "sbatch: error: Batch job submission failed:";
    let over = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)";
    let invalid = "Invalid account or account/partition combination specified";
    let rows: [(User, &[&str], String); 5] = [
        (NOBODY, &["-A", "chem"], format!("{failed} {invalid}\n")),
        (NOBODY, &["-A", "none"], format!("{failed} {invalid}\n")),
        (User::Guest(7001), &[], format!("{failed} {invalid}\n")),
        (NOBODY, &["-q", "high"], format!("{failed} Invalid qos specification\n")),
        (
            NOBODY,
            &["-q", "tiny", "-t", "10"],
            format!("sbatch: error: QOSMaxWallDurationPerJobLimit\n{failed} {over}\n"),
        ),
    ];
    for (user, args, message) in rows {
        let args: Vec<&str> = args.iter().copied().chain(["--wrap", "true"]).collect();
        let ran = cluster.run(user, "sbatch", &args);
        assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{args:?}: {ran:?}");
        assert!(ran.err.starts_with(&message), "{args:?}: {ran:?}");
    }

    let ran = sacctmgr(&cluster, NOBODY, "add account mine");
    assert_ne!(ran.code, 0, "an ordinary user may not add accounts: {ran:?}");
    cluster.wait_clean();
}

#[test]
fn limits_hold_back_and_let_go_also_after_a_crash() {
    let cluster = cluster();
    let sleeps = ["-q", "low", "-t", "5", "--wrap", "sleep 600"];
    let first = cluster.sbatch(NOBODY, &sleeps);
    cluster.wait_state(first, "RUNNING");
    let second = cluster.sbatch(NOBODY, &sleeps);
    let held = |job: u32| cluster.field(job, "%r").is_some_and(|reason| reason == "QOSMaxJobsPerUserLimit");
    wait_for("the limit is the reason", Duration::from_secs(30), || held(second).then_some(()));

    let dump = |cluster: &Cluster| cluster.run(User::Root, "sacctmgr", &["-P", "show", "assoc"]).out;
    let before = dump(&cluster);
    assert!(before.lines().any(|line| line.contains("|physics|nobody|")), "{before}");
    cluster.kill("ctl.pid");
    cluster.start();
    assert_eq!(dump(&cluster), before);
    wait_for("the limit still holds", Duration::from_secs(30), || held(second).then_some(()));

    let refused = sacctmgr(&cluster, User::Root, "delete user nobody");
    assert_ne!(refused.code, 0, "an association with jobs stays: {refused:?}");
    assert_eq!(cluster.run(NOBODY, "scancel", &[&first.to_string()]).code, 0);
    cluster.wait_state(second, "RUNNING");
    assert_eq!(cluster.run(NOBODY, "scancel", &[&second.to_string()]).code, 0);
    cluster.wait_over(second);
    cluster.wait_clean();
}
