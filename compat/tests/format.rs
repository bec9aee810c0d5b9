//! Output as Slurm 24.11 printed it, on records like those of the recorded cluster.
#![allow(missing_docs)]
#![expect(clippy::unwrap_used, reason = "a test helper may fail its test")]

use std::collections::BTreeSet;

use gpun_compat::format::job_block::{self, Detail};
use gpun_compat::format::sinfo::Cluster;
use gpun_compat::format::squeue::Caller;
use gpun_compat::format::{Report, Shown, config, node_block, partition_block, sinfo, squeue};
use gpun_compat::moment::Style;
use gpun_compat::option::{self, Context};
use gpun_core::job::{
    ArrayRole, ArrayShape, ExitStatus, GresAlloc, Hold, Job, JobState, NodeAlloc, Owner, Reason, Run, Usage,
};
use gpun_core::node::{GresInventory, Inventory, Liveness, Mark, Node, Taken};
use gpun_core::partition::{Partition, PartitionState};
use gpun_core::settings::Settings;
use gpun_core::spec::{GresRequest, JobSpec, MemoryRequest};
use gpun_core::view::{ClusterView, JobView, NodeView, PartitionView};
use gpun_core::{Attempt, Digest, IndexSet, JobId, MemoryMib, NodeId, Shared, TimeLimit, TimeMs};
use jiff::tz::TimeZone;

/// 2026-12-01T05:35:39Z.
const SUBMITTED_S: u64 = 1_796_103_339;

static UTC: TimeZone = TimeZone::UTC;

fn at(offset_s: u64) -> TimeMs {
    TimeMs((SUBMITTED_S + offset_s) * 1000)
}

fn user_name(uid: u32) -> Option<String> {
    [(0, "root"), (7001, "alice"), (7002, "bob")].iter().find(|(n, _)| *n == uid).map(|(_, name)| (*name).to_owned())
}

fn shown() -> Shown<'static> {
    Shown {
        now_s: (SUBMITTED_S + 4) as i64,
        zone: &UTC,
        style: Style::Standard,
        cluster: "ref",
        user_name: &user_name,
        def_mem_per_cpu_mib: Some(200),
        bitstr_len: None,
        noconvert: false,
    }
}

fn job(id: u32, user: (&str, u32), change: impl FnOnce(&mut Job, &mut JobSpec)) -> Job {
    let owner =
        Owner { uid: user.1, gid: user.1, user: user.0.to_owned(), group: user.0.to_owned(), ..Owner::default() };
    let mut spec = JobSpec {
        account: Some("physics".to_owned()),
        work_dir: "/tmp".to_owned(),
        submit_host: Some("localhost".to_owned()),
        submit_sid: Some(6772),
        ..JobSpec::default()
    };
    let mut job = Job {
        id: JobId(id),
        spec: Shared::new(JobSpec::default()),
        owner: Shared::new(owner),
        script: Digest([0; 32]),
        environment: Digest([0; 32]),
        submitted: at(0),
        eligible: Some(at(0)),
        state: JobState::Pending,
        reason: Reason::None,
        reason_text: None,
        hold: Hold::None,
        priority: 3080,
        attempt: Attempt(0),
        restarts: 0,
        time_limit: TimeLimit::Seconds(600),
        array: None,
        array_shape: None,
        run: None,
        exit: ExitStatus::default(),
        ended: None,
        end_order: None,
        cancelled_by: None,
        signals: Vec::new(),
        launch_faults: 0,
        charge: None,
        dependency: None,
        het: None,
        suspension: None,
    };
    change(&mut job, &mut spec);
    job.spec = Shared::new(spec);
    job
}

fn view(job: Job, nodes: &[&str], reason: Reason) -> JobView {
    JobView {
        job: Shared::new(job),
        nodes: nodes.iter().map(|n| (*n).to_owned()).collect(),
        reason,
        start_estimate: None,
        planned_nodes: Vec::new(),
        partitions: vec!["debug".to_owned()],
        last_evaluated: Some(at(0)),
        memory_per_node: MemoryMib(200),
    }
}

fn alloc(node: u32, cpu: u32, gres: &[(&str, &str, u32)]) -> NodeAlloc {
    NodeAlloc {
        node: NodeId(node),
        cpus: [cpu].into_iter().collect(),
        memory: MemoryMib(200),
        tasks: 1,
        gres: gres
            .iter()
            .map(|(name, kind, index)| GresAlloc {
                name: (*name).to_owned(),
                kind: Some((*kind).to_owned()),
                indexes: [*index].into_iter().collect(),
            })
            .collect(),
    }
}

fn run(allocs: Vec<NodeAlloc>, offset_s: u64) -> Run {
    Run {
        partition: "debug".to_owned(),
        allocs,
        placed: at(offset_s),
        launched: Some(at(offset_s)),
        released: false,
        usage: Usage::default(),
    }
}

