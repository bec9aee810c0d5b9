//! Nodes: what they have, how they are, and what is taken.

use minicbor::{Decode, Encode};

use crate::{IndexSet, JobId, MemoryMib, NodeId, Shared, TimeMs};

/// A kind of generic resource on a node.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct GresInventory {
    /// Such as `gpu`.
    #[n(0)]
    pub name: String,
    /// Such as `a100`.
    #[n(1)]
    pub kind: Option<String>,
    /// How many.
    #[n(2)]
    pub count: u32,
    /// Device files, in order; empty for resources without.
    #[cbor(n(3), default, skip_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

/// What a node has, as it said when it registered.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(map)]
pub struct Inventory {
    /// CPUs that jobs may use.
    #[n(0)]
    pub cpus: u32,
    /// Boards.
    #[cbor(n(1), default)]
    pub boards: u32,
    /// Sockets.
    #[cbor(n(2), default)]
    pub sockets: u32,
    /// Cores of a socket.
    #[cbor(n(3), default)]
    pub cores_per_socket: u32,
    /// Threads of a core.
    #[cbor(n(4), default)]
    pub threads_per_core: u32,
    /// Memory that jobs may use.
    #[n(5)]
    pub memory: MemoryMib,
    /// Temporary disk, in MiB.
    #[cbor(n(6), default)]
    pub tmp_disk: MemoryMib,
    /// Generic resources.
    #[cbor(n(7), default)]
    pub gres: Vec<GresInventory>,
    /// Features.
    #[cbor(n(8), default)]
    pub features: Vec<String>,
    /// Scheduling weight; lower is used first.
    #[cbor(n(9), default)]
    pub weight: u32,
    /// Address.
    #[cbor(n(10), default)]
    pub address: String,
    /// Host name.
    #[cbor(n(11), default)]
    pub host_name: String,
    /// Operating system, as `uname` says.
    #[cbor(n(12), default)]
    pub os: String,
    /// Architecture.
    #[cbor(n(13), default)]
    pub arch: String,
    /// Version of its daemon.
    #[cbor(n(14), default)]
    pub version: String,
    /// When the machine started.
    #[cbor(n(15), default)]
    pub boot_time: TimeMs,
    /// When the daemon started.
    #[cbor(n(16), default)]
    pub daemon_start: TimeMs,
    /// Sizes stated rather than found: CPU numbers are not those of the machine.
    #[cbor(n(17), default)]
    pub stated: bool,
}

/// How the controller sees a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Liveness {
    /// Configured, never seen.
    #[n(0)]
    Unknown,
    /// In contact.
    #[n(1)]
    Up,
    /// Without contact for longer than allowed, or set down.
    #[n(2)]
    Down,
}

/// A mark that keeps new jobs away, with its reason.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Mark {
    /// Why.
    #[n(0)]
    pub reason: String,
    /// Who set it.
    #[n(1)]
    pub uid: u32,
    /// When.
    #[n(2)]
    pub since: TimeMs,
}

/// What jobs have taken of one kind of generic resource.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct GresTaken {
    /// Such as `gpu`.
    #[n(0)]
    pub name: String,
    /// Positions among the node's resources of this name.
    #[n(1)]
    pub indexes: IndexSet,
}

/// What jobs have taken. Derived from the jobs; never stored apart from them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Taken {
    /// CPU numbers.
    pub cpus: IndexSet,
    /// Memory.
    pub memory: MemoryMib,
    /// Generic resources.
    pub gres: Vec<GresTaken>,
    /// Jobs that hold something here, ascending.
    pub jobs: Vec<JobId>,
}

