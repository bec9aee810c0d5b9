//! A blocking client for one local caller: what a command does that starts, asks once and ends.
//!
//! `sbatch` as a whole process takes a millisecond, so nothing is set up that one call does not need: no runtime, no threads,
//! no waiting for the peer's settings. The first write holds the connection's preface, our settings and the whole request.
//! Windows are opened as wide as they go, so that a listing of any length needs no further write.
//!
//! It speaks HTTP/2 and gRPC as tonic's server does, and nothing more: no compression, no push; one call at a time, but for
//! [`Quick::acts`].

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use prost::Message;
use thiserror::Error;

use crate::{MESSAGE_MAX_BYTES, hpack, pb};

/// How a call failed.
#[derive(Debug, Error)]
pub enum CallError {
    /// Nothing listens at the controller's socket, or the caller may not use it.
    #[error("no controller answers at {at}")]
    Connect {
        /// Where it was looked for.
        at: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The connection broke or the answer took too long. The request may have been done.
    #[error("the connection to the controller broke")]
    Io(#[from] io::Error),
    /// The controller refused the call as a whole.
    #[error("the controller refuses: {message}")]
    Status {
        /// gRPC status code.
        code: u32,
        /// In words.
        message: String,
    },
    /// What came is not what a controller says.
    #[error("the controller's answer can't be read: {0}")]
    Protocol(String),
}

impl CallError {
    /// True where trying again may help: nobody is there, or is not ready (gRPC `UNAVAILABLE`).
    pub fn is_unreachable(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Io(_) => true,
            Self::Status { code, .. } => *code == CODE_UNAVAILABLE,
            Self::Protocol(_) => false,
        }
    }
}

/// gRPC `UNAVAILABLE`: not ready, or not the leader and none known.
const CODE_UNAVAILABLE: u32 = 14;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Before the peer's settings are seen, so much may be sent (RFC 9113, 6.5.2 and 6.9.2).
const FIRST_WINDOW: i64 = 65_535;
const FRAME_MAX: usize = 16_384;
const WINDOW_MAX: u32 = (1 << 31) - 1;
/// The largest frame that we take, as announced.
const OUR_FRAME_MAX: u32 = 1 << 20;
/// Headers of one answer, however many frames they come in: without an end they would fill the memory.
const HEADERS_MAX_BYTES: usize = OUR_FRAME_MAX as usize;
/// Calls of [`Quick::acts`] under way at a time: fewer than the streams that servers allow.
const IN_FLIGHT: usize = 100;
/// What a gRPC message has before it: not compressed, and its length.
const MESSAGE_HEAD: usize = 5;

mod kind {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
}

mod flag {
    pub const END_STREAM: u8 = 1;
    pub const ACK: u8 = 1;
    pub const END_HEADERS: u8 = 4;
    pub const PADDED: u8 = 8;
    pub const PRIORITY: u8 = 32;
}

/// A connection to the controller on this machine.
#[derive(Debug)]
pub struct Quick {
    stream: UnixStream,
    /// Not yet written.
    out: Vec<u8>,
    /// Read and not yet used, from `at` on.
    have: Vec<u8>,
    at: usize,
    next_stream: u32,
    /// How much more the peer takes, on the connection and on a new stream.
    window: i64,
    stream_window_start: i64,
}

/// One frame: its kind, flags, stream and where its payload is in the read buffer.
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: std::ops::Range<usize>,
}

/// What a call has received so far.
#[derive(Default)]
struct Answer {
    stream: u32,
    stream_window: i64,
    block: Vec<u8>,
    block_open: bool,
    ends_after_block: bool,
    status: Option<u32>,
    http_status: String,
    message: String,
    bytes: Vec<u8>,
    done: bool,
}

impl Quick {
    /// Connects to the controller behind a Unix socket.
    ///
    /// # Errors
    /// [`CallError::Connect`].
    pub fn connect(socket: &Path) -> Result<Self, CallError> {
        let stream =
            UnixStream::connect(socket).map_err(|source| CallError::Connect { at: socket.to_owned(), source })?;
        Ok(Self::over(stream))
    }

