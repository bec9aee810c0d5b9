//! Pages of Slurm's commands: the prose around their tables.

use gpun_compat::format::{sacct_fields, sinfo_fields, squeue_fields, words};
use gpun_compat::option::scontrol;

use super::{Page, options, variables};
use crate::command::flags;

/// What is said of a command besides its tables.
pub struct Prose {
    name: &'static str,
    about: &'static str,
    synopsis: &'static [&'static str],
    description: &'static str,
    /// Variables besides those that stand for options.
    variables: &'static [(&'static str, &'static str)],
    files: &'static [(&'static str, &'static str)],
    /// Statuses and when they come.
    status: &'static [(&'static str, &'static str)],
    /// Command lines with what they do.
    examples: &'static [(&'static str, &'static str)],
    see_also: &'static [&'static str],
}

const GPUN_DIR: (&str, &str) = (
    "GPUN_DIR",
    "the cluster's folder. Without it `/etc/gpunion` if that holds a `gpunion.toml`, else `/var/lib/gpunion`",
);
const TIME_FORMAT: (&str, &str) = (
    "SLURM_TIME_FORMAT",
    "how moments are written: `standard` (2030-01-02T03:04:05), `relative` (short for days nearby), or a format of strftime(3)",
);
const SOCKET: (&str, &str) = ("DIR/ctl.sock", "the controller's socket, below the cluster's folder");
const ASKED: &[(&str, &str)] =
    &[("0", "done"), ("1", "an option is wrong, or the controller refused or did not answer")];

