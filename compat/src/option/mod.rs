//! Option tables and the reader of command lines.
//!
//! One row a flag, in one table a command: name, letter, kind of value, environment variables, help, and whether it is
//! done or refused with a message. Parser, help, usage, man page and completion all come from the same rows. A flag that is in
//! no table is an error, and a flag that is refused says so: none is silently ignored.

pub mod getopt;
mod gpus;
pub mod help;
mod layout;
pub mod man;
pub mod sacct;
pub mod sbatch;
pub mod scancel;
pub mod scontrol;
pub mod sinfo;
pub mod squeue;
pub mod srun;
pub mod submission;

use jiff::tz::TimeZone;

/// Whether a flag takes a value, and what the value is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// None.
    Nothing,
    /// Always one.
    Value(&'static str),
    /// Perhaps one; only glued to the flag (`--nice=5`).
    Optional(&'static str),
    /// Perhaps one, glued or as the next word if that is no option (`squeue -j`, `squeue -j 17`).
    Perhaps(&'static str),
}

/// What stands behind a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// It does what Slurm's manual says.
    Done,
    /// Accepted and without effect, because it asks for what is always so here. The text says why.
    Harmless(&'static str),
    /// Refused; the text says what to do instead.
    Refused(&'static str),
}

/// One flag.
#[derive(Debug, Clone, Copy)]
pub struct Flag {
    /// The long name, without dashes.
    pub long: &'static str,
    /// The letter.
    pub short: Option<char>,
    /// Its value.
    pub takes: Takes,
    /// Environment variables that stand for it; the first one set wins.
    pub env: &'static [&'static str],
    /// One line for `--help`.
    pub help: &'static str,
    /// What the man page adds to `help`; may be empty.
    pub man: &'static str,
    /// Done or refused.
    pub support: Support,
}

impl Flag {
    /// The name for messages: `--name`.
    pub fn dashed(&self) -> String {
        format!("--{}", self.long)
    }
}

/// What an option's value may depend on besides itself. Nothing here is read from the system.
#[derive(Debug, Clone)]
pub struct Context<'a> {
    /// The time, in seconds since 1970.
    pub now_s: i64,
    /// The zone in which times are meant.
    pub zone: &'a TimeZone,
    /// Whether the caller is the superuser.
    pub is_root: bool,
}

/// An option was refused: what goes to standard error, and the exit status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct OptionError {
    /// The whole text with prefixes and line ends.
    pub text: String,
    /// The exit status.
    pub status: i32,
}

impl OptionError {
    /// `PROGRAM: error: TEXT` with this exit status.
    pub fn new(program: &str, text: &str, status: i32) -> Self {
        Self { text: text.lines().map(|l| format!("{program}: error: {l}\n")).collect(), status }
    }
}

/// What a row does with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bad {
    /// The value is no value of this option: `Invalid --NAME specification`.
    Value,
    /// As [`Bad::Value`], with a line of its own before it that has no prefix.
    ValueAfter(String),
    /// Another text; the usual exit status of an option error.
    Text(String),
    /// Another text with exit status 1.
    Plain(String),
    /// Another text behind `fatal:` with exit status 1.
    Fatal(String),
    /// The whole text, without any prefix, with exit status 1.
    Raw(String),
}

/// Where a value came from; later ones win.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A line of the script.
    Script,
    /// The environment.
    Environment,
    /// The command line.
    CommandLine,
}

/// The value of an option as the row sees it.
#[derive(Debug)]
pub struct Given<'a> {
    /// The value; empty where there is none.
    pub value: &'a str,
    /// Where it came from.
    pub source: Source,
    /// The flag.
    pub flag: &'a Flag,
    /// The rest.
    pub context: &'a Context<'a>,
}

/// A flag and what it does to the options `T` of its command.
pub struct Row<T> {
    /// The flag.
    pub flag: Flag,
    /// Puts the value into the options.
    pub set: fn(&mut T, &Given<'_>) -> Result<(), Bad>,
}

/// How a command's line is read.
pub struct Command<T: 'static> {
    /// Its name, for messages.
    pub program: &'static str,
    /// Its flags.
    pub rows: &'static [Row<T>],
    /// Exit status of an option error.
    pub bad_option_status: i32,
    /// Options end at the first operand, as for commands that run a script with arguments.
    pub options_first: bool,
}

impl<T> Command<T> {
    /// The flags alone.
    pub fn flags(&self) -> Vec<&'static Flag> {
        self.rows.iter().map(|r| &r.flag).collect()
    }

    /// Cuts a command line, without the program's name, into options and operands.
    ///
    /// # Errors
    /// What `getopt_long` of the GNU C library says.
    pub fn split(&self, args: &[String]) -> Result<getopt::Parsed, OptionError> {
        getopt::parse(&self.flags(), args, self.options_first).map_err(|e| OptionError {
            text: format!("{0}: {e}\nTry \"{0} --help\" for more information\n", self.program),
            status: self.bad_option_status,
        })
    }

    /// Puts the environment's values into the options. `lookup` answers for one variable.
    ///
    /// # Errors
    /// The first value that is refused.
    pub fn apply_env(
        &self,
        into: &mut T,
        lookup: &dyn Fn(&str) -> Option<String>,
        context: &Context<'_>,
    ) -> Result<(), OptionError> {
        for row in self.rows {
            if let Some(value) = row.flag.env.iter().find_map(|name| lookup(name)) {
                self.apply_row(row, into, &value, Source::Environment, context)?;
            }
        }
        Ok(())
    }

    /// Puts options into `into`, in order.
    ///
    /// # Errors
    /// The first value that is refused.
    pub fn apply(
        &self,
        into: &mut T,
        options: &[getopt::Found],
        source: Source,
        context: &Context<'_>,
    ) -> Result<(), OptionError> {
        for found in options {
            if let Some(row) = self.rows.get(found.index) {
                self.apply_row(row, into, found.value.as_deref().unwrap_or(""), source, context)?;
            }
        }
        Ok(())
    }

    fn apply_row(
        &self,
        row: &Row<T>,
        into: &mut T,
        value: &str,
        source: Source,
        context: &Context<'_>,
    ) -> Result<(), OptionError> {
        let flag = &row.flag;
        match flag.support {
            Support::Refused(why) => {
                let text = format!("{} is not supported: {why}", flag.dashed());
                return Err(OptionError::new(self.program, &text, 1));
            }
            Support::Harmless(_) => return Ok(()),
            Support::Done => {}
        }
        (row.set)(into, &Given { value, source, flag, context }).map_err(|bad| self.report(flag, bad))
    }

    fn report(&self, flag: &Flag, bad: Bad) -> OptionError {
        let invalid = || {
            OptionError::new(self.program, &format!("Invalid {} specification", flag.dashed()), self.bad_option_status)
        };
        match bad {
            Bad::Value => invalid(),
            Bad::ValueAfter(line) => {
                let e = invalid();
                OptionError { text: format!("{line}\n{}", e.text), ..e }
            }
            Bad::Text(text) => OptionError::new(self.program, &text, self.bad_option_status),
            Bad::Plain(text) => OptionError::new(self.program, &text, 1),
            Bad::Raw(text) => OptionError { text, status: 1 },
            Bad::Fatal(text) => OptionError { text: format!("{}: fatal: {text}\n", self.program), status: 1 },
        }
    }
}
