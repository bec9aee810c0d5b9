//! What a user asked for, resolved: no text that would still need parsing, but file-name patterns and names.

use minicbor::{Decode, Encode};

use crate::{IndexSet, MemoryMib, TimeLimit, TimeMs, dependency::Dependency, layout::Layout};

/// How an existing output file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum OpenMode {
    /// Emptied first.
    #[n(0)]
    Truncate,
    /// Written at the end.
    #[n(1)]
    Append,
}

/// How much memory a job asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
pub enum MemoryRequest {
    /// Nothing said: the partition's or the cluster's default.
    #[n(0)]
    #[default]
    Default,
    /// On each node; 0 is all that the node has.
    #[n(1)]
    PerNode(#[n(0)] MemoryMib),
    /// For each allocated CPU.
    #[n(2)]
    PerCpu(#[n(0)] MemoryMib),
    /// For each allocated GPU.
    #[n(3)]
    PerGpu(#[n(0)] MemoryMib),
}

/// Generic resources asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct GresRequest {
    /// Such as `gpu`.
    #[n(0)]
    pub name: String,
    /// Such as `a100`; any type if not given.
    #[n(1)]
    pub kind: Option<String>,
    /// How many: on each node, task or socket, or of the whole job.
    #[n(2)]
    pub count: u32,
    /// The number was not said: it is one.
    #[cbor(n(3), default, skip_if = "is_false")]
    pub bare: bool,
}

/// Licences asked for.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct LicenseRequest {
    /// Which.
    #[n(0)]
    pub name: String,
    /// How many; one if not given.
    #[n(1)]
    pub count: Option<u32>,
}

/// The signal that a job wants before its time is over (`sbatch --signal`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct WarnSignal {
    /// The signal's number.
    #[n(0)]
    pub signal: i32,
    /// How long before the end of the limit, in seconds.
    #[n(1)]
    pub before_s: u32,
    /// To the batch script only, else to everything but it.
    #[n(2)]
    pub batch_only: bool,
}

/// The tasks of a job array.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct ArrayRequest {
    /// The task numbers.
    #[n(0)]
    pub tasks: IndexSet,
    /// How many may run at the same time.
    #[n(1)]
    pub max_running: Option<u32>,
}

