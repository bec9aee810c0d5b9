//! Whatever reads what others wrote, as targets: a name, seeds in `corpus/NAME/`, and a function of bytes that must end
//! soon, must not panic, and checks what it can of the result.
//!
//! `cargo xtask fuzz` runs them under libFuzzer; `tests/targets.rs` runs the seeds and what is near them in every test run.

mod config;
mod image;
mod record;
mod text;
mod wire;

/// One reader of outside input.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name, which is its folder's below `corpus/` too.
    pub name: &'static str,
    /// Reads the bytes. Panics when a promise is broken.
    pub run: fn(&[u8]),
}

/// Every target, by name.
pub const TARGETS: &[Target] = &[
    Target { name: "array", run: text::array },
    Target { name: "cbor", run: record::cbor },
    Target { name: "constraint", run: text::constraint },
    Target { name: "dependency", run: text::dependency },
    Target { name: "directive", run: text::directive },
    Target { name: "format", run: text::format },
    Target { name: "gres", run: text::gres },
    Target { name: "hostlist", run: text::hostlist },
    Target { name: "hpack", run: wire::hpack },
    Target { name: "jobid", run: text::jobid },
    Target { name: "layer", run: image::layer },
    Target { name: "manifest", run: image::manifest },
    Target { name: "memory", run: text::memory },
    Target { name: "moment", run: text::moment },
    Target { name: "multi_prog", run: text::multi_prog },
    Target { name: "nodefile", run: config::nodefile },
    Target { name: "pattern", run: text::pattern },
    Target { name: "quick", run: wire::quick },
    Target { name: "sbatch", run: text::sbatch },
    Target { name: "shim", run: record::shim },
    Target { name: "slurmconf", run: config::slurmconf },
    Target { name: "state", run: record::state },
    Target { name: "step", run: wire::step },
    Target { name: "time", run: text::time },
    Target { name: "tres", run: text::tres },
    Target { name: "update", run: text::update },
];

/// The target of that name.
pub fn find(name: &str) -> Option<Target> {
    TARGETS.iter().copied().find(|target| target.name == name)
}
