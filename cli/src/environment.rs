//! The environment that `sbatch` sends along: the caller's as `--export` says, and what Slurm's sbatch adds. What needs the
//! allocation is added when the job starts.
//!
//! Source: sbatch(1), and `sacct --env-vars` of Slurm 24.11 for each option.

use std::{ffi::OsString, os::unix::ffi::OsStringExt, path::Path};

use gpun_compat::option::submission::Submission;

use gpun_proto::core::spec::JobSpec;

use crate::{login::Variables, people::Person};

/// A login's search path, where the caller's own is not taken along.
const LOGIN_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games";

/// Tells MPI launchers to start their daemons with srun.
const LAUNCHERS: [(&str, &str); 6] = [
    ("OMPI_MCA_plm_slurm_args", "--external-launcher"),
    ("PRTE_MCA_plm_slurm_args", "--external-launcher"),
    ("HYDRA_BOOTSTRAP", "slurm"),
    ("HYDRA_LAUNCHER_EXTRA_ARGS", "--external-launcher"),
    ("I_MPI_HYDRA_BOOTSTRAP", "slurm"),
    ("I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS", "--external-launcher"),
];

/// What the environment depends on besides the submission.
pub struct Caller<'a> {
    /// The caller's own environment.
    pub variables: Vec<(OsString, OsString)>,
    /// Where sbatch was called.
    pub dir: &'a Path,
    /// This machine's name.
    pub host: &'a str,
    /// The environment of a login, where it was asked for; what is set already goes before it.
    pub user_env: Variables,
}

/// The environment as `NAME=value`, each ended by NUL. `login` is asked for the caller's user record where a login's
/// environment is wanted.
pub fn build(asked: &Submission, caller: Caller<'_>, login: impl FnOnce() -> Option<Person>) -> Vec<u8> {
    let own = caller.variables;
    let own = own.into_iter().map(|(name, value)| (name.into_vec(), value.into_vec()));
    let mut all = asked.export.apply(own);
    let only_nothing = asked.export_text.as_deref().is_some_and(|text| text.eq_ignore_ascii_case("NIL"));
    if asked.export.needs_login()
        && !only_nothing
        && let Some(person) = login()
    {
        login_environment(&person, &mut all);
    }
    for (name, value) in caller.user_env {
        if !all.iter().any(|(have, _)| *have == name.as_encoded_bytes()) {
            all.push((name.into_vec(), value.into_vec()));
        }
    }
    let mut ours: Vec<(&str, String)> = vec![
        ("SLURM_PRIO_PROCESS", "0".to_owned()),
        ("SLURM_SUBMIT_DIR", caller.dir.to_string_lossy().into_owned()),
        ("SLURM_SUBMIT_HOST", caller.host.to_owned()),
    ];
    if let Some(text) = &asked.export_text {
        ours.push(("SLURM_EXPORT_ENV", text.clone()));
        if !only_nothing {
            ours.push(("SLURM_GET_USER_ENV", "1".to_owned()));
        }
    }
    if asked.user_env_s.is_some() && !ours.iter().any(|(name, _)| *name == "SLURM_GET_USER_ENV") {
        ours.push(("SLURM_GET_USER_ENV", "1".to_owned()));
    }
    ours.extend(tres_per_task(&asked.spec).map(|text| ("SLURM_TRES_PER_TASK", text)));
    ours.extend(asked.told.iter().cloned());
    ours.extend(LAUNCHERS.map(|(name, value)| (name, value.to_owned())));
    all.retain(|(name, _)| !ours.iter().any(|(own, _)| own.as_bytes() == name));
    all.extend(ours.into_iter().map(|(name, value)| (name.as_bytes().to_vec(), value.into_bytes())));
    let mut out = Vec::with_capacity(all.iter().map(|(name, value)| name.len() + value.len() + 2).sum());
    // A NUL ends an entry, so what holds one is no variable.
    for (name, value) in all.iter().filter(|(name, value)| !name.contains(&0) && !value.contains(&0)) {
        out.extend_from_slice(name);
        out.push(b'=');
        out.extend_from_slice(value);
        out.push(0);
    }
    out
}

/// `cpu=2,gres/gpu:1`: what each task was said to need.
fn tres_per_task(spec: &JobSpec) -> Option<String> {
    let cpus = spec.cpus_per_task.map(|cpus| format!("cpu={cpus}"));
    let gres = spec.gres_per_task.iter().map(|one| {
        let kind = one.kind.as_deref().map_or_else(String::new, |kind| format!(":{kind}"));
        format!("gres/{}{kind}={}", one.name, one.count)
    });
    let parts: Vec<String> = cpus.into_iter().chain(gres).collect();
    (!parts.is_empty()).then(|| parts.join(","))
}

