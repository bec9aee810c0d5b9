//! The blocking client against tonic's own server.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::{path::PathBuf, pin::Pin, thread::JoinHandle, time::Duration};

use gpun_proto::{
    pb::{
        self,
        controller_server::{Controller, ControllerServer},
    },
    quick::{CallError, Quick},
};
use tokio::{net::UnixListener, sync::oneshot};
use tokio_stream::{Stream, StreamExt, wrappers::UnixListenerStream};
use tonic::{Request, Response, Status};

/// Answers with what it was sent.
struct Echo;

type Answer<T> = Result<Response<T>, Status>;

fn no<T>() -> Answer<T> {
    Err(Status::unimplemented("not in this test"))
}

#[tonic::async_trait]
impl Controller for Echo {
    async fn submit(&self, request: Request<pb::SubmitRequest>) -> Answer<pb::SubmitReply> {
        let sum: u32 = request.get_ref().script.iter().map(|byte| u32::from(*byte)).sum();
        Ok(Response::new(pb::SubmitReply { result: Some(pb::submit_reply::Result::JobId(sum)) }))
    }

    async fn act(&self, request: Request<pb::ActRequest>) -> Answer<pb::ActReply> {
        match request.get_ref().act.as_slice() {
            b"slow" => std::future::pending().await,
            b"down" => Err(Status::unavailable("no leader: 50 % of the members, Größe é")),
            act => Ok(Response::new(pb::ActReply { outcome: act.to_vec() })),
        }
    }

    type ListRecordsStream = Pin<Box<dyn Stream<Item = Result<pb::ListRecordsReply, Status>> + Send>>;

    async fn list_records(&self, _: Request<pb::ListRecordsRequest>) -> Answer<Self::ListRecordsStream> {
        Err(Status::unimplemented(""))
    }

    type ListJobsStream = Pin<Box<dyn Stream<Item = Result<pb::ListJobsReply, Status>> + Send>>;

    async fn list_jobs(&self, request: Request<pb::ListJobsRequest>) -> Answer<Self::ListJobsStream> {
        let chunks: u64 = request.get_ref().names.first().map_or(0, |n| n.parse().unwrap());
        let size: usize = request.get_ref().users.first().map_or(0, |n| n.parse().unwrap());
        let stream = tokio_stream::iter(0..chunks).map(move |now_ms| {
            if now_ms == 999_999 {
                return Err(Status::internal("in the middle"));
            }
            Ok(pb::ListJobsReply { jobs: vec![vec![7; size]], now_ms, unknown_users: vec![] })
        });
        Ok(Response::new(Box::pin(stream)))
    }

    async fn list_nodes(&self, _: Request<pb::ListNodesRequest>) -> Answer<pb::ListNodesReply> {
        Ok(Response::new(pb::ListNodesReply::default()))
    }
    async fn list_partitions(&self, _: Request<pb::ListPartitionsRequest>) -> Answer<pb::ListPartitionsReply> {
        no()
    }
    async fn list_reservations(&self, _: Request<pb::ListReservationsRequest>) -> Answer<pb::ListReservationsReply> {
        no()
    }
    async fn show_cluster(&self, _: Request<pb::ShowClusterRequest>) -> Answer<pb::ShowClusterReply> {
        no()
    }
    async fn show_accounting(&self, _: Request<pb::ShowAccountingRequest>) -> Answer<pb::ShowAccountingReply> {
        no()
    }
    async fn why(&self, _: Request<pb::WhyRequest>) -> Answer<pb::WhyReply> {
        no()
    }
    async fn show_script(&self, _: Request<pb::ShowScriptRequest>) -> Answer<pb::ShowScriptReply> {
        no()
    }
    async fn create_step(&self, _: Request<pb::CreateStepRequest>) -> Answer<pb::CreateStepReply> {
        no()
    }
    async fn show_members(&self, _: Request<pb::ShowMembersRequest>) -> Answer<pb::ShowMembersReply> {
        no()
    }
}

struct Server {
    dir: tempfile::TempDir,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (stop, stopped) = oneshot::channel();
        let path = dir.path().join("ctl.sock");
        let std_listener = std::os::unix::net::UnixListener::bind(path).unwrap();
        std_listener.set_nonblocking(true).unwrap();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let incoming = UnixListenerStream::new(UnixListener::from_std(std_listener).unwrap());
                let service = ControllerServer::new(Echo).max_decoding_message_size(gpun_proto::MESSAGE_MAX_BYTES);
                let serving = tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming);
                tokio::select! { served = serving => served.unwrap(), _ = stopped => {} }
            });
        });
        Self { dir, stop: Some(stop), thread: Some(thread) }
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("ctl.sock")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.thread.take().map(JoinHandle::join);
    }
}

#[test]
fn bodies_of_every_size_arrive_whole() {
    let server = Server::start();
    let mut quick = Quick::connect(&server.socket()).unwrap();
    // Around the frame size, the first window, and far over both.
    for len in [0, 1, 16_000, 16_384, 16_400, 65_530, 65_536, 70_000, 1 << 20, 9 << 20] {
        let request = pb::SubmitRequest { script: vec![1; len], ..Default::default() };
        let reply = quick.submit(&request).unwrap();
        assert_eq!(reply.result, Some(pb::submit_reply::Result::JobId(len as u32)), "{len} bytes");
    }
}

