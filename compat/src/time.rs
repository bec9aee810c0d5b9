//! Time limits and elapsed times: the grammar of `--time` and the ways Slurm prints a length of time.
//!
//! A limit is kept in whole seconds, exactly as asked: `-t 0:30` is 30 seconds and is enforced as 30 seconds. Slurm
//! stores minutes and rounds up, so wherever a limit is *shown* it is rounded up to the minute ([`Limit::shown`]).
//! Negative lengths but `-1`, and lengths beyond [`MAX_LIMIT_S`], wrap around in Slurm; here they are refused.

use std::fmt;

/// The longest limit that may be asked for: 100 years, in seconds. Anything longer is a mistake, not a limit.
pub const MAX_LIMIT_S: u64 = 100 * 366 * 86_400;

/// A length of time that may have no end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Limit {
    /// So many seconds.
    Seconds(u64),
    /// No limit.
    Infinite,
}

/// The text is no length of time in Slurm's grammar.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no time limit: write minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]] or UNLIMITED"
)]
pub struct LimitError(pub String);

impl Limit {
    /// Reads `minutes`, `minutes:seconds`, `hours:minutes:seconds`, `days-hours`, `days-hours:minutes`,
    /// `days-hours:minutes:seconds`, `INFINITE`, `UNLIMITED` or `-1`, in any case. Fields may exceed their usual range
    /// (`100:00:00` is 100 hours).
    ///
    /// # Errors
    /// [`LimitError`] for anything else, and for more than [`MAX_LIMIT_S`].
    pub fn parse(text: &str) -> Result<Self, LimitError> {
        let word = text;
        if word == "-1" || word.eq_ignore_ascii_case("infinite") || word.eq_ignore_ascii_case("unlimited") {
            return Ok(Self::Infinite);
        }
        match limit_seconds(word) {
            Some(s) if s <= MAX_LIMIT_S => Ok(Self::Seconds(s)),
            _ => Err(LimitError(text.to_owned())),
        }
    }

    /// As [`Limit::parse`], and zero means "no limit", as for `sbatch --time=0`.
    ///
    /// # Errors
    /// As [`Limit::parse`].
    pub fn parse_zero_infinite(text: &str) -> Result<Self, LimitError> {
        Ok(match Self::parse(text)? {
            Self::Seconds(0) => Self::Infinite,
            other => other,
        })
    }

    /// The seconds, or `None` for no limit.
    pub fn seconds(self) -> Option<u64> {
        match self {
            Self::Seconds(s) => Some(s),
            Self::Infinite => None,
        }
    }

    /// The limit as it is shown: rounded up to whole minutes, in seconds.
    pub fn shown(self) -> Self {
        match self {
            Self::Seconds(s) => Self::Seconds(s.div_ceil(60) * 60),
            Self::Infinite => Self::Infinite,
        }
    }

    /// `D-HH:MM:SS` or `UNLIMITED`, rounded up to the minute: as `scontrol show` prints limits.
    pub fn long(self) -> String {
        match self.shown() {
            Self::Seconds(s) => long(s),
            Self::Infinite => "UNLIMITED".to_owned(),
        }
    }

    /// `D-H:MM:SS` or `UNLIMITED`, rounded up to the minute: as `squeue` prints limits.
    pub fn short(self) -> String {
        match self.shown() {
            Self::Seconds(s) => short(s),
            Self::Infinite => "UNLIMITED".to_owned(),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.long())
    }
}

