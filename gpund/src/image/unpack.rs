//! A layer's tar, unpacked the way overlayfs reads it: a removed file is a device 0:0, an opaque folder has an attribute.
//!
//! The tar is not trusted. Nothing is written outside the folder: names with `..` are refused, and so is every path that
//! leads through a symbolic link.

use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, lchown};
use std::path::{Component, Path, PathBuf};

use nix::sys::stat::{Mode, SFlag, UtimensatFlags, makedev, mknod, utimensat};
use nix::sys::time::TimeSpec;
use tar::{Archive, Entry, EntryType};

use crate::sys::set_xattr;

const OPAQUE: &str = ".wh..wh..opq";
const WHITEOUT: &str = ".wh.";
/// The attribute by which overlayfs hides what lies below a folder.
pub const OPAQUE_ATTRIBUTE: &str = "trusted.overlay.opaque";

/// Unpacks a tar into a folder that is empty and nobody else's. Reads to the end of the stream.
pub fn unpack(layer: &mut dyn Read, into: &Path) -> io::Result<()> {
    let mut archive = Archive::new(layer);
    // Times of folders are set last, since what is put into them changes them.
    let mut folders = Vec::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let name = entry.path()?.into_owned();
        let describe = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", name.display()));
        let Some(at) = inside(into, &name).map_err(describe)? else { continue };
        unpack_entry(&mut entry, into, &at).map_err(describe)?;
        if entry.header().entry_type().is_dir() {
            folders.push((at, entry.header().mtime().unwrap_or(0)));
        }
    }
    for (folder, mtime) in folders.iter().rev() {
        set_time(folder, *mtime)?;
    }
    io::copy(&mut archive.into_inner(), &mut io::sink()).map(drop)
}

/// Where an entry goes, its parents made. None: the root itself.
fn inside(root: &Path, name: &Path) -> io::Result<Option<PathBuf>> {
    let mut parts = Vec::new();
    for part in name.components() {
        match part {
            Component::Normal(part) => parts.push(part),
            Component::CurDir | Component::RootDir => {}
            Component::ParentDir | Component::Prefix(_) => {
                return Err(refused("a path with `..` leads out of the layer"));
            }
        }
    }
    let Some((last, parents)) = parts.split_last() else { return Ok(None) };
    let mut at = root.to_owned();
    for part in parents {
        at.push(part);
        match fs::symlink_metadata(&at) {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => return Err(refused("the path leads through a link or a file")),
            Err(e) if e.kind() == io::ErrorKind::NotFound => fs::create_dir(&at)?,
            Err(e) => return Err(e),
        }
    }
    Ok(Some(at.join(last)))
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

fn unpack_entry(entry: &mut Entry<'_, impl Read>, root: &Path, at: &Path) -> io::Result<()> {
    let name = at.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if name == OPAQUE {
        return set_xattr(at.parent().unwrap_or(root), OPAQUE_ATTRIBUTE, b"y");
    }
    if let Some(hidden) = name.strip_prefix(WHITEOUT) {
        if matches!(hidden, "" | "." | "..") {
            return Err(refused("a whiteout of nothing"));
        }
        let at = at.with_file_name(hidden);
        make_way(&at)?;
        return Ok(mknod(&at, SFlag::S_IFCHR, Mode::empty(), makedev(0, 0))?);
    }
    let kind = entry.header().entry_type();
    if !kind.is_dir() {
        make_way(at)?;
    }
    match kind {
        EntryType::Directory => match fs::symlink_metadata(at) {
            Ok(meta) if meta.is_dir() => {}
            _ => {
                make_way(at)?;
                fs::create_dir(at)?;
            }
        },
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
            let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(at)?;
            io::copy(entry, &mut file)?;
        }
        EntryType::Symlink => {
            let to = entry.link_name()?.ok_or_else(|| refused("a link to nothing"))?;
            std::os::unix::fs::symlink(to, at)?;
        }
        EntryType::Link => {
            let to = entry.link_name()?.ok_or_else(|| refused("a link to nothing"))?.into_owned();
            let to = inside(root, &to)?.ok_or_else(|| refused("a link to the root"))?;
            return fs::hard_link(to, at);
        }
        EntryType::Fifo => nix::unistd::mkfifo(at, Mode::from_bits_truncate(0o600))?,
        // Devices: the container has its own /dev, and no other device could be opened.
        _ => return Ok(()),
    }
    set_attributes(entry, at)
}

fn set_attributes(entry: &Entry<'_, impl Read>, at: &Path) -> io::Result<()> {
    let header = entry.header();
    let id = |n: io::Result<u64>| n.map(|n| u32::try_from(n).unwrap_or(u32::MAX - 1));
    lchown(at, Some(id(header.uid())?), Some(id(header.gid())?))?;
    if !header.entry_type().is_symlink() {
        fs::set_permissions(at, fs::Permissions::from_mode(header.mode()? & 0o7777))?;
    }
    if header.entry_type().is_dir() { Ok(()) } else { set_time(at, header.mtime().unwrap_or(0)) }
}

fn set_time(at: &Path, mtime_s: u64) -> io::Result<()> {
    let time = TimeSpec::new(i64::try_from(mtime_s).unwrap_or(0), 0);
    Ok(utimensat(nix::fcntl::AT_FDCWD, at, &time, &time, UtimensatFlags::NoFollowSymlink)?)
}

/// A later entry of the same name replaces an earlier one.
fn make_way(at: &Path) -> io::Result<()> {
    match fs::symlink_metadata(at) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(at),
        Ok(_) => fs::remove_file(at),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
    }
}

/// Copies an unpacked layer onto a folder, for hosts without overlayfs: what it hides is removed, what it has replaces.
pub fn copy_layer(layer: &Path, onto: &Path) -> io::Result<()> {
    for entry in fs::read_dir(layer)? {
        let entry = entry?;
        let (from, to) = (entry.path(), onto.join(entry.file_name()));
        let meta = fs::symlink_metadata(&from)?;
        use std::os::unix::fs::{FileTypeExt, MetadataExt};
        let kind = meta.file_type();
        if kind.is_char_device() && meta.rdev() == 0 {
            make_way(&to)?;
            continue;
        }
        let merges = kind.is_dir() && fs::symlink_metadata(&to).is_ok_and(|m| m.is_dir()) && !is_opaque(&from);
        if !merges {
            make_way(&to)?;
        }
        if kind.is_dir() {
            if !merges {
                fs::create_dir(&to)?;
            }
            copy_layer(&from, &to)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&from)?, &to)?;
        } else if kind.is_fifo() {
            nix::unistd::mkfifo(&to, Mode::from_bits_truncate(0o600))?;
        } else {
            fs::copy(&from, &to)?;
        }
        lchown(&to, Some(meta.uid()), Some(meta.gid()))?;
        if !kind.is_symlink() {
            fs::set_permissions(&to, fs::Permissions::from_mode(meta.mode() & 0o7777))?;
        }
    }
    Ok(())
}

fn is_opaque(folder: &Path) -> bool {
    crate::sys::has_xattr(folder, OPAQUE_ATTRIBUTE)
}
