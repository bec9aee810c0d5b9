//! `scontrol`: options, keywords and entities.

use super::Support::{Done, Harmless, Refused};
use super::Takes::{Nothing, Optional, Value};
use super::submission::Show;
use super::{Bad, Command, Flag, Given, Row, Support, Takes, man};

/// What stands before the keyword.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Hidden partitions and jobs in them too.
    pub all: bool,
    /// Cluster; the text as given.
    pub clusters: Option<String>,
    /// How often `-d` was said.
    pub details: u32,
    /// One line a record.
    pub one_line: bool,
    /// No messages but errors.
    pub quiet: bool,
    /// How often `-v` was said.
    pub verbose: u32,
    /// Print something else and do nothing.
    pub show: Option<Show>,
    /// The keyword and what follows it.
    pub words: Vec<String>,
}

type Set = fn(&mut Options, &Given<'_>) -> Result<(), Bad>;

const fn row(
    long: &'static str,
    short: Option<char>,
    takes: Takes,
    env: &'static [&'static str],
    support: Support,
    set: Set,
    help: &'static str,
) -> Row<Options> {
    Row { flag: Flag { long, short, takes, env, help, man: man::of(man::SCONTROL, long), support }, set }
}

const NO_FEDERATION: &str = "there is one cluster";

/// How `scontrol` reads its command line.
pub const COMMAND: Command<Options> =
    Command { program: "scontrol", rows: ROWS, bad_option_status: 1, options_first: false };

/// The options, sorted by name.
#[rustfmt::skip]
pub static ROWS: &[Row<Options>] = &[
    row("all", Some('a'), Nothing, &["SCONTROL_ALL"], Done, |o, _| { o.all = true; Ok(()) }, "hidden partitions and jobs too"),
    row("clusters", Some('M'), Value("name"), &["SLURM_CLUSTERS"], Done, |o, g| { o.clusters = Some(g.value.to_owned()); Ok(()) }, "cluster; only this one's own name"),
    row("details", Some('d'), Nothing, &[], Done, |o, _| { o.details += 1; Ok(()) }, "more about each record"),
    row("federation", None, Nothing, &["SCONTROL_FEDERATION"], Harmless(NO_FEDERATION), |_, _| Ok(()), "all clusters of the federation"),
    row("future", Some('F'), Nothing, &["SCONTROL_FUTURE"], Harmless("there are no future nodes"), |_, _| Ok(()), "future nodes too"),
    row("help", Some('h'), Nothing, &[], Done, |o, _| { o.show = o.show.or(Some(Show::Help)); Ok(()) }, "show this help"),
    row("hide", None, Nothing, &[], Done, |o, _| { o.all = false; Ok(()) }, "no hidden partitions"),
    row("json", None, Optional("version"), &[], Refused("JSON comes in a later release"), |_, _| Ok(()), "print JSON"),
    row("local", None, Nothing, &["SCONTROL_LOCAL"], Harmless(NO_FEDERATION), |_, _| Ok(()), "this cluster only"),
    row("oneliner", Some('o'), Nothing, &[], Done, |o, _| { o.one_line = true; Ok(()) }, "one line a record"),
    row("quiet", Some('Q'), Nothing, &[], Done, |o, _| { o.quiet = true; Ok(()) }, "no messages but errors"),
    row("sibling", None, Nothing, &["SCONTROL_SIBLING"], Harmless(NO_FEDERATION), |_, _| Ok(()), "jobs on other clusters too"),
    row("uid", Some('u'), Value("user"), &[], Refused("changes are made as the caller"), |_, _| Ok(()), "change as this user"),
    row("usage", None, Nothing, &[], Done, |o, _| { o.show = o.show.or(Some(Show::Usage)); Ok(()) }, "show the options in short"),
    row("verbose", Some('v'), Nothing, &[], Done, |o, _| { o.verbose += 1; Ok(()) }, "say more"),
    row("version", Some('V'), Nothing, &[], Done, |o, _| { o.show = o.show.or(Some(Show::Version)); Ok(()) }, "show the version"),
    row("yaml", None, Optional("version"), &[], Refused("YAML comes in a later release"), |_, _| Ok(()), "print YAML"),
];

/// Reads a command line with its environment.
///
/// # Errors
/// What is refused, as `scontrol` prints it.
pub fn parse(
    args: &[String],
    env: &dyn Fn(&str) -> Option<String>,
    context: &super::Context<'_>,
) -> Result<Options, super::OptionError> {
    let parsed = COMMAND.split(args)?;
    let mut out = Options::default();
    COMMAND.apply_env(&mut out, env, context)?;
    COMMAND.apply(&mut out, &parsed.options, super::Source::CommandLine, context)?;
    out.words = parsed.operands;
    Ok(out)
}

