//! `gpunion.toml`: read once at the start; what the cluster's state needs of it is proposed to the log.

use std::{net::SocketAddr, path::Path, time::Duration};

use anyhow::{Context, bail};
use gpun_core::{
    Digest, MemoryMib, TimeLimit,
    partition::{Partition, PartitionState},
    settings::Settings,
};
use serde::Deserialize;

/// The file's name below the cluster's folder.
pub const FILE: &str = "gpunion.toml";

/// The configuration, as written. Unknown names are refused, with their line.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    cluster: Cluster,
    controller: Controller,
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
    node_down_s: Option<u64>,
    def_mem_per_cpu: Option<String>,
    operators: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Controller {
    link_address: Option<SocketAddr>,
    min_free_disk_mib: Option<u64>,
    log_batch_max: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PartitionFile {
    name: String,
    /// A host list; every node if not given.
    nodes: Option<String>,
    #[serde(default)]
    default: bool,
    max_time: Option<String>,
    default_time: Option<String>,
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
    def_mem_per_cpu: Option<String>,
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
        let settings = settings(&file.cluster, text)?;
        let mut partitions = file.partitions.iter().map(partition).collect::<anyhow::Result<Vec<_>>>()?;
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
        let link_address = file.controller.link_address.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0)));
        if !link_address.ip().is_loopback() {
            bail!(
                "controller.link_address {link_address} is reachable from other machines, and the link has no TLS yet: \
                 use a loopback address such as 127.0.0.1:6817"
            );
        }
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

fn settings(cluster: &Cluster, text: &str) -> anyhow::Result<Settings> {
    let plain = Settings::default();
    let node_down_s = cluster.node_down_s.unwrap_or(plain.node_down_s);
    if node_down_s < 10 {
        bail!("cluster.node_down_s is {node_down_s}: a node shows itself every 5 seconds, so take at least 10");
    }
    let operators = cluster.operators.iter().map(|name| {
        let user = nix::unistd::User::from_name(name).ok().flatten().map(|user| user.uid.as_raw());
        user.or_else(|| name.parse().ok()).with_context(|| format!("cluster.operators names `{name}`, who is no user here"))
    });
    Ok(Settings {
        cluster_name: cluster.name.clone().unwrap_or(plain.cluster_name),
        first_job_id: cluster.first_job_id.unwrap_or(plain.first_job_id),
        max_job_count: cluster.max_job_count.unwrap_or(plain.max_job_count),
        max_array_size: cluster.max_array_size.unwrap_or(plain.max_array_size),
        min_job_age_s: cluster.min_job_age_s.unwrap_or(plain.min_job_age_s),
        kill_wait_s: cluster.kill_wait_s.unwrap_or(plain.kill_wait_s),
        node_down_s,
        def_mem_per_cpu: cluster.def_mem_per_cpu.as_deref().map(memory).transpose()?,
        operators: operators.collect::<anyhow::Result<_>>()?,
        config_digest: Some(Digest(*blake3::hash(text.as_bytes()).as_bytes())),
        ..plain
    })
}

fn partition(file: &PartitionFile) -> anyhow::Result<Partition> {
    let of = |what: &str| format!("{what} of partition `{}`", file.name);
    let limit = |text: &Option<String>, what: &str| text.as_deref().map(time_limit).transpose().with_context(|| of(what));
    let default_time = limit(&file.default_time, "default_time")?;
    if default_time == Some(TimeLimit::Seconds(0)) {
        bail!("{} is zero: no job could run; leave it out for the partition's max_time", of("default_time"));
    }
    let nodes = match &file.nodes {
        Some(list) => gpun_compat::hostlist::expand(list).with_context(|| of("nodes"))?,
        None => Vec::new(),
    };
    Ok(Partition {
        name: file.name.clone(),
        nodes,
        is_default: file.default,
        max_time: limit(&file.max_time, "max_time")?.unwrap_or(TimeLimit::Infinite),
        default_time,
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
        def_mem_per_cpu: file.def_mem_per_cpu.as_deref().map(memory).transpose()?,
        hidden: file.hidden,
    })
}

fn time_limit(text: &str) -> anyhow::Result<TimeLimit> {
    Ok(match gpun_compat::time::Limit::parse(text)?.seconds() {
        Some(seconds) => TimeLimit::Seconds(seconds),
        None => TimeLimit::Infinite,
    })
}

fn memory(text: &str) -> anyhow::Result<MemoryMib> {
    Ok(MemoryMib(gpun_compat::memory::parse_mib(text)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said_with_its_line_or_name() {
        let rows = [
            ("[cluster]\nnme = \"x\"\n", "line 2"),
            ("[cluster]\nfirst_job_id = \"x\"\n", "line 2"),
            ("[[partition]]\n", "name"),
            ("[[partition]]\nname = \"a\"\nmax_time = \"soon\"\n", "max_time of partition `a`"),
            ("[[partition]]\nname = \"a\"\ndefault_time = \"00:00:00\"\n", "default_time of partition `a` is zero"),
            ("[[partition]]\nname = \"a\"\nnodes = \"n[1-\"\n", "nodes of partition `a`"),
            ("[[partition]]\nname=\"a\"\ndefault=true\n[[partition]]\nname=\"b\"\ndefault=true\n", "more than one"),
            ("[controller]\nlink_address = \"0.0.0.0:6817\"\n", "no TLS yet"),
            ("[cluster]\nnode_down_s = 1\n", "at least 10"),
            ("[cluster]\noperators = [\"no-such-user\"]\n", "no user here"),
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
    fn the_first_partition_is_the_default_where_none_says_so() {
        let config = Config::parse("[[partition]]\nname=\"a\"\nnodes=\"n[1-3]\"\nmax_time=\"1:00:00\"\n[[partition]]\nname=\"b\"\n");
        let partitions = config.unwrap().partitions;
        assert!(partitions[0].is_default && !partitions[1].is_default);
        assert_eq!(partitions[0].nodes, ["n1", "n2", "n3"]);
        assert_eq!(partitions[0].max_time, TimeLimit::Seconds(3600));
    }
}
