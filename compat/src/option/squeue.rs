//! `squeue`: options.

use super::Support::{Done, Harmless, Refused};
use super::Takes::{Nothing, Optional, Perhaps, Value};
use super::submission::Show;
use super::{Bad, Command, Flag, Given, Row, Support, Takes, man};
use crate::jobid::{self, Selector};
use crate::names::job_state;

/// What was asked for.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Only jobs of these accounts; empty: all. So for the other lists.
    pub accounts: Vec<String>,
    /// `--licenses`: one of these names.
    pub licenses: Vec<String>,
    /// Jobs in hidden partitions too.
    pub all: bool,
    /// One line for each task of an array.
    pub array: bool,
    /// Cluster to ask; the text as given.
    pub clusters: Option<String>,
    /// `-o`.
    pub format: Option<String>,
    /// `-O`.
    pub long_format: Option<String>,
    /// Ask again every so many seconds.
    pub iterate_s: Option<u32>,
    /// Only these jobs; `None`: all. An empty list is what a list without a job is.
    pub jobs: Option<Vec<Selector>>,
    /// Print JSON.
    pub json: bool,
    /// `-l`.
    pub long: bool,
    /// Only the caller's.
    pub me: bool,
    /// Job names.
    pub names: Vec<String>,
    /// No units for memory.
    pub noconvert: bool,
    /// No header line.
    pub no_header: bool,
    /// Nodes that the job must have; expanded.
    pub nodes: Vec<String>,
    /// Only ids and states.
    pub only_job_state: bool,
    /// Partitions.
    pub partitions: Vec<String>,
    /// Qualities of service.
    pub qos: Vec<String>,
    /// `--reservation`.
    pub reservation: Option<String>,
    /// `-S`.
    pub sort: Option<String>,
    /// `--start`.
    pub start: bool,
    /// States.
    pub states: job_state::Filter,
    /// User names or ids.
    pub users: Vec<String>,
    /// How often `-v` was said.
    pub verbose: u32,
    /// Print something else and do nothing.
    pub show: Option<Show>,
    /// `--helpstate`, `--helpformat` or `--helpFormat`.
    pub list: Option<List>,
}

/// A list to print instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum List {
    /// State names.
    States,
    /// Letters of `-o`.
    Letters,
    /// Names of `-O`.
    Names,
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
    Row { flag: Flag { long, short, takes, env, help, man: man::of(man::SQUEUE, long), support }, set }
}

/// A list by commas.
pub(super) fn list(value: &str) -> Vec<String> {
    value.split(',').filter(|p| !p.is_empty()).map(str::to_owned).collect()
}

fn jobs(o: &mut Options, g: &Given<'_>) -> Result<(), Bad> {
    if g.value.is_empty() {
        // No list, or an empty one: every job.
        return Ok(());
    }
    let parts = jobid::split(g.value);
    let selectors: Result<Vec<_>, _> = parts.map(|p| jobid::parse(p).ok_or_else(|| p.to_owned())).collect();
    o.jobs = Some(selectors.map_err(|p| Bad::Plain(format!("Invalid job id: {p}")))?);
    Ok(())
}

fn states(o: &mut Options, g: &Given<'_>) -> Result<(), Bad> {
    o.states = job_state::Filter::parse(g.value)
        .map_err(|e| Bad::Plain(format!("{e}\nValid job states include: {}", job_state::list())))?;
    Ok(())
}

fn iterate(o: &mut Options, g: &Given<'_>) -> Result<(), Bad> {
    let seconds = g.value.parse::<u32>().ok().filter(|n| *n > 0);
    o.iterate_s = Some(seconds.ok_or_else(|| Bad::Plain(format!("--iterate={}", g.value)))?);
    Ok(())
}

fn nodes(o: &mut Options, g: &Given<'_>) -> Result<(), Bad> {
    let bad = |_| Bad::Plain(format!("'{}' invalid entry for --nodelist", g.value));
    o.nodes = crate::hostlist::expand(g.value).map_err(bad)?;
    Ok(())
}

