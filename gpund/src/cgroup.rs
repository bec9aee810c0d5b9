//! Control groups, version 1 (each controller mounted apart) and version 2, as found at run time.
//!
//! The runtime makes a job's groups and sets the limits; here they are read, killed and removed.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::phase::Usage;
use crate::sys::{Sys, ensure_dirs, gone_is_fine};

/// One mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// Where it is mounted.
    pub mount: PathBuf,
    /// Its controllers; empty for version 2.
    pub controllers: Vec<String>,
}

/// The mounted hierarchies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroups {
    v1: Vec<Hierarchy>,
    v2: Option<PathBuf>,
}

impl Cgroups {
    /// Looks at this process's mounts.
    pub fn detect(sys: &dyn Sys) -> io::Result<Self> {
        let mounts = sys.read(Path::new("/proc/self/mountinfo"))?;
        Ok(Self::parse(&String::from_utf8_lossy(&mounts)))
    }

    /// Reads `/proc/PID/mountinfo`. A hierarchy mounted twice counts once, at its first place.
    pub fn parse(mountinfo: &str) -> Self {
        let mut found = Self { v1: Vec::new(), v2: None };
        for line in mountinfo.lines() {
            let Some((left, right)) = line.split_once(" - ") else { continue };
            let (Some(mount), mut right) = (left.split(' ').nth(4), right.split(' ')) else { continue };
            let mount = PathBuf::from(unescape(mount));
            match right.next() {
                Some("cgroup2") if found.v2.is_none() => found.v2 = Some(mount),
                Some("cgroup") => {
                    let options = right.nth(1).unwrap_or_default();
                    let controllers: Vec<String> = options
                        .split(',')
                        .filter(|o| !matches!(*o, "rw" | "ro" | "xattr" | "clone_children"))
                        .filter(|o| !o.starts_with("release_agent="))
                        .map(str::to_owned)
                        .collect();
                    if !found.v1.iter().any(|h| h.controllers == controllers) {
                        found.v1.push(Hierarchy { mount, controllers });
                    }
                }
                _ => {}
            }
        }
        found
    }

    /// Whether limits go through version 2: no controller is mounted the old way.
    pub fn is_v2(&self) -> bool {
        self.v2.is_some() && !self.v1.iter().any(|h| h.controllers.iter().any(|c| c == "memory" || c == "cpu"))
    }

    /// Folder of a group in every hierarchy. `group` is absolute.
    pub fn folders(&self, group: &str) -> Vec<PathBuf> {
        let mounts = self.v1.iter().map(|h| &h.mount).chain(&self.v2);
        mounts.map(|m| m.join(group.trim_start_matches('/'))).collect()
    }

    /// Folder of a group in the hierarchy that has that controller; none: not mounted.
    pub fn folder(&self, controller: &str, group: &str) -> Option<PathBuf> {
        let v1 = self.v1.iter().find(|h| h.controllers.iter().any(|c| c == controller)).map(|h| &h.mount);
        let mount = v1.or(self.v2.as_ref().filter(|_| self.is_v2()))?;
        Some(mount.join(group.trim_start_matches('/')))
    }

    /// Whether memory with swap can be limited.
    pub fn can_limit_swap(&self, sys: &dyn Sys) -> bool {
        self.is_v2()
            || self.folder("memory", "/").is_some_and(|f| sys.kind(&f.join("memory.memsw.limit_in_bytes")).is_ok())
    }

    /// Takes this process out of the service that started it: a service manager that stops gpund by its group must not
    /// stop the jobs. `parent` is the node's own group. Outside a service nothing is done.
    pub fn leave_service(&self, sys: &dyn Sys, parent: &str) -> io::Result<()> {
        let own = sys.read(Path::new("/proc/self/cgroup"))?;
        let Some(mount) = self.service_mount(&String::from_utf8_lossy(&own)) else { return Ok(()) };
        let folder = mount.join(parent.trim_start_matches('/')).join("shims");
        ensure_dirs(sys, &folder)?;
        sys.write(&folder.join("cgroup.procs"), b"0")
    }

