//! How blobs and archives are compressed: told by their first bytes, since media types are often wrong.

use std::io::{self, BufRead, Read};

use flate2::bufread::MultiGzDecoder;

/// A stream's compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// As it is.
    None,
    /// gzip (RFC 1952), of one or more members.
    Gzip,
    /// Zstandard (RFC 8878), of one or more frames.
    Zstd,
}

impl Compression {
    /// By the first bytes of a stream.
    pub fn of(start: &[u8]) -> Self {
        if start.starts_with(&[0x1f, 0x8b]) {
            Self::Gzip
        } else if start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) || is_skippable_frame(start) {
            Self::Zstd
        } else {
            Self::None
        }
    }

    /// What is in a stream that is compressed so.
    ///
    /// # Errors
    /// There is no memory for the decoder.
    pub fn decoder<'a>(self, stream: impl BufRead + 'a) -> io::Result<Box<dyn Read + 'a>> {
        Ok(match self {
            Self::None => Box::new(stream),
            Self::Gzip => Box::new(MultiGzDecoder::new(stream)),
            Self::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(stream)?),
        })
    }
}

/// Frames with other data, with which chunked Zstandard (`zstd:chunked`) may begin.
fn is_skippable_frame(start: &[u8]) -> bool {
    matches!(start, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_tell_and_frames_are_joined() {
        let text = b"to be read again".repeat(100);
        let gzip = {
            let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            io::Write::write_all(&mut gz, &text).unwrap();
            gz.finish().unwrap()
        };
        let zstd = zstd::encode_all(&text[..], 1).unwrap();
        let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 7, 7], &zstd[..]].concat();
        let rows: [(&str, Vec<u8>, Compression); 6] = [
            ("plain", text.clone(), Compression::None),
            ("gzip", gzip.clone(), Compression::Gzip),
            ("two gzip members", [&gzip[..], &gzip[..]].concat(), Compression::Gzip),
            ("zstd", zstd.clone(), Compression::Zstd),
            ("two zstd frames", [&zstd[..], &zstd[..]].concat(), Compression::Zstd),
            ("a frame to skip", skipped, Compression::Zstd),
        ];
        for (what, bytes, expected) in rows {
            assert_eq!(Compression::of(&bytes), expected, "{what}");
            let mut plain = Vec::new();
            expected.decoder(&bytes[..]).unwrap().read_to_end(&mut plain).unwrap();
            let times = if what.starts_with("two") { 2 } else { 1 };
            assert_eq!(plain, text.repeat(times), "{what}");
        }
        assert_eq!(Compression::of(b""), Compression::None);
        assert_eq!(Compression::of(&[0x1f]), Compression::None);
    }
}
