//! The controller daemon: rpc, propose, plan, dispatch, read side.
//!
//! One closed [`event::Event`] and one loop ([`leader`]) decide what happens; [`rpc`] and [`link`] only translate; nothing
//! changes the cluster's state but an applied log entry ([`app`]), and every change goes through [`propose`].

mod app;
mod config;
mod environment;
mod estimate;
mod event;
mod filter;
mod launch;
mod leader;
mod link;
mod propose;
mod read;
mod records;
mod retention;
mod rpc;
mod serve;
mod steps;
mod users;

use std::path::PathBuf;

use anyhow::Context;
use clap::Parser;
use tracing_subscriber::EnvFilter;

/// The controller of a gpunion cluster.
///
/// Keeps the cluster's state in DIR/state, reads DIR/gpunion.toml, listens for local commands on DIR/ctl.sock and for nodes on
/// the TCP address of the configuration. `gpun up` starts it; a service manager may as well. SIGTERM stops it; jobs run on.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// The cluster's folder.
    #[arg(long, value_name = "DIR", env = "GPUN_DIR", default_value = "/var/lib/gpunion")]
    dir: PathBuf,
    /// Logs as lines of JSON.
    #[arg(long)]
    log_json: bool,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let filter = EnvFilter::try_from_env("GPUN_LOG").unwrap_or_else(|_| EnvFilter::new("info,openraft=warn"));
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if args.log_json {
        logs.json().init()
    } else {
        logs.with_ansi(false).init()
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start the runtime")?;
    runtime.block_on(serve::run(&args.dir))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_manual_page_has_every_option() {
        let mut command = Args::command();
        command.build();
        let options: BTreeSet<String> =
            command.get_arguments().filter_map(|arg| Some(format!("--{}", arg.get_long()?))).collect();
        let page = include_str!("../../man/man8/gpunctld.8").replace("\\-", "-");
        let terms = page.split(".TP\n\\fB--").skip(1).filter_map(|term| term.split(['=', '\\']).next());
        let terms: BTreeSet<String> = terms.map(|term| format!("--{term}")).collect();
        assert_eq!(options, terms, "the page is made from cli/src/man/own.rs");
    }
}
