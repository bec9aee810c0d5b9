//! `squeue`: which jobs, in which order, in which columns.

use std::ops::Range;

use gpun_core::job::{ArrayRole, Job};
use gpun_core::view::JobView;

use super::job::JobRow;
use super::squeue_fields::{FIELDS, by_letter, by_name, key};
use super::template::Template;
use super::{Key, Report, Shown, SortField, compare_keys, letter_list, name_list, sort_fields};
use crate::jobid::Selector;
use crate::moment;
use crate::names::job_state;
use crate::option::squeue::{List, Options};

const DEFAULT: &str = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R";
const LONG: &str = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R";
const START: &str = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R";
const STATE_ONLY: &str = "%.18i %.2t";
const SORT: &str = "P,t,-p";
const SORT_START: &str = "S";

/// Who asks, for `--me` and `--user`.
#[derive(Debug, Clone, Copy)]
pub struct Caller<'a> {
    /// The caller's user id.
    pub uid: u32,
    /// A user's id by name; names that are numbers stand for themselves.
    pub users: &'a [u32],
}

/// Whether the options let a job through. `users` are the ids of `--user`; accounts, nodes and so on come from the options.
pub fn matches(view: &JobView, options: &Options, caller: Caller<'_>) -> bool {
    let job: &Job = &view.job;
    let spec = &job.spec;
    let among =
        |list: &[String], value: Option<&str>| list.is_empty() || list.iter().any(|l| Some(l.as_str()) == value);
    let row = JobRow::new(view);
    let in_partition = || row.partition().split(',').any(|p| options.partitions.iter().any(|o| o == p));
    options.states.matches(job)
        && (!options.me || job.owner.uid == caller.uid)
        && (options.users.is_empty() || caller.users.contains(&job.owner.uid))
        && among(&options.accounts, spec.account.as_deref())
        && among(&options.names, Some(&spec.name))
        && options.reservation.as_ref().is_none_or(|name| spec.reservation.as_ref() == Some(name))
        && (options.licenses.is_empty() || spec.licenses.iter().any(|one| options.licenses.contains(&one.name)))
        && (options.qos.is_empty() || options.qos.contains(&super::squeue_fields::qos(&row)))
        && (options.partitions.is_empty() || in_partition())
        && (options.nodes.is_empty() || (row.has_run() && view.nodes.iter().any(|n| options.nodes.contains(n))))
        // Expected starts make sense for waiting jobs only.
        && (!options.start || job.state == gpun_core::job::JobState::Pending)
}

/// The lines of one record: whole, task by task with `--array`, or only the tasks that were named.
fn lines<'a>(view: &'a JobView, options: &Options) -> Vec<JobRow<'a>> {
    let whole = JobRow::new(view);
    let Some(selectors) = &options.jobs else {
        return if options.array { each_task(view, None) } else { vec![whole] };
    };
    let job = &view.job;
    let of_het = |s: &Selector| {
        job.het.is_some_and(|het| het.leader.0 == s.job && s.component.is_none_or(|wanted| wanted == het.offset))
    };
    let of_job = |s: &Selector| s.job == job.id.0 && s.component.is_none();
    let of_array = |s: &Selector| Some(s.job) == job.array_id().map(|array| array.0);
    let named: Vec<&Selector> = selectors.iter().filter(|s| of_job(s) || of_array(s) || of_het(s)).collect();
    let all = named.iter().any(|s| s.tasks.is_none() || s.job != job.array_id().unwrap_or(job.id).0);
    match (named.is_empty(), all, &job.array) {
        (true, ..) => Vec::new(),
        (_, true, _) if options.array => each_task(view, None),
        (_, true, _) | (_, _, None) => vec![whole],
        (_, _, Some(ArrayRole::Task { task, .. })) => {
            let wanted = named.iter().any(|s| s.tasks.as_ref().is_some_and(|t| t.contains(*task)));
            if wanted { vec![whole] } else { Vec::new() }
        }
        (_, _, Some(ArrayRole::Waiting { .. })) => each_task(view, Some(&named)),
    }
}

fn each_task<'a>(view: &'a JobView, named: Option<&[&Selector]>) -> Vec<JobRow<'a>> {
    match &view.job.array {
        Some(ArrayRole::Waiting { tasks }) => tasks
            .iter()
            .filter(|t| named.is_none_or(|n| n.iter().any(|s| s.tasks.as_ref().is_some_and(|set| set.contains(*t)))))
            .map(|t| JobRow { view, task: Some(t) })
            .collect(),
        _ => vec![JobRow::new(view)],
    }
}

