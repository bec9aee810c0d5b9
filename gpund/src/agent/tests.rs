use gpun_core::TimeMs;
use gpun_core::job::{EndOrder, SignalOrder};
use proptest::prelude::*;

use super::*;

const KEY: Key = Key { job: JobId(7), attempt: Attempt(2) };
const WAIT_S: u64 = 30;

fn job(key: Key) -> DesiredJob {
    DesiredJob {
        job: key.job,
        attempt: key.attempt,
        time_limit: TimeLimit::Infinite,
        end: None,
        signals: Vec::new(),
        suspended: false,
        steps: Vec::new(),
    }
}

fn document(jobs: Vec<DesiredJob>) -> Desired {
    Desired { as_of: TimeMs(1), kill_wait_s: WAIT_S, jobs }
}

fn cancel(job: DesiredJob) -> DesiredJob {
    DesiredJob { end: Some(EndOrder { cause: EndCause::Cancelled { uid: 0 }, since: TimeMs(0) }), ..job }
}

fn requeue(job: DesiredJob) -> DesiredJob {
    DesiredJob { end: Some(EndOrder { cause: EndCause::Requeue { hold: false }, since: TimeMs(0) }), ..job }
}

fn limited(seconds: u64, job: DesiredJob) -> DesiredJob {
    DesiredJob { time_limit: TimeLimit::Seconds(seconds), ..job }
}

fn at(stage: Stage) -> Held {
    Held { stage, wish: Wish::default(), warning: None, done: Done::default() }
}

fn view(held: impl IntoIterator<Item = (Key, Held)>) -> View {
    View { held: held.into_iter().collect(), launches_max: 2, ..View::default() }
}

/// Since 10 s; now is 100 s.
const NOW_MS: u64 = 100_000;
const RUNNING: Stage = Stage::Running { since_ms: 10_000 };

fn check(what: &str, desired: Option<Vec<DesiredJob>>, view: &View, acts: &[Act], wake_ms: Option<u64>) {
    let step = step(desired.map(document).as_ref(), view, NOW_MS);
    assert_eq!((step.acts.as_slice(), step.wake_ms), (acts, wake_ms), "{what}");
}

fn check_one(what: &str, desired: Option<Vec<DesiredJob>>, held: Held, acts: &[Act], wake_ms: Option<u64>) {
    check(what, desired, &view([(KEY, held)]), acts, wake_ms);
}

#[test]
fn what_is_wanted_is_started_and_what_is_not_is_killed_and_forgotten() {
    let kill = |cause| Act::Kill { key: KEY, cause };
    let (ready, creating, running) = (at(Stage::Ready), at(Stage::Creating), at(RUNNING));
    let found = at(Stage::Found);
    let (ended, settled) = (at(Stage::Ended { settled: false }), at(Stage::Ended { settled: true }));
    type Row<'a> = (&'a str, Option<Vec<DesiredJob>>, &'a Held, &'a [Act]);
    let rows: &[Row<'_>] = &[
        ("ready, no word", None, &ready, &[]),
        ("ready, wanted", Some(vec![job(KEY)]), &ready, &[Act::Launch(KEY)]),
        ("ready, not wanted", Some(vec![]), &ready, &[Act::Forget(KEY)]),
        ("ready, to end", Some(vec![cancel(job(KEY))]), &ready, &[kill(Cause::Cancelled)]),
        ("creating, no word", None, &creating, &[]),
        ("creating, wanted", Some(vec![job(KEY)]), &creating, &[]),
        ("creating, not wanted", Some(vec![]), &creating, &[kill(Cause::Unwanted)]),
        ("creating, to end", Some(vec![requeue(job(KEY))]), &creating, &[kill(Cause::Requeued)]),
        ("found, wanted", Some(vec![cancel(job(KEY))]), &found, &[]),
        ("found, not wanted", Some(vec![]), &found, &[]),
        ("running, no word", None, &running, &[]),
        ("running, wanted", Some(vec![job(KEY)]), &running, &[]),
        ("running, not wanted", Some(vec![]), &running, &[kill(Cause::Unwanted)]),
        ("running, to end", Some(vec![cancel(job(KEY))]), &running, &[Act::Term { key: KEY, cause: Cause::Cancelled }]),
        (
            "running, to requeue",
            Some(vec![requeue(job(KEY))]),
            &running,
            &[Act::Term { key: KEY, cause: Cause::Requeued }],
        ),
        ("ended, no word", None, &ended, &[]),
        ("ended, wanted", Some(vec![job(KEY)]), &ended, &[]),
        ("ended, not wanted, not told", Some(vec![]), &ended, &[]),
        ("ended, told, no word", None, &settled, &[]),
        ("ended, told, still wanted", Some(vec![cancel(job(KEY))]), &settled, &[]),
        ("ended, told, not wanted", Some(vec![]), &settled, &[Act::Forget(KEY)]),
    ];
    for (what, desired, held, acts) in rows {
        check_one(what, desired.clone(), (*held).clone(), acts, None);
    }
}

