//! Custom resources: CRDs become resources of the registry.
//!
//! A CRD is validated by its strategy when written; the conditions of a new one follow in a second write. Every
//! commit that touches a CRD rebuilds the custom part of the registry from the store.
//!
//! # Invariants
//!
//! - Only Established CRDs are served: a CRD with a name conflict has no resource.
//! - A terminating CRD serves reads and deletes until its last object is gone.

mod custom_resource;
mod finalizer;
mod names;
mod scale_check;
mod schema_cache;
pub(crate) mod strategy;
pub(crate) mod validation;

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_api::time::Time;
use muster_tree::{Text, Tree};

use crate::engine::{ApiEngine, ConversionFn};
use crate::kinds::ObjectLister;
use crate::registry::{Registry, Resource};

/// Storage name of CRDs.
pub(crate) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

impl ApiEngine {
    /// Rebuilds the custom part of the registry. The resource of an unchanged CRD is reused: compiling a schema is
    /// expensive.
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

/// A new CRD is served at once if its names are free; its status follows.
fn with_names(definition: &Tree, all: &[Tree]) -> Tree {
    if !definition.items_at(&["status", "conditions"]).is_empty() {
        return definition.clone();
    }
    let born = Time::of(definition.at(&["metadata", "creationTimestamp"])).unwrap_or(Time(0));
    strategy::with_acceptance(definition, all, born)
}

fn resource(
    definition: &Tree,
    known: &BTreeMap<(Text, Text), &Arc<Resource>>,
    convert: Option<ConversionFn>,
) -> Option<Arc<Resource>> {
    if !is_true(definition, "Established") {
        return None;
    }
    let key = (definition.text_at(&["spec", "group"]), definition.text_at(&["spec", "names", "plural"]));
    // Keep the same `Arc`: caches of serialized events and OpenAPI documents compare resources by pointer.
    if let Some(same) = known.get(&key).filter(|old| custom_resource::is_made_of(old, definition)) {
        return Some((*same).clone());
    }
    custom_resource::resource(definition, convert).map(Arc::new)
}

/// Whether a condition of a CRD is True.
pub(crate) fn is_true(definition: &Tree, kind: &str) -> bool {
    let conditions = definition.items_at(&["status", "conditions"]).iter();
    conditions.filter(|c| c.str_at(&["type"]) == kind).any(|c| c.str_at(&["status"]) == "True")
}
