//! The OCI bundle's `config.json`, pure: the same input gives the same bytes.
//!
//! It is kept small, since the runtime parses it twice and every mount costs about 0.1 ms: what the job itself needs
//! (arguments, environment, streams) goes to `gpun-init` in the task file instead.

use std::path::Path;

use serde_json::{Value, json};

use crate::hostroot::Bind;
use crate::spec::{LaunchSpec, Limits};

/// What the configuration needs beyond the launch itself.
#[derive(Debug)]
pub struct Parts<'a> {
    /// The root file system's folder on the host.
    pub rootfs: &'a Path,
    /// Whether the root itself is read-only.
    pub read_only: bool,
    /// All binds, in order.
    pub binds: &'a [Bind],
    /// The host limits memory with swap.
    pub limit_swap: bool,
    /// The host's groups are version 2; there the container sees its own under `/sys/fs/cgroup` for one mount, in
    /// version 1 it would take one for each controller.
    pub cgroup_v2: bool,
    /// Out-of-memory score of the container, when the daemon's own must not be inherited.
    pub oom_score_adj: Option<i32>,
}

/// A path or value cannot stand in `config.json`.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("the path {0} is not UTF-8, which no OCI runtime can bind; rename it")]
pub struct NotUtf8(pub String);

/// `config.json`.
pub fn config(spec: &LaunchSpec, parts: &Parts<'_>) -> Result<Vec<u8>, NotUtf8> {
    let id = &spec.identity;
    // Empty sets: with no_new_privs nothing in the container can ever hold one. Root's own jobs do with files and processes
    // what root expects; mounting, devices, raw sockets and tracing have no place in a batch job.
    let held: &[&str] = if id.uid == 0 { &ROOT_CAPABILITIES } else { &[] };
    let mut process = json!({
        "user": {"uid": id.uid, "gid": id.gid, "additionalGids": id.groups},
        "args": ["/.gpun/init"],
        // HOME spares the runtime a search through the container's passwd file.
        "env": ["PATH=/usr/bin:/bin", "HOME=/"],
        "cwd": "/",
        "capabilities": {"bounding": held, "effective": held, "permitted": held, "inheritable": [], "ambient": []},
        "noNewPrivileges": true,
    });
    if let Some(score) = parts.oom_score_adj {
        process["oomScoreAdj"] = score.into();
    }
    let mut config = json!({
        "ociVersion": "1.0.2",
        "process": process,
        "root": {"path": text(parts.rootfs)?, "readonly": parts.read_only},
        "hostname": spec.node_name,
        "mounts": mounts(parts)?,
        "linux": {
            "cgroupsPath": spec.cgroup(),
            "resources": resources(&spec.limits, parts.limit_swap),
            // No network namespace: a batch job uses the node's network, as in Slurm.
            "namespaces": [{"type": "pid"}, {"type": "mount"}, {"type": "ipc"}, {"type": "uts"}],
            "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/acpi", "/proc/scsi", "/sys/firmware"],
            "readonlyPaths": ["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs"],
        },
    });
    if id.uid != 0 {
        // Who is not root can neither read nor write these anyway.
        config["linux"]["maskedPaths"] = json!(["/proc/keys", "/proc/timer_list"]);
        config["linux"]["readonlyPaths"] = json!([]);
    }
    config["linux"]["seccomp"] = seccomp();
    Ok(config.to_string().into_bytes())
}

fn mounts(parts: &Parts<'_>) -> Result<Vec<Value>, NotUtf8> {
    let mut mounts = vec![
        json!({"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"]}),
        json!({"destination": "/dev", "type": "tmpfs", "source": "tmpfs",
               "options": ["nosuid", "strictatime", "mode=755", "size=64k"]}),
        json!({"destination": "/dev/pts", "type": "devpts", "source": "devpts",
               "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"]}),
        // As large as the host's: the job's memory limit counts it.
        json!({"destination": "/dev/shm", "type": "tmpfs", "source": "shm",
               "options": ["nosuid", "noexec", "nodev", "mode=1777"]}),
        json!({"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["nosuid", "noexec", "nodev", "ro"]}),
    ];
    if parts.cgroup_v2 {
        mounts.push(json!({"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup",
                           "options": ["nosuid", "noexec", "nodev", "relatime", "ro"]}));
    }
    for bind in parts.binds {
        let options: &[&str] = match (bind.recursive, bind.read_only) {
            (false, false) => &["bind"],
            (false, true) => &["bind", "ro"],
            (true, false) => &["rbind"],
            // `ro` alone leaves what is mounted below writable.
            (true, true) => &["rbind", "rro"],
        };
        mounts.push(json!({"destination": text(&bind.target)?, "type": "bind", "source": text(&bind.source)?,
                           "options": options}));
    }
    Ok(mounts)
}

fn resources(limits: &Limits, limit_swap: bool) -> Value {
    // The runtime itself allows null, zero, full, random, urandom, tty, ptmx and pts beside what is allowed here.
    let mut resources = json!({"devices": [{"allow": false, "access": "rwm"}]});
    if let Some(mib) = limits.memory_mib {
        let bytes = i64::try_from(mib.saturating_mul(1 << 20)).unwrap_or(i64::MAX);
        resources["memory"] = json!({"limit": bytes});
        if limit_swap {
            // Memory and swap together: no swap beyond the limit.
            resources["memory"]["swap"] = bytes.into();
        }
    }
    if let Some(cpu) = &limits.cpu {
        let count = u64::from(cpu.count.max(1));
        resources["cpu"] = json!({"shares": (count * 1024).min(262_144)});
        if cpu.quota {
            resources["cpu"]["period"] = 100_000.into();
            resources["cpu"]["quota"] = (count * 100_000).into();
        }
        if let Some(list) = &cpu.list {
            resources["cpu"]["cpus"] = list.as_str().into();
        }
    }
    if let Some(max) = limits.pids_max {
        resources["pids"] = json!({"limit": max});
    }
    resources
}

