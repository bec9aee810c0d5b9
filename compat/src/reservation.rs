//! `scontrol create reservation` and `scontrol update reservation`.
//!
//! Source: scontrol(1) of Slurm 24.11 and its answers.

use gpun_core::{
    TimeMs,
    reservation::{Flag, Reservation, ReservationChange},
};

use crate::{hostlist, moment, option::Context, time::Limit};

/// A year, which is what an unlimited length becomes.
const YEAR_S: u64 = 365 * 86_400;

/// Names of flags that are known, with what they mean; those without a meaning here are refused.
const FLAGS: &[(&str, Option<Flag>)] = &[
    ("MAINT", Some(Flag::Maint)),
    ("IGNORE_JOBS", Some(Flag::IgnoreJobs)),
    ("OVERLAP", Some(Flag::Overlap)),
    ("FLEX", Some(Flag::Flex)),
    ("DAILY", Some(Flag::Daily)),
    ("WEEKLY", Some(Flag::Weekly)),
    ("SPEC_NODES", Some(Flag::SpecNodes)),
    ("ALL_NODES", Some(Flag::AllNodes)),
    ("ANY_NODES", None),
    ("FIRST_CORES", None),
    ("HOURLY", None),
    ("LICENSE_ONLY", None),
    ("MAGNETIC", None),
    ("NO_HOLD_JOBS_AFTER", None),
    ("PART_NODES", None),
    ("PURGE_COMP", None),
    ("REPLACE", None),
    ("REPLACE_DOWN", None),
    ("STATIC_ALLOC", None),
    ("TIME_FLOAT", None),
    ("USER_DELETE", None),
    ("WEEKDAY", None),
    ("WEEKEND", None),
];

/// How flags are named, in Slurm's order.
pub fn flag_names(flags: &[Flag]) -> String {
    let named = FLAGS.iter().filter(|(_, flag)| flag.is_some_and(|flag| flags.contains(&flag)));
    named.map(|(name, _)| *name).collect::<Vec<_>>().join(",")
}

/// What a list of users or accounts is changed to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListChange {
    /// These.
    Set(Vec<String>),
    /// These too.
    Add(Vec<String>),
    /// Without these.
    Remove(Vec<String>),
}

impl ListChange {
    /// The list after the change.
    pub fn applied(&self, before: &[String]) -> Vec<String> {
        match self {
            Self::Set(list) => list.clone(),
            Self::Add(more) => {
                let new = more.iter().filter(|one| !before.contains(one));
                before.iter().chain(new).cloned().collect()
            }
            Self::Remove(less) => before.iter().filter(|one| !less.contains(one)).cloned().collect(),
        }
    }
}

/// A change of a reservation, as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Change {
    /// Which.
    pub name: String,
    /// All but users and accounts.
    pub change: ReservationChange,
    /// Users by name.
    pub users: Option<ListChange>,
    /// Accounts.
    pub accounts: Option<ListChange>,
}

/// What was read of the words.
#[derive(Default)]
struct Read {
    name: Option<String>,
    start: Option<TimeMs>,
    end: Option<TimeMs>,
    duration_s: Option<u64>,
    nodes: Option<Vec<String>>,
    all_nodes: bool,
    node_count: Option<u32>,
    partition: Option<String>,
    flags: Option<Vec<Flag>>,
    users: Option<ListChange>,
    accounts: Option<ListChange>,
}

/// Reads `create reservation` behind its two words.
///
/// # Errors
/// The line for standard error, in Slurm's words; the exit status is 1.
pub fn create(words: &[String], context: &Context<'_>) -> Result<Reservation, String> {
    const NONE: &str = "No reservation created.";
    let read = read(words, context, NONE)?;
    let missing = |what: &str| Err(format!("scontrol: error: {what}  {NONE}"));
    let Some(start) = read.start else { return missing("A start time must be given.") };
    let end = match (read.end, read.duration_s) {
        (Some(end), _) => end,
        (None, Some(seconds)) => start.plus_s(seconds),
        (None, None) => return missing("An end time or duration must be given."),
    };
    if end < start {
        return missing("Start time cannot be after end time.");
    }
    let list = |change: Option<ListChange>| change.map(|change| change.applied(&[])).unwrap_or_default();
    let (users, accounts) = (list(read.users), list(read.accounts));
    if users.is_empty() && accounts.is_empty() {
        return missing("Either Users/Groups and/or Accounts must be specified.");
    }
    let mut flags = read.flags.unwrap_or_default();
    if read.all_nodes {
        flags.extend([Flag::AllNodes, Flag::SpecNodes]);
    }
    if read.nodes.is_none() && read.node_count.is_none() && !read.all_nodes {
        return missing("CoreCnt, Nodes, NodeCnt, TRES or Watts must be specified.");
    }
    Ok(Reservation {
        name: read.name.unwrap_or_default(),
        start,
        end,
        nodes: read.nodes.unwrap_or_default(),
        users,
        accounts,
        partition: read.partition,
        flags,
        node_count: read.node_count,
        ..Reservation::default()
    })
}

