//! Sets of small numbers kept as ranges: CPUs of a node, devices of a kind, tasks of an array.

use minicbor::{Decode, Decoder, Encode, decode};

/// The numbers `first, first + step, …` up to and including `last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Range {
    /// The lowest number.
    #[n(0)]
    pub first: u32,
    /// The highest number; `first` plus a multiple of `step`.
    #[n(1)]
    pub last: u32,
    /// The distance of neighbours, at least 1.
    #[n(2)]
    pub step: u32,
}

impl Range {
    /// A range with `last` brought down onto the grid of `step`; `None` where it is empty or `step` is 0.
    pub fn new(first: u32, last: u32, step: u32) -> Option<Self> {
        (step > 0 && first <= last).then(|| Self { first, last: last - (last - first) % step, step })
    }

    /// How many numbers.
    pub fn count(self) -> u64 {
        u64::from((self.last - self.first) / self.step) + 1
    }

    /// True if it leaves no number out.
    fn is_plain(self) -> bool {
        self.step == 1 || self.first == self.last
    }

    fn contains(self, number: u32) -> bool {
        self.first <= number && number <= self.last && (number - self.first).is_multiple_of(self.step)
    }

    fn iter(self) -> impl Iterator<Item = u32> {
        (self.first..=self.last).step_by(self.step as usize)
    }
}

