//! How long reading Slurm's texts takes: directives, hostlists, times, and the squeue line of a format.

#![allow(missing_docs, reason = "criterion's macros make functions without any")]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use gpun_compat::{array, directive, hostlist, time::Limit};

const SCRIPT: &str = "#!/bin/bash\n#SBATCH --job-name=train\n#SBATCH -N 2 -n 16\n#SBATCH --cpus-per-task=4\n\
                      # a comment in between\n#SBATCH --mem=64G --time=1-12:00:00\n#SBATCH --output=\"logs/%x-%j.out\"\n\
                      #SBATCH --gres=gpu:a100:4\n\nmodule load cuda\nsrun python train.py\n";

fn directives(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("parse");
    group.throughput(Throughput::Bytes(SCRIPT.len() as u64));
    group.bench_function("directives", |bencher| {
        bencher.iter(|| directive::extract(black_box(SCRIPT.as_bytes()), "job.sh", false).is_ok());
    });
    group.finish();
}

fn lists(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("parse");
    group.bench_function("hostlist/1024", |bencher| {
        bencher.iter(|| hostlist::expand(black_box("rack[0-7]n[001-128]")).map(|names| names.len()));
    });
    let names = hostlist::expand("rack[0-7]n[001-128]").unwrap_or_default();
    group.bench_function("compress/1024", |bencher| {
        bencher.iter(|| hostlist::compress(black_box(&names).iter().map(String::as_str)).len());
    });
    group.bench_function("array", |bencher| bencher.iter(|| array::parse(black_box("0-999999:3,1000003%50")).is_ok()));
    group.bench_function("time", |bencher| bencher.iter(|| Limit::parse(black_box("2-12:30:05")).is_ok()));
    group.finish();
}

criterion_group!(benches, directives, lists);
criterion_main!(benches);
