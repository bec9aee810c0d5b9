//! Criterion benches and side-by-side loads. This library makes the clusters and queues that they run on.

use gpun_core::{
    Command, Digest, Entry, JobId, MemoryMib, Outcome, RequestId, State, TimeLimit, TimeMs,
    command::{Act, Blob, ENTRY_VERSION, Ended, EndedHow, Identity, JobEvent, JobRef, JobReport, Submit},
    job::{ExitStatus, JobState, Owner, Usage},
    mirror::{MirrorSink, Table},
    node::Inventory,
    partition::Partition,
    settings::Settings,
    spec::{JobSpec, MemoryRequest},
};
use gpun_sched::PlanLimits;

/// The time at which every load begins.
pub const START: TimeMs = TimeMs(1_800_000_000_000);

/// Counts what the mirror would have to write.
#[derive(Debug, Default, Clone, Copy)]
pub struct CountingSink {
    /// Records written.
    pub puts: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Records deleted.
    pub deletes: u64,
}

impl MirrorSink for CountingSink {
    fn put(&mut self, _: Table, key: &[u8], value: Vec<u8>) {
        self.puts += 1;
        self.bytes += (key.len() + value.len()) as u64;
    }

    fn delete(&mut self, _: Table, _: &[u8]) {
        self.deletes += 1;
    }
}

/// Numbers that look like chance and are the same on every run (xorshift).
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Dice with a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number from 0 to `below` − 1.
    pub fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below.max(1)
    }

    /// One of these.
    pub fn choose<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.roll(of.len() as u64) as usize]
    }
}

/// A submission like those of `sbatch`: a script of its own, an environment shared by its user's jobs.
pub fn submission(number: u64, spec: JobSpec) -> Submit {
    let user = number % 50;
    let mut script = [0; 32];
    script[..8].copy_from_slice(&number.to_be_bytes());
    let mut environment = [1; 32];
    environment[..8].copy_from_slice(&user.to_be_bytes());
    let (script, environment) = (Digest(script), Digest(environment));
    let mut request = [0; 16];
    request[..8].copy_from_slice(&number.to_be_bytes());
    Submit {
        request: RequestId(request),
        owner: Owner {
            uid: 1000 + user as u32,
            gid: 1000,
            groups: vec![1000],
            user: format!("user{user}"),
            group: "users".to_owned(),
            home: format!("/home/user{user}"),
        },
        spec,
        script,
        environment,
        blobs: vec![
            Blob { digest: script, bytes: b"#!/bin/sh\n#SBATCH -n 1\nsrun hostname\n".to_vec() },
            Blob { digest: environment, bytes: b"HOME=/home/user\0PATH=/usr/local/bin:/usr/bin:/bin\0".to_vec() },
        ],
        components: Vec::new(),
    }
}

/// A job of a mixed campus load: mostly small, some wide, limits from minutes to days.
pub fn mixed_job(number: u64, dice: &mut Dice) -> JobSpec {
    let minutes = dice.choose(&[5, 10, 30, 60, 60, 120, 240, 480, 1440, 2880]) + dice.roll(5);
    let cpus = dice.choose(&[1, 1, 1, 2, 4, 4, 8, 8, 16, 32, 64]);
    let memory = MemoryMib(dice.choose(&[1000, 2000, 2000, 4000, 6000]));
    let common = JobSpec {
        name: format!("job{number}"),
        work_dir: "/home/user".to_owned(),
        time_limit: Some(TimeLimit::Seconds(60 * minutes)),
        memory: MemoryRequest::PerCpu(memory),
        nice: dice.roll(100_000) as i32,
        ..JobSpec::default()
    };
    match dice.roll(50) {
        0 => {
            let nodes = dice.choose(&[2, 4, 8, 16, 64]);
            JobSpec {
                nodes_min: Some(nodes),
                nodes_max: Some(nodes),
                ntasks_per_node: Some(32),
                memory: MemoryRequest::PerCpu(MemoryMib(2000)),
                ..common
            }
        }
        1..5 => JobSpec { ntasks: Some(cpus), memory: MemoryRequest::PerCpu(MemoryMib(2000)), ..common },
        _ => JobSpec { ntasks: Some(1), cpus_per_task: Some(cpus), ..common },
    }
}

