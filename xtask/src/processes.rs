//! Processes of this machine, read from /proc: to end what hangs and to find what a test left behind.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Process ids of everything started below `root`, children before grandchildren.
pub fn descendants(root: u32) -> Vec<u32> {
    let parents = all().into_iter().filter_map(|pid| Some((pid, parent(&stat(pid)?)?)));
    below(root, &parents.collect())
}

/// Ends processes by SIGKILL, each by its id. One that has ended meanwhile is no error.
pub fn kill(pids: &[u32]) {
    for pid in pids {
        let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
    }
}

/// Processes that run a program from below this folder, with the program's path.
pub fn running_from(folder: &Path) -> BTreeMap<u32, PathBuf> {
    let programs = all().into_iter().filter_map(|pid| Some((pid, fs::read_link(format!("/proc/{pid}/exe")).ok()?)));
    programs.filter(|(_, program)| program.starts_with(folder)).collect()
}

fn all() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn stat(pid: u32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/stat")).ok()
}

/// The parent's id: the second field after the command, which stands in brackets and may hold any character.
fn parent(stat: &str) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

fn below(root: u32, parents: &BTreeMap<u32, u32>) -> Vec<u32> {
    let mut found = vec![root];
    let mut next = 0;
    while next < found.len() {
        let parent = found[next];
        found.extend(parents.iter().filter(|(_, of)| **of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    found.split_off(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_read_whatever_the_command_is_called() {
        for (stat, expected) in
            [("12 (cargo) S 7 12 12 0", Some(7)), ("12 (a) b) (c) R 9 12", Some(9)), ("12 (cut", None), ("", None)]
        {
            assert_eq!(parent(stat), expected, "{stat}");
        }
    }

    #[test]
    fn everything_below_is_found_and_nothing_beside() {
        let parents = BTreeMap::from([(2, 1), (3, 2), (4, 3), (5, 1), (6, 2)]);
        assert_eq!(below(2, &parents), [3, 6, 4]);
        assert_eq!(below(9, &parents), [] as [u32; 0]);
    }

    #[test]
    fn a_child_is_found_and_ended() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep starts");
        let found = descendants(std::process::id());
        assert!(found.contains(&child.id()), "{found:?}");
        kill(&[child.id()]);
        assert!(!child.wait().expect("its status").success());
    }
}
