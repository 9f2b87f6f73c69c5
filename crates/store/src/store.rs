//! The handle of a store: the public operations, and the state shared with cursors and the commit thread.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use event_listener::{Event, EventListener};
use muster_api::environment::Clock;
use muster_tree::Text;

use crate::committer::{Committer, Published};
use crate::cursor::Cursor;
use crate::disk::{Disk, DiskFaults};
use crate::head::{Head, Prepared, Reply, Transaction};
use crate::ring::Staged;
use crate::share::Interner;
use crate::state::State;
use crate::{
    Durability, Expired, Key, Mutation, OpenError, Page, Range, StoreOptions, StoredObject, SyncMode, Write,
    WriteError,
};

/// A handle of a store; clones share it. A durable store is closed when its last handle is dropped.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
    /// `None` for a store in memory.
    committer: Option<Arc<Committer>>,
}

/// The state shared by handles, cursors and the commit thread.
///
/// Locks are acquired in field order, and a reply is never called while one is held: replies may call the store.
pub(crate) struct Shared {
    shelter: Mutex<Interner>,
    disk: Mutex<Option<Disk>>,
    head: Mutex<Head>,
    state: RwLock<State>,
    meta: Mutex<BTreeMap<String, Vec<u8>>>,
    /// Signals the commit thread that transactions are queued.
    pub(crate) accepted: Condvar,
    published: Event,
    /// Publication events per resource, for resources with waiting watchers.
    published_of: RwLock<BTreeMap<Text, Arc<Event>>>,
    disk_bytes: AtomicU64,
    disk_bytes_max: u64,
    /// Commits are synced periodically ([`SyncMode::Relaxed`]).
    pub(crate) is_relaxed: bool,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Store {
    /// Creates an empty store without a disk.
    #[must_use]
    pub fn in_memory(options: StoreOptions, clock: Arc<dyn Clock>) -> Store {
        let shared = Shared::new(options, clock);
        Store { shared: Arc::new(shared), committer: None }
    }

    /// Opens the store in a data directory with all its committed writes; creates the directory if it is missing.
    pub fn open(directory: &Path, options: StoreOptions, clock: Arc<dyn Clock>) -> Result<Store, OpenError> {
        Store::open_on(directory, options, clock, None)
    }

    /// As [`Store::open`], with injected disk faults.
    pub fn open_faulty(
        directory: &Path,
        options: StoreOptions,
        clock: Arc<dyn Clock>,
        faults: Arc<dyn DiskFaults>,
    ) -> Result<Store, OpenError> {
        Store::open_on(directory, options, clock, Some(faults))
    }

    fn open_on(
        directory: &Path,
        options: StoreOptions,
        clock: Arc<dyn Clock>,
        faults: Option<Arc<dyn DiskFaults>>,
    ) -> Result<Store, OpenError> {
        let disk = Disk::open(directory, options.clone(), faults)?;
        let mut shared = Shared::new(options, clock);
        shared.load(disk)?;
        let shared = Arc::new(shared);
        let io = |source| OpenError::Io { action: "start a thread for", path: directory.to_owned(), source };
        let committer = Some(Arc::new(Committer::start(shared.clone()).map_err(io)?));
        Ok(Store { shared, committer })
    }

    /// Accepts `writes` as one all-or-nothing transaction, and calls `reply` exactly once with the objects as stored.
    ///
    /// A conflict is reported at once, and in memory every result is. On disk, the commit thread replies when the
    /// transaction is durable and visible; [`Durability::Relaxed`] replies at once.
    pub fn accept(
        &self,
        writes: Vec<Write>,
        durability: Durability,
        reply: Box<dyn FnOnce(Result<Vec<StoredObject>, WriteError>) + Send>,
    ) {
        if writes.is_empty() {
            return reply(Ok(Vec::new()));
        }
        // Checked before preparing: a full store must not intern objects that it then rejects.
        if let Some(full) = self.shared.full_for(&writes) {
            return reply(Err(full));
        }
        // Interning takes its own lock, so that it does not lengthen the critical section of the head.
        let prepared = self.shared.prepare(writes);
        match &self.committer {
            None => self.shared.accept_in_memory(prepared, reply),
            Some(_) => self.shared.accept_durable(prepared, durability, reply),
        }
    }

    /// The newest state of a key, durable or not, which writes are prepared against.
    #[must_use]
    pub fn newest(&self, key: &Key) -> Option<StoredObject> {
        let head = self.shared.head();
        head.newest(key, &self.shared.state())
    }

    /// The published state of a key: what clients read.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<StoredObject> {
        self.shared.state().get(key).cloned()
    }

