//! The folder of one launch: names in it, how gpund fills it and starts the supervisor on it.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::phase::{ExitRecord, Running};
use crate::shimlink::{SOCKET, socket_path};
use crate::spec::LaunchSpec;

/// The folder of one `(job, attempt)` on a node. Only root can enter it.
///
/// | name | what |
/// | --- | --- |
/// | `launch.json` | [`LaunchSpec`], written by gpund |
/// | `shim.lock` | locked for as long as the shim lives |
/// | `shim.sock` | see [`crate::shimlink`] |
/// | `shim.log` | what the shim and the runtime had to say; mostly empty |
/// | `bundle/` | the OCI bundle |
/// | `run/` | `/.gpun` of the container: `init`, `script`, `task`, `exit` |
/// | `tmp/`, `vartmp/` | the container's `/tmp` and `/var/tmp` |
/// | `phase.json` | [`Running`] |
/// | `exit.json` | [`ExitRecord`] |
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobDir {
    path: PathBuf,
}

impl JobDir {
    /// The folder at that path, there or not.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Makes the folder with the script and, last, `launch.json`, each by a rename. Repeating it is harmless until the
    /// shim was started.
    pub fn prepare(path: impl Into<PathBuf>, spec: &LaunchSpec, script: &[u8]) -> io::Result<Self> {
        let dir = Self::new(path);
        DirBuilder::new().recursive(true).mode(0o700).create(&dir.path)?;
        DirBuilder::new().recursive(true).mode(0o755).create(dir.run())?;
        // Whatever gpund's umask is, the job must be able to look in.
        fs::set_permissions(dir.run(), fs::Permissions::from_mode(0o755))?;
        replace(&dir.script(), script, 0o500, false)?;
        write_json(&dir.launch(), spec, false)?;
        Ok(dir)
    }

    /// The command that starts the supervisor: its lock and its socket are made here, so that right after `spawn` the
    /// shim can be connected to and counts as alive. It makes a session of its own. Whoever spawns it has to wait for
    /// the child as for any other (`tokio::process::Command::from` does).
    ///
    /// Fails with `WouldBlock` when a shim of this folder lives.
    pub fn shim_command(&self, shim: &Path) -> io::Result<Command> {
        let lock = self.open_lock()?;
        lock.try_lock().map_err(|e| match e {
            TryLockError::Error(e) => e,
            TryLockError::WouldBlock => io::ErrorKind::WouldBlock.into(),
        })?;
        let log = OpenOptions::new().create(true).append(true).mode(0o600).open(self.path.join("shim.log"))?;
        match fs::remove_file(self.path.join(SOCKET)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let dir = File::open(&self.path)?;
        let socket: OwnedFd = UnixListener::bind(socket_path(&dir))?.into();
        let mut command = Command::new(shim);
        command.arg(&self.path).env_clear().current_dir("/");
        command.stdin(Stdio::from(lock)).stdout(Stdio::from(socket)).stderr(Stdio::from(log));
        Ok(command)
    }

    /// Whether a shim of this folder lives.
    pub fn shim_alive(&self) -> io::Result<bool> {
        match self.open_lock()?.try_lock() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(e)) => Err(e),
        }
    }

    /// Takes the shim's lock, so that none can start. None: one lives.
    pub fn lock(&self) -> io::Result<Option<File>> {
        let lock = self.open_lock()?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(lock)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(e)) => Err(e),
        }
    }

    fn open_lock(&self) -> io::Result<File> {
        OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(self.path.join("shim.lock"))
    }

    /// `launch.json`, read.
    pub fn read_launch(&self) -> io::Result<LaunchSpec> {
        read_json(&self.launch())
    }

    /// `phase.json`, read; none: not there.
    pub fn read_running(&self) -> io::Result<Option<Running>> {
        optional(read_json(&self.running()))
    }

    /// `exit.json`, read; none: not there.
    pub fn read_exit(&self) -> io::Result<Option<ExitRecord>> {
        optional(read_json(&self.exit()))
    }

    /// Makes room for `exit.json` before the job can fill the disk.
    pub fn reserve_exit(&self) -> io::Result<()> {
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(self.exit_new())?;
        file.write_all(&[b' '; EXIT_ROOM])
    }

    /// Writes `exit.json` into the room kept for it; it is on disk when this returns.
    pub fn write_exit(&self, exit: &ExitRecord) -> io::Result<()> {
        let json = serde_json::to_vec(exit)?;
        let new = self.exit_new();
        let mut file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&new)?;
        file.write_all(&json)?;
        file.set_len(json.len() as u64)?;
        file.sync_all()?;
        fs::rename(&new, self.exit())?;
        File::open(&self.path)?.sync_all()
    }

    /// Whether a supervisor ever began its work here: it first reserves `exit.json`, and that stays until it is written.
    pub fn is_begun(&self) -> bool {
        self.exit_new().exists() || self.exit().exists()
    }

    fn exit_new(&self) -> PathBuf {
        self.path.join("exit.json.new")
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `launch.json`.
    pub fn launch(&self) -> PathBuf {
        self.path.join("launch.json")
    }

    /// `phase.json`.
    pub fn running(&self) -> PathBuf {
        self.path.join("phase.json")
    }

    /// `exit.json`.
    pub fn exit(&self) -> PathBuf {
        self.path.join("exit.json")
    }

    /// The OCI bundle.
    pub fn bundle(&self) -> PathBuf {
        self.path.join("bundle")
    }

    /// What is bound at `/.gpun`.
    pub fn run(&self) -> PathBuf {
        self.path.join("run")
    }

    /// The batch script's copy.
    pub fn script(&self) -> PathBuf {
        self.path.join("run/script")
    }
}

/// How much room is kept for `exit.json`, in bytes.
const EXIT_ROOM: usize = 4096;

/// Writes a value as JSON by way of a rename. `durable`: it is on disk when this returns.
pub fn write_json<T: Serialize>(path: &Path, value: &T, durable: bool) -> io::Result<()> {
    replace(path, &serde_json::to_vec(value)?, 0o600, durable)
}

fn replace(path: &Path, bytes: &[u8], mode: u32, durable: bool) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    match fs::remove_file(&new) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mut file = OpenOptions::new().create_new(true).write(true).mode(mode).open(&new)?;
    file.write_all(bytes)?;
    if durable {
        file.sync_data()?;
    }
    fs::rename(&new, path)?;
    if durable && let Some(parent) = path.parent() {
        File::open(parent)?.sync_all()?;
    }
    Ok(())
}

fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    serde_json::from_slice(&fs::read(path)?)
        .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {e}", path.display())))
}

fn optional<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}
