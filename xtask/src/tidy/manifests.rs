//! Manifests, the lock file and the documents that must agree with them.

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

use super::{Files, Finding};

const DEPENDENCIES: &str = "docs/dependencies.md";
const CHANGELOG: &str = "CHANGELOG.md";
const KINDS: &[&str] = &["dependencies", "dev-dependencies", "build-dependencies"];

/// Packages that we name and that stand in the lock file in more than one version, with the reason.
const TWO_VERSIONS: &[(&str, &str)] =
    &[("rand", "0.8 comes with a build script of chrono-tz, 0.10 with openraft; one of ours would not make it one")];

/// Everything that is wrong with the manifests as a whole.
pub fn check(files: &Files) -> Vec<Finding> {
    check_but(files, TWO_VERSIONS)
}

fn check_but(files: &Files, exceptions: &[(&str, &str)]) -> Vec<Finding> {
    let mut found = Vec::new();
    let Some(root) = parse(files, "Cargo.toml", &mut found) else { return found };
    let workspace = root.get("workspace").and_then(Value::as_table).cloned().unwrap_or_default();
    let others = outside_dependencies(&workspace);
    let mut used = BTreeSet::new();
    for member in strings(workspace.get("members")) {
        let path = format!("{member}/Cargo.toml");
        if let Some(manifest) = parse(files, &path, &mut found) {
            member_manifest(&path, &manifest, &mut used, &mut found);
        }
    }
    for name in others.difference(&used) {
        found.push(at("Cargo.toml", format!("no crate uses the workspace dependency {name}: remove it")));
    }
    found.extend(documented(files, &others));
    found.extend(one_version(files, &others, exceptions));
    found.extend(changelog(files, &workspace));
    found
}

fn parse(files: &Files, path: &str, found: &mut Vec<Finding>) -> Option<Table> {
    let parsed = files.get(path).map(|text| text.parse::<Table>());
    match parsed {
        Some(Ok(table)) => return Some(table),
        Some(Err(error)) => found.push(at(path, format!("no TOML: {}", error.message()))),
        None => found.push(at(path, "is missing".to_owned())),
    }
    None
}

/// Names in `[workspace.dependencies]` that are not our own crates.
fn outside_dependencies(workspace: &Table) -> BTreeSet<String> {
    let all = workspace.get("dependencies").and_then(Value::as_table).into_iter().flatten();
    all.filter(|(_, value)| value.get("path").is_none()).map(|(name, _)| name.clone()).collect()
}

fn member_manifest(path: &str, manifest: &Table, used: &mut BTreeSet<String>, found: &mut Vec<Finding>) {
    let lints = manifest.get("lints").and_then(|lints| lints.get("workspace")).and_then(Value::as_bool);
    if lints != Some(true) {
        found.push(at(path, "does not take the workspace's lints: [lints] workspace = true".to_owned()));
    }
    for table in dependency_tables(manifest) {
        for (name, value) in table {
            let inherited = value.get("workspace").and_then(Value::as_bool) == Some(true);
            if inherited {
                used.insert(name.clone());
            } else if value.get("path").is_none() {
                let message = "names a version of its own: put it in [workspace.dependencies], workspace = true here";
                found.push(at(path, format!("{name} {message}")));
            }
        }
    }
}

/// The dependency tables of a manifest, also those of one target.
fn dependency_tables(manifest: &Table) -> Vec<&Table> {
    let targets = manifest.get("target").and_then(Value::as_table).into_iter().flatten();
    let holders = targets.filter_map(|(_, target)| target.as_table()).chain([manifest]);
    holders.flat_map(|holder| KINDS.iter().filter_map(|kind| holder.get(*kind)?.as_table())).collect()
}

/// Every dependency has a row, and every row a dependency.
fn documented(files: &Files, names: &BTreeSet<String>) -> Vec<Finding> {
    let Some(text) = files.get(DEPENDENCIES) else {
        return vec![at(DEPENDENCIES, "is missing: it says why each dependency was chosen".to_owned())];
    };
    let mut rows = BTreeMap::new();
    for (line, row) in (1..).zip(text.lines()) {
        // The first cell may name several, each in backticks.
        let cell = row.strip_prefix('|').and_then(|rest| rest.split('|').next()).unwrap_or_default();
        rows.extend(cell.split('`').skip(1).step_by(2).map(|name| (name.to_owned(), line)));
    }
    let missing = names.iter().filter(|name| !rows.contains_key(*name));
    let missing = missing.map(|name| at(DEPENDENCIES, format!("has no row for `{name}`: say why it was chosen")));
    let stale = rows.iter().filter(|(name, _)| !names.contains(*name));
    let stale = stale.map(|(name, line)| Finding {
        path: DEPENDENCIES.to_owned(),
        line: *line,
        message: format!("`{name}` is no dependency of the workspace: remove its row"),
    });
    missing.chain(stale).collect()
}

