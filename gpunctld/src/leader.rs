//! The controller's loop: every event comes here, one at a time, and what it decides goes out as proposals and documents.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use gpun_core::{
    Attempt, Command, JobId, NodeId, State,
    command::JobReport,
    desired::{Desired, desired},
    node::Node,
};
use gpun_proto::{
    decode, encode,
    pb::{self, to_node},
};
use gpun_raft_store::Store;
use gpun_sched::{Plan, PlanLimits};
use tokio::sync::mpsc;

use crate::{
    app::App,
    event::{Event, SessionId},
    launch::launch,
    propose::{Proposer, clock_now},
    read::{Health, Soft},
};

/// Events that wait at most; senders wait beyond that.
pub const EVENTS_MAX: usize = 4096;
/// Changes within this time are planned together.
const COALESCE: Duration = Duration::from_millis(2);
/// After a plan that took t, the next begins no sooner than t times this: planning leaves the machine to others.
const PLAN_REST: u32 = 2;
/// Between tries to record a node's reports while the log takes nothing.
const REPORT_RETRY: Duration = Duration::from_secs(1);

/// The loop's state.
pub struct Leader {
    store: Store<App>,
    proposer: Proposer,
    soft: Arc<Soft>,
    events: mpsc::Sender<Event>,
    cluster_dir: String,
    sessions: BTreeMap<NodeId, Session>,
    /// Nodes as of the last dispatch: one that is unchanged needs no new document.
    seen: BTreeMap<NodeId, gpun_core::Shared<Node>>,
    planner: Planner,
    started: Instant,
}

/// A node's stream.
struct Session {
    id: SessionId,
    to_node: mpsc::Sender<pb::ToNode>,
    /// What was sent last.
    sent: Option<Desired>,
    /// Launches that went over this stream.
    carried: BTreeSet<(JobId, Attempt)>,
    heard: Instant,
}

/// Whether and when to plan.
struct Planner {
    running: bool,
    wanted: bool,
    not_before: Instant,
}

impl Leader {
    /// A loop for this store; `events` is where its own tasks report.
    pub fn new(
        store: Store<App>,
        proposer: Proposer,
        soft: Arc<Soft>,
        events: mpsc::Sender<Event>,
        cluster_dir: String,
    ) -> Self {
        let now = Instant::now();
        Self {
            store,
            proposer,
            soft,
            events,
            cluster_dir,
            sessions: BTreeMap::new(),
            seen: BTreeMap::new(),
            planner: Planner { running: false, wanted: true, not_before: now },
            started: now,
        }
    }

    /// Runs until all senders of events are gone.
    pub async fn run(mut self, mut events: mpsc::Receiver<Event>) {
        loop {
            let plan_due = self.planner.wanted && !self.planner.running;
            let event = tokio::select! {
                event = events.recv() => event,
                () = tokio::time::sleep_until(self.planner.not_before.into()), if plan_due => {
                    self.start_plan();
                    continue;
                }
            };
            match event {
                Some(event) => self.on(event),
                None => return,
            }
        }
    }

    fn on(&mut self, event: Event) {
        match event {
            Event::Applied => {
                self.want_plan();
                self.dispatch_all();
            }
            Event::Planned(plan) => self.on_planned(plan),
            Event::PlannerDied(error) => {
                tracing::error!(error, "the planner stopped; it is started again");
                self.planner.running = false;
                self.planner.not_before = Instant::now() + Duration::from_secs(1);
                self.planner.wanted = true;
            }
            Event::Attached { session, node, to_node } => self.on_attached(session, node, to_node),
            Event::Reports { session, node, reports } => self.on_reports(session, node, reports),
            Event::Health { node, health } => self.on_health(node, health),
            Event::Detached { session, node } => {
                if self.sessions.get(&node).is_some_and(|have| have.id == session) {
                    self.sessions.remove(&node);
                    tracing::info!(node = node.0, "node detached");
                }
            }
            Event::Second => self.on_second(),
        }
    }

    fn view(&self) -> State {
        self.store.view().view.clone()
    }

    // Planning

    fn want_plan(&mut self) {
        if !self.planner.wanted {
            self.planner.wanted = true;
            self.planner.not_before = self.planner.not_before.max(Instant::now() + COALESCE);
        }
    }

