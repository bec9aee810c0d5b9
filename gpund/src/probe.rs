//! What this machine has, unless it is stated: CPUs, memory, temporary disk; and how loaded it is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use gpun_core::node::{GresInventory, Inventory};
use gpun_core::{MemoryMib, TimeMs};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::sys::statvfs::statvfs;
use nix::sys::utsname::uname;
use nix::unistd::Pid;
use thiserror::Error;

/// Sizes that are stated rather than found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stated {
    /// CPUs.
    pub cpus: Option<u32>,
    /// Sockets.
    pub sockets: Option<u32>,
    /// Cores of a socket.
    pub cores: Option<u32>,
    /// Threads of a core.
    pub threads: Option<u32>,
    /// Memory in MiB.
    pub memory_mib: Option<u64>,
    /// Temporary disk in MiB.
    pub tmp_disk_mib: Option<u64>,
    /// Generic resources.
    pub gres: Vec<GresInventory>,
    /// Features.
    pub features: Vec<String>,
    /// Scheduling weight; lower is used first.
    pub weight: Option<u32>,
}

/// Sockets, cores of each and threads of each core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    sockets: u32,
    cores: u32,
    threads: u32,
}

/// How loaded the machine is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// The load average of the last minute, in hundredths.
    pub load_hundredths: u32,
    /// Memory that is free or can be freed, in MiB.
    pub memory_unused_mib: u64,
}

/// What is wrong with a stated size.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StatedError {
    /// `--cpus` and the shape contradict each other.
    #[error("{cpus} CPUs are not {sockets} sockets of {cores} cores of {threads} threads; give only one of them")]
    Shape {
        /// CPUs.
        cpus: u32,
        /// Sockets.
        sockets: u32,
        /// Cores of a socket.
        cores: u32,
        /// Threads of a core.
        threads: u32,
    },
    /// A node has at least one CPU.
    #[error("a node has at least one CPU and one MiB of memory")]
    Nothing,
    /// Not a resource.
    #[error("{0:?} is no resource; write NAME:COUNT or NAME:TYPE:COUNT[:FILES], such as gpu:a100:4:/dev/nvidia[0-3]")]
    Gres(String),
    /// Files and count differ.
    #[error("{text:?} counts {count} but names {files} files")]
    Files {
        /// What was written.
        text: String,
        /// The count.
        count: u32,
        /// How many files.
        files: usize,
    },
}

/// What this node has. CPU numbers are the machine's own unless CPUs were stated.
///
/// # Errors
/// The stated sizes contradict each other.
pub fn inventory(stated: &Stated) -> Result<Inventory, StatedError> {
    let sizes_stated =
        stated.cpus.is_some() || stated.sockets.is_some() || stated.cores.is_some() || stated.threads.is_some();
    let (cpus, shape) = if sizes_stated { stated_shape(stated)? } else { found_shape(Path::new("/sys")) };
    let memory = stated.memory_mib.unwrap_or_else(|| meminfo(&read("/proc/meminfo"), "MemTotal"));
    if cpus == 0 || memory == 0 {
        return Err(StatedError::Nothing);
    }
    let uname = uname().ok();
    let text = |part: fn(&nix::sys::utsname::UtsName) -> &std::ffi::OsStr| {
        uname.as_ref().map(|uname| part(uname).to_string_lossy().into_owned()).unwrap_or_default()
    };
    let host_name = text(|uname| uname.nodename());
    Ok(Inventory {
        cpus,
        boards: 1,
        sockets: shape.sockets,
        cores_per_socket: shape.cores,
        threads_per_core: shape.threads,
        memory: MemoryMib(memory),
        tmp_disk: MemoryMib(stated.tmp_disk_mib.unwrap_or_else(|| disk_mib(Path::new("/tmp")))),
        gres: stated.gres.clone(),
        features: stated.features.clone(),
        weight: stated.weight.unwrap_or(1),
        address: host_name.clone(),
        host_name,
        os: format!(
            "{} {} {}",
            text(|uname| uname.sysname()),
            text(|uname| uname.release()),
            text(|uname| uname.version())
        ),
        arch: text(|uname| uname.machine()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        boot_time: TimeMs(boot_time_s(&read("/proc/stat")).saturating_mul(1000)),
        daemon_start: now(),
        stated: sizes_stated,
    })
}

/// The machine's own clock.
pub fn now() -> TimeMs {
    TimeMs(SystemTime::now().duration_since(UNIX_EPOCH).map(|time| time.as_millis() as u64).unwrap_or_default())
}

/// How loaded the machine is now.
pub fn health() -> Health {
    let load = read("/proc/loadavg");
    Health {
        load_hundredths: load_hundredths(&load).unwrap_or_default(),
        memory_unused_mib: meminfo(&read("/proc/meminfo"), "MemAvailable"),
    }
}

/// How many CPUs this process may use.
pub fn usable_cpus() -> usize {
    affinity().len().max(1)
}

fn affinity() -> Vec<usize> {
    let set = sched_getaffinity(Pid::from_raw(0)).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect()
}

fn stated_shape(stated: &Stated) -> Result<(u32, Shape), StatedError> {
    let (cores, threads) = (stated.cores.unwrap_or(1), stated.threads.unwrap_or(1));
    let per_socket = cores.saturating_mul(threads);
    let sockets = match (stated.sockets, stated.cpus) {
        (Some(sockets), _) => sockets,
        (None, Some(cpus)) => cpus / per_socket.max(1),
        (None, None) => 1,
    };
    let product = sockets.saturating_mul(per_socket);
    let cpus = stated.cpus.unwrap_or(product);
    if cpus != product {
        return Err(StatedError::Shape { cpus, sockets, cores, threads });
    }
    Ok((cpus, Shape { sockets, cores, threads }))
}

/// CPUs that may be used, and their shape. Where sockets or cores are uneven, the CPUs count as sockets of one core.
fn found_shape(sys: &Path) -> (u32, Shape) {
    let cpus = affinity();
    let count = cpus.len().max(1) as u32;
    let shape = topology(&cpus, |cpu, name| {
        let path = sys.join(format!("devices/system/cpu/cpu{cpu}/topology/{name}"));
        fs::read_to_string(path).ok()?.trim().parse().ok()
    });
    (
        count,
        shape.filter(|s| s.sockets * s.cores * s.threads == count).unwrap_or(Shape {
            sockets: count,
            cores: 1,
            threads: 1,
        }),
    )
}

fn topology(cpus: &[usize], number: impl Fn(usize, &str) -> Option<i32>) -> Option<Shape> {
    let mut sockets: BTreeSet<i32> = BTreeSet::new();
    let mut cores: BTreeMap<(i32, i32), u32> = BTreeMap::new();
    for cpu in cpus {
        let socket = number(*cpu, "physical_package_id")?;
        sockets.insert(socket);
        *cores.entry((socket, number(*cpu, "core_id")?)).or_default() += 1;
    }
    let threads = cores.values().max().copied()?;
    let per_socket = cores.len() / sockets.len().max(1);
    Some(Shape { sockets: sockets.len() as u32, cores: per_socket as u32, threads })
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| {
        tracing::warn!(path, %error, "can't be read");
        String::new()
    })
}

