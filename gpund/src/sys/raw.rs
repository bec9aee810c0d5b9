//! System calls that need unsafe code. The only such module of this crate.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::ptr;

use gpun_init::Order;

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Queues an order for a container's process 1.
pub fn queue_order(pid: i32, order: Order) -> io::Result<()> {
    let value = libc::sigval { sival_ptr: order.encode() as usize as *mut libc::c_void };
    // SAFETY: sigqueue takes plain values; the receiver reads the value as an integer, never as a pointer.
    check(unsafe { libc::sigqueue(pid, libc::SIGRTMIN() + Order::RT_OFFSET, value) }).map(drop)
}

/// Unlocks the other side of a new terminal; gives its number.
pub fn unlock_terminal(master: BorrowedFd<'_>) -> io::Result<u32> {
    let (unlocked, mut number): (libc::c_int, libc::c_uint) = (0, 0);
    // SAFETY: both calls take a pointer to an integer that lives through them.
    unsafe {
        check(libc::ioctl(master.as_raw_fd(), libc::TIOCSPTLCK, &raw const unlocked))?;
        check(libc::ioctl(master.as_raw_fd(), libc::TIOCGPTN, &raw mut number))?;
    }
    Ok(number)
}

/// Tells a terminal how big its window is.
pub fn set_window_size(terminal: BorrowedFd<'_>, rows: u16, columns: u16) -> io::Result<()> {
    let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the size lives through the call.
    check(unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) }).map(drop)
}

/// A child that ended.
pub struct Reaped {
    /// Its process id.
    pub pid: i32,
    /// Its wait status.
    pub status: i32,
}

impl Reaped {
    /// Exit code and signal, one of them 0.
    pub fn code_signal(&self) -> (i32, i32) {
        if libc::WIFSIGNALED(self.status) {
            (0, libc::WTERMSIG(self.status))
        } else {
            (libc::WEXITSTATUS(self.status), 0)
        }
    }
}

/// Collects a child that has ended, without waiting.
pub fn reap() -> Option<Reaped> {
    let mut status = 0;
    // SAFETY: status is a valid place for the result.
    let pid = unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) };
    (pid > 0).then_some(Reaped { pid, status })
}

/// Makes this process the parent of its orphaned descendants.
pub fn become_subreaper() -> io::Result<()> {
    // SAFETY: prctl with this option takes an integer.
    check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }).map(drop)
}

/// A session of its own, away from the caller's terminal and process group.
pub fn become_session_leader() {
    // SAFETY: setsid takes nothing; it fails only for a process that leads a group already.
    unsafe {
        libc::setsid();
    }
}

/// Blocks SIGCHLD and gives a descriptor that is readable when children have ended. SIGPIPE, SIGHUP, SIGINT and SIGTERM
/// are ignored: a supervisor ends when its job does.
pub fn child_signal_fd() -> io::Result<OwnedFd> {
    // SAFETY: the set lives through the calls; signalfd gives a new descriptor that nobody else owns.
    unsafe {
        for number in [libc::SIGPIPE, libc::SIGHUP, libc::SIGINT, libc::SIGTERM] {
            libc::signal(number, libc::SIG_IGN);
        }
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGCHLD);
        check(libc::sigprocmask(libc::SIG_BLOCK, &set, ptr::null_mut()))?;
        let fd = check(libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// The child is killed when the thread that starts it ends, and starts with default signals and an empty mask.
pub fn die_with_parent(command: &mut Command) {
    let parent = std::process::id();
    // SAFETY: the closure calls only async-signal-safe functions and allocates nothing.
    unsafe {
        command.pre_exec(move || {
            check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0))?;
            if libc::getppid() as u32 != parent {
                libc::_exit(1);
            }
            for number in [libc::SIGPIPE, libc::SIGHUP, libc::SIGINT, libc::SIGTERM] {
                libc::signal(number, libc::SIG_DFL);
            }
            let mut none = std::mem::zeroed();
            libc::sigemptyset(&mut none);
            check(libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut()))?;
            Ok(())
        });
    }
}

/// Runs `act` with a user's file system identity: path permissions are checked as the user's. This thread only.
pub fn as_user<T>(uid: u32, gid: u32, groups: &[u32], act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    /// Restores the identity, also when `act` panics.
    struct Back(u32, u32, Vec<libc::gid_t>);
    impl Drop for Back {
        fn drop(&mut self) {
            // SAFETY: plain integers and a live slice; these are the values that held before.
            unsafe {
                libc::setfsuid(self.0);
                libc::setfsgid(self.1);
                libc::syscall(libc::SYS_setgroups, self.2.len(), self.2.as_ptr());
            }
        }
    }
    // SAFETY: getgroups fills a buffer of the length it is told. The raw setgroups changes this thread alone, as the
    // two setfs calls do. setfsuid reports through its next call whether it took effect.
    let back = unsafe {
        let count = check(libc::getgroups(0, ptr::null_mut()))?;
        let mut old = vec![0; count as usize];
        check(libc::getgroups(count, old.as_mut_ptr()))?;
        if libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) < 0 {
            return Err(io::Error::last_os_error());
        }
        let old_gid = libc::setfsgid(gid) as u32;
        Back(libc::setfsuid(uid) as u32, old_gid, old)
    };
    // SAFETY: setfsuid and setfsgid with -1 change nothing and tell the present value.
    let took = unsafe { libc::setfsuid(u32::MAX) as u32 == uid && libc::setfsgid(u32::MAX) as u32 == gid };
    let result = if took { act() } else { Err(io::ErrorKind::PermissionDenied.into()) };
    drop(back);
    result
}

/// Sets an extended attribute, not following a link.
pub fn set_xattr(path: &Path, name: &str, value: &[u8]) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let name = CString::new(name)?;
    // SAFETY: both strings end in NUL and the value is a live slice of that length.
    check(unsafe { libc::lsetxattr(path.as_ptr(), name.as_ptr(), value.as_ptr().cast(), value.len(), 0) }).map(drop)
}

/// Whether a path has an extended attribute; a link is not followed.
pub fn has_xattr(path: &Path, name: &str) -> bool {
    let (Ok(path), Ok(name)) = (CString::new(path.as_os_str().as_bytes()), CString::new(name)) else { return false };
    // SAFETY: both strings end in NUL; with size 0 nothing is written.
    unsafe { libc::lgetxattr(path.as_ptr(), name.as_ptr(), ptr::null_mut(), 0) >= 0 }
}

/// Opens a file below `root` as if `root` were `/`: no link leads out of it.
pub fn open_in_root(root: &Path, path: &Path) -> io::Result<std::fs::File> {
    let dir = std::fs::File::open(root)?;
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: an all-zero open_how is valid; the pointer and size are those of a live one; the descriptor is new.
    unsafe {
        let mut how: libc::open_how = std::mem::zeroed();
        how.flags = (libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK) as u64;
        how.resolve = libc::RESOLVE_IN_ROOT | libc::RESOLVE_NO_MAGICLINKS;
        let size = std::mem::size_of::<libc::open_how>();
        let fd = libc::syscall(libc::SYS_openat2, dir.as_raw_fd(), path.as_ptr(), &raw const how, size);
        let fd = check(fd as libc::c_int)?;
        Ok(std::fs::File::from_raw_fd(fd))
    }
}
