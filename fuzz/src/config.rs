//! Files that an administrator writes.

use gpun_compat::slurmconf;

/// A text that holds several files ends each with this.
const CUT: &str = "\n---\n";

/// The nodes in a `gpunion.toml`.
pub fn nodefile(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let _ = gpun_cli::nodefile::names_nodes(&text);
    let _ = gpun_cli::nodefile::parse(&text, "host");
}

/// A slurm.conf, the file that it includes by any name, and a gres.conf, with a cut between them. The result must be read by
/// whoever starts the nodes.
pub fn slurmconf(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut parts = text.split(CUT);
    let mut next = || parts.next().unwrap_or_default();
    let (conf, included, gres) = (next(), next(), next());
    let mut load = |_: &str| Ok(included.to_owned());
    let Ok(conf) = slurmconf::read("slurm.conf", conf, &mut load) else { return };
    let Ok(gres) = slurmconf::read("gres.conf", gres, &mut load) else { return };
    let made = slurmconf::import(&conf, &gres);
    let _ = made.report();
    let toml = made.to_toml("slurm.conf");
    assert!(gpun_cli::nodefile::names_nodes(&toml).is_ok(), "what was made is no TOML:\n{toml}");
}
