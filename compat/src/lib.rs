//! Slurm as text: hostlists, times, memory, directives, options, output formats. Pure.
//!
//! Nothing here reads a file, the environment, a clock or the network: everything comes as arguments, and what is to be
//! printed goes back as text. Texts that users see are Slurm 24.11's, asked from Slurm itself; where ours differs on purpose,
//! the module says so.
//!
//! | module | what |
//! | --- | --- |
//! | [`hostlist`] | `n[001-128,200]` and back; `scontrol show hostnames\|hostlist\|hostlistsorted` |
//! | [`time`], [`moment`] | `--time` limits and lengths of time; `--begin` and times of day, given now and a zone |
//! | [`memory`], [`gres`], [`tres`], [`count`] | sizes, generic resources, TRES strings, `-N 1-4`, `2(x3),1` |
//! | [`mod@array`], [`jobid`], [`dependency`], [`signal`] | `0-15:4%3`, `17_[1-4]`, `afterok:7`, `B:USR1@60` |
//! | [`pattern`] | `slurm-%A_%3a.out` |
//! | [`names`] | states of jobs and nodes, reasons, error texts |
//! | [`directive`] | `#SBATCH` (and `#PBS`, `#BSUB`) lines of a script |
//! | [`option`] | one table of flags a command: parser, help, environment, refusals |
//! | [`update`] | `scontrol update` as data |
//! | [`mod@format`] | columns of `squeue` and `sinfo`, blocks of `scontrol show` |
//!
//! A submission, from words to a job:
//!
//! 1. [`option::sbatch::Line::parse`] cuts the command line; [`option::sbatch::Line::peek`] tells of `--wrap` and `--help`.
//! 2. The command reads the script; [`directive::extract`] checks it and takes its directives out.
//! 3. [`option::sbatch::resolve`] puts directives, environment and command line together: a
//!    [`option::submission::Submission`] with the [`gpun_core::spec::JobSpec`] for the controller.
//! 4. [`option::sbatch::submitted`] or [`names::error::submission`] says what came of it.
//!
//! A query: [`option::squeue::parse`], then the controller's views into [`format::squeue::report`] with a
//! [`format::Shown`]; likewise `sinfo`. `scontrol show`: [`option::scontrol::parse`], [`option::scontrol::entity`], then
//! [`format::job_block`], [`format::node_block`], [`format::partition_block`], [`format::config`].

pub mod array;
pub mod constraint;
pub mod count;
pub mod dependency;
pub mod directive;
pub mod format;
pub mod gres;
pub mod hostlist;
pub mod jobid;
pub mod license;
pub mod memory;
pub mod moment;
pub mod multi_prog;
pub mod names;
pub mod option;
pub mod pattern;
pub mod reservation;
pub mod sacctmgr;
pub mod signal;
pub mod slurmconf;
pub mod time;
pub mod tres;
pub mod update;
