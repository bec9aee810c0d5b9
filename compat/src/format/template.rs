//! Formats: `%[[.]width]letter` text (`-o`) and `name[:[.][width][suffix]]` lists (`-O`).

/// Where the value of a column comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A field by its place in the table.
    Field(usize),
    /// Text that stands as it is.
    Literal(String),
}

/// One column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// What is printed.
    pub source: Source,
    /// Exactly so many characters: cut or filled; `None`: as long as it is.
    pub width: Option<usize>,
    /// Filled on the left.
    pub right: bool,
    /// Text behind it.
    pub suffix: String,
}

/// A format, ready to print.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Template {
    /// Text before the first column.
    pub prefix: String,
    /// The columns.
    pub columns: Vec<Column>,
    /// Fields that do not exist, as they were written.
    pub unknown: Vec<String>,
}

/// Widths beyond this are mistakes.
const MAX_WIDTH: usize = 65_535;
/// The width of a field by name that says none.
const DEFAULT_NAME_WIDTH: usize = 20;

impl Template {
    /// Reads `-o`. `find` gives a letter's place in the table; an unknown letter stays as text.
    pub fn letters(text: &str, find: impl Fn(char) -> Option<usize>) -> Self {
        let mut out = Self::default();
        let mut parts = text.split('%');
        out.prefix = parts.next().unwrap_or("").to_owned();
        // Two percent signs in a row are one.
        for part in parts.filter(|p| !p.is_empty()) {
            let column = letter_column(part, &find, &mut out.unknown);
            out.columns.push(column);
        }
        out
    }

    /// Reads `-O`. `find` gives a name's place in the table.
    pub fn names(text: &str, find: impl Fn(&str) -> Option<usize>) -> Self {
        let mut out = Self::default();
        for part in text.split(',').filter(|p| !p.is_empty()) {
            let (name, size) = match part.split_once(':') {
                Some((n, s)) => (n, Some(s)),
                None => (part, None),
            };
            match find(name) {
                Some(index) => out.columns.push(name_column(index, size)),
                None => out.unknown.push(name.to_owned()),
            }
        }
        out
    }

    /// The places of the fields in use.
    pub fn fields(&self) -> impl Iterator<Item = usize> + '_ {
        self.columns.iter().filter_map(|c| match c.source {
            Source::Field(i) => Some(i),
            Source::Literal(_) => None,
        })
    }

    /// Prints one line with its end.
    pub fn line(&self, out: &mut String, value: impl Fn(usize) -> String) {
        out.push_str(&self.prefix);
        for column in &self.columns {
            match &column.source {
                Source::Field(index) => fill(out, &value(*index), column),
                Source::Literal(text) => out.push_str(text),
            }
            out.push_str(&column.suffix);
        }
        out.push('\n');
    }
}

fn letter_column(part: &str, find: impl Fn(char) -> Option<usize>, unknown: &mut Vec<String>) -> Column {
    let right = part.starts_with('.');
    let after_dot = part.get(usize::from(right)..).unwrap_or("");
    let digits = after_dot.bytes().take_while(u8::is_ascii_digit).count();
    let (width, rest) = after_dot.split_at(digits);
    let mut chars = rest.chars();
    let letter = chars.next();
    match letter.and_then(&find) {
        Some(index) => {
            let width = width.parse::<usize>().ok().filter(|w| *w > 0).map(|w| w.min(MAX_WIDTH));
            Column { source: Source::Field(index), width, right, suffix: chars.as_str().to_owned() }
        }
        None => {
            unknown.extend(letter.map(String::from));
            Column { source: Source::Literal(format!("%{part}")), width: None, right: false, suffix: String::new() }
        }
    }
}

