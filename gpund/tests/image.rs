//! Jobs in images that the tests build: OCI layouts and tar files.
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

mod common;

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use common::Node;
use gpund::phase::ExitKind;
use gpund::raw::to_hex;
use gpund::spec::{ImageRoot, LaunchSpec, Mount, Root};
use serde_json::json;
use sha2::{Digest, Sha256};

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", to_hex(&Sha256::digest(bytes)))
}

/// One member of a tar, with any name, also those that an honest tool refuses to write.
fn member(tar: &mut Vec<u8>, name: &str, kind: tar::EntryType, link: &str, content: &[u8], mode: u32) {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(content.len() as u64);
    header.set_mode(mode);
    header.set_mtime(1_000_000_000);
    header.set_uid(0);
    header.set_gid(0);
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
    header.set_cksum();
    tar.extend_from_slice(header.as_bytes());
    tar.extend_from_slice(content);
    tar.resize(tar.len().next_multiple_of(512), 0);
}

fn finish(mut tar: Vec<u8>) -> Vec<u8> {
    tar.resize(tar.len() + 1024, 0);
    tar
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(bytes).unwrap();
    gz.finish().unwrap()
}

use tar::EntryType::{Directory, Link, Regular, Symlink};

/// Two layers: the second hides a file, replaces a folder's content and a file.
fn layers() -> [Vec<u8>; 2] {
    let busybox = fs::read("/bin/busybox").expect("/bin/busybox is missing: apt-get install busybox-static");
    let mut low = Vec::new();
    member(&mut low, "./", Directory, "", b"", 0o755);
    for dir in ["bin", "etc", "work", "gone_dir", "opaque"] {
        member(&mut low, &format!("{dir}/"), Directory, "", b"", 0o755);
    }
    member(&mut low, "bin/busybox", Regular, "", &busybox, 0o755);
    member(&mut low, "bin/sh", Symlink, "busybox", b"", 0o777);
    member(&mut low, "bin/ls", Link, "bin/busybox", b"", 0o755);
    member(&mut low, "etc/passwd", Regular, "", b"root:x:0:0::/:/bin/sh\n", 0o644);
    member(&mut low, "etc/issue", Regular, "", b"low\n", 0o644);
    member(&mut low, "gone", Regular, "", b"gone\n", 0o644);
    member(&mut low, "gone_dir/x", Regular, "", b"gone\n", 0o644);
    member(&mut low, "opaque/old", Regular, "", b"old\n", 0o644);
    member(&mut low, "suid", Regular, "", b"", 0o4755);
    let mut high = Vec::new();
    member(&mut high, "etc/issue", Regular, "", b"high\n", 0o604);
    member(&mut high, ".wh.gone", Regular, "", b"", 0o644);
    member(&mut high, ".wh.gone_dir", Regular, "", b"", 0o644);
    member(&mut high, "opaque/", Directory, "", b"", 0o755);
    member(&mut high, "opaque/.wh..wh..opq", Regular, "", b"", 0o644);
    member(&mut high, "opaque/new", Regular, "", b"new\n", 0o644);
    [finish(low), finish(high)]
}

fn config(layers: &[Vec<u8>]) -> Vec<u8> {
    let ids: Vec<String> = layers.iter().map(|l| digest(l)).collect();
    let run = json!({"Env": ["PATH=/bin", "FROM=image"], "WorkingDir": "/work", "Entrypoint": ["/bin/sh", "-x"],
                     "User": "0:0"});
    json!({"architecture": "amd64", "os": "linux", "config": run, "rootfs": {"type": "layers", "diff_ids": ids}})
        .to_string()
        .into_bytes()
}

/// `(name, content)` of every file of an OCI layout.
fn layout(layers: &[Vec<u8>]) -> Vec<(String, Vec<u8>)> {
    compressed_layout(layers, "+gzip")
}