    /// Lists a resource consistently at the published or an earlier revision.
    ///
    /// A revision above the published one reads the published one; a caller that needs it waits for it first.
    pub fn list(&self, resource: &str, range: &Range) -> Result<Page, Expired> {
        self.shared.state().list(resource, range)
    }

    /// The published revision: every write up to it can be read and watched.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.shared.state().revision()
    }

    /// Creates a cursor over the changes of `resource` after revision `from`.
    pub fn watch(&self, resource: &str, from: u64) -> Result<Cursor, Expired> {
        Cursor::new(self.shared.clone(), resource, from)
    }

    /// A listener for the next publication of any resource. Create it, check [`Store::revision`], then wait. To follow one
    /// resource, use [`Cursor::listen`].
    #[must_use]
    pub fn listen(&self) -> EventListener {
        self.shared.published.listen()
    }

    /// Compacts the history up to the published revision: older cursors and exact reads expire, also after a restart.
    ///
    /// The limits of [`StoreOptions`] are enforced at every commit, without this.
    pub fn compact(&self) {
        let revision = self.revision();
        if let Some(disk) = self.shared.disk().as_mut() {
            // If the write fails, a restart restores some history, which is harmless.
            let _ = disk.put_compacted(revision, &Published(&self.shared));
        }
        self.shared.state_mut().compact(revision);
    }

    /// Reads a small value that is stored beside the objects, for example a signing key.
    #[must_use]
    pub fn meta_get(&self, name: &str) -> Option<Vec<u8>> {
        self.shared.meta().get(name).cloned()
    }

    /// Stores a small value beside the objects; it is durable when this returns.
    pub fn meta_put(&self, name: &str, bytes: &[u8]) -> Result<(), WriteError> {
        if self.committer.is_some() {
            let mut disk = self.shared.disk();
            let disk = disk.as_mut().ok_or_else(closed)?;
            let done = disk.put_other(name, bytes, &Published(&self.shared));
            done.map_err(|error| WriteError::Disk(error.to_string()))?;
        }
        self.shared.meta().insert(name.to_owned(), bytes.to_vec());
        Ok(())
    }

    /// Bytes on disk that opening the store would read; 0 in memory.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        self.shared.disk_bytes.load(Ordering::Relaxed)
    }

    /// Commits accepted writes, then releases the data directory. Reads continue, further writes are rejected.
    pub fn close(&self) {
        if let Some(committer) = &self.committer {
            committer.close();
        }
    }
}

impl Shared {
    fn new(options: StoreOptions, clock: Arc<dyn Clock>) -> Self {
        Self {
            shelter: Mutex::default(),
            disk: Mutex::new(None),
            head: Mutex::new(Head::over(0)),
            disk_bytes_max: options.store_bytes_max,
            is_relaxed: options.sync == SyncMode::Relaxed,
            state: RwLock::new(State::new(options, clock.now())),
            meta: Mutex::default(),
            accepted: Condvar::new(),
            published: Event::new(),
            published_of: RwLock::default(),
            disk_bytes: AtomicU64::new(0),
            clock,
        }
    }

    fn load(&mut self, disk: Disk) -> Result<(), OpenError> {
        let shelter = self.shelter.get_mut().expect("nobody else has it yet");
        let state = self.state.get_mut().expect("nobody else has it yet");
        disk.load(state, shelter)?;
        *self.head.get_mut().expect("nobody else has it yet") = Head::over(state.revision());
        *self.meta.get_mut().expect("nobody else has it yet") = disk.others()?;
        self.note_bytes(disk.bytes());
        self.disk = Mutex::new(Some(disk));
        Ok(())
    }

