//! Node states: `idle`, `mix`, `drng`, `down*`, `IDLE+DRAIN`, and the filter of `sinfo --states`.

use gpun_core::node::{Liveness, Mark};
use gpun_core::view::NodeView;

/// The base state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Base {
    /// Configured and never seen.
    Unknown,
    /// Out of service.
    Down,
    /// No CPU in use.
    Idle,
    /// Every CPU in use.
    Allocated,
    /// Some CPUs in use.
    Mixed,
}

/// A node's whole state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// The base state.
    pub base: Base,
    /// Takes no new jobs.
    pub drain: bool,
    /// That is because it is about to fail.
    pub fail: bool,
    /// Jobs are being cleaned up.
    pub completing: bool,
    /// Does not answer.
    pub not_responding: bool,
    /// The plan keeps it for a waiting job.
    pub planned: bool,
    /// A reservation holds it now.
    pub reserved: bool,
    /// A reservation for maintenance holds it now.
    pub maint: bool,
}

/// A node's state; `planned` says whether the plan keeps it for a waiting job.
pub fn of(view: &NodeView, planned: bool) -> State {
    let node = &view.node;
    let base = match node.liveness {
        Liveness::Unknown => Base::Unknown,
        Liveness::Down => Base::Down,
        Liveness::Up if view.cpus_taken == 0 => Base::Idle,
        Liveness::Up if view.cpus_taken >= node.inventory.cpus => Base::Allocated,
        Liveness::Up => Base::Mixed,
    };
    // A node set down by hand may still answer.
    let silent = node.liveness == Liveness::Down && (node.silent || view.last_contact.is_none());
    State {
        base,
        drain: node.drain.is_some(),
        fail: node.drain.is_some() && node.failing,
        completing: view.completing > 0,
        not_responding: silent || node.liveness == Liveness::Unknown,
        planned: planned && node.liveness == Liveness::Up,
        reserved: view.reservation.is_some(),
        maint: view.reservation.is_some() && view.maint,
    }
}

impl State {
    /// `(long, compact)` without marks.
    fn words(self) -> (&'static str, &'static str) {
        let busy = matches!(self.base, Base::Allocated | Base::Mixed);
        match self.base {
            Base::Down if self.drain => ("drained", "drain"),
            Base::Down => ("down", "down"),
            Base::Unknown if self.drain => ("drained", "drain"),
            Base::Unknown => ("unknown", "unk"),
            _ if self.fail && (busy || self.completing) => ("failing", "failg"),
            _ if self.fail => ("fail", "fail"),
            _ if self.drain && (busy || self.completing) => ("draining", "drng"),
            _ if self.drain => ("drained", "drain"),
            Base::Idle if self.completing => ("completing", "comp"),
            Base::Idle if self.maint => ("maint", "maint"),
            Base::Idle if self.reserved => ("reserved", "resv"),
            Base::Idle if self.planned => ("planned", "plnd"),
            Base::Idle => ("idle", "idle"),
            Base::Allocated if self.completing => ("allocated+", "alloc+"),
            Base::Allocated => ("allocated", "alloc"),
            Base::Mixed => ("mixed", "mix"),
        }
    }

    /// `$` for a node in maintenance whose word does not say so, `*` for one that does not answer, `-` for one in use
    /// that the plan keeps.
    fn mark(self) -> &'static str {
        match self {
            Self { maint: true, drain: false, completing: false, base: Base::Idle, .. } => "",
            Self { maint: true, .. } => "$",
            Self { not_responding: true, .. } => "*",
            Self { planned: true, drain: false, base: Base::Mixed, .. } => "-",
            _ => "",
        }
    }

    /// As `sinfo -o %T`: `drained`, `mixed-`, `down*`.
    pub fn long(self) -> String {
        format!("{}{}", self.words().0, self.mark())
    }

    /// As `sinfo -o %t`: `drain`, `mix-`, `down*`.
    pub fn compact(self) -> String {
        format!("{}{}", self.words().1, self.mark())
    }

    /// As `scontrol show node`: `IDLE+DRAIN`.
    pub fn flags(self) -> String {
        let mut out = match self.base {
            Base::Unknown => "UNKNOWN",
            Base::Down => "DOWN",
            Base::Idle => "IDLE",
            Base::Allocated => "ALLOCATED",
            Base::Mixed => "MIXED",
        }
        .to_owned();
        let flags = [
            (self.drain && !self.fail, "+DRAIN"),
            (self.fail, "+FAIL"),
            (self.completing, "+COMPLETING"),
            (self.maint, "+MAINTENANCE"),
            (self.reserved, "+RESERVED"),
            (self.not_responding, "+NOT_RESPONDING"),
            (self.planned, "+PLANNED"),
        ];
        flags.iter().filter(|(on, _)| *on).for_each(|(_, text)| out.push_str(text));
        out
    }

    /// As `sinfo -O statecomplete`: `idle+drain+planned`.
    pub fn complete(self) -> String {
        self.flags().to_ascii_lowercase()
    }

    /// Whether the CPUs of the node count as "other" (neither in use nor free).
    pub fn is_other(self) -> bool {
        matches!(self.base, Base::Down | Base::Unknown) || self.drain
    }

    /// Whether jobs use it.
    pub fn is_busy(self) -> bool {
        matches!(self.base, Base::Allocated | Base::Mixed) || self.completing
    }

    /// The place in `sinfo`'s order of states: marks weigh more than the base state.
    pub fn rank(self) -> u32 {
        let base = match self.base {
            Base::Unknown => 0,
            Base::Down => 1,
            Base::Idle => 2,
            Base::Allocated => 3,
            Base::Mixed => 5,
        };
        let marks = [self.drain, self.completing, self.not_responding, self.planned, self.reserved, self.maint];
        marks.iter().enumerate().fold(base, |sum, (i, on)| sum + (u32::from(*on) << (i + 4)))
    }
}

