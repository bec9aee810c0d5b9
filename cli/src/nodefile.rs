//! The nodes that `gpun up` starts on this machine: `[[node]]` in `gpunion.toml`.

use std::{fs, io, path::Path};

use anyhow::{Context, bail};
use gpun_compat::{hostlist::Hostlist, memory};
use toml::{Table, Value};

use crate::cluster::CONFIG_FILE;

/// The most nodes that one machine may pretend to be.
const NODES_MAX: usize = 4096;

/// One node, with what is stated of it; the rest is found by its daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Arguments for its daemon, in pairs.
    pub args: Vec<String>,
}

/// What `gpun up` was told of the nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wish {
    /// How many virtual nodes, n1, n2 and so on; this machine as it is without.
    pub nodes: Option<u32>,
    /// CPUs of each.
    pub cpus: Option<u32>,
    /// Memory of each, in MiB.
    pub memory_mib: Option<u64>,
    /// Generic resources of each: `NAME:TYPE:COUNT[:FILES]`.
    pub gres: Vec<String>,
}

impl Wish {
    /// True if something was said.
    pub fn says_something(&self) -> bool {
        *self != Self::default()
    }

    /// The configuration of a new cluster.
    pub fn to_toml(&self, host: &str) -> String {
        let text = "# The cluster's configuration, written by `gpun up`. gpunctld reads it at its start; `gpun up` starts the nodes\n\
             # that it names on this machine.\n\n\
             [cluster]\nname = \"gpunion\"\n\n\
             [[partition]]\nname = \"main\"\ndefault = true\n\n";
        text.to_owned() + &self.nodes_toml(host)
    }

    /// The part of a configuration that names the nodes.
    pub fn nodes_toml(&self, host: &str) -> String {
        let name = match self.nodes {
            None => host.to_owned(),
            Some(1) => "n1".to_owned(),
            Some(count) => format!("n[1-{count}]"),
        };
        let mut text = String::from("[[node]]\n");
        let quoted = |text: &str| Value::from(text).to_string();
        text.push_str(&format!("name = {}\n", quoted(&name)));
        text.extend(self.cpus.map(|cpus| format!("cpus = {cpus}\n")));
        text.extend(self.memory_mib.map(|mem| format!("mem = {mem} # MiB\n")));
        if !self.gres.is_empty() {
            let list: Vec<String> = self.gres.iter().map(|gres| quoted(gres)).collect();
            text.push_str(&format!("gres = [{}]\n", list.join(", ")));
        }
        text
    }
}

/// True if a configuration says which nodes run on this machine.
///
/// # Errors
/// It can't be read; the message says where.
pub fn names_nodes(text: &str) -> anyhow::Result<bool> {
    Ok(text.parse::<Table>()?.contains_key("node"))
}

