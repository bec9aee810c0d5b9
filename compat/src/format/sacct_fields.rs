//! The fields of `sacct`: names, widths, and where each value comes from.

use gpun_core::TimeLimit;

use super::Shown;
use super::job::JobRow;
use super::sacct::{Line, Part};
use crate::tres::Tres;
use crate::{hostlist, memory, time};

/// One field.
pub struct Field {
    /// Its name, as the header has it.
    pub name: &'static str,
    /// Its width; negative where it stands on the left.
    pub width: i16,
    /// Its value.
    pub value: fn(&Line<'_>, &Shown<'_>) -> String,
}

const fn field(name: &'static str, width: i16, value: fn(&Line<'_>, &Shown<'_>) -> String) -> Field {
    Field { name, width, value }
}

/// Nothing: what is not measured or does not exist here.
fn none(_: &Line<'_>, _: &Shown<'_>) -> String {
    String::new()
}

/// The value for jobs; steps have none.
fn job(line: &Line<'_>, value: impl FnOnce(&JobRow<'_>) -> String) -> String {
    if line.is_job() { value(&line.row) } else { String::new() }
}

fn text(value: Option<&str>) -> String {
    value.unwrap_or_default().to_owned()
}

/// Seconds with a part, as processor time is shown: `00:01.250`, `00:00:00`.
fn cpu_time(ms: u64) -> String {
    let (seconds, rest) = (ms / 1000, ms % 1000);
    match (seconds < 3600, rest) {
        (_, 0) | (false, _) => time::long(seconds),
        (true, _) => format!("{:02}:{:02}.{rest:03}", seconds / 60, seconds % 60),
    }
}

/// A size in kibibytes with its unit.
fn size(kib: u64, line: &Line<'_>) -> String {
    match line.unit {
        Some(unit) => in_unit(kib, unit),
        None => format!("{kib}K"),
    }
}

fn in_unit(kib: u64, unit: char) -> String {
    let power = "KMGTP".find(unit).unwrap_or(0);
    let step = 1u64 << (10 * power as u32);
    match (kib / step, kib % step) {
        (whole, 0) => format!("{whole}{unit}"),
        (whole, rest) => {
            // Two places, rounded as C does.
            let hundredths = (u128::from(rest) * 100 + u128::from(step) / 2) / u128::from(step);
            let (whole, hundredths) = (u128::from(whole) + hundredths / 100, hundredths % 100);
            format!("{whole}.{hundredths:02}{unit}")
        }
    }
}

fn memory_text(mib: u64, line: &Line<'_>, shown: &Shown<'_>) -> String {
    match (line.unit, shown.noconvert, mib) {
        (_, _, 0) => "0".to_owned(),
        (Some(unit), ..) => in_unit(mib.saturating_mul(1024), unit),
        (None, true, _) => format!("{mib}M"),
        (None, false, _) => memory::exact(mib),
    }
}

/// `billing=2,cpu=2,gres/gpu=2,mem=400M,node=2`: in the order of names.
fn tres(tres: &Tres, line: &Line<'_>, shown: &Shown<'_>) -> String {
    let mut parts = Vec::new();
    let mut add = |name: String, value: String| parts.push(format!("{name}={value}"));
    if let Some(billing) = tres.billing {
        add("billing".to_owned(), billing.to_string());
    }
    if tres.cpus > 0 {
        add("cpu".to_owned(), tres.cpus.to_string());
    }
    tres.gres
        .iter()
        .filter(|(_, count)| *count > 0)
        .for_each(|(name, count)| add(format!("gres/{name}"), count.to_string()));
    if tres.memory_mib > 0 {
        add("mem".to_owned(), memory_text(tres.memory_mib, line, shown));
    }
    if tres.nodes > 0 {
        add("node".to_owned(), tres.nodes.to_string());
    }
    parts.join(",")
}

fn alloc_tres(line: &Line<'_>, shown: &Shown<'_>) -> String {
    tres(&line.allocated(shown), line, shown)
}

fn sampled(line: &Line<'_>, shown: &Shown<'_>, value: impl FnOnce(gpun_core::job::Usage) -> String) -> String {
    line.sampled(shown).map_or_else(String::new, value)
}

