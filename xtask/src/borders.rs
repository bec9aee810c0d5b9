//! Invariants by absence, at the level of crates: who may depend on what (ARCHITECTURE.md).
//!
//! Each ban carries its reason and what to use instead, for the one who runs into it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, bail};

use crate::context::{self, Context};
use crate::metadata::Metadata;

/// Which of our crates each crate may depend on, itself or through another.
const MAY_USE: &[(&str, &[&str])] = &[
    ("gpun-core", &[]),
    ("gpun-sched", &["gpun-core"]),
    ("gpun-compat", &["gpun-core"]),
    ("gpun-proto", &["gpun-core"]),
    ("gpun-raft-store", &[]),
    ("gpunctld", &["gpun-core", "gpun-sched", "gpun-compat", "gpun-proto", "gpun-raft-store"]),
    ("gpund", &["gpun-core", "gpun-proto", "gpun-init"]),
    ("gpun-init", &[]),
    ("gpun-cli", &["gpun-core", "gpun-compat", "gpun-proto"]),
    ("gpun-sim", &["gpun-core", "gpun-sched", "gpun-compat", "gpun-proto", "gpun-raft-store", "gpund", "gpun-init"]),
    (
        "gpun-bench",
        &[
            "gpun-core",
            "gpun-sched",
            "gpun-compat",
            "gpun-proto",
            "gpun-raft-store",
            "gpunctld",
            "gpund",
            "gpun-init",
            "gpun-sim",
        ],
    ),
    // Tests drive real programs; the types and the client are what they may share with them.
    ("gpun-e2e", &["gpun-core", "gpun-compat", "gpun-proto"]),
    // Whatever reads what others wrote is a target of its own.
    ("gpun-fuzz", &["gpun-core", "gpun-compat", "gpun-proto", "gpund", "gpun-init", "gpun-cli"]),
    ("xtask", &[]),
];

/// How near a banned dependency must be to count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Anywhere in the tree.
    Any,
    /// Named in the crate's own manifest.
    Direct,
}

struct Ban {
    crates: &'static [&'static str],
    reach: Reach,
    dependencies: &'static [&'static str],
    reason: &'static str,
    instead: &'static str,
}

const PURE: &[&str] = &["gpun-core", "gpun-sched"];
const NOT_STORE: &[&str] = &[
    "gpun-core",
    "gpun-sched",
    "gpun-compat",
    "gpun-proto",
    "gpunctld",
    "gpund",
    "gpun-init",
    "gpun-cli",
    "gpun-sim",
    "gpun-e2e",
    "gpun-fuzz",
    "xtask",
];
const BELOW_WIRE: &[&str] = &["gpun-core", "gpun-sched", "gpun-compat", "gpun-raft-store", "gpun-init", "xtask"];
const ALL: &[&str] = &[
    "gpun-core",
    "gpun-sched",
    "gpun-compat",
    "gpun-proto",
    "gpun-raft-store",
    "gpunctld",
    "gpund",
    "gpun-init",
    "gpun-cli",
    "gpun-sim",
    "gpun-bench",
    "gpun-e2e",
    "gpun-fuzz",
    "xtask",
];

