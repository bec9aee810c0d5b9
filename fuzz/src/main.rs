//! libFuzzer around one target, which `GPUN_FUZZ_TARGET` names. One program for all: they link the same crates.

#![no_main]

use std::sync::LazyLock;

use gpun_fuzz::{TARGETS, Target, find};

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("GPUN_FUZZ_TARGET").unwrap_or_default();
    find(&name).unwrap_or_else(|| {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!("gpun-fuzz: set GPUN_FUZZ_TARGET to one of: {}", names.join(" "));
        std::process::exit(2)
    })
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| (TARGET.run)(data));
