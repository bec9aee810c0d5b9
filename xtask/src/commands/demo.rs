//! `cargo xtask demo`: a cluster on this machine, one job in it, and what a user sees of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Args;

use super::setup;
use crate::context::{self, Context, is_root};

const SCRIPT: &str = "examples/hello.sbatch";
const JOB_LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(100);
/// Slurm's names of the states that a job does not leave.
const ENDED: &[&str] = &[
    "COMPLETED",
    "FAILED",
    "CANCELLED",
    "TIMEOUT",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "BOOT_FAIL",
    "DEADLINE",
    "PREEMPTED",
];

/// Where, and what is left.
#[derive(Args)]
pub struct Options {
    /// The demo cluster's folder
    #[arg(long, default_value = "/var/tmp/gpunion-demo")]
    dir: PathBuf,
    /// Leave the cluster running
    #[arg(long)]
    keep: bool,
}

/// Runs the command.
pub fn run(context: &mut Context, options: &Options) -> Result<()> {
    if !is_root() {
        bail!("the demo starts containers and makes cgroups: run it as root, e.g. in `sudo -E bash`");
    }
    setup::prepare(context)?;
    build(context)?;
    let cluster = Cluster { gpun: context.binaries("release").join("gpun"), dir: options.dir.clone() };
    cluster.up()?;
    let shown = session(&cluster, &context.root.join(SCRIPT));
    if options.keep {
        cluster.explain();
    } else {
        cluster.down()?;
    }
    shown
}

fn build(context: &Context) -> Result<()> {
    println!("==> build (release)");
    let mut command = context.cargo();
    command.args(["build", "--release", "--workspace", "--bins"]).args(context.locked());
    context::run(&mut command)
}

struct Cluster {
    gpun: PathBuf,
    dir: PathBuf,
}

/// What a user types, one after the other.
fn session(cluster: &Cluster, script: &Path) -> Result<()> {
    // Slurm's script is submitted from a folder of the user's, where its output lands.
    let work = cluster.dir.join("work");
    fs::create_dir_all(&work).with_context(|| format!("cannot make {}", work.display()))?;
    fs::copy(script, work.join("hello.sbatch")).with_context(|| format!("cannot copy {}", script.display()))?;
    println!("\n==> a session in {}", work.display());
    let id = job_id(&cluster.type_in(&work, &["sbatch", "hello.sbatch"])?)?;
    cluster.type_in(&work, &["squeue"])?;
    let state = cluster.wait(&id)?;
    let output = format!("hello-{id}.out");
    println!("$ cat {output}");
    match fs::read_to_string(work.join(&output)) {
        Ok(text) => print!("{text}"),
        Err(error) => println!("{output}: {error}"),
    }
    cluster.type_in(&work, &["scontrol", "show", "job", &id])?;
    cluster.type_in(&work, &["squeue"])?;
    cluster.type_in(&work, &["sinfo"])?;
    if state != "COMPLETED" {
        bail!(
            "job {id} ended as {state}; `{} why {id}` and the logs under {} say more",
            cluster.gpun.display(),
            cluster.dir.display()
        );
    }
    println!("\njob {id} ran to its end");
    Ok(())
}

impl Cluster {
    fn up(&self) -> Result<()> {
        println!("\n==> gpun up --dir {}", self.dir.display());
        context::run(Command::new(&self.gpun).args(["up", "--dir"]).arg(&self.dir))
    }

    fn down(&self) -> Result<()> {
        println!("\n==> gpun down --dir {}", self.dir.display());
        context::run(Command::new(&self.gpun).args(["down", "--dir"]).arg(&self.dir))
    }

    fn explain(&self) {
        let (dir, gpun) = (self.dir.display(), self.gpun.display());
        println!("\nThe cluster is still up. To use it:\n  export GPUN_DIR={dir} PATH={dir}/bin:$PATH");
        println!("To stop it:\n  {gpun} down --dir {dir}");
    }

    /// A Slurm command by its name, as the links in the cluster's folder give it.
    fn command(&self, words: &[&str]) -> Result<Command> {
        let (name, arguments) = words.split_first().context("a command has a name")?;
        let mut command = Command::new(self.dir.join("bin").join(name));
        command.args(arguments).env("GPUN_DIR", &self.dir);
        Ok(command)
    }

    /// Shows a command as typed and what it prints.
    fn type_in(&self, work: &Path, words: &[&str]) -> Result<String> {
        println!("$ {}", words.join(" "));
        let text = context::read(self.command(words)?.current_dir(work))?;
        print!("{text}");
        Ok(text)
    }

    /// Waits until the job has ended and says how.
    fn wait(&self, id: &str) -> Result<String> {
        let deadline = Instant::now() + JOB_LIMIT;
        loop {
            let text = context::read(&mut self.command(&["scontrol", "show", "job", id])?)?;
            let state = job_state(&text).with_context(|| format!("scontrol says no state of job {id}:\n{text}"))?;
            if ENDED.contains(&state) {
                return Ok(state.to_owned());
            }
            if Instant::now() > deadline {
                bail!("job {id} is {state} after {} s:\n{text}", JOB_LIMIT.as_secs());
            }
            std::thread::sleep(POLL);
        }
    }
}

/// The id in `Submitted batch job 7`.
fn job_id(answer: &str) -> Result<String> {
    let id =
        answer.trim().strip_prefix("Submitted batch job ").filter(|id| id.bytes().all(|byte| byte.is_ascii_digit()));
    id.map(str::to_owned).with_context(|| format!("sbatch answered {answer:?}"))
}

/// The value of `JobState=` in what `scontrol show job` prints.
fn job_state(text: &str) -> Option<&str> {
    text.split_whitespace().find_map(|word| word.strip_prefix("JobState="))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_read_and_nothing_else_taken_for_one() {
        assert_eq!(job_id("Submitted batch job 7\n").ok().as_deref(), Some("7"));
        assert!(job_id("Submitted batch job x").is_err());
        assert!(job_id("sbatch: error: no").is_err());
    }

    #[test]
    fn the_state_is_read() {
        let text = "JobId=1 JobName=hello\n   UserId=root(0)\n   JobState=COMPLETED Reason=None Dependency=(null)\n";
        assert_eq!(job_state(text), Some("COMPLETED"));
        assert_eq!(job_state("JobId=1"), None);
    }
}
