//! `sacct`: options.

use super::Support::{Done, Harmless, Refused};
use super::Takes::{Nothing, Optional, Value};
use super::squeue::list;
use super::submission::Show;
use super::{Bad, Command, Flag, Given, Row, Support, Takes, man};
use crate::jobid::{self, Selector};
use crate::names::job_state::{self, Name};
use crate::{moment, time};

/// What was asked for.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Everyone's jobs.
    pub all_users: bool,
    /// Only jobs of these accounts; empty: all. So for the other lists.
    pub accounts: Vec<String>,
    /// One line for each waiting task of an array.
    pub array: bool,
    /// Print the batch script.
    pub batch_script: bool,
    /// Print the environment of the batch script.
    pub env_vars: bool,
    /// Ask for job completion logs, which there are none of.
    pub completion: bool,
    /// Cluster to ask; the text as given.
    pub clusters: Option<String>,
    /// Between fields with `-p` and `-P`.
    pub delimiter: Option<String>,
    /// Every attempt, not only the last of each job.
    pub duplicates: bool,
    /// Bounds of the window, in seconds since 1970.
    pub start_s: Option<i64>,
    /// See `start_s`.
    pub end_s: Option<i64>,
    /// Patterns in file names filled in.
    pub expand_patterns: bool,
    /// Group names or numbers.
    pub groups: Vec<String>,
    /// Numbers of nodes, least and most.
    pub nodes_range: Option<(u32, u32)>,
    /// Numbers of CPUs, least and most.
    pub cpus_range: Option<(u32, u32)>,
    /// Print JSON.
    pub json: bool,
    /// Only these jobs; `None`: all.
    pub jobs: Option<Vec<Selector>>,
    /// Least time limit, in minutes.
    pub limit_min: Option<u32>,
    /// Most, in minutes.
    pub limit_max: Option<u32>,
    /// Fields.
    pub format: Option<String>,
    /// No header.
    pub no_header: bool,
    /// No units.
    pub noconvert: bool,
    /// Unit of sizes: one of `KMGTP`.
    pub unit: Option<char>,
    /// On any of these nodes; expanded.
    pub nodes: Vec<String>,
    /// Job names.
    pub names: Vec<String>,
    /// Fields with a delimiter, and whether one stands at the end.
    pub parsable: Option<Ending>,
    /// Partitions.
    pub partitions: Vec<String>,
    /// Qualities of service.
    pub qos: Vec<String>,
    /// States.
    pub states: Vec<Name>,
    /// Times outside the window are shown as its bounds.
    pub truncate: bool,
    /// User names or numbers.
    pub users: Vec<String>,
    /// Jobs without their steps.
    pub allocations: bool,
    /// Print something else and do nothing.
    pub show: Option<Show>,
    /// Print a list and do nothing.
    pub list: Option<List>,
}

/// What ends a line with delimiters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// A delimiter (`-p`).
    Delimiter,
    /// Nothing (`-P`).
    Nothing,
}

/// A list to print instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum List {
    /// Field names.
    Fields,
    /// State names.
    States,
    /// Reasons.
    Reasons,
}

/// The fields of `--brief`.
pub const BRIEF: &str = "jobid,state,exitcode";
/// The fields where none are named.
pub const USUAL: &str = "jobid,jobname,partition,account,alloccpus,state,exitcode";
/// The fields of `--long`.
pub const LONG: &str = "jobid,jobidraw,jobname,partition,maxvmsize,maxvmsizenode,maxvmsizetask,avevmsize,maxrss,maxrssnode,\
    maxrsstask,averss,maxpages,maxpagesnode,maxpagestask,avepages,mincpu,mincpunode,mincputask,avecpu,ntasks,alloccpus,\
    elapsed,state,exitcode,avecpufreq,reqcpufreqmin,reqcpufreqmax,reqcpufreqgov,reqmem,consumedenergy,maxdiskread,\
    maxdiskreadnode,maxdiskreadtask,avediskread,maxdiskwrite,maxdiskwritenode,maxdiskwritetask,avediskwrite,reqtres,\
    alloctres,tresusageinave,tresusageinmax,tresusageinmaxnode,tresusageinmaxtask,tresusageinmin,tresusageinminnode,\
    tresusageinmintask,tresusageintot,tresusageoutmax,tresusageoutmaxnode,tresusageoutmaxtask,tresusageoutave,\
    tresusageouttot";

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
    Row { flag: Flag { long, short, takes, env, help, man: man::of(man::SACCT, long), support }, set }
}