/// A running job on two nodes, an array of which one task runs, a held job of another user.
fn queue() -> Vec<JobView> {
    let shape = ArrayShape { count: 4, min: 0, max: 3, step: 1, max_running: Some(1) };
    let run1 = job(70_539, ("alice", 7001), |j, s| {
        s.name = "run1".to_owned();
        s.ntasks = Some(2);
        (s.nodes_min, s.nodes_max) = (Some(2), Some(2));
        s.gres = vec![GresRequest { name: "gpu".to_owned(), kind: None, count: 1, bare: false }];
        s.features = vec!["a100".to_owned()];
        j.state = JobState::Running;
        j.time_limit = TimeLimit::Seconds(1200);
        j.priority = 3160;
        j.run = Some(run(vec![alloc(1, 4, &[("gpu", "a100", 0)]), alloc(2, 4, &[("gpu", "a100", 0)])], 0));
    });
    let waiting = job(70_540, ("alice", 7001), |j, s| {
        s.name = "arr".to_owned();
        j.array = Some(ArrayRole::Waiting { tasks: [1, 2, 3].into_iter().collect() });
        j.array_shape = Some(shape);
    });
    let task = job(70_542, ("alice", 7001), |j, s| {
        s.name = "arr".to_owned();
        j.array = Some(ArrayRole::Task { array: JobId(70_540), task: 0 });
        j.array_shape = Some(shape);
        j.state = JobState::Running;
        j.run = Some(run(vec![alloc(5, 0, &[])], 0));
    });
    let held = job(70_541, ("bob", 7002), |j, s| {
        s.name = "held".to_owned();
        s.account = Some("chem".to_owned());
        (s.nodes_min, s.nodes_max, s.ntasks, s.cpus_per_task) = (Some(2), Some(3), Some(4), Some(2));
        s.memory = MemoryRequest::PerNode(MemoryMib(2048));
        s.begin = Some(at(3600));
        s.features = vec!["cpu".to_owned()];
        s.node_list = vec!["n5".to_owned()];
        s.exclude = vec!["n6".to_owned()];
        j.hold = Hold::User;
        j.priority = 0;
        j.eligible = None;
    });
    vec![
        view(run1, &["n1", "n2"], Reason::None),
        view(waiting, &[], Reason::ArrayTaskLimit),
        view(task, &["n5"], Reason::None),
        view(held, &[], Reason::HeldUser),
    ]
}

fn squeue_with(line: &[&str], views: &[JobView], shown: &Shown<'_>) -> Report {
    let args: Vec<String> = line.iter().map(|a| (*a).to_owned()).collect();
    let context = Context { now_s: 0, zone: &TimeZone::UTC, is_root: false };
    let options = option::squeue::parse(&args, &|_| None, &context).unwrap();
    squeue::report(views, &options, Caller { uid: 7001, users: &[7002] }, shown)
}

#[test]
fn squeue_prints_its_default_columns() {
    let report = squeue_with(&[], &queue(), &shown());
    assert_eq!(
        report.stdout,
        "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)
     70540_[1-3%1]     debug      arr    alice PD       0:00      1 (JobArrayTaskLimit)
             70541     debug     held      bob PD       0:00      2 (JobHeldUser)
             70539     debug     run1    alice  R       0:04      2 n[1-2]
           70540_0     debug      arr    alice  R       0:04      1 n5
"
    );
}

#[test]
fn squeue_prints_what_is_asked_for() {
    for (line, want) in [
        (
            &["-l", "-j", "70539"][..],
            "Tue Dec 01 05:35:43 2026
             JOBID PARTITION     NAME     USER    STATE       TIME TIME_LIMI  NODES NODELIST(REASON)
             70539     debug     run1    alice  RUNNING       0:04     20:00      2 n[1-2]
",
        ),
        (
            &["-h", "-r", "-n", "arr"],
            "           70540_1     debug      arr    alice PD       0:00      1 (JobArrayTaskLimit)
           70540_2     debug      arr    alice PD       0:00      1 (JobArrayTaskLimit)
           70540_3     debug      arr    alice PD       0:00      1 (JobArrayTaskLimit)
           70540_0     debug      arr    alice  R       0:04      1 n5
",
        ),
        (&["-h", "-S", "-i", "-o", "%i"], "70541\n70540_[1-3%1]\n70540_0\n70539\n"),
        (&["-h", "-S", "i", "-o", "%i"], "70539\n70540_0\n70540_[1-3%1]\n70541\n"),
        (&["-h", "-j", "70540_2,70540_0", "-o", "%i %t"], "70540_2 PD\n70540_0 R\n"),
        (&["-h", "-j", "70542", "-o", "%i|%A|%F|%K"], "70540_0|70542|70540|0\n"),
        (&["-h", "--me", "-t", "R", "-o", "%i"], "70539\n70540_0\n"),
        (&["-h", "-u", "bob", "-o", "%i"], "70541\n"),
        (&["-h", "-A", "chem", "-o", "%i"], "70541\n"),
        (&["-h", "-w", "n1", "-o", "%i"], "70539\n"),
        (&["-h", "-p", "nope"], ""),
        (&["-h", "-t", "CD"], ""),
        (&["-h", "--only-job-state", "-j", "70539"], "             70539  R\n"),
        (
            &["-o", "[%.5i][%12i][%.12j][%3u]", "-j", "70539"],
            "[JOBID][JOBID       ][        NAME][USE]\n[70539][70539       ][        run1][ali]\n",
        ),
        (&["-O", "jobid:8,name", "-j", "70539"], "JOBID   NAME                \n70539   run1                \n"),
        (&["-h", "-O", "Account:\u{1f},JobID:\u{1f}", "-j", "70539"], "physics\u{1f}70539\u{1f}\n"),
        (&["-h", "--format=%k,%A", "-j", "70539"], "(null),70539\n"),
    ] {
        let report = squeue_with(line, &queue(), &shown());
        assert_eq!((report.stdout.as_str(), report.stderr.as_str()), (want, ""), "{line:?}");
    }
}

