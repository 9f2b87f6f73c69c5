//! The `scale` subresource, read side. Writes are in [`super::scale_write`].

use muster_schema::object::StoredObject;
use muster_tree::{Text, Tree, tree};

use super::VersionedResource;
use crate::status::Status;

/// Field paths behind a Scale.
pub(super) struct ScalePaths {
    pub wanted: Vec<String>,
    present: Vec<String>,
    selector: Option<Vec<String>>,
}

pub(super) fn paths(place: &VersionedResource) -> ScalePaths {
    let split =
        |text: &Text| text.split('.').filter(|s| !s.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    let custom = place.resource.subresource(place.version, "scale").and_then(|sub| sub.scale_paths.as_ref());
    match custom {
        Some((wanted, present, selector)) => ScalePaths {
            wanted: split(wanted),
            present: split(present),
            selector: (!selector.is_empty()).then(|| split(selector)),
        },
        None => ScalePaths {
            wanted: vec!["spec".into(), "replicas".into()],
            present: vec!["status".into(), "replicas".into()],
            selector: Some(vec!["spec".into(), "selector".into()]),
        },
    }
}

pub(super) fn refs(path: &[String]) -> Vec<&str> {
    path.iter().map(String::as_str).collect()
}

pub(super) fn shown(place: &VersionedResource, object: &StoredObject) -> Result<Tree, Status> {
    let paths = paths(place);
    let tree = &object.tree;
    let wanted = tree.int_at(&refs(&paths.wanted)).unwrap_or(0);
    let present = tree.int_at(&refs(&paths.present)).unwrap_or(0);
    let meta = |key: &str| tree.text_at(&["metadata", key]);
    let mut status = tree!({"replicas": present});
    if let Some(selector) = paths.selector.as_ref().and_then(|path| tree.at(&refs(path))) {
        status = status.with_key("selector", Tree::from(selector_text(selector)));
    }
    let mut head = tree!({
        "name": meta("name"), "uid": meta("uid"), "creationTimestamp": meta("creationTimestamp"),
        "resourceVersion": object.revision.to_string(),
    });
    if place.resource.namespaced {
        head = head.with_key("namespace", Tree::from(meta("namespace")));
    }
    let spec = if wanted == 0 { Tree::empty_map() } else { tree!({"replicas": wanted}) };
    Ok(
        tree!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": head, "spec": spec, "status": status}),
    )
}

/// A label selector in query syntax.
fn selector_text(selector: &Tree) -> String {
    if let Some(text) = selector.as_str() {
        return text.to_owned();
    }
    // The selector of a ReplicationController is a plain map, without `matchLabels`.
    let is_map = selector.entries().iter().any(|(_, value)| value.as_str().is_some());
    let pairs = if is_map { selector.entries() } else { selector.entries_at(&["matchLabels"]) }.iter();
    let mut parts: Vec<String> =
        pairs.map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default())).collect();
    for term in selector.items_at(&["matchExpressions"]) {
        let key = term.str_at(&["key"]);
        let values: Vec<&str> = term.items_at(&["values"]).iter().filter_map(Tree::as_str).collect();
        parts.push(match term.str_at(&["operator"]) {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    parts.join(",")
}
