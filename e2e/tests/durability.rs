//! An id that a client saw is never lost and never given again.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test's way to fail, in its helpers too.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use gpun_core::{RequestId, spec::JobSpec};
use gpun_e2e::{Controller, rounds, submit};
use gpun_proto::quick::Quick;

const TOML: &str = "[cluster]\nname = \"dur\"\n";

fn held(name: &str) -> JobSpec {
    JobSpec { name: name.to_owned(), work_dir: "/tmp".to_owned(), hold: true, ..JobSpec::default() }
}

fn folder() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("gpd").tempdir_in("/var/tmp").unwrap()
}

fn ids(controller: &Controller) -> Vec<u32> {
    controller.jobs().iter().map(|view| view.job.id.0).collect()
}

#[test]
fn two_hundred_accepted_jobs_survive_kill_9() {
    let dir = folder();
    let mut controller = Controller::start(dir.path(), TOML);
    let mut quick = controller.connect().unwrap();
    let seen: Vec<u32> =
        (0..200).map(|n| submit(&mut quick, RequestId([n; 16]), &held(&format!("job{n}"))).unwrap().unwrap()).collect();
    controller.kill();
    controller.restart();
    assert_eq!(ids(&controller), seen);
    let next = submit(&mut controller.connect().unwrap(), RequestId([255; 16]), &held("next")).unwrap().unwrap();
    assert!(!seen.contains(&next), "{next} was given twice");
    // The same request again is the same job, also after the restart.
    let again = submit(&mut controller.connect().unwrap(), RequestId([7; 16]), &held("job7")).unwrap().unwrap();
    assert_eq!(again, seen[7]);
}

/// What one client did: the ids it was given, and the request that the kill left in doubt.
struct Client {
    number: u8,
    acknowledged: BTreeMap<u64, u32>,
    next: u64,
}

impl Client {
    fn request(&self, number: u64) -> RequestId {
        let mut id = [self.number; 16];
        id[8..].copy_from_slice(&number.to_be_bytes());
        RequestId(id)
    }

    /// Submits until told to stop or the connection breaks.
    fn run(&mut self, connect: &dyn Fn() -> Option<Quick>, stop: &AtomicBool) {
        let Some(mut quick) = connect() else { return };
        while !stop.load(Ordering::Relaxed) {
            match submit(&mut quick, self.request(self.next), &held("load")) {
                Ok(answer) => {
                    self.acknowledged.insert(self.next, answer.unwrap());
                    self.next += 1;
                }
                Err(_) => return, // In doubt: the next round sends the same request again.
            }
        }
    }
}

#[test]
fn soak_kill_9_at_random_moments_loses_and_doubles_nothing() {
    let dir = folder();
    let mut controller = Controller::start(dir.path(), TOML);
    let mut clients: Vec<Client> =
        (0..4).map(|number| Client { number, acknowledged: BTreeMap::new(), next: 0 }).collect();
    for round in 0..rounds(10, 50) {
        let stop = AtomicBool::new(false);
        let controller = Mutex::new(&mut controller);
        std::thread::scope(|scope| {
            for client in &mut clients {
                let connect = || controller.lock().unwrap().connect().ok();
                let stop = &stop;
                scope.spawn(move || client.run(&connect, stop));
            }
            std::thread::sleep(Duration::from_millis(rand::random_range(30..400)));
            controller.lock().unwrap().kill();
            stop.store(true, Ordering::Relaxed);
        });
        let controller = controller.into_inner().unwrap();
        controller.restart();
        let known = ids(controller);
        let unique: BTreeSet<u32> = known.iter().copied().collect();
        assert_eq!(known.len(), unique.len(), "round {round}: an id stands twice");
        // Retrying what was in doubt gives one job, whether the first try was taken or not.
        let mut quick = controller.connect().unwrap();
        for client in &mut clients {
            let doubt = client.next;
            let first = submit(&mut quick, client.request(doubt), &held("load")).unwrap().unwrap();
            let second = submit(&mut quick, client.request(doubt), &held("load")).unwrap().unwrap();
            assert_eq!(first, second, "round {round}: a retry made another job");
            client.acknowledged.insert(doubt, first);
            client.next += 1;
        }
        let acknowledged: Vec<u32> = clients.iter().flat_map(|client| client.acknowledged.values().copied()).collect();
        let distinct: BTreeSet<u32> = acknowledged.iter().copied().collect();
        assert_eq!(acknowledged.len(), distinct.len(), "round {round}: an id was given twice");
        let now: BTreeSet<u32> = ids(controller).into_iter().collect();
        assert_eq!(now, distinct, "round {round}: what is known is not what was acknowledged");
    }
    let total: usize = clients.iter().map(|client| client.acknowledged.len()).sum();
    println!("soak: acknowledged submissions over kill -9, none lost, none doubled = {total}");
    assert!(total > 40, "only {total} submissions went through");
}

#[test]
fn ten_thousand_jobs_are_there_after_a_restart() {
    let dir = folder();
    let mut controller = Controller::start(dir.path(), TOML);
    std::thread::scope(|scope| {
        for client in 0..8_u8 {
            let mut quick = controller.connect().unwrap();
            scope.spawn(move || {
                for n in 0..1250_u64 {
                    let mut id = [client; 16];
                    id[8..].copy_from_slice(&n.to_be_bytes());
                    submit(&mut quick, RequestId(id), &held("many")).unwrap().unwrap();
                }
            });
        }
    });
    let before = ids(&controller);
    assert_eq!(before.len(), 10_000);
    controller.kill();
    controller.restart();
    assert_eq!(ids(&controller), before);
}
