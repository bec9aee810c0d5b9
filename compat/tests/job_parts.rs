//! What jobs wait for, ask for and belong to, as Slurm 24.11 printed it.
#![allow(missing_docs)]
#![expect(clippy::unwrap_used, reason = "a test helper may fail its test")]

use gpun_compat::format::Shown;
use gpun_compat::format::job_block::{self, Detail};
use gpun_compat::format::squeue::{self, Caller};
use gpun_compat::moment::Style;
use gpun_compat::option::sbatch::{Line, resolve};
use gpun_compat::option::{self, Context};
use gpun_core::job::{
    EndCause, EndOrder, ExitStatus, HetRole, Hold, Job, JobState, NodeAlloc, Owner, Reason, Run, Suspension, Usage,
};
use gpun_core::spec::JobSpec;
use gpun_core::view::JobView;
use gpun_core::{Attempt, Digest, JobId, MemoryMib, NodeId, Shared, TimeLimit, TimeMs};
use jiff::tz::TimeZone;

static UTC: TimeZone = TimeZone::UTC;
const START_S: u64 = 1_796_103_339;

fn at(offset_s: u64) -> TimeMs {
    TimeMs((START_S + offset_s) * 1000)
}

fn shown() -> Shown<'static> {
    Shown {
        now_s: (START_S + 100) as i64,
        zone: &UTC,
        style: Style::Standard,
        cluster: "ref",
        user_name: &|_| None,
        def_mem_per_cpu_mib: Some(200),
        bitstr_len: None,
        noconvert: false,
    }
}

/// What `sbatch` makes of a line.
fn spec(line: &str) -> JobSpec {
    let words: Vec<String> = line.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect();
    let context = Context { now_s: 0, zone: &UTC, is_root: false };
    resolve(&Line::parse(&words).unwrap(), &Default::default(), &|_| None, &context).unwrap().submission.spec
}

fn job(spec: JobSpec) -> Job {
    Job {
        id: JobId(17),
        dependency: spec.dependency.clone().map(Shared::new),
        spec: Shared::new(spec),
        owner: Shared::new(Owner { user: "alice".to_owned(), ..Owner::default() }),
        script: Digest([0; 32]),
        environment: Digest([0; 32]),
        submitted: at(0),
        eligible: Some(at(0)),
        state: JobState::Pending,
        reason: Reason::None,
        reason_text: None,
        hold: Hold::None,
        priority: 1,
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
        het: None,
        suspension: None,
    }
}

fn running() -> Job {
    let alloc =
        NodeAlloc { node: NodeId(5), cpus: [0].into_iter().collect(), memory: MemoryMib(200), tasks: 1, gres: vec![] };
    let run = Run {
        partition: "debug".to_owned(),
        allocs: vec![alloc],
        placed: at(0),
        launched: Some(at(0)),
        released: false,
        usage: Usage::default(),
    };
    Job { state: JobState::Running, attempt: Attempt(1), run: Some(run), ..job(JobSpec::default()) }
}

fn view(job: Job) -> JobView {
    JobView {
        nodes: job.run.iter().map(|_| "n5".to_owned()).collect(),
        reason: job.reason,
        job: Shared::new(job),
        start_estimate: None,
        planned_nodes: Vec::new(),
        partitions: vec!["debug".to_owned()],
        last_evaluated: None,
        memory_per_node: MemoryMib(200),
    }
}

fn block(job: Job) -> String {
    job_block::show(&view(job), Detail::default(), &shown())
}

fn queue(views: &[JobView], line: &[&str]) -> String {
    let args: Vec<String> = line.iter().map(|word| (*word).to_owned()).collect();
    let context = Context { now_s: 0, zone: &UTC, is_root: false };
    let options = option::squeue::parse(&args, &|_| None, &context).unwrap();
    squeue::report(views, &options, Caller { uid: 0, users: &[] }, &shown()).stdout
}

#[track_caller]
fn check(what: &str, block: &str, wanted: &[&str]) {
    for want in wanted {
        assert!(block.contains(want), "{what}: {want} is missing in\n{block}");
    }
}