/// `-o` letter by letter, as Slurm answered for these jobs: run1, arr_0, arr_[1-3], held.
#[test]
fn squeue_letters() {
    for (letter, want) in [
        ('a', "ACCOUNT~physics~physics~physics~chem~"),
        ('A', "JOBID~70539~70542~70540~70541~"),
        ('b', "TRES_PER_NODE~gres/gpu:1~N/A~N/A~N/A~"),
        ('B', "EXEC_HOST~n1~n5~n/a~n/a~"),
        ('c', "MIN_CPUS~1~1~1~2~"),
        ('C', "CPUS~2~1~1~8~"),
        ('d', "MIN_TMP_DISK~0~0~0~0~"),
        ('D', "NODES~2~1~1~2~"),
        ('e', "END_TIME~2026-12-01T05:55:39~2026-12-01T05:45:39~N/A~2026-12-01T06:45:39~"),
        ('E', "DEPENDENCY~(null)~(null)~(null)~(null)~"),
        ('f', "FEATURES~a100~(null)~(null)~cpu~"),
        ('F', "ARRAY_JOB_ID~70539~70540~70540~70541~"),
        ('g', "GROUP~alice~alice~alice~bob~"),
        ('G', "GROUP~7001~7001~7001~7002~"),
        ('h', "OVER_SUBSCRIBE~OK~OK~OK~OK~"),
        ('H', "SOCKETS_PER_NODE~*~*~*~*~"),
        ('i', "JOBID~70539~70540_0~70540_[1-3%1]~70541~"),
        ('I', "CORES_PER_SOCKET~*~*~*~*~"),
        ('j', "NAME~run1~arr~arr~held~"),
        ('J', "THREADS_PER_CORE~*~*~*~*~"),
        ('k', "COMMENT~(null)~(null)~(null)~(null)~"),
        ('K', "ARRAY_TASK_ID~N/A~0~1-3%1~N/A~"),
        ('l', "TIME_LIMIT~20:00~10:00~10:00~10:00~"),
        ('L', "TIME_LEFT~19:56~9:56~10:00~10:00~"),
        ('m', "MIN_MEMORY~200M~200M~200M~2G~"),
        ('M', "TIME~0:04~0:04~0:00~0:00~"),
        ('n', "REQ_NODES~~~~n5~"),
        ('N', "NODELIST~n[1-2]~n5~~~"),
        ('o', "COMMAND~(null)~(null)~(null)~(null)~"),
        ('O', "CONTIGUOUS~0~0~0~0~"),
        ('p', "PRIORITY~0.00000073574483~0.00000071711838~0.00000071711838~0.00000000000000~"),
        ('P', "PARTITION~debug~debug~debug~debug~"),
        ('q', "QOS~normal~normal~normal~normal~"),
        ('Q', "PRIORITY~3160~3080~3080~0~"),
        ('r', "REASON~None~None~JobArrayTaskLimit~JobHeldUser~"),
        ('R', "NODELIST(REASON)~n[1-2]~n5~(JobArrayTaskLimit)~(JobHeldUser)~"),
        ('s', "%s~%s~%s~%s~%s~"),
        ('S', "START_TIME~2026-12-01T05:35:39~2026-12-01T05:35:39~N/A~2026-12-01T06:35:39~"),
        ('t', "ST~R~R~PD~PD~"),
        ('T', "STATE~RUNNING~RUNNING~PENDING~PENDING~"),
        ('u', "USER~alice~alice~alice~bob~"),
        ('U', "UID~7001~7001~7001~7002~"),
        ('v', "RESERVATION~(null)~(null)~(null)~(null)~"),
        ('V', "SUBMIT_TIME~2026-12-01T05:35:39~2026-12-01T05:35:39~2026-12-01T05:35:39~2026-12-01T05:35:39~"),
        ('w', "WCKEY~(null)~(null)~(null)~(null)~"),
        ('W', "LICENSES~(null)~(null)~(null)~(null)~"),
        ('x', "EXC_NODES~~~~n6~"),
        ('X', "CORE_SPEC~N/A~N/A~N/A~N/A~"),
        ('y', "NICE~0~0~0~0~"),
        ('Y', "SCHEDNODES~(null)~(null)~(null)~(null)~"),
        ('z', "S:C:T~*:*:*~*:*:*~*:*:*~*:*:*~"),
        ('Z', "WORK_DIR~/tmp~/tmp~/tmp~/tmp~"),
    ] {
        let report = squeue_with(&["-a", "-t", "all", "-S", "i", "-o", &format!("%{letter}")], &queue(), &shown());
        assert_eq!(report.stdout.replace('\n', "~"), want, "%{letter}");
    }
}

