//! Logs that earlier versions wrote are read and replayed for ever (ADR 0002).
//!
//! Each `golden/entries_vN.bin` was written once and stays as it is; what its replay gave stands in `entries_vN.txt`. When
//! commands get new fields or variants, add a file of the next number: change [`entries`], add the name to [`FILES`], delete
//! nothing, and run the tests with `GPUN_WRITE_GOLDEN=1`.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test's way to fail, in its helpers too.

mod build;

use std::{collections::BTreeMap, fmt::Write as _, fs, path::PathBuf};

use build::*;
use gpun_core::{
    Attempt, Command, Entry, IndexSet, JobId, MemoryMib, NodeId, RequestId, State, TimeLimit, TimeMs,
    accounting::{
        AdminLevel, Change, Edit, Fairshare, Limit, PreemptMode, QosChange, QosFlag, QosListChange, Rule, RuleChange,
        Tres, change::Place, limit::LimitEdit,
    },
    command::{
        Act, ENTRY_VERSION, Ended, EndedHow, JobChange, JobEvent, JobRef, JobReport, NodeChange, NodeSettings,
        PartitionChange, Placement, StepEnded,
    },
    dependency::{Condition, Dependency, Kind},
    history::{Forget, RecordKey},
    job::{ExitStatus, GresAlloc, NodeAlloc, SignalScope, Usage},
    layout::Layout,
    mirror::{decode, encode},
    node::{GresInventory, Inventory},
    partition::{MemoryLimit, Partition, PartitionState},
    reservation::{Flag, Reservation, ReservationChange},
    settings::{Enforce, License, Settings},
    spec::{ArrayRequest, GresRequest, JobSpec, LicenseRequest, MemoryRequest, OpenMode, WarnSignal},
    step::{NewStep, StepSpec},
};

