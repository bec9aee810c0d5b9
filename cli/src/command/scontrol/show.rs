//! placeholder
use crate::out::Out;
use gpun_compat::{hostlist::Form,option::scontrol::{self, Options}};
pub fn run(_asked: &Options, entity: &str, names: &[String], out: &mut Out) -> u8 {
    match scontrol::entity(entity) { Some("hostnames") => super::hosts::show(Form::Names, names.first().map(String::as_str), out), Some("hostlist") => super::hosts::show(Form::List, names.first().map(String::as_str), out), _=>1 }
}
pub fn completing(_: &mut Out) -> u8 { 0 }
