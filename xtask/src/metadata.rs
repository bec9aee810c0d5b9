//! `cargo metadata`, as far as the checks need it.

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::context::{self, Context};

/// The resolved graph of the workspace.
pub struct Metadata(Value);

impl Metadata {
    /// Asks cargo; it may fetch the index and the manifests of crates that were never built here.
    pub fn load(context: &Context) -> Result<Self> {
        let mut command = context.cargo();
        command.args(["metadata", "--format-version", "1"]).args(context.locked());
        let text = context::read(&mut command)?;
        Ok(Self(serde_json::from_str(&text).context("cargo metadata printed no JSON")?))
    }

    /// Name and manifest path of each workspace member.
    pub fn members(&self) -> Vec<(String, String)> {
        let members: Vec<&str> = array(&self.0, "workspace_members").filter_map(Value::as_str).collect();
        let packages = array(&self.0, "packages").filter(|package| members.contains(&text(package, "id")));
        packages.map(|package| (text(package, "name").to_owned(), text(package, "manifest_path").to_owned())).collect()
    }

    /// Version and enabled features of the one package with this name; `None` when nothing depends on it.
    pub fn resolved(&self, name: &str) -> Option<(String, Vec<String>)> {
        let package = array(&self.0, "packages").find(|package| text(package, "name") == name)?;
        let node = array(self.0.get("resolve")?, "nodes").find(|node| text(node, "id") == text(package, "id"))?;
        let features = array(node, "features").filter_map(Value::as_str).map(str::to_owned).collect();
        Some((text(package, "version").to_owned(), features))
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn array<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_found_with_its_features() {
        let metadata = Metadata(serde_json::json!({
            "packages": [
                { "id": "a 1", "name": "a", "version": "1.0.0", "manifest_path": "/w/a/Cargo.toml" },
                { "id": "r 2", "name": "librocksdb-sys", "version": "0.19.0+11.8.1", "manifest_path": "/r/Cargo.toml" },
            ],
            "workspace_members": ["a 1"],
            "resolve": { "nodes": [
                { "id": "a 1", "features": [] },
                { "id": "r 2", "features": ["bindgen-runtime", "lz4"] },
            ] },
        }));
        assert_eq!(metadata.members(), [("a".to_owned(), "/w/a/Cargo.toml".to_owned())]);
        let found = metadata.resolved("librocksdb-sys");
        assert_eq!(found, Some(("0.19.0+11.8.1".to_owned(), vec!["bindgen-runtime".to_owned(), "lz4".to_owned()])));
        assert_eq!(metadata.resolved("none"), None);
    }
}
