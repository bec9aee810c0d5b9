//! `sinfo`: options.

use super::Support::{Done, Harmless, Refused};
use super::Takes::{Nothing, Optional, Value};
use super::squeue::{List, list};
use super::submission::Show;
use super::{Bad, Command, Flag, Given, Row, Support, Takes, man};
use crate::names::node_state;

/// What was asked for.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Hidden partitions too.
    pub all: bool,
    /// Cluster to ask; the text as given.
    pub clusters: Option<String>,
    /// Only nodes that do not answer.
    pub dead: bool,
    /// Group nodes only where every shown value is the same.
    pub exact: bool,
    /// `-o`.
    pub format: Option<String>,
    /// `-O`.
    pub long_format: Option<String>,
    /// Show again every so many seconds.
    pub iterate_s: Option<u32>,
    /// `-l`.
    pub long: bool,
    /// `-N`: a line for each node.
    pub by_node: bool,
    /// Memory without units.
    pub noconvert: bool,
    /// No header line.
    pub no_header: bool,
    /// Only these nodes; expanded.
    pub nodes: Option<Vec<String>>,
    /// Only these partitions.
    pub partitions: Option<Vec<String>>,
    /// `-R`: reasons.
    pub reasons: bool,
    /// `-T`: reservations.
    pub reservations: bool,
    /// Only nodes that answer.
    pub responding: bool,
    /// `-S`.
    pub sort: Option<String>,
    /// States.
    pub states: Option<node_state::Filter>,
    /// `-s`.
    pub summarize: bool,
    /// How often `-v` was said.
    pub verbose: u32,
    /// Print something else and do nothing.
    pub show: Option<Show>,
    /// `--helpstate`, `--helpformat` or `--helpFormat`.
    pub list: Option<List>,
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
    Row { flag: Flag { long, short, takes, env, help, man: man::of(man::SINFO, long), support }, set }
}

fn iterate(o: &mut Options, g: &Given<'_>) -> Result<(), Bad> {
    let seconds = g.value.parse::<u32>().ok().filter(|n| *n > 0);
    o.iterate_s = Some(seconds.ok_or_else(|| Bad::Plain(format!("Error: invalid entry for --iterate={}", g.value)))?);
    Ok(())
}

fn nodes(o: &mut Options, g: &Given<'_>) -> Result<(), Bad> {
    let bad = |_| Bad::Plain(format!("'{}' invalid entry for --nodes", g.value));
    o.nodes = Some(crate::hostlist::expand(g.value).map_err(bad)?);
    Ok(())
}

fn states(o: &mut Options, g: &Given<'_>) -> Result<(), Bad> {
    let filter = node_state::Filter::parse(g.value)
        .map_err(|e| Bad::Plain(format!("{e}\nvalid states: {}", node_state::list())))?;
    o.states = Some(filter);
    Ok(())
}

const NO_FEDERATION: &str = "there is one cluster";

/// How `sinfo` reads its command line.
pub const COMMAND: Command<Options> =
    Command { program: "sinfo", rows: ROWS, bad_option_status: 1, options_first: false };

