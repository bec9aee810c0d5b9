//! The system calls that process 1 needs. The only unsafe code of this crate; every function checks its result.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::RawFd;
use std::ptr;

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn full_set() -> libc::sigset_t {
    // SAFETY: an all-zero sigset_t is a valid value, and sigfillset writes only to it.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigfillset(&mut set);
        set
    }
}

/// Blocks every signal, so that they wait for [`next_signal`].
pub fn block_signals() -> io::Result<()> {
    // SAFETY: the set lives through the call; the old mask is not asked for.
    check(unsafe { libc::sigprocmask(libc::SIG_SETMASK, &full_set(), ptr::null_mut()) }).map(drop)
}

/// A signal that arrived.
pub struct Arrived {
    /// Its number.
    pub number: i32,
    /// Whether it came from outside this pid namespace.
    pub from_outside: bool,
    /// The value queued with it; none: it was not queued with one.
    pub value: Option<i32>,
}

/// Sleeps until a signal arrives.
pub fn next_signal() -> Arrived {
    loop {
        // SAFETY: an all-zero siginfo_t is a valid value that sigwaitinfo fills in; si_pid and si_value are read as
        // sigwaitinfo left them, and are plain integers for each origin.
        unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let number = libc::sigwaitinfo(&full_set(), &mut info);
            if number > 0 {
                let queued = info.si_code == libc::SI_QUEUE;
                return Arrived {
                    number,
                    from_outside: info.si_pid() == 0,
                    value: queued.then(|| info.si_value().sival_ptr as usize as i32),
                };
            }
        }
    }
}

/// A child that ended.
pub enum Reaped {
    /// Its pid, wait status and what it used.
    Child(i32, i32, Used),
    /// Children live, none has ended.
    None,
    /// There are no children.
    NoChildren,
}

/// What a child and those that it waited for used.
#[derive(Clone, Copy, Default)]
pub struct Used {
    /// The biggest process, in KiB.
    pub max_rss_kib: u64,
    /// CPU time in user mode, in microseconds.
    pub user_us: u64,
    /// CPU time in the kernel, in microseconds.
    pub system_us: u64,
}

/// Collects one child. `block`: waits for it.
pub fn reap(block: bool) -> Reaped {
    let mut status = 0;
    loop {
        // SAFETY: an all-zero rusage is valid; both are valid places for the result.
        let (pid, usage) = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            (libc::wait4(-1, &mut status, if block { 0 } else { libc::WNOHANG }, &mut usage), usage)
        };
        let micros = |time: libc::timeval| (time.tv_sec as u64).saturating_mul(1_000_000) + time.tv_usec as u64;
        match pid {
            0 => return Reaped::None,
            1.. => {
                let used = Used {
                    max_rss_kib: u64::try_from(usage.ru_maxrss).unwrap_or(0),
                    user_us: micros(usage.ru_utime),
                    system_us: micros(usage.ru_stime),
                };
                return Reaped::Child(pid, status, used);
            }
            _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            _ => return Reaped::NoChildren,
        }
    }
}

/// Sends a signal. False: there is no such target (any more).
pub fn kill(pid: i32, signal: u8) -> bool {
    // SAFETY: kill takes two integers.
    unsafe { libc::kill(pid, libc::c_int::from(signal)) == 0 }
}

/// Code and signal of a wait status.
pub fn split_status(status: i32) -> (u8, u8) {
    if libc::WIFSIGNALED(status) { (0, libc::WTERMSIG(status) as u8) } else { (libc::WEXITSTATUS(status) as u8, 0) }
}

/// The biggest child so far, in KiB.
pub fn max_rss_kib() -> u64 {
    // SAFETY: an all-zero rusage is valid, getrusage fills it in.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        u64::try_from(usage.ru_maxrss).unwrap_or(0)
    }
}

/// Sets the file mode creation mask.
pub fn umask(mask: u32) {
    // SAFETY: umask takes an integer and cannot fail.
    unsafe {
        libc::umask(mask & 0o777);
    }
}

/// Opens a file that children do not inherit.
pub fn open(path: &CStr, flags: i32, mode: u32) -> io::Result<RawFd> {
    // SAFETY: path ends in NUL and lives through the call.
    check(unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC | libc::O_NOCTTY, mode) })
}

/// Makes a folder.
pub fn mkdir(path: &CStr, mode: libc::mode_t) -> io::Result<()> {
    // SAFETY: path ends in NUL and lives through the call.
    check(unsafe { libc::mkdir(path.as_ptr(), mode) }).map(drop)
}

