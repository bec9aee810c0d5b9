//! `scancel`: options.

use super::Support::{Done, Harmless, Refused};
use super::Takes::{Nothing, Value};
use super::squeue::list;
use super::submission::Show;
use super::{Bad, Command, Flag, Given, Row, Support, Takes, man};
use crate::jobid::{self, Selector};
use crate::names::job_state;
use crate::signal;

/// What was asked for.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Only jobs of these accounts; empty: all. So for the other lists.
    pub accounts: Vec<String>,
    /// Signal the batch script only.
    pub batch: bool,
    /// Cluster; the text as given.
    pub clusters: Option<String>,
    /// Signal the batch script and all steps.
    pub full: bool,
    /// Ask before each job.
    pub interactive: bool,
    /// Only the caller's.
    pub me: bool,
    /// Job names.
    pub names: Vec<String>,
    /// Nodes; expanded.
    pub nodes: Vec<String>,
    /// Partitions.
    pub partitions: Vec<String>,
    /// No warnings.
    pub quiet: bool,
    /// Qualities of service.
    pub qos: Vec<String>,
    /// Signal to send; `None`: end the job.
    pub signal: Option<i32>,
    /// Base states.
    pub states: Vec<job_state::Name>,
    /// User name or id.
    pub user: Option<String>,
    /// How often `-v` was said.
    pub verbose: u32,
    /// Workload characterization key.
    pub wckey: Option<String>,
    /// The jobs named; empty: every one that the filters let through.
    pub jobs: Vec<Selector>,
    /// Print something else and do nothing.
    pub show: Option<Show>,
}

impl Options {
    /// Whether any filter is given.
    pub fn has_filter(&self) -> bool {
        let lists = [&self.accounts, &self.names, &self.nodes, &self.partitions, &self.qos];
        lists.iter().any(|l| !l.is_empty())
            || !self.states.is_empty()
            || self.user.is_some()
            || self.me
            || self.wckey.is_some()
    }
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
    Row { flag: Flag { long, short, takes, env, help, man: man::of(man::SCANCEL, long), support }, set }
}

fn state(o: &mut Options, g: &Given<'_>) -> Result<(), Bad> {
    let bad = |text: &str| {
        Bad::Raw(format!("Invalid job state specified: {text}\nValid job states are PENDING, RUNNING, and SUSPENDED\n"))
    };
    for part in g.value.split(',') {
        let name = job_state::find(part).map_err(|_| bad(part))?;
        if !matches!(name.compact, "PD" | "R" | "S") {
            return Err(bad(part));
        }
        o.states.push(name);
    }
    Ok(())
}

fn signal_of(o: &mut Options, g: &Given<'_>) -> Result<(), Bad> {
    o.signal = Some(signal::parse(g.value).ok_or_else(|| Bad::Raw(format!("Unknown job signal: {}\n", g.value)))?);
    Ok(())
}

fn nodes(o: &mut Options, g: &Given<'_>) -> Result<(), Bad> {
    o.nodes = crate::hostlist::expand(g.value)
        .map_err(|_| Bad::Plain(format!("'{}' invalid entry for --nodelist", g.value)))?;
    Ok(())
}

/// How `scancel` reads its command line.
pub const COMMAND: Command<Options> =
    Command { program: "scancel", rows: ROWS, bad_option_status: 1, options_first: false };

