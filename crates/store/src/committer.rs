//! The commit thread: commits accepted transactions in groups, then publishes and acknowledges them.
//!
//! # Guarantees
//!
//! - Nothing is published before it is durable, and nothing acknowledged before it is published (except relaxed writes).
//! - A failed commit also fails every write accepted since, because those were prepared against it. Reads continue.
//! - A transaction is never split between commits.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use muster_api::time::Time;
use muster_tree::Text;

use crate::disk::Base;
use crate::head::Transaction;
use crate::store::{Shared, resources};
use crate::{Key, StoredObject, WriteError};

/// Number of records after which a commit takes no further transaction.
const COMMIT_RECORDS_MAX: usize = 1000;
/// Sync interval of relaxed commits.
const SYNC_EVERY: Duration = Duration::from_millis(100);
/// Longest sleep of an idle thread when every commit is synced; a write wakes it.
const IDLE: Duration = Duration::from_secs(3600);
/// Estimated bytes after which a commit takes no further transaction.
const COMMIT_BYTES_MAX: usize = 16 << 20;

/// Owner of the commit thread; stops it when the last store handle is dropped.
pub(crate) struct Committer {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Committer {
    /// Starts the commit thread of a durable store.
    pub(crate) fn start(shared: Arc<Shared>) -> std::io::Result<Self> {
        let its = shared.clone();
        let thread = thread::Builder::new().name("muster-commit".to_owned()).spawn(move || run(&its))?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Rejects further writes, commits the accepted ones, and closes the file.
    pub(crate) fn close(&self) {
        self.shared.head().closed = true;
        self.shared.accepted.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A reply may drop the last handle on the commit thread itself; joining it there would deadlock, and it stops anyway.
        if let Some(thread) = thread.filter(|t| t.thread().id() != thread::current().id()) {
            let ended = thread.join();
            debug_assert!(ended.is_ok(), "the commit thread panicked");
        }
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.close();
    }
}

fn run(shared: &Shared) {
    let mut synced = shared.clock.now();
    while let Some(batch) = next_batch(shared) {
        if !batch.is_empty() {
            commit(shared, batch);
        }
        let now = shared.clock.now();
        if now.since(synced) >= SYNC_EVERY {
            sync(shared);
            synced = now;
        }
    }
    sync(shared);
    *shared.disk() = None;
}

/// The transactions of the next commit; empty when only a sync is due, `None` when the store is closed.
fn next_batch(shared: &Shared) -> Option<Vec<Transaction>> {
    let mut head = shared.head();
    if head.queue.is_empty() && !head.closed {
        let idle = |head: &mut crate::head::Head| head.queue.is_empty() && !head.closed;
        let at_most = if shared.is_relaxed { SYNC_EVERY } else { IDLE };
        let waited = shared.accepted.wait_timeout_while(head, at_most, idle);
        head = waited.expect("staging does not panic").0;
    }
    if head.queue.is_empty() && head.closed {
        return None;
    }
    let mut batch = Vec::new();
    let (mut records, mut bytes) = (0, 0);
    while records < COMMIT_RECORDS_MAX
        && bytes < COMMIT_BYTES_MAX
        && let Some(transaction) = head.queue.pop_front()
    {
        records += transaction.records.len();
        bytes += transaction.records.iter().map(|staged| staged.bytes).sum::<usize>();
        batch.push(transaction);
    }
    Some(batch)
}

fn commit(shared: &Shared, batch: Vec<Transaction>) {
    let now = shared.clock.now();
    let done = {
        let records: Vec<_> = batch.iter().flat_map(|transaction| &transaction.records).collect();
        let mut disk = shared.disk();
        let disk = disk.as_mut().expect("the file is open until the thread ends");
        let done = disk.commit(&records, now, &Published(shared));
        shared.note_bytes(disk.bytes());
        done
    };
    match done {
        Ok(()) => publish(shared, batch, now),
        Err(error) => fail(shared, batch, &WriteError::Disk(error.to_string())),
    }
}

fn publish(shared: &Shared, batch: Vec<Transaction>, now: Time) {
    let mut replies = Vec::new();
    let changed = {
        let mut head = shared.head();
        let mut state = shared.state_mut();
        let mut all = Vec::new();
        for mut transaction in batch {
            if let Some(reply) = transaction.reply.take() {
                replies.push((reply, transaction.objects()));
            }
            all.append(&mut transaction.records);
        }
        let reached = all.last().map_or(0, |staged| staged.record.revision);
        // In the same critical section as the publication: a writer finds a state either pending or published.
        head.release(all.iter().map(|staged| &staged.record.key), reached);
        let changed = resources(&all);
        state.publish(all, now);
        changed
    };
    // After the locks are released: listeners read the state at once, and replies may write.
    shared.publish_done(&changed);
    for (reply, objects) in replies {
        reply(Ok(objects));
    }
}

fn fail(shared: &Shared, batch: Vec<Transaction>, error: &WriteError) {
    let later = {
        let mut head = shared.head();
        let published = shared.state().revision();
        // Queued transactions were staged on top of the failed ones, so they cannot be committed either.
        head.drop_tail(published)
    };
    for reply in batch.into_iter().chain(later).filter_map(|transaction| transaction.reply) {
        reply(Err(error.clone()));
    }
}

fn sync(shared: &Shared) {
    if let Some(disk) = shared.disk().as_mut() {
        // On failure the next commit reopens the file and rewrites what was not synced.
        let _ = disk.sync();
    }
}

/// The published state as the source of a snapshot.
pub(crate) struct Published<'a>(pub(crate) &'a Shared);

impl Base for Published<'_> {
    fn objects_after(&self, after: Option<&Key>, max: usize) -> Vec<(Key, StoredObject)> {
        self.0.state().objects_after(after, max)
    }

    fn revision(&self) -> u64 {
        self.0.state().revision()
    }

    fn newest(&self) -> Vec<(Text, u64)> {
        let state = self.0.state();
        state.shelves().iter().map(|(resource, shelf)| (resource.clone(), shelf.ring.newest())).collect()
    }
}
