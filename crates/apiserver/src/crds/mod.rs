//! Custom resources: definitions become resources of the registry.
//!
//! A definition is checked by its strategy when it is written; the conditions of a new one follow in a second
//! write. Every commit that touches definitions rebuilds the custom part of the registry from the store.
//!
//! # Invariants
//!
//! - Nothing is served that was not accepted: a definition whose names are taken has no resource.
//! - A definition that is being deleted serves reads and deletes until its last object is gone.

pub(crate) mod check;
mod compiled;
mod custom;
pub(crate) mod definition;
mod names;
mod scale_check;
mod sweep;

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_api::time::Time;
use muster_tree::{Text, Tree};

use crate::engine::{Convert, Engine};
use crate::kinds::Look;
use crate::registry::{Registry, Resource};

/// Storage name of definitions.
pub(crate) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

impl Engine {
    /// Serves what the stored definitions say. A definition that did not change keeps its resource: compiling a
    /// schema is the expensive part.
    pub(crate) fn reload_custom(&self) {
        self.swap_registry(|old| {
            let known: BTreeMap<(Text, Text), &Arc<Resource>> = old
                .all()
                .iter()
                .filter(|resource| resource.custom)
                .map(|resource| ((resource.group.clone(), resource.plural.clone()), resource))
                .collect();
            let builtin = old.all().iter().filter(|resource| !resource.custom).cloned();
            let definitions: Vec<Tree> =
                self.all(DEFINITIONS).into_iter().map(|object| object.tree).collect();
            let named = definitions.iter().map(|definition| with_names(definition, &definitions));
            let custom = named.filter_map(|definition| {
                resource(&definition, &known, self.conversion(definition.str_at(&["spec", "group"])))
            });
            Registry::new(builtin.chain(custom).collect(), old.generation() + 1)
        });
    }
}

/// A definition that is new is served at once if its names are free; its status follows.
fn with_names(definition: &Tree, all: &[Tree]) -> Tree {
    if !definition.items_at(&["status", "conditions"]).is_empty() {
        return definition.clone();
    }
    let born = Time::of(definition.at(&["metadata", "creationTimestamp"])).unwrap_or(Time(0));
    definition::with_acceptance(definition, all, born)
}

fn resource(
    definition: &Tree,
    known: &BTreeMap<(Text, Text), &Arc<Resource>>,
    convert: Option<Convert>,
) -> Option<Arc<Resource>> {
    if !is_true(definition, "Established") {
        return None;
    }
    let key = (definition.text_at(&["spec", "group"]), definition.text_at(&["spec", "names", "plural"]));
    if let Some(same) = known.get(&key).filter(|old| custom::is_made_of(old, definition)) {
        return Some((*same).clone());
    }
    custom::resource(definition, convert).map(Arc::new)
}

/// Whether a condition of a definition holds.
pub(crate) fn is_true(definition: &Tree, kind: &str) -> bool {
    let conditions = definition.items_at(&["status", "conditions"]).iter();
    conditions.filter(|c| c.str_at(&["type"]) == kind).any(|c| c.str_at(&["status"]) == "True")
}