/// A set of numbers as ranges, ascending and never interleaved. `0-999999` costs as much as `7`.
///
/// Two sets with the same members may be cut into different ranges: compare members with [`IndexSet::same_members`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode)]
#[cbor(transparent)]
pub struct IndexSet(#[n(0)] Vec<Range>);

impl<'b, C> Decode<'b, C> for IndexSet {
    fn decode(d: &mut Decoder<'b>, ctx: &mut C) -> Result<Self, decode::Error> {
        let at = d.position();
        let ranges = Vec::<Range>::decode(d, ctx)?;
        let whole = |range: &Range| {
            range.step > 0 && range.first <= range.last && (range.last - range.first).is_multiple_of(range.step)
        };
        if ranges.iter().all(whole) && ranges.windows(2).all(|pair| pair[0].last < pair[1].first) {
            Ok(Self(ranges))
        } else {
            Err(decode::Error::message("ranges of a set out of order").at(at))
        }
    }
}

impl IndexSet {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// The numbers from 0 to `count` − 1.
    pub fn first_n(count: u32) -> Self {
        Self(count.checked_sub(1).and_then(|last| Range::new(0, last, 1)).into_iter().collect())
    }

    /// The set of all numbers of these ranges, in any order. Those with step 1 that touch or overlap are joined. The numbers of
    /// others that overlap are spelled out on the way: their sum is the caller's to bound.
    pub fn from_ranges(ranges: impl IntoIterator<Item = Range>) -> Self {
        let mut ranges: Vec<Range> = ranges.into_iter().collect();
        ranges.sort_by_key(|range| (range.first, range.last));
        let mut set = Self::new();
        let mut rest = ranges.as_slice();
        while let Some(first) = rest.first() {
            let mut last = first.last;
            let reached = rest.iter().take_while(|range| {
                let reaches = range.first <= last;
                last = if reaches { last.max(range.last) } else { last };
                reaches
            });
            let (one, others) = rest.split_at(reached.count());
            set.append(one);
            rest = others;
        }
        set
    }

    /// Adds ranges that overlap each other and lie above all that there is.
    fn append(&mut self, ranges: &[Range]) {
        let at = self.0.len();
        match ranges {
            [] => return,
            [one] => self.0.push(*one),
            [first, ..] if ranges.iter().all(|range| range.is_plain()) => {
                let last = ranges.iter().map(|range| range.last).fold(first.last, u32::max);
                self.0.push(Range { first: first.first, last, step: 1 });
            }
            _ => {
                let mut numbers: Vec<u32> = ranges.iter().flat_map(|range| range.iter()).collect();
                numbers.sort_unstable();
                numbers.dedup();
                self.0.extend(runs(&numbers));
            }
        }
        self.join_around(at);
    }

    fn insert_range(&mut self, range: Range) {
        let from = self.0.partition_point(|have| have.last < range.first);
        let is_apart = self.0.get(from).is_none_or(|have| range.last < have.first);
        if is_apart {
            self.0.insert(from, range);
            self.join_around(from);
        } else {
            range.iter().for_each(|number| self.insert(number));
        }
    }

    /// How many numbers.
    pub fn len(&self) -> u64 {
        self.0.iter().map(|range| range.count()).sum()
    }

    /// True without any number.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if `number` is in the set.
    pub fn contains(&self, number: u32) -> bool {
        self.place_of(number).is_some()
    }

    /// The place of the range that holds a number. Ranges do not reach into each other, so only one can.
    fn place_of(&self, number: u32) -> Option<usize> {
        let at = self.0.partition_point(|range| range.first <= number).checked_sub(1)?;
        self.0.get(at).is_some_and(|range| range.contains(number)).then_some(at)
    }

    /// The lowest number.
    pub fn first(&self) -> Option<u32> {
        self.0.first().map(|range| range.first)
    }

    /// The highest number.
    pub fn last(&self) -> Option<u32> {
        self.0.last().map(|range| range.last)
    }

    /// The ranges, lowest first number first.
    pub fn ranges(&self) -> &[Range] {
        &self.0
    }

    /// The numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.0.iter().flat_map(|range| range.iter())
    }

    /// Adds a number.
    pub fn insert(&mut self, number: u32) {
        if self.contains(number) {
            return;
        }
        let at = self.0.partition_point(|range| range.first < number);
        // A number inside a wider-stepped range would break the order of ranges, so that range is cut at the number.
        if let Some(before) = at.checked_sub(1)
            && self.0[before].last > number
        {
            let range = self.0[before];
            let low_last = range.first + (number - range.first) / range.step * range.step;
            self.0[before].last = low_last;
            self.0.insert(at, Range { first: low_last + range.step, ..range });
        }
        self.0.insert(at, Range { first: number, last: number, step: 1 });
        self.join_around(at);
    }

    /// Joins the range at `at` with neighbours of step 1 that it touches.
    fn join_around(&mut self, at: usize) {
        for left in [at, at.wrapping_sub(1)] {
            let Some([a, b]) =
                self.0.get(left..left.wrapping_add(2)).and_then(|pair| <[Range; 2]>::try_from(pair).ok())
            else {
                continue;
            };
            if a.is_plain() && b.is_plain() && a.last.checked_add(1) == Some(b.first) {
                self.0[left] = Range { first: a.first, last: b.last, step: 1 };
                self.0.remove(left + 1);
            }
        }
    }

    /// Takes a number out; false where it was not in.
    pub fn remove(&mut self, number: u32) -> bool {
        let Some(at) = self.place_of(number) else { return false };
        let range = self.0[at];
        let low = (range.first < number).then(|| Range { last: number.wrapping_sub(range.step), ..range });
        let high = (number < range.last).then(|| Range { first: number.wrapping_add(range.step), ..range });
        self.0.splice(at..=at, low.into_iter().chain(high));
        true
    }

    /// Takes the lowest number out.
    pub fn pop_first(&mut self) -> Option<u32> {
        let first = self.first()?;
        self.remove(first);
        Some(first)
    }

    /// Takes all numbers of `other` out.
    pub fn remove_all(&mut self, other: &Self) {
        other.iter().for_each(|number| {
            self.remove(number);
        });
    }

    /// Adds all numbers of `other`.
    pub fn insert_all(&mut self, other: &Self) {
        other.0.iter().for_each(|range| self.insert_range(*range));
    }

    /// True if no number is in both.
    pub fn is_disjoint(&self, other: &Self) -> bool {
        if let (Some(a), Some(b), Some(c), Some(d)) = (self.first(), self.last(), other.first(), other.last())
            && (b < c || d < a)
        {
            return true;
        }
        !other.iter().any(|number| self.contains(number))
    }

    /// True if both hold the same numbers, however they are cut into ranges.
    pub fn same_members(&self, other: &Self) -> bool {
        self.len() == other.len() && other.iter().all(|number| self.contains(number))
    }
}

/// Ascending numbers as ranges: each takes what has the distance of its first two.
fn runs(numbers: &[u32]) -> Vec<Range> {
    let mut runs: Vec<Range> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some(run) if run.first == run.last => *run = Range { last: number, step: number - run.first, ..*run },
            Some(run) if number - run.last == run.step => run.last = number,
            _ => runs.push(Range { first: number, last: number, step: 1 }),
        }
    }
    runs
}

impl FromIterator<u32> for IndexSet {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> Self {
        let mut set = Self::new();
        numbers.into_iter().for_each(|number| set.insert(number));
        set
    }
}
