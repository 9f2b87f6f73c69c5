//! Events: one stored form, served in the core group and in events.k8s.io.

use muster_schema::error::FieldError;
use muster_schema::selector::label_key_problems;
use muster_tree::{Text, Tree};

use super::field_path::FieldPath;
use super::{FieldErrors, ResourceStrategy, StrategyContext};
use crate::registry::Resource;

/// The strategy of Events in both groups.
#[derive(Debug)]
pub(super) struct Event;

/// Field names in (core, events.k8s.io).
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

impl ResourceStrategy for Event {
    fn validate_create(&self, new: &Tree, cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        common(new, cx, errors);
        if !cx.resource.group.is_empty() {
            strict(new, errors);
        }
    }

    fn validate_update(&self, new: &Tree, old: &Tree, cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        common(new, cx, errors);
        if cx.resource.group.is_empty() {
            return;
        }
        if new.get("series") != old.get("series") {
            series(new, errors);
        }
        for key in FIXED {
            FieldPath::Root(shown_name(key)).immutable(new.get(key), old.get(key), errors);
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
            // Both groups share the stored form, which is the core group's.
            _ => super::field_text(tree, &path.replace("regarding.", "involvedObject.")),
        }
    }

    fn to_wire(&self, resource: &Resource, tree: &Tree, _version: usize) -> Tree {
        if resource.group.is_empty() {
            return tree.clone();
        }
        let shown = renamed(tree, "events.k8s.io/v1", |key| {
            NAMES.iter().find(|(core, _)| *core == key).map(|(_, new)| *new)
        });
        // Only the core group shows an empty `reportingComponent`.
        shown.map_entries(|key, value| {
            let silent = key.starts_with("reporting") && value.as_str() == Some("");
            (!silent).then(|| value.clone())
        })
    }

    fn to_storage(&self, resource: &Resource, tree: &Tree, _version: usize) -> Tree {
        if resource.group.is_empty() {
            return tree.clone();
        }
        renamed(tree, "v1", |key| NAMES.iter().find(|(_, new)| *new == key).map(|(core, _)| *core))
    }
}

/// Immutable fields in events.k8s.io.
const FIXED: [&str; 13] = [
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
];

/// Maximum length of action, reason and reporting instance.
const WORD_MAX: usize = 128;
/// Maximum length of the note.
const MESSAGE_MAX: usize = 1024;

fn shown_name(key: &'static str) -> &'static str {
    if key == "reportingComponent" { "reportingController" } else { key }
}

fn is_dated(event: &Tree) -> bool {
    event.get("eventTime").is_some_and(|time| !time.is_null())
}

/// Validation for both groups. An Event with `eventTime` must name its reporter.
fn common(new: &Tree, cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
    let own = new.str_at(&["metadata", "namespace"]);
    let of = new.str_at(&["involvedObject", "namespace"]);
    // Events of cluster-scoped objects are in `default`.
    let astray = match (is_dated(new), of) {
        (true, "") => !matches!(own, "default" | "kube-system"),
        (true, _) => false,
        (false, "") => !matches!(own, "" | "default"),
        (false, of) => own != of,
    };
    if astray {
        errors.push(FieldError::invalid("involvedObject.namespace", of, "does not match event.namespace"));
    }
    if !is_dated(new) {
        return;
    }
    let reporter = if cx.resource.group.is_empty() { "reportingComponent" } else { "reportingController" };
    let name = new.str_at(&["reportingComponent"]);
    if name.is_empty() {
        errors.push(FieldError::required(reporter, ""));
    }
    FieldPath::Root(reporter).problems(name, label_key_problems(name), errors);
    for key in ["reportingInstance", "action", "reason"] {
        match new.str_at(&[key]).len() {
            0 => errors.push(FieldError::required(key, "")),
            n if n > WORD_MAX => too_long(key, WORD_MAX, errors),
            _ => {}
        }
    }
    if new.str_at(&["message"]).len() > MESSAGE_MAX {
        too_long("message", MESSAGE_MAX, errors);
    }
}

fn too_long(key: &str, max: usize, errors: &mut FieldErrors) {
    errors.push(FieldError::invalid(key, "", format!("can have at most {max} characters")));
}

/// Further validation of new Events in events.k8s.io.
fn strict(new: &Tree, errors: &mut FieldErrors) {
    series(new, errors);
    if !is_dated(new) {
        errors.push(FieldError::required("eventTime", ""));
    }
    let kind = new.str_at(&["type"]);
    if !matches!(kind, "Normal" | "Warning") {
        errors.push(FieldError::invalid("type", "", format!("has invalid value: {kind}")));
    }
    for key in ["firstTimestamp", "lastTimestamp", "count", "source"] {
        let set = new.get(key).is_some_and(|v| !v.is_null() && !v.is_empty() && v.as_int() != Some(0));
        if set {
            errors.push(FieldError::invalid(key, "", "needs to be unset"));
        }
    }
}

fn series(new: &Tree, errors: &mut FieldErrors) {
    let Some(series) = new.get("series") else {
        return;
    };
    if series.int_at(&["count"]).unwrap_or(0) < 2 {
        errors.push(FieldError::invalid("series.count", "", "should be at least 2"));
    }
    if series.get("lastObservedTime").is_none_or(Tree::is_null) {
        errors.push(FieldError::required("series.lastObservedTime", ""));
    }
}