    /// Plans on a view, off this thread, and proposes what came out.
    fn start_plan(&mut self) {
        self.planner.wanted = false;
        let view = self.view();
        if view.queue_len() == 0 {
            self.soft.plan.store(Arc::default());
            return;
        }
        self.planner.running = true;
        let (proposer, events) = (self.proposer.clone(), self.events.clone());
        tokio::spawn(async move {
            let made =
                tokio::task::spawn_blocking(move || gpun_sched::plan(&view, clock_now(), &PlanLimits::default()));
            let event = match made.await {
                Ok(mut plan) => {
                    let together = std::mem::take(&mut plan.together).into_iter().map(Command::PlaceTogether);
                    let alone = std::mem::take(&mut plan.placements).into_iter().map(Command::Place);
                    place(&proposer, alone.chain(together).collect()).await;
                    Event::Planned(plan)
                }
                Err(error) => Event::PlannerDied(error.to_string()),
            };
            let _ = events.send(event).await;
        });
        self.planner.not_before = Instant::now();
    }

    fn on_planned(&mut self, plan: Plan) {
        let took = self.planner.not_before.elapsed();
        self.planner.running = false;
        self.planner.not_before = Instant::now() + took.min(Duration::from_secs(1)) * PLAN_REST / 2;
        if plan.unfinished {
            self.planner.wanted = true;
        }
        self.soft.plan.store(Arc::new(plan));
    }

    // Nodes

    fn on_attached(&mut self, id: SessionId, node: NodeId, to_node: mpsc::Sender<pb::ToNode>) {
        if self.sessions.get(&node).is_some_and(|have| have.id > id) {
            return;
        }
        let session = Session { id, to_node, sent: None, carried: BTreeSet::new(), heard: Instant::now() };
        self.sessions.insert(node, session);
        self.heard(node, None);
        self.dispatch(&self.view(), node);
    }

    /// Proposes what a node reports, and tells it once that is in the log.
    fn on_reports(&mut self, session: SessionId, node: NodeId, reports: pb::Reports) {
        self.heard(node, None);
        let Some(session) = self.sessions.get(&node).filter(|have| have.id == session) else { return };
        let decoded: Result<Vec<JobReport>, _> = reports.reports.iter().map(|report| decode(report)).collect();
        let decoded = match decoded {
            Ok(decoded) => decoded,
            Err(error) => {
                tracing::error!(node = node.0, %error, "a node's reports can't be read: is it of the same version?");
                return;
            }
        };
        let (to_node, proposer) = (session.to_node.clone(), self.proposer.clone());
        tokio::spawn(async move {
            let command = Command::Report { node, reports: decoded };
            while let Err(error) = proposer.propose(command.clone()).await {
                tracing::warn!(node = node.0, %error, "a node's reports are not recorded yet");
                tokio::time::sleep(REPORT_RETRY).await;
                if to_node.is_closed() {
                    return; // The node keeps them and sends them again.
                }
            }
            let taken = pb::ToNode { message: Some(to_node::Message::ReportsTaken(reports.number)) };
            let _ = to_node.send(taken).await;
        });
    }

    fn on_health(&mut self, node: NodeId, health: pb::Health) {
        self.heard(node, Some(health));
    }

    fn heard(&mut self, node: NodeId, health: Option<pb::Health>) {
        if let Some(session) = self.sessions.get_mut(&node) {
            session.heard = Instant::now();
        }
        if let Ok(mut known) = self.soft.health.lock() {
            let entry: &mut Health = known.entry(node).or_default();
            entry.last_contact = clock_now();
            if let Some(health) = health {
                entry.load_hundredths = Some(health.load_hundredths);
                entry.memory_unused = Some(gpun_core::MemoryMib(health.memory_unused_mib));
            }
        }
    }

    /// Sends new documents to the nodes on which something changed.
    fn dispatch_all(&mut self) {
        let view = self.view();
        let nodes: Vec<NodeId> = self.sessions.keys().copied().collect();
        for id in nodes {
            let Some(node) = view.node(id) else { continue };
            if self.seen.get(&id).is_none_or(|seen| !seen.is_same(node)) {
                self.seen.insert(id, node.clone());
                self.dispatch(&view, id);
            }
        }
    }

