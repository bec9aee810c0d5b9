//! How the script ended.

/// How big `/.gpun/exit` is made beforehand. Its blocks exist before the job runs, so a full disk cannot lose the end.
pub const END_FILE_SIZE: usize = 2048;

/// How the script ended, as process 1 saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// Exit code.
    pub code: u8,
    /// Terminating signal; 0: none.
    pub signal: u8,
    /// The biggest process, in KiB.
    pub max_rss_kib: u64,
    /// Why the script could not be started; empty: it was.
    pub reason: String,
}

impl End {
    /// One line, at most [`END_FILE_SIZE`] bytes. It is complete when it ends in a line feed.
    pub fn encode(&self) -> Vec<u8> {
        let mut line = format!("end {} {} {} ", self.code, self.signal, self.max_rss_kib);
        for c in self.reason.chars() {
            if line.len() + c.len_utf8() + 1 > END_FILE_SIZE {
                break;
            }
            line.push(if c.is_control() { ' ' } else { c });
        }
        line.push('\n');
        line.into_bytes()
    }

    /// Reads what [`End::encode`] wrote; none: it is not (wholly) there, or the job scribbled over it.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let line = bytes.get(..bytes.iter().position(|&b| b == b'\n')?)?;
        let mut fields = std::str::from_utf8(line).ok()?.strip_prefix("end ")?.splitn(4, ' ');
        Some(Self {
            code: fields.next()?.parse().ok()?,
            signal: fields.next()?.parse().ok()?,
            max_rss_kib: fields.next()?.parse().ok()?,
            reason: fields.next()?.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        for (end, line) in [
            (End { code: 3, ..End::default() }, "end 3 0 0 \n"),
            (End { signal: 9, max_rss_kib: 77, ..End::default() }, "end 0 9 77 \n"),
            (End { reason: "no such\nfile é".into(), ..End::default() }, "end 0 0 0 no such file é\n"),
        ] {
            assert_eq!(end.encode(), line.as_bytes());
            let mut file = vec![0; END_FILE_SIZE];
            file[..line.len()].copy_from_slice(line.as_bytes());
            let back = End::decode(&file).unwrap();
            assert_eq!((back.code, back.signal, back.max_rss_kib), (end.code, end.signal, end.max_rss_kib));
        }
        let long = End { reason: "é".repeat(5000), ..End::default() };
        assert!(long.encode().len() <= END_FILE_SIZE && End::decode(&long.encode()).is_some());
    }

    #[test]
    fn anything_else_is_no_end() {
        for bad in [&b""[..], b"\0\0\0", b"end 1 0 5", b"end 256 0 0 \n", b"end -1 0 0 \n", b"end 1 0\n", b"\xff\n"] {
            assert_eq!(End::decode(bad), None, "{bad:?}");
        }
    }
}
