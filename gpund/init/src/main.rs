//! Process 1 of every container: runs the batch script, reaps, forwards signals, reports the exit.
//!
//! It reads `/.gpun/task`, opens the script's streams inside the container (a descriptor from outside would make the
//! container impossible to checkpoint), starts the script in a session of its own, and then sleeps in `sigwaitinfo`.
//! When the script is over it kills what is left, writes `/.gpun/exit` and ends.

mod raw;
mod step;

use std::ffi::CString;
use std::io;
use std::os::fd::RawFd;

use gpun_init::{End, Order, READY, RUN_DIR, SIGNAL_IO, Task};
use raw::Reaped;
use step::Steps;

fn main() {
    let _ = raw::block_signals();
    write_start(READY);
    let end = match std::fs::read(format!("{RUN_DIR}/task")) {
        Ok(bytes) => match Task::decode(&bytes) {
            Ok(task) => run(&task),
            Err(bad) => failed(format!("the task file is damaged at byte {}", bad.0)),
        },
        Err(e) => failed(format!("cannot read the task file: {}", text(&e))),
    };
    write_end(&end);
}

fn failed(reason: String) -> End {
    End { signal: SIGNAL_IO, reason, ..End::default() }
}

/// Written over blocks that exist already, in one call: the reader looks only after this process is gone.
fn write_end(end: &End) {
    write_start(&end.encode());
}

/// Writes at the beginning of `/.gpun/exit`.
fn write_start(bytes: &[u8]) {
    if let Ok(fd) = c_string(format!("{RUN_DIR}/exit").as_bytes()).and_then(|p| raw::open(&p, libc::O_WRONLY, 0)) {
        let _ = raw::write_all(fd, bytes);
        raw::close(fd);
    }
}

fn run(task: &Task) -> End {
    raw::umask(task.umask);
    let chdir_problem = enter(&task.work_dir);
    let streams = match open_streams(task) {
        Ok(streams) => streams,
        Err(reason) => return failed(reason),
    };
    if let Some(problem) = chdir_problem {
        complain(streams[2], task, &problem);
    }
    let script = match (!task.hold).then(|| raw::fork(|| become_script(task, streams))).transpose() {
        Ok(pid) => pid,
        Err(e) => return failed(format!("cannot fork: {}", text(&e))),
    };
    let (code, signal) = raw::split_status(supervise(script, streams[2]));
    kill_the_rest();
    End { code, signal, max_rss_kib: raw::max_rss_kib(), reason: String::new() }
}

/// Slurm's way: a work directory that cannot be entered is `/tmp`, with a word about it.
fn enter(work_dir: &[u8]) -> Option<String> {
    let result = c_string(work_dir).and_then(|dir| raw::chdir(&dir));
    let error = result.err()?;
    let _ = raw::chdir(c"/tmp").or_else(|_| raw::chdir(c"/"));
    let dir = String::from_utf8_lossy(work_dir);
    Some(format!("couldn't chdir to `{dir}': {}: going to /tmp instead", text(&error)))
}

/// Opens the three streams, after the inherited ones were replaced: they lead out of the container.
fn open_streams(task: &Task) -> Result<[RawFd; 3], String> {
    let null = raw::open(c"/dev/null", libc::O_RDWR, 0).map_err(|e| format!("cannot open /dev/null: {}", text(&e)))?;
    for fd in 0..3 {
        raw::dup_to(null, fd).map_err(|e| text(&e))?;
    }
    let how = libc::O_WRONLY | libc::O_CREAT | if task.append { libc::O_APPEND } else { libc::O_TRUNC };
    let stdin = open_stream("stdin", &task.stdin, libc::O_RDONLY)?;
    let stdout = open_stream("stdout", &task.stdout, how)?;
    let stderr = if task.stderr == task.stdout { stdout } else { open_stream("stderr", &task.stderr, how)? };
    Ok([stdin, stdout, stderr])
}