/// The options, sorted by name.
#[rustfmt::skip]
pub static ROWS: &[Row<Options>] = &[
    row("Format", Some('O'), Value("fields"), &[], Done, |o, g| { (o.long_format, o.format) = (Some(g.value.to_owned()), None); Ok(()) }, "fields by name, name:[.][width][suffix], comma separated"),
    row("Node", Some('N'), Nothing, &[], Done, |o, _| { o.by_node = true; Ok(()) }, "a line for each node"),
    row("all", Some('a'), Nothing, &["SINFO_ALL"], Done, |o, _| { o.all = true; Ok(()) }, "hidden partitions too"),
    row("clusters", Some('M'), Value("names"), &["SLURM_CLUSTERS"], Done, |o, g| { o.clusters = Some(g.value.to_owned()); Ok(()) }, "cluster to ask; only this one's own name"),
    row("dead", Some('d'), Nothing, &[], Done, |o, _| { o.dead = true; Ok(()) }, "only nodes that do not answer"),
    row("exact", Some('e'), Nothing, &[], Done, |o, _| { o.exact = true; Ok(()) }, "group nodes only where all values are the same"),
    row("federation", None, Nothing, &["SINFO_FEDERATION"], Harmless(NO_FEDERATION), |_, _| Ok(()), "all clusters of the federation"),
    row("format", Some('o'), Value("format"), &["SINFO_FORMAT"], Done, |o, g| { (o.format, o.long_format) = (Some(g.value.to_owned()), None); Ok(()) }, "fields by letter, %[.][width]letter"),
    row("future", Some('F'), Nothing, &[], Harmless("there are no future nodes"), |_, _| Ok(()), "future nodes too"),
    row("help", None, Nothing, &[], Done, |o, _| { o.show = o.show.or(Some(Show::Help)); Ok(()) }, "show this help"),
    row("helpFormat", None, Nothing, &[], Done, |o, _| { o.list = o.list.or(Some(List::Names)); Ok(()) }, "list the names for --Format"),
    row("helpformat", None, Nothing, &[], Done, |o, _| { o.list = o.list.or(Some(List::Letters)); Ok(()) }, "list the letters for --format"),
    row("helpstate", None, Nothing, &[], Done, |o, _| { o.list = o.list.or(Some(List::States)); Ok(()) }, "list the names for --states"),
    row("hide", None, Nothing, &[], Done, |o, _| { o.all = false; Ok(()) }, "no hidden partitions"),
    row("iterate", Some('i'), Value("seconds"), &[], Done, iterate, "show again every so many seconds"),
    row("json", None, Optional("version"), &[], Refused("JSON comes in a later release; use --Format"), |_, _| Ok(()), "print JSON"),
    row("list-reasons", Some('R'), Nothing, &[], Done, |o, _| { o.reasons = true; Ok(()) }, "why nodes are down or drained"),
    row("local", None, Nothing, &["SINFO_LOCAL"], Harmless(NO_FEDERATION), |_, _| Ok(()), "this cluster only"),
    row("long", Some('l'), Nothing, &[], Done, |o, _| { o.long = true; Ok(()) }, "more columns"),
    row("noconvert", None, Nothing, &[], Done, |o, _| { o.noconvert = true; Ok(()) }, "memory in mebibytes without units"),
    row("nodes", Some('n'), Value("nodes"), &[], Done, nodes, "only these nodes"),
    row("noheader", Some('h'), Nothing, &[], Done, |o, _| { o.no_header = true; Ok(()) }, "no header line"),
    row("partition", Some('p'), Value("names"), &["SINFO_PARTITION"], Done, |o, g| { o.partitions = Some(list(g.value)); Ok(()) }, "only these partitions"),
    row("reservation", Some('T'), Nothing, &[], Done, |o, _| { o.reservations = true; Ok(()) }, "show reservations"),
    row("responding", Some('r'), Nothing, &[], Done, |o, _| { o.responding = true; Ok(()) }, "only nodes that answer"),
    row("sort", Some('S'), Value("letters"), &["SINFO_SORT"], Done, |o, g| { o.sort = Some(g.value.to_owned()); Ok(()) }, "sort by these letters of --format; - before one turns it round"),
    row("states", Some('t'), Value("names"), &[], Done, states, "only nodes in these states"),
    row("summarize", Some('s'), Nothing, &[], Done, |o, _| { o.summarize = true; Ok(()) }, "a line for each partition"),
    row("usage", None, Nothing, &[], Done, |o, _| { o.show = o.show.or(Some(Show::Usage)); Ok(()) }, "show the options in short"),
    row("verbose", Some('v'), Nothing, &[], Done, |o, _| { o.verbose += 1; Ok(()) }, "say more"),
    row("version", Some('V'), Nothing, &[], Done, |o, _| { o.show = o.show.or(Some(Show::Version)); Ok(()) }, "show the version"),
    row("yaml", None, Optional("version"), &[], Refused("YAML comes in a later release; use --Format"), |_, _| Ok(()), "print YAML"),
];

/// Reads a command line with its environment. Operands have no meaning and are dropped, as Slurm does.
///
/// # Errors
/// What is refused, as `sinfo` prints it.
pub fn parse(
    args: &[String],
    env: &dyn Fn(&str) -> Option<String>,
    context: &super::Context<'_>,
) -> Result<Options, super::OptionError> {
    let parsed = COMMAND.split(args)?;
    let mut out = Options::default();
    COMMAND.apply_env(&mut out, env, context)?;
    COMMAND.apply(&mut out, &parsed.options, super::Source::CommandLine, context)?;
    Ok(out)
}