/// `-O` name by name, likewise.
#[test]
fn squeue_names() {
    for (name, want) in [
        ("AllocSID", "ALLOC_SID~6772~6772~6772~6772~"),
        ("ArrayTaskId", "ARRAY_TASK_ID~N/A~0~1-3%1~N/A~"),
        ("BatchFlag", "BATCH_FLAG~1~1~1~1~"),
        ("Cluster", "CLUSTER~ref~ref~ref~ref~"),
        ("cpus-per-task", "CPUS_PER_TASK~1~1~1~2~"),
        ("Deadline", "DEADLINE~N/A~N/A~N/A~N/A~"),
        ("DerivedEC", "DERIVED_EC~0:0~0:0~0:0~0:0~"),
        (
            "EligibleTime",
            "ELIGIBLE_TIME~2026-12-01T05:35:39~2026-12-01T05:35:39~2026-12-01T05:35:39~2026-12-01T06:35:39~",
        ),
        ("exit_code", "EXIT_CODE~0:0~0:0~0:0~0:0~"),
        ("JobArrayId", "JOBID~70539~70540_0~70540_[1-3%1]~70541~"),
        ("MaxCPUs", "MAX_CPUS~2~1~1~8~"),
        ("MaxNodes", "MAX_NODES~2~1~1~3~"),
        ("MinTime", "TIME_MIN~0:00~0:00~0:00~0:00~"),
        ("NTPerNode", "NTASKS_PER_NODE~0~0~0~0~"),
        ("NumTasks", "TASKS~2~1~1~4~"),
        ("PriorityLong", "PRIORITY~3160~3080~3080~0~"),
        ("Requeue", "REQUEUE~1~1~1~1~"),
        ("RestartCnt", "RESTART_COUNT~0~0~0~0~"),
        ("SCT", "S:C:T~*:*:*~*:*:*~*:*:*~*:*:*~"),
        ("StdIn", "STDIN~/dev/null~/dev/null~/dev/null~/dev/null~"),
        ("StdErr", "STDERR~(null)~(null)~(null)~(null)~"),
        (
            "tres-alloc",
            "TRES_ALLOC~cpu=2,mem=400M,node=2,billing=2,gres/gpu=2~cpu=1,mem=200M,node=1,billing=1~cpu=1,mem=200M,node=1,billing=1~cpu=8,mem=4G,node=2,billing=8~",
        ),
        ("tres-per-node", "TRES_PER_NODE~gres/gpu:1~N/A~N/A~N/A~"),
        ("tres-per-task", "TRES_PER_TASK~N/A~N/A~N/A~cpu=2~"),
        ("WCKey", "WCKEY~(null)~(null)~(null)~(null)~"),
    ] {
        let report = squeue_with(&["-a", "-t", "all", "-S", "i", "-O", &format!("{name}:")], &queue(), &shown());
        assert_eq!(report.stdout.replace('\n', "~"), want, "{name}");
    }
}

#[test]
fn squeue_says_what_it_does_not_know() {
    for (line, stderr, status) in [
        (&["-o", "%s"][..], "squeue: error: Invalid job format specification: s\n", 0),
        (&["-O", "foo"], "squeue: error: Invalid job format specification: foo\n", 0),
        (&["-S", "foo"], "squeue: error: Invalid sort specification: o\n", 1),
    ] {
        let report = squeue_with(line, &queue(), &shown());
        assert_eq!((report.stderr.as_str(), report.status), (stderr, status), "{line:?}");
    }
}

#[test]
fn long_arrays_are_cut() {
    let tasks: IndexSet = (0..=100).map(|i| i * 3).chain([500]).collect();
    let long = job(70_334, ("alice", 7001), |j, _| {
        j.array = Some(ArrayRole::Waiting { tasks });
        j.array_shape = Some(ArrayShape { count: 102, min: 0, max: 500, step: 1, max_running: Some(7) });
    });
    let views = [view(long, &[], Reason::Resources)];
    let report = squeue_with(&["-h", "-o", "%i %K"], &views, &shown());
    assert_eq!(
        report.stdout,
        "70334_[0,3,6,9,12,15,18,21,24,2 0,3,6,9,12,15,18,21,24,27,30,33,36,39,42,45,48,51,54,57,60,6...%7\n"
    );
    let limited = Shown { bitstr_len: Some("10".to_owned()), ..shown() };
    assert_eq!(squeue_with(&["-h", "-o", "%i"], &views, &limited).stdout, "70334_[0,3,6,...%7]\n");
}

#[test]
fn a_job_is_shown_as_a_block() {
    let block = job_block::show(&queue()[0], Detail { details: true, one_line: false }, &shown());
    assert_eq!(
        block,
        "JobId=70539 JobName=run1
   UserId=alice(7001) GroupId=alice(7001) MCS_label=N/A
   Priority=3160 Nice=0 Account=physics QOS=normal
   JobState=RUNNING Reason=None Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0
   DerivedExitCode=0:0
   RunTime=00:00:04 TimeLimit=00:20:00 TimeMin=N/A
   SubmitTime=2026-12-01T05:35:39 EligibleTime=2026-12-01T05:35:39
   AccrueTime=2026-12-01T05:35:39
   StartTime=2026-12-01T05:35:39 EndTime=2026-12-01T05:55:39 Deadline=N/A
   PreemptEligibleTime=2026-12-01T05:35:39 PreemptTime=None
   SuspendTime=None SecsPreSuspend=0 LastSchedEval=2026-12-01T05:35:39 Scheduler=Main
   Partition=debug AllocNode:Sid=localhost:6772
   ReqNodeList=(null) ExcNodeList=(null)
   NodeList=n[1-2]
   BatchHost=n1
   NumNodes=2 NumCPUs=2 NumTasks=2 CPUs/Task=1 ReqB:S:C:T=0:0:*:*
   ReqTRES=cpu=2,mem=400M,node=2,billing=2,gres/gpu=2
   AllocTRES=cpu=2,mem=400M,node=2,billing=2,gres/gpu=2
   Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*
   JOB_GRES=gpu:a100:2
     Nodes=n[1-2] CPU_IDs=4 Mem=200 GRES=gpu:a100:1(IDX:0)
   MinCPUsNode=1 MinMemoryCPU=200M MinTmpDiskNode=0
   Features=a100 DelayBoot=00:00:00
   OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null)
   Command=(null)
   WorkDir=/tmp
   StdErr=/tmp/slurm-70539.out
   StdIn=/dev/null
   StdOut=/tmp/slurm-70539.out
   TresPerNode=gres/gpu:1
   

"
    );
}

