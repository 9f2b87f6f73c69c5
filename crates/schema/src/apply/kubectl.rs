//! Peace between `kubectl apply` and `kubectl apply --server-side`.
//!
//! Client-side apply keeps the last configuration in an annotation. When kubectl then applies on the server, what
//! that annotation holds unchanged is its own already, so it is no conflict; and the annotation is kept up to date,
//! so that going back works too.

use muster_tree::Tree;

use super::Conflict;
use crate::fields;
use crate::node::View;
use crate::object::Object;

/// The name under which this module acts.
pub(super) const MANAGER: &str = "kubectl";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Whether all conflicts are with fields that the annotation holds.
pub(super) fn allows(view: View<'_>, live: &Tree, conflicts: &[Conflict], api_version: &str) -> bool {
    let Some(own) = owned_by_annotation(view, live, api_version) else { return false };
    conflicts.iter().all(|conflict| own.contains(&conflict.path))
}

/// The conflicts with fields that the annotation does not hold.
pub(super) fn disallowed(
    view: View<'_>,
    live: &Tree,
    conflicts: Vec<Conflict>,
    api_version: &str,
) -> Vec<Conflict> {
    let own = owned_by_annotation(view, live, api_version).unwrap_or_default();
    conflicts.into_iter().filter(|conflict| !own.contains(&conflict.path)).collect()
}

/// The fields of the annotation that still have its values.
fn owned_by_annotation(view: View<'_>, live: &Tree, api_version: &str) -> Option<Vec<String>> {
    let text = live.at(&["metadata", "annotations", LAST_APPLIED])?.as_str()?;
    let last = Tree::parse(text.as_bytes()).ok()?;
    if last.str_at(&["apiVersion"]) != api_version {
        return None;
    }
    let delta = fields::compare(view, &last, live);
    let kept = fields::difference(&fields::of(view, &last), &fields::union(&delta.changed, &delta.removed));
    Some(fields::paths(&kept))
}

/// Writes the configuration into the annotation, if there is one.
pub(super) fn sync_last_applied(object: Object, applied: &Tree) -> Object {
    let path = ["metadata", "annotations", LAST_APPLIED];
    if object.tree.str_at(&path).is_empty() {
        return object;
    }
    let configuration = applied.without(&path);
    let text = configuration.to_json() + "\n";
    Object { tree: object.tree.with(&path, text), ..object }
}
