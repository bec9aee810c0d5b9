//! Hostlists: `n[001-128,200],gpu-[1-2]-ib[0-3]` and back.
//!
//! A list keeps its hosts in the order given, duplicates included, as Slurm does; [`Hostlist::sort`] orders them.
//! Everything is held as ranges, so a list of a hundred thousand hosts costs a few words.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;

/// The most hosts that one bracket may name (Slurm's own limit).
pub const MAX_RANGE_HOSTS: u64 = 65_536;

/// The most hosts that one list may name.
pub const MAX_HOSTS: u64 = 262_144;

/// The longest name with brackets, in bytes without what stands in them: a name in DNS is no longer. Each host has it anew.
const MAX_NAME: usize = 255;

/// The most brackets that one name may have.
const MAX_BRACKETS: usize = 16;

/// Why a hostlist was refused. The text is Slurm's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostlistError {
    /// A bracket holds something that is no number or no rising range.
    #[error("Invalid range: `{0}'")]
    InvalidRange(String),
    /// A bracket names more than [`MAX_RANGE_HOSTS`].
    #[error("Too many hosts in range `{0}'")]
    RangeTooLarge(String),
    /// The whole list names more than [`MAX_HOSTS`].
    #[error("Too many hosts in hostlist: more than {MAX_HOSTS}")]
    TooManyHosts,
    /// A bracket is opened and never closed.
    #[error("Unclosed bracket in hostlist: `{0}'")]
    Unclosed(String),
    /// A name with more than [`MAX_BRACKETS`] brackets, or longer than [`MAX_NAME`] beside them.
    #[error("Name too long in hostlist: more than {MAX_NAME} characters or {MAX_BRACKETS} brackets")]
    NameTooLong,
}

/// Hosts with one prefix and consecutive numbers, or one host without a number.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Range {
    prefix: String,
    /// First and last number and the padded width; `None`: the prefix is the whole name.
    span: Option<Span>,
}

impl Range {
    fn with(&self, span: Span) -> Self {
        Self { prefix: self.prefix.clone(), span: Some(span) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    lo: u64,
    hi: u64,
    width: usize,
}

impl Span {
    fn len(self) -> u64 {
        self.hi - self.lo + 1
    }

    /// Whether `next` continues this span with the same way of writing its numbers.
    fn joins(self, next: Span) -> bool {
        self.hi.checked_add(1) == Some(next.lo) && width_fits(self, next)
    }
}

/// Whether the second span's numbers are written the same with the first one's width: `9` and `10`, `099` and `100`.
fn width_fits(a: Span, b: Span) -> bool {
    a.width == b.width || (a.width.max(digits(b.lo)) == b.width.max(digits(b.lo)) && digits(b.hi) == digits(b.lo))
}

fn digits(n: u64) -> usize {
    n.checked_ilog10().unwrap_or(0) as usize + 1
}

/// A list of host names, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hostlist {
    ranges: Vec<Range>,
}

impl Hostlist {
    /// Reads a hostlist. Names are separated by commas or blanks outside brackets; zero padding is kept; several
    /// brackets multiply (`a[1-2]b[3-4]`). An empty text is an empty list.
    ///
    /// # Errors
    /// [`HostlistError`] for falling, non-numeric, unclosed and over-large ranges.
    pub fn parse(text: &str) -> Result<Self, HostlistError> {
        let mut list = Self::default();
        let mut total = 0u64;
        for token in tokens(text) {
            check_size(token)?;
            for range in parse_token(token)? {
                total = total.saturating_add(range.span.map_or(1, Span::len));
                if total > MAX_HOSTS {
                    return Err(HostlistError::TooManyHosts);
                }
                list.push_range(range);
            }
        }
        Ok(list)
    }

    /// A list of plain names; brackets in a name have no meaning here.
    pub fn from_names<I, S>(names: I) -> Self
    where
        I: IntoIterator<Item = S>,
        S: AsRef<str>,
    {
        let mut list = Self::default();
        for name in names {
            list.push(name.as_ref());
        }
        list
    }

