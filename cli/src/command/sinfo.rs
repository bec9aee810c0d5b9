//! placeholder
pub fn run(_: &[String]) -> u8 { 1 }