fn field(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.len() <= 12 && text.bytes().all(|b| b.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

fn limit_seconds(text: &str) -> Option<u64> {
    let (days, rest) = match text.split_once('-') {
        Some((d, r)) => (Some(field(d)?), r),
        None => (None, text),
    };
    // `1-` is one day: the hours may be left out behind the dash.
    let rest = if days.is_some() && rest.is_empty() { "0" } else { rest };
    let parts: Vec<u64> = rest.split(':').map(field).collect::<Option<_>>()?;
    let (hours, minutes, seconds) = match (days.is_some(), parts.as_slice()) {
        (true, [h]) => (*h, 0, 0),
        (true, [h, m]) => (*h, *m, 0),
        (false, [m]) => (0, *m, 0),
        (false, [m, s]) => (0, *m, *s),
        (_, [h, m, s]) => (*h, *m, *s),
        _ => return None,
    };
    let total = u128::from(days.unwrap_or(0)) * 86_400
        + u128::from(hours) * 3_600
        + u128::from(minutes) * 60
        + u128::from(seconds);
    u64::try_from(total).ok()
}

/// `[D-]HH:MM:SS`, as `scontrol` prints a length in seconds.
pub fn long(seconds: u64) -> String {
    let (d, h, m, s) = split(seconds);
    if d > 0 { format!("{d}-{h:02}:{m:02}:{s:02}") } else { format!("{h:02}:{m:02}:{s:02}") }
}

/// `M:SS`, `H:MM:SS` or `D-HH:MM:SS`, as `squeue` prints a length in seconds.
pub fn short(seconds: u64) -> String {
    let (d, h, m, s) = split(seconds);
    match (d, h) {
        (0, 0) => format!("{m}:{s:02}"),
        (0, _) => format!("{h}:{m:02}:{s:02}"),
        _ => format!("{d}-{h:02}:{m:02}:{s:02}"),
    }
}

fn split(seconds: u64) -> (u64, u64, u64, u64) {
    (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_as_slurm_reads_them() {
        let s = |n| Some(Limit::Seconds(n));
        for (text, want) in [
            ("4:00", s(240)),
            ("0:30", s(30)),
            ("2-12", s(216_000)),
            ("7", s(420)),
            ("0:59:01", s(3_541)),
            ("2-3:4", s(2 * 86_400 + 3 * 3_600 + 240)),
            ("1-0", s(86_400)),
            ("1-2:3:4", s(86_400 + 7_384)),
            ("100:00:00", s(360_000)),
            ("0", s(0)),
            ("00:00:00", s(0)),
            ("1:99", s(159)),
            ("infinite", Some(Limit::Infinite)),
            ("UNLIMITED", Some(Limit::Infinite)),
            ("-1", Some(Limit::Infinite)),
            (" 5", None),
            ("5 ", None),
            ("banana", None),
            ("", None),
            ("-5", None),
            ("1-", s(86_400)),
            ("-", None),
            (":", None),
            ("1:", None),
            ("1:2:3:4", None),
            ("1-2-3", None),
            ("1-2:3:4:5", None),
            ("5m", None),
            ("1.5", None),
            ("+5", None),
            ("99999999999999999999", None),
            ("999999999-0", None),
            ("٣", None),
        ] {
            assert_eq!(Limit::parse(text).ok(), want, "{text}");
        }
        assert_eq!(Limit::parse_zero_infinite("0"), Ok(Limit::Infinite));
    }

    #[test]
    fn lengths_are_printed_as_slurm_prints_them() {
        for (seconds, long_form, short_form) in [
            (0, "00:00:00", "0:00"),
            (59, "00:00:59", "0:59"),
            (600, "00:10:00", "10:00"),
            (3_600, "01:00:00", "1:00:00"),
            (86_399, "23:59:59", "23:59:59"),
            (86_400, "1-00:00:00", "1-00:00:00"),
            (7 * 86_400 + 3_723, "7-01:02:03", "7-01:02:03"),
        ] {
            assert_eq!(long(seconds), long_form);
            assert_eq!(short(seconds), short_form);
        }
        assert_eq!(Limit::Seconds(30).long(), "00:01:00");
        assert_eq!(Limit::Seconds(3_541).short(), "1:00:00");
        assert_eq!(Limit::Infinite.long(), "UNLIMITED");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_answered(text in ".*") {
            let _ = Limit::parse(&text);
        }

        #[test]
        fn printed_limits_read_back(minutes in 0u64..1_000_000) {
            let limit = Limit::Seconds(minutes * 60);
            proptest::prop_assert_eq!(Limit::parse(&limit.long()).ok(), Some(limit));
        }
    }
}
