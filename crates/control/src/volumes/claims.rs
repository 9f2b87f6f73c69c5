//! Reconciles PersistentVolumeClaims: binds a matching volume, requests provisioning, or sets the phase to Lost.

use muster_api::client::{ApiObject, Subresource};
use muster_api::consts::{managers, storage};
use muster_api::event::EventType;
use muster_api::paths::{claim as path, pod as pod_path, volume as volume_path};
use muster_api::pod::PodPhase;
use muster_api::{kinds, meta, volume};
use muster_scheduler::volumes::{
    ClaimFacts, VolumeFacts, VolumeSearch, find_matching_volume, has_access_modes,
};
use muster_tree::{Text, Tree};

use super::known::Known;
use super::{look, note, write};
use crate::cache::Caches;
use crate::controller::{Precondition, Reconciled, Step};

/// The next step of a claim; `None` when it needs nothing.
pub fn plan<'a, I: Iterator<Item = &'a ApiObject>>(
    claim: &ApiObject,
    known: &Known,
    using: impl Fn() -> I,
    caches: &Caches,
) -> Option<Reconciled> {
    let facts = ClaimFacts::of(&claim.tree);
    let it = Look { claim, facts: &facts, known, caches };
    let steps = match (facts.complete, facts.volume.is_empty()) {
        (true, true) => it.lost(
            "ClaimLost",
            "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!",
        ),
        (true, false) => it.bound(),
        (false, true) => it.unbound(using()),
        (false, false) => it.asks_for(&facts.volume),
    };
    (!steps.is_empty()).then(|| Reconciled::with_steps(steps))
}

struct Look<'a> {
    claim: &'a ApiObject,
    facts: &'a ClaimFacts,
    known: &'a Known,
    caches: &'a Caches,
}

