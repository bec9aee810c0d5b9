//! What the tasks of a step find in their environment.
//!
//! Source: srun(1), OUTPUT ENVIRONMENT VARIABLES, and what `srun env` of Slurm 24.11 prints.

use gpun_proto::pb::StepMade;

type Variable = (Vec<u8>, Vec<u8>);

/// The environment that all tasks have: srun's own as `--export` leaves it, the job's, the step's.
pub fn common(own: Vec<Variable>, made: &StepMade, cpus_per_task: Option<u32>, umask: u32) -> Vec<Vec<u8>> {
    let mut all = own;
    let mut put = |name: &[u8], value: &[u8]| {
        all.retain(|(have, _)| have != name);
        all.push((name.to_vec(), value.to_vec()));
    };
    for entry in &made.environment {
        let Some(at) = entry.iter().position(|byte| *byte == b'=') else { continue };
        // These are of whoever runs srun, not of the job's script.
        if !KEPT.iter().any(|name| name.as_bytes() == &entry[..at]) {
            put(&entry[..at], &entry[at + 1..]);
        }
    }
    let tasks: u32 = made.nodes.iter().map(|node| node.tasks).sum();
    let per_node: Vec<String> = made.nodes.iter().map(|node| node.tasks.to_string()).collect();
    let per_node = per_node.join(",");
    let nodes = gpun_compat::hostlist::compress(made.nodes.iter().map(|node| node.name.as_str()));
    let (step, tasks, count) = (made.step.to_string(), tasks.to_string(), made.nodes.len().to_string());
    let umask = format!("{umask:04o}");
    let cpus = cpus_per_task.map(|cpus| cpus.to_string());
    let of_step: [(&str, &str); 17] = [
        ("SLURM_LAUNCH_NODE_IPADDR", "127.0.0.1"),
        ("SLURM_SRUN_COMM_HOST", "127.0.0.1"),
        ("SLURM_STEPID", &step),
        ("SLURM_STEP_ID", &step),
        ("SLURM_STEP_NODELIST", &nodes),
        ("SLURM_STEP_NUM_NODES", &count),
        ("SLURM_STEP_NUM_TASKS", &tasks),
        ("SLURM_STEP_TASKS_PER_NODE", &per_node),
        ("SLURM_NTASKS", &tasks),
        ("SLURM_NPROCS", &tasks),
        ("SLURM_NNODES", &count),
        ("SLURM_NODELIST", &nodes),
        ("SLURM_TASKS_PER_NODE", &per_node),
        ("SLURM_DISTRIBUTION", "block"),
        ("SLURM_UMASK", &umask),
        ("SRUN_DEBUG", "3"),
        ("SLURM_PRIO_PROCESS", "0"),
    ];
    for (name, value) in of_step {
        put(name.as_bytes(), value.as_bytes());
    }
    if let Some(cpus) = cpus {
        put(b"SLURM_CPUS_PER_TASK", cpus.as_bytes());
    }
    all.retain(|(name, _)| name != b"ENVIRONMENT");
    all.iter().map(|(name, value)| [name.as_slice(), b"=", value].concat()).collect()
}

/// Of the job's variables, those that stay as srun has them.
const KEPT: [&str; 8] =
    ["HOME", "LOGNAME", "USER", "TMPDIR", "SLURM_SUBMIT_DIR", "SLURM_SUBMIT_HOST", "GPUN_DIR", "HOSTNAME"];

/// What one task has besides.
pub fn of_task(task: u32, node: u32, local: u32, on_node: &[u32]) -> Vec<Vec<u8>> {
    let all: Vec<String> = on_node.iter().map(u32::to_string).collect();
    [
        format!("SLURM_PROCID={task}"),
        format!("SLURM_LOCALID={local}"),
        format!("SLURM_NODEID={node}"),
        format!("SLURM_GTIDS={}", all.join(",")),
    ]
    .into_iter()
    .map(String::into_bytes)
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpun_proto::pb::StepNode;

    #[test]
    fn the_steps_variables_stand_for_the_jobs() {
        let made = StepMade {
            step: 3,
            nodes: vec![StepNode { name: "n5".into(), tasks: 2, cpus: 2 }],
            environment: ["SLURM_NTASKS=4", "SLURM_JOB_ID=7", "HOME=/job"]
                .map(|entry| entry.as_bytes().to_vec())
                .into(),
        };
        let own = [("HOME", "/mine"), ("SLURM_NTASKS", "9"), ("A", "x=y")];
        let own = own.map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()));
        let all = common(own.into(), &made, Some(2), 0o022);
        let text: Vec<String> = all.iter().map(|entry| String::from_utf8_lossy(entry).into_owned()).collect();
        for entry in [
            "HOME=/mine",
            "A=x=y",
            "SLURM_JOB_ID=7",
            "SLURM_NTASKS=2",
            "SLURM_STEP_ID=3",
            "SLURM_CPUS_PER_TASK=2",
            "SLURM_UMASK=0022",
        ] {
            assert_eq!(text.iter().filter(|have| *have == entry).count(), 1, "{entry} in {text:?}");
        }
        assert_eq!(text.iter().filter(|have| have.starts_with("SLURM_NTASKS=")).count(), 1);
        assert_eq!(of_task(1, 0, 1, &[0, 1])[3], b"SLURM_GTIDS=0,1");
    }
}
