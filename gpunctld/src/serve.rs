//! Start, listening, and a graceful stop.

use std::{
    fs, io,
    net::SocketAddr,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use anyhow::Context;
use gpun_core::{Command, Outcome};
use gpun_proto::{
    CONTROLLER_SOCKET, MESSAGE_MAX_BYTES, NODE_KEY_FILE,
    node_key::NodeKey,
    pb::{controller_server::ControllerServer, node_link_server::NodeLinkServer},
};
use gpun_raft_store::{NoTransport, Store};
use tokio::{
    net::{TcpListener, TcpStream, UnixListener},
    signal::unix::{SignalKind, signal},
    sync::{mpsc, watch},
};
use tokio_stream::{
    StreamExt,
    wrappers::{TcpListenerStream, UnixListenerStream},
};
use tonic::transport::Server;

use crate::{
    app::App,
    config::Config,
    event::Event,
    leader::{EVENTS_MAX, Leader},
    link::Link,
    propose::{Proposer, clock_now},
    read::{About, Soft},
    retention,
    rpc::Rpc,
    users::Users,
};

/// The file with the controller's process id, below the cluster's folder.
const PID_FILE: &str = "ctl.pid";
/// The file with the address that nodes dial, below the cluster's folder.
const LINK_FILE: &str = "link.addr";
/// How long a stop waits for calls under way.
const STOP_WAIT: Duration = Duration::from_secs(5);

/// Runs the controller of the cluster in `dir` until SIGTERM or SIGINT.
///
/// # Errors
/// It can't start, in words that say what to do.
pub async fn run(dir: &Path) -> anyhow::Result<()> {
    let started = clock_now();
    let config = Config::read(dir)?;
    let _lock = lock(dir)?;
    let key = node_key(&dir.join(NODE_KEY_FILE))?;
    let mut store_config = gpun_raft_store::Config::new(dir.join("state"), 1);
    store_config.cluster = config.settings.cluster_name.clone();
    store_config.min_free_mib = config.min_free_disk_mib;
    // A campus writes a few hundred entries of a kilobyte a second; the store's defaults are for a hundred times that.
    (store_config.cache_mib, store_config.write_buffer_mib) = (8, 16);
    let store =
        Store::open(store_config, App::default(), Arc::new(NoTransport)).await.context("cannot open the state")?;
    let link = listen_for_nodes(config.link_address, &dir.join(LINK_FILE)).await?;
    let link_address = link.local_addr()?.to_string();
    store.initialize_single(&link_address).await.context("cannot set up the consensus group")?;
    let proposer = Proposer::start(store.clone(), config.log_batch_max);
    configure(&store, &proposer, &config).await?;

    let soft = Arc::new(Soft::default());
    let (events, inbox) = mpsc::channel(EVENTS_MAX);
    let cluster_dir = fs::canonicalize(dir)?.to_string_lossy().into_owned();
    let leader = Leader::new(store.clone(), proposer.clone(), soft.clone(), events.clone(), cluster_dir.clone());
    let leader = tokio::spawn(leader.run(inbox));
    let tickers = tokio::spawn(tick(store.clone(), events.clone()));
    let keeper = tokio::spawn(retention::keep(store.clone(), proposer.clone()));

    let (stop, stopping) = watch::channel(false);
    let link_service = Link {
        events: events.clone(),
        proposer: proposer.clone(),
        key,
        cluster_name: config.settings.cluster_name.clone(),
        beat: config.beat,
        sessions: Arc::new(AtomicU64::new(0)),
    };
    let rpc = Rpc {
        store: store.clone(),
        proposer,
        soft,
        users: Arc::new(Users::default()),
        about: About { host: host_name(), started, cluster_dir: cluster_dir.clone(), more: Arc::default() },
        link_address: link_address.clone(),
    };
    // Before the socket: whoever finds it answering finds the address and the process too.
    write_whole(&dir.join(LINK_FILE), &format!("{link_address}\n"))?;
    write_whole(&dir.join(PID_FILE), &format!("{}\n", std::process::id()))?;
    let socket = listen_local(&dir.join(CONTROLLER_SOCKET))?;
    let rpc = ControllerServer::new(rpc)
        .max_decoding_message_size(MESSAGE_MAX_BYTES)
        .max_encoding_message_size(MESSAGE_MAX_BYTES);
    let link_service = NodeLinkServer::new(link_service)
        .max_decoding_message_size(MESSAGE_MAX_BYTES)
        .max_encoding_message_size(MESSAGE_MAX_BYTES);
    let local = tokio::spawn(
        Server::builder()
            .add_service(rpc)
            .serve_with_incoming_shutdown(UnixListenerStream::new(socket), stopped(stopping.clone())),
    );
    let nodes = tokio::spawn(
        Server::builder()
            .add_service(link_service)
            .serve_with_incoming_shutdown(TcpListenerStream::new(link).map(at_once), stopped(stopping)),
    );
    tracing::info!(dir = %dir.display(), nodes = link_address, jobs = store.view().view.job_count(), "the controller serves");

    wait_for_stop().await?;
    tracing::info!("stopping; jobs run on");
    let _ = stop.send(true);
    // Streams of nodes never end by themselves: the loop drops them, and with it the last sender of documents.
    leader.abort();
    tickers.abort();
    keeper.abort();
    drop(events);
    for server in [local, nodes] {
        if let Ok(Ok(Err(error))) = tokio::time::timeout(STOP_WAIT, server).await {
            tracing::warn!(%error, "a listener ended badly");
        }
    }
    store.shutdown().await;
    let _ = fs::remove_file(dir.join(CONTROLLER_SOCKET));
    let _ = fs::remove_file(dir.join(PID_FILE));
    tracing::info!("stopped");
    Ok(())
}

/// A node's connection, on which small messages do not wait for the answer to those before: that costs 40 ms each. The
/// server's own option for it does not reach listeners that are handed to it.
fn at_once(connection: io::Result<TcpStream>) -> io::Result<TcpStream> {
    let connection = connection?;
    if let Err(error) = connection.set_nodelay(true) {
        // It is gone already, which whoever reads from it finds out.
        tracing::debug!(%error, "a connection takes no options");
    }
    Ok(connection)
}

/// Listens for nodes. Where the configuration leaves the port open, the one of the last start is taken again if it is free:
/// nodes that run on find the controller where it was.
async fn listen_for_nodes(address: SocketAddr, last: &Path) -> anyhow::Result<TcpListener> {
    let before = fs::read_to_string(last).ok().and_then(|text| text.trim().parse::<SocketAddr>().ok());
    if let Some(before) = before.filter(|before| address.port() == 0 && before.ip() == address.ip()) {
        match TcpListener::bind(before).await {
            Ok(listener) => return Ok(listener),
            Err(error) => tracing::warn!(%before, %error, "the last port is taken; nodes have to be told the new one"),
        }
    }
    TcpListener::bind(address).await.with_context(|| {
        format!("cannot listen on {address} for nodes: change controller.link_address in gpunion.toml")
    })
}

/// Proposes the configuration where the file changed since it was last proposed.
async fn configure(store: &Store<App>, proposer: &Proposer, config: &Config) -> anyhow::Result<()> {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    if store.view().view.settings().config_digest == config.settings.config_digest {
        return Ok(());
    }
    let command =
        Command::Configure { settings: Box::new(config.settings.clone()), partitions: config.partitions.clone() };
    loop {
        match proposer.propose(command.clone()).await {
            Ok(Outcome::Refused(refusal)) => anyhow::bail!("the configuration is refused: {refusal}"),
            Ok(_) => return Ok(()),
            // A controller that can't write still answers questions; the settings follow when the disk has room.
            Err(error @ gpun_raft_store::ProposeError::DiskFull { .. }) => {
                tracing::warn!(%error, "the configuration is not recorded");
                return Ok(());
            }
            Err(error) if tokio::time::Instant::now() > deadline => {
                return Err(error).context("cannot record the configuration");
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Turns applied entries and seconds into events.
async fn tick(store: Store<App>, events: mpsc::Sender<Event>) {
    let mut applied = store.watch_applied();
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    loop {
        let event = tokio::select! {
            changed = applied.changed() => match changed {
                Ok(()) => Event::Applied,
                Err(_) => return,
            },
            _ = seconds.tick() => Event::Second,
        };
        if events.send(event).await.is_err() {
            return;
        }
    }
}

async fn stopped(mut stopping: watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stop| *stop).await;
}

async fn wait_for_stop() -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

/// One controller a folder: the lock is held for as long as the file is open.
fn lock(dir: &Path) -> anyhow::Result<fs::File> {
    let path = dir.join("ctl.lock");
    let file = fs::OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
    let file =
        file.with_context(|| format!("cannot open {}: is {} the cluster's folder?", path.display(), dir.display()))?;
    file.try_lock()
        .with_context(|| format!("a controller of {} runs already: stop it with `gpun down` first", dir.display()))?;
    Ok(file)
}

/// The cluster's node key; made at the first start.
fn node_key(path: &Path) -> anyhow::Result<NodeKey> {
    if !path.exists() {
        write_secret(path, &NodeKey::new(rand::random()).to_text())?;
    }
    NodeKey::read(path).with_context(|| format!("cannot read the node key {}", path.display()))
}

fn write_secret(path: &Path, text: &str) -> io::Result<()> {
    use io::Write;
    let mut file = fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Everyone on the machine may ask; who asks is known from the kernel, and what they may do is decided in the core.
fn listen_local(path: &Path) -> anyhow::Result<UnixListener> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let listener = UnixListener::bind(path).with_context(|| format!("cannot listen on {}", path.display()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o666))?;
    Ok(listener)
}

fn write_whole(path: &PathBuf, text: &str) -> anyhow::Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, text)?;
    fs::rename(&new, path)?;
    Ok(())
}

fn host_name() -> String {
    nix::unistd::gethostname()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_else(|_| "localhost".to_owned())
}
