//! Root file systems from images: local OCI layouts and tar files, verified by digest, their layers unpacked once into a
//! store that all jobs of the node share, and put together with overlayfs.

pub mod collect;
pub mod compression;
pub mod manifest;
mod source;
pub mod unpack;

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use self::compression::Compression;
use self::manifest::{BadImage, Image, Layer};
use self::source::{Source, corrupt};
pub use self::unpack::{copy_layer, unpack};
use crate::container::{LaunchError, on_node};
use crate::hostroot::Bind;
use crate::jobdir::JobDir;
use crate::raw::{RawText, to_hex};
use crate::spec::{Identity, ImageRoot, LaunchSpec, Stdio};
use crate::sys::{Kind, Overlay, Sys, behind_links, ensure_dir, ensure_dirs};

/// A root file system made from an image, mounted.
#[derive(Debug)]
pub struct ImageRooted {
    /// Its folder on the host.
    pub rootfs: PathBuf,
    /// What is bound into it.
    pub binds: Vec<Bind>,
    /// What stands before the script when the entrypoint is wanted.
    pub entrypoint: Vec<RawText>,
    /// The script's environment.
    pub env: Vec<RawText>,
    /// Where the script starts.
    pub work_dir: RawText,
    /// The standard streams as seen inside.
    pub stdio: Stdio,
}

/// Where unpacked images are kept, in the node's folder for what jobs share.
pub fn store(share: &Path) -> PathBuf {
    share.join("images")
}

/// Makes it: finds the image, unpacks what the store lacks, mounts, and adds what a user needs to feel at home.
pub fn root(sys: &dyn Sys, dir: &JobDir, spec: &LaunchSpec, wanted: &ImageRoot) -> Result<ImageRooted, LaunchError> {
    let store = Store { sys, who: &spec.identity, path: store(&spec.share) };
    let image = store.find(wanted)?;
    let rootfs = put_together(sys, dir, &store, &image)?;
    let mut binds = Vec::new();
    if wanted.mount_home
        && let Ok(home) = sys.reach(spec.identity.home.as_path(), &spec.identity)
    {
        binds.push(Bind::of_user(&home, spec.identity.home.as_path(), false));
    }
    bind_network_files(sys, &mut binds);
    bind_user_files(sys, dir, &spec.identity, &rootfs, &mut binds)?;
    let stdio = bind_streams(sys, dir, spec, &mut binds)?;
    Ok(ImageRooted {
        rootfs,
        binds,
        entrypoint: if wanted.entrypoint { texts(&image.entrypoint) } else { Vec::new() },
        env: merge_env(&spec.env, &image.env, &wanted.env_override),
        work_dir: wanted.work_dir.clone().unwrap_or_else(|| match image.work_dir.as_str() {
            "" => "/".into(),
            dir => dir.into(),
        }),
        stdio,
    })
}

fn texts(list: &[String]) -> Vec<RawText> {
    list.iter().map(|s| s.as_str().into()).collect()
}

/// As Pyxis does: the job's environment, but where both name a variable the image's value wins, except for the names in
/// `override_names`.
fn merge_env(job: &[RawText], image: &[String], override_names: &[String]) -> Vec<RawText> {
    let name = |text: &[u8]| text.split(|&b| b == b'=').next().unwrap_or_default().to_vec();
    let job_has = |n: &[u8]| job.iter().any(|v| name(v.as_bytes()) == n);
    let overrides = |n: &[u8]| override_names.iter().any(|o| o.as_bytes() == n) && job_has(n);
    let from_image: Vec<&String> = image.iter().filter(|v| !overrides(&name(v.as_bytes()))).collect();
    let image_has = |n: &[u8]| from_image.iter().any(|v| name(v.as_bytes()) == n);
    let mut env: Vec<RawText> = job.iter().filter(|v| !image_has(&name(v.as_bytes()))).cloned().collect();
    env.extend(from_image.into_iter().map(|v| v.as_str().into()));
    env
}