/// Of each command that there is.
pub const COMMANDS: &[Prose] = &[
    Prose {
        name: "sbatch",
        about: "submit a script as a job",
        synopsis: &[
            "sbatch [OPTIONS] SCRIPT [ARGUMENTS]",
            "sbatch [OPTIONS] --wrap=COMMAND",
            "sbatch [OPTIONS] : [OPTIONS] SCRIPT",
        ],
        description: "Hands a script to the controller and returns with the job's number as soon as it is written down; from then on \
            the job is not lost. It runs once the nodes it asks for are free, in a container of its own, as the user who submitted \
            it, on the first of its nodes.\n\n\
            Without SCRIPT the script is read from standard input. A script begins with `#!` and an interpreter. Lines that begin \
            with `#SBATCH` before its first command hold options as they would stand on the command line. What the command line \
            says goes before the environment, and that goes before the script.\n\n\
            A single `:` between options, or a line `#SBATCH hetjob` in the script, separates the components of a heterogeneous job: \
            each has its own size, all start together.\n\n\
            File names may hold `%j` (job), `%A` (array), `%a` (task of the array), `%x` (job name), `%u` (user), `%N` (host), `%n` \
            (node's number), `%s` (step), `%t` (task), and `%%`. A number between makes it so wide, padded with zeros: `%4j`. A \
            backslash in the name switches this off.",
        variables: &[GPUN_DIR],
        files: &[SOCKET, ("slurm-JOB.out", "the job's output where none is named; slurm-ARRAY_TASK.out for an array")],
        status: &[
            ("0", "submitted; with `--wait` the job ended with 0"),
            ("1", "refused; with `--wait` also the job's own status, or that of its worst task"),
            ("255", "an option is unknown or its value is none"),
        ],
        examples: &[
            (
                "sbatch --time=10 --mem=4G --gpus=1 train.sh",
                "run train.sh for at most ten minutes with 4 GiB and one GPU",
            ),
            ("sbatch --array=0-99%8 sweep.sh", "one hundred tasks, at most eight at the same time"),
            ("sbatch --dependency=afterok:17 --wrap='make report'", "a single command, once job 17 has ended well"),
            ("job=$(sbatch --parsable step1.sh) && sbatch -d afterany:$job step2.sh", "a chain in a shell"),
        ],
        see_also: &["squeue(1)", "scancel(1)", "scontrol(1)", "sacct(1)", "gpun-why(1)"],
    },
    Prose {
        name: "srun",
        about: "run tasks inside a job",
        synopsis: &["srun [OPTIONS] PROGRAM [ARGUMENTS]", "srun [OPTIONS] --multi-prog FILE"],
        description: "Starts a step: so many tasks of a program inside a job that runs, on the job's CPUs, in its container. Their output \
            appears here, srun's standard input is theirs, and srun ends when the last of them has. It is used in the script of a \
            job; with `--jobid` also from outside, such as for a shell beside a running job.\n\n\
            Each task knows its number from `SLURM_PROCID`, their count from `SLURM_NTASKS`. What tasks leave running when the last \
            of them ends is killed. When srun is killed, so is the step.\n\n\
            srun does not make a job of its own yet, and a step runs on one node: the first of the job's.",
        variables: &[
            GPUN_DIR,
            (
                "SLURM_PROCID, SLURM_LOCALID, SLURM_NODEID",
                "of a task: its number in the step, on its node, and the node's number",
            ),
            (
                "SLURM_STEP_ID, SLURM_STEP_NUM_TASKS, SLURM_STEP_NODELIST",
                "of a task: its step, the step's tasks and nodes",
            ),
            ("SLURM_TASK_PID", "of a task: its process"),
        ],
        files: &[SOCKET, ("DIR/run/step-NODE.sock", "the node's socket, below the cluster's folder")],
        status: &[
            ("0", "all tasks ended with 0"),
            ("N", "the highest exit code of a task; 128 and the signal's number for one that a signal ended"),
            ("1", "an option is wrong, or the step could not be made"),
            ("255", "an option is unknown or its value is none"),
        ],
        examples: &[
            ("srun -n4 --label ./solve", "four tasks, their output with their numbers"),
            ("srun -n1 --exact ./a & srun -n1 --exact ./b & wait", "two programs side by side on a job's CPUs"),
            ("srun --jobid=17 --overlap --pty bash", "a shell inside job 17"),
            ("srun -n2 -o part-%t.txt ./split", "a file for each task"),
        ],
        see_also: &["sbatch(1)", "scancel(1)", "sacct(1)"],
    },
    Prose {
        name: "squeue",
        about: "show jobs that wait and run",
        synopsis: &["squeue [OPTIONS]"],
        description: "Lists the jobs of the cluster that have not ended, with waiting ones first by priority, and those that ended \
            a moment ago where `--states` asks for them. A waiting job's last column is why it waits, in parentheses; \
            `gpun why JOB` says it in words. Waiting tasks of an array share a line.",
        variables: &[
            GPUN_DIR,
            TIME_FORMAT,
            ("SLURM_BITSTR_LEN", "most signs of an array's list of tasks, 64 if not set; 0 for all"),
        ],
        files: &[SOCKET],
        status: ASKED,
        examples: &[
            ("squeue --me", "my own jobs"),
            ("squeue --start --states=pending", "when waiting jobs are expected to start"),
            ("squeue -h -o '%i %T %M' -j 17", "number, state and time used of job 17, without a header"),
            ("squeue -O jobid:8,name:30,tres-alloc:60", "columns by name, each with its width"),
        ],
        see_also: &["sbatch(1)", "scancel(1)", "scontrol(1)", "sinfo(1)", "gpun-why(1)"],
    },
    Prose {
        name: "sinfo",
        about: "show partitions and nodes",
        synopsis: &["sinfo [OPTIONS]"],
        description: "Lists the partitions with their nodes, those in the same state on one line. A `*` behind a partition marks the \
            default one, behind a state a node that does not answer.",
        variables: &[GPUN_DIR, TIME_FORMAT],
        files: &[SOCKET],
        status: ASKED,
        examples: &[
            ("sinfo -N -l", "a line for each node, with sizes"),
            ("sinfo -R", "why nodes are down or drained"),
            ("sinfo -h -p gpu -t idle -o '%n %G'", "free nodes of a partition and their GPUs"),
        ],
        see_also: &["squeue(1)", "scontrol(1)", "gpun-status(1)"],
    },
    Prose {
        name: "scancel",
        about: "end jobs or send them signals",
        synopsis: &["scancel [OPTIONS] [JOB[_TASK]...]"],
        description: "Ends jobs by number, or those that every filter fits. Running processes get SIGTERM, and SIGKILL after \
            `kill_wait_s` of gpunion.toml(5); a waiting job is taken out of the queue. With `--signal` the job only gets that signal. \
            `17` means all of an array, `17_3` one task, `17_[1-4]` some. Only a job's owner, operators and the superuser may end it.",
        variables: &[GPUN_DIR],
        files: &[SOCKET],
        status: &[
            ("0", "done, or there was nothing to end"),
            ("1", "a job is not there or belongs to somebody else, or an option is wrong"),
        ],
        examples: &[
            ("scancel 17 18_3", "end a job and a task"),
            ("scancel --me --state=pending", "take all of my waiting jobs out of the queue"),
            ("scancel --signal=USR1 --batch 17", "send the script of job 17 a signal"),
        ],
        see_also: &["sbatch(1)", "squeue(1)", "gpunion.toml(5)"],
    },
    Prose {
        name: "scontrol",
        about: "show everything of jobs, nodes, partitions and reservations, and change them",
        synopsis: &["scontrol [OPTIONS] [COMMAND]"],
        description: "Runs one command; without one it reads commands from standard input until `exit`. Names of commands may be \
            shortened as far as they stay clear, and are the same in any case. Everyone may look; users may change their own jobs, \
            operators and the superuser all that there is.",
        variables: &[GPUN_DIR, TIME_FORMAT],
        files: &[SOCKET],
        status: ASKED,
        examples: &[
            ("scontrol show job 17", "all about a job"),
            ("scontrol update jobid=17 timelimit=2:00:00", "another time limit"),
            ("scontrol update nodename=n[1-4] state=drain reason='new cables'", "no new jobs on four nodes"),
            ("scontrol show hostnames 'n[1-3,7]'", "a host list, one name a line"),
            ("scontrol create reservation starttime=now duration=60 users=alice nodes=n1", "a node for alice"),
        ],
        see_also: &["squeue(1)", "sinfo(1)", "sacctmgr(1)", "gpunion.toml(5)"],
    },
    Prose {
        name: "sacct",
        about: "show jobs that ended, and what they used",
        synopsis: &["sacct [OPTIONS]"],
        description: "Lists jobs and their steps from the controller's history, running ones too. Without a time or a job's number \
            today's jobs are shown; without a user the caller's own, and for the superuser everyone's. How long the history goes \
            back says `keep_days` of gpunion.toml(5).",
        variables: &[GPUN_DIR, TIME_FORMAT],
        files: &[SOCKET],
        status: ASKED,
        examples: &[
            ("sacct -j 17 --format=jobid,state,elapsed,maxrss,exitcode", "how job 17 went"),
            ("sacct -S now-7days -X -P -o jobid,user,state,alloctres", "jobs of a week, for a program to read"),
            ("sacct -j 17 --batch-script", "the script as it was submitted"),
        ],
        see_also: &["squeue(1)", "scontrol(1)", "sacctmgr(1)", "gpunion.toml(5)"],
    },
    Prose {
        name: "sacctmgr",
        about: "manage accounts, users, their limits and qualities of service",
        synopsis: &[
            "sacctmgr [OPTIONS] add ENTITY NAMES [KEY=VALUE...]",
            "sacctmgr [OPTIONS] modify ENTITY where KEY=VALUE... set KEY=VALUE...",
            "sacctmgr [OPTIONS] delete ENTITY where KEY=VALUE...",
            "sacctmgr [OPTIONS] show ENTITY [NAMES] [KEY=VALUE...] [format=FIELDS]",
            "sacctmgr [OPTIONS] dump CLUSTER [file=FILE]",
            "sacctmgr [OPTIONS] load FILE",
        ],
        description: "Shows and changes what the controller knows of accounts. Accounts form a tree below `root`; a user's place in an \
            account is an association, and limits stand on associations and qualities of service. What of it holds for jobs says \
            `accounting.enforce` of gpunion.toml(5).\n\n\
            ENTITY is `account`, `association`, `cluster`, `coordinator`, `problem`, `qos`, `runawayjobs`, `tres` or `user`. A change is \
            shown first and made once it is confirmed, or at once with `--immediate`. Changes need an operator or the superuser; \
            coordinators may change what is below their accounts.\n\n\
            `archive`, `clear` and `shutdown` are refused: the controller keeps accounting itself.",
        variables: &[GPUN_DIR],
        files: &[SOCKET],
        status: &[
            ("0", "done"),
            ("1", "nothing changed, a word is wrong, or the controller refused or did not answer"),
        ],
        examples: &[
            ("sacctmgr -i add account physics", "an account"),
            ("sacctmgr -i add user alice account=physics", "a user in it"),
            ("sacctmgr -i modify account physics set grptres=gres/gpu=16", "at most 16 GPUs at a time for all of it"),
            ("sacctmgr dump main file=main.cfg", "everything, as a file that `load` reads"),
        ],
        see_also: &["sacct(1)", "scontrol(1)", "gpunion.toml(5)"],
    },
];

