//! Slurm's small languages: what users type, and what stands in scripts.
//!
//! What is read and written again must be read as the same; lists say how many they are before they are spelled out.

use gpun_compat::{
    array, constraint, count, dependency, directive,
    format::{sort_fields, squeue_fields, template::Template},
    gres,
    hostlist::Hostlist,
    jobid, license, memory, moment,
    option::{Context, sbatch},
    pattern, signal, time, tres, update,
};
use jiff::tz::TimeZone;

/// 2026-12-01T04:04:44 UTC.
const NOW_S: i64 = 1_796_097_884;
/// Names that are spelled out, at most: a list may stand for far more.
const SPELLED_MAX: usize = 2000;

fn text(data: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(data)
}

/// `--array`.
pub fn array(data: &[u8]) {
    let Ok(spec) = array::parse(&text(data)) else { return };
    let shown = array::show(&spec.tasks);
    let again = array::parse(&shown).map(|again| again.tasks.same_members(&spec.tasks));
    assert!(spec.tasks.is_empty() || again == Ok(true), "{shown} is not what was read");
    assert!(array::show_short(&spec.tasks, 64).len() <= 64 + "...".len());
}

/// `--constraint`, and `--licenses` and counts, which are as short.
pub fn constraint(data: &[u8]) {
    let text = text(data);
    let _ = constraint::parse(&text);
    let _ = license::parse(&text).map(|licenses| license::text(&licenses));
    let _ = license::parse_totals(&text);
    let _ = count::positive(&text, "nodes");
    let _ = count::nodes(&text);
    let _ = signal::parse(&text).map(signal::name);
    let _ = signal::parse_warning(&text);
}

/// `--dependency`.
pub fn dependency(data: &[u8]) {
    let Ok(read) = dependency::parse(&text(data)) else { return };
    let _ = dependency::show(&read);
    let written = dependency::text(&read);
    assert_eq!(dependency::parse(&written), Ok(read), "{written} is not what was read");
}

/// A batch script's directives, and what sbatch makes of them.
pub fn directive(data: &[u8]) {
    for ignore_pbs in [false, true] {
        let _ = directive::extract(data, "job.sh", ignore_pbs);
    }
}

/// sbatch's options, one argument a line.
pub fn sbatch(data: &[u8]) {
    let args: Vec<String> = text(data).lines().map(str::to_owned).collect();
    let Ok(line) = sbatch::Line::parse(&args) else { return };
    let _ = line.peek(&Context { now_s: NOW_S, zone: &TimeZone::UTC, is_root: false });
}

/// `-o` and `-O`.
pub fn format(data: &[u8]) {
    let text = text(data);
    for template in [Template::letters(&text, squeue_fields::by_letter), Template::names(&text, squeue_fields::by_name)]
    {
        let mut line = String::new();
        // Widths are bounded, so a line is by its number of columns.
        if template.columns.len() <= 16 {
            template.line(&mut line, |_| "value".to_owned());
            assert!(line.ends_with('\n'));
        }
        assert!(template.fields().count() <= template.columns.len());
    }
    let _ = sort_fields(&text);
}

/// `--gres` and the lists of GPUs.
pub fn gres(data: &[u8]) {
    let text = text(data);
    let _ = gres::parse_of("gpu", &text);
    let Ok(list) = gres::parse(&text) else { return };
    let shown = gres::show(&list);
    // A list of one resource that is named `none` is written as no list at all.
    if !list.is_empty() && !shown.eq_ignore_ascii_case("none") {
        assert_eq!(gres::parse(&shown), Ok(list), "{shown} is not what was read");
    }
}

/// Hostlists.
pub fn hostlist(data: &[u8]) {
    let Ok(mut list) = Hostlist::parse(&text(data)) else { return };
    let names: Vec<String> = list.iter().take(SPELLED_MAX + 1).collect();
    if names.len() > SPELLED_MAX {
        return;
    }
    assert_eq!(list.len(), names.len() as u64);
    let written = list.to_string();
    let again = Hostlist::parse(&written).map(|again| again.iter().collect::<Vec<_>>());
    assert_eq!(again.as_ref(), Ok(&names), "{written} is not what was read");
    assert!(names.iter().all(|name| list.contains(name)), "{written} lacks a name of its own");
    list.sort_unique();
    let mut sorted: Vec<String> = list.iter().collect();
    sorted.sort();
    let mut unique = names;
    unique.sort();
    unique.dedup();
    assert_eq!(sorted, unique);
}

/// Job ids.
pub fn jobid(data: &[u8]) {
    let text = text(data);
    for part in jobid::split(&text) {
        let _ = jobid::parse(part).map(|selector| selector.reference());
    }
}

/// Memory sizes.
pub fn memory(data: &[u8]) {
    let Ok(mib) = memory::parse_mib(&text(data)) else { return };
    // Slurm writes P and E, and reads neither.
    assert!(mib >= 1 << 30 || memory::parse_mib(&memory::exact(mib)) == Ok(mib));
}

/// Points in time.
pub fn moment(data: &[u8]) {
    let text = text(data);
    let style = moment::Style::from_env(Some(&text));
    let _ = moment::show(NOW_S, NOW_S, &TimeZone::UTC, &style);
    let Ok(at_s) = moment::parse(&text, NOW_S, &TimeZone::UTC) else { return };
    for style in [moment::Style::Standard, moment::Style::Relative] {
        let _ = moment::show(at_s, NOW_S, &TimeZone::UTC, &style);
    }
    let _ = moment::headline(at_s, &TimeZone::UTC);
}

/// File-name patterns.
pub fn pattern(data: &[u8]) {
    let text = text(data);
    let values = pattern::Values {
        job: 7,
        array_job: Some(5),
        array_task: Some(3),
        name: "name",
        user: "user",
        host: "host.domain",
        node: 0,
        task: 0,
        step: "batch",
    };
    // The longest that one sign and its letter can become is a padded number or a name.
    assert!(pattern::expand(&text, &values).len() <= text.len() * 10 + 10);
    let _ = pattern::expand_shown(&text, &values);
}

/// Time limits.
pub fn time(data: &[u8]) {
    let text = text(data);
    let _ = time::Limit::parse_zero_infinite(&text);
    let Ok(limit) = time::Limit::parse(&text) else { return };
    assert_eq!(time::Limit::parse(&limit.long()), Ok(limit.shown()));
    let _ = limit.short();
}

/// Trackable resources.
pub fn tres(data: &[u8]) {
    let _ = tres::parse(&text(data));
}

/// What follows `scontrol update`, one word a line.
pub fn update(data: &[u8]) {
    let words: Vec<String> = text(data).lines().map(str::to_owned).collect();
    let _ = update::parse(&words, &Context { now_s: NOW_S, zone: &TimeZone::UTC, is_root: true });
}

/// The file of `srun --multi-prog`; the first byte is the number of tasks.
pub fn multi_prog(data: &[u8]) {
    let Some((count, text)) = data.split_first() else { return };
    let text = String::from_utf8_lossy(text);
    if let Ok(commands) = gpun_compat::multi_prog::parse(&text, u32::from(*count)) {
        assert_eq!(commands.len(), usize::from(*count));
        assert!(commands.iter().all(|command| !command.is_empty()));
    }
}
