//! Names of users and groups, from the machine's own directory, remembered for a while.

use std::{
    collections::HashMap,
    ffi::CString,
    sync::Mutex,
    time::{Duration, Instant},
};

use gpun_core::job::Owner;
use nix::unistd::{Gid, Group, Uid, User, getgrouplist};

/// How long an answer is used again. Short, since group memberships change.
const REMEMBER: Duration = Duration::from_secs(30);
/// The home of users who have none.
const NO_HOME: &str = "/";

/// The directory of users.
#[derive(Default)]
pub struct Users {
    known: Mutex<HashMap<(u32, u32), (Instant, Owner)>>,
}

impl Users {
    /// The owner, if it was looked up a moment ago.
    pub fn remembered(&self, uid: u32, gid: u32) -> Option<Owner> {
        let known = self.known.lock().ok()?;
        let (at, owner) = known.get(&(uid, gid))?;
        (at.elapsed() < REMEMBER).then(|| owner.clone())
    }

    /// The owner that the kernel's user and group ids stand for. May ask a directory server: call it where waiting is fine.
    pub fn owner(&self, uid: u32, gid: u32) -> Owner {
        if let Some(owner) = self.remembered(uid, gid) {
            return owner;
        }
        let owner = look_up(uid, gid);
        if let Ok(mut known) = self.known.lock() {
            known.retain(|_, (at, _)| at.elapsed() < REMEMBER);
            known.insert((uid, gid), (Instant::now(), owner.clone()));
        }
        owner
    }

    /// A user's own group.
    pub fn gid(&self, uid: u32) -> Option<u32> {
        User::from_uid(Uid::from_raw(uid)).ok().flatten().map(|user| user.gid.as_raw())
    }

    /// The number of a group named by name or number.
    pub fn group(&self, name: &str) -> Option<u32> {
        let found = Group::from_name(name).ok().flatten().map(|group| group.gid.as_raw());
        found.or_else(|| name.parse().ok())
    }

    /// The number of a user by name.
    pub fn uid_of_name(&self, name: &str) -> Option<u32> {
        User::from_name(name).ok().flatten().map(|user| user.uid.as_raw())
    }

    /// The number of a user named by name or number.
    pub fn uid(&self, name: &str) -> Option<u32> {
        self.uid_of_name(name).or_else(|| name.parse().ok())
    }
}

fn look_up(uid: u32, gid: u32) -> Owner {
    let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
    let group = Group::from_gid(Gid::from_raw(gid)).ok().flatten();
    let groups = user.as_ref().and_then(|user| {
        let name = CString::new(user.name.as_bytes()).ok()?;
        getgrouplist(&name, Gid::from_raw(gid)).ok()
    });
    let mut groups: Vec<u32> = groups.unwrap_or_default().into_iter().map(|gid| gid.as_raw()).collect();
    groups.sort_unstable();
    groups.dedup();
    Owner {
        uid,
        gid,
        groups,
        home: user.as_ref().map_or_else(|| NO_HOME.to_owned(), |user| user.dir.to_string_lossy().into_owned()),
        user: user.map_or_else(|| uid.to_string(), |user| user.name),
        group: group.map_or_else(|| gid.to_string(), |group| group.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_has_a_name_and_a_stranger_has_a_number() {
        let users = Users::default();
        let root = users.owner(0, 0);
        assert_eq!((root.user.as_str(), root.group.as_str()), ("root", "root"));
        let stranger = users.owner(3_999_999_999, 3_999_999_998);
        assert_eq!((stranger.user.as_str(), stranger.group.as_str()), ("3999999999", "3999999998"));
        assert_eq!((users.uid("root"), users.gid(0)), (Some(0), Some(0)));
        assert_eq!(users.uid("4242"), Some(4242));
        assert_eq!(users.uid("no-such-user"), None);
    }
}
