//! What gpund is told: its command line, and `gpund.toml` in the cluster's folder for what belongs to the machine.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Parser;
use serde::Deserialize;
use thiserror::Error;

use crate::probe::{self, Stated, StatedError};

/// The node daemon of gpunion: runs the cluster's jobs on this machine.
#[derive(Debug, Parser)]
#[command(name = "gpund", version, max_term_width = 120)]
pub struct Args {
    /// The cluster's folder
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,
    /// This node's name
    #[arg(long, value_name = "NAME", value_parser = node_name)]
    pub node: String,
    /// A controller, as HOST:PORT; may be repeated
    #[arg(long = "controller", value_name = "HOST:PORT", required = true)]
    pub controllers: Vec<String>,
    /// State this many CPUs instead of those found; jobs are then not bound to CPUs
    #[arg(long, value_name = "N")]
    pub cpus: Option<u32>,
    /// State this many sockets
    #[arg(long, value_name = "N")]
    pub sockets: Option<u32>,
    /// State this many cores of a socket
    #[arg(long, value_name = "N")]
    pub cores: Option<u32>,
    /// State this many threads of a core
    #[arg(long, value_name = "N")]
    pub threads: Option<u32>,
    /// State this much memory
    #[arg(long = "mem", value_name = "MIB")]
    pub memory_mib: Option<u64>,
    /// State this much temporary disk
    #[arg(long = "tmp-disk", value_name = "MIB")]
    pub tmp_disk_mib: Option<u64>,
    /// A generic resource, NAME:COUNT or NAME:TYPE:COUNT[:FILES]; may be repeated
    #[arg(long, value_name = "SPEC")]
    pub gres: Vec<String>,
    /// A feature; may be repeated or hold several, separated by commas
    #[arg(long = "feature", alias = "features", value_name = "FEATURE", value_delimiter = ',')]
    pub features: Vec<String>,
    /// Scheduling weight: nodes with a lower one are used first
    #[arg(long, value_name = "N")]
    pub weight: Option<u32>,
    /// Stay in the foreground (it always does; for scripts that say so)
    #[arg(long)]
    pub foreground: bool,
    /// Write the log as JSON lines
    #[arg(long)]
    pub log_json: bool,
}

fn node_name(text: &str) -> Result<String, String> {
    let sound = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    if sound && !text.is_empty() && !text.starts_with(['.', '-']) && text.len() <= 64 {
        Ok(text.to_owned())
    } else {
        Err("a node's name is made of letters, digits, '-', '_' and '.', at most 64 of them".to_owned())
    }
}

impl Args {
    /// This node's folder.
    pub fn node_dir(&self) -> PathBuf {
        self.dir.join("nodes").join(&self.node)
    }

    /// The sizes that are stated.
    ///
    /// # Errors
    /// A `--gres` is none.
    pub fn stated(&self) -> Result<Stated, StatedError> {
        Ok(Stated {
            cpus: self.cpus,
            sockets: self.sockets,
            cores: self.cores,
            threads: self.threads,
            memory_mib: self.memory_mib,
            tmp_disk_mib: self.tmp_disk_mib,
            gres: self.gres.iter().map(|text| probe::gres(text)).collect::<Result<_, _>>()?,
            features: self.features.iter().filter(|text| !text.is_empty()).cloned().collect(),
            weight: self.weight,
        })
    }
}

/// `gpund.toml`: what belongs to the machine. Every key may be left out.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Machine {
    /// The OCI runtime; none: `runc` from the usual folders.
    pub runc: Option<PathBuf>,
    /// Host folders that are bound writable into containers without an image, where they exist.
    pub writable: Vec<PathBuf>,
    /// Most processes and threads of a job.
    pub pids_max: u32,
    /// Most launches in the making at once; none: the machine's CPUs and two more.
    pub launches_max: Option<usize>,
    /// Days for which the layers of an image are kept on this machine after the last job that used them.
    pub image_keep_days: u32,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            runc: None,
            writable: ["/home", "/scratch", "/data"].map(PathBuf::from).to_vec(),
            pids_max: 16_384,
            launches_max: None,
            image_keep_days: 30,
        }
    }
}

