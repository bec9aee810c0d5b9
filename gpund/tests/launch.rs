//! Real launches with the real runtime.
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use common::{Node, UID, out, until};
use gpund::cgroup::Cgroups;
use gpund::phase::ExitKind;
use gpund::shimlink::Target;
use gpund::sys::Linux;

#[test]
fn exit_codes_and_signals_are_the_scripts() {
    let node = Node::new();
    let rows = [
        ("#!/bin/sh\nexit 0\n", 0, 0),
        ("#!/bin/sh\nexit 7\n", 7, 0),
        ("#!/bin/sh\nexit 255\n", 255, 0),
        ("#!/bin/sh\nkill -SEGV $$\n", 0, 11),
        ("#!/bin/sh\nkill -9 $$\n", 0, 9),
    ];
    for (script, code, signal) in rows {
        let spec = node.spec();
        let (exit, _) = node.run(&spec, script);
        assert_eq!((exit.kind, exit.code, exit.signal, exit.oom), (ExitKind::Exited, code, signal, false), "{script}");
        assert!(exit.started_ms > 0 && exit.ended_ms >= exit.started_ms);
    }
}

#[test]
fn the_job_is_the_user_and_nobody_more() {
    let node = Node::new();
    let spec = node.spec();
    let script = "#!/bin/sh\nid -u; id -g; id -G; pwd; umask; hostname; grep -E '^(Cap|NoNew|SigBlk|SigIgn)' /proc/self/status\n\
                  cat /proc/1/cmdline | tr '\\0' '\\n'; ls -l /proc/self/fd | grep -c -e '->'; echo $PPID; ps -o sid= -p $$; echo $$\n";
    let (exit, out) = node.run(&spec, script);
    let mut lines = out.lines();
    let mut next = || lines.next().unwrap_or_default().to_owned();
    assert_eq!((exit.code, exit.signal), (0, 0), "{out}");
    assert_eq!([next(), next(), next()], [UID.to_string(), UID.to_string(), format!("{UID} 7100")]);
    assert_eq!([next(), next(), next()], [spec.work_dir.lossy(), "0022".into(), "n1".into()]);
    for name in ["SigBlk", "SigIgn", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(next(), format!("{name}:\t0000000000000000"));
    }
    assert_eq!([next(), next()], ["NoNewPrivs:\t1".to_owned(), "/.gpun/init".to_owned()]);
    assert_eq!(next(), "4", "no descriptor but the streams and the folder that ls reads");
    assert_eq!(next(), "1", "started by process 1");
    assert_eq!(next().trim(), next(), "its own session");
}

#[test]
fn a_root_submitter_has_the_files_of_all_and_nothing_of_the_kernels() {
    let node = Node::new();
    let mut spec = node.spec();
    spec.identity.uid = 0;
    spec.identity.gid = 0;
    spec.identity.groups = vec![0];
    let script = "#!/bin/sh\nid -u\n\
        (echo 1 > /proc/sys/kernel/panic) 2>/dev/null || echo no kernel\n\
        mknod /tmp/disk b 8 0 2>/dev/null || echo no device\n\
        mount -t tmpfs x /mnt 2>/dev/null || echo no mount\n\
        touch /usr/x 2>/dev/null || echo no system\n\
        touch theirs && chown 7001 theirs && stat -c %u theirs\n";
    // The work directory is another user's.
    let (exit, out) = node.run(&spec, script);
    assert_eq!((exit.code, exit.signal), (0, 0));
    assert_eq!(out, "0\nno kernel\nno device\nno mount\nno system\n7001\n");
}

#[test]
fn the_hosts_root_is_read_only_and_tmp_is_private() {
    let node = Node::new();
    let mut spec = node.spec();
    let marker = format!("/tmp/gpun-test-{}", std::process::id());
    fs::write(&marker, "host").unwrap();
    let script = format!(
        "#!/bin/sh\nfor d in / /usr /etc /opt /run /var /.gpun; do (touch $d/x) 2>/dev/null && echo wrote $d; done\n\
         test -e {marker} && echo sees the tmp of the host\n\
         touch {marker} /var/tmp/x /dev/shm/x && echo tmp works\n\
         echo home > $HOME/file; echo work > file\n\
         test -e /sys/kernel && test -e /proc/1 && test -c /dev/null && echo kernel\n\
         (cat /dev/mem || cat /dev/vda) 2>/dev/null | head -c1\n\
         readlink /bin\n"
    );
    spec.env.push(format!("HOME={}", spec.identity.home.lossy()).into());
    let (exit, out) = node.run(&spec, &script);
    fs::remove_file(&marker).unwrap();
    assert_eq!((exit.code, out.as_str()), (0, "tmp works\nkernel\nusr/bin\n"));
    assert_eq!(fs::read_to_string(spec.identity.home.as_path().join("file")).unwrap(), "home\n");
    assert_eq!(fs::read_to_string(spec.work_dir.as_path().join("file")).unwrap(), "work\n");
}