/// What a job that root submitted may do beyond its files: those of other users, and becoming one.
const ROOT_CAPABILITIES: [&str; 9] = [
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_NET_BIND_SERVICE",
    "CAP_SETGID",
    "CAP_SETPCAP",
    "CAP_SETUID",
];

/// Denied with EPERM: what no capability guards fully and no batch job needs. Keyrings are not kept apart by namespaces;
/// the others are favourite ways into a kernel.
fn seccomp() -> Value {
    json!({
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{
            "names": ["add_key", "keyctl", "request_key", "bpf", "userfaultfd", "kexec_load", "kexec_file_load",
                      "init_module", "finit_module", "delete_module", "open_by_handle_at"],
            "action": "SCMP_ACT_ERRNO",
        }],
    })
}

fn text(path: &Path) -> Result<&str, NotUtf8> {
    path.to_str().ok_or_else(|| NotUtf8(path.display().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::tests::spec;
    use crate::spec::CpuLimit;

    fn made(spec: &LaunchSpec, binds: &[Bind], limit_swap: bool, cgroup_v2: bool) -> Value {
        let rootfs = Path::new("/share/roots/x");
        let parts = Parts { rootfs, read_only: true, binds, limit_swap, cgroup_v2, oom_score_adj: None };
        serde_json::from_slice(&config(spec, &parts).unwrap()).unwrap()
    }

    #[test]
    fn the_job_is_the_user_without_any_privilege() {
        for uid in [7001, 0] {
            let mut spec = spec();
            spec.identity.uid = uid;
            let config = made(&spec, &[], true, false);
            assert_eq!(config["process"]["user"], json!({"uid": uid, "gid": 7001, "additionalGids": [7001, 7100]}));
            assert_eq!(config["process"]["noNewPrivileges"], true);
            let held = if uid == 0 { json!(ROOT_CAPABILITIES) } else { json!([]) };
            for (set, held) in [("bounding", &held), ("effective", &held), ("permitted", &held)] {
                assert_eq!(&config["process"]["capabilities"][set], held);
            }
            for set in ["inheritable", "ambient"] {
                assert_eq!(config["process"]["capabilities"][set], json!([]));
            }
            assert_eq!(config["linux"]["resources"]["devices"], json!([{"allow": false, "access": "rwm"}]));
            assert_eq!(config["linux"]["cgroupsPath"], "/n1/job_7");
            let kinds: Vec<&Value> =
                config["linux"]["namespaces"].as_array().unwrap().iter().map(|n| &n["type"]).collect();
            assert_eq!(kinds, ["pid", "mount", "ipc", "uts"]);
            assert_eq!(config["linux"]["readonlyPaths"].as_array().unwrap().is_empty(), uid != 0);
        }
    }

    #[test]
    fn limits_are_what_was_asked_for() {
        let cpu = |count, quota, list: Option<&str>| CpuLimit { count, quota, list: list.map(str::to_owned) };
        let rows = [
            (Limits::default(), true, json!({})),
            (
                Limits { cpu: Some(cpu(2, false, None)), memory_mib: Some(100), pids_max: Some(9) },
                true,
                json!({"cpu": {"shares": 2048}, "memory": {"limit": 104_857_600, "swap": 104_857_600}, "pids": {"limit": 9}}),
            ),
            (
                Limits { cpu: Some(cpu(3, true, Some("0-2"))), memory_mib: Some(u64::MAX), pids_max: None },
                false,
                json!({"cpu": {"shares": 3072, "period": 100_000, "quota": 300_000, "cpus": "0-2"},
                       "memory": {"limit": i64::MAX}}),
            ),
            (Limits { cpu: Some(cpu(0, false, None)), ..Limits::default() }, true, json!({"cpu": {"shares": 1024}})),
            (
                Limits { cpu: Some(cpu(1000, false, None)), ..Limits::default() },
                true,
                json!({"cpu": {"shares": 262_144}}),
            ),
        ];
        for (limits, swap, mut expected) in rows {
            expected["devices"] = json!([{"allow": false, "access": "rwm"}]);
            assert_eq!(resources(&limits, swap), expected);
        }
    }

    #[test]
    fn binds_follow_the_kernels_own_mounts_in_order() {
        let bind =
            |read_only, recursive| Bind { source: "/s".into(), target: "/t".into(), read_only, recursive, pin: false };
        let rows = [
            (bind(true, false), json!(["bind", "ro"])),
            (bind(false, false), json!(["bind"])),
            (bind(true, true), json!(["rbind", "rro"])),
            (bind(false, true), json!(["rbind"])),
        ];
        for (bind, options) in rows {
            let config = made(&spec(), &[bind], true, false);
            let mounts = config["mounts"].as_array().unwrap();
            assert_eq!(mounts.last().unwrap()["options"], options);
            assert_eq!(mounts.len(), 6);
        }
        assert!(made(&spec(), &[], true, true)["mounts"].to_string().contains("/sys/fs/cgroup"));
        use std::os::unix::ffi::OsStrExt;
        let source = Path::new(std::ffi::OsStr::from_bytes(b"/\xff"));
        let odd = Bind { source: source.into(), target: "/t".into(), read_only: false, recursive: false, pin: false };
        let parts = Parts {
            rootfs: Path::new("/"),
            read_only: true,
            binds: &[odd],
            limit_swap: true,
            cgroup_v2: false,
            oom_score_adj: None,
        };
        assert!(config(&spec(), &parts).unwrap_err().to_string().contains("not UTF-8"));
    }
}