/// What is wrong with `gpund.toml`, or with the machine.
#[derive(Debug, Error)]
pub enum MachineError {
    /// It can't be read.
    #[error("{path} can't be read")]
    Read {
        /// Which file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// It is not what it should be; the cause names line and column.
    #[error("{path} is wrong")]
    Parse {
        /// Which file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Box<toml::de::Error>,
    },
    /// No runtime.
    #[error(
        "runc is not installed; install it (Debian: apt-get install runc) or name it in gpund.toml: runc = \"/path\""
    )]
    NoRuntime,
}

impl Machine {
    /// Reads the file; one that is not there leaves everything at its default.
    ///
    /// # Errors
    /// It can't be read, or says what nobody understands.
    pub fn read(path: &Path) -> Result<Self, MachineError> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(source) => return Err(MachineError::Read { path: path.to_owned(), source }),
        };
        Self::parse(&text).map_err(|source| MachineError::Parse { path: path.to_owned(), source: Box::new(source) })
    }

    fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// The OCI runtime's path.
    ///
    /// # Errors
    /// There is none.
    pub fn runtime(&self) -> Result<PathBuf, MachineError> {
        if let Some(named) = &self.runc {
            return Ok(named.clone());
        }
        let usual = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
        let found = usual.iter().map(|dir| Path::new(dir).join("runc")).find(|path| path.is_file());
        found.ok_or(MachineError::NoRuntime)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;

    use super::*;

    /// The terms of a manual page's section, up to the end of the bold words.
    fn terms(page: &str, section: &str) -> BTreeSet<String> {
        let part = page.split(".SH ").find(|part| part.lines().next() == Some(section)).unwrap_or_default();
        let terms = part.split(".TP\n\\fB").skip(1).filter_map(|term| term.split("\\fR").next());
        terms.map(|term| term.replace("\\-", "-")).collect()
    }

    #[test]
    fn the_manual_pages_have_every_key_and_option() {
        let error = toml::from_str::<Machine>("no_such_key = 1\n").unwrap_err();
        let (_, known) = error.message().split_once("expected").unwrap();
        let keys: BTreeSet<String> = known.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        let page = include_str!("../../man/man5/gpund.toml.5");
        assert_eq!(keys, terms(page, "KEYS"), "the page is made from cli/src/man/keys.rs");
        let mut command = Args::command();
        command.build();
        let options: BTreeSet<String> =
            command.get_arguments().filter_map(|arg| Some(format!("--{}", arg.get_long()?))).collect();
        let page = terms(include_str!("../../man/man8/gpund.8"), "OPTIONS");
        let page = page.iter().map(|term| term.split('=').next().unwrap_or_default().to_owned()).collect();
        assert_eq!(options, page, "the page is made from cli/src/man/own.rs");
    }

    fn args(rest: &[&str]) -> Result<Args, String> {
        let line = ["gpund", "--dir", "/d", "--node", "n1", "--controller", "127.0.0.1:1"];
        Args::try_parse_from(line.iter().chain(rest)).map_err(|error| error.to_string())
    }

    #[test]
    fn the_command_line_states_sizes() {
        let args =
            args(&["--cpus", "8", "--mem", "64000", "--gres", "gpu:a100:2", "--feature", "a,b", "--feature", "c"]);
        let args = args.unwrap();
        let stated = args.stated().unwrap();
        assert_eq!((stated.cpus, stated.memory_mib), (Some(8), Some(64_000)));
        assert_eq!(stated.features, ["a", "b", "c"]);
        assert_eq!(stated.gres[0].count, 2);
        assert_eq!(args.node_dir(), Path::new("/d/nodes/n1"));
    }

    #[test]
    fn a_name_that_is_no_folder_name_is_refused() {
        for name in ["", "..", ".n", "-n", "a/b", "a b", &"n".repeat(65)] {
            assert!(node_name(name).is_err(), "{name}");
        }
        for name in ["n1", "lab-7.cs", "N_2"] {
            assert!(node_name(name).is_ok(), "{name}");
        }
        assert!(args(&["--gres", "gpu"]).unwrap().stated().is_err());
    }

    #[test]
    fn the_machines_file_has_defaults_and_names_the_line() {
        assert_eq!(Machine::parse("").unwrap(), Machine::default());
        let some = Machine::parse("pids_max = 5\nwritable = [\"/w\"]\n").unwrap();
        assert_eq!((some.pids_max, some.writable), (5, vec![PathBuf::from("/w")]));
        for (text, words) in [("pids_max = 5\npid = 3\n", "line 2"), ("\n\npids_max = -1", "line 3"), ("x", "line 1")] {
            let error = Machine::parse(text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
