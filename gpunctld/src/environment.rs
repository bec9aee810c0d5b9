//! The environment of a batch script: what the user sent, and Slurm's variables for the allocation. Pure.
//!
//! Source: `sbatch`(1), "OUTPUT ENVIRONMENT VARIABLES"; forms as Slurm 24.11 writes them.

use gpun_compat::{count::condensed, hostlist::compress};
use gpun_core::{
    job::{GresAlloc, Job, NodeAlloc, Run},
    node::Node,
    partition::Partition,
    settings::Settings,
    spec::MemoryRequest,
};

/// A place of the run: the node and what the job has there.
pub type Place<'a> = (&'a Node, &'a NodeAlloc);

/// What the environment is made from.
pub struct Facts<'a> {
    /// The job.
    pub job: &'a Job,
    /// Its current run.
    pub run: &'a Run,
    /// Nodes with their allocations; the batch script runs on the first.
    pub places: &'a [Place<'a>],
    /// The run's partition.
    pub partition: Option<&'a Partition>,
    /// Settings of the cluster.
    pub settings: &'a Settings,
    /// All components of a heterogeneous job, the leader first; none for any other job.
    pub components: &'a [Facts<'a>],
    /// The cluster's folder on the node, so that commands inside the job find the controller.
    pub cluster_dir: &'a str,
}

/// Variables that describe an allocation: those of the submitter's own allocation are dropped before ours are added.
const ALLOCATION: &[&str] = &[
    "SLURM_ARRAY_",
    "SLURM_CLUSTER_NAME",
    "SLURM_CPUS_ON_NODE",
    "SLURM_GPUS_ON_NODE",
    "SLURM_GTIDS",
    "SLURM_HET_",
    "SLURM_PACK_",
    "SLURM_JOBID",
    "SLURM_JOB_",
    "SLURM_LAUNCH_",
    "SLURM_LOCALID",
    "SLURM_NNODES",
    "SLURM_NODEID",
    "SLURM_NODELIST",
    "SLURM_NPROCS",
    "SLURM_NTASKS",
    "SLURM_PROCID",
    "SLURM_RESTART_COUNT",
    "SLURM_STEP",
    "SLURM_SRUN_",
    "SLURM_TASKS_PER_NODE",
    "SLURM_TASK_PID",
    "SLURM_TOPOLOGY_",
    "SLURMD_NODENAME",
    "SLURM_MEM_PER_",
    "SLURM_CPUS_PER_TASK",
];

/// Ours stand in only where the submitter's environment has none. With `--chdir` the job does not start where it was submitted
/// from: sbatch says where that was.
const SUBMITTERS: &[&str] = &["HOME", "LOGNAME", "USER", "TMPDIR", "SLURM_SUBMIT_DIR"];

fn sent(user: &[u8], name: &str) -> bool {
    user.split(|byte| *byte == 0)
        .any(|entry| entry.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"=")))
}

/// The whole environment as `NAME=value`, the user's own first.
pub fn environment(facts: &Facts<'_>, user: &[u8]) -> Vec<Vec<u8>> {
    let mut ours: Vec<(String, String)> =
        slurm_variables(facts).into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    ours.extend(component_variables(facts.components));
    ours.retain(|(name, _)| !SUBMITTERS.contains(&name.as_str()) || !sent(user, name));
    let name = |entry: &[u8]| entry.iter().position(|byte| *byte == b'=').map(|at| entry[..at].to_vec());
    let replaced = |entry: &[u8]| match name(entry) {
        Some(name) => {
            ours.iter().any(|(ours, _)| ours.as_bytes() == name)
                || ALLOCATION.iter().any(|prefix| name.starts_with(prefix.as_bytes()))
        }
        None => true,
    };
    let user = user.split(|byte| *byte == 0).filter(|entry| !entry.is_empty() && !replaced(entry)).map(<[u8]>::to_vec);
    let user = user.map(|entry| with_commands(entry, facts.cluster_dir));
    user.chain(ours.iter().map(|(name, value)| format!("{name}={value}").into_bytes())).collect()
}