/// Reads one job, array task, component or step, as `sacct` does: no ranges of tasks.
fn job(text: &str) -> Result<Option<Selector>, Bad> {
    let (id, step) = text.split_once('.').map_or((text, None), |(id, step)| (id, Some(step)));
    let digits = id.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = id.split_at_checked(digits).unwrap_or((id, ""));
    if number.is_empty() {
        return Err(Bad::Fatal(format!("Bad job/step specified: {text}")));
    }
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if rest.strip_prefix('_').is_some_and(|task| !is_number(task)) {
        return Err(Bad::Fatal(format!("Bad job array element specified: {number}")));
    }
    if rest.strip_prefix('+').is_some_and(|offset| !is_number(offset)) {
        return Err(Bad::Fatal(format!("Bad hetjob offset specified: {number}")));
    }
    let named = |step: &str| matches!(step, "batch" | "extern" | "interactive" | "TBD");
    if step.is_some_and(|step| !named(step) && !is_number(step)) {
        return Err(Bad::Fatal(format!("Bad step specified: {number}")));
    }
    if !rest.is_empty() && !rest.starts_with(['_', '+']) {
        return Err(Bad::Fatal(format!("Bad job/step specified: {text}")));
    }
    Ok(jobid::parse(text))
}

fn jobs(o: &mut Options, g: &Given<'_>) -> Result<(), Bad> {
    let wanted = o.jobs.get_or_insert_default();
    for part in g.value.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        wanted.extend(job(part)?);
    }
    Ok(())
}

fn states(o: &mut Options, g: &Given<'_>) -> Result<(), Bad> {
    for part in g.value.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let unknown = |_| Bad::Fatal(format!("unrecognized job state value '{part}'"));
        o.states.push(job_state::find(part).map_err(unknown)?);
    }
    Ok(())
}

fn moment(g: &Given<'_>) -> Result<Option<i64>, Bad> {
    let at = moment::parse_past(g.value, g.context.now_s, g.context.zone);
    at.map(Some).map_err(|error| Bad::Raw(format!("{error}\n")))
}

fn range(text: &str, what: &str) -> Result<Option<(u32, u32)>, Bad> {
    let bad = |text: &str| Bad::Plain(format!("Invalid numeric value \"{text}\" for requested {what} range."));
    let (least, most) = text.split_once('-').map_or((text, None), |(least, most)| (least, Some(most)));
    let least: u32 = least.parse().map_err(|_| bad(least))?;
    let most = most.map(|most| most.parse::<u32>().map_err(|_| bad(most))).transpose()?;
    // One number means exactly so many.
    Ok(Some((least, most.unwrap_or(least))))
}

fn limit(g: &Given<'_>) -> Result<Option<u32>, Bad> {
    let bad = || Bad::Fatal("Invalid time limit specification".to_owned());
    let limit = time::Limit::parse(g.value).map_err(|_| bad())?;
    Ok(limit.seconds().map(|seconds| u32::try_from(seconds / 60).unwrap_or(u32::MAX)))
}

fn units(o: &mut Options, g: &Given<'_>) -> Result<(), Bad> {
    let unit = g.value.chars().next().map(|c| c.to_ascii_uppercase()).filter(|c| "KMGTP".contains(*c));
    let text = || {
        let given = g.value;
        format!(
            "sacct: error: Invalid unit type '{given}'. Possible options are 'KMGTP'\nsacct: fatal: Invalid unit type\n"
        )
    };
    o.unit = Some(unit.ok_or_else(|| Bad::Raw(text()))?);
    Ok(())
}

