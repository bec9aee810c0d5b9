//! The double: a small file system in memory, a list of all acts, and failures on demand.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use gpun_init::Order;

use super::{Kind, Overlay, Owner, Sys};
use crate::spec::Identity;

/// Records acts. Reads come from `files`; folders exist as far as a file or folder below them does.
#[derive(Default)]
pub struct Record {
    /// What is there. A folder's value is none.
    pub files: RefCell<BTreeMap<PathBuf, Option<Vec<u8>>>>,
    /// Every act that changes something, in order.
    pub acts: RefCell<Vec<String>>,
    /// Acts that contain this text fail with that error number.
    pub fail: RefCell<Option<(String, i32)>>,
    /// Pids in cgroup.procs files vanish when they are killed.
    pub killed: RefCell<Vec<i32>>,
}

impl Record {
    /// With these files.
    pub fn with(files: &[(&str, &str)]) -> Self {
        let record = Self::default();
        for (path, text) in files {
            record.files.borrow_mut().insert(path.into(), Some(text.as_bytes().to_vec()));
        }
        record
    }

    fn act(&self, what: String) -> io::Result<()> {
        self.acts.borrow_mut().push(what.clone());
        match &*self.fail.borrow() {
            Some((text, errno)) if what.contains(text) => Err(io::Error::from_raw_os_error(*errno)),
            _ => Ok(()),
        }
    }

    fn exists(&self, path: &Path) -> bool {
        self.files.borrow().keys().any(|p| p.starts_with(path))
    }
}

