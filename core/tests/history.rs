//! What is kept of ended attempts.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test's way to fail, in its helpers too.

mod build;

use build::*;
use gpun_core::{
    Command, JobId, Outcome, TimeMs,
    command::{Act, EndedHow},
    history::{AttemptEnd, Entry, Forget, Record, RecordKey},
    job::{JobState, Reason},
    mirror::{Table, decode},
};

fn keys(world: &World) -> Vec<RecordKey> {
    let records = world.mirror.0.keys().filter(|(table, _)| *table == Table::Record);
    records.map(|(_, key)| RecordKey::from_key(key).expect("key")).collect()
}

fn record(world: &World, key: &RecordKey) -> Record {
    decode(&world.mirror.0[&(Table::Record, key.key().to_vec())]).expect("record")
}

/// How often each table of the history is written to, and that the indexes lead to the record.
fn counts(world: &World) -> [usize; 4] {
    let tables = [Table::Record, Table::RecordByTime, Table::RecordByUser, Table::RecordBlob];
    for ((table, key), value) in &world.mirror.0 {
        if *table == Table::RecordByTime {
            let at = RecordKey::from_time_key(key).expect("key");
            assert_eq!(at.time_key(), *key);
            let (entry, job) = (decode::<Entry>(value).expect("entry"), record(world, &at).view.job);
            assert_eq!((entry.uid, entry.state, entry.submitted), (job.owner.uid, job.state, job.submitted));
        }
    }
    tables.map(|wanted| world.mirror.0.keys().filter(|(table, _)| *table == wanted).count())
}

fn running(world: &mut World) -> JobId {
    let job = world.submit(tasks(1));
    world.place(job, &["n1"]);
    world.launch("n1", job, 1);
    job
}

#[test]
fn an_end_leaves_one_record() {
    type End = fn(&mut World, JobId);
    let rows: [(&str, End, JobState); 4] = [
        ("exit", |world, job| drop(world.end("n1", job, 1, EndedHow::Exited, (0, 0))), JobState::Completed),
        ("failure", |world, job| drop(world.end("n1", job, 1, EndedHow::Exited, (3, 0))), JobState::Failed),
        ("limit", |world, job| drop(world.end("n1", job, 1, EndedHow::TimeLimit, (0, 15))), JobState::Timeout),
        (
            "cancel",
            |world, job| {
                world.act(&ALICE, Act::Cancel(one(job))).expect("cancelled");
                assert_eq!(counts(world)[0], 0, "its node has not said that it is gone");
                world.end("n1", job, 1, EndedHow::Ordered, (0, 15));
            },
            JobState::Cancelled,
        ),
    ];
    for (name, end, state) in rows {
        let mut world = World::new();
        let job = running(&mut world);
        world.pass(5);
        end(&mut world, job);
        assert_eq!(counts(&world), [1, 1, 1, 2], "{name}");
        let record = record(&world, &keys(&world)[0]);
        assert_eq!((record.view.job.state, record.end), (state, AttemptEnd::WithJob), "{name}");
        assert_eq!((record.view.nodes.as_slice(), record.view.job.id), (&["n1".to_owned()][..], job), "{name}");
        assert_eq!(*world.job(job), *record.view.job, "{name}: the record is what the state has");
    }
}

#[test]
fn one_that_never_started_leaves_one_too() {
    let mut world = World::new();
    let job = world.submit(tasks(1));
    world.act(&ALICE, Act::Cancel(one(job))).expect("cancelled");
    assert_eq!(counts(&world), [1, 1, 1, 2]);
    let record = record(&world, &keys(&world)[0]);
    assert_eq!((record.view.job.run.as_ref(), record.view.nodes.len()), (None, 0));
}

#[test]
fn each_attempt_has_its_own() {
    let mut world = World::new();
    let job = running(&mut world);
    world.act(&ALICE, Act::Requeue { jobs: one(job), hold: false }).expect("requeued");
    world.end("n1", job, 1, EndedHow::Ordered, (0, 15));
    assert_eq!(world.job_state(job), JobState::Pending);
    let first = record(&world, &keys(&world)[0]);
    assert_eq!((first.end, first.view.job.attempt.0, first.view.job.exit.signal), (AttemptEnd::Requeued, 1, 15));
    world.place(job, &["n1"]);
    let node = world.state.node_named("n1").expect("node").id;
    world.done(Command::NodeLost { node });
    let second = record(&world, &keys(&world)[1]);
    assert_eq!((second.end, second.view.job.attempt.0), (AttemptEnd::NodeFail, 2));
    world.act(&ALICE, Act::Cancel(one(job))).expect("cancelled");
    let last = record(&world, &keys(&world)[2]);
    assert_eq!(
        (last.end, last.view.job.state, last.view.job.reason),
        (AttemptEnd::WithJob, JobState::Cancelled, Reason::None)
    );
    assert_eq!(counts(&world)[0], 3);
}

#[test]
fn what_is_forgotten_leaves_nothing() {
    let mut world = World::new();
    let job = running(&mut world);
    world.end("n1", job, 1, EndedHow::Exited, (0, 0));
    let record = keys(&world)[0];
    let kept = world.job(job).clone();
    let digests = vec![kept.script, kept.environment];
    let forget = Forget { record, uid: kept.owner.uid, uses: digests.clone(), last_uses: digests, array: None };
    let command = Command::ForgetHistory(vec![forget]);
    assert_eq!(world.apply(command.clone()), Outcome::Done { count: 1 });
    assert_eq!((counts(&world), world.mirror.blobs()), ([0, 0, 0, 0], 2), "the job itself still uses them");
    world.pass(400);
    world.apply(command);
    assert_eq!((world.state.job_count(), world.mirror.blobs()), (0, 0));
}

#[test]
fn keys_sort_by_job_and_by_time() {
    let key = |job, ended, restarts| RecordKey { job: JobId(job), ended: TimeMs(ended), restarts };
    let (a, b) = (key(1, 900, 1), key(2, 300, 7));
    assert!(a.key() < b.key() && a.time_key() > b.time_key() && a.user_key(1) < b.user_key(2));
    assert_eq!((RecordKey::from_key(&a.key()), RecordKey::from_time_key(&b.time_key())), (Some(a), Some(b)));
    assert_eq!((RecordKey::from_key(&[0; 15]), RecordKey::from_time_key(&[])), (None, None));
}