    /// Adds one plain name at the end.
    pub fn push(&mut self, name: &str) {
        self.push_range(split_name(name));
    }

    fn push_range(&mut self, range: Range) {
        if let (Some(last), Some(new)) = (self.ranges.last_mut(), range.span)
            && last.prefix == range.prefix
            && let Some(old) = &mut last.span
            && old.joins(new)
        {
            old.hi = new.hi;
            return;
        }
        self.ranges.push(range);
    }

    /// How many hosts the list names, duplicates counted.
    pub fn len(&self) -> u64 {
        self.ranges.iter().map(|r| r.span.map_or(1, Span::len)).sum()
    }

    /// Whether the list names no host.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The names, one by one, in order.
    pub fn iter(&self) -> impl Iterator<Item = String> + '_ {
        self.ranges.iter().flat_map(|r| {
            let (lo, hi, width) = r.span.map_or((0, 0, None), |s| (s.lo, s.hi, Some(s.width)));
            (lo..=hi).map(move |n| match width {
                Some(w) => format!("{}{:0w$}", r.prefix, n),
                None => r.prefix.clone(),
            })
        })
    }

    /// Orders the hosts by prefix, number and width; duplicates stay.
    pub fn sort(&mut self) {
        // (prefix, width) pairs in which some number is really padded: `100` beside `099` belongs to the padded ones.
        let padded: BTreeSet<(String, usize)> = self
            .ranges
            .iter()
            .filter_map(|r| r.span.filter(|s| s.width > digits(s.lo)).map(|s| (r.prefix.clone(), s.width)))
            .collect();
        let family = |r: &Range, s: Span| match padded.contains(&(r.prefix.clone(), s.width)) {
            true => s.width,
            false => 0,
        };
        let mut singles: Vec<(usize, Range)> = Vec::new();
        for r in &self.ranges {
            match r.span {
                Some(s) => {
                    let f = family(r, s);
                    singles.extend((s.lo..=s.hi).map(|n| (f, r.with(Span { lo: n, hi: n, width: s.width }))));
                }
                None => singles.push((0, r.clone())),
            }
        }
        singles.sort_by(compare);
        self.ranges.clear();
        for (_, r) in singles {
            self.push_range(r);
        }
    }

    /// Orders the hosts and drops duplicates.
    pub fn sort_unique(&mut self) {
        self.sort();
        let mut names: Vec<String> = self.iter().collect();
        let before = names.len();
        // The same name may stand among the padded ones and among the others: `n[215,00-300]` has two of 215.
        let mut seen = BTreeSet::new();
        names.retain(|name| seen.insert(name.clone()));
        if names.len() < before {
            *self = Self::from_names(names);
        }
    }

    /// Whether the list names this host.
    pub fn contains(&self, name: &str) -> bool {
        self.ranges.iter().any(|r| match r.span {
            None => r.prefix == name,
            Some(s) => name.strip_prefix(r.prefix.as_str()).is_some_and(|tail| {
                let w = s.width;
                tail.parse::<u64>().is_ok_and(|n| (s.lo..=s.hi).contains(&n) && tail == format!("{n:0w$}"))
            }),
        })
    }
}

impl fmt::Display for Hostlist {
    /// The ranged form: neighbours with the same prefix share one pair of brackets, in the list's order.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for group in self.ranges.chunk_by(|a, b| a.prefix == b.prefix && a.span.is_some() && b.span.is_some()) {
            if !first {
                f.write_str(",")?;
            }
            first = false;
            write_group(f, group)?;
        }
        Ok(())
    }
}

fn write_group(f: &mut fmt::Formatter<'_>, group: &[Range]) -> fmt::Result {
    let Some(head) = group.first() else { return Ok(()) };
    f.write_str(&head.prefix)?;
    let bare = group.len() == 1 && head.span.is_none_or(|s| s.lo == s.hi);
    if !bare {
        f.write_str("[")?;
    }
    for (i, span) in group.iter().filter_map(|r| r.span).enumerate() {
        let w = span.width;
        if i > 0 {
            f.write_str(",")?;
        }
        write!(f, "{:0w$}", span.lo)?;
        if span.hi > span.lo {
            write!(f, "-{:0w$}", span.hi)?;
        }
    }
    if !bare {
        f.write_str("]")?;
    }
    Ok(())
}

