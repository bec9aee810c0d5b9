//! `sbatch` as a process, against the real state machine behind the real wire.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

mod common;

use std::{io::Read, os::unix::net::UnixListener, thread, time::Duration};

use common::{Fake, ran};
use gpun_proto::core::{
    MemoryMib, TimeLimit,
    job::Hold,
    spec::{MemoryRequest, WarnSignal},
};

#[test]
fn what_is_printed_and_the_exit_status() {
    let fake = Fake::start();
    fake.write("job.sh", "#!/bin/sh\n#SBATCH -J fromscript -n2\nhostname\n");
    fake.write("empty.sh", "");
    fake.write("plain.sh", "hostname\n");
    fake.write("dos.sh", "#!/bin/sh\r\nhostname\r\n");
    fake.write("bad.sh", "#!/bin/sh\n#SBATCH -D /home/u/work with space\n");
    let refused = "sbatch: error: Batch job submission failed: ";
    let rows: [(&[&str], i32, &str, String); 18] = [
        (&["sbatch", "--wrap", "true"], 0, "Submitted batch job 17\n", String::new()),
        (&["sbatch", "job.sh", "a", "b"], 0, "Submitted batch job 18\n", String::new()),
        (&["sbatch", "--parsable", "--wrap", "true"], 0, "19\n", String::new()),
        (&["sbatch", "--parsable", "-M", "ref", "--wrap", "true"], 0, "20;ref\n", String::new()),
        (&["sbatch", "-Q", "--wrap", "true"], 0, "", String::new()),
        (&["gpun", "sbatch", "-a", "1-3", "--wrap", "true"], 0, "Submitted batch job 22\n", String::new()),
        (
            &["sbatch", "-p", "nope", "--wrap", "true"],
            1,
            "",
            format!("sbatch: error: invalid partition specified: nope\n{refused}Invalid partition name specified\n"),
        ),
        (&["sbatch", "-N", "5", "--wrap", "true"], 1, "", format!("{refused}Requested node configuration is not available\n")),
        (
            &["sbatch", "--mem=1T", "--wrap", "true"],
            1,
            "",
            format!("sbatch: error: Memory specification can not be satisfied\n{refused}Requested node configuration is not available\n"),
        ),
        (&["sbatch", "-a", "0-2000", "--wrap", "true"], 1, "", format!("{refused}Invalid job array specification\n")),
        (&["sbatch", "-w", "n9", "--wrap", "true"], 1, "", format!("{refused}Invalid node name specified\n")),
        (&["sbatch", "--wrap", "a", "b"], 1, "", "sbatch: error: Script arguments not permitted with --wrap option\n".to_owned()),
        (&["sbatch", "nosuch.sh"], 1, "", "sbatch: error: Unable to open file nosuch.sh\n".to_owned()),
        (&["sbatch", "/tmp"], 1, "", "sbatch: error: Batch script is empty!\n".to_owned()),
        (&["sbatch", "empty.sh"], 1, "", "sbatch: error: Batch script is empty!\n".to_owned()),
        (
            &["sbatch", "dos.sh"],
            1,
            "",
            "sbatch: error: Batch script contains DOS line breaks (\\r\\n)\nsbatch: error: instead of expected UNIX line breaks (\\n).\n".to_owned(),
        ),
        (&["sbatch", "bad.sh"], 255, "", "sbatch: error: Invalid directive found in batch script: with\n".to_owned()),
        (&["sbatch", "-t", "banana", "--wrap", "x"], 255, "", "sbatch: error: Invalid --time specification\n".to_owned()),
    ];
    for (line, status, out, err) in rows {
        assert_eq!(fake.run(line), ran(status, out, &err), "{line:?}");
    }
}

