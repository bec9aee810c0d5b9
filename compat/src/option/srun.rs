//! `srun`: every option of Slurm 24.11, and how they become a step of a job.

use super::Support::{Done, Harmless, Refused};
use super::Takes::{Nothing, Optional, Value};
use super::submission::{Submission, set};
use super::{Bad, Command, Context, Flag, Given, OptionError, Row, Source, Support, Takes, getopt, man};

/// What `srun` is asked for.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// What is the same as for a job.
    pub job: Submission,
    /// The step's name; the program's if not given.
    pub name: Option<String>,
    /// The job to run in.
    pub job_id: Option<u32>,
    /// Only the CPUs that the tasks need.
    pub exact: bool,
    /// CPUs are shared with other steps.
    pub overlap: bool,
    /// Lines carry their task's number.
    pub label: bool,
    /// Output is handed on as it comes, not line by line.
    pub unbuffered: bool,
    /// The first task has a terminal.
    pub pty: bool,
    /// The operand is a file that says which task runs what.
    pub multi_prog: bool,
    /// The step ends when a task ends badly.
    pub kill_on_bad_exit: bool,
    /// So long after the first task's end the others are ended, in seconds; 0: never.
    pub wait_s: u64,
    /// Give up if it cannot start within so many seconds.
    pub immediate_s: Option<u64>,
    /// One Ctrl-C ends the step.
    pub quit_on_interrupt: bool,
    /// Ctrl-C is handed on at once.
    pub disable_status: bool,
    /// Number of tasks, where it was given.
    pub ntasks: Option<u32>,
    /// CPUs of each task, where they were given on the command line or by `SRUN_CPUS_PER_TASK`.
    pub cpus_per_task: Option<u32>,
    /// Number of nodes, where it was given.
    pub nodes: Option<u32>,
}

type Set = Result<(), Bad>;

const fn row(
    long: &'static str,
    short: Option<char>,
    takes: Takes,
    env: &'static [&'static str],
    support: Support,
    set: fn(&mut Options, &Given<'_>) -> Set,
    help: &'static str,
) -> Row<Options> {
    Row { flag: Flag { long, short, takes, env, help, man: man::of(man::STEP, long), support }, set }
}

const fn refused(
    long: &'static str,
    short: Option<char>,
    takes: Takes,
    env: &'static [&'static str],
    help: &'static str,
    why: &'static str,
) -> Row<Options> {
    row(long, short, takes, env, Refused(why), nothing, help)
}

fn nothing(_: &mut Options, _: &Given<'_>) -> Set {
    Ok(())
}

/// An option that means for a step what it means for a job.
macro_rules! of_job {
    ($set:path) => {
        |o, g| $set(&mut o.job, g)
    };
}

/// A switch.
macro_rules! on {
    ($($field:ident).+) => {
        |o, _| {
            o.$($field).+ = true;
            Ok(())
        }
    };
}

const LATER: &str = "it comes in a later release; leave it out";
const NEVER: &str = "there is nothing like it here; leave it out";
const OF_JOB: &str = "srun runs inside a job here: say it to sbatch";
const STEP_GPUS: &str = "a step has all the GPUs of its job here: say it to sbatch";

fn number(g: &Given<'_>) -> Result<u32, Bad> {
    g.value.parse().ok().filter(|n| *n > 0).ok_or(Bad::Value)
}

fn seconds(g: &Given<'_>) -> Result<u64, Bad> {
    g.value.parse().map_err(|_| Bad::Value)
}

fn name(o: &mut Options, g: &Given<'_>) -> Set {
    o.name = Some(g.value.to_owned());
    Ok(())
}

fn job_id(o: &mut Options, g: &Given<'_>) -> Set {
    o.job_id = Some(number(g)?);
    Ok(())
}

fn exclusive(o: &mut Options, g: &Given<'_>) -> Set {
    // For a step it says that its CPUs are its own.
    if !g.value.is_empty() && !matches!(g.value, "user" | "mcs" | "topo") {
        return Err(Bad::Value);
    }
    o.exact = true;
    Ok(())
}

