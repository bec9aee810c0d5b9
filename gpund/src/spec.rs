//! What a launch is: everything that the per-job supervisor needs to know, as one file, `launch.json`.
//!
//! gpund writes it (see [`crate::jobdir::JobDir::prepare`]), `gpund-shim` reads it. Paths are final: patterns such as
//! `%j` are expanded before.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::raw::RawText;

/// One attempt of one job on this node. Serialised as `launch.json` in the job's folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaunchSpec {
    /// The job's id.
    pub job_id: u32,
    /// Which attempt of the job: `(job_id, attempt)` is unique for ever.
    pub attempt: u32,
    /// This node's name; also the host name inside.
    pub node_name: String,
    /// Who it runs as.
    pub identity: Identity,
    /// Where the script starts. When it cannot be entered, the script starts in `/tmp` with a warning in its output.
    pub work_dir: RawText,
    /// The script's arguments, without the script itself.
    pub args: Vec<RawText>,
    /// The whole environment of the script as `NAME=value`; nothing is inherited from gpund.
    pub env: Vec<RawText>,
    /// The script's standard streams.
    pub stdio: Stdio,
    /// File mode creation mask of the script.
    pub umask: u32,
    /// Soft limits, clamped to the node's hard ones.
    pub rlimits: Vec<Rlimit>,
    /// What the container may use.
    pub limits: Limits,
    /// The container's root file system.
    pub root: Root,
    /// Further binds, applied in this order after the root's own.
    pub mounts: Vec<Mount>,
    /// Parent of the job's cgroup, absolute in every hierarchy and unique to the node, such as `/gpun_c1_n1`.
    pub cgroup_parent: String,
    /// The OCI runtime.
    pub runc: PathBuf,
    /// `runc --root`: a folder of the node's own.
    pub runc_root: PathBuf,
    /// The node's folder for what its jobs share: unpacked images, root skeletons. Made when missing.
    pub share: PathBuf,
    /// The static `gpun-init` as written by [`crate::embed::install_init`].
    pub init: PathBuf,
}

/// The submitting user. Numbers, as the submit host authenticated them: no name is looked up here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
    /// Supplementary group ids.
    pub groups: Vec<u32>,
    /// Login name, for messages.
    pub user_name: String,
    /// Home directory.
    pub home: RawText,
}

/// The script's standard streams; opened inside the container, as the user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stdio {
    /// Standard input.
    pub stdin: RawText,
    /// Standard output.
    pub stdout: RawText,
    /// Standard error; the same path as `stdout` shares its descriptor.
    pub stderr: RawText,
    /// What happens to files that exist.
    pub open_mode: OpenMode,
}

/// What happens to an output file that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OpenMode {
    /// It is emptied first.
    Truncate,
    /// It grows.
    Append,
}

/// One soft resource limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rlimit {
    /// The name without `RLIMIT_`, upper case: `NOFILE`, `STACK`, `CORE`, ...
    pub name: String,
    /// The soft limit in the limit's own unit; `u64::MAX` is unlimited.
    pub soft: u64,
}

/// What the container may use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// CPUs; none: no limit and the default weight.
    pub cpu: Option<CpuLimit>,
    /// Memory with swap in MiB; none: unlimited.
    pub memory_mib: Option<u64>,
    /// Most processes and threads.
    pub pids_max: Option<u32>,
}

/// CPUs of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuLimit {
    /// How many CPUs: the weight among the node's jobs.
    pub count: u32,
    /// Whether `count` CPUs are also the most it gets. False on a virtual node whose CPUs are only stated.
    pub quota: bool,
    /// The CPUs it is bound to, as `0-3,8`; none: any. Only where the CPUs are real.
    pub list: Option<String>,
}

/// The container's root file system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Root {
    /// The host's `/usr /bin /sbin /lib* /etc /opt` read-only, a private `/tmp` and `/var/tmp`, the user's home, the work
    /// directory and the folders of the output files.
    Host {
        /// Host folders bound writable at their own path when they exist, such as `/home` and `/scratch`.
        writable: Vec<PathBuf>,
    },
    /// An image from a local file.
    Image(ImageRoot),
}

/// A root file system made from an image. The defaults are those of Pyxis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImageRoot {
    /// An OCI layout folder, an `oci-archive` tarball or a `docker save` tarball; tarballs may be gzipped.
    pub path: PathBuf,
    /// Which image, when the layout or archive holds several: its tag or `org.opencontainers.image.ref.name`.
    pub tag: Option<String>,
    /// The manifest (OCI) or config (`docker save`) digest that it must have, as `sha256:...`.
    pub digest: Option<String>,
    /// The root file system cannot be written.
    pub read_only: bool,
    /// The image's entrypoint is started with the script as its argument.
    pub entrypoint: bool,
    /// The user's home is bound writable.
    pub mount_home: bool,
    /// Where the script starts; none: the image's working directory, else `/`.
    pub work_dir: Option<RawText>,
    /// Variables for which the job's value wins over the image's.
    pub env_override: Vec<String>,
}

/// A bind of a host file or folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mount {
    /// On the host, absolute.
    pub source: RawText,
    /// In the container, absolute.
    pub target: RawText,
    /// Whether it is read-only.
    pub read_only: bool,
    /// A missing source is skipped, not an error.
    pub optional: bool,
    /// The user asked for it: it is refused when that user cannot reach the source.
    pub by_user: bool,
}

impl LaunchSpec {
    /// The container's id in `runc_root`.
    pub fn container_id(&self) -> String {
        format!("job_{}.{}", self.job_id, self.attempt)
    }

    /// The job's cgroup in every hierarchy, absolute: `<cgroup_parent>/job_<id>`. The attempt is no part of it: two
    /// attempts of one job never run at once on a node, and scripts read the job's id from it.
    pub fn cgroup(&self) -> String {
        format!("{}/job_{}", self.cgroup_parent.trim_end_matches('/'), self.job_id)
    }
}