/// The options, sorted by name.
#[rustfmt::skip]
pub static ROWS: &[Row<Options>] = &[
    row("account", Some('A'), Value("names"), &["SCANCEL_ACCOUNT"], Done, |o, g| { o.accounts = list(g.value); Ok(()) }, "only jobs of this account"),
    row("batch", Some('b'), Nothing, &["SCANCEL_BATCH"], Done, |o, _| { o.batch = true; Ok(()) }, "signal the batch script only"),
    row("clusters", Some('M'), Value("names"), &["SLURM_CLUSTERS"], Done, |o, g| { o.clusters = Some(g.value.to_owned()); Ok(()) }, "cluster; only this one's own name"),
    row("cron", Some('c'), Nothing, &["SCANCEL_CRON"], Harmless("there are no scrontab jobs"), |_, _| Ok(()), "end scrontab jobs too"),
    row("ctld", None, Nothing, &["SCANCEL_CTLD"], Harmless("requests always go to the controller"), |_, _| Ok(()), "send the request to the controller"),
    row("full", Some('f'), Nothing, &["SCANCEL_FULL"], Done, |o, _| { o.full = true; Ok(()) }, "signal the batch script and all steps"),
    row("help", None, Nothing, &[], Done, |o, _| { o.show = o.show.or(Some(Show::Help)); Ok(()) }, "show this help"),
    row("hurry", Some('H'), Nothing, &["SCANCEL_HURRY"], Harmless("there are no burst buffers to wait for"), |_, _| Ok(()), "do not stage out burst buffers"),
    row("interactive", Some('i'), Nothing, &["SCANCEL_INTERACTIVE"], Done, |o, _| { o.interactive = true; Ok(()) }, "ask before each job"),
    row("jobname", None, Value("name"), &[], Done, |o, g| { o.names = list(g.value); Ok(()) }, "the same as --name"),
    row("me", None, Nothing, &[], Done, |o, _| { o.me = true; Ok(()) }, "only my own jobs"),
    row("name", Some('n'), Value("name"), &["SCANCEL_NAME"], Done, |o, g| { o.names = list(g.value); Ok(()) }, "only jobs of this name"),
    row("nodelist", Some('w'), Value("nodes"), &[], Done, nodes, "only jobs on these nodes"),
    row("partition", Some('p'), Value("name"), &["SCANCEL_PARTITION"], Done, |o, g| { o.partitions = list(g.value); Ok(()) }, "only jobs in this partition"),
    row("qos", Some('q'), Value("name"), &["SCANCEL_QOS"], Done, |o, g| { o.qos = list(g.value); Ok(()) }, "only jobs of this quality of service"),
    row("quiet", Some('Q'), Nothing, &[], Done, |o, _| { o.quiet = true; Ok(()) }, "no warnings"),
    row("reservation", Some('R'), Value("name"), &[], Refused("reservations come in a later release"), |_, _| Ok(()), "only jobs of this reservation"),
    row("sibling", None, Value("cluster"), &[], Refused("there is one cluster"), |_, _| Ok(()), "end a sibling job on that cluster"),
    row("signal", Some('s'), Value("signal"), &[], Done, signal_of, "send this signal instead of ending the job"),
    row("state", Some('t'), Value("name"), &["SCANCEL_STATE"], Done, state, "only PENDING, RUNNING or SUSPENDED jobs"),
    row("usage", None, Nothing, &[], Done, |o, _| { o.show = o.show.or(Some(Show::Usage)); Ok(()) }, "show the options in short"),
    row("user", Some('u'), Value("name"), &["SCANCEL_USER"], Done, |o, g| { o.user = Some(g.value.to_owned()); Ok(()) }, "only jobs of this user"),
    row("verbose", Some('v'), Nothing, &["SCANCEL_VERBOSE"], Done, |o, _| { o.verbose += 1; Ok(()) }, "say more"),
    row("version", Some('V'), Nothing, &[], Done, |o, _| { o.show = o.show.or(Some(Show::Version)); Ok(()) }, "show the version"),
    row("wckey", None, Value("key"), &["SCANCEL_WCKEY"], Done, |o, g| { o.wckey = Some(g.value.to_owned()); Ok(()) }, "only jobs with this key"),
];

/// Reads a command line with its environment. Job ids may be joined by commas.
///
/// # Errors
/// What is refused, as `scancel` prints it; also when nothing says which jobs are meant.
pub fn parse(
    args: &[String],
    env: &dyn Fn(&str) -> Option<String>,
    context: &super::Context<'_>,
) -> Result<Options, super::OptionError> {
    let parsed = COMMAND.split(args)?;
    let mut out = Options::default();
    COMMAND.apply_env(&mut out, env, context)?;
    COMMAND.apply(&mut out, &parsed.options, super::Source::CommandLine, context)?;
    for word in parsed.operands.iter().flat_map(|o| jobid::split(o)) {
        let selector = jobid::parse_numeric(word)
            .ok_or_else(|| super::OptionError::new("scancel", &format!("Invalid job id {word}"), 1))?;
        // A number that no job can have is an unknown job, not a mistake.
        out.jobs.extend(selector);
    }
    let nothing = parsed.operands.is_empty() && !out.has_filter() && out.show.is_none();
    if nothing {
        return Err(super::OptionError::new("scancel", "No job identification provided", 1));
    }
    Ok(out)
}
