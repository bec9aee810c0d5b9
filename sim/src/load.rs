//! The cluster and its users: nodes, submissions and wishes, all from the seed.

use gpun_core::{
    Digest, JobId, MemoryMib, RequestId, TimeLimit,
    command::{Act, Blob, Identity, JobChange, JobRef, NodeChange, Submit},
    dependency::{Condition, Dependency, Kind},
    job::{Owner, SignalScope},
    node::{GresInventory, Inventory},
    partition::Partition,
    reservation::{Flag, Reservation},
    settings::Settings,
    spec::{ArrayRequest, GresRequest, JobSpec, MemoryRequest},
};

use crate::{START, dice::Dice, message::Ms};

/// Who may do everything.
pub const ROOT: Identity = Identity { uid: 0, gid: 0 };

/// Settings with short times, so that much happens in a short run.
pub fn settings(dice: &mut Dice) -> Settings {
    Settings {
        first_job_id: 1,
        min_job_age_s: dice.choose(&[30, 300]).unwrap_or(300),
        kill_wait_s: dice.range(2, 20),
        node_down_s: 60,
        def_mem_per_cpu: Some(MemoryMib(100)),
        request_memory_s: 3600,
        launch_faults_max: 5,
        ..Settings::default()
    }
}

/// Two partitions over the same nodes, one of them before the other.
pub fn partitions(nodes: usize, seed: u64) -> Vec<Partition> {
    let mut dice = Dice::new(seed);
    let side = Partition {
        is_default: false,
        nodes: (0..nodes.div_ceil(2)).map(node_name).collect(),
        priority_tier: dice.percent(30).then_some(2),
        ..Partition::all_nodes("side")
    };
    vec![Partition::all_nodes("batch"), side]
}

/// The name of a node.
pub fn node_name(at: usize) -> String {
    format!("n{}", at + 1)
}

/// What a node has.
pub fn inventory(dice: &mut Dice) -> Inventory {
    let cpus = dice.range(2, 8) as u32;
    let gpu = GresInventory { name: "gpu".into(), kind: None, count: dice.range(0, 2) as u32, files: Vec::new() };
    Inventory {
        cpus,
        memory: MemoryMib(1000),
        gres: vec![gpu],
        weight: dice.range(0, 1) as u32,
        ..Inventory::default()
    }
}

/// A submission of a job that the cluster can run, of one of three users.
pub fn submission(request: RequestId, nodes: usize, number: u32, dice: &mut Dice) -> Submit {
    let uid = 1000 + dice.range(0, 2) as u32;
    let blob = |number: u64| {
        let mut digest = [0; 32];
        digest[0] = number as u8;
        Blob { digest: Digest(digest), bytes: vec![number as u8; 4] }
    };
    let (script, environment) = (blob(dice.range(1, 9)), blob(u64::from(uid)));
    Submit {
        request,
        owner: Owner { uid, gid: uid, user: format!("u{uid}"), ..Owner::default() },
        spec: spec(nodes, number, dice),
        script: script.digest,
        environment: environment.digest,
        blobs: vec![script, environment],
        components: Vec::new(),
    }
}

fn spec(nodes: usize, number: u32, dice: &mut Dice) -> JobSpec {
    let two = nodes >= 2 && dice.percent(20);
    let array = dice.percent(20).then(|| ArrayRequest {
        tasks: (0..dice.range(1, 8) as u32).collect(),
        max_running: dice.percent(40).then(|| dice.range(1, 3) as u32),
    });
    let gpu = GresRequest { name: "gpu".into(), kind: None, count: 1, bare: false };
    JobSpec {
        name: "sim".into(),
        partitions: dice.choose(&[vec![], vec!["side"], vec!["side", "batch"]].each_ref()).map_or(Vec::new(), names),
        time_limit: dice.choose(&[30, 60, 120, 300]).map(TimeLimit::Seconds),
        nodes_min: two.then_some(2),
        nodes_max: two.then_some(2),
        ntasks: Some(if two { 2 } else { dice.range(1, 2) as u32 }),
        memory: if dice.percent(20) {
            MemoryRequest::PerNode(MemoryMib(dice.range(0, 600)))
        } else {
            MemoryRequest::Default
        },
        gres: if dice.percent(15) { vec![gpu] } else { Vec::new() },
        exclusive: dice.percent(10),
        requeue: dice.percent(20).then_some(false),
        begin: dice.percent(15).then(|| START.plus_s(dice.range(0, 900))),
        hold: dice.percent(5),
        priority: dice.percent(30).then(|| dice.range(1, 5) as u32),
        array,
        reservation: dice.percent(8).then(|| format!("r{}", dice.range(1, 3))),
        dependency: dice.percent(20).then(|| dependency(number, dice)),
        kill_on_invalid_dep: dice.percent(20).then_some(true),
        ..JobSpec::default()
    }
}