/// One node.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Node {
    /// Its number.
    #[n(0)]
    pub id: NodeId,
    /// Its name.
    #[n(1)]
    pub name: String,
    /// What it has.
    #[n(2)]
    pub inventory: Shared<Inventory>,
    /// Contact.
    #[n(3)]
    pub liveness: Liveness,
    /// Why it is down, where someone said so.
    #[n(4)]
    pub down: Option<Mark>,
    /// Drained: takes no new jobs.
    #[n(5)]
    pub drain: Option<Mark>,
    /// Last change of contact.
    #[cbor(n(6), default)]
    pub since: TimeMs,
    /// When a job last ended here.
    #[n(7)]
    pub last_busy: Option<TimeMs>,
    /// Not heard since it was given up for its silence.
    #[cbor(n(8), default)]
    pub silent: bool,
    /// What is taken.
    #[cbor(skip)]
    pub taken: Taken,
    /// Free text of operators.
    #[cbor(n(90), default, skip_if = "String::is_empty")]
    pub comment: String,
    /// Free text for those who schedule by it.
    #[cbor(n(91), default, skip_if = "String::is_empty")]
    pub extra: String,
    /// Its drain says that it is about to fail.
    #[cbor(n(92), default, skip_if = "is_false")]
    pub failing: bool,
    /// What its daemon stated, where an operator says something else: `inventory` has the operator's word.
    #[n(93)]
    pub stated: Option<Stated>,
    /// Features that it may have, where those of `inventory` are not all.
    #[n(94)]
    pub available_features: Option<Vec<String>>,
}

/// What a node's daemon stated and an operator changed.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Stated {
    /// Its weight.
    #[n(0)]
    pub weight: Option<u32>,
    /// Its features.
    #[n(1)]
    pub features: Option<Vec<String>>,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl Node {
    /// Features that it may have.
    pub fn features_available(&self) -> &[String] {
        self.available_features.as_deref().unwrap_or(&self.inventory.features)
    }

    /// Takes what its daemon states. An operator's word on weight and features holds until the daemon states something new.
    pub fn register(&mut self, mut inventory: Inventory) {
        if let Some(stated) = &mut self.stated {
            let same_weight = inventory.weight == self.inventory.weight;
            stated.weight = stated.weight.filter(|weight| same_weight || *weight == inventory.weight);
            if stated.weight.is_some() {
                inventory.weight = self.inventory.weight;
            }
            let same = inventory.features == self.inventory.features;
            stated.features = stated.features.take().filter(|features| same || *features == inventory.features);
            if stated.features.is_some() {
                inventory.features.clone_from(&self.inventory.features);
            } else {
                self.available_features = None;
            }
            if stated.weight.is_none() && stated.features.is_none() {
                self.stated = None;
            }
        }
        self.inventory = Shared::new(inventory);
    }

    /// True if a job may be placed here now.
    pub fn takes_jobs(&self) -> bool {
        self.liveness == Liveness::Up && self.drain.is_none()
    }

    /// True if the node is down and its next word shall bring it back, as a registration does (`ReturnToService=2`): it was
    /// given up for its silence, or somebody has taken back that it is down.
    pub fn wants_back(&self) -> bool {
        self.liveness == Liveness::Down && (self.silent || self.down.is_none())
    }

    /// How many of a generic resource there are, of one type or of any.
    pub fn gres_count(&self, name: &str, kind: Option<&str>) -> u32 {
        self.gres_positions(name, kind).len() as u32
    }

    /// Positions of a generic resource, of one type or of any, among all of that name, in the order of the inventory.
    pub fn gres_positions(&self, name: &str, kind: Option<&str>) -> IndexSet {
        let mut position = 0;
        let mut found = IndexSet::new();
        for gres in self.inventory.gres.iter().filter(|gres| gres.name == name) {
            if kind.is_none_or(|kind| gres.kind.as_deref() == Some(kind)) {
                found.insert_all(&(position..position + gres.count).collect());
            }
            position += gres.count;
        }
        found
    }

    /// Positions of a generic resource that jobs have taken.
    pub fn gres_taken(&self, name: &str) -> IndexSet {
        self.taken.gres.iter().find(|taken| taken.name == name).map(|taken| taken.indexes.clone()).unwrap_or_default()
    }

    /// CPUs that nobody has.
    pub fn cpus_free(&self) -> u32 {
        (u64::from(self.inventory.cpus).saturating_sub(self.taken.cpus.len())) as u32
    }

    /// Memory that nobody has.
    pub fn memory_free(&self) -> MemoryMib {
        MemoryMib(self.inventory.memory.0.saturating_sub(self.taken.memory.0))
    }
}