/// All recorded logs, the newest last.
const FILES: [&str; 10] = [
    "entries_v1",
    "entries_v2",
    "entries_v3",
    "entries_v4",
    "entries_v5",
    "entries_v6",
    "entries_v7",
    "entries_v8",
    "entries_v9",
    "entries_v10",
];

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// Every command, with every field set somewhere.
fn entries() -> Vec<Entry> {
    let text = |text: &str| Some(text.to_owned());
    let list = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let gpu = GresInventory { name: "gpu".into(), kind: text("a100"), count: 2, files: list(&["/dev/a", "/dev/b"]) };
    let inventory = Inventory {
        cpus: 8,
        boards: 1,
        sockets: 2,
        cores_per_socket: 4,
        threads_per_core: 1,
        memory: MemoryMib(16_000),
        tmp_disk: MemoryMib(10_000),
        gres: vec![gpu],
        features: list(&["ib"]),
        weight: 3,
        address: "10.0.0.1".into(),
        host_name: "host1".into(),
        os: "Linux 6".into(),
        arch: "x86_64".into(),
        version: "0.1.0".into(),
        boot_time: START,
        daemon_start: START.plus_s(1),
        stated: true,
    };
    let full = JobSpec {
        name: "full".into(),
        partitions: list(&["batch", "other"]),
        account: text("lab"),
        qos: text("normal"),
        comment: text("a comment"),
        wckey: text("key"),
        work_dir: "/home/alice".into(),
        std_in: text("/dev/null"),
        std_out: text("out-%j"),
        std_err: text("err-%j"),
        open_mode: Some(OpenMode::Append),
        time_limit: Some(TimeLimit::Seconds(600)),
        time_min: Some(TimeLimit::Seconds(60)),
        begin: Some(START.plus_s(20)),
        deadline: Some(START.plus_s(90_000)),
        nodes_min: Some(1),
        nodes_max: Some(1),
        ntasks: Some(2),
        ntasks_per_node: Some(2),
        cpus_per_task: Some(2),
        memory: MemoryRequest::PerCpu(MemoryMib(100)),
        tmp_disk: Some(MemoryMib(10)),
        gres: vec![GresRequest { name: "gpu".into(), kind: text("a100"), count: 1, bare: false }],
        features: list(&["ib"]),
        node_list: list(&["n1"]),
        exclude: list(&["n2"]),
        nice: 5,
        priority: Some(77),
        requeue: Some(true),
        warn: Some(WarnSignal { signal: 10, before_s: 60, batch_only: true }),
        container_image: text("/images/x"),
        container_mounts: list(&["/data:/data:ro"]),
        container_workdir: text("/work"),
        command: text("/home/alice/run.sh"),
        args: list(&["a", "b"]),
        submit_line: text("sbatch run.sh a b"),
        umask: Some(0o022),
        submit_host: text("login1"),
        submit_sid: Some(4711),
        oversubscribe: Some(false),
        reservation: text("none"),
        features_same: true,
        rlimits: vec![(7, 1024)],
        ..JobSpec::default()
    };
    let array = JobSpec {
        array: Some(ArrayRequest { tasks: [1, 2, 4, 8].into_iter().collect(), max_running: Some(2) }),
        memory: MemoryRequest::PerNode(MemoryMib(50)),
        exclusive: false,
        contiguous: true,
        overcommit: true,
        ..tasks(1)
    };
    let held = JobSpec { hold: true, ..tasks(1) };
    let submit = |number: u8, spec: JobSpec| {
        let mut submit = submission(RequestId([number; 16]), &ALICE, spec);
        submit.owner.groups = vec![1001, 27];
        submit.owner.group = "users".into();
        submit.owner.home = "/home/alice".into();
        Command::Submit(Box::new(submit))
    };
    let act = |act| Command::Act { who: ROOT, act };
    let step = StepSpec {
        name: "solve".into(),
        ntasks: Some(1),
        cpus_per_task: Some(1),
        exact: true,
        overlap: true,
        overcommit: true,
        nodes: Some(1),
        submit_line: text("srun solve"),
    };
    let create_step = |job, id: u8, spec| Command::CreateStep {
        who: ROOT,
        new: Box::new(NewStep { job: JobId(job), request: RequestId([id; 16]), spec, token: digest(id) }),
    };
    let step_ended = StepEnded {
        step: 0,
        at: START.plus_s(61),
        exit: ExitStatus { code: 1, signal: 0 },
        usage: Usage { max_rss_kib: 1, user_ms: 2, system_ms: 3 },
        cancelled: true,
        oom: true,
    };
    let change = JobChange {
        name: text("renamed"),
        time_limit: Some(TimeLimit::Infinite),
        partitions: Some(list(&["batch"])),
        priority: Some(9),
        nice: Some(1),
        comment: text("changed"),
        node_list: Some(Vec::new()),
        exclude: Some(Vec::new()),
        requeue: Some(true),
        begin: Some(START),
        array_max_running: Some(4),
        nodes_min: Some(1),
        nodes_max: Some(2),
        ntasks: Some(1),
        cpus_per_task: Some(1),
        memory_per_node: Some(MemoryMib(10)),
        memory_per_cpu: Some(MemoryMib(10)),
        features: Some(Vec::new()),
        account: text("lab2"),
        qos: text("high"),
        std_out: text("o"),
        std_err: text("e"),
        deadline: Some(START.plus_s(99_000)),
        work_dir: text("/tmp"),
        ..JobChange::default()
    };
    let submit_het = |number: u8| {
        let mut submit = submission(RequestId([number; 16]), &ALICE, tasks(1));
        submit.components = vec![tasks(1)];
        Command::Submit(Box::new(submit))
    };
    let alloc = |first: u32, count: u32, memory: u64| NodeAlloc {
        node: NodeId(1),
        cpus: (first..first + count).collect(),
        memory: MemoryMib(memory),
        tasks: 1,
        gres: Vec::new(),
    };
    let gres = GresAlloc { name: "gpu".into(), kind: text("a100"), indexes: IndexSet::first_n(1) };
    let full_alloc = NodeAlloc { tasks: 2, gres: vec![gres], ..alloc(0, 4, 400) };
    let place = |job, task, attempt, alloc| {
        Command::Place(Placement {
            job: JobId(job),
            task,
            seen_attempt: Attempt(attempt),
            partition: "batch".into(),
            allocs: vec![alloc],
        })
    };
    let report = |job, attempt, event| Command::Report {
        node: NodeId(1),
        reports: vec![JobReport { job: JobId(job), attempt: Attempt(attempt), event }],
    };
    let ended = |how, code, signal| {
        JobEvent::Ended(Ended {
            at: START.plus_s(40),
            how,
            exit: ExitStatus { code, signal },
            text: text("words"),
            usage: Usage { max_rss_kib: 5, user_ms: 6, system_ms: 7 },
        })
    };
    let batch = Partition {
        name: "batch".into(),
        nodes: list(&["n1", "n2"]),
        is_default: true,
        max_time: TimeLimit::Infinite,
        default_time: Some(TimeLimit::Seconds(3600)),
        state: PartitionState::Up,
        min_nodes: Some(1),
        max_nodes: Some(2),
        root_only: false,
        allow_accounts: Vec::new(),
        deny_accounts: list(&["nobody"]),
        priority_job_factor: Some(2),
        priority_tier: Some(3),
        def_mem_per_cpu: Some(MemoryMib(100)),
        hidden: true,
        rank: 0,
        allow_groups: vec![("users".into(), 1001)],
        allow_qos: Vec::new(),
        deny_qos: list(&["nothing"]),
        def_mem_per_node: None,
        max_mem: None,
        exclusive: false,
    };
    let other = Partition {
        is_default: false,
        allow_accounts: list(&["lab"]),
        root_only: true,
        ..Partition::all_nodes("other")
    };
    let settings = Settings {
        cluster_name: "golden".into(),
        first_job_id: 1,
        max_job_id: 1000,
        max_job_count: 100,
        max_array_size: 1001,
        min_job_age_s: 300,
        kill_wait_s: 30,
        node_down_s: 300,
        def_mem_per_cpu: Some(MemoryMib(10)),
        request_memory_s: 3600,
        operators: vec![100],
        launch_faults_max: 2,
        config_digest: Some(digest(9)),
        history_days: None,
        licenses: Vec::new(),
        enforce: Enforce::default(),
    };
    let licensed = Settings {
        licenses: vec![License { name: "matlab".into(), total: 4 }],
        enforce: Enforce { associations: true, limits: true, qos: true },
        ..settings.clone()
    };
    let keep = Settings { history_days: Some(30), ..licensed.clone() };
    let configure_keep = Command::Configure { settings: Box::new(keep), partitions: Vec::new() };
    let forget = Forget {
        record: RecordKey { job: JobId(1), ended: TimeMs(20_000), restarts: 1 },
        uid: 100,
        uses: vec![digest(1), digest(2)],
        last_uses: vec![digest(2)],
        array: Some(JobId(2)),
    };
    let configure_more = Command::Configure { settings: Box::new(licensed), partitions: Vec::new() };
    let request = |count, bare| GresRequest { name: "gpu".into(), kind: text("a100"), count, bare };
    let matlab = LicenseRequest { name: "matlab".into(), count: Some(2) };
    let layout = JobSpec {
        licenses: vec![matlab.clone()],
        kill_on_invalid_dep: Some(true),
        mincpus: Some(2),
        no_kill: Some(true),
        spread: true,
        prefer: list(&["ib"]),
        extra: text("more"),
        batch_features: list(&["ib"]),
        features: list(&["ib"]),
        layout: Layout {
            sockets_per_node: Some(2),
            cores_per_socket: Some(4),
            threads_per_core: Some(1),
            ntasks_per_socket: Some(2),
            ntasks_per_core: Some(1),
        },
        gres_total: vec![request(2, false)],
        gres_per_task: vec![request(1, true)],
        gres_per_socket: vec![request(1, false)],
        cpus_per_gpu: Some(1),
        ntasks_per_gpu: Some(1),
        gres_binding: Some(true),
        tres_bind: text("gres/gpu:closest"),
        feature_sets: vec![list(&["ib"]), list(&["ib", "ib"])],
        features_text: text("ib|ib&ib"),
        memory: MemoryRequest::PerGpu(MemoryMib(10)),
        ..tasks(1)
    };
    let after = Condition { delay_min: 3, task: Some(4), ..Condition::new(Kind::AfterAny, JobId(2)) };
    let waits = Dependency { conditions: vec![Condition::new(Kind::AfterOk, JobId(9)), after], any: true };
    let depends = JobSpec { dependency: Some(waits.clone()), ..tasks(1) };
    let change_more = JobChange {
        dependency: Some(waits),
        licenses: Some(vec![matlab]),
        features: Some(list(&["ib"])),
        feature_sets: Some(vec![list(&["ib"])]),
        features_text: text("ib"),
        wckey: text("k"),
        contiguous: Some(true),
        ..JobChange::default()
    };
    let reopened = PartitionChange { state: Some(PartitionState::Up), ..PartitionChange::default() };
    let component = JobRef { job: JobId(9), tasks: None, component: Some(1) };
    let het = [(9, 0), (10, 1)];
    let placement = |job, alloc| Placement {
        job: JobId(job),
        task: None,
        seen_attempt: Attempt(0),
        partition: "batch".into(),
        allocs: vec![alloc],
    };
    let configure = Command::Configure { settings: Box::new(settings), partitions: vec![batch, other] };
    let register = |name: &str| Command::RegisterNode { name: name.into(), inventory: inventory.clone() };
    let entry = |seconds, commands| Entry { version: ENTRY_VERSION, stamp: START.plus_s(seconds), commands };
    let jobs = |job| one(JobId(job));
    let partition_change = PartitionChange {
        state: Some(PartitionState::Drain),
        max_time: Some(TimeLimit::Seconds(7200)),
        default_time: Some(TimeLimit::Seconds(60)),
        is_default: Some(true),
        ..PartitionChange::default()
    };
    let reservation = Reservation {
        name: "none".into(),
        start: START,
        end: START.plus_s(10_000),
        nodes: list(&["n2"]),
        users: list(&["alice"]),
        uids: vec![ALICE.uid],
        accounts: list(&["lab"]),
        partition: text("batch"),
        flags: vec![Flag::Flex],
        node_count: Some(1),
        created: START,
    };
    let reservation_change = ReservationChange {
        start: Some(START.plus_s(20_000)),
        end: Some(START.plus_s(30_000)),
        duration_s: Some(600),
        nodes: Some(list(&["n1"])),
        users: Some(vec![("bob".into(), BOB.uid)]),
        accounts: Some(Vec::new()),
        flags: Some(vec![Flag::Maint]),
    };
    vec![
        entry(0, vec![configure, register("n1"), register("n2")]),
        entry(1, vec![act(Act::CreateReservation(Box::new(reservation)))]),
        entry(1, vec![submit(1, full), submit(2, array), submit(3, held), submit(1, tasks(1)), submit(4, tasks(1))]),
        entry(
            30,
            vec![
                place(1, None, 0, full_alloc),
                place(2, Some(1), 0, alloc(4, 1, 50)),
                place(4, None, 9, alloc(5, 1, 100)),
            ],
        ),
        entry(31, vec![report(1, 1, JobEvent::Launched { at: START.plus_s(30) })]),
        entry(32, vec![act(Act::Signal { jobs: jobs(1), signal: 12, scope: SignalScope::Batch })]),
        entry(33, vec![act(Act::UpdateJob { jobs: jobs(4), change: Box::new(change) })]),
        entry(34, vec![act(Act::Release(jobs(3))), act(Act::Hold { jobs: jobs(3), as_user: true })]),
        entry(
            35,
            vec![act(Act::Cancel(JobRef {
                job: JobId(2),
                tasks: Some([2, 4].into_iter().collect()),
                component: None,
            }))],
        ),
        entry(36, vec![act(Act::Requeue { jobs: jobs(1), hold: true })]),
        entry(40, vec![report(1, 1, ended(EndedHow::Ordered, 0, 15)), report(5, 1, ended(EndedHow::Lost, 0, 0))]),
        entry(41, vec![place(4, None, 0, alloc(0, 1, 10))]),
        entry(42, vec![report(4, 1, ended(EndedHow::Exited, 3, 0))]),
        entry(43, vec![place(5, None, 1, alloc(0, 1, 50)), report(5, 2, ended(EndedHow::LaunchFailed, 1, 0))]),
        entry(44, vec![place(2, Some(8), 0, alloc(0, 1, 50)), Command::NodeLost { node: NodeId(1) }]),
        entry(45, vec![act(Act::UpdateNode { name: "n2".into(), change: NodeChange::Drain { reason: "d".into() } })]),
        entry(46, vec![act(Act::UpdateNode { name: "n2".into(), change: NodeChange::Resume })]),
        entry(47, vec![act(Act::UpdateNode { name: "n2".into(), change: NodeChange::Down { reason: "x".into() } })]),
        entry(48, vec![act(Act::UpdatePartition { name: "batch".into(), change: Box::new(partition_change) })]),
        entry(49, vec![act(Act::UpdatePartition { name: "batch".into(), change: Box::new(reopened) }), register("n1")]),
        entry(50, vec![configure_more]),
        entry(51, vec![submit(6, layout), submit_het(7), submit(8, depends)]),
        entry(52, vec![Command::PlaceTogether(het.map(|(job, first)| placement(job, alloc(first, 1, 100))).to_vec())]),
        entry(53, vec![act(Act::Suspend(jobs(9))), act(Act::Resume(component))]),
        entry(54, vec![act(Act::UpdateJob { jobs: jobs(11), change: Box::new(change_more) })]),
        entry(55, vec![act(Act::Resume(jobs(9)))]),
        entry(56, vec![act(Act::UpdateReservation { name: "none".into(), change: Box::new(reservation_change) })]),
        entry(57, vec![act(Act::DeleteReservation { name: "none".into() })]),
        entry(58, vec![act(Act::Account(accounting()))]),
        entry(59, vec![act(Act::Account(less_accounting()))]),
        entry(
            60,
            vec![
                create_step(9, 1, step),
                create_step(9, 2, StepSpec::default()),
                create_step(3, 3, StepSpec::default()),
            ],
        ),
        entry(61, vec![report(9, 1, JobEvent::StepEnded(step_ended))]),
        entry(62, control().into_iter().map(act).collect()),
        entry(20, vec![Command::Tick]),
        entry(5000, vec![Command::Tick]),
        entry(5001, vec![configure_keep, Command::ForgetHistory(vec![forget])]),
    ]
}