const NO_FEDERATION: &str = "there is one cluster";
const NO_ACCOUNTING: &str = "it comes in a later release";

/// How `squeue` reads its command line.
pub const COMMAND: Command<Options> =
    Command { program: "squeue", rows: ROWS, bad_option_status: 1, options_first: false };

/// The options, sorted by name.
#[rustfmt::skip]
pub static ROWS: &[Row<Options>] = &[
    row("Format", Some('O'), Value("fields"), &["SQUEUE_FORMAT2"], Done, |o, g| { (o.long_format, o.format) = (Some(g.value.to_owned()), None); Ok(()) }, "fields by name, name:[.][width][suffix], comma separated"),
    row("account", Some('A'), Value("names"), &["SQUEUE_ACCOUNT"], Done, |o, g| { o.accounts = list(g.value); Ok(()) }, "only jobs of these accounts"),
    row("all", Some('a'), Nothing, &["SQUEUE_ALL"], Done, |o, _| { o.all = true; Ok(()) }, "jobs in hidden partitions too"),
    row("array", Some('r'), Nothing, &["SQUEUE_ARRAY"], Done, |o, _| { o.array = true; Ok(()) }, "one line for each task of an array"),
    row("clusters", Some('M'), Value("names"), &["SQUEUE_CLUSTERS", "SLURM_CLUSTERS"], Done, |o, g| { o.clusters = Some(g.value.to_owned()); Ok(()) }, "cluster to ask; only this one's own name"),
    row("expand-patterns", None, Nothing, &["SQUEUE_EXPAND_PATTERNS"], Harmless("file names are always shown expanded"), |_, _| Ok(()), "expand patterns in file names"),
    row("federation", None, Nothing, &["SQUEUE_FEDERATION"], Harmless(NO_FEDERATION), |_, _| Ok(()), "all clusters of the federation"),
    row("format", Some('o'), Value("format"), &["SQUEUE_FORMAT"], Done, |o, g| { (o.format, o.long_format) = (Some(g.value.to_owned()), None); Ok(()) }, "fields by letter, %[.][width]letter"),
    row("help", None, Nothing, &[], Done, |o, _| { o.show = o.show.or(Some(Show::Help)); Ok(()) }, "show this help"),
    row("helpFormat", None, Nothing, &[], Done, |o, _| { o.list = o.list.or(Some(List::Names)); Ok(()) }, "list the names for --Format"),
    row("helpformat", None, Nothing, &[], Done, |o, _| { o.list = o.list.or(Some(List::Letters)); Ok(()) }, "list the letters for --format"),
    row("helpstate", None, Nothing, &[], Done, |o, _| { o.list = o.list.or(Some(List::States)); Ok(()) }, "list the names for --states"),
    row("hide", None, Nothing, &[], Done, |o, _| { o.all = false; Ok(()) }, "no jobs in hidden partitions"),
    row("iterate", Some('i'), Value("seconds"), &[], Done, iterate, "show again every so many seconds"),
    row("jobs", Some('j'), Perhaps("ids"), &[], Done, jobs, "only these jobs, such as 17,18_3"),
    row("json", None, Optional("version"), &[], Refused("JSON comes in a later release; use --Format"), |_, _| Ok(()), "print JSON"),
    row("licenses", Some('L'), Value("names"), &["SQUEUE_LICENSES"], Done, |o, g| { o.licenses = list(g.value); Ok(()) }, "only jobs with these licences"),
    row("local", None, Nothing, &["SQUEUE_LOCAL"], Harmless(NO_FEDERATION), |_, _| Ok(()), "this cluster only"),
    row("long", Some('l'), Nothing, &[], Done, |o, _| { o.long = true; Ok(()) }, "more columns"),
    row("me", None, Nothing, &[], Done, |o, _| { o.me = true; Ok(()) }, "only my own jobs"),
    row("name", Some('n'), Value("names"), &["SQUEUE_NAMES"], Done, |o, g| { o.names = list(g.value); Ok(()) }, "only jobs of these names"),
    row("noconvert", None, Nothing, &[], Done, |o, _| { o.noconvert = true; Ok(()) }, "memory in mebibytes without units"),
    row("nodelist", Some('w'), Value("nodes"), &["SQUEUE_NODES"], Done, nodes, "only jobs on these nodes"),
    row("noheader", Some('h'), Nothing, &[], Done, |o, _| { o.no_header = true; Ok(()) }, "no header line"),
    row("only-job-state", None, Nothing, &[], Done, |o, _| { o.only_job_state = true; Ok(()) }, "only ids and states"),
    row("partition", Some('p'), Value("names"), &["SQUEUE_PARTITION"], Done, |o, g| { o.partitions = list(g.value); Ok(()) }, "only jobs of these partitions"),
    row("priority", Some('P'), Nothing, &["SQUEUE_PRIORITY"], Harmless("a job has one priority in all its partitions"), |_, _| Ok(()), "one line for each partition of a job"),
    row("qos", Some('q'), Value("names"), &["SQUEUE_QOS"], Done, |o, g| { o.qos = list(g.value); Ok(()) }, "only jobs of these qualities of service"),
    row("reservation", Some('R'), Value("name"), &[], Done, |o, g| { o.reservation = Some(g.value.to_owned()); Ok(()) }, "only jobs of this reservation"),
    row("sibling", None, Nothing, &["SQUEUE_SIBLING"], Harmless(NO_FEDERATION), |_, _| Ok(()), "jobs on other clusters too"),
    row("sort", Some('S'), Value("letters"), &["SQUEUE_SORT"], Done, |o, g| { o.sort = Some(g.value.to_owned()); Ok(()) }, "sort by these letters of --format; - before one turns it round"),
    row("start", None, Nothing, &[], Done, |o, _| { o.start = true; Ok(()) }, "when waiting jobs are expected to start"),
    row("states", Some('t'), Value("names"), &["SQUEUE_STATES"], Done, states, "only jobs in these states, or all"),
    row("steps", Some('s'), Perhaps("ids"), &[], Refused(NO_ACCOUNTING), |_, _| Ok(()), "show steps"),
    row("usage", None, Nothing, &[], Done, |o, _| { o.show = o.show.or(Some(Show::Usage)); Ok(()) }, "show the options in short"),
    row("user", Some('u'), Value("names"), &["SQUEUE_USERS"], Done, |o, g| { o.users = list(g.value); Ok(()) }, "only jobs of these users"),
    row("verbose", Some('v'), Nothing, &[], Done, |o, _| { o.verbose += 1; Ok(()) }, "say more"),
    row("version", Some('V'), Nothing, &[], Done, |o, _| { o.show = o.show.or(Some(Show::Version)); Ok(()) }, "show the version"),
    row("yaml", None, Optional("version"), &[], Refused("YAML comes in a later release; use --Format"), |_, _| Ok(()), "print YAML"),
];