fn ntasks(o: &mut Options, g: &Given<'_>) -> Set {
    set::ntasks(&mut o.job, g)?;
    o.ntasks = o.job.spec.ntasks;
    Ok(())
}

fn cpus_per_task(o: &mut Options, g: &Given<'_>) -> Set {
    set::cpus_per_task(&mut o.job, g)?;
    o.cpus_per_task = o.job.spec.cpus_per_task;
    o.exact = true;
    Ok(())
}

fn nodes(o: &mut Options, g: &Given<'_>) -> Set {
    set::nodes(&mut o.job, g)?;
    o.nodes = o.job.spec.nodes_min;
    Ok(())
}

fn overcommit(o: &mut Options, _: &Given<'_>) -> Set {
    o.job.spec.overcommit = true;
    Ok(())
}

fn wait(o: &mut Options, g: &Given<'_>) -> Set {
    o.wait_s = seconds(g)?;
    Ok(())
}

fn immediate(o: &mut Options, g: &Given<'_>) -> Set {
    o.immediate_s = Some(if g.value.is_empty() { 1 } else { seconds(g)? });
    Ok(())
}

fn kill_on_bad_exit(o: &mut Options, g: &Given<'_>) -> Set {
    o.kill_on_bad_exit = match g.value {
        "" | "1" => true,
        "0" => false,
        _ => return Err(Bad::Value),
    };
    Ok(())
}

fn mpi(_: &mut Options, g: &Given<'_>) -> Set {
    match g.value {
        "none" => Ok(()),
        "list" => Err(Bad::Raw("MPI plugin types are...\n\tnone\n".to_owned())),
        other => Err(Bad::Plain(format!(
            "--mpi={other}: only `none` is here yet; start the program with mpirun inside the job"
        ))),
    }
}

fn cpu_bind(_: &mut Options, g: &Given<'_>) -> Set {
    let is_plain = |word: &str| matches!(word, "q" | "quiet" | "v" | "verbose" | "none" | "no" | "n");
    match g.value.split(',').find(|word| !is_plain(word)) {
        None => Ok(()),
        Some(word) => Err(Bad::Plain(format!(
            "--cpu-bind={word}: tasks run on any CPU of their job for now; say none, or leave it out"
        ))),
    }
}

fn pty(o: &mut Options, g: &Given<'_>) -> Set {
    if !g.value.is_empty() {
        return Err(Bad::Plain("--pty takes no descriptor here".to_owned()));
    }
    o.pty = true;
    Ok(())
}

/// How `srun` reads its command line.
pub const COMMAND: Command<Options> =
    Command { program: "srun", rows: ROWS, bad_option_status: 255, options_first: true };

