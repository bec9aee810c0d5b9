//! Reading HTTP/2 header blocks (HPACK, RFC 7541), for [`crate::quick`].
//!
//! Only what a peer may send that was told to keep no table of its own (`SETTINGS_HEADER_TABLE_SIZE` 0): static names,
//! literals, Huffman texts.

use thiserror::Error;

/// A header block that can't be read.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum HpackError {
    /// It ends inside a field.
    #[error("a header block ends too early")]
    Short,
    /// A number is too large.
    #[error("a number in a header block is too large")]
    Number,
    /// A name or value of a table that we asked not to be used.
    #[error("a header block refers to entry {0} of a table that was declined")]
    Declined(u64),
    /// A text that is not Huffman code.
    #[error("a text in a header block is not valid Huffman code")]
    Huffman,
}

/// Names of the static table whose values we look at; others are read as empty names.
const STATUS: std::ops::RangeInclusive<u64> = 8..=14;
const STATUS_VALUES: [&str; 7] = ["200", "204", "206", "304", "400", "404", "500"];
const STATIC_ENTRIES: u64 = 61;

/// Lengths of the Huffman codes of bytes 0 to 255 (RFC 7541, appendix B). The codes are canonical, so lengths are enough.
const CODE_LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28,
    28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12,
    10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6,
    5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22,
    22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20,
    22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28,
    27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28,
    27, 27, 27, 27, 27, 26,
];
const CODE_LENGTH_MAX: usize = 30;

/// Calls `each` with every name and value of a block, in order. Names of the static table other than `:status` are given as
/// empty text: nothing here reads them.
///
/// # Errors
/// [`HpackError`].
pub fn read(block: &[u8], mut each: impl FnMut(&[u8], &[u8])) -> Result<(), HpackError> {
    let mut rest = block;
    while let Some(first) = rest.first().copied() {
        if first & 0x80 != 0 {
            let index = number(&mut rest, 7)?;
            let value = static_value(index)?;
            each(static_name(index)?.as_bytes(), value.as_bytes());
        } else if first & 0xe0 == 0x20 {
            // The size of the table that is not used.
            number(&mut rest, 5)?;
        } else {
            let index = number(&mut rest, if first & 0x40 != 0 { 6 } else { 4 })?;
            let name = if index == 0 { text(&mut rest)? } else { static_name(index)?.as_bytes().to_vec() };
            let value = text(&mut rest)?;
            each(&name, &value);
        }
    }
    Ok(())
}

fn static_name(index: u64) -> Result<&'static str, HpackError> {
    match index {
        0 => Err(HpackError::Declined(0)),
        _ if STATUS.contains(&index) => Ok(":status"),
        1..=STATIC_ENTRIES => Ok(""),
        _ => Err(HpackError::Declined(index)),
    }
}

fn static_value(index: u64) -> Result<&'static str, HpackError> {
    let at = index.checked_sub(*STATUS.start()).and_then(|at| usize::try_from(at).ok());
    match at.and_then(|at| STATUS_VALUES.get(at)) {
        Some(value) => Ok(value),
        None if index <= STATIC_ENTRIES => Ok(""),
        None => Err(HpackError::Declined(index)),
    }
}

/// A number with a prefix of `bits` bits.
fn number(rest: &mut &[u8], bits: u32) -> Result<u64, HpackError> {
    let mask = (1u64 << bits) - 1;
    let mut value = u64::from(byte(rest)?) & mask;
    if value < mask {
        return Ok(value);
    }
    for shift in (0..28).step_by(7) {
        let next = byte(rest)?;
        value += u64::from(next & 0x7f) << shift;
        if next & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(HpackError::Number)
}

fn byte(rest: &mut &[u8]) -> Result<u8, HpackError> {
    let (first, tail) = rest.split_first().ok_or(HpackError::Short)?;
    *rest = tail;
    Ok(*first)
}

fn text(rest: &mut &[u8]) -> Result<Vec<u8>, HpackError> {
    let coded = rest.first().ok_or(HpackError::Short)? & 0x80 != 0;
    let len = usize::try_from(number(rest, 7)?).map_err(|_| HpackError::Number)?;
    let (bytes, tail) = rest.split_at_checked(len).ok_or(HpackError::Short)?;
    *rest = tail;
    if coded { unhuffman(bytes) } else { Ok(bytes.to_vec()) }
}

/// Canonical Huffman decoding: codes of one length are consecutive numbers in the order of their bytes.
fn unhuffman(bytes: &[u8]) -> Result<Vec<u8>, HpackError> {
    let mut counts = [0u32; CODE_LENGTH_MAX + 1];
    CODE_LENGTHS.iter().for_each(|len| counts[usize::from(*len)] += 1);
    let mut out = Vec::with_capacity(bytes.len() * 8 / 5 + 1);
    let (mut code, mut first, mut len) = (0u32, 0u32, 0usize);
    let mut ones = true;
    for bit in bytes.iter().flat_map(|byte| (0..8).rev().map(move |at| u32::from(byte >> at & 1))) {
        len += 1;
        if len > CODE_LENGTH_MAX {
            return Err(HpackError::Huffman);
        }
        code = code << 1 | bit;
        first <<= 1;
        ones &= bit == 1;
        let count = counts[len];
        if let Some(nth) = code.checked_sub(first).filter(|nth| *nth < count) {
            let found = (0u8..=255).filter(|b| usize::from(CODE_LENGTHS[usize::from(*b)]) == len).nth(nth as usize);
            out.push(found.ok_or(HpackError::Huffman)?);
            (code, first, len, ones) = (0, 0, 0, true);
        } else {
            first += count;
        }
    }
    // What is left is padding: fewer than 8 bits, all ones.
    if ones && len < 8 { Ok(out) } else { Err(HpackError::Huffman) }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Field = (String, String);

    fn fields(block: &[u8]) -> Result<Vec<Field>, HpackError> {
        let mut got = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        read(block, |name, value| got.push((text(name), text(value))))?;
        Ok(got)
    }

    fn field(name: &str, value: &str) -> Field {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn blocks() {
        // The texts are RFC 7541's own examples (appendix C).
        let custom = b"\x40\x0acustom-key\x0dcustom-header";
        let coded = b"\x40\x88\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f\x89\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf";
        let date =
            b"\x88\x61\x96\xd0\x7a\xbe\x94\x10\x54\xd4\x44\xa8\x20\x05\x95\x04\x0b\x81\x66\xe0\x82\xa6\x2d\x1b\xff";
        let rows: [(&[u8], Result<Vec<Field>, HpackError>); 9] = [
            (b"", Ok(vec![])),
            (b"\x88", Ok(vec![field(":status", "200")])),
            (b"\x20\x8d", Ok(vec![field(":status", "404")])),
            (custom, Ok(vec![field("custom-key", "custom-header")])),
            (coded, Ok(vec![field("custom-key", "custom-value")])),
            (date, Ok(vec![field(":status", "200"), field("", "Mon, 21 Oct 2013 20:13:21 GMT")])),
            (b"\xbe", Err(HpackError::Declined(62))),
            (b"\x40\x0acustom", Err(HpackError::Short)),
            (b"\x7f\xff\xff\xff\xff\xff", Err(HpackError::Number)),
        ];
        for (block, right) in rows {
            assert_eq!(fields(block), right, "{block:02x?}");
        }
    }

    #[test]
    fn no_cut_block_is_taken_for_a_whole_field() {
        let coded = b"\x40\x88\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f\x89\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf";
        for end in 1..coded.len() {
            assert_eq!(fields(&coded[..end]), Err(HpackError::Short), "{end}");
        }
    }
}
