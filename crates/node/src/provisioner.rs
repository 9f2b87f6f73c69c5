//! The external provisioner `muster.dev/local-path`: PersistentVolumes backed by directories of this host.
//!
//! For a PersistentVolumeClaim of its StorageClass it creates a directory and a PersistentVolume named after the
//! claim's UID. When the volume is released with reclaim policy Delete, it removes the directory and then the volume.
//!
//! # Guarantees
//!
//! - Every step is idempotent: the volume name follows from the claim UID, and the directory is removed before the
//!   PersistentVolume. A crash in between leaves nothing that the next reconcile does not find.
//! - A directory is unpublished until its PersistentVolume has been observed. Unpublished directories without a claim
//!   are removed; all others only through their PersistentVolume, so retained data is never touched.
//! - A volume of one node is created by the kubelet or simulator of that node, a shared volume by any provisioner.
//!
//! # Deliberately absent
//!
//! Size limits (capacity is reported, not enforced), block devices.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_api::client::{
    ApiObject, ApiRequest, DeletionPropagation, Kind, Preconditions, RequestVerb, Subresource,
};
use muster_api::consts::{managers, storage};
use muster_api::event::{Event, EventType, ObjectReference};
use muster_api::paths::{claim as claim_path, storage_class, volume as volume_path};
use muster_api::time::Time;
use muster_api::{kinds, meta, node, volume};
use muster_control::{Caches, Controller, ObjectKey, ReconcileRequest, Reconciled, Step, WatchEvent};
use muster_tree::{Text, Tree};

use crate::volume_dirs::VolumeDirs;

/// Access modes that need the volume on several nodes at once.
const SHARED: [&str; 2] = ["ReadWriteMany", "ReadOnlyMany"];

/// Retry interval after an I/O error.
const RETRY_INTERVAL: Duration = Duration::from_secs(15);

pub struct LocalPathProvisioner {
    /// The node or simulator ID of the nodes that this provisioner serves.
    mark: Text,
    folders: Box<dyn VolumeDirs>,
    /// Directories without an observed PersistentVolume.
    unpublished: BTreeSet<Text>,
}

impl LocalPathProvisioner {
    /// Provisions volumes of the nodes that carry this ID.
    #[must_use]
    pub fn new(mark: &str, folders: Box<dyn VolumeDirs>) -> LocalPathProvisioner {
        LocalPathProvisioner { mark: Text::from(mark), folders, unpublished: BTreeSet::new() }
    }
}

impl Controller for LocalPathProvisioner {
    fn name(&self) -> &'static str {
        "node"
    }

    fn kinds(&self) -> Vec<Kind> {
        [&kinds::PERSISTENT_VOLUME_CLAIMS, &kinds::PERSISTENT_VOLUMES, &kinds::STORAGE_CLASSES, &kinds::NODES]
            .map(Clone::clone)
            .into()
    }

    fn initial_requests(&mut self, caches: &Caches, _now: Time) -> Vec<ObjectKey> {
        let ours = |name: &Text| name.starts_with(volume::MADE);
        self.unpublished = self.folders.unpublished().into_iter().filter(ours).collect();
        self.remove_orphaned_dirs(caches);
        Vec::new()
    }

    fn map_event(&mut self, seen: &WatchEvent<'_>, caches: &Caches) -> Vec<ReconcileRequest> {
        let claims = |fits: &dyn Fn(&Tree) -> bool| {
            let all =
                caches.all(&kinds::PERSISTENT_VOLUME_CLAIMS).filter(|it| wants(&it.tree) && fits(&it.tree));
            all.map(|it| ObjectKey::of(&kinds::PERSISTENT_VOLUME_CLAIMS, &it.tree).into()).collect()
        };
        match &seen.key.kind {
            kind if *kind == kinds::STORAGE_CLASSES => {
                claims(&|claim| claim.text_at(claim_path::CLASS) == seen.key.name)
            }
            kind if *kind == kinds::NODES => {
                // Claims of a node are retried when the node appears or changes its owner.
                let player =
                    |it: Option<&ApiObject>| it.map(|it| node::kubelet_owner(&it.tree).map(str::to_owned));
                if player(seen.old) == player(seen.new) {
                    return Vec::new();
                }
                claims(&|claim| selected(claim) == Some(seen.key.name.as_str()))
            }
            _ => vec![seen.key.clone().into()],
        }
    }

    fn reconcile(&mut self, key: &ObjectKey, caches: &Caches, now: Time) -> Reconciled {
        match caches.find(key) {
            None => {
                self.remove_orphaned_dirs(caches);
                Reconciled::done()
            }
            Some(it) if key.kind == kinds::PERSISTENT_VOLUMES => {
                self.publish(&key.name);
                self.reclaim(it, now)
            }
            Some(it) => self.provision(it, caches, now).unwrap_or_default(),
        }
    }
}

