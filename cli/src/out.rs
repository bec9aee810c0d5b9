//! Standard output: gathered, written at once, and given up without a word when nobody reads it.

use std::io::{self, IsTerminal, Write};

/// Exit status of a program whose reader is gone, as a shell shows it.
pub const GONE: u8 = 141;
/// So much is gathered before it is written, in bytes.
const GATHERED: usize = 64 << 10;

/// What a command prints.
#[derive(Debug, Default)]
pub struct Out {
    text: Vec<u8>,
    gone: bool,
}

impl Out {
    /// Adds text.
    pub fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// Adds text and ends the line.
    pub fn line(&mut self, text: &str) {
        self.text(text);
        self.text("\n");
    }

    /// Adds bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        if !self.gone {
            self.text.extend_from_slice(bytes);
            if self.text.len() >= GATHERED {
                self.flush();
            }
        }
    }

    /// Writes what is gathered.
    pub fn flush(&mut self) {
        let text = std::mem::take(&mut self.text);
        let mut stdout = io::stdout().lock();
        self.gone |= stdout.write_all(&text).and_then(|()| stdout.flush()).is_err();
    }

    /// True once the reader is gone: there is nobody left to go on for.
    pub fn is_gone(&self) -> bool {
        self.gone
    }

    /// Writes the rest and gives the exit status.
    pub fn finish(mut self, status: u8) -> u8 {
        if !self.text.is_empty() {
            self.flush();
        }
        if self.gone { GONE } else { status }
    }
}

/// A line on standard error. There is nobody to tell if that fails.
pub fn complain(text: &str) {
    let _ = io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// A line that explains what Slurm's own words do not: for people, so only on a terminal.
pub fn hint(text: &str) {
    if io::stderr().is_terminal() {
        complain(&format!("hint: {text}"));
    }
}
