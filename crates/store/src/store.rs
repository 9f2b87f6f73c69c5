//! The handle: what the rest of Muster calls.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use event_listener::{Event, EventListener};
use muster_api::ports::Clock;

use crate::cursor::Cursor;
use crate::head::{Head, Prepared, Reply, Transaction};
use crate::share::Shelter;
use crate::state::State;
use crate::{Durability, Expired, Key, Object, Page, Range, StoreOptions, Write, WriteError};

/// A store; cloning it makes another handle to the same one.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

/// What all handles, cursors and the commit thread share.
///
/// Locks are taken in the order of the fields, and a reply is never called under one.
pub(crate) struct Shared {
    pub(crate) shelter: Mutex<Shelter>,
    pub(crate) head: Mutex<Head>,
    state: RwLock<State>,
    meta: Mutex<BTreeMap<String, Vec<u8>>>,
    pub(crate) published: Event,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Store {
    /// An empty store that keeps nothing on disk.
    #[must_use]
    pub fn in_memory(options: StoreOptions, clock: Arc<dyn Clock>) -> Store {
        let state = State::new(options, clock.now());
        Store { shared: Arc::new(Shared::new(state, BTreeMap::new(), clock)) }
    }

    /// Takes `writes` as one transaction, all or none, and calls `reply` exactly once with the objects as stored.
    ///
    /// An overtaken write is answered at once. In memory everything is; on disk, the reply comes from the commit
    /// thread when the transaction is durable and visible, or at once for [`Durability::Relaxed`].
    pub fn accept(
        &self,
        writes: Vec<Write>,
        durability: Durability,
        reply: Box<dyn FnOnce(Result<Vec<Object>, WriteError>) + Send>,
    ) {
        let prepared = self.shared.prepare(writes);
        self.shared.accept_in_memory(prepared, durability, reply);
    }

    /// The newest state of a key, durable or not: what writers prepare against.
    #[must_use]
    pub fn newest(&self, key: &Key) -> Option<Object> {
        let head = self.shared.head();
        head.newest(key, &self.shared.state())
    }

    /// The published state of a key.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Object> {
        self.shared.state().get(key).cloned()
    }

    /// A consistent part of a resource, of now or of an earlier revision.
    ///
    /// A revision above the published one reads as the published one: whoever must wait for it does so before.
    pub fn list(&self, resource: &str, range: &Range) -> Result<Page, Expired> {
        self.shared.state().list(resource, range)
    }

    /// The published revision: everything up to it can be read and watched.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.shared.state().revision()
    }

    /// A cursor that delivers every change of `resource` after revision `from`.
    pub fn watch(&self, resource: &str, from: u64) -> Result<Cursor, Expired> {
        Cursor::new(self.shared.clone(), resource, from)
    }

    /// Wakes up at the next publication. Take it, look (cursors, `revision`), and only then wait.
    #[must_use]
    pub fn listen(&self) -> EventListener {
        self.shared.published.listen()
    }

    /// Forgets all history up to the published revision: older cursors and exact reads expire.
    ///
    /// The bounds of [`StoreOptions`] are kept without this, at every commit.
    pub fn compact(&self) {
        let mut state = self.shared.state_mut();
        let revision = state.revision();
        state.compact(revision);
    }

    /// A small value kept beside the objects.
    #[must_use]
    pub fn meta_get(&self, name: &str) -> Option<Vec<u8>> {
        self.shared.meta().get(name).cloned()
    }

    /// Keeps a small value beside the objects; durable when this returns.
    pub fn meta_put(&self, name: &str, bytes: &[u8]) -> Result<(), WriteError> {
        self.shared.meta().insert(name.to_owned(), bytes.to_vec());
        Ok(())
    }
}

impl Shared {
    pub(crate) fn new(state: State, meta: BTreeMap<String, Vec<u8>>, clock: Arc<dyn Clock>) -> Self {
        Self {
            shelter: Mutex::default(),
            head: Mutex::new(Head::over(state.revision())),
            state: RwLock::new(state),
            meta: Mutex::new(meta),
            published: Event::new(),
            clock,
        }
    }

    fn prepare(&self, writes: Vec<Write>) -> Vec<Prepared> {
        let mut shelter = self.shelter.lock().expect("sharing does not panic");
        writes.into_iter().map(|write| shelter.prepare(write)).collect()
    }

    fn accept_in_memory(&self, writes: Vec<Prepared>, _: Durability, reply: Reply) {
        let done = {
            let mut head = self.head();
            let mut state = self.state_mut();
            head.stage(writes, &state).map(|records| {
                let transaction = Transaction { records, reply: None };
                let objects = transaction.objects();
                state.publish(transaction.records, self.clock.now());
                objects
            })
        };
        if done.is_ok() {
            self.published.notify(usize::MAX);
        }
        reply(done);
    }

    pub(crate) fn head(&self) -> MutexGuard<'_, Head> {
        self.head.lock().expect("staging does not panic")
    }

    pub(crate) fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().expect("publishing does not panic")
    }

    pub(crate) fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().expect("publishing does not panic")
    }

    fn meta(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.meta.lock().expect("a map does not panic")
    }
}
