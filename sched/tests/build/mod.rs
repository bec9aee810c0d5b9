//! Small clusters for tests, made with the real commands.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test's way to fail, in its helpers too.
#![allow(dead_code, reason = "each test binary uses its own part")]

use gpun_core::{
    Command, Digest, Entry, IndexSet, JobId, MemoryMib, Outcome, RequestId, State, TimeLimit, TimeMs,
    command::{
        Act, Blob, ENTRY_VERSION, Ended, EndedHow, Identity, JobEvent, JobReport, NodeChange, Placement, Submit,
    },
    job::{ExitStatus, Owner, Usage},
    mirror::{MirrorSink, Table},
    node::{GresInventory, Inventory},
    partition::Partition,
    settings::Settings,
    spec::{ArrayRequest, GresRequest, JobSpec, MemoryRequest},
};
use gpun_sched::{Plan, PlanLimits};

pub const START: TimeMs = TimeMs(1_800_000_000_000);
pub const ROOT: Identity = Identity { uid: 0, gid: 0 };

pub struct NoMirror;

impl MirrorSink for NoMirror {
    fn put(&mut self, _: Table, _: &[u8], _: Vec<u8>) {}
    fn delete(&mut self, _: Table, _: &[u8]) {}
}

/// A cluster whose time is set by hand.
#[derive(Debug)]
pub struct Cluster {
    pub state: State,
    pub now: TimeMs,
    requests: u128,
}

impl Cluster {
    /// Nodes in partitions, with 1 MiB of memory for each CPU of a job.
    pub fn new(nodes: Vec<(&str, Inventory)>, partitions: Vec<Partition>) -> Self {
        let mut cluster = Self { state: State::default(), now: START, requests: 0 };
        let settings = Settings { def_mem_per_cpu: Some(MemoryMib(1)), ..Settings::default() };
        cluster.done(Command::Configure { settings: Box::new(settings), partitions });
        for (name, inventory) in nodes {
            cluster.done(Command::RegisterNode { name: name.to_owned(), inventory });
        }
        cluster
    }

    /// `count` like nodes `n1`, `n2`, … in one partition.
    pub fn of(count: u32, inventory: Inventory) -> Self {
        let names: Vec<String> = (1..=count).map(|number| format!("n{number}")).collect();
        let nodes = names.iter().map(|name| (name.as_str(), inventory.clone())).collect();
        Self::new(nodes, vec![Partition::all_nodes("batch")])
    }

    pub fn apply(&mut self, command: Command) -> Outcome {
        let entry = Entry { version: ENTRY_VERSION, stamp: self.now, commands: vec![command] };
        let outcome = self.state.apply(entry, &mut NoMirror).remove(0);
        self.state.check().expect("state");
        outcome
    }

    pub fn done(&mut self, command: Command) -> Outcome {
        let outcome = self.apply(command);
        assert!(!matches!(outcome, Outcome::Refused(_)), "{outcome:?}");
        outcome
    }

    /// Submits a job of several components; gives the first one's number.
    pub fn submit_het(&mut self, components: &[JobSpec]) -> JobId {
        match self.try_submit_all(components) {
            Outcome::Submitted { job } => job,
            other => panic!("{other:?}"),
        }
    }

    pub fn try_submit(&mut self, spec: JobSpec) -> Outcome {
        self.try_submit_all(&[spec])
    }

    fn try_submit_all(&mut self, components: &[JobSpec]) -> Outcome {
        self.requests += 1;
        let digest = Digest([1; 32]);
        self.apply(Command::Submit(Box::new(Submit {
            request: RequestId(self.requests.to_be_bytes()),
            owner: Owner { uid: 1000, gid: 1000, ..Owner::default() },
            spec: components[0].clone(),
            script: digest,
            environment: digest,
            blobs: vec![Blob { digest, bytes: b"#!/bin/sh".to_vec() }],
            components: components[1..].to_vec(),
        })))
    }

    pub fn submit(&mut self, spec: JobSpec) -> JobId {
        match self.try_submit(spec) {
            Outcome::Submitted { job } => job,
            other => panic!("{other:?}"),
        }
    }

    pub fn plan(&self) -> Plan {
        gpun_sched::plan(&self.state, self.now, &PlanLimits::default())
    }

    /// Plans, applies every placement, and returns the plan. Each must be taken.
    pub fn run_plan(&mut self) -> Plan {
        let plan = self.plan();
        for placement in &plan.placements {
            self.done(Command::Place(placement.clone()));
        }
        for placements in &plan.together {
            self.done(Command::PlaceTogether(placements.clone()));
        }
        plan
    }