/// What someone said about a node: the reason of its drain or its fall, or ours when it was lost.
pub fn mark(view: &NodeView) -> Option<Mark> {
    let node = &view.node;
    node.drain.clone().or_else(|| node.down.clone()).or_else(|| {
        (node.liveness == Liveness::Down).then(|| Mark {
            reason: "Not responding".to_owned(),
            uid: 0,
            since: node.since,
        })
    })
}

/// Names that `sinfo --states` takes; those that never apply here are accepted and match nothing.
const NAMES: &[&str] = &[
    "unknown",
    "down",
    "idle",
    "allocated",
    "?",
    "mixed",
    "future",
    "drain",
    "drained",
    "draining",
    "no_respond",
    "reserved",
    "planned",
    "blocked",
    "cloud",
    "completing",
    "powering_down",
    "powered_down",
    "power_down",
    "powering_up",
    "fail",
    "maint",
    "reboot",
    "reboot^",
];

/// Other spellings of them.
const ALIASES: &[(&str, &str)] = &[
    ("alloc", "allocated"),
    ("mix", "mixed"),
    ("drng", "draining"),
    ("comp", "completing"),
    ("unk", "unknown"),
    ("plnd", "planned"),
    ("resv", "reserved"),
    ("futr", "future"),
    ("noresp", "no_respond"),
    ("no_respond", "no_respond"),
    ("npc", "?"),
    ("err", "?"),
];

/// A state that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Bad state string: \"{0}\"")]
pub struct UnknownState(pub String);

/// `sinfo --states`: any of these names, or all of them when joined by `&`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    names: Vec<&'static str>,
    all: bool,
}

impl Filter {
    /// Reads `idle,mix` or `drain&idle`; `all` lets everything through.
    ///
    /// # Errors
    /// [`UnknownState`].
    pub fn parse(text: &str) -> Result<Self, UnknownState> {
        let all = text.contains('&');
        let mut names = Vec::new();
        for part in text.split([',', '&']).filter(|p| !p.is_empty()) {
            if part.eq_ignore_ascii_case("all") {
                return Ok(Self::default());
            }
            names.push(find(part)?);
        }
        Ok(Self { names, all })
    }

    /// Whether a node in this state is shown.
    pub fn matches(&self, state: State) -> bool {
        match (self.names.is_empty(), self.all) {
            (true, _) => true,
            (false, true) => self.names.iter().all(|n| is(state, n)),
            (false, false) => self.names.iter().any(|n| is(state, n)),
        }
    }
}

fn find(text: &str) -> Result<&'static str, UnknownState> {
    let wanted = text.to_ascii_lowercase();
    let alias = ALIASES.iter().find(|(a, _)| *a == wanted).map(|(_, n)| *n);
    alias
        .or_else(|| NAMES.iter().find(|n| **n == wanted).copied())
        // A beginning of three letters or more is enough, as for `dra` and `allo`.
        .or_else(|| NAMES.iter().find(|n| wanted.len() >= 3 && n.starts_with(&wanted)).copied())
        .ok_or_else(|| UnknownState(text.to_owned()))
}

/// The names for a message.
pub fn list() -> String {
    NAMES.join(",")
}