/// A cluster with a queue, grown by the real commands.
#[derive(Debug, Clone)]
pub struct Load {
    /// The state.
    pub state: State,
    /// Its time.
    pub now: TimeMs,
    dice: Dice,
    submitted: u64,
}

impl Load {
    /// So many nodes of 64 CPUs and 256 GB, all free.
    pub fn nodes(count: u32) -> Self {
        let mut load = Self { state: State::default(), now: START, dice: Dice::new(1), submitted: 0 };
        let settings = Settings { max_job_count: u32::MAX, ..Settings::default() };
        let partitions = vec![Partition::all_nodes("batch")];
        let mut commands = vec![Command::Configure { settings: Box::new(settings), partitions }];
        let inventory = Inventory { cpus: 64, memory: MemoryMib(256_000), ..Inventory::default() };
        let register = |number| Command::RegisterNode { name: format!("n{number}"), inventory: inventory.clone() };
        commands.extend((1..=count).map(register));
        load.apply(commands);
        load
    }

    /// Applies commands in one entry.
    pub fn apply(&mut self, commands: Vec<Command>) -> Vec<Outcome> {
        self.state.apply(Entry { version: ENTRY_VERSION, stamp: self.now, commands }, &mut CountingSink::default())
    }

    /// Puts so many jobs into the queue.
    pub fn submit(&mut self, count: u64) {
        for _ in 0..count {
            self.submitted += 1;
            let spec = mixed_job(self.submitted, &mut self.dice);
            let submit = submission(self.submitted, spec);
            self.apply(vec![Command::Submit(Box::new(submit))]);
        }
    }

    /// Plans and starts until nothing starts any more.
    pub fn fill(&mut self) {
        loop {
            let plan = gpun_sched::plan(&self.state, self.now, &PlanLimits::default());
            self.apply(plan.placements.into_iter().map(Command::Place).collect());
            if !plan.unfinished {
                return;
            }
        }
    }

    /// Ends one in `each` of the running jobs.
    pub fn end_one_in(&mut self, each: usize) {
        let running = self.state.jobs().filter(|job| job.state == JobState::Running);
        let reports = running.step_by(each.max(1)).filter_map(|job| {
            let node = job.run.as_ref()?.allocs.first()?.node;
            let ended = Ended {
                at: self.now,
                how: EndedHow::Exited,
                exit: ExitStatus::default(),
                text: None,
                usage: Usage::default(),
            };
            let report = JobReport { job: job.id, attempt: job.attempt, event: JobEvent::Ended(ended) };
            Some(Command::Report { node, reports: vec![report] })
        });
        let reports = reports.collect();
        self.apply(reports);
    }

    /// Takes everything that waits out of the queue.
    pub fn cancel_waiting(&mut self) {
        let who = Identity::default();
        let waiting: Vec<JobId> = self.state.queue().map(|job| job.id).collect();
        let cancel =
            |job| Command::Act { who: who.clone(), act: Act::Cancel(JobRef { job, tasks: None, component: None }) };
        self.apply(waiting.into_iter().map(cancel).collect());
    }

    /// A cluster in the middle of its day: full, an hour in, one in a hundred jobs just ended, so many waiting.
    pub fn busy(nodes: u32, waiting: u64) -> Self {
        let mut load = Self::nodes(nodes);
        load.submit(u64::from(nodes) * 12);
        load.fill();
        load.cancel_waiting();
        load.now = load.now.plus_s(240);
        load.submit(waiting);
        load.end_one_in(100);
        load
    }
}