    pub fn pass(&mut self, seconds: u64) {
        self.now = self.now.plus_s(seconds);
        self.done(Command::Tick);
    }

    pub fn launch(&mut self, job: JobId) {
        let (node, attempt) = self.place_of(job);
        let event = JobEvent::Launched { at: self.now };
        self.done(Command::Report { node, reports: vec![JobReport { job, attempt, event }] });
    }

    pub fn end(&mut self, job: JobId) {
        let (node, attempt) = self.place_of(job);
        let exit = ExitStatus::default();
        let ended = Ended { at: self.now, how: EndedHow::Exited, exit, text: None, usage: Usage::default() };
        let event = JobEvent::Ended(ended);
        self.done(Command::Report { node, reports: vec![JobReport { job, attempt, event }] });
    }

    fn place_of(&self, job: JobId) -> (gpun_core::NodeId, gpun_core::Attempt) {
        let job = self.state.job(job).expect("job");
        (job.run.as_ref().expect("run").allocs[0].node, job.attempt)
    }

    pub fn node(&mut self, name: &str, change: NodeChange) {
        self.done(Command::Act { who: ROOT, act: Act::UpdateNode { name: name.to_owned(), change } });
    }

    /// Names of a placement's nodes with the tasks on each.
    pub fn nodes_of(&self, placement: &Placement) -> Vec<(String, u32)> {
        let name = |node| self.state.node(node).expect("node").name.clone();
        placement.allocs.iter().map(|alloc| (name(alloc.node), alloc.tasks)).collect()
    }

    /// `job=node:tasks,node:tasks` for each placement.
    pub fn starts(&self, plan: &Plan) -> Vec<String> {
        let start = |placement: &Placement| {
            let nodes: Vec<String> =
                self.nodes_of(placement).iter().map(|(name, tasks)| format!("{name}:{tasks}")).collect();
            let task = placement.task.map(|task| format!("_{task}")).unwrap_or_default();
            format!("{}{task}={}", placement.job, nodes.join(","))
        };
        plan.placements.iter().map(start).collect()
    }
}

/// A node with CPUs and as many MiB of memory.
pub fn cpus(cpus: u32) -> Inventory {
    Inventory { cpus, memory: MemoryMib(u64::from(cpus)), ..Inventory::default() }
}

/// The same with GPUs of these kinds.
pub fn gpus(count: u32, kinds: &[(&str, u32)]) -> Inventory {
    let gres = |(kind, count): &(&str, u32)| GresInventory {
        name: "gpu".to_owned(),
        kind: Some((*kind).to_owned()),
        count: *count,
        files: Vec::new(),
    };
    Inventory { gres: kinds.iter().map(gres).collect(), ..cpus(count) }
}

pub fn partition(name: &str, nodes: &[&str]) -> Partition {
    Partition {
        nodes: nodes.iter().map(|node| (*node).to_owned()).collect(),
        is_default: false,
        ..Partition::all_nodes(name)
    }
}

/// A job of so many tasks of one CPU for so many seconds.
pub fn tasks(tasks: u32, seconds: u64) -> JobSpec {
    JobSpec { ntasks: Some(tasks), time_limit: Some(TimeLimit::Seconds(seconds)), ..JobSpec::default() }
}

/// A job of whole nodes' worth of tasks.
pub fn nodes(nodes: u32, tasks_per_node: u32, seconds: u64) -> JobSpec {
    JobSpec {
        nodes_min: Some(nodes),
        nodes_max: Some(nodes),
        ntasks_per_node: Some(tasks_per_node),
        time_limit: Some(TimeLimit::Seconds(seconds)),
        ..JobSpec::default()
    }
}

pub fn array(spec: JobSpec, first: u32, last: u32, max_running: Option<u32>) -> JobSpec {
    JobSpec { array: Some(ArrayRequest { tasks: (first..=last).collect(), max_running }), ..spec }
}

pub fn with_gpus(spec: JobSpec, kind: Option<&str>, count: u32) -> JobSpec {
    let gres = GresRequest { name: "gpu".to_owned(), kind: kind.map(str::to_owned), count, bare: false };
    JobSpec { gres: vec![gres], ..spec }
}

pub fn with_memory(spec: JobSpec, mib: u64) -> JobSpec {
    JobSpec { memory: MemoryRequest::PerNode(MemoryMib(mib)), ..spec }
}

pub fn on(spec: JobSpec, names: &[&str]) -> JobSpec {
    JobSpec { node_list: names.iter().map(|name| (*name).to_owned()).collect(), ..spec }
}

pub fn numbers(set: &IndexSet) -> Vec<u32> {
    set.iter().collect()
}
