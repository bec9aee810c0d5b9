//! The file of `srun --multi-prog`: which task runs what.
//!
//! Source: srun(1), MULTIPLE PROGRAM CONFIGURATION. A line is a list of tasks (`0`, `1-3`, `5,7`, or `*` for all that are in no
//! other line), the program and its arguments. In these, `%t` is the task's number and `%o` its place in its list.

/// A fault in the file, with its line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Not a list of tasks.
    #[error("line {0}: `{1}` is no list of tasks")]
    Tasks(usize, String),
    /// No program.
    #[error("line {0}: there is no program behind the tasks")]
    NoProgram(usize),
    /// A task in two lines.
    #[error("line {0}: task {1} has a program already")]
    Twice(usize, u32),
    /// A task in no line.
    #[error("no program is given for task {0}")]
    Missing(u32),
    /// A quote without an end.
    #[error("line {0}: a quote is not closed")]
    Quote(usize),
}

/// The command of each of `count` tasks.
///
/// # Errors
/// [`Fault`].
pub fn parse(text: &str, count: u32) -> Result<Vec<Vec<String>>, Fault> {
    let mut commands: Vec<Option<Vec<String>>> = vec![None; count as usize];
    let mut others: Option<Vec<String>> = None;
    for (line, at) in joined(text).into_iter().zip(1..) {
        let words = words(&line, at)?;
        let Some((list, command)) = words.split_first() else { continue };
        if command.is_empty() {
            return Err(Fault::NoProgram(at));
        }
        if list == "*" {
            others.get_or_insert_with(|| command.to_vec());
            continue;
        }
        for (task, place) in tasks(list).ok_or_else(|| Fault::Tasks(at, list.clone()))?.into_iter().zip(0..) {
            // Tasks beyond those that there are stand for a greater step: they are passed over.
            let Some(slot) = commands.get_mut(task as usize) else { continue };
            if slot.is_some() {
                return Err(Fault::Twice(at, task));
            }
            *slot = Some(filled(command, task, place));
        }
    }
    let mut place = 0;
    let with_others = commands.into_iter().zip(0..).map(|(command, task)| {
        command.map_or_else(
            || {
                let command = others.as_ref().ok_or(Fault::Missing(task))?;
                place += 1;
                Ok(filled(command, task, place - 1))
            },
            Ok,
        )
    });
    with_others.collect()
}

/// Lines without comments, a backslash at the end joining the next.
fn joined(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut open = String::new();
    for line in text.lines() {
        let line = line.trim();
        if open.is_empty() && line.starts_with('#') {
            lines.push(String::new());
            continue;
        }
        match line.strip_suffix('\\') {
            Some(more) => open.push_str(&format!("{more} ")),
            None => lines.push(std::mem::take(&mut open) + line),
        }
    }
    if !open.is_empty() {
        lines.push(open);
    }
    lines
}

fn words(line: &str, at: usize) -> Result<Vec<String>, Fault> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            (c, Some(q)) if c == q => quote = None,
            (c, Some(_)) => word.get_or_insert_default().push(c),
            ('"' | '\'', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            ('\\', None) => word.get_or_insert_default().extend(chars.next()),
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, None) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(Fault::Quote(at));
    }
    words.extend(word);
    Ok(words)
}

fn tasks(list: &str) -> Option<Vec<u32>> {
    const TASKS_MAX: u32 = 1 << 20;
    let mut all = Vec::new();
    for part in list.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (u32, u32) = (from.parse().ok()?, to.parse().ok()?);
        if from > to || to >= TASKS_MAX || all.len() as u32 + (to - from) >= TASKS_MAX {
            return None;
        }
        all.extend(from..=to);
    }
    Some(all)
}

fn filled(command: &[String], task: u32, place: u32) -> Vec<String> {
    command.iter().map(|word| word.replace("%t", &task.to_string()).replace("%o", &place.to_string())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, count: u32) -> Result<String, String> {
        let commands = parse(text, count).map_err(|fault| fault.to_string())?;
        Ok(commands.iter().map(|command| command.join(" ")).collect::<Vec<_>>().join(" / "))
    }

    #[test]
    fn lists_wildcards_and_places() {
        let rows = [
            ("0-1 a %t %o\n2 b\n", 3, "a 0 0 / a 1 1 / b"),
            ("# c\n\n1,3 x%t%o\n* rest %t %o\n", 4, "rest 0 0 / x10 / rest 2 1 / x31"),
            ("0 a \"b  c\" 'd e' \\\n f\\ g\n", 1, "a b  c d e f g"),
            ("0-9 a\n", 2, "a / a"),
        ];
        for (text, count, right) in rows {
            assert_eq!(shown(text, count).as_deref(), Ok(right), "{text:?}");
        }
    }

    #[test]
    fn faults_name_their_line() {
        let rows = [
            ("0 a\n0 b\n", 1, "line 2: task 0 has a program already"),
            ("0 a\n", 2, "no program is given for task 1"),
            ("0\n", 1, "line 1: there is no program behind the tasks"),
            ("1-0 a\n", 1, "line 1: `1-0` is no list of tasks"),
            ("x a\n", 1, "line 1: `x` is no list of tasks"),
            ("0 'a\n", 1, "line 1: a quote is not closed"),
            ("0-4294967295 a\n", 1, "line 1: `0-4294967295` is no list of tasks"),
        ];
        for (text, count, right) in rows {
            assert_eq!(shown(text, count), Err(right.to_owned()), "{text:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[0-9a-c*,\\-%to #\"'\\\\ \n]{0,80}", count in 0u32..20) {
            if let Ok(commands) = parse(&text, count) {
                proptest::prop_assert_eq!(commands.len(), count as usize);
            }
        }
    }
}
