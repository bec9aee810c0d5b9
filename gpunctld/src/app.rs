//! What the log's entries mean: the cluster's state behind the store's `Apply`.

use gpun_core::{
    Entry, Outcome, Refusal, State,
    mirror::{MirrorSink, Table},
};
use gpun_raft_store::{Apply, BoxError, MirrorBatch, MirrorRead};

/// The state machine of the controller.
#[derive(Default)]
pub struct App {
    state: State,
}

struct Sink<'a>(&'a mut MirrorBatch);

impl MirrorSink for Sink<'_> {
    fn put(&mut self, table: Table, key: &[u8], value: Vec<u8>) {
        self.0.put(table as u8, key, value);
    }

    fn delete(&mut self, table: Table, key: &[u8]) {
        self.0.delete(table as u8, key);
    }
}

impl Apply for App {
    type Response = Vec<Outcome>;
    type View = State;

    fn load(&mut self, mirror: &dyn MirrorRead) -> Result<(), BoxError> {
        let mut state = State::default();
        for table in Table::LOADED {
            let mut broken = None;
            mirror.scan_all(table as u8, &mut |key, value| {
                broken = state.load_record(table, key, value).err();
                broken.is_none()
            })?;
            if let Some(error) = broken {
                return Err(error.into());
            }
        }
        state.index();
        state.check()?;
        self.state = state;
        Ok(())
    }

    fn apply(&mut self, index: u64, entry: &[u8], mirror: &mut MirrorBatch) -> Vec<Outcome> {
        match gpun_core::mirror::decode::<Entry>(entry) {
            Ok(entry) => self.state.apply(entry, &mut Sink(mirror)),
            Err(error) => {
                // Every member comes to the same answer, so the log stays in step; the proposer sees the refusal.
                tracing::error!(index, %error, "an entry of the log can't be read");
                vec![Outcome::Refused(Refusal::Invalid { what: "the entry".to_owned() })]
            }
        }
    }

    fn view(&self) -> State {
        self.state.clone()
    }
}
