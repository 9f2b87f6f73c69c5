//! The namespace controller: deletes the content of a terminating Namespace, then removes its finalizer.
//!
//! Pods and Events are deleted last: pods have a grace period, Events describe the deletion of the rest.
//!
//! # Guarantees
//!
//! - The finalizer is removed only after the namespace was empty for [`EMPTY_FOR`]: an object that was created just before may
//!   not be in the cache yet.
//! - Objects that appear in a deleted namespace are deleted, too.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_api::client::{
    ApiObject, ApiRequest, DeletionPropagation, Kind, Preconditions, RequestVerb, Subresource,
};
use muster_api::condition::{self, DesiredCondition};
use muster_api::consts::{conditions, finalizers, managers, reasons};
use muster_api::kinds;
use muster_api::meta;
use muster_api::paths::{meta as meta_path, namespace as path};
use muster_api::time::Time;
use muster_tree::{Text, Tree};

use crate::cache::{Caches, WatchEvent};
use crate::controller::{Controller, ObjectKey, ReconcileRequest, Reconciled, Step};

/// How long a namespace must be empty before its finalizer is removed.
pub const EMPTY_FOR: Duration = Duration::from_millis(200);
/// Deletes in flight at a time.
const DELETES_PER_STEP_MAX: usize = 500;

/// The namespace controller.
#[derive(Debug, Default)]
pub struct NamespaceController {
    empty_since: BTreeMap<ObjectKey, Time>,
}

impl Controller for NamespaceController {
    fn name(&self) -> &'static str {
        "namespace"
    }

    fn kinds(&self) -> Vec<Kind> {
        vec![kinds::NAMESPACES.clone()]
    }

    fn watches_all_kinds(&self) -> bool {
        true
    }

    fn map_event(&mut self, seen: &WatchEvent<'_>, caches: &Caches) -> Vec<ReconcileRequest> {
        if seen.key.kind == kinds::NAMESPACES {
            return vec![seen.key.clone().into()];
        }
        let key = ObjectKey::new(&kinds::NAMESPACES, &Text::new(), &seen.key.namespace);
        if key.name.is_empty() || !caches.kind_synced(&kinds::NAMESPACES) {
            return Vec::new();
        }
        let ends =
            caches.find(&key).is_none_or(|namespace| meta::deletion_timestamp(&namespace.tree).is_some());
        if ends { vec![key.into()] } else { Vec::new() }
    }

    fn reconcile(&mut self, key: &ObjectKey, caches: &Caches, now: Time) -> Reconciled {
        let namespace = caches.find(key);
        if namespace.is_some_and(|namespace| meta::deletion_timestamp(&namespace.tree).is_none()) {
            return Reconciled::done();
        }
        let content = Content::of(&key.name, caches);
        let deletes = content.deletes();
        match namespace {
            None if !caches.kind_synced(&kinds::NAMESPACES) => Reconciled::done(),
            None => {
                self.empty_since.remove(key);
                Reconciled::with_steps(deletes)
            }
            Some(namespace) if !content.is_empty() => {
                self.empty_since.remove(key);
                let mut steps = deletes;
                steps.extend(write_conditions(key, namespace, &content, now));
                Reconciled::with_steps(steps)
            }
            Some(namespace) => self.let_go(key, namespace, caches, now),
        }
    }
}

impl NamespaceController {
    fn let_go(&mut self, key: &ObjectKey, namespace: &ApiObject, caches: &Caches, now: Time) -> Reconciled {
        let since = *self.empty_since.entry(key.clone()).or_insert(now);
        if now.since(since) < EMPTY_FOR || !caches.synced() {
            return Reconciled::done().requeue_at(now + EMPTY_FOR);
        }
        let left: Vec<Tree> = namespace.tree.items_at(path::FINALIZERS).to_vec();
        let without: Vec<&Tree> =
            left.iter().filter(|item| item.as_str() != Some(finalizers::KUBERNETES)).collect();
        if without.len() == left.len() {
            return Reconciled::done();
        }
        // The whole Namespace: the finalize subresource of a Kubernetes API server takes full objects only.
        let whole = namespace.tree.with(path::FINALIZERS, Tree::list(without));
        Reconciled::with_steps(vec![Step::Request(guarded(
            key,
            namespace,
            Subresource::Finalize,
            RequestVerb::MergePatch(whole),
        ))])
    }
}

/// The objects in a namespace.
struct Content<'a> {
    by_kind: Vec<(&'a Kind, Vec<&'a ApiObject>)>,
}

