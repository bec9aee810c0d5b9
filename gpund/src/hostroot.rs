//! The default root file system: the host's programs read-only, a private `/tmp`, and the user's own folders.
//!
//! [`plan`] is pure: from what the host looks like it makes a skeleton (an almost empty folder with all mount points) and
//! the list of binds. Skeletons depend on nothing of the job but the mount points, so jobs share them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::cgroup::unescape;
use crate::sys::Kind;

/// One bind mount in the container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bind {
    /// On the host.
    pub source: PathBuf,
    /// In the container.
    pub target: PathBuf,
    /// Whether it can be written.
    pub read_only: bool,
    /// With what is mounted below the source.
    pub recursive: bool,
    /// The user names the source, or could exchange a folder above it: it is opened as the user and held before the
    /// runtime mounts it, see [`crate::pin`].
    pub pin: bool,
}

impl Bind {
    /// A bind of the node's own choice.
    pub fn plain(source: &Path, target: &Path, read_only: bool) -> Self {
        Self { source: source.into(), target: target.into(), read_only, recursive: false, pin: false }
    }

    /// A bind of what the user names.
    pub fn of_user(source: &Path, target: &Path, read_only: bool) -> Self {
        Self { pin: true, ..Self::plain(source, target, read_only) }
    }
}

/// A path that the job names, as the submitting user reaches it on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reached {
    /// As the job names it, or its nearest folder that is there.
    pub named: PathBuf,
    /// Without symbolic links.
    pub real: PathBuf,
}

/// What the plan needs to know of the host.
#[derive(Clone, Debug, Default)]
pub struct HostFacts {
    /// `(name, what it is)` of [`SYSTEM`] at the host's root; missing ones left out.
    pub system: Vec<(&'static str, Kind)>,
    /// Every mount point of the host.
    pub mount_points: Vec<PathBuf>,
    /// Folders bound writable for all jobs, that are there.
    pub writable: Vec<PathBuf>,
    /// Home and work directory, as far as they can be reached.
    pub folders: Vec<Reached>,
    /// The folders of the standard streams, as far as they can be reached.
    pub stream_folders: Vec<Reached>,
    /// The work directory, if it can be reached.
    pub work_dir: Option<PathBuf>,
    /// Mount targets that come from the launch: `(target, whether it is a folder)`.
    pub targets: Vec<(PathBuf, bool)>,
}

/// What stands in a skeleton.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A folder.
    Dir,
    /// An empty file, as a mount point for one.
    File,
    /// A symbolic link.
    Link(PathBuf),
}

/// The root file system to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPlan {
    /// The skeleton: absolute path in the container → what. Parents stand before children.
    pub skeleton: BTreeMap<PathBuf, Entry>,
    /// No entry comes from this job's own paths: the skeleton is one of few, worth keeping.
    pub shared: bool,
    /// The binds, in order.
    pub binds: Vec<Bind>,
    /// `/tmp` or `/var/tmp` lies under a private folder and a standard stream lies in it: these files are bound one by
    /// one, else the output would vanish with the job.
    pub private_tmp: Vec<PathBuf>,
}

/// What of the host's root a job sees.
pub const SYSTEM: [&str; 9] = ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "opt"];

/// Folders that are always there. Neither is ever bound from the host.
const OWN: [&str; 9] = ["/proc", "/sys", "/dev", "/run", "/tmp", "/var", "/var/tmp", "/.gpun", "/mnt"];