const BANS: &[Ban] = &[
    Ban {
        crates: PURE,
        reach: Reach::Any,
        dependencies: &[
            "tokio",
            "mio",
            "futures",
            "futures-util",
            "futures-executor",
            "async-trait",
            "smol",
            "async-std",
        ],
        reason: "apply and plan must give every replica the same result, so they wait for nothing",
        instead: "a plain function; the caller in gpunctld does the waiting",
    },
    Ban {
        crates: PURE,
        reach: Reach::Any,
        dependencies: &["rand", "getrandom", "fastrand", "uuid", "ahash", "hashbrown"],
        reason: "two replicas would draw different numbers, or walk a hash table in different orders",
        instead: "an id or a choice that is derived from State; BTreeMap, BTreeSet or imbl::OrdMap for collections",
    },
    Ban {
        crates: PURE,
        reach: Reach::Any,
        dependencies: &["chrono", "jiff", "time", "web-time"],
        reason: "time comes stamped in the log entry; no clock is read in apply or plan",
        instead: "core's own timestamp and duration types; text with time zones belongs to gpun-compat",
    },
    Ban {
        crates: PURE,
        reach: Reach::Any,
        dependencies: &["nix", "libc", "rustix", "socket2", "tempfile", "tracing", "log", "serde_json", "toml", "clap"],
        reason: "no file, network, environment, log or text format is in reach of the state machine",
        instead: "data in, data out; the daemon around it reads, writes and logs",
    },
    Ban {
        crates: &["gpun-compat"],
        reach: Reach::Any,
        dependencies: &["tokio", "nix", "rand", "getrandom", "tracing", "hyper", "axum"],
        reason: "Slurm's text is translated by pure functions, so that every case is a row in a table test",
        instead: "arguments: the current time, the zone and the user are handed in by the caller",
    },
    Ban {
        crates: BELOW_WIRE,
        reach: Reach::Any,
        dependencies: &["tonic", "tonic-prost", "hyper", "h2"],
        reason: "only gpun-proto, and what stands on it, knows the wire",
        instead: "core's types; gpun-proto converts them, and gpunctld carries raft-store's bytes",
    },
    Ban {
        // Not gpun-raft-store: it writes consensus records (vote, log id, membership) in its own protobuf messages.
        crates: &["gpun-core", "gpun-sched", "gpun-compat", "gpun-init", "xtask"],
        reach: Reach::Any,
        dependencies: &["prost", "protox"],
        reason: "a second definition of the same types would have to be kept equal by hand",
        instead: "minicbor on core's own types (docs/adr/0002); messages of the wire belong to gpun-proto",
    },
    Ban {
        crates: NOT_STORE,
        reach: Reach::Direct,
        dependencies: &["openraft", "rocksdb", "librocksdb-sys"],
        reason: "gpun-raft-store hides the consensus library and the storage engine, so that either can be replaced",
        instead: "gpun-raft-store's own types and its Apply trait",
    },
    Ban {
        crates: &["gpun-proto", "gpund", "gpun-init", "gpun-cli"],
        reach: Reach::Any,
        dependencies: &["openraft", "rocksdb", "librocksdb-sys"],
        reason: "a lent machine and a client hold no cluster state",
        instead: "a request to gpunctld through gpun-proto; gpund keeps its ledger in plain files",
    },
    Ban {
        crates: &["gpun-init"],
        reach: Reach::Any,
        dependencies: &["tokio", "mio", "clap", "tracing", "serde_json", "anyhow"],
        reason: "process 1 of every container stays small: each page of it is mapped, dumped and restored with each job",
        instead: "the standard library or libc directly; what is hard is decided by gpund and handed over as plain data",
    },
    Ban {
        crates: &["xtask"],
        reach: Reach::Any,
        dependencies: &["tokio", "rocksdb", "librocksdb-sys", "openraft"],
        reason: "xtask builds RocksDB and must itself build in seconds",
        instead: "std::process and a file",
    },
    Ban {
        crates: ALL,
        reach: Reach::Any,
        dependencies: &[
            "bincode",
            "figment",
            "cgroups-rs",
            "rust-criu",
            "libcontainer",
            "openssl-sys",
            "aws-lc-sys",
            "cmake",
        ],
        reason: "unmaintained, or it drags a C toolchain or old versions of half the tree in (docs/dependencies.md)",
        instead: "minicbor for stored bytes, toml with serde for files, our own code over /sys/fs/cgroup, runc and criu as \
                  processes, ring for TLS",
    },
];

/// What each crate depends on: all of it, and what its manifest names.
#[derive(Default)]
struct Tree {
    all: BTreeSet<String>,
    direct: BTreeSet<String>,
}

/// Asks cargo for every member's tree and holds it against the tables.
pub fn check(context: &Context) -> Result<()> {
    let mut trees = BTreeMap::new();
    for (name, _) in Metadata::load(context)?.members() {
        let all = dependencies(context, &name, &[])?;
        let direct = dependencies(context, &name, &["--depth", "1"])?;
        trees.insert(name, Tree { all, direct });
    }
    let violations = violations(&trees);
    if violations.is_empty() {
        println!("borders: {} crates keep to them", trees.len());
        return Ok(());
    }
    for violation in &violations {
        println!("borders: {violation}");
    }
    bail!("{} crate borders are crossed", violations.len())
}

fn dependencies(context: &Context, package: &str, depth: &[&str]) -> Result<BTreeSet<String>> {
    let mut command = context.cargo();
    command.args(["tree", "--package", package, "--edges", "normal", "--prefix", "none"]);
    let text = context::read(command.args(depth).args(context.locked()))?;
    let (root, rest) = text.split_once('\n').context("cargo tree printed nothing")?;
    if name(root) != Some(package) {
        bail!("cargo tree of {package} begins with {root:?}");
    }
    Ok(rest.lines().filter_map(name).map(str::to_owned).collect())
}

/// The first word of a line such as `serde v1.0.229 (proc-macro) (*)`.
fn name(line: &str) -> Option<&str> {
    line.split_whitespace().next()
}

fn violations(trees: &BTreeMap<String, Tree>) -> Vec<String> {
    let mut found = Vec::new();
    for (package, tree) in trees {
        match MAY_USE.iter().find(|(name, _)| name == package) {
            Some((_, may_use)) => found.extend(ours(package, tree, may_use, trees)),
            None => {
                found.push(format!("{package} has no row in xtask/src/borders.rs: say there what it may depend on"))
            }
        }
        found.extend(
            BANS.iter().filter(|ban| ban.crates.contains(&package.as_str())).flat_map(|ban| banned(package, tree, ban)),
        );
    }
    found
}

