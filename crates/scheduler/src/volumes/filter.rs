//! `PreFilter` and `Filter` of the volume plugins, in the order of kube-scheduler, so that the reasons are the same.

use std::collections::BTreeMap;

use muster_api::node::NodeFacts;
use muster_tree::Text;

use super::facts::{ClaimFacts, ClaimKey, VolumeFacts};
use super::matching::{self, VolumeSearch};
use super::pod_claims::{VolumeClaimRef, VolumeFilterFailure};
use super::{AssumedBinding, VolumeBinder, VolumeClaimingPod};

impl VolumeBinder {
    /// Why a pod is unschedulable on every node.
    #[must_use]
    pub fn pre_filter_error(&self, asker: &VolumeClaimingPod<'_>) -> Option<Text> {
        let plain = asker.claims.claims.iter().filter(|want| !want.ephemeral);
        let missing = plain.clone().find(|want| self.wanted(asker, want).is_none());
        if let Some(want) = missing {
            return Some(Text::from(format!("persistentvolumeclaim {:?} not found", want.claim.as_str())));
        }
        let unfit = asker.claims.claims.iter().find_map(|want| self.unfit(asker, want));
        unfit
            .or_else(|| self.unbound(asker))
            .or_else(|| plain.into_iter().find_map(|want| self.lost(asker, want)))
    }

    fn unfit(&self, asker: &VolumeClaimingPod<'_>, want: &VolumeClaimRef) -> Option<Text> {
        let (namespace, pod) = asker.key;
        let name = want.claim.as_str();
        let Some(claim) = self.wanted(asker, want) else {
            let words = format!(
                "waiting for ephemeral volume controller to create the persistentvolumeclaim {name:?}"
            );
            return Some(Text::from(words));
        };
        let words = if claim.lost {
            let volume = claim.volume.as_str();
            format!("persistentvolumeclaim {name:?} bound to non-existent persistentvolume {volume:?}")
        } else if claim.deleting {
            format!("persistentvolumeclaim {name:?} is being deleted")
        } else if want.ephemeral && claim.owner.as_ref() != Some(&asker.claims.uid) {
            format!("PVC {namespace}/{name} was not created for pod {namespace}/{pod} (pod is not owner)")
        } else {
            return None;
        };
        Some(Text::from(words))
    }

    fn unbound(&self, asker: &VolumeClaimingPod<'_>) -> Option<Text> {
        let waits = |claim: &ClaimFacts| {
            claim.volume.is_empty() && self.classes.get(claim.class()).is_some_and(|class| class.waits)
        };
        let mut claims = asker.claims.claims.iter().filter_map(|want| self.wanted(asker, want));
        let unbound = claims.any(|claim| !claim.is_bound() && !waits(claim));
        unbound.then(|| Text::from("pod has unbound immediate PersistentVolumeClaims"))
    }

    /// The message for a claim whose volume does not exist.
    fn lost(&self, asker: &VolumeClaimingPod<'_>, want: &VolumeClaimRef) -> Option<Text> {
        let claim = self.wanted(asker, want).filter(|it| !it.volume.is_empty())?;
        let gone = self.volumes.get(&claim.volume).is_none();
        gone.then(|| Text::from(format!("persistentvolume {:?} not found", claim.volume.as_str())))
    }

    pub fn filter(&mut self, asker: &VolumeClaimingPod<'_>, node: &NodeFacts) -> Option<VolumeFilterFailure> {
        if asker.claims.is_empty() {
            return None;
        }
        let claims: Vec<&ClaimFacts> =
            asker.claims.claims.iter().filter_map(|want| self.wanted(asker, want)).collect();
        let shared = asker.claims.claims.iter().zip(&claims).any(|(want, claim)| {
            !want.ephemeral && claim.is_for_one_pod() && self.users.contains_key(&claim.key)
        });
        if shared {
            return Some(VolumeFilterFailure::InUse);
        }
        if self.too_many(&claims, node) {
            return Some(VolumeFilterFailure::TooMany);
        }
        if let Err(wrong) = self.find_bindings(asker, node) {
            return Some(wrong);
        }
        let elsewhere = |claim: &&ClaimFacts| {
            let volume = self.volumes.get(&claim.volume);
            volume.is_some_and(|volume| !volume.is_in_zone(node))
        };
        claims.iter().any(elsewhere).then_some(VolumeFilterFailure::Zone)
    }

