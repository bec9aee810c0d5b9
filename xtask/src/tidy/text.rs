//! Rust source as the checks see it: comments and literals blanked, every line still where it was.

use std::ops::Range;

/// What to blank beside comments.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Code alone.
    Code,
    /// Code and the contents of string literals.
    Strings,
}

/// Replaces comments, and literals unless kept, by spaces; every offset stays what it was.
pub fn mask(source: &str, keep: Keep) -> String {
    let mut masker = Masker { rest: source, out: String::with_capacity(source.len()), last: ' ' };
    while !masker.rest.is_empty() {
        masker.step(keep);
    }
    masker.out
}

struct Masker<'a> {
    rest: &'a str,
    out: String,
    /// The character before `rest`: an `r` that ends an identifier begins no raw string.
    last: char,
}

impl Masker<'_> {
    fn step(&mut self, keep: Keep) {
        let rest = self.rest;
        if rest.starts_with("//") {
            return self.blank(rest.find('\n').unwrap_or(rest.len()));
        }
        if rest.starts_with("/*") {
            return self.blank(block_comment(rest));
        }
        let starts_word = !is_identifier(self.last);
        let literal = if starts_word { raw_string(rest) } else { None };
        let literal = literal.or_else(|| rest.starts_with('"').then(|| quoted(rest))).or_else(|| character(rest));
        match literal {
            Some(length) if keep == Keep::Code => self.blank(length),
            Some(length) => self.copy(length),
            None => self.copy(rest.chars().next().map_or(0, char::len_utf8)),
        }
    }

    fn take(&mut self, length: usize) -> &str {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        self.last = taken.chars().next_back().unwrap_or(self.last);
        taken
    }

    fn copy(&mut self, length: usize) {
        let taken = self.take(length).to_owned();
        self.out.push_str(&taken);
    }

    fn blank(&mut self, length: usize) {
        let blanked = spaces(self.take(length));
        self.out.push_str(&blanked);
        self.last = ' ';
    }
}

fn block_comment(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        let rest = text.get(at..).unwrap_or_default();
        let (step, change) = match () {
            () if rest.starts_with("/*") => (2, 1),
            () if rest.starts_with("*/") => (2, -1),
            () => (1, 0),
        };
        at += step;
        depth = depth.saturating_add_signed(change);
        if depth == 0 {
            break;
        }
    }
    ceil(text, at)
}

/// `r"…"`, `r#"…"#`, `br"…"` and `cr"…"`.
fn raw_string(text: &str) -> Option<usize> {
    let prefix = ["r", "br", "cr"]
        .into_iter()
        .find(|prefix| text.strip_prefix(prefix).is_some_and(|rest| rest.trim_start_matches('#').starts_with('"')))?;
    let hashes = text[prefix.len()..].find('"')?;
    let open = prefix.len() + hashes + 1;
    let close = format!("\"{}", "#".repeat(hashes));
    Some(text[open..].find(&close).map_or(text.len(), |at| open + at + close.len()))
}