/// The order of a sorted list: prefix, then unpadded numbers before padded ones by width, then number.
fn compare(a: &(usize, Range), b: &(usize, Range)) -> Ordering {
    a.1.prefix.cmp(&b.1.prefix).then_with(|| match (a.1.span, b.1.span) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Less,
        (Some(_), None) => Ordering::Greater,
        (Some(x), Some(y)) => a.0.cmp(&b.0).then(x.lo.cmp(&y.lo)),
    })
}

/// The parts of a list: separated by commas and blanks that stand outside brackets.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0u32;
    text.split(move |c: char| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && (c == ',' || c.is_ascii_whitespace())
    })
    .filter(|t| !t.is_empty())
}

fn split_name(name: &str) -> Range {
    let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count().min(18);
    let (prefix, tail) = name.split_at(name.len() - digits);
    match tail.parse::<u64>() {
        Ok(n) => Range { prefix: prefix.to_owned(), span: Some(Span { lo: n, hi: n, width: digits }) },
        Err(_) => Range { prefix: name.to_owned(), span: None },
    }
}

/// A name that stands for many must be short, since it is repeated for each, bracket by bracket.
fn check_size(token: &str) -> Result<(), HostlistError> {
    if !token.contains('[') {
        return Ok(());
    }
    // The last part is what follows the last bracket; a bracket without an end is another's to refuse.
    let parts = || token.split('[').map(|part| part.split_once(']').map_or(part, |(_, outside)| outside));
    let first = token.split('[').next().map_or(0, str::len);
    let outside = first + parts().skip(1).map(str::len).sum::<usize>();
    let long = outside > MAX_NAME && token.contains(']');
    if long || parts().count() > MAX_BRACKETS + 1 { Err(HostlistError::NameTooLong) } else { Ok(()) }
}

fn parse_token(token: &str) -> Result<Vec<Range>, HostlistError> {
    let Some((head, rest)) = token.split_once('[') else { return Ok(vec![split_name(token)]) };
    let Some((inner, tail)) = rest.split_once(']') else {
        return Err(HostlistError::Unclosed(token.to_owned()));
    };
    let spans = parse_spans(inner)?;
    if tail.is_empty() {
        return Ok(spans.into_iter().map(|s| Range { prefix: head.to_owned(), span: Some(s) }).collect());
    }
    let tails = parse_token(tail)?;
    let tail_hosts: u64 = tails.iter().map(|r| r.span.map_or(1, Span::len)).sum();
    let hosts = spans.iter().map(|s| s.len()).sum::<u64>().saturating_mul(tail_hosts);
    if hosts > MAX_HOSTS {
        return Err(HostlistError::TooManyHosts);
    }
    Ok(product(head, &spans, &tails))
}

/// Every number of the first bracket before every range of the rest.
fn product(head: &str, spans: &[Span], tails: &[Range]) -> Vec<Range> {
    let mut out = Vec::new();
    for span in spans {
        let w = span.width;
        for n in span.lo..=span.hi {
            for t in tails {
                let prefix = format!("{head}{n:0w$}{}", t.prefix);
                match t.span {
                    // `tux[1-2][3-4]`: the number in front becomes part of the prefix, so the digits stay apart.
                    Some(s) => out.push(Range { prefix, span: Some(s) }),
                    None => out.push(split_name(&prefix)),
                }
            }
        }
    }
    out
}

fn parse_spans(inner: &str) -> Result<Vec<Span>, HostlistError> {
    let mut total = 0u64;
    let mut spans = Vec::new();
    for part in inner.split(',') {
        let span = parse_span(part)?;
        total = total.saturating_add(span.len());
        if total > MAX_RANGE_HOSTS {
            return Err(HostlistError::RangeTooLarge(part.to_owned()));
        }
        spans.push(span);
    }
    Ok(spans)
}