    /// The bindings that the unbound claims of a pod would get on a node.
    pub(super) fn find_bindings(
        &self,
        asker: &VolumeClaimingPod<'_>,
        node: &NodeFacts,
    ) -> Result<Vec<(ClaimKey, AssumedBinding)>, VolumeFilterFailure> {
        let mut open: Vec<&ClaimFacts> = Vec::new();
        for claim in asker.claims.claims.iter().filter_map(|want| self.wanted(asker, want)) {
            if claim.is_bound() {
                let volume = self.volumes.get(&claim.volume).ok_or(VolumeFilterFailure::Gone)?;
                if !volume.reaches(node) {
                    return Err(VolumeFilterFailure::Reach);
                }
            } else if !open.iter().any(|it| it.key == claim.key) {
                open.push(claim);
            }
        }
        // Smallest request first, as kube-scheduler: a small claim must not take a volume that a larger one needs.
        open.sort_by_key(|claim| claim.size);
        let mut found: Vec<(ClaimKey, AssumedBinding)> = Vec::new();
        for claim in open {
            let promise = self.promise(claim, node, &found).ok_or(VolumeFilterFailure::Nothing)?;
            found.push((claim.key.clone(), promise));
        }
        Ok(found)
    }

    fn promise(
        &self,
        claim: &ClaimFacts,
        node: &NodeFacts,
        so_far: &[(ClaimKey, AssumedBinding)],
    ) -> Option<AssumedBinding> {
        if let Some(promised) = self.promises.get(&claim.key) {
            let fits = match &promised.what {
                AssumedBinding::Volume(volume) => self.volumes.get(volume).is_some_and(|it| it.reaches(node)),
                AssumedBinding::Provision(on) => *on == node.name,
            };
            return fits.then(|| promised.what.clone());
        }
        if claim.node.is_empty() {
            let chosen = |volume: &VolumeFacts| {
                so_far
                    .iter()
                    .any(|(_, it)| matches!(it, AssumedBinding::Volume(name) if *name == volume.name))
            };
            let free = |volume: &&VolumeFacts| !self.taken.contains_key(&volume.name) && !chosen(volume);
            let found = matching::find_matching_volume(
                claim,
                self.volumes.candidates(claim).filter(free),
                VolumeSearch::Node(node),
            );
            if let Some(volume) = found {
                return Some(AssumedBinding::Volume(volume.name.clone()));
            }
        } else if claim.node != node.name {
            return None;
        }
        let class = self.classes.get(claim.class())?;
        class.provisions_for(node).then(|| AssumedBinding::Provision(node.name.clone()))
    }

    fn wanted(&self, asker: &VolumeClaimingPod<'_>, want: &VolumeClaimRef) -> Option<&ClaimFacts> {
        self.claims.get(&(asker.key.0.clone(), want.claim.clone()))
    }

    /// Whether a node would have more volumes of a driver than it may.
    fn too_many(&self, claims: &[&ClaimFacts], node: &NodeFacts) -> bool {
        let Some(limits) = self.limits.get(&node.name).filter(|it| !it.is_empty()) else { return false };
        let here = |(key, nodes): (&ClaimKey, &BTreeMap<Text, i32>)| {
            nodes
                .contains_key(&node.name)
                .then(|| self.claims.get(key).and_then(|claim| self.attached(claim)))?
        };
        let mut there: Vec<(Text, Text)> = self.users.iter().filter_map(here).collect();
        let before = there.len();
        for volume in claims.iter().filter_map(|claim| self.attached(claim)) {
            if !there.contains(&volume) {
                there.push(volume);
            }
        }
        there[before..].iter().any(|(driver, _)| {
            let count = there.iter().filter(|(other, _)| other == driver).count();
            limits.get(driver).is_some_and(|limit| i64::try_from(count).unwrap_or(i64::MAX) > *limit)
        })
    }

    /// The driver and the unique handle of the volume of a claim.
    fn attached(&self, claim: &ClaimFacts) -> Option<(Text, Text)> {
        match self.volumes.get(&claim.volume) {
            Some(volume) => volume.attached.clone(),
            None => {
                let class = self.classes.get(claim.class())?;
                let (namespace, name) = &claim.key;
                Some((class.provisioner.clone(), Text::from(format!("{namespace}/{name}"))))
            }
        }
    }
}