/// The same with this compression, by the suffix of its media type.
fn compressed_layout(layers: &[Vec<u8>], suffix: &str) -> Vec<(String, Vec<u8>)> {
    let mut files = vec![("oci-layout".to_owned(), br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec())];
    let mut blob = |bytes: Vec<u8>| {
        let name = digest(&bytes);
        files.push((format!("blobs/{}", name.replace(':', "/")), bytes));
        name
    };
    let described: Vec<_> = layers
        .iter()
        .enumerate()
        .map(|(i, l)| {
            // The first is plain, the others are compressed.
            let kind = if i == 0 { "" } else { suffix };
            let bytes = match kind {
                "+gzip" => gzip(l),
                "+zstd" => zstd::encode_all(&l[..], 3).unwrap(),
                _ => l.clone(),
            };
            json!({"mediaType": format!("application/vnd.oci.image.layer.v1.tar{kind}"), "digest": blob(bytes)})
        })
        .collect();
    let config = blob(config(layers));
    let manifest = blob(json!({"config": {"digest": config}, "layers": described}).to_string().into_bytes());
    let annotations = json!({"org.opencontainers.image.ref.name": "latest"});
    let index = json!({"manifests": [{"digest": manifest, "annotations": annotations}]});
    files.push(("index.json".into(), index.to_string().into_bytes()));
    files
}

fn saved(layers: &[Vec<u8>]) -> Vec<(String, Vec<u8>)> {
    let config = config(layers);
    let name = format!("{}.json", digest(&config).trim_start_matches("sha256:"));
    let names: Vec<String> = (0..layers.len()).map(|i| format!("l{i}/layer.tar")).collect();
    let manifest = json!([{"Config": name, "RepoTags": ["busy:latest"], "Layers": names}]);
    let mut files = vec![(name, config), ("manifest.json".into(), manifest.to_string().into_bytes())];
    files.extend(names.into_iter().zip(layers.iter().cloned()));
    files
}

