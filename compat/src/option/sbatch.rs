//! `sbatch`: every option of Slurm 24.11, and how they become a job.

use super::Support::{Done, Harmless, Refused};
use super::Takes::{Nothing, Optional, Value};
use super::submission::{Submission, set};
use super::{Command, Context, Flag, Given, OptionError, Row, Source, Support, Takes, getopt, gpus, layout, man};
use crate::directive::{Directives, ScriptError};

type Set = fn(&mut Submission, &Given<'_>) -> Result<(), super::Bad>;

const fn row(
    long: &'static str,
    short: Option<char>,
    takes: Takes,
    env: &'static [&'static str],
    support: Support,
    set: Set,
    help: &'static str,
) -> Row<Submission> {
    Row { flag: Flag { long, short, takes, env, help, man: man::of(man::SUBMISSION, long), support }, set }
}

const fn refused(
    long: &'static str,
    short: Option<char>,
    takes: Takes,
    env: &'static [&'static str],
    help: &'static str,
    why: &'static str,
) -> Row<Submission> {
    row(long, short, takes, env, Refused(why), set::nothing, help)
}

const LATER: &str = "it comes in a later release; leave it out";
const NEVER: &str = "there is nothing like it here; leave it out";

/// How `sbatch` reads its command line.
pub const COMMAND: Command<Submission> =
    Command { program: "sbatch", rows: ROWS, bad_option_status: 255, options_first: true };