/// What a job of `sbatch` finds in its environment; a test in `gpunctld` compares it with what is set there.
#[rustfmt::skip]
const IN_THE_JOB: &[(&str, &str)] = &[
    ("CUDA_VISIBLE_DEVICES", "its GPUs on the first node, counted from 0; `ROCR_VISIBLE_DEVICES`, `GPU_DEVICE_ORDINAL` and `ZE_AFFINITY_MASK` are the same"),
    ("ENVIRONMENT", "BATCH"),
    ("GPUN_DIR", "the cluster's folder, so that commands in the job find it; its `bin` is at the end of `PATH`"),
    ("HOSTNAME", "the first node; `SLURMD_NODENAME` and `SLURM_TOPOLOGY_ADDR` too, with `SLURM_TOPOLOGY_ADDR_PATTERN` node"),
    ("SLURM_ARRAY_JOB_ID", "the array's number"),
    ("SLURM_ARRAY_TASK_ID", "the task's number"),
    ("SLURM_ARRAY_TASK_COUNT", "how many tasks the array has; `SLURM_ARRAY_TASK_MIN`, `SLURM_ARRAY_TASK_MAX` and `SLURM_ARRAY_TASK_STEP` say which"),
    ("SLURM_CLUSTER_NAME", "the cluster's name"),
    ("SLURM_CPUS_ON_NODE", "CPUs on the first node"),
    ("SLURM_CPUS_PER_TASK", "`--cpus-per-task`, if given"),
    ("SLURM_EXPORT_ENV", "`--export`, if given and not `ALL`"),
    ("SLURM_GPUS_ON_NODE", "number of GPUs on the first node"),
    ("SLURM_HET_SIZE", "number of components of a heterogeneous job; NAME_HET_GROUP_N is NAME of component N. `SLURM_PACK_SIZE` and NAME_PACK_GROUP_N are \
        their old names"),
    ("SLURM_JOB_ACCOUNT", "account, if the job has one"),
    ("SLURM_JOB_CPUS_PER_NODE", "CPUs on each node, such as `8(x2),4`"),
    ("SLURM_JOB_END_TIME", "when the limit is over, in seconds since 1970; `SLURM_JOB_START_TIME` is when the job began"),
    ("SLURM_JOB_GPUS", "its GPUs on the first node, by the node's own numbers"),
    ("SLURM_JOB_ID", "the job's number; `SLURM_JOBID` too"),
    ("SLURM_JOB_NAME", "name"),
    ("SLURM_JOB_NODELIST", "its nodes, such as `n[1-3]`; `SLURM_NODELIST` too. `scontrol show hostnames` writes one a line"),
    ("SLURM_JOB_NUM_NODES", "number of nodes; `SLURM_NNODES` too"),
    ("SLURM_JOB_PARTITION", "partition"),
    ("SLURM_JOB_QOS", "quality of service, if the job asked for one"),
    ("SLURM_JOB_RESERVATION", "reservation, if the job is in one"),
    ("SLURM_JOB_USER", "user; `SLURM_JOB_UID` and `SLURM_JOB_GID` are the numbers"),
    ("SLURM_MEM_PER_NODE", "memory in MiB, where it was asked for that way; otherwise `SLURM_MEM_PER_CPU` or `SLURM_MEM_PER_GPU`"),
    ("SLURM_NTASKS", "number of tasks, if it was said; `SLURM_NPROCS` too"),
    ("SLURM_NTASKS_PER_NODE", "`--ntasks-per-node`, if given"),
    ("SLURM_PROCID", "0, as are `SLURM_LOCALID`, `SLURM_NODEID`, `SLURM_GTIDS`, `SLURM_PRIO_PROCESS` and `SLURM_OOM_KILL_STEP`"),
    ("SLURM_RESTART_COUNT", "how often the job began again, if it did"),
    ("SLURM_SUBMIT_DIR", "the folder of the submission"),
    ("SLURM_SUBMIT_HOST", "the machine of the submission"),
    ("SLURM_TASKS_PER_NODE", "tasks on each node, such as `2(x3),1`"),
    ("SLURM_TRES_BIND", "`--tres-bind` or `--gpu-bind`, if given"),
    ("TMPDIR", "that of the submitter; it is made if it is not there. Without one /tmp. `HOME`, `USER` and `LOGNAME` are the submitter's too"),
];

