//! File-name patterns: `slurm-%A_%3a.out` and what stands in for each letter.

/// What the letters of a pattern mean. Absent values leave the letter as Slurm does.
#[derive(Debug, Clone, Default)]
pub struct Values<'a> {
    /// `%j`: the job's own id.
    pub job: u32,
    /// `%A`: the array's id; the job's own where it is no array.
    pub array_job: Option<u32>,
    /// `%a`: the task's number.
    pub array_task: Option<u32>,
    /// `%x`: the job's name.
    pub name: &'a str,
    /// `%u`: the user's name.
    pub user: &'a str,
    /// `%N`: the short name of the host.
    pub host: &'a str,
    /// `%n`: the node's number in the job, from 0.
    pub node: u32,
    /// `%t`: the task's number in the job, from 0.
    pub task: u32,
    /// `%s`: the step, such as `batch` or `0`.
    pub step: &'a str,
}

/// What Slurm writes for the task number of a job that has none.
const NO_TASK: u32 = 0xffff_fffe;
/// The widest padding.
const MAX_WIDTH: usize = 10;
/// The standard output of a job that names none.
pub const DEFAULT: &str = "slurm-%j.out";
/// The standard output of an array that names none.
pub const DEFAULT_ARRAY: &str = "slurm-%A_%a.out";

impl Values<'_> {
    fn number(&self, letter: char) -> Option<u32> {
        let task = self.array_task.unwrap_or(NO_TASK);
        match letter {
            'j' => Some(self.job),
            'A' => Some(self.array_job.unwrap_or(self.job)),
            'a' => Some(task),
            'b' => Some(task % 10),
            'n' => Some(self.node),
            't' => Some(self.task),
            _ => None,
        }
    }

    fn text(&self, letter: char) -> Option<String> {
        match letter {
            'x' => Some(self.name.to_owned()),
            'u' => Some(self.user.to_owned()),
            'N' => Some(self.host.split('.').next().unwrap_or(self.host).to_owned()),
            's' => Some(self.step.to_owned()),
            'J' if self.step.is_empty() || self.step == "batch" => Some(self.job.to_string()),
            'J' => Some(format!("{}.{}", self.job, self.step)),
            _ => None,
        }
    }
}

/// The file's name. `%3a` pads numbers with zeros (at most to 10 digits), `%%` is a percent sign, unknown letters stay, and
/// one backslash anywhere turns every replacement off and disappears (`\\` leaves one).
pub fn expand(pattern: &str, values: &Values<'_>) -> String {
    if pattern.contains('\\') {
        return unescape(pattern);
    }
    walk(pattern, |width, letter| match (values.number(letter), values.text(letter)) {
        (Some(n), _) => Some(padded(n, width)),
        (None, Some(text)) => Some(text),
        // Slurm drops the percent sign of an unknown letter when a width was given.
        (None, None) if !width.is_empty() => Some(format!("{width}{letter}")),
        (None, None) => None,
    })
}

/// The name as `scontrol show job` and `squeue` print it before the job runs: only what the submission decides is filled in.
pub fn expand_shown(pattern: &str, values: &Values<'_>) -> String {
    walk(pattern, |width, letter| match letter {
        'j' | 'A' | 'a' | 'b' => values.number(letter).map(|n| padded(n, width)),
        'x' | 'u' => values.text(letter),
        _ => None,
    })
}

fn padded(n: u32, width: &str) -> String {
    let width = width.parse::<usize>().unwrap_or(0).min(MAX_WIDTH);
    format!("{n:0width$}")
}

fn unescape(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if c == '\\' {
            out.extend(chars.next());
        } else {
            out.push(c);
        }
    }
    out
}

/// Replaces each `%[width]letter` by what `replace` says; `None` leaves it as it is.
fn walk(pattern: &str, replace: impl Fn(&str, char) -> Option<String>) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern;
    while let Some(at) = rest.find('%') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let tail = from.get(1..).unwrap_or("");
        let digits = tail.bytes().take_while(u8::is_ascii_digit).count();
        let (width, behind) = tail.split_at(digits);
        match behind.chars().next() {
            Some('%') if width.is_empty() => {
                out.push('%');
                rest = behind.get(1..).unwrap_or("");
            }
            Some(letter) => {
                let used = 1 + digits + letter.len_utf8();
                match replace(width, letter) {
                    Some(text) => out.push_str(&text),
                    None => out.push_str(from.get(..used).unwrap_or("")),
                }
                rest = from.get(used..).unwrap_or("");
            }
            None => {
                out.push_str(if width.is_empty() { "%" } else { width });
                rest = "";
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_expanded() {
        let values = Values {
            job: 70_288,
            name: "nm",
            user: "alice",
            host: "vm.campus.example",
            step: "batch",
            ..Values::default()
        };
        for (pattern, want) in [
            ("a-%5j", "a-70288"),
            ("b-%12j", "b-0000070288"),
            ("c-%05j", "c-70288"),
            ("d-%5x", "d-nm"),
            ("e-%5u", "e-alice"),
            ("f-\\%j", "f-%j"),
            ("g-%%j-%5%", "g-%j-5%"),
            ("h-\\\\%j", "h-\\%j"),
            ("i-%3n-%3t", "i-000-000"),
            ("j-%3A-%3a", "j-70288-4294967294"),
            ("k-%5N", "k-vm"),
            ("l-%", "l-%"),
            ("m-%5", "m-5"),
            ("n-%J-%4J", "n-70288-70288"),
            ("o-%5s", "o-batch"),
            ("p-%r", "p-%r"),
            ("q-\\n", "q-n"),
            ("r-%jx%x%jj", "r-70288xnm70288j"),
            ("s-%-5j", "s-%-5j"),
            ("t-%4b", "t-0004"),
            ("u-%0j", "u-70288"),
            ("w-%5q", "w-5q"),
            ("", ""),
            ("ü%j€%q", "ü70288€%q"),
        ] {
            assert_eq!(expand(pattern, &values), want, "{pattern}");
        }
    }

    #[test]
    fn arrays_have_their_own_letters() {
        let values =
            Values { job: 70_312, array_job: Some(70_311), array_task: Some(17), step: "0", ..Values::default() };
        assert_eq!(expand("arr-%3a-%5A-%3b-%j-%J", &values), "arr-017-70311-007-70312-70312.0");
        assert_eq!(expand(DEFAULT_ARRAY, &values), "slurm-70311_17.out");
    }

    #[test]
    fn shown_names_keep_what_the_node_decides() {
        let values = Values { job: 70_297, name: "nm", user: "alice", ..Values::default() };
        for (pattern, want) in [
            ("j-%3A-%3a", "j-70297-4294967294"),
            ("i-%3n-%t-%N-%s-%J", "i-%3n-%t-%N-%s-%J"),
            ("m-%5q%%", "m-%5q%"),
            ("%x.%u", "nm.alice"),
        ] {
            assert_eq!(expand_shown(pattern, &values), want, "{pattern}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_pattern_is_answered(pattern in ".*") {
            let _ = (expand(&pattern, &Values::default()), expand_shown(&pattern, &Values::default()));
        }
    }
}
