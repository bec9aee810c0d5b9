//! `--help` and `--usage`, made of the table.

use super::{Flag, Support, Takes};

const COLUMN: usize = 30;

/// The help text: one line a flag; flags that are refused are left out.
pub fn help(program: &str, synopsis: &str, flags: &[&Flag]) -> String {
    let mut out = format!("Usage: {program} {synopsis}\n\nOptions:\n");
    for flag in flags.iter().filter(|f| !matches!(f.support, Support::Refused(_))) {
        let letter = flag.short.map_or_else(|| "    ".to_owned(), |c| format!("-{c}, "));
        let value = match flag.takes {
            Takes::Nothing => String::new(),
            Takes::Value(v) => format!("={v}"),
            Takes::Optional(v) | Takes::Perhaps(v) => format!("[={v}]"),
        };
        let head = format!("  {letter}--{}{value}", flag.long);
        if head.len() >= COLUMN {
            out.push_str(&format!("{head}\n{:COLUMN$}{}\n", "", flag.help));
        } else {
            out.push_str(&format!("{head:COLUMN$}{}\n", flag.help));
        }
    }
    out
}

/// The usage text: every flag that is not refused, folded at 80 columns.
pub fn usage(program: &str, operands: &str, flags: &[&Flag]) -> String {
    let indent = " ".repeat("Usage: ".len() + program.len());
    let mut lines = vec![format!("Usage: {program}")];
    let words = flags.iter().filter(|f| !matches!(f.support, Support::Refused(_))).map(|flag| {
        let name = flag.short.map_or_else(|| format!("--{}", flag.long), |c| format!("-{c}"));
        match flag.takes {
            Takes::Nothing => format!("[{name}]"),
            Takes::Value(v) if flag.short.is_some() => format!("[{name} {v}]"),
            Takes::Value(v) => format!("[{name}={v}]"),
            Takes::Optional(v) | Takes::Perhaps(v) => format!("[--{}[={v}]]", flag.long),
        }
    });
    for word in words.chain((!operands.is_empty()).then(|| operands.to_owned())) {
        match lines.last_mut() {
            Some(last) if last.len() + 1 + word.len() <= 80 => {
                last.push(' ');
                last.push_str(&word);
            }
            _ => lines.push(format!("{indent} {word}")),
        }
    }
    lines.join("\n") + "\n"
}
