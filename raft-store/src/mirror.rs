//! The mirror: the application's records on disk, as tables of keys and values, always at one applied index.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::error::MirrorError;

/// One table's number in the mirror. The application chooses; keys of one table are adjacent on disk and sorted.
pub type Table = u8;

/// Reads the mirror.
pub trait MirrorRead {
    /// The value under `key`, if there is one.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, MirrorError>;

    /// Calls `each` with the keys and values between the bounds, in the keys' order, until it returns false. All of
    /// them are seen at one moment, whatever is written meanwhile.
    fn scan(
        &self,
        table: Table,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), MirrorError>;

    /// As [`MirrorRead::scan`], from the greatest key down.
    fn scan_back(
        &self,
        table: Table,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), MirrorError>;

    /// All records of a table.
    fn scan_all(&self, table: Table, each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<(), MirrorError> {
        self.scan(table, Bound::Unbounded, Bound::Unbounded, each)
    }
}

/// One change of the mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The table.
    pub table: Table,
    /// The key within the table.
    pub key: Vec<u8>,
    /// The new value; `None` deletes the record.
    pub value: Option<Vec<u8>>,
}

/// The changes that applied entries make in the mirror. They reach the disk together with the applied index, in one
/// atomic write, or not at all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MirrorBatch {
    changes: Vec<Change>,
}

impl MirrorBatch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the record under `key`.
    pub fn put(&mut self, table: Table, key: &[u8], value: Vec<u8>) {
        self.changes.push(Change { table, key: key.to_vec(), value: Some(value) });
    }

    /// Deletes the record under `key`, if there is one.
    pub fn delete(&mut self, table: Table, key: &[u8]) {
        self.changes.push(Change { table, key: key.to_vec(), value: None });
    }

    /// What was changed, in order.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// True if nothing was changed.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Forgets all changes.
    pub fn clear(&mut self) {
        self.changes.clear();
    }
}

/// A mirror in memory, for tests and simulations of an [`crate::Apply`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemMirror {
    records: BTreeMap<(Table, Vec<u8>), Vec<u8>>,
}

impl MemMirror {
    /// An empty mirror.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes a batch, as the disk would.
    pub fn write(&mut self, batch: &MirrorBatch) {
        for change in batch.changes() {
            let at = (change.table, change.key.clone());
            match &change.value {
                Some(value) => self.records.insert(at, value.clone()),
                None => self.records.remove(&at),
            };
        }
    }

    /// The number of records in all tables.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// True if there are no records.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    fn between(
        &self,
        table: Table,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> impl DoubleEndedIterator<Item = (&[u8], &[u8])> {
        let inside = move |key: &[u8]| {
            let after = match from {
                Bound::Included(low) => key >= low,
                Bound::Excluded(low) => key > low,
                Bound::Unbounded => true,
            };
            let before = match to {
                Bound::Included(high) => key <= high,
                Bound::Excluded(high) => key < high,
                Bound::Unbounded => true,
            };
            after && before
        };
        self.records
            .range((table, Vec::new())..)
            .take_while(move |((t, _), _)| *t == table)
            .map(|((_, key), value)| (key.as_slice(), value.as_slice()))
            .filter(move |(key, _)| inside(key))
            .collect::<Vec<_>>()
            .into_iter()
    }
}

impl MirrorRead for MemMirror {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, MirrorError> {
        Ok(self.records.get(&(table, key.to_vec())).cloned())
    }

    fn scan(
        &self,
        table: Table,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), MirrorError> {
        self.between(table, from, to).take_while(|(key, value)| each(key, value)).for_each(drop);
        Ok(())
    }

    fn scan_back(
        &self,
        table: Table,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), MirrorError> {
        self.between(table, from, to).rev().take_while(|(key, value)| each(key, value)).for_each(drop);
        Ok(())
    }
}
