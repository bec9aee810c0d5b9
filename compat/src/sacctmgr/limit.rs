//! Names of limits and of resources.

use gpun_core::accounting::{
    Limits, Rule, Tres,
    limit::{Limit, LimitEdit},
};

use crate::{memory, time};

/// An option that sets a limit: its name, the rule, and the resource where the name tells it.
type Row = (&'static str, Rule, Option<Tres>);

const CPU: Option<Tres> = Some(Tres::Cpu);
const MEMORY: Option<Tres> = Some(Tres::Memory);
const NODE: Option<Tres> = Some(Tres::Node);

/// Limits of associations. Beginnings mean the first that fits.
pub const ASSOCIATION: &[Row] = &[
    ("grpcpumins", Rule::GrpTresMin, CPU),
    ("grpcpurunmins", Rule::GrpTresRunMin, CPU),
    ("grpcpus", Rule::GrpTres, CPU),
    ("grpjobs", Rule::GrpJobs, None),
    ("grpjobsaccrue", Rule::GrpJobsAccrue, None),
    ("grpmemory", Rule::GrpTres, MEMORY),
    ("grpnodes", Rule::GrpTres, NODE),
    ("grpsubmitjobs", Rule::GrpSubmit, None),
    ("grptres", Rule::GrpTres, None),
    ("grptresmins", Rule::GrpTresMin, None),
    ("grptresrunmins", Rule::GrpTresRunMin, None),
    ("grpwall", Rule::GrpWallMin, None),
    ("maxcpuminsperjob", Rule::MaxTresMin, CPU),
    ("maxcpusperjob", Rule::MaxTres, CPU),
    ("maxjobs", Rule::MaxJobs, None),
    ("maxjobsaccrue", Rule::MaxJobsAccrue, None),
    ("maxnodesperjob", Rule::MaxTres, NODE),
    ("maxsubmitjobs", Rule::MaxSubmit, None),
    ("maxtresperjob", Rule::MaxTres, None),
    ("maxtrespernode", Rule::MaxTresPerNode, None),
    ("maxtresminsperjob", Rule::MaxTresMin, None),
    ("maxwalldurationperjob", Rule::MaxWallMin, None),
    ("minpriothresh", Rule::MinPriority, None),
];

/// Limits of qualities of service.
pub const QOS: &[Row] = &[
    ("grpcpumins", Rule::GrpTresMin, CPU),
    ("grpcpurunmins", Rule::GrpTresRunMin, CPU),
    ("grpcpus", Rule::GrpTres, CPU),
    ("grpjobs", Rule::GrpJobs, None),
    ("grpjobsaccrue", Rule::GrpJobsAccrue, None),
    ("grpmemory", Rule::GrpTres, MEMORY),
    ("grpnodes", Rule::GrpTres, NODE),
    ("grpsubmitjobs", Rule::GrpSubmit, None),
    ("grptres", Rule::GrpTres, None),
    ("grptresmins", Rule::GrpTresMin, None),
    ("grptresrunmins", Rule::GrpTresRunMin, None),
    ("grpwall", Rule::GrpWallMin, None),
    ("maxcpuminsperjob", Rule::MaxTresMin, CPU),
    ("maxcpusperjob", Rule::MaxTres, CPU),
    ("maxcpusperuser", Rule::MaxTresPerUser, CPU),
    ("maxjobsperuser", Rule::MaxJobsPerUser, None),
    ("maxjobspu", Rule::MaxJobsPerUser, None),
    ("maxjobsperaccount", Rule::MaxJobsPerAccount, None),
    ("maxjobspa", Rule::MaxJobsPerAccount, None),
    ("maxjobsaccrueperuser", Rule::MaxJobsAccruePerUser, None),
    ("maxjobsaccruepu", Rule::MaxJobsAccruePerUser, None),
    ("maxjobsaccrueperaccount", Rule::MaxJobsAccruePerAccount, None),
    ("maxjobsaccruepa", Rule::MaxJobsAccruePerAccount, None),
    ("maxnodesperjob", Rule::MaxTres, NODE),
    ("maxnodesperuser", Rule::MaxTresPerUser, NODE),
    ("maxsubmitjobsperuser", Rule::MaxSubmitPerUser, None),
    ("maxsubmitpu", Rule::MaxSubmitPerUser, None),
    ("maxsubmitjobspu", Rule::MaxSubmitPerUser, None),
    ("maxsubmitjobsperaccount", Rule::MaxSubmitPerAccount, None),
    ("maxsubmitpa", Rule::MaxSubmitPerAccount, None),
    ("maxsubmitjobspa", Rule::MaxSubmitPerAccount, None),
    ("maxtresperjob", Rule::MaxTres, None),
    ("maxtrespernode", Rule::MaxTresPerNode, None),
    ("maxtresperuser", Rule::MaxTresPerUser, None),
    ("maxtrespu", Rule::MaxTresPerUser, None),
    ("maxtresperaccount", Rule::MaxTresPerAccount, None),
    ("maxtrespa", Rule::MaxTresPerAccount, None),
    ("maxtresminsperjob", Rule::MaxTresMin, None),
    ("maxtresrunminsperuser", Rule::MaxTresRunMinPerUser, None),
    ("maxtresrunminspu", Rule::MaxTresRunMinPerUser, None),
    ("maxtresrunminsperaccount", Rule::MaxTresRunMinPerAccount, None),
    ("maxtresrunminspa", Rule::MaxTresRunMinPerAccount, None),
    ("maxwalldurationperjob", Rule::MaxWallMin, None),
    ("mincpus", Rule::MinTres, CPU),
    ("mintresperjob", Rule::MinTres, None),
    ("minpriothreshold", Rule::MinPriority, None),
];

/// The row that an option's name means: the whole name, or a beginning of one.
pub fn named<'a>(rows: &'a [Row], key: &str) -> Option<&'a Row> {
    // No beginning that is shorter names a limit and not a family of them.
    const LEAST: usize = 4;
    rows.iter()
        .find(|row| row.0 == key)
        .or_else(|| rows.iter().find(|row| key.len() >= LEAST && row.0.starts_with(key)))
}