#[test]
fn requests_are_shown_as_slurm_shows_them() {
    for (line, wanted) in [
        ("-d afterok:7:8_*", &["Dependency=afterok:7(unfulfilled),afterok:8_*(unfulfilled)"][..]),
        ("-d afterok:7?after:8+5", &["Dependency=afterok:7(unfulfilled)?after:8+5(unfulfilled)"]),
        ("--kill-on-invalid-dep=yes", &["\n   KillOInInvalidDependent=Yes"]),
        ("-L matlab:2,ansys", &["Licenses=matlab:2,ansys Network=(null)"]),
        ("--mincpus=4", &["NumCPUs=1 ", "MinCPUsNode=4 "]),
        ("--hint=nomultithread", &["ReqB:S:C:T=0:0:*:1\n"]),
        (
            "-B 2:4:1",
            &["NumCPUs=8 NumTasks=8 CPUs/Task=1 ReqB:S:C:T=0:0:4:1\n", "Socks/Node=2 NtasksPerN:B:S:C=0:0:*:*"],
        ),
        ("--ntasks-per-socket=2 -n4", &["Socks/Node=* NtasksPerN:B:S:C=0:0:2:* CoreSpec=*"]),
        ("--ntasks-per-core=1", &["NtasksPerN:B:S:C=0:0:*:1 CoreSpec=*"]),
        ("--prefer=a100", &["DelayBoot=00:00:00\n   Prefer=a100\n   OverSubscribe"]),
        ("--batch=a -C a", &["\n   BatchFeatures=a\n"]),
        ("--extra=foo", &["\n   Extra=foo \n"]),
        ("--spread-job", &["\n   SpreadJob=Yes"]),
        ("--gres-flags=enforce-binding", &["\n   GresEnforceBind=Yes"]),
        ("--gres=gpu", &["ReqTRES=cpu=1,mem=200M,node=1,billing=1,gres/gpu=1\n", "TresPerNode=gres/gpu\n"]),
        ("-G 2", &["billing=1,gres/gpu=2\n", "\n   TresPerJob=gres/gpu:2\n"]),
        ("-G a100", &["billing=1,gres/gpu=1\n", "\n   TresPerJob=gres/gpu:a100\n"]),
        ("-G 6 -N2", &["ReqTRES=cpu=2,mem=400M,node=2,billing=2,gres/gpu=6\n"]),
        (
            "--gpus=2 --cpus-per-gpu=3",
            &[
                "NumCPUs=6 NumTasks=1",
                "cpu=6,mem=1200M,node=1,billing=6,gres/gpu=2",
                "\n   CpusPerTres=gres/gpu:3\n   TresPerJob=gres/gpu:2\n",
            ],
        ),
        (
            "--mem-per-gpu=300 -G 2",
            &[
                "ReqTRES=cpu=1,mem=600M,node=1",
                "MinMemoryTRES=300M",
                "\n   MemPerTres=gres/gpu:300\n   TresPerJob=gres/gpu:2\n",
            ],
        ),
        (
            "--gpus-per-task=1 -n2",
            &[
                "cpu=2,mem=400M,node=1,billing=2,gres/gpu=2",
                "\n   TresBind=gres/gpu:per_task:1\n   TresPerTask=gres/gpu=1\n",
            ],
        ),
        (
            "--tres-per-task=cpu=2,gres/gpu=1 -n2",
            &["NumCPUs=4 NumTasks=2 CPUs/Task=2", "TresPerTask=cpu=2,gres/gpu=1\n"],
        ),
        (
            "--gpus-per-socket=1 --sockets-per-node=2",
            &["gres/gpu=2\n", "Socks/Node=2 ", "\n   TresPerSocket=gres/gpu:1\n"],
        ),
        ("--ntasks-per-gpu=2 -G2", &["NumCPUs=4 NumTasks=4", "\n   TresPerJob=gres/gpu:2\n   NtasksPerTRES=2\n"]),
        ("--gpu-bind=closest", &["\n   TresBind=gres/gpu:closest\n"]),
    ] {
        check(line, &block(job(spec(line))), wanted);
    }
}

