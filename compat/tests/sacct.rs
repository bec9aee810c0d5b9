//! `sacct` as Slurm 24.11 printed it, on records like those of the recorded cluster.
#![allow(missing_docs)]
#![expect(clippy::unwrap_used, reason = "a test helper may fail its test")]

use gpun_compat::format::Shown;
use gpun_compat::format::sacct::{Listing, list};
use gpun_compat::format::sacct_json::{Document, Meta};
use gpun_compat::moment::Style;
use gpun_compat::option::{self, Context, sacct::List};
use gpun_core::history::{AttemptEnd, Record, StepId, StepRecord};
use gpun_core::job::{
    ArrayRole, ArrayShape, ExitStatus, GresAlloc, Hold, Job, JobState, NodeAlloc, Owner, Reason, Run, Usage,
};
use gpun_core::spec::{GresRequest, JobSpec};
use gpun_core::view::JobView;
use gpun_core::{Attempt, Digest, JobId, MemoryMib, NodeId, Shared, TimeLimit, TimeMs};
use jiff::tz::TimeZone;

/// 2026-12-01T03:50:56Z.
const SUBMITTED_S: u64 = 1_796_097_056;

fn at(offset_s: u64) -> TimeMs {
    TimeMs((SUBMITTED_S + offset_s) * 1000)
}

fn waiting(id: u32, change: impl FnOnce(&mut Job, &mut JobSpec)) -> Record {
    let owner = Owner { uid: 7001, gid: 7001, user: "alice".into(), group: "alice".into(), ..Owner::default() };
    let mut spec = JobSpec { account: Some("physics".into()), work_dir: "/w".into(), ..JobSpec::default() };
    let mut job = Job {
        id: JobId(id),
        spec: Shared::default(),
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
        dependency: None,
        het: None,
        suspension: None,
        charge: None,
    };
    change(&mut job, &mut spec);
    job.spec = Shared::new(spec);
    let allocs = job.run.as_ref().map_or(0, |run| run.allocs.len());
    let view = JobView {
        job: Shared::new(job),
        nodes: (0..allocs).map(|node| format!("n{}", node + 1)).collect(),
        reason: Reason::None,
        start_estimate: None,
        planned_nodes: Vec::new(),
        partitions: vec!["debug".into()],
        last_evaluated: None,
        memory_per_node: MemoryMib(200),
    };
    Record { view, end: AttemptEnd::WithJob, steps: Vec::new() }
}

fn alloc(node: u32, cpus: u32) -> NodeAlloc {
    NodeAlloc {
        node: NodeId(node),
        cpus: (0..cpus).collect(),
        memory: MemoryMib(200 * u64::from(cpus)),
        tasks: cpus,
        gres: Vec::new(),
    }
}

fn run(allocs: Vec<NodeAlloc>) -> Run {
    Run {
        partition: "debug".into(),
        allocs,
        placed: at(1),
        launched: Some(at(1)),
        released: false,
        usage: Usage::default(),
    }
}

/// One that ran on a CPU from the first second on and ended a second later.
fn ended(id: u32, state: JobState, exit: (u8, u8)) -> Record {
    waiting(id, |job, spec| {
        spec.name = "job".into();
        (job.state, job.run, job.ended) = (state, Some(run(vec![alloc(0, 1)])), Some(at(2)));
        job.exit = ExitStatus { code: exit.0, signal: exit.1 };
        job.cancelled_by = (state == JobState::Cancelled).then_some(7001);
    })
}

fn running() -> Record {
    waiting(70657, |job, spec| {
        (spec.name, spec.nodes_min, spec.ntasks) = ("run1".into(), Some(2), Some(2));
        spec.gres = vec![GresRequest { name: "gpu".into(), kind: None, count: 1, bare: false }];
        let gpu = || GresAlloc { name: "gpu".into(), kind: Some("a100".into()), indexes: [0].into_iter().collect() };
        let one = |node| NodeAlloc { gres: vec![gpu()], ..alloc(node, 1) };
        (job.state, job.run) = (JobState::Running, Some(run(vec![one(0), one(1)])));
        job.time_limit = TimeLimit::Seconds(1200);
    })
}

