//! Claims and the volumes they get, as the kube-controller-manager looks after them.
//!
//! Three things under one name: claims and volumes are bound to each other and reclaimed (`claims`, `reclaim`), what
//! is in use is kept (`protect`), and pods that bring a template get a claim of their own (`ephemeral`).
//!
//! # Invariants
//!
//! - One look, at most one write, guarded by the revision that was looked at: whoever dies in between leaves a state from
//!   which the next look goes on. A volume is written before its claim.
//! - What would let go of data (a claim is lost, a volume released, a protection ended) is checked against live state first.
//!
//! # Deliberately absent
//!
//! Volumes that are made or wiped here: that is the business of provisioners.

mod claims;
mod ephemeral;
mod known;
mod protect;
mod reclaim;

use muster_api::event::{About, Event, Severity};
use muster_api::paths::{claim as claim_path, pod as pod_path, volume as volume_path};
use muster_api::pod::{self, Phase};
use muster_api::port::{Act, Call, Guard, Kind, Object, Part, Refusal};
use muster_api::time::Time;
use muster_api::words::managers;
use muster_api::{kinds, meta};
use muster_tree::{Text, Tree};

use crate::cache::{Caches, Seen};
use crate::plan::{Controller, Key, Plan, Step, Wake};
use known::Known;

/// The controllers of volumes.
#[derive(Debug, Default)]
pub struct Volumes {
    known: Known,
}

impl Controller for Volumes {
    fn name(&self) -> &'static str {
        "volume"
    }

    fn kinds(&self) -> Vec<Kind> {
        [&kinds::CLAIMS, &kinds::VOLUMES, &kinds::STORAGE_CLASSES, &kinds::PODS].map(Clone::clone).into()
    }

    fn wakes(&mut self, seen: &Seen<'_>, _caches: &Caches) -> Vec<Wake> {
        let keys = match &seen.key.kind {
            kind if *kind == kinds::CLAIMS => self.claim_changed(seen),
            kind if *kind == kinds::VOLUMES => self.volume_changed(seen),
            kind if *kind == kinds::STORAGE_CLASSES => {
                self.known.class(&seen.key.name, seen.after);
                self.known.pending(Some(&seen.key.name)).map(claim_key).collect()
            }
            kind if *kind == kinds::PODS => self.pod_changed(seen),
            _ => Vec::new(),
        };
        keys.into_iter().map(Wake::from).collect()
    }

    fn plan(&mut self, key: &Key, caches: &Caches, now: Time) -> Plan {
        let Some(object) = caches.find(key) else {
            return Plan::nothing();
        };
        if key.kind == kinds::PODS {
            return ephemeral::plan(object, caches);
        }
        if key.kind == kinds::VOLUMES {
            let kept = protect::volume(object);
            return kept.unwrap_or_else(|| reclaim::plan(object, caches));
        }
        let using = || self.known.users(&key.namespace, &key.name).filter_map(|pod| pod_of(key, pod, caches));
        protect::claim(object, using)
            .or_else(|| claims::plan(object, &self.known, using, caches))
            .or_else(|| protect::unused(object, using, now))
            .unwrap_or_default()
    }

    fn refused(&mut self, key: &Key, call: &Call, why: &Refusal, caches: &Caches) -> Option<Event> {
        ephemeral::refused(caches.find(key)?, call, why)
    }
}

impl Volumes {
    fn claim_changed(&mut self, seen: &Seen<'_>) -> Vec<Key> {
        let key = (seen.key.namespace.clone(), seen.key.name.clone());
        self.known.claim(&key, seen.after);
        let mut keys = vec![seen.key.clone()];
        let named =
            [seen.before, seen.after].into_iter().flatten().map(|it| it.tree.text_at(claim_path::VOLUME));
        keys.extend(named.filter(|name| !name.is_empty()).map(|name| volume_key(&name)));
        keys.extend(self.known.volumes.meant_for(&key).map(volume_key));
        if seen.after.is_none() {
            // A pod that had it made for itself wants it made anew.
            keys.extend(self.known.users(&key.0, &key.1).map(|pod| Key::new(&kinds::PODS, &key.0, pod)));
        }
        keys
    }