/// A command's page.
pub fn page(prose: &Prose) -> Page {
    let mut page = Page::new(prose.name, 1, prose.about);
    page.heading("SYNOPSIS");
    page.code(&prose.synopsis.join("\n"));
    page.heading("DESCRIPTION");
    page.text(prose.description);
    page.text(
        "The command is a link to gpun(1); options, output and messages are those of Slurm 24.11, except where this page says \
         otherwise.",
    );
    if prose.name == "scontrol" {
        scontrol_commands(&mut page);
    }
    let flags = flags(prose.name).unwrap_or_default();
    options(&mut page, &flags);
    fields(&mut page, prose.name);
    page.heading("ENVIRONMENT");
    variables(&mut page, prose.name, &flags);
    for (name, text) in prose.variables {
        page.item(&format!("`{name}`"), text);
    }
    if prose.name == "sbatch" {
        page.subheading("In the job");
        page.text("The script finds the submitter's variables, as `--export` says, and these:");
        for (name, text) in IN_THE_JOB {
            page.item(&format!("`{name}`"), text);
        }
    }
    list(&mut page, "FILES", prose.files);
    list(&mut page, "EXIT STATUS", prose.status);
    examples(&mut page, prose.examples);
    see_also(&mut page, prose.see_also);
    page
}

