//! What `sbatch` was asked for, resolved from the command line, the environment and the script.

use gpun_core::layout::Layout;
use gpun_core::spec::{ArrayRequest, JobSpec, MemoryRequest, OpenMode};
use gpun_core::{MemoryMib, TimeLimit, TimeMs};

use super::{Bad, Given, Source, gpus};
use crate::hostlist::{Hostlist, HostlistError};
use crate::time::Limit;
use crate::{array, constraint, count, dependency, license, memory, moment, signal};

/// Which variables of the caller's environment a job gets (`--export`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Export {
    /// All, and these set besides.
    All(Vec<(String, String)>),
    /// Only these names and the `SLURM_*` variables, and these set besides; the rest is a login's environment.
    Only(Vec<String>, Vec<(String, String)>),
}

impl Default for Export {
    fn default() -> Self {
        Self::All(Vec::new())
    }
}

impl Export {
    /// Reads `ALL`, `NONE`, `NIL`, `A,B=1,ALL`; a value may hold commas inside quotes.
    pub fn parse(text: &str) -> Self {
        let (mut all, mut names, mut set) = (false, Vec::new(), Vec::new());
        for part in split_quoted(text) {
            match part.split_once('=') {
                Some((name, value)) => set.push((name.to_owned(), value.to_owned())),
                None if part.eq_ignore_ascii_case("ALL") => all = true,
                None if part.eq_ignore_ascii_case("NONE") || part.eq_ignore_ascii_case("NIL") || part.is_empty() => {}
                None => names.push(part),
            }
        }
        if all { Self::All(set) } else { Self::Only(names, set) }
    }

    /// The job's environment, made of the caller's: NAME=VALUE as bytes, so that what is no UTF-8 passes through.
    pub fn apply(&self, caller: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>) -> Vec<(Vec<u8>, Vec<u8>)> {
        let (names, set) = match self {
            Self::All(set) => (None, set),
            Self::Only(names, set) => (Some(names), set),
        };
        let wanted = |name: &[u8]| {
            names.is_none_or(|n| n.iter().any(|w| w.as_bytes() == name) || name.starts_with(b"SLURM_"))
                && !set.iter().any(|(s, _)| s.as_bytes() == name)
        };
        let mut out: Vec<_> = caller.into_iter().filter(|(name, _)| wanted(name)).collect();
        out.extend(set.iter().map(|(n, v)| (n.clone().into_bytes(), v.clone().into_bytes())));
        out
    }

    /// Whether the rest of the environment is that of a fresh login.
    pub fn needs_login(&self) -> bool {
        matches!(self, Self::Only(..))
    }
}

/// Cuts at commas outside single and double quotes; the quotes go away.
fn split_quoted(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut quote = None;
    for c in text.chars() {
        match (c, quote) {
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(q)) if c == q => quote = None,
            (',', None) => parts.push(String::new()),
            (c, _) => {
                if let Some(last) = parts.last_mut() {
                    last.push(c);
                }
            }
        }
    }
    parts
}

/// Everything that a submission says. Made by [`super::sbatch::resolve`].
#[derive(Debug, Clone, Default)]
pub struct Submission {
    /// What the controller gets. Host names are expanded, times are resolved; what only the caller's process knows
    /// (`command`, `args`, `submit_line`, `umask`, `submit_host`, `rlimits`) is filled in by the command.
    pub spec: JobSpec,
    /// The text behind `--wrap`.
    pub wrap: Option<String>,
    /// Print the id and nothing else.
    pub parsable: bool,
    /// Wait for the end and give the job's exit code.
    pub wait: bool,
    /// No messages but errors.
    pub quiet: bool,
    /// How often `--verbose` was said.
    pub verbose: u32,
    /// Clusters to submit to; the text as given.
    pub clusters: Option<String>,
    /// Variables for the job.
    pub export: Export,
    /// The text behind `--export`, as the job sees it in `SLURM_EXPORT_ENV`; `None` where nothing or only `ALL` was said.
    pub export_text: Option<String>,
    /// Variables that tell the job which options were given: name and value.
    pub told: Vec<(&'static str, String)>,
    /// The file or descriptor behind `--export-file`.
    pub export_file: Option<String>,
    /// The environment of a login is read, for at most so many seconds (`--get-user-env`).
    pub user_env_s: Option<u64>,
    /// The file behind `--nodefile`.
    pub nodefile: Option<String>,
    /// User to run as, for the superuser (`--uid`): name or number.
    pub run_as: Option<String>,
    /// Group to run as, for the superuser (`--gid`): name or number.
    pub run_as_group: Option<String>,
    /// Only say whether the job would be accepted.
    pub test_only: bool,
    /// Lines of other batch systems stay comments.
    pub ignore_pbs: bool,
    /// Show help, usage or the version and do nothing else.
    pub show: Option<Show>,
    /// Where the value of each memory option came from.
    memory_from: [Option<Source>; 3],
    nodes_given: bool,
    pub(super) node_info_given: bool,
    /// What is ignored, in words for standard error.
    pub(super) ignored: Vec<String>,
    ntasks_given: bool,
}

/// A request to print something instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Show {
    /// `--help`.
    Help,
    /// `--usage`.
    Usage,
    /// `--version`.
    Version,
}

