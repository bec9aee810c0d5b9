//! How a node proves that it belongs to the cluster: a keyed hash of the controller's nonce.
//!
//! The key never crosses the wire. Until TLS is set up the link is for loopback only (the controller refuses to listen
//! elsewhere), so what is left to keep out is another user of the same machine.

use std::{fmt, io, path::Path};

/// The cluster's node key.
#[derive(Clone)]
pub struct NodeKey([u8; 32]);

impl fmt::Debug for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeKey(secret)")
    }
}

impl NodeKey {
    /// A key of these bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Reads a key file: 64 hexadecimal digits.
    ///
    /// # Errors
    /// The file can't be read, or is no key.
    pub fn read(path: &Path) -> io::Result<Self> {
        let text = std::fs::read_to_string(path)?;
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, format!("{} is no node key", path.display()));
        blake3::Hash::from_hex(text.trim()).map(|key| Self(*key.as_bytes())).map_err(|_| wrong())
    }

    /// The key as [`NodeKey::read`] takes it.
    pub fn to_text(&self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string() + "\n"
    }

    /// The proof for a nonce and a node's name.
    pub fn prove(&self, nonce: &[u8], node_name: &str) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(&(nonce.len() as u64).to_be_bytes()).update(nonce).update(node_name.as_bytes());
        *hasher.finalize().as_bytes()
    }

    /// True if `mac` is the proof; compared in constant time.
    pub fn accepts(&self, nonce: &[u8], node_name: &str, mac: &[u8]) -> bool {
        let right = blake3::Hash::from_bytes(self.prove(nonce, node_name));
        <[u8; 32]>::try_from(mac).is_ok_and(|mac| right == blake3::Hash::from_bytes(mac))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_key_nonce_and_name_are_accepted() {
        let key = NodeKey::new([7; 32]);
        let mac = key.prove(b"nonce", "n1");
        let rows: [(&NodeKey, &[u8], &str, &[u8], bool); 6] = [
            (&key, b"nonce", "n1", &mac, true),
            (&key, b"other", "n1", &mac, false),
            (&key, b"nonce", "n2", &mac, false),
            (&key, b"noncen", "1", &mac, false),
            (&NodeKey::new([8; 32]), b"nonce", "n1", &mac, false),
            (&key, b"nonce", "n1", &mac[..31], false),
        ];
        for (key, nonce, name, mac, right) in rows {
            assert_eq!(key.accepts(nonce, name, mac), right, "{nonce:?} {name}");
        }
    }

    #[test]
    fn a_key_file_reads_back() {
        let key = NodeKey::new([0xa5; 32]);
        let dir = std::env::temp_dir().join(format!("gpun-key-{}", std::process::id()));
        std::fs::write(&dir, key.to_text()).unwrap();
        let read = NodeKey::read(&dir).unwrap();
        std::fs::write(&dir, "short").unwrap();
        assert!(NodeKey::read(&dir).is_err());
        std::fs::remove_file(&dir).unwrap();
        assert_eq!(read.prove(b"n", "x"), key.prove(b"n", "x"));
    }
}
