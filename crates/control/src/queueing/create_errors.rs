//! Events about Workloads and gang objects that the API server does not let us create.
//!
//! A failed creation is retried with the backoff of its key, and the error is the same each time: it is reported once per owner.
//! Another message, another object, or a successful creation in between is reported again.

use std::collections::BTreeMap;

use muster_api::client::{ApiError, Kind, Uid};
use muster_api::consts::NAMESPACE_TERMINATING;
use muster_api::event::{Event, EventType, ObjectReference};
use muster_api::gang_objects::consts as gang_words;
use muster_api::meta;
use muster_api::queue::consts::reasons;
use muster_api::queue::kinds;
use muster_tree::Tree;

use super::requests;
use crate::cache::Caches;

/// The most owners remembered; beyond that the memory is cleared and errors may be reported twice.
const REMEMBERED_MAX: usize = 100_000;

/// The last message by the UID of the owner.
#[derive(Debug, Default)]
pub(super) struct CreateErrors {
    told: BTreeMap<Uid, String>,
}

impl CreateErrors {
    /// The event about a failed creation, unless it is a repetition. Of a pod group the first pod gets the event.
    pub fn event_for(
        &mut self,
        kind: &Kind,
        object: &Tree,
        why: &ApiError,
        caches: &Caches,
    ) -> Option<Event> {
        let passes = match why {
            // Transient: another writer was faster, or the server is busy. The next reconciliation resolves it.
            ApiError::AlreadyExists(_)
            | ApiError::Conflict(_)
            | ApiError::TooManyRequests { .. }
            | ApiError::Indeterminate(_)
            | ApiError::NotFound(_) => true,
            // A terminating namespace deletes the owner soon, too.
            ApiError::Forbidden(words) | ApiError::Invalid(words) => words.contains(NAMESPACE_TERMINATING),
        };
        if passes {
            return None;
        }
        let (owner, (key, about)) =
            meta::owner_references(object).find_map(|it| Some((it.clone(), caches.by_uid(&it.uid)?)))?;
        let name = meta::name(object);
        let (reason, what) = match *kind == kinds::WORKLOADS {
            true => (reasons::ERR_WORKLOAD_COMPOSE, "Workload "),
            false => (gang_words::CREATE_FAILED, ""),
        };
        let message = format!("Failed to create {what}{name}: {}", why.message());
        if self.told.get(&owner.uid) == Some(&message) {
            return None;
        }
        if self.told.len() >= REMEMBERED_MAX {
            self.told.clear();
        }
        self.told.insert(owner.uid.clone(), message.clone());
        let about = ObjectReference::of(&key.kind, &owner.kind, &about.tree);
        Some(requests::told_of(about, EventType::Warning, reason, message))
    }

    /// The owner is deleted, or its object was created.
    pub fn forget(&mut self, owner: &Uid) {
        if !self.told.is_empty() {
            self.told.remove(owner);
        }
    }
}