/// One submission. Fields are only ever added, each with a new number.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(map)]
pub struct JobSpec {
    /// The job's name.
    #[n(0)]
    #[cbor(default)]
    pub name: String,
    /// Partitions to try, in this order; the cluster's default if empty.
    #[cbor(n(1), default, skip_if = "Vec::is_empty")]
    pub partitions: Vec<String>,
    /// Account to charge.
    #[n(2)]
    pub account: Option<String>,
    /// Quality of service.
    #[n(3)]
    pub qos: Option<String>,
    /// Free text of the user.
    #[n(4)]
    pub comment: Option<String>,
    /// Workload characterisation key.
    #[n(5)]
    pub wckey: Option<String>,
    /// Where the job runs; an absolute path.
    #[cbor(n(6), default)]
    pub work_dir: String,
    /// Standard input; a file-name pattern.
    #[n(7)]
    pub std_in: Option<String>,
    /// Standard output; a file-name pattern.
    #[n(8)]
    pub std_out: Option<String>,
    /// Standard error; a file-name pattern. Follows `std_out` if not given.
    #[n(9)]
    pub std_err: Option<String>,
    /// How existing output files are opened.
    #[n(10)]
    pub open_mode: Option<OpenMode>,
    /// Limit of the run time; the partition's default if not given.
    #[n(11)]
    pub time_limit: Option<TimeLimit>,
    /// The shortest limit that the job would take.
    #[n(12)]
    pub time_min: Option<TimeLimit>,
    /// Not before this time.
    #[n(13)]
    pub begin: Option<TimeMs>,
    /// Given up if it can't end by this time.
    #[n(14)]
    pub deadline: Option<TimeMs>,
    /// Fewest nodes; 1 if not given.
    #[n(15)]
    pub nodes_min: Option<u32>,
    /// Most nodes.
    #[n(16)]
    pub nodes_max: Option<u32>,
    /// Number of tasks.
    #[n(17)]
    pub ntasks: Option<u32>,
    /// Tasks on each node.
    #[n(18)]
    pub ntasks_per_node: Option<u32>,
    /// CPUs for each task.
    #[n(19)]
    pub cpus_per_task: Option<u32>,
    /// Memory.
    #[cbor(n(20), default)]
    pub memory: MemoryRequest,
    /// Smallest temporary disk of a node, in MiB.
    #[n(21)]
    pub tmp_disk: Option<MemoryMib>,
    /// Generic resources on each node.
    #[cbor(n(22), default, skip_if = "Vec::is_empty")]
    pub gres: Vec<GresRequest>,
    /// Features that each node must have (all of them).
    #[cbor(n(23), default, skip_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// Nodes that must be among the allocated ones.
    #[cbor(n(24), default, skip_if = "Vec::is_empty")]
    pub node_list: Vec<String>,
    /// Nodes that must not be.
    #[cbor(n(25), default, skip_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// Whole nodes, shared with nobody.
    #[cbor(n(26), default)]
    pub exclusive: bool,
    /// Neighbouring nodes only.
    #[cbor(n(27), default)]
    pub contiguous: bool,
    /// Submitted held.
    #[cbor(n(28), default)]
    pub hold: bool,
    /// Lowers the priority.
    #[cbor(n(29), default)]
    pub nice: i32,
    /// A fixed priority.
    #[n(30)]
    pub priority: Option<u32>,
    /// May be started again after a failure of its node; the cluster's default if not given.
    #[n(31)]
    pub requeue: Option<bool>,
    /// Warning before the limit.
    #[n(32)]
    pub warn: Option<WarnSignal>,
    /// Makes the job an array.
    #[n(33)]
    pub array: Option<ArrayRequest>,
    /// Container image: path of an OCI layout or of a tarball; the site's root filesystem if not given.
    #[n(34)]
    pub container_image: Option<String>,
    /// Extra mounts, `source:destination[:flags]`.
    #[cbor(n(35), default, skip_if = "Vec::is_empty")]
    pub container_mounts: Vec<String>,
    /// Working folder inside the container.
    #[n(36)]
    pub container_workdir: Option<String>,
    /// The script's path as it was given; not given for `--wrap` and standard input.
    #[n(37)]
    pub command: Option<String>,
    /// Arguments of the script.
    #[cbor(n(38), default, skip_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// The whole command line of the submission.
    #[n(39)]
    pub submit_line: Option<String>,
    /// The submitter's file mode mask.
    #[n(40)]
    pub umask: Option<u32>,
    /// Host from which the job was submitted.
    #[n(41)]
    pub submit_host: Option<String>,
    /// Session id of the submitting process.
    #[n(42)]
    pub submit_sid: Option<u32>,
    /// More tasks than CPUs are fine.
    #[cbor(n(43), default)]
    pub overcommit: bool,
    /// CPUs may be shared with other jobs that say the same.
    #[n(44)]
    pub oversubscribe: Option<bool>,
    /// Reservation to run in.
    #[n(45)]
    pub reservation: Option<String>,
    /// Resource limits of the submitter: number and soft value, as `getrlimit` counts them.
    #[cbor(n(46), default, skip_if = "Vec::is_empty")]
    pub rlimits: Vec<(u32, u64)>,
    /// What it waits for of other jobs, as asked.
    #[n(47)]
    pub dependency: Option<Dependency>,
    /// Ended once its dependency can't be met any more.
    #[n(48)]
    pub kill_on_invalid_dep: Option<bool>,
    /// Licences, for the whole job.
    #[cbor(n(49), default, skip_if = "Vec::is_empty")]
    pub licenses: Vec<LicenseRequest>,
    /// Fewest CPUs of each node.
    #[n(50)]
    pub mincpus: Option<u32>,
    /// Goes on when it loses a node.
    #[n(51)]
    pub no_kill: Option<bool>,
    /// Over as many nodes as may be.
    #[cbor(n(52), default, skip_if = "is_false")]
    pub spread: bool,
    /// Features that nodes have if such are free (all of them).
    #[cbor(n(53), default, skip_if = "Vec::is_empty")]
    pub prefer: Vec<String>,
    /// Free text for those who schedule by it.
    #[n(54)]
    pub extra: Option<String>,
    /// Features of the node that runs the script; among `features`.
    #[cbor(n(55), default, skip_if = "Vec::is_empty")]
    pub batch_features: Vec<String>,
    /// The insides of nodes.
    #[cbor(n(56), default, skip_if = "Layout::is_empty")]
    pub layout: Layout,
    /// Generic resources of the whole job.
    #[cbor(n(57), default, skip_if = "Vec::is_empty")]
    pub gres_total: Vec<GresRequest>,
    /// Generic resources for each task.
    #[cbor(n(58), default, skip_if = "Vec::is_empty")]
    pub gres_per_task: Vec<GresRequest>,
    /// Generic resources for each socket of `layout`.
    #[cbor(n(59), default, skip_if = "Vec::is_empty")]
    pub gres_per_socket: Vec<GresRequest>,
    /// CPUs for each GPU.
    #[n(60)]
    pub cpus_per_gpu: Option<u32>,
    /// Tasks for each GPU.
    #[n(61)]
    pub ntasks_per_gpu: Option<u32>,
    /// Whether devices are bound to the CPUs next to them.
    #[n(62)]
    pub gres_binding: Option<bool>,
    /// How tasks are bound to resources.
    #[n(63)]
    pub tres_bind: Option<String>,
    /// Lists of features one of which each node must have, besides `features`; empty if nothing was said.
    #[cbor(n(64), default, skip_if = "Vec::is_empty")]
    pub feature_sets: Vec<Vec<String>>,
    /// The features as they were asked for, where `features` does not tell it.
    #[n(65)]
    pub features_text: Option<String>,
    /// Free text of operators.
    #[n(92)]
    pub admin_comment: Option<String>,
    /// All nodes have the same one of `feature_sets`.
    #[cbor(n(93), default, skip_if = "is_false")]
    pub features_same: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl JobSpec {
    /// Fewest nodes.
    pub fn nodes_min(&self) -> u32 {
        self.nodes_min.unwrap_or(1).max(1)
    }

    /// Number of tasks: as asked for, else what the tasks per node and the nodes make, else one a node.
    pub fn tasks(&self) -> u32 {
        self.ntasks.unwrap_or_else(|| self.nodes_min().saturating_mul(self.ntasks_per_node.unwrap_or(1))).max(1)
    }

    /// True for a node with these features if it has what is asked for.
    pub fn admits_features(&self, have: &[String]) -> bool {
        let all = |wanted: &[String]| wanted.iter().all(|feature| have.contains(feature));
        all(&self.features) && (self.feature_sets.is_empty() || self.feature_sets.iter().any(|set| all(set)))
    }

    /// The lists of features of which all nodes have the same one; none where each node is looked at for itself.
    pub fn common_sets(&self) -> impl Iterator<Item = &Vec<String>> {
        self.feature_sets.iter().filter(|_| self.features_same)
    }

    /// Fewest CPUs of a node that takes part.
    pub fn cpus_on_one_node_min(&self) -> u32 {
        let tasks = self.ntasks_per_node.unwrap_or(1).max(1);
        if self.overcommit { 1 } else { self.cpus_per_task().saturating_mul(tasks) }
    }

    /// CPUs for each task.
    pub fn cpus_per_task(&self) -> u32 {
        self.cpus_per_task.unwrap_or(1).max(1)
    }
}