/// The options, sorted by name.
#[rustfmt::skip]
pub static ROWS: &[Row<Submission>] = &[
    row("account", Some('A'), Value("name"), &["SBATCH_ACCOUNT"], Done, set::account, "account to charge"),
    refused("acctg-freq", None, Value("freq"), &["SBATCH_ACCTG_FREQ"], "how often usage is sampled", "usage is always measured by the kernel; leave it out"),
    row("array", Some('a'), Value("indexes"), &["SBATCH_ARRAY_INX"], Done, set::array, "make an array of these task numbers, such as 0-15:4%2"),
    row("batch", None, Value("features"), &["SBATCH_BATCH"], Done, layout::batch, "features of the node that runs the script, among those of --constraint"),
    refused("bb", None, Value("spec"), &[], "burst buffer", NEVER),
    refused("bbf", None, Value("file"), &[], "burst buffer, from a file", NEVER),
    row("begin", Some('b'), Value("time"), &[], Done, set::begin, "do not start before this time (16:00, tomorrow, now+2hours, 2030-01-02T03:04)"),
    row("chdir", Some('D'), Value("directory"), &[], Done, set::chdir, "run the script in this folder"),
    refused("cluster-constraint", None, Value("list"), &["SBATCH_CLUSTER_CONSTRAINT"], "features of the cluster to submit to", NEVER),
    row("clusters", Some('M'), Value("names"), &["SBATCH_CLUSTERS", "SLURM_CLUSTERS"], Done, set::clusters, "cluster to submit to; only this one's own name"),
    row("comment", None, Value("text"), &[], Done, set::comment, "free text, shown by squeue and scontrol"),
    row("constraint", Some('C'), Value("features"), &["SBATCH_CONSTRAINT"], Done, set::constraint, "features that every node must have, joined by & and |"),
    refused("container", None, Value("path"), &["SBATCH_CONTAINER"], "OCI bundle to run in", "use --container-image with an OCI layout or a tarball"),
    refused("container-env", None, Value("names"), &[], "variables to take from the caller instead of the image", LATER),
    refused("container-id", None, Value("id"), &["SBATCH_CONTAINER_ID"], "id of the container", "the name is made of the job's id; leave it out"),
    row("container-image", None, Value("image"), &["SBATCH_CONTAINER_IMAGE"], Done, set::container_image, "image to run in: an OCI layout or a tarball"),
    row("container-mounts", None, Value("list"), &["SBATCH_CONTAINER_MOUNTS"], Done, set::container_mounts, "what to mount in the container, SOURCE:TARGET[:ro], comma separated"),
    refused("container-name", None, Value("name"), &[], "name of a container to keep", LATER),
    refused("container-remap-root", None, Nothing, &[], "be root inside the container", LATER),
    row("container-workdir", None, Value("directory"), &["SBATCH_CONTAINER_WORKDIR"], Done, set::container_workdir, "folder inside the container to start in"),
    refused("container-writable", None, Nothing, &[], "let the job change the image's files", LATER),
    row("contiguous", None, Nothing, &[], Done, set::contiguous, "neighbouring nodes only"),
    row("core-spec", Some('S'), Value("cores"), &["SBATCH_CORE_SPEC"], Done, layout::core_spec, "cores kept for the system: said to be ignored, as AllowSpecResourcesUsage is not offered"),
    row("cores-per-socket", None, Value("n"), &[], Done, layout::cores_per_socket, "least cores of a socket"),
    refused("cpu-freq", None, Value("spec"), &["SLURM_CPU_FREQ_REQ"], "CPU frequency", NEVER),
    row("cpus-per-gpu", None, Value("n"), &["SBATCH_CPUS_PER_GPU"], Done, gpus::cpus_per_gpu, "CPUs for each GPU"),
    row("cpus-per-task", Some('c'), Value("n"), &[], Done, set::cpus_per_task, "CPUs for each task"),
    row("deadline", None, Value("time"), &[], Done, set::deadline, "give the job up if it cannot end by this time"),
    refused("delay-boot", None, Value("minutes"), &["SBATCH_DELAY_BOOT"], "how long to wait for nodes with the features", NEVER),
    row("dependency", Some('d'), Value("list"), &[], Done, set::dependency, "wait for other jobs: after, afterany, afterok, afternotok or aftercorr:ID[_TASK][:ID...], singleton; joined by , for all or ? for any"),
    row("distribution", Some('m'), Value("method"), &["SBATCH_DISTRIBUTION"], Done, layout::distribution, "how tasks are laid over nodes"),
    row("error", Some('e'), Value("file"), &["SBATCH_ERROR"], Done, set::error, "file for standard error; follows --output if not given"),
    row("exclude", Some('x'), Value("nodes"), &[], Done, set::exclude, "nodes that are not to be used"),
    row("exclusive", None, Optional("user|mcs|topo"), &["SBATCH_EXCLUSIVE"], Done, set::exclusive, "whole nodes, shared with no other job"),
    row("export", None, Optional("names"), &["SBATCH_EXPORT"], Done, set::export, "variables for the job: ALL, NONE, or names and NAME=VALUE, comma separated"),
    row("export-file", None, Value("file|fd"), &[], Done, set::export_file, "variables for the job from a file of NAME=VALUE ended by NUL, or from an open file's number"),
    row("extra", None, Value("text"), &[], Done, layout::extra, "free text for scheduling plugins"),
    row("extra-node-info", Some('B'), Value("s[:c[:t]]"), &[], Done, layout::extra_node_info, "least sockets, cores and threads of a node"),
    row("get-user-env", None, Optional("timeout"), &["SBATCH_GET_USER_ENV"], Done, set::get_user_env, "take the environment of a login, read at the submission"),
    row("gid", None, Value("group"), &[], Done, set::gid, "group to run as, for root"),
    row("gpu-bind", None, Value("type"), &["SBATCH_GPU_BIND"], Done, layout::gpu_bind, "how tasks are bound to GPUs"),
    refused("gpu-freq", None, Value("spec"), &["SBATCH_GPU_FREQ"], "GPU frequency", NEVER),
    row("gpus", Some('G'), Value("[type:]n"), &["SBATCH_GPUS"], Done, gpus::gpus, "GPUs for the whole job"),
    row("gpus-per-node", None, Value("[type:]n"), &["SBATCH_GPUS_PER_NODE"], Done, gpus::gpus_per_node, "GPUs on each node"),
    row("gpus-per-socket", None, Value("[type:]n"), &[], Done, gpus::gpus_per_socket, "GPUs for each socket"),
    row("gpus-per-task", None, Value("[type:]n"), &["SBATCH_GPUS_PER_TASK"], Done, gpus::gpus_per_task, "GPUs for each task"),
    row("gres", None, Value("list"), &["SBATCH_GRES"], Done, gpus::gres, "generic resources on each node, such as gpu:a100:2"),
    row("gres-flags", None, Value("flags"), &["SBATCH_GRES_FLAGS"], Done, layout::gres_flags, "how generic resources are bound"),
    row("help", Some('h'), Nothing, &[], Done, set::help, "show this help"),
    row("hint", None, Value("type"), &["SBATCH_HINT", "SLURM_HINT"], Done, layout::hint, "what the job needs most: compute_bound, memory_bound, multithread, nomultithread"),
    row("hold", Some('H'), Nothing, &[], Done, set::hold, "submit held; scontrol release lets it run"),
    row("ignore-pbs", None, Nothing, &["SBATCH_IGNORE_PBS"], Done, set::ignore_pbs, "take no heed of #PBS and #BSUB lines"),
    row("input", Some('i'), Value("file"), &["SBATCH_INPUT"], Done, set::input, "file for standard input"),
    row("job-name", Some('J'), Value("name"), &["SBATCH_JOB_NAME"], Done, set::job_name, "name of the job"),
    row("kill-on-invalid-dep", None, Value("yes|no"), &[], Done, set::kill_on_invalid_dep, "cancel the job once its dependency cannot be met any more"),
    row("licenses", Some('L'), Value("names"), &[], Done, set::licenses, "licences that the job needs, NAME[:COUNT], comma separated"),
    refused("mail-type", None, Value("events"), &[], "when to send mail", "mail comes in a later release; leave it out"),
    refused("mail-user", None, Value("address"), &[], "whom to send mail", "mail comes in a later release; leave it out"),
    refused("mcs-label", None, Value("label"), &[], "security label", NEVER),
    row("mem", None, Value("size"), &["SBATCH_MEM_PER_NODE"], Done, set::mem, "memory on each node, with K, M, G or T; 0 is all of it"),
    row("mem-bind", None, Value("type"), &["SBATCH_MEM_BIND"], Done, layout::mem_bind, "how tasks are bound to memory"),
    row("mem-per-cpu", None, Value("size"), &["SBATCH_MEM_PER_CPU"], Done, set::mem_per_cpu, "memory for each CPU"),
    row("mem-per-gpu", None, Value("size"), &["SBATCH_MEM_PER_GPU"], Done, gpus::mem_per_gpu, "memory for each GPU"),
    row("mincpus", None, Value("n"), &[], Done, layout::mincpus, "least CPUs of a node"),
    refused("network", None, Value("spec"), &["SBATCH_NETWORK"], "network to use", NEVER),
    row("nice", None, Optional("value"), &[], Done, set::nice, "lower the priority by this (100 if not said)"),
    row("no-kill", Some('k'), Optional("off"), &["SBATCH_NO_KILL"], Done, layout::no_kill, "go on when a node is lost that does not run the script"),
    row("no-requeue", None, Nothing, &["SBATCH_NO_REQUEUE"], Done, set::no_requeue, "never put the job back into the queue"),
    row("nodefile", Some('F'), Value("file"), &[], Done, set::nodefile, "nodes to use, from a file"),
    row("nodelist", Some('w'), Value("nodes"), &[], Done, set::nodelist, "nodes that must be among those used"),
    row("nodes", Some('N'), Value("min[-max]"), &[], Done, set::nodes, "number of nodes"),
    row("ntasks", Some('n'), Value("n"), &[], Done, set::ntasks, "number of tasks"),
    row("ntasks-per-core", None, Value("n"), &[], Done, layout::ntasks_per_core, "most tasks on a core"),
    row("ntasks-per-gpu", None, Value("n"), &[], Done, gpus::ntasks_per_gpu, "tasks for each GPU"),
    row("ntasks-per-node", None, Value("n"), &[], Done, set::ntasks_per_node, "tasks on each node"),
    row("ntasks-per-socket", None, Value("n"), &[], Done, layout::ntasks_per_socket, "most tasks on a socket"),
    refused("oom-kill-step", None, Optional("0|1"), &["SBATCH_OOM_KILL_STEP"], "end the whole step when one task is out of memory", LATER),
    row("open-mode", None, Value("append|truncate"), &["SBATCH_OPEN_MODE"], Done, set::open_mode, "how output files that exist are opened"),
    row("output", Some('o'), Value("file"), &["SBATCH_OUTPUT"], Done, set::output, "file for standard output; slurm-%j.out if not given"),
    row("overcommit", Some('O'), Nothing, &["SBATCH_OVERCOMMIT"], Done, set::overcommit, "more tasks than CPUs are fine"),
    row("oversubscribe", Some('s'), Nothing, &[], Done, set::oversubscribe, "CPUs may be shared with jobs that say the same"),
    row("parsable", None, Nothing, &[], Done, set::parsable, "print only the job's id, and ;CLUSTER if one was named"),
    row("partition", Some('p'), Value("names"), &["SBATCH_PARTITION"], Done, set::partition, "partition to run in; the first of several that can"),
    row("prefer", None, Value("features"), &[], Done, layout::prefer, "features that nodes should have; others are used where none is free"),
    row("priority", None, Value("value"), &[], Done, set::priority, "a fixed priority, for operators; or TOP"),
    refused("profile", None, Value("type"), &["SBATCH_PROFILE"], "record a profile", NEVER),
    row("propagate", None, Optional("limits"), &[], Harmless("the submitter's resource limits are always carried over"), set::nothing, "carry the resource limits over"),
    row("qos", Some('q'), Value("name"), &["SBATCH_QOS"], Done, set::qos, "quality of service"),
    row("quiet", Some('Q'), Nothing, &[], Done, set::quiet, "print nothing but errors"),
    refused("reboot", None, Nothing, &[], "reboot the nodes first", NEVER),
    row("requeue", None, Nothing, &["SBATCH_REQUEUE"], Done, set::requeue, "put the job back into the queue if its node is lost"),
    row("reservation", None, Value("name"), &["SBATCH_RESERVATION"], Done, set::reservation, "reservation to run in"),
    refused("resv-ports", None, Optional("n"), &[], "reserve ports", NEVER),
    refused("segment", None, Value("n"), &[], "nodes of one block of the topology", NEVER),
    row("signal", None, Value("[B:]sig[@seconds]"), &["SBATCH_SIGNAL"], Done, set::signal, "send a signal before the time is over (60 seconds if not said)"),
    row("sockets-per-node", None, Value("n"), &[], Done, layout::sockets_per_node, "least sockets of a node"),
    row("spread-job", None, Nothing, &["SBATCH_SPREAD_JOB"], Done, layout::spread_job, "use as many nodes as possible"),
    refused("stepmgr", None, Nothing, &[], "manage steps on the first node", "steps are always managed on the nodes; leave it out"),
    refused("switches", None, Value("n[@time]"), &["SBATCH_REQ_SWITCH"], "most switches between the nodes", NEVER),
    row("tasks-per-node", None, Value("n"), &[], Done, set::ntasks_per_node, "the same as --ntasks-per-node"),
    row("test-only", None, Nothing, &[], Done, set::test_only, "say whether the job would be accepted, and submit nothing"),
    row("thread-spec", None, Value("n"), &["SBATCH_THREAD_SPEC"], Done, layout::core_spec, "threads kept for the system: said to be ignored, as --core-spec"),
    row("threads-per-core", None, Value("n"), &["SBATCH_THREADS_PER_CORE"], Done, layout::threads_per_core, "least threads of a core; no more are used"),
    row("time", Some('t'), Value("limit"), &["SBATCH_TIMELIMIT"], Done, set::time, "limit of the run time: minutes, M:S, H:M:S, D-H, D-H:M, D-H:M:S"),
    row("time-min", None, Value("limit"), &[], Done, set::time_min, "the shortest limit that is of use"),
    row("tmp", None, Value("size"), &[], Done, set::tmp, "least temporary disk of a node"),
    row("tres-bind", None, Value("spec"), &["SBATCH_TRES_BIND"], Done, layout::tres_bind, "how tasks are bound to resources"),
    row("tres-per-task", None, Value("list"), &["SBATCH_TRES_PER_TASK"], Done, gpus::tres_per_task, "resources for each task"),
    row("uid", None, Value("user"), &[], Done, set::uid, "user to run as, for root"),
    row("usage", None, Nothing, &[], Done, set::usage, "show the options in short"),
    row("use-min-nodes", None, Nothing, &["SBATCH_USE_MIN_NODES"], Harmless("the fewest nodes that fit are always preferred"), set::nothing, "prefer fewer nodes"),
    row("verbose", Some('v'), Nothing, &["SBATCH_DEBUG"], Done, set::verbose, "say more; may be repeated"),
    row("version", Some('V'), Nothing, &[], Done, set::version, "show the version"),
    row("wait", Some('W'), Nothing, &["SBATCH_WAIT"], Done, set::wait, "return when the job has ended, with its exit code"),
    refused("wait-all-nodes", None, Value("0|1"), &["SBATCH_WAIT_ALL_NODES"], "start when all nodes are ready", "a job always starts when all its nodes are ready; leave it out"),
    row("wckey", None, Value("key"), &["SBATCH_WCKEY"], Done, set::wckey, "workload characterization key"),
    row("wrap", None, Value("command"), &[], Done, set::wrap, "run this command instead of a script"),
];

