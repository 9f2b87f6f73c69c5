//! Watch cursors: a position in the history of one resource.
//!
//! There is no buffer per watcher: a slow watcher costs no memory and gets [`Expired`] once the history has moved past it.

use std::sync::Arc;

use event_listener::EventListener;
use muster_tree::Text;

use crate::store::Shared;
use crate::{Expired, Record};

/// A position in the watch history of one resource.
pub struct Cursor {
    shared: Arc<Shared>,
    resource: Text,
    revision: u64,
}

impl Cursor {
    pub(crate) fn new(shared: Arc<Shared>, resource: &str, revision: u64) -> Result<Self, Expired> {
        // Fails at once if `revision` is too old, instead of at the first call of `next`.
        shared.state().changes(resource, revision, 0)?;
        Ok(Self { shared, resource: Text::from(resource), revision })
    }

    /// The next changes in revision order, at most `max`; empty if all published changes were delivered.
    pub fn next(&mut self, max: usize) -> Result<Vec<Record>, Expired> {
        let (records, reached) = self.shared.state().changes(&self.resource, self.revision, max)?;
        self.revision = reached;
        Ok(records)
    }

    /// Returns whether [`Cursor::next`] would return changes or an error.
    #[must_use]
    pub fn has_news(&self) -> bool {
        let next = self.shared.state().changes(&self.resource, self.revision, 1);
        next.map_or(true, |(records, _)| !records.is_empty())
    }

    /// A listener for the next change of the resource. Create it, check [`Cursor::has_news`], then wait: in another order
    /// a change between the check and the wait would be missed.
    #[must_use]
    pub fn listen(&self) -> EventListener {
        self.shared.listen_to(&self.resource)
    }

    /// Every change of the resource up to this revision was delivered.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }
}