    fn volume_changed(&mut self, seen: &Seen<'_>) -> Vec<Key> {
        let mut keys = vec![seen.key.clone()];
        let claims = [seen.before, seen.after].into_iter().flatten().filter_map(|it| {
            let name = it.tree.text_at(volume_path::CLAIM_NAME);
            let namespace = it.tree.text_at(volume_path::CLAIM_NAMESPACE);
            (!name.is_empty()).then(|| Key::new(&kinds::CLAIMS, &namespace, &name))
        });
        keys.extend(claims);
        let freed = self.known.volume(&seen.key.name, seen.after);
        if let Some(class) = freed {
            keys.extend(self.known.pending(Some(&class)).map(claim_key));
        }
        keys.extend(self.known.naming(&seen.key.name).map(claim_key));
        keys
    }

    fn pod_changed(&mut self, seen: &Seen<'_>) -> Vec<Key> {
        let place = |it: &Object| {
            let ended = Phase::of(it.tree.str_at(pod_path::PHASE)).ended();
            (
                it.tree.text_at(pod_path::NODE_NAME),
                ended,
                meta::deleting(&it.tree),
                meta::grace_secs(&it.tree),
                meta::uid(&it.tree),
            )
        };
        if seen.before.map(place) == seen.after.map(place) {
            return Vec::new();
        }
        let (namespace, name) = (&seen.key.namespace, &seen.key.name);
        let claims = |it: Option<&Object>| it.map(|it| pod::claims(&it.tree).collect()).unwrap_or_default();
        let (before, after): (Vec<_>, Vec<_>) = (claims(seen.before), claims(seen.after));
        let mut keys: Vec<Key> = Vec::new();
        before.iter().for_each(|used| self.known.unuse(namespace, &used.claim, name));
        after.iter().for_each(|used| self.known.r#use(namespace, &used.claim, name));
        if after.iter().any(|used| used.made_for.is_some()) {
            keys.push(seen.key.clone());
        }
        let used = before.iter().chain(&after);
        keys.extend(used.map(|used| Key::new(&kinds::CLAIMS, namespace, &used.claim)));
        keys
    }
}

fn claim_key((namespace, name): &(Text, Text)) -> Key {
    Key::new(&kinds::CLAIMS, namespace, name)
}

fn volume_key(name: &Text) -> Key {
    Key::new(&kinds::VOLUMES, &Text::new(), name)
}

fn pod_of<'a>(claim: &Key, pod: &Text, caches: &'a Caches) -> Option<&'a Object> {
    caches.get(&kinds::PODS, &claim.namespace, pod)
}

/// A merge of a part of an object, as it was looked at.
fn write(by: &Text, kind: &Kind, object: &Object, part: Part, patch: Tree) -> Step {
    Step::One(Call {
        by: by.clone(),
        on: meta::target(kind, &object.tree, part),
        guard: Guard { uid: Some(meta::uid(&object.tree)), revision: Some(object.revision) },
        act: Act::Merge(patch),
    })
}

fn note(by: &Text, kind: &Kind, object: &Object, severity: Severity, reason: &str, message: String) -> Step {
    let word = if *kind == kinds::CLAIMS {
        "PersistentVolumeClaim"
    } else if *kind == kinds::VOLUMES {
        "PersistentVolume"
    } else {
        "Pod"
    };
    let about = About::of(kind, word, &object.tree);
    Step::Note(Event {
        action: Text::new(),
        by: by.clone(),
        about,
        severity,
        reason: reason.into(),
        message: message.into(),
    })
}

/// A read of an object that decides whether the plan goes on.
fn look(kind: &Kind, namespace: &Text, name: &Text) -> Call {
    Call {
        by: managers::VOLUME_BINDER.clone(),
        on: Key::new(kind, namespace, name).target(Part::Main),
        guard: Guard::default(),
        act: Act::Get,
    }
}

#[cfg(test)]
mod tests;