/// The overlay of all layers with the job's own folder on top; a copy where the kernel refuses overlays.
fn put_together(sys: &dyn Sys, dir: &JobDir, store: &Store<'_>, image: &Image) -> Result<PathBuf, LaunchError> {
    let rootfs = dir.bundle().join("rootfs");
    let overlay = Overlay {
        layers: store.layers(),
        lower: image.layers.iter().rev().map(|l| layer_name(&l.diff_id)).collect(),
        upper: dir.path().join("upper"),
        work: dir.path().join("work"),
        target: rootfs.clone(),
    };
    for folder in [&overlay.target, &overlay.upper, &overlay.work] {
        ensure_dir(sys, folder, 0o755, None).map_err(on_node("cannot make", folder))?;
    }
    if sys.mount_overlay(&overlay).is_err() {
        for layer in overlay.lower.iter().rev() {
            sys.copy_layer(&overlay.layers.join(layer), &rootfs)
                .map_err(on_node("cannot copy the image to", &rootfs))?;
        }
    }
    let tmp = rootfs.join("tmp");
    if sys.kind(&tmp).is_err() {
        sys.make_dir(&tmp, 0o1777, None).map_err(on_node("cannot make", &tmp))?;
    }
    Ok(rootfs)
}

/// Names resolve inside as on the node.
fn bind_network_files(sys: &dyn Sys, binds: &mut Vec<Bind>) {
    for file in ["/etc/resolv.conf", "/etc/hosts"].map(Path::new) {
        // resolv.conf is often a link; what it leads to is bound.
        let real = behind_links(sys, file);
        if matches!(sys.kind(&real), Ok(Kind::File)) {
            binds.push(Bind::plain(&real, file, true));
        }
    }
}

/// The user and the group have names inside, as programs such as `ssh` and `whoami` demand.
fn bind_user_files(
    sys: &dyn Sys,
    dir: &JobDir,
    who: &Identity,
    rootfs: &Path,
    binds: &mut Vec<Bind>,
) -> Result<(), LaunchError> {
    let name: String = who.user_name.chars().filter(|c| !c.is_control() && *c != ':').collect();
    let home = who.home.lossy();
    let home: String = home.chars().filter(|c| !c.is_control() && *c != ':').collect();
    let rows = [
        ("passwd", who.uid, format!("{name}:x:{}:{}::{home}:/bin/sh\n", who.uid, who.gid)),
        ("group", who.gid, format!("{name}:x:{}:\n", who.gid)),
    ];
    for (file, id, line) in rows {
        let inside = Path::new("/etc").join(file);
        let text = sys.read_in_root(rootfs, &inside).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        if text.lines().any(|l| l.split(':').nth(2) == Some(&id.to_string())) {
            continue;
        }
        let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        let own = dir.bundle().join(file);
        sys.create(&own, format!("{text}{gap}{line}").as_bytes(), 0o644, None)
            .map_err(on_node("cannot write", &own))?;
        binds.push(Bind::plain(&own, &inside, true));
    }
    Ok(())
}

/// The streams' folders appear below `/.gpun`, so that nothing of the image is hidden by them.
fn bind_streams(sys: &dyn Sys, dir: &JobDir, spec: &LaunchSpec, binds: &mut Vec<Bind>) -> Result<Stdio, LaunchError> {
    let mut stdio = spec.stdio.clone();
    for (name, path) in [("in", &mut stdio.stdin), ("out", &mut stdio.stdout), ("err", &mut stdio.stderr)] {
        let named = path.as_path().to_owned();
        if !named.is_absolute() || named.starts_with("/dev") {
            continue;
        }
        // The nearest folder that is there; missing ones below it are made from inside.
        let parents = named.ancestors().skip(1);
        let found = parents.filter_map(|p| Some((p, sys.reach(p, &spec.identity).ok()?))).next();
        let Some((above, real)) = found.filter(|(_, real)| real.parent().is_some()) else { continue };
        let (Ok(below), at) = (named.strip_prefix(above), dir.run().join(name)) else { continue };
        ensure_dir(sys, &at, 0o755, None).map_err(on_node("cannot make", &at))?;
        let inside = Path::new(gpun_init::RUN_DIR).join(name);
        binds.push(Bind::of_user(&real, &inside, false));
        *path = inside.join(below).as_path().into();
    }
    if spec.stdio.stderr == spec.stdio.stdout {
        stdio.stderr = stdio.stdout.clone();
    }
    Ok(stdio)
}

