//! The volume controllers of kube-controller-manager: binding and reclaiming of PersistentVolumes and claims (`claims`,
//! `reclaim`), protection of volumes and claims in use (`protect`), and generic ephemeral volumes (`ephemeral`).
//!
//! # Guarantees
//!
//! - A reconciliation sends at most one write, with a `resourceVersion` precondition: after a crash the next one continues. A
//!   volume is written before its claim.
//! - Steps that may lose data (claim lost, volume released, protection removed) read the live state first.
//!
//! # Deliberately absent
//!
//! Creating and deleting the storage behind a volume: provisioners do that.

mod claims;
mod ephemeral;
mod known;
mod protect;
mod reclaim;

use muster_api::client::{ApiError, ApiObject, ApiRequest, Kind, Preconditions, RequestVerb, Subresource};
use muster_api::consts::managers;
use muster_api::event::{Event, EventType, ObjectReference};
use muster_api::paths::{claim as claim_path, pod as pod_path, volume as volume_path};
use muster_api::pod::{self, PodPhase};
use muster_api::time::Time;
use muster_api::{kinds, meta};
use muster_tree::{Text, Tree};

use crate::cache::{Caches, WatchEvent};
use crate::controller::{Controller, ObjectKey, ReconcileRequest, Reconciled, Step};
use known::Known;

/// The controllers of volumes.
#[derive(Debug, Default)]
pub struct VolumeController {
    known: Known,
}

impl Controller for VolumeController {
    fn name(&self) -> &'static str {
        "volume"
    }

    fn kinds(&self) -> Vec<Kind> {
        [&kinds::PERSISTENT_VOLUME_CLAIMS, &kinds::PERSISTENT_VOLUMES, &kinds::STORAGE_CLASSES, &kinds::PODS]
            .map(Clone::clone)
            .into()
    }

    fn map_event(&mut self, seen: &WatchEvent<'_>, _caches: &Caches) -> Vec<ReconcileRequest> {
        let keys = match &seen.key.kind {
            kind if *kind == kinds::PERSISTENT_VOLUME_CLAIMS => self.claim_changed(seen),
            kind if *kind == kinds::PERSISTENT_VOLUMES => self.volume_changed(seen),
            kind if *kind == kinds::STORAGE_CLASSES => {
                self.known.class(&seen.key.name, seen.new);
                self.known.pending(Some(&seen.key.name)).map(claim_key).collect()
            }
            kind if *kind == kinds::PODS => self.pod_changed(seen),
            _ => Vec::new(),
        };
        keys.into_iter().map(ReconcileRequest::from).collect()
    }

    fn reconcile(&mut self, key: &ObjectKey, caches: &Caches, now: Time) -> Reconciled {
        let Some(object) = caches.find(key) else {
            return Reconciled::done();
        };
        if key.kind == kinds::PODS {
            return ephemeral::plan(object, caches);
        }
        if key.kind == kinds::PERSISTENT_VOLUMES {
            let kept = protect::volume(object);
            return kept.unwrap_or_else(|| reclaim::plan(object, caches));
        }
        let using = || self.known.users(&key.namespace, &key.name).filter_map(|pod| pod_of(key, pod, caches));
        protect::claim(object, using)
            .or_else(|| claims::plan(object, &self.known, using, caches))
            .or_else(|| protect::unused(object, using, now))
            .unwrap_or_default()
    }

    fn on_request_error(
        &mut self,
        key: &ObjectKey,
        call: &ApiRequest,
        why: &ApiError,
        caches: &Caches,
    ) -> Option<Event> {
        ephemeral::refused(caches.find(key)?, call, why)
    }
}

impl VolumeController {
    fn claim_changed(&mut self, seen: &WatchEvent<'_>) -> Vec<ObjectKey> {
        let key = (seen.key.namespace.clone(), seen.key.name.clone());
        self.known.claim(&key, seen.new);
        let mut keys = vec![seen.key.clone()];
        let named = [seen.old, seen.new].into_iter().flatten().map(|it| it.tree.text_at(claim_path::VOLUME));
        keys.extend(named.filter(|name| !name.is_empty()).map(|name| volume_key(&name)));
        keys.extend(self.known.volumes.reserved_for(&key).map(volume_key));
        if seen.new.is_none() {
            // The pod that owns the ephemeral claim creates it again.
            keys.extend(
                self.known.users(&key.0, &key.1).map(|pod| ObjectKey::new(&kinds::PODS, &key.0, pod)),
            );
        }
        keys
    }

