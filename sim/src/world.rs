//! Everything together: virtual time, the network between clients, controller and nodes, and the log.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use gpun_core::{
    Command, JobId, NodeId, Outcome, RequestId,
    command::{Act, Identity, JobRef, NodeChange, Submit},
    job::Hold,
    node::Liveness,
    spec::JobSpec,
};
use gpun_sched::PlanLimits;

use crate::{
    Break, Failure, Plan, Report,
    controller::Controller,
    dice::Dice,
    invariant::{self, Broken},
    load,
    message::{Event, Fault, FromNode, Ms, Session, ToNode, Waits},
    node::SimNode,
};

/// From here on nothing breaks any more.
const HEAL: Ms = 900_000;
/// How long after that everything has to have come to rest.
const REST: Ms = 4 * 3_600_000;
/// So many of the last events are told with a failure.
const TOLD: usize = 60;
/// An operator looks after what is held or can't start, this often after the healing.
const CARE: Ms = 30_000;

/// A client's submission.
#[derive(Debug)]
pub struct Submission {
    /// What it sends.
    pub submit: Submit,
    /// The job that it was told.
    pub acknowledged: Option<JobId>,
    /// It was told that it can't be.
    pub refused: bool,
}

/// The world.
pub struct World {
    /// What is run.
    pub plan: Plan,
    /// Virtual time.
    pub now: Ms,
    /// The controller.
    pub controller: Controller,
    /// The machines.
    pub nodes: Vec<SimNode>,
    /// Submissions by their request id.
    pub submissions: BTreeMap<RequestId, Submission>,
    /// What the invariants remember.
    pub witness: invariant::Witness,
    dice: Dice,
    queue: BTreeMap<(Ms, u64), Event>,
    next_event: u64,
    next_session: Session,
    /// When the last message of a stream arrives, in each direction: a stream keeps the order.
    arrivals: BTreeMap<(Session, bool), Ms>,
    /// Streams that broke on the way.
    cut: BTreeSet<Session>,
    turns: BTreeMap<usize, Ms>,
    last: VecDeque<(Ms, String)>,
    report: Report,
}

impl World {
    /// A world with its whole load and all faults laid out.
    pub fn new(plan: Plan) -> Self {
        let mut dice = Dice::new(plan.seed);
        let count = dice.range(1, 5) as usize;
        let mut nodes = Vec::new();
        for at in 0..count {
            let skew = dice.choose(&[0, -2_000, 5_000]).unwrap_or(0);
            nodes.push(SimNode::new(load::node_name(at), load::inventory(&mut dice), skew, plan.broken));
        }
        let mut world = Self {
            plan,
            now: 0,
            controller: Controller::new(plan.broken),
            nodes,
            submissions: BTreeMap::new(),
            witness: invariant::Witness::default(),
            dice,
            queue: BTreeMap::new(),
            next_event: 0,
            next_session: 1,
            arrivals: BTreeMap::new(),
            cut: BTreeSet::new(),
            turns: BTreeMap::new(),
            last: VecDeque::new(),
            report: Report { trace: 0xcbf2_9ce4_8422_2325, ..Report::default() },
        };
        world.lay_out(count);
        world
    }

    fn lay_out(&mut self, count: usize) {
        self.at(0, Event::ControllerBack);
        for at in 0..count {
            self.at(self.dice.clone().range(0, 50), Event::Turn(at));
        }
        for number in 0..self.dice.range(5, 40) {
            let mut id = [0; 16];
            id[..8].copy_from_slice(&self.plan.seed.to_be_bytes());
            id[8..].copy_from_slice(&number.to_be_bytes());
            let request = RequestId(id);
            let submit = load::submission(request, count, number as u32, &mut self.dice);
            self.submissions.insert(request, Submission { submit, acknowledged: None, refused: false });
            let when = self.dice.range(100, HEAL * 2 / 3);
            self.at(when, Event::Submit(request));
        }
        for _ in 0..self.dice.range(0, 30) {
            let when = self.dice.range(1_000, HEAL);
            let (who, act) = load::wish(40, count, &mut self.dice);
            self.at(when, Event::Wish(who, Box::new(act)));
        }
        for _ in 0..self.dice.range(0, 25) {
            let when = self.dice.range(1_000, HEAL - 1);
            let fault = self.fault(count);
            self.at(when, Event::Fault(fault));
        }
        self.at(HEAL, Event::Heal);
    }