fn nodes(o: &mut Options, g: &Given<'_>) -> Result<(), Bad> {
    o.nodes = crate::hostlist::expand(g.value).map_err(|_| Bad::Plain("Invalid argument".to_owned()))?;
    Ok(())
}

fn whole_hetjob(_: &mut Options, g: &Given<'_>) -> Result<(), Bad> {
    match g.value {
        "" | "yes" | "no" => Ok(()),
        other => Err(Bad::Plain(format!("Invalid --whole-hetjob value \"{other}\". Valid values: [yes|no]."))),
    }
}

const ONE_CLUSTER: &str = "there is one cluster";

/// How `sacct` reads its command line.
pub const COMMAND: Command<Options> =
    Command { program: "sacct", rows: ROWS, bad_option_status: 1, options_first: false };

/// The options, sorted by name.
#[rustfmt::skip]
pub static ROWS: &[Row<Options>] = &[
    row("accounts", Some('A'), Value("names"), &[], Done, |o, g| { o.accounts = list(g.value); Ok(()) }, "only jobs of these accounts"),
    row("allclusters", Some('L'), Nothing, &[], Harmless(ONE_CLUSTER), |_, _| Ok(()), "jobs of all clusters"),
    row("allocations", Some('X'), Nothing, &[], Done, |o, _| { o.allocations = true; Ok(()) }, "jobs without their steps"),
    row("allusers", Some('a'), Nothing, &[], Done, |o, _| { o.all_users = true; Ok(()) }, "everyone's jobs; what root sees without it"),
    row("array", None, Nothing, &[], Done, |o, _| { o.array = true; Ok(()) }, "one line for each waiting task of an array"),
    row("associations", Some('x'), Value("ids"), &[], Refused("associations have no numbers here; use --accounts and --user"), |_, _| Ok(()), "only jobs of these associations"),
    row("batch-script", Some('B'), Nothing, &[], Done, |o, _| { o.batch_script = true; Ok(()) }, "print the batch script of a job; with --jobs"),
    row("brief", Some('b'), Nothing, &[], Done, |o, _| { o.format = Some(BRIEF.to_owned()); Ok(()) }, "id, state and exit code only"),
    row("clusters", Some('M'), Value("names"), &["SLURM_CLUSTERS"], Done, |o, g| { o.clusters = Some(g.value.to_owned()); Ok(()) }, "cluster to ask; only this one's own name, or all"),
    row("completion", Some('c'), Nothing, &[], Done, |o, _| { o.completion = true; Ok(()) }, "ask the log of job completion, which is not kept here"),
    row("delimiter", None, Value("text"), &[], Done, |o, g| { o.delimiter = Some(g.value.to_owned()); Ok(()) }, "between fields with -p and -P; | if not given"),
    row("duplicates", Some('D'), Nothing, &[], Done, |o, _| { o.duplicates = true; Ok(()) }, "every attempt of a job, not only the last"),
    row("endtime", Some('E'), Value("time"), &[], Done, |o, g| { o.end_s = moment(g)?; Ok(()) }, "jobs before this time; now if not given"),
    row("env-vars", None, Nothing, &[], Done, |o, _| { o.env_vars = true; Ok(()) }, "print the environment of a job's batch script; with --jobs"),
    row("expand-patterns", None, Nothing, &[], Done, |o, _| { o.expand_patterns = true; Ok(()) }, "patterns in file names filled in"),
    row("federation", None, Nothing, &["SACCT_FEDERATION"], Harmless(ONE_CLUSTER), |_, _| Ok(()), "jobs of the federation"),
    row("file", Some('f'), Value("file"), &[], Refused("the history is kept by the controller; there is no file to read"), |_, _| Ok(()), "read a log file of job completion"),
    row("format", Some('o'), Value("fields"), &["SACCT_FORMAT"], Done, |o, g| { o.format = Some(g.value.to_owned()); Ok(()) }, "fields, comma separated, each with %[-]width"),
    row("gid", Some('g'), Value("groups"), &[], Done, |o, g| { o.groups = list(g.value); Ok(()) }, "only jobs of these groups"),
    row("group", None, Value("groups"), &[], Done, |o, g| { o.groups = list(g.value); Ok(()) }, "as --gid"),
    row("help", Some('h'), Nothing, &[], Done, |o, _| { o.show = o.show.or(Some(Show::Help)); Ok(()) }, "show this help"),
    row("helpformat", Some('e'), Nothing, &[], Done, |o, _| { o.list = o.list.or(Some(List::Fields)); Ok(()) }, "list the fields"),
    row("helpreason", None, Nothing, &[], Done, |o, _| { o.list = o.list.or(Some(List::Reasons)); Ok(()) }, "list the reasons"),
    row("helpstate", None, Nothing, &[], Done, |o, _| { o.list = o.list.or(Some(List::States)); Ok(()) }, "list the states"),
    row("jobs", Some('j'), Value("ids"), &[], Done, jobs, "only these jobs, tasks or steps, such as 17,18_3,19.batch"),
    row("json", None, Optional("version"), &[], Done, |o, _| { o.json = true; Ok(()) }, "print JSON"),
    row("local", None, Nothing, &["SACCT_LOCAL"], Harmless(ONE_CLUSTER), |_, _| Ok(()), "this cluster only"),
    row("long", Some('l'), Nothing, &[], Done, |o, _| { o.format = Some(LONG.to_owned()); Ok(()) }, "many fields"),
    row("name", None, Value("names"), &[], Done, |o, g| { o.names = list(g.value); Ok(()) }, "only jobs of these names"),
    row("ncpus", Some('I'), Value("range"), &[], Done, |o, g| { o.cpus_range = range(g.value, "cpu")?; Ok(()) }, "only jobs that ran on so many CPUs, such as 4 or 4-8"),
    row("nnodes", Some('i'), Value("range"), &[], Done, |o, g| { o.nodes_range = range(g.value, "node")?; Ok(()) }, "only jobs that ran on so many nodes, such as 2 or 2-4"),
    row("noconvert", None, Nothing, &[], Done, |o, _| { o.noconvert = true; Ok(()) }, "sizes in the unit they have"),
    row("nodelist", Some('N'), Value("nodes"), &[], Done, nodes, "only jobs on any of these nodes"),
    row("noheader", Some('n'), Nothing, &[], Done, |o, _| { o.no_header = true; Ok(()) }, "no header lines"),
    row("parsable", Some('p'), Nothing, &[], Done, |o, _| { o.parsable = Some(Ending::Delimiter); Ok(()) }, "a delimiter behind each field"),
    row("parsable2", Some('P'), Nothing, &[], Done, |o, _| { o.parsable = Some(Ending::Nothing); Ok(()) }, "a delimiter between fields"),
    row("partition", Some('r'), Value("names"), &[], Done, |o, g| { o.partitions = list(g.value); Ok(()) }, "only jobs of these partitions"),
    row("qos", Some('q'), Value("names"), &[], Done, |o, g| { o.qos = list(g.value); Ok(()) }, "only jobs of these qualities of service"),
    row("starttime", Some('S'), Value("time"), &[], Done, |o, g| { o.start_s = moment(g)?; Ok(()) }, "jobs after this time; today if not given"),
    row("state", Some('s'), Value("names"), &[], Done, states, "only jobs in these states at some time between start and end"),
    row("timelimit-max", Some('K'), Value("time"), &[], Done, |o, g| { o.limit_max = limit(g)?; Ok(()) }, "greatest time limit; with --timelimit-min"),
    row("timelimit-min", Some('k'), Value("time"), &[], Done, |o, g| { o.limit_min = limit(g)?; Ok(()) }, "least time limit; alone, exactly this one"),
    row("truncate", Some('T'), Nothing, &[], Done, |o, _| { o.truncate = true; Ok(()) }, "times outside the window become its bounds"),
    row("uid", Some('u'), Value("users"), &[], Done, |o, g| { o.users = list(g.value); Ok(()) }, "only jobs of these users"),
    row("units", None, Value("unit"), &[], Done, units, "sizes in this unit, one of KMGTP"),
    row("usage", Some('U'), Nothing, &[], Done, |o, _| { o.show = o.show.or(Some(Show::Usage)); Ok(()) }, "show the options in short"),
    row("user", None, Value("users"), &[], Done, |o, g| { o.users = list(g.value); Ok(()) }, "as --uid"),
    row("verbose", Some('v'), Nothing, &[], Harmless("there is nothing more to say"), |_, _| Ok(()), "say more"),
    row("version", Some('V'), Nothing, &[], Done, |o, _| { o.show = o.show.or(Some(Show::Version)); Ok(()) }, "show the version"),
    row("wckeys", Some('W'), Value("names"), &[], Refused("jobs are not chosen by their keys yet; use --format=wckey"), |_, _| Ok(()), "only jobs with these keys"),
    row("whole-hetjob", None, Optional("yes|no"), &[], Done, whole_hetjob, "all components of a heterogeneous job; always so where its leader is named"),
    row("yaml", None, Optional("version"), &[], Refused("YAML comes in a later release; use --parsable2"), |_, _| Ok(()), "print YAML"),
];

