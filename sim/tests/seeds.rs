//! Many runs, each from a seed. One that fails says how to run it alone:
//! `GPUN_SIM_SEED=7 cargo test -p gpun-sim --test seeds one_seed -- --nocapture`.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test's way to fail, in its helpers too.

use std::time::Instant;

use gpun_sim::{Break, Failure, Plan, Report, run};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}

fn told(seed: u64, failure: &Failure) -> String {
    format!(
        "seed {seed}: {}\nthe last events:\n{}\nrun it alone: GPUN_SIM_SEED={seed} cargo test -p gpun-sim --test seeds \
         one_seed -- --nocapture",
        failure.what,
        failure.last.join("\n")
    )
}

/// Runs seeds from `first` on, on all processors.
fn all_hold(first: u64, count: u64) -> Report {
    let next = std::sync::atomic::AtomicU64::new(first);
    let take = || Some(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)).filter(|seed| *seed < first + count);
    let work = || {
        let mut sum = Report::default();
        while let Some(seed) = take() {
            let report = run(Plan { seed, broken: None }).unwrap_or_else(|failure| panic!("{}", told(seed, &failure)));
            sum = add(sum, report);
        }
        sum
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..std::thread::available_parallelism().map_or(1, usize::from)).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .fold(Report::default(), add)
    })
}

fn add(a: Report, b: Report) -> Report {
    Report {
        events: a.events + b.events,
        entries: a.entries + b.entries,
        acknowledged: a.acknowledged + b.acknowledged,
        launches: a.launches + b.launches,
        faults: a.faults + b.faults,
        trace: a.trace ^ b.trace,
    }
}

#[test]
fn seeds_hold() {
    let report = all_hold(1, number("GPUN_SIM_SEEDS").unwrap_or(60));
    // The load is worth the name.
    assert!(report.acknowledged > 500 && report.launches > 500 && report.faults > 100, "{report:?}");
}

#[test]
fn one_seed() {
    let seed = number("GPUN_SIM_SEED").unwrap_or(1);
    match run(Plan { seed, broken: None }) {
        Ok(report) => println!("seed {seed}: {report:?}"),
        Err(failure) => panic!("{}", told(seed, &failure)),
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in [3, 4] {
        let once = run(Plan { seed, broken: None }).map_err(|failure| told(seed, &failure)).unwrap();
        assert_eq!(Ok(once), run(Plan { seed, broken: None }));
    }
    assert_ne!(run(Plan { seed: 3, broken: None }).unwrap().trace, run(Plan { seed: 4, broken: None }).unwrap().trace);
}

#[test]
fn rules_that_are_broken_on_purpose_are_noticed() {
    // break → the invariants that may notice it
    // What a load makes show first changes with the load.
    let runs: &[&str] = &[
        "the controller knows what runs",
        "an attempt is started once",
        "what is not wanted ends",
        "no CPU is given twice",
    ];
    let rows: [(Break, &[&str]); 8] = [
        (Break::AnswersBeforeCommit, &["no acknowledged job is lost", "acknowledged once"]),
        (Break::ForgetsLedger, runs),
        (Break::LaunchesAgain, runs),
        (Break::KeepsUnwanted, runs),
        (Break::LosesRecords, &["the mirror holds the state", "replicas agree"]),
        (Break::LiesAboutExit, &["ends are true"]),
        (Break::ForgetsReports, &["everything comes to an end"]),
        (Break::ReplicaClock, &["replicas agree"]),
    ];
    assert_eq!(rows.len(), Break::ALL.len());
    for (broken, names) in rows {
        let failure = (1..400).find_map(|seed| run(Plan { seed, broken: Some(broken) }).err());
        let failure = failure.unwrap_or_else(|| panic!("{broken:?} is not noticed"));
        assert!(names.iter().any(|name| failure.what.contains(&format!("\"{name}\""))), "{broken:?}: {}", failure.what);
    }
}

#[test]
fn soak_many_seeds_hold() {
    let soak = number("GPUN_SOAK").is_some_and(|on| on != 0);
    let count = number("GPUN_SOAK_ROUNDS").unwrap_or(if soak { 10_000 } else { 10 });
    let began = Instant::now();
    let report = all_hold(1_000_000, count);
    println!("soak: simulated seeds = {count}");
    println!("soak: simulated events = {}", report.events);
    println!("soak: simulated faults = {}", report.faults);
    println!("soak: simulated attempts = {}", report.launches);
    println!("soak: simulated events a second = {:.0}", report.events as f64 / began.elapsed().as_secs_f64());
}