    /// Speaks to whoever is at the stream's other end. Nothing is sent before the first call.
    pub fn over(stream: UnixStream) -> Self {
        let mut out = Vec::with_capacity(8192);
        out.extend_from_slice(PREFACE);
        let settings: [(u16, u32); 4] = [(1, 0), (2, 0), (4, WINDOW_MAX), (5, OUR_FRAME_MAX)];
        let mut payload = Vec::with_capacity(24);
        for (id, value) in settings {
            payload.extend_from_slice(&id.to_be_bytes());
            payload.extend_from_slice(&value.to_be_bytes());
        }
        frame(&mut out, kind::SETTINGS, 0, 0, &payload);
        frame(&mut out, kind::WINDOW_UPDATE, 0, 0, &(WINDOW_MAX - FIRST_WINDOW as u32).to_be_bytes());
        let (have, at) = (Vec::new(), 0);
        Self { stream, out, have, at, next_stream: 1, window: FIRST_WINDOW, stream_window_start: FIRST_WINDOW }
    }

    /// The longest wait for the peer, for every later call; `None` for no end.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn set_timeout(&self, longest: Option<Duration>) -> io::Result<()> {
        self.stream.set_read_timeout(longest)?;
        self.stream.set_write_timeout(longest)
    }

    fn unary<Q: Message, R: Message + Default>(&mut self, method: &str, request: &Q) -> Result<R, CallError> {
        let mut reply = None;
        self.call(method, request, |message: R| reply = Some(message))?;
        reply.ok_or_else(|| CallError::Protocol("there is no message in it".to_owned()))
    }

    fn call<Q: Message, R: Message + Default>(
        &mut self,
        method: &str,
        request: &Q,
        mut each: impl FnMut(R),
    ) -> Result<(), CallError> {
        let mut open = vec![self.open(method)];
        self.send_body(&body_of(request)?, &mut open)?;
        self.flush()?;
        loop {
            let Some(answer) = open.first_mut() else { return Ok(()) };
            take_messages(&mut answer.bytes, &mut each)?;
            if answer.done {
                return answer.finish();
            }
            self.take_frame(&mut open)?;
        }
    }

    /// Asks for many changes, up to a hundred at a time, so that they share the controller's writes to the disk. `each` gets
    /// the place of the request and its answer, in the order of the answers.
    ///
    /// # Errors
    /// The connection failed; requests without an answer may have been done.
    pub fn acts(
        &mut self,
        requests: &[pb::ActRequest],
        mut each: impl FnMut(usize, Result<pb::ActReply, CallError>),
    ) -> Result<(), CallError> {
        let mut waiting = requests.iter().enumerate();
        let (mut open, mut places): (Vec<Answer>, Vec<usize>) = (Vec::new(), Vec::new());
        loop {
            // Refilled by halves: one write for many requests.
            let refill = if open.len() <= IN_FLIGHT / 2 { IN_FLIGHT - open.len() } else { 0 };
            for (place, request) in waiting.by_ref().take(refill) {
                open.push(self.open("/gpunion.v1.Controller/Act"));
                places.push(place);
                self.send_body(&body_of(request)?, &mut open)?;
            }
            if open.is_empty() {
                return Ok(());
            }
            self.flush()?;
            self.take_frame(&mut open)?;
            // Others may have come in with it: they are handed on before the next wait.
            while let Some(at) = open.iter().position(|answer| answer.done) {
                let mut answer = open.swap_remove(at);
                let place = places.swap_remove(at);
                let mut reply = None;
                take_messages(&mut answer.bytes, &mut |message: pb::ActReply| reply = Some(message))?;
                let nothing = || CallError::Protocol("there is no message in it".to_owned());
                each(place, answer.finish().and_then(|()| reply.ok_or_else(nothing)));
            }
        }
    }

    /// Begins a call.
    fn open(&mut self, method: &str) -> Answer {
        let stream = self.next_stream;
        self.next_stream += 2;
        self.send_head(stream, method);
        Answer { stream, stream_window: self.stream_window_start, ..Answer::default() }
    }

    fn send_head(&mut self, stream: u32, method: &str) {
        // `:method POST` and `:scheme http` of the static table; the others are literals that nobody shall remember.
        let mut block = vec![0x83, 0x86];
        let mut literal = |index: u8, name: &str, value: &str| {
            block.push(index);
            if index == 0 {
                block.push(name.len() as u8);
                block.extend_from_slice(name.as_bytes());
            }
            block.push(value.len() as u8);
            block.extend_from_slice(value.as_bytes());
        };
        literal(4, ":path", method);
        literal(1, ":authority", "controller");
        literal(0, "te", "trailers");
        literal(0, "content-type", "application/grpc");
        frame(&mut self.out, kind::HEADERS, flag::END_HEADERS, stream, &block);
    }

    /// Puts the body of the last opened call into the frames to send, as the peer's windows allow; what it says meanwhile is
    /// taken in.
    fn send_body(&mut self, body: &[u8], open: &mut [Answer]) -> Result<(), CallError> {
        let mut rest = body;
        loop {
            let Some(answer) = open.last_mut() else { return Ok(()) };
            if answer.done {
                return Ok(());
            }
            let room = self.window.min(answer.stream_window).clamp(0, FRAME_MAX as i64) as usize;
            let (now, later) = rest.split_at(room.min(rest.len()));
            let last = later.is_empty();
            if last || !now.is_empty() {
                let flags = if last { flag::END_STREAM } else { 0 };
                frame(&mut self.out, kind::DATA, flags, answer.stream, now);
                self.window -= now.len() as i64;
                answer.stream_window -= now.len() as i64;
                rest = later;
            }
            if last {
                return Ok(());
            }
            if self.window.min(answer.stream_window) <= 0 {
                self.flush()?;
                self.take_frame(open)?;
            }
        }
    }

    fn flush(&mut self) -> Result<(), CallError> {
        if !self.out.is_empty() {
            self.stream.write_all(&self.out)?;
            self.out.clear();
        }
        Ok(())
    }

    /// Takes in one frame, for whichever of the calls it is.
    fn take_frame(&mut self, open: &mut [Answer]) -> Result<(), CallError> {
        let frame = self.read_frame()?;
        let payload = self.have.get(frame.payload.clone()).unwrap_or_default();
        match frame.kind {
            kind::SETTINGS if frame.flags & flag::ACK == 0 => self.take_settings(frame.payload, open),
            kind::PING if frame.flags & flag::ACK == 0 => {
                let payload = payload.to_vec();
                self::frame(&mut self.out, kind::PING, flag::ACK, 0, &payload);
                self.flush()
            }
            kind::WINDOW_UPDATE => {
                let more = i64::from(be_u32(payload) & WINDOW_MAX);
                if frame.stream == 0 {
                    self.window += more;
                }
                open.iter_mut()
                    .filter(|answer| answer.stream == frame.stream)
                    .for_each(|answer| answer.stream_window += more);
                Ok(())
            }
            kind::GOAWAY => Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the controller is stopping").into()),
            _ => match open.iter_mut().find(|answer| answer.stream == frame.stream) {
                Some(answer) => answer.take(frame.kind, frame.flags, payload),
                None => Ok(()),
            },
        }
    }

    /// The acknowledgement goes out with the next frame that we have to send: a call that is wholly sent does not wake the
    /// peer for it.
    fn take_settings(&mut self, payload: std::ops::Range<usize>, open: &mut [Answer]) -> Result<(), CallError> {
        let payload = self.have.get(payload).unwrap_or_default();
        for setting in payload.chunks_exact(6) {
            if setting[..2] == [0, 4] {
                let size = i64::from(be_u32(&setting[2..]));
                open.iter_mut().for_each(|answer| answer.stream_window += size - self.stream_window_start);
                self.stream_window_start = size;
            }
        }
        frame(&mut self.out, kind::SETTINGS, flag::ACK, 0, &[]);
        Ok(())
    }

    fn read_frame(&mut self) -> Result<Frame, CallError> {
        const HEAD: usize = 9;
        self.read_up_to(HEAD)?;
        let head: [u8; HEAD] = self
            .have
            .get(self.at..self.at + HEAD)
            .and_then(|head| head.try_into().ok())
            .ok_or_else(|| CallError::Protocol("a frame is cut".to_owned()))?;
        let [a, b, c, kind, flags, s0, s1, s2, s3] = head;
        let len = u32::from_be_bytes([0, a, b, c]);
        if len > OUR_FRAME_MAX {
            return Err(CallError::Protocol("a frame is larger than allowed".to_owned()));
        }
        self.read_up_to(HEAD + len as usize)?;
        let start = self.at + HEAD;
        self.at = start + len as usize;
        let stream = u32::from_be_bytes([s0, s1, s2, s3]) & WINDOW_MAX;
        Ok(Frame { kind, flags, stream, payload: start..self.at })
    }

    /// Reads until `len` unused bytes are there.
    fn read_up_to(&mut self, len: usize) -> Result<(), CallError> {
        while self.have.len() - self.at < len {
            self.have.drain(..self.at);
            self.at = 0;
            let old = self.have.len();
            // A short answer needs a page; a listing grows the buffer to the frames that come.
            self.have.resize((old + 4096).max(len + 4096), 0);
            let got = self.stream.read(&mut self.have[old..]);
            self.have.truncate(old + *got.as_ref().unwrap_or(&0));
            match got {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
                Ok(_) => {}
            }
        }
        Ok(())
    }
}

