//! How long a plan takes: `plan/NODESxWAITING` on a busy cluster, `plan-empty/…` on a free one.

#![allow(missing_docs, reason = "criterion's macros make functions without any")]

use std::{cell::OnceCell, hint::black_box};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use gpun_bench::Load;
use gpun_sched::{PlanLimits, plan};

const SIZES: &[(u32, u64)] = &[(100, 1_000), (1_000, 10_000), (10_000, 100_000), (10_000, 1_000_000)];

fn busy(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("plan");
    group.sample_size(10);
    for (nodes, waiting) in SIZES {
        // Made once, and only where it is run.
        let load = OnceCell::new();
        group.bench_function(BenchmarkId::from_parameter(format!("{nodes}x{waiting}")), |bencher| {
            let load = load.get_or_init(|| Load::busy(*nodes, *waiting));
            bencher.iter(|| black_box(plan(&load.state, load.now, &PlanLimits::default())));
        });
    }
    group.finish();
}

fn empty(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("plan-empty");
    group.sample_size(10);
    for (nodes, waiting) in &SIZES[..3] {
        let load = OnceCell::new();
        group.bench_function(BenchmarkId::from_parameter(format!("{nodes}x{waiting}")), |bencher| {
            let load = load.get_or_init(|| {
                let mut load = Load::nodes(*nodes);
                load.submit(*waiting);
                load
            });
            bencher.iter(|| black_box(plan(&load.state, load.now, &PlanLimits::default())));
        });
    }
    group.finish();
}

criterion_group!(benches, busy, empty);
criterion_main!(benches);