/// A command line of `sbatch`, cut but not yet understood.
#[derive(Debug, Clone)]
pub struct Line {
    /// The options of each component; one list where there is no `:`.
    components: Vec<Vec<getopt::Found>>,
    /// The script's file, if one is named.
    pub script: Option<String>,
    /// The script's arguments.
    pub args: Vec<String>,
}

/// What separates components on a command line.
const SEPARATOR: &str = ":";

/// Most components of one job.
const COMPONENTS_MAX: usize = 128;

/// Options that are said once for all components: those behind take them from those before.
const FOR_ALL: &[&str] = &[
    "account",
    "begin",
    "chdir",
    "clusters",
    "comment",
    "deadline",
    "dependency",
    "error",
    "export",
    "export-file",
    "get-user-env",
    "gid",
    "hold",
    "ignore-pbs",
    "input",
    "job-name",
    "kill-on-invalid-dep",
    "mail-type",
    "mail-user",
    "nice",
    "no-requeue",
    "open-mode",
    "output",
    "parsable",
    "priority",
    "qos",
    "quiet",
    "requeue",
    "signal",
    "test-only",
    "uid",
    "verbose",
    "wait",
    "wckey",
    "wrap",
];

/// The options of one component with what it takes from those before.
fn inherited(components: &[Vec<getopt::Found>], at: usize) -> Vec<getopt::Found> {
    let for_all = |found: &&getopt::Found| ROWS.get(found.index).is_some_and(|row| FOR_ALL.contains(&row.flag.long));
    let before = components.iter().take(at).flatten().filter(for_all);
    // A script with more components than the command line has goes on with what is said for all.
    before.chain(components.get(at).into_iter().flatten()).cloned().collect()
}

