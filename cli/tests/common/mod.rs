//! A controller for tests: the real state machine behind the real wire, without a log, a planner and nodes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, dead_code)]

use std::{
    io::Write,
    os::unix::net::UnixListener as StdListener,
    path::{Path, PathBuf},
    pin::Pin,
    process::{Command as Process, Output, Stdio},
    sync::{Arc, Mutex},
    thread::JoinHandle,
};

use gpun_proto::{
    core::{
        Command, Digest, Entry, IndexSet, JobId, MemoryMib, Outcome, RequestId, State, TimeLimit, TimeMs,
        accounting::book::BookView,
        command::{Act, Blob, ENTRY_VERSION, Identity, JobRef, Placement, Submit},
        job::{ArrayRole, Job, NodeAlloc, Owner, Reason},
        mirror::{MirrorSink, Table},
        node::Inventory,
        partition::Partition,
        settings::Settings,
        spec::JobSpec,
        view::{Cause, ClusterView, JobView, NodeView, PartitionView, WhyView},
    },
    decode, encode,
    pb::{
        self,
        controller_server::{Controller, ControllerServer},
        submit_reply,
    },
};
use tokio::{net::UnixListener, sync::oneshot};
use tokio_stream::{Stream, wrappers::UnixListenerStream};
use tonic::{Request, Response, Status};

/// 2026-12-01T04:00:00Z, the time in every test.
pub const NOW: TimeMs = TimeMs(1_796_097_600_000);
pub const UID: u32 = 7001;

struct NoMirror;

impl MirrorSink for NoMirror {
    fn put(&mut self, _: Table, _: &[u8], _: Vec<u8>) {}
    fn delete(&mut self, _: Table, _: &[u8]) {}
}

/// What the controller was sent and holds.
#[derive(Default)]
pub struct Held {
    pub state: State,
    pub requests: Vec<pb::SubmitRequest>,
    pub acts: Vec<Act>,
    scripts: Vec<(Digest, Vec<u8>)>,
}

impl Held {
    pub fn apply(&mut self, command: Command) -> Outcome {
        let entry = Entry { version: ENTRY_VERSION, stamp: NOW, commands: vec![command] };
        self.state.apply(entry, &mut NoMirror).pop().unwrap()
    }

    fn submit(&mut self, request: &pb::SubmitRequest) -> Outcome {
        let spec: JobSpec = decode(&request.spec).unwrap();
        let digest = |bytes: &[u8], tag: u8| {
            let mut digest = [tag; 32];
            bytes.iter().enumerate().for_each(|(at, byte)| digest[at % 31] = digest[at % 31].wrapping_mul(31) ^ byte);
            Digest(digest)
        };
        let (script, environment) = (digest(&request.script, 1), digest(&request.environment, 2));
        self.scripts.push((script, request.script.clone()));
        let blob = |digest, bytes: &[u8]| Blob { digest, bytes: bytes.to_vec() };
        let submit = Submit {
            request: RequestId(request.request_id.clone().try_into().unwrap()),
            owner: alice(),
            spec,
            script,
            environment,
            blobs: vec![blob(script, &request.script), blob(environment, &request.environment)],
            components: request.components.iter().map(|spec| decode(spec).expect("spec")).collect(),
        };
        self.requests.push(request.clone());
        self.apply(Command::Submit(Box::new(submit)))
    }

    /// Starts a job on its first node.
    pub fn place(&mut self, job: u32, task: Option<u32>) {
        let record = self.state.job(JobId(job)).unwrap();
        let node = self.state.nodes().next().unwrap();
        let debug = self.state.partition("debug").unwrap();
        let alloc = NodeAlloc {
            node: node.id,
            cpus: [node.taken.cpus.len() as u32].into_iter().collect(),
            memory: self.state.memory_on(record, debug, node, 1, 0),
            tasks: 1,
            gres: vec![],
        };
        let placement = Placement {
            job: JobId(job),
            task,
            seen_attempt: record.attempt,
            partition: "debug".to_owned(),
            allocs: vec![alloc],
        };
        let outcome = self.apply(Command::Place(placement));
        assert!(matches!(outcome, Outcome::Done { .. }), "{outcome:?}");
    }

    fn job_view(&self, job: &gpun_proto::core::Shared<Job>) -> JobView {
        let name = |alloc: &NodeAlloc| self.state.node(alloc.node).unwrap().name.clone();
        let partitions = self.state.partitions_of(job).map(|partition| partition.name.clone()).collect();
        JobView {
            job: job.clone(),
            nodes: job.run.iter().flat_map(|run| &run.allocs).map(name).collect(),
            reason: if job.reason == Reason::None && job.run.is_none() { Reason::Priority } else { job.reason },
            start_estimate: None,
            planned_nodes: vec![],
            partitions,
            last_evaluated: Some(NOW),
            memory_per_node: MemoryMib(200),
        }
    }

