//! Pages of gpun's own commands and of the daemons.

use super::commands::{examples, list, see_also};
use super::{Page, sentence};
use crate::args::{Opt, Usage};
use crate::command::{OWN, SLURM_NAMES};

const DIR: (&str, &str) = (
    "GPUN_DIR",
    "the cluster's folder. Without it `/etc/gpunion` if that holds a `gpunion.toml`, else `/var/lib/gpunion`",
);

/// All of them.
pub fn pages() -> Vec<Page> {
    let mut pages: Vec<Page> = OWN.iter().map(|usage| of(usage)).collect();
    pages.extend([gpun(), gpunctld(), gpund()]);
    pages
}

fn of(usage: &Usage) -> Page {
    let name = usage.command.replace(' ', "-");
    let (first, rest) = usage.about.split_once('\n').unwrap_or((usage.about, ""));
    let about = first.split(". ").next().unwrap_or(first).trim_end_matches('.');
    let mut signs = about.chars();
    let about = signs.next().map(|sign| sign.to_lowercase().collect::<String>()).unwrap_or_default() + signs.as_str();
    let mut page = Page::new(&name, 1, &about);
    page.heading("SYNOPSIS");
    page.code(format!("{} [OPTIONS] {}", usage.command, usage.operands).trim_end());
    page.heading("DESCRIPTION");
    page.text(&format!("{first} {rest}"));
    page.heading("OPTIONS");
    for Opt { name, value, help } in usage.all_options() {
        let value = value.map_or_else(String::new, |value| format!(" {value}"));
        page.item(&format!("`{name}`{value}"), &sentence(help));
    }
    list(&mut page, "ENVIRONMENT", &[DIR]);
    let status = [("0", "done"), ("1", "it could not be done; standard error says why"), ("2", "an argument is wrong")];
    list(&mut page, "EXIT STATUS", &status);
    examples(&mut page, usage.examples);
    see_also(&mut page, &["gpun(1)", "gpunion.toml(5)", "gpunctld(8)", "gpund(8)"]);
    page
}

fn gpun() -> Page {
    let mut page = Page::new("gpun", 1, "share a campus's GPUs with Slurm's commands");
    page.heading("SYNOPSIS");
    page.code("gpun COMMAND [OPTIONS] [OPERANDS]\nNAME [OPTIONS] [OPERANDS]");
    page.heading("DESCRIPTION");
    page.text(
        "One program for everything that a user or an administrator types. Called by the name of one of Slurm's commands, or with \
         it as the first word, it is that command; its own commands start and stop clusters and answer what Slurm's do not.\n\n\
         A cluster is a folder: configuration, the controller's state, logs and sockets. Jobs run in containers, below the \
         daemon of each node.",
    );
    page.heading("COMMANDS");
    for usage in OWN {
        let first = usage.about.lines().next().unwrap_or_default();
        page.item(&format!("`{}`", usage.command), first);
    }
    page.item("Slurm's", &format!("{}. Those that this version does not have yet say so.", SLURM_NAMES.join(", ")));
    page.heading("OPTIONS");
    page.item("`-h`, `--help`", "Shows the first steps and all commands.");
    page.item("`-V`, `--version`", "Shows the version, and the Slurm whose options, output and messages are spoken.");
    list(&mut page, "ENVIRONMENT", &[DIR]);
    list(
        &mut page,
        "FILES",
        &[
            ("DIR/gpunion.toml", "the configuration: gpunion.toml(5)"),
            ("DIR/gpund.toml", "what belongs to the machine: gpund.toml(5)"),
            ("DIR/state", "the controller's state; it alone writes there"),
            ("DIR/log", "what the daemons said"),
            ("DIR/bin", "links with the names of all commands, for the PATH"),
            ("DIR/share/man", "these pages"),
        ],
    );
    list(&mut page, "EXIT STATUS", &[("0", "done"), ("1", "it could not be done"), ("2", "an argument is wrong")]);
    examples(
        &mut page,
        &[
            ("gpun up --nodes 2 --cpus 4 --mem 4000", "a cluster of two virtual nodes on this machine"),
            ("export PATH=/var/lib/gpunion/bin:$PATH\nsbatch --wrap 'hostname'\nsqueue", "a job in it"),
            ("gpun why 1", "what job 1 waits for"),
            ("gpun down", "stop it; nothing that was accepted is lost"),
        ],
    );
    let own = OWN.iter().map(|usage| format!("{}(1)", usage.command.replace(' ', "-")));
    let others =
        ["sbatch(1)", "squeue(1)", "sinfo(1)", "gpunion.toml(5)", "gpunctld(8)", "gpund(8)"].map(str::to_owned);
    let all: Vec<String> = own.chain(others).collect();
    see_also(&mut page, &all.iter().map(String::as_str).collect::<Vec<_>>());
    page
}

const LOG: (&str, &str) = ("GPUN_LOG", "what is logged, such as `debug` or `gpund=debug,info`; `info` if not set");
const LOG_JSON: (&str, &str) = ("--log-json", "Write the log as lines of JSON.");
const HELP: (&str, &str) = ("--help", "Show the options.");
const VERSION: (&str, &str) = ("--version", "Show the version.");