impl Submission {
    /// Checks that hold only for the whole, and fills in what follows from it. A warning may come back, for standard error.
    pub(super) fn finish(&mut self) -> Result<Option<String>, Bad> {
        let from: Vec<Source> = self.memory_from.into_iter().flatten().collect();
        if from.len() > 1 {
            let from_env = from.iter().all(|source| *source == Source::Environment);
            return Err(Bad::Fatal(if from_env {
                "SLURM_MEM_PER_CPU, SLURM_MEM_PER_GPU, and SLURM_MEM_PER_NODE are mutually exclusive.".to_owned()
            } else {
                "--mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive.".to_owned()
            }));
        }
        let spec = &mut self.spec;
        if !self.nodes_given && !spec.node_list.is_empty() {
            let listed = u32::try_from(spec.node_list.len()).unwrap_or(u32::MAX);
            (spec.nodes_min, spec.nodes_max) = (Some(listed), Some(listed));
        }
        if self.node_info_given && spec.ntasks.is_none() {
            let Layout { sockets_per_node, cores_per_socket, threads_per_core, .. } = spec.layout;
            let parts = [sockets_per_node, cores_per_socket, threads_per_core, Some(spec.nodes_min())];
            spec.ntasks = Some(parts.into_iter().flatten().fold(1, u32::saturating_mul));
        }
        gpus::finish(spec, self.nodes_given)?;
        if let Some(threads) = spec.layout.threads_per_core {
            self.told.push(("SLURM_THREADS_PER_CORE", threads.to_string()));
        }
        let spec = &mut self.spec;
        if !self.nodes_given
            && spec.nodes_min.is_none()
            && let (Some(tasks), Some(each)) = (spec.ntasks, spec.ntasks_per_node.filter(|n| *n > 0))
        {
            spec.nodes_min = Some(tasks.div_ceil(each));
        }
        Ok(self.fit_nodes_to_tasks())
    }

    /// More nodes than tasks make no sense: Slurm lowers the nodes and says so.
    fn fit_nodes_to_tasks(&mut self) -> Option<String> {
        let spec = &mut self.spec;
        let tasks = spec.ntasks.filter(|_| self.ntasks_given)?;
        if spec.nodes_max.is_some_and(|max| max > tasks) && spec.nodes_min() <= tasks {
            spec.nodes_max = Some(tasks);
        }
        let nodes = spec.nodes_min.filter(|n| *n > tasks)?;
        (spec.nodes_min, spec.nodes_max) = (Some(tasks), Some(tasks));
        Some(format!("can't run {tasks} processes on {nodes} nodes, setting nnodes to {tasks}"))
    }

    /// Tells the job of an option; the last value counts.
    pub(super) fn tell(&mut self, name: &'static str, value: &str) {
        self.told.retain(|(have, _)| *have != name);
        self.told.push((name, value.to_owned()));
    }

    /// Takes the nodes that a file names, as `--nodelist` would.
    pub fn use_nodes(&mut self, nodes: Vec<String>) {
        let spec = &mut self.spec;
        if !self.nodes_given {
            let listed = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
            (spec.nodes_min, spec.nodes_max) = (Some(listed), Some(listed));
        }
        spec.node_list = nodes;
    }

