use std::os::unix::fs::PermissionsExt;

use gpun_core::desired::DesiredJob;
use gpun_core::{Attempt, JobId, TimeLimit};

use super::*;

fn key(attempt: u32) -> Key {
    Key::new(7, attempt)
}

fn launch(attempt: u32) -> pb::Launch {
    let notices = pb::Notices { cancelled: "cancelled {time}".into(), ..pb::Notices::default() };
    let warn = Some(pb::Warn { signal: 10, before_s: 60, batch_only: true });
    pb::Launch { job_id: 7, attempt, notices: Some(notices), warn, ..pb::Launch::default() }
}

fn document(as_of: u64, attempts: &[(u32, Option<u64>)]) -> Desired {
    let jobs = attempts.iter().map(|(attempt, limit_s)| DesiredJob {
        job: JobId(7),
        attempt: Attempt(*attempt),
        time_limit: limit_s.map_or(TimeLimit::Infinite, TimeLimit::Seconds),
        end: None,
        signals: Vec::new(),
        suspended: false,
        steps: Vec::new(),
    });
    Desired { as_of: TimeMs(as_of), kill_wait_s: 5, jobs: jobs.collect() }
}

fn exit(attempt: u32) -> ExitRecord {
    ExitRecord {
        job_id: 7,
        attempt,
        kind: ExitKind::Exited,
        code: 3,
        signal: 0,
        oom: false,
        reason: None,
        started_ms: 1_000,
        ended_ms: 2_000,
        usage: crate::phase::Usage { max_rss_kib: 10, user_us: 20_999, sys_us: 999 },
    }
}

fn running(started_ms: u64) -> Running {
    Running { init_pid: 1, init_start_ticks: 1, started_ms }
}

/// As the daemon does it: folder, `agent.json`, supervisor.
fn start(ledger: &mut Ledger, attempt: u32) {
    assert!(ledger.accept(launch(attempt)));
    fs::create_dir_all(ledger.job_dir(key(attempt)).path()).unwrap();
    ledger.job_dir(key(attempt)).reserve_exit().unwrap();
    ledger.write_record(key(attempt)).unwrap();
    ledger.record(&Act::Launch(key(attempt)), 50);
}

fn open(dir: &Path) -> (Ledger, Vec<(Key, Found)>) {
    let mut ledger = Ledger::open(dir, 4).unwrap();
    let found = ledger.load().unwrap();
    (ledger, found)
}

#[test]
fn what_was_asked_and_done_survives_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let (mut ledger, found) = open(dir.path());
    assert!(found.is_empty());
    start(&mut ledger, 1);
    assert!(!ledger.accept(launch(1)), "its launch comes again");
    assert!(ledger.desire(&document(9, &[(1, Some(60))]), 100));
    ledger.record(&Act::Term { key: key(1), cause: Cause::TimeLimit }, 300);
    ledger.record(&Act::Signal { key: key(1), number: 4, signal: 10, scope: gpun_core::job::SignalScope::All }, 310);
    ledger.record(&Act::Kill { key: key(1), cause: Cause::Cancelled }, 400);

    let (mut again, found) = open(dir.path());
    assert_eq!(found, [(key(1), Found::Started)]);
    let held = &again.view.held[&key(1)];
    assert_eq!(held.stage, Stage::Found);
    assert_eq!(held.wish, Wish { limit_s: Some(60), end: None, kill_wait_s: 5, suspended: false });
    assert_eq!(held.warning, Some(Warning { signal: 10, before_s: 60, batch_only: true }));
    let done = Done {
        term_ms: Some(300),
        kill_ms: Some(400),
        cause: Some(Cause::TimeLimit),
        signals: 4,
        warned_ms: None,
        frozen: false,
    };
    assert_eq!(held.done, done);
    assert_eq!(again.entry(key(1)).unwrap().notices.of(Cause::Cancelled), Some("cancelled {time}"));
    assert!(!again.accept(launch(1)), "never started twice");
    again.ended(key(1), exit(1));
    assert!(matches!(&again.reports(key(1))[1].event, JobEvent::Ended(ended) if ended.how == EndedHow::TimeLimit));
}

