//! Generic resources: `gpu`, `gpu:2`, `gpu:a100:4`, `gres/gpu=1`, and how they are printed.

/// One kind of resource with a count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gres {
    /// Such as `gpu`.
    pub name: String,
    /// Such as `a100`.
    pub kind: Option<String>,
    /// How many.
    pub count: u64,
    /// The number was not said.
    pub bare: bool,
}

/// The text is no list of generic resources. The texts are Slurm's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GresError {
    /// A part that cannot be read.
    #[error("Invalid generic resource (gres) specification")]
    Invalid(String),
    /// Too many colons.
    #[error("Invalid Trackable RESource (TRES) specification")]
    Shape(String),
}

/// Reads a comma-separated list of `[gres/]name[[:type]:count]`; the count may end in k, m, g, t or p and is 1 when not
/// given. `none` is an empty list.
///
/// # Errors
/// [`GresError`]. Slurm takes a count that is no number for a type; so does this, if it begins with a letter.
pub fn parse(text: &str) -> Result<Vec<Gres>, GresError> {
    if text.is_empty() || text.eq_ignore_ascii_case("none") {
        return Ok(Vec::new());
    }
    text.split(',').map(|part| one(part.strip_prefix("gres/").unwrap_or(part))).collect()
}

/// Reads `[type:]count` lists, as `--gpus-per-node` has them, as resources of this name.
///
/// # Errors
/// As [`parse`].
pub fn parse_of(name: &str, text: &str) -> Result<Vec<Gres>, GresError> {
    text.split(',').filter(|p| !p.is_empty()).map(|part| one(&format!("{name}:{part}"))).collect()
}

fn one(part: &str) -> Result<Gres, GresError> {
    let bad = || GresError::Invalid(part.to_owned());
    let (head, equals) = match part.split_once('=') {
        Some((h, c)) => (h, Some(c)),
        None => (part, None),
    };
    let words: Vec<&str> = head.split(':').collect();
    let (name, kind, number) = match (words.as_slice(), equals) {
        ([n], eq) => (*n, None, eq),
        ([n, k], Some(eq)) => (*n, Some(*k), Some(eq)),
        ([n, x], None) if x.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') => (*n, Some(*x), None),
        ([n, c], None) => (*n, None, Some(*c)),
        ([n, k, c], None) => (*n, Some(*k), Some(*c)),
        _ => return Err(GresError::Shape(part.to_owned())),
    };
    let named = |w: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        !w.is_empty() && w.chars().all(plain)
    };
    if !named(name) || !name.starts_with(|c: char| c.is_ascii_alphabetic()) || kind.is_some_and(|k| !named(k)) {
        return Err(bad());
    }
    let count = match number {
        None => 1,
        Some(c) => count(c).ok_or_else(bad)?,
    };
    Ok(Gres { name: name.to_owned(), kind: kind.map(str::to_owned), count, bare: number.is_none() })
}

fn count(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (n, unit) = text.split_at(digits);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        "p" => 50,
        _ => return None,
    };
    let n: u64 = n.parse().ok()?;
    n.checked_mul(1u64 << shift)
}

impl std::fmt::Display for Gres {
    /// `gpu:a100:4`, `gpu:4`, or `gpu` where no number was said.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)?;
        if let Some(kind) = &self.kind {
            write!(f, ":{kind}")?;
        }
        if self.bare { Ok(()) } else { write!(f, ":{}", self.count) }
    }
}

/// `gpu:a100:4,fpga:1`; `(null)` when there is none.
pub fn show(list: &[Gres]) -> String {
    if list.is_empty() {
        return "(null)".to_owned();
    }
    list.iter().map(Gres::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read() {
        for (text, want) in [
            ("gpu:1", Ok("gpu:1")),
            ("gpu", Ok("gpu")),
            ("gpu:a100:2", Ok("gpu:a100:2")),
            ("gpu:a100", Ok("gpu:a100")),
            ("none", Ok("(null)")),
            ("NONE", Ok("(null)")),
            ("", Ok("(null)")),
            ("gres/gpu:1", Ok("gpu:1")),
            ("gpu=2", Ok("gpu:2")),
            ("gpu:a100=2", Ok("gpu:a100:2")),
            ("gpu:1k", Ok("gpu:1024")),
            ("gpu:0", Ok("gpu:0")),
            ("gpu:a100:1,gpu:v100:1", Ok("gpu:a100:1,gpu:v100:1")),
            ("gpu:a100_3g.20gb:1", Ok("gpu:a100_3g.20gb:1")),
            ("shard:8", Ok("shard:8")),
            ("gpu:x:y:z", Err("Invalid Trackable RESource (TRES) specification")),
            ("gpu:-1", Err("Invalid generic resource (gres) specification")),
            ("gpu:a100:x", Err("Invalid generic resource (gres) specification")),
            ("gpu:2x", Err("Invalid generic resource (gres) specification")),
            (":1", Err("Invalid generic resource (gres) specification")),
            ("gpu:99999999999999999999", Err("Invalid generic resource (gres) specification")),
            ("gpu:99999999999p", Err("Invalid generic resource (gres) specification")),
        ] {
            let got = parse(text).map(|l| show(&l)).map_err(|e| e.to_string());
            assert_eq!(got, want.map(str::to_owned).map_err(str::to_owned), "{text}");
        }
        assert_eq!(parse_of("gpu", "a100:2").map(|l| show(&l)), Ok("gpu:a100:2".to_owned()));
        assert_eq!(parse_of("gpu", "3").map(|l| show(&l)), Ok("gpu:3".to_owned()));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_answered(text in ".*") {
            if let Ok(list) = parse(&text) && !list.is_empty() {
                proptest::prop_assert_eq!(parse(&show(&list)).unwrap(), list);
            }
        }
    }
}
