//! What can be said of associations and of qualities of service: `fairshare=`, `qos+=`, `flags=`, limits.

use gpun_core::accounting::{
    Book, Edit, Fairshare, Limits, PreemptMode, QosChange, QosFlag, QosListChange, Rule, RuleChange,
};

use super::{
    limit,
    words::{Sign, Word},
};
use crate::time;

/// Flags by name, in the order that Slurm lists them.
pub const FLAGS: &[(&str, QosFlag)] = &[
    ("DenyOnLimit", QosFlag::DenyOnLimit),
    ("EnforceUsageThreshold", QosFlag::EnforceUsageThreshold),
    ("NoReserve", QosFlag::NoReserve),
    ("PartitionMaxNodes", QosFlag::PartitionMaxNodes),
    ("PartitionMinNodes", QosFlag::PartitionMinNodes),
    ("OverPartQOS", QosFlag::OverPartQos),
    ("PartitionTimeLimit", QosFlag::PartitionTimeLimit),
    ("RequiresReservation", QosFlag::RequiresReservation),
    ("NoDecay", QosFlag::NoDecay),
    ("Relative", QosFlag::Relative),
    ("UsageFactorSafe", QosFlag::UsageFactorSafe),
];

/// Modes of giving way by name.
pub const MODES: &[(&str, PreemptMode)] = &[
    ("cluster", PreemptMode::Cluster),
    ("off", PreemptMode::Off),
    ("cancel", PreemptMode::Cancel),
    ("requeue", PreemptMode::Requeue),
    ("suspend", PreemptMode::Suspend),
    ("gang", PreemptMode::Gang),
    ("within", PreemptMode::Within),
];

/// What a word was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// A setting.
    Yes,
    /// None.
    No,
    /// A setting with a value that makes no sense: the lines to print.
    Bad(String),
}

fn qos_names(book: &Book, word: &Word) -> Result<Vec<String>, String> {
    let names = word.names();
    match names.iter().find(|name| book.qos_named(name).is_none()) {
        Some(name) => Err(format!(" You gave a bad qos '{name}'.  Use 'list qos' to get complete list.\n")),
        None => Ok(names),
    }
}

/// The change that `qos=`, `qos+=` and `qos-=` make; `+x,-y` as a value does too.
fn qos_list(book: &Book, word: &Word, before: &QosListChange) -> Result<QosListChange, String> {
    if word.sign == Sign::Is && !word.value.starts_with(['+', '-']) {
        return Ok(QosListChange::Exactly(qos_names(book, word)?));
    }
    let (mut add, mut remove) = match before {
        QosListChange::Differ { add, remove } => (add.clone(), remove.clone()),
        _ => (Vec::new(), Vec::new()),
    };
    for part in word.value.split(',').filter(|part| !part.is_empty()) {
        let (sign, name) = match (part.strip_prefix('+'), part.strip_prefix('-')) {
            (Some(name), _) => (Sign::Plus, name),
            (_, Some(name)) => (Sign::Minus, name),
            _ => (word.sign, part),
        };
        let named = qos_names(book, &Word { value: name.to_owned(), ..word.clone() })?;
        if sign == Sign::Minus { remove.extend(named) } else { add.extend(named) }
    }
    Ok(QosListChange::Differ { add, remove })
}

/// Reads a word as a setting of an association.
pub fn rule(book: &Book, word: &Word, into: &mut RuleChange) -> Taken {
    let read = || -> Result<Option<RuleChange>, String> {
        let mut new = into.clone();
        let number = || word.value.parse::<u32>().map_err(|_| format!(" Bad {} value: {}\n", word.key, word.value));
        let clears = matches!(word.value.as_str(), "-1" | "");
        if word.is("fairshare", 1) || word.is("shares", 2) {
            new.fairshare = Some(match word.value.to_lowercase().as_str() {
                "parent" => Fairshare::Parent,
                "-1" => Fairshare::Shares(1),
                _ => Fairshare::Shares(number()?),
            });
        } else if word.is("priority", 3) {
            new.priority = if clears { Edit::Clear } else { Edit::To(number()?) };
        } else if word.is("qoslevel", 1) {
            new.qos = qos_list(book, word, &new.qos)?;
        } else if word.is("defaultqos", 8) {
            let names = qos_names(book, word)?;
            new.default_qos = match names.first() {
                Some(_) if clears => Edit::Clear,
                Some(name) => Edit::To(name.clone()),
                None => Edit::Clear,
            };
        } else if let Some(row) = limit::named(limit::ASSOCIATION, &word.key) {
            new.limits.extend(limit::edits(row, &word.text, &word.value)?);
        } else {
            return Ok(None);
        }
        Ok(Some(new))
    };
    match read() {
        Ok(Some(new)) => {
            *into = new;
            Taken::Yes
        }
        Ok(None) => Taken::No,
        Err(text) => Taken::Bad(text),
    }
}

