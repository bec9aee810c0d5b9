//! The order of node names: `n2` comes before `n10`.

use std::cmp::Ordering;

/// Compares names with runs of digits taken as numbers. Names that differ only in leading zeros are ordered as text.
pub(crate) fn compare(a: &str, b: &str) -> Ordering {
    let (mut x, mut y) = (a.as_bytes(), b.as_bytes());
    loop {
        match (x.first(), y.first()) {
            (Some(c), Some(d)) if c.is_ascii_digit() && d.is_ascii_digit() => {
                let (m, n) = (digits(&mut x), digits(&mut y));
                let order = m.len().cmp(&n.len()).then_with(|| m.cmp(n));
                if order != Ordering::Equal {
                    return order;
                }
            }
            (Some(c), Some(d)) if c == d => {
                x = &x[1..];
                y = &y[1..];
            }
            (Some(c), Some(d)) => return c.cmp(d),
            (None, None) => return a.cmp(b),
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
        }
    }
}

/// Takes a run of digits off the front, without its leading zeros.
fn digits<'a>(text: &mut &'a [u8]) -> &'a [u8] {
    let end = text.iter().position(|c| !c.is_ascii_digit()).unwrap_or(text.len());
    let (run, rest) = text.split_at(end);
    *text = rest;
    let zeros = run.iter().position(|c| *c != b'0').unwrap_or(run.len());
    &run[zeros..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_ordered_as_people_count() {
        let rows = [
            ("n2", "n10", Ordering::Less),
            ("n10", "n10", Ordering::Equal),
            ("n02", "n2", Ordering::Less),
            ("a9", "b1", Ordering::Less),
            ("n", "n1", Ordering::Less),
            ("rack2-n11", "rack2-n9", Ordering::Greater),
            ("n99999999999999999999999", "n100000000000000000000000", Ordering::Less),
        ];
        for (a, b, order) in rows {
            assert_eq!(compare(a, b), order, "{a} {b}");
            assert_eq!(compare(b, a), order.reverse(), "{b} {a}");
        }
    }
}
