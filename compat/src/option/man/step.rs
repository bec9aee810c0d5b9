//! Words on the options of a step.

use super::Texts;

/// Of `srun`.
#[rustfmt::skip]
pub const STEP: Texts = &[
    ("chdir", "Taken from the present folder if it does not begin with `/`. A folder that cannot be entered is `/tmp`, with a word about it on \
        standard error. Default: the present folder."),
    ("clusters", "Any other name is an error, as there is one cluster; `all` means it too."),
    ("cpu-bind", "Other kinds are refused."),
    ("cpus-per-task", "The step gets no more CPUs than its tasks need, as with `--exact`; the tasks see the number as `SLURM_CPUS_PER_TASK`. The job's own \
        number is not taken over: set `SRUN_CPUS_PER_TASK` for that. Default: 1."),
    ("disable-status", "Without it a first Ctrl-C shows which tasks run, a second within a second is handed on, and a third kills the step."),
    ("error", "As for `--output`. With a file for `--output` and no `--error` both streams go there."),
    ("exact", "Without it a step gets all CPUs of the job that no other step has, and a second step waits until it has ended. Several steps at the same \
        time: start each with `--exact` and `&`, then `wait`."),
    ("exclusive", "The value is checked and changes nothing."),
    ("export", "`ALL`: srun's own environment. `NONE`: only what Slurm sets. Names with commas between are added to it; NAME=VALUE sets one. The job's and the \
        step's own variables are always there. Default: `ALL`."),
    ("immediate", "The step is asked for until then; after that srun ends with status 1. Default: it waits for ever."),
    ("input", "A file is given to all tasks. `all`: srun's standard input goes to all tasks. A number: to this task. `none`: to nobody. Default: `all`."),
    ("job-name", "Shown by sacct(1)."),
    ("jobid", "Inside a job it is the job's own. From outside, the job has to run and to be the caller's; its CPUs are the script's too, so `--overlap` is mostly \
        wanted."),
    ("kill-on-bad-exit", "The others get SIGTERM, and SIGKILL 30 seconds later. `0` switches it off. Default: each task ends by itself."),
    ("label", "Lines are held back until they are whole. The number is padded to the same width in all lines."),
    ("mpi", "`list` prints what there is."),
    ("multi-prog", "Each line of the file holds numbers of tasks (`0`, `1-3`, `5,7`, or `*` for those in no other line), a program and its arguments, in which `%t` \
        is the task's number and `%o` its place in the line's list. `#` begins a comment."),
    ("nodes", "Steps run on one node for now: on the first of the job's. A job on several nodes needs `-N1` here."),
    ("ntasks", "Default: that of the job, from `SLURM_NTASKS`; else 1."),
    ("ntasks-per-node", "Counts where `--ntasks` is not given."),
    ("open-mode", "Default: they are emptied first."),
    ("output", "`%t` in the name makes a file for each task; `%j`, `%J`, `%s`, `%n`, `%N`, `%u`, `%x`, `%A` and `%a` stand for what they stand for in sbatch(1). \
        A number: only this task's output is shown. `none`: nothing is. Default: `all`, on srun's standard output."),
    ("overcommit", "Without it a step with more tasks than CPUs is refused."),
    ("overlap", "Neither waits for other steps nor lets them wait."),
    ("pty", "The keys of srun's terminal go to the task, Ctrl-C and Ctrl-Z too, and the size of the window with them. Standard error goes where standard output \
        does. For one task."),
    ("quiet", "Nor a word while a step waits for its CPUs."),
    ("quit-on-interrupt", "The tasks are killed."),
    ("tasks-per-node", "Counts where `--ntasks` is not given."),
    ("test-only", "The options are checked, no step is asked for."),
    ("unbuffered", "Output without labels always is; with `--label` lines stay whole."),
    ("wait", "They get SIGTERM, and SIGKILL 30 seconds later. Default: each task ends by itself."),
];