/// The options of `gpunctld`; a test there compares them with its command line.
const GPUNCTLD: &[(&str, &str)] = &[("--dir=DIR", "The cluster's folder."), LOG_JSON, HELP, VERSION];

/// The options of `gpund`; a test there compares them with its command line.
const GPUND: &[(&str, &str)] = &[
    ("--dir=DIR", "The cluster's folder. It has to be said."),
    ("--node=NAME", "This node's name: letters, digits, `-`, `_` and `.`, at most 64. It has to be said."),
    ("--controller=HOST:PORT", "A controller to dial; may be repeated. At least one has to be said."),
    ("--cpus=N", "State so many CPUs instead of those found; jobs are then not bound to CPUs."),
    ("--sockets=N", "State so many sockets."),
    ("--cores=N", "State so many cores of a socket."),
    ("--threads=N", "State so many threads of a core."),
    ("--mem=MIB", "State so much memory, in MiB, instead of what is found."),
    ("--tmp-disk=MIB", "State so much temporary disk, in MiB."),
    ("--gres=SPEC", "A generic resource, NAME:COUNT or NAME:TYPE:COUNT[:FILES]; may be repeated."),
    ("--feature=FEATURE", "A feature that jobs may ask for; may be repeated, or hold several with commas between."),
    ("--weight=N", "Of two nodes that fit, the one with the lower weight is used first."),
    ("--foreground", "Stay in the foreground, as it always does; for scripts that say so."),
    LOG_JSON,
    HELP,
    VERSION,
];

fn gpunctld() -> Page {
    let mut page = Page::new("gpunctld", 8, "the controller of a gpunion cluster");
    page.heading("SYNOPSIS");
    page.code("gpunctld [OPTIONS]");
    page.heading("DESCRIPTION");
    page.text(
        "Takes jobs, decides where and when they run, and tells the nodes. A change is answered once it is written to the log on \
         disk, and what was answered survives a kill. Commands come by a socket in the cluster's folder, nodes by TCP.\n\n\
         It stays in the foreground and logs to standard error. `gpun up` starts it; a service manager may as well. SIGTERM stops \
         it; jobs run on meanwhile.",
    );
    list(&mut page, "OPTIONS", GPUNCTLD);
    let dir = ("GPUN_DIR", "the cluster's folder where `--dir` is not given; `/var/lib/gpunion` without either");
    list(&mut page, "ENVIRONMENT", &[dir, LOG]);
    list(
        &mut page,
        "FILES",
        &[
            ("DIR/gpunion.toml", "the configuration: gpunion.toml(5)"),
            ("DIR/state", "log and state"),
            ("DIR/ctl.sock", "where commands come in"),
            ("DIR/ctl.pid", "its process id"),
            ("DIR/link.addr", "the address that nodes dial"),
        ],
    );
    list(
        &mut page,
        "EXIT STATUS",
        &[("0", "stopped by a signal"), ("1", "it could not start or go on; the log says why")],
    );
    examples(&mut page, &[("GPUN_LOG=debug gpunctld --dir /srv/cluster", "in the foreground, with all that it says")]);
    see_also(&mut page, &["gpun(1)", "gpun-up(1)", "gpunion.toml(5)", "gpund(8)"]);
    page
}

fn gpund() -> Page {
    let mut page = Page::new("gpund", 8, "the daemon of a node of a gpunion cluster");
    page.heading("SYNOPSIS");
    page.code("gpund --dir=DIR --node=NAME --controller=HOST:PORT [OPTIONS]");
    page.heading("DESCRIPTION");
    page.text(
        "Finds what the machine has, dials the controller and runs the jobs that it is given, each in a container of runc. Jobs are \
         children of a shim of their own, so the daemon may be restarted or upgraded under them.\n\n\
         It runs as root, stays in the foreground and logs to standard error. `gpun up` starts one for each node that \
         gpunion.toml(5) names. Sizes that are stated replace those found, so that one machine can stand for several.",
    );
    list(&mut page, "OPTIONS", GPUND);
    list(&mut page, "ENVIRONMENT", &[LOG]);
    list(
        &mut page,
        "FILES",
        &[
            ("DIR/gpund.toml", "what belongs to the machine: gpund.toml(5)"),
            ("DIR/nodes/NAME", "the node's jobs and what it must remember of them"),
            ("DIR/node.key", "shows the controller that the node belongs to the cluster"),
        ],
    );
    list(
        &mut page,
        "EXIT STATUS",
        &[("0", "stopped by a signal"), ("1", "it could not start or go on; the log says why")],
    );
    examples(
        &mut page,
        &[(
            "gpund --dir /srv/cluster --node n1 --controller 127.0.0.1:6817 --gres gpu:a100:4:/dev/nvidia[0-3]",
            "node n1 with four GPUs",
        )],
    );
    see_also(&mut page, &["gpun(1)", "gpun-up(1)", "gpund.toml(5)", "gpunctld(8)"]);
    page
}
