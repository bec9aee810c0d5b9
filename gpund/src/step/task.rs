//! One task of a step: named pipes in the container's `/.gpun/steps`, or a terminal of the container's.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use gpun_init::{RUN_DIR, Task};
use gpun_proto::pb::{StepLaunch, StepTask, WindowSize};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use tokio::net::unix::pipe;

use crate::spec::LaunchSpec;
use crate::sys::raw;

/// Most tasks of a step on one node.
pub const TASKS_MAX: u32 = 4096;

/// The number under which process 1 starts a task; none: the step's number is too high.
pub fn sequence(step: u32, index: u32) -> Option<u32> {
    let number = step.checked_mul(TASKS_MAX)?.checked_add(index)?;
    (index < TASKS_MAX && number < gpun_init::Order::START_MAX).then_some(number)
}

/// The folder of the steps' pipes, inside and outside of the container.
pub struct Place {
    /// On the host.
    pub outside: PathBuf,
    owner: (u32, u32),
    made: Vec<PathBuf>,
}

impl Place {
    /// Makes the folder if it is missing.
    ///
    /// # Errors
    /// It can't be made.
    pub fn make(run: &Path, spec: &LaunchSpec) -> io::Result<Self> {
        let outside = run.join("steps");
        match fs::create_dir(&outside) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        fs::set_permissions(&outside, fs::Permissions::from_mode(0o755))?;
        Ok(Self { outside, owner: (spec.identity.uid, spec.identity.gid), made: Vec::new() })
    }

    /// Makes a pipe that only the job's user may open; gives its path outside and inside.
    ///
    /// # Errors
    /// It can't be made.
    pub fn pipe(&mut self, name: &str) -> io::Result<(PathBuf, Vec<u8>)> {
        let path = self.outside.join(name);
        mkfifo(&path, Mode::from_bits_truncate(0o600))?;
        self.made.push(path.clone());
        chown(&path, Some(self.owner.0), Some(self.owner.1))?;
        Ok((path, format!("{RUN_DIR}/steps/{name}").into_bytes()))
    }

    fn file(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.outside.join(name);
        let mut file = OpenOptions::new().create_new(true).write(true).mode(0o400).open(&path)?;
        self.made.push(path.clone());
        io::Write::write_all(&mut file, bytes)?;
        chown(&path, Some(self.owner.0), Some(self.owner.1))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for path in &self.made {
            // The job's end may have taken it away already.
            let _ = fs::remove_file(path);
        }
    }
}

/// Where a task's bytes go in and come out.
pub enum Ends {
    /// Pipes.
    Pipes {
        /// Standard input; none: it has none.
        input: Option<pipe::Sender>,
        /// Standard output.
        output: pipe::Receiver,
        /// Standard error.
        error: pipe::Receiver,
        /// Held until the task has opened its ends: else its output would seem to have ended.
        keep: Vec<File>,
    },
    /// A terminal's other side.
    Terminal(OwnedFd),
}

/// What the step's tasks have in common.
pub struct Common<'a> {
    /// The job.
    pub spec: &'a LaunchSpec,
    /// What srun wants started.
    pub launch: &'a StepLaunch,
    /// Process 1 of the container, as the host sees it.
    pub init_pid: i32,
    /// The pipe for what becomes of tasks, inside.
    pub status: Vec<u8>,
    /// The pipe on which tasks wait, inside.
    pub go: Vec<u8>,
}

/// Prepares a task: its file for process 1, and its ends.
///
/// # Errors
/// The pipes, the terminal or the file can't be made.
pub fn prepare(place: &mut Place, common: &Common<'_>, asked: &StepTask, sequence: u32) -> io::Result<Ends> {
    let Common { spec, launch, .. } = common;
    let mut task = Task {
        node: spec.node_name.clone().into_bytes(),
        argv: if asked.argv.is_empty() { launch.argv.clone() } else { asked.argv.clone() },
        env: merged(&launch.environment, &asked.environment),
        work_dir: launch.work_dir.clone(),
        umask: launch.umask,
        rlimits: launch.rlimits.iter().map(|limit| (limit.resource, limit.soft)).collect(),
        status: common.status.clone(),
        go: common.go.clone(),
        ..Task::default()
    };
    let ends = match &launch.terminal {
        Some(size) => {
            let (master, inside) = terminal(common, size)?;
            task.terminal = inside;
            Ends::Terminal(master)
        }
        None => pipes(place, &mut task, asked.input, sequence)?,
    };
    place.file(&sequence.to_string(), &task.encode())?;
    Ok(ends)
}

