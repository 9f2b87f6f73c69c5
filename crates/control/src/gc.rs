//! The garbage collector: dependents follow their owners, by three policies.
//!
//! - An object none of whose owners is there any more is deleted; references to absent owners beside a live one
//!   are taken off.
//! - Foreground: an owner stays until its blocking dependents are gone.
//! - Orphan: the dependents forget their owner, then it goes.
//!
//! # Invariants
//!
//! - Before anything is deleted for want of owners, each of them is looked for live.
//! - A delete carries the UID and the revision that were judged.

use muster_api::event::{About, Event, Severity};
use muster_api::meta::{self, Owner};
use muster_api::port::{Act, Call, Cascade, Guard, Kind, Object, Part, Target, Uid};
use muster_api::time::Time;
use muster_api::words::{finalizers, managers, reasons};
use muster_api::{kinds, paths::meta as meta_path, paths::owner as owner_path};
use muster_tree::{Text, Tree};

use crate::cache::{Caches, Seen};
use crate::plan::{Controller, Key, Plan, Step, Wake, Want};

/// Dependents let go in one step.
const DEPENDENTS_PER_STEP_MAX: usize = 500;

/// The garbage collector.
#[derive(Debug, Default)]
pub struct GarbageCollector;

impl Controller for GarbageCollector {
    fn name(&self) -> &'static str {
        "gc"
    }

    fn kinds(&self) -> Vec<Kind> {
        vec![kinds::CRDS.clone()]
    }

    fn sees_all_kinds(&self) -> bool {
        true
    }

    fn wakes(&mut self, seen: &Seen<'_>, caches: &Caches) -> Vec<Wake> {
        let tree = &seen.newest().tree;
        let metadata =
            |object: Option<&Object>| object.and_then(|object| object.tree.get("metadata").cloned());
        if metadata(seen.before) == metadata(seen.after) {
            return Vec::new();
        }
        let mut keys: Vec<Wake> = Vec::new();
        if seen.after.is_some() {
            if !tree.items_at(meta_path::OWNERS).is_empty() || meta::deleting(tree).is_some() {
                keys.push(seen.key.clone().into());
            }
        } else {
            keys.extend(caches.owned_by(&meta::uid(tree)).map(|(key, _)| key.clone().into()));
        }
        // An owner that waits for its dependents looks again whenever one of them changes.
        let was = seen.before.map(|before| &before.tree).into_iter().chain([tree]);
        let waiting = was.flat_map(meta::owners).filter_map(|owner| caches.by_uid(&owner.uid));
        keys.extend(waiting.filter(|(_, owner)| is_waiting(&owner.tree)).map(|(key, _)| key.clone().into()));
        keys
    }

    fn plan(&mut self, key: &Key, caches: &Caches, _now: Time) -> Plan {
        let Some(object) = caches.find(key) else {
            return Plan::nothing();
        };
        let deleting = meta::deleting(&object.tree).is_some();
        if deleting && meta::has_finalizer(&object.tree, finalizers::ORPHAN) {
            return orphan(key, object, caches);
        }
        if is_waiting(&object.tree) {
            return foreground(key, object, caches);
        }
        if deleting { Plan::nothing() } else { judge(key, object, caches) }
    }
}

fn is_waiting(tree: &Tree) -> bool {
    meta::deleting(tree).is_some() && meta::has_finalizer(tree, finalizers::FOREGROUND)
}

/// Dependents forget their owner, then the owner may go.
fn orphan(key: &Key, owner: &Object, caches: &Caches) -> Plan {
    let uid = meta::uid(&owner.tree);
    let forget = |(key, object): (&Key, &Object)| {
        let patch = meta::with_owners(&object.tree, |owner| owner.uid != uid);
        guarded(key, object, Act::Merge(patch))
    };
    let calls: Vec<Call> = caches.owned_by(&uid).map(forget).collect();
    let mut steps: Vec<Step> =
        calls.chunks(DEPENDENTS_PER_STEP_MAX).map(|chunk| Step::Each(chunk.to_vec())).collect();
    steps.push(Step::One(guarded(
        key,
        owner,
        Act::Merge(meta::without_finalizer(&owner.tree, finalizers::ORPHAN)),
    )));
    Plan::of(steps)
}