fn parse_span(part: &str) -> Result<Span, HostlistError> {
    let bad = || HostlistError::InvalidRange(part.to_owned());
    let number = |t: &str| {
        let plain = !t.is_empty() && t.len() <= 18 && t.bytes().all(|b| b.is_ascii_digit());
        if plain { t.parse::<u64>().map_err(|_| bad()) } else { Err(bad()) }
    };
    let (lo_text, hi_text) = part.split_once('-').unwrap_or((part, part));
    let (lo, hi) = (number(lo_text)?, number(hi_text)?);
    if hi < lo {
        return Err(bad());
    }
    if hi - lo >= MAX_RANGE_HOSTS {
        return Err(HostlistError::RangeTooLarge(part.to_owned()));
    }
    Ok(Span { lo, hi, width: lo_text.len() })
}

/// The names in `text`, one by one.
///
/// # Errors
/// As [`Hostlist::parse`].
pub fn expand(text: &str) -> Result<Vec<String>, HostlistError> {
    Ok(Hostlist::parse(text)?.iter().collect())
}

/// The sorted, ranged form of plain names without duplicates, as node lists are shown.
pub fn compress<I, S>(names: I) -> String
where
    I: IntoIterator<Item = S>,
    S: AsRef<str>,
{
    let mut list = Hostlist::from_names(names);
    list.sort_unique();
    list.to_string()
}

/// Which form `scontrol show` is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `hostnames`: one name a line.
    Names,
    /// `hostlist`: the ranged form, in the order given.
    List,
    /// `hostlistsorted`: the ranged form, sorted.
    Sorted,
}

