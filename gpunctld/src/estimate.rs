//! When a job would start, were it submitted now (`sbatch --test-only`): the queue is planned as it stands, with the job in it.

use gpun_core::{
    Command, Digest, Entry, JobId, Outcome, Refusal, RequestId, State, TimeMs,
    command::{Blob, ENTRY_VERSION, Submit},
    job::{Job, Owner},
    mirror::{MirrorSink, Table},
    spec::JobSpec,
};
use gpun_sched::PlanLimits;

/// For so many waiting jobs of a partition room is kept before the job is placed behind them.
const RESERVATIONS_MAX: usize = 500;
/// A plan that ends before its end is gone on with so often.
const PLANS_MAX: u32 = 4;

/// When and where a job would start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Estimate {
    /// The number that it would have.
    pub job: JobId,
    /// When.
    pub start: TimeMs,
    /// CPUs over all nodes.
    pub cpus: u64,
    /// Names of its nodes; none where only the time is known.
    pub nodes: Vec<String>,
    /// The partition.
    pub partition: String,
}

/// What the trial changes is kept nowhere.
struct Nowhere;

impl MirrorSink for Nowhere {
    fn put(&mut self, _: Table, _: &[u8], _: Vec<u8>) {}
    fn delete(&mut self, _: Table, _: &[u8]) {}
}

/// Tries a submission on a copy of the state. No estimate for a job that waits for something that no time is known of.
///
/// # Errors
/// The refusal of the submission, or of a job that the nodes in service could never run.
pub fn estimate(
    state: &State,
    owner: Owner,
    mut spec: JobSpec,
    components: Vec<JobSpec>,
    now: TimeMs,
) -> Result<Option<Estimate>, Refusal> {
    // What it would be were it released.
    spec.hold = false;
    let begin = spec.begin.filter(|begin| *begin > now);
    let mut trial = state.clone();
    let job = submit(&mut trial, owner, spec, components, now)?;
    let at = begin.unwrap_or(now).max(trial.now());
    let limits = PlanLimits { reservations_max: RESERVATIONS_MAX, ..PlanLimits::default() };
    for _ in 0..PLANS_MAX {
        let plan = gpun_sched::plan(&trial, at, &limits);
        let placed = plan.placements.iter().chain(plan.together.iter().flatten()).find(|one| one.job == job);
        if let Some(placed) = placed {
            let nodes = placed.allocs.iter().filter_map(|alloc| trial.node(alloc.node)).map(|node| node.name.clone());
            return Ok(Some(Estimate {
                job,
                start: at,
                cpus: placed.allocs.iter().map(|alloc| alloc.cpus.len()).sum(),
                nodes: nodes.collect(),
                partition: placed.partition.clone(),
            }));
        }
        if plan.unfinished {
            let commands = plan.placements.into_iter().map(Command::Place).collect();
            trial.apply(Entry { version: ENTRY_VERSION, stamp: at, commands }, &mut Nowhere);
            continue;
        }
        let Some(record) = trial.job(job) else { return Ok(None) };
        let Some(verdict) = plan.verdict(&trial, record) else { return Ok(None) };
        let names = verdict.planned_nodes.iter().filter_map(|node| trial.node(*node)).map(|node| node.name.clone());
        let nodes: Vec<String> = names.collect();
        let never = verdict.needs_down_nodes
            || !verdict.unavailable_nodes.is_empty()
            || verdict.reason == gpun_core::job::Reason::BadConstraints;
        return match verdict.start_estimate {
            Some(start) => Ok(Some(expected(&trial, record, start, nodes))),
            None if never => Err(Refusal::NodeConfigUnavailable),
            None => Ok(None),
        };
    }
    Ok(None)
}

fn submit(
    trial: &mut State,
    owner: Owner,
    spec: JobSpec,
    components: Vec<JobSpec>,
    now: TimeMs,
) -> Result<JobId, Refusal> {
    let digest = Digest([0; 32]);
    // No other submission has it: one that is known would be answered with its job.
    let mut request = [0xff; 16];
    request[..4].copy_from_slice(&trial.next_job().0.to_be_bytes());
    let submit = Submit {
        request: RequestId(request),
        owner,
        spec,
        script: digest,
        environment: digest,
        blobs: vec![Blob { digest, bytes: Vec::new() }],
        components,
    };
    let commands = vec![Command::Submit(Box::new(submit))];
    let outcomes = trial.apply(Entry { version: ENTRY_VERSION, stamp: now, commands }, &mut Nowhere);
    match outcomes.into_iter().next() {
        Some(Outcome::Submitted { job }) => Ok(job),
        Some(Outcome::Refused(refusal)) => Err(refusal),
        _ => Err(Refusal::Invalid { what: "the submission".to_owned() }),
    }
}

