//! A controller that does as it is told, and a real gpund with real containers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use gpun_core::command::{Ended, JobEvent, JobReport};
use gpun_core::desired::{Desired, DesiredJob};
use gpun_core::job::{EndCause, EndOrder, SignalOrder};
use gpun_core::node::Inventory;
use gpun_core::{Attempt, JobId, TimeLimit, TimeMs};
use gpun_proto::node_key::NodeKey;
use gpun_proto::pb::{self, FromNode, ToNode, from_node, node_link_server, to_node};
use gpund::launcher::Site;
use gpund::recover::{self, NodePlaces};
use gpund::sys::Linux;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

pub const UID: u32 = 7001;
const KILL_WAIT_S: u64 = 1;

/// A job as the controller sees it.
#[derive(Clone)]
pub struct Wanted {
    pub job: DesiredJob,
    pub launch: pb::Launch,
}

#[derive(Default)]
struct Truth {
    jobs: BTreeMap<JobId, Wanted>,
    kill_wait_s: u64,
    as_of: u64,
    reports: Vec<JobReport>,
    messages: usize,
    inventory: Option<Inventory>,
    health: usize,
    sessions: usize,
    carried: BTreeSet<(JobId, Attempt)>,
    out: Option<mpsc::Sender<Result<ToNode, Status>>>,
    /// Sends every launch with every document, whatever was carried.
    repeat: bool,
}

impl Truth {
    fn send(&self, message: to_node::Message) {
        if let Some(out) = &self.out {
            let _ = out.try_send(Ok(ToNode { message: Some(message) }));
        }
    }

    fn sync(&mut self) {
        self.as_of += 1;
        let jobs = self.jobs.values().map(|wanted| wanted.job.clone()).collect();
        let desired = Desired { as_of: TimeMs(self.as_of), kill_wait_s: self.kill_wait_s, jobs };
        let fresh = |wanted: &&Wanted| self.repeat || !self.carried.contains(&(wanted.job.job, wanted.job.attempt));
        let launches: Vec<pb::Launch> = self.jobs.values().filter(fresh).map(|wanted| wanted.launch.clone()).collect();
        self.carried.extend(self.jobs.values().map(|wanted| (wanted.job.job, wanted.job.attempt)));
        self.send(to_node::Message::Sync(pb::Sync { desired: gpun_proto::encode(&desired), launches }));
    }

    fn take(&mut self, reports: pb::Reports) {
        self.messages += 1;
        let mut over = false;
        for report in &reports.reports {
            let report: JobReport = gpun_proto::decode(report).unwrap();
            let current = self.jobs.get(&report.job).is_some_and(|wanted| wanted.job.attempt == report.attempt);
            if current && matches!(report.event, JobEvent::Ended(_)) {
                self.jobs.remove(&report.job);
                over = true;
            }
            self.reports.push(report);
        }
        self.send(to_node::Message::ReportsTaken(reports.number));
        if over {
            self.sync();
        }
    }
}

/// A controller on loopback.
pub struct Controller {
    runtime: Runtime,
    address: SocketAddr,
    key: NodeKey,
    truth: Arc<Mutex<Truth>>,
    stop: Option<oneshot::Sender<()>>,
}