#[test]
fn a_waiting_job_and_one_line() {
    let held = job(70_373, ("alice", 7001), |j, s| {
        s.name = "hold1".to_owned();
        s.hold = true;
        s.comment = Some("cc".to_owned());
        j.hold = Hold::User;
        j.priority = 0;
        j.eligible = None;
        j.time_limit = TimeLimit::Seconds(1800);
    });
    let v = view(held, &[], Reason::HeldUser);
    let block = job_block::show(&v, Detail::default(), &shown());
    let want = "JobId=70373 JobName=hold1
   UserId=alice(7001) GroupId=alice(7001) MCS_label=N/A
   Priority=0 Nice=0 Account=physics QOS=normal
   JobState=PENDING Reason=JobHeldUser Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0
   RunTime=00:00:00 TimeLimit=00:30:00 TimeMin=N/A
   SubmitTime=2026-12-01T05:35:39 EligibleTime=Unknown
   AccrueTime=Unknown
   StartTime=Unknown EndTime=Unknown Deadline=N/A
   SuspendTime=None SecsPreSuspend=0 LastSchedEval=2026-12-01T05:35:39 Scheduler=Main
   Partition=debug AllocNode:Sid=localhost:6772
   ReqNodeList=(null) ExcNodeList=(null)
   NodeList=
   NumNodes=1-1 NumCPUs=1 NumTasks=1 CPUs/Task=1 ReqB:S:C:T=0:0:*:*
   ReqTRES=cpu=1,mem=200M,node=1,billing=1
   AllocTRES=(null)
   Socks/Node=* NtasksPerN:B:S:C=0:0:*:* CoreSpec=*
   MinCPUsNode=1 MinMemoryCPU=200M MinTmpDiskNode=0
   Features=(null) DelayBoot=00:00:00
   OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null)
   Command=(null)
   WorkDir=/tmp
   Comment=cc 
   StdErr=/tmp/slurm-70373.out
   StdIn=/dev/null
   StdOut=/tmp/slurm-70373.out
   

";
    assert_eq!(block, want);
    let line = job_block::show(&v, Detail { one_line: true, details: false }, &shown());
    assert!(line.starts_with("JobId=70373 JobName=hold1 UserId=alice(7001) GroupId"), "{line}");
    assert!(
        line.ends_with("Comment=cc  StdErr=/tmp/slurm-70373.out StdIn=/dev/null StdOut=/tmp/slurm-70373.out \n"),
        "{line}"
    );
}

#[test]
fn arrays_and_ended_jobs_in_blocks() {
    let views = queue();
    let block = |v: &JobView| job_block::show(v, Detail::default(), &shown());
    let waiting = block(&views[1]);
    assert!(
        waiting.starts_with("JobId=70540 ArrayJobId=70540 ArrayTaskId=1-3%1 ArrayTaskThrottle=1 JobName=arr\n"),
        "{waiting}"
    );
    assert!(waiting.contains("StdOut=/tmp/slurm-70540_4294967294.out\n"), "{waiting}");
    let task = block(&views[2]);
    assert!(task.starts_with("JobId=70542 ArrayJobId=70540 ArrayTaskId=0 ArrayTaskThrottle=1 JobName=arr\n"), "{task}");
    assert!(task.contains("StdOut=/tmp/slurm-70540_0.out\n"), "{task}");
    let cancelled = job(70_381, ("alice", 7001), |j, _| {
        j.state = JobState::Cancelled;
        j.eligible = None;
        j.ended = Some(at(3));
    });
    let cancelled = block(&view(cancelled, &[], Reason::HeldUser));
    for line in [
        "JobState=CANCELLED Reason=JobHeldUser",
        "StartTime=2026-12-01T05:35:42 EndTime=2026-12-01T05:35:42 Deadline=N/A",
        "NumNodes=1 NumCPUs=1 NumTasks=N/A CPUs/Task=1",
        "NodeList=\n   NumNodes",
        "AllocTRES=(null)",
    ] {
        assert!(cancelled.contains(line), "{line} in {cancelled}");
    }
}

