//! `sinfo`: which nodes share a line, in which order, in which columns.

use std::collections::BTreeSet;

use gpun_core::view::{NodeView, PartitionView};

use super::sinfo_fields::{FIELDS, Group, Scope, by_letter, by_name};
use super::template::{Source, Template};
use super::{Key, Report, Shown, SortField, compare_keys, letter_list, name_list, sort_fields};
use crate::moment;
use crate::names::node_state;
use crate::option::sinfo::Options;
use crate::option::squeue::List;

/// The least width of a column that fits its longest value.
const LEAST_FITTED: usize = 9;

/// What is known of the cluster.
#[derive(Debug, Clone, Copy)]
pub struct Cluster<'a> {
    /// Partitions in the order of the configuration.
    pub partitions: &'a [PartitionView],
    /// Every node.
    pub nodes: &'a [NodeView],
    /// Names of nodes that the plan keeps for waiting jobs.
    pub planned: &'a BTreeSet<String>,
}

/// A line in the making.
struct Line<'a> {
    key: Vec<String>,
    order: usize,
    group: Group<'a>,
}

/// The format that the options ask for, `fit` being the width of a fitted partition and node column.
pub fn template(options: &Options, fit: (usize, usize)) -> Template {
    if let Some(names) = &options.long_format {
        return Template::names(names, by_name);
    }
    let (p, n) = fit;
    let given = options.format.clone();
    let text = given.unwrap_or_else(|| match (options.summarize, options.reasons, options.by_node, options.long) {
        (_, true, _, false) => "%20E %9u %19H %N".to_owned(),
        (_, true, _, true) => "%20E %12U %19H %6t %N".to_owned(),
        (true, ..) => format!("%{p}P %.5a %.10l %.16F %N"),
        (_, _, true, false) => format!("%{n}N %.6D %.{p}P %6t"),
        (_, _, true, true) => format!("%{n}N %.6D %.{p}P %.11T %4c %.8z %.6m %.8d %.6w %.8f %20E"),
        (_, _, _, true) => format!("%{p}P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %.11i %N"),
        _ => format!("%{p}P %.5a %.10l %.6D %.6t %N"),
    });
    if text == "%all" {
        let all: Vec<String> = FIELDS.iter().filter_map(|f| f.letter).map(|c| format!("%{c}")).collect();
        return Template::letters(&all.join("|"), by_letter);
    }
    Template::letters(&text, by_letter)
}

/// Everything that `sinfo` prints.
pub fn report(cluster: Cluster<'_>, options: &Options, shown: &Shown<'_>) -> Report {
    let mut out = Report::default();
    if options.long {
        out.stdout.push_str(&format!("{}\n", moment::headline(shown.now_s, shown.zone)));
    }
    let partitions: Vec<&PartitionView> = cluster.partitions.iter().filter(|p| shows_partition(p, options)).collect();
    let template = template(options, widths(&partitions, cluster.nodes));
    for name in &template.unknown {
        out.stderr.push_str(&match options.long_format {
            Some(_) => format!("sinfo: error: Invalid job format specification: {name}\n"),
            None => format!("Invalid node format specification: {name}\n"),
        });
    }
    if !options.no_header {
        template.line(&mut out.stdout, |i| FIELDS.get(i).map_or("", |f| f.header).to_owned());
    }
    let mut lines = group(&partitions, cluster, options, &template, shown);
    let default = match (options.by_node, options.reasons) {
        (true, _) | (_, true) => "N",
        _ => "#P,-t",
    };
    sort(&mut lines, &sort_fields(options.sort.as_deref().unwrap_or(default)), shown);
    for line in &lines {
        template.line(&mut out.stdout, |i| FIELDS.get(i).map_or_else(String::new, |f| (f.value)(&line.group, shown)));
    }
    out
}

fn shows_partition(view: &PartitionView, options: &Options) -> bool {
    match &options.partitions {
        Some(names) => names.contains(&view.partition.name),
        None => options.all || !view.partition.hidden,
    }
}

fn shows_node(view: &NodeView, cluster: Cluster<'_>, options: &Options) -> bool {
    let state = node_state::of(view, cluster.planned.contains(&view.node.name));
    options.nodes.as_ref().is_none_or(|n| n.contains(&view.node.name))
        && options.states.as_ref().is_none_or(|f| f.matches(state))
        && (!options.dead || state.not_responding)
        && (!options.responding || !state.not_responding)
        && (!options.reasons || node_state::mark(view).is_some())
}

/// Widths that fit the longest partition with its star, and the longest node.
fn widths(partitions: &[&PartitionView], nodes: &[NodeView]) -> (usize, usize) {
    let partition = partitions.iter().map(|p| p.partition.name.chars().count() + usize::from(p.partition.is_default));
    let node = nodes.iter().map(|n| n.node.name.chars().count());
    (partition.max().unwrap_or(0).max(LEAST_FITTED), node.max().unwrap_or(0).max(LEAST_FITTED))
}

