//! `gpun import`: a `gpunion.toml` from Slurm's configuration.

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use gpun_compat::slurmconf::{self, Fate, Imported, Line};
use serde_json::json;

use crate::{
    args::{Args, Opt, Usage},
    out::{Out, complain},
};

/// Of `gpun import`.
pub const USAGE: Usage = Usage {
    command: "gpun import",
    operands: "SLURM.CONF",
    count: (1, 1),
    about: "Makes a gpunion.toml of a slurm.conf, of what it includes, and of the gres.conf beside it.\n\
            Prints it, or writes it with -o. What could not be carried over is said on standard error, line by line, with what to\n\
            do instead; nothing is left out in silence.",
    options: &[
        Opt { name: "-o", value: Some("FILE"), help: "write the result there; a file that is there is not replaced" },
        Opt {
            name: "--gres",
            value: Some("FILE"),
            help: "take generic resources from there, not from gres.conf beside it",
        },
    ],
    examples: &[
        ("gpun import /etc/slurm/slurm.conf", "look at what comes out"),
        ("gpun import /etc/slurm/slurm.conf -o /etc/gpunion/gpunion.toml", "keep it"),
        ("gpun up --dir /tmp/c --import slurm.conf", "try the cluster here, with virtual nodes of its sizes"),
    ],
};

/// Prints or writes the result, and the report.
///
/// # Errors
/// A file can't be read or written; the message names file and line.
pub fn run(args: &Args, out: &mut Out) -> anyhow::Result<u8> {
    let conf = PathBuf::from(&args.operands[0]);
    let made = import(&conf, args.get("--gres").map(Path::new))?;
    let toml = made.to_toml(&conf.to_string_lossy());
    if let Some(file) = args.get("-o") {
        write_new(Path::new(file), &toml)?;
    }
    if args.has("--json") {
        let notes = made.notes.iter().map(|note| {
            let fate = match note.fate {
                Fate::Carried => "carried",
                Fate::NotNeeded => "not needed",
                Fate::NotCarried => "not carried",
                Fate::Wrong => "not understood",
            };
            json!({ "file": note.file, "line": note.line, "setting": note.setting, "fate": fate, "text": note.text })
        });
        let notes: Vec<_> = notes.collect();
        out.line(&json!({ "toml": toml, "notes": notes }).to_string());
        return Ok(0);
    }
    if args.get("-o").is_none() {
        out.text(&toml);
    }
    made.report().lines().for_each(complain);
    Ok(0)
}

/// Reads a slurm.conf, what it includes, and its gres.conf.
///
/// # Errors
/// A file can't be read; the message names file and line.
pub fn import(conf: &Path, gres: Option<&Path>) -> anyhow::Result<Imported> {
    let lines = lines(conf)?.with_context(|| format!("{} is not there", conf.display()))?;
    let beside = conf.with_file_name("gres.conf");
    let gres = match gres {
        Some(named) => self::lines(named)?.with_context(|| format!("{} is not there", named.display()))?,
        None => self::lines(&beside)?.unwrap_or_default(),
    };
    Ok(slurmconf::import(&lines, &gres))
}

/// The lines of a file; none: it is not there.
fn lines(path: &Path) -> anyhow::Result<Option<Vec<Line>>> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut load = |named: &str| fs::read_to_string(folder.join(named)).map_err(|error| error.to_string());
    Ok(Some(slurmconf::read(&path.to_string_lossy(), &text, &mut load)?))
}

fn write_new(path: &Path, text: &str) -> anyhow::Result<()> {
    use std::io::Write as _;
    match fs::OpenOptions::new().create_new(true).write(true).open(path) {
        Ok(mut file) => file.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", path.display())),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("{} is there already: move it away first", path.display())
        }
        Err(error) => Err(error).with_context(|| format!("cannot write {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_beside_and_included_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        write("slurm.conf", "ClusterName=c\nInclude nodes.conf\nPartitionName=p Nodes=ALL\n");
        write("nodes.conf", "NodeName=n[1-2] CPUs=2 Gres=gpu:x:1\n");
        write("gres.conf", "Name=gpu Type=x File=/dev/x0\n");
        let toml = import(&dir.path().join("slurm.conf"), None).unwrap().to_toml("f");
        assert!(toml.contains("name = \"n[1-2]\"\ncpus = 2\ngres = [\"gpu:x:1:/dev/x0\"]\n"), "{toml}");
        // What comes out is understood by whoever starts the nodes.
        assert_eq!(crate::nodefile::parse(&toml, "vm").unwrap().len(), 2);
        let error = import(&dir.path().join("none.conf"), None).unwrap_err();
        assert!(error.to_string().ends_with("none.conf is not there"), "{error}");
        write("bad.conf", "A=1\nhello\n");
        let error = import(&dir.path().join("bad.conf"), None).unwrap_err();
        assert!(error.to_string().ends_with("bad.conf:2: `hello` is not KEY=VALUE"), "{error}");
        let there = dir.path().join("gpunion.toml");
        write_new(&there, "x").unwrap();
        assert!(write_new(&there, "y").unwrap_err().to_string().contains("is there already"));
    }
}