    fn meant(&self, wanted: &JobRef, job: &Job) -> bool {
        let tasks = wanted.tasks.as_ref().is_none_or(|tasks| match &job.array {
            Some(ArrayRole::Task { task, .. }) => tasks.contains(*task),
            Some(ArrayRole::Waiting { tasks: waiting }) => !tasks.is_disjoint(waiting),
            None => false,
        });
        (job.id == wanted.job || job.array_id() == Some(wanted.job)) && tasks
    }

    fn list(&self, request: &pb::ListJobsRequest) -> pb::ListJobsReply {
        let refs: Vec<JobRef> = request.jobs.iter().map(|job| decode(job).unwrap()).collect();
        let number = |job: &Job| u32::from(encode(&job.state)[0]);
        let state = |job: &Job| match (request.all_states, request.states.is_empty() && !request.completing) {
            (true, _) => true,
            (false, true) => !job.is_over(),
            (false, false) => request.states.contains(&number(job)) || (request.completing && job.is_completing()),
        };
        let user = |job: &Job| {
            (request.users.is_empty() && !request.mine)
                || (request.mine && job.owner.uid == UID)
                || request.users.contains(&job.owner.user)
        };
        let chosen = self.state.jobs().filter(|job| {
            (refs.is_empty() || refs.iter().any(|wanted| self.meant(wanted, job)))
                && state(job)
                && user(job)
                && (request.names.is_empty() || request.names.contains(&job.spec.name))
                && (request.nodes.is_empty()
                    || self.job_view(job).nodes.iter().any(|node| request.nodes.contains(node)))
        });
        pb::ListJobsReply {
            jobs: chosen.map(|job| encode(&self.job_view(job))).collect(),
            now_ms: NOW.0,
            unknown_users: request.users.iter().filter(|user| *user != "alice").cloned().collect(),
        }
    }
}

pub fn alice() -> Owner {
    Owner {
        uid: UID,
        gid: UID,
        groups: vec![],
        user: "alice".to_owned(),
        group: "alice".to_owned(),
        home: "/home/alice".to_owned(),
    }
}

#[derive(Clone)]
struct Service(Arc<Mutex<Held>>);

type Answer<T> = Result<Response<T>, Status>;
type Records = Pin<Box<dyn Stream<Item = Result<pb::ListRecordsReply, Status>> + Send>>;
type Jobs = Pin<Box<dyn Stream<Item = Result<pb::ListJobsReply, Status>> + Send>>;

#[tonic::async_trait]
impl Controller for Service {
    async fn submit(&self, request: Request<pb::SubmitRequest>) -> Answer<pb::SubmitReply> {
        let mut held = self.0.lock().unwrap();
        let result = match held.submit(request.get_ref()) {
            Outcome::Submitted { job } => submit_reply::Result::JobId(job.0),
            Outcome::Refused(refusal) => submit_reply::Result::Refusal(encode(&refusal)),
            other => panic!("{other:?}"),
        };
        Ok(Response::new(pb::SubmitReply { result: Some(result) }))
    }

    async fn act(&self, request: Request<pb::ActRequest>) -> Answer<pb::ActReply> {
        let mut held = self.0.lock().unwrap();
        let act: Act = decode(&request.get_ref().act).unwrap();
        held.acts.push(act.clone());
        let outcome = held.apply(Command::Act { who: Identity { uid: UID, gid: UID }, act });
        Ok(Response::new(pb::ActReply { outcome: encode(&outcome) }))
    }

    type ListRecordsStream = Records;

    async fn list_records(&self, _: Request<pb::ListRecordsRequest>) -> Answer<Records> {
        Err(Status::unimplemented("the history is not here"))
    }

    type ListJobsStream = Jobs;

    async fn list_jobs(&self, request: Request<pb::ListJobsRequest>) -> Answer<Jobs> {
        let reply = self.0.lock().unwrap().list(request.get_ref());
        Ok(Response::new(Box::pin(tokio_stream::iter([Ok(reply)]))))
    }

