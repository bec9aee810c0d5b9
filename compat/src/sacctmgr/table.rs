//! Tables: columns with widths, `format=`, and the ways to print them.

use super::Stop;

/// How tables are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Style {
    /// In columns.
    #[default]
    Columns,
    /// With `|` after each field.
    Parsable,
    /// With `|` between fields.
    Parsable2,
}

/// A column that can be asked for.
#[derive(Debug, Clone, Copy)]
pub struct Column<K> {
    /// Its name in `format=`; beginnings mean the first that fits.
    pub name: &'static str,
    /// The fewest letters.
    pub least: usize,
    /// Its heading.
    pub head: &'static str,
    /// Its width; negative for text at the left.
    pub width: i32,
    /// What it shows.
    pub key: K,
}

/// A column of one table.
#[derive(Debug, Clone, Copy)]
pub struct Chosen<K> {
    /// Its heading.
    pub head: &'static str,
    /// Its width.
    pub width: i32,
    /// What it shows.
    pub key: K,
}

/// The columns that a `format=` names.
///
/// # Errors
/// `Unknown field`.
pub fn choose<K: Copy>(columns: &[Column<K>], format: &str) -> Result<Vec<Chosen<K>>, Stop> {
    let fields = format.split(',').filter(|field| !field.is_empty());
    fields
        .map(|field| {
            let (name, width) = match field.split_once('%') {
                Some((name, width)) => (name, width.parse::<i32>().ok()),
                None => (field, None),
            };
            let name = name.to_lowercase();
            let fits = |column: &&Column<K>| {
                name.len() >= column.least && column.name.to_lowercase().starts_with(name.as_str())
            };
            let exact = columns.iter().find(|column| column.name.to_lowercase() == name);
            let column = exact.or_else(|| columns.iter().find(fits));
            let column = column.ok_or_else(|| Stop::err(format!("Unknown field '{field}'\n")))?;
            Ok(Chosen { head: column.head, width: width.unwrap_or(column.width), key: column.key })
        })
        .collect()
}

/// A text cut to a width; what was cut off shows as `+`.
fn cell(text: &str, width: i32) -> String {
    let wide = width.unsigned_abs() as usize;
    let cut: String = if text.chars().count() > wide && wide > 0 {
        text.chars().take(wide - 1).chain(std::iter::once('+')).collect()
    } else {
        text.to_owned()
    };
    if width < 0 { format!("{cut:<wide$}") } else { format!("{cut:>wide$}") }
}

/// Prints a table.
pub fn print<K: Copy, R>(
    columns: &[Chosen<K>],
    rows: impl IntoIterator<Item = R>,
    style: Style,
    heads: bool,
    value: impl Fn(&R, K) -> String,
) -> String {
    let mut out = String::new();
    let line = |out: &mut String, cells: Vec<String>| {
        match style {
            Style::Columns => cells.iter().for_each(|cell| {
                out.push_str(cell);
                out.push(' ');
            }),
            Style::Parsable => cells.iter().for_each(|cell| {
                out.push_str(cell);
                out.push('|');
            }),
            Style::Parsable2 => out.push_str(&cells.join("|")),
        }
        out.push('\n');
    };
    if heads {
        let head = |column: &Chosen<K>| match style {
            Style::Columns => {
                // Headings are cut without a sign.
                let wide = column.width.unsigned_abs() as usize;
                cell(&column.head.chars().take(wide).collect::<String>(), column.width)
            }
            _ => column.head.to_owned(),
        };
        line(&mut out, columns.iter().map(head).collect());
        if style == Style::Columns {
            line(&mut out, columns.iter().map(|column| "-".repeat(column.width.unsigned_abs() as usize)).collect());
        }
    }
    for row in rows {
        let one = |column: &Chosen<K>| {
            let text = value(&row, column.key);
            if style == Style::Columns { cell(&text, column.width) } else { text.trim_start().to_owned() }
        };
        line(&mut out, columns.iter().map(one).collect());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[Column<char>] = &[
        Column { name: "Name", least: 1, head: "Name", width: 5, key: 'n' },
        Column { name: "MaxJobs", least: 4, head: "MaxJobs", width: 7, key: 'j' },
    ];

    #[test]
    fn tables_are_printed_in_three_ways() {
        let columns = choose(COLUMNS, "name,maxj%-4").unwrap();
        let value = |row: &(&str, u32), key| if key == 'n' { row.0.to_owned() } else { row.1.to_string() };
        let rows = [("ab", 3), ("abcdefg", 12345)];
        for (style, heads, want) in [
            (Style::Columns, true, " Name MaxJ \n----- ---- \n   ab 3    \nabcd+ 123+ \n"),
            (Style::Parsable, false, "ab|3|\nabcdefg|12345|\n"),
            (Style::Parsable2, true, "Name|MaxJobs\nab|3\nabcdefg|12345\n"),
        ] {
            assert_eq!(print(&columns, rows, style, heads, value), want);
        }
    }

    #[test]
    fn fields_that_are_not_known_are_refused() {
        assert_eq!(choose(COLUMNS, "foo").err().map(|stop| stop.err), Some("Unknown field 'foo'\n".to_owned()));
    }
}