/// `PATH` with the cluster's own commands at its end, unless they are in it: scripts call `srun`, `scontrol` and others.
fn with_commands(mut entry: Vec<u8>, cluster_dir: &str) -> Vec<u8> {
    let commands = format!("{cluster_dir}/bin");
    if let Some(folders) = entry.strip_prefix(b"PATH=")
        && !folders.split(|byte| *byte == b':').any(|folder| folder == commands.as_bytes())
    {
        let gap = if folders.is_empty() { "" } else { ":" };
        entry.extend_from_slice(format!("{gap}{commands}").as_bytes());
    }
    entry
}

/// What a heterogeneous job is told of each component.
const OF_COMPONENT: &[&str] = &[
    "SLURM_CPUS_PER_TASK",
    "SLURM_JOB_ACCOUNT",
    "SLURM_JOB_CPUS_PER_NODE",
    "SLURM_JOB_ID",
    "SLURM_JOB_NAME",
    "SLURM_JOB_NODELIST",
    "SLURM_JOB_NUM_NODES",
    "SLURM_JOB_PARTITION",
    "SLURM_JOB_QOS",
    "SLURM_MEM_PER_CPU",
    "SLURM_MEM_PER_GPU",
    "SLURM_MEM_PER_NODE",
    "SLURM_NPROCS",
    "SLURM_NTASKS",
    "SLURM_TASKS_PER_NODE",
];

