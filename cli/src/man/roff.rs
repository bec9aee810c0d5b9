//! A manual page, as man(7) wants it.
//!
//! Texts are plain words with two signs: `word` in backquotes is bold, and an empty line begins a paragraph.

/// The release that the pages belong to; its day stands at the foot of each page.
const DAY: &str = "2026-12-01";
/// Where lines of running text are folded.
const WIDTH: usize = 100;

/// A page in the making.
#[derive(Debug)]
pub struct Page {
    /// Its name, such as `sbatch`.
    pub name: String,
    /// Its section of the manual.
    pub section: u8,
    text: String,
}

impl Page {
    /// A page with its NAME section.
    pub fn new(name: &str, section: u8, about: &str) -> Self {
        let version = env!("CARGO_PKG_VERSION");
        let title = name.to_uppercase();
        let mut page = Self { name: name.to_owned(), section, text: String::new() };
        page.line(".\\\" Made by `cargo xtask man` from the option tables: change those, not this file.");
        page.line(&format!(".TH \"{title}\" {section} \"{DAY}\" \"gpunion {version}\" \"gpunion manual\""));
        // An option that is cut at the end of a line reads as another one.
        page.line(".nh");
        page.line(".ad l");
        page.heading("NAME");
        page.line(&format!("{} \\- {}", escape(name), escape(about)));
        page
    }

    /// The page's file below the manual's folder, such as `man1/sbatch.1`.
    pub fn file(&self) -> String {
        format!("man{0}/{1}.{0}", self.section, self.name)
    }

    /// The whole page.
    pub fn finish(self) -> String {
        self.text
    }

    /// Begins a section.
    pub fn heading(&mut self, title: &str) {
        self.line(&format!(".SH {}", escape(title)));
    }

    /// Begins a part of a section.
    pub fn subheading(&mut self, title: &str) {
        self.line(&format!(".SS {}", escape(title)));
    }

    /// Paragraphs.
    pub fn text(&mut self, text: &str) {
        for (at, paragraph) in paragraphs(text).enumerate() {
            let follows_heading = self.text.lines().last().is_some_and(|l| l.starts_with(".S"));
            if at > 0 || !follows_heading {
                self.line(".PP");
            }
            self.fill(paragraph);
        }
    }

    /// A term and what it means. The term is marked as a text is.
    pub fn item(&mut self, term: &str, text: &str) {
        self.line(".TP");
        self.line(&guard(&bold(term)));
        for (at, paragraph) in paragraphs(text).enumerate() {
            if at > 0 {
                self.line(".IP");
            }
            self.fill(paragraph);
        }
    }

    /// Lines as they are, set in.
    pub fn code(&mut self, lines: &str) {
        let follows_heading = self.text.lines().last().is_some_and(|l| l.starts_with(".S"));
        if !follows_heading {
            self.line(".PP");
        }
        self.line(".nf");
        self.line(".RS 4");
        for line in lines.lines() {
            self.line(&guard(&escape(line)));
        }
        self.line(".RE");
        self.line(".fi");
    }

    fn fill(&mut self, paragraph: &str) {
        let mut line = String::new();
        for word in paragraph.split_whitespace() {
            if !line.is_empty() && line.len() + 1 + word.len() > WIDTH && line.matches('`').count().is_multiple_of(2) {
                let full = std::mem::take(&mut line);
                self.line(&guard(&bold(&full)));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        if !line.is_empty() {
            self.line(&guard(&bold(&line)));
        }
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }
}

fn paragraphs(text: &str) -> impl Iterator<Item = &str> {
    text.split("\n\n").map(str::trim).filter(|paragraph| !paragraph.is_empty())
}

/// Words with what is between backquotes in bold.
fn bold(text: &str) -> String {
    let parts = text.split('`').enumerate();
    parts.map(|(at, part)| if at % 2 == 1 { format!("\\fB{}\\fR", escape(part)) } else { escape(part) }).collect()
}

/// Signs that roff or a terminal's fonts would change.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for sign in text.chars() {
        match sign {
            '\\' => out.push_str("\\e"),
            '-' => out.push_str("\\-"),
            '\'' => out.push_str("\\(aq"),
            '`' => out.push_str("\\(ga"),
            '^' => out.push_str("\\(ha"),
            '~' => out.push_str("\\(ti"),
            other => out.push(other),
        }
    }
    out
}

/// A line of text that begins like a request is none.
fn guard(line: &str) -> String {
    if line.starts_with('.') || line.starts_with('\'') { format!("\\&{line}") } else { line.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_becomes_roff() {
        for (text, roff) in [
            ("a `-n 4` b", "a \\fB\\-n 4\\fR b"),
            ("it's C:\\x ^~", "it\\(aqs C:\\ex \\(ha\\(ti"),
            (".profile is read", "\\&.profile is read"),
            ("'quoted'", "\\(aqquoted\\(aq"),
        ] {
            assert_eq!(guard(&bold(text)), roff, "{text}");
        }
    }

    #[test]
    fn paragraphs_are_folded_outside_bold_words() {
        let mut page = Page::new("x", 1, "a test");
        page.heading("DESCRIPTION");
        page.text(&format!("{} `a b c d e f g` h\n\nsecond", "word ".repeat(18)));
        let text = page.finish();
        let body: Vec<&str> = text.lines().skip_while(|l| *l != ".SH DESCRIPTION").skip(1).collect();
        assert_eq!(body.len(), 4, "{body:?}");
        assert_eq!((body[1], body[2], body[3]), ("h", ".PP", "second"));
    }
}