/// Puts nodes with the same values on one line.
fn group<'a>(
    partitions: &[&'a PartitionView],
    cluster: Cluster<'a>,
    options: &Options,
    template: &Template,
    shown: &Shown<'_>,
) -> Vec<Line<'a>> {
    let fields: Vec<usize> = template.fields().collect();
    let tells_apart = |scope: Scope| match scope {
        Scope::Partition | Scope::Node => true,
        Scope::Range => options.exact,
        Scope::Sum => false,
    };
    let splitting: Vec<usize> =
        fields.into_iter().filter(|i| FIELDS.get(*i).is_some_and(|f| tells_apart(f.scope))).collect();
    // An empty line stands for a partition only where lines name partitions.
    let names_partitions = template.columns.iter().any(
        |c| matches!(c.source, Source::Field(i) if FIELDS.get(i).is_some_and(|f| matches!(f.letter, Some('P' | 'R')))),
    );
    let mut lines: Vec<Line<'a>> = Vec::new();
    for (order, partition) in partitions.iter().enumerate() {
        let members = cluster.nodes.iter().filter(|n| partition.nodes.contains(&n.node.name));
        let mut nodes: Vec<&NodeView> = members.filter(|n| shows_node(n, cluster, options)).collect();
        nodes.sort_by_key(|n| node_order(&n.node.name));
        for node in &nodes {
            let group = Group { partition, nodes: vec![*node], planned: cluster.planned };
            place(&mut lines, group, order, &splitting, options.by_node, shown);
        }
        if nodes.is_empty() && names_partitions && !options.by_node && !options.reasons {
            let group = Group { partition, nodes: Vec::new(), planned: cluster.planned };
            place(&mut lines, group, order, &splitting, false, shown);
        }
    }
    lines
}

fn place<'a>(
    lines: &mut Vec<Line<'a>>,
    group: Group<'a>,
    order: usize,
    splitting: &[usize],
    by_node: bool,
    shown: &Shown<'_>,
) {
    let mut key: Vec<String> =
        splitting.iter().filter_map(|i| FIELDS.get(*i)).map(|f| (f.value)(&group, shown)).collect();
    if by_node {
        key.push(order.to_string());
        key.extend(group.nodes.first().map(|n| n.node.name.clone()));
    }
    match lines.iter_mut().find(|l| l.key == key) {
        Some(line) => {
            for node in group.nodes {
                if !line.group.nodes.iter().any(|n| n.node.id == node.node.id) {
                    line.group.nodes.push(node);
                }
            }
        }
        None => lines.push(Line { key, order, group }),
    }
}

/// Names in the order of their numbers: `n2` before `n10`.
fn node_order(name: &str) -> (String, u64) {
    let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count().min(18);
    let (prefix, tail) = name.split_at(name.len() - digits);
    (prefix.to_owned(), tail.parse().unwrap_or(0))
}

fn sort(lines: &mut Vec<Line<'_>>, fields: &[SortField], shown: &Shown<'_>) {
    let mut keyed: Vec<(Vec<Key>, Line<'_>)> =
        lines.drain(..).map(|line| (fields.iter().map(|f| key(*f, &line, shown)).collect(), line)).collect();
    keyed.sort_by(|a, b| compare_keys(&a.0, &b.0, fields));
    lines.extend(keyed.into_iter().map(|(_, line)| line));
}

fn key(field: SortField, line: &Line<'_>, shown: &Shown<'_>) -> Key {
    let group = &line.group;
    let number = |n: u64| Key::Number(i64::try_from(n).unwrap_or(i64::MAX));
    match field.letter {
        'P' | 'R' if field.natural => number(line.order as u64),
        't' | 'T' => number(u64::from(group.first_state().map_or(0, |s| s.rank()))),
        'D' => number(group.nodes.len() as u64),
        'N' | 'n' => group.nodes.first().map_or(Key::Text(String::new()), |n| {
            let (prefix, number) = node_order(&n.node.name);
            // One text that sorts by prefix, then by number.
            Key::Text(format!("{prefix}\0{number:020}"))
        }),
        'c' => number(group.nodes.iter().map(|n| u64::from(n.node.inventory.cpus)).min().unwrap_or(0)),
        'm' => number(group.nodes.iter().map(|n| n.node.inventory.memory.0).min().unwrap_or(0)),
        'w' => number(group.nodes.iter().map(|n| u64::from(n.node.inventory.weight)).min().unwrap_or(0)),
        'l' => number(group.partition.partition.max_time.seconds().unwrap_or(u64::MAX)),
        'H' => number(group.nodes.first().and_then(|n| node_state::mark(n)).map_or(0, |m| m.since.0)),
        other => match by_letter(other).and_then(|i| FIELDS.get(i)) {
            Some(f) => Key::Text((f.value)(group, shown)),
            None => Key::Number(0),
        },
    }
}

/// `--helpstate`, `--helpformat` and `--helpFormat`.
pub fn list(what: List) -> String {
    match what {
        List::States => node_state::list().split(',').map(|n| format!("{n}\n")).collect(),
        List::Letters => letter_list(FIELDS.iter().filter_map(|f| f.letter)),
        List::Names => name_list(FIELDS.iter().map(|f| f.name)),
    }
}
