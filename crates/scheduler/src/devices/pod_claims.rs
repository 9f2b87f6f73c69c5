//! The ResourceClaims of a pod.

use muster_api::client::Uid;
use muster_api::meta;
use muster_api::resource_claim;
use muster_tree::{Text, Tree};

use super::{ClaimKey, DeviceClaimingPod};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodResourceClaims {
    /// UID of the pod, for `status.reservedFor`; empty without claims.
    pub uid: Uid,
    /// `spec.resourceClaims`, in order.
    pub claims: Vec<ResourceClaimRef>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourceClaimRef {
    /// A claim by name.
    Claim {
        name: Text,
        /// It was generated from a template, so the pod must own it.
        owned: bool,
    },
    /// A claim that is not generated from its template yet.
    NotMade,
}

impl PodResourceClaims {
    #[must_use]
    pub fn of(pod: &Tree) -> PodResourceClaims {
        let named = resource_claim::pod_claims(pod);
        if named.is_empty() {
            return PodResourceClaims::default();
        }
        let want = |it: resource_claim::PodResourceClaim| match it.claim {
            Some(name) => ResourceClaimRef::Claim { name, owned: !it.template.is_empty() },
            None => ResourceClaimRef::NotMade,
        };
        PodResourceClaims { uid: meta::uid(pod), claims: named.into_iter().map(want).collect() }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }
}

impl DeviceClaimingPod<'_> {
    /// The keys of the claims that exist, without duplicates.
    pub(super) fn claim_keys(&self) -> Vec<ClaimKey> {
        let mut keys: Vec<ClaimKey> = Vec::with_capacity(self.claims.claims.len());
        for want in &self.claims.claims {
            if let ResourceClaimRef::Claim { name, .. } = want
                && !keys.iter().any(|(_, it)| it == name)
            {
                keys.push((self.key.0.clone(), name.clone()));
            }
        }
        keys
    }
}