/// Changes of jobs, nodes and partitions that came with the ninth version, with every field set.
fn control() -> Vec<Act> {
    let text = |text: &str| Some(text.to_owned());
    let list = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let gpu = || vec![GresRequest { name: "gpu".into(), kind: None, count: 1, bare: false }];
    let change = JobChange {
        gres: Some(gpu()),
        gres_per_task: Some(gpu()),
        mincpus: Some(1),
        prefer: Some(list(&["ib"])),
        time_min: Some(TimeLimit::Seconds(30)),
        extra: text("e"),
        admin_comment: text("a"),
        tmp_disk: Some(MemoryMib(1)),
        reservation: text(""),
        oversubscribe: Some(true),
        std_in: text("/x"),
        ntasks_per_node: Some(1),
        cpus: Some(1),
        ..JobChange::default()
    };
    let ends = JobChange { end_time: Some(START.plus_s(4000)), ..JobChange::default() };
    let settings = NodeSettings {
        weight: Some(5),
        available_features: Some(list(&["ib", "x"])),
        active_features: Some(list(&["ib"])),
        comment: text("c"),
        extra: text("e"),
    };
    let partition = PartitionChange {
        nodes: Some(list(&["n1"])),
        nodes_add: list(&["n2"]),
        nodes_remove: list(&["n1"]),
        min_nodes: Some(1),
        max_nodes: Some(2),
        priority_tier: Some(3),
        priority_job_factor: Some(4),
        hidden: Some(true),
        root_only: Some(true),
        allow_accounts: Some(list(&["lab"])),
        deny_accounts: Some(list(&["old"])),
        allow_groups: Some(vec![("staff".into(), 50)]),
        allow_qos: Some(list(&["high"])),
        deny_qos: Some(list(&["low"])),
        def_mem: Some(MemoryLimit::PerNode(MemoryMib(2))),
        max_mem: Some(MemoryLimit::PerCpu(MemoryMib(3))),
        exclusive: Some(true),
        ..PartitionChange::default()
    };
    let node = |change| Act::UpdateNode { name: "n1".into(), change };
    vec![
        Act::UpdateJob { jobs: one(JobId(11)), change: Box::new(change) },
        Act::UpdateJob { jobs: one(JobId(9)), change: Box::new(ends) },
        node(NodeChange::Set(Box::new(settings))),
        node(NodeChange::Fail { reason: "f".into() }),
        node(NodeChange::Reason { reason: "g".into() }),
        node(NodeChange::Undrain),
        node(NodeChange::Idle),
        Act::UpdatePartition { name: "other".into(), change: Box::new(partition) },
    ]
}