/// The format that the options ask for.
pub fn template(options: &Options) -> Template {
    if let Some(names) = &options.long_format {
        return Template::names(names, by_name);
    }
    let letters = match &options.format {
        Some(given) => given,
        None if options.only_job_state => STATE_ONLY,
        None if options.start => START,
        None if options.long => LONG,
        None => DEFAULT,
    };
    if letters == "%all" {
        let all: Vec<String> = FIELDS.iter().filter_map(|f| f.letter).map(|c| format!("%{c}")).collect();
        return Template::letters(&all.join("|"), by_letter);
    }
    Template::letters(letters, by_letter)
}

/// Everything that `squeue` prints for these records.
pub fn report(views: &[JobView], options: &Options, caller: Caller<'_>, shown: &Shown<'_>) -> Report {
    let mut listing = Listing::new(options, caller);
    views.iter().for_each(|view| listing.add(view, shown));
    listing.finish(shown)
}

/// A listing in the making. Of each record that is added only its lines are kept, so a long queue costs its text and not
/// its records.
pub struct Listing<'a> {
    options: &'a Options,
    caller: Caller<'a>,
    template: Template,
    fields: Vec<SortField>,
    /// A letter that cannot be sorted by: nothing is listed then.
    unsortable: Option<char>,
    lines: String,
    rows: Vec<Row>,
}

/// What a line is sorted by, and where it stands in the text.
struct Row {
    keys: Vec<Key>,
    id: (i64, i64),
    line: Range<usize>,
}

impl<'a> Listing<'a> {
    /// An empty listing.
    pub fn new(options: &'a Options, caller: Caller<'a>) -> Self {
        let fields = sort_fields(options.sort.as_deref().unwrap_or(if options.start { SORT_START } else { SORT }));
        let unsortable = fields.iter().map(|f| f.letter).find(|c| matches!(c, 'o' | 'E') || by_letter(*c).is_none());
        let template = template(options);
        Self { options, caller, template, fields, unsortable, lines: String::new(), rows: Vec::new() }
    }

    /// Adds a record, if the options let it through.
    pub fn add(&mut self, view: &JobView, shown: &Shown<'_>) {
        if self.unsortable.is_some() || !matches(view, self.options, self.caller) {
            return;
        }
        for row in lines(view, self.options) {
            let start = self.lines.len();
            self.template.line(&mut self.lines, |i| FIELDS.get(i).map_or_else(String::new, |f| (f.value)(&row, shown)));
            let keys = self.fields.iter().filter_map(|f| key(f.letter, &row, shown)).collect();
            self.rows.push(Row { keys, id: row.id_key(), line: start..self.lines.len() });
        }
    }

    /// Everything that `squeue` prints, sorted by the fields, then by id.
    pub fn finish(mut self, shown: &Shown<'_>) -> Report {
        let mut out = Report::default();
        if self.options.long {
            out.stdout.push_str(&format!("{}\n", moment::headline(shown.now_s, shown.zone)));
        }
        for name in &self.template.unknown {
            out.stderr.push_str(&format!("squeue: error: Invalid job format specification: {name}\n"));
        }
        if !self.options.no_header {
            self.template.line(&mut out.stdout, |i| FIELDS.get(i).map_or("", |f| f.header).to_owned());
        }
        if let Some(letter) = self.unsortable {
            out.stderr.push_str(&format!("squeue: error: Invalid sort specification: {letter}\n"));
            out.status = 1;
            return out;
        }
        self.rows.sort_by(|a, b| compare_keys(&a.keys, &b.keys, &self.fields).then_with(|| a.id.cmp(&b.id)));
        out.stdout.reserve(self.lines.len());
        self.rows.iter().for_each(|row| out.stdout.push_str(self.lines.get(row.line.clone()).unwrap_or("")));
        out
    }
}

/// `--helpstate`, `--helpformat` and `--helpFormat`.
pub fn list(what: List) -> String {
    match what {
        List::States => job_state::ALL.iter().map(|n| n.long.to_ascii_lowercase() + "\n").collect(),
        List::Letters => letter_list(FIELDS.iter().filter_map(|f| f.letter)),
        List::Names => name_list(FIELDS.iter().map(|f| f.name)),
    }
}
