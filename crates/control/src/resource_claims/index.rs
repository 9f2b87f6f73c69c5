//! Index of pods by ResourceClaim and ResourceClaimTemplate.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::kinds;
use muster_api::resource_claim::PodResourceClaim;

use crate::controller::ObjectKey;

/// Pods by the claims and templates they name.
#[derive(Debug, Default)]
pub(super) struct Index(BTreeMap<ObjectKey, BTreeSet<ObjectKey>>);

impl Index {
    /// Replaces the references of a pod.
    pub(super) fn change(
        &mut self,
        pod: &ObjectKey,
        before: &[PodResourceClaim],
        after: &[PodResourceClaim],
    ) {
        for key in before.iter().flat_map(|it| keys(pod, it)) {
            if let Some(pods) = self.0.get_mut(&key) {
                pods.remove(pod);
                if pods.is_empty() {
                    self.0.remove(&key);
                }
            }
        }
        for key in after.iter().flat_map(|it| keys(pod, it)) {
            self.0.entry(key).or_default().insert(pod.clone());
        }
    }

    /// The pods that name a claim or template.
    pub(super) fn users(&self, key: &ObjectKey) -> Vec<ObjectKey> {
        self.0.get(key).into_iter().flatten().cloned().collect()
    }
}

fn keys(pod: &ObjectKey, named: &PodResourceClaim) -> Vec<ObjectKey> {
    let claim = named.claim.as_ref().map(|it| ObjectKey::new(&kinds::RESOURCE_CLAIMS, &pod.namespace, it));
    let template = Some(&named.template).filter(|it| !it.is_empty());
    let template = template.map(|it| ObjectKey::new(&kinds::RESOURCE_CLAIM_TEMPLATES, &pod.namespace, it));
    claim.into_iter().chain(template).collect()
}