fn max_rss(line: &Line<'_>, shown: &Shown<'_>) -> String {
    sampled(line, shown, |usage| size(usage.max_rss_kib, line))
}

fn cpu_of_task(line: &Line<'_>, shown: &Shown<'_>) -> String {
    let tasks = u64::from(line.tasks().unwrap_or(1).max(1));
    sampled(line, shown, |usage| time::long((usage.user_ms + usage.system_ms) / 1000 / tasks))
}

fn sampled_node(line: &Line<'_>, shown: &Shown<'_>) -> String {
    sampled(line, shown, |_| text(line.nodes().first().map(String::as_str)))
}

fn sampled_task(line: &Line<'_>, shown: &Shown<'_>) -> String {
    sampled(line, shown, |_| "0".to_owned())
}

fn usage_in(line: &Line<'_>, shown: &Shown<'_>) -> String {
    let cpu = cpu_of_task(line, shown);
    sampled(line, shown, |usage| format!("cpu={cpu},energy=0,mem={},pages=0", size(usage.max_rss_kib, line)))
}

fn usage_in_total(line: &Line<'_>, shown: &Shown<'_>) -> String {
    let ended = !line.is_job() && line.ended().is_some();
    match usage_in(line, shown) {
        nothing if nothing.is_empty() && ended => "energy=0".to_owned(),
        usage => usage,
    }
}

fn usage_in_node(line: &Line<'_>, shown: &Shown<'_>) -> String {
    let node = sampled_node(line, shown);
    sampled(line, shown, |_| format!("cpu={node},energy={node},mem={node},pages={node}"))
}

fn usage_in_task(line: &Line<'_>, shown: &Shown<'_>) -> String {
    sampled(line, shown, |_| "cpu=0,mem=0,pages=0".to_owned())
}

fn usage_out(line: &Line<'_>, _: &Shown<'_>) -> String {
    let ended = !line.is_job() && line.ended().is_some();
    if ended { "energy=0".to_owned() } else { String::new() }
}

fn energy(line: &Line<'_>, shown: &Shown<'_>) -> String {
    // A job's is the sum of its sampled steps.
    let batch = Line { part: Part::Batch, ..*line };
    let known = !line.is_job() || !line.row.has_run() || batch.sampled(shown).is_some();
    if known { "0".to_owned() } else { String::new() }
}

fn frequency(line: &Line<'_>, _: &Shown<'_>) -> String {
    if line.is_job() { String::new() } else { "0".to_owned() }
}

/// Frequencies can't be asked for: unknown for jobs and steps, and the batch step has none.
fn frequency_asked(line: &Line<'_>, _: &Shown<'_>) -> String {
    if matches!(line.part, Part::Batch) { "0" } else { "Unknown" }.to_owned()
}

fn start(line: &Line<'_>, shown: &Shown<'_>) -> String {
    let none = if line.ended().is_some() { "None" } else { "Unknown" };
    shown.time_or(line.started(), none)
}

fn eligible(line: &Line<'_>, shown: &Shown<'_>) -> String {
    if line.is_job() { shown.time_or(line.row.eligible(), "Unknown") } else { start(line, shown) }
}

fn submit(line: &Line<'_>, shown: &Shown<'_>) -> String {
    if line.is_job() { shown.time(line.record.view.job.submitted) } else { start(line, shown) }
}

fn planned(line: &Line<'_>, shown: &Shown<'_>, factor: u64, raw: bool) -> String {
    job(line, |_| match line.planned_s(shown).map(|planned_s| planned_s.saturating_mul(factor)) {
        None => "INVALID".to_owned(),
        Some(planned_s) if raw => planned_s.to_string(),
        Some(planned_s) => time::long(planned_s),
    })
}

fn cpu_seconds(line: &Line<'_>, shown: &Shown<'_>) -> u64 {
    line.elapsed_s(shown).saturating_mul(line.cpus())
}

