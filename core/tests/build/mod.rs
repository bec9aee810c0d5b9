//! A world for tests: a state, a second replica fed the same encoded log, and a mirror, compared after every entry.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test's way to fail, in its helpers too.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::collections::BTreeMap;

use gpun_core::{
    Attempt, Command, Digest, Entry, IndexSet, JobId, MemoryMib, NodeId, Outcome, Refusal, RequestId, State, TimeLimit,
    TimeMs,
    command::{
        Act, Blob, ENTRY_VERSION, Ended, EndedHow, Identity, JobChange, JobEvent, JobRef, JobReport, Placement, Submit,
    },
    job::{ExitStatus, GresAlloc, Job, JobState, NodeAlloc, Owner, SignalScope, Usage},
    mirror::{MirrorSink, Table, decode, encode},
    node::Inventory,
    partition::Partition,
    settings::Settings,
    spec::{ArrayRequest, JobSpec},
};

pub const START: TimeMs = TimeMs(1_800_000_000_000);
pub const ROOT: Identity = Identity { uid: 0, gid: 0 };
pub const OPERATOR: Identity = Identity { uid: 100, gid: 100 };
pub const ALICE: Identity = Identity { uid: 1001, gid: 1001 };
pub const BOB: Identity = Identity { uid: 1002, gid: 1002 };

/// A mirror in memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mirror(pub BTreeMap<(Table, Vec<u8>), Vec<u8>>);

impl MirrorSink for Mirror {
    fn put(&mut self, table: Table, key: &[u8], value: Vec<u8>) {
        self.0.insert((table, key.to_vec()), value);
    }

    fn delete(&mut self, table: Table, key: &[u8]) {
        self.0.remove(&(table, key.to_vec()));
    }
}

impl Mirror {
    /// The state that a restart would read.
    pub fn load(&self) -> State {
        let mut state = State::default();
        for ((table, key), value) in self.0.iter().filter(|((table, _), _)| Table::LOADED.contains(table)) {
            state.load_record(*table, key, value).expect("record");
        }
        state.index();
        state
    }

    pub fn blobs(&self) -> usize {
        self.0.keys().filter(|(table, _)| *table == Table::Blob).count()
    }

    pub fn history(&self) -> usize {
        self.0.keys().filter(|(table, _)| *table == Table::Record).count()
    }
}

#[derive(Debug, Clone)]
pub struct World {
    pub state: State,
    pub replica: State,
    pub mirror: Mirror,
    pub now: TimeMs,
    requests: u128,
}

impl World {
    /// Without nodes and partitions.
    pub fn bare() -> Self {
        Self { state: State::default(), replica: State::default(), mirror: Mirror::default(), now: START, requests: 0 }
    }

    /// Two nodes, `n1` and `n2`, of 4 CPUs and 4 MiB, in one partition; 1 MiB for each CPU.
    pub fn new() -> Self {
        let mut world = Self::bare();
        world.configure(settings(), vec![Partition::all_nodes("batch")]);
        world.register("n1", cpus(4));
        world.register("n2", cpus(4));
        world
    }

    pub fn configure(&mut self, settings: Settings, partitions: Vec<Partition>) {
        self.done(Command::Configure { settings: Box::new(settings), partitions });
    }

    pub fn register(&mut self, name: &str, inventory: Inventory) -> NodeId {
        match self.done(Command::RegisterNode { name: name.to_owned(), inventory }) {
            Outcome::Registered { node } => node,
            other => panic!("{other:?}"),
        }
    }