#[test]
fn the_controller_gets_what_was_asked_for() {
    let fake = Fake::start();
    let script = fake.write("job.sh", "#!/bin/sh\n#SBATCH -J fromscript -t 5 --comment=\"a b\"\nhostname\n");
    let ran = fake.run(&[
        "sbatch",
        "-H",
        "-t",
        "2-12",
        "-n2",
        "-c2",
        "--mem=2G",
        "-o",
        "o-%j",
        "--signal=B:USR1@30",
        "job.sh",
        "x y",
    ]);
    assert_eq!(ran.status, 0, "{ran:?}");
    let job = fake.job(17);
    let spec = &job.spec;
    assert_eq!(spec.name, "fromscript");
    assert_eq!(spec.comment.as_deref(), Some("a b"));
    assert_eq!(spec.time_limit, Some(TimeLimit::Seconds(216_000)));
    assert_eq!((spec.ntasks, spec.cpus_per_task), (Some(2), Some(2)));
    assert_eq!(spec.memory, MemoryRequest::PerNode(MemoryMib(2048)));
    assert_eq!(spec.warn, Some(WarnSignal { signal: 10, before_s: 30, batch_only: true }));
    assert_eq!(job.hold, Hold::User);
    assert_eq!(spec.std_out.as_deref(), Some("o-%j"));
    let work = std::fs::canonicalize(fake.work()).unwrap();
    assert_eq!(spec.work_dir, work.to_str().unwrap());
    assert_eq!(spec.command.as_deref(), script.canonicalize().unwrap().to_str());
    assert_eq!(spec.args, ["x y"]);
    assert!(spec.submit_line.as_ref().is_some_and(|line| line.starts_with("sbatch -H -t 2-12")));
    assert!(spec.rlimits.len() == 10 && spec.umask.is_some() && spec.submit_host.is_some(), "{spec:?}");
    let held = fake.held.lock().unwrap();
    let sent = held.requests.last().unwrap();
    assert_eq!(sent.script, std::fs::read(script).unwrap());
    assert_eq!(sent.request_id.len(), 16);
}

#[test]
fn names_and_scripts_from_every_source() {
    let fake = Fake::start();
    let ran = fake.run_with_input(&["sbatch", "-H"], b"#!/bin/sh\n#SBATCH -J x\n");
    assert_eq!(ran.out, "Submitted batch job 17\n", "{ran:?}");
    let ran = fake.run_with_input(&["sbatch", "-H"], b"#!/bin/sh\n");
    assert_eq!(ran.out, "Submitted batch job 18\n", "{ran:?}");
    let ran = fake.run_with_input(&["sbatch", "-H", "/dev/stdin"], b"#!/bin/sh\n#SBATCH -n3\n");
    assert_eq!(ran.out, "Submitted batch job 19\n", "{ran:?}");
    fake.run(&["sbatch", "-H", "-D", "sub", "--wrap", "echo hi"]);
    let names: Vec<_> = (17..21).map(|id| fake.job(id).spec.name.clone()).collect();
    assert_eq!(names, ["x", "sbatch", "stdin", "wrap"]);
    assert_eq!(fake.job(19).spec.ntasks, Some(3));
    assert!(fake.job(20).spec.work_dir.ends_with("/w/sub"), "{}", fake.job(20).spec.work_dir);
    assert_eq!(fake.job(18).spec.command, None);
    let shown = fake.run(&["scontrol", "write", "batch_script", "20", "-"]);
    assert_eq!(shown, ran_ok("#!/bin/sh\n# This script was created by sbatch --wrap.\n\necho hi\n"));
}

fn ran_ok(out: &str) -> common::Ran {
    ran(0, out, "")
}

#[test]
fn a_bare_name_is_looked_for_along_the_path() {
    let fake = Fake::start();
    let folder = fake.work().join("scripts");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("tool.sh"), "#!/bin/sh\n").unwrap();
    let output = fake.command(&["sbatch", "-H", "tool.sh"]).env("PATH", &folder).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fake.job(17).spec.command.as_deref(), folder.join("tool.sh").to_str());
}