/// A wait for jobs that may or may not be there.
fn dependency(number: u32, dice: &mut Dice) -> Dependency {
    let kinds = [Kind::After, Kind::AfterAny, Kind::AfterOk, Kind::AfterNotOk, Kind::Singleton];
    let one = |dice: &mut Dice| {
        let kind = dice.choose(&kinds).unwrap_or(Kind::AfterAny);
        let job = if kind == Kind::Singleton { 0 } else { dice.range(1, u64::from(number) + 1) as u32 };
        Condition::new(kind, JobId(job))
    };
    Dependency { conditions: (0..dice.range(1, 2)).map(|_| one(dice)).collect(), any: dice.percent(30) }
}

fn names(of: &Vec<&str>) -> Vec<String> {
    of.iter().map(|name| (*name).to_owned()).collect()
}

/// A wish of somebody for something, which may well be refused.
pub fn wish(newest: u32, nodes: usize, dice: &mut Dice) -> (Identity, Act) {
    let who = if dice.percent(40) { ROOT } else { Identity { uid: 1000 + dice.range(0, 2) as u32, gid: 1000 } };
    let job = JobId(dice.range(1, u64::from(newest.max(1))) as u32);
    let tasks = dice.percent(20).then(|| (0..dice.range(1, 4) as u32).collect());
    let jobs = JobRef { job, tasks, component: None };
    let act = match dice.range(0, 17) {
        0..=3 => Act::Cancel(jobs),
        4..=5 => Act::Hold { jobs, as_user: dice.percent(50) },
        6..=8 => Act::Release(jobs),
        9..=11 => Act::Requeue { jobs, hold: dice.percent(30) },
        12 => Act::Signal { jobs, signal: 10, scope: SignalScope::Batch },
        13 => {
            let change = JobChange {
                time_limit: dice.choose(&[None, Some(TimeLimit::Seconds(20))]).flatten(),
                nice: dice.percent(30).then_some(3),
                ntasks: dice.percent(30).then_some(1),
                ..JobChange::default()
            };
            Act::UpdateJob { jobs, change: Box::new(change) }
        }
        14..=15 => reservation(nodes, dice),
        _ => {
            let name = node_name(dice.range(0, nodes as u64 - 1) as usize);
            let change = match dice.range(0, 3) {
                0 => NodeChange::Drain { reason: "sim".into() },
                1 => NodeChange::Down { reason: "sim".into() },
                _ => NodeChange::Resume,
            };
            Act::UpdateNode { name, change }
        }
    };
    (who, act)
}

/// A reservation of one node for somebody, or the end of one.
fn reservation(nodes: usize, dice: &mut Dice) -> Act {
    let name = format!("r{}", dice.range(1, 3));
    if dice.percent(30) {
        return Act::DeleteReservation { name };
    }
    let start = START.plus_s(dice.range(0, 900));
    let flags = [Flag::Maint, Flag::IgnoreJobs, Flag::Flex, Flag::Overlap];
    Act::CreateReservation(Box::new(Reservation {
        name,
        start,
        end: start.plus_s(dice.range(10, 600)),
        nodes: vec![node_name(dice.range(0, nodes as u64 - 1) as usize)],
        users: vec!["u".into()],
        uids: vec![1000 + dice.range(0, 2) as u32],
        flags: if dice.percent(50) { dice.choose(&flags).into_iter().collect() } else { Vec::new() },
        ..Reservation::default()
    }))
}

/// What a script does when it is left alone: how long it runs, how it ends, and how it takes SIGTERM.
#[derive(Debug, Clone, Copy)]
pub struct Script {
    /// How long it takes to be started.
    pub start: Ms,
    /// How long it runs.
    pub runs: Ms,
    /// Exit code and signal.
    pub exit: (u8, u8),
    /// How long it goes on after SIGTERM; `None` if it does not care.
    pub after_term: Option<Ms>,
    /// It never starts: the image is missing.
    pub broken: bool,
    /// Its supervisor dies before it starts.
    pub lost: bool,
}

/// The script of an attempt.
pub fn script(seed: u64, job: u32, task: u32, attempt: u32) -> Script {
    let mut dice = Dice::new(seed ^ (u64::from(job) << 40) ^ (u64::from(task) << 20) ^ u64::from(attempt));
    Script {
        start: dice.range(10, 800),
        runs: dice.choose(&[0, 500, 5_000, 20_000, 60_000, 400_000]).unwrap_or(0) + dice.range(0, 2_000),
        exit: dice.choose(&[(0, 0), (0, 0), (0, 0), (1, 0), (0, 11)]).unwrap_or((0, 0)),
        after_term: (!dice.percent(20)).then(|| dice.range(1, 3_000)),
        broken: dice.percent(2),
        lost: dice.percent(4),
    }
}
