//! What lies on disk or in the log, and may be torn, old, or written by a job.

use std::fmt::Debug;

use gpun_core::{
    State,
    command::Entry,
    desired::Desired,
    mirror::{Table, decode},
    spec::JobSpec,
};
use gpun_init::{End, Order, Task};
use gpund::{
    ledger::Record,
    phase::{ExitRecord, Running},
};
use minicbor::{Decode, Encode};

fn again<T: PartialEq + Debug + Encode<()> + for<'b> Decode<'b, ()>>(data: &[u8]) {
    let Ok(value) = decode::<T>(data) else { return };
    let mut bytes = Vec::new();
    assert!(minicbor::encode(&value, &mut bytes).is_ok());
    assert_eq!(decode::<T>(&bytes).ok().as_ref(), Some(&value));
}

/// Entries of the log, and what nodes are told.
pub fn cbor(data: &[u8]) {
    again::<Entry>(data);
    again::<JobSpec>(data);
    again::<Desired>(data);
}

/// A whole state: a table's number, the key's length, the value's length in two bytes, key and value, and so on.
pub fn state(data: &[u8]) {
    let mut state = State::default();
    let mut rest = data;
    while let Some((table, key, value, after)) = record(rest) {
        rest = after;
        if state.load_record(table, key, value).is_err() {
            return;
        }
    }
    state.index();
    let _ = state.check();
}

fn record(data: &[u8]) -> Option<(Table, &[u8], &[u8], &[u8])> {
    let (&[table, key, low, high], rest) = data.split_first_chunk()?;
    let table = *Table::LOADED.get(usize::from(table))?;
    let (key, rest) = rest.split_at_checked(usize::from(key))?;
    let (value, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes([low, high])))?;
    Some((table, key, value, rest))
}

/// A supervisor's records, and how process 1 says it ended, over which the job may have written.
pub fn shim(data: &[u8]) {
    if let Some(end) = End::decode(data) {
        // The reason is cut at the file's size, so a second writing changes nothing more.
        let written = end.encode();
        assert_eq!(End::decode(&written).map(|again| again.encode()), Some(written));
    }
    if let Ok(task) = Task::decode(data) {
        assert_eq!(Task::decode(&task.encode()), Ok(task));
    }
    if let Some(value) = data.first_chunk() {
        let value = i32::from_le_bytes(*value);
        assert!(Order::decode(value).is_none_or(|order| Order::decode(order.encode()) == Some(order)));
    }
    let _ = serde_json::from_slice::<Record>(data);
    let _ = serde_json::from_slice::<Running>(data);
    if let Ok(exit) = serde_json::from_slice::<ExitRecord>(data) {
        let _ = gpund::ledger::ended(&exit, None);
    }
}