/// A layer's name in the store: half of its digest, so that 100 of them fit into the kernel's one page of options.
fn layer_name(diff_id: &str) -> String {
    diff_id.trim_start_matches("sha256:").chars().take(32).collect()
}

/// The node's store: `layers/NAME` unpacked layers, `refs/KEY` what an archive was found to be.
struct Store<'a> {
    sys: &'a dyn Sys,
    who: &'a Identity,
    path: PathBuf,
}

impl Store<'_> {
    fn layers(&self) -> PathBuf {
        self.path.join("layers")
    }

    /// Finds the image and has all its layers in the store.
    fn find(&self, wanted: &ImageRoot) -> Result<Image, LaunchError> {
        let say = |e: BadImage| LaunchError::request(format!("the image {}: {e}", wanted.path.display()));
        let unreadable = |e: io::Error| say(BadImage(e.to_string()));
        for folder in [self.layers(), self.path.join("refs")] {
            ensure_dirs(self.sys, &folder).map_err(on_node("cannot make", &folder))?;
        }
        // As the user: whose permissions forbid the file cannot use what others unpacked from it.
        let file = self.sys.open_as(&wanted.path, self.who).map_err(unreadable)?;
        let known = self.path.join("refs").join(key(&file, wanted).map_err(unreadable)?);
        let is_archive = file.metadata().is_ok_and(|m| m.is_file());
        if is_archive && let Some(image) = self.known(&known)? {
            return Ok(image);
        }
        let source = Source::open(self.sys, self.who, &wanted.path, &self.path).map_err(unreadable)?;
        let image = source.image(wanted).map_err(say)?;
        for layer in &image.layers {
            self.hold(layer)?;
            self.ensure(&source, layer, wanted)?;
        }
        if is_archive {
            let text = serde_json::to_vec(&image).unwrap_or_default();
            // Only a saving for the next job.
            let new = known.with_extension(std::process::id().to_string());
            let _ = self.sys.create(&new, &text, 0o600, None).and_then(|()| self.sys.rename(&new, &known));
        }
        Ok(image)
    }

    /// What an archive was found to be, if all its layers are still in the store; they are held then.
    fn known(&self, path: &Path) -> Result<Option<Image>, LaunchError> {
        let note = self.sys.read(path).ok().and_then(|text| serde_json::from_slice::<Image>(&text).ok());
        let Some(image) = note else { return Ok(None) };
        for layer in &image.layers {
            self.hold(layer)?;
        }
        Ok(image.layers.iter().all(|l| self.has(&l.diff_id)).then_some(image))
    }

    /// From here on, and until this process ends, nobody takes the layer away.
    fn hold(&self, layer: &Layer) -> Result<(), LaunchError> {
        let used = collect::use_file(&self.layers(), &layer_name(&layer.diff_id));
        self.sys.hold_layer(&used).map_err(on_node("cannot lock", &used))
    }

    fn has(&self, diff_id: &str) -> bool {
        matches!(self.sys.kind(&self.layers().join(layer_name(diff_id))), Ok(Kind::Dir))
    }

    /// Unpacks a layer that the store lacks. One job does it, others wait for it.
    fn ensure(&self, source: &Source<'_>, layer: &Layer, wanted: &ImageRoot) -> Result<(), LaunchError> {
        if self.has(&layer.diff_id) {
            return Ok(());
        }
        let name = layer_name(&layer.diff_id);
        let lock_path = self.layers().join(format!(".{name}.lock"));
        let _lock = self.sys.lock_file(&lock_path).map_err(on_node("cannot lock", &lock_path))?;
        if self.has(&layer.diff_id) {
            return Ok(());
        }
        let new = self.layers().join(format!(".{name}.new"));
        let result = self.unpack(source, layer, &new);
        let result = result.map_err(|e| match e.get_ref().and_then(|e| e.downcast_ref::<BadImage>()) {
            Some(bad) => LaunchError::request(format!("the image {}: {bad}", wanted.path.display())),
            None if matches!(e.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT | libc::EIO)) => {
                on_node("cannot unpack the image into", &new)(e)
            }
            None => LaunchError::request(format!("the image {}: its layer {}: {e}", wanted.path.display(), layer.name)),
        });
        let moved = result.and_then(|()| {
            let to = self.layers().join(&name);
            self.sys.rename(&new, &to).map_err(on_node("cannot make", &to))
        });
        if moved.is_err() {
            let _ = self.sys.remove_tree(&new);
        }
        let _ = self.sys.remove_file(&lock_path);
        moved
    }

    fn unpack(&self, source: &Source<'_>, layer: &Layer, new: &Path) -> io::Result<()> {
        self.sys.remove_tree(new)?;
        self.sys.make_dir(new, 0o755, None)?;
        let mut blob = Hashed::new(BufReader::with_capacity(1 << 16, source.blob(&layer.name)?));
        let compression = Compression::of(io::BufRead::fill_buf(&mut blob.inner)?);
        // Read to the end also after an error: a damaged blob is better told by its digest than by what it did to the tar.
        let plain = compression.decoder(BufReader::new(&mut blob))?;
        let (result, diff_id) = self.unpack_hashed(Hashed::new(plain), new);
        io::copy(&mut blob, &mut io::sink())?;
        let mut digests = vec![(layer.blob.as_deref(), blob.digest())];
        if result.is_ok() || compression == Compression::None {
            digests.push((Some(&layer.diff_id), diff_id));
        }
        for (expected, found) in digests {
            if let Some(expected) = expected.filter(|e| *e != found) {
                return Err(io::Error::other(corrupt(&layer.name, expected, &found)));
            }
        }
        result.map_err(|e| broken_stream(e, &layer.name))
    }

    fn unpack_hashed(&self, mut plain: Hashed<impl Read>, new: &Path) -> (io::Result<()>, String) {
        let result = self.sys.unpack(&mut plain, new);
        let rest = io::copy(&mut plain, &mut io::sink()).map(drop);
        (result.and(rest), plain.digest())
    }
}

