//! `srun`: tasks run inside a job, their streams here.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use gpun_compat::multi_prog;
use gpun_compat::names::error;
use gpun_compat::option::OptionError;
use gpun_compat::option::srun::{self, COMMAND, Options};
use gpun_proto::core::{Refusal, spec::OpenMode, step::StepSpec};
use gpun_proto::pb::{self, StepHello, StepLaunch, StepMade, StepTask, WindowSize, create_step_reply};
use gpun_proto::{decode, encode};
use jiff::tz::TimeZone;
use nix::sys::stat::{Mode as FileMode, umask};
use rand::TryRngCore;

use crate::step::session::{Input, NoSession, Rules, Session};
use crate::step::streams::{Mode, Names, Streams, Which};
use crate::step::{terminal, variables};
use crate::{cluster, controller, out::complain, slurm};

/// Between two tries for a step whose CPUs others have: the first, and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_millis(3), Duration::from_secs(1));

/// Waiting that is no more than the end of the step before on its way to the controller.
const SHORT: Duration = Duration::from_millis(500);

/// A node daemon that is being restarted is waited for this long.
const PATIENCE: Duration = Duration::from_secs(15);

/// So long a step waits before that is said.
const SAY_AFTER: Duration = Duration::from_secs(5);

/// Runs the command; gives the exit status.
pub fn run(args: &[String]) -> u8 {
    match prepare(args) {
        Ok(Prepared::Show(status)) => status,
        Ok(Prepared::Step(step)) => step.run(),
        Err(error) => slurm::refuse(&error),
    }
}

enum Prepared {
    /// Something was printed instead.
    Show(u8),
    Step(Box<Wanted>),
}

/// A step as it was asked for.
struct Wanted {
    options: Options,
    job: u32,
    /// The program and its arguments; of each task with `--multi-prog`.
    argv: Vec<String>,
    multi: Option<Vec<Vec<String>>>,
    name: String,
    submit_line: String,
}

fn prepare(args: &[String]) -> Result<Prepared, OptionError> {
    let utc = TimeZone::UTC;
    let context = slurm::context(&utc);
    let line = srun::parse(args, &slurm::variable, &context)?;
    let options = line.options;
    if let Some(show) = options.job.show {
        let synopsis = "[OPTIONS...] PROGRAM [ARGS...]";
        return Ok(Prepared::Show(slurm::show(show, &COMMAND, synopsis, "executable [args...]")));
    }
    let Some(program) = line.operands.first() else {
        return Err(OptionError { text: "srun: fatal: No command given to execute.\n".to_owned(), status: 1 });
    };
    let Some(job) = options.job_id else {
        let text = "srun works inside a job: use it in a script for sbatch, or name a job with --jobid\nsrun that makes a \
                    job of its own comes with a later version of gpunion";
        return Err(OptionError::new(COMMAND.program, text, 1));
    };
    let tasks = tasks_of(&options);
    if options.pty && tasks > 1 {
        return Err(OptionError::new(COMMAND.program, "--pty is for one task: say -n1", 1));
    }
    let multi = if options.multi_prog {
        let refuse = |text: String| OptionError::new(COMMAND.program, &text, 1);
        let text = std::fs::read_to_string(program)
            .map_err(|error| refuse(format!("Unable to open configuration file {program}: {error}")))?;
        Some(multi_prog::parse(&text, tasks).map_err(|fault| refuse(format!("{program}: {fault}")))?)
    } else {
        None
    };
    let named =
        Path::new(program).file_name().map_or_else(|| program.clone(), |name| name.to_string_lossy().into_owned());
    let submit_line: Vec<&str> = std::iter::once("srun").chain(args.iter().map(String::as_str)).collect();
    Ok(Prepared::Step(Box::new(Wanted {
        name: options.name.clone().unwrap_or(named),
        job,
        submit_line: submit_line.join(" "),
        argv: line.operands,
        multi,
        options,
    })))
}

fn tasks_of(options: &Options) -> u32 {
    let nodes = options.nodes.unwrap_or(1).max(1);
    let per_node =
        options.job.spec.ntasks_per_node.filter(|_| options.ntasks.is_none()).map(|n| n.saturating_mul(nodes));
    options.ntasks.or(per_node).unwrap_or(1)
}