fn place_of(account: &str, user: Option<&str>, partition: Option<&str>) -> Place {
    Place { account: account.into(), user: user.map(Into::into), partition: partition.map(Into::into) }
}

/// Every change of accounting that adds or changes, with every field set.
fn accounting() -> Vec<Change> {
    let text = |text: &str| Some(text.to_owned());
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let gpus = Tres::Gres { name: "gpu".into(), kind: text("a100") };
    let limit = |rule, tres, value| LimitEdit { limit: Limit { rule, tres }, value };
    let rules = RuleChange {
        fairshare: Some(Fairshare::Shares(10)),
        priority: Edit::To(5),
        limits: vec![
            limit(Rule::MaxJobs, None, Some(3)),
            limit(Rule::GrpTres, Some(gpus), Some(4)),
            limit(Rule::GrpTres, Some(Tres::License("matlab".into())), Some(1)),
            limit(Rule::MaxJobs, None, None),
        ],
        qos: QosListChange::Differ { add: names(&["high"]), remove: names(&["normal"]) },
        default_qos: Edit::To("high".into()),
    };
    let other_rules = RuleChange {
        fairshare: Some(Fairshare::Parent),
        priority: Edit::Clear,
        qos: QosListChange::Exactly(names(&["high"])),
        default_qos: Edit::Clear,
        ..RuleChange::default()
    };
    let quality = QosChange {
        description: text("first"),
        priority: Some(100),
        grace_s: Some(30),
        preempt: QosListChange::Exactly(names(&["normal"])),
        preempt_mode: Some(PreemptMode::Requeue),
        preempt_exempt_s: Edit::To(60),
        flags: Some(vec![QosFlag::NoReserve]),
        flags_add: vec![QosFlag::DenyOnLimit],
        flags_remove: vec![QosFlag::NoReserve],
        usage_factor_millionths: Some(500_000),
        usage_threshold_millionths: Edit::To(100_000),
        limits: vec![limit(Rule::MaxTresPerUser, Some(Tres::Cpu), Some(4))],
    };
    let account = |name: &str, parent: Option<String>| Change::AddAccount {
        name: name.into(),
        description: "in words".into(),
        organization: "org".into(),
        parent,
    };
    vec![
        Change::Found,
        account("lab", None),
        account("optics", text("lab")),
        account("chem", None),
        Change::AddQos { name: "high".into() },
        Change::AddQos { name: "gone".into() },
        Change::ChangeQos { name: "high".into(), change: Box::new(quality) },
        Change::AddUser { name: "alice".into(), uid: Some(1001) },
        Change::AddUser { name: "bob".into(), uid: None },
        Change::AddAssociation { place: place_of("lab", Some("alice"), None) },
        Change::AddAssociation { place: place_of("optics", Some("alice"), Some("batch")) },
        Change::AddAssociation { place: place_of("chem", Some("bob"), None) },
        Change::ChangeAssociation { place: place_of("lab", Some("alice"), None), change: Box::new(rules) },
        Change::ChangeAssociation { place: place_of("optics", None, None), change: Box::new(other_rules) },
        Change::ChangeAccount {
            name: "optics".into(),
            description: text("light"),
            organization: text("sci"),
            parent: text("chem"),
        },
        Change::ChangeUser {
            name: "alice".into(),
            uid: Some(1001),
            default_account: text("optics"),
            admin: Some(AdminLevel::Operator),
            default_wckey: text("key"),
        },
        Change::AddCoordinator { account: "lab".into(), user: "alice".into() },
        Change::AddCoordinator { account: "chem".into(), user: "alice".into() },
    ]
}

