//! A kind that is followed over the network.
//!
//! A task reads the watch and puts batches into an inbox; the loop pulls them. When nobody pulls, the task stops
//! reading, and the server's own bounds take over.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt;
use kube::Client;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use muster_api::port::{Batch, Change, Follow, Kind};
use muster_tree::Sharing;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::held::{Held, named};
use crate::in_full;
use crate::pace::{Patience, paced};
use crate::share::{Listing, Share};

/// Events handed over at once.
const EVENTS_AT_ONCE_MAX: usize = 1_000;
/// Batches that may wait to be pulled.
const BATCHES_WAITING_MAX: usize = 16;

/// Which objects of a kind are followed, and how much of them is taken.
#[derive(Default)]
pub struct Which<'a> {
    /// In this namespace; in all when none is named.
    pub namespace: Option<&'a str>,
    /// Of this name; all when none is given.
    pub name: Option<&'a str>,
    /// How much of them.
    pub share: Share,
}

/// Starts following.
pub fn start(
    runtime: &Handle,
    client: Client,
    kind: &Kind,
    which: &Which<'_>,
    sharing: Arc<Mutex<Sharing>>,
) -> Following {
    // A loop calls from a thread of its own.
    let inside = runtime.enter();
    let client = paced(client, which.share);
    drop(inside);
    let api = match which.namespace {
        Some(namespace) => kube::Api::<Held>::namespaced_with(client, namespace, &named(kind)),
        None => kube::Api::<Held>::all_with(client, &named(kind)),
    };
    let inbox = Arc::new(Inbox::default());
    let all = watcher::Config::default();
    let config = which.name.map_or(all.clone(), |name| all.fields(&format!("metadata.name={name}")));
    let gather = Gather { share: which.share, ..Gather::default() };
    let task = runtime.spawn(read(api, config, kind.clone(), gather, sharing, inbox.clone()));
    Following { inbox, task: task.abort_handle() }
}

/// The end that is pulled.
pub struct Following {
    inbox: Arc<Inbox>,
    task: AbortHandle,
}

impl Drop for Following {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Follow for Following {
    fn pull(&mut self) -> Option<Batch> {
        let batch = self.inbox.lock().batches.pop_front();
        if batch.is_some() {
            self.inbox.room.notify_one();
        }
        batch
    }

    fn wake_when_ready(&mut self, wake: Box<dyn FnOnce() + Send>) {
        let mut waiting = self.inbox.lock();
        if waiting.batches.is_empty() {
            waiting.wake = Some(wake);
        } else {
            drop(waiting);
            wake();
        }
    }
}

#[derive(Default)]
struct Inbox {
    waiting: Mutex<Waiting>,
    room: Notify,
}

#[derive(Default)]
struct Waiting {
    batches: VecDeque<Batch>,
    wake: Option<Box<dyn FnOnce() + Send>>,
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn put(&self, batch: Batch) {
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
    api: kube::Api<Held>,
    config: watcher::Config,
    kind: Kind,
    mut gather: Gather,
    sharing: Arc<Mutex<Sharing>>,
    inbox: Arc<Inbox>,
) {
    let events = watcher(api, config).backoff(Patience::default()).ready_chunks(EVENTS_AT_ONCE_MAX);
    let mut events = pin!(events);
    while let Some(chunk) = events.next().await {
        for event in chunk {
            match event {
                Ok(event) => gather.event(event, &sharing),
                Err(error) => gather.error(&kind, &error),
            }
        }
        for batch in gather.take() {
            inbox.put(batch).await;
        }
    }
}

/// Turns events into batches.
#[derive(Default)]
struct Gather {
    share: Share,
    ready: Vec<Batch>,
    listing: Listing,
    told_absent: bool,
}

impl Gather {
    fn event(&mut self, event: Event<Held>, sharing: &Mutex<Sharing>) {
        match event {
            Event::Init => self.listing = Listing::default(),
            Event::InitApply(held) => self.listing.add(self.share, held.shared(sharing)),
            Event::InitDone => {
                self.told_absent = false;
                self.ready.push(Batch::Reset(std::mem::take(&mut self.listing).whole()));
            }
            Event::Apply(held) => self.change(Change::Put(held.shared(sharing))),
            Event::Delete(held) => self.change(Change::Gone(held.shared(sharing))),
        }
    }

    fn change(&mut self, change: Change) {
        if let Some(Batch::Changes(changes)) = self.ready.last_mut() {
            changes.push(change);
        } else {
            self.ready.push(Batch::Changes(vec![change]));
        }
    }

    /// The watcher tries again by itself. A kind that is not served has no objects: told once.
    fn error(&mut self, kind: &Kind, error: &watcher::Error) {
        if is_absent(error) {
            if !std::mem::replace(&mut self.told_absent, true) {
                self.ready.push(Batch::Reset(Vec::new()));
            }
            return;
        }
        tracing::warn!(group = %kind.group, plural = %kind.plural, error = in_full(error), "following is interrupted");
    }

    fn take(&mut self) -> Vec<Batch> {
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