/// Opens the session; a node daemon that is being restarted is waited for, as nothing was started yet.
fn knock(node: &str, hello: &StepHello, rules: &Rules) -> Result<Session, String> {
    let started = Instant::now();
    loop {
        let why = match Session::open(&cluster::dir(), node, hello, rules) {
            Ok(session) => return Ok(session),
            Err(NoSession::Refused(why)) => return Err(why),
            Err(NoSession::Connect(error)) => format!("it can't be reached: {error}"),
            Err(NoSession::Closed) => "it closed the connection".to_owned(),
        };
        if started.elapsed() > PATIENCE {
            return Err(why);
        }
        thread::sleep(Duration::from_millis(50));
    }
}

impl Wanted {
    fn run(&self) -> u8 {
        let mut secret = [0; 48];
        if let Err(error) = rand::rngs::OsRng.try_fill_bytes(&mut secret) {
            complain(&format!("srun: error: the system gives no random bytes: {error}"));
            return 1;
        }
        let (id, token) = secret.split_at(16);
        let made = match self.make(id, token) {
            Ok(Some(made)) => made,
            Ok(None) => return 0,
            Err(text) => {
                complain(&text);
                return 1;
            }
        };
        let Some(node) = made.nodes.first().map(|node| node.name.clone()) else {
            complain("srun: error: the controller gave the step no node");
            return 1;
        };
        let tasks: u32 = made.nodes.iter().map(|node| node.tasks).sum();
        let (streams, input) = match self.streams(&made, &node, tasks) {
            Ok(streams) => streams,
            Err(text) => {
                complain(&text);
                return 1;
            }
        };
        let options = &self.options;
        let rules = Rules {
            step: format!("StepId={}.{}", self.job, made.step),
            tasks,
            kill_on_bad_exit: options.kill_on_bad_exit,
            wait: Some(options.wait_s).filter(|s| *s > 0).map(Duration::from_secs),
            hand_on_interrupts: options.disable_status || options.pty,
            quit_on_interrupt: options.quit_on_interrupt,
            pty: options.pty,
            quiet: options.job.quiet,
        };
        let hello = StepHello { job_id: self.job, step: made.step, token: token.to_vec() };
        let session = match knock(&node, &hello, &rules) {
            Ok(session) => session,
            Err(why) => {
                let step = format!("{}.{}", self.job, made.step);
                complain(&format!("srun: error: Task launch for {step} failed on node {node}: {why}"));
                return 1;
            }
        };
        let has_input: Vec<u32> = match &input {
            Input::From(_, tasks) => tasks.clone(),
            Input::None => Vec::new(),
        };
        session.run(self.launch(&made, tasks, &has_input), streams, input)
    }

    /// Asks for the step, again and again while others have what it needs. None: it was only to be tried.
    fn make(&self, id: &[u8], token: &[u8]) -> Result<Option<StepMade>, String> {
        let options = &self.options;
        let spec = StepSpec {
            name: self.name.clone(),
            ntasks: Some(tasks_of(options)),
            cpus_per_task: options.cpus_per_task,
            exact: options.exact,
            overlap: options.overlap,
            overcommit: options.job.spec.overcommit,
            nodes: options.nodes,
            submit_line: Some(self.submit_line.clone()),
        };
        let request = pb::CreateStepRequest {
            request_id: id.to_vec(),
            job_id: self.job,
            spec: encode(&spec),
            token: token.to_vec(),
        };
        let failed = |words: &str| format!("srun: error: Unable to create step for job {}: {words}", self.job);
        let mut quick = controller::connect().map_err(|error| failed(&controller::words(&error)))?;
        slurm::check_clusters(&mut quick, COMMAND.program, options.job.clusters.as_deref())?;
        if options.job.test_only {
            complain("srun: The step would be asked for; nothing was started");
            return Ok(None);
        }
        let started = Instant::now();
        let (mut pause, mut said) = (PAUSE.0, false);
        loop {
            let reply = match quick.create_step(&request) {
                Ok(reply) => reply,
                Err(error) if error.is_unreachable() => {
                    // The same request id: a controller that comes back makes the step once.
                    quick = controller::connect().map_err(|error| failed(&controller::words(&error)))?;
                    continue;
                }
                Err(error) => return Err(failed(&controller::words(&error))),
            };
            let refusal = match reply.result {
                Some(create_step_reply::Result::Made(made)) => {
                    if started.elapsed() > SHORT && !options.job.quiet {
                        complain(&format!("srun: Step created for StepId={}.{}", self.job, made.step));
                    }
                    return Ok(Some(made));
                }
                Some(create_step_reply::Result::Refusal(refusal)) => {
                    decode::<Refusal>(&refusal).map_err(|error| failed(&error.to_string()))?
                }
                None => return Err(failed("the controller gave no answer")),
            };
            let words = error::of(&refusal, error::Doing::Other);
            if refusal == Refusal::UnknownJob {
                return Err(format!(
                    "srun: error: Unable to confirm allocation for job {0}: {words}\nsrun: Check SLURM_JOB_ID environment \
                     variable. Expired or invalid job {0}",
                    self.job
                ));
            }
            let late = options.immediate_s.is_some_and(|limit_s| started.elapsed() >= Duration::from_secs(limit_s));
            if refusal != Refusal::StepBusy || late {
                return Err(failed(&words));
            }
            if !said && started.elapsed() > SAY_AFTER && !options.job.quiet {
                said = true;
                let job = self.job;
                complain(&format!("srun: Job {job} step creation temporarily disabled, retrying ({words})"));
            }
            thread::sleep(pause);
            pause = (pause * 3 / 2).min(PAUSE.1);
        }
    }

