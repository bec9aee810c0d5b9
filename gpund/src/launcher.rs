//! From a controller's launch to what the supervisor needs to know.

use std::path::{Path, PathBuf};

use gpun_proto::pb;
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::raw::{RawText, to_hex};
use crate::spec::{CpuLimit, Identity, ImageRoot, LaunchSpec, Limits, Mount, OpenMode, Rlimit, Root, Stdio};

/// What all launches on this node share.
#[derive(Clone, Debug)]
pub struct Site {
    /// This node's name.
    pub node_name: String,
    /// The cluster's folder.
    pub cluster_dir: PathBuf,
    /// This node's folder.
    pub node_dir: PathBuf,
    /// The OCI runtime.
    pub runc: PathBuf,
    /// The installed `gpun-init`.
    pub init: PathBuf,
    /// Host folders that are writable inside.
    pub writable: Vec<PathBuf>,
    /// Most processes and threads of a job.
    pub pids_max: u32,
    /// CPU numbers are not those of the machine.
    pub cpus_stated: bool,
}

/// Why a launch can't be used; another attempt would fail alike.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LaunchError {
    /// The message lacks a part.
    #[error("the controller's launch has no {0}")]
    Missing(&'static str),
    /// A path that has to be absolute is not.
    #[error("{what} {path:?} is not an absolute path")]
    Relative {
        /// Whose.
        what: &'static str,
        /// The path.
        path: String,
    },
    /// A variable without a name.
    #[error("environment entry {0:?} is not NAME=value")]
    Variable(String),
    /// A text with a NUL in it.
    #[error("{0} holds a NUL byte")]
    Nul(&'static str),
}

impl Site {
    /// Parent of all job cgroups of this node: unique on the machine, also among clusters.
    pub fn cgroup_parent(&self) -> String {
        let cluster = to_hex(&Sha256::digest(self.cluster_dir.as_os_str().as_encoded_bytes()));
        let node: String =
            self.node_name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect();
        format!("/gpun_{}_{node}", cluster.get(..8).unwrap_or(&cluster))
    }

    /// The runtime's own folder.
    pub fn runc_root(&self) -> PathBuf {
        self.node_dir.join("runc")
    }

    /// The folder of what jobs share.
    pub fn share(&self) -> PathBuf {
        self.node_dir.join("share")
    }

    /// What is to be started.
    ///
    /// # Errors
    /// The launch is not complete or not sound.
    pub fn spec(&self, launch: &pb::Launch) -> Result<LaunchSpec, LaunchError> {
        let user = launch.user.as_ref().ok_or(LaunchError::Missing("user"))?;
        let texts = [("an argument", &launch.args), ("the environment", &launch.environment)];
        for (what, list) in texts {
            list.iter().try_for_each(|text| no_nul(what, text))?;
        }
        if let Some(bad) =
            launch.environment.iter().find(|text| text.iter().position(|b| *b == b'=').is_none_or(|at| at == 0))
        {
            return Err(LaunchError::Variable(String::from_utf8_lossy(bad).into_owned()));
        }
        Ok(LaunchSpec {
            job_id: launch.job_id,
            attempt: launch.attempt,
            node_name: self.node_name.clone(),
            identity: Identity {
                uid: user.uid,
                gid: user.gid,
                groups: user.groups.clone(),
                user_name: user.name.clone(),
                home: RawText(user.home.clone()),
            },
            work_dir: absolute("the working folder", &launch.work_dir)?,
            args: launch.args.iter().cloned().map(RawText).collect(),
            env: launch.environment.iter().cloned().map(RawText).collect(),
            stdio: Stdio {
                stdin: absolute("standard input", &launch.std_in)?,
                stdout: absolute("standard output", &launch.std_out)?,
                stderr: absolute("standard error", or(&launch.std_err, &launch.std_out))?,
                open_mode: if launch.append { OpenMode::Append } else { OpenMode::Truncate },
            },
            umask: launch.umask & 0o777,
            rlimits: launch.rlimits.iter().filter_map(rlimit).collect(),
            limits: self.limits(&launch.limits.clone().unwrap_or_default()),
            root: self.root(launch.image.as_ref())?,
            mounts: launch.mounts.iter().map(|mount| self.mount(mount)).collect::<Result<_, _>>()?,
            cgroup_parent: self.cgroup_parent(),
            runc: self.runc.clone(),
            runc_root: self.runc_root(),
            share: self.share(),
            init: self.init.clone(),
        })
    }

    fn limits(&self, limits: &pb::Limits) -> Limits {
        let list = Some(limits.cpu_list.clone()).filter(|list| !list.is_empty() && !self.cpus_stated);
        Limits {
            cpu: (limits.cpus > 0).then_some(CpuLimit { count: limits.cpus, quota: !self.cpus_stated, list }),
            memory_mib: (limits.memory_mib > 0).then_some(limits.memory_mib),
            pids_max: Some(self.pids_max),
        }
    }

    fn root(&self, image: Option<&pb::Image>) -> Result<Root, LaunchError> {
        let Some(image) = image else {
            let writable = self.writable.iter().filter(|path| path.is_dir()).cloned().collect();
            return Ok(Root::Host { writable });
        };
        let path = absolute("the container image", image.path.as_bytes())?;
        Ok(Root::Image(ImageRoot {
            path: path.as_path().to_owned(),
            tag: None,
            digest: None,
            read_only: false,
            entrypoint: false,
            mount_home: false,
            work_dir: image.work_dir.as_ref().map(|dir| absolute("the working folder", dir.as_bytes())).transpose()?,
            env_override: Vec::new(),
        }))
    }

    fn mount(&self, mount: &pb::Mount) -> Result<Mount, LaunchError> {
        let source = absolute("a mount's source", &mount.source)?;
        let target = absolute("a mount's target", &mount.target)?;
        // The one mount that the controller adds by itself; all others are the user's and checked as such.
        let ours = mount.optional && mount.read_only && source == target && source.as_path() == self.cluster_dir;
        Ok(Mount { source, target, read_only: mount.read_only, optional: mount.optional, by_user: !ours })
    }
}

fn or<'a>(text: &'a [u8], default: &'a [u8]) -> &'a [u8] {
    if text.is_empty() { default } else { text }
}

fn no_nul(what: &'static str, text: &[u8]) -> Result<(), LaunchError> {
    if text.contains(&0) { Err(LaunchError::Nul(what)) } else { Ok(()) }
}

fn absolute(what: &'static str, path: &[u8]) -> Result<RawText, LaunchError> {
    no_nul(what, path)?;
    let text = RawText(path.to_vec());
    if Path::is_absolute(text.as_path()) { Ok(text) } else { Err(LaunchError::Relative { what, path: text.lossy() }) }
}

/// Names of Linux resource limits, by their numbers.
const RLIMITS: [&str; 16] = [
    "CPU",
    "FSIZE",
    "DATA",
    "STACK",
    "CORE",
    "RSS",
    "NPROC",
    "NOFILE",
    "MEMLOCK",
    "AS",
    "LOCKS",
    "SIGPENDING",
    "MSGQUEUE",
    "NICE",
    "RTPRIO",
    "RTTIME",
];

fn rlimit(limit: &pb::Rlimit) -> Option<Rlimit> {
    let name = RLIMITS.get(limit.resource as usize)?;
    Some(Rlimit { name: (*name).to_owned(), soft: limit.soft })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(cpus_stated: bool) -> Site {
        Site {
            node_name: "n1".into(),
            cluster_dir: "/srv/c1".into(),
            node_dir: "/srv/c1/nodes/n1".into(),
            runc: "/usr/sbin/runc".into(),
            init: "/srv/c1/nodes/n1/gpun-init-0".into(),
            writable: vec!["/".into(), "/not/here".into()],
            pids_max: 100,
            cpus_stated,
        }
    }

    fn launch() -> pb::Launch {
        pb::Launch {
            job_id: 7,
            attempt: 2,
            user: Some(pb::User { uid: 5, gid: 6, groups: vec![6, 9], name: "u".into(), home: b"/home/u".to_vec() }),
            work_dir: b"/w".to_vec(),
            args: vec![b"a".to_vec(), b"\xff".to_vec()],
            environment: vec![b"A=b".to_vec(), b"E=".to_vec()],
            std_in: b"/dev/null".to_vec(),
            std_out: b"/w/o".to_vec(),
            umask: 0o22,
            rlimits: vec![pb::Rlimit { resource: 7, soft: 64 }, pb::Rlimit { resource: 99, soft: 1 }],
            limits: Some(pb::Limits { cpus: 2, cpu_list: "0-1".into(), memory_mib: 50, devices: vec![] }),
            ..pb::Launch::default()
        }
    }

    #[test]
    fn a_launch_becomes_a_spec() {
        let spec = site(false).spec(&launch()).unwrap();
        assert_eq!((spec.job_id, spec.attempt, spec.container_id().as_str()), (7, 2, "job_7.2"));
        assert_eq!(spec.stdio.stderr, RawText::from("/w/o"), "as standard output where none is named");
        assert_eq!(spec.rlimits, [Rlimit { name: "NOFILE".into(), soft: 64 }]);
        assert_eq!(spec.limits.cpu, Some(CpuLimit { count: 2, quota: true, list: Some("0-1".into()) }));
        assert_eq!((spec.limits.memory_mib, spec.limits.pids_max), (Some(50), Some(100)));
        assert_eq!(spec.root, Root::Host { writable: vec!["/".into()] });
        let stated = site(true).spec(&launch()).unwrap();
        assert_eq!(stated.limits.cpu, Some(CpuLimit { count: 2, quota: false, list: None }));
    }

    #[test]
    fn the_cgroup_parent_differs_by_cluster_and_node() {
        let one = site(false);
        let other = Site { cluster_dir: "/srv/c2".into(), ..site(false) };
        let node = Site { node_name: "n/2".into(), ..site(false) };
        assert!(one.cgroup_parent().starts_with("/gpun_") && one.cgroup_parent().ends_with("_n1"));
        assert_ne!(one.cgroup_parent(), other.cgroup_parent());
        assert_eq!(node.cgroup_parent().matches('/').count(), 1);
    }

    #[test]
    fn only_the_clusters_own_folder_goes_unchecked() {
        let mount = |source: &str, target: &str, read_only, optional| pb::Mount {
            source: source.into(),
            target: target.into(),
            read_only,
            optional,
        };
        for (mount, by_user) in [
            (mount("/srv/c1", "/srv/c1", true, true), false),
            (mount("/srv/c1", "/srv/c1", true, false), true),
            (mount("/srv/c1", "/srv/c1", false, true), true),
            (mount("/srv/c1", "/mnt", true, true), true),
            (mount("/etc", "/etc", true, true), true),
        ] {
            let spec = site(false).spec(&pb::Launch { mounts: vec![mount.clone()], ..launch() }).unwrap();
            assert_eq!(spec.mounts[0].by_user, by_user, "{mount:?}");
        }
    }

    #[test]
    fn an_unsound_launch_is_refused_in_words() {
        type Row<'a> = (fn(&mut pb::Launch), &'a str);
        let rows: [Row<'_>; 7] = [
            (|l| l.user = None, "no user"),
            (|l| l.work_dir = b"w".to_vec(), "the working folder \"w\" is not an absolute path"),
            (|l| l.std_out = Vec::new(), "standard output \"\" is not"),
            (|l| l.environment.push(b"=x".to_vec()), "\"=x\" is not NAME=value"),
            (|l| l.environment.push(b"PLAIN".to_vec()), "PLAIN"),
            (|l| l.args.push(b"a\0b".to_vec()), "an argument holds a NUL"),
            (|l| l.image = Some(pb::Image { path: "i.tar".into(), work_dir: None }), "the container image"),
        ];
        for (spoil, words) in rows {
            let mut launch = launch();
            spoil(&mut launch);
            let error = site(false).spec(&launch).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