/// Blocking dependents go first, then the owner may go.
fn foreground(key: &Key, owner: &Object, caches: &Caches) -> Plan {
    let uid = meta::uid(&owner.tree);
    let blocking: Vec<&Key> =
        caches.owned_by(&uid).filter(|(_, d)| blocks(&d.tree, &uid)).map(|(key, _)| key).collect();
    if blocking.is_empty() {
        let patch = meta::without_finalizer(&owner.tree, finalizers::FOREGROUND);
        return Plan::of(vec![Step::One(guarded(key, owner, Act::Merge(patch)))]);
    }
    Plan { wake: blocking.into_iter().cloned().collect(), ..Plan::default() }
}

fn blocks(dependent: &Tree, uid: &Uid) -> bool {
    meta::owners(dependent).any(|owner| owner.uid == *uid && owner.blocks)
}

/// How an owner of an object stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// There.
    Solid,
    /// There, being deleted, and waiting for this dependent.
    Waiting,
    /// Not there.
    Absent,
    /// There, in another namespace, where it cannot own.
    Elsewhere,
}

fn standing(key: &Key, owner: &Owner, caches: &Caches) -> Standing {
    match caches.by_uid(&owner.uid) {
        None => Standing::Absent,
        Some((at, _)) if !at.namespace.is_empty() && at.namespace != key.namespace => Standing::Elsewhere,
        Some((at, _)) if at.name != owner.name => Standing::Absent,
        Some((_, live)) if owner.blocks && is_waiting(&live.tree) => Standing::Waiting,
        Some(_) => Standing::Solid,
    }
}

/// Whether an object may stay.
fn judge(key: &Key, object: &Object, caches: &Caches) -> Plan {
    let owners: Vec<(Owner, Standing)> =
        meta::owners(&object.tree).map(|owner| (owner.clone(), standing(key, &owner, caches))).collect();
    let any = |wanted: Standing| owners.iter().any(|(_, standing)| *standing == wanted);
    if owners.iter().all(|(_, standing)| *standing == Standing::Solid) {
        return Plan::nothing();
    }
    let mut steps = Vec::new();
    for (owner, standing) in &owners {
        match standing {
            Standing::Absent => match look(key, owner, caches) {
                Some(look) => steps.push(look),
                // A kind the server does not know: nobody can say that the owner is gone.
                None => return Plan::nothing(),
            },
            Standing::Elsewhere => steps.push(Step::Note(elsewhere(key, object, owner))),
            _ => {}
        }
    }
    if any(Standing::Solid) {
        let solid: Vec<&Uid> =
            owners.iter().filter(|(_, s)| *s == Standing::Solid).map(|(o, _)| &o.uid).collect();
        let patch = meta::with_owners(&object.tree, |owner| solid.contains(&&owner.uid));
        steps.push(Step::One(guarded(key, object, Act::Merge(patch))));
        return Plan::of(steps);
    }
    let uid = meta::uid(&object.tree);
    // A dependent that itself waits for its dependents may wait for this object: in a circle of owners each would wait
    // for the next. This one stops blocking its owners; the rest goes in order, and then it has none.
    if any(Standing::Waiting) && caches.owned_by(&uid).any(|(_, dependent)| is_waiting(&dependent.tree)) {
        return Plan::of(vec![Step::One(guarded(key, object, Act::Merge(unblocking(&object.tree))))]);
    }
    let cascade = match () {
        () if any(Standing::Waiting) && caches.owned_by(&uid).next().is_some() => Cascade::Foreground,
        () if meta::has_finalizer(&object.tree, finalizers::ORPHAN) => Cascade::Orphan,
        () if meta::has_finalizer(&object.tree, finalizers::FOREGROUND) => Cascade::Foreground,
        () => Cascade::Background,
    };
    let mut delete = Call::delete(managers::GC.clone(), key.target(Part::Main), uid, cascade);
    delete.guard.revision = Some(object.revision);
    steps.push(Step::One(delete));
    Plan::of(steps)
}

/// A merge patch after which an object blocks no owner any more.
fn unblocking(object: &Tree) -> Tree {
    let free = |owner: &Tree| owner.with(owner_path::BLOCKS, false);
    Tree::Null.with(meta_path::OWNERS, Tree::list(object.items_at(meta_path::OWNERS).iter().map(free)))
}

/// A live look for an absent owner.
fn look(key: &Key, owner: &Owner, caches: &Caches) -> Option<Step> {
    let (kind, namespaced) = kind_of(owner, caches)?;
    let namespace = if namespaced { key.namespace.clone() } else { Text::new() };
    if namespaced && namespace.is_empty() {
        return None;
    }
    let on = Target { kind, namespace, name: owner.name.clone(), part: Part::Main };
    let call = Call { by: managers::GC.clone(), on, guard: Guard::default(), act: Act::Get };
    Some(Step::Look(call, Want::Gone(owner.uid.clone())))
}

