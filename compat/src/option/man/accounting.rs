//! Words on the options of what shows and changes accounting.

use super::Texts;

/// Of `sacct`.
#[rustfmt::skip]
pub const SACCT: Texts = &[
    ("accounts", "With commas between. Default: all."),
    ("allocations", "Default: a line for the job and one for each step."),
    ("allusers", "Default for others: their own jobs."),
    ("array", "Default: tasks that wait share a line."),
    ("batch-script", "As it was submitted, under a header with the job's number. Only for jobs that the caller may see."),
    ("brief", "The same as `--format=jobid,state,exitcode`."),
    ("clusters", "Any other name is an error, as there is one cluster."),
    ("completion", "It says so, and lists nothing."),
    ("delimiter", "Default: `|`."),
    ("duplicates", "A job that was put back into the queue has a record for each time that it ran."),
    ("endtime", "Written as for `--starttime`."),
    ("env-vars", "As it was submitted, under a header with the job's number."),
    ("expand-patterns", "In StdIn, StdOut and StdErr. Default: as they were given."),
    ("format", "Names in any case; FIELDS below lists them. A width below 0 writes to the left. Default: \
        `jobid,jobname,partition,account,alloccpus,state,exitcode`."),
    ("gid", "Names or numbers, with commas between. Default: all."),
    ("group", "Kept for scripts that use this name."),
    ("helpformat", "Nothing else is done."),
    ("helpreason", "Nothing else is done."),
    ("helpstate", "Nothing else is done."),
    ("jobs", "`17` is a job or a whole array, `17_3` a task, `17+1` a component, `17.batch` a step. Without `--starttime` or `--state` they are shown \
        whenever they were."),
    ("json", "With the names and shapes that Slurm's own has. Options on columns mean nothing then."),
    ("long", "As for `--format` with most of the fields."),
    ("name", "With commas between. Default: all."),
    ("ncpus", "One number is exactly so many."),
    ("nnodes", "One number is exactly so many."),
    ("noconvert", "Default: units that keep numbers short."),
    ("nodelist", "A host list. Default: all."),
    ("noheader", "Default: names and a line below them."),
    ("parsable", "And one behind the last; fields are as wide as their text."),
    ("parsable2", "And none behind the last; fields are as wide as their text."),
    ("partition", "With commas between. Default: all."),
    ("qos", "With commas between. Default: all."),
    ("starttime", "A time of day (today's), a date (YYYY-MM-DD, MM/DD[/YY]), both joined by `T`, or `now-7days` and its like. With `--state` \
        and without a job's number: now."),
    ("state", "Long or short names in any case, with commas between. Default: all."),
    ("timelimit-max", "Written as for `sbatch --time`."),
    ("timelimit-min", "Written as for `sbatch --time`."),
    ("truncate", "Default: as they were."),
    ("uid", "Names or numbers, with commas between. Default: the caller; for the superuser, or where jobs are named, all."),
    ("units", "Default: one that keeps numbers short."),
    ("user", "Kept for scripts that use this name."),
    ("whole-hetjob", "The value changes nothing."),
];

/// Of `sacctmgr`.
#[rustfmt::skip]
pub const SACCTMGR: Texts = &[
    ("associations", "With `show`. Default: users and accounts alone."),
    ("immediate", "Default: changes are shown, and made when the answer is y; without an answer they are dropped after a while."),
    ("noheader", "Default: names and a line below them."),
    ("oneliner", "Default: one line for each record as well, in columns."),
    ("parsable", "Default: columns."),
    ("parsable2", "Default: columns."),
    ("quiet", "The exit status tells what came of it."),
    ("readonly", "Commands that would change something are refused."),
];
