//! `scontrol show hostnames|hostlist|hostlistsorted`: no controller is asked.

use std::fs;

use gpun_compat::hostlist::{self, Form};

use crate::{
    out::{Out, complain},
    slurm,
};

/// Expands or compresses a list; without one, the job's own.
pub fn show(form: Form, list: Option<&str>, out: &mut Out) -> u8 {
    let of_job = || slurm::variable("SLURM_JOB_NODELIST").or_else(|| slurm::variable("SLURM_NODELIST"));
    let text = match (list.map(str::to_owned), form) {
        (Some(list), _) => list,
        (None, Form::Names) => match of_job().filter(|list| !list.is_empty()) {
            Some(list) => list,
            None => {
                complain("scontrol: error: host list is empty");
                return 0;
            }
        },
        (None, _) => {
            complain("invalid encode argument");
            return 1;
        }
    };
    let text = match (form, text.starts_with('/')) {
        (Form::List | Form::Sorted, true) => match fs::read_to_string(&text) {
            Ok(names) => names.split_whitespace().collect::<Vec<_>>().join(","),
            Err(_) => {
                complain(&format!("Can not open {text}"));
                return 1;
            }
        },
        _ => text,
    };
    match hostlist::show(form, &text) {
        Ok(shown) => {
            out.text(&shown);
            0
        }
        Err(error) => {
            complain(error.trim_end());
            1
        }
    }
}