/// Every change that takes away.
fn less_accounting() -> Vec<Change> {
    vec![
        Change::RemoveCoordinator { account: "chem".into(), user: "alice".into() },
        Change::RemoveAssociation { place: place_of("lab", Some("alice"), None) },
        Change::RemoveAccount { name: "lab".into() },
        Change::RemoveUser { name: "bob".into() },
        Change::RemoveQos { name: "gone".into() },
    ]
}

/// Entries one after the other, each after its length.
fn pack(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in entries {
        let one = encode(entry);
        bytes.extend((one.len() as u32).to_be_bytes());
        bytes.extend(one);
    }
    bytes
}

fn unpack(mut bytes: &[u8]) -> Vec<Entry> {
    let mut entries = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let (one, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        entries.push(decode(one).expect("an entry of an earlier version"));
        bytes = rest;
    }
    entries
}

/// What a replay gives, in words: each outcome, and the jobs that an entry changed.
fn replay(entries: Vec<Entry>) -> String {
    let (mut state, mut mirror) = (State::default(), Mirror::default());
    let (mut text, mut lines) = (String::new(), BTreeMap::new());
    for (number, entry) in entries.into_iter().enumerate() {
        for outcome in state.apply(entry, &mut mirror) {
            writeln!(text, "{number} {outcome:?}").expect("text");
        }
        state.check().expect("state");
        for job in state.jobs() {
            let line = format!(
                "{:?} {:?} hold={:?} attempt={} restarts={} priority={} limit={:?} cpus={}",
                job.state,
                job.reason,
                job.hold,
                job.attempt,
                job.restarts,
                job.priority,
                job.time_limit,
                job.run.as_ref().map_or(0, gpun_core::job::Run::cpus),
            );
            if lines.insert(job.id, line.clone()).as_ref() != Some(&line) {
                writeln!(text, "{number}   job {}: {line}", job.id).expect("text");
            }
        }
        let gone: Vec<JobId> = lines.keys().copied().filter(|id| state.job(*id).is_none()).collect();
        for id in gone {
            lines.remove(&id);
            writeln!(text, "{number}   job {id}: gone").expect("text");
        }
    }
    assert_eq!(mirror.load(), state);
    text
}