    /// Sends a node its document, with the launches that its stream has not carried, if it differs from what was sent last.
    fn dispatch(&mut self, view: &State, id: NodeId) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let document = desired(view, id);
        let same = |sent: &Desired| sent.jobs == document.jobs && sent.kill_wait_s == document.kill_wait_s;
        if session.sent.as_ref().is_some_and(same) {
            return;
        }
        let mirror = self.store.mirror();
        let mut launches = Vec::new();
        for wanted in &document.jobs {
            let launched =
                view.job(wanted.job).and_then(|job| job.run.as_ref()).is_some_and(|run| run.launched.is_some());
            let key = (wanted.job, wanted.attempt);
            if launched || wanted.end.is_some() || session.carried.contains(&key) {
                continue;
            }
            match launch(view, wanted.job, &*mirror, &self.cluster_dir) {
                Ok(launch) => {
                    launches.push(launch);
                    session.carried.insert(key);
                }
                Err(error) => {
                    tracing::error!(job = wanted.job.0, error = %chain(&error), "a job can't be sent to its node")
                }
            }
        }
        session.carried.retain(|(job, attempt)| {
            view.job(*job).is_some_and(|job| job.attempt == *attempt && job.holds_resources())
        });
        let sync = pb::Sync { desired: encode(&document), launches };
        let message = pb::ToNode { message: Some(to_node::Message::Sync(sync)) };
        if session.to_node.try_send(message).is_err() {
            // It takes nothing: the stream is dropped, and the node dials again when it can.
            tracing::warn!(node = id.0, "a node does not read its stream; it has to dial again");
            self.sessions.remove(&id);
            return;
        }
        session.sent = Some(document);
    }

    // Time

    fn on_second(&mut self) {
        let view = self.view();
        let now = clock_now();
        if view.next_due().is_some_and(|due| due <= now) {
            self.propose(Command::Tick);
        }
        let silent = Duration::from_secs(view.settings().node_down_s);
        for node in view.nodes_to_hear() {
            // A new leader gives every node a full period first.
            let quiet = self.sessions.get(&node.id).map_or(self.started, |session| session.heard).elapsed();
            let quiet = if self.sessions.contains_key(&node.id) { quiet } else { self.quiet_since(node.id, quiet) };
            if quiet >= silent {
                tracing::warn!(node = node.name, "no word from the node; it counts as down and its jobs go elsewhere");
                self.propose(Command::NodeLost { node: node.id });
            }
        }
        for id in self.sessions.iter().filter(|(_, session)| session.heard.elapsed() < silent).map(|(id, _)| *id) {
            // It speaks, so it is back; its stream has registered it long ago.
            if let Some(node) = view.node(id).filter(|node| node.wants_back()) {
                let inventory = (*node.inventory).clone();
                self.propose(Command::RegisterNode { name: node.name.clone(), inventory });
            }
        }
        if view.queue_len() > 0 {
            self.want_plan(); // Begin times come without an entry.
        }
    }

    /// How long a node without a stream has been quiet, but no longer than this controller has run.
    fn quiet_since(&self, node: NodeId, at_most: Duration) -> Duration {
        let last = self.soft.health_of(node).last_contact;
        if last.0 == 0 { at_most } else { Duration::from_millis(clock_now().0.saturating_sub(last.0)).min(at_most) }
    }

    /// Proposes something whose outcome shows in the state.
    fn propose(&self, command: Command) {
        let proposer = self.proposer.clone();
        tokio::spawn(async move {
            if let Err(error) = proposer.propose(command).await {
                tracing::warn!(%error, "a proposal of the controller's own was not taken");
            }
        });
    }
}

/// Proposes what a plan decided.
async fn place(proposer: &Proposer, commands: Vec<Command>) {
    let proposals: Vec<_> = commands
        .into_iter()
        .map(|command| {
            let proposer = proposer.clone();
            tokio::spawn(async move { proposer.propose(command).await })
        })
        .collect();
    for proposal in proposals {
        match proposal.await {
            Ok(Ok(gpun_core::Outcome::Refused(refusal))) => tracing::debug!(%refusal, "a placement came too late"),
            Ok(Err(error)) => tracing::warn!(%error, "a placement was not taken"),
            _ => {}
        }
    }
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
