//! Command lines as `getopt_long` of the GNU C library reads them: `-n4`, `-n 4`, `-HJ x`, `--x=y`, `--x y`, unique
//! beginnings of long names, options between operands, `--`.

use super::{Flag, Takes};

/// One option of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its row in the table.
    pub index: usize,
    /// Its value, if one was given.
    pub value: Option<String>,
}

/// A command line cut into options and the rest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parsed {
    /// The options, in order.
    pub options: Vec<Found>,
    /// What is no option, in order.
    pub operands: Vec<String>,
}

/// The texts of the GNU C library, without the program's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GetoptError {
    /// No such long option.
    #[error("unrecognized option '{0}'")]
    Unrecognized(String),
    /// No such letter.
    #[error("invalid option -- '{0}'")]
    InvalidLetter(char),
    /// A letter that needs a value has none.
    #[error("option requires an argument -- '{0}'")]
    LetterNeedsValue(char),
    /// A long option that needs a value has none.
    #[error("option '--{0}' requires an argument")]
    NeedsValue(String),
    /// A long option that takes no value has one.
    #[error("option '--{0}' doesn't allow an argument")]
    NoValue(String),
    /// The beginning of several long options.
    #[error("option '{given}' is ambiguous; possibilities:{possibilities}")]
    Ambiguous {
        /// What was given.
        given: String,
        /// Each with a blank before it, in quotes.
        possibilities: String,
    },
}

/// Reads `args` against the flags. With `options_first`, the first operand ends the options.
///
/// # Errors
/// [`GetoptError`] for the first thing that is wrong.
pub fn parse(flags: &[&Flag], args: &[String], options_first: bool) -> Result<Parsed, GetoptError> {
    let mut out = Parsed::default();
    let mut rest = args.iter().peekable();
    while let Some(arg) = rest.next() {
        if arg == "--" {
            out.operands.extend(rest.cloned());
            break;
        }
        if let Some(long) = arg.strip_prefix("--") {
            out.options.push(long_option(flags, arg, long, &mut rest)?);
        } else if arg.len() > 1 && arg.starts_with('-') {
            letters(flags, arg.get(1..).unwrap_or(""), &mut rest, &mut out.options)?;
        } else {
            out.operands.push(arg.clone());
            if options_first {
                out.operands.extend(rest.cloned());
                break;
            }
        }
    }
    Ok(out)
}

fn long_option(
    flags: &[&Flag],
    arg: &str,
    long: &str,
    rest: &mut std::iter::Peekable<std::slice::Iter<'_, String>>,
) -> Result<Found, GetoptError> {
    let (name, glued) = match long.split_once('=') {
        Some((n, v)) => (n, Some(v.to_owned())),
        None => (long, None),
    };
    let index = find_long(flags, name, arg)?;
    let flag = flags[index];
    let value = match (flag.takes, glued) {
        (Takes::Nothing, Some(_)) => return Err(GetoptError::NoValue(flag.long.to_owned())),
        (Takes::Value(_), None) => {
            Some(rest.next().ok_or_else(|| GetoptError::NeedsValue(flag.long.to_owned()))?.clone())
        }
        (Takes::Perhaps(_), None) => next_value(rest),
        (_, glued) => glued,
    };
    Ok(Found { index, value })
}

/// The next word, if it is no option.
fn next_value(rest: &mut std::iter::Peekable<std::slice::Iter<'_, String>>) -> Option<String> {
    rest.next_if(|w| !w.starts_with('-')).cloned()
}

fn find_long(flags: &[&Flag], name: &str, arg: &str) -> Result<usize, GetoptError> {
    if let Some(exact) = flags.iter().position(|f| f.long == name) {
        return Ok(exact);
    }
    let mut near: Vec<usize> = flags
        .iter()
        .enumerate()
        .filter(|(_, f)| !f.long.is_empty() && f.long.starts_with(name))
        .map(|(i, _)| i)
        .collect();
    near.sort_by_key(|i| flags[*i].long);
    match near.as_slice() {
        [] => Err(GetoptError::Unrecognized(arg.to_owned())),
        [one] => Ok(*one),
        // Several names of one thing are no ambiguity.
        [first, ..] if near.iter().all(|i| flags[*i].short.is_some() && flags[*i].short == flags[*first].short) => {
            Ok(*first)
        }
        _ => Err(GetoptError::Ambiguous {
            given: arg.split('=').next().unwrap_or(arg).to_owned(),
            possibilities: near.iter().map(|i| format!(" '--{}'", flags[*i].long)).collect(),
        }),
    }
}

