//! `sacct`: records as lines of fields.

use gpun_core::history::{AttemptEnd, Record, StepId, StepRecord};
use gpun_core::job::{ArrayRole, ExitStatus, JobState, Usage};
use gpun_core::{IndexSet, TimeMs};

use super::job::JobRow;
use super::sacct_fields::FIELDS;
use super::{Report, Shown};
use crate::names::job_state;
use crate::names::reason;
use crate::option::sacct::{Ending, List, Options, USUAL, Window};
use crate::tres::Tres;

/// One line: a job or a step of it.
#[derive(Clone, Copy)]
pub struct Line<'a> {
    /// The record.
    pub record: &'a Record,
    /// The job as it is.
    pub row: JobRow<'a>,
    /// The job as if it had not started: what it asked for.
    pub asked: JobRow<'a>,
    /// Which line of it.
    pub part: Part<'a>,
    /// Unit of sizes.
    pub unit: Option<char>,
    /// Times outside it are shown as its bounds.
    pub cut: Option<Window>,
    /// File names with their patterns filled in.
    pub expand_patterns: bool,
}

/// What a line shows.
#[derive(Clone, Copy)]
pub enum Part<'a> {
    /// The job as a whole.
    Job,
    /// The batch script.
    Batch,
    /// A step.
    Step(&'a StepRecord),
}

impl<'a> Line<'a> {
    /// True for the job itself.
    pub fn is_job(&self) -> bool {
        matches!(self.part, Part::Job)
    }

    /// The name behind the dot of a step's id.
    fn step_name(&self) -> Option<String> {
        Some(match self.part {
            Part::Job => return None,
            Part::Batch => "batch".to_owned(),
            Part::Step(step) => step_name(step.id),
        })
    }

    fn with_step(&self, id: String) -> String {
        match self.step_name() {
            Some(step) => format!("{id}.{step}"),
            None => id,
        }
    }

    /// `JobID`.
    pub fn id(&self, shown: &Shown<'_>) -> String {
        self.with_step(self.row.id(shown))
    }

    /// `JobIDRaw`.
    pub fn raw_id(&self) -> String {
        self.with_step(self.record.view.job.id.to_string())
    }

    /// When it started.
    pub fn started(&self) -> Option<TimeMs> {
        let job = || self.row.start().filter(|_| self.row.has_run());
        let at = if let Part::Step(step) = self.part { Some(step.started) } else { job() };
        at.map(|at| self.cut.map_or(at, |cut| at.max(seconds(cut.from_s))))
    }

    /// When it ended.
    pub fn ended(&self) -> Option<TimeMs> {
        let job = &self.record.view.job;
        let ended = match self.part {
            Part::Step(step) => step.ended,
            _ => job.ended.filter(|_| job.state.is_final() || self.record.end != AttemptEnd::WithJob),
        };
        match self.cut {
            Some(cut) if self.started().is_some() => Some(ended.unwrap_or(TimeMs(u64::MAX)).min(seconds(cut.until_s))),
            _ => ended,
        }
    }

    /// Run time, in seconds.
    pub fn elapsed_s(&self, shown: &Shown<'_>) -> u64 {
        let Some(started) = self.started() else { return 0 };
        let until = self.ended().unwrap_or_else(|| shown.now());
        until.since_s(started).saturating_sub(self.suspended_s(shown))
    }

    /// How long it was stopped, in seconds.
    pub fn suspended_s(&self, shown: &Shown<'_>) -> u64 {
        match self.part {
            Part::Step(_) => 0,
            _ => self.record.view.job.suspended_ms(shown.now()) / 1000,
        }
    }

    /// How long it waited although it could have started, in seconds; `None` where that is still to come.
    pub fn planned_s(&self, shown: &Shown<'_>) -> Option<u64> {
        let Some(eligible) = self.record.view.job.eligible.or(self.row.eligible()) else { return Some(0) };
        let until = self.started().or(self.ended()).unwrap_or_else(|| shown.now());
        (eligible.as_s() <= until.as_s()).then(|| until.as_s() - eligible.as_s())
    }

    /// CPUs that it has or had.
    pub fn cpus(&self) -> u64 {
        match self.part {
            Part::Job if !self.row.has_run() => 0,
            Part::Job => self.row.cpu_count(),
            Part::Batch => {
                self.record.view.job.run.iter().flat_map(|run| run.allocs.first()).map(|a| a.cpus.len()).sum()
            }
            Part::Step(step) => step.cpus,
        }
    }

