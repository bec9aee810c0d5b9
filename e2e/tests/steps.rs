//! `srun` inside a job: tasks, streams, exit statuses, signals, shares of the job's CPUs, and what accounting keeps.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test's way to fail, in its helpers too.

use std::{
    io::{Read, Write},
    process::Stdio,
    time::Duration,
};

use gpun_e2e::{Cluster, User, wait_for};

const TOML: &str = "[cluster]\nname = \"steps\"\nkill_wait_s = 2\n[[partition]]\nname = \"debug\"\n";
const ALICE: User = User::Guest(7001);

fn cluster() -> Cluster {
    Cluster::up(&["--nodes", "1", "--cpus", "4", "--mem", "4000"], TOML)
}

/// Runs a script as a job with four tasks; gives what it printed on both streams.
fn ran(cluster: &Cluster, script: &str) -> String {
    let job = cluster.sbatch_script(ALICE, &["-n4", "-o", "job-%j.out"], format!("#!/bin/bash\n{script}").as_bytes());
    let state = cluster.wait_over(job);
    let out = cluster.read(&format!("job-{job}.out"));
    assert_eq!(state, "COMPLETED", "{script}\n{out}\n{}", cluster.logs());
    out.replace(&format!("StepId={job}."), "StepId=J.")
}

#[test]
fn streams_and_exit_statuses_are_slurms() {
    let cluster = cluster();
    let rows = [
        ("srun -n1 echo hi", "hi\n"),
        (
            "srun -n4 sh -c 'echo $SLURM_PROCID $SLURM_LOCALID $SLURM_NTASKS $SLURM_STEP_ID' | sort",
            "0 0 4 0\n1 1 4 0\n2 2 4 0\n3 3 4 0\n",
        ),
        (
            "srun -l -n2 sh -c 'echo hi; echo err >&2; printf end' 2>&1 | sort",
            "0: end\n0: err\n0: hi\n1: end\n1: err\n1: hi\n",
        ),
        ("echo abc | srun -n2 cat", "abc\nabc\n"),
        ("echo abc | srun -n2 -i 1 cat", "abc\n"),
        ("echo abc | srun -n2 -i none cat", ""),
        (
            "srun -n2 sh -c 'exit $((SLURM_PROCID+3))'; echo rc $?",
            "srun: error: n1: task 0: Exited with exit code 3\nsrun: error: n1: task 1: Exited with exit code 4\nrc 4\n",
        ),
        ("srun nonexist; echo rc $?", "srun: error: n1: tasks 0-3: Exited with exit code 2\nrc 2\n"),
        ("srun -n1 /etc/passwd 2>/dev/null; echo rc $?", "rc 13\n"),
        (
            "srun -n1 sh -c 'kill -9 $$'; echo rc $?",
            "srun: error: n1: task 0: Killed\nsrun: Force Terminated StepId=J.0\nrc 137\n",
        ),
        (
            "srun -n5 true; echo rc $?",
            "srun: error: Unable to create step for job J: More processors requested than permitted\nrc 1\n",
        ),
        ("srun; echo rc $?", "srun: fatal: No command given to execute.\nrc 1\n"),
        (
            "srun -n2 -K sh -c 'if [ $SLURM_PROCID = 0 ]; then exit 2; else sleep 30; fi'; echo rc $?",
            "srun: error: n1: task 0: Exited with exit code 2\nsrun: Terminating StepId=J.0\nsrun: error: n1: task 1: Terminated\nsrun: Force Terminated StepId=J.0\nrc 143\n",
        ),
        (
            "printf '0 echo zero %%t\\n* echo other %%t %%o\\n' > mp; srun -l -n3 --multi-prog mp | sort",
            "0: zero 0\n1: other 1 0\n2: other 2 1\n",
        ),
        ("srun -n2 -o out-%t echo x; cat out-0 out-1; srun -n2 -o both echo y; cat both", "x\nx\ny\ny\n"),
        ("cd /; srun -n1 pwd; srun -n1 -D /usr pwd", "/\n/usr\n"),
        ("A=1 srun -n1 --export=NONE sh -c 'echo ${A-none}'; A=1 srun -n1 sh -c 'echo $A'", "none\n1\n"),
        ("srun -n1 sh -c 'srun --overlap -n1 echo inner'", "inner\n"),
    ];
    for (script, right) in rows {
        let out = ran(&cluster, script);
        let lines = |text: &str| {
            text.lines()
                .filter(|line| !line.starts_with("slurmstepd-"))
                .map(|line| format!("{line}\n"))
                .collect::<String>()
        };
        let out = lines(&out);
        let job = out.split("for job ").nth(1).and_then(|rest| rest.split(':').next()).unwrap_or("-").to_owned();
        assert_eq!(out.replace(&format!("for job {job}"), "for job J"), right, "{script}");
    }
    cluster.wait_clean();
}