/// A start that room is kept for.
fn expected(state: &State, job: &Job, start: TimeMs, nodes: Vec<String>) -> Estimate {
    let has = |name: &String| {
        state.partitions_of(job).find(|partition| partition.has_node(name)).map(|partition| partition.name.clone())
    };
    let first = || state.partitions_of(job).next().map(|partition| partition.name.clone());
    let partition = nodes.first().and_then(has).or_else(first).unwrap_or_default();
    Estimate { job: job.id, start, cpus: job.spec.cpus_of_job().max(nodes.len() as u64), nodes, partition }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

    use gpun_core::{
        MemoryMib, TimeLimit, command::Placement, job::NodeAlloc, node::Inventory, partition::Partition,
        settings::Settings,
    };

    use super::*;

    const NOW: TimeMs = TimeMs(1_000_000);

    fn owner() -> Owner {
        Owner { uid: 1000, gid: 1000, ..Owner::default() }
    }

    fn asks(nodes: u32, cpus: u32, limit_s: u64) -> JobSpec {
        JobSpec {
            nodes_min: Some(nodes),
            ntasks: Some(nodes),
            cpus_per_task: Some(cpus),
            time_limit: Some(TimeLimit::Seconds(limit_s)),
            ..JobSpec::default()
        }
    }

    fn applied(state: &mut State, commands: Vec<Command>) {
        let outcomes = state.apply(Entry { version: ENTRY_VERSION, stamp: NOW, commands }, &mut Nowhere);
        assert!(!outcomes.iter().any(|outcome| matches!(outcome, Outcome::Refused(_))), "{outcomes:?}");
    }

    /// Two nodes of four CPUs, of which a job has all of `n1` for ten minutes.
    fn cluster() -> State {
        let mut state = State::default();
        let inventory = Inventory {
            cpus: 4,
            sockets: 1,
            cores_per_socket: 4,
            threads_per_core: 1,
            memory: MemoryMib(1000),
            ..Inventory::default()
        };
        let settings = Settings { def_mem_per_cpu: Some(MemoryMib(1)), ..Settings::default() };
        let register = |name: &str| Command::RegisterNode { name: name.to_owned(), inventory: inventory.clone() };
        let commands = vec![
            Command::Configure { settings: Box::new(settings), partitions: vec![Partition::all_nodes("main")] },
            register("n1"),
            register("n2"),
        ];
        applied(&mut state, commands);
        let job = submit(&mut state, owner(), asks(1, 4, 600), Vec::new(), NOW).expect("accepted");
        let node = state.node_named("n1").expect("node").id;
        let alloc = NodeAlloc { node, cpus: (0..4).collect(), memory: MemoryMib(4), tasks: 1, gres: Vec::new() };
        let place = Command::Place(Placement {
            job,
            task: None,
            seen_attempt: gpun_core::Attempt(0),
            partition: "main".to_owned(),
            allocs: vec![alloc],
        });
        applied(&mut state, vec![place]);
        state
    }

    #[test]
    fn a_start_is_told_from_the_plan() {
        let later = |seconds| NOW.plus_s(seconds);
        let held = JobSpec { hold: true, ..asks(1, 1, 60) };
        let begins = JobSpec { begin: Some(later(50)), ..asks(1, 1, 60) };
        let on_n1 = JobSpec { node_list: vec!["n1".to_owned()], ..asks(1, 1, 60) };
        // The job, and when it starts, with how many CPUs, where.
        let rows: [(&str, JobSpec, (TimeMs, u64, &[&str])); 5] = [
            ("what is free", asks(1, 2, 60), (NOW, 2, &["n2"])),
            ("held", held, (NOW, 1, &["n2"])),
            ("a begin time", begins, (later(50), 1, &["n2"])),
            ("both nodes", asks(2, 4, 60), (later(600), 8, &["n1", "n2"])),
            ("a busy node", on_n1, (later(600), 1, &["n1"])),
        ];
        for (what, spec, (start, cpus, nodes)) in rows {
            let state = cluster();
            let before = state.fingerprint();
            let got = estimate(&state, owner(), spec, Vec::new(), NOW).expect("accepted").expect("an estimate");
            assert_eq!((got.start, got.cpus, got.partition.as_str()), (start, cpus, "main"), "{what}");
            assert_eq!(got.nodes, nodes, "{what}");
            assert_eq!(got.job, JobId(2));
            assert_eq!(state.fingerprint(), before, "nothing is submitted");
        }
    }

    #[test]
    fn jobs_that_wait_come_first() {
        let mut state = cluster();
        submit(&mut state, owner(), asks(2, 4, 300), Vec::new(), NOW).expect("accepted");
        let got = estimate(&state, owner(), asks(2, 1, 60), Vec::new(), NOW).expect("accepted").expect("an estimate");
        assert_eq!(got.start, NOW.plus_s(900));
    }

    #[test]
    fn what_is_refused_is_refused() {
        let unknown = JobSpec { partitions: vec!["none".to_owned()], ..asks(1, 1, 60) };
        for (spec, refusal) in [(asks(3, 1, 60), Refusal::NodeConfigUnavailable), (unknown, Refusal::UnknownPartition)]
        {
            assert_eq!(estimate(&cluster(), owner(), spec, Vec::new(), NOW), Err(refusal));
        }
    }
}