    pub(super) fn set_memory(&mut self, index: usize, given: &Given<'_>, request: MemoryRequest) {
        // The command line and the script are one level here: together they conflict. The environment gives way to the
        // command line and wins over the script.
        let level = |s: Source| s == Source::Environment;
        for (other, from) in self.memory_from.iter_mut().enumerate() {
            if other != index && from.is_some_and(|s| level(s) != level(given.source)) {
                *from = None;
            }
        }
        if let Some(from) = self.memory_from.get_mut(index) {
            *from = Some(given.source);
        }
        self.spec.memory = request;
    }
}

pub(super) type Set = Result<(), Bad>;

pub(super) fn text(given: &Given<'_>) -> Option<String> {
    Some(given.value.to_owned()).filter(|v| !v.is_empty())
}

/// A positive number for the option's own name.
pub(super) fn number(given: &Given<'_>) -> Result<Option<u32>, Bad> {
    count::positive(given.value, &given.flag.dashed()).map(Some).map_err(|e| Bad::Plain(e.to_string()))
}

pub(super) fn list(value: &str) -> Vec<String> {
    value.split(',').filter(|p| !p.is_empty()).map(str::to_owned).collect()
}

fn moment_ms(given: &Given<'_>) -> Result<TimeMs, Bad> {
    if given.value.is_empty() {
        return Err(Bad::Value);
    }
    let at = moment::parse(given.value, given.context.now_s, given.context.zone)
        .map_err(|e| Bad::ValueAfter(e.to_string()))?;
    Ok(TimeMs(u64::try_from(at).unwrap_or(0).saturating_mul(1000)))
}

pub(super) fn time_limit(given: &Given<'_>) -> Result<TimeLimit, Bad> {
    match Limit::parse_zero_infinite(given.value) {
        Ok(Limit::Seconds(s)) => Ok(TimeLimit::Seconds(s)),
        Ok(Limit::Infinite) => Ok(TimeLimit::Infinite),
        Err(_) => Err(Bad::Value),
    }
}

fn hosts(value: &str) -> Result<Vec<String>, HostlistError> {
    let mut list = Hostlist::parse(value)?;
    list.sort_unique();
    Ok(list.iter().collect())
}

/// How long a login may take where nothing is said, in seconds.
const USER_ENV_S: u64 = 120;

/// The functions of the rows, one an option.
pub(super) mod set {
    use super::*;

