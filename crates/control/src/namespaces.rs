//! The namespace controller: a deleted namespace is emptied, then let go.
//!
//! Everything but pods and events is deleted first: pods have their grace, events tell of the rest.
//!
//! # Invariants
//!
//! - The finalizer goes only when nothing has been seen in the namespace for [`EMPTY_FOR`]: an object made just
//!   before the end may still be on its way to the caches.
//! - Content of a namespace that is gone is deleted too, should any turn up.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_api::condition::{self, Wanted};
use muster_api::kinds;
use muster_api::meta;
use muster_api::paths::{meta as meta_path, namespace as path};
use muster_api::port::{Act, Call, Cascade, Guard, Kind, Object, Part};
use muster_api::time::Time;
use muster_api::words::{conditions, finalizers, managers, reasons};
use muster_tree::{Text, Tree};

use crate::cache::{Caches, Seen};
use crate::plan::{Controller, Key, Plan, Step, Wake};

/// How long a namespace must have been seen empty before it goes.
pub const EMPTY_FOR: Duration = Duration::from_millis(200);
/// Deletes sent side by side.
const DELETES_PER_STEP_MAX: usize = 500;

/// The namespace controller.
#[derive(Debug, Default)]
pub struct Namespaces {
    empty_since: BTreeMap<Key, Time>,
}

impl Controller for Namespaces {
    fn name(&self) -> &'static str {
        "namespace"
    }

    fn kinds(&self) -> Vec<Kind> {
        vec![kinds::NAMESPACES.clone()]
    }

    fn sees_all_kinds(&self) -> bool {
        true
    }

    fn wakes(&mut self, seen: &Seen<'_>, caches: &Caches) -> Vec<Wake> {
        if seen.key.kind == kinds::NAMESPACES {
            return vec![seen.key.clone().into()];
        }
        let key = Key::new(&kinds::NAMESPACES, &Text::new(), &seen.key.namespace);
        if key.name.is_empty() || !caches.kind_synced(&kinds::NAMESPACES) {
            return Vec::new();
        }
        let ends = caches.find(&key).is_none_or(|namespace| meta::deleting(&namespace.tree).is_some());
        if ends { vec![key.into()] } else { Vec::new() }
    }

    fn plan(&mut self, key: &Key, caches: &Caches, now: Time) -> Plan {
        let namespace = caches.find(key);
        if namespace.is_some_and(|namespace| meta::deleting(&namespace.tree).is_none()) {
            return Plan::nothing();
        }
        let content = Content::of(&key.name, caches);
        let deletes = content.deletes();
        match namespace {
            None if !caches.kind_synced(&kinds::NAMESPACES) => Plan::nothing(),
            None => {
                self.empty_since.remove(key);
                Plan::of(deletes)
            }
            Some(namespace) if !content.is_empty() => {
                self.empty_since.remove(key);
                let mut steps = deletes;
                steps.extend(write_conditions(key, namespace, &content, now));
                Plan::of(steps)
            }
            Some(namespace) => self.let_go(key, namespace, caches, now),
        }
    }
}

impl Namespaces {
    fn let_go(&mut self, key: &Key, namespace: &Object, caches: &Caches, now: Time) -> Plan {
        let since = *self.empty_since.entry(key.clone()).or_insert(now);
        if now.since(since) < EMPTY_FOR || !caches.synced() {
            return Plan::nothing().again(now + EMPTY_FOR);
        }
        let left: Vec<Tree> = namespace.tree.items_at(path::FINALIZERS).to_vec();
        let without: Vec<&Tree> =
            left.iter().filter(|item| item.as_str() != Some(finalizers::KUBERNETES)).collect();
        if without.len() == left.len() {
            return Plan::nothing();
        }
        // The whole namespace: a real server takes finalizers only as a replacement.
        let whole = namespace.tree.with(path::FINALIZERS, Tree::list(without));
        Plan::of(vec![Step::One(guarded(key, namespace, Part::Finalize, Act::Merge(whole)))])
    }
}

/// What is left in a namespace.
struct Content<'a> {
    by_kind: Vec<(&'a Kind, Vec<&'a Object>)>,
}

impl<'a> Content<'a> {
    fn of(namespace: &'a Text, caches: &'a Caches) -> Content<'a> {
        let all = caches.kinds().map(|kind| (kind, caches.in_namespace(kind, namespace).collect::<Vec<_>>()));
        Content { by_kind: all.filter(|(_, objects)| !objects.is_empty()).collect() }
    }

    fn is_empty(&self) -> bool {
        self.by_kind.is_empty()
    }

    /// Deletes of all that is not deleted yet, pods and events last.
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

fn delete_all(part: &[&(&Kind, Vec<&Object>)]) -> Vec<Step> {
    let all = part.iter().flat_map(|(kind, objects)| objects.iter().map(move |object| (*kind, *object)));
    let alive = all.filter(|(_, object)| meta::deleting(&object.tree).is_none());
    let calls: Vec<Call> = alive.map(|(kind, object)| delete(kind, &object.tree)).collect();
    calls.chunks(DELETES_PER_STEP_MAX).map(|chunk| Step::Each(chunk.to_vec())).collect()
}

fn delete(kind: &Kind, object: &Tree) -> Call {
    let on = meta::target(kind, object, Part::Main);
    Call::delete(managers::NAMESPACE.clone(), on, meta::uid(object), Cascade::Background)
}

fn guarded(key: &Key, namespace: &Object, part: Part, act: Act) -> Call {
    let guard = Guard { uid: Some(meta::uid(&namespace.tree)), revision: Some(namespace.revision) };
    Call { by: managers::NAMESPACE.clone(), on: key.target(part), guard, act }
}

fn write_conditions(key: &Key, namespace: &Object, content: &Content<'_>, now: Time) -> Option<Step> {
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
        changed |= condition::set(&mut all, &Wanted { kind, holds, reason, message }, now);
    }
    let patch = Tree::Null.with(path::CONDITIONS, Tree::list(all));
    changed.then(|| Step::One(guarded(key, namespace, Part::Status, Act::Merge(patch))))
}
