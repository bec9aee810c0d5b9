//! Root file systems from images.

use std::path::PathBuf;

use crate::container::LaunchError;
use crate::hostroot::Bind;
use crate::jobdir::JobDir;
use crate::raw::RawText;
use crate::spec::{ImageRoot, LaunchSpec};
use crate::sys::Sys;

/// A root file system made from an image, mounted.
#[derive(Debug)]
pub struct ImageRooted {
    /// Its folder on the host.
    pub rootfs: PathBuf,
    /// What is bound into it.
    pub binds: Vec<Bind>,
    /// What stands before the script when the entrypoint is wanted.
    pub entrypoint: Vec<RawText>,
    /// The script's environment.
    pub env: Vec<RawText>,
    /// Where the script starts.
    pub work_dir: RawText,
}

/// Makes it.
pub fn root(_: &dyn Sys, _: &JobDir, _: &LaunchSpec, _: &ImageRoot) -> Result<ImageRooted, LaunchError> {
    Err(LaunchError::request("images are not supported"))
}