impl Answer {
    fn take(&mut self, kind: u8, flags: u8, payload: &[u8]) -> Result<(), CallError> {
        match kind {
            kind::DATA => {
                self.bytes.extend_from_slice(unpadded(payload, flags, 0)?);
                self.done = flags & flag::END_STREAM != 0;
            }
            kind::HEADERS => {
                let skip = if flags & flag::PRIORITY != 0 { 5 } else { 0 };
                self.block = unpadded(payload, flags, skip)?.to_vec();
                self.ends_after_block = flags & flag::END_STREAM != 0;
                self.block_open = true;
                self.close_block(flags)?;
            }
            kind::CONTINUATION if self.block_open => {
                if self.block.len() + payload.len() > HEADERS_MAX_BYTES {
                    return Err(CallError::Protocol("the headers are larger than allowed".to_owned()));
                }
                self.block.extend_from_slice(payload);
                self.close_block(flags)?;
            }
            kind::RST_STREAM => {
                // The peer may stop us from sending more after a whole answer (NO_ERROR).
                if self.status.is_none() {
                    let error = be_u32(payload);
                    return Err(CallError::Protocol(format!("the call was ended with HTTP/2 error {error}")));
                }
                self.done = true;
            }
            _ => {}
        }
        Ok(())
    }

    fn close_block(&mut self, flags: u8) -> Result<(), CallError> {
        if flags & flag::END_HEADERS == 0 {
            return Ok(());
        }
        self.block_open = false;
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        hpack::read(&self.block, |name, value| match name {
            b":status" => self.http_status = text(value),
            b"grpc-status" => self.status = text(value).parse().ok(),
            b"grpc-message" => self.message = unpercent(value),
            _ => {}
        })
        .map_err(|error| CallError::Protocol(error.to_string()))?;
        self.done = self.ends_after_block;
        Ok(())
    }

