//! Custom resources: definitions become resources of the registry.
//!
//! A definition is checked by its strategy when it is written; its conditions are computed in the same write. Every
//! commit that touches definitions rebuilds the custom part of the registry from the store.
//!
//! # Invariants
//!
//! - Nothing is served that was not accepted: a definition whose names are taken has no resource.
//! - A definition that is being deleted serves reads and deletes until its last object is gone.

pub(crate) mod check;
mod custom;
pub(crate) mod definition;
mod names;
mod sweep;

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_schema::node::SchemaRef;
use muster_schema::rules::Rules;
use muster_store::Object;
use muster_tree::{Text, Tree};

use crate::engine::Engine;
use crate::kinds::{Errors, Look};
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
            let definitions = self.all(DEFINITIONS);
            let custom = definitions.iter().filter_map(|definition| resource(definition, &known));
            Registry::new(builtin.chain(custom).collect(), old.generation() + 1)
        });
    }
}

fn resource(definition: &Object, known: &BTreeMap<(Text, Text), &Arc<Resource>>) -> Option<Arc<Resource>> {
    if !is_true(&definition.tree, "Established") {
        return None;
    }
    let key =
        (definition.tree.text_at(&["spec", "group"]), definition.tree.text_at(&["spec", "names", "plural"]));
    if let Some(same) = known.get(&key).filter(|old| custom::is_made_of(old, &definition.tree)) {
        return Some((*same).clone());
    }
    custom::resource(&definition.tree).map(Arc::new)
}

/// Whether a condition of a definition holds.
pub(crate) fn is_true(definition: &Tree, kind: &str) -> bool {
    let conditions = definition.items_at(&["status", "conditions"]).iter();
    conditions.filter(|c| c.str_at(&["type"]) == kind).any(|c| c.str_at(&["status"]) == "True")
}

/// What is wrong with the CEL rules of a schema.
fn check_rules(schema: &SchemaRef, base: &str, errors: &mut Errors) {
    if let Err(found) = Rules::compile_at(base, schema) {
        errors.extend(found);
    }
}
