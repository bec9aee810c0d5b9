//! Points in time: what `--begin` and `--deadline` accept, and how times are printed.
//!
//! Nothing here reads a clock: the caller says what time it is and in which zone.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

/// The text is no point in time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Invalid time specification (pos={pos}): {text}")]
pub struct MomentError {
    /// Where reading stopped, in bytes from the start.
    pub pos: usize,
    /// The whole text.
    pub text: String,
}

/// Reads a point in time, in whole seconds since 1970.
///
/// Accepted: `now[+-]COUNT[seconds|minutes|hours|days|weeks]`, `utsSECONDS`, and in any order a time of day
/// (`HH:MM[:SS] [AM|PM]`, `midnight`, `noon`, `elevenses`, `fika`, `teatime`) and a date (`YYYY-MM-DD`, `MMDD[YY]`,
/// `MM/DD[/YY]`, `MM.DD[.YY]`, `today`, `tomorrow`), joined by a blank, `T` or `-`. A time of day that is past today is
/// tomorrow's; a date without a year that is past is next year's.
///
/// # Errors
/// [`MomentError`] with the place where the text stops making sense.
pub fn parse(text: &str, now_s: i64, zone: &TimeZone) -> Result<i64, MomentError> {
    read(text, now_s, zone, resolve)
}

/// As [`parse`], for questions about the past: a time of day is today's and a date without a year is this year's.
///
/// # Errors
/// As [`parse`].
pub fn parse_past(text: &str, now_s: i64, zone: &TimeZone) -> Result<i64, MomentError> {
    read(text, now_s, zone, resolve_past)
}

type Resolve = fn(Option<Day>, Option<Time>, DateTime) -> Option<DateTime>;

fn read(text: &str, now_s: i64, zone: &TimeZone, resolve: Resolve) -> Result<i64, MomentError> {
    let mut reader = Reader { text, pos: 0 };
    let fail = |pos| MomentError { pos, text: text.to_owned() };
    if let Some(answer) = reader.relative(now_s).map_err(fail)? {
        return Ok(answer);
    }
    let today = timestamp(now_s).to_zoned_datetime(zone.clone()).datetime();
    let (mut day, mut clock) = (None, None);
    reader.skip_joints();
    while !reader.rest().is_empty() {
        let at = reader.pos;
        match reader.part().map_err(fail)? {
            Part::Day(d) if day.is_none() => day = Some(d),
            Part::Clock(c) if clock.is_none() => clock = Some(c),
            _ => return Err(fail(at)),
        }
        reader.skip_joints();
    }
    if day.is_none() && clock.is_none() {
        return Err(fail(0));
    }
    resolve(day, clock, today)
        .and_then(|dt| dt.to_zoned_datetime(zone.clone()).ok())
        .map(|z| z.timestamp().as_second())
        .ok_or_else(|| fail(0))
}

fn timestamp(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH)
}

#[derive(Debug, Clone, Copy)]
enum Day {
    Today,
    Tomorrow,
    /// Year (if said), month, day of month. The day may lie behind the month's end.
    Date(Option<i16>, i8, i8),
}

enum Part {
    Day(Day),
    Clock(Time),
}

fn resolve(day: Option<Day>, clock: Option<Time>, now: DateTime) -> Option<DateTime> {
    let time = clock.unwrap_or(Time::midnight());
    let date = match day {
        None if time <= now.time() => now.date().tomorrow().ok()?,
        None | Some(Day::Today) => now.date(),
        Some(Day::Tomorrow) => now.date().tomorrow().ok()?,
        Some(Day::Date(Some(y), m, d)) => date(y, m, d)?,
        Some(Day::Date(None, m, d)) => {
            let this_year = date(now.year(), m, d)?;
            if this_year.to_datetime(time) < now { date(now.year() + 1, m, d)? } else { this_year }
        }
    };
    Some(date.to_datetime(time))
}