fn ours(package: &str, tree: &Tree, may_use: &[&str], trees: &BTreeMap<String, Tree>) -> Vec<String> {
    let others = tree.all.iter().filter(|name| trees.contains_key(*name) && !may_use.contains(&name.as_str()));
    let may = if may_use.is_empty() { "none of our crates".to_owned() } else { may_use.join(", ") };
    others
        .map(|other| format!("{package} depends on {other}; it may depend on {may} (design: ARCHITECTURE.md)"))
        .collect()
}

fn banned(package: &str, tree: &Tree, ban: &Ban) -> Vec<String> {
    let names = if ban.reach == Reach::Any { &tree.all } else { &tree.direct };
    let hits = ban.dependencies.iter().filter(|name| names.contains(**name));
    let message = |name: &&str| {
        format!(
            "{package} depends on {name}: {}; use {} (find it: cargo tree -p {package} -i {name})",
            ban.reason, ban.instead
        )
    };
    hits.map(message).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trees(rows: &[(&str, &[&str], &[&str])]) -> BTreeMap<String, Tree> {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let tree = |direct: &[&str], further: &[&str]| {
            let direct = set(direct);
            Tree { all: direct.union(&set(further)).cloned().collect(), direct }
        };
        rows.iter().map(|(name, direct, further)| ((*name).to_owned(), tree(direct, further))).collect()
    }

    fn messages(rows: &[(&str, &[&str], &[&str])]) -> String {
        violations(&trees(rows)).join("\n")
    }

    #[test]
    fn a_tree_within_the_borders_passes() {
        let rows: &[(&str, &[&str], &[&str])] = &[
            ("gpun-core", &["imbl", "minicbor"], &["rand_core"]),
            ("gpun-sched", &["gpun-core"], &["imbl"]),
            ("gpun-raft-store", &["openraft", "rocksdb"], &["tokio"]),
            ("gpunctld", &["gpun-core", "gpun-raft-store", "tonic"], &["rocksdb", "openraft"]),
        ];
        assert_eq!(messages(rows), "");
    }

    #[test]
    fn each_crossed_border_names_reason_and_replacement() {
        let core: (&str, &[&str], &[&str]) = ("gpun-core", &[], &[]);
        for (row, words) in [
            (("gpun-core", &["tokio"][..], &[][..]), ["gpun-core depends on tokio", "a plain function"]),
            (("gpun-core", &["imbl"], &["getrandom"]), ["gpun-core depends on getrandom", "BTreeMap"]),
            (("gpun-sched", &["jiff"], &[]), ["gpun-sched depends on jiff", "no clock is read"]),
            (("gpun-sched", &["gpun-core"], &["libc"]), ["gpun-sched depends on libc", "data in, data out"]),
            (("gpun-compat", &["tonic"], &[]), ["gpun-compat depends on tonic", "gpun-proto converts"]),
            (("gpun-raft-store", &["gpun-core"], &[]), ["gpun-raft-store depends on gpun-core", "none of our crates"]),
            (("gpun-raft-store", &[], &["tonic"]), ["gpun-raft-store depends on tonic", "knows the wire"]),
            (("gpun-sched", &[], &["prost"]), ["gpun-sched depends on prost", "minicbor"]),
            (("gpunctld", &["openraft"], &[]), ["gpunctld depends on openraft", "Apply trait"]),
            (("gpun-cli", &[], &["rocksdb"]), ["gpun-cli depends on rocksdb", "hold no cluster state"]),
            (("gpun-init", &["anyhow"], &[]), ["gpun-init depends on anyhow", "stays small"]),
            (("gpund", &["gpun-core", "bincode"], &[]), ["gpund depends on bincode", "minicbor"]),
            (("gpun-new", &[], &[]), ["gpun-new has no row", "borders.rs"]),
        ] {
            let found = if row.0 == core.0 { messages(&[row]) } else { messages(&[core, row]) };
            assert_eq!(found.lines().count(), 1, "{found}");
            assert!(words.iter().all(|word| found.contains(word)), "{found}");
        }
    }

    #[test]
    fn consensus_and_storage_may_stand_behind_raft_store_only() {
        assert_eq!(messages(&[("gpunctld", &[], &["openraft", "rocksdb"])]), "");
        assert!(messages(&[("gpunctld", &["rocksdb"], &[])]).contains("hides the consensus library"));
    }

    #[test]
    fn a_line_of_the_tree_begins_with_the_name() {
        for (line, expected) in [
            ("serde_derive v1.0.229 (proc-macro) (*)", Some("serde_derive")),
            ("gpun-core v0.1.0 (/w/core)", Some("gpun-core")),
            ("", None),
        ] {
            assert_eq!(name(line), expected);
        }
    }

    #[test]
    fn every_table_speaks_of_the_same_crates() {
        let known: BTreeSet<_> = MAY_USE.iter().map(|(name, _)| *name).collect();
        assert_eq!(known, ALL.iter().copied().collect());
        let used = MAY_USE.iter().flat_map(|(_, may)| may.iter()).chain(BANS.iter().flat_map(|ban| ban.crates.iter()));
        assert_eq!(used.filter(|name| !known.contains(**name)).count(), 0);
    }
}
