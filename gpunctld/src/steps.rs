//! Steps: made through the log, and told to who asked with what it needs to reach the nodes.

use gpun_core::{
    Command, JobId, Outcome, RequestId,
    command::Identity,
    step::{NewStep, StepAlloc, StepSpec},
};
use gpun_proto::{
    decode, encode,
    pb::{self, create_step_reply::Result as Reply},
    step::token_digest,
};
use tonic::{Response, Status};

use crate::{filter::bad, launch, rpc::Rpc};

impl Rpc {
    /// Makes a step for whoever asks.
    pub(crate) async fn make_step(
        &self,
        who: Identity,
        request: pb::CreateStepRequest,
    ) -> Result<Response<pb::CreateStepReply>, Status> {
        let spec: StepSpec = decode(&request.spec).map_err(bad)?;
        let id = <[u8; 16]>::try_from(request.request_id.as_slice()).map(RequestId).map_err(bad)?;
        if request.token.len() < 16 {
            return Err(Status::invalid_argument("a step's token has at least 16 bytes"));
        }
        let job = JobId(request.job_id);
        let new = Box::new(NewStep { job, request: id, spec, token: token_digest(&request.token) });
        let outcome = self.proposer.propose(Command::CreateStep { who, new }).await;
        let result = match outcome.map_err(crate::rpc::not_taken)? {
            Outcome::StepMade { step, allocs } => Reply::Made(self.made(job, step, &allocs)),
            Outcome::Refused(refusal) => Reply::Refusal(encode(&refusal)),
            _ => return Err(Status::internal("an unexpected outcome of a step's request")),
        };
        Ok(Response::new(pb::CreateStepReply { result: Some(result) }))
    }

    fn made(&self, job: JobId, step: u32, allocs: &[StepAlloc]) -> pb::StepMade {
        let view = self.view();
        let node = |alloc: &StepAlloc| pb::StepNode {
            name: view.node(alloc.node).map(|node| node.name.clone()).unwrap_or_default(),
            tasks: alloc.tasks,
            cpus: alloc.cpus.len() as u32,
        };
        pb::StepMade {
            step,
            nodes: allocs.iter().map(node).collect(),
            environment: launch::job_environment(&view, job, &self.about.cluster_dir),
        }
    }
}
