//! Keeps the hooks about those who carry none of our keys: whoever leads lists the namespaces with a queue for whoever
//! names none, and nobody else in the cluster is asked about.
//!
//! # Invariants
//!
//! - It writes what follows from what it knows, guarded by its revision; what others write in between wins, and is
//!   looked at again.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_api::meta;
use muster_api::port::{Act, Batch, Change, Follow, Refusal};
use muster_api::queue::kinds::LOCAL_QUEUES;
use muster_api::queue::words::DEFAULT;
use muster_cluster::KubeApi;
use muster_install::hooks::everybody::{self, Spaces};
use muster_tree::{Text, tree};

use super::register::{call, exactly};
use crate::certificates::{Followed, told};

/// How long after a write the next one is, at the earliest.
const REST: Duration = Duration::from_millis(200);
/// How long after a refusal it is tried again.
const RETRY: Duration = Duration::from_secs(2);

/// Namespaces with a queue for whoever names none.
struct Defaults {
    changes: Box<dyn Follow>,
    /// `None` until something was told.
    spaces: Option<BTreeSet<Text>>,
}

impl Defaults {
    /// Waits until something is told. Whoever stops waiting misses nothing.
    async fn hear(&mut self) {
        let batch = told(self.changes.as_mut()).await;
        let spaces = self.spaces.get_or_insert_default();
        match batch {
            Batch::Reset(all) => *spaces = all.iter().map(|it| meta::namespace(&it.tree)).collect(),
            Batch::Changes(changes) => changes.iter().for_each(|change| {
                match change {
                    Change::Put(queue) => spaces.insert(meta::namespace(&queue.tree)),
                    Change::Gone(queue) => spaces.remove(&meta::namespace(&queue.tree)),
                };
            }),
        }
    }

    fn spaces(&self, without_queue: bool) -> Option<Spaces> {
        if without_queue { Some(Spaces::All) } else { self.spaces.clone().map(Spaces::Named) }
    }
}

/// Keeps them, for ever; `without_queue` tells that all are taken in who could name a queue.
pub async fn keep(api: KubeApi, without_queue: bool) {
    let of = everybody::configuration();
    let changes = api.follow_one(&LOCAL_QUEUES, "", DEFAULT);
    let mut defaults = Defaults { changes, spaces: None };
    let mut configuration = Followed::start(&api, of.kind, "", of.name);
    loop {
        tokio::select! {
            () = defaults.hear() => {}
            () = configuration.hear() => {}
        }
        while let Some(spaces) = defaults.spaces(without_queue) {
            let Some(there) = configuration.object() else { break };
            let Some(hooks) = everybody::mended(&there.tree, &spaces) else { break };
            tracing::info!(?spaces, "the API server is told where everybody is asked about");
            match api.perform(&call(of, exactly(there), Act::Merge(tree!({"webhooks": hooks})))).await {
                Ok(written) => configuration.note(written),
                // Somebody was quicker; the watch tells.
                Err(Refusal::Conflict(_) | Refusal::NotFound(_)) => break,
                Err(refusal) => {
                    tracing::warn!(%refusal, name = of.name, "it cannot be written");
                    tokio::time::sleep(RETRY).await;
                }
            }
            tokio::time::sleep(REST).await;
        }
    }
}