/// Whether a claim waits for this provisioner.
fn wants(claim: &Tree) -> bool {
    let told =
        meta::annotation(claim, storage::PROVISIONER).or(meta::annotation(claim, storage::OLD_PROVISIONER));
    told == Some(storage::LOCAL_PATH)
        && claim.str_at(claim_path::VOLUME).is_empty()
        && meta::deletion_timestamp(claim).is_none()
}

fn selected(claim: &Tree) -> Option<&str> {
    meta::annotation(claim, storage::SELECTED_NODE)
}

fn is_shared(claim: &Tree) -> bool {
    claim.items_at(claim_path::MODES).iter().any(|mode| mode.as_str().is_some_and(|it| SHARED.contains(&it)))
}

impl LocalPathProvisioner {
    fn provision(&mut self, claim: &ApiObject, caches: &Caches, now: Time) -> Option<Reconciled> {
        let tree = &claim.tree;
        let name = volume::made_name(tree);
        if !wants(tree) || caches.get(&kinds::PERSISTENT_VOLUMES, &Text::new(), &name).is_some() {
            return None;
        }
        let class = caches.get(&kinds::STORAGE_CLASSES, &Text::new(), &tree.text_at(claim_path::CLASS))?;
        let ours = class.tree.str_at(storage_class::PROVISIONER) == storage::LOCAL_PATH;
        let waits = class.tree.str_at(storage_class::BINDING) == "WaitForFirstConsumer";
        let selected = selected(tree).map(Text::from);
        if !ours || (waits && selected.is_none()) {
            return None;
        }
        let mut host = selected.clone();
        if let Some(name) = &selected {
            match caches.get(&kinds::NODES, &Text::new(), name) {
                // The selected node no longer exists: removing the annotation makes the scheduler select another.
                None => return Some(Reconciled::with_steps(vec![reschedule(claim)])),
                Some(live) if node::kubelet_owner(&live.tree) != Some(&self.mark) => return None,
                Some(live) => host = Some(node::hostname(&live.tree)),
            }
        }
        Some(self.make(claim, class, &name, host.as_ref(), now))
    }

    /// Creates the directory and the PersistentVolume, with node affinity for `host` unless the volume is shared.
    fn make(
        &mut self,
        claim: &ApiObject,
        class: &ApiObject,
        name: &Text,
        host: Option<&Text>,
        now: Time,
    ) -> Reconciled {
        let (namespace, of) = (meta::namespace(&claim.tree), meta::name(&claim.tree));
        let begin = format!("External provisioner is provisioning volume for claim \"{namespace}/{of}\"");
        let mut steps = vec![emit_event(claim, EventType::Normal, "Provisioning", begin)];
        // Tracked before the directory exists: a failed or interrupted create is cleaned up as an orphan.
        self.unpublished.insert(name.clone());
        let created = match claim.tree.str_at(claim_path::MODE) {
            "Block" => Err("only file systems can be made, not block devices".to_owned()),
            _ => self.folders.create(name),
        };
        if let Err(why) = created {
            let class = meta::name(&class.tree);
            let message = format!("failed to provision volume with StorageClass {:?}: {why}", class.as_str());
            steps.push(emit_event(claim, EventType::Warning, "ProvisioningFailed", message));
            steps.extend(host.map(|_| reschedule(claim)));
            return Reconciled::with_steps(steps).requeue_at(now + RETRY_INTERVAL);
        }
        let node = host.filter(|_| !is_shared(&claim.tree));
        let pv = volume::host_path_volume(claim, &class.tree, &self.folders.path(name), node);
        let on = ObjectKey::new(&kinds::PERSISTENT_VOLUMES, &Text::new(), name).target(Subresource::Main);
        let call = ApiRequest {
            field_manager: managers::LOCAL_PATH.clone(),
            target: on,
            preconditions: Preconditions::default(),
            verb: RequestVerb::Create(pv),
        };
        steps.push(Step::Request(call));
        let message = format!("Successfully provisioned volume {name}");
        steps.push(emit_event(claim, EventType::Normal, "ProvisioningSucceeded", message));
        Reconciled::with_steps(steps)
    }