/// The kind an owner reference names, and whether it is namespaced.
fn kind_of(owner: &Owner, caches: &Caches) -> Option<(Kind, bool)> {
    let group = owner.group();
    let custom = caches.all(&kinds::CRDS).find_map(|crd| {
        let spec = crd.tree.get("spec")?;
        let is = spec.str_at(&["group"]) == group && spec.str_at(&["names", "kind"]) == owner.kind;
        is.then(|| (spec.text_at(&["names", "plural"]), spec.str_at(&["scope"]) == "Namespaced"))
    });
    let found = |is: &dyn Fn(&str) -> bool| {
        caches.kinds().find(|kind| kind.group == group && is(&kind.plural)).cloned()
    };
    match custom {
        Some((plural, namespaced)) => found(&|known| known == plural).map(|kind| (kind, namespaced)),
        None => {
            let kind = found(&|known| kinds::is_plural(known, &owner.kind))?;
            let namespaced = !kinds::is_cluster_scoped(&kind);
            Some((kind, namespaced))
        }
    }
}

fn guarded(key: &Key, object: &Object, act: Act) -> Call {
    let guard = Guard { uid: Some(meta::uid(&object.tree)), revision: Some(object.revision) };
    Call { by: managers::GC.clone(), on: key.target(Part::Main), guard, act }
}

fn elsewhere(key: &Key, object: &Object, owner: &Owner) -> Event {
    let about = About::of(&key.kind, &meta::kind_word(&object.tree), &object.tree);
    let message = format!(
        "ownerRef [{}/{}, namespace: {}, name: {}, uid: {}] does not exist in namespace \"{}\"",
        owner.api_version, owner.kind, key.namespace, owner.name, owner.uid, key.namespace
    );
    Event {
        action: Text::new(),
        by: managers::GC.clone(),
        about,
        severity: Severity::Warning,
        reason: reasons::OWNER_REF_INVALID_NAMESPACE.into(),
        message: message.into(),
    }
}

#[cfg(test)]
mod tests {
    use muster_api::port::Change;
    use muster_tree::tree;

    use super::*;

    /// A pod in a circle: it is owned by the pod before it.
    fn pod(name: &str, owner: &str, is_deleted: bool) -> Tree {
        let pod = tree!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "n", "uid": name, "ownerReferences": [{"apiVersion": "v1",
                "kind": "Pod", "name": owner, "uid": owner, "controller": true, "blockOwnerDeletion": true}]}});
        if !is_deleted {
            return pod;
        }
        pod.with(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z")
            .with(&["metadata", "finalizers"], Tree::list([finalizers::FOREGROUND]))
    }

    fn acts(pods: &[Tree], name: &str) -> Vec<Act> {
        let mut caches = Caches::default();
        for tree in pods {
            caches.change(&kinds::PODS, Change::Put(Object { tree: tree.clone(), revision: 1 }));
        }
        let key = Key::new(&kinds::PODS, &"n".into(), &name.into());
        let steps = GarbageCollector.plan(&key, &caches, Time(0)).steps;
        let act = |step| match step {
            Step::One(call) => Some(call.act),
            _ => None,
        };
        steps.into_iter().filter_map(act).collect()
    }

    #[test]
    fn a_circle_of_owners_is_opened_where_it_closes() {
        let circle = [pod("a", "c", true), pod("b", "a", true), pod("c", "b", false)];
        let [Act::Merge(patch)] = &acts(&circle, "c")[..] else { panic!("a patch") };
        let owner = &patch.items_at(meta_path::OWNERS)[0];
        assert_eq!((owner.str_at(&["name"]), owner.bool_at(owner_path::BLOCKS)), ("b", Some(false)));
        // Once it blocks no more, each of the others may go.
        let open = [circle[0].clone(), circle[1].clone(), circle[2].merge(patch)];
        let [Act::Merge(patch)] = &acts(&open, "b")[..] else { panic!("a patch") };
        assert_eq!(*patch, meta::without_finalizer(&open[1], finalizers::FOREGROUND));
    }

    #[test]
    fn an_owner_that_waits_takes_its_dependent_along() {
        let line = [pod("a", "nobody", true), pod("b", "a", false)];
        let [Act::Delete { cascade, .. }] = &acts(&line, "b")[..] else { panic!("a deletion") };
        assert_eq!(*cascade, Cascade::Background);
    }
}