fn write_folder(dir: &Path, files: &[(String, Vec<u8>)]) -> PathBuf {
    for (name, content) in files {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    dir.to_owned()
}

fn archive(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut tar = Vec::new();
    for (name, content) in files {
        member(&mut tar, name, Regular, "", content, 0o644);
    }
    finish(tar)
}

fn image(path: &Path) -> ImageRoot {
    ImageRoot {
        path: path.into(),
        tag: None,
        digest: None,
        read_only: false,
        entrypoint: false,
        mount_home: false,
        env_override: vec![],
        work_dir: None,
    }
}

fn spec(node: &Node, image: ImageRoot) -> LaunchSpec {
    let mut spec = node.spec();
    spec.root = Root::Image(image);
    spec
}

const LOOK: &str = "#!/bin/sh\npwd; busybox id -un; busybox id -u; cat /etc/issue\n\
    busybox ls -d /gone* /opaque/* 2>&1; echo $FROM $PATH; test -e /usr && echo host\nbusybox touch /tmp/x && echo tmp\n\
    (busybox touch /etc/x) 2>/dev/null || echo root owns etc\nbusybox grep -c . /etc/hosts >/dev/null && echo hosts\n\
    busybox stat -c %a /suid\n";

#[test]
fn every_form_of_an_image_gives_the_same_job() {
    let node = Node::new();
    let layers = layers();
    let root = node.root.path();
    let oci = layout(&layers);
    let forms = [
        write_folder(&root.join("layout"), &oci),
        root.join("oci.tar"),
        root.join("oci.tar.gz"),
        root.join("saved.tar"),
        write_folder(&root.join("zstd"), &compressed_layout(&layers, "+zstd")),
        root.join("oci.tar.zst"),
    ];
    fs::write(&forms[1], archive(&oci)).unwrap();
    fs::write(&forms[2], gzip(&archive(&oci))).unwrap();
    fs::write(&forms[3], archive(&saved(&layers))).unwrap();
    fs::write(&forms[5], zstd::encode_all(&archive(&oci)[..], 3).unwrap()).unwrap();
    let store = root.join("share/images/layers");
    let mut inodes = None;
    for form in &forms {
        // Twice: the second finds everything in the store.
        for _ in 0..2 {
            let spec = spec(&node, image(form));
            let (exit, out) = node.run(&spec, LOOK);
            assert_eq!((exit.kind, exit.code, exit.signal), (ExitKind::Exited, 0, 0), "{form:?}: {exit:?}");
            let expected = "/work\nalice\n7001\nhigh\nls: /gone*: No such file or directory\n/opaque/new\nimage /bin\n\
                            tmp\nroot owns etc\nhosts\n4755\n";
            assert_eq!(out, expected, "{form:?}");
            let found: Vec<(String, u64)> = fs::read_dir(&store)
                .unwrap()
                .map(|e| e.unwrap())
                .map(|e| (e.file_name().into_string().unwrap(), e.metadata().unwrap().ino()))
                .filter(|(name, _)| !name.ends_with(".used"))
                .collect();
            assert_eq!(found.len(), 2, "two layers and nothing else: {found:?}");
            assert_eq!(inodes.get_or_insert(found.clone()), &found, "unpacked once");
        }
    }
}

#[test]
fn a_layer_stays_while_a_job_uses_it() {
    use gpund::image::collect::collect;
    use std::time::{Duration, SystemTime};
    let node = Node::new();
    let path = write_folder(&node.root.path().join("layout"), &layout(&layers()));
    let store = gpund::image::store(&node.root.path().join("share"));
    let later = SystemTime::now() + Duration::from_secs(86_400);
    let spec = spec(&node, image(&path));
    let mut job = node.launch(&spec, "#!/bin/sh\nbusybox sleep 1000\n");
    job.until_running();
    assert_eq!(collect(&store, later, Duration::ZERO).unwrap().layers, [] as [String; 0]);
    job.signal(9, gpund::shimlink::Target::All);
    job.wait();
    assert_eq!(collect(&store, later, Duration::ZERO).unwrap().layers.len(), 2);
    // The next job unpacks them again.
    let mut again = spec.clone();
    again.attempt += 1;
    let (exit, _) = node.run(&again, "#!/bin/sh\nexit 4\n");
    assert_eq!(exit.code, 4, "{exit:?}");
}

#[test]
fn the_launchs_wishes_are_honoured() {
    let node = Node::new();
    let path = write_folder(&node.root.path().join("layout"), &layout(&layers()));
    let manifest = |spec: &LaunchSpec| node.run(spec, "#!/bin/busybox sh\npwd; echo $FROM\n");

    let mut wish = image(&path);
    wish.work_dir = Some("/etc".into());
    wish.env_override = vec!["FROM".into()];
    let mut s = spec(&node, wish);
    s.env.push("FROM=job".into());
    assert_eq!(manifest(&s).1, "/etc\njob\n");

    let mut wish = image(&path);
    wish.entrypoint = true;
    wish.tag = Some("latest".into());
    let s = spec(&node, wish);
    let (_, text) = node.run(&s, "echo hi\n");
    assert_eq!(text, "+ echo hi\nhi\n", "`sh -x` is the entrypoint");

    let mut wish = image(&path);
    wish.read_only = true;
    wish.mount_home = true;
    let mut s = spec(&node, wish);
    s.identity.uid = 0;
    s.identity.gid = 0;
    std::os::unix::fs::chown(s.work_dir.as_path(), Some(0), Some(0)).unwrap();
    let home = s.identity.home.lossy();
    s.mounts.push(Mount {
        source: "/etc".into(),
        target: "/mnt/etc".into(),
        read_only: true,
        optional: false,
        by_user: true,
    });
    let script = format!("#!/bin/sh\n(echo x > /etc/x) 2>/dev/null || echo ro\nls -d {home} /mnt/etc/passwd\n");
    let (exit, text) = node.run(&s, &script);
    assert_eq!((exit.code, text), (0, format!("ro\n/mnt/etc/passwd\n{home}\n")));

    // What a job writes into its root is its own.
    let mut s = spec(&node, image(&path));
    s.identity.uid = 0;
    s.identity.gid = 0;
    std::os::unix::fs::chown(s.work_dir.as_path(), Some(0), Some(0)).unwrap();
    let script =
        "#!/bin/sh\ntest -e /etc/mine && echo seen before\necho x > /etc/mine && busybox rm /bin/ls && echo wrote\n";
    for _ in 0..2 {
        assert_eq!(node.run(&s, script).1, "wrote\n");
        s.attempt += 1;
    }
}

#[test]
fn what_is_not_the_image_it_says_is_refused() {
    let node = Node::new();
    let good = layout(&layers());
    let store = node.root.path().join("share/images/layers");
    // Each blob but the index damaged in turn: layers, configuration, manifest.
    for (i, (name, _)) in good.iter().enumerate().filter(|(_, (name, _))| name.starts_with("blobs/")) {
        let mut files = good.clone();
        let middle = files[i].1.len() / 2;
        files[i].1[middle] ^= 0x01;
        let path = write_folder(&node.root.path().join(format!("bad{i}")), &files);
        let (exit, _) = node.run(&spec(&node, image(&path)), "#!/bin/sh\n");
        assert_eq!(exit.kind, ExitKind::LaunchFailed, "{exit:?}");
        let reason = exit.reason.unwrap();
        assert!(reason.contains("corrupt") && reason.contains(name.as_str()), "{reason}");
    }
    // Cut short.
    let mut files = good.clone();
    let last = files.iter().position(|(_, c)| c.starts_with(&[0x1f, 0x8b])).unwrap();
    files[last].1.truncate(100);
    let path = write_folder(&node.root.path().join("short"), &files);
    let (exit, _) = node.run(&spec(&node, image(&path)), "#!/bin/sh\n");
    assert!(exit.reason.as_deref().unwrap_or_default().contains("corrupt"), "{exit:?}");
    let unfinished = fs::read_dir(&store).unwrap().filter(|e| {
        let name = e.as_ref().unwrap().file_name();
        name.to_str().unwrap().starts_with('.') && !name.to_str().unwrap().ends_with(".used")
    });
    assert_eq!(unfinished.count(), 0);

    type Wish = fn(&mut ImageRoot);
    let wishes: [(Wish, &str); 3] = [
        (|i| i.digest = Some(format!("sha256:{}", "0".repeat(64))), "it has the digest sha256:"),
        (|i| i.tag = Some("v9".into()), "there is no image with the tag v9"),
        (|i| i.path = "/no/such/image".into(), "No such file or directory"),
    ];
    let path = write_folder(&node.root.path().join("good"), &good);
    for (wish, text) in wishes {
        let mut wanted = image(&path);
        wish(&mut wanted);
        let (exit, _) = node.run(&spec(&node, wanted), "#!/bin/sh\n");
        assert_eq!(exit.kind, ExitKind::LaunchFailed);
        assert!(exit.reason.as_deref().unwrap_or_default().contains(text), "{exit:?}");
    }
}

#[test]
fn a_user_cannot_use_an_image_or_a_folder_that_is_closed_to_them() {
    let node = Node::new();
    let closed = node.root.path().join("closed");
    fs::create_dir(&closed).unwrap();
    let tar = closed.join("image.tar");
    fs::write(&tar, archive(&layout(&layers()))).unwrap();
    // Another user had it unpacked before.
    let open = spec(&node, image(&tar));
    assert_eq!(node.run(&open, "#!/bin/sh\nexit 3\n").0.code, 3);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    let (exit, _) = node.run(&spec(&node, image(&tar)), "#!/bin/sh\n");
    assert_eq!(exit.kind, ExitKind::LaunchFailed);
    assert!(exit.reason.as_deref().unwrap().contains("Permission denied"), "{exit:?}");

    let inner = closed.join("inner");
    fs::create_dir(&inner).unwrap();
    fs::set_permissions(&inner, fs::Permissions::from_mode(0o777)).unwrap();
    let mut s = node.spec();
    s.mounts.push(Mount {
        source: inner.as_path().into(),
        target: "/mnt/x".into(),
        read_only: false,
        optional: false,
        by_user: true,
    });
    let (exit, _) = node.run(&s, "#!/bin/sh\n");
    assert!(exit.reason.as_deref().unwrap().contains("Permission denied"), "{exit:?}");
    let mut s = node.spec();
    s.work_dir = inner.as_path().into();
    let (_, text) = node.run(&s, "#!/bin/sh\npwd\n");
    assert!(text.ends_with("going to /tmp instead\n/tmp\n"), "not bound: {text}");
}

#[test]
fn no_layer_writes_outside_its_folder() {
    let dir = tempfile::tempdir().unwrap();
    let outside = dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), "untouched").unwrap();
    let out = outside.to_str().unwrap().to_owned();
    let file = |name: &str| (name.to_owned(), Regular, String::new());
    let rows: Vec<Vec<(String, tar::EntryType, String)>> = vec![
        vec![file("../outside/evil")],
        vec![file("a/../../outside/evil")],
        vec![("l".into(), Symlink, out.clone()), file("l/evil")],
        vec![("l".into(), Symlink, "../outside".into()), file("l/evil")],
        vec![("l".into(), Symlink, out.clone()), ("l/.wh.file".into(), Regular, String::new())],
        vec![("h".into(), Link, "../outside/file".into())],
        vec![("l".into(), Symlink, out.clone()), ("h".into(), Link, "l/file".into())],
        vec![file(".wh...")],
        vec![file("f"), file("f/x")],
    ];
    for (i, row) in rows.iter().enumerate() {
        let mut tar = Vec::new();
        for (name, kind, link) in row {
            member(&mut tar, name, *kind, link, b"", 0o644);
        }
        let into = dir.path().join(format!("into{i}"));
        fs::create_dir(&into).unwrap();
        let error = gpund::image::unpack(&mut finish(tar).as_slice(), &into).unwrap_err();
        assert!(!error.to_string().is_empty());
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1, "row {i}");
        assert_eq!(fs::metadata(outside.join("file")).unwrap().nlink(), 1, "row {i}");
    }
    // Harmless: absolute names are inside, a link may lead anywhere as long as nothing goes through it.
    let mut tar = Vec::new();
    member(&mut tar, "/abs/file", Regular, "", b"x", 0o644);
    member(&mut tar, "link", Symlink, "/etc/shadow", b"", 0o777);
    member(&mut tar, "link", Regular, "", b"replaced", 0o644);
    let into = dir.path().join("good");
    fs::create_dir(&into).unwrap();
    gpund::image::unpack(&mut finish(tar).as_slice(), &into).unwrap();
    assert_eq!(fs::read_to_string(into.join("abs/file")).unwrap(), "x");
    assert_eq!(fs::read_to_string(into.join("link")).unwrap(), "replaced");
    assert_eq!(fs::metadata(into.join("link")).unwrap().mtime(), 1_000_000_000);
}