    /// The PersistentVolume was observed: its directory is published.
    fn publish(&mut self, name: &Text) {
        // A failure is retried with the next event of the volume.
        if self.unpublished.contains(name) && self.folders.mark_published(name).is_ok() {
            self.unpublished.remove(name);
        }
    }

    /// Removes a released volume, the directory first: the other order would leak the directory after a crash.
    fn reclaim(&mut self, it: &ApiObject, now: Time) -> Reconciled {
        let tree = &it.tree;
        let ours = meta::annotation(tree, storage::PROVISIONED_BY) == Some(storage::LOCAL_PATH);
        let released = tree.str_at(volume_path::PHASE) == "Released";
        let due = tree.str_at(volume_path::POLICY) == "Delete" && meta::deletion_timestamp(tree).is_none();
        let name = meta::name(tree);
        let here = tree.str_at(volume_path::HOST_PATH) == self.folders.path(&name);
        if !(ours && released && due && here) {
            return Reconciled::done();
        }
        if let Err(why) = self.folders.remove(&name) {
            let about = ObjectReference::of(&kinds::PERSISTENT_VOLUMES, "PersistentVolume", tree);
            let failed = event(about, EventType::Warning, "VolumeFailedDelete", why);
            return Reconciled::with_steps(vec![failed]).requeue_at(now + RETRY_INTERVAL);
        }
        self.unpublished.remove(&name);
        let on = meta::target(&kinds::PERSISTENT_VOLUMES, tree, Subresource::Main);
        let by = managers::LOCAL_PATH.clone();
        Reconciled::with_steps(vec![Step::Request(ApiRequest::delete(
            by,
            on,
            meta::uid(tree),
            DeletionPropagation::Background,
        ))])
    }

    /// Removes unpublished directories without a PersistentVolume and without a claim.
    fn remove_orphaned_dirs(&mut self, caches: &Caches) {
        let lost = |name: &&Text| {
            let uid = Text::from(name.strip_prefix(volume::MADE).unwrap_or_default());
            caches.get(&kinds::PERSISTENT_VOLUMES, &Text::new(), name).is_none()
                && caches.by_uid(&uid).is_none()
        };
        for name in self.unpublished.iter().filter(lost).cloned().collect::<Vec<_>>() {
            // A failure is retried when the next volume is deleted.
            if self.folders.remove(&name).is_ok() {
                self.unpublished.remove(&name);
            }
        }
    }
}

/// Removes the selected-node annotation, so that the scheduler selects another node.
fn reschedule(claim: &ApiObject) -> Step {
    Step::Request(ApiRequest {
        field_manager: managers::LOCAL_PATH.clone(),
        target: meta::target(&kinds::PERSISTENT_VOLUME_CLAIMS, &claim.tree, Subresource::Main),
        preconditions: Preconditions { uid: Some(meta::uid(&claim.tree)), revision: Some(claim.revision) },
        verb: RequestVerb::MergePatch(volume::annotation(storage::SELECTED_NODE, None)),
    })
}

fn emit_event(claim: &ApiObject, severity: EventType, reason: &str, message: String) -> Step {
    event(
        ObjectReference::of(&kinds::PERSISTENT_VOLUME_CLAIMS, "PersistentVolumeClaim", &claim.tree),
        severity,
        reason,
        message,
    )
}

fn event(about: ObjectReference, severity: EventType, reason: &str, message: String) -> Step {
    let by = managers::LOCAL_PATH.clone();
    Step::Event(Event {
        action: Text::new(),
        reporting_controller: by,
        regarding: about,
        event_type: severity,
        reason: reason.into(),
        message: message.into(),
    })
}

#[cfg(test)]
mod tests;
