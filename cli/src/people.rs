//! Names of users, for the few places where only a number is known.
//!
//! The program may be linked statically, and then the system's directory can't be asked from inside: `getent` is.

use std::{collections::BTreeMap, fs, process::Command};

/// What is known of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// User name.
    pub name: String,
    /// Home folder.
    pub home: String,
    /// Login shell.
    pub shell: String,
}

/// Users that were looked up.
#[derive(Debug, Default)]
pub struct People {
    known: BTreeMap<u32, Option<Person>>,
}

impl People {
    /// Looks a user up, in `/etc/passwd` first.
    pub fn find(&mut self, uid: u32) -> Option<&Person> {
        self.known.entry(uid).or_insert_with(|| look_up(uid)).as_ref()
    }

    /// The user's name, or the number where nobody knows one.
    pub fn name(&mut self, uid: u32) -> String {
        self.find(uid).map_or_else(|| uid.to_string(), |person| person.name.clone())
    }
}

fn look_up(uid: u32) -> Option<Person> {
    let number = uid.to_string();
    let local = fs::read_to_string("/etc/passwd").unwrap_or_default();
    if let Some(person) = local.lines().find_map(|line| person(line, &number)) {
        return Some(person);
    }
    let asked = Command::new("getent").args(["passwd", &number]).output().ok()?;
    person(String::from_utf8_lossy(&asked.stdout).lines().next()?, &number)
}

/// The number of a user named by name or number.
pub fn uid_of(name: &str) -> Option<u32> {
    number_of("passwd", name)
}

/// The number of a group named by name or number.
pub fn gid_of(name: &str) -> Option<u32> {
    number_of("group", name)
}

/// The third field of the line with this name, of passwd(5) or group(5). A number stands for itself.
fn number_of(table: &str, name: &str) -> Option<u32> {
    if let Ok(number) = name.parse() {
        return Some(number);
    }
    let of_line = |line: &str| {
        let mut fields = line.split(':');
        fields.next().filter(|have| *have == name)?;
        fields.nth(1)?.parse().ok()
    };
    let local = fs::read_to_string(format!("/etc/{table}")).unwrap_or_default();
    local.lines().find_map(of_line).or_else(|| {
        let asked = Command::new("getent").args([table, name]).output().ok()?;
        of_line(String::from_utf8_lossy(&asked.stdout).lines().next()?)
    })
}

/// Reads a line of passwd(5) if it is of this number.
fn person(line: &str, number: &str) -> Option<Person> {
    let fields: Vec<&str> = line.split(':').collect();
    match fields.as_slice() {
        [name, _, uid, _, _, home, shell] if *uid == number => {
            Some(Person { name: (*name).to_owned(), home: (*home).to_owned(), shell: (*shell).to_owned() })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_passwd() {
        let alice = Person { name: "alice".into(), home: "/home/alice".into(), shell: "/bin/bash".into() };
        let rows = [
            ("alice:x:7001:7001:A,,,:/home/alice:/bin/bash", Some(alice)),
            ("alice:x:70011:7001::/home/alice:/bin/bash", None),
            ("alice:x:7001", None),
            ("", None),
        ];
        for (line, right) in rows {
            assert_eq!(person(line, "7001"), right, "{line}");
        }
    }

    #[test]
    fn root_is_known_and_nobody_gets_a_number() {
        let mut people = People::default();
        assert_eq!(people.name(0), "root");
        assert_eq!(people.name(4_000_000_111), "4000000111");
        assert_eq!((uid_of("root"), gid_of("root"), uid_of("17")), (Some(0), Some(0), Some(17)));
        assert_eq!((uid_of("no-such-user"), gid_of("no-such-group")), (None, None));
    }
}
