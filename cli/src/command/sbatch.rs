//! `sbatch`: a script becomes a job.

use std::{
    fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use gpun_compat::{
    directive::{self, Directives},
    hostlist, jobid, moment,
    names::error,
    option::{
        OptionError,
        sbatch::{self, COMMAND, Line, Resolved},
        submission::Submission,
    },
};
use gpun_proto::{
    core::{Refusal, job::JobState, spec::JobSpec},
    decode, encode,
    pb::{self, submit_reply},
    quick::{CallError, Quick},
};
use jiff::tz::TimeZone;
use nix::sys::{
    resource::{Resource, getrlimit},
    stat::{Mode, umask},
};
use rand::TryRngCore;

use crate::{
    cluster,
    command::up::host_name,
    controller,
    environment::{self, Caller},
    login::{self, Variables},
    out::{self, complain},
    people::{self, People, Person},
    slurm,
};

/// A controller that is being restarted or elects a leader is waited for this long; the same request id goes along each time.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(50);
/// Longest wait for the answer of one try.
const ANSWER_WAIT: Duration = Duration::from_secs(30);
/// Between two looks of `--wait`: the first, and the longest.
const WAIT_PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Resource limits that are carried over, as Slurm does by default.
const LIMITS: [Resource; 10] = [
    Resource::RLIMIT_CPU,
    Resource::RLIMIT_FSIZE,
    Resource::RLIMIT_DATA,
    Resource::RLIMIT_STACK,
    Resource::RLIMIT_CORE,
    Resource::RLIMIT_RSS,
    Resource::RLIMIT_NPROC,
    Resource::RLIMIT_NOFILE,
    Resource::RLIMIT_MEMLOCK,
    Resource::RLIMIT_AS,
];

/// Runs the command; gives the exit status.
pub fn run(args: &[String]) -> u8 {
    match prepare(args) {
        Ok(Prepared::Show(status)) => status,
        Ok(Prepared::Job(job)) => submit(&job),
        Err(error) => slurm::refuse(&error),
    }
}

/// A job, ready to be sent.
struct Ready {
    asked: Submission,
    request: pb::SubmitRequest,
}

enum Prepared {
    /// Something was printed instead.
    Show(u8),
    Job(Box<Ready>),
}

/// The batch script and what is known of its file.
struct Script {
    bytes: Vec<u8>,
    /// For messages.
    file: String,
    /// The job's name where none is given.
    name: String,
    /// The path that is shown; none for standard input and `--wrap`.
    command: Option<String>,
}

fn prepare(args: &[String]) -> Result<Prepared, OptionError> {
    // Reading the time zone costs more than all the rest: it is only done for a job with a begin time.
    let utc = TimeZone::UTC;
    let context = slurm::context(&utc);
    let line = Line::parse(args)?;
    let seen = line.peek(&context)?;
    if let Some(show) = seen.show {
        let synopsis = "[OPTIONS...] SCRIPT [ARGS...]";
        return Ok(Prepared::Show(slurm::show(show, &COMMAND, synopsis, "executable [args...]")));
    }
    let dir = std::env::current_dir().map_err(|error| {
        OptionError::new(COMMAND.program, &format!("getcwd failed: {error}: the present folder is gone"), 1)
    })?;
    let (script, directives) = match &seen.wrap {
        Some(command) => (wrapped(command), Directives::default()),
        None => {
            let script = read_script(line.script.as_deref(), &dir)?;
            let directives = directive::extract(&script.bytes, &script.file, seen.ignore_pbs)?;
            (script, directives)
        }
    };
    let mut resolved = sbatch::resolve(&line, &directives, &slurm::variable, &context)?;
    let spec = &resolved.submission.spec;
    if spec.begin.is_some() || spec.deadline.is_some() {
        let zone = TimeZone::system();
        resolved = sbatch::resolve(&line, &directives, &slurm::variable, &slurm::context(&zone))?;
    }
    let Resolved { submission: mut asked, mut components, warning } = resolved;
    if !warning.is_empty() && !asked.quiet {
        complain(warning.trim_end());
    }
    let host = host_name();
    if let Some(file) = asked.nodefile.clone() {
        asked.use_nodes(nodes_in(&file)?);
    }
    let (user, group) = run_as(&asked)?;
    let who = user.unwrap_or_else(|| nix::unistd::Uid::current().as_raw());
    let login = || People::default().find(who).cloned();
    let user_env = asked.user_env_s.map_or_else(Vec::new, |limit_s| user_env(login(), limit_s));
    let variables = match &asked.export_file {
        None => std::env::vars_os().collect(),
        Some(file) => login::from_file(file).map_err(|error| {
            OptionError::new(COMMAND.program, &format!("--export-file: {file} cannot be read: {error}"), 1)
        })?,
    };
    let caller = Caller { variables, dir: &dir, host: &host, user_env };
    let environment = environment::build(&asked, caller, login);
    for one in std::iter::once(&mut asked).chain(&mut components) {
        fill(&mut one.spec, &script, &line, args, &dir, &host);
    }
    let mut request_id = vec![0; 16];
    rand::rngs::OsRng
        .try_fill_bytes(&mut request_id)
        .map_err(|error| OptionError::new(COMMAND.program, &format!("the system gives no random bytes: {error}"), 1))?;
    let spec = encode(&asked.spec);
    let components = components.iter().map(|one| encode(&one.spec)).collect();
    let test_only = asked.test_only;
    let request =
        pb::SubmitRequest { request_id, spec, script: script.bytes, environment, test_only, user, group, components };
    Ok(Prepared::Job(Box::new(Ready { asked, request })))
}

/// The nodes that a file names, separated by commas, blanks or line ends.
fn nodes_in(file: &str) -> Result<Vec<String>, OptionError> {
    let refuse = |text: &str| {
        let text = format!("{text}\nInvalid --nodefile node file");
        Err(OptionError::new(COMMAND.program, &text, COMMAND.bad_option_status))
    };
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => return refuse(&format!("Couldn't open node file {file}: {error}")),
    };
    let joined = text.split_whitespace().collect::<Vec<_>>().join(",");
    match hostlist::expand(&joined) {
        Ok(nodes) if !nodes.is_empty() => Ok(nodes),
        _ => refuse("Hostlist is empty!"),
    }
}