    fn streams(&self, made: &StepMade, node: &str, tasks: u32) -> Result<(Streams, Input), String> {
        let spec = &self.options.job.spec;
        let user = slurm::variable("USER").unwrap_or_default();
        let number = |name: &str| slurm::variable(name).and_then(|text| text.parse().ok());
        let names = Names {
            job: self.job,
            array: number("SLURM_ARRAY_JOB_ID").zip(number("SLURM_ARRAY_TASK_ID")),
            step: made.step,
            name: &self.name,
            user: &user,
            node,
        };
        let output = Mode::parse(spec.std_out.as_deref());
        let error = match (&spec.std_err, &output) {
            (None, Mode::File(_)) => output.clone(),
            (text, _) => Mode::parse(text.as_deref()),
        };
        let append = spec.open_mode == Some(OpenMode::Append);
        let modes = [(Which::Output, &output), (Which::Error, &error)];
        let streams = Streams::open(modes, tasks, &names, append, self.options.label)
            .map_err(|(path, error)| format!("srun: error: Could not open stdout/stderr file {path}: {error}"))?;
        let all: Vec<u32> = (0..tasks).collect();
        let ours = || std::io::stdin().as_fd().try_clone_to_owned().map(File::from);
        let input = match Mode::parse(spec.std_in.as_deref()) {
            _ if self.options.pty => ours().map_or(Input::None, |file| Input::From(file, vec![0])),
            Mode::None => Input::None,
            Mode::Ours => ours().map_or(Input::None, |file| Input::From(file, all)),
            Mode::OnlyOf(task) => ours().map_or(Input::None, |file| Input::From(file, vec![task])),
            Mode::File(pattern) => {
                let path = names.file(&pattern, 0);
                let file = File::open(&path)
                    .map_err(|error| format!("srun: error: Could not open stdin file {path}: {error}"))?;
                Input::From(file, all)
            }
        };
        Ok((streams, input))
    }

    fn launch(&self, made: &StepMade, tasks: u32, has_input: &[u32]) -> StepLaunch {
        let options = &self.options;
        let own = std::env::vars_os().map(|(name, value)| (name.into_vec(), value.into_vec()));
        let own = options.job.export.apply(own);
        let mask = umask(FileMode::empty());
        umask(mask);
        let all: Vec<u32> = (0..tasks).collect();
        let one = |task: u32| StepTask {
            task,
            environment: variables::of_task(task, 0, task, &all),
            argv: self
                .multi
                .as_ref()
                .and_then(|commands| commands.get(task as usize))
                .map(|command| command.iter().map(|word| word.clone().into_bytes()).collect())
                .unwrap_or_default(),
            input: has_input.contains(&task),
        };
        let here = std::env::current_dir().map(|dir| dir.into_os_string().into_vec()).unwrap_or_else(|_| b"/".to_vec());
        let wanted = options.job.spec.work_dir.as_str();
        StepLaunch {
            argv: self.argv.iter().map(|word| word.clone().into_bytes()).collect(),
            environment: variables::common(own, made, options.cpus_per_task, mask.bits()),
            work_dir: if wanted.is_empty() {
                here
            } else {
                Path::new(&std::ffi::OsString::from_vec(here)).join(wanted).into_os_string().into_vec()
            },
            umask: mask.bits(),
            tasks: all.iter().map(|task| one(*task)).collect(),
            terminal: options.pty.then(|| {
                let (rows, columns) = terminal::window_size().unwrap_or((24, 80));
                WindowSize { rows, columns }
            }),
            rlimits: Vec::new(),
        }
    }
}