#[test]
fn another_attempt_of_the_job_is_another_thing() {
    let (old, new) = (Key::new(7, 1), Key::new(7, 3));
    check(
        "the old one goes first",
        Some(vec![job(new)]),
        &view([(old, at(RUNNING)), (new, at(Stage::Ready))]),
        &[Act::Kill { key: old, cause: Cause::Unwanted }],
        None,
    );
    check(
        "then the new one starts, though the old one is still to be told",
        Some(vec![job(new)]),
        &view([(old, at(Stage::Ended { settled: false })), (new, at(Stage::Ready))]),
        &[Act::Launch(new)],
        None,
    );
    let mut past = view([(old, at(Stage::Ready))]);
    past.mark_past(KEY);
    check("an older attempt is never started", Some(vec![job(old)]), &past, &[], None);
    past.held.clear();
    check("nor reported as missing", Some(vec![cancel(job(old))]), &past, &[], None);
}

#[test]
fn nothing_starts_on_the_devices_of_what_is_still_ending() {
    let (old, new) = (Key::new(7, 1), Key::new(8, 1));
    let wanted = || Some(vec![job(new)]);
    let kill = Act::Kill { key: old, cause: Cause::Unwanted };
    // how far the one is that is not wanted → what is done
    let rows: [(&str, Held, &[Act], Option<u64>); 5] = [
        ("it runs", at(RUNNING), &[kill], None),
        ("it is being made", at(Stage::Creating), &[kill], None),
        ("it is being killed", killed(at(RUNNING)), &[], Some(NOW_MS + KILL_AGAIN_MS)),
        ("how far it is has to be told", at(Stage::Found), &[], None),
        ("it is gone", at(Stage::Ended { settled: false }), &[Act::Launch(new)], None),
    ];
    for (what, held, acts, wake_ms) in rows {
        check(what, wanted(), &view([(old, held), (new, at(Stage::Ready))]), acts, wake_ms);
    }
    let both = Some(vec![job(old), job(new)]);
    check("it is wanted", both, &view([(old, at(RUNNING)), (new, at(Stage::Ready))]), &[Act::Launch(new)], None);
}

fn killed(held: Held) -> Held {
    Held { done: Done { kill_ms: Some(NOW_MS), ..Done::default() }, ..held }
}

#[test]
fn launches_in_the_making_are_bounded() {
    let keys: Vec<Key> = (1..=4).map(|n| Key::new(n, 1)).collect();
    let all = || Some(keys.iter().map(|key| job(*key)).collect::<Vec<_>>());
    let mut held = view(keys.iter().map(|key| (*key, at(Stage::Ready))));
    check("two at once", all(), &held, &[Act::Launch(keys[0]), Act::Launch(keys[1])], None);
    held.held.insert(keys[0], at(RUNNING));
    held.held.insert(keys[1], at(Stage::Creating));
    check("one more when one runs", all(), &held, &[Act::Launch(keys[2])], None);
    held.held.insert(keys[2], at(Stage::Creating));
    check("none more", all(), &held, &[], None);
}