fn letters(
    flags: &[&Flag],
    cluster: &str,
    rest: &mut std::iter::Peekable<std::slice::Iter<'_, String>>,
    out: &mut Vec<Found>,
) -> Result<(), GetoptError> {
    let mut chars = cluster.chars();
    while let Some(letter) = chars.next() {
        let index = flags.iter().position(|f| f.short == Some(letter)).ok_or(GetoptError::InvalidLetter(letter))?;
        let glued = chars.as_str();
        let value = match flags[index].takes {
            Takes::Nothing => None,
            Takes::Optional(_) if glued.is_empty() => None,
            Takes::Perhaps(_) if glued.is_empty() => next_value(rest),
            Takes::Value(_) if glued.is_empty() => {
                Some(rest.next().ok_or(GetoptError::LetterNeedsValue(letter))?.clone())
            }
            _ => Some(glued.to_owned()),
        };
        let takes = flags[index].takes != Takes::Nothing;
        out.push(Found { index, value });
        if takes {
            return Ok(());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::option::Support;

    const fn flag(long: &'static str, short: Option<char>, takes: Takes) -> Flag {
        Flag { long, short, takes, env: &[], help: "", man: "", support: Support::Done }
    }

    const FLAGS: &[Flag] = &[
        flag("hold", Some('H'), Takes::Nothing),
        flag("job-name", Some('J'), Takes::Value("name")),
        flag("nice", None, Takes::Optional("n")),
        flag("nodes", Some('N'), Takes::Value("n")),
        flag("no-kill", Some('k'), Takes::Optional("off")),
        flag("verbose", Some('v'), Takes::Nothing),
        flag("version", Some('V'), Takes::Nothing),
        flag("ntasks", Some('n'), Takes::Value("n")),
        flag("list", Some('l'), Takes::Perhaps("ids")),
    ];

    fn run(line: &str, options_first: bool) -> Result<String, String> {
        let args: Vec<String> = line.split(' ').filter(|w| !w.is_empty()).map(|w| w.replace('_', " ")).collect();
        let flags: Vec<&Flag> = FLAGS.iter().collect();
        let p = parse(&flags, &args, options_first).map_err(|e| e.to_string())?;
        let options: Vec<String> = p
            .options
            .iter()
            .map(|f| match &f.value {
                Some(v) => format!("{}={v}", flags[f.index].long),
                None => flags[f.index].long.to_owned(),
            })
            .collect();
        Ok(format!("{} | {}", options.join(" "), p.operands.join(" ")))
    }

    #[test]
    fn lines_are_read_as_getopt_long_reads_them() {
        for (line, want) in [
            ("-n4", "ntasks=4 | "),
            ("-n 4", "ntasks=4 | "),
            ("-N1-4", "nodes=1-4 | "),
            ("--ntasks=4", "ntasks=4 | "),
            ("--ntasks 4", "ntasks=4 | "),
            ("--nt=4", "ntasks=4 | "),
            ("--j x", "job-name=x | "),
            ("-HJ x -v", "hold job-name=x verbose | "),
            ("-vvv", "verbose verbose verbose | "),
            ("--nice", "nice | "),
            ("--nice 5", "nice | 5"),
            ("--nice=5", "nice=5 | "),
            ("--nice=", "nice= | "),
            ("-koff", "no-kill=off | "),
            ("-k off", "no-kill | off"),
            ("-J -n", "job-name=-n | "),
            ("a -H b", "hold | a b"),
            ("-- -H", " | -H"),
            ("-", " | -"),
            ("--job-name= x", "job-name= | x"),
            ("-l 7", "list=7 | "),
            ("-l7", "list=7 | "),
            ("-l -H", "list hold | "),
            ("--list 7 8", "list=7 | 8"),
            ("--list", "list | "),
        ] {
            assert_eq!(run(line, false).as_deref(), Ok(want), "{line}");
        }
        assert_eq!(run("-H job.sh --bogus -n", true).as_deref(), Ok("hold | job.sh --bogus -n"));
        assert_eq!(run("-H -- job.sh -n", true).as_deref(), Ok("hold | job.sh -n"));
    }

    #[test]
    fn errors_are_those_of_the_c_library() {
        for (line, want) in [
            ("--bogus=1", "unrecognized option '--bogus=1'"),
            ("-Z", "invalid option -- 'Z'"),
            ("-HZ", "invalid option -- 'Z'"),
            ("-n", "option requires an argument -- 'n'"),
            ("--job-name", "option '--job-name' requires an argument"),
            ("--hold=x", "option '--hold' doesn't allow an argument"),
            ("--ho=x", "option '--hold' doesn't allow an argument"),
            ("--ver", "option '--ver' is ambiguous; possibilities: '--verbose' '--version'"),
            ("--no", "option '--no' is ambiguous; possibilities: '--no-kill' '--nodes'"),
        ] {
            assert_eq!(run(line, false), Err(want.to_owned()), "{line}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_line_is_answered(line in "[\\-HJnNkvVé=x ]{0,30}", first in proptest::bool::ANY) {
            let _ = run(&line, first);
        }
    }
}
