//! RocksDB, compiled once.
//!
//! The bundled C++ takes about ten minutes on two cores, in every target folder and profile anew. So a tiny crate
//! that depends on `librocksdb-sys` alone, in the version and with the features that the lock file resolves to, is
//! built once into the cache; every cargo call then links that archive (`ROCKSDB_LIB_DIR`, `ROCKSDB_STATIC`). The
//! binding's own header is still the one of its version, so header and archive always agree.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::context::{self, Context};
use crate::metadata::Metadata;
use crate::parts::seconds;

const PACKAGE: &str = "librocksdb-sys";
const ARCHIVE: &str = "librocksdb.a";
/// Object files of RocksDB 11.8: only for the progress line.
const ABOUT_OBJECTS: usize = 343;
const PROGRESS_EVERY: Duration = Duration::from_secs(20);

/// Which archive is needed: another version, feature set or processor is another archive.
#[derive(Debug, PartialEq, Eq)]
struct Key {
    version: String,
    features: Vec<String>,
    arch: &'static str,
}

impl Key {
    fn of(metadata: &Metadata) -> Option<Self> {
        let (version, features) = metadata.resolved(PACKAGE)?;
        Some(Self { version, features: telling(features), arch: std::env::consts::ARCH })
    }

    fn folder_name(&self) -> String {
        let features = if self.features.is_empty() { "plain".to_owned() } else { self.features.join("+") };
        format!("rocksdb-{}-{features}-{}", self.version, self.arch)
    }

    fn manifest(&self) -> String {
        let features = self.features.iter().map(|feature| format!("{feature:?}")).collect::<Vec<_>>().join(", ");
        // The part after `+` is build metadata, which a requirement may not hold.
        let version = self.version.split('+').next().unwrap_or_default();
        format!(
            "[package]\nname = \"rocksdb-prebuilt\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
             [dependencies]\n{PACKAGE} = {{ version = \"={version}\", default-features = false, features = [{features}] }}\n"
        )
    }
}

/// The features that make another archive, in order: neither what another feature implies (`lz4-sys` by `lz4`), nor
/// `static`, which is about compression libraries that cargo links later.
fn telling(mut features: Vec<String>) -> Vec<String> {
    features.retain(|name| !name.ends_with("-sys") && name != "static" && name != "default");
    features.sort();
    features
}

/// Finds the archive in the cache or builds it, and sets it for every later cargo call.
pub fn prepare(context: &mut Context) -> Result<()> {
    if context.rocksdb.is_some() {
        return Ok(());
    }
    let Some(key) = Key::of(&Metadata::load(context)?) else {
        eprintln!("rocksdb: no crate depends on {PACKAGE}, nothing to prebuild");
        return Ok(());
    };
    let folder = context.cache.join(key.folder_name());
    if !folder.join(ARCHIVE).is_file() {
        build_once(context, &key, &folder)?;
    }
    context.rocksdb = Some(folder);
    Ok(())
}

fn build_once(context: &Context, key: &Key, folder: &Path) -> Result<()> {
    fs::create_dir_all(&context.cache).with_context(|| format!("cannot make {}", context.cache.display()))?;
    let lock_path = context.cache.join(format!("{}.lock", key.folder_name()));
    let lock = File::create(&lock_path).with_context(|| format!("cannot make {}", lock_path.display()))?;
    if lock.try_lock().is_err() {
        eprintln!("rocksdb: another run is building it, waiting ({})", lock_path.display());
        lock.lock().with_context(|| format!("cannot lock {}", lock_path.display()))?;
    }
    // Whoever held the lock has built it.
    if folder.join(ARCHIVE).is_file() {
        return Ok(());
    }
    let work = context.cache.join(format!("{}.build", key.folder_name()));
    let archive = compile(context, key, &work)?;
    install(&archive, folder)?;
    fs::remove_dir_all(&work).with_context(|| format!("cannot remove {}", work.display()))
}

fn compile(context: &Context, key: &Key, work: &Path) -> Result<PathBuf> {
    eprintln!("rocksdb: building {} once into {}, about 10 minutes on 2 cores", key.version, context.cache.display());
    fs::create_dir_all(work.join("src")).with_context(|| format!("cannot make {}", work.display()))?;
    fs::write(work.join("Cargo.toml"), key.manifest())?;
    fs::write(work.join("src/lib.rs"), "//! Pulls in librocksdb-sys, so that its archive is built.\n")?;
    // The same lock file: the archive is made with the versions that the workspace resolves to.
    fs::copy(context.root.join("Cargo.lock"), work.join("Cargo.lock")).context("cannot copy Cargo.lock")?;
    let target = work.join("target");
    let mut command = context.cargo();
    command.current_dir(work).env("CARGO_TARGET_DIR", &target).args(["build", "--release", "--quiet"]);
    let child = command.spawn().with_context(|| format!("cannot start {}", context::shown(&command)))?;
    watch(child, &target)?;
    find_output(&target, ARCHIVE).with_context(|| format!("the build left no {ARCHIVE} under {}", target.display()))
}

/// Waits for the build and says now and then how far it is.
fn watch(mut child: Child, target: &Path) -> Result<()> {
    let started = Instant::now();
    let mut told = started;
    loop {
        if let Some(status) = child.try_wait()? {
            if !status.success() {
                bail!("RocksDB did not build: {status}; is libclang-dev installed? (`cargo xtask setup` does it)");
            }
            eprintln!("rocksdb: built in {}", seconds(started.elapsed()));
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(500));
        if told.elapsed() >= PROGRESS_EVERY {
            told = Instant::now();
            let objects = count_objects(target);
            eprintln!("rocksdb: {objects} of about {ABOUT_OBJECTS} files after {}", seconds(started.elapsed()));
        }
    }
}

/// Puts the archive in place whole or not at all.
fn install(archive: &Path, folder: &Path) -> Result<()> {
    let name = folder.file_name().context("the cache folder has no name")?.to_string_lossy();
    let staged = folder.with_file_name(format!("{name}.new"));
    fs::create_dir_all(&staged).with_context(|| format!("cannot make {}", staged.display()))?;
    let mut copy = File::create(staged.join(ARCHIVE))?;
    copy.write_all(&fs::read(archive).with_context(|| format!("cannot read {}", archive.display()))?)?;
    copy.sync_all()?;
    fs::rename(&staged, folder).with_context(|| format!("cannot put {} in place", folder.display()))
}

fn outputs(target: &Path) -> impl Iterator<Item = PathBuf> {
    let builds = fs::read_dir(target.join("release/build")).into_iter().flatten().flatten();
    builds
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(PACKAGE))
        .map(|entry| entry.path().join("out"))
}

fn find_output(target: &Path, name: &str) -> Option<PathBuf> {
    outputs(target).map(|folder| folder.join(name)).find(|path| path.is_file())
}

fn count_objects(target: &Path) -> usize {
    let files = outputs(target).filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    files.filter(|entry| entry.path().extension().is_some_and(|extension| extension == "o")).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        let features = vec!["bindgen-runtime".to_owned(), "lz4".to_owned()];
        Key { version: "0.19.0+11.8.1".to_owned(), features, arch: "x86_64" }
    }

