//! Quotas on how many objects a namespace may have, and on how much storage its claims may ask for.
//!
//! What is there is counted at each create, from the store itself: nobody has to keep a count in step.
//!
//! # Deliberately absent
//!
//! Quotas on what pods ask for, quotas with scopes, and `status.used`: such quotas are stored and limit nothing.

use muster_api::quantity;
use muster_tree::Tree;

use super::{AdmissionRequest, BUILTIN, Hook, Operation, Verdict};

pub(super) struct Quota;

/// Kinds of the core group whose quota is their plural alone.
const PLAIN: [&str; 6] =
    ["pods", "services", "configmaps", "secrets", "persistentvolumeclaims", "replicationcontrollers"];
/// What claims ask for, all together.
const STORAGE: &str = "requests.storage";

impl Hook for Quota {
    fn name(&self) -> &str {
        BUILTIN[7]
    }

    fn validate(&self, request: &AdmissionRequest<'_>) -> Verdict {
        let creates = request.operation == Operation::Create && request.subresource.is_empty();
        let (true, Some(object)) = (creates && request.resource.namespaced, request.object) else {
            return Verdict::allow();
        };
        let quotas = request.look.in_namespace("resourcequotas", request.namespace);
        let over = quotas.iter().find_map(|quota| exceeded(&quota.tree, request, object));
        over.map_or_else(Verdict::allow, |words| {
            let resource = request.resource;
            let dot = if resource.group.is_empty() { "" } else { "." };
            let name = object.str_at(&["metadata", "name"]);
            let message =
                format!("{}{dot}{} {name:?} is forbidden: {words}", resource.plural, resource.group);
            Verdict::deny(403, "Forbidden", message)
        })
    }
}

/// What of a quota would be exceeded, in the words of the real server.
fn exceeded(quota: &Tree, request: &AdmissionRequest<'_>, object: &Tree) -> Option<String> {
    if !quota.items_at(&["spec", "scopes"]).is_empty() || quota.at(&["spec", "scopeSelector"]).is_some() {
        return None;
    }
    let mut over = [Vec::new(), Vec::new(), Vec::new()];
    for (key, hard) in quota.entries_at(&["spec", "hard"]) {
        let Some(measure) = Measure::of(key, request) else { continue };
        let Some(limit) = hard.as_str().map_or_else(|| hard.as_int(), quantity::whole) else { continue };
        let there = request.look.in_namespace(&request.resource.storage, request.namespace);
        let used = there.iter().map(|it| measure.size(&it.tree)).fold(0, i64::saturating_add);
        let asked = measure.size(object);
        if used.saturating_add(asked) > limit {
            let shown = [
                measure.shown(asked),
                measure.shown(used),
                hard.as_str().map_or_else(|| hard.to_json(), str::to_owned),
            ];
            over.iter_mut().zip(shown).for_each(|(list, value)| list.push(format!("{key}={value}")));
        }
    }
    let [asked, used, limited] = over.map(|list| list.join(","));
    let name = quota.str_at(&["metadata", "name"]);
    (!asked.is_empty())
        .then(|| format!("exceeded quota: {name}, requested: {asked}, used: {used}, limited: {limited}"))
}

/// What a line of a quota measures of one object.
enum Measure {
    /// That it is there.
    Count,
    /// The storage it asks for, of this class only where there is one.
    Storage(Option<String>),
    /// That it is there and of this class.
    OfClass(String),
}

impl Measure {
    /// How a line measures the objects of a request; `None` when it is about others.
    fn of(key: &str, request: &AdmissionRequest<'_>) -> Option<Measure> {
        let resource = request.resource;
        let whole = match resource.group.as_str() {
            "" => format!("count/{}", resource.plural),
            group => format!("count/{}.{group}", resource.plural),
        };
        let is_plain = resource.group.is_empty() && PLAIN.contains(&resource.plural.as_str());
        if key == whole || (is_plain && resource.plural == key) {
            return Some(Measure::Count);
        }
        if !request.is("", "persistentvolumeclaims") {
            return None;
        }
        let (class, what) = match key.split_once(".storageclass.storage.k8s.io/") {
            Some((class, what)) => (Some(class.to_owned()), what),
            None => (None, key),
        };
        match (what, class) {
            (STORAGE, class) => Some(Measure::Storage(class)),
            ("persistentvolumeclaims", Some(class)) => Some(Measure::OfClass(class)),
            _ => None,
        }
    }

    fn size(&self, object: &Tree) -> i64 {
        let is = |class: &str| object.str_at(&["spec", "storageClassName"]) == class;
        match self {
            Measure::Count => 1,
            Measure::OfClass(class) => i64::from(is(class)),
            Measure::Storage(Some(class)) if !is(class) => 0,
            Measure::Storage(_) => {
                quantity::whole(object.str_at(&["spec", "resources", "requests", "storage"])).unwrap_or(0)
            }
        }
    }

    /// An amount as the real server writes it.
    fn shown(&self, amount: i64) -> String {
        let units = [("Gi", 1_i64 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];
        let unit = units.iter().find(|(_, size)| amount != 0 && amount % size == 0);
        match (self, unit) {
            (Measure::Storage(_), Some((word, size))) => format!("{}{word}", amount / size),
            _ => amount.to_string(),
        }
    }
}
