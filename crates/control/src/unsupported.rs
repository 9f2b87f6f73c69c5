//! Events on objects without a controller here: the rows of [`muster_api::unsupported`] about whole kinds, such as Deployments.
//!
//! # Guarantees
//!
//! - An object gets one event while this process runs, and another one after a restart.

use std::collections::BTreeSet;

use muster_api::client::{Kind, Uid};
use muster_api::consts::{managers, reasons};
use muster_api::event::{Event, EventType, ObjectReference};
use muster_api::meta;
use muster_api::time::Time;
use muster_api::unsupported::{Input, TABLE, UnsupportedFeature};
use muster_tree::{Text, literal};

use crate::cache::{Caches, WatchEvent};
use crate::controller::{Controller, ObjectKey, ReconcileRequest, Reconciled, Step};

/// Objects remembered; beyond that the memory is cleared and an object may get a second event.
const NOTED_MAX: usize = 10_000;

/// Records an event on each object of an unsupported kind.
#[derive(Debug, Default)]
pub struct UnsupportedKindController {
    noted: BTreeSet<Uid>,
}

fn rows() -> impl Iterator<Item = &'static UnsupportedFeature> {
    TABLE.iter().filter(|row| row.input == Input::Controller)
}

impl Controller for UnsupportedKindController {
    fn name(&self) -> &'static str {
        "unsupported"
    }

    fn kinds(&self) -> Vec<Kind> {
        let kind = |row: &UnsupportedFeature| Kind {
            group: row.group.into(),
            version: literal!("v1"),
            plural: row.plural.into(),
        };
        rows().map(kind).collect()
    }

    fn map_event(&mut self, seen: &WatchEvent<'_>, _: &Caches) -> Vec<ReconcileRequest> {
        let is_one = rows().any(|row| row.matches_resource(&seen.key.kind.group, &seen.key.kind.plural));
        let is_new = is_one && seen.new.is_some_and(|it| !self.noted.contains(&meta::uid(&it.tree)));
        if is_new { vec![seen.key.clone().into()] } else { Vec::new() }
    }

    fn reconcile(&mut self, key: &ObjectKey, caches: &Caches, _: Time) -> Reconciled {
        let row = rows().find(|row| row.matches_resource(&key.kind.group, &key.kind.plural));
        let (Some(object), Some(row)) = (caches.find(key), row) else { return Reconciled::done() };
        if self.noted.len() >= NOTED_MAX {
            self.noted.clear();
        }
        if !self.noted.insert(meta::uid(&object.tree)) {
            return Reconciled::done();
        }
        let word = meta::kind_name(&object.tree);
        Reconciled::with_steps(vec![Step::Event(Event {
            action: Text::new(),
            reporting_controller: managers::LOOP.clone(),
            regarding: ObjectReference::of(&key.kind, &word, &object.tree),
            event_type: EventType::Warning,
            reason: reasons::NO_CONTROLLER.into(),
            message: row.warning(&word).into(),
        })])
    }
}