fn resolve_past(day: Option<Day>, clock: Option<Time>, now: DateTime) -> Option<DateTime> {
    let today = Day::Date(Some(now.year()), now.month(), now.day());
    let day = match day {
        None => today,
        Some(Day::Date(None, month, day)) => Day::Date(Some(now.year()), month, day),
        Some(day) => day,
    };
    resolve(Some(day), clock, now)
}

/// A date whose day may overflow into the next month, as 30 February does.
fn date(year: i16, month: i8, day: i8) -> Option<Date> {
    Date::new(year, month, 1).ok()?.checked_add(i64::from(day - 1).days()).ok()
}

struct Reader<'a> {
    text: &'a str,
    pos: usize,
}

const CLOCK_WORDS: &[(&str, i8)] = &[("midnight", 0), ("noon", 12), ("elevenses", 11), ("fika", 15), ("teatime", 16)];
const UNITS: &[(&str, i64)] = &[
    ("seconds", 1),
    ("second", 1),
    ("minutes", 60),
    ("minute", 60),
    ("hours", 3_600),
    ("hour", 3_600),
    ("days", 86_400),
    ("day", 86_400),
    ("weeks", 604_800),
    ("week", 604_800),
];

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.pos..).unwrap_or("")
    }

    fn skip_blanks(&mut self) {
        self.pos += self.rest().bytes().take_while(u8::is_ascii_whitespace).count();
    }

    /// What may stand between date and time.
    fn skip_joints(&mut self) {
        self.pos += self.rest().bytes().take_while(|b| b.is_ascii_whitespace() || matches!(b, b'T' | b'-')).count();
    }

    fn word(&mut self, word: &str) -> bool {
        let found = self.rest().get(..word.len()).is_some_and(|t| t.eq_ignore_ascii_case(word));
        if found {
            self.pos += word.len();
        }
        found
    }

    fn digits(&mut self, most: usize) -> Option<(i64, usize)> {
        let len = self.rest().bytes().take_while(u8::is_ascii_digit).count().min(most);
        let n = self.rest().get(..len)?.parse().ok()?;
        self.pos += len;
        Some((n, len))
    }

    /// `now`, `now+5minutes` and `uts1900000000`.
    fn relative(&mut self, now_s: i64) -> Result<Option<i64>, usize> {
        self.skip_blanks();
        let at = self.pos;
        if self.word("uts") {
            let (n, _) = self.digits(11).ok_or(at)?;
            return self.end(n).map(Some);
        }
        if !self.word("now") {
            return Ok(None);
        }
        self.skip_blanks();
        let sign_at = self.pos;
        let sign = match self.rest().bytes().next() {
            None => return Ok(Some(now_s)),
            Some(b'+') => 1,
            Some(b'-') => -1,
            Some(_) => return Err(sign_at),
        };
        self.pos += 1;
        self.skip_blanks();
        let (count, _) = self.digits(10).ok_or(sign_at)?;
        let count_at = self.pos - 1;
        self.skip_blanks();
        let unit = if self.rest().is_empty() {
            1
        } else {
            UNITS.iter().find(|(name, _)| self.word(name)).map(|(_, s)| *s).ok_or(count_at)?
        };
        self.end(now_s.saturating_add(sign * count.saturating_mul(unit))).map(Some)
    }

    fn end(&mut self, value: i64) -> Result<i64, usize> {
        self.skip_blanks();
        if self.rest().is_empty() { Ok(value) } else { Err(self.pos) }
    }

    fn part(&mut self) -> Result<Part, usize> {
        if self.word("today") {
            return Ok(Part::Day(Day::Today));
        }
        if self.word("tomorrow") {
            return Ok(Part::Day(Day::Tomorrow));
        }
        if let Some((_, hour)) = CLOCK_WORDS.iter().find(|(name, _)| self.word(name)) {
            return Ok(Part::Clock(clock(i64::from(*hour), 0, 0).ok_or(self.pos)?));
        }
        let start = self.pos;
        let (first, len) = self.digits(11).ok_or(start)?;
        match (self.rest().bytes().next(), len) {
            (Some(b':'), 1 | 2) => self.clock_behind(first, start).map(Part::Clock),
            (Some(b'-'), 4) => self.iso_date(first).map(Part::Day),
            (Some(sep @ (b'/' | b'.')), 1 | 2) => self.month_day(first, sep, start).map(Part::Day),
            (_, 4) => self.packed_date(first / 100, first % 100, None, start),
            (_, 6) => self.packed_date(first / 10_000, first / 100 % 100, Some(first % 100), start),
            (_, 1 | 2) => Err(self.pos),
            _ => Err(start),
        }
    }

    fn clock_behind(&mut self, hour: i64, start: usize) -> Result<Time, usize> {
        self.pos += 1;
        let minute_at = self.pos;
        let (minute, _) = self.digits(2).ok_or(minute_at)?;
        if minute > 59 {
            return Err(minute_at);
        }
        let mut second = 0;
        if self.rest().starts_with(':') {
            self.pos += 1;
            let at = self.pos;
            second = self.digits(2).filter(|(s, _)| *s < 60).ok_or(at)?.0;
        }
        if !self.rest().is_empty() && !self.rest().starts_with([' ', '-', 'T', 'a', 'A', 'p', 'P', '\t']) {
            return Err(self.pos);
        }
        let before = self.pos;
        self.skip_blanks();
        let half_at = self.pos;
        let half = if self.word("am") {
            Some(0)
        } else if self.word("pm") {
            Some(12)
        } else {
            self.pos = before;
            None
        };
        let hour = match half {
            None => hour,
            Some(_) if hour > 12 || hour == 0 => return Err(half_at),
            Some(h) => hour % 12 + h,
        };
        clock(hour, minute, second).ok_or(start)
    }

    fn iso_date(&mut self, year: i64) -> Result<Day, usize> {
        let start = self.pos - 4;
        let mut two = || -> Result<i8, usize> {
            self.pos += 1;
            let at = self.pos;
            let (n, len) = self.digits(2).ok_or(start)?;
            if len == 2 { i8::try_from(n).map_err(|_| at) } else { Err(start) }
        };
        let month = two()?;
        if !(1..=12).contains(&month) {
            return Err(self.pos - 2);
        }
        if !self.rest().starts_with('-') {
            return Err(self.pos);
        }
        let mut two = || -> Result<i8, usize> {
            self.pos += 1;
            let at = self.pos;
            let (n, len) = self.digits(2).ok_or(start)?;
            if len == 2 { i8::try_from(n).map_err(|_| at) } else { Err(start) }
        };
        let day = two()?;
        if !(1..=31).contains(&day) {
            return Err(self.pos - 2);
        }
        let joint = self.rest().bytes().next();
        if joint.is_some_and(|b| !b.is_ascii_whitespace() && b != b'T' && b != b'-') {
            return Err(self.pos);
        }
        Ok(Day::Date(Some(i16::try_from(year).map_err(|_| start)?), month, day))
    }

    fn month_day(&mut self, month: i64, sep: u8, start: usize) -> Result<Day, usize> {
        self.pos += 1;
        let (day, _) = self.digits(2).ok_or(self.pos)?;
        let mut year = None;
        if self.rest().as_bytes().first() == Some(&sep) {
            self.pos += 1;
            let (y, len) = self.digits(4).ok_or(self.pos)?;
            year = Some(if len <= 2 { 2000 + y } else { y });
        }
        month_day_year(month, day, year).ok_or(start)
    }

    fn packed_date(&mut self, month: i64, day: i64, year: Option<i64>, start: usize) -> Result<Part, usize> {
        month_day_year(month, day, year.map(|y| 2000 + y)).map(Part::Day).ok_or(start)
    }
}