fn is(state: State, name: &str) -> bool {
    match name {
        "unknown" => state.base == Base::Unknown,
        "down" => state.base == Base::Down,
        "idle" => state.base == Base::Idle,
        // Slurm counts nodes with some CPUs in use among the allocated ones.
        "allocated" => matches!(state.base, Base::Allocated | Base::Mixed),
        "mixed" => state.base == Base::Mixed,
        "drain" => state.drain,
        "drained" => state.drain && !state.is_busy(),
        "draining" => state.drain && state.is_busy(),
        "no_respond" => state.not_responding,
        "planned" => state.planned,
        "reserved" => state.reserved,
        "maint" => state.maint,
        "completing" => state.completing,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: State = State {
        base: Base::Idle,
        drain: false,
        fail: false,
        completing: false,
        not_responding: false,
        planned: false,
        reserved: false,
        maint: false,
    };

    const RESERVED: State = State { reserved: true, ..IDLE };
    const MAINT: State = State { maint: true, ..RESERVED };

    #[test]
    fn states_are_named_as_slurm_names_them() {
        for (state, compact, long, flags) in [
            (IDLE, "idle", "idle", "IDLE"),
            (State { drain: true, ..IDLE }, "drain", "drained", "IDLE+DRAIN"),
            (State { not_responding: true, ..IDLE }, "idle*", "idle*", "IDLE+NOT_RESPONDING"),
            (State { base: Base::Mixed, ..IDLE }, "mix", "mixed", "MIXED"),
            (State { base: Base::Mixed, drain: true, ..IDLE }, "drng", "draining", "MIXED+DRAIN"),
            (State { base: Base::Allocated, ..IDLE }, "alloc", "allocated", "ALLOCATED"),
            (State { base: Base::Allocated, drain: true, ..IDLE }, "drng", "draining", "ALLOCATED+DRAIN"),
            (State { base: Base::Down, not_responding: true, ..IDLE }, "down*", "down*", "DOWN+NOT_RESPONDING"),
            (State { planned: true, ..IDLE }, "plnd", "planned", "IDLE+PLANNED"),
            (State { planned: true, base: Base::Mixed, ..IDLE }, "mix-", "mixed-", "MIXED+PLANNED"),
            (State { planned: true, base: Base::Allocated, ..IDLE }, "alloc", "allocated", "ALLOCATED+PLANNED"),
            (State { planned: true, drain: true, ..IDLE }, "drain", "drained", "IDLE+DRAIN+PLANNED"),
            (State { completing: true, ..IDLE }, "comp", "completing", "IDLE+COMPLETING"),
            (RESERVED, "resv", "reserved", "IDLE+RESERVED"),
            (State { base: Base::Allocated, ..RESERVED }, "alloc", "allocated", "ALLOCATED+RESERVED"),
            (State { drain: true, ..RESERVED }, "drain", "drained", "IDLE+DRAIN+RESERVED"),
            (MAINT, "maint", "maint", "IDLE+MAINTENANCE+RESERVED"),
            (State { base: Base::Allocated, ..MAINT }, "alloc$", "allocated$", "ALLOCATED+MAINTENANCE+RESERVED"),
            (State { drain: true, ..MAINT }, "drain$", "drained$", "IDLE+DRAIN+MAINTENANCE+RESERVED"),
            (
                State { base: Base::Down, not_responding: true, ..MAINT },
                "down$",
                "down$",
                "DOWN+MAINTENANCE+RESERVED+NOT_RESPONDING",
            ),
        ] {
            assert_eq!(
                (state.compact().as_str(), state.long().as_str(), state.flags().as_str()),
                (compact, long, flags)
            );
        }
    }

    #[test]
    fn filters() {
        let drained = State { drain: true, ..IDLE };
        for (text, state, want) in [
            ("idle", IDLE, true),
            ("idle,mix", IDLE, true),
            ("mix", IDLE, false),
            ("drain&idle", drained, true),
            ("drain&idle", IDLE, false),
            ("all", IDLE, true),
            ("DRAIN", drained, true),
            ("drng", drained, false),
            ("down", State { base: Base::Down, ..IDLE }, true),
            ("reserved", IDLE, false),
            ("resv", RESERVED, true),
            ("idle", RESERVED, true),
            ("maint", RESERVED, false),
            ("maint", MAINT, true),
            ("reserved", MAINT, true),
            ("idle&maint", MAINT, true),
        ] {
            assert_eq!(Filter::parse(text).map(|f| f.matches(state)), Ok(want), "{text}");
        }
        assert_eq!(Filter::parse("idle,foo").map_err(|e| e.to_string()), Err("Bad state string: \"foo\"".to_owned()));
    }
}