#[test]
fn limits_hold_with_or_without_a_controller() {
    let term = |cause| Act::Term { key: KEY, cause };
    let kill = |cause| Act::Kill { key: KEY, cause };
    let wished = |limit_s| Held { wish: Wish { limit_s: Some(limit_s), ..Wish::default() }, ..at(RUNNING) };
    let sent = |term_s: u64, cause| Held {
        done: Done { term_ms: Some(term_s * 1000), cause: Some(cause), ..Done::default() },
        ..at(RUNNING)
    };
    let limited_row = |seconds| Some(vec![limited(seconds, job(KEY))]);
    check_one("before", limited_row(91), at(RUNNING), &[], Some(101_000));
    check_one("at the limit", limited_row(90), at(RUNNING), &[term(Cause::TimeLimit)], None);
    check_one("what was said before holds", None, wished(90), &[term(Cause::TimeLimit)], None);
    check_one("raised", limited_row(200), wished(90), &[], Some(210_000));
    check_one("no limit any more", Some(vec![job(KEY)]), wished(90), &[], None);
    check_one("endless", limited_row(u64::MAX), at(RUNNING), &[], Some(u64::MAX));
    check_one("no second TERM", limited_row(90), sent(80, Cause::TimeLimit), &[], Some(110_000));
    check_one("KILL after the wait", limited_row(90), sent(70, Cause::TimeLimit), &[kill(Cause::TimeLimit)], None);
    check_one(
        "the first cause stays",
        Some(vec![cancel(limited(90, job(KEY)))]),
        sent(70, Cause::TimeLimit),
        &[kill(Cause::TimeLimit)],
        None,
    );
    check_one("cancelled long ago", Some(vec![cancel(job(KEY))]), sent(80, Cause::Cancelled), &[], Some(110_000));
    check_one("raised too late", limited_row(500), sent(70, Cause::TimeLimit), &[kill(Cause::TimeLimit)], None);
    let killed = |kill_s: u64| Held {
        done: Done {
            term_ms: Some(1000),
            kill_ms: Some(kill_s * 1000),
            cause: Some(Cause::TimeLimit),
            ..Done::default()
        },
        ..at(RUNNING)
    };
    check_one("KILL takes a while", limited_row(90), killed(99), &[], Some(99_000 + KILL_AGAIN_MS));
    check_one("KILL again", limited_row(90), killed(50), &[kill(Cause::TimeLimit)], None);
    check_one("not wanted: KILL again too", Some(vec![]), killed(99), &[], Some(99_000 + KILL_AGAIN_MS));
    let at_once = Desired { kill_wait_s: 0, ..document(vec![cancel(job(KEY))]) };
    let step = step(Some(&at_once), &view([(KEY, sent(100, Cause::Cancelled))]), NOW_MS);
    assert_eq!(step.acts, [kill(Cause::Cancelled)], "no wait at all");
}

#[test]
fn the_warning_comes_once_and_exactly_before_the_limit() {
    let warning = |before_s, batch_only| Some(Warning { signal: 10, before_s, batch_only });
    let held = |before_s, warned_s: Option<u64>| Held {
        warning: warning(before_s, true),
        done: Done { warned_ms: warned_s.map(|s| s * 1000), ..Done::default() },
        ..at(RUNNING)
    };
    let warn = |scope| Act::Warn { key: KEY, signal: 10, scope };
    let row = |limit_s| Some(vec![limited(limit_s, job(KEY))]);
    check_one("not yet", row(101), held(10, None), &[], Some(101_000));
    check_one("now", row(100), held(10, None), &[warn(SignalScope::Batch)], Some(110_000));
    check_one("once", row(100), held(10, Some(100)), &[], Some(110_000));
    check_one("longer than the limit: at once", row(100), held(3600, None), &[warn(SignalScope::Batch)], Some(110_000));
    check_one("and then once", row(100), held(3600, Some(10)), &[], Some(110_000));
    check_one("limit raised since: again, later", row(200), held(10, Some(95)), &[], Some(200_000));
    check_one("limit lowered since: not again", row(95), held(10, Some(95)), &[], Some(105_000));
    check_one("no limit, no warning", Some(vec![job(KEY)]), held(10, None), &[], None);
    let steps = Held { warning: warning(10, false), ..at(RUNNING) };
    check_one("to the steps", row(95), steps, &[warn(SignalScope::Steps)], Some(105_000));
}

#[test]
fn each_signal_is_sent_once_and_in_order() {
    let order = |number, scope| SignalOrder { number, signal: 10 + number as i32, scope };
    let act = |number, scope| Act::Signal { key: KEY, number, signal: 10 + number as i32, scope };
    let asked = || {
        let signals = vec![order(3, SignalScope::All), order(1, SignalScope::Batch), order(2, SignalScope::Steps)];
        Some(vec![DesiredJob { signals, ..job(KEY) }])
    };
    let had = |signals| Held { done: Done { signals, ..Done::default() }, ..at(RUNNING) };
    let all = [act(1, SignalScope::Batch), act(2, SignalScope::Steps), act(3, SignalScope::All)];
    check_one("all", asked(), had(0), &all, None);
    check_one("the rest", asked(), had(2), &all[2..], None);
    check_one("none", asked(), had(3), &[], None);
    check_one("not before it runs", asked(), at(Stage::Creating), &[], None);
}