    /// Names of its nodes.
    pub fn nodes(&self) -> &'a [String] {
        match self.part {
            Part::Job if !self.row.has_run() => &[],
            Part::Job => &self.record.view.nodes,
            Part::Batch => self.record.view.nodes.get(..1).unwrap_or_default(),
            Part::Step(step) => &step.nodes,
        }
    }

    /// How it ended, as code and signal. A job that was ended by order has none of its own.
    pub fn exit(&self) -> ExitStatus {
        let job = &self.record.view.job;
        let by_order = matches!(job.state, JobState::Cancelled | JobState::Timeout | JobState::NodeFail)
            || self.record.end != AttemptEnd::WithJob;
        match self.part {
            Part::Job if by_order => ExitStatus::default(),
            Part::Step(step) => step.exit,
            _ => job.exit,
        }
    }

    /// Its state, in words.
    pub fn state(&self) -> String {
        let job = &self.record.view.job;
        let by = |uid: Option<u32>| uid.map_or_else(String::new, |uid| format!(" by {uid}"));
        match self.part {
            Part::Job => match (self.record.end, job.state) {
                (AttemptEnd::Requeued, _) => "REQUEUED".to_owned(),
                (AttemptEnd::NodeFail, _) => job_state::base(JobState::NodeFail).long.to_owned(),
                (_, JobState::Cancelled) => format!("CANCELLED{}", by(job.cancelled_by)),
                (_, state) => job_state::base(state).long.to_owned(),
            },
            Part::Step(step) if step.state == JobState::Cancelled => format!("CANCELLED{}", by(step.cancelled_by)),
            Part::Step(step) => job_state::base(step.state).long.to_owned(),
            Part::Batch => self.batch_state().to_owned(),
        }
    }

    fn batch_state(&self) -> &'static str {
        let job = &self.record.view.job;
        let ended = self.ended().is_some() && self.cut.is_none() || job.state.is_final();
        let state = match (job.state, job.exit) {
            (state @ (JobState::Running | JobState::Suspended), _) if !ended => state,
            (state @ (JobState::NodeFail | JobState::OutOfMemory), _) => state,
            (JobState::Cancelled | JobState::Timeout, _) => JobState::Cancelled,
            _ if self.record.end == AttemptEnd::NodeFail => JobState::NodeFail,
            _ if self.record.end == AttemptEnd::Requeued => JobState::Cancelled,
            (_, ExitStatus { code: 0, signal: 0 }) => JobState::Completed,
            (_, ExitStatus { signal: 0, .. }) => JobState::Failed,
            _ => JobState::Cancelled,
        };
        job_state::base(state).long
    }

    /// What it used, over all its steps.
    pub fn usage(&self) -> Usage {
        let batch = self.record.view.job.run.as_ref().map(|run| run.usage).unwrap_or_default();
        match self.part {
            Part::Batch => batch,
            Part::Step(step) => step.usage,
            Part::Job => self.record.steps.iter().fold(batch, |sum, step| Usage {
                max_rss_kib: sum.max_rss_kib.max(step.usage.max_rss_kib),
                user_ms: sum.user_ms.saturating_add(step.usage.user_ms),
                system_ms: sum.system_ms.saturating_add(step.usage.system_ms),
            }),
        }
    }

    /// What a step's tasks used where it ran long enough to be sampled; jobs as a whole are not.
    pub fn sampled(&self, shown: &Shown<'_>) -> Option<Usage> {
        let usage = self.usage();
        let ended = self.ended().is_some();
        (!self.is_job() && ended && usage.max_rss_kib > 0 && self.elapsed_s(shown) > 0).then_some(usage)
    }

    /// The job's name, or the step's.
    pub fn name(&self) -> &'a str {
        match self.part {
            Part::Job => &self.record.view.job.spec.name,
            Part::Batch => "batch",
            Part::Step(step) => &step.name,
        }
    }

    /// What it has or had of everything that is counted.
    pub fn allocated(&self, shown: &Shown<'_>) -> Tres {
        let run = self.record.view.job.run.as_ref().filter(|_| self.row.has_run());
        let Some(run) = run else { return Tres::default() };
        match self.part {
            Part::Job => self.row.tres(shown),
            Part::Batch => {
                let Some(first) = run.allocs.first() else { return Tres::default() };
                let mut all = Tres { cpus: first.cpus.len(), memory_mib: first.memory.0, nodes: 1, ..Tres::default() };
                first.gres.iter().for_each(|gres| all.add_gres(&gres.name, gres.indexes.len()));
                all
            }
            Part::Step(step) => {
                let nodes = step.nodes.len() as u64;
                let mut all = Tres { cpus: step.cpus, memory_mib: step.memory.0, nodes, ..Tres::default() };
                step.gres.iter().for_each(|(name, count)| all.add_gres(name, *count));
                all
            }
        }
    }

    /// The greatest exit of the steps that `srun` started.
    pub fn derived_exit(&self) -> ExitStatus {
        let exits = self.record.steps.iter().map(|step| (step.exit.code, step.exit.signal));
        let (code, signal) = exits.max().unwrap_or_default();
        ExitStatus { code, signal }
    }

    /// Number of tasks, for steps.
    pub fn tasks(&self) -> Option<u32> {
        match self.part {
            Part::Job => None,
            Part::Batch => Some(1),
            Part::Step(step) => Some(step.tasks),
        }
    }
}