fn quoted(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// A character literal; a lifetime or a label is none.
fn character(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('\'')?;
    let first = inner.chars().next()?;
    if first != '\\' {
        let end = 1 + first.len_utf8();
        return text[end..].starts_with('\'').then_some(end + 1);
    }
    let close = inner.get(2..)?.find('\'')?;
    Some(close + 4)
}

fn ceil(text: &str, at: usize) -> usize {
    (at..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
}

/// As many bytes of spaces, the line ends kept: offsets and lines stay what they were.
fn spaces(text: &str) -> String {
    text.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect()
}

/// What is only compiled for tests: the item after each `#[cfg(test)]` of masked code.
pub fn test_items(code: &str) -> Vec<Range<usize>> {
    const MARK: &str = "#[cfg(test)]";
    let mut items = Vec::new();
    let mut from = 0;
    while let Some(at) = code[from..].find(MARK).map(|at| from + at) {
        from = at + MARK.len() + item(&code[at + MARK.len()..]);
        items.push(at..from);
    }
    items
}

/// The text with these ranges blanked.
pub fn without(text: &str, ranges: &[Range<usize>]) -> String {
    let mut out = text.to_owned();
    for range in ranges {
        out.replace_range(range.clone(), &spaces(&text[range.clone()]));
    }
    out
}

/// Length of an item: to its semicolon, or to the brace that closes its body.
fn item(code: &str) -> usize {
    let mut depth = 0_usize;
    for (at, c) in code.char_indices() {
        match c {
            ';' if depth == 0 => return at + 1,
            '{' => depth += 1,
            '}' if depth <= 1 => return at + 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

/// Whether the character may stand in an identifier.
pub fn is_identifier(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// Where `word` stands as a whole word.
pub fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = code[..*at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !before.is_some_and(is_identifier) && !after.is_some_and(is_identifier)
    })
}

/// Where the module `parent::child` is named, by a path or in a group (`use parent::{child, …}`).
pub fn paths(code: &str, parent: &str, child: &str) -> Vec<usize> {
    let mut found = Vec::new();
    for at in words(code, parent) {
        let Some(rest) = code[at + parent.len()..].trim_start().strip_prefix("::") else { continue };
        let rest = rest.trim_start();
        let named = match rest.strip_prefix('{') {
            Some(group) => in_group(group, child),
            None => first_word(rest) == child,
        };
        if named {
            found.push(at);
        }
    }
    found
}

fn first_word(code: &str) -> &str {
    code.split(|c: char| !is_identifier(c)).next().unwrap_or_default()
}

/// Whether one of the group's own elements, not one of a group inside it, begins with the word.
fn in_group(group: &str, word: &str) -> bool {
    let mut depth = 0_usize;
    let mut element = 0;
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                if first_word(group[element..at].trim_start()) == word {
                    return true;
                }
                if c == '}' {
                    return false;
                }
                element = at + 1;
            }
            _ => {}
        }
    }
    false
}

/// The line of an offset, counted from 1.
pub fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked() {
        for (source, code) in [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            (r#"f("x \" y", 'z')"#, "f(        ,    )"),
            (r##"r#"HashMap "x" "# + b"##, "                  + b"),
            ("for<'a> &'a str", "for<'a> &'a str"),
            (r"'\'' 'é' '\u{1F600}'x", "                     x"),
            ("br\"x\" var\"y\"", "      var   "),
            ("\"never closed", "             "),
            ("/* never closed é", "                 "),
        ] {
            let masked = mask(source, Keep::Code);
            assert_eq!(masked.trim_end(), code.trim_end(), "{source}");
        }
        assert_eq!(mask("a(\"SLURM_X\") // SLURM_Y", Keep::Strings).trim_end(), "a(\"SLURM_X\")");
    }

    #[test]
    fn test_items_are_blanked_and_the_rest_stays() {
        let code = "a\n#[cfg(test)]\nmod tests {\n fn b() { c }\n}\nd #[cfg(test)] use e; f #[cfg(test)] mod g;\nh";
        let left = without(code, &test_items(code));
        assert_eq!(left.split_whitespace().collect::<Vec<_>>(), ["a", "d", "f", "h"]);
        assert_eq!(left.lines().count(), code.lines().count());
    }

    #[test]
    fn words_are_whole() {
        assert_eq!(words("HashMap MyHashMap HashMaps (HashMap)", "HashMap").collect::<Vec<_>>(), [0, 28]);
    }

    #[test]
    fn modules_are_found_by_path_and_in_groups() {
        for (code, found) in [
            ("std::fs::read(x)", true),
            ("use std::{io, fs};", true),
            ("use std::{collections::{BTreeMap, fs}, io};", false),
            ("use std::{ fs::File, io }", true),
            ("use std :: fs;", true),
            ("tokio::fs::read", false),
            ("std::fss", false),
            ("my_std::fs", false),
        ] {
            assert_eq!(!paths(code, "std", "fs").is_empty(), found, "{code}");
        }
    }
}