#[test]
fn a_suspended_attempt_is_stopped_once_and_goes_on_before_it_ends() {
    let stopped = || Some(vec![DesiredJob { suspended: true, ..job(KEY) }]);
    let frozen = || Held { done: Done { frozen: true, ..Done::default() }, ..at(RUNNING) };
    let freeze = |on| Act::Freeze { key: KEY, on };
    check_one("stopped", stopped(), at(RUNNING), &[freeze(true)], None);
    check_one("once", stopped(), frozen(), &[], None);
    check_one("not before it runs", stopped(), at(Stage::Creating), &[], None);
    check_one("goes on", Some(vec![job(KEY)]), frozen(), &[freeze(false)], None);
    let ending = stopped().map(|jobs| jobs.into_iter().map(cancel).collect());
    check_one(
        "goes on to end",
        ending,
        frozen(),
        &[freeze(false), Act::Term { key: KEY, cause: Cause::Cancelled }],
        None,
    );
    let wished = Held { wish: Wish { suspended: true, ..Wish::default() }, ..frozen() };
    check_one("no controller in reach: it stays so", None, wished, &[], None);
}

#[test]
fn an_attempt_whose_launch_never_comes_is_given_up() {
    let mut empty = view([]);
    check("the document is all there is: wait for the launch", Some(vec![job(KEY)]), &empty, &[], None);
    check(
        "to end: at once",
        Some(vec![cancel(job(KEY))]),
        &empty,
        &[Act::Kill { key: KEY, cause: Cause::Cancelled }],
        None,
    );
    empty.missing.insert(KEY, NOW_MS - MISSING_MS + 1);
    check("not yet", Some(vec![job(KEY)]), &empty, &[], Some(NOW_MS + 1));
    empty.missing.insert(KEY, NOW_MS - MISSING_MS);
    check("long enough", Some(vec![job(KEY)]), &empty, &[Act::Kill { key: KEY, cause: Cause::Missing }], None);
}

#[test]
fn only_the_one_way_to_write_a_key_is_one() {
    for (name, key) in [
        ("7.2", Some(KEY)),
        ("07.2", None),
        ("7", None),
        ("7.2.1", None),
        ("a.1", None),
        ("+7.2", None),
        ("7.-1", None),
    ] {
        assert_eq!(Key::parse(name), key, "{name}");
    }
    assert_eq!(KEY.to_string(), "7.2");
}

/// What may happen to a node from outside.
#[derive(Clone, Debug)]
enum Happening {
    /// The controller's document names these attempts (job, attempt, limit in s, to end), and launches come with it.
    Document(Vec<(u32, u32, Option<u64>, bool)>),
    /// Time passes, in ms.
    Time(u64),
    /// All that is in the making runs.
    AllRun,
    /// This job ends by itself.
    Exit(u32),
    /// The controller has all reports.
    Taken,
    /// gpund starts again: what it holds in memory is gone, but for what is on disk.
    Restart,
}

fn happening() -> impl Strategy<Value = Happening> {
    let wish = (1..4u32, 1..4u32, proptest::option::of(0..100u64), any::<bool>());
    prop_oneof![
        4 => proptest::collection::vec(wish, 0..4).prop_map(Happening::Document),
        2 => (0..60_000u64).prop_map(Happening::Time),
        2 => Just(Happening::AllRun),
        1 => (1..4u32).prop_map(Happening::Exit),
        2 => Just(Happening::Taken),
        1 => Just(Happening::Restart),
    ]
}

/// A node without a system: acts are believed to work, KILL takes effect at the next look.
struct Model {
    view: View,
    desired: Option<Desired>,
    now_ms: u64,
    launched: Vec<Key>,
    terms: BTreeMap<Key, u32>,
}

impl Model {
    fn new() -> Self {
        Self { view: view([]), desired: None, now_ms: 1_000, launched: Vec::new(), terms: BTreeMap::new() }
    }

    fn happens(&mut self, happening: &Happening) {
        match happening {
            Happening::Document(wishes) => self.document(wishes),
            Happening::Time(ms) => self.now_ms += ms,
            Happening::AllRun => {
                let since_ms = self.now_ms;
                for held in self.view.held.values_mut().filter(|held| held.stage == Stage::Creating) {
                    held.stage = Stage::Running { since_ms };
                }
            }
            Happening::Exit(job) => self.end(|key, _| key.job.0 == *job),
            Happening::Taken => {
                for held in self.view.held.values_mut().filter(|held| matches!(held.stage, Stage::Ended { .. })) {
                    held.stage = Stage::Ended { settled: true };
                }
            }
            Happening::Restart => {
                self.desired = None;
                self.view.held.retain(|_, held| held.stage != Stage::Ready);
                self.view.missing.clear();
                let live = self.view.held.iter_mut().filter(|(_, held)| held.is_live());
                let found: Vec<(Key, Stage)> =
                    live.map(|(key, held)| (*key, std::mem::replace(&mut held.stage, Stage::Found))).collect();
                self.settle();
                // Then the supervisors say how far they are.
                for (key, stage) in found {
                    self.view.held.get_mut(&key).unwrap().stage = stage;
                }
            }
        }
        self.settle();
    }