/// Seconds of a time such as `00:05:00`; a bare number is seconds.
fn seconds(word: &Word) -> Result<u32, String> {
    let bad = || format!(" Invalid time spec for {}: {}\n", word.key, word.value);
    if let Ok(seconds) = word.value.parse() {
        return Ok(seconds);
    }
    let limit = time::Limit::parse(&word.value).map_err(|_| bad())?;
    limit.seconds().and_then(|seconds| u32::try_from(seconds).ok()).ok_or_else(bad)
}

/// Millionths of a number with a point.
fn millionths(word: &Word) -> Result<u64, String> {
    let bad = || format!(" Bad {} value: {}\n", word.key, word.value);
    let (whole, part) = word.value.split_once('.').unwrap_or((&word.value, ""));
    let digits: String = part.chars().chain("000000".chars()).take(6).collect();
    let whole: u64 = whole.parse().map_err(|_| bad())?;
    let part: u64 = digits.parse().map_err(|_| bad())?;
    whole.checked_mul(1_000_000).and_then(|whole| whole.checked_add(part)).ok_or_else(bad)
}

fn flags(word: &Word) -> Result<Vec<QosFlag>, String> {
    let mut all = Vec::new();
    for name in word.names() {
        let found = FLAGS.iter().find(|(full, _)| full.to_lowercase().starts_with(&name));
        let Some((_, flag)) = found else {
            let valid: Vec<&str> = FLAGS.iter().map(|(full, _)| *full).collect();
            return Err(format!(
                " Unknown QOS flag used in:\n  '{}'\n Valid QOS flags are\n  '{}'\n",
                word.value,
                valid.join(",")
            ));
        };
        all.push(*flag);
    }
    Ok(all)
}

/// Reads a word as a setting of a quality of service.
pub fn qos(book: &Book, word: &Word, into: &mut QosChange) -> Taken {
    let read = || -> Result<Option<QosChange>, String> {
        let mut new = into.clone();
        let clears = matches!(word.value.as_str(), "-1" | "");
        if word.is("description", 1) {
            new.description = Some(word.value.clone());
        } else if word.is("flags", 2) {
            let named = if clears { Vec::new() } else { flags(word)? };
            match word.sign {
                Sign::Is => new.flags = Some(named),
                Sign::Plus => new.flags_add.extend(named),
                Sign::Minus => new.flags_remove.extend(named),
            }
        } else if word.is("gracetime", 3) {
            new.grace_s = Some(if clears { 0 } else { seconds(word)? });
        } else if word.is("preemptmode", 8) {
            let mode = word.value.to_lowercase();
            let found = MODES.iter().find(|(name, _)| name.starts_with(mode.as_str()) && !mode.is_empty());
            new.preempt_mode = Some(found.ok_or_else(|| format!(" Bad Preempt Mode given: {}\n", word.value))?.1);
        } else if word.is("preemptexempttime", 8) {
            new.preempt_exempt_s = if clears { Edit::Clear } else { Edit::To(seconds(word)?) };
        } else if word.is("preempt", 3) {
            new.preempt = if clears { QosListChange::Exactly(Vec::new()) } else { qos_list(book, word, &new.preempt)? };
        } else if word.is("priority", 3) {
            let number = word.value.parse().map_err(|_| format!(" Bad {} value: {}\n", word.key, word.value));
            new.priority = Some(if clears { 0 } else { number? });
        } else if word.is("usagefactor", 6) {
            new.usage_factor_millionths = Some(if clears { 1_000_000 } else { millionths(word)? });
        } else if word.is("usagethreshold", 6) {
            new.usage_threshold_millionths = if clears { Edit::Clear } else { Edit::To(millionths(word)?) };
        } else if let Some(row) = limit::named(limit::QOS, &word.key) {
            new.limits.extend(limit::edits(row, &word.text, &word.value)?);
        } else {
            return Ok(None);
        }
        Ok(Some(new))
    };
    match read() {
        Ok(Some(new)) => {
            *into = new;
            Taken::Yes
        }
        Ok(None) => Taken::No,
        Err(text) => Taken::Bad(text),
    }
}

/// Labels of limits as changes print them, in this order.
const LABELS: &[(&str, Rule)] = &[
    ("GrpJobs", Rule::GrpJobs),
    ("GrpJobsAccrue", Rule::GrpJobsAccrue),
    ("GrpSubmitJobs", Rule::GrpSubmit),
    ("GrpTRES", Rule::GrpTres),
    ("GrpTRESMins", Rule::GrpTresMin),
    ("GrpTRESRunMins", Rule::GrpTresRunMin),
    ("GrpWall", Rule::GrpWallMin),
    ("MaxJobs", Rule::MaxJobs),
    ("MaxJobsAccrue", Rule::MaxJobsAccrue),
    ("MaxSubmitJobs", Rule::MaxSubmit),
    ("MaxTRES", Rule::MaxTres),
    ("MaxTRESPerNode", Rule::MaxTresPerNode),
    ("MaxTRESMins", Rule::MaxTresMin),
    ("MaxWall", Rule::MaxWallMin),
    ("MinPrioThresh", Rule::MinPriority),
];