    /// The hierarchy in which the service manager keeps the group of a process, if that is a service's.
    fn service_mount(&self, proc_cgroup: &str) -> Option<&Path> {
        let mut lines = proc_cgroup.lines().filter_map(|l| l.split_once(':')?.1.split_once(':'));
        lines.find_map(|(controllers, group)| {
            let service = group.split('/').any(|part| part.ends_with(".service") || part.ends_with(".scope"));
            let mount = match controllers {
                "" => self.v2.as_ref(),
                name => self.v1.iter().find(|h| h.controllers == [name]).map(|h| &h.mount),
            };
            let managed = controllers == "name=systemd" || (controllers.is_empty() && self.is_v2());
            mount.filter(|_| service && managed).map(PathBuf::as_path)
        })
    }

    /// What a group used so far. Files that are not there count as 0.
    pub fn usage(&self, sys: &dyn Sys, group: &str) -> Usage {
        let read = |controller: &str, file: &str| {
            let text = self.folder(controller, group).and_then(|f| sys.read(&f.join(file)).ok()).unwrap_or_default();
            String::from_utf8_lossy(&text).into_owned()
        };
        if self.is_v2() {
            let cpu = read("cpu", "cpu.stat");
            return Usage {
                max_rss_kib: number(&read("memory", "memory.peak")) / 1024,
                user_us: field(&cpu, "user_usec"),
                sys_us: field(&cpu, "system_usec"),
            };
        }
        Usage {
            max_rss_kib: number(&read("memory", "memory.max_usage_in_bytes")) / 1024,
            user_us: number(&read("cpuacct", "cpuacct.usage_user")) / 1000,
            sys_us: number(&read("cpuacct", "cpuacct.usage_sys")) / 1000,
        }
    }

    /// How many processes of a group the kernel killed for want of memory.
    pub fn oom_kills(&self, sys: &dyn Sys, group: &str) -> u64 {
        let file = if self.is_v2() { "memory.events" } else { "memory.oom_control" };
        let text = self.folder("memory", group).and_then(|f| sys.read(&f.join(file)).ok()).unwrap_or_default();
        field(&String::from_utf8_lossy(&text), "oom_kill")
    }

    /// Stops every process of a group and of those below it, or lets them go on.
    ///
    /// # Errors
    /// No freezer is mounted, or the group does not exist.
    pub fn freeze(&self, sys: &dyn Sys, group: &str, on: bool) -> io::Result<()> {
        let folder = self.folder("freezer", group);
        let folder = folder.ok_or_else(|| io::Error::other("the kernel's freezer is not mounted"))?;
        match (self.is_v2(), on) {
            (true, true) => sys.write(&folder.join("cgroup.freeze"), b"1"),
            (true, false) => sys.write(&folder.join("cgroup.freeze"), b"0"),
            (false, true) => sys.write(&folder.join("freezer.state"), b"FROZEN"),
            (false, false) => sys.write(&folder.join("freezer.state"), b"THAWED"),
        }
    }

