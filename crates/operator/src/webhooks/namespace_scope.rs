//! Maintains the webhooks for objects without a queue label, on the leader: their `namespaceSelector` lists the namespaces
//! with a default LocalQueue, so that creates in all other namespaces never depend on us.
//!
//! # Guarantees
//!
//! - Writes have the observed resource version as a precondition; a concurrent write wins and is reconciled again.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_api::client::{ApiError, RequestVerb, WatchBatch, WatchChange, Watcher};
use muster_api::meta;
use muster_api::queue::consts::DEFAULT;
use muster_api::queue::kinds::LOCAL_QUEUES;
use muster_cluster::KubeApi;
use muster_install::webhooks::namespace_scope::{self, NamespaceScope};
use muster_tree::{Text, tree};

use super::registration::{configuration_request, exact_preconditions};
use crate::certificates::{WatchedObject, next_batch};

/// The shortest pause between two writes.
const WRITE_INTERVAL_MIN: Duration = Duration::from_millis(200);
/// Pause after a failed request.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// The namespaces with a LocalQueue named `default`.
struct DefaultQueueNamespaces {
    changes: Box<dyn Watcher>,
    /// `None` until the initial list has arrived.
    namespaces: Option<BTreeSet<Text>>,
}

impl DefaultQueueNamespaces {
    /// Waits for the next batch. Cancel-safe: a dropped wait loses no change.
    async fn wait_for_change(&mut self) {
        let batch = next_batch(self.changes.as_mut()).await;
        let spaces = self.namespaces.get_or_insert_default();
        match batch {
            WatchBatch::Restarted(all) => *spaces = all.iter().map(|it| meta::namespace(&it.tree)).collect(),
            WatchBatch::Changes(changes) => changes.iter().for_each(|change| {
                match change {
                    WatchChange::Applied(queue) => spaces.insert(meta::namespace(&queue.tree)),
                    WatchChange::Deleted(queue) => spaces.remove(&meta::namespace(&queue.tree)),
                };
            }),
        }
    }

    fn scope(&self, without_queue: bool) -> Option<NamespaceScope> {
        if without_queue {
            Some(NamespaceScope::All)
        } else {
            self.namespaces.clone().map(NamespaceScope::Named)
        }
    }
}

/// Runs until it is cancelled; `without_queue` is Kueue's `manageJobsWithoutQueueName`, which needs all namespaces.
pub async fn run(api: KubeApi, without_queue: bool) {
    let of = namespace_scope::configuration();
    let changes = api.watch_object(&LOCAL_QUEUES, "", DEFAULT);
    let mut defaults = DefaultQueueNamespaces { changes, namespaces: None };
    let mut configuration = WatchedObject::start(&api, of.kind, "", of.name);
    loop {
        tokio::select! {
            () = defaults.wait_for_change() => {}
            () = configuration.wait_for_change() => {}
        }
        while let Some(spaces) = defaults.scope(without_queue) {
            let Some(there) = configuration.object() else { break };
            let Some(hooks) = namespace_scope::scoped_webhooks(&there.tree, &spaces) else { break };
            tracing::info!(?spaces, "updating the namespaceSelector of webhooks for unlabelled objects");
            match api
                .perform(&configuration_request(
                    of,
                    exact_preconditions(there),
                    RequestVerb::MergePatch(tree!({"webhooks": hooks})),
                ))
                .await
            {
                Ok(written) => configuration.observe_write(written),
                // A concurrent write; the watch delivers it.
                Err(ApiError::Conflict(_) | ApiError::NotFound(_)) => break,
                Err(refusal) => {
                    tracing::warn!(error = %refusal, name = of.name, "cannot update the webhook configuration");
                    tokio::time::sleep(RETRY_INTERVAL).await;
                }
            }
            tokio::time::sleep(WRITE_INTERVAL_MIN).await;
        }
    }
}