fn with_step() -> Record {
    let mut record = waiting(70658, |job, spec| {
        (spec.name, spec.ntasks) = ("fin".into(), Some(2));
        let usage = Usage { max_rss_kib: 8192, user_ms: 10, system_ms: 7 };
        let ran = Run { usage, ..run(vec![alloc(0, 2)]) };
        (job.state, job.run, job.ended) = (JobState::Completed, Some(ran), Some(at(3)));
    });
    record.steps.push(StepRecord {
        id: StepId::Number(0),
        name: "s1".into(),
        state: JobState::Failed,
        exit: ExitStatus { code: 2, signal: 0 },
        started: at(1),
        ended: Some(at(2)),
        nodes: vec!["n1".into()],
        cpus: 2,
        tasks: 2,
        memory: MemoryMib(400),
        gres: Vec::new(),
        usage: Usage { max_rss_kib: 100, user_ms: 2, system_ms: 1 },
        submit_line: Some("srun -J s1 false".into()),
        cancelled_by: None,
    });
    record
}

fn array() -> Record {
    waiting(70661, |job, spec| {
        spec.name = "arr".into();
        job.array = Some(ArrayRole::Waiting { tasks: (1..=3).collect() });
        job.array_shape = Some(ArrayShape { count: 3, min: 1, max: 3, step: 1, max_running: Some(2) });
    })
}

fn task() -> Record {
    let mut record = ended(70665, JobState::Failed, (1, 0));
    record.view.job.make_mut().array = Some(ArrayRole::Task { array: JobId(70661), task: 2 });
    record
}

fn printed(line: &str, records: &[Record]) -> Result<String, String> {
    let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let now_s = SUBMITTED_S as i64 + 6;
    let context = Context { now_s, zone: &TimeZone::UTC, is_root: false };
    let options = option::sacct::parse(&args, &|_| None, &context).map_err(|error| error.text)?;
    let shown = shown(now_s, options.noconvert);
    let window = options.window(now_s, now_s - 10_000).unwrap();
    let mut listing = Listing::new(&options, window)?;
    records.iter().for_each(|record| listing.add(record, &shown));
    Ok(listing.take())
}

fn shown(now_s: i64, noconvert: bool) -> Shown<'static> {
    static UTC: TimeZone = TimeZone::UTC;
    Shown {
        now_s,
        zone: &UTC,
        style: Style::Standard,
        cluster: "ref",
        user_name: &|_| None,
        def_mem_per_cpu_mib: Some(200),
        bitstr_len: None,
        noconvert,
    }
}