/// The options, sorted by name.
#[rustfmt::skip]
pub static ROWS: &[Row<Options>] = &[
    row("account", Some('A'), Value("name"), &[], Harmless("a step is charged to its job"), nothing, "account to charge"),
    refused("acctg-freq", None, Value("freq"), &["SLURM_ACCTG_FREQ"], "how often usage is sampled", "usage is always measured by the kernel; leave it out"),
    refused("bb", None, Value("spec"), &["SLURM_BURST_BUFFER"], "burst buffer", NEVER),
    refused("bbf", None, Value("file"), &[], "burst buffer, from a file", NEVER),
    refused("bcast", None, Optional("path"), &["SLURM_BCAST"], "copy the program to the nodes first", LATER),
    refused("bcast-exclude", None, Value("paths"), &["SLURM_BCAST_EXCLUDE"], "libraries that are not copied", LATER),
    refused("begin", Some('b'), Value("time"), &[], "do not start before this time", OF_JOB),
    row("chdir", Some('D'), Value("directory"), &["SLURM_WORKING_DIR"], Done, of_job!(set::chdir), "start the tasks in this folder"),
    refused("cluster-constraint", None, Value("list"), &["SLURM_CLUSTER_CONSTRAINT"], "features of the cluster", NEVER),
    row("clusters", Some('M'), Value("names"), &["SLURM_CLUSTERS"], Done, of_job!(set::clusters), "cluster of the job; only this one's own name"),
    row("comment", None, Value("text"), &[], Harmless("a step has no comment"), nothing, "free text"),
    refused("compress", None, Optional("library"), &["SLURM_COMPRESS"], "compress what is copied", LATER),
    row("constraint", Some('C'), Value("features"), &[], Harmless("the nodes are those of the job"), nothing, "features of the nodes"),
    refused("container", None, Value("path"), &["SLURM_CONTAINER"], "OCI bundle to run in", "say --container-image to sbatch: a job has one container"),
    refused("container-id", None, Value("id"), &["SLURM_CONTAINER_ID"], "id of the container", NEVER),
    refused("container-image", None, Value("image"), &[], "image to run in", OF_JOB),
    refused("container-mounts", None, Value("list"), &[], "what to mount in the container", OF_JOB),
    refused("container-workdir", None, Value("directory"), &[], "folder inside the container to start in", "use --chdir"),
    row("contiguous", None, Nothing, &[], Harmless("the nodes are those of the job"), nothing, "neighbouring nodes only"),
    row("core-spec", Some('S'), Value("cores"), &[], Harmless("cores are not kept for the system"), nothing, "cores kept for the system"),
    refused("cores-per-socket", None, Value("n"), &[], "least cores of a socket", OF_JOB),
    row("cpu-bind", None, Value("type"), &["SLURM_CPU_BIND"], Done, cpu_bind, "how tasks are bound to CPUs: none, with q (quiet) or v (verbose)"),
    refused("cpu-freq", None, Value("spec"), &["SLURM_CPU_FREQ_REQ"], "CPU frequency", NEVER),
    refused("cpus-per-gpu", None, Value("n"), &[], "CPUs for each GPU", STEP_GPUS),
    row("cpus-per-task", Some('c'), Value("n"), &["SRUN_CPUS_PER_TASK"], Done, cpus_per_task, "CPUs for each task; implies --exact"),
    refused("deadline", None, Value("time"), &[], "give the job up if it cannot end by this time", OF_JOB),
    refused("delay-boot", None, Value("minutes"), &["SLURM_DELAY_BOOT"], "how long to wait for nodes with the features", NEVER),
    refused("dependency", Some('d'), Value("list"), &["SLURM_DEPENDENCY"], "wait for other jobs", OF_JOB),
    row("disable-status", Some('X'), Nothing, &["SLURM_DISABLE_STATUS"], Done, on!(disable_status), "hand Ctrl-C on at once instead of showing the tasks' states"),
    row("distribution", Some('m'), Value("method"), &["SLURM_DISTRIBUTION"], Harmless("a step has one node, and its tasks stand in order there"), nothing, "how tasks are laid over nodes"),
    refused("epilog", None, Value("program"), &["SLURM_EPILOG"], "program to run here after the step", LATER),
    row("error", Some('e'), Value("file"), &["SLURM_STDERRMODE"], Done, of_job!(set::error), "file for standard error; follows --output if not given"),
    row("exact", None, Nothing, &["SLURM_EXACT"], Done, on!(exact), "only the CPUs that the tasks need, so that other steps can run beside"),
    refused("exclude", Some('x'), Value("nodes"), &[], "nodes that are not to be used", LATER),
    row("exclusive", None, Optional("user|mcs|topo"), &["SLURM_EXCLUSIVE"], Done, exclusive, "for a step the same as --exact"),
    row("export", None, Value("names"), &["SLURM_EXPORT_ENV"], Done, of_job!(set::export), "variables for the tasks: ALL, NONE, or names and NAME=VALUE, comma separated"),
    refused("external-launcher", None, Nothing, &[], "start the daemons of an MPI launcher", LATER),
    row("extra", None, Value("text"), &[], Harmless("a step has no such text"), nothing, "free text for scheduling plugins"),
    refused("extra-node-info", Some('B'), Value("s[:c[:t]]"), &[], "least sockets, cores and threads of a node", OF_JOB),
    refused("gid", None, Value("group"), &[], "group to run as", OF_JOB),
    refused("gpu-bind", None, Value("type"), &["SLURM_GPU_BIND"], "how tasks are bound to GPUs", STEP_GPUS),
    refused("gpu-freq", None, Value("spec"), &["SLURM_GPU_FREQ"], "GPU frequency", NEVER),
    refused("gpus", Some('G'), Value("[type:]n"), &[], "GPUs for the step", STEP_GPUS),
    refused("gpus-per-node", None, Value("[type:]n"), &[], "GPUs on each node", STEP_GPUS),
    refused("gpus-per-socket", None, Value("[type:]n"), &[], "GPUs for each socket", STEP_GPUS),
    refused("gpus-per-task", None, Value("[type:]n"), &[], "GPUs for each task", STEP_GPUS),
    refused("gres", None, Value("list"), &[], "generic resources on each node", STEP_GPUS),
    row("gres-flags", None, Value("flags"), &["SLURM_GRES_FLAGS"], Harmless("a step has all the devices of its job"), nothing, "how generic resources are bound"),
    row("help", Some('h'), Nothing, &[], Done, of_job!(set::help), "show this help"),
    refused("het-group", None, Value("list"), &[], "components of a heterogeneous job to run in", LATER),
    row("hint", None, Value("type"), &["SLURM_HINT"], Harmless("tasks run on any CPU of their job"), nothing, "what the tasks need most: compute_bound, memory_bound, multithread, nomultithread"),
    refused("hold", Some('H'), Nothing, &[], "submit held", OF_JOB),
    row("immediate", Some('I'), Optional("seconds"), &["SLURM_IMMEDIATE"], Done, immediate, "give up if the step cannot start within so many seconds (1 if not said)"),
    row("input", Some('i'), Value("file|task|none"), &["SLURM_STDINMODE"], Done, of_job!(set::input), "file for standard input; or the number of the task that reads ours; or none"),
    row("job-name", Some('J'), Value("name"), &[], Done, name, "name of the step; the program's if not given"),
    row("jobid", None, Value("id"), &["SLURM_JOB_ID", "SLURM_JOBID"], Done, job_id, "the job to run in"),
    row("kill-on-bad-exit", Some('K'), Optional("0|1"), &["SLURM_KILL_BAD_EXIT"], Done, kill_on_bad_exit, "end the step when a task ends with an error"),
    row("label", Some('l'), Nothing, &["SLURM_LABELIO"], Done, on!(label), "begin every line of output with the number of its task"),
    refused("licenses", Some('L'), Value("names"), &[], "licences that the job needs", OF_JOB),
    refused("mail-type", None, Value("events"), &[], "when to send mail", OF_JOB),
    refused("mail-user", None, Value("address"), &[], "whom to send mail", OF_JOB),
    refused("mcs-label", None, Value("label"), &[], "security label", NEVER),
    row("mem", None, Value("size"), &[], Harmless("the memory of the job is a limit for all its steps together"), nothing, "memory on each node"),
    row("mem-bind", None, Value("type"), &["SLURM_MEM_BIND"], Harmless("memory is not bound"), nothing, "how tasks are bound to memory"),
    row("mem-per-cpu", None, Value("size"), &[], Harmless("the memory of the job is a limit for all its steps together"), nothing, "memory for each CPU"),
    row("mem-per-gpu", None, Value("size"), &[], Harmless("the memory of the job is a limit for all its steps together"), nothing, "memory for each GPU"),
    refused("mincpus", None, Value("n"), &[], "least CPUs of a node", OF_JOB),
    row("mpi", None, Value("type"), &["SLURM_MPI_TYPE"], Done, mpi, "how MPI programs find each other: none, or list"),
    refused("msg-timeout", None, Value("seconds"), &[], "how long a message may take", NEVER),
    row("multi-prog", None, Nothing, &["SLURM_MULTI_PROG"], Done, on!(multi_prog), "the operand is a file that says which task runs what"),
    refused("network", None, Value("spec"), &["SLURM_NETWORK"], "network to use", NEVER),
    row("nice", None, Optional("value"), &[], Harmless("a step has no priority"), nothing, "lower the priority"),
    refused("no-allocate", Some('Z'), Nothing, &["SLURM_NO_ALLOCATE"], "run without a job", NEVER),
    row("no-kill", Some('k'), Optional("off"), &["SLURM_NO_KILL"], Harmless("a step has one node"), nothing, "go on when a node is lost"),
    refused("nodefile", Some('F'), Value("file"), &[], "nodes to use, from a file", LATER),
    refused("nodelist", Some('w'), Value("nodes"), &[], "nodes of the job to use", LATER),
    row("nodes", Some('N'), Value("min[-max]"), &[], Done, nodes, "number of nodes"),
    row("ntasks", Some('n'), Value("n"), &["SLURM_NTASKS", "SLURM_NPROCS"], Done, ntasks, "number of tasks"),
    refused("ntasks-per-core", None, Value("n"), &[], "most tasks on a core", LATER),
    refused("ntasks-per-gpu", None, Value("n"), &[], "tasks for each GPU", STEP_GPUS),
    row("ntasks-per-node", None, Value("n"), &["SLURM_NTASKS_PER_NODE"], Done, of_job!(set::ntasks_per_node), "tasks on each node"),
    refused("ntasks-per-socket", None, Value("n"), &[], "most tasks on a socket", LATER),
    refused("oom-kill-step", None, Optional("0|1"), &[], "end the whole step when one task is out of memory", LATER),
    row("open-mode", None, Value("append|truncate"), &["SLURM_OPEN_MODE"], Done, of_job!(set::open_mode), "how output files that exist are opened"),
    row("output", Some('o'), Value("file"), &["SLURM_STDOUTMODE"], Done, of_job!(set::output), "file for standard output; or the number of the only task to be seen; or none"),
    row("overcommit", Some('O'), Nothing, &["SLURM_OVERCOMMIT"], Done, overcommit, "more tasks than CPUs are fine"),
    row("overlap", None, Nothing, &["SLURM_OVERLAP"], Done, on!(overlap), "share CPUs with other steps"),
    row("oversubscribe", Some('s'), Nothing, &[], Harmless("the CPUs are those of the job"), nothing, "CPUs may be shared with other jobs"),
    row("partition", Some('p'), Value("names"), &[], Harmless("a step runs where its job does"), nothing, "partition to run in"),
    refused("prefer", None, Value("features"), &[], "features that nodes should have", OF_JOB),
    row("preserve-env", Some('E'), Nothing, &["SLURM_PRESERVE_ENV"], Harmless("SLURM_NNODES and SLURM_NTASKS are always the step's"), nothing, "keep SLURM_NNODES and SLURM_NTASKS as they are"),
    refused("priority", None, Value("value"), &[], "a fixed priority", OF_JOB),
    refused("profile", None, Value("type"), &["SLURM_PROFILE"], "record a profile", NEVER),
    refused("prolog", None, Value("program"), &["SLURM_PROLOG"], "program to run here before the step", LATER),
    row("propagate", None, Optional("limits"), &["SLURM_PROPAGATE"], Harmless("the job's resource limits are always carried over"), nothing, "carry the resource limits over"),
    row("pty", None, Optional("fd"), &[], Done, pty, "run the first task in a terminal"),
    row("qos", Some('q'), Value("name"), &[], Harmless("a step has its job's quality of service"), nothing, "quality of service"),
    row("quiet", Some('Q'), Nothing, &[], Done, of_job!(set::quiet), "print nothing but errors"),
    row("quit-on-interrupt", None, Nothing, &["SLURM_QUIT_ON_INTERRUPT"], Done, on!(quit_on_interrupt), "one Ctrl-C ends the step"),
    refused("reboot", None, Nothing, &[], "reboot the nodes first", NEVER),
    refused("relative", Some('r'), Value("n"), &[], "first node of the step, counted in the job", LATER),
    row("reservation", None, Value("name"), &[], Harmless("a step runs where its job does"), nothing, "reservation to run in"),
    refused("resv-ports", None, Optional("n"), &[], "reserve ports", NEVER),
    refused("segment", None, Value("n"), &[], "nodes of one block of the topology", NEVER),
    refused("send-libs", None, Optional("yes|no"), &["SLURM_SEND_LIBS"], "copy libraries with the program", LATER),
    refused("signal", None, Value("[R:]sig[@seconds]"), &[], "send a signal before the time is over", OF_JOB),
    refused("slurmd-debug", None, Value("level"), &["SLURMD_DEBUG"], "log level of the step's daemon", NEVER),
    refused("sockets-per-node", None, Value("n"), &[], "least sockets of a node", OF_JOB),
    row("spread-job", None, Nothing, &[], Harmless("the nodes are those of the job"), nothing, "use as many nodes as possible"),
    refused("stepmgr", None, Nothing, &[], "manage steps on the first node", "steps are always managed on the nodes; leave it out"),
    refused("switches", None, Value("n[@time]"), &[], "most switches between the nodes", NEVER),
    refused("task-epilog", None, Value("program"), &["SLURM_TASK_EPILOG"], "program to run after each task", LATER),
    refused("task-prolog", None, Value("program"), &["SLURM_TASK_PROLOG"], "program to run before each task", LATER),
    row("tasks-per-node", None, Value("n"), &[], Done, of_job!(set::ntasks_per_node), "the same as --ntasks-per-node"),
    row("test-only", None, Nothing, &[], Done, of_job!(set::test_only), "say whether the step would be accepted, and start nothing"),
    row("thread-spec", None, Value("n"), &[], Harmless("threads are not kept for the system"), nothing, "threads kept for the system"),
    row("threads", Some('T'), Value("n"), &["SLURM_THREADS"], Harmless("nodes are reached at the same time"), nothing, "how many nodes are reached at once"),
    refused("threads-per-core", None, Value("n"), &[], "least threads of a core", OF_JOB),
    refused("time", Some('t'), Value("limit"), &[], "limit of the run time", "a step may run as long as its job; leave it out"),
    refused("time-min", None, Value("limit"), &[], "the shortest limit that is of use", OF_JOB),
    refused("tmp", None, Value("size"), &[], "least temporary disk of a node", OF_JOB),
    refused("treewidth", None, Value("n"), &["SLURM_TREE_WIDTH"], "width of the message tree", NEVER),
    row("tres-bind", None, Value("spec"), &["SLURM_TRES_BIND"], Harmless("a step has all the devices of its job"), nothing, "how tasks are bound to resources"),
    refused("tres-per-task", None, Value("list"), &[], "resources for each task", STEP_GPUS),
    refused("uid", None, Value("user"), &[], "user to run as", OF_JOB),
    row("unbuffered", Some('u'), Nothing, &["SLURM_UNBUFFEREDIO"], Done, on!(unbuffered), "hand output on as it comes, not line by line"),
    row("usage", None, Nothing, &[], Done, of_job!(set::usage), "show the options in short"),
    row("use-min-nodes", None, Nothing, &["SLURM_USE_MIN_NODES"], Harmless("the nodes are those of the job"), nothing, "prefer fewer nodes"),
    row("verbose", Some('v'), Nothing, &["SLURM_DEBUG"], Done, of_job!(set::verbose), "say more; may be repeated"),
    row("version", Some('V'), Nothing, &[], Done, of_job!(set::version), "show the version"),
    row("wait", Some('W'), Value("seconds"), &["SLURM_WAIT"], Done, wait, "so long after the first task's end the others are ended; 0: never"),
    row("wckey", None, Value("key"), &[], Harmless("a step has its job's key"), nothing, "workload characterization key"),
    refused("x11", None, Optional("all|first|last"), &["SLURM_X11"], "forward X11", NEVER),
];

