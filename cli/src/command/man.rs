//! `gpun man`: the manual pages.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;
use serde_json::json;

use crate::{
    args::{Args, Opt, Usage},
    man,
    out::Out,
};

/// Of `gpun man`.
pub const USAGE: Usage = Usage {
    command: "gpun man",
    operands: "DIR",
    count: (1, 1),
    about: "Writes the manual pages of every command and file below DIR, as DIR/man1/sbatch.1 and so on.\n\
            `gpun up` does it for DIR/share/man of the cluster's folder, which man(1) finds by itself where DIR/bin is on the\n\
            PATH.",
    options: &[Opt {
        name: "--options-list",
        value: Some("FILE"),
        help: "renew the list of Slurm's options in this document too (for developers)",
    }],
    examples: &[("gpun man /usr/local/share/man", "every user has `man sbatch`")],
};

/// Writes the pages.
///
/// # Errors
/// A file can't be written.
pub fn run(args: &Args, out: &mut Out) -> anyhow::Result<u8> {
    let dir = PathBuf::from(&args.operands[0]);
    let files = write(&dir)?;
    if let Some(document) = args.get("--options-list") {
        let text = fs::read_to_string(document).with_context(|| format!("cannot read {document}"))?;
        let text = man::support::replace_in(&text).with_context(|| document.to_owned())?;
        fs::write(document, text).with_context(|| format!("cannot write {document}"))?;
    }
    if args.has("--json") {
        out.line(&json!({ "dir": dir, "files": files }).to_string());
    } else {
        out.line(&format!("{} pages written to {}", files.len(), dir.display()));
    }
    Ok(0)
}

/// Writes those pages that are not there or differ; tells the names of all.
///
/// # Errors
/// As [`run`].
pub fn write(dir: &Path) -> anyhow::Result<Vec<String>> {
    let mut files = Vec::new();
    for (name, text) in man::pages() {
        let file = dir.join(&name);
        let is_there = fs::read(&file).is_ok_and(|there| there == text.as_bytes());
        if !is_there {
            let folder = file.parent().unwrap_or(dir);
            fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
            fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        }
        files.push(name);
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn pages_are_written_once_and_mended() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("share/man");
        let files = write(&dir).unwrap();
        let page = dir.join("man1/sbatch.1");
        let untouched = fs::metadata(dir.join("man1/squeue.1")).unwrap().mtime_nsec();
        fs::write(&page, "old").unwrap();
        assert_eq!(write(&dir).unwrap(), files);
        assert!(fs::read_to_string(&page).unwrap().contains(".SH OPTIONS"));
        assert_eq!(fs::metadata(dir.join("man1/squeue.1")).unwrap().mtime_nsec(), untouched);
    }
}