    /// Rejects writes other than deletes when the size limit is reached.
    fn full_for(&self, writes: &[Write]) -> Option<WriteError> {
        let (bytes, max) = (self.disk_bytes.load(Ordering::Relaxed), self.disk_bytes_max);
        let grows = || writes.iter().any(|write| matches!(write.change, Mutation::Put(_)));
        (bytes > max && grows()).then_some(WriteError::Full { bytes, max })
    }

    fn prepare(&self, writes: Vec<Write>) -> Vec<Prepared> {
        let mut shelter = self.shelter.lock().expect("sharing does not panic");
        writes.into_iter().map(|write| shelter.prepare(write)).collect()
    }

    fn accept_in_memory(&self, writes: Vec<Prepared>, reply: Reply) {
        let done = {
            // Head before state, the documented lock order.
            let mut head = self.head();
            let mut state = self.state_mut();
            head.stage(writes, &state).map(|records| {
                let transaction = Transaction { records, reply: None };
                let (objects, resources) = (transaction.objects(), resources(&transaction.records));
                state.publish(transaction.records, self.clock.now());
                (objects, resources)
            })
        };
        if let Ok((_, resources)) = &done {
            self.publish_done(resources);
        }
        reply(done.map(|(objects, _)| objects));
    }

    fn accept_durable(&self, writes: Vec<Prepared>, durability: Durability, reply: Reply) {
        if let Some((reply, answer)) = self.enqueue(writes, durability, reply) {
            reply(answer);
        }
    }

    /// Queues a transaction; returns the reply with its result if that is known already.
    fn enqueue(
        &self,
        writes: Vec<Prepared>,
        durability: Durability,
        reply: Reply,
    ) -> Option<(Reply, Result<Vec<StoredObject>, WriteError>)> {
        let mut head = self.head();
        if head.closed {
            return Some((reply, Err(closed())));
        }
        let staged = head.stage(writes, &self.state());
        let records = match staged {
            Ok(records) => records,
            Err(overtaken) => return Some((reply, Err(overtaken))),
        };
        // From here on later writers see these states, although readers do not yet.
        head.hold(&records);
        let mut transaction = Transaction { records, reply: None };
        let answer = match durability {
            Durability::Wait => {
                transaction.reply = Some(reply);
                None
            }
            Durability::Relaxed => Some((reply, Ok(transaction.objects()))),
        };
        head.queue.push_back(transaction);
        // Unlock before notifying, so that the commit thread does not wake only to wait for the lock.
        drop(head);
        self.accepted.notify_one();
        answer
    }

    /// Notifies listeners of these resources and of any publication.
    pub(crate) fn publish_done(&self, resources: &BTreeSet<Text>) {
        self.published.notify(usize::MAX);
        let events = self.published_of.read().expect("a map does not panic");
        for event in resources.iter().filter_map(|resource| events.get(resource)) {
            event.notify(usize::MAX);
        }
    }

    /// A listener for the next publication of a resource.
    pub(crate) fn listen_to(&self, resource: &Text) -> EventListener {
        if let Some(event) = self.published_of.read().expect("a map does not panic").get(resource) {
            return event.listen();
        }
        let mut events = self.published_of.write().expect("a map does not panic");
        events.entry(resource.clone()).or_default().listen()
    }

    pub(crate) fn note_bytes(&self, bytes: u64) {
        self.disk_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn disk(&self) -> MutexGuard<'_, Option<Disk>> {
        self.disk.lock().expect("commits do not panic")
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

/// The resources that a publication changes.
pub(crate) fn resources(records: &[Staged]) -> BTreeSet<Text> {
    records.iter().map(|staged| staged.record.key.resource.clone()).collect()
}

fn closed() -> WriteError {
    WriteError::Disk("the store is closed".to_owned())
}