    fn finish(&mut self) -> Result<(), CallError> {
        match self.status {
            Some(0) if self.bytes.is_empty() => Ok(()),
            Some(0) => Err(CallError::Protocol("a message is cut".to_owned())),
            Some(code) => Err(CallError::Status { code, message: std::mem::take(&mut self.message) }),
            None => Err(CallError::Protocol(format!("no gRPC status (HTTP status {})", self.http_status))),
        }
    }
}

/// A message as it travels.
fn body_of(request: &impl Message) -> Result<Vec<u8>, CallError> {
    let mut body = Vec::with_capacity(request.encoded_len() + MESSAGE_HEAD);
    body.push(0);
    body.extend_from_slice(&(request.encoded_len() as u32).to_be_bytes());
    request.encode(&mut body).map_err(|error| CallError::Protocol(error.to_string()))?;
    Ok(body)
}

/// Hands on every whole message and leaves the rest.
fn take_messages<R: Message + Default>(bytes: &mut Vec<u8>, each: &mut impl FnMut(R)) -> Result<(), CallError> {
    let mut used = 0;
    while let Some(head) = bytes.get(used..used + MESSAGE_HEAD) {
        let len = be_u32(&head[1..]) as usize;
        if head[0] != 0 || len > MESSAGE_MAX_BYTES {
            return Err(CallError::Protocol("a message is compressed or too large".to_owned()));
        }
        let start = used + MESSAGE_HEAD;
        let Some(message) = bytes.get(start..start + len) else { break };
        each(R::decode(message).map_err(|error| CallError::Protocol(error.to_string()))?);
        used = start + len;
    }
    bytes.drain(..used);
    Ok(())
}