/// A row of `/proc/meminfo`, in MiB; 0: not there.
fn meminfo(text: &str, name: &str) -> u64 {
    let row = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    row.and_then(|row| row.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()).unwrap_or_default() / 1024
}

fn boot_time_s(stat: &str) -> u64 {
    stat.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok()).unwrap_or_default()
}

fn load_hundredths(loadavg: &str) -> Option<u32> {
    let (whole, part) = loadavg.split(' ').next()?.split_once('.')?;
    let part: u32 = format!("{part:0<2}").get(..2)?.parse().ok()?;
    whole.parse::<u32>().ok()?.checked_mul(100)?.checked_add(part)
}

fn disk_mib(path: &Path) -> u64 {
    statvfs(path).map(|disk| disk.blocks().saturating_mul(disk.fragment_size()) >> 20).unwrap_or_default()
}

/// Reads `NAME:COUNT` or `NAME:TYPE:COUNT[:FILES]`; files are separated by commas and may hold one `[FIRST-LAST]`.
///
/// # Errors
/// It is none, or names another number of files than it counts.
pub fn gres(text: &str) -> Result<GresInventory, StatedError> {
    let wrong = || StatedError::Gres(text.to_owned());
    let parts: Vec<&str> = text.splitn(4, ':').collect();
    let (name, kind, count, files) = match *parts.as_slice() {
        [name, count] => (name, None, count, None),
        [name, kind, count] => (name, Some(kind), count, None),
        [name, kind, count, files] => (name, Some(kind), count, Some(files)),
        _ => return Err(wrong()),
    };
    let word = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b));
    if !word(name) || !kind.is_none_or(|kind| kind.is_empty() || word(kind)) {
        return Err(wrong());
    }
    let count: u32 = count.parse().map_err(|_| wrong())?;
    let files = files.map(|files| file_list(files).ok_or_else(wrong)).transpose()?.unwrap_or_default();
    if !files.is_empty() && files.len() != count as usize {
        return Err(StatedError::Files { text: text.to_owned(), count, files: files.len() });
    }
    let kind = kind.filter(|kind| !kind.is_empty()).map(str::to_owned);
    Ok(GresInventory { name: name.to_owned(), kind, count, files })
}

fn file_list(text: &str) -> Option<Vec<String>> {
    const FILES_MAX: u32 = 4096;
    let mut files = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        if !part.starts_with('/') {
            return None;
        }
        let Some((before, rest)) = part.split_once('[') else {
            files.push(part.to_owned());
            continue;
        };
        let (range, behind) = rest.split_once(']')?;
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last < first || last - first >= FILES_MAX {
            return None;
        }
        files.extend((first..=last).map(|number| format!("{before}{number}{behind}")));
    }
    Some(files)
}

#[cfg(test)]
mod tests;
