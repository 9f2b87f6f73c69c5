//! A watch of a kind over HTTP.
//!
//! A task reads the watch and queues batches; the control loop drains them. When they are not drained, the task stops reading
//! and the server ends the watch by its own limits.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt;
use kube::Client;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use muster_api::client::{Kind, WatchBatch, WatchChange, Watcher};
use muster_tree::Sharing;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::dynamic_object::{DynamicObject, api_resource};
use crate::error_chain;
use crate::projection::{ListBuilder, Projection};
use crate::watch_backoff::{RetryBackoff, with_watch_backoff};

/// The most events in a batch.
const EVENTS_AT_ONCE_MAX: usize = 1_000;
/// The most batches that wait to be drained.
const BATCHES_WAITING_MAX: usize = 16;

/// Which objects of a kind are watched, and how much of them is kept.
#[derive(Default)]
pub struct WatchScope<'a> {
    /// One namespace, or all.
    pub namespace: Option<&'a str>,
    /// One object, or all.
    pub name: Option<&'a str>,
    pub share: Projection,
}

pub fn start(
    runtime: &Handle,
    client: Client,
    kind: &Kind,
    which: &WatchScope<'_>,
    sharing: Arc<Mutex<Sharing>>,
) -> KubeWatcher {
    // The control loop calls from a thread outside the async runtime; kube's client needs one to be built.
    let inside = runtime.enter();
    let client = with_watch_backoff(client, which.share);
    drop(inside);
    let api = match which.namespace {
        Some(namespace) => {
            kube::Api::<DynamicObject>::namespaced_with(client, namespace, &api_resource(kind))
        }
        None => kube::Api::<DynamicObject>::all_with(client, &api_resource(kind)),
    };
    let queue = Arc::new(BatchQueue::default());
    let all = watcher::Config::default();
    let config = which.name.map_or(all.clone(), |name| all.fields(&format!("metadata.name={name}")));
    let builder = BatchBuilder { share: which.share, ..BatchBuilder::default() };
    let task = runtime.spawn(read(api, config, kind.clone(), builder, sharing, queue.clone()));
    KubeWatcher { queue, task: task.abort_handle() }
}

/// The receiving end of a watch. Dropping it ends the watch.
pub struct KubeWatcher {
    queue: Arc<BatchQueue>,
    task: AbortHandle,
}

impl Drop for KubeWatcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Watcher for KubeWatcher {
    fn try_next(&mut self) -> Option<WatchBatch> {
        let batch = self.queue.lock().batches.pop_front();
        if batch.is_some() {
            self.queue.room.notify_one();
        }
        batch
    }

    fn notify_when_ready(&mut self, wake: Box<dyn FnOnce() + Send>) {
        let mut waiting = self.queue.lock();
        if waiting.batches.is_empty() {
            waiting.wake = Some(wake);
        } else {
            drop(waiting);
            wake();
        }
    }
}

#[derive(Default)]
struct BatchQueue {
    waiting: Mutex<QueuedBatches>,
    room: Notify,
}

#[derive(Default)]
struct QueuedBatches {
    batches: VecDeque<WatchBatch>,
    wake: Option<Box<dyn FnOnce() + Send>>,
}

impl BatchQueue {
    fn lock(&self) -> MutexGuard<'_, QueuedBatches> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn put(&self, batch: WatchBatch) {
        while self.lock().batches.len() >= BATCHES_WAITING_MAX {
            self.room.notified().await;
        }
        let wake = {
            let mut waiting = self.lock();
            waiting.batches.push_back(batch);
            waiting.wake.take()
        };
        if let Some(wake) = wake {
            wake();
        }
    }
}

async fn read(
    api: kube::Api<DynamicObject>,
    config: watcher::Config,
    kind: Kind,
    mut builder: BatchBuilder,
    sharing: Arc<Mutex<Sharing>>,
    queue: Arc<BatchQueue>,
) {
    let events = watcher(api, config).backoff(RetryBackoff::default()).ready_chunks(EVENTS_AT_ONCE_MAX);
    let mut events = pin!(events);
    while let Some(chunk) = events.next().await {
        for event in chunk {
            match event {
                Ok(event) => builder.event(event, &sharing),
                Err(error) => builder.error(&kind, &error),
            }
        }
        for batch in builder.take() {
            queue.put(batch).await;
        }
    }
}

/// Turns watcher events into batches.
#[derive(Default)]
struct BatchBuilder {
    share: Projection,
    ready: Vec<WatchBatch>,
    listing: ListBuilder,
    reported_absent: bool,
}

impl BatchBuilder {
    fn event(&mut self, event: Event<DynamicObject>, sharing: &Mutex<Sharing>) {
        match event {
            Event::Init => self.listing = ListBuilder::default(),
            Event::InitApply(held) => self.listing.add(self.share, held.shared(sharing)),
            Event::InitDone => {
                self.reported_absent = false;
                self.ready.push(WatchBatch::Restarted(std::mem::take(&mut self.listing).finish()));
            }
            Event::Apply(held) => self.change(WatchChange::Applied(held.shared(sharing))),
            Event::Delete(held) => self.change(WatchChange::Deleted(held.shared(sharing))),
        }
    }

    fn change(&mut self, change: WatchChange) {
        if let Some(WatchBatch::Changes(changes)) = self.ready.last_mut() {
            changes.push(change);
        } else {
            self.ready.push(WatchBatch::Changes(vec![change]));
        }
    }

    /// kube's watcher retries by itself. A kind that is not served has no objects: an empty list is reported once.
    fn error(&mut self, kind: &Kind, error: &watcher::Error) {
        if is_absent(error) {
            if !std::mem::replace(&mut self.reported_absent, true) {
                self.ready.push(WatchBatch::Restarted(Vec::new()));
            }
            return;
        }
        tracing::warn!(group = %kind.group, plural = %kind.plural, error = error_chain(error), "watch interrupted");
    }

    fn take(&mut self) -> Vec<WatchBatch> {
        std::mem::take(&mut self.ready)
    }
}

fn is_absent(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code == 404,
        _ => false,
    }
}
