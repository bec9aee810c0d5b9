//! What a user names is mounted as the user found it.
//!
//! The runtime follows a bind's source as root, a moment after we looked at it as the user. Whoever owns a folder on the
//! way could put a symbolic link there in between and have a folder mounted that lies behind one they cannot enter. So
//! such a source is opened as the user, and what was opened is bound to a place of the node's own first; the runtime gets
//! that place. The binds are in the supervisor's mount namespace and gone with it.
//!
//! The places lie outside of the job's folder on purpose: that one is removed with all below it, and below a place is a
//! user's folder. They are empty on the host, and all launches of a node use the same ones, each in its own namespace.

use std::io;
use std::path::Path;

use crate::container::{LaunchError, on_node};
use crate::hostroot::Bind;
use crate::jobdir::JobDir;
use crate::spec::LaunchSpec;
use crate::sys::{Kind, Sys, ensure_dirs};

/// Opens the sources of all binds that ask for it and puts the places instead of them.
///
/// # Errors
/// A source cannot be reached as the user, or a place cannot be made.
pub fn hold(sys: &dyn Sys, dir: &JobDir, spec: &LaunchSpec, binds: &mut [Bind]) -> Result<(), LaunchError> {
    let places = spec.share.join("pins");
    for (number, bind) in binds.iter_mut().filter(|b| b.pin).enumerate() {
        let failed = |e| LaunchError::request(format!("cannot mount {}: {e}", bind.source.display()));
        let is_dir = matches!(sys.kind(&bind.source).map_err(failed)?, Kind::Dir);
        let at = places.join(format!("{}{number}", if is_dir { "folder" } else { "file" }));
        if sys.kind(&at).is_err() {
            ensure_dirs(sys, &places).map_err(on_node("cannot make", &places))?;
            let made = if is_dir { ensure_dirs(sys, &at) } else { ensure_file(sys, dir, &at) };
            made.map_err(on_node("cannot make", &at))?;
        }
        sys.pin(&bind.source, &spec.identity, &at, bind.recursive).map_err(failed)?;
        bind.source = at;
    }
    Ok(())
}

/// Makes an empty file unless it is there. Another launch may be making it too, or hold something there already: it is
/// never taken away again, which would tear that down.
fn ensure_file(sys: &dyn Sys, dir: &JobDir, at: &Path) -> io::Result<()> {
    let empty = dir.bundle().join("place");
    sys.create(&empty, b"", 0o600, None)?;
    match sys.link(&empty, at) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::tests::spec;
    use crate::sys::record::Record;

    #[test]
    fn only_what_users_name_is_held_and_the_runtime_sees_the_place() {
        let sys = Record::with(&[("/data/p/x", ""), ("/tmp/out", "")]);
        let [data, out, usr] = ["/data/p", "/tmp/out", "/usr"].map(Path::new);
        let recursive = Bind { recursive: true, ..Bind::of_user(data, Path::new("/work"), false) };
        let mut binds = [Bind::plain(usr, usr, true), recursive, Bind::of_user(out, out, false)];
        hold(&sys, &JobDir::new("/node/jobs/job_7.2"), &spec(), &mut binds).unwrap();
        let sources = binds.each_ref().map(|b| b.source.to_string_lossy().into_owned());
        assert_eq!(sources, ["/usr", "/node/share/pins/folder0", "/node/share/pins/file1"]);
        let acts = sys.acts.borrow();
        let pins: Vec<&String> = acts.iter().filter(|a| a.starts_with("pin ")).collect();
        assert_eq!(
            pins,
            [
                "pin /data/p and below as 7001 at /node/share/pins/folder0",
                "pin /tmp/out as 7001 at /node/share/pins/file1",
            ]
        );
    }

    #[test]
    fn what_cannot_be_held_is_the_requests_fault() {
        let sys = Record::with(&[("/data/p/x", "")]);
        let data = Path::new("/data/p");
        *sys.fail.borrow_mut() = Some(("pin ".into(), libc::EACCES));
        let error = hold(&sys, &JobDir::new("/node/jobs/job_7.2"), &spec(), &mut [Bind::of_user(data, data, false)])
            .unwrap_err();
        assert_eq!(error.kind, crate::phase::ExitKind::LaunchFailed);
        assert!(error.reason.starts_with("cannot mount /data/p: Permission denied"), "{error}");
        let error = hold(
            &sys,
            &JobDir::new("/node/jobs/job_7.2"),
            &spec(),
            &mut [Bind::of_user(Path::new("/none"), data, false)],
        )
        .unwrap_err();
        assert!(error.reason.starts_with("cannot mount /none: "), "{error}");
    }
}
