//! Notes that an object waits for a controller that does not run here: the rows of [`muster_api::unsupported`] that are
//! about whole kinds, such as Deployments.
//!
//! # Guarantees
//!
//! - An object gets one event while this process runs, and another one after a restart.

use std::collections::BTreeSet;

use muster_api::event::{About, Event, Severity};
use muster_api::meta;
use muster_api::port::{Kind, Uid};
use muster_api::time::Time;
use muster_api::unsupported::{Input, TABLE, Unsupported};
use muster_api::words::{managers, reasons};
use muster_tree::{Text, literal};

use crate::cache::{Caches, Seen};
use crate::plan::{Controller, Key, Plan, Step, Wake};

/// Events noted before the memory of them is dropped: an object may then get a second one.
const NOTED_MAX: usize = 10_000;

/// Writes the events.
#[derive(Debug, Default)]
pub struct UnsupportedKinds {
    noted: BTreeSet<Uid>,
}

fn rows() -> impl Iterator<Item = &'static Unsupported> {
    TABLE.iter().filter(|row| row.input == Input::Controller)
}

impl Controller for UnsupportedKinds {
    fn name(&self) -> &'static str {
        "unsupported"
    }

    fn kinds(&self) -> Vec<Kind> {
        let kind = |row: &Unsupported| Kind {
            group: row.group.into(),
            version: literal!("v1"),
            plural: row.plural.into(),
        };
        rows().map(kind).collect()
    }

    fn wakes(&mut self, seen: &Seen<'_>, _: &Caches) -> Vec<Wake> {
        let is_one = rows().any(|row| row.is_about(&seen.key.kind.group, &seen.key.kind.plural));
        let is_new = is_one && seen.after.is_some_and(|it| !self.noted.contains(&meta::uid(&it.tree)));
        if is_new { vec![seen.key.clone().into()] } else { Vec::new() }
    }

    fn plan(&mut self, key: &Key, caches: &Caches, _: Time) -> Plan {
        let row = rows().find(|row| row.is_about(&key.kind.group, &key.kind.plural));
        let (Some(object), Some(row)) = (caches.find(key), row) else { return Plan::nothing() };
        if self.noted.len() >= NOTED_MAX {
            self.noted.clear();
        }
        if !self.noted.insert(meta::uid(&object.tree)) {
            return Plan::nothing();
        }
        let word = meta::kind_word(&object.tree);
        Plan::of(vec![Step::Note(Event {
            action: Text::new(),
            by: managers::LOOP.clone(),
            about: About::of(&key.kind, &word, &object.tree),
            severity: Severity::Warning,
            reason: reasons::NO_CONTROLLER.into(),
            message: row.warning(&word).into(),
        })])
    }
}