impl Line {
    /// Cuts a command line, without the program's name.
    ///
    /// # Errors
    /// What `getopt_long` says, with exit status 255; and more components than a job may have.
    pub fn parse(args: &[String]) -> Result<Self, OptionError> {
        let mut components = Vec::new();
        let mut rest = args.to_vec();
        loop {
            let parsed = COMMAND.split(&rest)?;
            components.push(parsed.options);
            let mut operands = parsed.operands.into_iter();
            let script = operands.next();
            if script.as_deref() != Some(SEPARATOR) {
                return Ok(Self { components, script, args: operands.collect() });
            }
            if components.len() >= COMPONENTS_MAX {
                let text = format!("more than {COMPONENTS_MAX} components: submit several jobs");
                return Err(OptionError::new(COMMAND.program, &text, 1));
            }
            rest = operands.collect();
        }
    }

    /// What must be known before the script is read: `--help`, `--wrap`, `--ignore-pbs` and so on.
    ///
    /// # Errors
    /// A value that is refused; and script arguments beside `--wrap`.
    pub fn peek(&self, context: &Context<'_>) -> Result<Submission, OptionError> {
        let mut seen = Submission::default();
        let last = self.components.len().saturating_sub(1);
        COMMAND.apply(&mut seen, &inherited(&self.components, last), Source::CommandLine, context)?;
        if seen.wrap.is_some() && self.script.is_some() {
            return Err(OptionError::new(COMMAND.program, "Script arguments not permitted with --wrap option", 1));
        }
        Ok(seen)
    }
}

/// What came of a submission's three sources.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The submission, or the first component of it.
    pub submission: Submission,
    /// Further components of a heterogeneous job.
    pub components: Vec<Submission>,
    /// For standard error, complete with prefix and line end; empty if there is nothing to say.
    pub warning: String,
}

/// Puts directives, environment and command line together; later ones win.
///
/// # Errors
/// The first thing that is refused, as `sbatch` prints it.
pub fn resolve(
    line: &Line,
    directives: &Directives,
    env: &dyn Fn(&str) -> Option<String>,
    context: &Context<'_>,
) -> Result<Resolved, OptionError> {
    let texts = std::iter::once(&directives.args).chain(&directives.further);
    let scripts = texts.map(|args| directive_options(args)).collect::<Result<Vec<_>, _>>()?;
    let foreign = COMMAND.split(&directives.foreign)?;
    let mut warning = String::new();
    if directives.old_separator {
        let text = "The \"packjob\" component separator is deprecated. Please use \"hetjob\" instead.";
        warning.push_str(&format!("{}: warning: {text}\n", COMMAND.program));
    }
    let count = scripts.len().max(line.components.len());
    let mut all = Vec::with_capacity(count);
    for at in 0..count {
        let mut out = Submission::default();
        COMMAND.apply(&mut out, &inherited(&scripts, at), Source::Script, context)?;
        COMMAND.apply(&mut out, &foreign.options, Source::Script, context)?;
        COMMAND.apply_env(&mut out, env, context)?;
        COMMAND.apply(&mut out, &inherited(&line.components, at), Source::CommandLine, context)?;
        let said = out.finish().map_err(|bad| COMMAND.report(&COMMAND.rows[0].flag, bad))?;
        warning.extend(out.ignored.drain(..).map(|text| format!("{}: error: {text}\n", COMMAND.program)));
        warning.extend(said.map(|text| format!("{}: warning: {text}\n", COMMAND.program)));
        all.push(out);
    }
    share(&mut all);
    let submission = all.remove(0);
    Ok(Resolved { submission, components: all, warning })
}

/// What holds all components back holds each of them, wherever it was said.
fn share(all: &mut [Submission]) {
    let hold = all.iter().any(|one| one.spec.hold);
    let begin = all.iter().filter_map(|one| one.spec.begin).max();
    let dependency = all.iter().find_map(|one| one.spec.dependency.clone());
    for one in all {
        one.spec.hold = hold;
        one.spec.begin = begin;
        one.spec.dependency.clone_from(&dependency);
    }
}

fn directive_options(args: &[String]) -> Result<Vec<getopt::Found>, OptionError> {
    let parsed = COMMAND.split(args)?;
    match parsed.operands.first() {
        Some(stray) => {
            let text = format!("Invalid directive found in batch script: {stray}");
            Err(OptionError::new(COMMAND.program, &text, COMMAND.bad_option_status))
        }
        None => Ok(parsed.options),
    }
}

/// A script's error as an option error, for one way of reporting.
impl From<ScriptError> for OptionError {
    fn from(e: ScriptError) -> Self {
        Self { text: e.report(COMMAND.program), status: e.status() }
    }
}

/// The script that `--wrap` stands for.
pub fn wrapped(command: &str) -> String {
    format!("#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{command}\n")
}