/// Reads a command line with its environment.
///
/// # Errors
/// What is refused, as `squeue` prints it.
pub fn parse(
    args: &[String],
    env: &dyn Fn(&str) -> Option<String>,
    context: &super::Context<'_>,
) -> Result<Options, super::OptionError> {
    let parsed = COMMAND.split(args)?;
    let mut out = Options::default();
    COMMAND.apply_env(&mut out, env, context)?;
    COMMAND.apply(&mut out, &parsed.options, super::Source::CommandLine, context)?;
    if let Some(stray) = parsed.operands.first() {
        let mut e = super::OptionError::new("squeue", &format!("Unrecognized option: {stray}"), 1);
        e.text.push_str(USAGE);
        return Err(e);
    }
    Ok(out)
}

/// `squeue --usage`.
pub const USAGE: &str = "\
Usage: squeue [-A account] [--clusters names] [-i seconds] [--job jobid]
              [-n name] [-o format] [--only-job-state] [-p partitions]
              [--qos qos] [--reservation reservation] [--sort fields] [--start]
              [--step step_id] [-t states] [-u user_name] [--usage]
              [-L licenses] [-w nodes] [--federation] [--local] [--sibling]
              [--expand-patterns] [--json=data_parser] [--yaml=data_parser]
              [-ahjlrsv]
";
