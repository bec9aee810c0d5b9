//! Counts as options give them: plain numbers, `-N 1-4`, `2k`, and the condensed lists of the environment (`2(x3),1`).

use std::fmt::Write as _;

/// A count was refused. The text is Slurm's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CountError {
    /// No number, or zero where at least one is needed.
    #[error("Invalid numeric value \"{text}\" for {option}.")]
    Invalid {
        /// What was given.
        text: String,
        /// For which option, with its dashes.
        option: String,
    },
    /// A number that does not fit.
    #[error("Numeric argument ({text}) too large for {option}.")]
    TooLarge {
        /// What was given.
        text: String,
        /// For which option, with its dashes.
        option: String,
    },
    /// No number of nodes.
    #[error("\"{0}\" is not a valid node count")]
    NoNodeCount(String),
    /// The range of nodes is upside down.
    #[error("Maximum node count {max} is less than minimum node count {min}")]
    NodesReversed {
        /// The lower end.
        min: i64,
        /// The upper end.
        max: i64,
    },
    /// A list of sizes that is no single range.
    #[error("Node count \"{0}\" lists single sizes, which is not supported: write one number or min-max")]
    NodeSizes(String),
}

/// Reads a positive number for an option.
///
/// # Errors
/// [`CountError::Invalid`] or [`CountError::TooLarge`], naming `option`.
pub fn positive(text: &str, option: &str) -> Result<u32, CountError> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let significant = digits.trim_start_matches('0');
    if !plain || significant.is_empty() {
        return Err(CountError::Invalid { text: text.to_owned(), option: option.to_owned() });
    }
    significant
        .parse::<u32>()
        .ok()
        .filter(|n| *n <= i32::MAX as u32)
        .ok_or_else(|| CountError::TooLarge { text: text.to_owned(), option: option.to_owned() })
}

/// How many nodes a job wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeRange {
    /// At least.
    pub min: u32,
    /// At most.
    pub max: u32,
}

/// Reads `-N`: `4`, `1-4`, `-4` (one to four), with `k` or `m` for 1024 and its square.
///
/// # Errors
/// [`CountError`] with Slurm's text.
pub fn nodes(text: &str) -> Result<NodeRange, CountError> {
    if text.contains([',', ':']) {
        return Err(CountError::NodeSizes(text.to_owned()));
    }
    let number = |t: &str| node_number(t).ok_or_else(|| CountError::NoNodeCount(t.to_owned()));
    match text.split_once('-') {
        None => number(text).map(|n| NodeRange { min: n, max: n }),
        Some((lo, hi)) => {
            let min = if lo.is_empty() { 1 } else { number(lo)? };
            // Slurm reads the missing upper end as -1.
            let max = if hi.is_empty() { -1 } else { i64::from(number(hi)?) };
            match u32::try_from(max) {
                Ok(max) if max >= min => Ok(NodeRange { min, max }),
                _ => Err(CountError::NodesReversed { min: i64::from(min), max }),
            }
        }
    }
}

fn node_number(text: &str) -> Option<u32> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let (digits, factor) = match text.as_bytes().last()? {
        b'k' | b'K' => (text.get(..text.len() - 1)?, 1024),
        b'm' | b'M' => (text.get(..text.len() - 1)?, 1024 * 1024),
        _ => (text, 1),
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u32>().ok()?.checked_mul(factor).filter(|n| *n <= i32::MAX as u32)
}

/// `2(x3),1` for 2, 2, 2, 1: `SLURM_TASKS_PER_NODE`, `SLURM_JOB_CPUS_PER_NODE`.
pub fn condensed(counts: &[u32]) -> String {
    let mut out = String::new();
    for group in counts.chunk_by(|a, b| a == b) {
        let comma = if out.is_empty() { "" } else { "," };
        // Writing to a String cannot fail.
        let _ = match group {
            [n] => write!(out, "{comma}{n}"),
            [n, ..] => write!(out, "{comma}{n}(x{})", group.len()),
            [] => Ok(()),
        };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for (text, want) in [
            ("4", Ok(4)),
            ("+4", Ok(4)),
            ("007", Ok(7)),
            ("0", Err("Invalid numeric value \"0\" for --ntasks.")),
            ("-1", Err("Invalid numeric value \"-1\" for --ntasks.")),
            ("a", Err("Invalid numeric value \"a\" for --ntasks.")),
            ("4x", Err("Invalid numeric value \"4x\" for --ntasks.")),
            ("1k", Err("Invalid numeric value \"1k\" for --ntasks.")),
            ("4 ", Err("Invalid numeric value \"4 \" for --ntasks.")),
            ("", Err("Invalid numeric value \"\" for --ntasks.")),
            ("1.5", Err("Invalid numeric value \"1.5\" for --ntasks.")),
            ("99999999999", Err("Numeric argument (99999999999) too large for --ntasks.")),
        ] {
            assert_eq!(positive(text, "--ntasks").map_err(|e| e.to_string()), want.map_err(str::to_owned), "{text}");
        }
    }

    #[test]
    fn node_counts() {
        for (text, want) in [
            ("1", Ok((1, 1))),
            ("1-2", Ok((1, 2))),
            ("-2", Ok((1, 2))),
            ("2k", Ok((2048, 2048))),
            ("1-2k", Ok((1, 2048))),
            ("1m", Ok((1_048_576, 1_048_576))),
            ("+2", Ok((2, 2))),
            ("0-2", Ok((0, 2))),
            ("1k-2k", Ok((1024, 2048))),
            ("2-1", Err("Maximum node count 1 is less than minimum node count 2")),
            ("1-", Err("Maximum node count -1 is less than minimum node count 1")),
            ("a", Err("\"a\" is not a valid node count")),
            ("1-a", Err("\"a\" is not a valid node count")),
            ("1 2", Err("\"1 2\" is not a valid node count")),
            ("", Err("\"\" is not a valid node count")),
            ("99999999999", Err("\"99999999999\" is not a valid node count")),
            ("1.5", Err("\"1.5\" is not a valid node count")),
        ] {
            let got = nodes(text).map(|r| (r.min, r.max)).map_err(|e| e.to_string());
            assert_eq!(got, want.map_err(str::to_owned), "{text}");
        }
        assert!(nodes("1-5,7").is_err());
    }

    #[test]
    fn condensed_lists() {
        for (counts, want) in [
            (&[][..], ""),
            (&[1], "1"),
            (&[2, 2, 2, 1], "2(x3),1"),
            (&[1, 1], "1(x2)"),
            (&[1, 2, 1], "1,2,1"),
            (&[72, 72, 36], "72(x2),36"),
        ] {
            assert_eq!(condensed(counts), want);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_answered(text in ".*") {
            let _ = (nodes(&text), positive(&text, "-x"));
        }
    }
}