/// Labels of limits of qualities of service, in this order.
const QOS_LABELS: &[(&str, Rule)] = &[
    ("GrpJobs", Rule::GrpJobs),
    ("GrpJobsAccrue", Rule::GrpJobsAccrue),
    ("GrpSubmitJobs", Rule::GrpSubmit),
    ("GrpTRES", Rule::GrpTres),
    ("GrpTRESMins", Rule::GrpTresMin),
    ("GrpTRESRunMins", Rule::GrpTresRunMin),
    ("GrpWall", Rule::GrpWallMin),
    ("MaxJobsPerAccount", Rule::MaxJobsPerAccount),
    ("MaxJobsPerUser", Rule::MaxJobsPerUser),
    ("MaxJobsAccruePerAccount", Rule::MaxJobsAccruePerAccount),
    ("MaxJobsAccruePerUser", Rule::MaxJobsAccruePerUser),
    ("MaxSubmitJobsPerAccount", Rule::MaxSubmitPerAccount),
    ("MaxSubmitJobsPerUser", Rule::MaxSubmitPerUser),
    ("MaxTRESPerAccount", Rule::MaxTresPerAccount),
    ("MaxTRESPerUser", Rule::MaxTresPerUser),
    ("MaxTRESPerJob", Rule::MaxTres),
    ("MaxTRESPerNode", Rule::MaxTresPerNode),
    ("MaxTRESMinsPerJob", Rule::MaxTresMin),
    ("MaxTRESRunMinsPerAccount", Rule::MaxTresRunMinPerAccount),
    ("MaxTRESRunMinsPerUser", Rule::MaxTresRunMinPerUser),
    ("MaxWall", Rule::MaxWallMin),
    ("MinTRESPerJob", Rule::MinTres),
    ("MinPrioThreshold", Rule::MinPriority),
];

fn list_text(change: &QosListChange) -> Option<String> {
    match change {
        QosListChange::Keep => None,
        QosListChange::Exactly(names) => Some(names.join(",")),
        QosListChange::Differ { add, remove } => {
            let signed = add.iter().map(|name| format!("+{name}")).chain(remove.iter().map(|name| format!("-{name}")));
            Some(signed.collect::<Vec<_>>().join(","))
        }
    }
}

/// The lines below `Settings` for an association.
pub fn rule_lines(change: &RuleChange) -> String {
    let mut out = String::new();
    let mut line = |label: &str, value: String| out.push_str(&format!("  {label:<14}= {value}\n"));
    match change.fairshare {
        Some(Fairshare::Shares(shares)) => line("Fairshare", shares.to_string()),
        Some(Fairshare::Parent) => line("Fairshare", "parent".to_owned()),
        None => {}
    }
    let mut limits = Limits::default();
    limits.edit(&change.limits);
    for (label, rule) in LABELS.iter().filter(|(_, rule)| limits.of(*rule).next().is_some()) {
        line(label, limit::show(&limits, *rule));
    }
    if let Edit::To(priority) = &change.priority {
        line("Priority", priority.to_string());
    }
    if let Some(text) = list_text(&change.qos) {
        line("QOS", text);
    }
    if let Edit::To(name) = &change.default_qos {
        line("DefQOS", name.clone());
    }
    out
}

/// The lines below `Settings` for a quality of service, after its description.
pub fn qos_lines(change: &QosChange) -> String {
    let mut out = String::new();
    let mut line = |label: &str, value: String| out.push_str(&format!("  {label:<25}= {value}\n"));
    if let Some(flags) = &change.flags {
        line("Flags", flag_names(flags));
    }
    if let Some(grace_s) = change.grace_s {
        line("GraceTime", time::long(u64::from(grace_s)));
    }
    let mut limits = Limits::default();
    limits.edit(&change.limits);
    for (label, rule) in QOS_LABELS.iter().filter(|(_, rule)| limits.of(*rule).next().is_some()) {
        line(label, limit::show(&limits, *rule));
    }
    if let Some(text) = list_text(&change.preempt) {
        line("Preempt", text);
    }
    if let Some(mode) = change.preempt_mode {
        line("PreemptMode", mode_name(mode).to_owned());
    }
    if let Some(priority) = change.priority {
        line("Priority", priority.to_string());
    }
    if let Some(factor) = change.usage_factor_millionths {
        line("UsageFactor", decimal(factor));
    }
    if let Edit::To(threshold) = change.usage_threshold_millionths {
        line("UsageThreshold", decimal(threshold));
    }
    out
}

/// Names of flags, with commas.
pub fn flag_names(flags: &[QosFlag]) -> String {
    let names = FLAGS.iter().filter(|(_, flag)| flags.contains(flag)).map(|(name, _)| *name);
    names.collect::<Vec<_>>().join(",")
}

/// The name of a mode.
pub fn mode_name(mode: PreemptMode) -> &'static str {
    MODES.iter().find(|(_, one)| *one == mode).map_or("cluster", |(name, _)| name)
}

/// Millionths as a number with six digits after the point.
pub fn decimal(millionths: u64) -> String {
    format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000)
}