fn node(id: u32, gres: Option<(&str, u32)>, features: &[&str], weight: u32) -> NodeView {
    let gres = gres.map(|(kind, count)| GresInventory {
        name: "gpu".to_owned(),
        kind: Some(kind.to_owned()),
        count,
        files: Vec::new(),
    });
    let inventory = Inventory {
        cpus: 8,
        boards: 1,
        sockets: 2,
        cores_per_socket: 4,
        threads_per_core: 1,
        memory: MemoryMib(16_000),
        tmp_disk: MemoryMib(10_000),
        gres: gres.into_iter().collect(),
        features: features.iter().map(|f| (*f).to_owned()).collect(),
        weight,
        address: "localhost".to_owned(),
        host_name: "localhost".to_owned(),
        os: "Linux 6.18.44 #1 SMP".to_owned(),
        arch: "x86_64".to_owned(),
        version: "24.11.5".to_owned(),
        boot_time: at(0),
        daemon_start: at(0),
        stated: true,
    };
    let node = Node {
        id: NodeId(id),
        name: format!("n{id}"),
        inventory: Shared::new(inventory),
        liveness: Liveness::Up,
        down: None,
        drain: None,
        since: at(0),
        last_busy: None,
        silent: false,
        comment: String::new(),
        extra: String::new(),
        failing: false,
        stated: None,
        available_features: None,
        taken: Taken::default(),
    };
    NodeView {
        node,
        cpus_taken: 0,
        memory_taken: MemoryMib(0),
        gres_taken: Vec::new(),
        jobs: 0,
        completing: 0,
        partitions: vec!["debug".to_owned(), "long".to_owned(), "held".to_owned()],
        last_contact: Some(at(4)),
        load_hundredths: Some(443),
        memory_unused: Some(MemoryMib(13_898)),
        cpu_numbers_taken: IndexSet::new(),
        planned: false,
        reservation: None,
        maint: false,
    }
}

/// n1-n3 partly used, n4 drained, n5 full, n6 planned, n7 lost.
fn nodes() -> Vec<NodeView> {
    let mut all = vec![
        node(1, Some(("a100", 4)), &["a100", "gpu", "ib"], 20),
        node(2, Some(("a100", 4)), &["a100", "gpu", "ib"], 20),
        node(3, Some(("v100", 2)), &["v100", "gpu"], 15),
        node(4, Some(("v100", 2)), &["v100", "gpu"], 15),
        node(5, None, &["cpu", "avx512"], 10),
        node(6, None, &["cpu", "avx512"], 10),
        node(7, None, &["cpu"], 10),
    ];
    for n in &mut all[..3] {
        (n.cpus_taken, n.memory_taken) = (1, MemoryMib(200));
    }
    all[0].gres_taken =
        vec![GresAlloc { name: "gpu".to_owned(), kind: Some("a100".to_owned()), indexes: [0].into_iter().collect() }];
    all[3].node.drain = Some(Mark { reason: "bad dimm".to_owned(), uid: 0, since: at(1) });
    (all[4].cpus_taken, all[4].memory_taken) = (8, MemoryMib(1_600));
    all[6].node.liveness = Liveness::Down;
    all[6].last_contact = None;
    all
}

fn partition(name: &str, range: std::ops::RangeInclusive<u32>, change: impl FnOnce(&mut Partition)) -> PartitionView {
    let mut p = Partition::all_nodes(name);
    p.is_default = false;
    change(&mut p);
    let nodes: Vec<String> = range.map(|n| format!("n{n}")).collect();
    let count = nodes.len() as u64;
    PartitionView { partition: p, nodes, cpus: count * 8, memory: MemoryMib(count * 16_000) }
}

fn partitions() -> Vec<PartitionView> {
    vec![
        partition("debug", 1..=6, |p| {
            p.is_default = true;
            p.max_time = TimeLimit::Seconds(3_600);
            p.default_time = Some(TimeLimit::Seconds(600));
            p.priority_job_factor = Some(10);
        }),
        partition("long", 1..=7, |p| {
            p.max_time = TimeLimit::Seconds(7 * 86_400);
            p.default_time = Some(TimeLimit::Seconds(3_600));
        }),
        partition("held", 1..=6, |p| p.state = PartitionState::Down),
        partition("drained", 6..=6, |p| p.state = PartitionState::Drain),
        partition("inact", 6..=6, |p| p.state = PartitionState::Inactive),
        partition("priv", 5..=6, |p| (p.min_nodes, p.max_nodes) = (Some(1), Some(1))),
        partition("rootonly", 6..=6, |p| p.root_only = true),
    ]
}

fn sinfo_with(line: &[&str]) -> Report {
    let args: Vec<String> = line.iter().map(|a| (*a).to_owned()).collect();
    let context = Context { now_s: 0, zone: &TimeZone::UTC, is_root: false };
    let options = option::sinfo::parse(&args, &|_| None, &context).unwrap();
    let planned: BTreeSet<String> = (1..=6).map(|n| format!("n{n}")).collect();
    let (partitions, nodes) = (partitions(), nodes());
    sinfo::report(Cluster { partitions: &partitions, nodes: &nodes, planned: &planned }, &options, &shown())
}

