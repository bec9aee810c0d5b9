//! Project tasks: one command, one file in `commands/`.
//!
//! The crate knows none of the workspace's other crates, so that it builds in seconds and so that a broken crate
//! never stops the checks that say what is broken.

mod borders;
mod clients;
mod commands;
mod context;
mod deny;
mod metadata;
mod parts;
mod processes;
mod rocksdb;
mod runner;
mod tidy;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::context::Context;

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about = "Project tasks of gpunion", version)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install what is missing: system packages by apt, and RocksDB built once into the cache
    Setup(commands::setup::Options),
    /// Print the environment that plain cargo calls need, for: eval "$(cargo xtask env)"
    Env(commands::env::Options),
    /// Build every crate
    Build(commands::build::Options),
    /// Bring up a cluster on this machine, run a job in it and show what happened
    Demo(commands::demo::Options),
    /// Run every check and every test
    Test(commands::test::Options),
    /// Run the long proofs, optimised, and print their figures
    Soak(commands::soak::Options),
    /// Run the readers of outside input under a fuzzer
    Fuzz(commands::fuzz::Options),
    /// Write the manual pages and the list of options from the tables
    Man(commands::man::Options),
    /// Prove the invariants by absence: crate borders, tidiness, licences
    Ci(commands::ci::Options),
}

fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    let mut context = Context::new()?;
    match task {
        Task::Setup(options) => commands::setup::run(&mut context, &options),
        Task::Env(options) => commands::env::run(&mut context, &options),
        Task::Build(options) => commands::build::run(&mut context, &options),
        Task::Demo(options) => commands::demo::run(&mut context, &options),
        Task::Test(options) => commands::test::run(&mut context, &options),
        Task::Soak(options) => commands::soak::run(&mut context, &options),
        Task::Fuzz(options) => commands::fuzz::run(&context, &options),
        Task::Man(options) => commands::man::run(&mut context, &options),
        Task::Ci(options) => commands::ci::run(&context, &options),
    }
}
