//! A look at RocksDB's write-ahead logs before RocksDB itself opens them.
//!
//! RocksDB offers two useful ways to recover a log, and neither is what a store of acknowledged entries needs:
//!
//! * `AbsoluteConsistency` refuses every log that ends in the middle of a record. A power cut in the middle of a write
//!   leaves exactly that, and nobody is hurt: the write was not acknowledged. Refusing would need a human each time.
//! * `TolerateCorruptedTailRecords` and `PointInTime` cut the log at the first record that they cannot read. A flipped
//!   bit in a record's length, with good records behind it, looks to them like the end: acknowledged entries vanish
//!   and nobody hears of it.
//!
//! So the decision is made here, and then RocksDB opens with `AbsoluteConsistency`, which refuses all that is left:
//!
//! * **Torn** is a last record that runs beyond the end of the file, or whose sectors were never written (zeros), with
//!   no later record behind it. It is cut off, at the start of the batch that it belongs to.
//! * **Damaged** is everything else: a checksum that does not match, a length that was changed, a later record behind
//!   an unreadable one. The store does not open.
//!
//! A log that ends exactly between two records is complete as far as its own bytes can tell. For logs that RocksDB has
//! closed, the MANIFEST knows the synced size (`track_and_verify_wals_in_manifest`) and RocksDB compares.
//!
//! The MANIFEST has the same format and is scanned the same way; a torn end is left to RocksDB, which drops it (the
//! files that a lost edit would have named are then still covered by logs, or missing from the tracked ones). CURRENT
//! is one line; RocksDB refuses to open when it names no MANIFEST.
//!
//! The format: blocks of 32 KiB; records of checksum (4 bytes, masked CRC-32C of type and data), length (2), type (1),
//! data. A batch is one FULL record, or FIRST, MIDDLE.., LAST. A batch begins with its sequence number (8) and its
//! number of changes (4).

const BLOCK: usize = 32 * 1024;
const HEADER: usize = 7;
const SECTOR: usize = 512;
/// Fewer zeros than this at the end of the file are not taken for an unwritten sector.
const ZEROS_THAT_COUNT: usize = 32;

const ZERO: u8 = 0;
const FULL: u8 = 1;
const FIRST: u8 = 2;
const MIDDLE: u8 = 3;
const LAST: u8 = 4;
/// Records about the log itself: compression, timestamp sizes, the log before. They hold no change.
const NOTES: [u8; 3] = [9, 10, 130];

/// How a log ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// With a whole record.
    Whole,
    /// In the middle of a write that was never acknowledged: to be cut to `at` bytes.
    Torn { at: usize },
    /// With a record that cannot be read, at byte `at`, though it was once written in full. It belongs to the batch
    /// that begins at `batch`.
    Damaged { at: usize, batch: usize, why: &'static str },
}

/// What a log holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scan {
    pub end: End,
    /// The sequence number of the first batch.
    pub first_sequence: Option<u64>,
    /// The sequence number that follows the last whole batch.
    pub next_sequence: Option<u64>,
}

/// Reads a whole log.
pub(crate) fn scan(log: &[u8]) -> Scan {
    let mut found = Scan { end: End::Whole, first_sequence: None, next_sequence: None };
    let mut at = 0;
    // Where the batch that `at` is in began, and its first bytes, while a batch in several records is read.
    let mut open: Option<(usize, Vec<u8>)> = None;
    loop {
        let block_left = BLOCK - at % BLOCK;
        if block_left < HEADER {
            // The rest of a block too short for a header is filled with zeros.
            at = (at + block_left).min(log.len());
        }
        if at >= log.len() {
            found.end = open.map_or(End::Whole, |(start, _)| End::Torn { at: start });
            return found;
        }
        let batch_start = open.as_ref().map_or(at, |(start, _)| *start);
        let (kind, data) = match record(log, at) {
            Ok(record) => record,
            Err(why) => {
                found.end = judge(log, at, batch_start, why);
                return found;
            }
        };
        match (kind, &mut open) {
            (FULL, None) => found.batch(data),
            (FIRST, None) => open = Some((at, head(data))),
            (MIDDLE, Some(_)) => {}
            (LAST, Some((_, first))) => {
                let first = std::mem::take(first);
                found.batch(&first);
                open = None;
            }
            (kind, None) if NOTES.contains(&kind) => {}
            _ => {
                found.end = End::Damaged { at, batch: batch_start, why: "the order of its records is broken" };
                return found;
            }
        }
        at += HEADER + data.len();
    }
}

impl Scan {
    fn batch(&mut self, data: &[u8]) {
        let (Some(sequence), Some(count)) = (data.first_chunk::<8>(), data.get(8..).and_then(|d| d.first_chunk::<4>()))
        else {
            return;
        };
        let sequence = u64::from_le_bytes(*sequence);
        self.first_sequence.get_or_insert(sequence);
        self.next_sequence = Some(sequence.saturating_add(u64::from(u32::from_le_bytes(*count))));
    }
}