#[test]
fn squeue_has_columns_for_them() {
    let line = "-d afterok:7 -L matlab:2 -B 2:4:1 --prefer=a -G2 --cpus-per-gpu=1 --mem-per-gpu=5 --ntasks-per-core=1";
    let views = [view(job(spec(line)))];
    let format = "-hO";
    let names =
        "dependency:|,licenses:|,sct:|,prefer:|,tres-per-job:|,cpus-per-tres:|,mem-per-tres:|,ntpercore:|,hetjobid:|";
    let fields = queue(&views, &[format, names]);
    let want = "afterok:7(unfulfilled)|matlab:2|2:4:1|a|gres/gpu:2|gres/gpu:1|gres/gpu:5|1|N/A|";
    assert_eq!(fields.trim_end(), want);
    assert_eq!(queue(&views, &["-ho", "%E %W %H %I %J"]), "afterok:7(unfulfilled) matlab:2 2 4 1\n");
    assert_eq!(queue(&views, &["-hL", "matlab", "-o", "%i"]), "17\n");
    assert_eq!(queue(&views, &["-hL", "ansys", "-o", "%i"]), "");
}

#[test]
fn components_are_named_by_their_leader() {
    let component = |offset| Job {
        id: JobId(17 + offset),
        het: Some(HetRole { leader: JobId(17), offset, size: 2 }),
        ..job(JobSpec::default())
    };
    let views = [view(component(0)), view(component(1))];
    check(
        "the second",
        &block(component(1)),
        &["JobId=18 HetJobId=17 HetJobOffset=1 JobName=", "\n   HetJobIdSet=17-18\n"],
    );
    let ids = |line: &[&str]| queue(&views, &[&["-ho", "%i %A"], line].concat());
    assert_eq!(ids(&[]), "17+0 17\n17+1 18\n");
    assert_eq!(ids(&["-j", "17"]), "17+0 17\n17+1 18\n");
    assert_eq!(ids(&["-j", "17+1"]), "17+1 18\n");
    assert_eq!(ids(&["-j", "18"]), "17+1 18\n");
    assert_eq!(ids(&["-j", "17+0"]), "17+0 17\n");
    let het = queue(&views, &["-hO", "hetjobid:|,hetjobidset:|,hetjoboffset:|"]);
    assert_eq!(het.lines().next(), Some("17|17-18|0|"));
}

#[test]
fn time_in_which_a_run_was_stopped_does_not_count() {
    let stopped = |since: bool, total_s: u64| Job {
        state: if since { JobState::Suspended } else { JobState::Running },
        suspension: Some(Suspension {
            since: since.then_some(at(60)),
            total_ms: total_s * 1000,
            changed: at(60),
            ran_s: 20,
        }),
        ..running()
    };
    // 100 seconds after the start: stopped since 60, and for 15 before that.
    let text = block(stopped(true, 15));
    check(
        "suspended",
        &text,
        &["JobState=SUSPENDED", "RunTime=00:00:45 ", "SuspendTime=2026-12-01T05:36:39 SecsPreSuspend=20 "],
    );
    check("resumed", &block(stopped(false, 30)), &["RunTime=00:01:10 ", "EndTime=2026-12-01T05:46:09"]);
    assert_eq!(queue(&[view(stopped(true, 15))], &["-ho", "%t %M %R"]), "S 0:45 n5\n");
}

#[test]
fn a_requeue_under_way_completes() {
    let order = |hold| Some(EndOrder { cause: EndCause::Requeue { hold }, since: at(90) });
    let held = || Job { end_order: order(true), ..running() };
    check(
        "held next",
        &block(held()),
        &["JobState=COMPLETING Reason=job_requeued_in_held_state ", "Restarts=1 ", "RunTime=00:00:00"],
    );
    assert_eq!(queue(&[view(held())], &["-ho", "%t %R"]), "CG n5\n");
    let plain = Job { end_order: order(false), ..running() };
    check("requeued", &block(plain), &["JobState=COMPLETING Reason=None ", "Restarts=1 "]);
    let held_while_running = Job { hold: Hold::User, reason: Reason::HeldUser, eligible: None, ..running() };
    check(
        "held",
        &block(held_while_running),
        &["JobState=RUNNING Reason=JobHeldUser", "AccrueTime=2026-12-01T05:35:39"],
    );
}
