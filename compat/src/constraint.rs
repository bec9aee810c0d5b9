//! `--constraint`: features joined by `&` (or `,`) and `|`, read from left to right, with one level of parentheses.

/// The text is no constraint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConstraintError {
    /// Nothing that can be read.
    #[error("Batch job submission failed: Invalid feature specification")]
    Invalid,
    /// Numbers of nodes with a feature.
    #[error("--constraint with counts is not supported yet: join features by & and |, with parentheses or brackets")]
    Unsupported,
}

/// What a node must have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Constraint {
    /// All of these.
    pub all: Vec<String>,
    /// And all of one of these lists; empty if nothing was said.
    pub any: Vec<Vec<String>>,
    /// All nodes have the same one of `any`.
    pub same: bool,
    /// As it was written, where `all` does not tell it.
    pub text: Option<String>,
}

/// Most alternatives that an expression may come to.
const ALTERNATIVES_MAX: usize = 64;

type Alternatives = Vec<Vec<String>>;

/// Reads a constraint.
///
/// # Errors
/// [`ConstraintError`].
pub fn parse(text: &str) -> Result<Constraint, ConstraintError> {
    if text.contains('*') {
        return Err(ConstraintError::Unsupported);
    }
    let shown = text.replace(',', "&");
    let same = shown.contains(['[', ']']);
    let any = if same { bracketed(&shown)? } else { expression(&shown, true)? };
    match any.as_slice() {
        [all] => Ok(Constraint { all: all.clone(), any: Vec::new(), same: false, text: None }),
        _ => Ok(Constraint { all: Vec::new(), any, same, text: Some(shown) }),
    }
}

/// `[a|b]`, `c&[a|b]`: what stands outside the brackets is for every node, one of what stands inside for all of them.
fn bracketed(text: &str) -> Result<Alternatives, ConstraintError> {
    let (before, rest) = text.split_once('[').ok_or(ConstraintError::Invalid)?;
    let (inside, behind) = rest.split_once(']').ok_or(ConstraintError::Invalid)?;
    let before = match before.strip_suffix('&') {
        None if before.is_empty() => None,
        None => return Err(ConstraintError::Invalid),
        Some(before) => Some(before),
    };
    let behind = match behind.strip_prefix('&') {
        None if behind.is_empty() => None,
        None => return Err(ConstraintError::Invalid),
        Some(behind) => Some(behind),
    };
    let mut sum = expression(inside, true)?;
    for outside in before.into_iter().chain(behind) {
        let all = expression(outside, true)?;
        // Alternatives of single nodes besides would be two kinds of choice.
        if all.len() != 1 {
            return Err(ConstraintError::Invalid);
        }
        sum = join(all, '&', sum)?;
    }
    Ok(sum)
}

fn expression(text: &str, outer: bool) -> Result<Alternatives, ConstraintError> {
    let mut sum: Alternatives = vec![Vec::new()];
    let mut joint = '&';
    let mut rest = text;
    loop {
        let (term, behind) = term(rest, outer)?;
        sum = join(sum, joint, term)?;
        let Some(next) = behind.chars().next() else { return Ok(sum) };
        if !matches!(next, '&' | '|') {
            return Err(ConstraintError::Invalid);
        }
        joint = next;
        rest = behind.get(1..).unwrap_or_default();
    }
}

/// A name or something in parentheses, and what stands behind it.
fn term(text: &str, outer: bool) -> Result<(Alternatives, &str), ConstraintError> {
    if let Some(inner) = text.strip_prefix('(').filter(|_| outer) {
        let (inner, behind) = inner.split_once(')').ok_or(ConstraintError::Invalid)?;
        return Ok((expression(inner, false)?, behind));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '=' | ':' | '+');
    let end = text.find(|c: char| !plain(c)).unwrap_or(text.len());
    let (name, behind) = text.split_at(end);
    if name.is_empty() { Err(ConstraintError::Invalid) } else { Ok((vec![vec![name.to_owned()]], behind)) }
}