/// Reads a command line with its environment.
///
/// # Errors
/// What is refused, as `sacct` prints it.
pub fn parse(
    args: &[String],
    env: &dyn Fn(&str) -> Option<String>,
    context: &super::Context<'_>,
) -> Result<Options, super::OptionError> {
    // What getopt refuses is said without a word on --help.
    let first_line = |error: super::OptionError| super::OptionError {
        text: error.text.lines().next().map_or_else(String::new, |line| format!("{line}\n")),
        ..error
    };
    let parsed = COMMAND.split(args).map_err(first_line)?;
    let mut out = Options::default();
    COMMAND.apply_env(&mut out, env, context)?;
    COMMAND.apply(&mut out, &parsed.options, super::Source::CommandLine, context)?;
    if !parsed.operands.is_empty() {
        let mut text = "Unknown arguments:".to_owned();
        parsed.operands.iter().for_each(|stray| text.push_str(&format!("\n {stray}")));
        return Err(super::OptionError::new("sacct", &text, 1));
    }
    Ok(out)
}

/// The span of time that is looked at, in seconds since 1970; `None` where every time is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Its begin.
    pub from_s: i64,
    /// Its end.
    pub until_s: i64,
}

impl Options {
    /// The window, by Slurm's rules for bounds that are not given. `midnight_s` is the begin of today.
    ///
    /// # Errors
    /// The begin lies behind the end: both are given back.
    pub fn window(&self, now_s: i64, midnight_s: i64) -> Result<Option<Window>, Window> {
        let (named, stated) = (self.jobs.is_some(), !self.states.is_empty());
        if named && !stated && self.start_s.is_none() && self.end_s.is_none() {
            return Ok(None);
        }
        let from_s = self.start_s.unwrap_or(match (named, stated) {
            (true, _) => 0,
            (false, true) => self.end_s.unwrap_or(now_s),
            (false, false) => midnight_s,
        });
        let until_s = self.end_s.unwrap_or(if stated { self.start_s.unwrap_or(now_s) } else { now_s });
        if from_s > until_s {
            return Err(Window { from_s, until_s });
        }
        // A moment is one second long.
        Ok(Some(Window { from_s, until_s: until_s.max(from_s.saturating_add(1)) }))
    }
}

