//! `/scale`: how many replicas an object wants and has.

use muster_schema::object::Object;
use muster_store::{Change, Expect, Write};
use muster_tree::{Text, Tree, tree};

use super::prepare::Ask;
use super::write::{Answer, Prepared, Shows};
use super::{Engine, Place};
use crate::request::{Patch, Shown, WriteAct, WriteReply};
use crate::status::Status;

struct Paths {
    wanted: Vec<String>,
    present: Vec<String>,
    selector: Option<Vec<String>>,
}

fn paths(place: &Place) -> Paths {
    let split =
        |text: &Text| text.split('.').filter(|s| !s.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    let custom = place.resource.subresource(place.version, "scale").and_then(|sub| sub.scale_paths.as_ref());
    match custom {
        Some((wanted, present, selector)) => Paths {
            wanted: split(wanted),
            present: split(present),
            selector: (!selector.is_empty()).then(|| split(selector)),
        },
        None => Paths {
            wanted: vec!["spec".into(), "replicas".into()],
            present: vec!["status".into(), "replicas".into()],
            selector: Some(vec!["spec".into(), "selector".into()]),
        },
    }
}

fn refs(path: &[String]) -> Vec<&str> {
    path.iter().map(String::as_str).collect()
}

/// The Scale of an object.
pub(super) fn shown(place: &Place, object: &Object) -> Result<Tree, Status> {
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

/// A selector in the form of a query.
fn selector_text(selector: &Tree) -> String {
    if let Some(text) = selector.as_str() {
        return text.to_owned();
    }
    let pairs = selector.entries_at(&["matchLabels"]).iter();
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

/// A write of the Scale becomes a write of the wanted number.
pub(super) fn prepare(ask: &Ask<'_>) -> Result<Prepared, Status> {
    let live = ask.live().ok_or_else(|| ask.not_found())?;
    ask.check_guard(&live)?;
    let before = shown(&ask.place, &live)?;
    let wish = match &ask.request.act {
        WriteAct::Update(body) => body.tree.clone(),
        WriteAct::Patch(Patch::Merge(body) | Patch::Strategic(body)) => before.merge(&body.tree),
        WriteAct::Patch(Patch::Json(operations)) => muster_schema::json_patch::apply(&before, operations)
            .map_err(|e| Status::new(422, "Invalid", e.to_string()))?,
        _ => return Err(Status::method_not_allowed()),
    };
    let version = wish.str_at(&["metadata", "resourceVersion"]);
    if !version.is_empty() && version != live.revision.to_string() {
        return Err(Status::modified(ask.place.resource.named(&ask.request.target.name)));
    }
    let wanted = wish.int_at(&["spec", "replicas"]).unwrap_or(0);
    let paths = paths(&ask.place);
    if live.tree.int_at(&refs(&paths.wanted)) == Some(wanted) {
        return Ok(Prepared::Answer(WriteReply {
            code: 200,
            shown: Shown::Tree(before),
            warnings: Vec::new(),
        }));
    }
    let tree = super::metadata::next_generation(&live.tree.with(&refs(&paths.wanted), wanted));
    let mut errors = crate::kinds::Errors::new();
    ask.check_custom(&tree, Some(&live.tree), &mut errors);
    ask.place.resource.strategy.validate_update(&tree, &live.tree, &ask.cx(), &mut errors);
    ask.check_errors(&ask.request.target.name, &errors)?;
    let managed = ask.owned(Some(&live), &tree, None);
    let new = Object { tree, managed, revision: live.revision };
    let write = Write { key: ask.key(), expect: Expect::Revision(live.revision), change: Change::Put(new) };
    let shows = Shows::Made(made, ask.place.clone());
    Ok(ask.plan(vec![write], Answer { code: 200, shows, warnings: Vec::new() }))
}

fn made(_: &Engine, place: &Place, object: &Object) -> Result<Tree, Status> {
    shown(place, object)
}
