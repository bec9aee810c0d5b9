//! Invariants by absence, at the level of text: what no file may hold.

mod manifests;
mod source;
mod text;

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context as _, Result, bail};

use crate::context::{self, Context};

/// Something that does not belong, where it stands, and what to do instead.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    path: String,
    line: usize,
    message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// The text files of the clone, by their path in it.
pub type Files = BTreeMap<String, String>;

/// Reads every file that git knows or would add, and checks all of them.
pub fn check(context: &Context) -> Result<()> {
    let files = read(context)?;
    let findings = findings(&files);
    for finding in &findings {
        println!("tidy: {finding}");
    }
    if findings.is_empty() {
        println!("tidy: {} files are", files.len());
        return Ok(());
    }
    bail!("tidy found {} things that do not belong", findings.len())
}

fn findings(files: &Files) -> Vec<Finding> {
    let mut found: Vec<Finding> = files.iter().flat_map(|(path, text)| source::check(path, text)).collect();
    found.extend(manifests::check(files));
    found
}

fn read(context: &Context) -> Result<Files> {
    let mut command = std::process::Command::new("git");
    command.current_dir(&context.root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let list = context::read(&mut command).context("the tidy check reads the list of files from git")?;
    let mut files = Files::new();
    for path in list.split('\0').filter(|path| !path.is_empty()) {
        let full = context.root.join(path);
        // A file that is deleted but not yet committed as such is still listed; links lead to files listed themselves.
        if !full.is_file() || full.is_symlink() {
            continue;
        }
        let bytes = std::fs::read(&full).with_context(|| format!("cannot read {path}"))?;
        // Golden images and the like are no text.
        if let Ok(text) = String::from_utf8(bytes) {
            files.insert(path.to_owned(), text);
        }
    }
    Ok(files)
}
