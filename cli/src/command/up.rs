//! `gpun up`: an embedded cluster on this machine.

use std::{
    fs,
    io::{IsTerminal, Write, stderr},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use gpun_compat::{gres, memory};
use gpun_proto::{
    NODE_KEY_FILE,
    core::{
        command::{Act, NodeChange},
        node::Liveness,
    },
    node_key::NodeKey,
    quick::Quick,
};
use rand::TryRngCore;
use serde_json::json;

use crate::{
    args::{Args, Opt, Usage},
    cluster,
    command::{down, import, links, man},
    controller,
    daemon::{self, Daemon},
    nodefile::{self, Node, Wish},
    out::{Out, complain},
};

/// Of `gpun up`.
pub const USAGE: Usage = Usage {
    command: "gpun up",
    operands: "",
    count: (0, 0),
    about: "Starts a cluster on this machine: a controller and its nodes.\n\
            Comes back when the cluster can take a job. What runs already is left alone, so it may be called again at any\n\
            time: it starts what is missing and changes nothing else. The first call writes DIR/gpunion.toml; later calls\n\
            follow that file.",
    options: &[
        Opt { name: "--dir", value: Some("DIR"), help: "the cluster's folder (GPUN_DIR, else /var/lib/gpunion)" },
        Opt { name: "--nodes", value: Some("N"), help: "virtual nodes n1 to nN; without it this machine as it is" },
        Opt { name: "--cpus", value: Some("C"), help: "CPUs of each node, instead of those found" },
        Opt { name: "--mem", value: Some("MB"), help: "memory of each node in MiB, or with a unit such as 64G" },
        Opt { name: "--gres", value: Some("GRES"), help: "NAME:TYPE:COUNT[:FILES] of each node; may be repeated" },
        Opt { name: "--controllers", value: Some("N"), help: "controllers; 1 is what this version has" },
        Opt {
            name: "--import",
            value: Some("FILE"),
            help: "take the cluster's shape from a slurm.conf, as `gpun import` does",
        },
    ],
    examples: &[
        ("gpun up", "this machine as a cluster of one node"),
        ("gpun up --nodes 4 --cpus 64 --mem 64000 --gres gpu:a100:4", "four nodes to try things on"),
        ("gpun up --dir /tmp/c --nodes 2", "a second cluster; GPUN_DIR=/tmp/c names it"),
        ("gpun up --dir /tmp/c --import slurm.conf", "a cluster of that shape, with virtual nodes"),
    ],
};

/// How long the controller may take to answer.
const CONTROLLER_WAIT: Duration = Duration::from_secs(30);
/// How long the nodes may take to register.
const NODES_WAIT: Duration = Duration::from_secs(60);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(20);
/// The file with the address that nodes dial; written by the controller.
const LINK_FILE: &str = "link.addr";

/// Starts what is not running.
///
/// # Errors
/// Something can't be started; the message says what to do.
pub fn run(args: &Args, out: &mut Out) -> anyhow::Result<u8> {
    if args.get("--controllers").is_some_and(|count| count != "1") {
        bail!("more than one controller comes with a later version: leave --controllers out");
    }
    let wish = wish(args)?;
    let dir = dir(args)?;
    let progress = Progress::new();
    let host = host_name();
    if let Some(conf) = args.get("--import") {
        take_shape(Path::new(conf), &dir, &wish)?;
    }
    let is_new = prepare(&dir, &wish, &host)?;
    let _lock = daemon::lock(&dir)?;
    if !is_new && wish.says_something() {
        complain(&format!(
            "gpun up: {} is there, so its nodes stay as they are (to change them, edit it and `gpun down` and `up`)",
            dir.join(cluster::CONFIG_FILE).display()
        ));
    }
    let nodes = nodefile::read(&dir, &host)?;
    let mut quick = start_controller(&dir, &progress)?;
    let started = start_nodes(&dir, &nodes, &progress)?;
    let total = nodes.len();
    wait_for_nodes(&mut quick, &dir, &nodes, started, &progress)?;
    lend_again(&mut quick, &nodes)?;
    progress.done();
    if args.has("--json") {
        let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        out.line(&json!({ "dir": dir, "nodes": names, "bin": dir.join("bin") }).to_string());
    } else {
        let s = if total == 1 { "" } else { "s" };
        out.line(&format!("gpunion is up in {} with {total} node{s}. To use it:\n", dir.display()));
        if dir != Path::new(cluster::DEFAULT_DIR) {
            out.line(&format!("  export GPUN_DIR={}", dir.display()));
        }
        out.line(&format!("  export PATH={}:$PATH", dir.join("bin").display()));
        out.text("  sbatch --wrap 'echo hello from $(hostname)'\n  squeue\n");
    }
    Ok(0)
}

fn wish(args: &Args) -> anyhow::Result<Wish> {
    let number = |name: &str| -> anyhow::Result<Option<u32>> {
        let Some(text) = args.get(name) else { return Ok(None) };
        let number = text.parse().ok().filter(|n| *n > 0);
        Ok(Some(number.with_context(|| format!("{name} {text} is no number above 0"))?))
    };
    let memory_mib = args.get("--mem").map(memory::parse_mib).transpose().context("--mem")?;
    for text in args.all("--gres") {
        // The files behind the count are the node daemon's to read.
        let front: Vec<&str> = text.splitn(4, ':').take(3).collect();
        let sound = gres::parse(&front.join(":")).is_ok_and(|list| list.len() == 1 && list[0].count > 0);
        if !sound || front.len() < 2 {
            bail!("--gres {text} is not NAME:TYPE:COUNT[:FILES], such as gpu:a100:4:/dev/nvidia[0-3]");
        }
    }
    Ok(Wish { nodes: number("--nodes")?, cpus: number("--cpus")?, memory_mib, gres: args.all("--gres").to_vec() })
}

/// Writes the configuration from a slurm.conf, if there is none yet.
fn take_shape(conf: &Path, dir: &Path, wish: &Wish) -> anyhow::Result<()> {
    if wish.says_something() {
        bail!("--import says what nodes there are: leave out --nodes, --cpus, --mem and --gres");
    }
    let config = dir.join(cluster::CONFIG_FILE);
    if config.exists() {
        complain(&format!(
            "gpun up: {} is there, so {} is not read (to take it anew, `gpun down` and move the folder away)",
            config.display(),
            conf.display()
        ));
        return Ok(());
    }
    let made = import::import(conf, None)?;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(dir)
        .and_then(|()| fs::write(&config, made.to_toml(&conf.to_string_lossy())))
        .with_context(|| format!("cannot write {}", config.display()))?;
    made.report().lines().for_each(complain);
    Ok(())
}

/// The folder that is meant, as an absolute path; it need not exist.
///
/// # Errors
/// The present folder is gone.
pub fn dir(args: &Args) -> anyhow::Result<PathBuf> {
    let dir = args.get("--dir").map_or_else(cluster::dir, PathBuf::from);
    std::path::absolute(&dir).with_context(|| format!("cannot resolve {}", dir.display()))
}

/// This machine's name up to the first dot.
pub fn host_name() -> String {
    let name = nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.split('.').next().filter(|name| !name.is_empty()).unwrap_or("localhost").to_owned()
}

/// Makes the folder with key, configuration and links; true if the nodes that are wished for went into the configuration.
fn prepare(dir: &Path, wish: &Wish, host: &str) -> anyhow::Result<bool> {
    fs::DirBuilder::new().recursive(true).mode(0o755).create(dir).with_context(|| {
        format!("cannot make {}: run `gpun up` as root, or name a folder of your own with --dir", dir.display())
    })?;
    let config = dir.join(cluster::CONFIG_FILE);
    let written = match fs::read_to_string(&config) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", config.display())),
    };
    let text = match &written {
        None => Some(wish.to_toml(host)),
        // A configuration that somebody wrote without nodes: the ones that are wished for are added.
        Some(text)
            if wish.says_something()
                && !nodefile::names_nodes(text).with_context(|| format!("{} is not right", config.display()))? =>
        {
            Some(format!("{}\n\n{}", text.trim_end(), wish.nodes_toml(host)))
        }
        Some(_) => None,
    };
    let is_new = text.is_some();
    if let Some(text) = text {
        fs::write(&config, text).with_context(|| format!("cannot write {}", config.display()))?;
    }
    make_key(&dir.join(NODE_KEY_FILE))?;
    links::install_for_jobs(&dir.join("bin"))?;
    man::write(&dir.join("share/man"))?;
    Ok(is_new)
}