/// Reads the nodes of the cluster in `dir`. Where its configuration names none, this machine is the one node.
///
/// # Errors
/// The file can't be read, or a node in it is not right; the message says which.
pub fn read(dir: &Path, host: &str) -> anyhow::Result<Vec<Node>> {
    let path = dir.join(CONFIG_FILE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    parse(&text, host).with_context(|| format!("{} is not right", path.display()))
}

/// Reads the nodes of a configuration.
///
/// # Errors
/// As [`read`].
pub fn parse(text: &str, host: &str) -> anyhow::Result<Vec<Node>> {
    let file: Table = text.parse()?;
    let entries = match file.get("node") {
        None => return Ok(vec![Node { name: host.to_owned(), args: Vec::new() }]),
        Some(Value::Array(entries)) => entries,
        Some(_) => bail!("`node` has to be written as [[node]]"),
    };
    let mut nodes: Vec<Node> = Vec::new();
    for entry in entries {
        let table = entry.as_table().context("`node` has to be written as [[node]]")?;
        let name = table.get("name").and_then(Value::as_str).context("a [[node]] has no name")?;
        let args = arguments(table).with_context(|| format!("[[node]] {name}"))?;
        let hosts = Hostlist::parse(name).with_context(|| format!("[[node]] {name}"))?;
        let total = nodes.len() as u64 + hosts.len();
        if total > NODES_MAX as u64 {
            bail!("{total} nodes on one machine: {NODES_MAX} are the most");
        }
        for name in hosts.iter() {
            if nodes.iter().any(|node| node.name == name) {
                bail!("node {name} is named twice");
            }
            nodes.push(Node { name, args: args.clone() });
        }
    }
    Ok(nodes)
}

/// The daemon's arguments for what a `[[node]]` states.
fn arguments(table: &Table) -> anyhow::Result<Vec<String>> {
    let mut args = Vec::new();
    for (key, value) in table {
        let option = match key.as_str() {
            "name" => continue,
            "cpus" | "sockets" | "cores" | "threads" | "weight" => {
                let number =
                    value.as_integer().filter(|n| *n >= 0).with_context(|| format!("`{key}` has to be a number"))?;
                args.extend([format!("--{key}"), number.to_string()]);
                continue;
            }
            "mem" => "--mem",
            "tmp_disk" => "--tmp-disk",
            "gres" => "--gres",
            "features" => "--feature",
            _ => bail!(
                "there is no key `{key}`: a node has name, cpus, sockets, cores, threads, mem, tmp_disk, gres, features and weight"
            ),
        };
        match value {
            Value::Integer(mib) if option.starts_with("--mem") || option == "--tmp-disk" => {
                args.extend([option.to_owned(), mib.to_string()]);
            }
            Value::String(size) if option == "--mem" || option == "--tmp-disk" => {
                args.extend([option.to_owned(), memory::parse_mib(size)?.to_string()]);
            }
            Value::String(one) => args.extend([option.to_owned(), one.clone()]),
            Value::Array(list) => {
                for one in list {
                    let one = one.as_str().with_context(|| format!("`{key}` has to hold texts"))?;
                    args.extend([option.to_owned(), one.to_owned()]);
                }
            }
            _ => bail!("`{key}` has to be a text or a list of texts"),
        }
    }
    Ok(args)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> anyhow::Result<Vec<String>> {
        Ok(parse(text, "vm")?.into_iter().map(|node| format!("{} {}", node.name, node.args.join(" "))).collect())
    }

    #[test]
    fn nodes_of_a_configuration() {
        let rows: [(&str, &[&str]); 5] = [
            ("", &["vm "]),
            ("[cluster]\nname = \"x\"\n", &["vm "]),
            (
                "[[node]]\nname = \"n[1-2]\"\ncpus = 4\nmem = 4000\n",
                &["n1 --cpus 4 --mem 4000", "n2 --cpus 4 --mem 4000"],
            ),
            ("[[node]]\nname = \"a\"\nmem = \"4G\"\n[[node]]\nname = \"b\"\n", &["a --mem 4096", "b "]),
            (
                "[[node]]\nname = \"g\"\ngres = [\"gpu:a100:2\", \"ib:1\"]\nfeatures = \"fast,ib\"\nweight = 2\n",
                &["g --feature fast,ib --gres gpu:a100:2 --gres ib:1 --weight 2"],
            ),
        ];
        for (text, right) in rows {
            assert_eq!(lines(text).unwrap(), right, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let rows = [
            ("[[node]]\ncpus = 4\n", "no name"),
            ("[node]\nname = \"n\"\n", "[[node]]"),
            ("[[node]]\nname = \"n\"\ncpu = 4\n", "no key `cpu`"),
            ("[[node]]\nname = \"n\"\ncpus = \"4\"\n", "`cpus` has to be a number"),
            ("[[node]]\nname = \"n[1-\"\n", "n[1-"),
            ("[[node]]\nname = \"n[1-2]\"\n[[node]]\nname = \"n2\"\n", "named twice"),
            ("[[node]]\nname = \"n[1-5000]\"\n", "are the most"),
            ("[[node\n", "line 1"),
        ];
        for (text, needle) in rows {
            let error = format!("{:#}", lines(text).unwrap_err());
            assert!(error.contains(needle), "{text}: {error}");
        }
    }

    #[test]
    fn a_written_configuration_reads_back() {
        let gres = vec!["gpu:a100:2:/dev/fakegpu/g[0-1]".to_owned()];
        let wish = Wish { nodes: Some(3), cpus: Some(64), memory_mib: Some(64_000), gres };
        let nodes = parse(&wish.to_toml("vm"), "vm").unwrap();
        assert_eq!(nodes.len(), 3);
        assert_eq!(nodes[2].name, "n3");
        assert_eq!(nodes[2].args.join(" "), "--cpus 64 --gres gpu:a100:2:/dev/fakegpu/g[0-1] --mem 64000");
        let plain = parse(&Wish::default().to_toml("lab-7"), "vm").unwrap();
        assert_eq!(plain, [Node { name: "lab-7".into(), args: vec![] }]);
    }
}