fn month_day_year(month: i64, day: i64, year: Option<i64>) -> Option<Day> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year = match year {
        Some(y) => Some(i16::try_from(y).ok()?),
        None => None,
    };
    Some(Day::Date(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?))
}

fn clock(hour: i64, minute: i64, second: i64) -> Option<Time> {
    let part = |n: i64| i8::try_from(n).ok();
    Time::new(part(hour)?, part(minute)?, part(second)?, 0).ok()
}

/// How times are printed: the meaning of `SLURM_TIME_FORMAT`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Style {
    /// `2026-12-01T04:04:44`.
    #[default]
    Standard,
    /// Near times by their distance: `04:04:44`, `Tomr 04:04`, `Mon 04:04`, `1 Dec 04:04`, `2026-12-01`.
    Relative,
    /// A `strftime` pattern.
    Pattern(String),
}

impl Style {
    /// From the value of `SLURM_TIME_FORMAT`.
    pub fn from_env(value: Option<&str>) -> Self {
        match value {
            None | Some("" | "standard") => Self::Standard,
            Some("relative") => Self::Relative,
            Some(pattern) => Self::Pattern(pattern.to_owned()),
        }
    }
}

/// Prints a point in time; `now_s` matters to [`Style::Relative`] only.
pub fn show(seconds: i64, now_s: i64, zone: &TimeZone, style: &Style) -> String {
    let at = timestamp(seconds).to_zoned_datetime(zone.clone());
    let standard = || at.strftime("%Y-%m-%dT%H:%M:%S").to_string();
    match style {
        Style::Standard => standard(),
        Style::Relative => relative(&at.datetime(), &timestamp(now_s).to_zoned_datetime(zone.clone()).datetime()),
        Style::Pattern(p) => jiff::fmt::strtime::format(p, &at).unwrap_or_else(|_| standard()),
    }
}