    pub fn nothing(_: &mut Submission, _: &Given<'_>) -> Set {
        Ok(())
    }
    pub fn account(o: &mut Submission, g: &Given<'_>) -> Set {
        o.spec.account = text(g);
        Ok(())
    }
    pub fn array(o: &mut Submission, g: &Given<'_>) -> Set {
        if g.value.is_empty() {
            o.spec.array = None;
            return Ok(());
        }
        let a = array::parse(g.value).map_err(|e| Bad::Plain(format!("Batch job submission failed: {e}")))?;
        o.spec.array = Some(ArrayRequest { tasks: a.tasks, max_running: a.max_running });
        Ok(())
    }
    pub fn begin(o: &mut Submission, g: &Given<'_>) -> Set {
        o.spec.begin = Some(moment_ms(g)?);
        Ok(())
    }
    pub fn deadline(o: &mut Submission, g: &Given<'_>) -> Set {
        o.spec.deadline = Some(moment_ms(g)?);
        Ok(())
    }
    pub fn dependency(o: &mut Submission, g: &Given<'_>) -> Set {
        let refused = |e: dependency::DependencyError| Bad::Plain(format!("Batch job submission failed: {e}"));
        o.spec.dependency = if g.value.is_empty() { None } else { Some(dependency::parse(g.value).map_err(refused)?) };
        Ok(())
    }
    pub fn export_file(o: &mut Submission, g: &Given<'_>) -> Set {
        o.export_file = text(g);
        Ok(())
    }
    pub fn get_user_env(o: &mut Submission, g: &Given<'_>) -> Set {
        // A mode may follow the time: `20S` and `20L` are 20 seconds.
        let digits = g.value.trim_end_matches(['s', 'S', 'l', 'L']);
        let seconds = if digits.is_empty() { Some(USER_ENV_S) } else { digits.parse().ok().filter(|s| *s > 0) };
        o.user_env_s = Some(seconds.ok_or(Bad::Value)?);
        Ok(())
    }
    pub fn nodefile(o: &mut Submission, g: &Given<'_>) -> Set {
        o.nodefile = text(g);
        Ok(())
    }
    pub fn uid(o: &mut Submission, g: &Given<'_>) -> Set {
        if !g.context.is_root {
            return Err(Bad::Text("--uid only permitted by root user".to_owned()));
        }
        o.run_as = text(g);
        Ok(())
    }
    pub fn gid(o: &mut Submission, g: &Given<'_>) -> Set {
        if !g.context.is_root {
            return Err(Bad::Text("--gid only permitted by root user".to_owned()));
        }
        o.run_as_group = text(g);
        Ok(())
    }
    pub fn licenses(o: &mut Submission, g: &Given<'_>) -> Set {
        let refused = |e: license::LicenseError| Bad::Plain(format!("Batch job submission failed: {e}"));
        o.spec.licenses = license::parse(g.value).map_err(refused)?;
        Ok(())
    }
    pub fn kill_on_invalid_dep(o: &mut Submission, g: &Given<'_>) -> Set {
        o.spec.kill_on_invalid_dep = Some(match g.value.to_ascii_lowercase().as_str() {
            "yes" => true,
            "no" => false,
            _ => return Err(Bad::Value),
        });
        Ok(())
    }
    pub fn chdir(o: &mut Submission, g: &Given<'_>) -> Set {
        o.spec.work_dir = g.value.to_owned();
        Ok(())
    }
    pub fn clusters(o: &mut Submission, g: &Given<'_>) -> Set {
        o.clusters = text(g);
        Ok(())
    }
    pub fn reservation(o: &mut Submission, g: &Given<'_>) -> Set {
        o.spec.reservation = text(g);
        Ok(())
    }
    pub fn comment(o: &mut Submission, g: &Given<'_>) -> Set {
        o.spec.comment = text(g);
        Ok(())
    }
    pub fn constraint(o: &mut Submission, g: &Given<'_>) -> Set {
        let asked = constraint::parse(g.value).map_err(|e| Bad::Plain(e.to_string()))?;
        (o.spec.features, o.spec.feature_sets, o.spec.features_text) = (asked.all, asked.any, asked.text);
        o.spec.features_same = asked.same;
        Ok(())
    }
    pub fn container_image(o: &mut Submission, g: &Given<'_>) -> Set {
        o.spec.container_image = text(g);
        Ok(())
    }
    pub fn container_mounts(o: &mut Submission, g: &Given<'_>) -> Set {
        o.spec.container_mounts = list(g.value);
        Ok(())
    }
    pub fn container_workdir(o: &mut Submission, g: &Given<'_>) -> Set {
        o.spec.container_workdir = text(g);
        Ok(())
    }
    pub fn contiguous(o: &mut Submission, _: &Given<'_>) -> Set {
        o.spec.contiguous = true;
        Ok(())
    }
    pub fn cpus_per_task(o: &mut Submission, g: &Given<'_>) -> Set {
        o.spec.cpus_per_task = number(g)?;
        Ok(())
    }
    pub fn error(o: &mut Submission, g: &Given<'_>) -> Set {
        o.spec.std_err = file(g.value);
        Ok(())
    }
    pub fn output(o: &mut Submission, g: &Given<'_>) -> Set {
        o.spec.std_out = file(g.value);
        Ok(())
    }
    pub fn input(o: &mut Submission, g: &Given<'_>) -> Set {
        o.spec.std_in = file(g.value);
        Ok(())
    }
    /// `none` is `/dev/null`.
    fn file(value: &str) -> Option<String> {
        Some(if value.eq_ignore_ascii_case("none") { "/dev/null".to_owned() } else { value.to_owned() })
    }
    pub fn exclude(o: &mut Submission, g: &Given<'_>) -> Set {
        let refused = |_| Bad::Plain("Batch job submission failed: Invalid node name specified".to_owned());
        o.spec.exclude = hosts(g.value).map_err(refused)?;
        Ok(())
    }
    pub fn nodelist(o: &mut Submission, g: &Given<'_>) -> Set {
        if g.value.contains('/') {
            return Err(Bad::Plain(format!(
                "--nodelist={}: node lists from files are not supported yet: write the names",
                g.value
            )));
        }
        o.spec.node_list = hosts(g.value).map_err(|_| Bad::Fatal("Invalid node list specified".to_owned()))?;
        Ok(())
    }
    pub fn exclusive(o: &mut Submission, g: &Given<'_>) -> Set {
        match g.value.to_ascii_lowercase().as_str() {
            "" | "exclusive" => o.spec.exclusive = true,
            "user" | "mcs" | "topo" => {
                let text = format!("--exclusive={} is not supported yet: use --exclusive for whole nodes", g.value);
                return Err(Bad::Plain(text));
            }
            _ => return Err(Bad::Value),
        }
        Ok(())
    }
    pub fn export(o: &mut Submission, g: &Given<'_>) -> Set {
        o.export = Export::parse(g.value);
        o.export_text = text(g).filter(|t| !t.eq_ignore_ascii_case("ALL"));
        Ok(())
    }
    pub fn test_only(o: &mut Submission, _: &Given<'_>) -> Set {
        o.test_only = true;
        Ok(())
    }
    pub fn hold(o: &mut Submission, _: &Given<'_>) -> Set {
        o.spec.hold = true;
        Ok(())
    }
    pub fn ignore_pbs(o: &mut Submission, _: &Given<'_>) -> Set {
        o.ignore_pbs = true;
        Ok(())
    }
    pub fn job_name(o: &mut Submission, g: &Given<'_>) -> Set {
        o.spec.name = g.value.to_owned();
        Ok(())
    }
    pub fn mem(o: &mut Submission, g: &Given<'_>) -> Set {
        let mib = memory::parse_mib(g.value).map_err(|_| Bad::Value)?;
        o.set_memory(0, g, MemoryRequest::PerNode(MemoryMib(mib)));
        Ok(())
    }
    pub fn mem_per_cpu(o: &mut Submission, g: &Given<'_>) -> Set {
        let mib = memory::parse_mib(g.value).map_err(|_| Bad::Value)?;
        // No memory for each CPU is all memory of the node, as for --mem=0.
        let request = match mib {
            0 => MemoryRequest::PerNode(MemoryMib(0)),
            m => MemoryRequest::PerCpu(MemoryMib(m)),
        };
        o.set_memory(1, g, request);
        Ok(())
    }
    pub fn nice(o: &mut Submission, g: &Given<'_>) -> Set {
        const MOST: i64 = 2_147_483_645;
        if g.value.is_empty() {
            o.spec.nice = 100;
            return Ok(());
        }
        let out = || Bad::Text(format!("Invalid --nice value, out of range (+/- {MOST})"));
        let number: i64 = match g.value.parse() {
            Ok(n) => n,
            Err(_) if g.value.trim_start_matches(['-', '+']).bytes().all(|b| b.is_ascii_digit()) => return Err(out()),
            Err(_) => return Err(Bad::Value),
        };
        if number.abs() > MOST {
            return Err(out());
        }
        if number < 0 && !g.context.is_root {
            return Err(Bad::Plain("Batch job submission failed: Invalid --nice value".to_owned()));
        }
        o.spec.nice = i32::try_from(number).map_err(|_| out())?;
        Ok(())
    }
    pub fn nodes(o: &mut Submission, g: &Given<'_>) -> Set {
        let range = count::nodes(g.value).map_err(|e| Bad::Text(e.to_string()))?;
        if range.max == 0 {
            return Err(Bad::Text(format!("\"{}\" is not a valid node count", g.value)));
        }
        (o.spec.nodes_min, o.spec.nodes_max) = (Some(range.min), Some(range.max));
        o.nodes_given = true;
        Ok(())
    }
    pub fn ntasks(o: &mut Submission, g: &Given<'_>) -> Set {
        o.spec.ntasks = number(g)?;
        o.ntasks_given = true;
        Ok(())
    }
    pub fn ntasks_per_node(o: &mut Submission, g: &Given<'_>) -> Set {
        o.spec.ntasks_per_node = number(g)?;
        Ok(())
    }
    pub fn open_mode(o: &mut Submission, g: &Given<'_>) -> Set {
        o.spec.open_mode = Some(match g.value.chars().next() {
            Some('a' | 'A') if "append".starts_with(&g.value.to_ascii_lowercase()) => OpenMode::Append,
            Some('t' | 'T') if "truncate".starts_with(&g.value.to_ascii_lowercase()) => OpenMode::Truncate,
            _ => return Err(Bad::Value),
        });
        Ok(())
    }
    pub fn overcommit(o: &mut Submission, _: &Given<'_>) -> Set {
        o.spec.overcommit = true;
        Ok(())
    }
    pub fn oversubscribe(o: &mut Submission, _: &Given<'_>) -> Set {
        o.spec.oversubscribe = Some(true);
        Ok(())
    }
    pub fn parsable(o: &mut Submission, _: &Given<'_>) -> Set {
        o.parsable = true;
        Ok(())
    }
    pub fn partition(o: &mut Submission, g: &Given<'_>) -> Set {
        let names = list(g.value);
        if names.is_empty() {
            return Err(Bad::Plain(
                "invalid partition specified: (null)\nBatch job submission failed: Invalid partition name specified"
                    .to_owned(),
            ));
        }
        o.spec.partitions = names;
        Ok(())
    }
    pub fn priority(o: &mut Submission, g: &Given<'_>) -> Set {
        if g.value.eq_ignore_ascii_case("TOP") {
            o.spec.priority = Some(u32::MAX - 1);
            return Ok(());
        }
        let number: i64 = match g.value.parse() {
            Ok(n) => n,
            Err(_) if !g.value.is_empty() && g.value.bytes().all(|b| b.is_ascii_digit()) => i64::MAX,
            Err(_) => return Err(Bad::Value),
        };
        if number < 0 {
            return Err(Bad::Text("Priority must be >= 0".to_owned()));
        }
        let number = u32::try_from(number).ok().filter(|n| *n < u32::MAX - 1);
        o.spec.priority = Some(number.ok_or_else(|| Bad::Text("Priority must be < 4294967294".to_owned()))?);
        Ok(())
    }
    pub fn qos(o: &mut Submission, g: &Given<'_>) -> Set {
        o.spec.qos = text(g);
        Ok(())
    }
    pub fn quiet(o: &mut Submission, _: &Given<'_>) -> Set {
        o.quiet = true;
        Ok(())
    }
    pub fn requeue(o: &mut Submission, _: &Given<'_>) -> Set {
        o.spec.requeue = Some(true);
        Ok(())
    }
    pub fn no_requeue(o: &mut Submission, _: &Given<'_>) -> Set {
        o.spec.requeue = Some(false);
        Ok(())
    }
    pub fn signal(o: &mut Submission, g: &Given<'_>) -> Set {
        o.spec.warn = Some(signal::parse_warning(g.value).ok_or(Bad::Value)?);
        Ok(())
    }
    pub fn time(o: &mut Submission, g: &Given<'_>) -> Set {
        o.spec.time_limit = Some(time_limit(g)?);
        Ok(())
    }
    pub fn time_min(o: &mut Submission, g: &Given<'_>) -> Set {
        match Limit::parse(g.value) {
            Ok(Limit::Seconds(s)) if s > 0 => o.spec.time_min = Some(TimeLimit::Seconds(s)),
            Ok(_) => {
                let text =
                    "Batch job submission failed: Invalid time-min specification (exceeds job's time or other limits)";
                return Err(Bad::Plain(text.to_owned()));
            }
            Err(_) => return Err(Bad::Value),
        }
        Ok(())
    }
    pub fn tmp(o: &mut Submission, g: &Given<'_>) -> Set {
        o.spec.tmp_disk = Some(MemoryMib(memory::parse_mib(g.value).map_err(|_| Bad::Value)?));
        Ok(())
    }
    pub fn verbose(o: &mut Submission, _: &Given<'_>) -> Set {
        o.verbose = o.verbose.saturating_add(1);
        Ok(())
    }
    pub fn wait(o: &mut Submission, _: &Given<'_>) -> Set {
        o.wait = true;
        Ok(())
    }
    pub fn wckey(o: &mut Submission, g: &Given<'_>) -> Set {
        o.spec.wckey = text(g);
        Ok(())
    }
    pub fn wrap(o: &mut Submission, g: &Given<'_>) -> Set {
        // Slurm takes no heed of --wrap inside a script.
        if g.source == Source::CommandLine {
            o.wrap = Some(g.value.to_owned());
        }
        Ok(())
    }
    pub fn help(o: &mut Submission, g: &Given<'_>) -> Set {
        show(o, g, Show::Help)
    }
    pub fn usage(o: &mut Submission, g: &Given<'_>) -> Set {
        show(o, g, Show::Usage)
    }
    pub fn version(o: &mut Submission, g: &Given<'_>) -> Set {
        show(o, g, Show::Version)
    }
    fn show(o: &mut Submission, g: &Given<'_>, what: Show) -> Set {
        if g.source == Source::CommandLine && o.show.is_none() {
            o.show = Some(what);
        }
        Ok(())
    }
}
