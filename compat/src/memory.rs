//! Memory sizes: `16G`, `1024k`, `0`, and the ways Slurm prints mebibytes.

/// The largest size that may be asked for, in mebibytes (1 EiB).
pub const MAX_MIB: u64 = 1 << 40;

/// The text is no memory size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no memory size: write a number with K, M, G or T behind it (M is meant without)")]
pub struct MemoryError(pub String);

/// Reads a size into mebibytes. The unit is one of K, M, G, T in any case, a `B` may follow it, none means mebibytes;
/// parts of a mebibyte round up. Zero is zero: "all memory of the node" is the caller's reading of it.
///
/// # Errors
/// [`MemoryError`] for anything else and for more than [`MAX_MIB`].
pub fn parse_mib(text: &str) -> Result<u64, MemoryError> {
    let bad = || MemoryError(text.to_owned());
    // Slurm reads `-0` as 0.
    let word = if text == "-0" { "0" } else { text };
    let digits = word.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = word.split_at(digits);
    if digits == 0 || digits > 18 {
        return Err(bad());
    }
    let n: u64 = number.parse().map_err(|_| bad())?;
    let mib = match unit.to_ascii_uppercase().as_str() {
        "K" | "KB" => Some(n.div_ceil(1024)),
        "" | "M" | "MB" => Some(n),
        "G" | "GB" => n.checked_mul(1024),
        "T" | "TB" => n.checked_mul(1024 * 1024),
        _ => None,
    };
    mib.filter(|m| *m <= MAX_MIB).ok_or_else(bad)
}

/// The size with the largest unit that leaves no rest: `16G`, `16000M`, `1T`, `0`. As TRES strings and
/// `scontrol show job` print it.
pub fn exact(mib: u64) -> String {
    match mib {
        0 => "0".to_owned(),
        m => exact_units(m, b'M'),
    }
}

fn exact_units(mut n: u64, unit: u8) -> String {
    const UNITS: &[u8] = b"KMGTPE";
    let mut at = UNITS.iter().position(|u| *u == unit).unwrap_or(0);
    while n >= 1024 && n.is_multiple_of(1024) && at + 1 < UNITS.len() {
        n /= 1024;
        at += 1;
    }
    format!("{n}{}", char::from(UNITS.get(at).copied().unwrap_or(b'M')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        for (text, want) in [
            ("100", Some(100)),
            ("2048K", Some(2)),
            ("1024k", Some(1)),
            ("1K", Some(1)),
            ("512K", Some(1)),
            ("1025K", Some(2)),
            ("2G", Some(2_048)),
            ("2gb", Some(2_048)),
            ("1T", Some(1_048_576)),
            ("100MB", Some(100)),
            ("0", Some(0)),
            ("-0", Some(0)),
            ("-5", None),
            ("", None),
            ("G", None),
            ("1.5G", None),
            ("1GiB", None),
            ("1 G", None),
            ("99999999999999999999", None),
            ("9999999999999T", None),
        ] {
            assert_eq!(parse_mib(text).ok(), want, "{text}");
        }
    }

    #[test]
    fn sizes_are_printed() {
        for (mib, want) in [
            (0, "0"),
            (200, "200M"),
            (16_000, "16000M"),
            (16_384, "16G"),
            (1_048_576, "1T"),
            (1_536, "1536M"),
            (204_800, "200G"),
        ] {
            assert_eq!(exact(mib), want);
        }
    }

    proptest::proptest! {
        #[test]
        fn printed_sizes_read_back(mib in 0u64..MAX_MIB) {
            // Above T the printed unit is not one that may be asked for.
            if let Ok(back) = parse_mib(&exact(mib)) {
                proptest::prop_assert_eq!(back, mib);
            }
        }

        #[test]
        fn any_text_is_answered(text in ".*") {
            let _ = parse_mib(&text);
        }
    }
}