    /// Applies an entry to both replicas and checks everything that must hold after any entry.
    pub fn entry(&mut self, stamp: TimeMs, commands: Vec<Command>) -> Vec<Outcome> {
        let before = self.state.clone();
        let entry = Entry { version: ENTRY_VERSION, stamp, commands };
        let bytes = encode(&entry);
        let read: Entry = decode(&bytes).expect("an entry that was written can be read");
        assert_eq!(read, entry);
        assert_eq!(encode(&read), bytes);
        let outcomes = self.state.apply(entry, &mut self.mirror);
        let mut other_mirror = Mirror::default();
        assert_eq!(self.replica.apply(read, &mut other_mirror), outcomes);
        self.state.check().expect("the state holds together");
        assert_eq!(self.state.fingerprint(), self.replica.fingerprint());
        assert_eq!(self.state, self.replica);
        assert_eq!(self.mirror.load(), self.state, "the mirror holds the state");
        assert!(self.state.now() >= before.now() && self.state.now() >= stamp, "time stands or goes on");
        if outcomes.iter().all(|outcome| matches!(outcome, Outcome::Refused(_))) {
            let mut unchanged = before;
            unchanged.apply(Entry { version: ENTRY_VERSION, stamp, commands: Vec::new() }, &mut Mirror::default());
            assert_eq!(unchanged, self.state, "what is refused changes nothing");
        }
        outcomes
    }

    pub fn apply(&mut self, command: Command) -> Outcome {
        self.entry(self.now, vec![command]).remove(0)
    }

    pub fn done(&mut self, command: Command) -> Outcome {
        let outcome = self.apply(command);
        assert!(!matches!(outcome, Outcome::Refused(_)), "{outcome:?}");
        outcome
    }

    pub fn request(&mut self) -> RequestId {
        self.requests += 1;
        RequestId(self.requests.to_be_bytes())
    }

    pub fn submission(&mut self, who: &Identity, spec: JobSpec) -> Submit {
        submission(self.request(), who, spec)
    }

    pub fn try_submit(&mut self, who: &Identity, spec: JobSpec) -> Result<JobId, Refusal> {
        let submit = self.submission(who, spec);
        submitted(self.apply(Command::Submit(Box::new(submit))))
    }

    pub fn submit(&mut self, spec: JobSpec) -> JobId {
        self.try_submit(&ALICE, spec).expect("accepted")
    }

    pub fn act(&mut self, who: &Identity, act: Act) -> Result<u32, Refusal> {
        match self.apply(Command::Act { who: who.clone(), act }) {
            Outcome::Done { count } => Ok(count),
            Outcome::Refused(refusal) => Err(refusal),
            other => panic!("{other:?}"),
        }
    }

    /// Gives a job the lowest CPUs of these nodes: one for each task, one task on each node.
    pub fn placement(&self, job: JobId, task: Option<u32>, nodes: &[&str]) -> Placement {
        let record = self.job(job);
        let tasks = (record.spec.tasks() / nodes.len() as u32).max(1);
        let alloc = |name: &&str| {
            let node = self.state.node_named(name).expect("node");
            let free = (0..node.inventory.cpus).filter(|cpu| !node.taken.cpus.contains(*cpu));
            let cpus: IndexSet = free.take((tasks * record.spec.cpus_per_task()) as usize).collect();
            let partition = self.state.partitions_of(record).next().expect("partition");
            let memory = self.state.memory_on(record, partition, node, cpus.len() as u32, 0);
            let gres = record.spec.gres.iter().map(|wanted| {
                let have = node.gres_positions(&wanted.name, wanted.kind.as_deref());
                let taken = node.gres_taken(&wanted.name);
                let free = have.iter().filter(|index| !taken.contains(*index));
                let indexes = free.take(wanted.count as usize).collect();
                GresAlloc { name: wanted.name.clone(), kind: wanted.kind.clone(), indexes }
            });
            NodeAlloc { node: node.id, cpus, memory, tasks, gres: gres.collect() }
        };
        Placement {
            job,
            task,
            seen_attempt: record.attempt,
            partition: self.state.partitions_of(record).next().expect("partition").name.clone(),
            allocs: nodes.iter().map(alloc).collect(),
        }
    }

    pub fn try_place(&mut self, placement: Placement) -> Result<(), Refusal> {
        match self.apply(Command::Place(placement)) {
            Outcome::Done { count: 1 } => Ok(()),
            Outcome::Refused(refusal) => Err(refusal),
            other => panic!("{other:?}"),
        }
    }