    async fn list_nodes(&self, request: Request<pb::ListNodesRequest>) -> Answer<pb::ListNodesReply> {
        let held = self.0.lock().unwrap();
        let names = &request.get_ref().names;
        let wanted = held.state.nodes().filter(|node| names.is_empty() || names.contains(&node.name));
        let view = |node: &gpun_proto::core::Shared<gpun_proto::core::node::Node>| NodeView {
            node: (**node).clone(),
            cpus_taken: node.taken.cpus.len() as u32,
            memory_taken: node.taken.memory,
            gres_taken: vec![],
            jobs: node.taken.jobs.len() as u32,
            completing: 0,
            partitions: held.state.partitions().filter(|p| p.has_node(&node.name)).map(|p| p.name.clone()).collect(),
            last_contact: Some(NOW),
            load_hundredths: Some(5),
            memory_unused: Some(MemoryMib(1000)),
            cpu_numbers_taken: IndexSet::new(),
            planned: false,
            reservation: None,
            maint: false,
        };
        let nodes = wanted.map(|node| encode(&view(node))).collect();
        Ok(Response::new(pb::ListNodesReply { nodes, now_ms: NOW.0 }))
    }

    async fn list_partitions(&self, request: Request<pb::ListPartitionsRequest>) -> Answer<pb::ListPartitionsReply> {
        let held = self.0.lock().unwrap();
        let names = &request.get_ref().names;
        let wanted = held.state.partitions().filter(|one| names.is_empty() || names.contains(&one.name));
        let view = |partition: &gpun_proto::core::Shared<Partition>| {
            let nodes: Vec<_> = held.state.nodes_of(partition).collect();
            PartitionView {
                partition: (**partition).clone(),
                cpus: nodes.iter().map(|node| u64::from(node.inventory.cpus)).sum(),
                memory: MemoryMib(nodes.iter().map(|node| node.inventory.memory.0).sum()),
                nodes: nodes.iter().map(|node| node.name.clone()).collect(),
            }
        };
        let partitions = wanted.map(|partition| encode(&view(partition))).collect();
        Ok(Response::new(pb::ListPartitionsReply { partitions }))
    }

    async fn list_reservations(
        &self,
        _: Request<pb::ListReservationsRequest>,
    ) -> Result<Response<pb::ListReservationsReply>, Status> {
        Ok(Response::new(pb::ListReservationsReply::default()))
    }

    async fn show_cluster(&self, _: Request<pb::ShowClusterRequest>) -> Answer<pb::ShowClusterReply> {
        let held = self.0.lock().unwrap();
        let cluster = ClusterView {
            settings: held.state.settings().clone(),
            version: "0.1.0".to_owned(),
            host: "vm".to_owned(),
            started: TimeMs(NOW.0 - 60_000),
            next_job: held.state.next_job().0,
            now: NOW,
            more: vec![],
            licenses: Vec::new(),
        };
        Ok(Response::new(pb::ShowClusterReply { cluster: encode(&cluster) }))
    }

    async fn show_accounting(&self, _: Request<pb::ShowAccountingRequest>) -> Answer<pb::ShowAccountingReply> {
        let held = self.0.lock().unwrap();
        let book = held.state.book().view(&held.state.settings().cluster_name);
        let book = BookView { caller: "alice".to_owned(), ..book };
        Ok(Response::new(pb::ShowAccountingReply { book: encode(&book) }))
    }

    async fn why(&self, request: Request<pb::WhyRequest>) -> Answer<pb::WhyReply> {
        let held = self.0.lock().unwrap();
        let wanted: JobRef = decode(&request.get_ref().job).unwrap();
        let meant = held.state.jobs().filter(|job| held.meant(&wanted, job));
        let why = |job| WhyView { job: held.job_view(job), causes: vec![Cause::Behind { job: JobId(1) }], ahead: 1 };
        Ok(Response::new(pb::WhyReply { answers: meant.map(|job| encode(&why(job))).collect() }))
    }

    async fn show_script(&self, request: Request<pb::ShowScriptRequest>) -> Answer<pb::ShowScriptReply> {
        let held = self.0.lock().unwrap();
        let job = held.state.job(JobId(request.get_ref().job_id)).ok_or_else(|| Status::not_found("no job"))?;
        let script = held.scripts.iter().find(|(digest, _)| *digest == job.script).unwrap().1.clone();
        Ok(Response::new(pb::ShowScriptReply { script }))
    }

    async fn create_step(&self, _: Request<pb::CreateStepRequest>) -> Answer<pb::CreateStepReply> {
        Err(Status::unimplemented("this controller runs no steps"))
    }

    async fn show_members(&self, _: Request<pb::ShowMembersRequest>) -> Answer<pb::ShowMembersReply> {
        let member = pb::Member {
            id: 1,
            address: "127.0.0.1:7".to_owned(),
            leader: true,
            term: 3,
            last_log_index: 12,
            applied_index: 10,
            pid: 99,
        };
        Ok(Response::new(pb::ShowMembersReply { members: vec![member] }))
    }
}

