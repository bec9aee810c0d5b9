//! What holds a job back: its limits of processes, memory and time. A binary of its own, so that a job that forks without end
//! does not slow other tests.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test's way to fail, in its helpers too.

use std::{fs, sync::Mutex, time::Duration};

use gpun_e2e::{Cluster, User, wait_for};

const TOML: &str = "[cluster]\nname = \"limits\"\nkill_wait_s = 2\n[[partition]]\nname = \"debug\"\n";
const ALICE: User = User::Guest(7001);

/// One at a time: a fork bomb takes the machine.
static ALONE: Mutex<()> = Mutex::new(());

fn cluster() -> Cluster {
    Cluster::up(&["--nodes", "2", "--cpus", "4", "--mem", "4000"], TOML)
}

#[test]
fn processes_and_memory_are_limited() {
    let _alone = ALONE.lock();
    let cluster = cluster();
    let bomb = cluster.sbatch_script(
        ALICE,
        &["-t", "0:20", "-J", "bomb"],
        b"#!/bin/bash\nf() { f | f & }; f; sleep 3; exit 0\n",
    );
    let hungry = "python3 -c 'x = bytearray(300 << 20); print(len(x))'";
    let oom = cluster.sbatch(ALICE, &["--mem", "100", "--wrap", hungry]);
    assert_eq!(cluster.wait_over(oom), "OUT_OF_MEMORY");
    wait_for("the fork bomb ends", Duration::from_secs(100), || (cluster.state(bomb) != "RUNNING").then_some(()));
    cluster.wait_clean();
}

#[test]
fn time_is_enforced_with_term_then_kill() {
    let _alone = ALONE.lock();
    let cluster = cluster();
    let script = "#!/bin/bash\ntrap 'echo got TERM' TERM\necho ready\nwhile true; do sleep 0.2; done\n";
    let job = cluster.sbatch_script(ALICE, &["-t", "10", "-o", "limit.out"], script.as_bytes());
    // The trap is set before the limit strikes, however slow the machine.
    wait_for("the script traps TERM", Duration::from_secs(60), || {
        fs::read_to_string(cluster.work().join("limit.out")).is_ok_and(|out| out.contains("ready")).then_some(())
    });
    let update = ["update".to_owned(), format!("jobid={job}"), "timelimit=0:01".to_owned()];
    let ran = cluster.run(User::Root, "scontrol", &update.each_ref().map(String::as_str));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(cluster.wait_over(job), "TIMEOUT");
    let out = cluster.read("limit.out");
    assert!(out.contains("got TERM"), "{out}");
    assert!(out.contains(&format!("*** JOB {job} ON ")) && out.contains("DUE TO TIME LIMIT ***"), "{out}");
    cluster.wait_clean();
}

#[test]
fn a_limit_asked_for_ends_the_job() {
    let _alone = ALONE.lock();
    let cluster = cluster();
    let job = cluster.sbatch(ALICE, &["-t", "0:02", "--wrap", "sleep 600"]);
    assert_eq!(cluster.wait_over(job), "TIMEOUT");
    cluster.wait_clean();
}
