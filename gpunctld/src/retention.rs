//! How long the history of jobs is kept: the leader finds what is too old, and the log forgets it.

use std::{ops::Bound, time::Duration};

use gpun_core::{
    Command, Digest, TimeMs,
    history::{Forget, KEY_LEN, Record, RecordKey},
    mirror::{Table, decode},
};
use gpun_raft_store::{BoxError, MirrorRead, Store};

use crate::{
    app::App,
    propose::{Proposer, clock_now},
};

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(600);
/// Most records that one command forgets, so that no entry takes long.
const FORGET_MAX: usize = 500;
const DAY_S: u64 = 86_400;

/// Looks for old records for as long as the controller runs.
pub async fn keep(store: Store<App>, proposer: Proposer) {
    let mut looks = tokio::time::interval(LOOK_EVERY);
    loop {
        looks.tick().await;
        while let Some(command) = next(&store).await {
            if let Err(error) = proposer.propose(command).await {
                tracing::warn!(%error, "old records of jobs are not forgotten yet");
                break;
            }
        }
    }
}

async fn next(store: &Store<App>) -> Option<Command> {
    let days = store.view().view.settings().history_days?;
    let before = TimeMs(clock_now().0.saturating_sub(u64::from(days) * DAY_S * 1000));
    let mirror = store.mirror();
    match tokio::task::spawn_blocking(move || old(&*mirror, before, FORGET_MAX)).await {
        Ok(Ok(records)) => (!records.is_empty()).then_some(Command::ForgetHistory(records)),
        Ok(Err(error)) => {
            tracing::warn!(%error, "the history of jobs can't be read");
            None
        }
        Err(_) => None,
    }
}

/// The oldest records that ended before a time.
///
/// # Errors
/// The mirror can't be read.
fn old(mirror: &dyn MirrorRead, before: TimeMs, most: usize) -> Result<Vec<Forget>, BoxError> {
    let mut keys = Vec::new();
    let end = before.key();
    mirror.scan(Table::RecordByTime as u8, Bound::Unbounded, Bound::Excluded(&end), &mut |key, _| {
        keys.extend(RecordKey::from_time_key(key));
        keys.len() < most
    })?;
    let mut records: Vec<Forget> = Vec::new();
    for record in keys {
        let Some(bytes) = mirror.get(Table::Record as u8, &record.key())? else { continue };
        let job = decode::<Record>(&bytes)?.view.job;
        let uses = vec![job.script, job.environment];
        let mut last_uses = Vec::new();
        for digest in &uses {
            if is_last_use(mirror, digest, &record, &records)? {
                last_uses.push(*digest);
            }
        }
        records.push(Forget { record, uid: job.owner.uid, uses, last_uses, array: job.array_id() });
    }
    Ok(records)
}

/// True if every other record that uses a blob is among those to be forgotten.
fn is_last_use(
    mirror: &dyn MirrorRead,
    digest: &Digest,
    record: &RecordKey,
    going: &[Forget],
) -> Result<bool, BoxError> {
    let (from, to) = ([&digest.0[..], &[0; KEY_LEN]].concat(), [&digest.0[..], &[0xff; KEY_LEN]].concat());
    let mut others = false;
    mirror.scan(Table::RecordBlob as u8, Bound::Included(&from), Bound::Included(&to), &mut |key, _| {
        let user = key.get(digest.0.len()..).and_then(RecordKey::from_key);
        others = user.is_some_and(|user| user != *record && !going.iter().any(|one| one.record == user));
        !others
    })?;
    Ok(!others)
}

#[cfg(test)]
mod tests {
    use gpun_core::{
        MemoryMib, State,
        command::{Act, Blob, ENTRY_VERSION, Entry, Identity, JobRef, Submit},
        job::Owner,
        mirror::MirrorSink,
        node::Inventory,
        partition::Partition,
        settings::Settings,
        spec::JobSpec,
    };
    use gpun_raft_store::{MemMirror, MirrorBatch};