    /// SIGKILL to every process of a group and of those below it, until none is left. A process that the kernel cannot
    /// end within `patience` (a hung file server) is an error that names it.
    pub fn kill(&self, sys: &dyn Sys, group: &str, patience: Duration) -> io::Result<()> {
        let folders = self.folders(group);
        let frozen: Option<PathBuf> = self.folder("freezer", group).filter(|_| !self.is_v2());
        let mut waited = Duration::ZERO;
        let mut pause = Duration::from_micros(200);
        loop {
            if let Some(v2) = folders.last().filter(|_| self.v2.is_some()) {
                // One write, complete also against forks (kernel 5.14).
                let _ = sys.write(&v2.join("cgroup.kill"), b"1");
            }
            let pids = processes(sys, &folders);
            if pids.is_empty() {
                return Ok(());
            }
            if waited >= patience {
                let list: Vec<String> = pids.iter().map(i32::to_string).collect();
                return Err(io::Error::other(format!("processes do not die: {}", list.join(" "))));
            }
            // Frozen, none of them can fork while the list is worked off.
            let freeze = |state: &[u8]| frozen.as_ref().map(|f| sys.write(&f.join("freezer.state"), state));
            let _ = freeze(b"FROZEN");
            for pid in processes(sys, &folders) {
                let _ = sys.kill(pid, libc::SIGKILL);
            }
            let _ = freeze(b"THAWED");
            sys.pause(pause);
            waited += pause;
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    /// Removes a group in which nothing is left, which is what a job's end mostly finds. False: something is, or was.
    pub fn remove_idle(&self, sys: &dyn Sys, group: &str) -> bool {
        self.folders(group).iter().all(|folder| gone_is_fine(sys.remove_dir(folder)).is_ok())
    }

    /// Removes a group and those below it from every hierarchy. It must have no process; for the moment that the kernel
    /// takes to forget the last one, it is tried again.
    pub fn remove(&self, sys: &dyn Sys, group: &str) -> io::Result<()> {
        let mut result = Ok(());
        for folder in self.folders(group) {
            for attempt in 0u32.. {
                match remove_below(sys, &folder) {
                    Err(e) if e.raw_os_error() == Some(libc::EBUSY) && attempt < 200 => {
                        sys.pause(Duration::from_millis(u64::from(attempt.min(10))));
                    }
                    other => {
                        result = result.and(other);
                        break;
                    }
                }
            }
        }
        result
    }
}

/// The processes of these groups and of those below them, each once.
fn processes(sys: &dyn Sys, folders: &[PathBuf]) -> Vec<i32> {
    let mut pids = Vec::new();
    for folder in folders {
        collect(sys, folder, &mut pids);
    }
    pids.sort_unstable();
    pids.dedup();
    pids
}

fn collect(sys: &dyn Sys, folder: &Path, pids: &mut Vec<i32>) {
    let Ok(text) = sys.read(&folder.join("cgroup.procs")) else { return };
    pids.extend(String::from_utf8_lossy(&text).lines().filter_map(|l| l.parse::<i32>().ok()).filter(|&p| p > 0));
    for child in children(sys, folder) {
        collect(sys, &child, pids);
    }
}

fn children(sys: &dyn Sys, folder: &Path) -> Vec<PathBuf> {
    sys.list_dirs(folder).unwrap_or_default().into_iter().map(|n| folder.join(n)).collect()
}

fn remove_below(sys: &dyn Sys, folder: &Path) -> io::Result<()> {
    match gone_is_fine(sys.remove_dir(folder)) {
        // Only a group with groups in it needs the walk.
        Err(e) if e.raw_os_error() == Some(libc::EBUSY) || e.raw_os_error() == Some(libc::ENOTEMPTY) => {
            for child in children(sys, folder) {
                remove_below(sys, &child)?;
            }
            gone_is_fine(sys.remove_dir(folder))
        }
        other => other,
    }
}

/// The first number in a text; 0: none.
fn number(text: &str) -> u64 {
    text.trim().parse().unwrap_or(0)
}

/// The number after a name in a flat keyed file; 0: none.
fn field(text: &str, name: &str) -> u64 {
    let value = text.lines().filter_map(|l| l.split_once(' ')).find(|(key, _)| *key == name);
    value.map_or(0, |(_, value)| number(value))
}

/// Undoes the octal escapes of mountinfo: `\040` is a blank.
pub fn unescape(text: &str) -> String {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = (first == b'\\').then(|| after.get(..3)).flatten();
        let byte = code.and_then(|c| std::str::from_utf8(c).ok()).and_then(|c| u8::from_str_radix(c, 8).ok());
        out.push(byte.unwrap_or(first));
        rest = if byte.is_some() { &after[3..] } else { after };
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::record::Record;

    const V1: &str = "30 25 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
        31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
        32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
        33 30 0:28 / /somewhere/else rw - cgroup cgroup rw,memory\n\
        34 30 0:29 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n\
        35 30 0:30 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,release_agent=/x,name=systemd\n\
        36 30 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    const V2: &str = "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn the_layout_is_found() {
        let rows: [(&str, bool, &[&str], Option<&str>); 4] = [
            (V1, false, &["/cpu,cpuacct", "/memory", "/freezer", "/systemd", "/unified"], Some("/memory")),
            (V2, true, &[""], Some("")),
            ("", false, &[], None),
            ("30 25 0:26 / /x rw cgroup2\nrubbish - \n - cgroup\n", false, &[], None),
        ];
        for (text, v2, mounts, memory) in rows {
            let found = Cgroups::parse(text);
            let at = |m: &&str| PathBuf::from(format!("/sys/fs/cgroup{m}/n1/job_7"));
            assert_eq!(found.is_v2(), v2, "{text}");
            assert_eq!(found.folders("/n1/job_7"), mounts.iter().map(at).collect::<Vec<_>>());
            assert_eq!(found.folder("memory", "/n1/job_7"), memory.as_ref().map(at));
        }
        let blank = Cgroups::parse("30 25 0:26 / /a\\040b rw - cgroup2 none rw\n");
        assert_eq!(blank.folders("/x"), [PathBuf::from("/a b/x")]);
    }

    #[test]
    fn usage_and_oom_are_read_in_both_versions() {
        let v1 = Record::with(&[
            ("/sys/fs/cgroup/memory/j/memory.max_usage_in_bytes", "2097152\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/j/cpuacct.usage_user", "1500000\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/j/cpuacct.usage_sys", "999\n"),
            ("/sys/fs/cgroup/memory/j/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"),
        ]);
        let v2 = Record::with(&[
            ("/sys/fs/cgroup/j/memory.peak", "2097152\n"),
            ("/sys/fs/cgroup/j/cpu.stat", "usage_usec 1510\nuser_usec 1500\nsystem_usec 0\nnr_periods 0\n"),
            ("/sys/fs/cgroup/j/memory.events", "low 0\nhigh 0\nmax 9\noom 4\noom_kill 3\noom_group_kill 0\n"),
        ]);
        let full = Usage { max_rss_kib: 2048, user_us: 1500, sys_us: 0 };
        let none = Record::default();
        let rows = [
            (V1, &v1, full, 3),
            (V2, &v2, full, 3),
            (V1, &none, Usage::default(), 0),
            (V2, &none, Usage::default(), 0),
        ];
        for (text, sys, usage, kills) in rows {
            let cgroups = Cgroups::parse(text);
            assert_eq!(cgroups.usage(sys, "/j"), usage);
            assert_eq!(cgroups.oom_kills(sys, "/j"), kills);
        }
    }

    #[test]
    fn all_are_frozen_killed_and_thawed_in_version_1() {
        let sys = Record::with(&[
            ("/sys/fs/cgroup/memory/j/cgroup.procs", "11\n12\n"),
            ("/sys/fs/cgroup/memory/j/step_0/cgroup.procs", "13\n"),
            ("/sys/fs/cgroup/freezer/j/cgroup.procs", "11\n"),
        ]);
        Cgroups::parse(V1).kill(&sys, "/j", Duration::from_secs(1)).unwrap();
        let mut acts = sys.acts.borrow().clone();
        acts.retain(|a| !a.contains("cgroup.kill"));
        let freezer = "write /sys/fs/cgroup/freezer/j/freezer.state";
        let expected = [format!("{freezer} FROZEN"), "kill -9 11".into(), "kill -9 12".into(), "kill -9 13".into()];
        assert_eq!(acts[..4], expected);
        assert_eq!(acts[4], format!("{freezer} THAWED"));
    }

    #[test]
    fn all_are_stopped_in_both_versions() {
        let rows = [
            (V1, true, "write /sys/fs/cgroup/freezer/j/freezer.state FROZEN"),
            (V1, false, "write /sys/fs/cgroup/freezer/j/freezer.state THAWED"),
            (V2, true, "write /sys/fs/cgroup/j/cgroup.freeze 1"),
            (V2, false, "write /sys/fs/cgroup/j/cgroup.freeze 0"),
        ];
        for (mounts, on, want) in rows {
            let sys = Record::with(&[
                ("/sys/fs/cgroup/freezer/j/freezer.state", "THAWED\n"),
                ("/sys/fs/cgroup/j/cgroup.freeze", "0\n"),
            ]);
            Cgroups::parse(mounts).freeze(&sys, "/j", on).unwrap();
            assert_eq!(*sys.acts.borrow(), [want]);
        }
        assert!(Cgroups::parse("").freeze(&Record::default(), "/j", true).is_err());
    }

    #[test]
    fn what_does_not_die_is_named() {
        let stubborn = Record::with(&[("/sys/fs/cgroup/j/cgroup.procs", "11\n")]);
        *stubborn.fail.borrow_mut() = Some(("kill -9".into(), libc::EPERM));
        let error = Cgroups::parse(V2).kill(&stubborn, "/j", Duration::from_millis(5)).unwrap_err();
        assert_eq!(error.to_string(), "processes do not die: 11");
        assert!(stubborn.acts.borrow().contains(&"write /sys/fs/cgroup/j/cgroup.kill 1".to_owned()));
    }

    #[test]
    fn groups_are_removed_from_the_inside_out() {
        let sys = Record::with(&[("/sys/fs/cgroup/j/step_0/cgroup.procs", ""), ("/sys/fs/cgroup/j/cgroup.procs", "")]);
        // A group with groups in it is busy.
        *sys.fail.borrow_mut() = Some(("rmdir /sys/fs/cgroup/j".into(), libc::EBUSY));
        assert!(Cgroups::parse(V2).remove(&sys, "/j").is_err(), "everything is busy");
        *sys.fail.borrow_mut() = None;
        Cgroups::parse(V2).remove(&sys, "/j").unwrap();
        assert_eq!(sys.acts.borrow().last().unwrap(), "rmdir /sys/fs/cgroup/j");
        Cgroups::parse(V2).remove(&sys, "/j").unwrap();
    }

    #[test]
    fn a_service_is_left_and_nothing_else() {
        let rows = [
            (V2, "0::/system.slice/gpund.service\n", Some("/sys/fs/cgroup")),
            (V2, "0::/user.slice/session-1.scope\n", Some("/sys/fs/cgroup")),
            (V2, "0::/\n", None),
            (
                V1,
                "4:memory:/system.slice/gpund.service\n1:name=systemd:/system.slice/gpund.service\n0::/\n",
                Some("/sys/fs/cgroup/systemd"),
            ),
            (V1, "4:memory:/a\n1:name=systemd:/\n0::/\n", None),
            (V1, "rubbish", None),
        ];
        for (mounts, own, expected) in rows {
            assert_eq!(Cgroups::parse(mounts).service_mount(own), expected.map(Path::new), "{own}");
        }
        let sys = Record::with(&[("/proc/self/cgroup", "0::/system.slice/gpund.service\n"), ("/sys/fs/cgroup/x", "")]);
        Cgroups::parse(V2).leave_service(&sys, "/n1").unwrap();
        let expected = ["mkdir /sys/fs/cgroup/n1/shims 755", "write /sys/fs/cgroup/n1/shims/cgroup.procs 0"];
        assert_eq!(*sys.acts.borrow(), expected);
    }
}
