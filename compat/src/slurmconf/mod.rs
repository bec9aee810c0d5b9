//! Slurm's configuration read, and made into ours.
//!
//! | module | noun |
//! | --- | --- |
//! | [`lines`] | the text: comments, continuations, quotes, included files |
//! | [`keys`] | every parameter of slurm.conf(5) and what becomes of it |
//! | [`nodes`] | `NodeName` lines and `gres.conf` |
//! | [`partitions`] | `PartitionName` lines |
//! | [`convert`] | all together, as a `gpunion.toml` and a report |
//!
//! Source: slurm.conf(5) and gres.conf(5) of Slurm 24.11.

pub mod convert;
pub mod keys;
pub mod lines;
pub mod nodes;
pub mod partitions;

pub use convert::{Imported, import};
pub use lines::{Line, ReadError, read};

/// What became of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// It stands in the new file.
    Carried,
    /// Nothing has to be said for it here.
    NotNeeded,
    /// It changes what users see, and is not there.
    NotCarried,
    /// There is no such parameter, or its value makes no sense.
    Wrong,
}

/// What the report says of one setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The file, as it was named.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The parameter, as written, with its value where that says more.
    pub setting: String,
    /// What became of it.
    pub fate: Fate,
    /// Why, or what to do.
    pub text: String,
}
