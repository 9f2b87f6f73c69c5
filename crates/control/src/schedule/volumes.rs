//! What the scheduler hears of volumes, and what is done about them before a pod is bound.

use muster_api::port::{Kind, Object};
use muster_api::time::Time;
use muster_scheduler::Scheduler;
use muster_scheduler::volumes::Errand;

use super::Ready;
use crate::cache::{Caches, Seen};
use crate::plan::Key;

/// The kinds it must see.
pub fn kinds() -> Vec<Kind> {
    Vec::new()
}

/// Tells the scheduler of a change; the pods whose errands it may concern.
pub fn hear(_scheduler: &mut Scheduler, _seen: &Seen<'_>, _caches: &Caches) -> Vec<Key> {
    Vec::new()
}

/// What is to be done about an errand.
pub fn run(_pod: &Object, errand: &Errand, _caches: &Caches, _now: Time) -> Ready {
    match *errand {}
}
