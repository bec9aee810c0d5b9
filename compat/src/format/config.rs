//! `scontrol show config`: the settings that scripts ask for, under Slurm's names.

use gpun_core::view::ClusterView;

use super::Shown;

/// The whole listing.
pub fn show(view: &ClusterView, shown: &Shown<'_>) -> String {
    let s = &view.settings;
    let seconds = |n: u64| format!("{n} sec");
    let memory = s
        .def_mem_per_cpu
        .map_or_else(|| ("DefMemPerNode", "UNLIMITED".to_owned()), |m| ("DefMemPerCPU", m.0.to_string()));
    let mut rows: Vec<(&str, String)> = vec![
        ("BOOT_TIME", shown.time(view.started)),
        ("ClusterName", s.cluster_name.clone()),
        memory,
        ("FirstJobId", s.first_job_id.to_string()),
        ("JobFileAppend", "0".to_owned()),
        ("JobRequeue", "1".to_owned()),
        ("KillWait", seconds(s.kill_wait_s)),
        ("MaxArraySize", s.max_array_size.to_string()),
        ("MaxJobCount", s.max_job_count.to_string()),
        ("MaxJobId", s.max_job_id.to_string()),
        ("MinJobAge", seconds(s.min_job_age_s)),
        ("NEXT_JOB_ID", view.next_job.to_string()),
        ("PreemptMode", "OFF".to_owned()),
        ("ProctrackType", "proctrack/cgroup".to_owned()),
        ("SchedulerType", "sched/backfill".to_owned()),
        ("SelectType", "select/cons_tres".to_owned()),
        ("SlurmctldHost[0]", view.host.clone()),
        ("SlurmdTimeout", seconds(s.node_down_s)),
        ("SLURM_VERSION", view.version.clone()),
        ("TaskPlugin", "task/cgroup".to_owned()),
    ];
    rows.extend(view.more.iter().map(|(name, value)| (name.as_str(), value.clone())));
    rows.sort_by_key(|(name, _)| name.to_ascii_lowercase());
    let mut out = format!("Configuration data as of {}\n", shown.time(view.now));
    rows.iter().for_each(|(name, value)| out.push_str(&format!("{name:<23} = {value}\n")));
    out.push_str(&format!("\nSlurmctld(primary) at {} is UP\n", view.host));
    out
}