#[test]
fn the_environment_wins_over_the_script_and_gives_way_to_the_command_line() {
    let fake = Fake::start();
    fake.write("job.sh", "#!/bin/sh\n#SBATCH -t 1 -p long\n");
    let with = |args: &[&str]| {
        let line: Vec<&str> = ["sbatch", "-H"].iter().chain(args).copied().collect();
        let mut command = fake.command(&line);
        let output = command.env("SBATCH_TIMELIMIT", "9").env("SBATCH_ACCOUNT", "opt").output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    with(&["job.sh"]);
    with(&["-t", "3", "job.sh"]);
    assert_eq!(fake.job(17).spec.time_limit, Some(TimeLimit::Seconds(540)));
    assert_eq!(fake.job(18).spec.time_limit, Some(TimeLimit::Seconds(180)));
    assert_eq!(fake.job(17).spec.partitions, ["long"]);
    assert_eq!(fake.job(17).spec.account.as_deref(), Some("opt"));
}

#[test]
fn the_callers_environment_goes_along() {
    let fake = Fake::start();
    let output = fake
        .command(&["sbatch", "-H", "--export=FOO,A=1", "--wrap", "true"])
        .env("FOO", "x y")
        .env("BAR", "z")
        .output();
    assert!(output.unwrap().status.success());
    let got = fake.last_environment();
    for needle in ["FOO=x y", "A=1", "SLURM_EXPORT_ENV=FOO,A=1", "SLURM_GET_USER_ENV=1"] {
        assert!(got.iter().any(|have| have == needle), "{needle} in {got:?}");
    }
    assert!(!got.iter().any(|have| have.starts_with("BAR=")), "{got:?}");
    fake.command(&["sbatch", "-H", "--wrap", "true"]).env("BAR", "z").output().unwrap();
    assert!(fake.last_environment().contains(&"BAR=z".to_owned()));
}

#[test]
fn a_controller_that_comes_back_gets_the_same_request_once() {
    let mut fake = Fake::silent();
    // The first answer is lost: the request was read and the connection closed.
    let first = UnixListener::bind(fake.socket()).unwrap();
    let command = fake.command(&["sbatch", "-H", "--wrap", "true"]).stdout(std::process::Stdio::piped()).spawn();
    let child = command.unwrap();
    let (mut stream, _) = first.accept().unwrap();
    let mut lost = vec![0; 4096];
    assert!(stream.read(&mut lost).unwrap() > 0);
    drop((stream, first));
    thread::sleep(Duration::from_millis(100));
    fake.listen();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Submitted batch job 17\n");
    let held = fake.held.lock().unwrap();
    assert_eq!(held.state.job_count(), 1);
    let id = &held.requests[0].request_id;
    assert!(lost.windows(16).any(|window| window == id.as_slice()), "the first try carried another request id");
}

#[test]
fn without_a_cluster_it_says_so_at_once() {
    let fake = Fake::start();
    let nowhere = fake.dir.path().join("nowhere");
    let output = fake.command(&["sbatch", "--wrap", "true"]).env("GPUN_DIR", nowhere).output().unwrap();
    let text = "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)\n";
    assert_eq!(common::Ran::from(output), ran(1, "", text));
}

#[test]
fn wait_gives_the_jobs_exit_code() {
    use gpun_proto::core::{
        Attempt, Command, JobId, TimeMs,
        command::{Ended, EndedHow, JobEvent, JobReport},
        job::{ExitStatus, Usage},
    };
    let fake = Fake::start();
    let child = fake.command(&["sbatch", "-W", "--wrap", "exit 7"]).spawn().unwrap();
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    while fake.held.lock().unwrap().state.job_count() == 0 {
        assert!(std::time::Instant::now() < deadline);
        thread::sleep(Duration::from_millis(5));
    }
    let mut held = fake.held.lock().unwrap();
    held.place(17, None);
    let node = held.state.nodes().next().unwrap().id;
    let ended = Ended {
        at: TimeMs(common::NOW.0 + 5),
        how: EndedHow::Exited,
        exit: ExitStatus { code: 7, signal: 0 },
        text: None,
        usage: Usage::default(),
    };
    let report = JobReport { job: JobId(17), attempt: Attempt(1), event: JobEvent::Ended(ended) };
    held.apply(Command::Report { node, reports: vec![report] });
    drop(held);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(7));
}