impl Controller {
    fn new(key: NodeKey) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let as_of = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64;
        let truth = Truth { kill_wait_s: KILL_WAIT_S, as_of, ..Truth::default() };
        let mut made =
            Self { runtime, address: ([127, 0, 0, 1], 0).into(), key, truth: Arc::new(Mutex::new(truth)), stop: None };
        made.up();
        made
    }

    fn truth(&self) -> MutexGuard<'_, Truth> {
        self.truth.lock().unwrap()
    }

    /// Serves, on the same port as before.
    pub fn up(&mut self) {
        let address = self.address;
        let listener = self.runtime.block_on(async {
            let end = Instant::now() + Duration::from_secs(10);
            loop {
                match tokio::net::TcpListener::bind(address).await {
                    Ok(listener) => return listener,
                    Err(error) => assert!(Instant::now() < end, "{error}"),
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        self.address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        self.stop = Some(stop);
        let service = Service { truth: self.truth.clone(), key: self.key.clone() };
        self.runtime.spawn(async move {
            let server = tonic::transport::Server::builder()
                .add_service(node_link_server::NodeLinkServer::new(service))
                .serve_with_incoming(TcpListenerStream::new(listener));
            tokio::select! { _ = server => {}, _ = stopped => {} }
        });
    }

    /// Goes away, with its streams.
    pub fn down(&mut self) {
        drop(self.stop.take());
        self.truth().out = None;
    }

    pub fn change(&self, change: impl FnOnce(&mut BTreeMap<JobId, Wanted>)) {
        let mut truth = self.truth();
        change(&mut truth.jobs);
        truth.sync();
    }

    pub fn want(&self, wanted: Wanted) {
        self.change(|jobs| drop(jobs.insert(wanted.job.job, wanted)));
    }

    pub fn change_job(&self, job: u32, change: impl FnOnce(&mut DesiredJob)) {
        self.change(|jobs| change(&mut jobs.get_mut(&JobId(job)).expect("still wanted").job));
    }

    pub fn cancel(&self, job: u32) {
        let order = EndOrder { cause: EndCause::Cancelled { uid: 0 }, since: TimeMs(0) };
        self.change_job(job, |job| job.end = Some(order));
    }

    pub fn signal(&self, job: u32, order: SignalOrder) {
        self.change_job(job, |job| job.signals.push(order));
    }

    pub fn set_kill_wait(&self, seconds: u64) {
        self.truth().kill_wait_s = seconds;
    }

    pub fn set_repeat(&self) {
        self.truth().repeat = true;
    }

    /// The last document again.
    pub fn sync(&self) {
        self.truth().sync();
    }

    pub fn inventory(&self) -> Option<Inventory> {
        self.truth().inventory.clone()
    }

    pub fn health(&self) -> usize {
        self.truth().health
    }

    pub fn sessions(&self) -> usize {
        self.truth().sessions
    }

    /// Messages with reports so far.
    pub fn messages(&self) -> usize {
        self.truth().messages
    }

    pub fn wanted(&self) -> usize {
        self.truth().jobs.len()
    }

    pub fn reports(&self, job: u32, attempt: u32) -> Vec<JobEvent> {
        let truth = self.truth();
        let of = truth.reports.iter().filter(|report| report.job.0 == job && report.attempt.0 == attempt);
        of.map(|report| report.event.clone()).collect()
    }

    pub fn launched(&self, job: u32) {
        until(&format!("job {job} launched"), || {
            self.reports(job, 1).iter().any(|event| matches!(event, JobEvent::Launched { .. }))
        });
    }

    pub fn ended(&self, job: u32) -> Ended {
        self.ended_attempt(job, 1)
    }

    pub fn ended_attempt(&self, job: u32, attempt: u32) -> Ended {
        let mut ended = None;
        until(&format!("job {job}.{attempt} ended"), || {
            ended = self.reports(job, attempt).into_iter().find_map(|event| match event {
                JobEvent::Ended(ended) => Some(ended),
                JobEvent::Launched { .. } | JobEvent::StepEnded(_) => None,
            });
            ended.is_some()
        });
        ended.unwrap()
    }
}

struct Service {
    truth: Arc<Mutex<Truth>>,
    key: NodeKey,
}

#[tonic::async_trait]
impl node_link_server::NodeLink for Service {
    type AttachStream = Pin<Box<dyn Stream<Item = Result<ToNode, Status>> + Send>>;

    async fn attach(&self, request: Request<Streaming<FromNode>>) -> Result<Response<Self::AttachStream>, Status> {
        let (out, messages) = mpsc::channel(1024);
        let (truth, key) = (self.truth.clone(), self.key.clone());
        let mut from_node = request.into_inner();
        tokio::spawn(async move {
            let nonce = vec![7; 32];
            let send = |message| ToNode { message: Some(message) };
            let challenge = pb::Challenge { nonce: nonce.clone(), wire_version: gpun_proto::WIRE_VERSION };
            out.send(Ok(send(to_node::Message::Challenge(challenge)))).await.unwrap();
            let Some(Ok(FromNode { message: Some(from_node::Message::Hello(hello)) })) = from_node.next().await else {
                return;
            };
            if !key.accepts(&nonce, &hello.name, &hello.mac) {
                let _ = out.send(Err(Status::unauthenticated("wrong key"))).await;
                return;
            }
            let welcome = pb::Welcome { node_id: 1, cluster_name: "test".into(), beat_ms: 200 };
            out.send(Ok(send(to_node::Message::Welcome(welcome)))).await.unwrap();
            {
                let mut truth = truth.lock().unwrap();
                truth.inventory = gpun_proto::decode(&hello.inventory).ok();
                truth.out = Some(out);
                truth.carried.clear();
                truth.sessions += 1;
                truth.sync();
            }
            while let Some(Ok(message)) = from_node.next().await {
                let mut truth = truth.lock().unwrap();
                match message.message {
                    Some(from_node::Message::Reports(reports)) => truth.take(reports),
                    Some(from_node::Message::Health(_)) => truth.health += 1,
                    _ => {}
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(messages))))
    }
}

/// A cluster's folder, its controller and its node.
pub struct Cluster {
    pub root: tempfile::TempDir,
    pub controller: Controller,
    daemon: Option<Child>,
    pub arguments: Vec<String>,
}

impl Cluster {
    /// With a running node.
    pub fn new() -> Self {
        let mut made = Self::without_node();
        made.start();
        made
    }

    pub fn without_node() -> Self {
        assert!(nix::unistd::geteuid().is_root(), "these tests make containers and need root");
        let root = tempfile::Builder::new().prefix("gpun-cluster").tempdir_in("/var/tmp").unwrap();
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let key = NodeKey::new([3; 32]);
        fs::write(root.path().join("node.key"), key.to_text()).unwrap();
        let arguments = ["--cpus", "8", "--mem", "4000"].map(str::to_owned).to_vec();
        Self { root, controller: Controller::new(key), daemon: None, arguments }
    }

    pub fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpund"));
        command.arg("--dir").arg(self.root.path()).args(["--node", "n1", "--controller"]);
        command.arg(self.controller.address.to_string()).args(&self.arguments);
        command
    }

    /// Starts gpund.
    pub fn start(&mut self) {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.log()).unwrap();
        let mut command = self.command();
        command.env("GPUN_LOG", "debug,h2=info,hyper=info,tower=info").stdin(Stdio::null()).stderr(log);
        self.daemon = Some(command.spawn().unwrap());
    }

    fn log(&self) -> PathBuf {
        self.root.path().join("gpund.log")
    }

    /// Ends gpund by a signal and waits for it.
    pub fn stop(&mut self, signal: Signal) {
        let mut daemon = self.daemon.take().expect("it runs");
        kill(Pid::from_raw(daemon.id() as i32), signal).unwrap();
        daemon.wait().unwrap();
    }

    pub fn kill_and_start(&mut self) {
        self.stop(Signal::SIGKILL);
        self.start();
    }

    pub fn node_dir(&self) -> PathBuf {
        self.root.path().join("nodes/n1")
    }

    pub fn job_dir(&self, job: u32, attempt: u32) -> PathBuf {
        self.node_dir().join(format!("jobs/{job}.{attempt}"))
    }

    /// The user's folder, also the job's working folder.
    pub fn work(&self) -> PathBuf {
        let work = self.root.path().join("work");
        fs::create_dir_all(&work).unwrap();
        chown(&work, Some(UID), Some(UID)).unwrap();
        work
    }

    pub fn out(&self, job: u32) -> String {
        fs::read_to_string(self.work().join(format!("{job}.out"))).unwrap_or_default()
    }

    /// A job with its first attempt.
    pub fn job(&self, id: u32, script: &str) -> Wanted {
        self.attempt(id, 1, script)
    }

    pub fn attempt(&self, id: u32, attempt: u32, script: &str) -> Wanted {
        let work = self.work().to_str().unwrap().to_owned();
        let job = DesiredJob {
            job: JobId(id),
            attempt: Attempt(attempt),
            time_limit: TimeLimit::Infinite,
            end: None,
            signals: Vec::new(),
            suspended: false,
            steps: Vec::new(),
        };
        let user =
            pb::User { uid: UID, gid: UID, groups: vec![UID], name: "alice".into(), home: work.clone().into_bytes() };
        let line = |why: &str| format!("*** JOB {id} CANCELLED AT {{time}}{why} ***");
        let launch = pb::Launch {
            job_id: id,
            attempt,
            user: Some(user),
            work_dir: work.clone().into_bytes(),
            environment: vec![b"PATH=/usr/bin:/bin".to_vec()],
            std_in: b"/dev/null".to_vec(),
            std_out: format!("{work}/{id}.out").into_bytes(),
            umask: 0o022,
            limits: Some(pb::Limits { cpus: 1, cpu_list: "0".into(), memory_mib: 500, devices: vec![] }),
            script: script.as_bytes().to_vec(),
            notices: Some(pb::Notices {
                cancelled: line(""),
                time_limit: line(" DUE TO TIME LIMIT"),
                out_of_memory: "out of memory".into(),
                requeued: line(" DUE TO JOB REQUEUE"),
            }),
            ..pb::Launch::default()
        };
        Wanted { job, launch }
    }

    fn site(&self) -> Site {
        Site {
            node_name: "n1".into(),
            cluster_dir: fs::canonicalize(self.root.path()).unwrap(),
            node_dir: self.node_dir(),
            runc: PathBuf::new(),
            init: PathBuf::new(),
            writable: Vec::new(),
            pids_max: 0,
            cpus_stated: true,
        }
    }

    /// Processes with that path among their arguments.
    pub fn processes(&self, path: &Path) -> Vec<i32> {
        let names = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let pids = names.filter_map(|name| name.parse::<i32>().ok());
        let has = |pid: &i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).any(|part| part == path.as_os_str().as_encoded_bytes())
        };
        pids.filter(has).collect()
    }

    /// Waits until nothing of any attempt is left: folder, supervisor, control group, mount.
    pub fn until_empty(&self) {
        let jobs = self.node_dir().join("jobs");
        until("the folder of jobs is empty", || fs::read_dir(&jobs).is_ok_and(|mut left| left.next().is_none()));
        let places = NodePlaces { cgroup_parent: self.site().cgroup_parent(), runc_root: self.site().runc_root() };
        assert_eq!(recover::sweep(&Linux, &places, &BTreeSet::new()).unwrap(), Vec::<String>::new());
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(self.root.path().to_str().unwrap()), "a mount is left: {mounts}");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = fs::read_to_string(self.log()).unwrap_or_default();
            let tail: Vec<&str> = log.lines().rev().take(60).collect();
            println!("{}", tail.into_iter().rev().collect::<Vec<_>>().join("\n"));
        }
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        let places = NodePlaces { cgroup_parent: self.site().cgroup_parent(), runc_root: self.site().runc_root() };
        let _ = recover::sweep(&Linux, &places, &BTreeSet::new());
        let _ = recover::remove_node_cgroup(&Linux, &places.cgroup_parent);
    }
}

/// Waits for a state, not for a time.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < end, "still not: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
