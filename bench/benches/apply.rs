//! How long applying takes: entries decoded, applied and mirrored into a counting sink.

#![allow(missing_docs, reason = "criterion's macros make functions without any")]

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use gpun_bench::{CountingSink, Dice, Load, mixed_job, submission};
use gpun_core::{
    Command, Entry,
    command::ENTRY_VERSION,
    mirror::{decode, encode},
};
use gpun_sched::PlanLimits;

/// Submissions of one job each, in entries of so many, encoded.
fn entries(jobs: u64, batch: u64) -> Vec<Vec<u8>> {
    let mut dice = Dice::new(7);
    let command = |number| Command::Submit(Box::new(submission(number, mixed_job(number, &mut dice))));
    let commands: Vec<Command> = (1..=jobs).map(command).collect();
    let entry = |commands: &[Command]| {
        encode(&Entry { version: ENTRY_VERSION, stamp: gpun_bench::START, commands: commands.to_vec() })
    };
    commands.chunks(batch as usize).map(entry).collect()
}

fn submit(criterion: &mut Criterion) {
    const JOBS: u64 = 10_000;
    let mut group = criterion.benchmark_group("apply");
    group.sample_size(10);
    group.throughput(Throughput::Elements(JOBS));
    for batch in [1, 64] {
        let entries = entries(JOBS, batch);
        group.bench_function(format!("submit/batch{batch}"), |bencher| {
            bencher.iter_batched(
                || Load::nodes(100).state,
                |mut state| {
                    let mut sink = CountingSink::default();
                    for bytes in &entries {
                        if let Ok(entry) = decode::<Entry>(bytes) {
                            black_box(state.apply(entry, &mut sink));
                        }
                    }
                    (state, sink)
                },
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

fn place(criterion: &mut Criterion) {
    let mut load = Load::nodes(1_000);
    load.submit(10_000);
    let plan = gpun_sched::plan(&load.state, load.now, &PlanLimits::default());
    let commands: Vec<Command> = plan.placements.into_iter().map(Command::Place).collect();
    let mut group = criterion.benchmark_group("apply");
    group.sample_size(10);
    group.throughput(Throughput::Elements(commands.len() as u64));
    group.bench_function("place", |bencher| {
        bencher.iter_batched(
            || (load.clone(), commands.clone()),
            |(mut load, commands)| {
                black_box(load.apply(commands));
                load
            },
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

criterion_group!(benches, submit, place);
criterion_main!(benches);