fn node_list(line: &Line<'_>, _: &Shown<'_>) -> String {
    match line.nodes() {
        [] => "None assigned".to_owned(),
        nodes => hostlist::compress(nodes),
    }
}

fn node_count(line: &Line<'_>, _: &Shown<'_>) -> String {
    match line.nodes().len() {
        0 => line.row.node_count().to_string(),
        nodes => nodes.to_string(),
    }
}

fn nodes_asked(line: &Line<'_>, _: &Shown<'_>) -> String {
    if line.is_job() { line.asked.node_count().to_string() } else { line.nodes().len().to_string() }
}

fn cpus_asked(line: &Line<'_>, _: &Shown<'_>) -> String {
    if line.is_job() { line.asked.cpu_count() } else { line.cpus() }.to_string()
}

fn exit(line: &Line<'_>, _: &Shown<'_>) -> String {
    let exit = line.exit();
    format!("{}:{}", exit.code, exit.signal)
}

fn derived_exit(line: &Line<'_>, _: &Shown<'_>) -> String {
    job(line, |_| {
        let exit = line.derived_exit();
        format!("{}:{}", exit.code, exit.signal)
    })
}

fn limit(line: &Line<'_>, in_minutes: bool) -> String {
    job(line, |_| match line.record.view.job.time_limit {
        TimeLimit::Seconds(seconds) if in_minutes => seconds.div_ceil(60).to_string(),
        TimeLimit::Seconds(seconds) => time::long(seconds.div_ceil(60) * 60),
        _ => "UNLIMITED".to_owned(),
    })
}

/// A number that no other record has: when it was submitted, and the job's number.
fn database_index(line: &Line<'_>) -> u64 {
    let job = &line.record.view.job;
    (job.submitted.as_s() << 32) | u64::from(job.id.0)
}

/// The same as 13 digits in Crockford's base 32 behind an `s`.
fn short_id(line: &Line<'_>) -> String {
    const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let number = database_index(line);
    let digit = |place: u32| DIGITS.get(((number >> (5 * place)) & 31) as usize).copied().unwrap_or(b'0');
    std::iter::once('s').chain((0..13).rev().map(|place| char::from(digit(place)))).collect()
}

fn submit_line(line: &Line<'_>, _: &Shown<'_>) -> String {
    match line.part {
        Part::Job => text(line.record.view.job.spec.submit_line.as_deref()),
        Part::Batch => String::new(),
        Part::Step(step) => text(step.submit_line.as_deref()),
    }
}

fn flags(line: &Line<'_>, _: &Shown<'_>) -> String {
    job(line, |row| if row.has_run() { "SchedMain,StartReceived" } else { "StartReceived" }.to_owned())
}

fn features(line: &Line<'_>, _: &Shown<'_>) -> String {
    job(line, |row| {
        let spec = &row.view.job.spec;
        spec.features_text.clone().unwrap_or_else(|| spec.features.join("&"))
    })
}

fn file(line: &Line<'_>, pattern: Option<String>) -> String {
    job(line, |row| match pattern {
        Some(pattern) if line.expand_patterns => row.expanded(&pattern),
        pattern => pattern.unwrap_or_default(),
    })
}

fn licenses(line: &Line<'_>, _: &Shown<'_>) -> String {
    job(line, |row| crate::license::text(&row.view.job.spec.licenses))
}

fn layout(line: &Line<'_>, _: &Shown<'_>) -> String {
    if line.is_job() { String::new() } else { "Unknown".to_owned() }
}

fn qos(line: &Line<'_>) -> String {
    line.record.view.job.spec.qos.clone().unwrap_or_else(|| "normal".to_owned())
}