/// A section of terms.
pub fn list(page: &mut Page, title: &str, items: &[(&str, &str)]) {
    page.heading(title);
    for (term, text) in items {
        page.item(&format!("`{term}`"), text);
    }
}

/// The EXAMPLES section.
pub fn examples(page: &mut Page, examples: &[(&str, &str)]) {
    page.heading("EXAMPLES");
    for (line, what) in examples {
        let mut signs = what.chars();
        let first = signs.next().map(|sign| sign.to_uppercase().collect::<String>()).unwrap_or_default();
        page.text(&format!("{first}{}:", signs.as_str()));
        page.code(line);
    }
}

/// The SEE ALSO section.
pub fn see_also(page: &mut Page, others: &[&str]) {
    page.heading("SEE ALSO");
    let marked = others.iter().map(|other| match other.split_once('(') {
        Some((name, section)) => format!("`{name}`({section}"),
        None => (*other).to_owned(),
    });
    page.text(&marked.collect::<Vec<_>>().join(", "));
}

/// The columns that a command can show.
fn fields(page: &mut Page, name: &str) {
    let letters = "The letter for `--format`, the name for `--Format`, and what it is:";
    let row = |letter: Option<char>, name: &str, what: &str| {
        let letter = letter.map_or_else(String::new, |letter| format!("%{letter}"));
        format!("{letter:4}{name:22}{what}\n")
    };
    let (says, rows): (&str, String) = match name {
        "squeue" => {
            let of = |name| words::of(words::SQUEUE, name);
            (letters, squeue_fields::FIELDS.iter().map(|f| row(f.letter, f.name, of(f.name))).collect())
        }
        "sinfo" => {
            let of = |name| words::of(words::SINFO, name);
            (letters, sinfo_fields::FIELDS.iter().map(|f| row(f.letter, f.name, of(f.name))).collect())
        }
        "sacct" => {
            let of = |name| words::of(words::SACCT, name);
            let row = |f: &sacct_fields::Field| format!("{:22}{:>4}  {}\n", f.name, f.width.abs(), of(f.name));
            let says = "The name for `--format`, in any case, the usual width, and what it is. A name may be followed by `%` and \
                another width, negative for text on the left:";
            (says, sacct_fields::FIELDS.iter().map(row).collect())
        }
        _ => return,
    };
    page.heading("FIELDS");
    page.text(says);
    page.code(&rows);
}

