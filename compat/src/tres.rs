//! Trackable resources: `cpu=2,mem=400M,node=2,billing=2,gres/gpu=2`.

use crate::memory;

/// What a job, node or partition counts, for printing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tres {
    /// CPUs.
    pub cpus: u64,
    /// Memory, in mebibytes.
    pub memory_mib: u64,
    /// Nodes; left out where 0.
    pub nodes: u64,
    /// Billing weight; left out where `None`.
    pub billing: Option<u64>,
    /// Generic resources by name, without types, in order.
    pub gres: Vec<(String, u64)>,
}

impl Tres {
    /// The comma-separated form; empty where nothing is counted. Slurm leaves out what is 0.
    pub fn show(&self) -> String {
        let mut parts = Vec::new();
        if self.cpus > 0 {
            parts.push(format!("cpu={}", self.cpus));
        }
        if self.memory_mib > 0 {
            parts.push(format!("mem={}", memory::exact(self.memory_mib)));
        }
        if self.nodes > 0 {
            parts.push(format!("node={}", self.nodes));
        }
        if let Some(billing) = self.billing {
            parts.push(format!("billing={billing}"));
        }
        parts.extend(self.gres.iter().filter(|(_, n)| *n > 0).map(|(name, n)| format!("gres/{name}={n}")));
        parts.join(",")
    }

    /// Adds to the count of a generic resource.
    pub fn add_gres(&mut self, name: &str, count: u64) {
        match self.gres.iter_mut().find(|(n, _)| n == name) {
            Some((_, total)) => *total = total.saturating_add(count),
            None => self.gres.push((name.to_owned(), count)),
        }
    }
}

/// One `name=value` of a TRES list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Such as `cpu` or `gres/gpu:a100`.
    pub name: String,
    /// The count; memory in mebibytes.
    pub value: u64,
}

/// The text is no TRES list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Invalid Trackable RESource (TRES) specification")]
pub struct TresError(pub String);

/// Reads `name=value,...`; `mem` takes units; `gres/` names may use a colon for the equals sign.
///
/// # Errors
/// [`TresError`] naming the part.
pub fn parse(text: &str) -> Result<Vec<Item>, TresError> {
    text.split(',').filter(|p| !p.is_empty()).map(item).collect()
}

fn item(part: &str) -> Result<Item, TresError> {
    let bad = || TresError(part.to_owned());
    let (name, value) = match part.split_once('=') {
        Some(pair) => pair,
        None if part.starts_with("gres/") || part.starts_with("license/") => part.rsplit_once(':').ok_or_else(bad)?,
        None => return Err(bad()),
    };
    let known = matches!(name, "cpu" | "mem" | "node" | "billing" | "energy" | "pages" | "vmem")
        || ["gres/", "license/", "fs/", "bb/", "ic/"].iter().any(|p| name.len() > p.len() && name.starts_with(p));
    if !known {
        return Err(bad());
    }
    let value = match name {
        "mem" | "vmem" => memory::parse_mib(value).map_err(|_| bad())?,
        _ if value.bytes().all(|b| b.is_ascii_digit()) => value.parse().map_err(|_| bad())?,
        _ => return Err(bad()),
    };
    Ok(Item { name: name.to_owned(), value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_shown() {
        let mut t = Tres { cpus: 2, memory_mib: 400, nodes: 2, billing: Some(2), gres: Vec::new() };
        assert_eq!(t.show(), "cpu=2,mem=400M,node=2,billing=2");
        t.add_gres("gpu", 1);
        t.add_gres("gpu", 1);
        assert_eq!(t.show(), "cpu=2,mem=400M,node=2,billing=2,gres/gpu=2");
        assert_eq!(Tres::default().show(), "");
        let node = Tres { cpus: 8, memory_mib: 16_000, billing: Some(8), ..Tres::default() };
        assert_eq!(node.show(), "cpu=8,mem=16000M,billing=8");
    }

    #[test]
    fn lists_are_read() {
        for (text, want) in [
            ("cpu=2,mem=1G", Some(vec![("cpu", 2), ("mem", 1024)])),
            ("gres/gpu=1", Some(vec![("gres/gpu", 1)])),
            ("gres/gpu:1", Some(vec![("gres/gpu", 1)])),
            ("gres/gpu:a100=2", Some(vec![("gres/gpu:a100", 2)])),
            ("", Some(vec![])),
            ("foo=1", None),
            ("cpu", None),
            ("cpu=x", None),
            ("gres/=1", None),
        ] {
            let got = parse(text).ok().map(|l| l.into_iter().map(|i| (i.name, i.value)).collect::<Vec<_>>());
            let want = want.map(|l| l.into_iter().map(|(n, v)| (n.to_owned(), v)).collect::<Vec<_>>());
            assert_eq!(got, want, "{text}");
        }
    }
}