/// All fields, in the order of their names.
#[rustfmt::skip]
pub static FIELDS: &[Field] = &[
    field("Account", 10, |l, _| text(l.record.view.job.spec.account.as_deref())),
    field("AdminComment", 15, none),
    field("AllocCPUS", 10, |l, _| l.cpus().to_string()),
    field("AllocNodes", 10, |l, _| l.nodes().len().to_string()),
    field("AllocTRES", 10, alloc_tres),
    field("AssocID", 7, none),
    field("AveCPU", 10, cpu_of_task),
    field("AveCPUFreq", 10, frequency),
    field("AveDiskRead", 14, none),
    field("AveDiskWrite", 14, none),
    field("AvePages", 10, none),
    field("AveRSS", 10, max_rss),
    field("AveVMSize", 10, none),
    field("BlockID", 16, none),
    field("Cluster", 10, |_, s| s.cluster.to_owned()),
    field("Comment", 14, |l, _| job(l, |row| text(row.view.job.spec.comment.as_deref()))),
    field("Constraints", 19, features),
    field("ConsumedEnergy", 14, energy),
    field("ConsumedEnergyRaw", 17, energy),
    field("Container", 19, |l, _| job(l, |row| text(row.view.job.spec.container_image.as_deref()))),
    field("CPUTime", 10, |l, s| time::long(cpu_seconds(l, s))),
    field("CPUTimeRAW", 10, |l, s| cpu_seconds(l, s).to_string()),
    field("DBIndex", -21, |l, _| database_index(l).to_string()),
    field("DerivedExitCode", 15, derived_exit),
    field("Elapsed", 10, |l, s| time::long(l.elapsed_s(s))),
    field("ElapsedRaw", 10, |l, s| l.elapsed_s(s).to_string()),
    field("Eligible", 19, eligible),
    field("End", 19, |l, s| s.time_or(l.ended(), "Unknown")),
    field("ExitCode", 8, exit),
    field("Extra", 14, |l, _| job(l, |row| text(row.view.job.spec.extra.as_deref()))),
    field("FailedNode", 8, none),
    field("Flags", 19, flags),
    field("GID", 6, |l, _| job(l, |row| row.view.job.owner.gid.to_string())),
    field("Group", 9, |l, _| job(l, |row| row.view.job.owner.group.clone())),
    field("JobID", -12, |l, s| l.id(s)),
    field("JobIDRaw", -12, |l, _| l.raw_id()),
    field("JobName", 10, |l, _| l.name().to_owned()),
    field("Layout", 9, layout),
    field("Licenses", 10, licenses),
    field("MaxDiskRead", 12, none),
    field("MaxDiskReadNode", 15, none),
    field("MaxDiskReadTask", 15, none),
    field("MaxDiskWrite", 12, none),
    field("MaxDiskWriteNode", 16, none),
    field("MaxDiskWriteTask", 16, none),
    field("MaxPages", 8, none),
    field("MaxPagesNode", 12, none),
    field("MaxPagesTask", 14, none),
    field("MaxRSS", 10, max_rss),
    field("MaxRSSNode", 10, sampled_node),
    field("MaxRSSTask", 10, sampled_task),
    field("MaxVMSize", 10, none),
    field("MaxVMSizeNode", 14, none),
    field("MaxVMSizeTask", 14, none),
    field("McsLabel", 12, none),
    field("MinCPU", 10, cpu_of_task),
    field("MinCPUNode", 10, sampled_node),
    field("MinCPUTask", 10, sampled_task),
    field("NCPUS", 10, |l, _| l.cpus().to_string()),
    field("NNodes", 8, node_count),
    field("NodeList", 15, node_list),
    field("NTasks", 8, |l, _| l.tasks().map_or_else(String::new, |tasks| tasks.to_string())),
    field("Partition", 10, |l, _| job(l, |row| row.partition())),
    field("Planned", 10, |l, s| planned(l, s, 1, false)),
    field("PlannedCPU", 10, |l, s| planned(l, s, l.asked.cpu_count(), false)),
    field("PlannedCPURAW", 13, |l, s| planned(l, s, l.asked.cpu_count(), true)),
    field("Priority", 10, |l, _| job(l, |row| row.view.job.priority.to_string())),
    field("QOS", 10, |l, _| job(l, |_| qos(l))),
    field("QOSRAW", 6, |l, _| job(l, |_| if qos(l) == "normal" { "1".to_owned() } else { String::new() })),
    field("QOSREQ", 10, |l, _| job(l, |row| text(row.view.job.spec.qos.as_deref()))),
    field("Reason", 22, |l, _| job(l, |_| "None".to_owned())),
    field("ReqCPUFreq", 10, frequency_asked),
    field("ReqCPUFreqGov", 13, frequency_asked),
    field("ReqCPUFreqMax", 13, frequency_asked),
    field("ReqCPUFreqMin", 13, frequency_asked),
    field("ReqCPUS", 8, cpus_asked),
    field("ReqMem", 10, |l, s| job(l, |_| memory_text(l.asked.tres(s).memory_mib, l, s))),
    field("ReqNodes", 8, nodes_asked),
    field("ReqTRES", 10, |l, s| job(l, |_| tres(&l.asked.tres(s), l, s))),
    field("Reservation", 20, |l, _| job(l, |row| text(row.view.job.spec.reservation.as_deref()))),
    field("ReservationId", 8, none),
    field("Restarts", 8, |l, _| job(l, |row| row.view.job.restarts.to_string())),
    field("SLUID", 14, |l, _| short_id(l)),
    field("Start", 19, start),
    field("State", 10, |l, _| l.state()),
    field("StdErr", 20, |l, _| file(l, l.row.std_err())),
    field("StdIn", 20, |l, _| file(l, Some(l.row.std_in()))),
    field("StdOut", 20, |l, _| file(l, Some(l.row.std_out()))),
    field("Submit", 19, submit),
    field("SubmitLine", 20, submit_line),
    field("Suspended", 10, |l, s| time::long(l.suspended_s(s))),
    field("SystemComment", 15, none),
    field("SystemCPU", 10, |l, _| cpu_time(l.usage().system_ms)),
    field("Timelimit", 10, |l, _| limit(l, false)),
    field("TimelimitRaw", 10, |l, _| limit(l, true)),
    field("TotalCPU", 10, |l, _| cpu_time(l.usage().user_ms.saturating_add(l.usage().system_ms))),
    field("TRESUsageInAve", 14, usage_in),
    field("TRESUsageInMax", 14, usage_in),
    field("TRESUsageInMaxNode", 18, usage_in_node),
    field("TRESUsageInMaxTask", 18, usage_in_task),
    field("TRESUsageInMin", 14, usage_in),
    field("TRESUsageInMinNode", 18, usage_in_node),
    field("TRESUsageInMinTask", 18, usage_in_task),
    field("TRESUsageInTot", 14, usage_in_total),
    field("TRESUsageOutAve", 15, usage_out),
    field("TRESUsageOutMax", 15, none),
    field("TRESUsageOutMaxNode", 19, none),
    field("TRESUsageOutMaxTask", 19, none),
    field("TRESUsageOutMin", 15, none),
    field("TRESUsageOutMinNode", 19, none),
    field("TRESUsageOutMinTask", 19, none),
    field("TRESUsageOutTot", 15, usage_out),
    field("UID", 6, |l, _| job(l, |row| row.view.job.owner.uid.to_string())),
    field("User", 9, |l, _| job(l, |row| row.view.job.owner.user.clone())),
    field("UserCPU", 10, |l, _| cpu_time(l.usage().user_ms)),
    field("WCKey", 10, |l, _| job(l, |row| text(row.view.job.spec.wckey.as_deref()))),
    field("WCKeyID", 10, |l, _| job(l, |_| "0".to_owned())),
    field("WorkDir", 20, |l, _| job(l, |row| row.view.job.spec.work_dir.clone())),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_has_its_thousandths() {
        for (ms, want) in
            [(0, "00:00:00"), (22, "00:00.022"), (61_001, "01:01.001"), (60_000, "00:01:00"), (3_600_001, "01:00:00")]
        {
            assert_eq!(cpu_time(ms), want);
        }
    }

    #[test]
    fn sizes_in_a_unit() {
        for (kib, unit, want) in [
            (409_600, 'G', "0.39G"),
            (409_600, 'K', "409600K"),
            (8_192, 'G', "0.01G"),
            (1, 'G', "0.00G"),
            (3_145_728, 'G', "3G"),
            (0, 'P', "0P"),
        ] {
            assert_eq!(in_unit(kib, unit), want);
        }
    }
}
