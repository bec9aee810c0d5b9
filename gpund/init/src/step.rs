//! Tasks of steps: started by order, each in a session of its own, and told of through a pipe.
//!
//! A line says what became of a task: `start N PID` once it was forked, `open N` when its streams are open and it waits for its
//! byte, `exit N CODE SIGNAL RSS_KIB USER_US SYSTEM_US` at its end. Lines are shorter than what a pipe takes in one piece.

use std::io;
use std::os::fd::RawFd;

use gpun_init::{RUN_DIR, Task};

use crate::raw::{self, Used};
use crate::{c_string, complain, enter, exec_problem, temporary_folder};

/// Tasks that run.
#[derive(Default)]
pub struct Steps {
    live: Vec<Live>,
}

struct Live {
    pid: i32,
    number: u32,
    status: RawFd,
}

impl Steps {
    /// Starts the task of that number. Where its file can't be used there is nobody to tell: who wrote it waits no longer than
    /// its own time.
    pub fn start(&mut self, number: u32) {
        let Ok(bytes) = std::fs::read(format!("{RUN_DIR}/steps/{number}")) else { return };
        let Ok(task) = Task::decode(&bytes) else { return };
        let opened = c_string(&task.status).and_then(|path| raw::open(&path, libc::O_WRONLY | libc::O_NONBLOCK, 0));
        let Ok(status) = opened else { return };
        match raw::fork(|| become_task(&task, number, status)) {
            Ok(pid) => {
                say(status, &format!("start {number} {pid}"));
                self.live.push(Live { pid, number, status });
            }
            Err(error) => {
                say(status, &format!("exit {number} {} 0 0 0 0", error.raw_os_error().unwrap_or(1)));
                raw::close(status);
            }
        }
    }

    /// A child ended; if it was a task, that is told.
    pub fn ended(&mut self, pid: i32, status: i32, used: Used) {
        let Some(at) = self.live.iter().position(|live| live.pid == pid) else { return };
        let live = self.live.swap_remove(at);
        let (code, signal) = raw::split_status(status);
        let Used { max_rss_kib, user_us, system_us } = used;
        say(live.status, &format!("exit {} {code} {signal} {max_rss_kib} {user_us} {system_us}", live.number));
        raw::close(live.status);
    }
}

fn say(status: RawFd, line: &str) {
    let _ = raw::write_all(status, format!("{line}\n").as_bytes());
}

/// In the child. Comes back, with the exit code, only when the program cannot be executed.
fn become_task(task: &Task, number: u32, status: RawFd) -> i32 {
    raw::fresh_session();
    raw::umask(task.umask);
    let opened = if task.terminal.is_empty() { pipes(task) } else { terminal(&task.terminal) };
    if let Err(error) = opened {
        return error.raw_os_error().unwrap_or(1);
    }
    if let Some(problem) = enter(&task.work_dir) {
        complain(2, task, &problem);
    }
    let mut env = task.env.clone();
    for problem in temporary_folder(&mut env) {
        complain(2, task, &problem);
    }
    env.push(format!("SLURM_TASK_PID={}", raw::own_pid()).into_bytes());
    let strings = |list: &[Vec<u8>]| list.iter().map(|s| c_string(s)).collect::<io::Result<Vec<_>>>();
    let (Ok(argv), Ok(variables)) = (strings(&task.argv), strings(&env)) else {
        complain(2, task, "execve(): an argument or a variable holds a NUL byte");
        return libc::EINVAL;
    };
    say(status, &format!("open {number}"));
    if let Ok(go) = c_string(&task.go).and_then(|path| raw::open(&path, libc::O_RDONLY, 0)) {
        raw::read_byte(go);
    }
    for &(resource, soft) in &task.rlimits {
        raw::soft_limit(resource, soft);
    }
    let mut problem = None;
    for path in candidates(&task.argv[0], &env) {
        let Ok(path) = c_string(&path) else { continue };
        let error = raw::exec_at(&path, &argv, &variables);
        // A file that may not be executed is more worth telling of than all the folders that lack it.
        if problem.is_none() || error.raw_os_error() != Some(libc::ENOENT) {
            problem = Some((path, error));
        }
    }
    let (path, error) = problem.unwrap_or_else(|| (c"".into(), io::Error::from_raw_os_error(libc::ENOENT)));
    let found = error.raw_os_error() != Some(libc::ENOENT) || path.as_bytes() == task.argv[0];
    let named = if found { path.as_bytes() } else { &task.argv[0] };
    complain(2, task, &exec_problem(named, &error));
    error.raw_os_error().unwrap_or(1)
}

/// A name without a slash is looked for along `PATH`.
fn candidates(program: &[u8], env: &[Vec<u8>]) -> Vec<Vec<u8>> {
    if program.contains(&b'/') {
        return vec![program.to_vec()];
    }
    let path = env.iter().rev().find_map(|entry| entry.strip_prefix(b"PATH=")).unwrap_or(b"/usr/bin:/bin");
    path.split(|&b| b == b':')
        .map(|folder| {
            let folder = if folder.is_empty() { b"." } else { folder };
            [folder, b"/", program].concat()
        })
        .collect()
}

fn pipes(task: &Task) -> io::Result<()> {
    for (fd, path, flags) in
        [(0, &task.stdin, libc::O_RDONLY), (1, &task.stdout, libc::O_WRONLY), (2, &task.stderr, libc::O_WRONLY)]
    {
        let from = raw::open(&c_string(path)?, flags, 0)?;
        raw::dup_to(from, fd)?;
    }
    Ok(())
}

fn terminal(path: &[u8]) -> io::Result<()> {
    let from = raw::open(&c_string(path)?, libc::O_RDWR, 0)?;
    raw::take_terminal(from)?;
    (0..3).try_for_each(|fd| raw::dup_to(from, fd))
}
