//! Quota scopes.

use muster_tree::Tree;

use super::CountedObject;
use crate::kinds::quality;

/// Whether all scopes of a quota match. Objects other than pods and claims match no scope.
pub(super) fn matches(quota: &Tree, item: &CountedObject<'_>) -> bool {
    let scopes = quota.items_at(&["spec", "scopes"]).iter().filter_map(Tree::as_str);
    let selectors = quota.items_at(&["spec", "scopeSelector", "matchExpressions"]);
    scopes
        .map(|scope| Scope { name: scope, operator: "Exists", values: &[] })
        .all(|scope| scope.matches(item))
        && selectors.iter().map(Scope::of).all(|scope| scope.matches(item))
}

struct Scope<'a> {
    name: &'a str,
    operator: &'a str,
    values: &'a [Tree],
}

impl<'a> Scope<'a> {
    fn of(expression: &'a Tree) -> Scope<'a> {
        Scope {
            name: expression.str_at(&["scopeName"]),
            operator: expression.str_at(&["operator"]),
            values: expression.items_at(&["values"]),
        }
    }

    fn matches(&self, item: &CountedObject<'_>) -> bool {
        if !item.resource.group.is_empty() {
            return false;
        }
        match item.resource.plural.as_str() {
            "pods" => self.matches_pod(item.tree),
            "persistentvolumeclaims" if self.name == "VolumeAttributesClass" => self.matches_claim(item.tree),
            _ => false,
        }
    }

    fn matches_pod(&self, pod: &Tree) -> bool {
        let best_effort = || pod.get("spec").is_none_or(|spec| quality(spec) == "BestEffort");
        match self.name {
            "Terminating" => is_terminating(pod),
            "NotTerminating" => !is_terminating(pod),
            "BestEffort" => best_effort(),
            "NotBestEffort" => !best_effort(),
            "PriorityClass" => self.selects([pod.str_at(&["spec", "priorityClassName"])]),
            "CrossNamespacePodAffinity" => crosses_namespaces(pod),
            _ => false,
        }
    }

    fn matches_claim(&self, claim: &Tree) -> bool {
        self.selects([
            claim.str_at(&["spec", "volumeAttributesClassName"]),
            claim.str_at(&["status", "currentVolumeAttributesClassName"]),
            claim.str_at(&["status", "modifyVolumeStatus", "targetVolumeAttributesClassName"]),
        ])
    }

    /// Applies the operator to the class names of an object; empty names count as absent.
    fn selects<const N: usize>(&self, names: [&str; N]) -> bool {
        let mut names = names.into_iter().filter(|name| !name.is_empty()).peekable();
        let has = |name: &str| self.values.iter().any(|value| value.as_str() == Some(name));
        let is_none = names.peek().is_none();
        match self.operator {
            "Exists" => !is_none,
            "DoesNotExist" => is_none,
            "In" => names.any(has),
            "NotIn" => is_none || names.any(|name| !has(name)),
            _ => false,
        }
    }
}

/// The Terminating scope: pods with `activeDeadlineSeconds`.
pub(super) fn is_terminating(pod: &Tree) -> bool {
    pod.int_at(&["spec", "activeDeadlineSeconds"]).is_some_and(|secs| secs >= 0)
}

fn crosses_namespaces(pod: &Tree) -> bool {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    let crosses =
        |term: &Tree| !term.items_at(&["namespaces"]).is_empty() || term.get("namespaceSelector").is_some();
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let at = |list: &str| pod.items_at(&["spec", "affinity", kind, list]);
        at(REQUIRED).iter().any(crosses)
            || at(PREFERRED).iter().filter_map(|term| term.get("podAffinityTerm")).any(crosses)
    })
}
