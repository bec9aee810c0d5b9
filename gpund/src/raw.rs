//! Text that a user gave and that need not be UTF-8: arguments, environment, paths.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

/// Bytes that are nearly always text. In JSON a plain string when they are UTF-8, else `{"hex": "..."}`, so that a
/// variable or a path in another encoding survives the way from `sbatch` to the script unchanged.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RawText(pub Vec<u8>);

impl RawText {
    /// The bytes as a path.
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.0))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// For messages: bytes that are not UTF-8 are replaced.
    pub fn lossy(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }
}

impl fmt::Debug for RawText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

impl From<&str> for RawText {
    fn from(s: &str) -> Self {
        Self(s.as_bytes().to_vec())
    }
}

impl From<String> for RawText {
    fn from(s: String) -> Self {
        Self(s.into_bytes())
    }
}

impl From<Vec<u8>> for RawText {
    fn from(b: Vec<u8>) -> Self {
        Self(b)
    }
}

impl From<&Path> for RawText {
    fn from(p: &Path) -> Self {
        Self(p.as_os_str().as_bytes().to_vec())
    }
}

impl Serialize for RawText {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => s.serialize_str(text),
            Err(_) => {
                let mut map = s.serialize_map(Some(1))?;
                map.serialize_entry("hex", &to_hex(&self.0))?;
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for RawText {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = RawText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or {\"hex\": \"...\"}")
            }

            fn visit_str<E: de::Error>(self, v: &str) -> Result<RawText, E> {
                Ok(RawText(v.as_bytes().to_vec()))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawText, A::Error> {
                let entry: Option<(String, String)> = map.next_entry()?;
                match entry {
                    Some((key, value)) if key == "hex" => {
                        from_hex(&value).map(RawText).ok_or_else(|| de::Error::custom("not hexadecimal"))
                    }
                    _ => Err(de::Error::custom("expected the one key `hex`")),
                }
            }
        }
        d.deserialize_any(Either)
    }
}

/// Lower-case hexadecimal.
pub fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut out = String::with_capacity(bytes.len() * 2);
    for b in bytes {
        out.push(char::from(DIGITS[usize::from(b >> 4)]));
        out.push(char::from(DIGITS[usize::from(b & 15)]));
    }
    out
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.bytes().map(|c| char::from(c).to_digit(16).map(|d| d as u8)).collect();
    let digits = digits?;
    digits.len().is_multiple_of(2).then(|| digits.chunks(2).map(|p| p[0] << 4 | p[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_keeps_every_byte() {
        for (bytes, json) in
            [(&b"plain"[..], "\"plain\""), ("tab\té".as_bytes(), "\"tab\\té\""), (&[0xff, 0x41], "{\"hex\":\"ff41\"}")]
        {
            let raw = RawText(bytes.to_vec());
            assert_eq!(serde_json::to_string(&raw).unwrap(), json);
            assert_eq!(serde_json::from_str::<RawText>(json).unwrap(), raw);
        }
        for bad in ["{\"hex\":\"f\"}", "{\"hex\":\"zz\"}", "{\"x\":\"00\"}", "{}", "7"] {
            assert!(serde_json::from_str::<RawText>(bad).is_err(), "{bad}");
        }
    }
}
