//! A full disk refuses writes with a clear error, loses nothing, and service returns when there is room.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test's way to fail, in its helpers too.

use std::{fs, path::Path, process::Command, time::Duration};

use gpun_core::{RequestId, spec::JobSpec};
use gpun_e2e::{Controller, submit, wait_for};
use gpun_proto::quick::CallError;

/// A small file system of its own, for one test.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new(size_mib: u32) -> Self {
        let dir = tempfile::Builder::new().prefix("gpf").tempdir_in("/var/tmp").unwrap();
        let size = format!("size={size_mib}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(dir.path()).status();
        assert!(mounted.unwrap().success());
        Self(dir)
    }

    /// Leaves so much free, in MiB.
    fn fill_to(&self, free_mib: u64) {
        let stat = nix::sys::statvfs::statvfs(self.0.path()).unwrap();
        let free = stat.blocks_available() * stat.fragment_size() / (1 << 20);
        let file = fs::File::create(self.0.path().join("ballast")).unwrap();
        nix::fcntl::posix_fallocate(&file, 0, ((free - free_mib) << 20) as i64).unwrap();
    }

    fn free(&self) {
        fs::remove_file(self.0.path().join("ballast")).unwrap();
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

fn spec() -> JobSpec {
    JobSpec { name: "disk".to_owned(), work_dir: "/tmp".to_owned(), hold: true, ..JobSpec::default() }
}

#[test]
fn a_full_disk_refuses_and_loses_nothing_and_heals() {
    let disk = SmallDisk::new(512);
    let toml = "[cluster]\nname = \"full\"\n[controller]\nmin_free_disk_mib = 64\n";
    let mut controller = Controller::start(disk.path(), toml);
    let before = submit(&mut controller.connect().unwrap(), RequestId([1; 16]), &spec()).unwrap().unwrap();
    disk.fill_to(16);
    let refused = wait_for("a submission is refused", Duration::from_secs(20), || {
        let mut quick = controller.connect().unwrap();
        let id: [u8; 16] = rand::random();
        submit(&mut quick, RequestId(id), &spec()).err()
    });
    let CallError::Status { message, .. } = &refused else { panic!("{refused:?}") };
    assert!(message.contains("disk") && message.contains("full"), "{message}");
    // Questions are still answered.
    assert!(controller.jobs().iter().any(|view| view.job.id.0 == before));
    disk.free();
    let after = wait_for("service returns without a restart", Duration::from_secs(30), || {
        submit(&mut controller.connect().unwrap(), RequestId([2; 16]), &spec()).ok()
    });
    let acknowledged: Vec<u32> = controller.jobs().iter().map(|view| view.job.id.0).collect();
    assert!(acknowledged.contains(&before) && acknowledged.contains(&after.unwrap()));
    controller.kill();
    controller.restart();
    assert_eq!(controller.jobs().iter().map(|view| view.job.id.0).collect::<Vec<_>>(), acknowledged);
}