/// What `scontrol show hostnames|hostlist|hostlistsorted TEXT` prints: standard output, or what goes to standard error
/// with exit status 1.
///
/// # Errors
/// The text for standard error, complete with line ends.
pub fn show(form: Form, text: &str) -> Result<String, String> {
    let mut list = Hostlist::parse(text).map_err(|e| match e {
        HostlistError::Unclosed(_) => format!("Invalid hostlist: {text}\n"),
        other => format!("scontrol: error: _parse_single_range: {other}\nInvalid hostlist: {text}\n"),
    })?;
    Ok(match form {
        Form::Names => list.iter().map(|n| n + "\n").collect(),
        Form::List => format!("{list}\n"),
        Form::Sorted => {
            list.sort();
            format!("{list}\n")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scontrol_show_prints_what_slurm_prints() {
        use Form::{List, Names, Sorted};
        for (form, text, want) in [
            (Names, "n[1,3,5-7]", "n1\nn3\nn5\nn6\nn7\n"),
            (Names, "n[001-003,010]", "n001\nn002\nn003\nn010\n"),
            (Names, "n[8-11]", "n8\nn9\nn10\nn11\n"),
            (Names, "n[1-3,07]", "n1\nn2\nn3\nn07\n"),
            (Names, "a[1-2]b[3-4]", "a1b3\na1b4\na2b3\na2b4\n"),
            (Names, "a[1-2]-ib", "a1-ib\na2-ib\n"),
            (Names, "gpu-[1-2]-ib[0-1]", "gpu-1-ib0\ngpu-1-ib1\ngpu-2-ib0\ngpu-2-ib1\n"),
            (Names, "rack[0-1]node[0-2]", "rack0node0\nrack0node1\nrack0node2\nrack1node0\nrack1node1\nrack1node2\n"),
            (Names, "n]1", "n]1\n"),
            (Names, "n[1-2],n[2-3]", "n1\nn2\nn2\nn3\n"),
            (Names, "n[1-2]-[3-4]", "n1-3\nn1-4\nn2-3\nn2-4\n"),
            (Names, "", ""),
            (Names, "tux[1-2][3-4]", "tux13\ntux14\ntux23\ntux24\n"),
            (Names, "n[1-2].cluster", "n1.cluster\nn2.cluster\n"),
            (Names, "n 1", "n\n1\n"),
            (Names, "n[1-1]", "n1\n"),
            (Names, ",n1,,n2,", "n1\nn2\n"),
            (Names, "n[1-003]", "n1\nn2\nn3\n"),
            (Sorted, "n1,n2,n3", "n[1-3]\n"),
            (List, "n3,n1,n2", "n[3,1-2]\n"),
            (Sorted, "n3,n1,n2", "n[1-3]\n"),
            (List, "n01,n02,n03", "n[01-03]\n"),
            (Sorted, "n01,n02,n03", "n[01-03]\n"),
            (Sorted, "n[1-2],n5", "n[1-2,5]\n"),
            (Sorted, "", "\n"),
            (List, "n1,n01", "n[1,01]\n"),
            (Sorted, "n1,n01", "n[1,01]\n"),
            (List, "n1,n2,n4", "n[1-2,4]\n"),
            (Sorted, "n1-ib,n2-ib", "n1-ib,n2-ib\n"),
            (Sorted, "n1,n1,n2", "n[1,1-2]\n"),
            (List, "n9,n10,n11", "n[9-11]\n"),
            (List, "r1c1n1,r1c1n2,r1c2n1", "r1c1n[1-2],r1c2n1\n"),
            (Sorted, "r1c1n1,r1c1n2,r1c2n1", "r1c1n[1-2],r1c2n1\n"),
            (List, "n[1-2],n5", "n[1-2,5]\n"),
            (List, "n0,n00,n000", "n[0,00,000]\n"),
            (Sorted, "n0,n00,n000", "n[0,00,000]\n"),
            (Sorted, "n1 n2", "n[1-2]\n"),
            (List, "n99,n100", "n[99-100]\n"),
            (List, "n099,n100", "n[099-100]\n"),
            (List, "", "\n"),
            (Sorted, "b2,a1,b1,a2", "a[1-2],b[1-2]\n"),
            (List, "n1,n3,n5,n7", "n[1,3,5,7]\n"),
            (List, "a[1-2]b[3-4]", "a1b[3-4],a2b[3-4]\n"),
            (List, "n10,n9,n2,n1", "n[10,9,2,1]\n"),
            (Sorted, "n10,n9,n2,n1", "n[1-2,9-10]\n"),
            (List, "n1,n01,n2,n02", "n[1,01,2,02]\n"),
            (Sorted, "n1,n01,n2,n02", "n[1-2,01-02]\n"),
            (Sorted, "n001,n1,n01", "n[1,01,001]\n"),
            (Sorted, "x,n1,n", "n,n1,x\n"),
            (Sorted, "a1,n[1-3]b,a2", "a[1-2],n1b,n2b,n3b\n"),
            (List, "n[1-3],n[2-5]", "n[1-3,2-5]\n"),
            (Sorted, "n[1-3],n[2-5]", "n[1-2,2-3,3-5]\n"),
            (Sorted, "n9,n010", "n[9,010]\n"),
            (Sorted, "n099,n100,n0101", "n[099-100,0101]\n"),
            (Sorted, "n[1-2,4-5,9]", "n[1-2,4-5,9]\n"),
            (List, "1,2,3", "[1-3]\n"),
            (Sorted, "n[9-11],n[08-09]", "n[9-11,08-09]\n"),
            (List, "n[01-3]", "n[01-03]\n"),
            (Sorted, "n[8-10],n8", "n[8,8-10]\n"),
            (List, "n[1-3]5", "n15,n25,n35\n"),
            (List, "n[1-2]{3}", "n1{3},n2{3}\n"),
            (List, "n18446744073709551615", "n18446744073709551615\n"),
            (List, "n2,n01", "n[2,01]\n"),
            (Sorted, "n2,n01", "n[2,01]\n"),
        ] {
            assert_eq!(show(form, text).as_deref(), Ok(want), "{text}");
        }
        for (text, want) in [
            ("n[3-1]", "scontrol: error: _parse_single_range: Invalid range: `3-1'\nInvalid hostlist: n[3-1]\n"),
            (
                "n[003-001]",
                "scontrol: error: _parse_single_range: Invalid range: `003-001'\nInvalid hostlist: n[003-001]\n",
            ),
            ("n[]", "scontrol: error: _parse_single_range: Invalid range: `'\nInvalid hostlist: n[]\n"),
            ("n[a-b]", "scontrol: error: _parse_single_range: Invalid range: `a-b'\nInvalid hostlist: n[a-b]\n"),
            (
                "n[0-65536]",
                "scontrol: error: _parse_single_range: Too many hosts in range `0-65536'\nInvalid hostlist: n[0-65536]\n",
            ),
            (
                "n[0-2000000]",
                "scontrol: error: _parse_single_range: Too many hosts in range `0-2000000'\nInvalid hostlist: n[0-2000000]\n",
            ),
            ("n[1-2-3]", "scontrol: error: _parse_single_range: Invalid range: `1-2-3'\nInvalid hostlist: n[1-2-3]\n"),
            ("node]1-2[", "Invalid hostlist: node]1-2[\n"),
            ("n[1-3", "Invalid hostlist: n[1-3\n"),
        ] {
            assert_eq!(show(Names, text), Err(want.to_owned()));
        }
    }

    #[test]
    fn lists_know_their_members() {
        let list = Hostlist::parse("n[08-11],gpu-[1-2]-ib0,login").unwrap();
        for name in ["n08", "n11", "gpu-2-ib0", "login"] {
            assert!(list.contains(name), "{name}");
        }
        for name in ["n8", "n12", "n008", "gpu-3-ib0", "log", "n"] {
            assert!(!list.contains(name), "{name}");
        }
        assert_eq!(list.len(), 7);
    }

    #[test]
    fn no_name_is_twice_in_a_sorted_list_without_duplicates() {
        for (text, want) in
            [("n[215,00-300]", 301), ("n[7,07,7,07]", 2), ("n[1-3],n2", 3), ("n[9-11],n[09-11]", 4), ("a,b,a", 2)]
        {
            let mut list = Hostlist::parse(text).unwrap();
            list.sort_unique();
            assert_eq!(list.len(), want, "{text}: {list}");
        }
    }

    #[test]
    fn names_that_would_be_repeated_without_measure_are_refused() {
        let (long, short) = ("x".repeat(MAX_NAME), "x".repeat(MAX_NAME - 1));
        for (text, want) in [
            ("a[1]".repeat(MAX_BRACKETS), Ok(1)),
            ("a[1]".repeat(MAX_BRACKETS + 1), Err(HostlistError::NameTooLong)),
            ("a[1]".repeat(100_000), Err(HostlistError::NameTooLong)),
            ("[".repeat(100_000), Err(HostlistError::NameTooLong)),
            (format!("{short}[1-9]y"), Ok(9)),
            (format!("{long}[1-9]y"), Err(HostlistError::NameTooLong)),
            (format!("n[1-9]y{long}"), Err(HostlistError::NameTooLong)),
            (format!("{long}y"), Ok(1)),
            (format!("n[{}1]", "1,".repeat(1000)), Ok(1001)),
        ] {
            assert_eq!(Hostlist::parse(&text).map(|list| list.len()), want, "{:.40}", text);
        }
    }

    proptest::proptest! {
        #[test]
        fn expand_undoes_compress(names in proptest::collection::btree_set("[a-c]{1,2}-?[0-9]{0,4}", 0..60)) {
            let shown = compress(&names);
            let mut back = expand(&shown).unwrap();
            back.sort();
            let want: Vec<String> = names.into_iter().collect();
            proptest::prop_assert_eq!(back, want, "{}", shown);
        }

        #[test]
        fn the_ranged_form_keeps_order_and_duplicates(names in proptest::collection::vec("n[0-9]{1,3}", 0..40)) {
            let list = Hostlist::from_names(&names);
            proptest::prop_assert_eq!(expand(&list.to_string()).unwrap(), names);
        }

        #[test]
        fn any_text_is_answered(text in "[n\\[\\]0-9,\\- a]{0,24}") {
            let _ = show(Form::Sorted, &text);
        }
    }
}