/// What `sbatch` prints on standard output: `Submitted batch job 7`, or `7;cluster` with `--parsable`.
pub fn submitted(job: u32, submission: &Submission) -> String {
    match (submission.parsable, &submission.clusters) {
        (true, None) => format!("{job}\n"),
        (true, Some(cluster)) => format!("{job};{cluster}\n"),
        (false, _) if submission.quiet => String::new(),
        (false, None) => format!("Submitted batch job {job}\n"),
        (false, Some(cluster)) => format!("Submitted batch job {job} on cluster {cluster}\n"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use gpun_core::spec::MemoryRequest;
    use gpun_core::{MemoryMib, TimeLimit, TimeMs};
    use jiff::tz::TimeZone;

    use super::*;
    use crate::directive;

    const NOW_S: i64 = 1_796_100_370;

    /// `VAR=x ... sbatch args`, split at blanks; `_` stands for a blank inside a word.
    fn run(line: &str, script: &str) -> Result<Resolved, (i32, String)> {
        let words: Vec<String> = line.split(' ').filter(|w| !w.is_empty()).map(|w| w.replace('_', " ")).collect();
        let at = words.iter().position(|w| w == "sbatch").unwrap();
        let env: BTreeMap<String, String> = words[..at]
            .iter()
            .map(|w| w.split_once('=').unwrap())
            .map(|(k, v)| (k.replace(' ', "_"), v.to_owned()))
            .collect();
        let context = Context { now_s: NOW_S, zone: &TimeZone::UTC, is_root: false };
        let go = || {
            let line = Line::parse(&words[at + 1..])?;
            let peek = line.peek(&context)?;
            let body = peek.wrap.as_deref().map_or_else(|| format!("#!/bin/sh\n{script}"), wrapped);
            let directives = directive::extract(body.as_bytes(), "job.sh", peek.ignore_pbs)?;
            resolve(&line, &directives, &|name| env.get(name).cloned(), &context)
        };
        go().map_err(|e: OptionError| (e.status, e.text))
    }

    fn spec(line: &str, script: &str) -> gpun_core::spec::JobSpec {
        run(line, script).unwrap_or_else(|e| panic!("{line}: {e:?}")).submission.spec
    }

    #[test]
    fn bad_options_are_refused_in_slurms_words() {
        let try_help = "Try \"sbatch --help\" for more information\n";
        for (line, script, status, text) in [
            ("sbatch --wrap=a b", "", 1, "sbatch: error: Script arguments not permitted with --wrap option\n".to_owned()),
            ("sbatch --bogus", "", 255, format!("sbatch: unrecognized option '--bogus'\n{try_help}")),
            ("sbatch -Z", "", 255, format!("sbatch: invalid option -- 'Z'\n{try_help}")),
            ("sbatch -J", "", 255, format!("sbatch: option requires an argument -- 'J'\n{try_help}")),
            (
                "sbatch --ver",
                "",
                255,
                format!("sbatch: option '--ver' is ambiguous; possibilities: '--verbose' '--version'\n{try_help}"),
            ),
            (
                "sbatch --no",
                "",
                255,
                format!(
                    "sbatch: option '--no' is ambiguous; possibilities: '--no-kill' '--no-requeue' '--nodefile' '--nodelist' '--nodes'\n{try_help}"
                ),
            ),
            ("sbatch f", "#SBATCH --bogus=1\n", 255, format!("sbatch: unrecognized option '--bogus=1'\n{try_help}")),
            ("sbatch f", "#SBATCH -n\n", 255, format!("sbatch: option requires an argument -- 'n'\n{try_help}")),
            ("sbatch f", "#SBATCH -n 0\n", 1, "sbatch: error: Invalid numeric value \"0\" for --ntasks.\n".to_owned()),
            ("sbatch f", "#SBATCH -t abc\n", 255, "sbatch: error: Invalid --time specification\n".to_owned()),
            (
                "sbatch f",
                "#SBATCH -J foo extra args\n",
                255,
                "sbatch: error: Invalid directive found in batch script: extra\n".to_owned(),
            ),
            (
                "sbatch f",
                "#SBATCH -D /home/u/work with space\n",
                255,
                "sbatch: error: Invalid directive found in batch script: with\n".to_owned(),
            ),
            ("sbatch -t banana f", "", 255, "sbatch: error: Invalid --time specification\n".to_owned()),
            ("sbatch --mem=1.5G f", "", 255, "sbatch: error: Invalid --mem specification\n".to_owned()),
            (
                "sbatch --mem=1 --mem-per-cpu=1 f",
                "",
                1,
                "sbatch: fatal: --mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive.\n".to_owned(),
            ),
            (
                "sbatch --mem-per-cpu=50 f",
                "#SBATCH --mem=100\n",
                1,
                "sbatch: fatal: --mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive.\n".to_owned(),
            ),
            (
                "SBATCH_MEM_PER_NODE=5 SBATCH_MEM_PER_CPU=5 sbatch f",
                "",
                1,
                "sbatch: fatal: SLURM_MEM_PER_CPU, SLURM_MEM_PER_GPU, and SLURM_MEM_PER_NODE are mutually exclusive.\n".to_owned(),
            ),
            (
                "sbatch --begin=now+5min f",
                "",
                255,
                "Invalid time specification (pos=4): now+5min\nsbatch: error: Invalid --begin specification\n".to_owned(),
            ),
            ("sbatch -N 2-1 f", "", 255, "sbatch: error: Maximum node count 1 is less than minimum node count 2\n".to_owned()),
            ("sbatch -a 3-1 f", "", 1, "sbatch: error: Batch job submission failed: Invalid job array specification\n".to_owned()),
            ("sbatch -w n[1-3 f", "", 1, "sbatch: fatal: Invalid node list specified\n".to_owned()),
            ("sbatch -w node]1-2[ f", "", 1, "sbatch: fatal: Invalid node list specified\n".to_owned()),
            ("sbatch -w n[0-2000000] f", "", 1, "sbatch: fatal: Invalid node list specified\n".to_owned()),
            ("sbatch -x n[003-001] f", "", 1, "sbatch: error: Batch job submission failed: Invalid node name specified\n".to_owned()),
            ("sbatch --nice=-5 f", "", 1, "sbatch: error: Batch job submission failed: Invalid --nice value\n".to_owned()),
            (
                "sbatch --nice=99999999999 f",
                "",
                255,
                "sbatch: error: Invalid --nice value, out of range (+/- 2147483645)\n".to_owned(),
            ),
            ("sbatch --priority=-1 f", "", 255, "sbatch: error: Priority must be >= 0\n".to_owned()),
            ("sbatch --priority=4294967295 f", "", 255, "sbatch: error: Priority must be < 4294967294\n".to_owned()),
            ("sbatch -d foo:1 f", "", 1, "sbatch: error: Batch job submission failed: Job dependency problem\n".to_owned()),
            (
                "sbatch -d expand:1 f",
                "",
                1,
                "sbatch: error: Batch job submission failed: Requested operation not supported on this system\n".to_owned(),
            ),
            (
                "sbatch --kill-on-invalid-dep=maybe f",
                "",
                255,
                "sbatch: error: Invalid --kill-on-invalid-dep specification\n".to_owned(),
            ),
            ("sbatch --signal=FOO f", "", 255, "sbatch: error: Invalid --signal specification\n".to_owned()),
            ("sbatch --open-mode=foo f", "", 255, "sbatch: error: Invalid --open-mode specification\n".to_owned()),
            ("sbatch --exclusive=foo f", "", 255, "sbatch: error: Invalid --exclusive specification\n".to_owned()),
            ("sbatch --gres=gpu:x:y:z f", "", 1, "sbatch: error: Invalid Trackable RESource (TRES) specification\n".to_owned()),
            ("SBATCH_TIMELIMIT= sbatch f", "", 255, "sbatch: error: Invalid --time specification\n".to_owned()),
            (
                "sbatch --time-min=0 f",
                "",
                1,
                "sbatch: error: Batch job submission failed: Invalid time-min specification (exceeds job's time or other limits)\n"
                    .to_owned(),
            ),
        ] {
            assert_eq!(run(line, script).err(), Some((status, text)), "{line} {script}");
        }
    }

    #[test]
    fn layouts_and_gpus_become_a_request() {
        use gpun_core::spec::JobSpec;
        let counts = |list: &[gpun_core::spec::GresRequest]| {
            list.iter()
                .map(|one| format!("{}:{}", one.kind.as_deref().unwrap_or("*"), one.count))
                .collect::<Vec<_>>()
                .join(",")
        };
        let layout = |s: &JobSpec| {
            let l = s.layout;
            [l.sockets_per_node, l.cores_per_socket, l.threads_per_core, l.ntasks_per_socket, l.ntasks_per_core]
                .map(|n| n.unwrap_or(0))
        };
        for (line, want, ntasks) in [
            ("-B 2:4:1", [2, 4, 1, 0, 0], Some(8)),
            ("-B 2", [2, 0, 0, 0, 0], Some(2)),
            ("-B *:4", [0, 4, 0, 0, 0], Some(4)),
            ("-B 2:4 -n3", [2, 4, 0, 0, 0], Some(3)),
            ("-B 2 -N3", [2, 0, 0, 0, 0], Some(6)),
            ("--hint=nomultithread", [0, 0, 1, 0, 0], None),
            ("--sockets-per-node=2 --cores-per-socket=3 --threads-per-core=4", [2, 3, 4, 0, 0], None),
            ("--ntasks-per-socket=2 --ntasks-per-core=1", [0, 0, 0, 2, 1], None),
        ] {
            let s = spec(&format!("sbatch {line} f"), "");
            assert_eq!((layout(&s), s.ntasks), (want, ntasks), "{line}");
        }
        for (line, [total, node, task, socket], ntasks, nodes) in [
            ("-G 2", ["*:2", "", "", ""], None, None),
            ("-G a100:1,v100:2", ["a100:1,v100:2", "", "", ""], None, None),
            ("-G 4 -N2", ["*:4", "", "", ""], None, Some(2)),
            ("--gpus-per-node=2", ["", "*:2", "", ""], None, None),
            ("-n2 --gpus-per-task=1", ["", "", "*:1", ""], Some(2), None),
            ("-G4 --gpus-per-task=2", ["*:4", "", "*:2", ""], Some(2), None),
            ("--gpus-per-socket=1 --sockets-per-node=2", ["", "", "", "*:1"], None, None),
            ("-G2 --ntasks-per-gpu=2", ["*:2", "", "", ""], Some(4), None),
            ("-n4 --ntasks-per-gpu=2", ["*:2", "", "", ""], Some(4), None),
            ("-N2 --gpus-per-node=2 --ntasks-per-gpu=2", ["", "*:2", "", ""], Some(8), Some(2)),
            ("-G 4 --gpus-per-node=2", ["*:4", "*:2", "", ""], None, Some(2)),
            ("--tres-per-task=cpu=2,gres/gpu:1 -n2", ["", "", "*:1", ""], Some(2), None),
        ] {
            let s = spec(&format!("sbatch {line} f"), "");
            let got = [&s.gres_total, &s.gres, &s.gres_per_task, &s.gres_per_socket].map(|list| counts(list));
            assert_eq!(
                (got.each_ref().map(String::as_str), s.ntasks, s.nodes_min),
                ([total, node, task, socket], ntasks, nodes),
                "{line}"
            );
        }
        assert_eq!(spec("sbatch --mem-per-gpu=100 -G1 f", "").memory, MemoryRequest::PerGpu(MemoryMib(100)));
        let lone = "Failed to validate job spec. --gpus-per-task or --tres-per-task used without either --gpus or -n/--ntasks is not allowed.";
        for (line, status, text) in [
            ("--gpus-per-task=1", 1, format!("{lone}\nInvalid generic resource (gres) specification")),
            ("--gpus-per-socket=1", 1, "--gpus-per-socket option requires --sockets-per-node specification\nInvalid generic resource (gres) specification".to_owned()),
            ("--cpus-per-gpu=2", 1, "Requested cpus_per_tres=gres/gpu:2 but did not request any GPU.\nInvalid generic resource (gres) specification".to_owned()),
            ("--mem-per-gpu=100", 1, "Requested mem_per_tres=gres/gpu:100 but did not request any GPU.\nInvalid generic resource (gres) specification".to_owned()),
            ("-G1 -N2", 1, "Failed to validate job spec, --gpus < -N\nInvalid generic resource (gres) specification".to_owned()),
            ("--hint=foo", 1, "unrecognized --hint argument \"foo\", see --hint=help".to_owned()),
            ("-m foo", 255, "Invalid --distribution specification".to_owned()),
            ("-m arbitrary", 1, "With Arbitrary distribution you need to specify a nodelist or hostfile with the -w option".to_owned()),
            ("--mem-bind=foo", 255, "unrecognized --mem-bind argument \"foo\"".to_owned()),
            ("--gres-flags=foo", 255, "Invalid --gres-flags specification: foo".to_owned()),
            ("--mincpus=0", 1, "Invalid numeric value \"0\" for --mincpus.".to_owned()),
            ("--uid=bob", 255, "--uid only permitted by root user".to_owned()),
            ("--gid=bob", 255, "--gid only permitted by root user".to_owned()),
            ("--get-user-env=x", 255, "Invalid --get-user-env specification".to_owned()),
            ("-B 1:2:3:4", 255, "Invalid --extra-node-info specification".to_owned()),
        ] {
            let error = run(&format!("sbatch {line} f"), "").err();
            let text: String = text.lines().map(|line| format!("sbatch: error: {line}\n")).collect();
            assert_eq!(error, Some((status, text)), "{line}");
        }
        let line = "sbatch --mem=1 --mem-per-gpu=1 -G1 f";
        assert_eq!(run(line, "").map_err(|(status, _)| status).err(), Some(1), "memory is said once");
        let told = run("sbatch -G2 --hint=nomultithread -m plane=3 --mem-bind=v,rank --ntasks-per-core=1 f", "")
            .unwrap()
            .submission
            .told;
        let told: Vec<String> = told.iter().map(|(name, value)| format!("{name}={value}")).collect();
        for want in [
            "SLURM_GPUS=2",
            "SLURM_HINT=nomultithread",
            "SLURM_DISTRIBUTION=plane",
            "SLURM_DIST_PLANESIZE=3",
            "SLURM_MEM_BIND=verbose,rank",
            "SLURM_MEM_BIND_VERBOSE=verbose",
            "SLURM_NTASKS_PER_CORE=1",
            "SLURM_THREADS_PER_CORE=1",
        ] {
            assert!(told.iter().any(|have| have == want), "{want} in {told:?}");
        }
    }

    #[test]
    fn components_take_what_is_said_for_all() {
        let shown = |line: &str, script: &str| {
            let all = run(line, script).unwrap_or_else(|e| panic!("{line}: {e:?}"));
            let one = |s: &Submission| {
                let spec = &s.spec;
                format!("{}:{}{}", spec.name, spec.tasks(), if spec.hold { ":held" } else { "" })
            };
            std::iter::once(&all.submission).chain(&all.components).map(one).collect::<Vec<_>>().join(" ")
        };
        let two = "#SBATCH -n1 -J s1\n#SBATCH hetjob\n#SBATCH -n2 -J s2\n";
        for (line, script, want) in [
            ("sbatch -J a -n1 : -n2 f", "", "a:1 a:2"),
            ("sbatch -J a -n1 : -J b -n2 : -n3 f", "", "a:1 b:2 b:3"),
            ("sbatch -n1 : -n2 -H -J b f", "", ":1:held b:2:held"),
            ("sbatch -H --wrap=true : -n2", "", ":1:held :2:held"),
            ("sbatch : -n2 f", "", ":1 :2"),
            ("sbatch f", two, "s1:1 s2:2"),
            ("sbatch -J c f", two, "c:1 c:2"),
            ("sbatch -J c1 : -J c2 f", two, "c1:1 c2:2"),
            ("sbatch -J c1 : -J c2 : -J c3 f", two, "c1:1 c2:2 c3:1"),
        ] {
            assert_eq!(shown(line, script), want, "{line}");
        }
        let old = run("sbatch f", &two.replace("hetjob", "packjob")).unwrap();
        assert_eq!(old.components.len(), 1);
        assert!(old.warning.contains("\"packjob\" component separator is deprecated"), "{}", old.warning);
        let spec = run("sbatch -S 1 f", "").unwrap();
        let ignored = "Ignoring -S since it's not allowed by configuration (AllowSpecResourcesUsage = No)";
        assert_eq!(spec.warning, format!("sbatch: error: {ignored}\n"));
        let late = run("sbatch -n1 : -d singleton f", "").unwrap();
        assert!(late.submission.spec.dependency.is_some(), "a wait is one of the whole");
        assert_eq!(run("sbatch -n1 : --bogus f", "").map_err(|(status, _)| status).err(), Some(255));
        let many = format!("sbatch {}f", "-n1 : ".repeat(200));
        assert_eq!(run(&many, "").map_err(|(status, _)| status).err(), Some(1));
    }

    #[test]
    fn nothing_is_ignored_in_silence() {
        for row in ROWS.iter().filter(|r| matches!(r.flag.support, Refused(_))) {
            let value = if row.flag.takes == Nothing { "" } else { "=1" };
            let (status, text) = run(&format!("sbatch --{}{value} f", row.flag.long), "").expect_err(row.flag.long);
            assert_eq!(status, 1);
            assert!(text.starts_with(&format!("sbatch: error: --{} is not supported: ", row.flag.long)), "{text}");
            if let Some(env) = row.flag.env.first() {
                let context = Context { now_s: 0, zone: &TimeZone::UTC, is_root: false };
                let mut into = Submission::default();
                assert!(
                    COMMAND.apply_env(&mut into, &|n| (n == *env).then(|| "1".to_owned()), &context).is_err(),
                    "{env}"
                );
            }
        }
    }

    #[test]
    fn the_table_is_in_order() {
        assert!(ROWS.is_sorted_by_key(|r| r.flag.long));
        let mut letters: Vec<char> = ROWS.iter().filter_map(|r| r.flag.short).collect();
        let count = letters.len();
        letters.sort_unstable();
        letters.dedup();
        assert_eq!(letters.len(), count, "a letter stands for two options");
        assert!(ROWS.iter().all(|r| !r.flag.help.is_empty()));
    }

    #[test]
    fn values_become_a_job() {
        let s =
            spec("sbatch -Jx -N2-3 -n4 -c2 -t 0:30 --mem=1T -p a,b -o x -e y -i none -D /w -H --requeue --nice f", "");
        assert_eq!(
            (s.name.as_str(), s.nodes_min, s.nodes_max, s.ntasks, s.cpus_per_task),
            ("x", Some(2), Some(3), Some(4), Some(2))
        );
        assert_eq!(
            (s.time_limit, s.memory),
            (Some(TimeLimit::Seconds(30)), MemoryRequest::PerNode(MemoryMib(1_048_576)))
        );
        assert_eq!((s.partitions, s.work_dir.as_str()), (vec!["a".to_owned(), "b".to_owned()], "/w"));
        assert_eq!(
            (s.std_out.as_deref(), s.std_err.as_deref(), s.std_in.as_deref()),
            (Some("x"), Some("y"), Some("/dev/null"))
        );
        assert_eq!((s.hold, s.requeue, s.nice), (true, Some(true), 100));
        let s = spec(
            "sbatch -a 0-15:4%3 --signal=B:USR1@90 --gpus-per-node=a100:2 --exclusive -x n[1-2] --comment=a_b --begin=now+1hour f",
            "",
        );
        let array = s.array.unwrap();
        assert_eq!((crate::array::show(&array.tasks).as_str(), array.max_running), ("0,4,8,12", Some(3)));
        assert_eq!(s.warn.map(|w| (w.signal, w.before_s, w.batch_only)), Some((10, 90, true)));
        assert_eq!((s.gres[0].kind.as_deref(), s.gres[0].count, s.exclusive), (Some("a100"), 2, true));
        assert_eq!((s.exclude, s.comment.as_deref()), (vec!["n1".to_owned(), "n2".to_owned()], Some("a b")));
        let s2 = spec("sbatch -d afterok:7:8?singleton --kill-on-invalid-dep=yes f", "");
        let text = s2.dependency.as_ref().map(crate::dependency::text);
        assert_eq!((text.as_deref(), s2.kill_on_invalid_dep), (Some("afterok:7?afterok:8?singleton"), Some(true)));
        assert_eq!(spec("sbatch --dependency= f", "#SBATCH -d afterok:7\n").dependency, None);
        assert_eq!(s.begin, Some(TimeMs((NOW_S as u64 + 3_600) * 1_000)));
    }

    #[test]
    fn later_sources_win() {
        for (line, script, want) in [
            ("sbatch f", "#SBATCH -t 5\n", 300),
            ("SBATCH_TIMELIMIT=7 sbatch f", "#SBATCH -t 5\n", 420),
            ("SBATCH_TIMELIMIT=9 sbatch -t 3 f", "#SBATCH -t 5\n", 180),
            ("sbatch f", "#SBATCH -t 5\n#SBATCH --time=6\n", 360),
            ("sbatch f", "#PBS -l walltime=00:05:00\n#SBATCH -t 9\n", 300),
        ] {
            assert_eq!(spec(line, script).time_limit, Some(TimeLimit::Seconds(want)), "{line} {script}");
        }
        assert_eq!(spec("SBATCH_JOB_NAME=e sbatch f", "").name, "e");
        assert_eq!(
            spec("SBATCH_MEM_PER_CPU=7 sbatch f", "#SBATCH --mem=100\n").memory,
            MemoryRequest::PerCpu(MemoryMib(7))
        );
        assert_eq!(
            spec("SBATCH_MEM_PER_NODE=5 sbatch --mem-per-cpu=6 f", "").memory,
            MemoryRequest::PerCpu(MemoryMib(6))
        );
        assert_eq!(spec("sbatch -t 0 f", "").time_limit, Some(TimeLimit::Infinite));
        assert_eq!(spec("sbatch f", "#SBATCH --job=foo\n#SBATCH -J bar\n").name, "bar");
        assert_eq!(spec("sbatch f", "#SBATCH -J\n#SBATCH -n2\n").name, "-n2");
        assert_eq!(spec("sbatch f", "#SBATCH --help\n#SBATCH --wrap=x -V\n"), spec("sbatch f", ""));
    }

    #[test]
    fn nodes_follow_from_lists_and_tasks() {
        for (line, want, warning) in [
            ("sbatch -w n[1-2] f", (Some(2), Some(2)), ""),
            ("sbatch -w n1,n1 f", (Some(1), Some(1)), ""),
            ("sbatch -w n[1-3] -N2 f", (Some(2), Some(2)), ""),
            (
                "sbatch -N2 -n1 f",
                (Some(1), Some(1)),
                "sbatch: warning: can't run 1 processes on 2 nodes, setting nnodes to 1\n",
            ),
            ("sbatch -N2-4 -n3 f", (Some(2), Some(3)), ""),
            ("sbatch -n5 --ntasks-per-node=2 f", (Some(3), None), ""),
            ("sbatch -n4 f", (None, None), ""),
        ] {
            let r = run(line, "").unwrap();
            assert_eq!((r.submission.spec.nodes_min, r.submission.spec.nodes_max), want, "{line}");
            assert_eq!(r.warning, warning, "{line}");
        }
    }

    #[test]
    fn options_end_at_the_script() {
        let words: Vec<String> = ["-H", "job.sh", "--bogus", "-n"].map(str::to_owned).to_vec();
        let line = Line::parse(&words).unwrap();
        assert_eq!((line.script.as_deref(), line.args.len()), (Some("job.sh"), 2));
    }

    #[test]
    fn submissions_are_confirmed() {
        for (line, want) in [
            ("sbatch f", "Submitted batch job 7\n"),
            ("sbatch --parsable f", "7\n"),
            ("sbatch -M ref f", "Submitted batch job 7 on cluster ref\n"),
            ("sbatch --parsable -M ref f", "7;ref\n"),
            ("sbatch -Q f", ""),
        ] {
            assert_eq!(submitted(7, &run(line, "").unwrap().submission), want, "{line}");
        }
    }

    #[test]
    fn exports() {
        use crate::option::submission::Export;
        let pairs = |l: &[(&str, &str)]| l.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect::<Vec<_>>();
        for (text, want) in [
            ("ALL", Export::All(vec![])),
            ("ALL,FOO=1", Export::All(pairs(&[("FOO", "1")]))),
            ("NONE", Export::Only(vec![], vec![])),
            ("NIL", Export::Only(vec![], vec![])),
            ("FOO,BAR=2", Export::Only(vec!["FOO".to_owned()], pairs(&[("BAR", "2")]))),
            ("FOO=\"a,b\",ALL", Export::All(pairs(&[("FOO", "a,b")]))),
        ] {
            assert_eq!(Export::parse(text), want, "{text}");
        }
        let bytes = |l: &[(&str, &str)]| -> Vec<(Vec<u8>, Vec<u8>)> {
            l.iter().map(|(a, b)| (a.as_bytes().to_vec(), b.as_bytes().to_vec())).collect()
        };
        let caller = bytes(&[("FOO", "orig"), ("BAR", "b"), ("SLURM_X", "1")]);
        assert_eq!(
            Export::parse("FOO,BAR=2").apply(caller.clone()),
            bytes(&[("FOO", "orig"), ("SLURM_X", "1"), ("BAR", "2")])
        );
        assert_eq!(
            Export::parse("ALL,FOO=1").apply(caller.clone()),
            bytes(&[("BAR", "b"), ("SLURM_X", "1"), ("FOO", "1")])
        );
        assert_eq!(Export::parse("NONE").apply(caller), bytes(&[("SLURM_X", "1")]));
    }

    proptest::proptest! {
        #[test]
        fn any_line_is_answered(words in proptest::collection::vec("(-[a-zA-Z][0-9a-z]?|--(time|mem|nice|array|begin|gres|export|signal)=?[0-9a-zA-Z:,@%-]{0,6}|[a-z0-9]{0,4})", 0..6)) {
            let context = Context { now_s: NOW_S, zone: &TimeZone::UTC, is_root: false };
            if let Ok(line) = Line::parse(&words) {
                let _ = resolve(&line, &Directives::default(), &|_| None, &context);
            }
        }
    }
}