    /// Later attempts only, one of each job, as a controller does.
    fn document(&mut self, wishes: &[(u32, u32, Option<u64>, bool)]) {
        let mut jobs: BTreeMap<u32, DesiredJob> = BTreeMap::new();
        for (number, attempt, limit_s, end) in wishes {
            let wished = job(Key::new(*number, *attempt));
            let wished = DesiredJob { time_limit: limit_s.map_or(TimeLimit::Infinite, TimeLimit::Seconds), ..wished };
            jobs.insert(*number, if *end { cancel(wished) } else { wished });
        }
        let desired = document(jobs.into_values().collect());
        for wished in &desired.jobs {
            let key = Key::of(wished);
            let wish = Wish::of(wished, desired.kill_wait_s);
            if !self.view.is_past(key) {
                self.view.held.entry(key).or_insert_with(|| Held::ready(wish.clone(), None));
            }
            if let Some(held) = self.view.held.get_mut(&key) {
                held.wish = wish;
            }
        }
        self.desired = Some(desired);
    }

    fn end(&mut self, which: impl Fn(&Key, &Held) -> bool) {
        for (_, held) in self.view.held.iter_mut().filter(|(key, held)| held.is_live() && which(key, held)) {
            held.stage = Stage::Ended { settled: false };
        }
    }

    /// Carries acts out until none is due.
    fn settle(&mut self) {
        for _ in 0..100 {
            let acts = step(self.desired.as_ref(), &self.view, self.now_ms).acts;
            if acts.is_empty() {
                return;
            }
            acts.iter().for_each(|act| self.carry_out(act));
        }
        panic!("no end of acts");
    }

    fn carry_out(&mut self, act: &Act) {
        let key = act.key();
        match act {
            Act::Launch(_) => {
                let newest = self.launched.iter().filter(|have| have.job == key.job).map(|have| have.attempt).max();
                assert!(newest.is_none_or(|newest| newest < key.attempt), "{key} after attempt {newest:?}");
                assert!(
                    !self.view.held.iter().any(|(have, held)| have.job == key.job && held.is_live()),
                    "two at once"
                );
                self.launched.push(key);
            }
            Act::Term { .. } => {
                let terms = self.terms.entry(key).or_default();
                *terms += 1;
                assert_eq!(*terms, 1, "a second TERM for {key}");
            }
            _ => {}
        }
        if let Some(held) = self.view.held.get_mut(&key) {
            held.done(act, self.now_ms);
        }
        match act {
            Act::Launch(_) => self.view.mark_past(key),
            Act::Kill { .. } => {
                self.view.mark_past(key);
                let held = self.view.held.entry(key).or_insert_with(|| at(Stage::Ready));
                held.stage = Stage::Ended { settled: false };
            }
            Act::Forget(_) => drop(self.view.held.remove(&key)),
            _ => {}
        }
    }
}

proptest! {
    #[test]
    fn whatever_happens_it_comes_to_what_is_wanted(happenings in proptest::collection::vec(happening(), 1..40)) {
        let mut model = Model::new();
        happenings.iter().for_each(|happening| model.happens(happening));
        // Then the controller has its last word, and time passes until everything has settled.
        let last = model.desired.clone().unwrap_or_default();
        model.desired = Some(last.clone());
        for _ in 0..6 {
            for happening in [Happening::AllRun, Happening::Time(200_000), Happening::Taken] {
                model.happens(&happening);
            }
        }
        let wanted: BTreeMap<Key, &DesiredJob> = last.jobs.iter().map(|job| (Key::of(job), job)).collect();
        for (key, held) in &model.view.held {
            prop_assert!(wanted.contains_key(key), "{key} is left: {held:?}");
            let endless = wanted[key].time_limit == TimeLimit::Infinite && wanted[key].end.is_none();
            let over = held.stage == Stage::Ended { settled: true };
            prop_assert!(over || (endless && held.is_live()), "{key} {held:?}");
        }
        prop_assert!(step(Some(&last), &model.view, model.now_ms).acts.is_empty());
    }
}
