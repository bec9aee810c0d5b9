//! What the log's entries mean: the application's side, and the thin wrapper that hides its types from the rest.

use std::any::Any;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::watch;

use crate::error::BoxError;
use crate::mirror::{MirrorBatch, MirrorRead};

/// What the log's entries mean. The controller implements it; this crate knows no job.
pub trait Apply: Send + Sync + 'static {
    /// What the proposer of an entry gets back.
    type Response: Send + Sync + 'static;

    /// An immutable view of the state, cheap to make and to clone (structurally shared), published after each batch of
    /// applied entries.
    type View: Clone + Send + Sync + 'static;

    /// Rebuilds the state from the mirror: at the start, and after a snapshot was installed. What was in memory before
    /// is forgotten.
    ///
    /// # Errors
    /// A record that cannot be read. The store does not open, or stops.
    fn load(&mut self, mirror: &dyn MirrorRead) -> Result<(), BoxError>;

    /// Applies the entry at `index`. It depends on nothing but the state and the entry: every member must come to the
    /// same result. Each change of a record that [`Apply::load`] reads goes into `mirror`. An entry that cannot be
    /// understood is answered as such, never with a panic: it would stop every member.
    fn apply(&mut self, index: u64, entry: &[u8], mirror: &mut MirrorBatch) -> Self::Response;

    /// The view of the state as it is now.
    fn view(&self) -> Self::View;
}

/// A view and the index of the last entry that it contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published<V> {
    /// The index of the last entry that is applied; 0 when nothing is.
    pub applied_index: u64,
    /// The view.
    pub view: V,
}

/// An application without its types: openraft's generic code is compiled once, in this crate.
pub(crate) trait ErasedApply: Send + Sync + 'static {
    fn load(&mut self, mirror: &dyn MirrorRead) -> Result<(), BoxError>;
    fn apply(&mut self, index: u64, entry: &[u8], mirror: &mut MirrorBatch) -> Box<dyn Any + Send + Sync>;
    fn publish(&mut self, applied_index: u64);
}

pub(crate) struct Publisher<A: Apply> {
    pub app: A,
    pub published: Arc<ArcSwap<Published<A::View>>>,
    pub applied: watch::Sender<u64>,
}

impl<A: Apply> ErasedApply for Publisher<A> {
    fn load(&mut self, mirror: &dyn MirrorRead) -> Result<(), BoxError> {
        self.app.load(mirror)
    }

    fn apply(&mut self, index: u64, entry: &[u8], mirror: &mut MirrorBatch) -> Box<dyn Any + Send + Sync> {
        Box::new(self.app.apply(index, entry, mirror))
    }

    fn publish(&mut self, applied_index: u64) {
        self.published.store(Arc::new(Published { applied_index, view: self.app.view() }));
        self.applied.send_replace(applied_index);
    }
}