/// Reads `update reservation=NAME`.
///
/// # Errors
/// As [`create`].
pub fn update(words: &[String], context: &Context<'_>) -> Result<Change, String> {
    let read = read(words, context, "No reservation update.")?;
    let name =
        read.name.ok_or_else(|| "scontrol: error: Reservation must be given.  No reservation update.".to_owned())?;
    let change = ReservationChange {
        start: read.start,
        end: read.end,
        duration_s: read.duration_s,
        nodes: read.nodes,
        users: None,
        accounts: None,
        flags: read.flags,
    };
    Ok(Change { name, change, users: read.users, accounts: read.accounts })
}

fn read(words: &[String], context: &Context<'_>, tail: &str) -> Result<Read, String> {
    let mut read = Read::default();
    for word in words {
        let bad = |what: &str| format!("scontrol: error: {what}  {tail}");
        let unknown = || bad(&format!("Unknown parameter {word}."));
        let (key, value) = word.split_once('=').ok_or_else(unknown)?;
        let (key, sign) = match key.strip_suffix(['+', '-']) {
            Some(front) => (front, key.chars().last()),
            None => (key, None),
        };
        let is = |name: &str, least: usize| {
            key.len() >= least && name.get(..key.len()).is_some_and(|front| front.eq_ignore_ascii_case(key))
        };
        let time = || -> Result<TimeMs, String> {
            let at = moment::parse(value, context.now_s, context.zone)
                .map_err(|_| bad(&format!("Invalid time {value}.")))?;
            Ok(TimeMs(u64::try_from(at).unwrap_or(0).saturating_mul(1_000)))
        };
        if is("ReservationName", 1) {
            read.name = Some(value.to_owned());
        } else if is("StartTime", 1) {
            read.start = Some(time()?);
        } else if is("EndTime", 1) {
            read.end = Some(time()?);
        } else if is("Duration", 1) {
            let limit = Limit::parse(value).map_err(|_| bad(&format!("Invalid duration {value}.")))?;
            read.duration_s = Some(limit.seconds().unwrap_or(YEAR_S).min(YEAR_S));
        } else if is("NodeCnt", 5) || is("NodeCount", 5) {
            read.node_count = Some(value.parse().map_err(|_| bad(&format!("Invalid node count {value}.")))?);
        } else if is("Nodes", 5) || is("NodeList", 5) {
            if value.eq_ignore_ascii_case("ALL") {
                read.all_nodes = true;
            } else {
                read.nodes = Some(hostlist::expand(value).map_err(|_| bad(&format!("Invalid node list {value}.")))?);
            }
        } else if is("PartitionName", 1) {
            read.partition = Some(value.to_owned());
        } else if is("Users", 1) {
            read.users = Some(list_change(value, sign));
        } else if is("Accounts", 1) {
            read.accounts = Some(list_change(value, sign));
        } else if is("Flags", 2) {
            read.flags = Some(flags(value).map_err(|what| bad(&what))?);
        } else if [
            "Features",
            "Licenses",
            "BurstBuffer",
            "CoreCnt",
            "CoreCount",
            "Groups",
            "MaxStartDelay",
            "TRES",
            "TRESPerNode",
            "Watts",
        ]
        .iter()
        .any(|name| is(name, 2))
        {
            return Err(bad(&format!("{key} comes with a later version of gpunion.")));
        } else {
            return Err(unknown());
        }
    }
    Ok(read)
}

fn list_change(value: &str, sign: Option<char>) -> ListChange {
    let list: Vec<String> = value.split(',').filter(|one| !one.is_empty()).map(str::to_owned).collect();
    match sign {
        Some('+') => ListChange::Add(list),
        Some('-') => ListChange::Remove(list),
        _ => ListChange::Set(list),
    }
}

