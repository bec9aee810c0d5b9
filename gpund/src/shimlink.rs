//! The wire between gpund and `gpund-shim`: JSON lines over `shim.sock` in the job's folder.
//!
//! On every connection the shim first sends [`Event::Phase`]; it sends it again at each change. The connection closes
//! after `Phase::Ended`, when `exit.json` is on disk and the shim leaves; when it closes without that, look at
//! [`crate::recover::inspect`]. Requests carry a number that the [`Event::Done`] names. Any number of connections.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::phase::{Phase, Usage};

/// From gpund to the shim; one JSON line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Chosen by the caller, comes back in [`Event::Done`].
    pub seq: u64,
    /// What to do.
    pub act: Act,
}

/// What the shim is asked to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// Send a signal. SIGKILL to [`Target::All`] is [`Act::Kill`].
    Signal {
        /// The signal's number.
        signal: i32,
        /// To whom.
        to: Target,
    },
    /// Append a text to the script's standard error, as Slurm does with
    /// `slurmstepd-n1: error: *** JOB 7 ON n1 CANCELLED AT ... ***`.
    Notice {
        /// With its line feed.
        text: String,
    },
    /// SIGKILL to everything in the job's cgroup, and to what it forks meanwhile. Also ends a launch in the making.
    Kill,
    /// Stop all processes of the job, or let them go on.
    Freeze {
        /// Stop them.
        on: bool,
    },
    /// What it has used so far.
    Usage,
}

/// Who gets a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// The batch script's own process (`scancel --batch`, `--signal=B:`).
    Script,
    /// The script's process group: the script and what it started in the foreground.
    Group,
    /// Every process in the container but its process 1.
    All,
}

/// From the shim to gpund; one JSON line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// How far it is.
    Phase(Phase),
    /// A request was carried out.
    Done {
        /// The request's number.
        seq: u64,
        /// Why it was not; none: it was.
        error: Option<String>,
        /// The answer to [`Act::Usage`].
        usage: Option<Usage>,
    },
}

/// Path to connect to, short enough for a socket address whatever the folder's length: keep `dir` open meanwhile.
pub fn socket_path(dir: &std::fs::File) -> std::path::PathBuf {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}/{SOCKET}", dir.as_raw_fd()).into()
}

/// The socket's name in the job's folder.
pub const SOCKET: &str = "shim.sock";

/// A blocking connection to a shim. gpund itself speaks the same lines asynchronously.
pub struct ShimClient {
    reader: BufReader<UnixStream>,
    seq: u64,
}

impl ShimClient {
    /// Connects to the shim of that job folder. Fails with `NotFound` or `ConnectionRefused` when there is none (yet).
    pub fn connect(job_dir: &Path) -> io::Result<Self> {
        let dir = std::fs::File::open(job_dir)?;
        let stream = UnixStream::connect(socket_path(&dir))?;
        Ok(Self { reader: BufReader::new(stream), seq: 0 })
    }

    /// Fails reads with `WouldBlock` after that long.
    pub fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.reader.get_ref().set_read_timeout(Some(timeout))
    }

    /// Sends a request and gives its number.
    pub fn send(&mut self, act: Act) -> io::Result<u64> {
        self.seq += 1;
        let mut line = serde_json::to_vec(&Request { seq: self.seq, act })?;
        line.push(b'\n');
        self.reader.get_mut().write_all(&line)?;
        Ok(self.seq)
    }

    /// The next event; none: the shim closed.
    pub fn next_event(&mut self) -> io::Result<Option<Event>> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(0) => Ok(None),
            Ok(_) => Ok(Some(serde_json::from_str(&line)?)),
            Err(e) if e.kind() == io::ErrorKind::ConnectionReset => Ok(None),
            Err(e) => Err(e),
        }
    }
}