#[test]
fn listings_of_every_length_arrive_whole() {
    let server = Server::start();
    let mut quick = Quick::connect(&server.socket()).unwrap();
    for (chunks, size) in [(0, 0), (1, 0), (3, 10), (1, 100_000), (50, 400_000), (20_000, 100)] {
        let request = pb::ListJobsRequest {
            names: vec![chunks.to_string()],
            users: vec![size.to_string()],
            ..Default::default()
        };
        let mut got = Vec::new();
        quick
            .list_jobs(&request, |reply| {
                assert!(reply.jobs[0].len() == size && reply.jobs[0].iter().all(|byte| *byte == 7));
                got.push(reply.now_ms);
            })
            .unwrap();
        assert_eq!(got, (0..chunks).collect::<Vec<u64>>(), "{chunks} chunks of {size}");
    }
}

#[test]
fn refusals_come_with_their_words() {
    let server = Server::start();
    let mut quick = Quick::connect(&server.socket()).unwrap();
    let echo = quick.act(&pb::ActRequest { act: b"x".to_vec() }).unwrap();
    assert_eq!(echo.outcome, b"x");
    assert_eq!(quick.list_nodes(&pb::ListNodesRequest::default()).unwrap(), pb::ListNodesReply::default());
    match quick.act(&pb::ActRequest { act: b"down".to_vec() }).unwrap_err() {
        error @ CallError::Status { .. } => {
            assert!(error.is_unreachable());
            let text = error.to_string();
            assert_eq!(text, "the controller refuses: no leader: 50 % of the members, Größe é");
        }
        other => panic!("{other:?}"),
    }
    match quick.show_members(&pb::ShowMembersRequest {}).unwrap_err() {
        CallError::Status { code: 12, .. } => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn many_changes_are_each_answered_once() {
    let server = Server::start();
    let mut quick = Quick::connect(&server.socket()).unwrap();
    for (count, size) in [(0, 10), (1, 10), (99, 10), (1000, 10), (300, 3000)] {
        let body = |nth: usize| if nth % 50 == 7 { b"down".to_vec() } else { format!("{nth:>size$}").into_bytes() };
        let requests: Vec<_> = (0..count).map(|nth| pb::ActRequest { act: body(nth) }).collect();
        let mut got = vec![0; count];
        quick
            .acts(&requests, |nth, answer| {
                got[nth] += 1;
                match answer {
                    Ok(reply) => assert_eq!(reply.outcome, requests[nth].act),
                    Err(error) => assert!(nth % 50 == 7 && error.is_unreachable(), "{error}"),
                }
            })
            .unwrap();
        assert!(got.iter().all(|times| *times == 1), "{count} of {size}: {got:?}");
    }
    // The connection goes on as before.
    assert_eq!(quick.act(&pb::ActRequest { act: b"x".to_vec() }).unwrap().outcome, b"x");
}

#[test]
fn a_silent_or_missing_peer_is_an_error() {
    let server = Server::start();
    let mut quick = Quick::connect(&server.socket()).unwrap();
    quick.set_timeout(Some(Duration::from_millis(50))).unwrap();
    let slow = quick.act(&pb::ActRequest { act: b"slow".to_vec() }).unwrap_err();
    assert!(matches!(slow, CallError::Io(_)) && slow.is_unreachable(), "{slow:?}");
    let missing = Quick::connect(&server.dir.path().join("none")).unwrap_err();
    assert!(matches!(missing, CallError::Connect { .. }), "{missing:?}");
    // A peer that closes at once, and one that speaks something else.
    for reply in [&b""[..], b"HTTP/1.1 400 Bad Request\r\n\r\n"] {
        let path = server.dir.path().join(format!("odd{}", reply.len()));
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let odd = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            std::io::Write::write_all(&mut stream, reply).unwrap();
        });
        let error = Quick::connect(&path).unwrap().act(&pb::ActRequest::default()).unwrap_err();
        assert!(matches!(error, CallError::Io(_) | CallError::Protocol(_)), "{error:?}");
        odd.join().unwrap();
    }
}

#[test]
fn headers_without_an_end_are_refused() {
    use std::{io::Write as _, os::unix::net::UnixStream};
    let (ours, mut peer) = UnixStream::pair().unwrap();
    let sender = std::thread::spawn(move || {
        let frame = |kind: u8, len: u32| {
            let [_, a, b, c] = len.to_be_bytes();
            let mut frame = vec![a, b, c, kind, 0, 0, 0, 0, 1];
            frame.resize(frame.len() + len as usize, 0x88);
            frame
        };
        // The client hangs up in between.
        let _ =
            peer.write_all(&frame(1, 10)).and_then(|()| (0..).try_for_each(|_: u64| peer.write_all(&frame(9, 16_384))));
    });
    match Quick::over(ours).submit(&pb::SubmitRequest::default()) {
        Err(CallError::Protocol(why)) => assert_eq!(why, "the headers are larger than allowed"),
        other => panic!("{other:?}"),
    }
    sender.join().unwrap();
}