/// Plans it. `tmp` and `var_tmp` are the job's private folders.
pub fn plan(facts: &HostFacts, tmp: &Path, var_tmp: &Path) -> HostPlan {
    let mut plan = HostPlan { skeleton: BTreeMap::new(), shared: true, binds: Vec::new(), private_tmp: Vec::new() };
    for own in OWN {
        plan.skeleton.insert(own.into(), Entry::Dir);
    }
    plan.skeleton.insert("/var/run".into(), Entry::Link("/run".into()));
    for (name, kind) in &facts.system {
        let at = Path::new("/").join(name);
        match kind {
            // A bind of what lies behind a link cannot be restored from a checkpoint.
            Kind::Link(to) => plan.enter(&at, Entry::Link(to.clone())),
            Kind::Dir => plan.bind(facts, Bind::plain(&at, &at, true)),
            Kind::File => {}
        }
    }
    for (at, private) in [("/tmp", tmp), ("/var/tmp", var_tmp)] {
        let at = Path::new(at);
        // Whoever works in /tmp wants that one.
        let source = if facts.work_dir.as_deref() == Some(at) { at } else { private };
        plan.binds.push(Bind::plain(source, at, false));
        if source == private && facts.stream_folders.iter().any(|f| f.real == at) {
            plan.private_tmp.push(at.into());
        }
    }
    for folder in &facts.writable {
        plan.bind(facts, Bind::plain(folder, folder, false));
    }
    for (target, is_dir) in &facts.targets {
        if !plan.binds.iter().any(|b| target.starts_with(&b.target)) {
            plan.enter(target, if *is_dir { Entry::Dir } else { Entry::File });
        }
    }
    let known = plan.skeleton.clone();
    for folder in facts.folders.iter().chain(&facts.stream_folders) {
        plan.user_folder(facts, folder);
    }
    plan.shared = plan.skeleton == known;
    plan.binds.sort_by_key(|b| b.target.components().count());
    plan
}

impl HostPlan {
    fn user_folder(&mut self, facts: &HostFacts, folder: &Reached) {
        if !may_bind(&folder.real) {
            return;
        }
        if !self.binds.iter().any(|b| !b.read_only && same_place(b, &folder.real)) {
            self.bind(facts, Bind::of_user(&folder.real, &folder.real, false));
        }
        // Through a link that the container does not see: the folder appears under both names.
        let shown = |b: &Bind| same_place(b, &folder.named) || b.target == folder.named;
        if folder.named != folder.real && !self.binds.iter().any(shown) {
            self.bind(facts, Bind::of_user(&folder.real, &folder.named, false));
        }
    }

    fn bind(&mut self, facts: &HostFacts, bind: Bind) {
        if !self.binds.iter().any(|b| bind.target.starts_with(&b.target)) {
            self.enter(&bind.target, Entry::Dir);
        }
        let recursive = facts.mount_points.iter().any(|m| *m != bind.source && m.starts_with(&bind.source));
        self.binds.push(Bind { recursive, ..bind });
    }

    fn enter(&mut self, target: &Path, what: Entry) {
        for parent in target.ancestors().skip(1).filter(|p| p.parent().is_some()) {
            self.skeleton.entry(parent.into()).or_insert(Entry::Dir);
        }
        self.skeleton.entry(target.into()).or_insert(what);
    }
}

/// Whether a path shows the same in the container as on the host, because of that bind.
fn same_place(bind: &Bind, path: &Path) -> bool {
    bind.source == bind.target && path.starts_with(&bind.target)
}

/// Whether a user's folder is bound at all. System folders stay read-only also for root, kernel file systems are the
/// container's own, and a private `/tmp` is meant to hide the host's.
fn may_bind(real: &Path) -> bool {
    let system =
        ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/boot", "/proc", "/sys", "/dev"];
    let itself = ["/", "/opt", "/tmp", "/var", "/var/tmp", "/run", "/mnt"];
    !system.iter().any(|s| real.starts_with(s))
        && !itself.iter().any(|s| real == Path::new(s))
        && !real.starts_with("/.gpun")
}