/// A command line of `srun`, understood.
#[derive(Debug, Clone)]
pub struct Line {
    /// The options.
    pub options: Options,
    /// The program and its arguments.
    pub operands: Vec<String>,
}

/// Puts environment and command line together.
///
/// # Errors
/// The first thing that is refused, as `srun` prints it.
pub fn parse(
    args: &[String],
    env: &dyn Fn(&str) -> Option<String>,
    context: &Context<'_>,
) -> Result<Line, OptionError> {
    let parsed: getopt::Parsed = COMMAND.split(args)?;
    let mut options = Options::default();
    COMMAND.apply_env(&mut options, env, context)?;
    COMMAND.apply(&mut options, &parsed.options, Source::CommandLine, context)?;
    if parsed.operands.iter().any(|word| word == ":") {
        let text = "components of heterogeneous jobs are not started by srun yet";
        return Err(OptionError::new(COMMAND.program, text, 1));
    }
    Ok(Line { options, operands: parsed.operands })
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;

    fn parsed(args: &[&str], env: &[(&str, &str)]) -> Result<Line, OptionError> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let lookup = |name: &str| env.iter().find(|(have, _)| *have == name).map(|(_, value)| (*value).to_owned());
        parse(&args, &lookup, &Context { now_s: 0, zone: &TimeZone::UTC, is_root: false })
    }

    #[test]
    fn the_table_is_sorted_and_no_letter_stands_twice() {
        assert!(ROWS.is_sorted_by_key(|row| row.flag.long.replace("reboot", "reboo").replace("relative", "rel")));
        let mut letters: Vec<char> = ROWS.iter().filter_map(|row| row.flag.short).collect();
        letters.sort_unstable();
        let count = letters.len();
        letters.dedup();
        assert_eq!(letters.len(), count);
    }

    #[test]
    fn the_command_line_goes_before_the_environment() {
        let line = parsed(&["-n2", "-l", "prog", "-n9"], &[("SLURM_NTASKS", "4"), ("SLURM_JOB_ID", "17")]).unwrap();
        let o = &line.options;
        assert_eq!((o.ntasks, o.job_id, o.label, o.exact), (Some(2), Some(17), true, false));
        assert_eq!(line.operands, ["prog", "-n9"]);
        let line = parsed(&["-c", "2", "-K", "--exclusive", "x"], &[("SLURM_CPUS_PER_TASK", "8")]).unwrap();
        let o = &line.options;
        assert_eq!((o.cpus_per_task, o.exact, o.kill_on_bad_exit), (Some(2), true, true));
    }

    #[test]
    fn what_is_not_there_is_refused() {
        for (args, text, status) in [
            (&["--bad"][..], "srun: unrecognized option '--bad'\nTry \"srun --help\" for more information\n", 255),
            (
                &["--gpus=1", "x"],
                "srun: error: --gpus is not supported: a step has all the GPUs of its job here: say it to sbatch\n",
                1,
            ),
            (
                &["--cpu-bind=q,cores", "x"],
                "srun: error: --cpu-bind=cores: tasks run on any CPU of their job for now; say none, or leave it out\n",
                1,
            ),
            (&["--jobid=x", "y"], "srun: error: Invalid --jobid specification\n", 255),
            (&["x", ":", "y"], "srun: error: components of heterogeneous jobs are not started by srun yet\n", 1),
        ] {
            let error = parsed(args, &[]).unwrap_err();
            assert_eq!((error.text.as_str(), error.status), (text, status), "{args:?}");
        }
    }
}