/// Without a digest of the blob itself, a broken stream is all there is to tell a broken file by.
fn broken_stream(e: io::Error, name: &str) -> io::Error {
    match e.kind() {
        io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof => {
            io::Error::other(BadImage(format!("{name} is corrupt: {e}; copy the image again")))
        }
        _ => e,
    }
}

/// Names what an archive was found to be: changes whenever the file or the wish does.
fn key(file: &File, wanted: &ImageRoot) -> io::Result<String> {
    use std::os::unix::fs::MetadataExt;
    let m = file.metadata()?;
    let id =
        (m.dev(), m.ino(), m.size(), m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec(), &wanted.tag, &wanted.digest);
    Ok(to_hex(&Sha256::digest(format!("{id:?}"))))
}

/// Hashes what is read through it.
struct Hashed<R> {
    inner: R,
    hash: Sha256,
}

impl<R: Read> Hashed<R> {
    fn new(inner: R) -> Self {
        Self { inner, hash: Sha256::new() }
    }

    fn digest(self) -> String {
        format!("sha256:{}", to_hex(&self.hash.finalize()))
    }
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.hash.update(&buffer[..n]);
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_images_environment_wins_but_for_named_variables() {
        let job = ["PATH=/job", "A=job", "B=job", "LIST=a=b"].map(RawText::from);
        let image = ["PATH=/image", "A=image", "C=image"].map(str::to_owned);
        let merged = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
            let mut env: Vec<String> = merge_env(&job, &image, &names).iter().map(RawText::lossy).collect();
            env.sort();
            env.join(" ")
        };
        assert_eq!(merged(&[]), "A=image B=job C=image LIST=a=b PATH=/image");
        assert_eq!(merged(&["A", "C"]), "A=job B=job C=image LIST=a=b PATH=/image");
    }
}