    pub fn place(&mut self, job: JobId, nodes: &[&str]) {
        let placement = self.placement(job, None, nodes);
        self.try_place(placement).expect("placed");
    }

    /// Places one task of a waiting array and tells its number.
    pub fn place_task(&mut self, array: JobId, task: u32, node: &str) -> JobId {
        let placement = self.placement(array, Some(task), &[node]);
        self.try_place(placement).expect("placed");
        self.task(array, task).expect("the task has its own record")
    }

    pub fn task(&self, array: JobId, task: u32) -> Option<JobId> {
        self.state.array_tasks(array).find(|(number, _)| *number == task).map(|(_, job)| job.id)
    }

    pub fn report(&mut self, node: &str, job: JobId, attempt: u32, event: JobEvent) -> Outcome {
        let node = self.state.node_named(node).expect("node").id;
        self.apply(Command::Report { node, reports: vec![JobReport { job, attempt: Attempt(attempt), event }] })
    }

    pub fn launch(&mut self, node: &str, job: JobId, attempt: u32) -> Outcome {
        self.report(node, job, attempt, JobEvent::Launched { at: self.now })
    }

    pub fn end(&mut self, node: &str, job: JobId, attempt: u32, how: EndedHow, exit: (u8, u8)) -> Outcome {
        self.report(node, job, attempt, JobEvent::Ended(ended(self.now, how, exit)))
    }

    pub fn pass(&mut self, seconds: u64) -> Outcome {
        self.now = self.now.plus_s(seconds);
        self.apply(Command::Tick)
    }

    pub fn job(&self, job: JobId) -> &Job {
        self.state.job(job).expect("job")
    }

    pub fn job_state(&self, job: JobId) -> JobState {
        self.job(job).state
    }
}

pub fn ended(at: TimeMs, how: EndedHow, (code, signal): (u8, u8)) -> Ended {
    Ended { at, how, exit: ExitStatus { code, signal }, text: None, usage: Usage::default() }
}

pub fn submitted(outcome: Outcome) -> Result<JobId, Refusal> {
    match outcome {
        Outcome::Submitted { job } => Ok(job),
        Outcome::Refused(refusal) => Err(refusal),
        other => panic!("{other:?}"),
    }
}

pub fn settings() -> Settings {
    Settings { def_mem_per_cpu: Some(MemoryMib(1)), operators: vec![OPERATOR.uid], ..Settings::default() }
}

pub fn digest(number: u8) -> Digest {
    Digest([number; 32])
}

pub fn submission(request: RequestId, who: &Identity, spec: JobSpec) -> Submit {
    let blob = |number: u8| Blob { digest: digest(number), bytes: vec![number; 3] };
    Submit {
        request,
        owner: Owner { uid: who.uid, gid: who.gid, user: format!("u{}", who.uid), ..Owner::default() },
        spec,
        script: digest(1),
        environment: digest(2),
        blobs: vec![blob(1), blob(2)],
        components: Vec::new(),
    }
}

pub fn cpus(count: u32) -> Inventory {
    Inventory { cpus: count, memory: MemoryMib(u64::from(count)), ..Inventory::default() }
}

pub fn tasks(count: u32) -> JobSpec {
    JobSpec { ntasks: Some(count), time_limit: Some(TimeLimit::Seconds(60)), ..JobSpec::default() }
}

pub fn array(first: u32, last: u32, max_running: Option<u32>) -> JobSpec {
    JobSpec { array: Some(ArrayRequest { tasks: (first..=last).collect(), max_running }), ..tasks(1) }
}

pub fn one(job: JobId) -> JobRef {
    JobRef { job, tasks: None, component: None }
}

pub fn some(job: JobId, tasks: &[u32]) -> JobRef {
    JobRef { job, tasks: Some(tasks.iter().copied().collect()), component: None }
}

pub fn update(job: JobId, change: JobChange) -> Act {
    Act::UpdateJob { jobs: one(job), change: Box::new(change) }
}

pub fn signal(job: JobId) -> Act {
    Act::Signal { jobs: one(job), signal: 10, scope: SignalScope::All }
}