    fn fault(&mut self, count: usize) -> Fault {
        let at = self.dice.range(0, count as u64 - 1) as usize;
        let long = self.dice.choose(&[50, 3_000, 20_000, 70_000, 200_000]).unwrap_or(50);
        let long = long + self.dice.range(0, long);
        match self.dice.range(0, 9) {
            0..=2 => Fault::Unplug(at, long),
            3 => Fault::Crash(at, long),
            4..=5 => Fault::KillDaemon(at, long),
            6..=7 => Fault::KillController(long),
            8 => Fault::Clock(self.dice.choose(&[0, 3_600_000, -3_600_000, 700, -900]).unwrap_or(0)),
            _ => Fault::Snapshot,
        }
    }

    // Time

    fn at(&mut self, when: Ms, event: Event) {
        self.queue.insert((when.max(self.now), self.next_event), event);
        self.next_event += 1;
    }

    fn after(&mut self, low: Ms, high: Ms, event: Event) {
        let wait = self.dice.range(low, high);
        self.at(self.now + wait, event);
    }

    /// A node looks at `when` whether it has something to do; an earlier look makes a later one needless.
    fn turn_at(&mut self, at: usize, when: Ms) {
        if self.turns.get(&at).is_none_or(|have| *have > when || *have < self.now) {
            self.turns.insert(at, when);
            self.at(when, Event::Turn(at));
        }
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// An invariant does not hold.
    pub fn run(mut self) -> Result<Report, Box<Failure>> {
        while let Some(((when, _), event)) = self.queue.pop_first() {
            self.now = when;
            self.remember(&event);
            let result = self.happen(event).and_then(|()| invariant::after_each_event(&mut self));
            if let Err(broken) = result {
                return Err(self.failure(broken));
            }
            if self.now > HEAL && self.is_at_rest() {
                break;
            }
            if self.now > HEAL + REST {
                let broken = invariant::progress::still_open(&self);
                return Err(self.failure(broken));
            }
        }
        match invariant::at_the_end(&mut self) {
            Ok(()) => Ok(Report { launches: self.witness.launches(), ..self.report }),
            Err(broken) => Err(self.failure(broken)),
        }
    }

    fn remember(&mut self, event: &Event) {
        self.report.events += 1;
        let text = format!("{event:?}");
        for byte in self.now.to_be_bytes().iter().chain(text.as_bytes()) {
            self.report.trace = (self.report.trace ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if !matches!(event, Event::Turn(_) | Event::Second(_)) {
            if self.last.len() == TOLD {
                self.last.pop_front();
            }
            self.last.push_back((self.now, text));
        }
    }

    fn failure(&self, broken: Broken) -> Box<Failure> {
        let last = self.last.iter().map(|(when, text)| format!("{:>9} {text}", when)).collect();
        Box::new(Failure { what: format!("at {} ms: {broken}", self.now), last })
    }

    /// Everything that was accepted has ended, and no node has anything left of it.
    fn is_at_rest(&self) -> bool {
        let answered = self.submissions.values().all(|one| one.refused || one.acknowledged.is_some());
        answered
            && self.controller.up
            && self.controller.state.jobs().all(|job| job.is_over())
            && self.nodes.iter().all(SimNode::is_empty)
    }

    // What happens

    fn happen(&mut self, event: Event) -> Result<(), Broken> {
        match event {
            Event::Submit(request) => self.submit(request),
            Event::SubmitArrives(request) => self.submit_arrives(request),
            Event::Answer(request, job) => self.answer(request, job)?,
            Event::Wish(who, act) => self.wish(who, *act),
            Event::Commit { life, command, waits } => self.commit(life, *command, waits)?,
            Event::FromNode(at, session, message) => self.node_says(at, session, message),
            Event::ToNode(at, session, message) => self.node_hears(at, session, message),
            Event::Turn(at) => self.turn(at),
            Event::NodeBack(at) => self.node_back(at),
            Event::ControllerBack => self.controller_back()?,
            Event::Plan(life) => self.plan(life)?,
            Event::Second(life) => self.second(life),
            Event::Fault(fault) => self.break_something(fault)?,
            Event::Heal => self.heal()?,
        }
        Ok(())
    }

    // Clients

    fn submit(&mut self, request: RequestId) {
        let open = self.submissions.get(&request).is_some_and(|one| one.acknowledged.is_none() && !one.refused);
        // One that has its answer asks again now and then, as a client does whose answer was lost.
        if open || (self.now < HEAL && self.dice.percent(30)) {
            self.after(1, 30, Event::SubmitArrives(request));
            self.after(2_000, 6_000, Event::Submit(request));
        }
    }

    fn submit_arrives(&mut self, request: RequestId) {
        if !self.controller.up || self.dice.percent(5) {
            return;
        }
        let Some(one) = self.submissions.get(&request) else { return };
        let command = Command::Submit(Box::new(one.submit.clone()));
        if self.plan.broken == Some(Break::AnswersBeforeCommit) && self.controller.state.request(request).is_none() {
            let job = self.controller.state.next_job();
            self.after(1, 1, Event::Answer(request, job));
        }
        self.propose(command, Waits::Client(request));
    }

    fn answer(&mut self, request: RequestId, job: JobId) -> Result<(), Broken> {
        let Some(one) = self.submissions.get_mut(&request) else { return Ok(()) };
        match one.acknowledged {
            None => {
                one.acknowledged = Some(job);
                self.report.acknowledged += 1;
            }
            Some(before) if before == job => {}
            Some(before) => return Err(Broken::new("acknowledged once", format!("{before} and then {job}"))),
        }
        Ok(())
    }

    fn wish(&mut self, who: Identity, act: Act) {
        if self.controller.up {
            self.propose(Command::Act { who, act }, Waits::Nobody);
        }
    }

    // The log

    fn propose(&mut self, command: Command, waits: Waits) {
        let life = self.controller.life;
        self.after(1, 8, Event::Commit { life, command: Box::new(command), waits });
    }

    fn commit(&mut self, life: u64, command: Command, waits: Waits) -> Result<(), Broken> {
        // What had not reached the disk when its proposer died is gone.
        if life != self.controller.life || !self.controller.up {
            return Ok(());
        }
        let stamp = self.controller.wall(self.now);
        let before = self.nodes_down();
        let outcome = self.controller.apply(stamp, command).map_err(|what| Broken::new("replicas agree", what))?;
        self.report.entries += 1;
        for node in self.nodes_down().difference(&before) {
            let name = self.controller.state.node(*node).map(|node| node.name.clone()).unwrap_or_default();
            if let Some(at) = self.nodes.iter().position(|node| node.name == name) {
                self.witness.given_up(at, self.now);
            }
        }
        invariant::after_each_entry(self)?;
        self.committed(waits, &outcome);
        self.want_plan();
        self.dispatch_all();
        Ok(())
    }

    fn nodes_down(&self) -> BTreeSet<NodeId> {
        self.controller.state.nodes().filter(|node| node.liveness == Liveness::Down).map(|node| node.id).collect()
    }

    fn committed(&mut self, waits: Waits, outcome: &Outcome) {
        match (waits, outcome) {
            (Waits::Client(request), Outcome::Submitted { job }) => {
                self.witness.accepted(request, *job);
                if !self.dice.percent(5) {
                    self.after(1, 30, Event::Answer(request, *job));
                }
            }
            (Waits::Client(request), Outcome::Refused(_)) => {
                if let Some(one) = self.submissions.get_mut(&request) {
                    one.refused = true;
                }
            }
            (Waits::Hello(at, session), Outcome::Registered { node }) if !self.cut.contains(&session) => {
                self.controller.attach(*node, at, session, self.now);
                self.send(at, session, ToNode::Welcome);
                self.dispatch(*node);
            }
            (Waits::Reports(at, session, number), _) => self.send(at, session, ToNode::Taken(number)),
            (Waits::Planner, _) => self.controller.planning = false,
            _ => {}
        }
    }

    // The network

    /// When a message of a stream arrives: later than all before it.
    fn arrival(&mut self, session: Session, to_node: bool) -> Ms {
        let wait = self.dice.range(1, 20) + if self.dice.percent(2) { self.dice.range(0, 2_000) } else { 0 };
        let last = self.arrivals.entry((session, to_node)).or_insert(0);
        *last = (*last).max(self.now + wait);
        *last
    }

    fn send(&mut self, at: usize, session: Session, message: ToNode) {
        let when = self.arrival(session, true);
        self.at(when, Event::ToNode(at, session, message));
    }

    fn carries(&mut self, at: usize, session: Session) -> bool {
        // A stream that lost a byte carries nothing any more.
        let plugged = self.nodes.get(at).is_some_and(|node| node.plugged);
        if !plugged {
            self.cut.insert(session);
        }
        plugged && !self.cut.contains(&session)
    }

    fn node_says(&mut self, at: usize, session: Session, message: FromNode) {
        if !self.carries(at, session) || !self.controller.up {
            self.cut.insert(session);
            return;
        }
        if let FromNode::Hello = message {
            let Some(node) = self.nodes.get(at) else { return };
            let command = Command::RegisterNode { name: node.name.clone(), inventory: node.inventory.clone() };
            return self.propose(command, Waits::Hello(at, session));
        }
        let Some(node) = self.controller.heard(at, session, self.now) else { return };
        match message {
            FromNode::Hello => {}
            FromNode::Beat { sent } => self.send(at, session, ToNode::Echo { sent }),
            FromNode::Reports(number, reports) => {
                self.propose(Command::Report { node, reports }, Waits::Reports(at, session, number));
            }
        }
    }

    fn node_hears(&mut self, at: usize, session: Session, message: ToNode) {
        if !self.carries(at, session) {
            return;
        }
        let now = self.now;
        let Some(node) = self.nodes.get_mut(at) else { return };
        if !node.daemon {
            self.cut.insert(session);
            return;
        }
        if matches!(message, ToNode::Welcome) && node.dialled == Some(session) {
            node.dialled = None;
            node.session = Some(session);
        }
        if node.session == Some(session) {
            node.hear(message, now);
            self.turn(at);
        }
    }

    // Nodes

    fn turn(&mut self, at: usize) {
        if self.turns.get(&at) == Some(&self.now) {
            self.turns.remove(&at);
        }
        let (now, seed) = (self.now, self.plan.seed);
        let Some(node) = self.nodes.get_mut(at) else { return };
        let next = node.turn(now, seed);
        let says = std::mem::take(&mut node.says);
        for message in says {
            let session = match message {
                FromNode::Hello => {
                    let session = self.next_session;
                    self.next_session += 1;
                    if let Some(node) = self.nodes.get_mut(at) {
                        node.dialled = Some(session);
                    }
                    session
                }
                _ => match self.nodes.get(at).and_then(|node| node.session) {
                    Some(session) => session,
                    None => continue,
                },
            };
            let when = self.arrival(session, false);
            self.at(when, Event::FromNode(at, session, message));
        }
        self.turn_at(at, next.max(self.now + 1));
    }

    fn node_back(&mut self, at: usize) {
        let now = self.now;
        if let Some(node) = self.nodes.get_mut(at) {
            node.plugged = true;
            node.back(now);
        }
        self.turn(at);
    }

    // The controller

    fn controller_back(&mut self) -> Result<(), Broken> {
        if self.controller.up {
            return Ok(());
        }
        self.controller.start(self.now).map_err(|what| Broken::new("the mirror holds the state", what))?;
        let (settings, partitions) =
            (load::settings(&mut Dice::new(self.plan.seed)), load::partitions(self.nodes.len(), self.plan.seed));
        self.propose(Command::Configure { settings: Box::new(settings), partitions }, Waits::Nobody);
        let life = self.controller.life;
        self.after(900, 1_000, Event::Second(life));
        self.controller.plan_wanted = false;
        self.want_plan();
        Ok(())
    }

    fn want_plan(&mut self) {
        if !std::mem::replace(&mut self.controller.plan_wanted, true) {
            let life = self.controller.life;
            self.after(2, 5, Event::Plan(life));
        }
    }

    fn plan(&mut self, life: u64) -> Result<(), Broken> {
        if life != self.controller.life || !self.controller.up {
            return Ok(());
        }
        self.controller.plan_wanted = false;
        if self.controller.planning {
            self.want_plan();
            return Ok(());
        }
        let now = self.controller.wall(self.now);
        let state = &self.controller.state;
        let mut plan = gpun_sched::plan(state, now, &PlanLimits::default());
        invariant::plans::same_again(state, now, &plan)?;
        let placements = std::mem::take(&mut plan.placements);
        self.controller.planning = !placements.is_empty();
        let last = placements.len().saturating_sub(1);
        // Planning takes a while, and the placements reach the log one by one.
        let mut when = self.now + self.dice.range(1, 60);
        for (number, placement) in placements.into_iter().enumerate() {
            let waits = if number == last { Waits::Planner } else { Waits::Nobody };
            when += self.dice.range(0, 2);
            self.at(when, Event::Commit { life, command: Box::new(Command::Place(placement)), waits });
        }
        Ok(())
    }

    fn second(&mut self, life: u64) {
        if life != self.controller.life || !self.controller.up {
            return;
        }
        self.after(1_000, 1_000, Event::Second(life));
        let wall = self.controller.wall(self.now);
        if self.controller.state.next_due().is_some_and(|due| due <= wall) {
            self.propose(Command::Tick, Waits::Nobody);
        }
        let limit = self.controller.state.settings().node_down_s * 1_000;
        for node in self.controller.silent(self.now, limit) {
            self.propose(Command::NodeLost { node }, Waits::Nobody);
        }
        for command in self.controller.back(self.now, limit) {
            self.propose(command, Waits::Nobody);
        }
        if self.controller.state.queue_len() > 0 {
            self.want_plan();
        }
        if self.now > HEAL && self.now / CARE != (self.now - 1_000) / CARE {
            self.care();
        }
    }

    fn dispatch_all(&mut self) {
        let nodes: Vec<NodeId> = self.controller.attached.keys().copied().collect();
        nodes.into_iter().for_each(|node| self.dispatch(node));
    }

    fn dispatch(&mut self, node: NodeId) {
        if let Some((at, session, document, launches)) = self.controller.dispatch(node) {
            self.send(at, session, ToNode::Sync(document, launches));
        }
    }

    // Breaking and healing

    fn break_something(&mut self, fault: Fault) -> Result<(), Broken> {
        self.report.faults += 1;
        match fault {
            Fault::Unplug(at, long) => {
                if let Some(node) = self.nodes.get_mut(at) {
                    node.plugged = false;
                    let streams = node.session.into_iter().chain(node.dialled);
                    self.cut.extend(streams);
                }
                self.at(self.now + long, Event::NodeBack(at));
            }
            Fault::Crash(at, long) => {
                if let Some(node) = self.nodes.get_mut(at) {
                    self.cut.extend(node.session.into_iter().chain(node.dialled));
                    node.crash();
                }
                self.at(self.now + long, Event::NodeBack(at));
            }
            Fault::KillDaemon(at, long) => {
                if let Some(node) = self.nodes.get_mut(at) {
                    self.cut.extend(node.session.into_iter().chain(node.dialled));
                    node.kill_daemon();
                }
                self.at(self.now + long, Event::NodeBack(at));
            }
            Fault::KillController(long) => {
                let streams: Vec<Session> = self.controller.attached.values().map(|have| have.session).collect();
                self.cut.extend(streams);
                self.controller.die();
                self.at(self.now + long, Event::ControllerBack);
            }
            Fault::Clock(off) => self.controller.clock_off = off,
            Fault::Snapshot => self.controller.restart_replica().map_err(|what| Broken::new("replicas agree", what))?,
        }
        Ok(())
    }

    fn heal(&mut self) -> Result<(), Broken> {
        self.controller.clock_off = 0;
        self.controller_back()?;
        (0..self.nodes.len()).for_each(|at| self.node_back(at));
        self.care();
        Ok(())
    }

    /// What an operator does afterwards: puts nodes back into service, lets held jobs go, and ends what can never start.
    fn care(&mut self) {
        let state = &self.controller.state;
        let mut acts = Vec::new();
        for node in state.nodes() {
            if node.drain.is_some() || node.liveness == Liveness::Down {
                acts.push(Act::UpdateNode { name: node.name.clone(), change: NodeChange::Resume });
            }
        }
        acts.extend(state.reservations().map(|one| Act::DeleteReservation { name: one.name.clone() }));
        for job in state.queue() {
            let jobs = JobRef { job: job.id, tasks: None, component: None };
            // What was submitted held was not looked at then.
            let asks = JobSpec { hold: false, dependency: None, ..(*job.spec).clone() };
            let never = job.spec.hold && state.would_accept(&job.owner, &asks).is_err();
            // One whose reservation is over waits for ever, as one whose dependency is lost.
            let reserved = job.spec.reservation.is_some();
            if never || reserved || job.dependency.as_ref().is_some_and(|on| on.is_lost()) {
                acts.push(Act::Cancel(jobs));
            } else if job.hold != Hold::None {
                acts.push(Act::Release(jobs));
            }
        }
        for act in acts {
            self.propose(Command::Act { who: load::ROOT, act }, Waits::Nobody);
        }
    }

    /// True if the stream of a node works.
    pub fn is_attached(&self, at: usize) -> bool {
        let Some(node) = self.nodes.get(at) else { return false };
        let session = node.session.filter(|session| !self.cut.contains(session));
        node.plugged
            && node.daemon
            && self.controller.up
            && session.is_some_and(|session| self.controller.attached.values().any(|have| have.session == session))
    }
}
