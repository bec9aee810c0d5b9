//! Where things are, and how cargo is called.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// The clone, the cache and the environment of every cargo call.
pub struct Context {
    /// Root of the clone.
    pub root: PathBuf,
    /// What outlives the clone: `$XDG_CACHE_HOME/gpunion`, else `~/.cache/gpunion`.
    pub cache: PathBuf,
    /// Where cargo builds.
    pub target: PathBuf,
    /// True in continuous integration (`CI=true`): the lock file is taken as it is, progress is sparse.
    pub ci: bool,
    /// Folder of the prebuilt `librocksdb.a`, once `setup` has found or made it.
    pub rocksdb: Option<PathBuf>,
}

impl Context {
    /// Reads the environment once; nothing else here does.
    pub fn new() -> Result<Self> {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = manifest.parent().context("the xtask crate lies in no workspace")?.to_path_buf();
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let ci = variable("CI").is_some_and(|value| value == "true");
        let cache = cache_folder(variable("XDG_CACHE_HOME"), variable("HOME"))?;
        let target = target_folder(variable("CARGO_TARGET_DIR"), ci, &cache, &root);
        let rocksdb = variable("ROCKSDB_LIB_DIR").map(PathBuf::from);
        Ok(Self { root, cache, target, ci, rocksdb })
    }

    /// A cargo call in the clone, with the target folder and the prebuilt RocksDB set.
    pub fn cargo(&self) -> Command {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(&self.root).stdin(Stdio::null());
        // `cargo run` describes the xtask package to its child. A build script that watches one of these variables
        // would run again in every second call.
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(describes_a_package) {
                command.env_remove(&name);
            }
        }
        command.env("CARGO_TARGET_DIR", &self.target);
        if let Some(folder) = &self.rocksdb {
            command.env("ROCKSDB_LIB_DIR", folder).env("ROCKSDB_STATIC", "1");
        }
        command
    }

    /// `--locked` in continuous integration: a build there never changes a dependency.
    pub fn locked(&self) -> &'static [&'static str] {
        if self.ci { &["--locked"] } else { &[] }
    }

    /// Folder of the binaries that cargo builds with this profile's output name (`debug`, `release`, `init`).
    pub fn binaries(&self, profile: &str) -> PathBuf {
        self.target.join(profile)
    }
}

/// Runs a command to its end, its output shown as it comes.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {}", shown(command)))?;
    if !status.success() {
        bail!("{} failed: {status}", shown(command));
    }
    Ok(())
}

/// Runs a command to its end and returns what it printed; its errors are shown as they come.
pub fn read(command: &mut Command) -> Result<String> {
    let output =
        command.stderr(Stdio::inherit()).output().with_context(|| format!("cannot start {}", shown(command)))?;
    if !output.status.success() {
        bail!("{} failed: {}", shown(command), output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("{} printed no UTF-8", shown(command)))
}

/// The command as one would type it.
pub fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let program = program.file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Whether a program of this name is on the PATH.
pub fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Whether the process may install packages, make cgroups and start containers.
pub fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0)
}

fn describes_a_package(name: &str) -> bool {
    name == "CARGO" || ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_"].iter().any(|prefix| name.starts_with(prefix))
}

fn cache_folder(xdg: Option<OsString>, home: Option<OsString>) -> Result<PathBuf> {
    // XDG says that a relative path there is to be ignored.
    let base = xdg.map(PathBuf::from).filter(|path| path.is_absolute());
    let base = base.or_else(|| home.map(|home| PathBuf::from(home).join(".cache")));
    Ok(base
        .context("neither HOME nor XDG_CACHE_HOME is set: set one, the RocksDB build is kept there")?
        .join("gpunion"))
}

fn target_folder(given: Option<OsString>, ci: bool, cache: &Path, root: &Path) -> PathBuf {
    match given {
        // Cargo takes a relative one from the folder that it is called in, which is the clone's root here.
        Some(folder) => root.join(folder),
        None if ci => cache.join("target"),
        None => root.join("target"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_xdgs_or_homes() {
        let folder = |xdg: Option<&str>, home: Option<&str>| {
            cache_folder(xdg.map(Into::into), home.map(Into::into)).ok().map(|path| path.display().to_string())
        };
        assert_eq!(folder(Some("/x"), Some("/h")).as_deref(), Some("/x/gpunion"));
        assert_eq!(folder(Some("x"), Some("/h")).as_deref(), Some("/h/.cache/gpunion"));
        assert_eq!(folder(None, Some("/h")).as_deref(), Some("/h/.cache/gpunion"));
        assert_eq!(folder(None, None), None);
    }

    #[test]
    fn the_target_is_the_given_one_or_the_caches_in_ci() {
        let folder = |given: Option<&str>, ci| {
            let found = target_folder(given.map(Into::into), ci, Path::new("/cache"), Path::new("/clone"));
            found.display().to_string()
        };
        assert_eq!(folder(Some("/t"), true), "/t");
        assert_eq!(folder(Some("t"), false), "/clone/t");
        assert_eq!(folder(None, true), "/cache/target");
        assert_eq!(folder(None, false), "/clone/target");
    }

    #[test]
    fn only_what_describes_a_package_is_hidden_from_cargo() {
        for (name, hidden) in [
            ("CARGO", true),
            ("CARGO_PKG_NAME", true),
            ("CARGO_MANIFEST_DIR", true),
            ("CARGO_HOME", false),
            ("CARGO_TARGET_DIR", false),
            ("CARGO_BUILD_JOBS", false),
        ] {
            assert_eq!(describes_a_package(name), hidden, "{name}");
        }
    }
}
