//! Words on the options of what shows and ends jobs and nodes.

use super::Texts;

/// Of `squeue`.
#[rustfmt::skip]
pub const SQUEUE: Texts = &[
    ("Format", "A width cuts and pads, 20 if not said; `.` writes to the right; the suffix is put behind. `--helpFormat` and FIELDS below \
        list the names. It takes the place of `--format`, whichever comes last."),
    ("account", "With commas between. Default: all."),
    ("all", "They are shown without it as well."),
    ("array", "Default: tasks that wait share a line, with their numbers in brackets."),
    ("clusters", "Any other name but `all` is an error, as there is one cluster."),
    ("format", "Text between fields is printed as it is; a width cuts and pads, `.` writes to the right; `%all` means every field. \
        Default: `%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R`."),
    ("helpFormat", "Nothing else is done."),
    ("helpformat", "Nothing else is done."),
    ("helpstate", "Nothing else is done."),
    ("hide", "It only takes back `--all`: such jobs are shown all the same."),
    ("iterate", "Until it is interrupted. Default: once."),
    ("jobs", "Numbers, tasks (`17_3`, `17_[1-4]`) and steps with commas between. A single number that does not exist is an error; of several, \
        those that exist are shown. Ended jobs are shown for `min_job_age_s` of gpunion.toml(5)."),
    ("licenses", "With commas between: one of them is enough."),
    ("long", "Adds state in full, time limit and node count. `--format` goes before it."),
    ("me", "The same as `--user` with the caller's name."),
    ("name", "With commas between. Default: all."),
    ("noconvert", "Default: units that keep numbers short."),
    ("nodelist", "A host list; jobs on any of them. Default: all."),
    ("noheader", "Default: one line above the list."),
    ("only-job-state", "The shortest question for the controller, for scripts that watch jobs."),
    ("partition", "With commas between. Default: all that are not hidden."),
    ("qos", "With commas between. Default: all."),
    ("reservation", "Default: all."),
    ("sort", "Letters of `--format` without `%`, the first one first; `+` before one is the usual order. Default: `P,t,-p`, and `S` with `--start`."),
    ("start", "Only jobs that wait, by the time that the scheduler's last plan has for them, with the nodes; N/A where there is none."),
    ("states", "Long or short names (`PENDING`, `pd`), in any case, with commas between; `all` is every state. Default: jobs that have not ended."),
    ("user", "Names or numbers, with commas between. Default: all."),
];

/// Of `sinfo`.
#[rustfmt::skip]
pub const SINFO: Texts = &[
    ("Format", "A width cuts and pads, 20 if not said; `.` writes to the right; the suffix is put behind. `--helpFormat` and FIELDS below \
        list the names."),
    ("Node", "Nodes of several partitions have a line for each. Default: nodes alike share a line."),
    ("all", "Default: hidden partitions are left out."),
    ("clusters", "Any other name but `all` is an error, as there is one cluster."),
    ("dead", "Default: all."),
    ("exact", "Default: nodes that differ in sizes only share a line, and a `+` behind the smallest says so."),
    ("format", "Text between fields is printed as it is; a width cuts and pads, `.` writes to the right; `%all` means every field. Default: \
        `%9P %.5a %.10l %.6D %.6t %N`, wider where a name needs it."),
    ("helpFormat", "Nothing else is done."),
    ("helpformat", "Nothing else is done."),
    ("helpstate", "Nothing else is done."),
    ("hide", "This is the default; it takes back `--all`."),
    ("iterate", "Until it is interrupted. Default: once."),
    ("list-reasons", "With who said so and since when; with `--long` the user's number and the state too. Nodes without a reason are left out."),
    ("long", "Adds job size, sharing, groups, state in full and reservation. `--format` goes before it."),
    ("noconvert", "Default: units that keep numbers short."),
    ("nodes", "A host list. Default: all."),
    ("noheader", "Default: one line above the list."),
    ("partition", "With commas between; hidden ones too. Default: all that are not hidden."),
    ("reservation", "With state, begin, end, duration and nodes, in place of partitions."),
    ("responding", "Default: all."),
    ("sort", "Letters of `--format` without `%`, the first one first; `#P` keeps the order of the configuration. Default: `#P,-t`, with \
        `--Node` and `--list-reasons` `N`."),
    ("states", "Names in any case, with commas between (one is enough) or `&` (all have to fit). Default: all."),
    ("summarize", "Nodes are counted as allocated/idle/other/total."),
];

/// Of `scancel`.
#[rustfmt::skip]
pub const SCANCEL: Texts = &[
    ("account", "With commas between. Default: all."),
    ("batch", "Default: every process of the job. Without `--signal` the script is killed."),
    ("clusters", "Any other name but `all` is an error, as there is one cluster."),
    ("full", "With `--signal`. Default: a signal other than KILL goes to steps and not to the script."),
    ("interactive", "On standard input; what is not answered with y is left alone."),
    ("jobname", "Kept for scripts that use this name."),
    ("me", "Together with jobs' numbers: only those of them that are mine."),
    ("name", "With commas between. Default: all."),
    ("nodelist", "A host list; jobs on any of them. Default: all."),
    ("partition", "With commas between. Default: all."),
    ("qos", "With commas between. Default: all."),
    ("quiet", "Refusals are printed all the same."),
    ("signal", "A name, with or without SIG, or a number. KILL ends the job as if no signal had been named. Default: TERM, then KILL."),
    ("state", "In any case, with commas between. Default: all that have not ended."),
    ("user", "A name or a number. Default: all whose jobs the caller may end."),
    ("wckey", "Default: all."),
];

/// Of `scontrol`.
#[rustfmt::skip]
pub const SCONTROL: Texts = &[
    ("all", "Default: hidden partitions are left out."),
    ("clusters", "Any other name is an error, as there is one cluster."),
    ("details", "For jobs the CPUs and devices on each node; may be repeated."),
    ("hide", "This is the default; it takes back `--all`."),
    ("oneliner", "Default: several lines for each record, and an empty one behind it."),
    ("quiet", "The exit status tells what came of it."),
];
