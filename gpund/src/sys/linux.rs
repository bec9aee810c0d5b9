//! The real system.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, chown, fchown, lchown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use gpun_init::Order;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::Signal;

use super::{Kind, Overlay, Owner, Sys, raw};
use crate::spec::Identity;

/// The most that is read of one file: a job may have made it as large as its disk.
const READ_MAX: u64 = 16 << 20;

/// The real system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Linux;

impl Sys for Linux {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
        let mut bytes = Vec::new();
        file.take(READ_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn read_in_root(&self, root: &Path, path: &Path) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        raw::open_in_root(root, path)?.take(READ_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn open_as(&self, path: &Path, who: &Identity) -> io::Result<File> {
        // A FIFO would make the open wait for a writer.
        let open = || OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path);
        let file = if who.uid == 0 { open() } else { raw::as_user(who.uid, who.gid, &who.groups, open) }?;
        let kind = file.metadata()?.file_type();
        if kind.is_file() || kind.is_dir() { Ok(file) } else { Err(io::Error::other("it is no file and no folder")) }
    }

    fn unnamed_file(&self, dir: &Path) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).mode(0o600).custom_flags(libc::O_TMPFILE).open(dir)
    }

    fn lock_file(&self, path: &Path) -> io::Result<File> {
        loop {
            let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?;
            file.lock()?;
            // Whoever held it before may have removed it.
            use std::os::unix::fs::MetadataExt;
            let same = fs::metadata(path).is_ok_and(|m| file.metadata().is_ok_and(|f| f.ino() == m.ino()));
            if same {
                return Ok(file);
            }
        }
    }

    fn hold_layer(&self, used: &Path) -> io::Result<()> {
        // The lock ends with the process, which ends with the job.
        std::mem::forget(crate::image::collect::hold(used)?);
        Ok(())
    }

    fn unpack(&self, layer: &mut dyn Read, into: &Path) -> io::Result<()> {
        crate::image::unpack(layer, into)
    }

    fn copy_layer(&self, layer: &Path, onto: &Path) -> io::Result<()> {
        crate::image::copy_layer(layer, onto)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        OpenOptions::new().write(true).open(path)?.write_all(bytes)
    }

    fn create(&self, path: &Path, bytes: &[u8], mode: u32, owner: Owner) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.create_new(true).write(true).mode(mode);
        let mut file = match options.open(path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                fs::remove_file(path)?;
                options.open(path)?
            }
            other => other?,
        };
        file.write_all(bytes)?;
        if let Some((uid, gid)) = owner {
            fchown(&file, Some(uid), Some(gid))?;
        }
        Ok(())
    }

    fn make_dir(&self, path: &Path, mode: u32, owner: Owner) -> io::Result<()> {
        fs::DirBuilder::new().mode(mode & 0o755).create(path)?;
        if let Some((uid, gid)) = owner {
            lchown(path, Some(uid), Some(gid))?;
        }
        if mode & !0o755 != 0 {
            fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        }
        Ok(())
    }

    fn symlink(&self, to: &Path, at: &Path) -> io::Result<()> {
        std::os::unix::fs::symlink(to, at)
    }

    fn link(&self, from: &Path, at: &Path) -> io::Result<()> {
        match fs::hard_link(from, at) {
            Err(e) if matches!(e.raw_os_error(), Some(libc::EXDEV | libc::EMLINK | libc::EPERM)) => {
                fs::copy(from, at).map(drop)
            }
            other => other,
        }
    }

    fn own(&self, path: &Path, mode: u32, owner: (u32, u32)) -> io::Result<()> {
        chown(path, Some(owner.0), Some(owner.1))?;
        fs::set_permissions(path, fs::Permissions::from_mode(mode))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn kind(&self, path: &Path) -> io::Result<Kind> {
        let meta = fs::symlink_metadata(path)?;
        Ok(if meta.is_dir() {
            Kind::Dir
        } else if meta.is_symlink() {
            Kind::Link(fs::read_link(path)?)
        } else {
            Kind::File
        })
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    fn list_dirs(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        Ok(names)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_tree(&self, path: &Path) -> io::Result<()> {
        super::gone_is_fine(fs::remove_dir_all(path))
    }

    fn reach(&self, path: &Path, who: &Identity) -> io::Result<PathBuf> {
        if who.uid == 0 {
            return fs::canonicalize(path);
        }
        raw::as_user(who.uid, who.gid, &who.groups, || fs::canonicalize(path))
    }

    fn private_mounts(&self) -> io::Result<()> {
        unshare(CloneFlags::CLONE_NEWNS)?;
        let none: Option<&str> = None;
        Ok(mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_SLAVE, none)?)
    }

    fn pin(&self, path: &Path, who: &Identity, at: &Path, recursive: bool) -> io::Result<()> {
        let open = || OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW).open(path);
        let file = if who.uid == 0 { open() } else { raw::as_user(who.uid, who.gid, &who.groups, open) }?;
        let held = PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file)));
        if fs::read_link(&held)? != path {
            return Err(io::Error::other("a folder on the way was exchanged meanwhile"));
        }
        let none: Option<&str> = None;
        let flags = if recursive { MsFlags::MS_BIND | MsFlags::MS_REC } else { MsFlags::MS_BIND };
        Ok(mount(Some(&held), at, none, flags, none)?)
    }

    fn mount_overlay(&self, o: &Overlay) -> io::Result<()> {
        let options =
            format!("lowerdir={},upperdir={},workdir={}", o.lower.join(":"), escaped(&o.upper), escaped(&o.work));
        std::env::set_current_dir(&o.layers)?;
        let result = mount(Some("overlay"), &o.target, Some("overlay"), MsFlags::empty(), Some(options.as_str()));
        std::env::set_current_dir("/")?;
        Ok(result?)
    }

    fn unmount(&self, path: &Path) -> io::Result<()> {
        Ok(umount2(path, MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW)?)
    }

    fn spawn(&self, program: &Path, args: &[String]) -> io::Result<i32> {
        let mut command = Command::new(program);
        let log = io::stderr();
        let log: File = std::os::fd::AsFd::as_fd(&log).try_clone_to_owned()?.into();
        command.args(args).stdin(Stdio::null()).stdout(Stdio::from(log));
        raw::die_with_parent(&mut command);
        let child = command.spawn()?;
        i32::try_from(child.id()).map_err(io::Error::other)
    }

    fn run(&self, program: &Path, args: &[String]) -> io::Result<(bool, String)> {
        let output = Command::new(program).args(args).stdin(Stdio::null()).output()?;
        Ok((output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned()))
    }

    fn kill(&self, pid: i32, signal: i32) -> io::Result<()> {
        let signal = Signal::try_from(signal)?;
        Ok(nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal)?)
    }

    fn order(&self, pid: i32, order: Order) -> io::Result<()> {
        // Before it waits for signals, the kernel drops them for a process 1.
        let until = Instant::now() + ORDER_WAIT;
        while !takes_orders(pid) && Instant::now() < until {
            std::thread::sleep(Duration::from_micros(200));
        }
        raw::queue_order(pid, order)
    }

    fn pause(&self, time: Duration) {
        std::thread::sleep(time);
    }

    fn now_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}

/// How long process 1 may take from its start until it takes orders.
const ORDER_WAIT: Duration = Duration::from_secs(2);

/// Whether process 1 of a container has begun its work; also true once it is gone, or the job wrote over what it says.
fn takes_orders(pid: i32) -> bool {
    let mut first = [0];
    let read = File::open(format!("/proc/{pid}/root{}/exit", gpun_init::RUN_DIR)).and_then(|mut f| f.read(&mut first));
    !matches!(read, Ok(1)) || first != [0]
}

/// The option string's own separators, escaped as overlayfs reads them.
fn escaped(path: &Path) -> String {
    let mut out = String::new();
    for c in path.to_string_lossy().chars() {
        if matches!(c, ',' | ':' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
