//! What the server does not let us make, told to whoever it was for.
//!
//! A Workload that cannot be made is tried again with the pause of its key, and each time the server says the same: that is
//! told once. Other words, another object, or a Workload that was there meanwhile are news.

use std::collections::BTreeMap;

use muster_api::event::{About, Event, Severity};
use muster_api::gang_make::words as gang_words;
use muster_api::meta;
use muster_api::port::{Kind, Refusal, Uid};
use muster_api::queue::kinds;
use muster_api::queue::words::reasons;
use muster_api::words::NAMESPACE_TERMINATING;
use muster_tree::Tree;

use super::calls;
use crate::cache::Caches;

/// The most objects of which it is remembered; with more, the memory starts anew.
const REMEMBERED_MAX: usize = 100_000;

/// What was told last, by the UID of whom it was told.
#[derive(Debug, Default)]
pub(super) struct Unmade {
    told: BTreeMap<Uid, String>,
}

impl Unmade {
    /// The server refused to make this: what its owner is told, if that is news. Of a group the first pod is told.
    pub fn tell(&mut self, kind: &Kind, object: &Tree, why: &Refusal, caches: &Caches) -> Option<Event> {
        let passes = match why {
            // Somebody was quicker, or a moment later it goes: the next look tells.
            Refusal::AlreadyExists(_)
            | Refusal::Conflict(_)
            | Refusal::Busy { .. }
            | Refusal::Unknown(_)
            | Refusal::NotFound(_) => true,
            // A namespace that goes takes its objects along soon: not worth a note.
            Refusal::Forbidden(words) | Refusal::Invalid(words) => words.contains(NAMESPACE_TERMINATING),
        };
        if passes {
            return None;
        }
        let (owner, (key, about)) =
            meta::owners(object).find_map(|it| Some((it.clone(), caches.by_uid(&it.uid)?)))?;
        let name = meta::name(object);
        let (reason, what) = match *kind == kinds::WORKLOADS {
            true => (reasons::ERR_WORKLOAD_COMPOSE, "Workload "),
            false => (gang_words::CREATE_FAILED, ""),
        };
        let message = format!("Failed to create {what}{name}: {}", why.words());
        if self.told.get(&owner.uid) == Some(&message) {
            return None;
        }
        if self.told.len() >= REMEMBERED_MAX {
            self.told.clear();
        }
        self.told.insert(owner.uid.clone(), message.clone());
        let about = About::of(&key.kind, &owner.kind, &about.tree);
        Some(calls::told_of(about, Severity::Warning, reason, message))
    }

    /// It is gone, or what was for it is made.
    pub fn gone(&mut self, owner: &Uid) {
        if !self.told.is_empty() {
            self.told.remove(owner);
        }
    }
}
