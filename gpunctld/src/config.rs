//! `gpunion.toml`: read once at the start; what the cluster's state needs of it is proposed to the log.

use std::{net::SocketAddr, path::Path, time::Duration};

use anyhow::{Context, bail};
use gpun_core::{
    Digest, MemoryMib, TimeLimit,
    partition::{Partition, PartitionState},
    settings::{Enforce, License, Settings},
};
use serde::Deserialize;
use toml::Spanned;

/// The file's name below the cluster's folder.
pub const FILE: &str = "gpunion.toml";

/// The configuration, as written. Unknown names are refused, with their line.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    cluster: Cluster,
    controller: Controller,
    accounting: Accounting,
    #[serde(rename = "partition")]
    partitions: Vec<PartitionFile>,
    /// Nodes that `gpun up` starts on this machine. Not read by the controller: nodes register themselves.
    #[serde(rename = "node")]
    _nodes: Vec<toml::Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Cluster {
    name: Option<String>,
    first_job_id: Option<u32>,
    max_job_count: Option<u32>,
    max_array_size: Option<u32>,
    min_job_age_s: Option<u64>,
    kill_wait_s: Option<u64>,
    node_down_s: Option<Spanned<u64>>,
    def_mem_per_cpu: Option<Spanned<String>>,
    operators: Vec<Spanned<String>>,
    /// Such as `matlab:10,ansys:2`.
    licenses: Option<Spanned<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Controller {
    link_address: Option<Spanned<SocketAddr>>,
    min_free_disk_mib: Option<u64>,
    log_batch_max: Option<usize>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Accounting {
    /// Ended jobs are remembered for so many days; for ever if not given.
    keep_days: Option<u32>,
    /// What holds once there are accounts: `associations`, `limits`, `qos`. Each but the first needs it.
    enforce: Vec<EnforceFile>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum EnforceFile {
    Associations,
    Limits,
    Qos,
}

impl Accounting {
    fn enforce(&self) -> Enforce {
        let has = |what| self.enforce.contains(&what);
        let (limits, qos) = (has(EnforceFile::Limits), has(EnforceFile::Qos));
        // Limits and qualities of service are an association's: a job without one would go past them.
        Enforce { associations: has(EnforceFile::Associations) || limits || qos, limits, qos }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PartitionFile {
    name: String,
    /// A host list; every node if not given.
    nodes: Option<Spanned<String>>,
    #[serde(default)]
    default: bool,
    max_time: Option<Spanned<String>>,
    default_time: Option<Spanned<String>>,
    state: Option<StateFile>,
    min_nodes: Option<u32>,
    max_nodes: Option<u32>,
    #[serde(default)]
    root_only: bool,
    #[serde(default)]
    allow_accounts: Vec<String>,
    #[serde(default)]
    deny_accounts: Vec<String>,
    priority_job_factor: Option<u32>,
    priority_tier: Option<u32>,
    def_mem_per_cpu: Option<Spanned<String>>,
    #[serde(default)]
    hidden: bool,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum StateFile {
    Up,
    Down,
    Drain,
    Inactive,
}

/// The configuration, checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// For the cluster's state.
    pub settings: Settings,
    /// For the cluster's state; the first is the default where none says so.
    pub partitions: Vec<Partition>,
    /// Where nodes dial in. Loopback only, as long as the link has no TLS.
    pub link_address: SocketAddr,
    /// Writes are refused while less than this is free on the disk of the state, in MiB.
    pub min_free_disk_mib: u64,
    /// Most commands in one log entry.
    pub log_batch_max: usize,
    /// Nodes are told to show themselves this often.
    pub beat: Duration,
}

impl Config {
    /// Reads `DIR/gpunion.toml`; a missing file means the defaults.
    ///
    /// # Errors
    /// The file can't be read or says something that can't be; the message names the line.
    pub fn read(dir: &Path) -> anyhow::Result<Self> {
        let path = dir.join(FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        Self::parse(&text).with_context(|| format!("{} is not right", path.display()))
    }

    /// Reads the text of a configuration.
    ///
    /// # Errors
    /// As [`Config::read`].
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let file: File = toml::from_str(text)?;
        let lines = Lines(text);
        let mut settings = Settings { enforce: file.accounting.enforce(), ..settings(&file.cluster, lines)? };
        settings.history_days = file.accounting.keep_days;
        let mut partitions =
            file.partitions.iter().map(|partition| lines.partition(partition)).collect::<anyhow::Result<Vec<_>>>()?;
        partitions.iter_mut().zip(0..).for_each(|(partition, rank)| partition.rank = rank);
        match partitions.as_mut_slice() {
            [] => partitions.push(Partition::all_nodes("main")),
            [first, rest @ ..] if !first.is_default && !rest.iter().any(|other| other.is_default) => {
                first.is_default = true;
            }
            _ => {}
        }
        if partitions.iter().filter(|partition| partition.is_default).count() > 1 {
            bail!("more than one [[partition]] says `default = true`: leave it in one of them");
        }
        let link_address = match &file.controller.link_address {
            Some(address) if !address.get_ref().ip().is_loopback() => bail!(
                "{}: controller.link_address {} is reachable from other machines, and the link has no TLS yet: use a \
                 loopback address such as 127.0.0.1:6817",
                lines.line(address),
                address.get_ref()
            ),
            Some(address) => *address.get_ref(),
            None => SocketAddr::from(([127, 0, 0, 1], 0)),
        };
        Ok(Self {
            settings,
            partitions,
            link_address,
            min_free_disk_mib: file.controller.min_free_disk_mib.unwrap_or(256),
            log_batch_max: file.controller.log_batch_max.unwrap_or(1024).max(1),
            beat: Duration::from_secs(5),
        })
    }
}

fn settings(cluster: &Cluster, lines: Lines<'_>) -> anyhow::Result<Settings> {
    let plain = Settings::default();
    let node_down_s = match &cluster.node_down_s {
        Some(seconds) if *seconds.get_ref() < NODE_DOWN_MIN_S => bail!(
            "{}: cluster.node_down_s is {}: a node shows itself every 5 seconds, so take at least {NODE_DOWN_MIN_S}",
            lines.line(seconds),
            seconds.get_ref()
        ),
        Some(seconds) => *seconds.get_ref(),
        None => plain.node_down_s,
    };
    let operators = cluster.operators.iter().map(|name| {
        let user = nix::unistd::User::from_name(name.get_ref()).ok().flatten().map(|user| user.uid.as_raw());
        user.or_else(|| name.get_ref().parse().ok()).with_context(|| {
            format!("{}: cluster.operators names `{}`, who is no user here", lines.line(name), name.get_ref())
        })
    });
    Ok(Settings {
        cluster_name: cluster.name.clone().unwrap_or(plain.cluster_name),
        first_job_id: cluster.first_job_id.unwrap_or(plain.first_job_id),
        max_job_count: cluster.max_job_count.unwrap_or(plain.max_job_count),
        max_array_size: cluster.max_array_size.unwrap_or(plain.max_array_size),
        min_job_age_s: cluster.min_job_age_s.unwrap_or(plain.min_job_age_s),
        kill_wait_s: cluster.kill_wait_s.unwrap_or(plain.kill_wait_s),
        node_down_s,
        def_mem_per_cpu: lines.read(&cluster.def_mem_per_cpu, "cluster.def_mem_per_cpu", memory)?,
        operators: operators.collect::<anyhow::Result<_>>()?,
        licenses: lines.read(&cluster.licenses, "cluster.licenses", licenses)?.unwrap_or_default(),
        config_digest: Some(Digest(*blake3::hash(lines.0.as_bytes()).as_bytes())),
        ..plain
    })
}

/// Nodes show themselves every 5 seconds; a shorter silence than two of those says nothing.
const NODE_DOWN_MIN_S: u64 = 10;

/// The text, to tell lines from.
#[derive(Clone, Copy)]
struct Lines<'a>(&'a str);

impl Lines<'_> {
    /// `line N`, where a value stands.
    fn line<T>(self, value: &Spanned<T>) -> String {
        let before = self.0.as_bytes().iter().take(value.span().start);
        format!("line {}", before.filter(|byte| **byte == b'\n').count() + 1)
    }

    /// Reads a value that is written as text; the error says where and which.
    fn read<T>(
        self,
        value: &Option<Spanned<String>>,
        what: &str,
        parse: fn(&str) -> anyhow::Result<T>,
    ) -> anyhow::Result<Option<T>> {
        let Some(value) = value else { return Ok(None) };
        parse(value.get_ref()).map(Some).with_context(|| format!("{}: {what}", self.line(value)))
    }

    fn partition(self, file: &PartitionFile) -> anyhow::Result<Partition> {
        let of = |what: &str| format!("{what} of partition `{}`", file.name);
        Ok(Partition {
            name: file.name.clone(),
            nodes: self.read(&file.nodes, &of("nodes"), hosts)?.unwrap_or_default(),
            is_default: file.default,
            max_time: self.read(&file.max_time, &of("max_time"), time_limit)?.unwrap_or(TimeLimit::Infinite),
            default_time: self.read(&file.default_time, &of("default_time"), default_time)?,
            state: match file.state {
                None | Some(StateFile::Up) => PartitionState::Up,
                Some(StateFile::Down) => PartitionState::Down,
                Some(StateFile::Drain) => PartitionState::Drain,
                Some(StateFile::Inactive) => PartitionState::Inactive,
            },
            min_nodes: file.min_nodes,
            max_nodes: file.max_nodes,
            root_only: file.root_only,
            allow_accounts: file.allow_accounts.clone(),
            deny_accounts: file.deny_accounts.clone(),
            priority_job_factor: file.priority_job_factor,
            priority_tier: file.priority_tier,
            def_mem_per_cpu: self.read(&file.def_mem_per_cpu, &of("def_mem_per_cpu"), memory)?,
            hidden: file.hidden,
            ..Partition::all_nodes(&file.name)
        })
    }
}

fn time_limit(text: &str) -> anyhow::Result<TimeLimit> {
    Ok(match gpun_compat::time::Limit::parse(text)?.seconds() {
        Some(seconds) => TimeLimit::Seconds(seconds),
        None => TimeLimit::Infinite,
    })
}

fn default_time(text: &str) -> anyhow::Result<TimeLimit> {
    match time_limit(text)? {
        TimeLimit::Seconds(0) => bail!("a limit of zero lets no job run: leave it out for the partition's max_time"),
        limit => Ok(limit),
    }
}

fn memory(text: &str) -> anyhow::Result<MemoryMib> {
    Ok(MemoryMib(gpun_compat::memory::parse_mib(text)?))
}

fn licenses(text: &str) -> anyhow::Result<Vec<License>> {
    Ok(gpun_compat::license::parse_totals(text)?)
}

fn hosts(text: &str) -> anyhow::Result<Vec<String>> {
    Ok(gpun_compat::hostlist::expand(text)?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The keys that a table of the file may have, as the reader itself lists them for one that is none.
    fn keys(table: &str) -> BTreeSet<String> {
        let error = toml::from_str::<File>(&format!("{table}\nno_such_key = 1\n")).unwrap_err();
        let (_, known) = error.message().split_once("expected").unwrap();
        known.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    /// The keys that a part of the manual page speaks of.
    fn described(page: &str, title: &str) -> BTreeSet<String> {
        let part = page.split(".SS ").find(|part| part.lines().next() == Some(title)).unwrap_or_default();
        let part = part.split(".SH").next().unwrap_or_default();
        let terms = part.split(".TP\n").skip(1);
        terms.map(|term| term.trim_start_matches("\\fB").split("\\fR").next().unwrap_or_default().to_owned()).collect()
    }

    #[test]
    fn the_manual_page_has_every_key() {
        let page = include_str!("../../man/man5/gpunion.toml.5");
        for table in ["[cluster]", "[controller]", "[accounting]", "[[partition]]"] {
            assert!(keys(table).len() > 1, "{table}");
            assert_eq!(keys(table), described(page, table), "{table}: the page is made from cli/src/man/keys.rs");
        }
        for table in keys("") {
            assert!(
                !described(page, &format!("[{table}]")).is_empty()
                    || !described(page, &format!("[[{table}]]")).is_empty()
            );
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line_or_name() {
        let rows = [
            ("[cluster]\nnme = \"x\"\n", "line 2"),
            ("[cluster]\nfirst_job_id = \"x\"\n", "line 2"),
            ("[[partition]]\n", "name"),
            ("[[partition]]\nname = \"a\"\nmax_time = \"soon\"\n", "line 3: max_time of partition `a`"),
            (
                "[[partition]]\nname = \"a\"\ndefault_time = \"00:00:00\"\n",
                "line 3: default_time of partition `a`: a limit of zero",
            ),
            ("[[partition]]\nname = \"a\"\nnodes = \"n[1-\"\n", "line 3: nodes of partition `a`"),
            ("[[partition]]\nname=\"a\"\ndefault=true\n[[partition]]\nname=\"b\"\ndefault=true\n", "more than one"),
            (
                "[controller]\nlink_address = \"0.0.0.0:6817\"\n",
                "line 2: controller.link_address 0.0.0.0:6817 is reachable",
            ),
            ("[cluster]\nnode_down_s = 1\n", "line 2: cluster.node_down_s is 1"),
            ("[cluster]\nlicenses = \"a:b\"\n", "line 2: cluster.licenses"),
            ("[accounting]\nenforce = [\"all\"]\n", "line 2"),
            ("[cluster]\noperators = [\"no-such-user\"]\n", "line 2: cluster.operators names"),
        ];
        for (text, needle) in rows {
            let error = format!("{:#}", Config::parse(text).expect_err(text));
            assert!(error.contains(needle), "{text}: {error}");
        }
    }

    #[test]
    fn an_empty_file_means_one_partition_of_all_nodes() {
        let config = Config::parse("").unwrap();
        assert_eq!(config.partitions, [Partition::all_nodes("main")]);
        assert_eq!(config.settings.first_job_id, 1);
    }

    #[test]
    fn what_is_enforced_needs_associations() {
        for (list, want) in [
            ("", (false, false, false)),
            ("\"associations\"", (true, false, false)),
            ("\"limits\"", (true, true, false)),
            ("\"associations\", \"limits\", \"qos\"", (true, true, true)),
        ] {
            let enforce = Config::parse(&format!("[accounting]\nenforce = [{list}]\n")).unwrap().settings.enforce;
            assert_eq!((enforce.associations, enforce.limits, enforce.qos), want, "{list}");
        }
    }

    #[test]
    fn the_first_partition_is_the_default_where_none_says_so() {
        let config = Config::parse(
            "[[partition]]\nname=\"a\"\nnodes=\"n[1-3]\"\nmax_time=\"1:00:00\"\n[[partition]]\nname=\"b\"\n",
        );
        let partitions = config.unwrap().partitions;
        assert!(partitions[0].is_default && !partitions[1].is_default);
        assert_eq!(partitions[0].nodes, ["n1", "n2", "n3"]);
        assert_eq!(partitions[0].max_time, TimeLimit::Seconds(3600));
    }
}