#[test]
fn sinfo_prints_its_default_columns() {
    assert_eq!(
        sinfo_with(&[]).stdout,
        "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST
debug*       up    1:00:00      1  drain n4
debug*       up    1:00:00      3   mix- n[1-3]
debug*       up    1:00:00      1  alloc n5
debug*       up    1:00:00      1   plnd n6
long         up 7-00:00:00      1  drain n4
long         up 7-00:00:00      3   mix- n[1-3]
long         up 7-00:00:00      1  alloc n5
long         up 7-00:00:00      1   plnd n6
long         up 7-00:00:00      1  down* n7
held       down   infinite      1  drain n4
held       down   infinite      3   mix- n[1-3]
held       down   infinite      1  alloc n5
held       down   infinite      1   plnd n6
drained   drain   infinite      1   plnd n6
inact     inact   infinite      1   plnd n6
priv         up   infinite      1  alloc n5
priv         up   infinite      1   plnd n6
rootonly     up   infinite      1   plnd n6
"
    );
}

#[test]
fn sinfo_prints_what_is_asked_for() {
    for (line, want) in [
        (
            &["-s"][..],
            "PARTITION AVAIL  TIMELIMIT   NODES(A/I/O/T) NODELIST
debug*       up    1:00:00          4/1/1/6 n[1-6]
long         up 7-00:00:00          4/1/2/7 n[1-7]
held       down   infinite          4/1/1/6 n[1-6]
drained   drain   infinite          0/1/0/1 n6
inact     inact   infinite          0/1/0/1 n6
priv         up   infinite          1/1/0/2 n[5-6]
rootonly     up   infinite          0/1/0/1 n6
",
        ),
        (
            &["-R"],
            "REASON               USER      TIMESTAMP           NODELIST
bad dimm             root      2026-12-01T05:35:40 n4
Not responding       root      2026-12-01T05:35:39 n7
",
        ),
        (
            &["-l", "-p", "debug"],
            "Tue Dec 01 05:35:43 2026
PARTITION AVAIL  TIMELIMIT   JOB_SIZE ROOT OVERSUBS     GROUPS  NODES       STATE RESERVATION NODELIST
debug*       up    1:00:00 1-infinite   no       NO        all      1     drained             n4
debug*       up    1:00:00 1-infinite   no       NO        all      3      mixed-             n[1-3]
debug*       up    1:00:00 1-infinite   no       NO        all      1   allocated             n5
debug*       up    1:00:00 1-infinite   no       NO        all      1     planned             n6
",
        ),
        (
            &["-N", "-n", "n[1,7]"],
            "NODELIST   NODES PARTITION STATE 
n1             1    debug* mix-  
n1             1      long mix-  
n1             1      held mix-  
n7             1      long down* 
",
        ),
        (
            &["-N", "-l", "-n", "n1", "-p", "debug"],
            "Tue Dec 01 05:35:43 2026
NODELIST   NODES PARTITION       STATE CPUS    S:C:T MEMORY TMP_DISK WEIGHT AVAIL_FE REASON              
n1             1    debug*      mixed- 8       2:4:1  16000    10000     20 a100,gpu none                
",
        ),
        (&["-p", "nope"], "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\n"),
        (
            &["-n", "n1"],
            "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST
debug*       up    1:00:00      1   mix- n1
long         up 7-00:00:00      1   mix- n1
held       down   infinite      1   mix- n1
drained   drain   infinite      0    n/a 
inact     inact   infinite      0    n/a 
priv         up   infinite      0    n/a 
rootonly     up   infinite      0    n/a 
",
        ),
        (&["-t", "down,drain", "-h", "-o", "%N"], "n[4,7]\n"),
        (
            &["-t", "drain&idle", "-h", "-p", "debug,priv"],
            "debug*       up    1:00:00      1  drain n4\npriv         up   infinite      0    n/a \n",
        ),
        (&["-h", "-o", "%D"], "7\n"),
        (&["-h", "-o", "%w"], "10+\n"),
        (&["-h", "-e", "-o", "%D %w"], "2 20\n2 15\n3 10\n"),
        (&["-h", "-o", "%F %C %A"], "4/1/2/7 11/29/16/56 4/1\n"),
        (&["-h", "-o", "%G"], "gpu:a100:4\ngpu:v100:2\n(null)\n"),
        (&["-h", "-o", "%L"], "10:00\n1:00:00\nn/a\n"),
        (&["-h", "-o", "%z %X %Y %Z %c %m %d"], "2:4:1 2 4 1 8 16000 10000\n"),
        (&["-h", "-o", "%T"], "drained\nmixed-\nallocated\nplanned\ndown*\n"),
        (
            &["-h", "-O", "nodelist:10,statecomplete:30"],
            "n4        idle+drain+planned            
n[1-3]    mixed+planned                 
n5        allocated+planned             
n6        idle+planned                  
n7        down+not_responding           
",
        ),
        (
            &["-h", "-n", "n[1-2]", "-p", "debug", "-O", "nodelist:10,gresused:30"],
            "n1        gpu:a100:1(IDX:0)             \nn2        gpu:a100:0(IDX:N/A)           \n",
        ),
        (&["-O", "nodelist:|,statelong:|", "-n", "n5,n7"], "NODELIST|STATE|\nn5|allocated|\nn7|down*|\n"),
    ] {
        let report = sinfo_with(line);
        assert_eq!((report.stdout.as_str(), report.stderr.as_str()), (want, ""), "{line:?}");
    }
    let bad = sinfo_with(&["-o", "%q"]);
    assert_eq!((bad.stdout.as_str(), bad.stderr.as_str()), ("%q\n%q\n", "Invalid node format specification: q\n"));
}