/// What a login would set, where nothing else did.
fn login_environment(person: &Person, all: &mut Vec<(Vec<u8>, Vec<u8>)>) {
    let of_login = [
        ("HOME", person.home.clone()),
        ("LOGNAME", person.name.clone()),
        ("MAIL", format!("/var/mail/{}", person.name)),
        ("PATH", LOGIN_PATH.to_owned()),
        ("SHELL", person.shell.clone()),
        ("SHLVL", "1".to_owned()),
        ("USER", person.name.clone()),
    ];
    for (name, value) in of_login {
        if !all.iter().any(|(have, _)| have == name.as_bytes()) {
            all.push((name.as_bytes().to_vec(), value.into_bytes()));
        }
    }
}

#[cfg(test)]
mod tests {
    use gpun_compat::option::submission::Export;

    use super::*;

    const OWN: [(&str, &str); 5] =
        [("FOO", "1"), ("PATH", "/x"), ("SLURM_JOB_ID", "5"), ("SLURM_SUBMIT_DIR", "/old"), ("SBATCH_X", "1")];

    fn built(export: Option<&str>, change: impl FnOnce(&mut Submission)) -> Vec<String> {
        let mut asked = Submission::default();
        if let Some(text) = export {
            asked.export = Export::parse(text);
            asked.export_text = (text != "ALL").then(|| text.to_owned());
        }
        change(&mut asked);
        let variables = OWN.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let person = Person { name: "alice".into(), home: "/home/alice".into(), shell: "/bin/sh".into() };
        let bytes = build(&asked, Caller { variables, dir: Path::new("/w"), host: "vm", user_env: Vec::new() }, || {
            Some(person)
        });
        let text = String::from_utf8(bytes).unwrap();
        text.split_terminator('\0')
            .filter(|v| !LAUNCHERS.iter().any(|(n, _)| v.starts_with(n)))
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn export_decides_what_goes_along() {
        let ours = ["SLURM_PRIO_PROCESS=0", "SLURM_SUBMIT_DIR=/w", "SLURM_SUBMIT_HOST=vm"];
        let login =
            ["HOME=/home/alice", "LOGNAME=alice", "MAIL=/var/mail/alice", "SHELL=/bin/sh", "SHLVL=1", "USER=alice"];
        let path = format!("PATH={LOGIN_PATH}");
        let none = ["SLURM_EXPORT_ENV=NONE", "SLURM_GET_USER_ENV=1"];
        let all = [&["FOO=1", "PATH=/x", "SLURM_JOB_ID=5", "SBATCH_X=1"], &ours[..]].concat();
        let rows: [(Option<&str>, Vec<&str>); 6] = [
            (None, all.clone()),
            (Some("ALL"), all.clone()),
            (Some("NONE"), [&["SLURM_JOB_ID=5", &path], &login[..], &ours, &none].concat()),
            (Some("NIL"), [&["SLURM_JOB_ID=5"], &ours[..], &["SLURM_EXPORT_ENV=NIL"]].concat()),
            (
                Some("FOO,A=2"),
                [&["FOO=1", "SLURM_JOB_ID=5", "A=2", &path], &login[..], &ours, &["SLURM_EXPORT_ENV=FOO,A=2", none[1]]]
                    .concat(),
            ),
            (
                Some("ALL,FOO=3"),
                [
                    &["FOO=3", "PATH=/x", "SLURM_JOB_ID=5", "SBATCH_X=1"],
                    &ours[..],
                    &["SLURM_EXPORT_ENV=ALL,FOO=3", none[1]],
                ]
                .concat(),
            ),
        ];
        for (export, mut right) in rows {
            let mut got = built(export, |_| {});
            got.sort();
            right.sort_unstable();
            assert_eq!(got, right, "{export:?}");
        }
    }

    #[test]
    fn options_are_told() {
        let got = built(None, |asked| {
            asked.spec.cpus_per_task = Some(2);
            asked.told = vec![("SLURM_GPUS_PER_NODE", "a100:2".to_owned())];
        });
        assert!(got.contains(&"SLURM_TRES_PER_TASK=cpu=2".to_owned()), "{got:?}");
        assert!(got.contains(&"SLURM_GPUS_PER_NODE=a100:2".to_owned()), "{got:?}");
    }

    #[test]
    fn a_variable_that_is_not_utf8_passes_through() {
        let asked = Submission::default();
        let variables = vec![(OsString::from_vec(b"X".to_vec()), OsString::from_vec(vec![0xff, b'=', 0xfe]))];
        let bytes = build(&asked, Caller { variables, dir: Path::new("/"), host: "h", user_env: Vec::new() }, || None);
        assert!(bytes.starts_with(b"X=\xff=\xfe\0"));
    }
}