    use super::*;

    struct Sink(MirrorBatch);

    impl MirrorSink for Sink {
        fn put(&mut self, table: Table, key: &[u8], value: Vec<u8>) {
            self.0.put(table as u8, key, value);
        }

        fn delete(&mut self, table: Table, key: &[u8]) {
            self.0.delete(table as u8, key);
        }
    }

    /// A cluster in which the jobs 1 to `count`, all with the same script, were cancelled a second apart.
    fn cluster(count: u32) -> (State, MemMirror) {
        let (mut state, mut mirror) = (State::default(), MemMirror::new());
        let settings = Settings { min_job_age_s: 0, ..Settings::default() };
        let configure =
            Command::Configure { settings: Box::new(settings), partitions: vec![Partition::all_nodes("main")] };
        let inventory = Inventory { cpus: 4, memory: MemoryMib(1000), ..Inventory::default() };
        let register = Command::RegisterNode { name: "n1".to_owned(), inventory };
        apply(&mut state, &mut mirror, 1_000, vec![configure, register]);
        for number in 1..=count {
            let blob = |byte: u8| Blob { digest: Digest([byte; 32]), bytes: vec![byte] };
            let submit = Submit {
                request: gpun_core::RequestId(u128::from(number).to_be_bytes()),
                owner: Owner { uid: 100, ..Owner::default() },
                spec: JobSpec { hold: true, ..JobSpec::default() },
                script: Digest([1; 32]),
                environment: Digest([2; 32]),
                blobs: vec![blob(1), blob(2)],
                components: Vec::new(),
            };
            let at = 2_000 + 1_000 * u64::from(number);
            apply(&mut state, &mut mirror, at, vec![Command::Submit(Box::new(submit))]);
            let job = JobRef { job: gpun_core::JobId(number), tasks: None, component: None };
            let who = Identity { uid: 100, gid: 100 };
            apply(&mut state, &mut mirror, at, vec![Command::Act { who, act: Act::Cancel(job) }, Command::Tick]);
        }
        (state, mirror)
    }

    fn apply(state: &mut State, mirror: &mut MemMirror, stamp: u64, commands: Vec<Command>) {
        let mut sink = Sink(MirrorBatch::new());
        let outcomes = state.apply(Entry { version: ENTRY_VERSION, stamp: TimeMs(stamp), commands }, &mut sink);
        assert!(!outcomes.iter().any(|one| matches!(one, gpun_core::Outcome::Refused(_))), "{outcomes:?}");
        mirror.write(&sink.0);
    }

    #[test]
    fn old_records_go_and_their_scripts_with_the_last() {
        let (mut state, mut mirror) = cluster(4);
        assert_eq!(old(&mirror, TimeMs(3_000), 10).unwrap(), Vec::new(), "the first ended at 3 s");
        let some = old(&mirror, TimeMs(6_000), 2).unwrap();
        assert_eq!(
            some.iter().map(|one| (one.record.job.0, one.last_uses.len())).collect::<Vec<_>>(),
            [(1, 0), (2, 0)]
        );
        apply(&mut state, &mut mirror, 7_000, vec![Command::ForgetHistory(some)]);
        let rest = old(&mirror, TimeMs(60_000), 10).unwrap();
        assert_eq!(
            rest.iter().map(|one| (one.record.job.0, one.last_uses.len())).collect::<Vec<_>>(),
            [(3, 0), (4, 2)]
        );
        apply(&mut state, &mut mirror, 8_000, vec![Command::ForgetHistory(rest)]);
        for table in [Table::Record, Table::RecordByTime, Table::RecordByUser, Table::RecordBlob, Table::Blob] {
            let mut left = 0;
            mirror
                .scan_all(table as u8, &mut |_, _| {
                    left += 1;
                    true
                })
                .unwrap();
            assert_eq!(left, 0, "{table:?}");
        }
    }
}
