//! Pages of the configuration files: every key with its type, its default and what it does.
//!
//! Tests in `gpunctld` and `gpund` compare the keys of the pages with those that they read, so that none is without words.

use super::Page;
use super::commands::{examples, see_also};

/// One key: its name, its type, what it is if not given, and what it does.
type Key = (&'static str, &'static str, &'static str, &'static str);

const CLUSTER: &[Key] = &[
    ("name", "text", "gpunion", "The cluster's name, as `--clusters` and `SLURM_CLUSTER_NAME` have it."),
    ("first_job_id", "number", "1", "The number of the first job. Numbers that were given are never given again."),
    (
        "max_job_count",
        "number",
        "1000000",
        "Most jobs that wait, run or just ended. A submission beyond it is refused; it may try again later.",
    ),
    ("max_array_size", "number", "1000001", "Task numbers of arrays are below this."),
    (
        "min_job_age_s",
        "seconds",
        "300",
        "So long a job that has ended is shown by `squeue` and `scontrol`. `sacct` shows it after that too.",
    ),
    ("kill_wait_s", "seconds", "30", "Between SIGTERM and SIGKILL, when a job is ended or its time is over."),
    (
        "node_down_s",
        "seconds",
        "300",
        "A node that is silent for so long is down, and its jobs are lost or put back into the queue. At least 10.",
    ),
    (
        "def_mem_per_cpu",
        "size",
        "all of the node's memory",
        "Memory for each CPU of a job that asks for none, such as \"4G\"; in MiB without a unit.",
    ),
    (
        "operators",
        "list of users",
        "none",
        "Users who may do what the superuser may: change and end any job, change nodes, partitions and accounts. Names or numbers.",
    ),
    (
        "licenses",
        "text",
        "none",
        "Licences that jobs share, as NAME:COUNT with commas between, such as \"matlab:10,ansys:2\".",
    ),
];

const CONTROLLER: &[Key] = &[
    (
        "link_address",
        "ADDRESS:PORT",
        "127.0.0.1 and a free port",
        "Where nodes dial in. Addresses of this machine only, as long as the link has no TLS.",
    ),
    ("min_free_disk_mib", "MiB", "256", "Changes are refused while less than this is free on the disk of the state."),
    ("log_batch_max", "number", "1024", "Most commands that are written to the log in one go."),
];

const ACCOUNTING: &[Key] = &[
    ("keep_days", "days", "for ever", "Ended jobs are remembered for so many days."),
    (
        "enforce",
        "list",
        "nothing",
        "What holds once there are accounts. \"associations\": a job needs an account that its user belongs to. \"limits\": limits of \
         associations and qualities of service hold. \"qos\": a job needs a quality of service that its association has. The last two \
         mean the first too.",
    ),
];

const PARTITION: &[Key] = &[
    ("name", "text", "has to be given", "Its name."),
    ("nodes", "host list", "every node", "Its nodes, such as \"n[1-8],gpu1\"."),
    (
        "default",
        "true or false",
        "false; the first partition if no other says so",
        "Jobs that name no partition run here.",
    ),
    ("max_time", "time", "no limit", "The longest limit that a job may ask for, as `sbatch --time` has it."),
    ("default_time", "time", "max_time", "The limit of a job that asks for none."),
    (
        "state",
        "up, down, drain or inactive",
        "up",
        "up: jobs are taken and started. down: taken and not started. drain: not taken, waiting ones start. inactive: neither.",
    ),
    ("min_nodes", "number", "none", "Fewest nodes of a job."),
    ("max_nodes", "number", "none", "Most nodes of a job."),
    ("root_only", "true or false", "false", "Only the superuser's jobs."),
    ("allow_accounts", "list of accounts", "all", "Only jobs of these accounts."),
    (
        "deny_accounts",
        "list of accounts",
        "none",
        "No jobs of these accounts. Not looked at where allow_accounts is given.",
    ),
    ("priority_job_factor", "number", "1", "Weighs in the priority of its jobs."),
    ("priority_tier", "number", "1", "Jobs of a partition with a higher tier are looked at before all others."),
    ("def_mem_per_cpu", "size", "that of [cluster]", "Memory for each CPU of a job that asks for none."),
    (
        "hidden",
        "true or false",
        "false",
        "`sinfo` and `scontrol` do not show it unless `--all` is said; its jobs are shown.",
    ),
];

