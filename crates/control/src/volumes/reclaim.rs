//! What a volume needs next: a phase that says what it is, to be let go, or to be reclaimed.

use muster_api::event::Severity;
use muster_api::paths::{claim as claim_path, volume as path};
use muster_api::port::{Object, Part};
use muster_api::words::{managers, storage};
use muster_api::{kinds, meta, volume};
use muster_scheduler::volumes::{ClaimFacts, Reserved, VolumeFacts};

use super::{look, note, write};
use crate::cache::Caches;
use crate::plan::{Plan, Step, Want};

/// The next step of a volume.
pub fn plan(it: &Object, caches: &Caches) -> Plan {
    let facts = VolumeFacts::of(&it.tree);
    let Some(reserved) = facts.reserved.as_ref().filter(|reserved| !reserved.uid.is_empty()) else {
        return Plan::of(phase(it, "Available"));
    };
    let claim = caches.get(&kinds::CLAIMS, &reserved.key.0, &reserved.key.1);
    let Some(claim) = claim.filter(|claim| meta::uid(&claim.tree) == reserved.uid) else {
        return Plan::of(released(it, reserved));
    };
    let named = claim.tree.text_at(claim_path::VOLUME);
    if named.is_empty() {
        // The claim's own look completes the binding, unless it never will.
        return Plan::of(odd_mode(it, &facts, claim));
    }
    if named == facts.name {
        return Plan::of(phase(it, "Bound"));
    }
    let made = meta::annotation(&it.tree, storage::PROVISIONED_BY).is_some();
    if made && it.tree.str_at(path::POLICY) == "Delete" {
        return Plan::of(released(it, reserved));
    }
    Plan::of(vec![write(
        &managers::VOLUME_BINDER,
        &kinds::VOLUMES,
        it,
        Part::Main,
        volume::take_back(&it.tree),
    )])
}

fn phase(it: &Object, phase: &str) -> Vec<Step> {
    if it.tree.str_at(path::PHASE) == phase {
        return Vec::new();
    }
    vec![write(&managers::VOLUME_BINDER, &kinds::VOLUMES, it, Part::Status, volume::in_phase(phase, ""))]
}

/// Its claim is gone, or has another volume: it is released, and then reclaimed.
fn released(it: &Object, reserved: &Reserved) -> Vec<Step> {
    if ["Released", "Failed"].contains(&it.tree.str_at(path::PHASE)) {
        return reclaim(it);
    }
    let mut steps = phase(it, "Released");
    // The watch of claims may lag behind that of volumes.
    let live = look(&kinds::CLAIMS, &reserved.key.0, &reserved.key.1);
    steps.insert(
        0,
        Step::Look(live, Want::Elsewhere { uid: reserved.uid.clone(), volume: meta::name(&it.tree) }),
    );
    steps
}

fn reclaim(it: &Object) -> Vec<Step> {
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
    let failed = write(by, &kinds::VOLUMES, it, Part::Status, patch);
    vec![failed, note(by, &kinds::VOLUMES, it, Severity::Warning, reason, words)]
}

fn no_deleter(it: &Object) -> String {
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

/// A volume that is meant for a claim of another mode never gets it.
fn odd_mode(it: &Object, facts: &VolumeFacts, claim: &Object) -> Vec<Step> {
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
        note(by, &kinds::VOLUMES, it, Severity::Warning, "VolumeMismatch", of_volume),
        note(by, &kinds::CLAIMS, claim, Severity::Warning, "VolumeMismatch", of_claim),
    ]
}