    fn volume_changed(&mut self, seen: &WatchEvent<'_>) -> Vec<ObjectKey> {
        let mut keys = vec![seen.key.clone()];
        let claims = [seen.old, seen.new].into_iter().flatten().filter_map(|it| {
            let name = it.tree.text_at(volume_path::CLAIM_NAME);
            let namespace = it.tree.text_at(volume_path::CLAIM_NAMESPACE);
            (!name.is_empty()).then(|| ObjectKey::new(&kinds::PERSISTENT_VOLUME_CLAIMS, &namespace, &name))
        });
        keys.extend(claims);
        let freed = self.known.volume(&seen.key.name, seen.new);
        if let Some(class) = freed {
            keys.extend(self.known.pending(Some(&class)).map(claim_key));
        }
        keys.extend(self.known.naming(&seen.key.name).map(claim_key));
        keys
    }

    fn pod_changed(&mut self, seen: &WatchEvent<'_>) -> Vec<ObjectKey> {
        let place = |it: &ApiObject| {
            let ended = PodPhase::of(it.tree.str_at(pod_path::PHASE)).is_terminal();
            (
                it.tree.text_at(pod_path::NODE_NAME),
                ended,
                meta::deletion_timestamp(&it.tree),
                meta::deletion_grace_secs(&it.tree),
                meta::uid(&it.tree),
            )
        };
        if seen.old.map(place) == seen.new.map(place) {
            return Vec::new();
        }
        let (namespace, name) = (&seen.key.namespace, &seen.key.name);
        let claims =
            |it: Option<&ApiObject>| it.map(|it| pod::volume_claims(&it.tree).collect()).unwrap_or_default();
        let (before, after): (Vec<_>, Vec<_>) = (claims(seen.old), claims(seen.new));
        let mut keys: Vec<ObjectKey> = Vec::new();
        before.iter().for_each(|used| self.known.unuse(namespace, &used.claim, name));
        after.iter().for_each(|used| self.known.r#use(namespace, &used.claim, name));
        if after.iter().any(|used| used.ephemeral_volume.is_some()) {
            keys.push(seen.key.clone());
        }
        let used = before.iter().chain(&after);
        keys.extend(
            used.map(|used| ObjectKey::new(&kinds::PERSISTENT_VOLUME_CLAIMS, namespace, &used.claim)),
        );
        keys
    }
}

fn claim_key((namespace, name): &(Text, Text)) -> ObjectKey {
    ObjectKey::new(&kinds::PERSISTENT_VOLUME_CLAIMS, namespace, name)
}

fn volume_key(name: &Text) -> ObjectKey {
    ObjectKey::new(&kinds::PERSISTENT_VOLUMES, &Text::new(), name)
}

fn pod_of<'a>(claim: &ObjectKey, pod: &Text, caches: &'a Caches) -> Option<&'a ApiObject> {
    caches.get(&kinds::PODS, &claim.namespace, pod)
}

/// Merge-patches an object, with preconditions on what was read.
fn write(by: &Text, kind: &Kind, object: &ApiObject, part: Subresource, patch: Tree) -> Step {
    Step::Request(ApiRequest {
        field_manager: by.clone(),
        target: meta::target(kind, &object.tree, part),
        preconditions: Preconditions { uid: Some(meta::uid(&object.tree)), revision: Some(object.revision) },
        verb: RequestVerb::MergePatch(patch),
    })
}

fn note(
    by: &Text,
    kind: &Kind,
    object: &ApiObject,
    severity: EventType,
    reason: &str,
    message: String,
) -> Step {
    let word = if *kind == kinds::PERSISTENT_VOLUME_CLAIMS {
        "PersistentVolumeClaim"
    } else if *kind == kinds::PERSISTENT_VOLUMES {
        "PersistentVolume"
    } else {
        "Pod"
    };
    let about = ObjectReference::of(kind, word, &object.tree);
    Step::Event(Event {
        action: Text::new(),
        reporting_controller: by.clone(),
        regarding: about,
        event_type: severity,
        reason: reason.into(),
        message: message.into(),
    })
}

/// A live read with a precondition.
fn look(kind: &Kind, namespace: &Text, name: &Text) -> ApiRequest {
    ApiRequest {
        field_manager: managers::VOLUME_BINDER.clone(),
        target: ObjectKey::new(kind, namespace, name).target(Subresource::Main),
        preconditions: Preconditions::default(),
        verb: RequestVerb::Get,
    }
}

#[cfg(test)]
mod tests;
