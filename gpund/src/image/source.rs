//! Where an image's blobs lie: in a folder (OCI layout) or in a tar file (`oci-archive`, `docker save`).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::compression::Compression;
use super::manifest::{self, BadImage, Image};
use crate::raw::to_hex;
use crate::spec::{Identity, ImageRoot};
use crate::sys::Sys;

/// The biggest manifest or configuration that is read.
const TEXT_MAX: u64 = 8 << 20;

/// Where an image's blobs lie.
pub enum Source<'a> {
    /// An OCI layout.
    Folder {
        /// For opening files as the user.
        sys: &'a dyn Sys,
        /// Whose image it is.
        who: &'a Identity,
        /// The layout.
        path: PathBuf,
    },
    /// A tar file, uncompressed: where each member lies in it.
    Archive {
        /// The tar file.
        file: File,
        /// Name → offset and length.
        members: BTreeMap<String, (u64, u64)>,
    },
}

impl<'a> Source<'a> {
    /// A folder is a layout. A tar file is indexed; a compressed one is first unpacked to an unnamed file in `scratch`.
    pub fn open(sys: &'a dyn Sys, who: &'a Identity, path: &Path, scratch: &Path) -> io::Result<Self> {
        let mut file = sys.open_as(path, who)?;
        if file.metadata()?.is_dir() {
            return Ok(Self::Folder { sys, who, path: path.into() });
        }
        let mut start = Vec::new();
        Read::by_ref(&mut file).take(4).read_to_end(&mut start)?;
        let compression = Compression::of(&start);
        if compression != Compression::None {
            file.rewind()?;
            let mut plain = sys.unnamed_file(scratch)?;
            io::copy(&mut compression.decoder(BufReader::new(file))?, &mut plain)?;
            file = plain;
        }
        file.rewind()?;
        let mut members = BTreeMap::new();
        for entry in tar::Archive::new(&file).entries_with_seek()? {
            let entry = entry?;
            if entry.header().entry_type().is_file() {
                let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
                let name = name.trim_start_matches("./").to_owned();
                members.insert(name, (entry.raw_file_position(), entry.size()));
            }
        }
        Ok(Self::Archive { file, members })
    }

    /// A blob, to be read from its start.
    pub fn blob(&self, name: &str) -> io::Result<Box<dyn Read + '_>> {
        match self {
            Self::Folder { sys, who, path } => Ok(Box::new(sys.open_as(&path.join(name), who)?)),
            Self::Archive { file, members } => {
                let (offset, len) = members.get(name).ok_or(io::ErrorKind::NotFound)?;
                let mut file = file.try_clone()?;
                file.seek(SeekFrom::Start(*offset))?;
                Ok(Box::new(file.take(*len)))
            }
        }
    }

    fn has(&self, name: &str) -> bool {
        self.blob(name).is_ok()
    }

    fn text(&self, name: &str) -> Result<Vec<u8>, BadImage> {
        let mut bytes = Vec::new();
        let read = self.blob(name).and_then(|b| b.take(TEXT_MAX).read_to_end(&mut bytes));
        read.map_err(|e| BadImage(format!("cannot read {name} of it: {e}")))?;
        Ok(bytes)
    }

    fn verified(&self, name: &str, digest: &str) -> Result<Vec<u8>, BadImage> {
        let bytes = self.text(name)?;
        let found = format!("sha256:{}", to_hex(&Sha256::digest(&bytes)));
        if found == digest { Ok(bytes) } else { Err(corrupt(name, digest, &found)) }
    }

    /// Reads what image it is; every text but the index is verified by its digest.
    pub fn image(&self, wanted: &ImageRoot) -> Result<Image, BadImage> {
        let tag = wanted.tag.as_deref();
        let image = if self.has("index.json") {
            let mut chosen = manifest::choose(&self.text("index.json")?, tag)?;
            if chosen.is_index() {
                let inner = self.verified(&manifest::blob_path(chosen.digest())?, chosen.digest())?;
                chosen = manifest::choose(&inner, None)?;
            }
            let digest = chosen.digest();
            let manifest = self.verified(&manifest::blob_path(digest)?, digest)?;
            let config_digest = manifest::config_digest(&manifest)?;
            let config = self.verified(&manifest::blob_path(&config_digest)?, &config_digest)?;
            manifest::from_oci(digest, &manifest, &config)?
        } else if self.has("manifest.json") {
            let (config_name, layers) = manifest::saved_config(&self.text("manifest.json")?, tag)?;
            let hex = config_name.rsplit('/').next().unwrap_or_default().trim_end_matches(".json");
            let digest = format!("sha256:{hex}");
            manifest::blob_path(&digest)?;
            manifest::from_saved(&digest, layers, &self.verified(&config_name, &digest)?)?
        } else {
            return Err(BadImage(
                "it is neither an OCI layout, nor an archive of one, nor made by `docker save`".into(),
            ));
        };
        match &wanted.digest {
            Some(digest) if *digest != image.digest => {
                Err(BadImage(format!("it has the digest {}, not {digest}", image.digest)))
            }
            _ => Ok(image),
        }
    }
}

/// What is said of a blob whose bytes are not what its name promises.
pub fn corrupt(name: &str, expected: &str, found: &str) -> BadImage {
    BadImage(format!("{name} is corrupt: it should have {expected} and has {found}; copy the image again"))
}
