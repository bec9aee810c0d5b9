//! Layers that nobody used for long are taken away.
//!
//! Each launch holds a lock file of each of its layers, shared, for as long as its supervisor lives, and that file's time is
//! when the layer was last used. A collector takes the lock alone, so it never takes a layer from under a job.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The lock file of a layer.
pub fn use_file(layers: &Path, name: &str) -> PathBuf {
    layers.join(format!(".{name}.used"))
}

/// Marks a layer as used now, and as in use until the file is closed.
///
/// # Errors
/// The file cannot be made or locked.
pub fn hold(path: &Path) -> io::Result<File> {
    loop {
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?;
        file.lock_shared()?;
        // A collector may have taken the layer away, and this file with it.
        if is_at(&file, path) {
            file.set_modified(SystemTime::now())?;
            return Ok(file);
        }
    }
}

/// What a collection took away.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Names of layers.
    pub layers: Vec<String>,
    /// So many notes of what an archive was found to be.
    pub notes: usize,
}

/// Takes away, of the store in `store`, what was last used longer than `keep` before `now` and is not in use.
///
/// # Errors
/// The store cannot be read, or something in it cannot be removed.
pub fn collect(store: &Path, now: SystemTime, keep: Duration) -> io::Result<Collected> {
    let mut taken = Collected::default();
    let is_old = |time: SystemTime| now.duration_since(time).is_ok_and(|age| age > keep);
    let layers = store.join("layers");
    for name in names(&layers)?.iter().filter(|name| !name.starts_with('.')) {
        let used = use_file(&layers, name);
        let last = fs::metadata(&used).or_else(|_| fs::metadata(layers.join(name))).and_then(|meta| meta.modified());
        if last.is_ok_and(is_old) && take(&layers, name, &used)? {
            taken.layers.push(name.clone());
        }
    }
    for name in names(&layers)?.iter().filter(|name| name.starts_with('.')) {
        remains(&layers, name, &is_old)?;
    }
    let refs = store.join("refs");
    for name in names(&refs)? {
        let path = refs.join(&name);
        // The note's own time is when it was written: one that is needed is written again, which costs little.
        if fs::metadata(&path).and_then(|meta| meta.modified()).is_ok_and(is_old) {
            fs::remove_file(&path)?;
            taken.notes += 1;
        }
    }
    Ok(taken)
}

/// Takes away what an interrupted launch or collection left beside the layers.
fn remains(layers: &Path, name: &str, is_old: &impl Fn(SystemTime) -> bool) -> io::Result<()> {
    let path = layers.join(name);
    let old = || fs::metadata(&path).and_then(|meta| meta.modified()).is_ok_and(is_old);
    let layer = |end: &str| name.strip_prefix('.').and_then(|name| name.strip_suffix(end));
    if layer(".old").is_some() {
        return fs::remove_dir_all(&path);
    }
    if let Some(layer) = layer(".new").filter(|_| old()) {
        // Whoever unpacks it holds it.
        let used = use_file(layers, layer);
        return match lock_alone(&used)? {
            Some(_lock) => fs::remove_dir_all(&path).and_then(|()| fs::remove_file(&used)),
            None => Ok(()),
        };
    }
    if layer(".used").is_some_and(|layer| !layers.join(layer).exists()) && old() && lock_alone(&path)?.is_some() {
        fs::remove_file(&path)?;
    }
    Ok(())
}