fn head(data: &[u8]) -> Vec<u8> {
    data.get(..12.min(data.len())).unwrap_or_default().to_vec()
}

/// Why a record could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unreadable {
    /// It runs beyond the end of the file.
    BeyondEnd,
    /// It says that it runs beyond its block, which no writer writes.
    BeyondBlock,
    Checksum,
}

/// The type and the data of the record at `at`, if it is good.
fn record(log: &[u8], at: usize) -> Result<(u8, &[u8]), Unreadable> {
    let block_left = BLOCK - at % BLOCK;
    let Some(header) = log.get(at..).and_then(|rest| rest.first_chunk::<HEADER>()) else {
        return Err(Unreadable::BeyondEnd);
    };
    let [c0, c1, c2, c3, l0, l1, kind] = *header;
    let length = usize::from(u16::from_le_bytes([l0, l1]));
    if HEADER + length > block_left {
        return Err(Unreadable::BeyondBlock);
    }
    let Some(covered) = log.get(at + HEADER - 1..at + HEADER + length) else {
        return Err(Unreadable::BeyondEnd);
    };
    if kind == ZERO || unmask(u32::from_le_bytes([c0, c1, c2, c3])) != crc32c::crc32c(covered) {
        return Err(Unreadable::Checksum);
    }
    Ok((kind, &covered[1..]))
}

/// RocksDB stores checksums masked, since the checksum of a checksum is a poor one.
fn unmask(masked: u32) -> u32 {
    masked.wrapping_sub(0xa282_ead8).rotate_left(15)
}

/// An unreadable record: was its write cut short, or was it damaged afterwards?
fn judge(log: &[u8], at: usize, batch_start: usize, why: Unreadable) -> End {
    let rest = log.get(at..).unwrap_or_default();
    if rest.iter().all(|b| *b == 0) {
        return End::Torn { at: batch_start };
    }
    let damaged = |why| End::Damaged { at, batch: batch_start, why };
    if batch_follows(log, at + 1) {
        return damaged("a record cannot be read, and good records follow it");
    }
    if whole_but_for_its_length(log, at) {
        return damaged("the length of the last record was changed");
    }
    match why {
        Unreadable::BeyondEnd => End::Torn { at: batch_start },
        _ if unwritten_sector(log, at) => End::Torn { at: batch_start },
        Unreadable::BeyondBlock => damaged("a record's length is impossible"),
        Unreadable::Checksum => damaged("a record's checksum does not match"),
    }
}

/// True if a good record that begins a batch lies anywhere behind `from`.
fn batch_follows(log: &[u8], from: usize) -> bool {
    (from..log.len().saturating_sub(HEADER)).any(|at| {
        let kind = log.get(at + HEADER - 1).copied().unwrap_or(ZERO);
        (kind == FULL || kind == FIRST) && record(log, at).is_ok()
    })
}

/// True if the record's checksum matches its data under some other length.
fn whole_but_for_its_length(log: &[u8], at: usize) -> bool {
    let block_end = at - at % BLOCK + BLOCK;
    let (Some(stored), Some(covered)) = (
        log.get(at..).and_then(|rest| rest.first_chunk::<4>()),
        log.get(at + HEADER - 1..block_end.min(log.len())).filter(|covered| !covered.is_empty()),
    ) else {
        return false;
    };
    let stored = unmask(u32::from_le_bytes(*stored));
    let mut crc = 0;
    covered.iter().any(|byte| {
        crc = crc32c::crc32c_append(crc, std::slice::from_ref(byte));
        crc == stored
    })
}