/// `SLURM_HET_SIZE`, and `NAME_HET_GROUP_n` for each component, also by their old names.
fn component_variables(components: &[Facts<'_>]) -> Vec<(String, String)> {
    if components.is_empty() {
        return Vec::new();
    }
    let size = components.len().to_string();
    let mut out = vec![("SLURM_HET_SIZE".to_owned(), size.clone()), ("SLURM_PACK_SIZE".to_owned(), size)];
    for (at, component) in components.iter().enumerate() {
        let of_it = slurm_variables(component).into_iter().filter(|(name, _)| OF_COMPONENT.contains(name));
        for (name, value) in of_it {
            out.push((format!("{name}_HET_GROUP_{at}"), value.clone()));
            out.push((format!("{name}_PACK_GROUP_{at}"), value));
        }
    }
    out
}

fn slurm_variables(facts: &Facts<'_>) -> Vec<(&'static str, String)> {
    let Facts { job, run, places, settings, .. } = facts;
    let spec = &job.spec;
    let names: Vec<&str> = places.iter().map(|(node, _)| node.name.as_str()).collect();
    let first = names.first().copied().unwrap_or_default();
    let list = compress(names.iter().copied());
    let cpus: Vec<u32> = places.iter().map(|(_, alloc)| alloc.cpus.len() as u32).collect();
    let tasks: Vec<u32> = places.iter().map(|(_, alloc)| alloc.tasks.max(1)).collect();
    let start = run.launched.unwrap_or(run.placed);
    let id = job.id.to_string();
    let mut out: Vec<(&'static str, String)> = vec![
        ("ENVIRONMENT", "BATCH".into()),
        ("GPUN_DIR", facts.cluster_dir.into()),
        ("HOME", job.owner.home.clone()),
        ("HOSTNAME", first.into()),
        ("LOGNAME", job.owner.user.clone()),
        ("USER", job.owner.user.clone()),
        ("TMPDIR", "/tmp".into()),
        ("SLURMD_NODENAME", first.into()),
        ("SLURM_CLUSTER_NAME", settings.cluster_name.clone()),
        ("SLURM_CPUS_ON_NODE", cpus.first().copied().unwrap_or(0).to_string()),
        ("SLURM_GTIDS", "0".into()),
        ("SLURM_JOBID", id.clone()),
        ("SLURM_JOB_CPUS_PER_NODE", condensed(&cpus)),
        ("SLURM_JOB_GID", job.owner.gid.to_string()),
        ("SLURM_JOB_ID", id),
        ("SLURM_JOB_NAME", spec.name.clone()),
        ("SLURM_JOB_NODELIST", list.clone()),
        ("SLURM_JOB_NUM_NODES", places.len().to_string()),
        ("SLURM_JOB_PARTITION", run.partition.clone()),
        ("SLURM_JOB_START_TIME", start.as_s().to_string()),
        ("SLURM_JOB_UID", job.owner.uid.to_string()),
        ("SLURM_JOB_USER", job.owner.user.clone()),
        ("SLURM_LOCALID", "0".into()),
        ("SLURM_NNODES", places.len().to_string()),
        ("SLURM_NODEID", "0".into()),
        ("SLURM_NODELIST", list),
        ("SLURM_OOM_KILL_STEP", "0".into()),
        ("SLURM_PRIO_PROCESS", "0".into()),
        ("SLURM_PROCID", "0".into()),
        ("SLURM_SUBMIT_DIR", spec.work_dir.clone()),
        ("SLURM_TASKS_PER_NODE", condensed(&tasks)),
        ("SLURM_TOPOLOGY_ADDR", first.into()),
        ("SLURM_TOPOLOGY_ADDR_PATTERN", "node".into()),
    ];
    let mut some = |name, value: Option<String>| out.extend(value.map(|value| (name, value)));
    some("SLURM_JOB_ACCOUNT", spec.account.clone());
    some("SLURM_JOB_QOS", spec.qos.clone());
    some("SLURM_JOB_RESERVATION", spec.reservation.clone());
    some("SLURM_SUBMIT_HOST", spec.submit_host.clone());
    some("SLURM_JOB_END_TIME", job.time_limit.end_after(start).map(|end| end.as_s().to_string()));
    let ntasks = spec.ntasks.or(spec.ntasks_per_node.map(|_| spec.tasks())).map(|tasks| tasks.to_string());
    some("SLURM_NTASKS", ntasks.clone());
    some("SLURM_NPROCS", ntasks);
    some("SLURM_NTASKS_PER_NODE", spec.ntasks_per_node.map(|tasks| tasks.to_string()));
    some("SLURM_CPUS_PER_TASK", spec.cpus_per_task.map(|cpus| cpus.to_string()));
    some("SLURM_TRES_BIND", spec.tres_bind.clone());
    some("SLURM_RESTART_COUNT", (job.restarts > 0).then(|| job.restarts.to_string()));
    let default = facts.partition.and_then(|partition| partition.def_mem_per_cpu).or(settings.def_mem_per_cpu);
    match spec.memory {
        MemoryRequest::PerNode(memory) => some("SLURM_MEM_PER_NODE", Some(memory.0.to_string())),
        MemoryRequest::PerCpu(memory) => some("SLURM_MEM_PER_CPU", Some(memory.0.to_string())),
        MemoryRequest::PerGpu(memory) => some("SLURM_MEM_PER_GPU", Some(memory.0.to_string())),
        MemoryRequest::Default => some("SLURM_MEM_PER_CPU", default.map(|memory| memory.0.to_string())),
    }
    out.extend(array_variables(job));
    out.extend(gpu_variables(places));
    out
}

fn array_variables(job: &Job) -> Vec<(&'static str, String)> {
    let (Some(array), Some(task), Some(shape)) = (job.array_id(), job.array_task(), job.array_shape) else {
        return Vec::new();
    };
    vec![
        ("SLURM_ARRAY_JOB_ID", array.to_string()),
        ("SLURM_ARRAY_TASK_COUNT", shape.count.to_string()),
        ("SLURM_ARRAY_TASK_ID", task.to_string()),
        ("SLURM_ARRAY_TASK_MAX", shape.max.to_string()),
        ("SLURM_ARRAY_TASK_MIN", shape.min.to_string()),
        ("SLURM_ARRAY_TASK_STEP", shape.step.to_string()),
    ]
}

/// Variables of the first node's GPUs. Programs see only their own devices, counted from 0; `SLURM_JOB_GPUS` has the node's
/// numbers.
fn gpu_variables(places: &[Place<'_>]) -> Vec<(&'static str, String)> {
    let gpus = places.first().and_then(|(_, alloc)| alloc.gres.iter().find(|gres| gres.name == "gpu"));
    let Some(GresAlloc { indexes, .. }) = gpus else { return Vec::new() };
    let join = |numbers: &mut dyn Iterator<Item = u32>| numbers.map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let visible = join(&mut (0..indexes.len() as u32));
    vec![
        ("CUDA_VISIBLE_DEVICES", visible.clone()),
        ("GPU_DEVICE_ORDINAL", visible.clone()),
        ("ROCR_VISIBLE_DEVICES", visible),
        ("SLURM_GPUS_ON_NODE", indexes.len().to_string()),
        ("SLURM_JOB_GPUS", join(&mut indexes.iter())),
        ("ZE_AFFINITY_MASK", join(&mut (0..indexes.len() as u32))),
    ]
}

#[cfg(test)]
mod tests {
    use gpun_core::{
        Attempt, Digest, IndexSet, JobId, MemoryMib, NodeId, Shared, TimeLimit, TimeMs,
        job::{ArrayRole, ArrayShape, ExitStatus, Hold, JobState, Owner, Reason},
        node::{Inventory, Liveness},
        spec::JobSpec,
    };

    use super::*;

    fn node(id: u32) -> Node {
        Node {
            id: NodeId(id),
            name: format!("n{id}"),
            inventory: Shared::new(Inventory { cpus: 8, ..Inventory::default() }),
            liveness: Liveness::Up,
            down: None,
            drain: None,
            since: TimeMs(0),
            silent: false,
            comment: String::new(),
            extra: String::new(),
            failing: false,
            stated: None,
            available_features: None,
            last_busy: None,
            taken: Default::default(),
        }
    }

    fn alloc(id: u32, cpus: u32, tasks: u32) -> NodeAlloc {
        let cpus = IndexSet::first_n(cpus);
        NodeAlloc { node: NodeId(id), cpus, memory: MemoryMib(100), tasks, gres: Vec::new() }
    }

    fn job(spec: JobSpec, allocs: Vec<NodeAlloc>) -> Job {
        let owner =
            Owner { uid: 7001, gid: 7001, user: "alice".into(), home: "/home/alice".into(), ..Owner::default() };
        Job {
            id: JobId(70001),
            spec: Shared::new(spec),
            owner: Shared::new(owner),
            script: Digest([0; 32]),
            environment: Digest([0; 32]),
            submitted: TimeMs(1_000_000),
            eligible: None,
            state: JobState::Running,
            reason: Reason::None,
            reason_text: None,
            hold: Hold::None,
            priority: 1,
            attempt: Attempt(1),
            restarts: 0,
            time_limit: TimeLimit::Seconds(600),
            array: None,
            array_shape: None,
            run: Some(Run {
                partition: "debug".into(),
                allocs,
                placed: TimeMs(2_000_000),
                launched: None,
                released: false,
                usage: Default::default(),
            }),
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
        }
    }

    fn lines(job: &Job, user: &[u8]) -> Vec<String> {
        let run = job.run.as_ref().unwrap();
        let nodes: Vec<Node> = run.allocs.iter().map(|alloc| node(alloc.node.0)).collect();
        let places: Vec<Place<'_>> = nodes.iter().zip(&run.allocs).collect();
        let settings = Settings::default();
        let facts = Facts {
            job,
            run,
            places: &places,
            partition: None,
            settings: &settings,
            components: &[],
            cluster_dir: "/var/lib/gpunion",
        };
        environment(&facts, user).into_iter().map(|line| String::from_utf8(line).unwrap()).collect()
    }

    #[track_caller]
    fn check(job: &Job, user: &[u8], present: &[&str], absent: &[&str]) {
        let lines = lines(job, user);
        for line in present {
            assert_eq!(lines.iter().filter(|have| have == line).count(), 1, "{line} in {lines:#?}");
        }
        for start in absent {
            assert!(!lines.iter().any(|have| have.starts_with(start)), "{start} in {lines:#?}");
        }
    }

    #[test]
    fn a_plain_job() {
        check(
            &job(JobSpec { name: "x".into(), ..JobSpec::default() }, vec![alloc(5, 1, 1)]),
            b"",
            &[
                "SLURM_JOB_ID=70001",
                "SLURM_JOB_NODELIST=n5",
                "SLURM_NNODES=1",
                "SLURM_TASKS_PER_NODE=1",
                "SLURM_JOB_START_TIME=2000",
                "SLURM_JOB_END_TIME=2600",
                "SLURM_JOB_USER=alice",
                "HOME=/home/alice",
            ],
            &["SLURM_NTASKS=", "SLURM_CPUS_PER_TASK", "SLURM_RESTART_COUNT", "SLURM_ARRAY", "SLURM_MEM_PER", "CUDA_"],
        );
    }

    #[test]
    fn several_nodes_are_written_in_short() {
        let spec = JobSpec { ntasks: Some(5), cpus_per_task: Some(2), nodes_min: Some(3), ..JobSpec::default() };
        check(
            &job(spec, vec![alloc(1, 4, 2), alloc(2, 4, 2), alloc(3, 2, 1)]),
            b"",
            &[
                "SLURM_JOB_NODELIST=n[1-3]",
                "SLURM_JOB_CPUS_PER_NODE=4(x2),2",
                "SLURM_TASKS_PER_NODE=2(x2),1",
                "SLURM_NTASKS=5",
                "SLURM_NPROCS=5",
                "SLURM_CPUS_PER_TASK=2",
                "SLURM_CPUS_ON_NODE=4",
            ],
            &[],
        );
    }

    #[test]
    fn the_users_variables_stay_and_those_of_another_allocation_go() {
        let user = b"A=1\0SLURM_SUBMIT_DIR=/from\0SLURM_JOB_ID=9\0SLURM_STEP_ID=0\0EMPTY=\0bad\0SLURM_CONF=/x\0HOME=/other\0NL=a\nb\0\xff=1\0";
        let job = job(JobSpec::default(), vec![alloc(1, 1, 1)]);
        let utf8 = &user[..user.len() - 4];
        check(
            &job,
            utf8,
            &[
                "A=1",
                "SLURM_SUBMIT_DIR=/from",
                "HOSTNAME=n1",
                "EMPTY=",
                "SLURM_CONF=/x",
                "NL=a\nb",
                "HOME=/other",
                "USER=alice",
            ],
            &["SLURM_STEP_ID", "bad"],
        );
        let run = job.run.as_ref().unwrap();
        let node = node(1);
        let places = [(&node, &run.allocs[0])];
        let settings = Settings::default();
        let facts = Facts {
            job: &job,
            run,
            places: &places,
            partition: None,
            settings: &settings,
            components: &[],
            cluster_dir: "/var/lib/gpunion",
        };
        assert!(environment(&facts, user).contains(&b"\xff=1".to_vec()), "what is not UTF-8 passes through");
    }

    #[test]
    fn the_clusters_commands_are_on_the_path_once() {
        let job = job(JobSpec::default(), vec![alloc(1, 1, 1)]);
        let rows = [
            ("PATH=/usr/bin:/bin", "PATH=/usr/bin:/bin:/var/lib/gpunion/bin"),
            ("PATH=/var/lib/gpunion/bin:/bin", "PATH=/var/lib/gpunion/bin:/bin"),
            ("PATH=", "PATH=/var/lib/gpunion/bin"),
        ];
        for (user, line) in rows {
            check(&job, user.as_bytes(), &[line], &[]);
        }
    }

    #[test]
    fn tasks_of_arrays_and_restarts() {
        let mut task = job(JobSpec::default(), vec![alloc(1, 1, 1)]);
        task.array = Some(ArrayRole::Task { array: JobId(70000), task: 4 });
        task.array_shape = Some(ArrayShape { count: 3, min: 2, max: 6, step: 2, max_running: Some(2) });
        task.restarts = 2;
        let present = [
            "SLURM_ARRAY_JOB_ID=70000",
            "SLURM_ARRAY_TASK_ID=4",
            "SLURM_ARRAY_TASK_COUNT=3",
            "SLURM_ARRAY_TASK_MIN=2",
            "SLURM_ARRAY_TASK_MAX=6",
            "SLURM_ARRAY_TASK_STEP=2",
            "SLURM_RESTART_COUNT=2",
        ];
        check(&task, b"", &present, &[]);
    }

    #[test]
    fn a_leader_is_told_of_all_components() {
        let named = |name: &str, tasks| JobSpec { name: name.into(), ntasks: Some(tasks), ..JobSpec::default() };
        let leader = job(named("x", 1), vec![alloc(3, 1, 1)]);
        let other = job(named("y", 2), vec![alloc(5, 1, 1), alloc(6, 1, 1)]);
        let nodes = [node(3), node(5), node(6)];
        let settings = Settings::default();
        let places = [&leader, &other].map(|job| {
            let allocs = &job.run.as_ref().unwrap().allocs;
            let of = |alloc: &NodeAlloc| nodes.iter().find(|node| node.id == alloc.node).unwrap();
            allocs.iter().map(|alloc| (of(alloc), alloc)).collect::<Vec<Place<'_>>>()
        });
        fn facts<'a>(
            job: &'a Job,
            places: &'a [Place<'a>],
            settings: &'a Settings,
            components: &'a [Facts<'a>],
        ) -> Facts<'a> {
            let run = job.run.as_ref().unwrap();
            Facts { job, run, places, partition: None, settings, components, cluster_dir: "/c" }
        }
        let components = [facts(&leader, &places[0], &settings, &[]), facts(&other, &places[1], &settings, &[])];
        let lines = environment(&facts(&leader, &places[0], &settings, &components), b"SLURM_HET_SIZE=9\0");
        for want in [
            "SLURM_HET_SIZE=2",
            "SLURM_JOB_NAME_HET_GROUP_1=y",
            "SLURM_JOB_NODELIST_HET_GROUP_0=n3",
            "SLURM_JOB_NODELIST_HET_GROUP_1=n[5-6]",
            "SLURM_TASKS_PER_NODE_HET_GROUP_1=1(x2)",
            "SLURM_NTASKS_PACK_GROUP_1=2",
            "SLURM_JOB_NODELIST=n3",
        ] {
            assert_eq!(lines.iter().filter(|have| *have == want.as_bytes()).count(), 1, "{want}");
        }
    }

    #[test]
    fn the_manual_page_has_every_variable() {
        let page = include_str!("../../man/man1/sbatch.1");
        let (_, part) = page.split_once(".SS In the job").unwrap();
        let (part, _) = part.split_once(".SH ").unwrap();
        let mut place = alloc(1, 1, 1);
        place.gres = vec![GresAlloc { name: "gpu".into(), kind: None, indexes: [1].into_iter().collect() }];
        for memory in [
            MemoryRequest::PerNode(MemoryMib(1)),
            MemoryRequest::PerCpu(MemoryMib(1)),
            MemoryRequest::PerGpu(MemoryMib(1)),
        ] {
            let some = || Some("x".to_owned());
            let mut full = job(
                JobSpec {
                    memory,
                    account: some(),
                    qos: some(),
                    reservation: some(),
                    submit_host: some(),
                    tres_bind: some(),
                    ntasks: Some(1),
                    ntasks_per_node: Some(1),
                    cpus_per_task: Some(1),
                    ..JobSpec::default()
                },
                vec![place.clone()],
            );
            full.array = Some(ArrayRole::Task { array: JobId(70000), task: 4 });
            full.array_shape = Some(ArrayShape { count: 3, min: 2, max: 6, step: 2, max_running: None });
            full.restarts = 1;
            let lines = lines(&full, b"");
            assert!(lines.len() > 50, "{lines:#?}");
            for name in lines.iter().filter_map(|line| line.split('=').next()) {
                assert!(
                    part.contains(&format!("\\fB{name}\\fR")),
                    "{name}: the page is made from cli/src/man/commands.rs"
                );
            }
        }
    }

    #[test]
    fn devices_count_from_zero_inside() {
        let mut place = alloc(1, 1, 1);
        place.gres =
            vec![GresAlloc { name: "gpu".into(), kind: Some("a100".into()), indexes: [1, 3].into_iter().collect() }];
        let present = ["CUDA_VISIBLE_DEVICES=0,1", "SLURM_JOB_GPUS=1,3", "SLURM_GPUS_ON_NODE=2"];
        check(&job(JobSpec::default(), vec![place]), b"", &present, &[]);
    }
}
