//! The wire, as the client without a runtime reads it.

use std::{io::Write as _, net::Shutdown, os::unix::net::UnixStream};

use gpun_proto::{pb, quick::Quick};

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