/// The key by which nodes prove that they belong to the cluster; made once.
fn make_key(path: &Path) -> anyhow::Result<()> {
    if path.exists() {
        return Ok(());
    }
    let mut bytes = [0; 32];
    rand::rngs::OsRng.try_fill_bytes(&mut bytes).context("the system gives no random bytes")?;
    // Written aside first: a half-written key would be taken for the cluster's.
    let aside = path.with_extension("new");
    let _ = fs::remove_file(&aside);
    let file = fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(&aside);
    file.and_then(|mut file| file.write_all(NodeKey::new(bytes).to_text().as_bytes()).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&aside, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn start_controller(dir: &Path, progress: &Progress) -> anyhow::Result<Quick> {
    let daemon = Daemon::controller(dir);
    progress.say("controller");
    let mut child = match daemon.pid() {
        Some(_) => None,
        None => {
            let program = daemon::program("gpunctld")?;
            Some(daemon.start(Command::new(program).arg("--dir").arg(dir))?)
        }
    };
    let started = Instant::now();
    loop {
        if let Ok(mut quick) = Quick::connect(&cluster::socket(dir))
            && controller::show_cluster(&mut quick).is_ok()
            && dir.join(LINK_FILE).exists()
        {
            return Ok(quick);
        }
        if let Some(status) = child.as_mut().and_then(|child| child.try_wait().ok().flatten()) {
            bail!("gpunctld ended with {status}; {}", daemon.last_words());
        }
        if started.elapsed() > CONTROLLER_WAIT {
            bail!("gpunctld does not answer after {} s; {}", CONTROLLER_WAIT.as_secs(), daemon.last_words());
        }
        thread::sleep(PAUSE);
    }
}

fn start_nodes(dir: &Path, nodes: &[Node], progress: &Progress) -> anyhow::Result<Vec<(Daemon, Child)>> {
    let missing: Vec<&Node> = nodes.iter().filter(|node| Daemon::node(dir, &node.name).pid().is_none()).collect();
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    let link = fs::read_to_string(dir.join(LINK_FILE)).context("the controller's address is not known")?;
    let program = daemon::program("gpund")?;
    daemon::program("gpund-shim")?;
    let mut started = Vec::new();
    for (nth, node) in missing.iter().enumerate() {
        progress.say(&format!("nodes: {} of {} started", nth + 1, missing.len()));
        let daemon = Daemon::node(dir, &node.name);
        let mut command = Command::new(&program);
        command.arg("--dir").arg(dir).args(["--node", &node.name, "--controller", link.trim()]).args(&node.args);
        let child = daemon.start(&mut command)?;
        daemon.note_pid(&child)?;
        started.push((daemon, child));
    }
    Ok(started)
}

fn wait_for_nodes(
    quick: &mut Quick,
    dir: &Path,
    nodes: &[Node],
    mut started: Vec<(Daemon, Child)>,
    progress: &Progress,
) -> anyhow::Result<()> {
    let began = Instant::now();
    loop {
        let names = nodes.iter().map(|node| node.name.clone()).collect();
        let (views, _) = controller::list_nodes(quick, names)?;
        let is_up = |name: &str| views.iter().any(|view| view.node.name == name && view.node.liveness == Liveness::Up);
        let late: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).filter(|name| !is_up(name)).collect();
        if late.is_empty() {
            return Ok(());
        }
        progress.say(&format!("nodes: {} of {} up", nodes.len() - late.len(), nodes.len()));
        for (daemon, child) in &mut started {
            if let Ok(Some(status)) = child.try_wait() {
                bail!("{} ended with {status}; {}", daemon.title, daemon.last_words());
            }
        }
        if began.elapsed() > NODES_WAIT {
            let words = late.first().map(|name| Daemon::node(dir, name).last_words()).unwrap_or_default();
            bail!("not up after {} s: {}; {words}", NODES_WAIT.as_secs(), late.join(", "));
        }
        thread::sleep(PAUSE);
    }
}

/// Takes back what `gpun down` did to keep jobs from starting while it stopped.
fn lend_again(quick: &mut Quick, nodes: &[Node]) -> anyhow::Result<()> {
    let names = nodes.iter().map(|node| node.name.clone()).collect();
    let (views, _) = controller::list_nodes(quick, names)?;
    let ours = |view: &&gpun_proto::core::view::NodeView| {
        view.node.drain.as_ref().is_some_and(|mark| mark.reason == down::REASON)
    };
    for view in views.iter().filter(ours) {
        let act = Act::UpdateNode { name: view.node.name.clone(), change: NodeChange::Resume };
        controller::act(quick, &act)?;
    }
    Ok(())
}

/// A line that is written over, on a terminal only.
struct Progress {
    on: bool,
}

impl Progress {
    fn new() -> Self {
        Self { on: stderr().is_terminal() }
    }

    fn say(&self, text: &str) {
        if self.on {
            let _ = write!(stderr(), "\r\x1b[K{text}...");
        }
    }

    fn done(&self) {
        if self.on {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.done();
    }
}