/// A cluster folder with a controller behind its socket, and links to the program.
pub struct Fake {
    pub dir: tempfile::TempDir,
    pub held: Arc<Mutex<Held>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Fake {
    /// Two nodes, three partitions, job numbers from 17.
    pub fn start() -> Self {
        let mut fake = Self::silent();
        fake.listen();
        fake
    }

    /// The folder alone: nobody listens yet.
    pub fn silent() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut held = Held::default();
        let settings = Settings {
            cluster_name: "ref".to_owned(),
            first_job_id: 17,
            max_array_size: 1001,
            def_mem_per_cpu: Some(MemoryMib(200)),
            ..Settings::default()
        };
        let debug = Partition { max_time: TimeLimit::Seconds(3600), ..Partition::all_nodes("debug") };
        let plain = |name: &str| Partition { is_default: false, ..Partition::all_nodes(name) };
        let partitions = vec![debug, plain("long"), Partition { root_only: true, ..plain("rootonly") }];
        held.apply(Command::Configure { settings: Box::new(settings), partitions });
        for name in ["n1", "n2"] {
            let inventory = Inventory {
                cpus: 8,
                boards: 1,
                sockets: 2,
                cores_per_socket: 4,
                threads_per_core: 1,
                memory: MemoryMib(16_000),
                weight: 1,
                ..Inventory::default()
            };
            held.apply(Command::RegisterNode { name: name.to_owned(), inventory });
        }
        let program = env!("CARGO_BIN_EXE_gpun");
        let made = Process::new(program).arg("install-links").arg(dir.path().join("bin")).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        Self { dir, held: Arc::new(Mutex::new(held)), stop: None, thread: None }
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("ctl.sock")
    }

    pub fn listen(&mut self) {
        let _ = std::fs::remove_file(self.socket());
        let listener = StdListener::bind(self.socket()).unwrap();
        listener.set_nonblocking(true).unwrap();
        let service = Service(self.held.clone());
        let (stop, stopped) = oneshot::channel();
        self.stop = Some(stop);
        self.thread = Some(std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let incoming = UnixListenerStream::new(UnixListener::from_std(listener).unwrap());
                let service = ControllerServer::new(service).max_decoding_message_size(gpun_proto::MESSAGE_MAX_BYTES);
                let serving = tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming);
                tokio::select! { served = serving => served.unwrap(), _ = stopped => {} }
            });
        }));
    }

    /// A Slurm command or `gpun`, in a folder below the cluster's.
    pub fn command(&self, line: &[&str]) -> Process {
        let (name, args) = line.split_first().unwrap();
        let program = match *name {
            "gpun" => PathBuf::from(env!("CARGO_BIN_EXE_gpun")),
            name => self.dir.path().join("bin").join(name),
        };
        let work = self.work();
        std::fs::create_dir_all(&work).unwrap();
        let mut command = Process::new(program);
        command.args(args).current_dir(work).env_clear().env("PATH", "/usr/bin:/bin").env("TZ", "UTC");
        command.env("GPUN_DIR", self.dir.path()).stdin(Stdio::null());
        command
    }

    pub fn work(&self) -> PathBuf {
        self.dir.path().join("w")
    }

    pub fn run(&self, line: &[&str]) -> Ran {
        Ran::from(self.command(line).output().unwrap())
    }

    pub fn run_with_input(&self, line: &[&str], input: &[u8]) -> Ran {
        let mut command = self.command(line);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        Ran::from(child.wait_with_output().unwrap())
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        std::fs::create_dir_all(self.work()).unwrap();
        let path = self.work().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub fn job(&self, id: u32) -> Job {
        let held = self.held.lock().unwrap();
        (**held.state.job(JobId(id)).unwrap_or_else(|| panic!("no job {id}"))).clone()
    }

    pub fn last_environment(&self) -> Vec<String> {
        let held = self.held.lock().unwrap();
        let bytes = &held.requests.last().unwrap().environment;
        let mut list: Vec<String> = bytes
            .split(|b| *b == 0)
            .filter(|v| !v.is_empty())
            .map(|v| String::from_utf8_lossy(v).into_owned())
            .collect();
        list.sort();
        list
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.thread.take().map(JoinHandle::join);
    }
}

/// What a command left.
#[derive(Debug, PartialEq, Eq)]
pub struct Ran {
    pub status: i32,
    pub out: String,
    pub err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            status: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

pub fn ran(status: i32, out: &str, err: &str) -> Ran {
    Ran { status, out: out.to_owned(), err: err.to_owned() }
}

pub fn exists(path: &Path) -> bool {
    path.exists()
}