#[test]
fn what_was_prepared_but_not_started_is_started_afresh() {
    let dir = tempfile::tempdir().unwrap();
    let (mut ledger, _) = open(dir.path());
    ledger.accept(launch(1));
    let folder = ledger.job_dir(key(1));
    fs::create_dir_all(folder.run()).unwrap();
    fs::write(folder.launch(), "{}").unwrap();
    let (mut again, found) = open(dir.path());
    assert!(found.is_empty() && !folder.path().exists());
    assert!(again.accept(launch(1)));
}

#[test]
fn what_no_supervisor_began_is_started_afresh_too() {
    let dir = tempfile::tempdir().unwrap();
    let (mut ledger, _) = open(dir.path());
    ledger.accept(launch(1));
    let folder = ledger.job_dir(key(1));
    fs::create_dir_all(folder.run()).unwrap();
    ledger.write_record(key(1)).unwrap();
    let supervisor = folder.lock().unwrap().unwrap();
    assert_eq!(open(dir.path()).1, [(key(1), Found::Started)], "one lives and is about to begin");
    drop(supervisor);
    assert_eq!(open(dir.path()).1, []);
    assert!(!folder.path().exists());
}

#[test]
fn reports_come_again_until_they_are_taken_and_the_folder_stays_so_long() {
    let dir = tempfile::tempdir().unwrap();
    let (mut ledger, _) = open(dir.path());
    start(&mut ledger, 1);
    let events = |ledger: &Ledger| ledger.reports(key(1)).into_iter().map(|report| report.event).collect::<Vec<_>>();
    let started = JobEvent::Launched { at: TimeMs(1_000) };
    let over = JobEvent::Ended(Ended {
        at: TimeMs(2_000),
        how: EndedHow::Exited,
        exit: ExitStatus { code: 3, signal: 0 },
        text: None,
        usage: Usage { max_rss_kib: 10, user_ms: 20, system_ms: 0 },
    });
    assert!(events(&ledger).is_empty());
    ledger.running(key(1), &running(1_000), 60);
    assert_eq!(events(&ledger), std::slice::from_ref(&started));
    ledger.start_taken(key(1));
    assert!(events(&ledger).is_empty());
    ledger.job_dir(key(1)).write_exit(&exit(1)).unwrap();
    assert!(ledger.ended(key(1), exit(1)) && !ledger.ended(key(1), exit(1)));
    assert_eq!(events(&ledger), std::slice::from_ref(&over));

    // Killed here, the next process says all of it.
    let (mut again, found) = open(dir.path());
    assert_eq!(found, [(key(1), Found::Ended)]);
    assert_eq!(events(&again), [started.clone(), over.clone()]);
    again.exit_taken(key(1));
    assert!(events(&again).is_empty());
    assert_eq!(again.view.held[&key(1)].stage, Stage::Ended { settled: true });
    again.nothing_taken();
    assert_eq!(events(&again), [started, over], "a new stream");
    assert_eq!(again.view.held[&key(1)].stage, Stage::Ended { settled: false });

    // The first process still waits for its supervisor to leave.
    ledger.exit_taken(key(1));
    assert_eq!(ledger.view.held[&key(1)].stage, Stage::Ended { settled: false });
    ledger.closed(key(1));
    assert_eq!(ledger.view.held[&key(1)].stage, Stage::Ended { settled: true });
}

