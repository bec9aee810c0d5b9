//! The static `gpun-init` that this build carries.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::raw::to_hex;

static INIT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/gpun-init"));

/// Writes `gpun-init` into `dir` under a name made from its content, unless it is there, and gives the path. Jobs that
/// run on another version of gpund keep theirs.
pub fn install_init(dir: &Path) -> io::Result<PathBuf> {
    let path = dir.join(format!("gpun-init-{}", &to_hex(&Sha256::digest(INIT))[..16]));
    if fs::read(&path).is_ok_and(|found| found == INIT) {
        return Ok(path);
    }
    DirBuilder::new().recursive(true).mode(0o755).create(dir)?;
    let new = dir.join(format!(".gpun-init.{}", std::process::id()));
    let _ = fs::remove_file(&new);
    let mut file = OpenOptions::new().create_new(true).write(true).mode(0o555).open(&new)?;
    file.write_all(INIT)?;
    file.sync_all()?;
    drop(file);
    fs::rename(&new, &path)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that needs a loader names it in a header of this kind.
    const PT_INTERP: u32 = 3;

    fn program_headers(elf: &[u8]) -> Vec<u32> {
        assert!(elf.starts_with(b"\x7fELF\x02\x01"), "64-bit little-endian ELF");
        let start = u64::from_le_bytes(elf[0x20..0x28].try_into().unwrap()) as usize;
        let (size, count) = (usize::from(elf[0x36]), usize::from(elf[0x38]));
        assert!(count > 0);
        (0..count).map(|i| u32::from_le_bytes(elf[start + i * size..][..4].try_into().unwrap())).collect()
    }

    #[test]
    fn it_is_static_and_installed_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = install_init(dir.path()).unwrap();
        assert_eq!(install_init(dir.path()).unwrap(), path);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert_eq!(program_headers(&fs::read(&path).unwrap()).into_iter().filter(|&t| t == PT_INTERP).count(), 0);
        fs::write(&path, b"torn").unwrap();
        install_init(dir.path()).unwrap();
        assert_eq!(fs::read(&path).unwrap(), INIT);
    }
}
