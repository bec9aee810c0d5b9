//! `gpun completion`: what a shell offers behind Tab, made from the option tables.

use std::fmt::Write as _;

use anyhow::bail;
use gpun_compat::option::{Flag, Support, scontrol};
use serde_json::json;

use crate::{
    args::{Args, Usage},
    command::{self, OWN, SLURM_NAMES},
    out::Out,
};

/// Of `gpun completion`.
pub const USAGE: Usage = Usage {
    command: "gpun completion",
    operands: "SHELL",
    count: (1, 1),
    about: "Prints what makes Tab complete commands and options, for bash, zsh or fish.",
    options: &[],
    examples: &[
        ("gpun completion bash >/etc/bash_completion.d/gpun", "for every user's bash"),
        ("source <(gpun completion zsh)", "for this zsh"),
        ("gpun completion fish >~/.config/fish/completions/gpun.fish", "for one user's fish"),
    ],
};

/// Prints the script.
///
/// # Errors
/// There is none for this shell.
pub fn run(args: &Args, out: &mut Out) -> anyhow::Result<u8> {
    let shell = args.operands[0].as_str();
    let script = match shell {
        "bash" => bash(),
        "zsh" => format!("autoload -U +X bashcompinit && bashcompinit\n{}", bash()),
        "fish" => fish(),
        other => bail!("there is no completion for `{other}`: it is made for bash, zsh and fish"),
    };
    if args.has("--json") {
        out.line(&json!({ "shell": shell, "script": script }).to_string());
    } else {
        out.text(&script);
    }
    Ok(0)
}

/// The flags of a Slurm command that are not refused.
fn flags(name: &str) -> Vec<&'static Flag> {
    let all = command::flags(name).unwrap_or_default();
    all.into_iter().filter(|flag| !matches!(flag.support, Support::Refused(_))).collect()
}

/// The words that a Slurm command's line may hold besides options.
fn operands(name: &str) -> Vec<&'static str> {
    match name {
        "scontrol" => scontrol::KEYWORDS.iter().map(|(word, _)| *word).collect(),
        _ => Vec::new(),
    }
}

fn own_name(usage: &Usage) -> &'static str {
    usage.command.strip_prefix("gpun ").unwrap_or(usage.command)
}

fn bash() -> String {
    let mut out = String::from("# Made by `gpun completion`.\n_gpun_words() {\n    case \"$1\" in\n");
    for name in SLURM_NAMES {
        let mut words: Vec<String> = flags(name).iter().map(|flag| flag.dashed()).collect();
        words.extend(operands(name).into_iter().map(str::to_owned));
        if !words.is_empty() {
            let _ = writeln!(out, "    {name}) echo \"{}\" ;;", words.join(" "));
        }
    }
    for usage in OWN {
        let words: Vec<&str> = usage.all_options().map(|opt| opt.name).collect();
        let _ = writeln!(out, "    gpun-{}) echo \"{}\" ;;", own_name(usage), words.join(" "));
    }
    let names: Vec<&str> = OWN.iter().map(|usage| own_name(usage)).chain(SLURM_NAMES).collect();
    let _ = writeln!(out, "    gpun) echo \"{} --help --version\" ;;\n    esac\n}}", names.join(" "));
    out.push_str(
        "_gpun() {\n    local word=\"${COMP_WORDS[COMP_CWORD]}\" of=\"${COMP_WORDS[0]##*/}\"\n    \
         if [ \"$of\" = gpun ] && [ \"$COMP_CWORD\" -gt 1 ]; then\n        of=\"${COMP_WORDS[1]}\"\n        \
         [ -n \"$(_gpun_words \"gpun-$of\")\" ] && of=\"gpun-$of\"\n    fi\n    \
         COMPREPLY=($(compgen -W \"$(_gpun_words \"$of\")\" -- \"$word\"))\n    \
         [ -n \"$COMPREPLY\" ] || COMPREPLY=($(compgen -f -- \"$word\"))\n}\n",
    );
    let _ = writeln!(out, "complete -o filenames -F _gpun gpun {}", SLURM_NAMES.join(" "));
    out
}

fn fish() -> String {
    let mut out = String::from("# Made by `gpun completion`.\n");
    let quoted = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"));
    for usage in OWN {
        let name = own_name(usage);
        let about = usage.about.lines().next().unwrap_or_default();
        let _ = writeln!(out, "complete -c gpun -n __fish_use_subcommand -a {name} -d {}", quoted(about));
        for opt in usage.all_options() {
            let (kind, long) = match opt.name.strip_prefix("--") {
                Some(long) => ("-l", long),
                None => ("-s", opt.name.trim_start_matches('-')),
            };
            let needs = if opt.value.is_some() { " -r" } else { "" };
            let _ = writeln!(
                out,
                "complete -c gpun -n '__fish_seen_subcommand_from {name}' {kind} {long}{needs} -d {}",
                quoted(opt.help)
            );
        }
    }
    for name in SLURM_NAMES {
        let _ = writeln!(out, "complete -c gpun -n __fish_use_subcommand -a {name} -d {}", quoted("as in Slurm"));
        for word in operands(name) {
            let _ = writeln!(out, "complete -c {name} -a {word}");
        }
        for flag in flags(name) {
            let short = flag.short.map(|letter| format!(" -s {letter}")).unwrap_or_default();
            let needs = if flag.takes == gpun_compat::option::Takes::Nothing { "" } else { " -r" };
            let _ = writeln!(out, "complete -c {name}{short} -l {}{needs} -d {}", flag.long, quoted(flag.help));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What bash offers behind a line whose last word is being typed.
    fn offered(line: &[&str]) -> String {
        let words: Vec<String> = line.iter().map(|word| format!("'{word}'")).collect();
        let script = format!(
            "{}\nCOMP_WORDS=({}); COMP_CWORD={}; _gpun; echo \"${{COMPREPLY[*]}}\"",
            bash(),
            words.join(" "),
            line.len() - 1
        );
        let output = std::process::Command::new("bash").args(["-c", &script]).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    #[test]
    fn bash_offers_what_the_tables_say() {
        for (line, right) in [
            (&["sbatch", "--cpus-per-t"][..], "--cpus-per-task"),
            (&["sacct", "--starttim"], "--starttime"),
            (&["sacctmgr", "--readon"], "--readonly"),
            (&["gpun", "squeue", "--only-j"], "--only-job-state"),
            (&["gpun", "install-l"], "install-links"),
            (&["gpun", "down", "--keep"], "--keep-jobs"),
            (&["/opt/bin/scontrol", "requeueh"], "requeuehold"),
            (&["sbatch", "--mail-ty"], ""),
        ] {
            assert_eq!(offered(line), right, "{line:?}");
        }
    }

    #[test]
    fn every_shell_offers_every_command_and_option() {
        for script in [bash(), fish()] {
            for usage in OWN {
                let options = usage.all_options().map(|opt| opt.name.trim_start_matches('-'));
                for word in options.chain([own_name(usage)]) {
                    assert!(script.contains(word), "{}: {word}", usage.command);
                }
            }
            for name in SLURM_NAMES {
                assert!(script.contains(name), "{name}");
                assert!(flags(name).iter().all(|flag| script.contains(flag.long)), "{name}");
            }
        }
        // zsh runs bash's through its own bashcompinit.
        assert!(bash().contains("complete -o filenames -F _gpun gpun sbatch"));
    }
}