const NODE: &[Key] = &[
    (
        "name",
        "host list",
        "has to be given",
        "A node that `gpun up` starts on this machine, or several alike: \"n[1-4]\".",
    ),
    ("cpus", "number", "what is found", "CPUs."),
    ("sockets", "number", "what is found", "Sockets."),
    ("cores", "number", "what is found", "Cores of a socket."),
    ("threads", "number", "what is found", "Threads of a core."),
    ("mem", "size", "what is found", "Memory: a number in MiB, or a text with a unit such as \"64G\"."),
    ("tmp_disk", "size", "what is found", "Temporary disk, written as mem is."),
    (
        "gres",
        "text or list of texts",
        "what is found",
        "Generic resources, NAME:COUNT or NAME:TYPE:COUNT[:FILES], such as \"gpu:a100:4:/dev/nvidia[0-3]\".",
    ),
    ("features", "text or list of texts", "none", "What jobs may ask for with `--constraint`."),
    ("weight", "number", "1", "Of nodes that fit, those with the lowest weight are used first."),
];

const MACHINE: &[Key] = &[
    ("runc", "path", "runc from the usual folders", "The OCI runtime."),
    (
        "writable",
        "list of paths",
        "/home, /scratch, /data",
        "Folders of the host that a job without an image may write to, where they exist. The rest of the host it can only read.",
    ),
    ("pids_max", "number", "16384", "Most processes and threads of a job."),
    ("launches_max", "number", "the machine's CPUs and two more", "Most jobs that are being started at the same time."),
    ("image_keep_days", "days", "30", "So long the layers of an image are kept after the last job that used them."),
];

/// The pages.
pub fn pages() -> Vec<Page> {
    vec![gpunion(), machine()]
}

fn gpunion() -> Page {
    let mut page = Page::new("gpunion.toml", 5, "the configuration of a gpunion cluster");
    page.heading("SYNOPSIS");
    page.code("DIR/gpunion.toml");
    page.heading("DESCRIPTION");
    page.text(
        "A TOML file in the cluster's folder. gpunctld(8) reads it when it starts, and `gpun up` reads from it which nodes to start on \
         this machine. Every key may be left out, and so may the file, unless the text says otherwise. An unknown key is an error \
         that names its line.\n\n\
         Sizes are texts such as \"512M\" or \"4G\", in MiB without a unit. Times are minutes, or \"H:M:S\", or \"D-H:M:S\", or \
         \"infinite\".\n\n\
         `gpun import` makes such a file of a slurm.conf.",
    );
    page.heading("KEYS");
    for (title, about, keys) in [
        ("[cluster]", "The cluster as a whole.", CLUSTER),
        ("[controller]", "The controller on this machine.", CONTROLLER),
        ("[accounting]", "Ended jobs, and what accounts mean.", ACCOUNTING),
        ("[[partition]]", "One for each partition. Without any there is one, main, of all nodes.", PARTITION),
        ("[[node]]", "Nodes that `gpun up` starts on this machine. Without any this machine is the one node.", NODE),
    ] {
        page.subheading(title);
        page.text(about);
        list(&mut page, keys);
    }
    examples(
        &mut page,
        &[(
            "[cluster]\nname = \"campus\"\noperators = [\"root\"]\ndef_mem_per_cpu = \"4G\"\n\n\
             [accounting]\nkeep_days = 365\nenforce = [\"limits\"]\n\n\
             [[partition]]\nname = \"gpu\"\ndefault = true\nmax_time = \"2-0\"\n\n\
             [[node]]\nname = \"n[1-2]\"\ncpus = 64\nmem = \"256G\"\ngres = \"gpu:a100:4\"",
            "a small cluster",
        )],
    );
    see_also(&mut page, &["gpun-up(1)", "gpun-import(1)", "sacctmgr(1)", "gpund.toml(5)", "gpunctld(8)"]);
    page
}

fn machine() -> Page {
    let mut page = Page::new("gpund.toml", 5, "what belongs to a machine that runs jobs of gpunion");
    page.heading("SYNOPSIS");
    page.code("DIR/gpund.toml");
    page.heading("DESCRIPTION");
    page.text(
        "A TOML file in the cluster's folder that gpund(8) reads when it starts. Every key may be left out, and so may the file. An \
         unknown key is an error that names its line.",
    );
    page.heading("KEYS");
    list(&mut page, MACHINE);
    examples(
        &mut page,
        &[("runc = \"/usr/local/bin/runc\"\nwritable = [\"/home\", \"/projects\"]", "another runtime, other folders")],
    );
    see_also(&mut page, &["gpunion.toml(5)", "gpund(8)"]);
    page
}

fn list(page: &mut Page, keys: &[Key]) {
    for (name, kind, default, text) in keys {
        page.item(&format!("`{name}` = {kind}"), &format!("{text} Default: {default}."));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_nodes_are_those_that_are_read() {
        let error = crate::nodefile::parse("[[node]]\nname = \"n\"\nnosuch = 1\n", "vm").unwrap_err();
        let said = format!("{error:#}").replace(" and ", ", ");
        let known: Vec<&str> = said.split("a node has ").nth(1).unwrap().split(", ").collect();
        assert_eq!(known, NODE.iter().map(|key| key.0).collect::<Vec<_>>());
    }
}
