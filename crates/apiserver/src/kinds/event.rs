//! Events: one stored form, two views.

use muster_schema::error::FieldError;
use muster_tree::{Text, Tree};

use super::{Cx, Errors, Strategy};
use crate::registry::Resource;

/// What Events do differently, in either group.
#[derive(Debug)]
pub(super) struct Event;

/// (core, events.k8s.io).
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

fn renamed(tree: &Tree, api_version: &str, name: impl Fn(&str) -> Option<&'static str>) -> Tree {
    if tree.str_at(&["apiVersion"]) == api_version {
        return tree.clone();
    }
    let entries = tree.entries().iter().map(|(key, value)| match name(key) {
        Some(name) => (Text::from(name), value.clone()),
        None => (key.clone(), value.clone()),
    });
    Tree::map(entries.collect::<Vec<_>>()).with_key("apiVersion", Tree::from(api_version))
}

impl Strategy for Event {
    fn validate_create(&self, new: &Tree, cx: &Cx<'_>, errors: &mut Errors) {
        let (own, of) =
            (new.str_at(&["metadata", "namespace"]), new.str_at(&["involvedObject", "namespace"]));
        // Events of cluster-scoped objects live in `default`.
        if own != of && !(of.is_empty() && own == "default") {
            errors.push(FieldError::invalid(
                "involvedObject.namespace",
                of,
                "does not match event.namespace",
            ));
        }
        if cx.resource.group.is_empty() {
            return;
        }
        if new.get("eventTime").is_none_or(Tree::is_null) {
            errors.push(FieldError::required("eventTime", ""));
        }
        let kind = new.str_at(&["type"]);
        if !matches!(kind, "Normal" | "Warning") {
            errors.push(FieldError::invalid("type", kind, format!("has invalid value: {kind}")));
        }
        for (key, shown) in [
            ("reportingComponent", "reportingController"),
            ("reportingInstance", "reportingInstance"),
            ("action", "action"),
            ("reason", "reason"),
        ] {
            if new.str_at(&[key]).is_empty() && new.get("eventTime").is_some() {
                errors.push(FieldError::required(shown, ""));
            }
        }
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "reason",
            "reportingComponent",
            "reportingController",
            "source",
            "type",
        ]
    }

    fn field(&self, tree: &Tree, path: &str) -> String {
        match path {
            "source" => {
                let component = tree.str_at(&["source", "component"]);
                let own = if component.is_empty() { tree.str_at(&["reportingComponent"]) } else { component };
                own.to_owned()
            }
            "reportingController" => tree.str_at(&["reportingComponent"]).to_owned(),
            _ => super::field_text(tree, &path.replace("regarding.", "involvedObject.")),
        }
    }

    fn to_wire(&self, resource: &Resource, tree: &Tree, _version: usize) -> Tree {
        if resource.group.is_empty() {
            return tree.clone();
        }
        renamed(tree, "events.k8s.io/v1", |key| {
            NAMES.iter().find(|(core, _)| *core == key).map(|(_, new)| *new)
        })
    }

    fn to_storage(&self, resource: &Resource, tree: &Tree, _version: usize) -> Tree {
        if resource.group.is_empty() {
            return tree.clone();
        }
        renamed(tree, "v1", |key| NAMES.iter().find(|(_, new)| *new == key).map(|(core, _)| *core))
    }
}