#[test]
fn what_cannot_be_executed_is_said_as_slurm_says_it() {
    let node = Node::new();
    let rows = [
        ("#!/no/such/interp\n", 2, "execve(): bad interpreter(/no/such/interp): No such file or directory"),
        ("#!/bin/sh\r\necho hi\r\n", 2, "execve(): bad interpreter(/bin/sh\r): No such file or directory"),
        ("#!/etc/passwd\n", 13, "execve(): /.gpun/script: Permission denied"),
    ];
    for (script, code, message) in rows {
        let spec = node.spec();
        let (exit, out) = node.run(&spec, script);
        assert_eq!((exit.code, exit.signal), (code, 0), "{script:?}");
        assert_eq!(out, format!("slurmstepd-n1: error: {message}\n"));
    }
}

#[test]
fn streams_and_work_directory_behave_as_in_slurm() {
    let node = Node::new();

    let mut spec = node.spec();
    spec.stdio.stdin = "/no/such/input".into();
    let (exit, _) = node.run(&spec, "#!/bin/sh\necho hi\n");
    assert_eq!((exit.kind, exit.code, exit.signal), (ExitKind::Exited, 0, 53));
    let reason = "could not open stdin file /no/such/input: No such file or directory";
    assert_eq!(exit.reason.as_deref(), Some(reason));

    let mut spec = node.spec();
    spec.work_dir = "/no/such/dir".into();
    let (exit, out) = node.run(&spec, "#!/bin/sh\npwd\n");
    assert_eq!(exit.code, 0);
    let warning =
        "slurmstepd-n1: error: couldn't chdir to `/no/such/dir': No such file or directory: going to /tmp instead";
    assert_eq!(out, format!("{warning}\n/tmp\n"));

    let instead = "slurmstepd-n1: error: Setting TMPDIR to /tmp\n/tmp\n";
    for (folder, out) in [
        ("/tmp/mine", "/tmp/mine\n".to_owned()),
        ("/tmp", "/tmp\n".to_owned()),
        (
            "/tmp/a/b",
            format!("slurmstepd-n1: error: Unable to create TMPDIR [/tmp/a/b]: No such file or directory\n{instead}"),
        ),
        ("/etc/passwd", format!("slurmstepd-n1: error: TMPDIR [/etc/passwd] is not a directory\n{instead}")),
    ] {
        let mut spec = node.spec();
        spec.env.push(format!("TMPDIR={folder}").into());
        let told = node.run(&spec, "#!/bin/sh\necho $TMPDIR; test -w $TMPDIR\n");
        assert_eq!((told.0.code, told.1), (0, out));
    }

    // Missing folders of an output file are made; standard error apart; append keeps what is there.
    let mut spec = node.spec();
    let work = spec.work_dir.as_path().to_owned();
    spec.stdio.stderr = work.join("new/dir/err").as_path().into();
    spec.stdio.open_mode = gpund::spec::OpenMode::Append;
    fs::write(work.join("out"), "before\n").unwrap();
    std::os::unix::fs::chown(work.join("out"), Some(UID), Some(UID)).unwrap();
    fs::write(work.join("in"), "input\n").unwrap();
    spec.stdio.stdin = work.join("in").as_path().into();
    let (exit, out) = node.run(&spec, "#!/bin/sh\ncat; echo err >&2\n");
    assert_eq!((exit.code, out.as_str()), (0, "before\ninput\n"));
    assert_eq!(fs::read_to_string(work.join("new/dir/err")).unwrap(), "err\n");

    // A file in the host's /tmp is reached although /tmp is private.
    let mut spec = node.spec();
    let path = format!("/tmp/gpun-test-out-{}", spec.container_id());
    spec.stdio.stdout = path.as_str().into();
    spec.stdio.stderr = path.as_str().into();
    let (exit, out) = node.run(&spec, "#!/bin/sh\necho there\n");
    fs::remove_file(&path).unwrap();
    assert_eq!((exit.code, out.as_str()), (0, "there\n"));
}