impl<'a> Content<'a> {
    fn of(namespace: &'a Text, caches: &'a Caches) -> Content<'a> {
        let all = caches.kinds().map(|kind| (kind, caches.in_namespace(kind, namespace).collect::<Vec<_>>()));
        Content { by_kind: all.filter(|(_, objects)| !objects.is_empty()).collect() }
    }

    fn is_empty(&self) -> bool {
        self.by_kind.is_empty()
    }

    /// Deletes all objects without a deletion timestamp, pods and Events last.
    fn deletes(&self) -> Vec<Step> {
        let last = |kind: &Kind| *kind == kinds::PODS || *kind == kinds::EVENTS;
        let (late, early): (Vec<_>, Vec<_>) = self.by_kind.iter().partition(|(kind, _)| last(kind));
        [early, late].into_iter().flat_map(|part| delete_all(&part)).collect()
    }

    fn remaining(&self) -> String {
        let words: Vec<String> = self
            .by_kind
            .iter()
            .map(|(kind, objects)| format!("{} has {} resource instances", dotted(kind), objects.len()))
            .collect();
        format!("Some resources are remaining: {}", words.join(", "))
    }

    fn finalizers(&self) -> Option<String> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for object in self.by_kind.iter().flat_map(|(_, objects)| objects) {
            for finalizer in object.tree.items_at(meta_path::FINALIZERS).iter().filter_map(Tree::as_str) {
                *counts.entry(finalizer).or_default() += 1;
            }
        }
        let words: Vec<String> =
            counts.iter().map(|(name, count)| format!("{name} in {count} resource instances")).collect();
        let sentence =
            format!("Some content in the namespace has finalizers remaining: {}", words.join(", "));
        (!words.is_empty()).then_some(sentence)
    }
}

fn dotted(kind: &Kind) -> String {
    if kind.group.is_empty() {
        format!("{}.", kind.plural)
    } else {
        format!("{}.{}", kind.plural, kind.group)
    }
}

fn delete_all(part: &[&(&Kind, Vec<&ApiObject>)]) -> Vec<Step> {
    let all = part.iter().flat_map(|(kind, objects)| objects.iter().map(move |object| (*kind, *object)));
    let alive = all.filter(|(_, object)| meta::deletion_timestamp(&object.tree).is_none());
    let calls: Vec<ApiRequest> = alive.map(|(kind, object)| delete(kind, &object.tree)).collect();
    calls.chunks(DELETES_PER_STEP_MAX).map(|chunk| Step::Parallel(chunk.to_vec())).collect()
}

fn delete(kind: &Kind, object: &Tree) -> ApiRequest {
    let on = meta::target(kind, object, Subresource::Main);
    ApiRequest::delete(managers::NAMESPACE.clone(), on, meta::uid(object), DeletionPropagation::Background)
}

fn guarded(key: &ObjectKey, namespace: &ApiObject, part: Subresource, act: RequestVerb) -> ApiRequest {
    let guard = Preconditions { uid: Some(meta::uid(&namespace.tree)), revision: Some(namespace.revision) };
    ApiRequest {
        field_manager: managers::NAMESPACE.clone(),
        target: key.target(part),
        preconditions: guard,
        verb: act,
    }
}

fn write_conditions(
    key: &ObjectKey,
    namespace: &ApiObject,
    content: &Content<'_>,
    now: Time,
) -> Option<Step> {
    let remaining = content.remaining();
    let held = content.finalizers();
    let wanted = [
        (
            conditions::NS_DISCOVERY_FAILURE,
            false,
            reasons::RESOURCES_DISCOVERED,
            "All resources successfully discovered",
        ),
        (
            conditions::NS_PARSING_FAILURE,
            false,
            reasons::PARSED_GROUP_VERSIONS,
            "All legacy kube types successfully parsed",
        ),
        (
            conditions::NS_CONTENT_FAILURE,
            false,
            reasons::CONTENT_DELETED,
            "All content successfully deleted, may be waiting on finalization",
        ),
        (conditions::NS_CONTENT_REMAINING, true, reasons::SOME_RESOURCES_REMAIN, &remaining),
        match &held {
            Some(held) => {
                (conditions::NS_FINALIZERS_REMAINING, true, reasons::SOME_FINALIZERS_REMAIN, held.as_str())
            }
            None => (
                conditions::NS_FINALIZERS_REMAINING,
                false,
                reasons::CONTENT_HAS_NO_FINALIZERS,
                "All content-preserving finalizers finished",
            ),
        },
    ];
    let mut all = namespace.tree.items_at(path::CONDITIONS).to_vec();
    let mut changed = false;
    for (kind, holds, reason, message) in wanted {
        changed |= condition::set(
            &mut all,
            &DesiredCondition { condition_type: kind, status: holds, reason, message },
            now,
        );
    }
    let patch = Tree::Null.with(path::CONDITIONS, Tree::list(all));
    changed
        .then(|| Step::Request(guarded(key, namespace, Subresource::Status, RequestVerb::MergePatch(patch))))
}