fn seconds(at_s: i64) -> TimeMs {
    TimeMs(u64::try_from(at_s).unwrap_or(0).saturating_mul(1000))
}

fn step_name(id: StepId) -> String {
    match id {
        StepId::Extern => "extern".to_owned(),
        StepId::Interactive => "interactive".to_owned(),
        StepId::Number(number) => number.to_string(),
    }
}

/// The lines of a record: the job, its batch script and its steps.
pub(super) fn lines_of<'a>(record: &'a Record, asked: &'a gpun_core::view::JobView) -> Vec<Line<'a>> {
    let line = |part| Line {
        record,
        row: JobRow::new(&record.view),
        asked: JobRow::new(asked),
        part,
        unit: None,
        cut: None,
        expand_patterns: false,
    };
    let job = line(Part::Job);
    let batch = (job.row.has_run() && record.view.job.runs_script()).then(|| line(Part::Batch));
    let steps = record.steps.iter().map(|step| line(Part::Step(step)));
    std::iter::once(job).chain(batch).chain(steps).collect()
}

/// One field of the output.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Column {
    field: usize,
    width: usize,
    left: bool,
}

/// A listing, line by line.
pub struct Listing<'o> {
    options: &'o Options,
    window: Option<Window>,
    columns: Vec<Column>,
    out: String,
}

impl<'o> Listing<'o> {
    /// Reads the fields that are asked for, and prints the header.
    ///
    /// # Errors
    /// The first field that does not exist.
    pub fn new(options: &'o Options, window: Option<Window>) -> Result<Self, String> {
        let columns = columns(options.format.as_deref().unwrap_or(USUAL))?;
        let mut listing = Self { options, window, columns, out: String::new() };
        if !options.no_header {
            listing.header();
        }
        Ok(listing)
    }

    /// Adds a record's lines.
    pub fn add(&mut self, record: &Record, shown: &Shown<'_>) {
        let mut asked = record.view.clone();
        let job = asked.job.make_mut();
        (job.run, job.state) = (None, JobState::Pending);
        match &record.view.job.array {
            Some(ArrayRole::Waiting { tasks }) if self.options.array => {
                tasks.iter().for_each(|task| self.lines(record, &asked, Some(task), shown));
            }
            _ => self.lines(record, &asked, None, shown),
        }
    }

    fn lines(&mut self, record: &Record, asked: &gpun_core::view::JobView, task: Option<u32>, shown: &Shown<'_>) {
        let line = |part| Line {
            record,
            row: JobRow { view: &record.view, task },
            asked: JobRow { view: asked, task },
            part,
            unit: self.options.unit,
            cut: self.window.filter(|_| self.options.truncate),
            expand_patterns: self.options.expand_patterns,
        };
        let only_waiting = !self.options.states.is_empty()
            && self.options.states.iter().all(|state| *state == job_state::base(JobState::Pending));
        let mut lines = vec![line(Part::Job)];
        if !self.options.allocations && !only_waiting {
            if lines.iter().any(|line| line.row.has_run()) && record.view.job.runs_script() {
                lines.push(line(Part::Batch));
            }
            lines.extend(record.steps.iter().map(|step| line(Part::Step(step))));
        }
        let wanted: Vec<Line<'_>> = lines.into_iter().filter(|line| self.is_wanted(line)).collect();
        for line in wanted {
            let values: Vec<String> = self
                .columns
                .iter()
                .filter_map(|column| Some((FIELDS.get(column.field)?.value)(&line, shown)))
                .collect();
            self.print(&values);
        }
    }