/// The user and group to run as, where the superuser named others.
fn run_as(asked: &Submission) -> Result<(Option<u32>, Option<u32>), OptionError> {
    let unknown = |option: &str| {
        let text = format!("Invalid {option} specification");
        OptionError::new(COMMAND.program, &text, COMMAND.bad_option_status)
    };
    let user = asked.run_as.as_deref().map(|name| people::uid_of(name).ok_or_else(|| unknown("--uid"))).transpose()?;
    let group =
        asked.run_as_group.as_deref().map(|name| people::gid_of(name).ok_or_else(|| unknown("--gid"))).transpose()?;
    Ok((user, group))
}

/// The environment of a login. Without it the job is submitted all the same, as with Slurm.
fn user_env(person: Option<Person>, limit_s: u64) -> Variables {
    let read = person.ok_or_else(|| "the user is not known".to_owned());
    match read.and_then(|person| login::of_login(&person, Duration::from_secs(limit_s))) {
        Ok(variables) => variables,
        Err(why) => {
            complain(&format!("sbatch: error: Failed to load the user's environment: {why}"));
            Vec::new()
        }
    }
}

fn wrapped(command: &str) -> Script {
    let bytes = sbatch::wrapped(command).into_bytes();
    Script { bytes, file: "wrap".to_owned(), name: "wrap".to_owned(), command: None }
}

/// What only this process knows.
fn fill(spec: &mut JobSpec, script: &Script, line: &Line, args: &[String], dir: &Path, host: &str) {
    if spec.name.is_empty() {
        spec.name.clone_from(&script.name);
    }
    spec.work_dir = dir.join(&spec.work_dir).to_string_lossy().trim_end_matches('/').to_owned();
    if spec.work_dir.is_empty() {
        spec.work_dir.push('/');
    }
    spec.command.clone_from(&script.command);
    spec.args.clone_from(&line.args);
    spec.submit_line =
        Some(std::iter::once(COMMAND.program).chain(args.iter().map(String::as_str)).collect::<Vec<_>>().join(" "));
    let mask = umask(Mode::empty());
    umask(mask);
    spec.umask = Some(mask.bits());
    spec.submit_host = Some(host.to_owned());
    spec.submit_sid = nix::unistd::getsid(None).ok().and_then(|sid| u32::try_from(sid.as_raw()).ok());
    spec.rlimits = LIMITS.iter().filter_map(|limit| Some((*limit as u32, getrlimit(*limit).ok()?.0))).collect();
}

fn read_script(named: Option<&str>, dir: &Path) -> Result<Script, OptionError> {
    let Some(named) = named else {
        let mut bytes = Vec::new();
        let read = io::stdin().lock().read_to_end(&mut bytes);
        read.map_err(|error| OptionError::new(COMMAND.program, &format!("Unable to read the script: {error}"), 1))?;
        return Ok(Script { bytes, file: "stdin".to_owned(), name: COMMAND.program.to_owned(), command: None });
    };
    let path = find(named, dir);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        // As Slurm: a folder is a script without content.
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => Vec::new(),
        Err(error) => {
            out::hint(&format!("{}: {error}", path.display()));
            return Err(OptionError::new(COMMAND.program, &format!("Unable to open file {}", path.display()), 1));
        }
    };
    let name =
        Path::new(named).file_name().map_or_else(|| named.to_owned(), |name| name.to_string_lossy().into_owned());
    Ok(Script { bytes, file: named.to_owned(), name, command: Some(path.to_string_lossy().into_owned()) })
}

/// The script's path: in the present folder, else, for a bare name, along `PATH`; as given where it is nowhere, so that the
/// message names what was typed.
fn find(named: &str, dir: &Path) -> PathBuf {
    let here = dir.join(named.strip_prefix("./").unwrap_or(named));
    if here.exists() || named.contains('/') {
        return if here.exists() { here } else { PathBuf::from(named) };
    }
    let along = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&along).map(|folder| folder.join(named)).find(|path| path.is_file());
    found.unwrap_or_else(|| PathBuf::from(named))
}