/// Missing folders of an output file are made, as Slurm does.
fn open_stream(name: &str, path: &[u8], flags: i32) -> Result<RawFd, String> {
    let attempt = || c_string(path).and_then(|p| raw::open(&p, flags, 0o666));
    let mut result = attempt();
    if flags & libc::O_CREAT != 0 && matches!(&result, Err(e) if e.raw_os_error() == Some(libc::ENOENT)) {
        make_parents(path);
        result = attempt();
    }
    result.map_err(|e| format!("could not open {name} file {}: {}", String::from_utf8_lossy(path), text(&e)))
}

fn make_parents(path: &[u8]) {
    for (i, _) in path.iter().enumerate().filter(|&(i, &b)| i > 0 && b == b'/') {
        if let Ok(dir) = c_string(&path[..i]) {
            let _ = raw::mkdir(&dir, 0o777);
        }
    }
}

/// In the child. Comes back, with the exit code, only when the script cannot be executed.
fn become_script(task: &Task, streams: [RawFd; 3]) -> i32 {
    raw::fresh_session();
    for (fd, from) in (0..).zip(streams) {
        if raw::dup_to(from, fd).is_err() {
            return libc::EBADF;
        }
    }
    let mut env = task.env.clone();
    for problem in temporary_folder(&mut env) {
        complain(2, task, &problem);
    }
    let strings = |list: &[Vec<u8>]| list.iter().map(|s| c_string(s)).collect::<io::Result<Vec<_>>>();
    let (Ok(argv), Ok(env)) = (strings(&task.argv), strings(&env)) else {
        complain(2, task, "execve(): an argument or a variable holds a NUL byte");
        return libc::EINVAL;
    };
    // Last, since a small NOFILE or AS would hit the lines above.
    for &(resource, soft) in &task.rlimits {
        raw::soft_limit(resource, soft);
    }
    let error = raw::exec(&argv, &env);
    complain(2, task, &exec_problem(&task.argv[0], &error));
    error.raw_os_error().unwrap_or(1)
}

/// The user's `TMPDIR` is made if it is missing, as Slurm does; where it cannot be, `/tmp` takes its place, with a word about it.
fn temporary_folder(env: &mut [Vec<u8>]) -> Vec<String> {
    use std::os::unix::ffi::OsStrExt;
    let Some(entry) = env.iter_mut().find(|entry| entry.starts_with(b"TMPDIR=")) else { return Vec::new() };
    let folder = &entry[b"TMPDIR=".len()..];
    let name = String::from_utf8_lossy(folder).into_owned();
    let problem = match c_string(folder).and_then(|path| raw::mkdir(&path, 0o700)) {
        Ok(()) => return Vec::new(),
        Err(error) if error.raw_os_error() != Some(libc::EEXIST) => {
            format!("Unable to create TMPDIR [{name}]: {}", text(&error))
        }
        Err(_) if std::path::Path::new(std::ffi::OsStr::from_bytes(folder)).is_dir() => return Vec::new(),
        Err(_) => format!("TMPDIR [{name}] is not a directory"),
    };
    *entry = b"TMPDIR=/tmp".to_vec();
    vec![problem, "Setting TMPDIR to /tmp".to_owned()]
}

/// The kernel says ENOENT for a missing interpreter too; then it is the interpreter that the user must hear about.
fn exec_problem(program: &[u8], error: &io::Error) -> String {
    let name = String::from_utf8_lossy(program);
    let interpreter = (error.raw_os_error() == Some(libc::ENOENT)).then(|| interpreter(program)).flatten();
    match interpreter {
        Some(i) => format!("execve(): bad interpreter({i}): {}", text(error)),
        None => format!("execve(): {name}: {}", text(error)),
    }
}

fn interpreter(program: &[u8]) -> Option<String> {
    use std::os::unix::ffi::OsStrExt;
    let script = std::fs::read(std::ffi::OsStr::from_bytes(program)).ok()?;
    let line = script.strip_prefix(b"#!")?.split(|&b| b == b'\n').next()?;
    let mut words = line.split(|&b| b == b' ' || b == b'\t').filter(|w| !w.is_empty());
    Some(String::from_utf8_lossy(words.next()?).into_owned())
}

