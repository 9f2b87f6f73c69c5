//! Reconciles PersistentVolumes: phase, release and reclaim policy.

use muster_api::client::{ApiObject, Subresource};
use muster_api::consts::{managers, storage};
use muster_api::event::EventType;
use muster_api::paths::{claim as claim_path, volume as path};
use muster_api::{kinds, meta, volume};
use muster_scheduler::volumes::{ClaimFacts, ReservedClaim, VolumeFacts};

use super::{look, note, write};
use crate::cache::Caches;
use crate::controller::{Precondition, Reconciled, Step};

/// The next step of a volume.
pub fn plan(it: &ApiObject, caches: &Caches) -> Reconciled {
    let facts = VolumeFacts::of(&it.tree);
    let Some(reserved) = facts.reserved.as_ref().filter(|reserved| !reserved.uid.is_empty()) else {
        return Reconciled::with_steps(phase(it, "Available"));
    };
    let claim = caches.get(&kinds::PERSISTENT_VOLUME_CLAIMS, &reserved.key.0, &reserved.key.1);
    let Some(claim) = claim.filter(|claim| meta::uid(&claim.tree) == reserved.uid) else {
        return Reconciled::with_steps(released(it, reserved));
    };
    let named = claim.tree.text_at(claim_path::VOLUME);
    if named.is_empty() {
        // The reconciliation of the claim completes the binding, unless the claim cannot use the volume.
        return Reconciled::with_steps(odd_mode(it, &facts, claim));
    }
    if named == facts.name {
        return Reconciled::with_steps(phase(it, "Bound"));
    }
    let made = meta::annotation(&it.tree, storage::PROVISIONED_BY).is_some();
    if made && it.tree.str_at(path::POLICY) == "Delete" {
        return Reconciled::with_steps(released(it, reserved));
    }
    Reconciled::with_steps(vec![write(
        &managers::VOLUME_BINDER,
        &kinds::PERSISTENT_VOLUMES,
        it,
        Subresource::Main,
        volume::unbind_patch(&it.tree),
    )])
}

fn phase(it: &ApiObject, phase: &str) -> Vec<Step> {
    if it.tree.str_at(path::PHASE) == phase {
        return Vec::new();
    }
    vec![write(
        &managers::VOLUME_BINDER,
        &kinds::PERSISTENT_VOLUMES,
        it,
        Subresource::Status,
        volume::in_phase(phase, ""),
    )]
}

/// The claim is deleted or uses another volume: the volume is released, and then reclaimed.
fn released(it: &ApiObject, reserved: &ReservedClaim) -> Vec<Step> {
    if ["Released", "Failed"].contains(&it.tree.str_at(path::PHASE)) {
        return reclaim(it);
    }
    let mut steps = phase(it, "Released");
    // The watch of claims may lag behind that of volumes: read the claim live before the volume is released.
    let live = look(&kinds::PERSISTENT_VOLUME_CLAIMS, &reserved.key.0, &reserved.key.1);
    steps.insert(
        0,
        Step::Precondition(
            live,
            Precondition::ClaimReleased { uid: reserved.uid.clone(), volume: meta::name(&it.tree) },
        ),
    );
    steps
}

fn reclaim(it: &ApiObject) -> Vec<Step> {
    let made_by = meta::annotation(&it.tree, storage::PROVISIONED_BY).unwrap_or_default();
    let theirs = !made_by.is_empty() && !made_by.starts_with(storage::IN_TREE);
    let (reason, words) = match it.tree.str_at(path::POLICY) {
        "Recycle" => ("VolumeFailedRecycle", "No recycler plugin found for the volume!".to_owned()),
        "Delete" if !theirs && it.tree.at(path::DRIVER).is_none() => ("VolumeFailedDelete", no_deleter(it)),
        _ => return Vec::new(),
    };
    if it.tree.str_at(path::PHASE) == "Failed" {
        return Vec::new();
    }
    let by = &managers::VOLUME_BINDER;
    let patch = volume::in_phase("Failed", &words);
    let failed = write(by, &kinds::PERSISTENT_VOLUMES, it, Subresource::Status, patch);
    vec![failed, note(by, &kinds::PERSISTENT_VOLUMES, it, EventType::Warning, reason, words)]
}

fn no_deleter(it: &ApiObject) -> String {
    let path = it.tree.str_at(path::HOST_PATH);
    if path.is_empty() {
        let name = meta::name(&it.tree);
        return format!(
            "error getting deleter volume plugin for volume {:?}: no deletable volume plugin matched",
            name.as_str()
        );
    }
    format!("host_path deleter only supports /tmp/.+ but received provided {path}")
}

/// The event that a volume and the claim that it is reserved for have different volume modes.
fn odd_mode(it: &ApiObject, facts: &VolumeFacts, claim: &ApiObject) -> Vec<Step> {
    let wanted = ClaimFacts::of(&claim.tree);
    if wanted.mode == facts.mode {
        return Vec::new();
    }
    let (volume, claimed) = (facts.name.as_str(), wanted.key.1.as_str());
    let of_volume = format!(
        "Cannot bind PersistentVolume to requested PersistentVolumeClaim {claimed:?} due to incompatible volumeMode."
    );
    let of_claim = format!(
        "Cannot bind PersistentVolume {volume:?} to requested PersistentVolumeClaim due to incompatible volumeMode."
    );
    let by = &managers::VOLUME_BINDER;
    vec![
        note(by, &kinds::PERSISTENT_VOLUMES, it, EventType::Warning, "VolumeMismatch", of_volume),
        note(by, &kinds::PERSISTENT_VOLUME_CLAIMS, claim, EventType::Warning, "VolumeMismatch", of_claim),
    ]
}