fn name_column(index: usize, size: Option<&str>) -> Column {
    let source = Source::Field(index);
    let Some(size) = size else {
        return Column { source, width: Some(DEFAULT_NAME_WIDTH), right: false, suffix: String::new() };
    };
    let right = size.starts_with('.');
    let after_dot = size.get(usize::from(right)..).unwrap_or("");
    let digits = after_dot.bytes().take_while(u8::is_ascii_digit).count();
    let (width, suffix) = after_dot.split_at(digits);
    let width = width.parse::<usize>().ok().filter(|w| *w > 0).map(|w| w.min(MAX_WIDTH));
    Column { source, width, right, suffix: suffix.to_owned() }
}

fn fill(out: &mut String, value: &str, column: &Column) {
    let Some(width) = column.width else {
        out.push_str(value);
        return;
    };
    let length = value.chars().count();
    if length >= width {
        out.extend(value.chars().take(width));
        return;
    }
    let blanks = std::iter::repeat_n(' ', width - length);
    if column.right {
        out.extend(blanks);
        out.push_str(value);
    } else {
        out.push_str(value);
        out.extend(blanks);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letters(text: &str) -> (String, Vec<String>) {
        let t = Template::letters(text, |c| "iju".find(c));
        let mut out = String::new();
        t.line(&mut out, |i| ["71326", "excl", "alice"][i].to_owned());
        (out, t.unknown)
    }

    #[test]
    fn letters_are_printed_as_slurm_prints_them() {
        for (text, want, unknown) in [
            ("%i %j", "71326 excl\n", ""),
            ("%.8i|", "   71326|\n", ""),
            ("%8i|", "71326   |\n", ""),
            ("[%.5i][%-5i][%12i][%.12j][%3u]", "[71326][%-5i][71326       ][        excl][ali]\n", "-"),
            ("a%%j %i\\tx", "aexcl 71326\\tx\n", ""),
            ("", "\n", ""),
            ("x", "x\n", ""),
            ("x%i", "x71326\n", ""),
            ("%.5i%", "71326\n", ""),
            ("%5s|%i|", "%5s|71326|\n", "s"),
            ("%0i", "71326\n", ""),
            ("%.0i", "71326\n", ""),
            ("%3ié", "713é\n", ""),
        ] {
            let (out, missing) = letters(text);
            assert_eq!((out.as_str(), missing.concat().as_str()), (want, unknown), "{text}");
        }
    }

    fn names(text: &str) -> (String, Vec<String>) {
        let t = Template::names(text, |n| ["jobid", "name"].iter().position(|x| x.eq_ignore_ascii_case(n)));
        let mut out = String::new();
        t.line(&mut out, |i| ["70277", "wrap"][i].to_owned());
        (out, t.unknown)
    }

    #[test]
    fn names_are_printed_as_slurm_prints_them() {
        for (text, want, unknown) in [
            ("jobid,name", "70277               wrap                \n", ""),
            ("JobID", "70277               \n", ""),
            ("jobid:8,name:10", "70277   wrap      \n", ""),
            ("jobid:|,name:|", "70277|wrap|\n", ""),
            ("jobid:,name:", "70277wrap\n", ""),
            ("jobid:.8", "   70277\n", ""),
            ("jobid:3x", "702x\n", ""),
            ("jobid:8|,name:\u{1f}", "70277   |wrap\u{1f}\n", ""),
            ("jobid,,name", "70277               wrap                \n", ""),
            ("foo", "\n", "foo"),
            ("jobid:8,cpufreq:40", "70277   \n", "cpufreq"),
            ("", "\n", ""),
        ] {
            let (out, missing) = names(text);
            assert_eq!((out.as_str(), missing.concat().as_str()), (want, unknown), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_format_is_answered(text in "[%.0-9ijuaé:,\\- |]{0,30}") {
            let _ = (letters(&text), names(&text));
        }

        #[test]
        fn widths_are_exact(width in 1usize..40, right in proptest::bool::ANY) {
            let dot = if right { "." } else { "" };
            let (out, _) = letters(&format!("%{dot}{width}j"));
            proptest::prop_assert_eq!(out.chars().count(), width + 1);
        }
    }
}