fn unpadded(payload: &[u8], flags: u8, skip: usize) -> Result<&[u8], CallError> {
    let (pad, rest) = match payload.split_first() {
        Some((pad, rest)) if flags & flag::PADDED != 0 => (usize::from(*pad), rest),
        _ => (0, payload),
    };
    let end = rest.len().checked_sub(pad);
    end.and_then(|end| rest.get(skip..end)).ok_or_else(|| CallError::Protocol("a frame's padding is wrong".to_owned()))
}

fn be_u32(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |four| u32::from_be_bytes(*four))
}

/// gRPC messages are percent-encoded.
fn unpercent(text: &[u8]) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        let coded = if *first == b'%' { tail.get(..2).and_then(|two| std::str::from_utf8(two).ok()) } else { None };
        match coded.and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                rest = &tail[2..];
            }
            None => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

macro_rules! unary {
    ($(#[$doc:meta])* $name:ident, $rpc:literal, $request:ident, $reply:ident) => {
        $(#[$doc])*
        ///
        /// # Errors
        /// [`CallError`].
        pub fn $name(&mut self, request: &pb::$request) -> Result<pb::$reply, CallError> {
            self.unary(concat!("/gpunion.v1.Controller/", $rpc), request)
        }
    };
}

impl Quick {
    unary!(
        /// Submits a job.
        submit, "Submit", SubmitRequest, SubmitReply
    );
    unary!(
        /// A wish about jobs, nodes or partitions.
        act, "Act", ActRequest, ActReply
    );
    unary!(
        /// Nodes, by name.
        list_nodes, "ListNodes", ListNodesRequest, ListNodesReply
    );
    unary!(
        /// Partitions, by name.
        list_partitions, "ListPartitions", ListPartitionsRequest, ListPartitionsReply
    );
    unary!(
        /// Reservations, in the order in which they were made.
        list_reservations, "ListReservations", ListReservationsRequest, ListReservationsReply
    );
    unary!(
        /// Settings and the controller itself.
        show_cluster, "ShowCluster", ShowClusterRequest, ShowClusterReply
    );
    unary!(
        /// Accounts, users, associations and qualities of service.
        show_accounting, "ShowAccounting", ShowAccountingRequest, ShowAccountingReply
    );
    unary!(
        /// Why a job waits.
        why, "Why", WhyRequest, WhyReply
    );
    unary!(
        /// A job's batch script.
        show_script, "ShowScript", ShowScriptRequest, ShowScriptReply
    );
    unary!(
        /// Makes a step of a running job.
        create_step, "CreateStep", CreateStepRequest, CreateStepReply
    );
    unary!(
        /// The consensus group.
        show_members, "ShowMembers", ShowMembersRequest, ShowMembersReply
    );

    /// Jobs by number, a chunk at a time.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn list_jobs(
        &mut self,
        request: &pb::ListJobsRequest,
        each: impl FnMut(pb::ListJobsReply),
    ) -> Result<(), CallError> {
        self.call("/gpunion.v1.Controller/ListJobs", request, each)
    }

    /// Records of jobs by submission, a chunk at a time.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn list_records(
        &mut self,
        request: &pb::ListRecordsRequest,
        each: impl FnMut(pb::ListRecordsReply),
    ) -> Result<(), CallError> {
        self.call("/gpunion.v1.Controller/ListRecords", request, each)
    }
}