fn join(left: Alternatives, joint: char, right: Alternatives) -> Result<Alternatives, ConstraintError> {
    let count = if joint == '|' { left.len() + right.len() } else { left.len() * right.len() };
    if count > ALTERNATIVES_MAX {
        return Err(ConstraintError::Invalid);
    }
    if joint == '|' {
        return Ok(left.into_iter().chain(right).collect());
    }
    let both = |a: &Vec<String>, b: &Vec<String>| {
        let mut all = a.clone();
        all.extend(b.iter().filter(|name| !a.contains(name)).cloned());
        all
    };
    Ok(left.iter().flat_map(|a| right.iter().map(move |b| both(a, b))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_read_from_the_left() {
        for (text, want) in [
            ("a", Ok("a")),
            ("a&b", Ok("a&b")),
            ("a,b", Ok("a&b")),
            ("a|b", Ok("a | b")),
            ("a|b&c", Ok("a&c | b&c")),
            ("c&a|b", Ok("c&a | b")),
            ("(a|b)&c", Ok("a&c | b&c")),
            ("c&(a|b)", Ok("c&a | c&b")),
            ("(a|b)&(c|d)", Ok("a&c | a&d | b&c | b&d")),
            ("a&a", Ok("a")),
            ("a|", Err(ConstraintError::Invalid)),
            ("|a", Err(ConstraintError::Invalid)),
            ("a||b", Err(ConstraintError::Invalid)),
            ("a&&b", Err(ConstraintError::Invalid)),
            ("()", Err(ConstraintError::Invalid)),
            ("", Err(ConstraintError::Invalid)),
            ("(a", Err(ConstraintError::Invalid)),
            ("a)", Err(ConstraintError::Invalid)),
            ("((a|b)&c)|d", Err(ConstraintError::Invalid)),
            ("(a)b", Err(ConstraintError::Invalid)),
            ("!a", Err(ConstraintError::Invalid)),
            ("a b", Err(ConstraintError::Invalid)),
            ("[a|b]", Ok("a | b")),
            ("c&[a|b]", Ok("c&a | c&b")),
            ("[a|b]&c", Ok("c&a | c&b")),
            ("[a]", Ok("a")),
            ("c[a|b]", Err(ConstraintError::Invalid)),
            ("c|[a|b]", Err(ConstraintError::Invalid)),
            ("(c|d)&[a|b]", Err(ConstraintError::Invalid)),
            ("[a|b", Err(ConstraintError::Invalid)),
            ("[a|b]&[c|d]", Err(ConstraintError::Invalid)),
            ("[a*2&b*1]", Err(ConstraintError::Unsupported)),
            ("a*2", Err(ConstraintError::Unsupported)),
        ] {
            let shown = |c: Constraint| {
                let all = if c.any.is_empty() { vec![c.all] } else { c.any };
                all.iter().map(|one| one.join("&")).collect::<Vec<_>>().join(" | ")
            };
            assert_eq!(parse(text).map(shown), want.map(str::to_owned), "{text}");
        }
        assert_eq!(parse("a|b,c").map(|c| c.text), Ok(Some("a|b&c".to_owned())));
        assert_eq!(parse("a,b").map(|c| c.text), Ok(None));
        assert_eq!(["[a|b]", "a|b", "[a]"].map(|text| parse(text).map(|c| c.same)), [Ok(true), Ok(false), Ok(false)]);
        let wide = ["(a|b|c|d)"; 4].join("&");
        assert_eq!(parse(&wide), Err(ConstraintError::Invalid), "too many alternatives");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_answered(text in "[ab&|(),\\[\\]*]{0,16}") {
            if let Ok(Constraint { text: Some(shown), any, .. }) = parse(&text) {
                proptest::prop_assert_eq!(parse(&shown).map(|again| again.any), Ok(any));
            }
        }
    }
}