fn submit(job: &Ready) -> u8 {
    let dir = cluster::dir();
    let (mut quick, reply) = match send(job, &dir) {
        Ok(done) => done,
        Err(Failure::Call(error)) => return slurm::failed("sbatch: error: Batch job submission failed: ", &error),
        Err(Failure::Text(text)) => {
            complain(&text);
            return 1;
        }
    };
    match reply.result {
        Some(submit_reply::Result::Estimate(estimate)) => {
            complain(&would_start(&estimate));
            0
        }
        Some(submit_reply::Result::JobId(_)) if job.asked.test_only => {
            complain("sbatch: The job would be accepted; when it could start is not known");
            0
        }
        Some(submit_reply::Result::JobId(id)) => {
            let text = sbatch::submitted(id, &job.asked);
            let mut stdout = io::stdout().lock();
            if stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).is_err() {
                return out::GONE;
            }
            if job.asked.wait { wait(&mut quick, &dir, id) } else { 0 }
        }
        Some(submit_reply::Result::Refusal(refusal)) => refused(job, &refusal),
        None => {
            complain("sbatch: error: Batch job submission failed: the controller gave no answer");
            1
        }
    }
}

/// The line of `--test-only`.
fn would_start(estimate: &pb::StartEstimate) -> String {
    let seconds = i64::try_from(estimate.start_ms / 1000).unwrap_or(i64::MAX);
    let start = moment::show(seconds, seconds, &TimeZone::system(), &moment::Style::Standard);
    let place = match hostlist::compress(&estimate.nodes) {
        none if none.is_empty() => String::new(),
        nodes => format!(" on nodes {nodes}"),
    };
    let pb::StartEstimate { job_id, cpus, partition, .. } = estimate;
    format!("sbatch: Job {job_id} to start at {start} using {cpus} processors{place} in partition {partition}")
}

enum Failure {
    Call(CallError),
    Text(String),
}

/// Sends the job; while nobody answers, again and again with the same request id, so that it becomes one job.
fn send(job: &Ready, dir: &Path) -> Result<(Quick, pb::SubmitReply), Failure> {
    let started = Instant::now();
    loop {
        let tried = Quick::connect(&cluster::socket(dir)).and_then(|quick| {
            quick.set_timeout(Some(ANSWER_WAIT))?;
            Ok(quick)
        });
        let tried = match tried {
            Ok(mut quick) => {
                slurm::check_clusters(&mut quick, COMMAND.program, job.asked.clusters.as_deref())
                    .map_err(Failure::Text)?;
                quick.submit(&job.request).map(|reply| (quick, reply))
            }
            Err(error) => Err(error),
        };
        match tried {
            Ok(done) => return Ok(done),
            Err(error) if error.is_unreachable() && started.elapsed() < PATIENCE && dir.exists() => {
                thread::sleep(PAUSE)
            }
            Err(error) => return Err(Failure::Call(error)),
        }
    }
}

fn refused(job: &Ready, refusal: &[u8]) -> u8 {
    let refusal: Refusal = match decode(refusal) {
        Ok(refusal) => refusal,
        Err(error) => {
            complain(&format!(
                "sbatch: error: Batch job submission failed: the controller's answer can't be read: {error}"
            ));
            return 1;
        }
    };
    if refusal == Refusal::UnknownPartition {
        complain(&format!("sbatch: error: invalid partition specified: {}", job.asked.spec.partitions.join(",")));
    }
    if job.asked.test_only {
        complain(&format!("allocation failure: {}", error::of(&refusal, error::Doing::Submit)));
    } else {
        complain(error::submission(&refusal).trim_end());
    }
    1
}

/// Waits for the job's end, and gives its exit code: the highest of an array's tasks, 1 for one that did not end by itself.
fn wait(quick: &mut Quick, dir: &Path, id: u32) -> u8 {
    let Some(job) = jobid::parse(&id.to_string()) else { return 1 };
    let request = controller::request_jobs([&job.reference()]);
    let mut pause = WAIT_PAUSE.0;
    loop {
        match controller::list_jobs(quick, &request) {
            Ok(found) if found.jobs.iter().all(|view| view.job.is_over()) => {
                let code = |view: &gpun_proto::core::view::JobView| match (view.job.state, view.job.exit) {
                    (JobState::Completed, _) => 0,
                    (_, exit) if exit.signal == 0 && exit.code > 0 => exit.code,
                    _ => 1,
                };
                // A job that is not known any more ended long ago, and nobody remembers how.
                return found.jobs.iter().map(code).max().unwrap_or(0);
            }
            Ok(_) => {}
            Err(error) if error.is_unreachable() => {
                // A restart of the controller ends no wait; a cluster that was removed does.
                if !dir.exists() {
                    return slurm::failed("sbatch: error: ", &error);
                }
                if let Ok(again) = Quick::connect(&cluster::socket(dir)) {
                    *quick = again;
                }
            }
            Err(error) => return slurm::failed("sbatch: error: ", &error),
        }
        thread::sleep(pause);
        pause = (pause * 3 / 2).min(WAIT_PAUSE.1);
    }
}