impl Sys for Record {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let bytes = self.files.borrow().get(path).cloned().flatten().ok_or(io::ErrorKind::NotFound)?;
        // A killed process has no command line any more.
        if self.killed.borrow().iter().any(|pid| path == Path::new(&format!("/proc/{pid}/cmdline"))) {
            return Err(io::ErrorKind::NotFound.into());
        }
        if path.ends_with("cgroup.procs") {
            let killed = self.killed.borrow();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let left: Vec<&str> = text.lines().filter(|l| !killed.iter().any(|k| k.to_string() == **l)).collect();
            return Ok(left.join("\n").into_bytes());
        }
        Ok(bytes)
    }
    fn read_in_root(&self, root: &Path, path: &Path) -> io::Result<Vec<u8>> {
        self.read(&root.join(path.strip_prefix("/").unwrap_or(path)))
    }
    fn open_as(&self, path: &Path, _: &Identity) -> io::Result<File> {
        self.act(format!("open {}", path.display()))?;
        Err(io::ErrorKind::NotFound.into())
    }
    fn unnamed_file(&self, _: &Path) -> io::Result<File> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn lock_file(&self, _: &Path) -> io::Result<File> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn hold_layer(&self, used: &Path) -> io::Result<()> {
        self.act(format!("hold {}", used.display()))
    }
    fn unpack(&self, _: &mut dyn Read, into: &Path) -> io::Result<()> {
        self.act(format!("unpack {}", into.display()))
    }
    fn copy_layer(&self, layer: &Path, onto: &Path) -> io::Result<()> {
        self.act(format!("copy {} {}", layer.display(), onto.display()))
    }
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.act(format!("write {} {}", path.display(), String::from_utf8_lossy(bytes)))
    }
    fn create(&self, path: &Path, bytes: &[u8], mode: u32, owner: Owner) -> io::Result<()> {
        self.act(format!("create {} {mode:o} {owner:?}", path.display()))?;
        self.files.borrow_mut().insert(path.into(), Some(bytes.to_vec()));
        Ok(())
    }
    fn make_dir(&self, path: &Path, mode: u32, _: Owner) -> io::Result<()> {
        if self.exists(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.act(format!("mkdir {} {mode:o}", path.display()))?;
        self.files.borrow_mut().insert(path.into(), None);
        Ok(())
    }
    fn symlink(&self, to: &Path, at: &Path) -> io::Result<()> {
        self.act(format!("symlink {} {}", to.display(), at.display()))
    }
    fn link(&self, from: &Path, at: &Path) -> io::Result<()> {
        self.act(format!("link {} {}", from.display(), at.display()))
    }
    fn own(&self, path: &Path, mode: u32, owner: (u32, u32)) -> io::Result<()> {
        self.act(format!("own {} {mode:o} {owner:?}", path.display()))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.act(format!("rename {} {}", from.display(), to.display()))
    }
    fn kind(&self, path: &Path) -> io::Result<Kind> {
        match self.files.borrow().get(path) {
            Some(Some(_)) => Ok(Kind::File),
            _ if self.exists(path) => Ok(Kind::Dir),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let files = self.files.borrow();
        let below = files.keys().filter_map(|p| p.strip_prefix(dir).ok()).filter_map(|r| r.components().next());
        let mut names: Vec<String> = below.map(|c| c.as_os_str().to_string_lossy().into_owned()).collect();
        names.dedup();
        if names.is_empty() && !self.exists(dir) { Err(io::ErrorKind::NotFound.into()) } else { Ok(names) }
    }
    fn list_dirs(&self, dir: &Path) -> io::Result<Vec<String>> {
        let names = self.list(dir)?;
        Ok(names.into_iter().filter(|n| matches!(self.kind(&dir.join(n)), Ok(Kind::Dir))).collect())
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        if !self.exists(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        // A cgroup with processes, or with groups in it.
        if self.read(&path.join("cgroup.procs")).is_ok_and(|p| !p.is_empty()) || !self.list_dirs(path)?.is_empty() {
            return Err(io::Error::from_raw_os_error(libc::EBUSY));
        }
        self.act(format!("rmdir {}", path.display()))?;
        self.files.borrow_mut().retain(|p, _| !p.starts_with(path));
        Ok(())
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.act(format!("rm {}", path.display()))?;
        self.files.borrow_mut().remove(path);
        Ok(())
    }
    fn remove_tree(&self, path: &Path) -> io::Result<()> {
        self.act(format!("rm -r {}", path.display()))?;
        self.files.borrow_mut().retain(|p, _| !p.starts_with(path));
        Ok(())
    }
    fn reach(&self, path: &Path, _: &Identity) -> io::Result<PathBuf> {
        if self.exists(path) { Ok(path.into()) } else { Err(io::ErrorKind::NotFound.into()) }
    }
    fn private_mounts(&self) -> io::Result<()> {
        self.act("private mounts".into())
    }
    fn pin(&self, path: &Path, who: &Identity, at: &Path, recursive: bool) -> io::Result<()> {
        let all = if recursive { " and below" } else { "" };
        self.act(format!("pin {}{all} as {} at {}", path.display(), who.uid, at.display()))
    }
    fn mount_overlay(&self, overlay: &Overlay) -> io::Result<()> {
        self.act(format!("overlay {} at {}", overlay.lower.join(":"), overlay.target.display()))
    }
    fn unmount(&self, path: &Path) -> io::Result<()> {
        self.act(format!("unmount {}", path.display()))
    }
    fn spawn(&self, program: &Path, args: &[String]) -> io::Result<i32> {
        self.act(format!("spawn {} {}", program.display(), args.join(" ")))?;
        Ok(100)
    }
    fn run(&self, program: &Path, args: &[String]) -> io::Result<(bool, String)> {
        self.act(format!("run {} {}", program.display(), args.join(" ")))?;
        Ok((true, String::new()))
    }
    fn kill(&self, pid: i32, signal: i32) -> io::Result<()> {
        self.act(format!("kill -{signal} {pid}"))?;
        // One that fails leaves the process alive.
        self.killed.borrow_mut().push(pid);
        Ok(())
    }
    fn order(&self, pid: i32, order: Order) -> io::Result<()> {
        self.act(format!("order {order:?} {pid}"))
    }
    fn pause(&self, _: Duration) {}
    fn now_ms(&self) -> u64 {
        1_000
    }
}