impl Look<'_> {
    fn unbound<'a>(&self, using: impl Iterator<Item = &'a ApiObject>) -> Vec<Step> {
        let class = self.known.classes.get(self.facts.class());
        let waits = class.is_some_and(|it| it.waits);
        let found = find_matching_volume(
            self.facts,
            self.known.volumes.candidates(self.facts),
            VolumeSearch::Anywhere { waits },
        );
        if let Some(volume) = found.and_then(|it| self.volume(&it.name)) {
            return self.bind(volume);
        }
        if self.facts.class.is_none()
            && let Some(default) = self.known.default_class()
        {
            return vec![self.write(Subresource::Main, volume::set_storage_class(default))];
        }
        if waits && self.facts.node.is_empty() {
            return self.pending(vec![self.waits_for(using)]);
        }
        if !self.facts.class().is_empty() {
            return self.provision(class.map(|it| it.provisioner.as_str()));
        }
        let words = "no persistent volumes available for this claim and no storage class is set";
        self.pending(vec![self.note(EventType::Normal, "FailedBinding", words.to_owned())])
    }

    /// The event about what a claim waits for.
    fn waits_for<'a>(&self, using: impl Iterator<Item = &'a ApiObject>) -> Step {
        let waits = |pod: &&ApiObject| {
            pod.tree.str_at(pod_path::NODE_NAME).is_empty()
                && !PodPhase::of(pod.tree.str_at(pod_path::PHASE)).is_terminal()
        };
        let names: Vec<Text> = using.filter(waits).map(|pod| meta::name(&pod.tree)).collect();
        let words = match names.as_slice() {
            [] => {
                let words = "waiting for first consumer to be created before binding";
                return self.note(EventType::Normal, "WaitForFirstConsumer", words.to_owned());
            }
            [one] => format!("waiting for pod {one} to be scheduled"),
            many => format!("waiting for pods {} to be scheduled", many.join(",")),
        };
        self.note(EventType::Normal, "WaitForPodScheduled", words)
    }

    fn provision(&self, provisioner: Option<&str>) -> Vec<Step> {
        let Some(provisioner) = provisioner else {
            let words = format!("storageclass.storage.k8s.io {:?} not found", self.facts.class());
            return vec![self.note(EventType::Warning, "ProvisioningFailed", words)];
        };
        if provisioner.starts_with(storage::IN_TREE) {
            let words = format!("no volume plugin matched name: {provisioner}");
            return vec![self.note(EventType::Warning, "ProvisioningFailed", words)];
        }
        let words = format!(
            "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered."
        );
        let told = meta::annotation(&self.claim.tree, storage::PROVISIONER) == Some(provisioner);
        let mut steps: Vec<Step> = Vec::new();
        if !told {
            steps.push(self.write(Subresource::Main, volume::set_provisioner(provisioner)));
        }
        steps.push(self.note(EventType::Normal, "ExternalProvisioning", words));
        steps
    }

    /// A claim with `spec.volumeName`.
    fn asks_for(&self, name: &Text) -> Vec<Step> {
        let Some((volume, facts)) = self.volume(name).zip(self.known.volumes.get(name)) else {
            return self.pending(Vec::new());
        };
        if facts.is_for(self.facts) {
            return self.bind(volume);
        }
        if facts.reserved.is_some() {
            let words = format!("volume {:?} already bound to a different claim.", name.as_str());
            return self.pending(vec![self.note(EventType::Warning, "FailedBinding", words)]);
        }
        match mismatch(self.facts, facts) {
            None => self.bind(volume),
            Some(why) => {
                let words = format!("Cannot bind to requested volume {:?}: {why}", name.as_str());
                self.pending(vec![self.note(EventType::Warning, "VolumeMismatch", words)])
            }
        }
    }

    fn bound(&self) -> Vec<Step> {
        let Some(volume) = self.volume(&self.facts.volume) else {
            let words = "Bound claim has lost its PersistentVolume. Data on the volume is lost!";
            let mut steps = self.lost("ClaimLost", words);
            if !steps.is_empty() {
                // The watch of volumes may lag behind that of claims: read the volume live before the claim is lost.
                let live = look(&kinds::PERSISTENT_VOLUMES, &Text::new(), &self.facts.volume);
                steps.insert(0, Step::Precondition(live, Precondition::NotFound));
            }
            return steps;
        };
        let uid = volume.tree.text_at(volume_path::CLAIM_UID);
        if volume.tree.at(volume_path::CLAIM).is_none() || uid == self.facts.uid {
            return self.bind(volume);
        }
        self.lost("ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly")
    }

    /// The next write that binds claim and volume to each other.
    fn bind(&self, volume: &ApiObject) -> Vec<Step> {
        let facts = VolumeFacts::of(&volume.tree);
        let given =
            facts.reserved.as_ref().is_some_and(|it| it.key == self.facts.key && it.uid == self.facts.uid);
        let by = &managers::VOLUME_BINDER;
        if !given {
            let patch = volume::bind_patch(self.claim, !facts.is_for(self.facts));
            return vec![write(by, &kinds::PERSISTENT_VOLUMES, volume, Subresource::Main, patch)];
        }
        if volume.tree.str_at(volume_path::PHASE) != "Bound" {
            return vec![write(
                by,
                &kinds::PERSISTENT_VOLUMES,
                volume,
                Subresource::Status,
                volume::in_phase("Bound", ""),
            )];
        }
        let named = self.facts.volume == facts.name;
        if !named || !self.facts.complete {
            return vec![self.write(Subresource::Main, volume::name_volume(&facts.name, !named))];
        }
        let patch = volume::with_volume(&self.claim.tree, &volume.tree);
        patch.map(|patch| self.write(Subresource::Status, patch)).into_iter().collect()
    }

    fn lost(&self, reason: &str, words: &str) -> Vec<Step> {
        if self.claim.tree.str_at(path::PHASE) == "Lost" {
            return Vec::new();
        }
        let patch = volume::without_volume(&self.claim.tree, "Lost").unwrap_or_default();
        vec![self.write(Subresource::Status, patch), self.note(EventType::Warning, reason, words.to_owned())]
    }

    /// These steps, and a status that says that the claim waits.
    fn pending(&self, mut steps: Vec<Step>) -> Vec<Step> {
        let patch = volume::without_volume(&self.claim.tree, "Pending");
        steps.extend(patch.map(|patch| self.write(Subresource::Status, patch)));
        steps
    }

    fn volume(&self, name: &Text) -> Option<&ApiObject> {
        self.caches.get(&kinds::PERSISTENT_VOLUMES, &Text::new(), name)
    }

    fn write(&self, part: Subresource, patch: Tree) -> Step {
        write(&managers::VOLUME_BINDER, &kinds::PERSISTENT_VOLUME_CLAIMS, self.claim, part, patch)
    }

    fn note(&self, severity: EventType, reason: &str, message: String) -> Step {
        note(
            &managers::VOLUME_BINDER,
            &kinds::PERSISTENT_VOLUME_CLAIMS,
            self.claim,
            severity,
            reason,
            message,
        )
    }
}

/// Why the volume that a claim names does not match.
fn mismatch(claim: &ClaimFacts, volume: &VolumeFacts) -> Option<String> {
    let words = if volume.deleting {
        return Some(format!("the volume is marked for deletion {:?}", volume.name.as_str()));
    } else if volume.size < claim.size {
        "requested PV is too small"
    } else if volume.class != claim.class() {
        "storageClassName does not match"
    } else if volume.attributes != claim.attributes {
        "volumeAttributesClassName does not match"
    } else if volume.mode != claim.mode {
        "incompatible volumeMode"
    } else if !has_access_modes(claim, volume) {
        "incompatible accessMode"
    } else {
        return None;
    };
    Some(words.to_owned())
}
