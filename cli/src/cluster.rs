//! Which cluster a command means.

use std::path::{Path, PathBuf};

/// Names the cluster's folder for every command.
pub const DIR_VARIABLE: &str = "GPUN_DIR";
/// The configuration's name below the cluster's folder.
pub const CONFIG_FILE: &str = "gpunion.toml";
/// The machine's own cluster, where it has one with a configuration.
const ETC: &str = "/etc/gpunion";
/// The machine's own cluster otherwise.
pub const DEFAULT_DIR: &str = "/var/lib/gpunion";

/// The cluster's folder: `GPUN_DIR`, else `/etc/gpunion` if it has a `gpunion.toml`, else `/var/lib/gpunion`.
pub fn dir() -> PathBuf {
    match std::env::var_os(DIR_VARIABLE) {
        Some(dir) if !dir.is_empty() => PathBuf::from(dir),
        _ if Path::new(ETC).join(CONFIG_FILE).exists() => PathBuf::from(ETC),
        _ => PathBuf::from(DEFAULT_DIR),
    }
}

/// The socket of the controller of the cluster in `dir`.
pub fn socket(dir: &Path) -> PathBuf {
    dir.join(gpun_proto::CONTROLLER_SOCKET)
}
