//! The handle: what the rest of Muster calls.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use event_listener::{Event, EventListener};
use muster_api::ports::Clock;
use muster_tree::Text;

use crate::committer::{Committer, Published};
use crate::cursor::Cursor;
use crate::disk::{Disk, DiskFaults};
use crate::head::{Head, Prepared, Reply, Transaction};
use crate::ring::Staged;
use crate::share::Shelter;
use crate::state::State;
use crate::{
    Change, Durability, Expired, Key, Object, OpenError, Page, Range, StoreOptions, SyncMode, Write,
    WriteError,
};

/// A store; cloning it makes another handle to the same one. A durable store is closed with its last handle.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
    /// None in memory.
    committer: Option<Arc<Committer>>,
}

/// What all handles, cursors and the commit thread share.
///
/// Locks are taken in the order of the fields, and a reply is never called under one.
pub(crate) struct Shared {
    shelter: Mutex<Shelter>,
    disk: Mutex<Option<Disk>>,
    head: Mutex<Head>,
    state: RwLock<State>,
    meta: Mutex<BTreeMap<String, Vec<u8>>>,
    /// Something waits for the next commit.
    pub(crate) accepted: Condvar,
    published: Event,
    /// The same for each resource that somebody waits for.
    published_of: RwLock<BTreeMap<Text, Arc<Event>>>,
    disk_bytes: AtomicU64,
    disk_bytes_max: u64,
    /// Whether commits are forced to the disk now and then only.
    pub(crate) is_relaxed: bool,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Store {
    /// An empty store that keeps nothing on disk.
    #[must_use]
    pub fn in_memory(options: StoreOptions, clock: Arc<dyn Clock>) -> Store {
        let shared = Shared::new(options, clock);
        Store { shared: Arc::new(shared), committer: None }
    }

    /// Opens the store in a data directory, which is made if need be, with everything that was committed there.
    pub fn open(directory: &Path, options: StoreOptions, clock: Arc<dyn Clock>) -> Result<Store, OpenError> {
        Store::open_on(directory, options, clock, None)
    }

    /// As [`Store::open`], on a disk that fails when told to.
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
        if writes.is_empty() {
            return reply(Ok(Vec::new()));
        }
        if let Some(full) = self.shared.full_for(&writes) {
            return reply(Err(full));
        }
        let prepared = self.shared.prepare(writes);
        match &self.committer {
            None => self.shared.accept_in_memory(prepared, reply),
            Some(_) => self.shared.accept_durable(prepared, durability, reply),
        }
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

    /// Wakes up at the next publication of anything. Take it, look (`revision`), and only then wait; whoever follows
    /// one resource asks its [`Cursor`] instead.
    #[must_use]
    pub fn listen(&self) -> EventListener {
        self.shared.published.listen()
    }

    /// Forgets all history up to the published revision: older cursors and exact reads expire, also after a restart.
    ///
    /// The bounds of [`StoreOptions`] are kept without this, at every commit.
    pub fn compact(&self) {
        let revision = self.revision();
        if let Some(disk) = self.shared.disk().as_mut() {
            // If the disk fails, a restart brings back some history: nobody is worse off.
            let _ = disk.put_compacted(revision, &Published(&self.shared));
        }
        self.shared.state_mut().compact(revision);
    }

    /// A small value kept beside the objects.
    #[must_use]
    pub fn meta_get(&self, name: &str) -> Option<Vec<u8>> {
        self.shared.meta().get(name).cloned()
    }

    /// Keeps a small value beside the objects; durable when this returns.
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

    /// Bytes on disk that a start would read; 0 in memory.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        self.shared.disk_bytes.load(Ordering::Relaxed)
    }

    /// Commits what was accepted, then gives the data directory back. Reads go on, writes are refused.
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

    /// At the size limit only deletes are taken.
    fn full_for(&self, writes: &[Write]) -> Option<WriteError> {
        let (bytes, max) = (self.disk_bytes.load(Ordering::Relaxed), self.disk_bytes_max);
        let grows = || writes.iter().any(|write| matches!(write.change, Change::Put(_)));
        (bytes > max && grows()).then_some(WriteError::Full { bytes, max })
    }

    fn prepare(&self, writes: Vec<Write>) -> Vec<Prepared> {
        let mut shelter = self.shelter.lock().expect("sharing does not panic");
        writes.into_iter().map(|write| shelter.prepare(write)).collect()
    }

    fn accept_in_memory(&self, writes: Vec<Prepared>, reply: Reply) {
        let done = {
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

    /// Puts a transaction into the queue; gives the reply back where it is known already.
    fn enqueue(
        &self,
        writes: Vec<Prepared>,
        durability: Durability,
        reply: Reply,
    ) -> Option<(Reply, Result<Vec<Object>, WriteError>)> {
        let mut head = self.head();
        if head.closed {
            return Some((reply, Err(closed())));
        }
        let staged = head.stage(writes, &self.state());
        let records = match staged {
            Ok(records) => records,
            Err(overtaken) => return Some((reply, Err(overtaken))),
        };
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
        drop(head);
        self.accepted.notify_one();
        answer
    }

    /// Wakes everybody who waits for a publication of one of these resources, or of anything.
    pub(crate) fn publish_done(&self, resources: &BTreeSet<Text>) {
        self.published.notify(usize::MAX);
        let events = self.published_of.read().expect("a map does not panic");
        for event in resources.iter().filter_map(|resource| events.get(resource)) {
            event.notify(usize::MAX);
        }
    }

    /// Wakes up at the next publication of a resource.
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

/// Which resources a publication changes.
pub(crate) fn resources(records: &[Staged]) -> BTreeSet<Text> {
    records.iter().map(|staged| staged.record.key.resource.clone()).collect()
}

fn closed() -> WriteError {
    WriteError::Disk("the store is closed".to_owned())
}