/// Sleeps until the script is over; gives its wait status. Without a script, until the job is told to end and nothing runs.
fn supervise(script: Option<i32>, stderr: RawFd) -> i32 {
    let order_signal = raw::order_signal();
    let mut steps = Steps::default();
    let mut ending = false;
    loop {
        let arrived = raw::next_signal();
        match arrived.number {
            libc::SIGCHLD => match collect(script, &mut steps) {
                Collected { script: Some(status), .. } => return status,
                Collected { nothing_left: true, .. } if ending => return 0,
                _ => {}
            },
            // The job's own processes may signal process 1 too; only the outside gives orders.
            _ if !arrived.from_outside => {}
            n if n == order_signal => {
                let Some(order) = arrived.value.and_then(Order::decode) else { continue };
                obey(order, script, stderr, &mut steps);
                ending |= script.is_none() && order == Order::All(libc::SIGTERM as u8);
                if ending && collect(script, &mut steps).nothing_left {
                    return 0;
                }
            }
            n @ (libc::SIGHUP | libc::SIGINT | libc::SIGQUIT | libc::SIGTERM | libc::SIGUSR1 | libc::SIGUSR2) => {
                script.iter().for_each(|script| signal_group(*script, n as u8));
            }
            _ => {}
        }
    }
}

/// What a look at the children gave.
struct Collected {
    /// The script's status, if it has ended.
    script: Option<i32>,
    /// There are no children any more.
    nothing_left: bool,
}

/// Collects every child that has ended.
fn collect(script: Option<i32>, steps: &mut Steps) -> Collected {
    let mut found = None;
    loop {
        match raw::reap(false) {
            Reaped::Child(pid, status, _) if Some(pid) == script => found = Some(status),
            Reaped::Child(pid, status, used) => steps.ended(pid, status, used),
            Reaped::None => return Collected { script: found, nothing_left: false },
            Reaped::NoChildren => return Collected { script: found, nothing_left: true },
        }
    }
}

fn obey(order: Order, script: Option<i32>, stderr: RawFd, steps: &mut Steps) {
    match order {
        Order::Script(signal) => {
            let _ = script.is_some_and(|script| raw::kill(script, signal));
        }
        Order::Group(signal) => script.iter().for_each(|script| signal_group(*script, signal)),
        Order::Start(number) => steps.start(number),
        Order::All(signal) => {
            let _ = raw::kill(-1, signal);
        }
        Order::Notice => {
            if let Ok(notice) = std::fs::read(format!("{RUN_DIR}/notice")) {
                let _ = raw::write_all(stderr, &notice);
            }
        }
    }
}

/// A child that has not made its session yet has no group, but keeps a signal pending until it is ready for it.
fn signal_group(script: i32, signal: u8) {
    if !raw::kill(-script, signal) {
        raw::kill(script, signal);
    }
}

/// One `kill(-1)` is complete: the kernel lets no fork finish in a process that has a signal pending.
fn kill_the_rest() {
    if matches!(raw::reap(false), Reaped::NoChildren) {
        return;
    }
    let _ = raw::kill(-1, libc::SIGKILL as u8);
    while !matches!(raw::reap(true), Reaped::NoChildren) {}
}

fn complain(fd: RawFd, task: &Task, what: &str) {
    let node = String::from_utf8_lossy(&task.node);
    let _ = raw::write_all(fd, format!("slurmstepd-{node}: error: {what}\n").as_bytes());
}

fn c_string(bytes: &[u8]) -> io::Result<CString> {
    CString::new(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

/// The system's words for an error, without Rust's `(os error N)`.
fn text(error: &io::Error) -> String {
    let full = error.to_string();
    full.split(" (os error").next().unwrap_or_default().to_owned()
}
