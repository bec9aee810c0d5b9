//! Frames between srun and the node that runs its step.

use gpun_core::Digest;
use prost::Message;

/// Largest frame, in bytes: a launch with all its environment.
pub const FRAME_MAX_BYTES: usize = 16 << 20;

/// Output and input go in pieces of at most so many bytes.
pub const PIECE_BYTES: usize = 64 << 10;

/// So many pieces of input may be under way to a task.
pub const INPUT_WINDOW: u32 = 4;

/// The folder of the nodes' step sockets, below the cluster's folder.
pub const SOCKET_FOLDER: &str = "run";

/// The name of a node's step socket.
pub fn socket_name(node: &str) -> String {
    format!("step-{node}.sock")
}

/// What is kept of a step's secret.
pub fn token_digest(token: &[u8]) -> Digest {
    Digest(*blake3::hash(token).as_bytes())
}

/// A message as a frame.
pub fn frame(message: &impl Message) -> Vec<u8> {
    let length = message.encoded_len();
    let mut bytes = Vec::with_capacity(4 + length);
    bytes.extend_from_slice(&(length as u32).to_le_bytes());
    bytes.extend_from_slice(&message.encode_to_vec());
    bytes
}

/// A frame that can't be read: who sends such is no partner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the other side sends what is no frame; is it of the same version?")]
pub struct BadFrame;

/// Bytes as they arrive, taken apart into frames.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
    at: usize,
}

impl Frames {
    /// Takes in what arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.at > 0 {
            self.bytes.drain(..self.at);
            self.at = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole message; none: more has to arrive.
    ///
    /// # Errors
    /// [`BadFrame`].
    pub fn next_message<M: Message + Default>(&mut self) -> Result<Option<M>, BadFrame> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some((length, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length > FRAME_MAX_BYTES {
            return Err(BadFrame);
        }
        let Some(body) = rest.get(..length) else { return Ok(None) };
        let message = M::decode(body).map_err(|_| BadFrame)?;
        self.at += 4 + length;
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pb::{FromStep, TaskBytes, from_step::Message as Said};

    fn output(task: u32, bytes: &[u8]) -> FromStep {
        FromStep { message: Some(Said::Output(TaskBytes { task, bytes: bytes.to_vec() })) }
    }

    #[test]
    fn frames_arrive_however_they_are_cut() {
        let sent = [output(0, b"a"), output(7, b""), output(1, &[0xff; 3000])];
        let bytes: Vec<u8> = sent.iter().flat_map(frame).collect();
        for piece in [1, 3, 5, 1000, bytes.len()] {
            let (mut frames, mut got) = (Frames::default(), Vec::new());
            for part in bytes.chunks(piece) {
                frames.push(part);
                while let Some(message) = frames.next_message::<FromStep>().unwrap() {
                    got.push(message);
                }
            }
            assert_eq!(got, sent, "in pieces of {piece}");
        }
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        for bad in [&[0xff, 0xff, 0xff, 0xff, 0][..], &[2, 0, 0, 0, 0xff, 0xff]] {
            let mut frames = Frames::default();
            frames.push(bad);
            assert_eq!(frames.next_message::<FromStep>(), Err(BadFrame), "{bad:?}");
        }
    }
}