/// A package that we name ourselves stands in the lock file once.
fn one_version(files: &Files, names: &BTreeSet<String>, exceptions: &[(&str, &str)]) -> Vec<Finding> {
    let mut found = Vec::new();
    let Some(lock) = parse(files, "Cargo.lock", &mut found) else { return found };
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in lock.get("package").and_then(Value::as_array).into_iter().flatten() {
        if let (Some(name), Some(version)) = (text(package, "name"), text(package, "version")) {
            versions.entry(name).or_default().push(version);
        }
    }
    for name in names {
        let several = versions.get(name.as_str()).filter(|versions| versions.len() > 1);
        let excepted = exceptions.iter().any(|(exception, _)| exception == name);
        match several {
            Some(versions) if !excepted => {
                let message = "in more than one version; take the one that others need, or list the reason in \
                               xtask/src/tidy/manifests.rs";
                found.push(at("Cargo.lock", format!("holds {name} {} {message}", versions.join(" and "))));
            }
            None if excepted => {
                found.push(at("Cargo.lock", format!("holds {name} once: its exception can go")));
            }
            _ => {}
        }
    }
    found
}

fn changelog(files: &Files, workspace: &Table) -> Vec<Finding> {
    let version = workspace.get("package").and_then(|package| text(package, "version")).unwrap_or_default();
    let Some(changes) = files.get(CHANGELOG) else {
        return vec![at(CHANGELOG, "is missing: it tells users what changes for them".to_owned())];
    };
    let heading = format!("## [{version}]");
    let known = changes.lines().any(|line| line.starts_with(&heading));
    let message = format!("has no heading {heading}, the workspace's version");
    if known { Vec::new() } else { vec![at(CHANGELOG, message)] }
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key)?.as_str()
}

fn strings(value: Option<&Value>) -> Vec<String> {
    value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn at(path: &str, message: String) -> Finding {
    Finding { path: path.to_owned(), line: 1, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "[workspace]\nmembers = [\"a\"]\n[workspace.package]\nversion = \"0.1.0\"\n\
                        [workspace.dependencies]\ngpun-a = { path = \"a\" }\nserde = \"1\"\n";
    const MEMBER: &str = "[lints]\nworkspace = true\n[dependencies]\nserde.workspace = true\n\
                          [target.'cfg(unix)'.dev-dependencies]\ngpun-a.workspace = true\n";
    const LOCK: &str = "[[package]]\nname = \"serde\"\nversion = \"1.0.0\"\n";

    fn good() -> Files {
        let rows = [
            ("Cargo.toml", ROOT),
            ("a/Cargo.toml", MEMBER),
            ("Cargo.lock", LOCK),
            (DEPENDENCIES, "| crate | why |\n| --- | --- |\n| `serde` | data |\n"),
            (CHANGELOG, "# Changelog\n\n## [0.1.0] - unreleased\n"),
        ];
        rows.map(|(path, text)| (path.to_owned(), text.to_owned())).into()
    }

    #[test]
    fn agreeing_files_pass() {
        assert_eq!(check_but(&good(), &[]), []);
    }

    #[test]
    fn each_disagreement_is_found() {
        for (path, from, to, word) in [
            ("Cargo.toml", "serde = \"1\"", "serde = \"1\"\nrand = \"1\"", "no crate uses"),
            ("Cargo.toml", "0.1.0", "0.2.0", "has no heading ## [0.2.0]"),
            ("Cargo.toml", "[workspace]", "[workspace", "no TOML"),
            ("a/Cargo.toml", "[lints]\nworkspace = true\n", "", "lints"),
            ("a/Cargo.toml", "[dependencies]", "[dependencies]\nlibc = \"0.2\"", "libc names a version of its own"),
            ("a/Cargo.toml", "serde.workspace = true", "serde = { version = \"1\" }", "serde names a version"),
            ("Cargo.lock", LOCK, "[[package]]\nname = \"serde\"\nversion = \"2.0.0\"\n", ""),
            (DEPENDENCIES, "| `serde` | data |\n", "", "has no row for `serde`"),
            (DEPENDENCIES, "data |", "data |\n| `nom` | parsing |", "`nom` is no dependency"),
        ] {
            let mut files = good();
            let text = files.get_mut(path).expect("the file");
            assert!(text.contains(from), "{path} holds no {from}");
            *text = text.replacen(from, to, 1);
            let found = check_but(&files, &[]).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
            assert_eq!(found.is_empty(), word.is_empty(), "{path}: {to}");
            assert!(found.contains(word), "{found}");
        }
        for path in good().keys().filter(|path| path.as_str() != "Cargo.toml") {
            let mut files = good();
            files.remove(path);
            let found = check_but(&files, &[]).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
            assert!(found.contains(&format!("{path}:1: is missing")), "{found}");
        }
    }

    #[test]
    fn two_versions_need_a_reason_and_a_reason_needs_two_versions() {
        let mut files = good();
        let names = BTreeSet::from(["serde".to_owned()]);
        let reason: &[(&str, &str)] = &[("serde", "the old one is needed by x")];
        assert_eq!(one_version(&files, &names, &[]), []);
        assert_eq!(one_version(&files, &names, reason).len(), 1);
        files.insert("Cargo.lock".to_owned(), format!("{LOCK}{}", LOCK.replace("1.0.0", "2.0.0")));
        assert_eq!(one_version(&files, &names, reason), []);
        let found = one_version(&files, &names, &[]);
        assert!(found[0].to_string().contains("serde 1.0.0 and 2.0.0"), "{found:?}");
    }
}