#[test]
fn old_logs_replay() {
    let read = |name: &str| fs::read(golden(name)).unwrap_or_else(|error| panic!("golden file {name}: {error}"));
    for name in FILES {
        let entries = unpack(&read(&format!("{name}.bin")));
        let want = String::from_utf8(read(&format!("{name}.txt"))).expect("text");
        assert_eq!(replay(entries), want, "{name}");
    }
}

/// As long as nothing was added, this build writes what was written then. When something is, this is what tells to add a file.
#[test]
fn this_build_writes_the_newest_golden_file() {
    let entries = entries();
    let [.., newest] = FILES;
    let file = |kind: &str| golden(&format!("{newest}.{kind}"));
    if std::env::var_os("GPUN_WRITE_GOLDEN").is_some() && !file("bin").exists() {
        // Only where there is none: a file that was released stays as it is, and the next one gets the next number.
        fs::write(file("bin"), pack(&entries)).expect("written");
        fs::write(file("txt"), replay(entries.clone())).expect("written");
    }
    let bytes = fs::read(file("bin")).expect("the golden file");
    assert_eq!(unpack(&bytes), entries);
    assert!(
        pack(&entries) == bytes,
        "the encoding of entries changed: add a golden file, and say so in ADR 0002's terms"
    );
}

#[test]
fn every_command_is_in_it() {
    let mut seen = [false; 11];
    for command in entries().iter().flat_map(|entry| &entry.commands) {
        // A new command does not compile here: add it to `entries` too.
        let at = match command {
            Command::Submit(_) => 0,
            Command::Act { .. } => 1,
            Command::Place(_) => 2,
            Command::Report { .. } => 3,
            Command::RegisterNode { .. } => 4,
            Command::NodeLost { .. } => 5,
            Command::Configure { .. } => 6,
            Command::Tick => 7,
            Command::PlaceTogether(_) => 8,
            Command::ForgetHistory(_) => 9,
            Command::CreateStep { .. } => 10,
        };
        seen[at] = true;
    }
    assert_eq!(seen, [true; 11]);
}