#[test]
fn arguments_environment_and_limits_reach_the_script() {
    let node = Node::new();
    let mut spec = node.spec();
    spec.args = vec!["a b".into(), "".into(), vec![0xff].into()];
    spec.env.push(b"RAW=\xfe".to_vec().into());
    spec.umask = 0o077;
    spec.rlimits = vec![gpund::spec::Rlimit { name: "NOFILE".into(), soft: 77 }];
    let script = "#!/bin/sh\nprintf '%s|' \"$@\"; printf '%s|' \"$RAW\"; env | sort | tr '\\n' '|'; umask; ulimit -n\n";
    let exit = node.launch(&spec, script).wait();
    node.assert_clean(&spec);
    assert_eq!(exit.code, 0);
    let out = fs::read(spec.stdio.stdout.as_path()).unwrap();
    let mut expected = b"a b||\xff|\xfe|PATH=/usr/bin:/bin|PWD=".to_vec();
    expected.extend_from_slice(spec.work_dir.as_bytes());
    expected.extend_from_slice(b"|RAW=\xfe|SLURM_JOB_ID=1|0077\n77\n");
    assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(&expected));
}

#[test]
fn fifty_megabytes_come_out_byte_exact() {
    let node = Node::new();
    let spec = node.spec();
    let script = "#!/bin/sh\nhead -c 52428800 /dev/urandom | tee /var/tmp/copy\nsha256sum < /var/tmp/copy > sum\n";
    let exit = node.launch(&spec, script).wait();
    assert_eq!((exit.code, exit.signal), (0, 0));
    let bytes = fs::read(spec.stdio.stdout.as_path()).unwrap();
    assert_eq!(bytes.len(), 52_428_800);
    use sha2::Digest;
    let sum = gpund::raw::to_hex(&sha2::Sha256::digest(&bytes));
    assert!(fs::read_to_string(spec.work_dir.as_path().join("sum")).unwrap().starts_with(&sum));
    node.assert_clean(&spec);
}

#[test]
fn term_ignored_then_kill() {
    let node = Node::new();
    let spec = node.spec();
    let mut job =
        node.launch(&spec, "#!/bin/sh\ntrap 'echo got TERM' TERM\necho ready\nwhile :; do sleep 0.05; done\n");
    job.until_running();
    until("the script has started", || out(&spec).contains("ready"));
    job.signal(15, Target::Script);
    until("TERM came", || out(&spec).contains("got TERM"));
    job.client.send(gpund::shimlink::Act::Kill).unwrap();
    let exit = job.wait();
    node.assert_clean(&spec);
    assert_eq!((exit.kind, exit.code, exit.signal), (ExitKind::Exited, 0, 9));
}

#[test]
fn signals_go_to_the_script_its_group_or_all() {
    let node = Node::new();
    // One child in the script's group, one in a session of its own.
    let script = "#!/bin/sh\ntrap 'echo script' USR1\n\
        sh -c 'trap \"echo group\" USR1; echo ready; while :; do sleep 0.02; done' &\n\
        setsid sh -c 'trap \"echo session\" USR1; echo ready; while :; do sleep 0.02; done' &\n\
        while :; do sleep 0.02; done\n";
    let rows = [(Target::Script, "script"), (Target::Group, "group script"), (Target::All, "group script session")];
    for (to, expected) in rows {
        let spec = node.spec();
        let mut job = node.launch(&spec, script);
        job.until_running();
        until("both children have their traps", || out(&spec).matches("ready").count() == 2);
        job.signal(10, to);
        let heard = || {
            let mut words: Vec<String> = out(&spec).split_whitespace().map(str::to_owned).collect();
            // The shells also tell how their `sleep`s died.
            words.retain(|w| ["script", "group", "session"].contains(&w.as_str()));
            words.sort();
            words.join(" ")
        };
        until("the signal came", || heard().len() >= expected.len());
        assert_eq!(heard(), expected, "{to:?}");
        job.client.send(gpund::shimlink::Act::Kill).unwrap();
        assert_eq!(job.wait().signal, 9);
        node.assert_clean(&spec);
    }
}