/// Makes a terminal the controlling one of this session.
pub fn take_terminal(fd: RawFd) -> io::Result<()> {
    // SAFETY: TIOCSCTTY takes an integer.
    check(unsafe { libc::ioctl(fd, libc::TIOCSCTTY, 0) }).map(drop)
}

/// Closes a descriptor of this process's own.
pub fn close(fd: RawFd) {
    // SAFETY: close takes an integer; whoever calls this does not use it again.
    unsafe {
        libc::close(fd);
    }
}

/// Sleeps until one byte was read, or there is none.
pub fn read_byte(fd: RawFd) {
    let mut byte = 0u8;
    // SAFETY: the pointer is that of a live byte.
    while unsafe { libc::read(fd, (&raw mut byte).cast(), 1) } < 0
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
}

/// This process's number.
pub fn own_pid() -> i32 {
    // SAFETY: getpid takes nothing and cannot fail.
    unsafe { libc::getpid() }
}

/// Changes the working directory.
pub fn chdir(path: &CStr) -> io::Result<()> {
    // SAFETY: path ends in NUL and lives through the call.
    check(unsafe { libc::chdir(path.as_ptr()) }).map(drop)
}

/// Makes descriptor `to` a copy of `from` that children inherit.
pub fn dup_to(from: RawFd, to: RawFd) -> io::Result<()> {
    // SAFETY: dup2 takes two integers; both descriptors are this process's own affair.
    check(unsafe { libc::dup2(from, to) }).map(drop)
}

/// Writes all of it, at the descriptor's position.
pub fn write_all(fd: RawFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        // SAFETY: the pointer and the length are those of a live slice.
        let n = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
        match usize::try_from(n) {
            Ok(n) => bytes = bytes.get(n..).unwrap_or(&[]),
            Err(_) if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Err(io::Error::last_os_error()),
        }
    }
    Ok(())
}

/// Lowers or raises a soft limit as far as the hard one allows. One that the kernel refuses stays as it is.
pub fn soft_limit(resource: u32, soft: u64) {
    // SAFETY: limit is a valid place for the result and lives through both calls.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(resource as _, &mut limit) == 0 {
            limit.rlim_cur = soft.min(limit.rlim_max);
            libc::setrlimit(resource as _, &limit);
        }
    }
}

/// Starts `child` in a process of its own; it gives the exit code for the case that it comes back.
pub fn fork(child: impl FnOnce() -> i32) -> io::Result<i32> {
    // SAFETY: this process has one thread, so the child may go on as usual; it never returns from here.
    unsafe {
        match libc::fork() {
            0 => {
                let code = child();
                libc::_exit(code)
            }
            pid => check(pid),
        }
    }
}

/// In the child: a session of its own, no blocked and no ignored signals.
pub fn fresh_session() {
    // The kernel's own call, since glibc's refuses the two signals that it keeps for itself, and somebody above may have
    // ignored those. All zero is the default action, no flags, an empty mask.
    let default = [0u64; 4];
    let set_size = 8;
    // SAFETY: setsid takes nothing; rt_sigaction reads the 32 bytes of `default`; the empty set lives through
    // sigprocmask.
    unsafe {
        libc::setsid();
        for number in 1..=64 {
            libc::syscall(libc::SYS_rt_sigaction, number, default.as_ptr(), ptr::null_mut::<u64>(), set_size);
        }
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut());
    }
}

/// Becomes another program, the first of `argv`; comes back only with the reason why not.
pub fn exec(argv: &[CString], env: &[CString]) -> io::Error {
    match argv.first() {
        Some(program) => exec_at(program, argv, env),
        None => io::Error::from_raw_os_error(libc::EINVAL),
    }
}

/// Becomes the program at `path`; comes back only with the reason why not.
pub fn exec_at(path: &CStr, argv: &[CString], env: &[CString]) -> io::Error {
    let pointers = |list: &[CString]| -> Vec<*const libc::c_char> {
        list.iter().map(|s| s.as_ptr()).chain([ptr::null()]).collect()
    };
    let (argv, env) = (pointers(argv), pointers(env));
    // SAFETY: path ends in NUL, both arrays end in a null pointer, and the strings they point to outlive the call.
    unsafe {
        libc::execve(path.as_ptr(), argv.as_ptr(), env.as_ptr());
    }
    io::Error::last_os_error()
}

/// The number of the signal that carries orders.
pub fn order_signal() -> i32 {
    libc::SIGRTMIN() + gpun_init::Order::RT_OFFSET
}