    #[test]
    fn version_features_and_processor_name_the_folder() {
        assert_eq!(key().folder_name(), "rocksdb-0.19.0+11.8.1-bindgen-runtime+lz4-x86_64");
        assert_eq!(Key { features: vec![], ..key() }.folder_name(), "rocksdb-0.19.0+11.8.1-plain-x86_64");
    }

    #[test]
    fn features_that_others_imply_make_no_other_archive() {
        let resolved = ["static", "lz4-sys", "lz4", "default", "bindgen-runtime"].map(str::to_owned);
        assert_eq!(telling(resolved.to_vec()), key().features);
    }

    #[test]
    fn the_generated_crate_has_the_same_version_and_features() {
        let manifest: toml::Table = key().manifest().parse().expect("a manifest is TOML");
        let dependency = &manifest["dependencies"][PACKAGE];
        assert_eq!(dependency["version"].as_str(), Some("=0.19.0"));
        assert_eq!(dependency["default-features"].as_bool(), Some(false));
        let features: Vec<_> = dependency["features"].as_array().expect("a list").iter().collect();
        assert_eq!(features.len(), 2);
        assert!(manifest.contains_key("workspace"), "the crate must not join a workspace above it");
    }

    #[test]
    fn the_archive_is_found_and_put_in_place_whole() {
        let scratch = tempfile::tempdir().expect("a temporary folder");
        let target = scratch.path().join("target");
        assert_eq!(find_output(&target, ARCHIVE), None);
        let out = target.join("release/build/librocksdb-sys-0f/out");
        fs::create_dir_all(&out).expect("a folder");
        fs::write(out.join("a.o"), "").expect("a file");
        fs::write(out.join(ARCHIVE), "archive").expect("a file");
        assert_eq!(count_objects(&target), 1);
        let folder = scratch.path().join("rocksdb-x");
        install(&find_output(&target, ARCHIVE).expect("the archive"), &folder).expect("installed");
        assert_eq!(fs::read_to_string(folder.join(ARCHIVE)).expect("the archive"), "archive");
        assert!(!scratch.path().join("rocksdb-x.new").exists());
    }

    #[test]
    fn a_given_folder_is_taken_as_it_is() {
        let nowhere = PathBuf::from("/nowhere");
        let mut context = Context {
            root: nowhere.clone(),
            cache: nowhere.clone(),
            target: nowhere.clone(),
            ci: false,
            rocksdb: Some(nowhere.clone()),
        };
        prepare(&mut context).expect("nothing to do");
        assert_eq!(context.rocksdb, Some(nowhere));
    }
}