#[test]
fn what_the_script_leaves_is_killed_and_a_notice_reaches_its_output() {
    let node = Node::new();
    let spec = node.spec();
    let mut job = node.launch(
        &spec,
        "#!/bin/sh\nsetsid sh -c 'trap \"\" TERM HUP; while :; do sleep 1; done' &\n(sleep 1000 &)\ntrap 'exit 4' USR1\necho ready\n\
         while :; do sleep 0.02; done\n",
    );
    job.until_running();
    until("started", || out(&spec).contains("ready"));
    job.client.send(gpund::shimlink::Act::Notice { text: "slurmstepd: error: *** JOB ***\n".into() }).unwrap();
    until("the notice", || out(&spec).contains("*** JOB ***"));
    job.signal(10, Target::Script);
    let exit = job.wait();
    node.assert_clean(&spec);
    assert_eq!((exit.code, exit.signal), (4, 0));
}

#[test]
fn a_fork_bomb_is_held_and_killed() {
    let node = Node::new();
    let mut spec = node.spec();
    spec.limits.pids_max = Some(100);
    let mut job = node.launch(&spec, "#!/bin/bash\necho ready\nb() { b | b & }; while :; do b; done 2>/dev/null\n");
    job.until_running();
    until("it forks", || out(&spec).contains("ready"));
    let procs = || {
        let folder =
            gpund::cgroup::Cgroups::detect(&gpund::sys::Linux).unwrap().folder("pids", &spec.cgroup()).unwrap();
        fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default().lines().count()
    };
    until("it is at its limit", || procs() > 50);
    assert!(procs() <= 100);
    job.client.send(gpund::shimlink::Act::Kill).unwrap();
    let exit = job.wait();
    node.assert_clean(&spec);
    assert_eq!((exit.kind, exit.signal), (ExitKind::Exited, 9));
}

#[test]
fn over_its_memory_is_told() {
    let node = Node::new();
    let mut spec = node.spec();
    spec.limits.memory_mib = Some(48);
    let (exit, _) = node.run(&spec, "#!/bin/bash\nx=$(head -c 400000000 /dev/zero | tr '\\0' x)\necho ${#x}\n");
    assert!(exit.oom, "{exit:?}");
    assert_ne!((exit.code, exit.signal), (0, 0));
    assert!(exit.usage.user_us + exit.usage.sys_us > 0);
}

#[test]
fn cpu_and_memory_limits_are_the_cgroups() {
    let node = Node::new();
    let mut spec = node.spec();
    spec.limits.cpu = Some(gpund::spec::CpuLimit { count: 2, quota: true, list: Some("0".into()) });
    spec.limits.memory_mib = Some(64);
    let mut job = node.launch(&spec, "#!/bin/sh\ncat /proc/self/cgroup; nproc; echo ready; sleep 1000\n");
    job.until_running();
    until("it runs", || out(&spec).contains("ready"));
    let cgroups = Cgroups::detect(&Linux).unwrap();
    let rows = if cgroups.is_v2() {
        vec![("cpu", "cpu.max", "200000 100000"), ("cpuset", "cpuset.cpus", "0"), ("memory", "memory.max", "67108864")]
    } else {
        vec![
            ("cpu", "cpu.cfs_quota_us", "200000"),
            ("cpu", "cpu.shares", "2048"),
            ("cpuset", "cpuset.cpus", "0"),
            ("memory", "memory.limit_in_bytes", "67108864"),
            ("pids", "pids.max", "200"),
        ]
    };
    for (controller, file, expected) in rows {
        let path = cgroups.folder(controller, &spec.cgroup()).unwrap().join(file);
        assert_eq!(fs::read_to_string(path).unwrap().trim(), expected, "{file}");
    }
    // Scripts find their job's id in it.
    assert!(out(&spec).contains(&format!("/job_{}\n", spec.job_id)), "{}", out(&spec));
    assert!(out(&spec).contains("\n1\nready"), "bound to one CPU: {}", out(&spec));
    job.client.send(gpund::shimlink::Act::Kill).unwrap();
    assert_eq!(job.wait().signal, 9);
    node.assert_clean(&spec);
}

