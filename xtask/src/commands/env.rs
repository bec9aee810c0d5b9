//! `cargo xtask env`: the environment for cargo calls made by hand or by an editor.

use anyhow::Result;
use clap::Args;

use super::setup;
use crate::context::Context;

/// Nothing to choose.
#[derive(Args)]
pub struct Options {}

/// Prints shell lines, and nothing else on standard output.
pub fn run(context: &mut Context, _options: &Options) -> Result<()> {
    setup::prepare(context)?;
    for (name, value) in variables(context) {
        println!("export {name}={}", quoted(&value));
    }
    Ok(())
}

fn variables(context: &Context) -> Vec<(&'static str, String)> {
    let mut variables = vec![("CARGO_TARGET_DIR", context.target.display().to_string())];
    if let Some(folder) = &context.rocksdb {
        variables.push(("ROCKSDB_LIB_DIR", folder.display().to_string()));
        variables.push(("ROCKSDB_STATIC", "1".to_owned()));
    }
    variables
}

/// In single quotes for a shell.
fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_folder_survives_the_shell() {
        for name in ["/a b", "/it's", "/$HOME/`x`"] {
            let script = format!("printf %s {}", quoted(name));
            let output = std::process::Command::new("sh").args(["-c", &script]).output().expect("a shell");
            assert_eq!(String::from_utf8_lossy(&output.stdout), name);
        }
    }
}
