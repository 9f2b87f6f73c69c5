//! A watcher's place in the history of its resource.
//!
//! There is no queue per watcher: a slow one costs nothing and is told when the history went past it.

use std::sync::Arc;

use event_listener::EventListener;
use muster_tree::Text;

use crate::store::Shared;
use crate::{Expired, Record};

/// A place in the history of one resource.
pub struct Cursor {
    shared: Arc<Shared>,
    resource: Text,
    revision: u64,
}

impl Cursor {
    pub(crate) fn new(shared: Arc<Shared>, resource: &str, revision: u64) -> Result<Self, Expired> {
        // Looks without taking anything: says at once when `revision` is too old.
        shared.state().changes(resource, revision, 0)?;
        Ok(Self { shared, resource: Text::from(resource), revision })
    }

    /// The next changes in revision order, at most `max`; none when all published ones were delivered.
    pub fn next(&mut self, max: usize) -> Result<Vec<Record>, Expired> {
        let (records, reached) = self.shared.state().changes(&self.resource, self.revision, max)?;
        self.revision = reached;
        Ok(records)
    }

    /// Whether [`Cursor::next`] has something to say.
    #[must_use]
    pub fn has_news(&self) -> bool {
        let next = self.shared.state().changes(&self.resource, self.revision, 1);
        next.map_or(true, |(records, _)| !records.is_empty())
    }

    /// Wakes up when the resource changes. Take it, look for news, and only then wait.
    #[must_use]
    pub fn listen(&self) -> EventListener {
        self.shared.listen_to(&self.resource)
    }

    /// Everything of the resource up to here was delivered.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }
}