#[test]
fn a_copy_is_what_the_overlay_shows() {
    let dir = tempfile::tempdir().unwrap();
    let whole = dir.path().join("whole");
    fs::create_dir(&whole).unwrap();
    for (i, layer) in layers().iter().enumerate() {
        let into = dir.path().join(format!("layer{i}"));
        fs::create_dir(&into).unwrap();
        gpund::image::unpack(&mut layer.as_slice(), &into).unwrap();
        gpund::image::copy_layer(&into, &whole).unwrap();
    }
    let mut names: Vec<String> =
        fs::read_dir(&whole).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["bin", "etc", "opaque", "suid", "work"]);
    assert_eq!(fs::read_to_string(whole.join("etc/issue")).unwrap(), "high\n");
    assert_eq!(fs::metadata(whole.join("etc/issue")).unwrap().mode() & 0o7777, 0o604);
    assert_eq!(fs::metadata(whole.join("suid")).unwrap().mode() & 0o7777, 0o4755);
    assert_eq!(fs::read_link(whole.join("bin/sh")).unwrap(), Path::new("busybox"));
    let opaque: Vec<_> = fs::read_dir(whole.join("opaque")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(opaque, ["new"]);
    assert!(File::open(whole.join("bin/ls")).unwrap().metadata().unwrap().len() > 100_000);
}
