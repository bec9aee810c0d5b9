//! Marks: small records in every column family, numbered without gaps, by which a lost table file shows.
//!
//! RocksDB knows which table files there are from its MANIFEST alone. If the end of a MANIFEST is lost, some files are
//! forgotten, the logs that they replaced are long deleted, and the rest still opens. So one mark goes into all column
//! families with each start and after some MiB of entries, in one atomic write: whatever files are lost take marks of
//! one family or of all with them, and a later mark shows the gap.

use std::io;

use rocksdb::{ColumnFamily, IteratorMode, ReadOptions, WriteBatch};

use crate::codec::bad;
use crate::db::{Db, io_error};

/// A mark is due after so many bytes of entries: several for each write buffer that becomes a table file.
pub(crate) const EVERY_BYTES: usize = 2 << 20;
/// So many marks are kept: more than ever lie between two flushes.
const KEPT: u64 = 256;

/// Where the marks lie in each family: behind the indexes of the log, apart from all else.
const META: &[u8] = b"mark";
const LOG: &[u8] = &[0xff];
const STATE: &[u8] = b"\0mark";

fn places(db: &Db) -> io::Result<[(&ColumnFamily, &'static [u8]); 3]> {
    Ok([(db.meta()?, META), (db.log()?, LOG), (db.state()?, STATE)])
}

fn key(place: &[u8], number: u64) -> Vec<u8> {
    [place, &number.to_be_bytes()].concat()
}

/// Adds mark `number` to a write.
pub(crate) fn add(db: &Db, batch: &mut WriteBatch, number: u64) -> io::Result<()> {
    for (family, place) in places(db)? {
        batch.put_cf(family, key(place, number), b"");
        if let Some(old) = number.checked_sub(KEPT) {
            batch.delete_cf(family, key(place, old));
        }
    }
    Ok(())
}

/// Checks the marks of all families; returns the next number.
///
/// # Errors
/// Marks are missing: so is whatever was in the same files.
pub(crate) fn check(db: &Db) -> io::Result<u64> {
    let [meta, log, state] = places(db)?.map(|(family, place)| read(db, family, place));
    let (meta, log, state) = (meta?, log?, state?);
    if meta != log || meta != state {
        return Err(bad(format!(
            "the column families do not belong together, a table file is lost (marks meta {}, log {}, state {})",
            range(&meta),
            range(&log),
            range(&state)
        )));
    }
    if let Some([a, b]) =
        meta.windows(2).find(|pair| matches!(pair, [a, b] if a + 1 != *b)).and_then(|p| p.first_chunk())
    {
        return Err(bad(format!("a table file is lost (no marks between {a} and {b})")));
    }
    // The first marks are deleted one by one as new ones come, so all of them, or the newest ones, are there.
    if meta.first().is_some_and(|first| *first != 0 && (meta.len() as u64) < KEPT) {
        return Err(bad(format!("a table file is lost (marks {})", range(&meta))));
    }
    Ok(meta.last().map_or(0, |last| last + 1))
}

fn range(marks: &[u64]) -> String {
    match (marks.first(), marks.last()) {
        (Some(first), Some(last)) => format!("{first} to {last}, {} in all", marks.len()),
        _ => "none".into(),
    }
}

fn read(db: &Db, family: &ColumnFamily, place: &[u8]) -> io::Result<Vec<u64>> {
    let mut options = ReadOptions::default();
    options.set_iterate_range(place.to_vec()..[place, &[0xff; 9]].concat());
    db.raw()
        .iterator_cf_opt(family, options, IteratorMode::Start)
        .map(|item| {
            let (key, _) = item.map_err(io_error)?;
            let number = key.strip_prefix(place).and_then(|n| <[u8; 8]>::try_from(n).ok());
            number.map(u64::from_be_bytes).ok_or_else(|| bad("a mark has no number"))
        })
        .collect()
}