/// `sacct --usage`.
pub const USAGE: &str = "\
Usage: sacct [options]
	Use --help for help
";

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;

    /// 2026-12-01T04:46:10Z.
    const NOW: i64 = 1_796_100_370;
    const MIDNIGHT: i64 = 1_796_083_200;

    fn read(line: &str) -> Result<Options, super::super::OptionError> {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let context = super::super::Context { now_s: NOW, zone: &TimeZone::UTC, is_root: false };
        parse(&args, &|_| None, &context)
    }

    #[test]
    fn what_is_wrong_is_said_as_slurm_says_it() {
        for (line, want) in [
            ("-j abc", "sacct: fatal: Bad job/step specified: abc\n"),
            ("-j 17.abc", "sacct: fatal: Bad step specified: 17\n"),
            ("-j 17_[1-2]", "sacct: fatal: Bad job array element specified: 17\n"),
            ("-j 17_", "sacct: fatal: Bad job array element specified: 17\n"),
            ("-j 17+", "sacct: fatal: Bad hetjob offset specified: 17\n"),
            ("-s FOO", "sacct: fatal: unrecognized job state value 'FOO'\n"),
            ("-R x", "sacct: invalid option -- 'R'\n"),
            ("--nosuch", "sacct: unrecognized option '--nosuch'\n"),
            ("-j", "sacct: option requires an argument -- 'j'\n"),
            ("-S bad", "Invalid time specification (pos=0): bad\n"),
            ("-k x", "sacct: fatal: Invalid time limit specification\n"),
            ("-i x", "sacct: error: Invalid numeric value \"x\" for requested node range.\n"),
            ("-I x", "sacct: error: Invalid numeric value \"x\" for requested cpu range.\n"),
            (
                "--units=Z",
                "sacct: error: Invalid unit type 'Z'. Possible options are 'KMGTP'\nsacct: fatal: Invalid unit type\n",
            ),
            ("foo", "sacct: error: Unknown arguments:\nsacct: error:  foo\n"),
            ("-N n[1", "sacct: error: Invalid argument\n"),
            ("--whole-hetjob=foo", "sacct: error: Invalid --whole-hetjob value \"foo\". Valid values: [yes|no].\n"),
        ] {
            let error = read(line).expect_err(line);
            assert_eq!((error.text.as_str(), error.status), (want, 1), "{line}");
        }
    }

    #[test]
    fn several_lists_of_jobs_are_one() {
        let asked = read("-j 1,2_3 -j 4.batch -j 0,,5+1").unwrap();
        let jobs = asked.jobs.unwrap();
        assert_eq!(jobs.iter().map(|one| one.job).collect::<Vec<_>>(), [1, 2, 4, 5]);
        assert_eq!((jobs[2].step.as_deref(), jobs[3].component), (Some("batch"), Some(1)));
        assert!(read("-j ,").unwrap().jobs.unwrap().is_empty());
    }

    #[test]
    fn windows_are_slurms() {
        let at = |text: &str| moment::parse(text, NOW, &TimeZone::UTC).unwrap();
        for (line, want) in [
            ("", Some((MIDNIGHT, NOW))),
            ("-j 1", None),
            ("-j 1 -S 2026-11-01", Some((at("2026-11-01"), NOW))),
            ("-j 1 -s R", Some((0, NOW))),
            ("-j 1 -E now-1hour", Some((0, NOW - 3600))),
            ("-s R", Some((NOW, NOW + 1))),
            ("-s F -S 2026-11-01", Some((at("2026-11-01"), at("2026-11-01") + 1))),
            ("-s F -S 2026-11-01 -E now", Some((at("2026-11-01"), NOW))),
            ("-s F -E 2026-11-01", Some((at("2026-11-01"), at("2026-11-01") + 1))),
            ("-S 03:00", Some((MIDNIGHT + 3 * 3600, NOW))),
            ("-S noon -E 23:59", Some((MIDNIGHT + 12 * 3600, MIDNIGHT + 86_340))),
            ("-S 0102", Some((at("2026-01-02"), NOW))),
        ] {
            let got = read(line).unwrap().window(NOW, MIDNIGHT);
            assert_eq!(got, Ok(want.map(|(from_s, until_s)| Window { from_s, until_s })), "{line}");
        }
        let turned = read("-E 2020-01-01").unwrap().window(NOW, MIDNIGHT);
        assert_eq!(turned, Err(Window { from_s: MIDNIGHT, until_s: at("2020-01-01") }));
    }

    proptest::proptest! {
        #[test]
        fn any_job_is_answered(text in "[0-9_.+a-z\\[\\]%-]{0,12}") {
            let _ = read(&format!("-j x{text}"));
            let _ = read(&format!("-j 1{text}"));
        }
    }
}