/// The mount points in `/proc/PID/mountinfo`.
pub fn mount_points(mountinfo: &str) -> Vec<PathBuf> {
    mountinfo.lines().filter_map(|l| l.split(' ').nth(4)).map(|m| unescape(m).into()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> HostFacts {
        HostFacts {
            system: vec![("usr", Kind::Dir), ("bin", Kind::Link("usr/bin".into())), ("etc", Kind::Dir)],
            mount_points: vec!["/".into(), "/home".into(), "/home/nfs".into(), "/usr".into()],
            writable: vec!["/home".into()],
            ..HostFacts::default()
        }
    }

    fn reached(named: &str, real: &str) -> Reached {
        Reached { named: named.into(), real: real.into() }
    }

    fn shown(plan: &HostPlan) -> Vec<String> {
        let own = |b: &Bind| !["/usr", "/etc", "/home", "/tmp", "/var/tmp"].iter().any(|t| b.target == Path::new(t));
        let flags = |b: &Bind| match (b.read_only, b.pin) {
            (true, _) => "ro",
            (false, false) => "rw",
            (false, true) => "rw held",
        };
        let show = |b: &Bind| format!("{} {} {}", b.source.display(), b.target.display(), flags(b));
        plan.binds.iter().filter(|b| own(b)).map(show).collect()
    }

    #[test]
    fn the_users_folders_are_bound_once_and_where_they_are_named() {
        // named, real → further binds, whether the skeleton is shared
        let rows: [(&str, &str, &[&str], bool); 9] = [
            ("/home/u", "/home/u", &[], true),
            ("/data/p", "/data/p", &["/data/p /data/p rw held"], false),
            ("/home/u/link", "/data/p", &["/data/p /data/p rw held"], false),
            ("/work", "/data/p", &["/data/p /work rw held", "/data/p /data/p rw held"], false),
            ("/tmp/job", "/tmp/job", &["/tmp/job /tmp/job rw held"], true),
            ("/tmp", "/tmp", &[], true),
            ("/usr/src", "/usr/src", &[], true),
            ("/", "/", &[], true),
            ("/proc/self", "/proc/77", &[], true),
        ];
        for (named, real, binds, shared) in rows {
            let facts = HostFacts { folders: vec![reached(named, real), reached(named, real)], ..facts() };
            let plan = plan(&facts, Path::new("/j/tmp"), Path::new("/j/vartmp"));
            assert_eq!(shown(&plan), binds, "{named}");
            assert_eq!(plan.shared, shared, "{named}");
        }
    }

    #[test]
    fn system_folders_are_read_only_and_links_stay_links() {
        let plan = plan(&facts(), Path::new("/j/tmp"), Path::new("/j/vartmp"));
        let find = |t: &str| plan.binds.iter().find(|b| b.target == Path::new(t)).cloned().unwrap();
        assert!(find("/usr").read_only && find("/etc").read_only && !find("/home").read_only);
        assert!(find("/home").recursive && !find("/usr").recursive);
        assert_eq!(plan.skeleton[Path::new("/bin")], Entry::Link("usr/bin".into()));
        assert_eq!(find("/tmp").source, Path::new("/j/tmp"));
        assert!(plan.skeleton.contains_key(Path::new("/.gpun")));
    }

    #[test]
    fn output_in_tmp_survives_and_a_work_dir_in_tmp_is_the_hosts() {
        let streams = vec![reached("/tmp", "/tmp")];
        let with =
            |work_dir: &str| HostFacts { stream_folders: streams.clone(), work_dir: Some(work_dir.into()), ..facts() };
        let elsewhere = plan(&with("/home/u"), Path::new("/j/tmp"), Path::new("/j/vartmp"));
        assert_eq!(elsewhere.private_tmp, [PathBuf::from("/tmp")]);
        let there = plan(&with("/tmp"), Path::new("/j/tmp"), Path::new("/j/vartmp"));
        assert!(there.private_tmp.is_empty());
        assert!(there.binds.iter().any(|b| b.source == Path::new("/tmp") && b.target == Path::new("/tmp")));
    }

    #[test]
    fn targets_of_mounts_have_their_place() {
        let facts = HostFacts {
            targets: vec![("/run/gpun/ctl.sock".into(), false), ("/home/u/x".into(), true), ("/data".into(), true)],
            ..facts()
        };
        let plan = plan(&facts, Path::new("/j/tmp"), Path::new("/j/vartmp"));
        assert_eq!(plan.skeleton[Path::new("/run/gpun/ctl.sock")], Entry::File);
        assert_eq!(plan.skeleton[Path::new("/run/gpun")], Entry::Dir);
        assert_eq!(plan.skeleton[Path::new("/data")], Entry::Dir);
        assert!(!plan.skeleton.contains_key(Path::new("/home/u/x")), "lies on the host");
        assert!(plan.shared);
    }
}
