//! Where a pod may go as far as its volumes are concerned, and which it would get there.
//!
//! The order of the questions is kube-scheduler's, so that the answers are.

use std::collections::BTreeMap;

use muster_api::node::NodeFacts;
use muster_tree::Text;

use super::facts::{ClaimFacts, ClaimKey, VolumeFacts};
use super::fit::{self, From};
use super::wants::{Want, Wrong};
use super::{Asker, Promise, Volumes};

impl Volumes {
    /// What keeps the pod from every node.
    #[must_use]
    pub fn hold(&self, asker: &Asker<'_>) -> Option<Text> {
        let plain = asker.wants.claims.iter().filter(|want| !want.ephemeral);
        let missing = plain.clone().find(|want| self.wanted(asker, want).is_none());
        if let Some(want) = missing {
            return Some(Text::from(format!("persistentvolumeclaim {:?} not found", want.claim.as_str())));
        }
        let unfit = asker.wants.claims.iter().find_map(|want| self.unfit(asker, want));
        unfit
            .or_else(|| self.unbound(asker))
            .or_else(|| plain.into_iter().find_map(|want| self.lost(asker, want)))
    }

    /// What is wrong with a claim as such.
    fn unfit(&self, asker: &Asker<'_>, want: &Want) -> Option<Text> {
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
        } else if want.ephemeral && claim.owner.as_ref() != Some(&asker.wants.uid) {
            format!("PVC {namespace}/{name} was not created for pod {namespace}/{pod} (pod is not owner)")
        } else {
            return None;
        };
        Some(Text::from(words))
    }

    fn unbound(&self, asker: &Asker<'_>) -> Option<Text> {
        let waits = |claim: &ClaimFacts| {
            claim.volume.is_empty() && self.classes.get(claim.class()).is_some_and(|class| class.waits)
        };
        let mut claims = asker.wants.claims.iter().filter_map(|want| self.wanted(asker, want));
        let unbound = claims.any(|claim| !claim.is_bound() && !waits(claim));
        unbound.then(|| Text::from("pod has unbound immediate PersistentVolumeClaims"))
    }

    /// A claim whose volume is gone.
    fn lost(&self, asker: &Asker<'_>, want: &Want) -> Option<Text> {
        let claim = self.wanted(asker, want).filter(|it| !it.volume.is_empty())?;
        let gone = self.volumes.get(&claim.volume).is_none();
        gone.then(|| Text::from(format!("persistentvolume {:?} not found", claim.volume.as_str())))
    }

    /// What is wrong with a node.
    pub fn wrong(&mut self, asker: &Asker<'_>, node: &NodeFacts) -> Option<Wrong> {
        if asker.wants.is_empty() {
            return None;
        }
        let claims: Vec<&ClaimFacts> =
            asker.wants.claims.iter().filter_map(|want| self.wanted(asker, want)).collect();
        let shared = asker.wants.claims.iter().zip(&claims).any(|(want, claim)| {
            !want.ephemeral && claim.is_for_one_pod() && self.users.contains_key(&claim.key)
        });
        if shared {
            return Some(Wrong::InUse);
        }
        if self.too_many(&claims, node) {
            return Some(Wrong::TooMany);
        }
        if let Err(wrong) = self.promises_for(asker, node) {
            return Some(wrong);
        }
        let elsewhere = |claim: &&ClaimFacts| {
            let volume = self.volumes.get(&claim.volume);
            volume.is_some_and(|volume| !volume.is_in_zone(node))
        };
        claims.iter().any(elsewhere).then_some(Wrong::Zone)
    }

    /// What the claims of a pod would be promised on a node.
    pub(super) fn promises_for(
        &self,
        asker: &Asker<'_>,
        node: &NodeFacts,
    ) -> Result<Vec<(ClaimKey, Promise)>, Wrong> {
        let mut open: Vec<&ClaimFacts> = Vec::new();
        for claim in asker.wants.claims.iter().filter_map(|want| self.wanted(asker, want)) {
            if claim.is_bound() {
                let volume = self.volumes.get(&claim.volume).ok_or(Wrong::Gone)?;
                if !volume.reaches(node) {
                    return Err(Wrong::Reach);
                }
            } else if !open.iter().any(|it| it.key == claim.key) {
                open.push(claim);
            }
        }
        // The smallest wish first: it shall not take what only fits a larger one.
        open.sort_by_key(|claim| claim.size);
        let mut found: Vec<(ClaimKey, Promise)> = Vec::new();
        for claim in open {
            let promise = self.promise(claim, node, &found).ok_or(Wrong::Nothing)?;
            found.push((claim.key.clone(), promise));
        }
        Ok(found)
    }

    fn promise(
        &self,
        claim: &ClaimFacts,
        node: &NodeFacts,
        so_far: &[(ClaimKey, Promise)],
    ) -> Option<Promise> {
        if let Some(promised) = self.promises.get(&claim.key) {
            let fits = match &promised.what {
                Promise::Volume(volume) => self.volumes.get(volume).is_some_and(|it| it.reaches(node)),
                Promise::Made(on) => *on == node.name,
            };
            return fits.then(|| promised.what.clone());
        }
        if claim.node.is_empty() {
            let chosen = |volume: &VolumeFacts| {
                so_far.iter().any(|(_, it)| matches!(it, Promise::Volume(name) if *name == volume.name))
            };
            let free = |volume: &&VolumeFacts| !self.taken.contains_key(&volume.name) && !chosen(volume);
            let found = fit::best(claim, self.volumes.candidates(claim).filter(free), From::Node(node));
            if let Some(volume) = found {
                return Some(Promise::Volume(volume.name.clone()));
            }
        } else if claim.node != node.name {
            return None;
        }
        let class = self.classes.get(claim.class())?;
        class.provisions_for(node).then(|| Promise::Made(node.name.clone()))
    }

    fn wanted(&self, asker: &Asker<'_>, want: &Want) -> Option<&ClaimFacts> {
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

    /// The driver of a claim's volume, and what tells the volume from others of it.
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
