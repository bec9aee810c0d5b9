//! Every act of the container side on the system, as one trait: the real one is [`Linux`], tests use a double that
//! records the order of acts and lets any of them fail.

mod linux;
pub(crate) mod raw;
#[cfg(test)]
pub mod record;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use gpun_init::Order;

pub use linux::Linux;
pub use raw::{Reaped, as_user, become_session_leader, become_subreaper, child_signal_fd, has_xattr, reap, set_xattr};

use crate::spec::Identity;

/// User and group id that a new file or folder gets.
pub type Owner = Option<(u32, u32)>;

/// What a path is; links are not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A folder.
    Dir,
    /// A symbolic link and where it leads.
    Link(PathBuf),
    /// Anything else.
    File,
}

/// An overlay mount. The lower folders are names in `layers`, topmost first: relative names keep the option string
/// below the kernel's one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlay {
    /// The folder that holds the lower folders.
    pub layers: PathBuf,
    /// Their names, topmost first.
    pub lower: Vec<String>,
    /// Takes the writes.
    pub upper: PathBuf,
    /// The kernel's own, beside `upper`.
    pub work: PathBuf,
    /// Where it appears.
    pub target: PathBuf,
}

/// The acts. Errors are the system's own.
pub trait Sys {
    /// A file, up to 16 MiB. A link is an error.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// Writes to a file that exists, in one call (control files of the kernel).
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// A file below `root` as if `root` were `/`, up to 16 MiB.
    fn read_in_root(&self, root: &Path, path: &Path) -> io::Result<Vec<u8>>;
    /// Opens a file or folder for reading, if that user may.
    fn open_as(&self, path: &Path, who: &Identity) -> io::Result<File>;
    /// A new file in that folder that has no name and is gone when it is closed.
    fn unnamed_file(&self, dir: &Path) -> io::Result<File>;
    /// Waits until the lock file is this process's; it is until the file is closed.
    fn lock_file(&self, path: &Path) -> io::Result<File>;
    /// Holds a layer for as long as this process lives, see [`crate::image::collect`].
    fn hold_layer(&self, used: &Path) -> io::Result<()>;
    /// Unpacks a layer into an empty folder, see [`crate::image::unpack`].
    fn unpack(&self, layer: &mut dyn Read, into: &Path) -> io::Result<()>;
    /// Copies an unpacked layer onto a folder, see [`crate::image::copy_layer`].
    fn copy_layer(&self, layer: &Path, onto: &Path) -> io::Result<()>;
    /// Makes a new file; one that is there already is replaced, never followed or written into.
    fn create(&self, path: &Path, bytes: &[u8], mode: u32, owner: Owner) -> io::Result<()>;
    /// Makes a folder with exactly that mode; `AlreadyExists` is an error.
    fn make_dir(&self, path: &Path, mode: u32, owner: Owner) -> io::Result<()>;
    /// Makes a symbolic link.
    fn symlink(&self, to: &Path, at: &Path) -> io::Result<()>;
    /// A second name for a file, or a copy where the file system allows none.
    fn link(&self, from: &Path, at: &Path) -> io::Result<()>;
    /// Changes owner and mode.
    fn own(&self, path: &Path, mode: u32, owner: (u32, u32)) -> io::Result<()>;
    /// Moves.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// What a path is.
    fn kind(&self, path: &Path) -> io::Result<Kind>;
    /// The names in a folder, sorted.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// The names of the folders in a folder.
    fn list_dirs(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Removes an empty folder (also a cgroup).
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes a folder and all below it, following no link. A missing one is no error.
    fn remove_tree(&self, path: &Path) -> io::Result<()>;
    /// The canonical path, if that user may reach it; permissions are checked as the user's.
    fn reach(&self, path: &Path, who: &Identity) -> io::Result<PathBuf>;
    /// Leaves the host's mount namespace for one of its own, into which the host's mounts and unmounts still propagate.
    fn private_mounts(&self) -> io::Result<()>;
    /// Opens a path without following a link at its end, if that user may reach it, and binds what was opened to `at`.
    /// A path that leads elsewhere by now than its own words say is an error.
    fn pin(&self, path: &Path, who: &Identity, at: &Path, recursive: bool) -> io::Result<()>;
    /// Mounts an overlay.
    fn mount_overlay(&self, overlay: &Overlay) -> io::Result<()>;
    /// Detaches what is mounted there.
    fn unmount(&self, path: &Path) -> io::Result<()>;
    /// Starts a program that dies with this process; its output goes to this process's standard error.
    fn spawn(&self, program: &Path, args: &[String]) -> io::Result<i32>;
    /// Runs a program to its end; gives whether it succeeded and what it said on standard error.
    fn run(&self, program: &Path, args: &[String]) -> io::Result<(bool, String)>;
    /// Sends a signal.
    fn kill(&self, pid: i32, signal: i32) -> io::Result<()>;
    /// Sends an order to a container's process 1.
    fn order(&self, pid: i32, order: Order) -> io::Result<()>;
    /// Sleeps.
    fn pause(&self, time: Duration);
    /// Unix milliseconds.
    fn now_ms(&self) -> u64;
}

/// Turns "it is not there" into success.
pub fn gone_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Makes a folder unless it is there.
pub fn ensure_dir(sys: &dyn Sys, path: &Path, mode: u32, owner: Owner) -> io::Result<()> {
    match sys.make_dir(path, mode, owner) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// Makes a folder and those above it, unless they are there; root's, mode 0755.
pub fn ensure_dirs(sys: &dyn Sys, path: &Path) -> io::Result<()> {
    match sys.make_dir(path, 0o755, None) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => match path.parent() {
            Some(parent) => {
                ensure_dirs(sys, parent)?;
                ensure_dir(sys, path, 0o755, None)
            }
            None => Err(e),
        },
        other => other,
    }
}

/// What a path leads to, by up to 16 links in its last part.
pub fn behind_links(sys: &dyn Sys, path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..16 {
        match sys.kind(&path) {
            Ok(Kind::Link(to)) => path = path.parent().map_or_else(|| to.clone(), |p| p.join(&to)),
            _ => break,
        }
    }
    path
}