/// What `scontrol` can be told, with what each does.
const SCONTROL: &[(&str, &str, &str)] = &[
    ("completing", "", "Shows jobs whose end is not complete, and where."),
    (
        "create",
        "reservation KEY=VALUE...",
        "Makes a reservation and prints its name. `starttime` and `duration` or `endtime`, \
        `nodes` or `nodecnt`, and `users` or `accounts` are what it needs.",
    ),
    ("delete", "reservation NAME", "Removes a reservation."),
    ("errnumstr", "NUMBER", "Says what an error's number means."),
    ("exit", "", "Ends a conversation, as `quit` does."),
    ("help", "", "Shows the commands."),
    (
        "hold",
        "JOBS",
        "Keeps waiting jobs from starting. Held by an operator or the superuser, a job is let go by them only.",
    ),
    ("holdu", "JOBS", "Keeps jobs from starting so that their owner may let them go; `uhold` is the same."),
    ("ping", "", "Says whether the controller answers."),
    ("quit", "", "Ends a conversation."),
    ("release", "JOBS", "Lets held jobs start."),
    ("requeue", "JOBS", "Stops running or ended jobs and puts them back into the queue."),
    ("requeuehold", "JOBS", "As `requeue`, and held."),
    ("resume", "JOBS", "Lets suspended jobs go on."),
    (
        "show",
        "ENTITY [NAME]",
        "Shows all about jobs, nodes, partitions, reservations, licenses or the configuration (`config`); \
        `hostnames`, `hostlist` and `hostlistsorted` turn lists of hosts into one name a line and back.",
    ),
    ("suspend", "JOBS", "Freezes running jobs; they keep their nodes."),
    ("top", "JOBS", "Moves jobs before the owner's other waiting jobs."),
    ("uhold", "JOBS", "As `holdu`."),
    (
        "update",
        "KEY=VALUE...",
        "Changes a job (`jobid=`), a node (`nodename=`), a partition (`partitionname=`) or a reservation \
        (`reservationname=`).",
    ),
    ("version", "", "Shows the version."),
    ("wait_job", "JOB", "Returns when a job has its nodes."),
    (
        "write",
        "batch_script JOB [FILE]",
        "Writes a job's script to a file, slurm-JOB.sh if none is named; `-` is standard output.",
    ),
];

/// Words of a conversation that stand for options.
const AS_OPTIONS: &[&str] = &["all", "cluster", "details", "hide", "oneliner", "quiet", "verbose"];

fn scontrol_commands(page: &mut Page) {
    page.heading("COMMANDS");
    for (word, operands, text) in SCONTROL {
        page.item(format!("`{word}` {operands}").trim_end(), text);
    }
    let other = scontrol::KEYWORDS.iter().map(|(word, _)| *word);
    let (as_options, later): (Vec<&str>, Vec<&str>) = other
        .filter(|word| !SCONTROL.iter().any(|(known, ..)| known == word))
        .partition(|word| AS_OPTIONS.contains(word));
    page.text(&format!("In a conversation {} do what the options of these names do.", as_options.join(", ")));
    page.text(&format!("Not offered yet, and refused with a message: {}.", later.join(", ")));
}

#[cfg(test)]
mod tests {
    use gpun_compat::option::{Support, getopt};

    use super::*;

    #[test]
    fn every_command_with_a_table_has_prose_and_scontrols_words_are_known() {
        for name in crate::command::SLURM_NAMES {
            assert_eq!(flags(name).is_some(), COMMANDS.iter().any(|prose| prose.name == name), "{name}");
        }
        for word in SCONTROL.iter().map(|(word, ..)| word).chain(AS_OPTIONS) {
            assert!(scontrol::KEYWORDS.iter().any(|(known, _)| known == word), "{word}");
        }
    }

    /// The words of a line of shell: blanks between, quotes around.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut quoted) = (vec![String::new()], false);
        for sign in line.chars() {
            match sign {
                '\'' => quoted = !quoted,
                ' ' if !quoted => words.push(String::new()),
                sign => words.last_mut().unwrap().push(sign),
            }
        }
        words
    }

    #[test]
    fn examples_are_lines_that_the_commands_take() {
        for prose in COMMANDS {
            let flags = flags(prose.name).unwrap();
            for (line, _) in prose.examples {
                let calls = line.split("&&").flat_map(|part| part.split("$("));
                let calls: Vec<_> = calls.filter_map(|call| call.trim().strip_prefix(prose.name)).collect();
                assert!(!calls.is_empty(), "{line}");
                for call in calls {
                    let parsed = getopt::parse(&flags, &words(call.trim().trim_end_matches(')')), false);
                    let refused = |found: &getopt::Found| matches!(flags[found.index].support, Support::Refused(_));
                    assert!(parsed.is_ok_and(|parsed| !parsed.options.iter().any(refused)), "{line}");
                }
            }
        }
        for usage in crate::command::OWN {
            for (line, _) in usage.examples {
                let calls = line.trim_start_matches("source <(").trim_end_matches(')').split("&&");
                for call in calls.map(|call| call.split('>').next().unwrap().trim()) {
                    let Some(args) = call.strip_prefix(usage.command) else { continue };
                    let args = words(args.trim());
                    let args: Vec<String> = args.into_iter().filter(|word| !word.is_empty()).collect();
                    assert_eq!(usage.parse(&args).err(), None, "{line}");
                }
            }
        }
    }
}