#[test]
fn nodes_and_partitions_are_shown_as_blocks() {
    let planned = BTreeSet::new();
    let all = nodes();
    assert_eq!(
        node_block::show(&all[0], &planned, Detail::default(), &shown()),
        "NodeName=n1 Arch=x86_64 CoresPerSocket=4 
   CPUAlloc=1 CPUEfctv=8 CPUTot=8 CPULoad=4.43
   AvailableFeatures=a100,gpu,ib
   ActiveFeatures=a100,gpu,ib
   Gres=gpu:a100:4
   NodeAddr=localhost NodeHostName=localhost Port=0 Version=24.11.5
   OS=Linux 6.18.44 #1 SMP 
   RealMemory=16000 AllocMem=200 FreeMem=13898 Sockets=2 Boards=1
   State=MIXED ThreadsPerCore=1 TmpDisk=10000 Weight=20 Owner=N/A MCS_label=N/A
   Partitions=debug,long,held 
   BootTime=2026-12-01T05:35:39 SlurmdStartTime=2026-12-01T05:35:39
   LastBusyTime=2026-12-01T05:35:39 ResumeAfterTime=None
   CfgTRES=cpu=8,mem=16000M,billing=8,gres/gpu=4
   AllocTRES=cpu=1,mem=200M,gres/gpu=1
   CurrentWatts=0 AveWatts=0
   

"
    );
    let drained = node_block::show(&all[3], &planned, Detail::default(), &shown());
    assert!(
        drained.ends_with("   CurrentWatts=0 AveWatts=0\n   \n   Reason=bad dimm [root@2026-12-01T05:35:40]\n\n"),
        "{drained}"
    );
    let line = node_block::show(&all[0], &planned, Detail { one_line: true, details: false }, &shown());
    assert!(line.starts_with("NodeName=n1 Arch=x86_64 CoresPerSocket=4  CPUAlloc=1 "), "{line}");
    assert!(line.ends_with(" CurrentWatts=0 AveWatts=0 \n"), "{line}");
    assert_eq!(
        partition_block::show(&partitions()[0], &all, Detail::default()),
        "PartitionName=debug
   AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL
   AllocNodes=ALL Default=YES QoS=N/A
   DefaultTime=00:10:00 DisableRootJobs=NO ExclusiveUser=NO ExclusiveTopo=NO GraceTime=0 Hidden=NO
   MaxNodes=UNLIMITED MaxTime=01:00:00 MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED MaxCPUsPerSocket=UNLIMITED
   Nodes=n[1-6]
   PriorityJobFactor=10 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO
   OverTimeLimit=NONE PreemptMode=OFF
   State=UP TotalCPUs=48 TotalNodes=6 SelectTypeParameters=NONE
   JobDefaults=(null)
   DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED
   TRES=cpu=48,mem=96000M,node=6,billing=48,gres/gpu=12

"
    );
}

#[test]
fn the_configuration_has_what_scripts_read() {
    let view = ClusterView {
        settings: Settings { cluster_name: "ref".to_owned(), ..Settings::default() },
        version: "0.1.0".to_owned(),
        host: "vm".to_owned(),
        started: at(0),
        next_job: 7,
        now: at(4),
        more: vec![("GresTypes".to_owned(), "gpu".to_owned())],
        licenses: Vec::new(),
    };
    let text = config::show(&view, &shown());
    for line in [
        "Configuration data as of 2026-12-01T05:35:43\n",
        "\nMinJobAge               = 300 sec\n",
        "\nMaxArraySize            = 1000001\n",
        "\nProctrackType           = proctrack/cgroup\n",
        "\nGresTypes               = gpu\n",
        "\n\nSlurmctld(primary) at vm is UP\n",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

/// The bound is generous: a debug build on a busy machine. Release figures stand in the documentation.
#[test]
fn ten_thousand_jobs_are_printed_without_squares() {
    let views: Vec<JobView> =
        (1..=10_000).map(|i| view(job(i, ("alice", 7001), |_, _| ()), &[], Reason::Priority)).collect();
    let report = squeue_with(&["-h"], &views, &shown());
    assert_eq!(report.stdout.lines().count(), 10_000);
}

#[test]
fn an_active_reservation_shows_in_its_node() {
    let planned = BTreeSet::new();
    for (maint, drained, state, end) in [
        (false, false, "State=IDLE+RESERVED ", "AveWatts=0\n   \n   ReservationName=fix\n\n"),
        (true, false, "State=IDLE+MAINTENANCE+RESERVED ", "AveWatts=0\n   \n   ReservationName=fix\n\n"),
        (
            true,
            true,
            "State=IDLE+DRAIN+MAINTENANCE+RESERVED ",
            "   \n   Reason=x [root@2026-12-01T05:35:40]\n   ReservationName=fix\n\n",
        ),
    ] {
        let mut view = node(6, None, &["cpu"], 10);
        (view.reservation, view.maint) = (Some("fix".to_owned()), maint);
        view.node.drain = drained.then(|| Mark { reason: "x".to_owned(), uid: 0, since: at(1) });
        let block = node_block::show(&view, &planned, Detail::default(), &shown());
        assert!(block.contains(state), "{block}");
        assert!(block.ends_with(end), "{block}");
    }
}
