//! A controller alone: started, killed, started again on the same folder.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use gpun_core::{Refusal, RequestId, spec::JobSpec, view::JobView};
use gpun_proto::{
    CONTROLLER_SOCKET, decode, encode,
    pb::{self, submit_reply},
    quick::{CallError, Quick},
};

use crate::{program, wait_for};

/// A controller process and its folder.
pub struct Controller {
    dir: PathBuf,
    child: Option<Child>,
}

impl Controller {
    /// A controller of the cluster in `dir`, serving.
    pub fn start(dir: &Path, toml: &str) -> Self {
        std::fs::write(dir.join("gpunion.toml"), toml).expect("the folder takes a file");
        let mut controller = Self { dir: dir.to_path_buf(), child: None };
        controller.restart();
        controller
    }

    /// Starts it again on its folder and waits until it serves.
    pub fn restart(&mut self) {
        self.spawn();
        self.wait_serving();
    }

    /// Starts it again, without waiting.
    pub fn spawn(&mut self) {
        self.kill();
        let log = File::options().create(true).append(true).open(self.dir.join("ctl.log")).expect("a log");
        let child = Command::new(program("gpunctld"))
            .arg("--dir")
            .arg(&self.dir)
            .env("GPUN_LOG", "info,openraft=warn")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        self.child = Some(child.expect("gpunctld starts"));
    }

    /// Waits until it answers.
    pub fn wait_serving(&mut self) {
        let child = self.child.as_mut().expect("it was started");
        let socket = self.dir.join(CONTROLLER_SOCKET);
        let log = self.dir.join("ctl.log");
        wait_for("the controller answers", Duration::from_secs(30), || {
            if let Ok(Some(status)) = child.try_wait() {
                panic!("gpunctld ended: {status}\n{}", std::fs::read_to_string(&log).unwrap_or_default());
            }
            Quick::connect(&socket).ok()?.show_cluster(&pb::ShowClusterRequest {}).ok()
        });
    }

    /// `kill -9`, at once.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it was started").id()
    }

    /// Its log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("ctl.log")).unwrap_or_default()
    }

    /// A new connection.
    pub fn connect(&self) -> Result<Quick, CallError> {
        Quick::connect(&self.dir.join(CONTROLLER_SOCKET))
    }

    /// All jobs that it knows.
    pub fn jobs(&self) -> Vec<JobView> {
        let request = pb::ListJobsRequest { all_states: true, ..Default::default() };
        let mut jobs = Vec::new();
        let listed = self.connect().and_then(|mut quick| {
            quick.list_jobs(&request, |reply| {
                jobs.extend(reply.jobs.iter().map(|job| decode::<JobView>(job).expect("a job can be read")));
            })
        });
        listed.expect("the controller lists jobs");
        jobs
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.kill();
    }
}

/// One submission through the wire.
pub fn submit(quick: &mut Quick, request: RequestId, spec: &JobSpec) -> Result<Result<u32, Refusal>, CallError> {
    let reply = quick.submit(&pb::SubmitRequest {
        request_id: request.0.to_vec(),
        spec: encode(spec),
        script: b"#!/bin/sh\ntrue\n".to_vec(),
        environment: b"PATH=/usr/bin:/bin\0".to_vec(),
        test_only: false,
        ..Default::default()
    })?;
    match reply.result {
        Some(submit_reply::Result::JobId(id)) => Ok(Ok(id)),
        Some(submit_reply::Result::Refusal(refusal)) => Ok(Err(decode(&refusal).expect("a refusal can be read"))),
        Some(submit_reply::Result::Estimate(_)) | None => Err(CallError::Protocol("no result".to_owned())),
    }
}
