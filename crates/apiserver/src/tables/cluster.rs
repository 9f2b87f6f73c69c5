//! Rows of nodes, namespaces, events, configuration, leases and classes.

use std::collections::BTreeSet;

use muster_tree::{Text, Tree};

use super::cells::{NONE, Row, cells};

const ROLE_PREFIX: &str = "node-role.kubernetes.io/";
const ROLE_LABEL: &str = "kubernetes.io/role";

pub(super) fn namespace(row: &Row<'_>) -> Vec<Tree> {
    cells![row.name(), row.text(&["status", "phase"]), row.age()]
}

pub(super) fn node(row: &Row<'_>) -> Vec<Tree> {
    let info = |key| row.text(&["status", "nodeInfo", key]);
    let known = |key| row.text_or(&["status", "nodeInfo", key], "<unknown>");
    let kernel = match info("architecture") {
        none if none.is_empty() => known("kernelVersion").to_string(),
        architecture => format!("{} ({architecture})", known("kernelVersion")),
    };
    cells![
        row.name(),
        node_status(row),
        node_roles(row),
        row.age(),
        info("kubeletVersion"),
        node_address(row, "InternalIP"),
        node_address(row, "ExternalIP"),
        known("osImage"),
        kernel,
        known("containerRuntimeVersion"),
    ]
}

fn node_status(row: &Row<'_>) -> String {
    let word = match row.condition("Ready") {
        Some(_) if row.holds("Ready") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let closed = if row.is(&["spec", "unschedulable"]) { ",SchedulingDisabled" } else { "" };
    format!("{word}{closed}")
}

fn node_roles(row: &Row<'_>) -> String {
    let mut roles: BTreeSet<&str> = BTreeSet::new();
    for (key, value) in row.object.entries_at(&["metadata", "labels"]) {
        let role = if key == ROLE_LABEL { value.as_str() } else { key.strip_prefix(ROLE_PREFIX) };
        roles.extend(role.filter(|role| !role.is_empty()));
    }
    if roles.is_empty() { NONE.to_owned() } else { roles.into_iter().collect::<Vec<_>>().join(",") }
}

fn node_address(row: &Row<'_>, kind: &str) -> Text {
    let all = row.object.items_at(&["status", "addresses"]);
    let found = all.iter().find(|address| address.str_at(&["type"]) == kind);
    found.map_or(Text::from(NONE), |address| address.text_at(&["address"]))
}

/// Field paths in the two wire forms of an Event.
struct EventForm {
    first: &'static str,
    last: &'static str,
    count: &'static str,
    object: &'static str,
    message: &'static str,
    source: &'static str,
    reporter: &'static str,
}

const CORE_EVENT: EventForm = EventForm {
    first: "firstTimestamp",
    last: "lastTimestamp",
    count: "count",
    object: "involvedObject",
    message: "message",
    source: "source",
    reporter: "reportingComponent",
};
const NEW_EVENT: EventForm = EventForm {
    first: "deprecatedFirstTimestamp",
    last: "deprecatedLastTimestamp",
    count: "deprecatedCount",
    object: "regarding",
    message: "note",
    source: "deprecatedSource",
    reporter: "reportingController",
};

pub(super) fn core_event(row: &Row<'_>) -> Vec<Tree> {
    event_cells(row, &CORE_EVENT)
}

pub(super) fn event(row: &Row<'_>) -> Vec<Tree> {
    event_cells(row, &NEW_EVENT)
}

fn event_cells(row: &Row<'_>, form: &EventForm) -> Vec<Tree> {
    let is_set = |key: &str| row.object.get(key).is_some_and(|time| !time.is_null());
    let first = if is_set(form.first) { row.since(&[form.first]) } else { row.since(&["eventTime"]) };
    let last = if is_set("series") {
        row.since(&["series", "lastObservedTime"])
    } else if is_set(form.last) {
        row.since(&[form.last])
    } else {
        first.clone()
    };
    let count = if is_set("series") { row.int(&["series", "count"]) } else { row.int(&[form.count]).max(1) };
    cells![
        last,
        row.text(&["type"]),
        row.text(&["reason"]),
        event_target(row, form),
        row.text(&[form.object, "fieldPath"]),
        event_source(row, form),
        row.text(&[form.message]).trim(),
        first,
        count,
        row.name(),
    ]
}

fn event_target(row: &Row<'_>, form: &EventForm) -> String {
    let kind = row.text(&[form.object, "kind"]).to_lowercase();
    let name = row.text(&[form.object, "name"]);
    if name.is_empty() { kind } else { format!("{kind}/{name}") }
}

fn event_source(row: &Row<'_>, form: &EventForm) -> String {
    let component = row.text_or(&[form.source, "component"], &row.text(&[form.reporter]));
    let instance = row.text_or(&[form.source, "host"], &row.text(&["reportingInstance"]));
    if instance.is_empty() { component.to_string() } else { format!("{component}, {instance}") }
}

pub(super) fn config_map(row: &Row<'_>) -> Vec<Tree> {
    cells![row.name(), row.count(&["data"]) + row.count(&["binaryData"]), row.age()]
}

pub(super) fn secret(row: &Row<'_>) -> Vec<Tree> {
    cells![row.name(), row.text(&["type"]), row.count(&["data"]), row.age()]
}

pub(super) fn resource_quota(row: &Row<'_>) -> Vec<Tree> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (name, hard) in row.object.entries_at(&["status", "hard"]) {
        let used = row.text_or(&["status", "used", name], "0");
        let text = format!("{name}: {used}/{}", hard.as_str().unwrap_or_default());
        if name.starts_with("limits.") { limits.push(text) } else { requests.push(text) }
    }
    cells![row.name(), requests.join(", "), limits.join(", "), row.age()]
}

pub(super) fn lease(row: &Row<'_>) -> Vec<Tree> {
    cells![row.name(), row.text(&["spec", "holderIdentity"]), row.age()]
}

pub(super) fn priority_class(row: &Row<'_>) -> Vec<Tree> {
    cells![
        row.name(),
        row.int(&["value"]),
        row.is(&["globalDefault"]),
        row.age(),
        row.text(&["preemptionPolicy"]),
    ]
}

pub(super) fn runtime_class(row: &Row<'_>) -> Vec<Tree> {
    cells![row.name(), row.text(&["handler"]), row.age()]
}