fn flags(value: &str) -> Result<Vec<Flag>, String> {
    let mut flags = Vec::new();
    for word in value.split(',').filter(|word| !word.is_empty()) {
        match FLAGS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)) {
            Some((_, Some(flag))) if flags.contains(flag) => {}
            Some((_, Some(flag))) => flags.push(*flag),
            Some((name, None)) => return Err(format!("The flag {name} comes with a later version of gpunion.")),
            None => return Err(format!("Error parsing flags {value}.")),
        }
    }
    Ok(flags)
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;

    const NOW: TimeMs = TimeMs(1_800_000_000_000);

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    fn context(zone: &TimeZone) -> Context<'_> {
        Context { now_s: (NOW.0 / 1_000) as i64, zone, is_root: false }
    }

    #[test]
    fn what_is_created() {
        let zone = TimeZone::UTC;
        let made = |line: &str| create(&words(line), &context(&zone));
        let one = made(
            "ReservationName=m starttime=now+2hours duration=60 nodes=n[5-6] users=root,alice flags=maint,ignore_jobs",
        )
        .unwrap();
        assert_eq!((one.start, one.end), (NOW.plus_s(7200), NOW.plus_s(10_800)));
        assert_eq!((one.nodes, one.users), (words("n5 n6"), words("root alice")));
        assert_eq!(flag_names(&one.flags), "MAINT,IGNORE_JOBS");
        let year = made("start=now dur=infinite nodecnt=2 accounts=chem part=debug").unwrap();
        assert_eq!((year.end, year.node_count), (NOW.plus_s(YEAR_S), Some(2)));
        assert_eq!((year.accounts, year.partition.as_deref()), (words("chem"), Some("debug")));
        let all = made("start=now end=now+1hour nodes=ALL users=a").unwrap();
        assert_eq!(flag_names(&all.flags), "SPEC_NODES,ALL_NODES");
        assert!(all.nodes.is_empty());
    }

    #[test]
    fn what_is_missing_or_wrong_is_said_as_slurm_says_it() {
        let zone = TimeZone::UTC;
        let rows = [
            ("", "A start time must be given.  No reservation created."),
            ("starttime=now nodes=n1 users=a", "An end time or duration must be given.  No reservation created."),
            (
                "starttime=now endtime=now-1hour users=a nodes=n2",
                "Start time cannot be after end time.  No reservation created.",
            ),
            (
                "starttime=now duration=5 nodes=n1",
                "Either Users/Groups and/or Accounts must be specified.  No reservation created.",
            ),
            (
                "starttime=now duration=5 users=a",
                "CoreCnt, Nodes, NodeCnt, TRES or Watts must be specified.  No reservation created.",
            ),
            (
                "starttime=now duration=5 users=a nodes=n5 flags=foo",
                "Error parsing flags foo.  No reservation created.",
            ),
            (
                "starttime=now duration=5 users=a nodes=n5 foo=bar",
                "Unknown parameter foo=bar.  No reservation created.",
            ),
            (
                "starttime=now duration=5 users=a nodes=n5 flags=weekend",
                "The flag WEEKEND comes with a later version of gpunion.  No reservation created.",
            ),
            (
                "starttime=now duration=5 users=a corecnt=5",
                "corecnt comes with a later version of gpunion.  No reservation created.",
            ),
        ];
        for (line, right) in rows {
            let error = create(&words(line), &context(&zone)).unwrap_err();
            assert_eq!(error, format!("scontrol: error: {right}"), "{line}");
        }
    }

    #[test]
    fn what_is_changed() {
        let zone = TimeZone::UTC;
        let change = update(&words("reservation=r duration=60 users+=alice accounts="), &context(&zone)).unwrap();
        assert_eq!((change.name.as_str(), change.change.duration_s), ("r", Some(3600)));
        let users = change.users.unwrap();
        assert_eq!(users.applied(&words("bob")), words("bob alice"));
        assert_eq!(users.applied(&words("alice bob")), words("alice bob"));
        assert_eq!(change.accounts.unwrap().applied(&words("chem")), words(""));
        assert_eq!(ListChange::Remove(words("bob")).applied(&words("alice bob")), words("alice"));
        assert!(update(&words("duration=60"), &context(&zone)).unwrap_err().contains("Reservation must be given"));
    }
}