    /// True for lines that the list of jobs and steps means. Only the steps are shown of those that are named by a step.
    fn is_wanted(&self, line: &Line<'_>) -> bool {
        let Some(wanted) = &self.options.jobs else { return true };
        let job = &line.record.view.job;
        let named = wanted.iter().filter(|one| {
            let numbers = [Some(job.id), job.array_id(), job.het.map(|het| het.leader)];
            let is_task = |tasks: &IndexSet| job.array_task().is_some_and(|task| tasks.contains(task));
            numbers.contains(&Some(gpun_core::JobId(one.job)))
                && one.tasks.as_ref().is_none_or(is_task)
                && one.component.is_none_or(|wanted| job.het.is_some_and(|het| het.offset == wanted))
        });
        let steps: Vec<Option<&str>> = named.map(|one| one.step.as_deref()).collect();
        steps.iter().any(|step| step.is_none() || *step == line.step_name().as_deref())
    }

    fn header(&mut self) {
        let names: Vec<String> =
            self.columns.iter().filter_map(|column| Some(FIELDS.get(column.field)?.name.to_owned())).collect();
        if self.options.parsable.is_some() {
            return self.print(&names);
        }
        let heads: Vec<String> = self
            .columns
            .iter()
            .zip(&names)
            .map(|(column, name)| name.chars().take(column.width).collect::<String>())
            .collect();
        self.print(&heads);
        let lines: Vec<String> = self.columns.iter().map(|column| "-".repeat(column.width)).collect();
        self.print(&lines);
    }

    fn print(&mut self, values: &[String]) {
        match self.options.parsable {
            Some(ending) => {
                let delimiter = self.options.delimiter.as_deref().unwrap_or("|");
                self.out.push_str(&values.join(delimiter));
                if ending == Ending::Delimiter {
                    self.out.push_str(delimiter);
                }
            }
            None => {
                for (column, value) in self.columns.iter().zip(values) {
                    self.out.push_str(&cell(value, column.width, column.left));
                    self.out.push(' ');
                }
            }
        }
        self.out.push('\n');
    }

    /// What is printed so far; the rest is still to come.
    pub fn take(&mut self) -> String {
        std::mem::take(&mut self.out)
    }
}

/// A value in its column: what is too long ends with `+`.
fn cell(value: &str, width: usize, left: bool) -> String {
    let length = value.chars().count();
    if length > width {
        let kept: String = value.chars().take(width.saturating_sub(1)).collect();
        return if width == 0 { String::new() } else { format!("{kept}+") };
    }
    if left { format!("{value:<width$}") } else { format!("{value:>width$}") }
}

/// Reads a list of fields: beginnings of names in any case, each with `%WIDTH`, on the left with `%-WIDTH`.
fn columns(text: &str) -> Result<Vec<Column>, String> {
    let mut out = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (name, width) = part.split_once('%').map_or((part, None), |(name, width)| (name, Some(width)));
        if name.eq_ignore_ascii_case("all") {
            out.extend((0..FIELDS.len()).map(usual_column));
            continue;
        }
        let begins = |field: &str| field.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name));
        let field = FIELDS.iter().position(|field| begins(field.name));
        let mut column = usual_column(field.ok_or_else(|| format!("Invalid field requested: \"{name}\""))?);
        if let Some(width) = width {
            let digits = width.strip_prefix('-').unwrap_or(width);
            let number: String = digits.chars().take_while(char::is_ascii_digit).collect();
            // A width of nothing is a width of 0; one that no line can have is a mistake.
            column.width = number.parse::<usize>().unwrap_or(0).min(65_535);
            column.left = width.starts_with('-');
        }
        out.push(column);
    }
    Ok(out)
}

fn usual_column(field: usize) -> Column {
    let width = FIELDS.get(field).map_or(0, |field| field.width);
    Column { field, width: width.unsigned_abs().into(), left: width < 0 }
}

/// Prints a list in place of records.
pub fn list(which: List) -> Report {
    let stdout = match which {
        List::Fields => rows(FIELDS.iter().map(|field| field.name.to_owned()), 4, 19),
        List::States => rows(job_state::ALL.iter().map(|state| state.long.to_owned()), 4, 19),
        List::Reasons => rows(reason::ALL.iter().map(|one| reason::text(*one)), 2, 39),
    };
    Report { stdout, ..Report::default() }
}

/// So many names a line, each in so many columns, with a blank between two.
fn rows(names: impl Iterator<Item = String>, in_line: usize, width: usize) -> String {
    let cells: Vec<String> = names.map(|name| format!("{name:<width$}")).collect();
    cells.chunks(in_line).map(|line| format!("{}\n", line.join(" "))).collect()
}

/// The header of `--batch-script` and of `--env-vars`.
pub fn blob_header(job: &str, is_environment: bool) -> String {
    let rule = "-".repeat(80);
    if is_environment {
        format!("Environment used for {job} (must be batch to display)\n{rule}\n")
    } else {
        format!("Batch Script for {job}\n{rule}\n")
    }
}