#[test]
fn a_job_that_fills_the_nodes_disk_still_reports_its_end() {
    use nix::mount::{MsFlags, mount, umount};
    let node = Node::new();
    let jobs = node.root.path().join("jobs");
    fs::create_dir(&jobs).unwrap();
    mount(Some("tmpfs"), &jobs, Some("tmpfs"), MsFlags::empty(), Some("size=4m")).unwrap();
    let spec = node.spec();
    let exit = node.launch(&spec, "#!/bin/sh\nhead -c 20000000 /dev/zero > /tmp/x || echo full\nexit 5\n").wait();
    let recorded = fs::read_to_string(jobs.join(spec.container_id()).join("exit.json")).unwrap();
    umount(&jobs).unwrap();
    assert!(out(&spec).ends_with("full\n"), "{}", out(&spec));
    assert_eq!((exit.kind, exit.code, exit.signal), (ExitKind::Exited, 5, 0));
    assert!(recorded.contains("\"code\":5"));
}

#[test]
fn what_cannot_be_launched_says_why() {
    let node = Node::new();
    type Change = fn(&mut gpund::spec::LaunchSpec);
    let rows: [(Change, ExitKind, &str); 4] = [
        (|s| s.runc = "/no/such/runc".into(), ExitKind::NodeFailed, "cannot start the OCI runtime /no/such/runc"),
        (|s| s.init = "/no/such/init".into(), ExitKind::NodeFailed, "cannot fill"),
        (|s| s.mounts.push(bind("/no/such", "/mnt/x")), ExitKind::LaunchFailed, "cannot mount /no/such"),
        (|s| s.mounts.push(bind("/opt", "/proc/x")), ExitKind::LaunchFailed, "cannot mount /opt:/proc/x"),
    ];
    for (change, kind, reason) in rows {
        let mut spec = node.spec();
        change(&mut spec);
        let (exit, _) = node.run(&spec, "#!/bin/sh\n");
        assert_eq!(exit.kind, kind, "{exit:?}");
        assert!(exit.reason.as_deref().unwrap_or_default().contains(reason), "{exit:?}");
    }
}

/// The user exchanges a folder for a link to one that they cannot enter, at the worst moment: after all checks, before the
/// runtime mounts. They get the folder that they had.
#[test]
fn an_exchanged_folder_opens_no_door() {
    let node = Node::new();
    let closed = node.root.path().join("closed");
    let secret = closed.join("secret");
    fs::create_dir_all(&secret).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(secret.join("key"), "hidden").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o777)).unwrap();
    for by_mount in [false, true] {
        let mut spec = node.spec();
        let (work, moved) = (spec.work_dir.as_path().to_owned(), spec.work_dir.as_path().with_extension("moved"));
        let data = node.user_dir(if by_mount { "data" } else { "unused" });
        let target = if by_mount { data.clone() } else { work.clone() };
        if by_mount {
            spec.mounts.push(bind(data.to_str().unwrap(), "/mnt/data"));
        }
        let runc = node.root.path().join(format!("runc-{by_mount}"));
        let (from, moved, to) = (target.display(), moved.display(), secret.display());
        fs::write(
            &runc,
            format!("#!/bin/sh\nmv {from} {moved}; ln -s {to} {from}\nexec {} \"$@\"\n", spec.runc.display()),
        )
        .unwrap();
        fs::set_permissions(&runc, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(target.join("mine"), "").unwrap();
        spec.runc = runc;
        let see = if by_mount { "/mnt/data".to_owned() } else { target.display().to_string() };
        let job = node
            .launch(&spec, &format!("#!/bin/sh\nls {see} > /var/tmp/seen; cat /var/tmp/seen; cat {see}/key\nexit 3\n"));
        let exit = job.wait();
        node.assert_clean(&spec);
        // The link that lies there now is the user's own: out is found where the folder went.
        let folder = if by_mount { work } else { moved.to_string().into() };
        let out = fs::read_to_string(folder.join("out")).unwrap();
        assert!(out.contains("mine") && !out.contains("hidden"), "{exit:?}: {out}");
        assert_eq!(exit.code, 3, "{exit:?}");
    }
}

fn bind(source: &str, target: &str) -> gpund::spec::Mount {
    gpund::spec::Mount {
        source: source.into(),
        target: target.into(),
        read_only: false,
        optional: false,
        by_user: true,
    }
}
