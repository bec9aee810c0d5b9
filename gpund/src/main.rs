//! The node daemon's program: command line, log, lock, signals.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{IsTerminal, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use clap::Parser;
use gpun_proto::{NODE_KEY_FILE, node_key::NodeKey};
use gpund::config::{Args, Machine};
use gpund::daemon::{Daemon, Event};
use gpund::launcher::Site;
use gpund::link::Link;
use gpund::{embed, image, probe, step};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::UnboundedSender;
use tracing_subscriber::EnvFilter;

/// How often the image store is looked through.
const COLLECT_EVERY: Duration = Duration::from_secs(3600);

fn main() -> ExitCode {
    let args = Args::parse();
    log(args.log_json);
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn log(json: bool) {
    let filter = EnvFilter::try_from_env("GPUN_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if json {
        log.json().init();
    } else {
        log.with_ansi(std::io::stderr().is_terminal()).init();
    }
}

fn run(args: &Args) -> Result<()> {
    let dir = fs::canonicalize(&args.dir)
        .with_context(|| format!("the cluster's folder {} is not there; `gpun up` makes it", args.dir.display()))?;
    let node_dir = dir.join("nodes").join(&args.node);
    DirBuilder::new().recursive(true).mode(0o755).create(&node_dir).with_context(|| at(&node_dir))?;
    let _lock = lock(&node_dir, &args.node)?;
    let key_file = dir.join(NODE_KEY_FILE);
    let key = NodeKey::read(&key_file)
        .with_context(|| format!("the cluster's node key {} can't be read; `gpun up` makes it", key_file.display()))?;
    let machine = Machine::read(&dir.join("gpund.toml"))?;
    let inventory = probe::inventory(&args.stated()?)?;
    let shim = std::env::current_exe()?.with_file_name("gpund-shim");
    if !shim.is_file() {
        bail!("{} is not there; it is installed beside gpund", shim.display());
    }
    more_files();
    let doors = dir.join(gpun_proto::step::SOCKET_FOLDER);
    DirBuilder::new().recursive(true).mode(0o755).create(&doors).with_context(|| at(&doors))?;
    let door = doors.join(gpun_proto::step::socket_name(&args.node));
    let site = Site {
        node_name: args.node.clone(),
        cluster_dir: dir,
        init: embed::install_init(&node_dir)
            .with_context(|| format!("gpun-init can't be installed in {}", node_dir.display()))?,
        node_dir: node_dir.clone(),
        runc: machine.runtime()?,
        writable: machine.writable.clone(),
        pids_max: machine.pids_max,
        cpus_stated: inventory.stated,
    };
    let launches_max = machine.launches_max.unwrap_or_else(|| probe::usable_cpus() + 2);
    tracing::info!(node = args.node, cpus = inventory.cpus, memory_mib = inventory.memory.0, launches_max, "starts");
    let link = |news| Link { controllers: args.controllers.clone(), name: args.node.clone(), key, inventory, news };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let store = image::store(&site.share());
    let keep = Duration::from_secs(u64::from(machine.image_keep_days) * 86_400);
    runtime.spawn(async move {
        loop {
            collect_images(store.clone(), keep).await;
            tokio::time::sleep(COLLECT_EVERY).await;
        }
    });
    runtime.block_on(serve(site, &shim, launches_max, link, &door))?;
    let _ = fs::remove_file(&door);
    // Nothing waits for blocking work that is still under way: what it had to do is found again at the next start.
    runtime.shutdown_background();
    let _ = fs::remove_file(node_dir.join("gpund.pid"));
    tracing::info!("stopped; jobs go on");
    Ok(())
}

async fn collect_images(store: PathBuf, keep: Duration) {
    let collected = tokio::task::spawn_blocking(move || image::collect::collect(&store, SystemTime::now(), keep));
    match collected.await {
        Ok(Ok(taken)) if taken.layers.is_empty() => {}
        Ok(Ok(taken)) => tracing::info!(layers = ?taken.layers, "image layers that nobody used for long are gone"),
        Ok(Err(error)) => tracing::warn!(%error, "old image layers can't be taken away"),
        Err(error) => tracing::warn!(%error, "old image layers can't be looked for"),
    }
}

async fn serve(
    site: Site,
    shim: &Path,
    launches_max: usize,
    link: impl FnOnce(UnboundedSender<Event>) -> Link,
    door: &Path,
) -> Result<()> {
    let (daemon, events) = Daemon::start(site, shim.to_owned(), launches_max).context("the ledger can't be read")?;
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let mut hangup = signal(SignalKind::hangup())?;
    let stop = daemon.events();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                // Its terminal may go.
                _ = hangup.recv() => {}
            }
        }
        let _ = stop.send(Event::Stop);
    });
    let listener = step::door::open(door).with_context(|| format!("{} can't be listened on", door.display()))?;
    tokio::spawn(step::door::serve(listener, daemon.events()));
    tokio::spawn(link(daemon.events()).run());
    daemon.run(events).await;
    Ok(())
}

fn at(path: &Path) -> String {
    format!("{} can't be made", path.display())
}

/// One daemon a node: the lock is held until this process ends, and the file says which process that is.
fn lock(node_dir: &Path, node: &str) -> Result<File> {
    let path = node_dir.join("gpund.lock");
    let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
    let lock = lock.with_context(|| format!("{} can't be opened", path.display()))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            bail!("node {node} already runs on this machine, see gpund.pid in {}", node_dir.display())
        }
        Err(TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("{} can't be locked", path.display()));
        }
    }
    let pid = node_dir.join("gpund.pid");
    let mut file = File::create(&pid).with_context(|| at(&pid))?;
    writeln!(file, "{}", std::process::id()).with_context(|| at(&pid))?;
    Ok(lock)
}

/// A job takes a socket: as many files as the system lets it have.
fn more_files() {
    let raised =
        getrlimit(Resource::RLIMIT_NOFILE).and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(error) = raised {
        tracing::warn!(%error, "the number of open files stays as it is");
    }
}