#[test]
fn bytes_pass_whole_and_a_slow_reader_holds_the_task() {
    let cluster = cluster();
    let out = ran(
        &cluster,
        "head -c 20000000 /dev/urandom > data\nsrun -n1 cat < data | cmp - data && echo same\n\
         srun -n1 cat data | (sleep 1; cmp - data) && echo slow\nsrun -n1 yes | head -c 4 >/dev/null; echo ${PIPESTATUS[0]}\n\
         srun -n1 sh -c 'sleep 300 & echo left'; echo over\n",
    );
    assert_eq!(out, "same\nslow\n141\nleft\nover\n");
    cluster.wait_clean();
}

#[test]
fn steps_share_out_the_jobs_cpus_and_are_remembered() {
    let cluster = cluster();
    let script = "srun -n1 -J first sh -c 'touch begun; until [ -e go ]; do sleep 0.02; done' &\n\
        until [ -e begun ]; do sleep 0.02; done\n\
        srun -n1 --immediate=0 true 2>&1 | sed 's/job [0-9]*/job J/'\nsrun -n1 --overlap echo beside\ntouch go; wait\n\
        srun -n1 --exact sh -c 'touch two; until [ -e three ]; do sleep 0.02; done' &\n\
        until [ -e two ]; do sleep 0.02; done\nsrun -n1 --exact touch three; wait; srun -n2 false; echo end";
    let out = ran(&cluster, script);
    assert!(
        out.starts_with("srun: error: Unable to create step for job J: Requested nodes are busy\nbeside\n"),
        "{out}"
    );
    let sacct =
        cluster.run(User::Root, "sacct", &["-a", "-n", "-P", "-o", "jobid,jobname,state,exitcode,ntasks,ncpus"]);
    let records = &sacct.out;
    let job = records.split('|').next().unwrap();
    let steps = [
        ".0|first|COMPLETED|0:0|1|4",
        ".1|true|COMPLETED|0:0|1|4",
        ".2|sh|COMPLETED|0:0|1|1",
        ".3|touch|COMPLETED|0:0|1|1",
        ".4|false|FAILED|1:0|2|4",
    ];
    for step in steps {
        // The overlapping step has the name of its program.
        let step = format!("{job}{}", step.replace("|true|", "|echo|"));
        assert!(records.lines().any(|line| line == step), "{step} in {sacct:?}");
    }
    cluster.wait_clean();
}

#[test]
fn a_step_ends_with_its_srun_and_with_its_job() {
    let cluster = cluster();
    let script = "srun -n1 sh -c 'echo $$ > one; exec sleep 1000' & pid=$!\nuntil [ -s one ]; do sleep 0.02; done\n\
        kill -9 $pid; srun -n1 echo after\nsrun -n2 sleep 1000";
    let job = cluster.sbatch_script(ALICE, &["-n4", "-o", "end.out"], format!("#!/bin/bash\n{script}").as_bytes());
    wait_for("the CPUs of the killed srun are free", Duration::from_secs(60), || {
        cluster.read_if("end.out").is_some_and(|out| out.contains("after")).then_some(())
    });
    assert_eq!(cluster.run(ALICE, "scancel", &[&job.to_string()]).code, 0);
    assert_eq!(cluster.wait_over(job), "CANCELLED");
    cluster.wait_clean();
    let records = cluster.run(User::Root, "sacct", &["-a", "-n", "-P", "-o", "jobid,state"]).out;
    assert!(records.lines().any(|line| line == format!("{job}.0|CANCELLED")), "{records}");
}

