//! What images say about themselves: OCI index, manifest and configuration, and the `manifest.json` of `docker save`.
//! Pure: texts in, [`Image`] out.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A resolved image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// Digest of the manifest (OCI) or the configuration (`docker save`).
    pub digest: String,
    /// `NAME=value`.
    pub env: Vec<String>,
    /// Where its programs start; empty: `/`.
    pub work_dir: String,
    /// What it starts.
    pub entrypoint: Vec<String>,
    /// The layers, lowest first.
    pub layers: Vec<Layer>,
}

/// One layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
    /// `sha256:...` of the uncompressed tar: its name in the store.
    pub diff_id: String,
    /// `sha256:...` of the blob, where the manifest states it.
    pub blob: Option<String>,
    /// The blob's name in the layout or archive.
    pub name: String,
}

/// An image that cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct BadImage(pub String);

fn bad<T>(why: impl Into<String>) -> Result<T, BadImage> {
    Err(BadImage(why.into()))
}

/// A pointer to a blob.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    #[serde(default)]
    media_type: String,
    digest: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    platform: Option<Platform>,
}

#[derive(Clone, Debug, Deserialize)]
struct Platform {
    architecture: String,
    os: String,
}

#[derive(Deserialize)]
struct Index {
    manifests: Vec<Descriptor>,
}

#[derive(Deserialize)]
struct Manifest {
    config: Descriptor,
    layers: Vec<Descriptor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    config: Option<Run>,
    rootfs: RootFs,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Run {
    env: Option<Vec<String>>,
    working_dir: Option<String>,
    entrypoint: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct RootFs {
    diff_ids: Vec<String>,
}

impl Descriptor {
    /// Its digest.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Whether it leads to a further index.
    pub fn is_index(&self) -> bool {
        self.media_type.ends_with("image.index.v1+json") || self.media_type.ends_with("manifest.list.v2+json")
    }
}

/// Path of a blob in an OCI layout. Only plain sha256 digests lead anywhere.
pub fn blob_path(digest: &str) -> Result<String, BadImage> {
    match digest.strip_prefix("sha256:") {
        Some(hex) if hex.len() == 64 && hex.bytes().all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c)) => {
            Ok(format!("blobs/sha256/{hex}"))
        }
        _ => bad(format!("the digest {digest:?} is not sha256 in lower case")),
    }
}

