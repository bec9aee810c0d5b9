//! What administrators of Slurm tell its daemons: here the answer, in Slurm's words where there are some.

/// A verb that the controller does not take: what Slurm says to users, and what is said to root.
struct Verb {
    keyword: &'static str,
    /// To those who may not.
    users: &'static str,
    /// Why, and what to do instead.
    root: &'static str,
}

const fn verb(keyword: &'static str, users: &'static str, root: &'static str) -> Verb {
    Verb { keyword, users, root }
}

const VERBS: &[Verb] = &[
    verb("cancel_reboot", "slurm_update error: Invalid user id", "slurm_update error: Invalid node state specified"),
    verb(
        "fsdampeningfactor",
        "slurm_set_fs_dampeningfactor error: Permission denied",
        "slurm_set_fs_dampeningfactor error: shares are not damped here",
    ),
    verb(
        "power",
        "scontrol_power_nodes error: Invalid user id",
        "scontrol_power_nodes error: nodes are not switched on and off here",
    ),
    verb(
        "reboot",
        "scontrol: error: RebootProgram isn't defined\nscontrol_reboot_nodes error: Unspecified error",
        "scontrol: error: RebootProgram isn't defined\nscontrol_reboot_nodes error: Unspecified error",
    ),
    verb(
        "reconfigure",
        "slurm_reconfigure error: Invalid user id",
        "slurm_reconfigure error: gpunion.toml is read when the controller starts: restart gpunctld, jobs go on meanwhile",
    ),
    verb(
        "schedloglevel",
        "slurm_set_schedlog_level error: Permission denied",
        "slurm_set_schedlog_level error: GPUN_LOG of the controller says what it logs; gpun why JOB says why a job waits",
    ),
    verb(
        "setdebug",
        "slurm_set_debug_level error: Permission denied",
        "slurm_set_debug_level error: GPUN_LOG of the controller says what it logs: start it with another",
    ),
    verb(
        "setdebugflags",
        "slurm_set_debug_flags error: Permission denied",
        "slurm_set_debug_flags error: GPUN_LOG of the controller says what it logs: start it with another",
    ),
    verb(
        "shutdown",
        "slurm_shutdown error: Invalid user id",
        "slurm_shutdown error: use gpun down, or stop the daemons as they were started",
    ),
    verb(
        "takeover",
        "slurm_takeover error: there is no backup controller",
        "slurm_takeover error: there is no backup controller",
    ),
    verb(
        "token",
        "scontrol: error: slurm_fetch_token: error with request: there are no tokens here",
        "scontrol: error: slurm_fetch_token: error with request: there are no tokens here",
    ),
];

/// The levels that `setdebug` takes, besides their numbers.
const LEVELS: &[&str] =
    &["quiet", "fatal", "error", "info", "verbose", "debug", "debug2", "debug3", "debug4", "debug5"];

/// What is said on standard error to such a verb; none for other words. The exit status is 1.
pub fn answer(keyword: &str, words: &[String], is_root: bool) -> Option<String> {
    let verb = VERBS.iter().find(|verb| verb.keyword == keyword)?;
    let needs_word = matches!(keyword, "setdebug" | "setdebugflags" | "schedloglevel" | "fsdampeningfactor" | "power");
    match (keyword, words) {
        (_, []) if needs_word => return Some(format!("too few arguments for keyword:{keyword}")),
        ("setdebug", [level, ..]) if !is_level(level) => return Some(format!("invalid debug level: {level}")),
        _ => {}
    }
    Some(if is_root { verb.root } else { verb.users }.to_owned())
}

fn is_level(level: &str) -> bool {
    LEVELS.contains(&level.to_ascii_lowercase().as_str()) || level.parse::<u32>().is_ok_and(|number| number < 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_are_answered() {
        let rows: [(&str, &[&str], bool, Option<&str>); 9] = [
            ("show", &[], true, None),
            ("reconfigure", &[], false, Some("slurm_reconfigure error: Invalid user id")),
            ("setdebug", &["info"], false, Some("slurm_set_debug_level error: Permission denied")),
            ("setdebug", &["foo"], false, Some("invalid debug level: foo")),
            ("setdebug", &[], false, Some("too few arguments for keyword:setdebug")),
            ("setdebugflags", &["+backfill"], false, Some("slurm_set_debug_flags error: Permission denied")),
            ("shutdown", &[], false, Some("slurm_shutdown error: Invalid user id")),
            ("power", &["up", "n1"], false, Some("scontrol_power_nodes error: Invalid user id")),
            ("takeover", &[], true, Some("slurm_takeover error: there is no backup controller")),
        ];
        for (keyword, words, is_root, right) in rows {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(answer(keyword, &words, is_root).as_deref(), right, "{keyword} {words:?}");
        }
        assert!(answer("reconfigure", &[], true).is_some_and(|text| text.contains("gpunion.toml")));
    }
}
