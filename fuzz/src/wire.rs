//! The wire, as the client without a runtime reads it.

use std::{io::Write as _, net::Shutdown, os::unix::net::UnixStream};

use gpun_proto::{
    pb,
    quick::Quick,
    step::{BadFrame, Frames, frame},
};

/// Larger inputs might not fit into a socket's buffer, and nobody reads the other end.
const SENT_MAX: usize = 32 << 10;

/// Compressed headers.
pub fn hpack(data: &[u8]) {
    let mut total = 0;
    let _ = gpun_proto::hpack::read(data, |name, value| total += name.len() + value.len());
    // The static table's longest line is below 64 bytes, and a Huffman code has 5 bits or more.
    assert!(total <= data.len() * 64);
}

/// All that a server may send: the first byte chooses the call.
pub fn quick(data: &[u8]) {
    let Some((call, frames)) = data.split_first() else { return };
    let Ok((ours, mut peer)) = UnixStream::pair() else { return };
    let frames = &frames[..frames.len().min(SENT_MAX)];
    if peer.write_all(frames).and_then(|()| peer.shutdown(Shutdown::Write)).is_err() {
        return;
    }
    let mut quick = Quick::over(ours);
    match call % 3 {
        0 => drop(quick.submit(&pb::SubmitRequest::default())),
        1 => drop(quick.list_jobs(&pb::ListJobsRequest::default(), drop)),
        _ => drop(quick.acts(&[pb::ActRequest::default(), pb::ActRequest::default()], |_, reply| drop(reply))),
    }
}

/// What srun and a step's node say to each other, in pieces of a size that the first byte chooses: however it is cut, the same
/// messages come out, and they are written as they were read.
pub fn step(data: &[u8]) {
    let Some((size, bytes)) = data.split_first() else { return };
    let whole = messages(bytes, bytes.len().max(1));
    assert_eq!(messages(bytes, usize::from(*size) + 1), whole, "in pieces of {size} and one");
    for message in whole.0 {
        assert_eq!(messages(&frame(&message), usize::MAX), (vec![message], false));
    }
}

/// The messages up to the first that is none, and whether there is one.
fn messages(bytes: &[u8], size: usize) -> (Vec<pb::ToStep>, bool) {
    let (mut frames, mut found) = (Frames::default(), Vec::new());
    for piece in bytes.chunks(size) {
        frames.push(piece);
        loop {
            match frames.next_message() {
                Ok(Some(message)) => found.push(message),
                Ok(None) => break,
                Err(BadFrame) => return (found, true),
            }
        }
    }
    (found, false)
}
