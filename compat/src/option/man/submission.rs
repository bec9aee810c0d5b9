//! Words on the options that describe a job.

use super::Texts;

/// Of `sbatch`, and of what `srun` and `salloc` share with it.
#[rustfmt::skip]
pub const SUBMISSION: Texts = &[
    ("account", "Default: the user's default account, where there are accounts. With `enforce` of gpunion.toml(5) the user has to belong to it."),
    ("array", "Numbers and ranges with commas between, a step behind `:`, and behind `%` how many may run at the same time. Each task is a job \
        of its own with `SLURM_ARRAY_TASK_ID` in its environment; together they are addressed as JOB, one of them as JOB_TASK. However many \
        they are, waiting tasks are one record. Numbers are below `max_array_size` of gpunion.toml(5)."),
    ("batch", "Names with commas or `&` between; each has to be among those of `--constraint`. The script runs on the job's first node."),
    ("begin", "A time of day (past ones mean tomorrow), a date, both joined by `T`, or `now` plus a number of seconds or, with the word behind \
        it, of `minutes`, `hours`, `days` or `weeks`; also `midnight`, `noon`, `teatime`, `today`, `tomorrow`. Until then the job waits with \
        reason BeginTime. Default: at once."),
    ("chdir", "File names that do not begin with `/` are taken from there too. Default: the folder of the submission."),
    ("clusters", "Any other name is an error, as there is one cluster; `all` means it too. With it the answer names the cluster."),
    ("comment", "Changed later by `scontrol update`. Default: none."),
    ("constraint", "Names of features as `sinfo -o %f` shows them. `a&b`: both on every node. `a|b`: one of them on every node. Counts and \
        brackets are refused. Default: any node."),
    ("container-image", "The path of an OCI layout folder or of a tarball, on the node. Nothing is fetched from a registry. Without it the job sees the host's \
        programs, for reading."),
    ("container-mounts", "A folder or file of the host, and where it appears in the container; `ro` behind it makes it unwritable. Without a target it \
        appears where it is."),
    ("container-workdir", "An absolute path. Default: the one that the image names."),
    ("contiguous", "The nodes stand next to each other in the order of the controller's list. Default: any nodes."),
    ("core-spec", "The number is checked, a line on standard error says that it changes nothing, and the job is submitted."),
    ("cores-per-socket", "Nodes with fewer are not used. Default: any."),
    ("cpus-per-gpu", "The job has to ask for GPUs. Default: what its tasks need."),
    ("cpus-per-task", "They are all on one node. A job without `--ntasks` has one task on each node. The job sees it as `SLURM_CPUS_PER_TASK`. \
        Default: 1."),
    ("deadline", "Written as for `--begin`. A job whose limit would go past it is not started any more and ends in state DEADLINE, and so does one that still runs then. Default: none."),
    ("dependency", "`after`: the other has started or was cancelled; `+MINUTES` behind the number adds to it. `afterany`: it has ended. `afterok`: \
        it has ended with 0. `afternotok`: it has failed. `aftercorr`: the task of the same number of another array has ended with 0. \
        `singleton`: no other job of the user's with this name has to run first. Several kinds stand with `,` between (all have to hold) or with `?` \
        (one is enough), not mixed. A condition that can never hold leaves the job waiting with reason DependencyNeverSatisfied; see \
        `--kill-on-invalid-dep`."),
    ("distribution", "`block`, `cyclic` or `plane=N` over nodes, then, behind colons, `block`, `cyclic` or `fcyclic` over sockets and cores, and \
        `Pack` or `NoPack` behind a comma. It is handed to the job's steps as `SLURM_DISTRIBUTION`; what a job gets does not change. \
        `arbitrary` is refused."),
    ("error", "A pattern as for `--output`; `none` is /dev/null."),
    ("exclude", "A host list such as `n[1-4],gpu2`. Default: none."),
    ("exclusive", "The job gets all CPUs of its nodes, and GPUs and memory as it asked for them. `user`, `mcs` and `topo` are refused. Default: \
        nodes are shared."),
    ("export", "`ALL`: every variable of the caller. `NONE`: only `SLURM_*`, the rest as a login of the user makes it. Names: these and \
        `SLURM_*`. `NAME=VALUE` sets one; a value with commas stands in quotes. Default: `ALL`."),
    ("export-file", "They replace those of the caller. A number is that of a file that the caller has open."),
    ("extra", "Kept with the job and shown by `scontrol show job` and `sacct`; nothing here reads it. Default: none."),
    ("extra-node-info", "A `*` stands for any number. The same as `--sockets-per-node`, `--cores-per-socket` and `--threads-per-core`."),
    ("get-user-env", "A login shell of the user is run for it, for at most so many seconds. Default of the value: 120."),
    ("gid", "A name or a number. Refused for others than the superuser."),
    ("gpu-bind", "Handed to the job's steps. The same as `--tres-bind=gres/gpu:TYPE`."),
    ("gpus", "With a type only such GPUs count; several types stand with commas between. They may lie on several nodes: one on each, then those \
        with the least taken first. Default: none."),
    ("gpus-per-node", "The same as `--gres=gpu:...`. The job's environment has `CUDA_VISIBLE_DEVICES`, and it reaches no other GPU."),
    ("gpus-per-socket", "Needs `--sockets-per-node`."),
    ("gpus-per-task", "Needs `--ntasks` or `--gpus`; from either the other follows."),
    ("gres", "NAME[:TYPE][:COUNT] with commas between; one where no count is said. `sinfo -o %G` shows what nodes have. Default: none."),
    ("gres-flags", "`enforce-binding` and `disable-binding` are kept with the job and shown, the words on sharing are only checked; none of them changes \
        which CPUs are given yet."),
    ("hint", "`compute_bound` and `nomultithread`: one thread of each core. `memory_bound`: one core of each socket and one thread of it. \
        `multithread`: all threads, as without it."),
    ("hold", "It waits with priority 0 and reason JobHeldUser."),
    ("ignore-pbs", "Without it those that have a meaning here are read as if they were `#SBATCH` lines, and others refused."),
    ("input", "A pattern as for `--output`. Default: /dev/null."),
    ("job-name", "Default: the script's file name, `wrap` with `--wrap`, `sbatch` for a script from standard input."),
    ("kill-on-invalid-dep", "Default: no; it waits until somebody changes or cancels it."),
    ("licenses", "One where no count is said. `scontrol show licenses` shows which there are. The job waits until they are free. Default: none."),
    ("mem", "In MiB without a unit. It is a limit: a job that uses more is killed with state OUT_OF_MEMORY. Only one of `--mem`, `--mem-per-cpu` and \
        `--mem-per-gpu` may be given in the same place. Default: `def_mem_per_cpu` of the partition or the cluster, else all of the node's."),
    ("mem-bind", "`none`, `rank`, `local`, `map_mem:LIST` or `mask_mem:LIST`, with `quiet` or `verbose` before it; handed to the job's steps as \
        `SLURM_MEM_BIND`."),
    ("mem-per-cpu", "Written as for `--mem`; 0 is all of the node's memory."),
    ("mem-per-gpu", "Written as for `--mem`. The job has to ask for GPUs."),
    ("mincpus", "Nodes that can give the job fewer are not used. Default: what its tasks need."),
    ("nice", "From -2147483645 to 2147483645; below 0 for the superuser only. Default: 0."),
    ("no-kill", "`off` or `no` takes it back. Default: a job that loses a node ends, or goes back into the queue."),
    ("no-requeue", "Then it ends with state NODE_FAIL when a node is lost. Default: jobs go back into the queue."),
    ("nodefile", "One name or host list a line, or with commas between. Read by the command, as if its text stood behind `--nodelist`."),
    ("nodelist", "A host list such as `n[1-4],gpu2`. The job gets all of them, and others where `--nodes` asks for more. Files of names are for \
        `--nodefile`."),
    ("nodes", "At least and at most, or exactly. Default: as few as hold the tasks."),
    ("ntasks", "Room is kept for them, and the script's steps start that many; the script itself runs once. Default: one on each node."),
    ("ntasks-per-core", "Default: as many as threads allow."),
    ("ntasks-per-gpu", "With `--gpus` or `--gres` the number of tasks follows from it; with `--ntasks` that of GPUs."),
    ("ntasks-per-node", "With `--ntasks` the most on a node, otherwise the number of tasks follows from it. Default: as they fit."),
    ("ntasks-per-socket", "Default: as they fit."),
    ("open-mode", "Default: truncate. A job that was put back into the queue and starts again follows the same rule."),
    ("output", "A pattern: `%j` is the job's number, `%A` and `%a` an array's and the task's, `%x` the name, `%u` the user, `%N` the host, `%%` a \
        percent sign. Folders have to be there. `none` is /dev/null. Arrays write slurm-%A_%a.out if not given."),
    ("overcommit", "Room is needed for one CPU a node only. Default: each task has its CPUs."),
    ("oversubscribe", "It is noted and shown; a job has its CPUs to itself all the same."),
    ("parsable", "Default: a whole sentence."),
    ("partition", "Several with commas between: the job starts in the one where it can first. Default: the cluster's default partition."),
    ("prefer", "Names with commas or `&` between. The job does not wait for them. Default: none."),
    ("priority", "A number below 4294967294; it stays as it is. Default: the cluster computes one. Only operators may raise it."),
    ("qos", "`sacctmgr show qos` lists them. Default: that of the user's association, else normal."),
    ("quiet", "Refusals are printed all the same."),
    ("requeue", "It starts again from its script's begin, with `SLURM_RESTART_COUNT` one higher. This is the default."),
    ("reservation", "The user or the account has to be let into it. Default: none; nodes that are reserved for others are not used."),
    ("signal", "A name, with or without SIG, or a number, and how many seconds before the limit. With `B:` the script alone gets it, otherwise all \
        of the job's processes but the script. Default: no signal."),
    ("sockets-per-node", "Nodes with fewer are not used. Default: any."),
    ("spread-job", "Up to the most that `--nodes` allows. Default: as few as hold the job."),
    ("tasks-per-node", "Kept for scripts that use the old name."),
    ("test-only", "What would be refused is refused as in a submission. When and where the job would start is told from a plan of the queue as it stands, with the job in it."),
    ("thread-spec", "Not together with `--core-spec`."),
    ("threads-per-core", "Nodes with fewer are not used. Default: all threads of a core."),
    ("time", "Seconds count: `0:30` is half a minute. When it is over, processes get SIGTERM and `kill_wait_s` of gpunion.toml(5) later SIGKILL; \
        the state is TIMEOUT. 0 and `UNLIMITED` ask for no limit. More than the partition's `max_time` leaves the job waiting with reason \
        PartitionTimeLimit. Default: the partition's `default_time`, else its `max_time`."),
    ("time-min", "It is kept with the job and shown; limits are not lowered for an earlier start yet. Default: none."),
    ("tmp", "In MiB without a unit. Nodes with less are not used. Default: any."),
    ("tres-bind", "Such as `gres/gpu:per_task:1`; handed to the job's steps as `SLURM_TRES_BIND`."),
    ("tres-per-task", "`cpu=N` and `gres/NAME[:TYPE]=N` with commas between. Other resources are refused."),
    ("uid", "A name or a number. Refused for others than the superuser."),
    ("wait", "A signal that ends the command leaves the job alone. For an array: the worst of the tasks' exit codes."),
    ("wckey", "Kept with the job, for accounting. Default: none."),
    ("wrap", "It is run by /bin/sh. Not together with a script."),
];
