//! `scontrol` as a conversation: cutting lines into words, and its help.

use gpun_compat::option::{help, scontrol::COMMAND};

/// What stands behind the program's name.
pub const SYNOPSIS: &str = "[OPTIONS...] [COMMAND [ARGS...]]";

/// The commands that are offered, with a line each.
const OFFERED: &[(&str, &str)] = &[
    ("hold JOBS", "keep pending jobs from starting; jobname=NAME means all jobs of that name"),
    ("uhold JOBS", "the same, as the job's user would"),
    ("release JOBS", "let held jobs start"),
    ("requeue JOBS", "put running or ended jobs back into the queue"),
    ("requeuehold JOBS", "the same, and hold them there"),
    ("suspend JOBS", "stop running jobs; what they have stays theirs, and the time does not count"),
    ("resume JOBS", "let suspended jobs go on"),
    ("top JOBS", "put jobs before the others of the same user, account and partition"),
    ("update jobid=JOB ...", "change a job: TimeLimit, Partition, Name, Gres, Nice, NumNodes and others"),
    (
        "update nodename=NODES state=drain reason=TEXT",
        "drain a node; state=resume lends it again, state=down gives it up",
    ),
    ("update nodename=NODES weight=NUMBER ...", "change what a node is taken for: Weight, Features, Comment, Extra"),
    ("update partitionname=NAME state=down", "change a partition: State, Nodes, MaxTime, AllowAccounts and others"),
    ("show job|node|partition [NAME]", "everything that is known of it"),
    ("show config", "settings"),
    ("show licenses [NAME]", "licences: how many there are, how many jobs have"),
    ("show hostnames|hostlist|hostlistsorted [LIST]", "expand or compress a list of hosts; asks nobody"),
    ("write batch_script JOB [FILE]", "the job's script; FILE - is standard output"),
    ("wait_job JOB", "wait until the job has its nodes"),
    ("completing", "jobs that are being cleaned up"),
    ("ping", "is the controller there?"),
    ("errnumstr NUMBER", "the text of a Slurm error number"),
    ("version, help, quit", ""),
];

/// The help text.
pub fn help() -> String {
    let mut out = help::help(COMMAND.program, SYNOPSIS, &COMMAND.flags());
    out.push_str("\nCommands; without one they are read from standard input:\n");
    for (command, what) in OFFERED {
        out.push_str(format!("  {command:46} {what}").trim_end());
        out.push('\n');
    }
    out
}

/// Cuts a line at blanks outside quotes; the quotes go away.
pub fn split(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut any) = (Vec::new(), String::new(), None, false);
    for c in line.chars() {
        match (c, quote) {
            ('"' | '\'', None) => (quote, any) = (Some(c), true),
            (c, Some(q)) if c == q => quote = None,
            (c, None) if c.is_whitespace() => {
                if any {
                    words.push(std::mem::take(&mut word));
                }
                any = false;
            }
            (c, _) => {
                word.push(c);
                any = true;
            }
        }
    }
    if any {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut() {
        let rows: [(&str, &[&str]); 5] = [
            ("", &[]),
            ("  show  job 1\n", &["show", "job", "1"]),
            ("update nodename=n1 reason=\"two words\"", &["update", "nodename=n1", "reason=two words"]),
            ("a ''", &["a", ""]),
            ("a 'b", &["a", "b"]),
        ];
        for (line, right) in rows {
            assert_eq!(split(line), right, "{line}");
        }
    }
}