/// Reads a resource's name.
pub fn tres(name: &str) -> Option<Tres> {
    let name = name.to_lowercase();
    Some(match name.as_str() {
        "cpu" => Tres::Cpu,
        "mem" => Tres::Memory,
        "energy" => Tres::Energy,
        "node" => Tres::Node,
        "billing" => Tres::Billing,
        "fs/disk" => Tres::Disk,
        "vmem" => Tres::Vmem,
        "pages" => Tres::Pages,
        _ => {
            if let Some(license) = name.strip_prefix("license/").filter(|rest| !rest.is_empty()) {
                return Some(Tres::License(license.to_owned()));
            }
            let gres = name.strip_prefix("gres/").filter(|rest| !rest.is_empty())?;
            let (name, kind) = gres.split_once(':').map_or((gres, None), |(name, kind)| (name, Some(kind.to_owned())));
            Tres::Gres { name: name.to_owned(), kind }
        }
    })
}

/// A resource's name.
pub fn tres_name(tres: &Tres) -> String {
    match tres {
        Tres::Cpu => "cpu".to_owned(),
        Tres::Memory => "mem".to_owned(),
        Tres::Energy => "energy".to_owned(),
        Tres::Node => "node".to_owned(),
        Tres::Billing => "billing".to_owned(),
        Tres::Disk => "fs/disk".to_owned(),
        Tres::Vmem => "vmem".to_owned(),
        Tres::Pages => "pages".to_owned(),
        Tres::Gres { name, kind: None } => format!("gres/{name}"),
        Tres::Gres { name, kind: Some(kind) } => format!("gres/{name}:{kind}"),
        Tres::License(name) => format!("license/{name}"),
    }
}

fn is_none(value: &str) -> bool {
    matches!(value.to_lowercase().as_str(), "-1" | "none" | "unlimited" | "infinite")
}

fn amount(tres: &Tres, value: &str) -> Option<u64> {
    match tres {
        Tres::Memory | Tres::Vmem | Tres::Disk => memory::parse_mib(value).ok(),
        _ => value.parse().ok(),
    }
}

