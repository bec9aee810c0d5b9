//! Environments from elsewhere: that of a login (`--get-user-env`), and that of a file (`--export-file`).

use std::{
    ffi::OsString,
    fs,
    io::{self, Read},
    os::unix::{ffi::OsStringExt, process::CommandExt},
    path::Path,
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use crate::people::Person;

/// Variables, in the order in which they were found.
pub type Variables = Vec<(OsString, OsString)>;

/// Most bytes of an environment that are read.
const BYTES_MAX: u64 = 1 << 20;

/// Cuts `NAME=value` entries, each ended by NUL. Entries without a name or an equals sign are no variables.
pub fn split(bytes: &[u8]) -> Variables {
    let entry = |entry: &[u8]| {
        let at = entry.iter().position(|byte| *byte == b'=').filter(|at| *at > 0)?;
        Some((OsString::from_vec(entry[..at].to_vec()), OsString::from_vec(entry[at + 1..].to_vec())))
    };
    bytes.split(|byte| *byte == 0).filter_map(entry).collect()
}

/// Reads a file of variables; a number from 3 on is an open file.
///
/// # Errors
/// It can't be read, or is longer than an environment may be.
pub fn from_file(named: &str) -> io::Result<Variables> {
    let path = match named.parse::<u32>() {
        Ok(number) if number > 2 => format!("/proc/self/fd/{number}"),
        _ => named.to_owned(),
    };
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(io::Error::other("it is longer than an environment may be"));
    }
    Ok(split(&bytes))
}

/// Starts the user's shell as a login does, and reads the environment that it makes.
///
/// # Errors
/// The shell can't be started, says nothing, or takes longer than `limit`; the message is for people.
pub fn of_login(person: &Person, limit: Duration) -> Result<Variables, String> {
    let shell = if person.shell.is_empty() { "/bin/sh" } else { &person.shell };
    let name = Path::new(shell).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut child = Command::new(shell)
        .arg0(format!("-{name}"))
        .args(["-c", "env -0"])
        .env_clear()
        .env("HOME", &person.home)
        .env("LOGNAME", &person.name)
        .env("USER", &person.name)
        .env("SHELL", shell)
        .env("TERM", "dumb")
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .current_dir(if Path::new(&person.home).is_dir() { &person.home } else { "/" })
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("{shell} cannot be started: {error}"))?;
    let Some(stdout) = child.stdout.take() else { return Err(format!("{shell} has no output")) };
    let (said, answer) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = stdout.take(BYTES_MAX).read_to_end(&mut bytes);
        let _ = said.send(read.map(|_| bytes));
    });
    let answer = answer.recv_timeout(limit);
    // It has said all that is wanted, or took too long.
    let _ = child.kill();
    let _ = child.wait();
    let bytes = match answer {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(error)) => return Err(format!("{shell} cannot be read: {error}")),
        Err(_) => return Err(format!("a login of {} took longer than {} seconds", person.name, limit.as_secs())),
    };
    let found = split(&bytes);
    if found.is_empty() { Err(format!("a login of {} tells no environment", person.name)) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(list: &[(&str, &str)]) -> Variables {
        list.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect()
    }

    #[test]
    fn entries_are_cut_at_nul() {
        for (bytes, want) in [
            (&b"A=1\0B=two words\0"[..], pairs(&[("A", "1"), ("B", "two words")])),
            (b"A=1=2\nmore", pairs(&[("A", "1=2\nmore")])),
            (b"=1\0none\0\0E=", pairs(&[("E", "")])),
            (b"", Vec::new()),
        ] {
            assert_eq!(split(bytes), want);
        }
    }

    #[test]
    fn a_login_reads_the_profile() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join(".profile"), "export FROM_PROFILE='a b'\n").unwrap();
        let person = |shell: &str| Person {
            name: "someone".into(),
            home: home.path().to_string_lossy().into_owned(),
            shell: shell.into(),
        };
        let found = of_login(&person("/bin/sh"), Duration::from_secs(20)).unwrap();
        assert!(found.contains(&("FROM_PROFILE".into(), "a b".into())), "{found:?}");
        assert!(of_login(&person("/no/such/shell"), Duration::from_secs(20)).is_err());
        fs::write(home.path().join(".profile"), "sleep 600\n").unwrap();
        let error = of_login(&person("/bin/sh"), Duration::from_millis(200)).unwrap_err();
        assert!(error.contains("took longer"), "{error}");
    }

    #[test]
    fn files_and_open_files() {
        use std::os::fd::AsRawFd;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("env");
        fs::write(&path, b"A=1\0").unwrap();
        assert_eq!(from_file(&path.to_string_lossy()).unwrap(), pairs(&[("A", "1")]));
        let file = fs::File::open(&path).unwrap();
        assert_eq!(from_file(&file.as_raw_fd().to_string()).unwrap(), pairs(&[("A", "1")]));
        assert!(from_file("/no/such/file").is_err());
    }
}