#[test]
fn a_forgotten_attempt_never_comes_back_by_an_older_document() {
    let dir = tempfile::tempdir().unwrap();
    let (mut ledger, _) = open(dir.path());
    start(&mut ledger, 2);
    ledger.ended(key(2), exit(2));
    let aside = ledger.forget(key(2), TimeMs(500)).unwrap().unwrap();
    assert!(aside.exists() && !ledger.job_dir(key(2)).path().exists());
    assert!(!ledger.accept(launch(2)) && !ledger.accept(launch(1)), "past");
    assert!(ledger.accept(launch(3)));
    assert!(ledger.forget(key(3), TimeMs(500)).unwrap().is_none(), "nothing of it was on disk");
    drop(ledger);

    let (mut again, found) = open(dir.path());
    assert!(found.is_empty() && !aside.exists());
    assert!(!again.desire(&document(499, &[(2, None)]), 0));
    assert!(again.view.missing.is_empty());
    assert!(again.desire(&document(500, &[(3, None)]), 77));
    assert_eq!(again.view.missing[&key(3)], 77);
    assert!(again.desire(&document(501, &[(3, None)]), 99));
    assert_eq!(again.view.missing[&key(3)], 77, "since the first time");
    again.accept(launch(3));
    again.desire(&document(502, &[(3, None)]), 100);
    assert!(again.view.missing.is_empty());
}

#[test]
fn an_attempt_without_a_supervisor_is_given_up_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let (mut ledger, _) = open(dir.path());
    ledger.give_up(key(1), Some(Cause::Missing), ExitKind::NodeFailed, "nothing here".into(), TimeMs(5));
    let told = ledger.reports(key(1));
    assert!(
        matches!(&told[..], [JobReport { event: JobEvent::Ended(e), .. }] if e.how == EndedHow::Lost && e.at == TimeMs(5))
    );
    let (again, found) = open(dir.path());
    assert_eq!(found, [(key(1), Found::Ended)]);
    assert_eq!(again.reports(key(1)), told);
    let mode = fs::metadata(again.job_dir(key(1)).path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn other_things_in_the_folder_are_left_alone_and_torn_files_do_not_stop_the_node() {
    let dir = tempfile::tempdir().unwrap();
    let (mut ledger, _) = open(dir.path());
    start(&mut ledger, 1);
    let folder = ledger.job_dir(key(1));
    fs::write(folder.path().join("agent.json"), "{\"wish\":").unwrap();
    fs::write(dir.path().join("floor.json"), "").unwrap();
    let other = dir.path().join("jobs/lost+found");
    fs::create_dir(&other).unwrap();
    let (again, found) = open(dir.path());
    assert_eq!(found, [(key(1), Found::Started)]);
    assert_eq!(again.view.held[&key(1)].wish, Wish::default());
    assert!(other.exists());
}

#[test]
fn how_it_ended_follows_from_the_record_and_the_cause() {
    use EndedHow::{Exited, LaunchFailed, Lost, Ordered, OutOfMemory};
    let rows = [
        (ExitKind::Exited, false, None, Exited),
        (ExitKind::Exited, true, None, OutOfMemory),
        (ExitKind::LaunchFailed, false, None, LaunchFailed),
        (ExitKind::NodeFailed, false, None, Lost),
        (ExitKind::NodeFailed, true, None, Lost),
        (ExitKind::Exited, false, Some(Cause::TimeLimit), EndedHow::TimeLimit),
        (ExitKind::Exited, true, Some(Cause::TimeLimit), EndedHow::TimeLimit),
        (ExitKind::NodeFailed, false, Some(Cause::TimeLimit), EndedHow::TimeLimit),
        (ExitKind::Exited, false, Some(Cause::Cancelled), Ordered),
        (ExitKind::NodeFailed, false, Some(Cause::Requeued), Ordered),
        (ExitKind::Exited, false, Some(Cause::Unwanted), Ordered),
        (ExitKind::NodeFailed, false, Some(Cause::Missing), Lost),
    ];
    for (kind, oom, cause, how) in rows {
        assert_eq!(ended(&ExitRecord { kind, oom, ..exit(1) }, cause).how, how, "{kind:?} {oom} {cause:?}");
    }
}
