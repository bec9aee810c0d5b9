//! Every target over its seeds and over what is near them, so that the targets live between two runs of the fuzzer.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test's way to fail, in its helpers too.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use gpun_fuzz::{TARGETS, Target};
use proptest::{
    prelude::*,
    sample::Index,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

/// A long input is this long. What is quadratic in it takes minutes.
const LONG_BYTES: usize = 128 << 10;
/// Far more than a linear reader takes on a busy machine, without optimisation.
const LONG_LIMIT: Duration = Duration::from_secs(30);

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

fn seeds(target: &Target) -> Vec<Vec<u8>> {
    let folder = corpus().join(target.name);
    let listed = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = listed.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} has no seed", target.name);
    paths.into_iter().map(|path| fs::read(path).unwrap()).collect()
}

/// One change of a text, as a fuzzer makes them.
#[derive(Debug, Clone)]
enum Edit {
    Set(Index, u8),
    Insert(Index, Vec<u8>),
    Cut(Index, Index),
    Double(Index, Index),
    Splice(Index, Index, Index),
}

fn edit() -> impl Strategy<Value = Edit> {
    let at = any::<Index>;
    prop_oneof![
        (at(), any::<u8>()).prop_map(|(at, byte)| Edit::Set(at, byte)),
        (at(), "[0-9A-Za-z,:=%\\[\\]\"'\\\\ \n-]{1,6}").prop_map(|(at, text)| Edit::Insert(at, text.into_bytes())),
        (at(), at()).prop_map(|(from, to)| Edit::Cut(from, to)),
        (at(), at()).prop_map(|(from, to)| Edit::Double(from, to)),
        (at(), at(), at()).prop_map(|(at, other, from)| Edit::Splice(at, other, from)),
    ]
}

fn span(text: &[u8], from: &Index, to: &Index) -> std::ops::Range<usize> {
    let (from, to) = (from.index(text.len() + 1), to.index(text.len() + 1));
    from.min(to)..from.max(to)
}

fn apply(text: &mut Vec<u8>, edit: &Edit, seeds: &[Vec<u8>]) {
    match edit {
        Edit::Set(at, byte) => {
            if let Some(place) = (!text.is_empty()).then(|| at.index(text.len())) {
                text[place] = *byte;
            }
        }
        Edit::Insert(at, more) => {
            let at = at.index(text.len() + 1);
            text.splice(at..at, more.iter().copied());
        }
        Edit::Cut(from, to) => drop(text.drain(span(text, from, to))),
        Edit::Double(from, to) => {
            let range = span(text, from, to);
            let part = text[range.clone()].to_vec();
            text.splice(range.end..range.end, part);
        }
        Edit::Splice(at, other, from) => {
            text.truncate(at.index(text.len() + 1));
            let other = other.get(seeds);
            text.extend_from_slice(&other[from.index(other.len() + 1)..]);
        }
    }
}

fn each(check: impl Fn(&Target, &[Vec<u8>])) {
    for target in TARGETS {
        // Shown when one fails.
        println!("{}", target.name);
        check(target, &seeds(target));
    }
}

#[test]
fn every_target_has_its_seeds_and_no_seed_is_lost() {
    let named: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    assert_eq!(named.len(), TARGETS.len());
    let folders = fs::read_dir(corpus()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(folders.collect::<BTreeSet<_>>(), named);
    assert_eq!(gpun_fuzz::find("hostlist").map(|target| target.name), Some("hostlist"));
    assert!(gpun_fuzz::find("hostlists").is_none());
}

#[test]
fn seeds_are_read_or_refused() {
    each(|target, seeds| seeds.iter().for_each(|seed| (target.run)(seed)));
}

#[test]
fn so_is_what_is_near_them() {
    each(|target, seeds| {
        let config = Config { cases: 300, failure_persistence: None, ..Config::default() };
        // The same cases each time: it is the fuzzer that looks for new ones.
        let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
        let input = (any::<Index>(), prop::collection::vec(edit(), 1..8));
        let result = runner.run(&input, |(seed, edits)| {
            let mut text = seed.get(seeds).clone();
            edits.iter().for_each(|edit| apply(&mut text, edit, seeds));
            (target.run)(&text);
            Ok(())
        });
        result.unwrap_or_else(|failure| panic!("{}: {failure}", target.name));
    });
}

#[test]
fn long_texts_take_no_longer_than_they_are() {
    each(|target, seeds| {
        for (i, seed) in seeds.iter().enumerate().filter(|(_, seed)| !seed.is_empty()) {
            let text: Vec<u8> = seed.iter().copied().cycle().take(LONG_BYTES).collect();
            let started = Instant::now();
            (target.run)(&text);
            assert!(started.elapsed() < LONG_LIMIT, "{}, seed {i}: {:?}", target.name, started.elapsed());
        }
    });
}