/// The lock of a layer that nobody uses.
fn lock_alone(used: &Path) -> io::Result<Option<File>> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(used)?;
    match file.try_lock() {
        Ok(()) if is_at(&file, used) => Ok(Some(file)),
        Ok(()) | Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Takes a layer away unless somebody uses it.
fn take(layers: &Path, name: &str, used: &Path) -> io::Result<bool> {
    let Some(_lock) = lock_alone(used)? else { return Ok(false) };
    // Away in one step, so that nobody ever finds half of it.
    let old = layers.join(format!(".{name}.old"));
    fs::rename(layers.join(name), &old)?;
    fs::remove_file(used)?;
    fs::remove_dir_all(&old)?;
    Ok(true)
}

fn is_at(file: &File, path: &Path) -> bool {
    let found = fs::metadata(path).and_then(|there| file.metadata().map(|ours| (there, ours)));
    found.is_ok_and(|(there, ours)| (there.dev(), there.ino()) == (ours.dev(), ours.ino()))
}

fn names(dir: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn store(layers: &[&str]) -> tempfile::TempDir {
        let temp = tempfile::tempdir().unwrap();
        for name in layers {
            fs::create_dir_all(temp.path().join("layers").join(name).join("usr")).unwrap();
        }
        temp
    }

    #[test]
    fn what_is_old_and_unused_goes_and_nothing_else() {
        let temp = store(&["held", "old", "recent", "never"]);
        let layers = temp.path().join("layers");
        let now = SystemTime::now();
        let _held = hold(&use_file(&layers, "held")).unwrap();
        for name in ["old", "recent"] {
            drop(hold(&use_file(&layers, name)).unwrap());
        }
        let set = |name: &str, age: Duration| {
            let file = OpenOptions::new().write(true).open(use_file(&layers, name)).unwrap();
            file.set_modified(now - age).unwrap();
        };
        set("held", 40 * DAY);
        set("old", 31 * DAY);
        set("recent", 29 * DAY);
        assert_eq!(collect(temp.path(), now, 30 * DAY).unwrap().layers, ["old"]);
        assert_eq!(names(&layers).unwrap(), [".held.used", ".recent.used", "held", "never", "recent"]);
        // One without a note of its use is as old as itself.
        let later = collect(temp.path(), now + 40 * DAY, 30 * DAY).unwrap();
        assert_eq!(later.layers, ["never", "recent"]);
    }

    #[test]
    fn a_layer_taken_away_is_seen_as_gone_by_who_waited() {
        let temp = store(&["x"]);
        let layers = temp.path().join("layers");
        let used = use_file(&layers, "x");
        drop(hold(&used).unwrap());
        let alone = OpenOptions::new().write(true).open(&used).unwrap();
        alone.lock().unwrap();
        let waits = std::thread::spawn({
            let used = used.clone();
            move || hold(&used).unwrap()
        });
        fs::remove_dir_all(layers.join("x")).unwrap();
        fs::remove_file(&used).unwrap();
        drop(alone);
        let held = waits.join().unwrap();
        assert!(is_at(&held, &used), "the file that lies there now is held");
        assert!(!layers.join("x").exists());
    }

    #[test]
    fn what_was_left_halfway_goes() {
        let temp = store(&[".half.old", ".left.new", ".coming.new"]);
        let layers = temp.path().join("layers");
        drop(hold(&use_file(&layers, "bad")).unwrap());
        let _held = hold(&use_file(&layers, "coming")).unwrap();
        let now = SystemTime::now();
        collect(temp.path(), now, DAY).unwrap();
        assert_eq!(names(&layers).unwrap(), [".bad.used", ".coming.new", ".coming.used", ".left.new"]);
        collect(temp.path(), now + 2 * DAY, DAY).unwrap();
        assert_eq!(names(&layers).unwrap(), [".coming.new", ".coming.used"]);
    }

    #[test]
    fn a_store_that_is_not_there_is_empty() {
        let temp = tempfile::tempdir().unwrap();
        assert_eq!(collect(temp.path(), SystemTime::now(), DAY).unwrap(), Collected::default());
    }

    #[test]
    fn old_notes_go() {
        let temp = store(&[]);
        fs::create_dir_all(temp.path().join("refs")).unwrap();
        fs::write(temp.path().join("refs/a"), "{}").unwrap();
        assert_eq!(collect(temp.path(), SystemTime::now(), DAY).unwrap().notes, 0);
        assert_eq!(collect(temp.path(), SystemTime::now() + 2 * DAY, DAY).unwrap().notes, 1);
    }
}
