//! Sets of numbers kept as ranges, against a plain set.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test's way to fail, in its helpers too.

use std::collections::BTreeSet;

use gpun_core::{
    IndexSet,
    index_set::Range,
    mirror::{decode, encode},
};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Step {
    Insert(u32),
    Remove(u32),
    Pop,
    InsertAll(Vec<Range>),
    RemoveAll(Vec<Range>),
}

/// Numbers near both ends, where an overflow would be.
fn number() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 0..40_u32, 1 => u32::MAX - 40..=u32::MAX]
}

fn range() -> impl Strategy<Value = Range> {
    (number(), 0..12_u32, 1..5_u32).prop_map(|(first, count, step)| {
        let last = first.saturating_add(count * step);
        Range::new(first, last, step).expect("not empty")
    })
}

fn ranges() -> impl Strategy<Value = Vec<Range>> {
    prop::collection::vec(range(), 0..4)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => number().prop_map(Step::Insert),
        3 => number().prop_map(Step::Remove),
        1 => Just(Step::Pop),
        2 => ranges().prop_map(Step::InsertAll),
        1 => ranges().prop_map(Step::RemoveAll),
    ]
}

fn members(ranges: &[Range]) -> BTreeSet<u32> {
    ranges.iter().flat_map(|range| (range.first..=range.last).step_by(range.step as usize)).collect()
}

fn check(set: &IndexSet, model: &BTreeSet<u32>) {
    assert_eq!(set.iter().collect::<Vec<_>>(), model.iter().copied().collect::<Vec<_>>(), "{set:?}");
    assert_eq!(set.len(), model.len() as u64);
    assert_eq!(set.is_empty(), model.is_empty());
    assert_eq!((set.first(), set.last()), (model.first().copied(), model.last().copied()));
    (0..42).chain(u32::MAX - 42..=u32::MAX).for_each(|number| {
        assert_eq!(set.contains(number), model.contains(&number), "{number} in {set:?}");
    });
    let read: IndexSet = decode(&encode(set)).expect("a set that was written can be read");
    assert_eq!(&read, set);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn it_is_a_set(first in ranges(), steps in prop::collection::vec(step(), 0..30)) {
        let mut set = IndexSet::from_ranges(first.iter().copied());
        let mut model = members(&first);
        check(&set, &model);
        for step in steps {
            match step {
                Step::Insert(number) => {
                    set.insert(number);
                    model.insert(number);
                }
                Step::Remove(number) => assert_eq!(set.remove(number), model.remove(&number)),
                Step::Pop => assert_eq!(set.pop_first(), model.pop_first()),
                Step::InsertAll(ranges) => {
                    set.insert_all(&IndexSet::from_ranges(ranges.iter().copied()));
                    model.extend(members(&ranges));
                }
                Step::RemoveAll(ranges) => {
                    set.remove_all(&IndexSet::from_ranges(ranges.iter().copied()));
                    members(&ranges).iter().for_each(|number| {
                        model.remove(number);
                    });
                }
            }
            check(&set, &model);
        }
    }

    #[test]
    fn two_sets_compare(a in ranges(), b in ranges()) {
        let (x, y) = (IndexSet::from_ranges(a.iter().copied()), IndexSet::from_ranges(b.iter().copied()));
        let (m, n) = (members(&a), members(&b));
        prop_assert_eq!(x.is_disjoint(&y), m.is_disjoint(&n));
        prop_assert_eq!(x.same_members(&y), m == n);
        let singly: IndexSet = m.iter().copied().collect();
        prop_assert!(singly.same_members(&x));
    }

    #[test]
    fn what_is_no_set_is_not_read(ranges in prop::collection::vec((0..9_u32, 0..9_u32, 0..3_u32), 0..4)) {
        let bytes = encode(&ranges.iter().map(|(first, last, step)| Raw(*first, *last, *step)).collect::<Vec<_>>());
        if let Ok(set) = decode::<IndexSet>(&bytes) {
            let members: BTreeSet<u32> = set.iter().collect();
            check(&set, &members);
        }
    }
}

/// A range as bytes, with whatever numbers.
#[derive(minicbor::Encode)]
struct Raw(#[n(0)] u32, #[n(1)] u32, #[n(2)] u32);

#[test]
fn large_ranges_cost_nothing() {
    let mut set = IndexSet::first_n(4_000_000_000);
    assert!(set.remove(2_000_000_000));
    set.insert(4_000_000_000);
    assert_eq!((set.len(), set.ranges().len()), (4_000_000_000, 2));
    assert_eq!(Range::new(3, 9, 4), Range::new(3, 7, 4));
    assert_eq!((Range::new(4, 3, 1), Range::new(0, 3, 0)), (None, None));
}
