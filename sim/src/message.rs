//! What is said between clients, controller and nodes, and everything that can happen.

use gpun_core::{
    Command, IndexSet, JobId, RequestId,
    command::{Act, Identity, JobReport},
    desired::Desired,
};
use gpund::agent::Key;

/// Virtual time, in milliseconds since the start of a run.
pub type Ms = u64;

/// A stream between a node and the controller.
pub type Session = u64;

/// What a node needs to start an attempt.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The attempt.
    pub key: Key,
    /// Its CPUs on the node.
    pub cpus: IndexSet,
    /// The array's task or 0, so that each task has a script of its own.
    pub task: u32,
    /// The job's or array's number.
    pub origin: JobId,
}

/// From a node.
#[derive(Debug, Clone)]
pub enum FromNode {
    /// Opens a stream.
    Hello,
    /// Still here; asks for an echo.
    Beat {
        /// When it was sent.
        sent: Ms,
    },
    /// Reports, with the message's number.
    Reports(u64, Vec<JobReport>),
}

/// To a node.
#[derive(Debug, Clone)]
pub enum ToNode {
    /// The stream is open.
    Welcome,
    /// The desired document, with launches that the stream has not carried.
    Sync(Desired, Vec<Launch>),
    /// Reports up to this message are in the log.
    Taken(u64),
    /// The answer to a beat: until some time after it was sent, the controller gives the node up not.
    Echo {
        /// When the beat was sent.
        sent: Ms,
    },
}

/// Who waits for the outcome of a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waits {
    /// Nobody.
    Nobody,
    /// The client that submitted this.
    Client(RequestId),
    /// A node that opens a stream.
    Hello(usize, Session),
    /// A node's reports.
    Reports(usize, Session, u64),
    /// The planner, with the last placement of a plan.
    Planner,
}

/// Something that breaks, or is put right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A node's network is cut for so long.
    Unplug(usize, Ms),
    /// A machine loses its power for so long.
    Crash(usize, Ms),
    /// A node's daemon is killed and comes back after so long; its jobs go on.
    KillDaemon(usize, Ms),
    /// The controller is killed and comes back after so long.
    KillController(Ms),
    /// The leader's wall clock jumps to this many milliseconds off the truth.
    Clock(i64),
    /// The second replica starts again from the mirror.
    Snapshot,
}

/// Something that happens.
#[derive(Debug, Clone)]
pub enum Event {
    /// A client sends a submission, perhaps again.
    Submit(RequestId),
    /// A submission reaches the controller.
    SubmitArrives(RequestId),
    /// The answer reaches the client.
    Answer(RequestId, JobId),
    /// A user or operator wishes something.
    Wish(Identity, Box<Act>),
    /// The log takes a command.
    Commit {
        /// The controller's life that proposed it.
        life: u64,
        /// What.
        command: Box<Command>,
        /// Who waits.
        waits: Waits,
    },
    /// A message from a node arrives.
    FromNode(usize, Session, FromNode),
    /// A message to a node arrives.
    ToNode(usize, Session, ToNode),
    /// A node has something to do, or looks whether it has.
    Turn(usize),
    /// A node's machine or daemon is back.
    NodeBack(usize),
    /// The controller is back.
    ControllerBack,
    /// Planning begins.
    Plan(u64),
    /// A second has passed for the controller.
    Second(u64),
    /// Something breaks.
    Fault(Fault),
    /// From now on nothing breaks any more.
    Heal,
}