/// True if a whole sector behind `at`, or the file's last piece of one, is zeros: the file grew, its data did not.
fn unwritten_sector(log: &[u8], at: usize) -> bool {
    let first = at.next_multiple_of(SECTOR);
    (first..log.len()).step_by(SECTOR).any(|start| {
        let sector = log.get(start..(start + SECTOR).min(log.len())).unwrap_or_default();
        sector.len() >= ZEROS_THAT_COUNT && sector.iter().all(|b| *b == 0)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mask(crc: u32) -> u32 {
        crc.rotate_right(15).wrapping_add(0xa282_ead8)
    }

    fn put_record(log: &mut Vec<u8>, kind: u8, data: &[u8]) {
        let mut covered = vec![kind];
        covered.extend_from_slice(data);
        log.extend_from_slice(&mask(crc32c::crc32c(&covered)).to_le_bytes());
        log.extend_from_slice(&u16::try_from(data.len()).unwrap().to_le_bytes());
        log.extend_from_slice(&covered);
    }

    /// Writes a batch as RocksDB's writer does.
    fn put_batch(log: &mut Vec<u8>, sequence: u64, count: u32, body: &[u8]) {
        let mut data = sequence.to_le_bytes().to_vec();
        data.extend_from_slice(&count.to_le_bytes());
        data.extend_from_slice(body);
        let mut left = data.as_slice();
        let mut begin = true;
        loop {
            let block_left = BLOCK - log.len() % BLOCK;
            if block_left < HEADER {
                log.extend(std::iter::repeat_n(0, block_left));
                continue;
            }
            let (now, later) = left.split_at(left.len().min(block_left - HEADER));
            let kind = match (begin, later.is_empty()) {
                (true, true) => FULL,
                (true, false) => FIRST,
                (false, false) => MIDDLE,
                (false, true) => LAST,
            };
            put_record(log, kind, now);
            (left, begin) = (later, false);
            if later.is_empty() {
                return;
            }
        }
    }

    fn body(length: usize) -> Vec<u8> {
        (0..length).map(|i| u8::try_from(i * 7 % 251).unwrap() | 1).collect()
    }

    #[test]
    fn whole_logs() {
        let mut log = Vec::new();
        assert_eq!(scan(&log), Scan { end: End::Whole, first_sequence: None, next_sequence: None });
        for (sequence, count, length) in [(5, 2, 100), (7, 1, 40_000), (8, 3, 100_000), (11, 1, 0)] {
            put_batch(&mut log, sequence, count, &body(length));
        }
        assert_eq!(scan(&log), Scan { end: End::Whole, first_sequence: Some(5), next_sequence: Some(12) });
    }

    #[test]
    fn every_truncation_of_the_last_batch_is_cut() {
        for last in [80, 70_000] {
            let mut log = Vec::new();
            put_batch(&mut log, 1, 1, &body(200));
            put_batch(&mut log, 2, 1, &body(30_000));
            let start = log.len();
            put_batch(&mut log, 3, 1, &body(last));
            let step = if last > 1000 { 97 } else { 1 };
            for length in (start + 1..log.len()).step_by(step) {
                assert_eq!(scan(&log[..length]).end, End::Torn { at: start }, "cut to {length}");
                // The same, with the file already grown to its full size.
                let mut grown = log[..length].to_vec();
                grown.resize(log.len() + 2 * SECTOR, 0);
                assert_eq!(scan(&grown).end, End::Torn { at: start }, "zeros from {length}");
            }
            assert_eq!(scan(&log[..start]).end, End::Whole);
        }
    }

    #[test]
    fn every_flipped_bit_is_refused() {
        let mut log = Vec::new();
        put_batch(&mut log, 1, 1, &body(60));
        put_batch(&mut log, 2, 1, &body(300));
        put_batch(&mut log, 3, 1, &body(90));
        for at in 0..log.len() {
            for bit in 0..8 {
                log[at] ^= 1 << bit;
                assert!(matches!(scan(&log).end, End::Damaged { .. }), "bit {bit} of byte {at}: {:?}", scan(&log));
                log[at] ^= 1 << bit;
            }
        }
        assert_eq!(scan(&log).end, End::Whole);
    }

    #[test]
    fn a_write_whose_middle_never_reached_the_disk_is_cut() {
        let mut log = Vec::new();
        put_batch(&mut log, 1, 1, &body(60));
        let start = log.len();
        put_batch(&mut log, 2, 1, &body(100_000));
        // The second page is missing; what follows belongs to the same batch.
        log[4096..8192].fill(0);
        assert_eq!(scan(&log).end, End::Torn { at: start });
        // But with another batch behind it, it had been synced.
        put_batch(&mut log, 3, 1, &body(10));
        assert!(matches!(scan(&log).end, End::Damaged { .. }));
    }

    #[test]
    fn a_removed_piece_is_refused() {
        let mut log = Vec::new();
        put_batch(&mut log, 1, 1, &body(60));
        put_batch(&mut log, 2, 1, &body(100_000));
        put_batch(&mut log, 3, 1, &body(60));
        log.drain(BLOCK + 100..BLOCK + 5000);
        assert!(matches!(scan(&log).end, End::Damaged { .. }), "{:?}", scan(&log));
    }

    proptest! {
        #[test]
        fn any_bytes_are_judged(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            let _ = scan(&bytes);
        }

        #[test]
        fn any_log_is_whole(lengths in proptest::collection::vec(0usize..50_000, 0..12)) {
            let mut log = Vec::new();
            for (i, length) in lengths.iter().enumerate() {
                put_batch(&mut log, i as u64, 1, &body(*length));
            }
            prop_assert_eq!(scan(&log).end, End::Whole);
        }
    }
}