#[test]
fn the_usual_columns() {
    let killed = ended(70660, JobState::Failed, (0, 9));
    let cancelled = ended(70664, JobState::Cancelled, (0, 15));
    let got = printed("", &[running(), with_step(), killed, cancelled, task(), array()]).unwrap();
    let want = "\
JobID           JobName  Partition    Account  AllocCPUS      State ExitCode 
------------ ---------- ---------- ---------- ---------- ---------- -------- 
70657              run1      debug    physics          2    RUNNING      0:0 
70657.batch       batch               physics          1    RUNNING      0:0 
70658               fin      debug    physics          2  COMPLETED      0:0 
70658.batch       batch               physics          2  COMPLETED      0:0 
70658.0              s1               physics          2     FAILED      2:0 
70660               job      debug    physics          1     FAILED      0:9 
70660.batch       batch               physics          1  CANCELLED      0:9 
70664               job      debug    physics          1 CANCELLED+      0:0 
70664.batch       batch               physics          1  CANCELLED     0:15 
70661_2             job      debug    physics          1     FAILED      1:0 
70661_2.bat+      batch               physics          1     FAILED      1:0 
70661_[1-3%+        arr      debug    physics          0    PENDING      0:0 
";
    assert_eq!(got, want);
}

#[test]
fn fields_have_their_values() {
    let held = waiting(70662, |job, _| (job.eligible, job.hold, job.priority) = (None, Hold::User, 0));
    let never = waiting(70663, |job, _| {
        (job.state, job.ended, job.cancelled_by, job.eligible) = (JobState::Cancelled, Some(at(0)), Some(7001), None);
    });
    let timeout = ended(70670, JobState::Timeout, (0, 15));
    let requeued = Record { end: AttemptEnd::Requeued, ..ended(70671, JobState::Running, (0, 15)) };
    let lost = Record { end: AttemptEnd::NodeFail, ..ended(70672, JobState::Running, (0, 0)) };
    // fields → record → its lines
    for (fields, record, want) in [
        ("state,start,end,nodelist,alloccpus,ncpus", held.clone(), "PENDING|Unknown|Unknown|None assigned|0|0"),
        ("eligible,planned,elapsed,priority,reason", held, "Unknown|00:00:00|00:00:00|0|None"),
        ("state,start,elapsed,nnodes", never.clone(), "CANCELLED by 7001|None|00:00:00|1"),
        ("end,flags,restarts", never, "2026-12-01T03:50:56|StartReceived|0"),
        ("state,exitcode", timeout, "TIMEOUT|0:0\nCANCELLED|0:15"),
        ("state,exitcode", requeued, "REQUEUED|0:0\nCANCELLED|0:15"),
        ("state", lost, "NODE_FAIL\nNODE_FAIL"),
        ("reqtres", running(), "billing=2,cpu=2,gres/gpu=2,mem=400M,node=2\n"),
        ("alloctres", running(), "billing=2,cpu=2,gres/gpu=2,mem=400M,node=2\ncpu=1,gres/gpu=1,mem=200M,node=1"),
        ("elapsed,cputime,cputimeraw,nodelist", running(), "00:00:05|00:00:10|10|n[1-2]\n00:00:05|00:00:05|5|n1"),
        ("timelimit,timelimitraw,planned", running(), "00:20:00|20|00:00:01\n||"),
        ("jobid,jobidraw", task(), "70661_2|70665\n70661_2.batch|70665.batch"),
        ("jobid,ntasks,derivedexitcode", with_step(), "70658||2:0\n70658.batch|1|\n70658.0|2|"),
        ("totalcpu,maxrss,submitline", with_step(), "00:00.020||\n00:00.017|8192K|\n00:00.003|100K|srun -J s1 false"),
        ("reqcpus,reqnodes,reqmem", with_step(), "2|1|400M\n2|1|\n2|1|"),
        ("stdout,stderr,stdin,workdir", task(), "/w/slurm-%A_%a.out||/dev/null|/w\n|||"),
        ("user,uid,group,gid,cluster", task(), "alice|7001|alice|7001|ref\n||||ref"),
    ] {
        let got = printed(&format!("-P -n -o {fields}"), &[record]).unwrap();
        assert_eq!(got.strip_suffix('\n'), Some(want), "{fields}");
    }
}

#[test]
fn formats_are_read() {
    let one = [ended(17, JobState::Completed, (0, 0))];
    for (line, want) in [
        ("-X -n -o jobid%5,state%-12,jobname%2", "   17 COMPLETED    j+ \n"),
        ("-X -n -o jobid%-5,state%,st", "17     2026-12-01T03:50:57 \n"),
        ("-X -o jobid,ReservationId", "JobID        Reservat \n------------ -------- \n17                    \n"),
        ("-X -p -o jobid,state", "JobID|State|\n17|COMPLETED|\n"),
        ("-X -P -o jobid,state --delimiter=xy", "JobIDxyState\n17xyCOMPLETED\n"),
        ("-n -P -o jobid -j 17.batch", "17.batch\n"),
        ("-n -P -o jobid -j 17", "17\n17.batch\n"),
        ("-n -P -o jobid -j 18", ""),
        ("-b -n -X", "17            COMPLETED      0:0 \n"),
        ("-X -n -P -o reqmem --units=G", "0.20G\n"),
        (
            "-X -n -P -T -S 03:50:57 -E 03:50:58 -o start,end,elapsed",
            "2026-12-01T03:50:57|2026-12-01T03:50:58|00:00:01\n",
        ),
    ] {
        assert_eq!(printed(line, &one), Ok(want.to_owned()), "{line}");
    }
    assert_eq!(printed("-o foo", &one), Err("Invalid field requested: \"foo\"".to_owned()));
    let all = printed("-X -P -o all", &one).unwrap();
    assert_eq!(all.lines().next().unwrap().split('|').count(), 118);
    let tasks = printed("-X -n -P -o jobid --array", &[array()]).unwrap();
    assert_eq!(tasks, "70661_1\n70661_2\n70661_3\n");
    let steps_of_waiting = printed("-n -P -o jobid -s PD", &one).unwrap();
    assert_eq!(steps_of_waiting, "17\n");
}

#[test]
fn the_fields_are_listed_as_slurm_lists_them() {
    let fields = list(List::Fields).stdout;
    let first = "Account             AdminComment        AllocCPUS           AllocNodes         \n";
    assert!(fields.starts_with(first) && fields.ends_with("WCKeyID             WorkDir            \n"), "{fields}");
    assert!(list(List::Reasons).stdout.starts_with("None                                    Priority"));
    assert!(list(List::States).stdout.starts_with("PENDING             RUNNING"));
}

#[test]
fn a_document_has_what_clients_read() {
    let mut document = Document::default();
    let cancelled = ended(70664, JobState::Cancelled, (0, 15));
    [task(), cancelled, array()].iter().for_each(|record| document.add(record, &shown(SUBMITTED_S as i64 + 6, false)));
    let meta = Meta { command: vec!["sacct".into(), "--json".into()], version: "24.11.5".into(), ..Meta::default() };
    let text = document.finish(&meta);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    for (at, want) in [
        ("/jobs/0/job_id", "70665"),
        ("/jobs/0/state/current", "[\"FAILED\"]"),
        ("/jobs/0/array/job_id", "70661"),
        ("/jobs/0/array/task_id/number", "2"),
        ("/jobs/0/exit_code/status", "[\"ERROR\"]"),
        ("/jobs/0/exit_code/return_code", "{\"infinite\":false,\"number\":1,\"set\":true}"),
        ("/jobs/0/steps/0/step/id", "\"70665.batch\""),
        ("/jobs/0/steps/0/nodes/list", "[\"n1\"]"),
        ("/jobs/0/time/limit/number", "10"),
        ("/jobs/0/required/memory_per_cpu/number", "200"),
        ("/jobs/0/stdout_expanded", "\"/w/slurm-70661_2.out\""),
        ("/jobs/0/tres/allocated/1", "{\"count\":200,\"id\":2,\"name\":\"\",\"type\":\"mem\"}"),
        ("/jobs/1/state/current", "[\"CANCELLED\"]"),
        ("/jobs/1/exit_code/status", "[\"SUCCESS\"]"),
        ("/jobs/1/steps/0/exit_code/signal/name", "\"TERM\""),
        ("/jobs/1/kill_request_user", "\"7001\""),
        ("/jobs/2/array/task", "\"1-3\""),
        ("/jobs/2/nodes", "\"None assigned\""),
        ("/jobs/2/steps", "[]"),
        ("/meta/slurm/version/minor", "\"11\""),
    ] {
        assert_eq!(value.pointer(at).map(ToString::to_string).as_deref(), Some(want), "{at}");
    }
}
