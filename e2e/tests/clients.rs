//! Programs that drive Slurm, as their makers ship them: each runs a small workflow of its own scripts in `e2e/clients/` as an
//! ordinary user, and finds the commands on the PATH. `cargo xtask setup` installs them.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test's way to fail, in its helpers too.

use std::{fs, os::unix::process::CommandExt, path::Path, process::Command};

use gpun_e2e::{Cluster, User};

/// Where `cargo xtask setup` installs the clients: jobs see `/opt`.
const INSTALLED: &str = "/opt/gpunion-clients";
const TOML: &str =
    "[cluster]\nname = \"clients\"\nkill_wait_s = 2\n[[partition]]\nname = \"debug\"\nmax_time = \"1:00:00\"\n";
const UID: u32 = 7001;

/// Runs a program of the clients in the work folder, where copies of the scripts lie; gives what it printed.
fn run(program: &str, args: &[&str]) -> (Cluster, String) {
    let have = fs::read(Path::new(INSTALLED).join("requirements.txt")).unwrap_or_default();
    assert!(
        have == include_bytes!("../clients/requirements.txt"),
        "the clients in {INSTALLED} are missing or of other versions: run `cargo xtask setup`"
    );
    let cluster = Cluster::up(&["--nodes", "2", "--cpus", "4", "--mem", "4000"], TOML);
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients");
    for script in fs::read_dir(scripts).expect("the scripts").map(|entry| entry.expect("an entry").path()) {
        fs::copy(&script, cluster.work().join(script.file_name().unwrap())).expect("the work folder takes a file");
    }
    let path = format!("{}:{INSTALLED}/bin:/usr/bin:/bin", cluster.dir().join("bin").display());
    // A client that waits for ever for what never comes is a failure with its output, not a run that hangs.
    let mut command = Command::new("timeout");
    command.arg("300").arg(Path::new(INSTALLED).join("bin").join(program));
    command.args(args).current_dir(cluster.work()).env_clear().uid(UID).gid(UID);
    command.env("PATH", path).env("GPUN_DIR", cluster.dir()).env("HOME", cluster.work());
    command.env("USER", "alice").env("LOGNAME", "alice").env("LANG", "C.UTF-8").env("TZ", "UTC");
    let output = command.output().unwrap_or_else(|error| panic!("{program} does not start: {error}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let jobs = cluster.run(User::Root, "sacct", &["-a", "-o", "jobid,jobname,state,exitcode"]).out;
    assert!(output.status.success(), "{program} {args:?}: {}\n{out}\n{err}\n{jobs}\n{}", output.status, cluster.logs());
    let out = out.into_owned();
    (cluster, out)
}

#[test]
fn submitit_runs_functions() {
    let (cluster, out) = run("python3", &["submit_functions.py"]);
    assert_eq!(out, "sum 5\nsums [11, 22, 33]\nerror True\nstates ['COMPLETED']\n");
    cluster.wait_clean();
}

#[test]
fn simple_slurm_chains_scripts() {
    let (cluster, out) = run("python3", &["submit_scripts.py"]);
    assert!(out.ends_with("second True\n"), "{out}");
    cluster.wait_clean();
}

#[test]
fn dask_jobqueue_scales_workers() {
    let (cluster, out) = run("python3", &["scale_workers.py"]);
    assert_eq!(out, "squares 285\nworkers 2\n");
    cluster.wait_clean();
}

#[test]
fn parsl_runs_apps() {
    let (cluster, out) = run("python3", &["run_apps.py"]);
    assert_eq!(out, "doubled [0, 2, 4, 6]\nhello True\n");
    cluster.wait_clean();
}

#[test]
fn snakemake_runs_rules() {
    let waits = ["--seconds-between-status-checks", "1", "--slurm-init-seconds-before-status-checks", "1"];
    let slurm = ["--executor", "slurm", "--slurm-no-account", "--jobs", "4"];
    let mut args = vec!["--latency-wait", "10", "--default-resources", "slurm_partition=debug"];
    args.extend(waits.into_iter().chain(slurm));
    let (cluster, _) = run("snakemake", &args);
    assert_eq!(cluster.read("snake/sum.txt"), "4+9+16\n");
    cluster.wait_clean();
}