/// A word with the least number of letters that stands for it.
type Word = (&'static str, usize);

/// What `scontrol` can be told to do. Those that are not offered yet are known by name, so that the message can say so.
pub const KEYWORDS: &[Word] = &[
    ("all", 3),
    ("cancel_reboot", 3),
    ("cluster", 2),
    ("completing", 2),
    ("create", 2),
    ("delete", 3),
    ("details", 3),
    ("errnumstr", 2),
    ("exit", 3),
    ("fsdampeningfactor", 2),
    ("help", 2),
    ("hide", 2),
    ("hold", 3),
    ("holdu", 5),
    ("listjobs", 5),
    ("listpids", 5),
    ("liststeps", 5),
    ("notify", 1),
    ("oneliner", 1),
    ("pidinfo", 3),
    ("ping", 3),
    ("power", 4),
    ("quiet", 4),
    ("quit", 4),
    ("reboot", 3),
    ("reconfigure", 3),
    ("release", 3),
    ("requeue", 3),
    ("requeuehold", 8),
    ("resume", 3),
    ("schedloglevel", 3),
    ("setdebug", 4),
    ("setdebugflags", 9),
    ("show", 2),
    ("shutdown", 2),
    ("suspend", 2),
    ("takeover", 2),
    ("token", 2),
    ("top", 2),
    ("uhold", 2),
    ("update", 1),
    ("verbose", 4),
    ("version", 4),
    ("wait_job", 1),
    ("write", 1),
];

/// What `scontrol show` can be asked for.
pub const ENTITIES: &[Word] = &[
    ("aliases", 2),
    ("assoc_mgr", 2),
    ("bbstat", 2),
    ("burstbuffer", 2),
    ("config", 1),
    ("daemons", 1),
    ("dwstat", 2),
    ("federation", 2),
    ("hostlist", 5),
    ("hostlistsorted", 9),
    ("hostnames", 5),
    ("jobs", 1),
    ("licenses", 2),
    ("nodes", 1),
    ("partitions", 1),
    ("reservations", 1),
    ("slurmd", 5),
    ("steps", 2),
    ("topology", 1),
];

/// The keyword that a word stands for, in any case: the word itself or a long enough beginning.
pub fn keyword(word: &str) -> Option<&'static str> {
    find(KEYWORDS, word)
}

/// The entity that a word stands for; without a plural, as messages name it.
pub fn entity(word: &str) -> Option<&'static str> {
    find(ENTITIES, word).map(|e| match e {
        "jobs" => "job",
        "nodes" => "node",
        "partitions" => "partition",
        "reservations" => "reservation",
        "steps" => "step",
        other => other,
    })
}

fn find(words: &[Word], word: &str) -> Option<&'static str> {
    let low = word.to_ascii_lowercase();
    let exact = words.iter().find(|(w, _)| *w == low);
    exact.or_else(|| words.iter().find(|(w, least)| low.len() >= *least && w.starts_with(&low))).map(|(w, _)| *w)
}

/// Messages of `scontrol` about its own words; each goes to standard error with exit status 1.
pub mod message {
    /// An unknown keyword.
    pub fn invalid_keyword(word: &str) -> String {
        format!("invalid keyword: {word}\n")
    }
    /// An unknown entity behind `show`.
    pub fn invalid_entity(word: &str) -> String {
        format!("invalid entity:{word} for keyword:show \n")
    }
    /// Something is missing behind a keyword.
    pub fn too_few(keyword: &str) -> String {
        match keyword {
            "update" => "too few arguments for update keyword\n".to_owned(),
            k => format!("too few arguments for keyword:{k}\n"),
        }
    }
    /// Too much stands behind a keyword.
    pub fn too_many(keyword: &str) -> String {
        format!("too many arguments for keyword:{keyword}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_may_be_shortened() {
        for (word, want) in [
            ("show", Some("show")),
            ("SHOW", Some("show")),
            ("sho", Some("show")),
            ("hold", Some("hold")),
            ("holdu", Some("holdu")),
            ("requeue", Some("requeue")),
            ("requeuehold", Some("requeuehold")),
            ("u", Some("update")),
            ("foo", None),
            ("", None),
        ] {
            assert_eq!(keyword(word), want, "{word}");
        }
        for (word, want) in [
            ("jo", Some("job")),
            ("j", Some("job")),
            ("jobs", Some("job")),
            ("JobId", None),
            ("hostname", Some("hostnames")),
            ("hostnames", Some("hostnames")),
            ("hostlist", Some("hostlist")),
            ("hostlistsorted", Some("hostlistsorted")),
            ("host", None),
            ("part", Some("partition")),
            ("res", Some("reservation")),
            ("lic", Some("licenses")),
            ("c", Some("config")),
            ("s", None),
            ("foo", None),
        ] {
            assert_eq!(entity(word), want, "{word}");
        }
    }
}