#[test]
fn steps_go_on_while_the_daemons_are_killed() {
    let cluster = cluster();
    let script = "srun -n2 -l sh -c 'echo begun; until [ -e go ]; do sleep 0.05; done; echo ended' | sort; srun -Q -n1 echo later";
    let job = cluster.sbatch_script(
        ALICE,
        &["-n4", "-o", "kill.out"],
        format!("#!/bin/bash\ntouch ready; {script}").as_bytes(),
    );
    wait_for("the step runs", Duration::from_secs(60), || {
        let records = cluster.run(User::Root, "sacct", &["-a", "-n", "-P", "-o", "jobid,state"]).out;
        records.lines().any(|line| line == format!("{job}.0|RUNNING")).then_some(())
    });
    for file in ["run/gpund-n1.pid", "ctl.pid"] {
        cluster.kill(file);
    }
    cluster.start();
    std::fs::write(cluster.work().join("go"), "").unwrap();
    assert_eq!(cluster.wait_over(job), "COMPLETED");
    assert_eq!(cluster.read("kill.out"), "0: begun\n0: ended\n1: begun\n1: ended\nlater\n");
    cluster.wait_clean();
}

#[test]
fn a_terminal_is_one() {
    let cluster = cluster();
    let job = cluster.sbatch(ALICE, &["-n1", "--wrap", "sleep 600"]);
    cluster.wait_state(job, "RUNNING");
    let id = job.to_string();
    let mut srun = cluster.command(ALICE, "srun");
    srun.args(["--jobid", &id, "--overlap", "--pty", "bash", "--norc"]).env("PS1", "$ ");
    let mut child = srun.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
    let (mut keys, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut shown = String::new();
    let mut until = |shown: &mut String, text: &str| {
        while !shown.contains(text) {
            let mut buffer = [0; 4096];
            let read = screen.read(&mut buffer).unwrap();
            assert!(read > 0, "the terminal closed before `{text}`: {shown}");
            shown.push_str(&String::from_utf8_lossy(&buffer[..read]));
        }
    };
    keys.write_all(b"tty; stty size; test -t 0 && echo is-$((1+1))terminal\n").unwrap();
    until(&mut shown, "is-2terminal");
    // One process, which has the terminal when it speaks: the shell itself would let Ctrl-C pass between two commands.
    keys.write_all(b"sh -c 'echo sleeps-$((1+1)); exec sleep 100'\n").unwrap();
    until(&mut shown, "sleeps-2");
    keys.write_all(b"\x03").unwrap();
    until(&mut shown, "^C");
    keys.write_all(b"echo interrupted-$?\n").unwrap();
    until(&mut shown, "interrupted-130");
    keys.write_all(b"exit 7\n").unwrap();
    drop(keys);
    assert_eq!(child.wait().unwrap().code(), Some(7), "{shown}");
    for text in ["/dev/pts/", "24 80"] {
        assert!(shown.contains(text), "{text} in {shown}");
    }
    assert_eq!(cluster.run(ALICE, "scancel", &[&id]).code, 0);
    cluster.wait_over(job);
    cluster.wait_clean();
}

#[test]
fn nobody_else_gets_in() {
    let cluster = cluster();
    let job = cluster.sbatch(ALICE, &["-n1", "--wrap", "sleep 600"]).to_string();
    cluster.wait_state(job.parse().unwrap(), "RUNNING");
    let other = cluster.run(User::Guest(7002), "srun", &["--jobid", &job, "--overlap", "id"]);
    let text = format!("srun: error: Unable to create step for job {job}: Access/permission denied\n");
    assert_eq!((other.code, other.err.as_str()), (1, text.as_str()));
    let gone = cluster.run(ALICE, "srun", &["--jobid", "4000", "id"]);
    let text = "srun: error: Unable to confirm allocation for job 4000: Invalid job id specified\n\
                srun: Check SLURM_JOB_ID environment variable. Expired or invalid job 4000\n";
    assert_eq!((gone.code, gone.err.as_str()), (1, text));
    assert_eq!(cluster.run(ALICE, "scancel", &[&job]).code, 0);
    cluster.wait_clean();
}