fn relative(at: &DateTime, now: &DateTime) -> String {
    let days = (at.date() - now.date()).get_days();
    let pattern = match days {
        0 => "%H:%M:%S",
        -1 => "Ystday %H:%M",
        1 => "Tomr %H:%M",
        -6..=6 => "%a %H:%M",
        _ if at.year() == now.year() => "%-d %b %H:%M",
        _ => "%-d %b %Y",
    };
    at.strftime(pattern).to_string()
}

/// The date line above long listings: `Tue Dec 01 04:04:52 2026`.
pub fn headline(seconds: i64, zone: &TimeZone) -> String {
    timestamp(seconds).to_zoned_datetime(zone.clone()).strftime("%a %b %d %H:%M:%S %Y").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-12-01T04:46:10Z, when these answers were taken from Slurm.
    const NOW: i64 = 1_796_100_370;

    #[test]
    fn begin_times_are_read_as_slurm_reads_them() {
        for (text, want) in [
            ("now", "2026-12-01T04:46:10"),
            ("NOW", "2026-12-01T04:46:10"),
            ("now+1hour", "2026-12-01T05:46:10"),
            ("now+2hours", "2026-12-01T06:46:10"),
            ("now+60", "2026-12-01T04:47:10"),
            ("now+5minutes", "2026-12-01T04:51:10"),
            ("now+3weeks", "2026-12-22T04:46:10"),
            ("now+1day", "2026-12-02T04:46:10"),
            ("now-1hour", "2026-12-01T03:46:10"),
            ("now + 1hour", "2026-12-01T05:46:10"),
            ("now+1 hour", "2026-12-01T05:46:10"),
            ("tomorrow", "2026-12-02T00:00:00"),
            ("today", "2026-12-01T00:00:00"),
            ("noon", "2026-12-01T12:00:00"),
            ("midnight", "2026-12-02T00:00:00"),
            ("teatime", "2026-12-01T16:00:00"),
            ("fika", "2026-12-01T15:00:00"),
            ("elevenses", "2026-12-01T11:00:00"),
            ("16:00", "2026-12-01T16:00:00"),
            ("04:00", "2026-12-02T04:00:00"),
            ("4:00PM", "2026-12-01T16:00:00"),
            ("12:30 AM", "2026-12-02T00:30:00"),
            ("4:00 pm", "2026-12-01T16:00:00"),
            ("16:00:30", "2026-12-01T16:00:30"),
            ("2030-01-02", "2030-01-02T00:00:00"),
            ("2030-01-02T03:04", "2030-01-02T03:04:00"),
            ("2030-01-02T03:04:05", "2030-01-02T03:04:05"),
            ("2030-01-02 03:04", "2030-01-02T03:04:00"),
            ("2030-02-30", "2030-03-02T00:00:00"),
            ("2020-01-01", "2020-01-01T00:00:00"),
            ("0102", "2027-01-02T00:00:00"),
            ("1231", "2026-12-31T00:00:00"),
            ("010230", "2030-01-02T00:00:00"),
            ("01/02", "2027-01-02T00:00:00"),
            ("01/02/30", "2030-01-02T00:00:00"),
            ("1/2/30", "2030-01-02T00:00:00"),
            ("01.02.30", "2030-01-02T00:00:00"),
            ("1.2", "2027-01-02T00:00:00"),
            ("uts1900000000", "2030-03-17T17:46:40"),
            ("16:00 0102", "2027-01-02T16:00:00"),
            ("0102 16:00", "2027-01-02T16:00:00"),
            ("010230-16:00", "2030-01-02T16:00:00"),
            ("noon 01/02/30", "2030-01-02T12:00:00"),
        ] {
            let got = parse(text, NOW, &TimeZone::UTC).map(|s| show(s, NOW, &TimeZone::UTC, &Style::Standard));
            assert_eq!(got.as_deref(), Ok(want), "{text}");
        }
    }

    #[test]
    fn junk_is_refused_where_slurm_refuses_it() {
        for (text, pos) in [
            ("now+5min", 4),
            ("now+1d", 4),
            ("now+1h", 4),
            ("now+1x", 4),
            ("now+1month", 4),
            ("now+", 3),
            ("now+x", 3),
            ("4PM", 1),
            ("tomorrow+1hour", 8),
            ("16:00+1hour", 5),
            ("yesterday", 0),
            ("foo", 0),
            ("25:00", 0),
            ("12:60", 3),
            ("2030-13-01", 5),
            ("1900000000", 0),
            ("2030-01-02T16:00PM", 16),
            ("2030-1-2", 0),
            ("2030-01-02T3", 12),
            ("2030-01-02T03:04:05.5", 19),
            ("2030-01-02T03:04:05Z", 19),
            ("20300102", 0),
            ("30-01-02", 2),
            ("", 0),
            ("16:00 17:00", 6),
            ("99/99", 0),
        ] {
            assert_eq!(parse(text, NOW, &TimeZone::UTC).map_err(|e| e.pos), Err(pos), "{text}");
        }
    }

    #[test]
    fn zones_and_styles_count() {
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        let at = parse("16:00", NOW, &berlin).unwrap();
        assert_eq!(show(at, NOW, &TimeZone::UTC, &Style::Standard), "2026-12-01T15:00:00");
        assert_eq!(show(at, NOW, &berlin, &Style::Pattern("%d/%m %H".to_owned())), "01/12 16");
        assert_eq!(show(at, NOW, &berlin, &Style::Pattern("%".to_owned())), "2026-12-01T16:00:00");
        assert_eq!(headline(NOW, &TimeZone::UTC), "Tue Dec 01 04:46:10 2026");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_answered(text in "[nowutsTAPM0-9:/. +\\-]{0,20}", now in -10_000_000_000i64..300_000_000_000) {
            if let Err(e) = parse(&text, now, &TimeZone::UTC) {
                proptest::prop_assert!(e.pos <= text.len());
            }
        }
    }
}
