//! Container images: what a stranger made.

use std::fs;

use gpund::image::{compression::Compression, manifest, unpack};

/// Bytes that a layer may unfold to here: decompression is bounded by the reader's disk, not by the input.
const UNFOLDED_MAX: u64 = 1 << 20;

/// Index, manifest and configuration, with a line `---` between them.
pub fn manifest(data: &[u8]) {
    let cut: &[u8] = b"\n---\n";
    let place = data.windows(cut.len()).position(|part| part == cut);
    let (first, second) = place.map_or((data, data), |at| (&data[..at], &data[at + cut.len()..]));
    for tag in [None, Some("latest")] {
        let _ = manifest::choose(first, tag);
        if let Ok((config, layers)) = manifest::saved_config(first, tag) {
            let _ = manifest::from_saved(&config, layers, second);
        }
    }
    let _ = manifest::config_digest(first);
    let Ok(image) = manifest::from_oci("sha256:0", first, second) else { return };
    // Names of blobs are paths below the layout, and nothing else.
    assert!(
        image
            .layers
            .iter()
            .all(|layer| manifest::blob_path(layer.blob.as_deref().unwrap_or("")).as_ref() == Ok(&layer.name))
    );
}

/// A layer, unpacked into a folder next to which nothing may appear, and copied onto another.
pub fn layer(data: &[u8]) {
    use std::io::Read as _;
    let Ok(dir) = tempfile::tempdir() else { return };
    let (root, copy) = (dir.path().join("root"), dir.path().join("copy"));
    let canary = dir.path().join("canary");
    let made = fs::create_dir(&root).and_then(|()| fs::create_dir(&copy)).and_then(|()| fs::write(&canary, "whole"));
    if made.is_err() {
        return;
    }
    let Ok(stream) = Compression::of(data).decoder(data) else { return };
    let unpacked = unpack::unpack(&mut stream.take(UNFOLDED_MAX), &root);
    if unpacked.is_ok() {
        let _ = unpack::copy_layer(&root, &copy);
    }
    assert_eq!(fs::read_to_string(&canary).ok().as_deref(), Some("whole"));
    assert_eq!(fs::read_dir(dir.path()).map(Iterator::count).ok(), Some(3), "something was made outside the layer");
}