/// Reads the value of a limit; `-1` takes it away.
///
/// # Errors
/// The lines to print.
pub fn edits(row: &Row, text: &str, value: &str) -> Result<Vec<LimitEdit>, String> {
    let (_, rule, of) = row;
    let bad = || format!(" Bad {} value: {value}\n", text.split('=').next().unwrap_or_default());
    let one = |tres: Option<Tres>, value| LimitEdit { limit: Limit { rule: *rule, tres }, value };
    if let Some(tres) = of {
        let value = if is_none(value) { None } else { Some(amount(tres, value).ok_or_else(bad)?) };
        return Ok(vec![one(Some(tres.clone()), value)]);
    }
    if is_none(value) || (value.is_empty() && rule.of_tres()) {
        return Ok(vec![one(None, None)]);
    }
    if !rule.of_tres() {
        let number = match rule {
            Rule::MaxWallMin | Rule::GrpWallMin => match time::Limit::parse(value).map_err(|_| bad())?.seconds() {
                Some(seconds) => seconds.div_ceil(60),
                None => return Ok(vec![one(None, None)]),
            },
            _ => value.parse().map_err(|_| bad())?,
        };
        return Ok(vec![one(None, Some(number))]);
    }
    value
        .split(',')
        .filter(|part| !part.is_empty())
        .map(|part| {
            let (name, count) = part.split_once('=').ok_or_else(bad)?;
            let tres = tres(name).ok_or_else(bad)?;
            let count = if is_none(count) { None } else { Some(amount(&tres, count).ok_or_else(bad)?) };
            Ok(one(Some(tres), count))
        })
        .collect()
}

/// The resources of a rule, as lists show them.
pub fn show_tres(limits: &Limits, rule: Rule) -> String {
    let shown = limits.of(rule).filter_map(|(tres, value)| {
        let tres = tres?;
        let value = match tres {
            Tres::Memory | Tres::Vmem | Tres::Disk => memory::exact(value),
            _ => value.to_string(),
        };
        Some(format!("{}={value}", tres_name(tres)))
    });
    shown.collect::<Vec<_>>().join(",")
}

/// The number of a rule, as lists show it.
pub fn show_plain(limits: &Limits, rule: Rule) -> String {
    match (rule, limits.plain(rule)) {
        (_, None) => String::new(),
        (Rule::MaxWallMin | Rule::GrpWallMin, Some(minutes)) => time::long(minutes.saturating_mul(60)),
        (_, Some(value)) => value.to_string(),
    }
}

/// Either.
pub fn show(limits: &Limits, rule: Rule) -> String {
    if rule.of_tres() { show_tres(limits, rule) } else { show_plain(limits, rule) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(rows: &[Row], words: &[(&str, &str)], rule: Rule) -> String {
        let mut limits = Limits::default();
        for (key, value) in words {
            let row = named(rows, key).unwrap();
            limits.edit(&edits(row, key, value).unwrap());
        }
        show(&limits, rule)
    }

    #[test]
    fn limits_are_set_and_taken_away() {
        type Case<'a> = (&'a [Row], &'a [(&'a str, &'a str)], Rule, &'a str);
        let rows: &[Case<'_>] = &[
            (ASSOCIATION, &[("grptres", "cpu=10,mem=1G")], Rule::GrpTres, "cpu=10,mem=1G"),
            (ASSOCIATION, &[("grptres", "cpu=10,mem=1G"), ("grptres", "cpu=-1")], Rule::GrpTres, "mem=1G"),
            (ASSOCIATION, &[("grptres", "cpu=10"), ("grptres", "-1")], Rule::GrpTres, ""),
            (ASSOCIATION, &[("grpcpus", "4")], Rule::GrpTres, "cpu=4"),
            (ASSOCIATION, &[("maxwall", "1:00:00")], Rule::MaxWallMin, "01:00:00"),
            (ASSOCIATION, &[("maxwall", "5"), ("maxwall", "-1")], Rule::MaxWallMin, ""),
            (ASSOCIATION, &[("maxjobs", "3")], Rule::MaxJobs, "3"),
            (QOS, &[("maxtresperuser", "gres/gpu:a100=2")], Rule::MaxTresPerUser, "gres/gpu:a100=2"),
            (QOS, &[("maxjobsperuser", "2")], Rule::MaxJobsPerUser, "2"),
            (QOS, &[("maxwall", "1-0")], Rule::MaxWallMin, "1-00:00:00"),
        ];
        for (table, words, rule, want) in rows {
            assert_eq!(after(table, words, *rule), *want, "{words:?}");
        }
    }

    #[test]
    fn what_is_no_value_is_refused() {
        for (key, value) in
            [("maxjobs", "x"), ("grptres", "cpu"), ("grptres", "foo=1"), ("grptres", "cpu=x"), ("maxwall", "x")]
        {
            assert!(edits(named(ASSOCIATION, key).unwrap(), key, value).is_err(), "{key}={value}");
        }
        assert!(named(ASSOCIATION, "foo").is_none());
        assert!(named(ASSOCIATION, "max").is_none());
    }
}