fn pipes(place: &mut Place, task: &mut Task, has_input: bool, sequence: u32) -> io::Result<Ends> {
    let (out_path, out_inside) = place.pipe(&format!("{sequence}.out"))?;
    let (err_path, err_inside) = place.pipe(&format!("{sequence}.err"))?;
    (task.stdout, task.stderr) = (out_inside, err_inside);
    let output = pipe::OpenOptions::new().open_receiver(&out_path)?;
    let error = pipe::OpenOptions::new().open_receiver(&err_path)?;
    let keep =
        [out_path, err_path].map(|path| OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(path));
    let mut keep = keep.into_iter().collect::<io::Result<Vec<_>>>()?;
    task.stdin = b"/dev/null".to_vec();
    let input = has_input
        .then(|| {
            let (path, inside) = place.pipe(&format!("{sequence}.in"))?;
            task.stdin = inside;
            // Input may have ended before the task opens it.
            keep.push(OpenOptions::new().read(true).write(true).open(&path)?);
            pipe::OpenOptions::new().read_write(true).open_sender(path)
        })
        .transpose()?;
    Ok(Ends::Pipes { input, output, error, keep })
}

/// A new terminal among the container's own.
fn terminal(common: &Common<'_>, size: &WindowSize) -> io::Result<(OwnedFd, Vec<u8>)> {
    let devices = PathBuf::from(format!("/proc/{}/root/dev/pts", common.init_pid));
    let master: OwnedFd =
        OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOCTTY).open(devices.join("ptmx"))?.into();
    let number = raw::unlock_terminal(master.as_fd())?;
    resize(&master, size)?;
    let user = &common.spec.identity;
    chown(devices.join(number.to_string()), Some(user.uid), None)?;
    Ok((master, format!("/dev/pts/{number}").into_bytes()))
}

/// Tells a terminal how big its window is.
///
/// # Errors
/// It is gone.
pub fn resize(master: &OwnedFd, size: &WindowSize) -> io::Result<()> {
    let clamp = |n: u32| u16::try_from(n).unwrap_or(u16::MAX);
    raw::set_window_size(master.as_fd(), clamp(size.rows), clamp(size.columns))
}

/// Variables, those of the task in place of the step's.
fn merged(common: &[Vec<u8>], own: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let name = |entry: &[u8]| entry.iter().position(|byte| *byte == b'=').map(|at| entry[..at].to_vec());
    let kept = common.iter().filter(|entry| !own.iter().any(|mine| name(mine) == name(entry)));
    kept.chain(own).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_have_numbers_of_their_own() {
        let rows = [
            ((0, 0), Some(0)),
            ((0, 4095), Some(4095)),
            ((1, 0), Some(4096)),
            ((0, 4096), None),
            ((262_143, 4095), Some((1 << 30) - 1)),
            ((262_144, 0), None),
            ((u32::MAX, 1), None),
        ];
        for ((step, index), right) in rows {
            assert_eq!(sequence(step, index), right, "{step}.{index}");
        }
    }

    #[test]
    fn a_tasks_variables_stand_for_the_steps() {
        let entries = |list: &[&str]| list.iter().map(|entry| entry.as_bytes().to_vec()).collect::<Vec<_>>();
        let all = merged(&entries(&["A=1", "B=2", "bare"]), &entries(&["B=3", "C=4"]));
        assert_eq!(all, entries(&["A=1", "bare", "B=3", "C=4"]));
    }
}