/// Chooses the manifest of an index: by tag when one is asked for, by platform when several are left.
pub fn choose(index: &[u8], tag: Option<&str>) -> Result<Descriptor, BadImage> {
    let index: Index = parse("index", index)?;
    let names = |d: &Descriptor| {
        let keys = ["org.opencontainers.image.ref.name", "io.containerd.image.name"];
        keys.iter().filter_map(|k| d.annotations.get(*k).cloned()).collect::<Vec<_>>()
    };
    let wanted = |d: &Descriptor| tag.is_none_or(|t| names(d).iter().any(|n| n == t || n.ends_with(&format!(":{t}"))));
    let found: Vec<&Descriptor> = index.manifests.iter().filter(|d| wanted(d)).collect();
    let fits =
        |d: &&Descriptor| d.platform.as_ref().is_none_or(|p| p.os == "linux" && p.architecture == architecture());
    let mut fitting = found.iter().copied().filter(fits);
    match (fitting.next(), fitting.next()) {
        (Some(one), None) => Ok(one.clone()),
        (Some(_), Some(_)) => {
            let tags: Vec<String> = found.iter().flat_map(|d| names(d)).collect();
            bad(format!("the layout holds several images; name one by its tag: {}", tags.join(", ")))
        }
        (None, _) if found.is_empty() => bad(format!("there is no image with the tag {}", tag.unwrap_or("(none)"))),
        (None, _) => bad(format!("there is no image for linux/{}", architecture())),
    }
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Digest of the configuration that a manifest names.
pub fn config_digest(manifest: &[u8]) -> Result<String, BadImage> {
    Ok(parse::<Manifest>("manifest", manifest)?.config.digest)
}

/// An image of an OCI layout.
pub fn from_oci(digest: &str, manifest: &[u8], config: &[u8]) -> Result<Image, BadImage> {
    let manifest: Manifest = parse("manifest", manifest)?;
    let mut layers = Vec::new();
    for layer in manifest.layers {
        layers.push((blob_path(&layer.digest)?, Some(layer.digest)));
    }
    image(digest, layers, config)
}

/// Names of the configuration and of the image's layers in a `docker save` archive.
pub fn saved_config(manifest: &[u8], tag: Option<&str>) -> Result<(String, Vec<String>), BadImage> {
    let saved: Vec<Saved> = parse("manifest.json", manifest)?;
    let fits = |s: &&Saved| {
        let tags = s.repo_tags.as_deref().unwrap_or_default();
        tag.is_none_or(|t| tags.iter().any(|n| n == t || n.ends_with(&format!(":{t}"))))
    };
    let mut fitting = saved.iter().filter(fits);
    match (fitting.next(), fitting.next()) {
        (Some(one), None) => Ok((one.config.clone(), one.layers.clone())),
        (None, _) => bad(format!("there is no image with the tag {}", tag.unwrap_or("(none)"))),
        _ => bad("the archive holds several images; name one by its tag"),
    }
}

/// An image of a `docker save` archive.
pub fn from_saved(digest: &str, layers: Vec<String>, config: &[u8]) -> Result<Image, BadImage> {
    image(digest, layers.into_iter().map(|name| (name, None)).collect(), config)
}

fn image(digest: &str, layers: Vec<(String, Option<String>)>, config: &[u8]) -> Result<Image, BadImage> {
    let config: Config = parse("configuration", config)?;
    let ids = config.rootfs.diff_ids;
    if ids.len() != layers.len() || layers.is_empty() {
        return bad(format!("its manifest has {} layers and its configuration {}", layers.len(), ids.len()));
    }
    for id in &ids {
        blob_path(id)?;
    }
    let run = config.config.unwrap_or_default();
    let layers = layers.into_iter().zip(ids).map(|((name, blob), diff_id)| Layer { diff_id, blob, name });
    Ok(Image {
        digest: digest.to_owned(),
        env: run.env.unwrap_or_default(),
        work_dir: run.working_dir.unwrap_or_default(),
        entrypoint: run.entrypoint.unwrap_or_default(),
        layers: layers.collect(),
    })
}

fn parse<'a, T: Deserialize<'a>>(what: &str, text: &'a [u8]) -> Result<T, BadImage> {
    serde_json::from_slice(text).map_err(|e| BadImage(format!("its {what} is damaged: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(c: char) -> String {
        format!("sha256:{}", c.to_string().repeat(64))
    }

    #[test]
    fn only_plain_digests_lead_to_a_file() {
        assert_eq!(blob_path(&digest('a')).unwrap(), format!("blobs/sha256/{}", "a".repeat(64)));
        for wrong in ["", "sha256:", "sha512:aa", "sha256:../../../etc/passwd", &digest('g'), &digest('A')] {
            assert!(blob_path(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_index_gives_one_image_or_says_what_to_do() {
        let entry = |c, tag: &str, arch: &str| {
            let platform = if arch.is_empty() {
                String::new()
            } else {
                format!(r#","platform":{{"os":"linux","architecture":"{arch}"}}"#)
            };
            format!(
                r#"{{"digest":"{}","annotations":{{"org.opencontainers.image.ref.name":"{tag}"}}{platform}}}"#,
                digest(c)
            )
        };
        let index = |entries: &[String]| format!(r#"{{"manifests":[{}]}}"#, entries.join(","));
        let here = architecture();
        type Row<'a> = (&'a [String], Option<&'a str>, Result<char, &'a str>);
        let rows: [Row<'_>; 6] = [
            (&[entry('a', "x", "")], None, Ok('a')),
            (&[entry('a', "x", ""), entry('b', "y", "")], Some("y"), Ok('b')),
            (&[entry('a', "x", ""), entry('b', "y", "")], None, Err("name one by its tag: x, y")),
            (&[entry('a', "x", "")], Some("z"), Err("no image with the tag z")),
            (&[entry('a', "x", "s390x"), entry('b', "x", here)], Some("x"), Ok('b')),
            (&[entry('a', "x", "s390x")], None, Err("no image for linux/")),
        ];
        for (entries, tag, expected) in rows {
            match (choose(index(entries).as_bytes(), tag), expected) {
                (Ok(found), Ok(c)) => assert_eq!(found.digest, digest(c)),
                (Err(e), Err(text)) => assert!(e.to_string().contains(text), "{e}"),
                (found, _) => panic!("{found:?} for {expected:?}"),
            }
        }
        assert!(choose(b"{", None).unwrap_err().to_string().contains("damaged"));
    }

    #[test]
    fn layers_and_diff_ids_must_agree() {
        let manifest =
            format!(r#"{{"config":{{"digest":"{}"}},"layers":[{{"digest":"{}"}}]}}"#, digest('c'), digest('1'));
        let config = |ids: &str| {
            format!(
                r#"{{"config":{{"Env":["A=1"],"WorkingDir":"/w","Entrypoint":["/e"]}},"rootfs":{{"diff_ids":[{ids}]}}}}"#
            )
        };
        let one = config(&format!("\"{}\"", digest('2')));
        let image = from_oci("sha256:m", manifest.as_bytes(), one.as_bytes()).unwrap();
        assert_eq!((image.env, image.work_dir, image.entrypoint), (vec!["A=1".into()], "/w".into(), vec!["/e".into()]));
        assert_eq!(image.layers[0].diff_id, digest('2'));
        assert!(from_oci("m", manifest.as_bytes(), config("").as_bytes()).is_err());
        let null = format!(r#"{{"config":null,"rootfs":{{"diff_ids":["{}"]}}}}"#, digest('2'));
        assert!(from_saved("m", vec!["l/layer.tar".into()], null.as_bytes()).unwrap().env.is_empty());
    }
}
