//! The PersistentVolumeClaims of a pod, and the filter failures of the volume plugins.

use muster_api::client::Uid;
use muster_api::meta;
use muster_api::pod::{self, PodVolumeClaim};
use muster_tree::{Text, Tree};

use crate::reason::Reason;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeClaimRef {
    /// Name of the claim.
    pub claim: Text,
    /// It belongs to a generic ephemeral volume.
    pub ephemeral: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodVolumeClaims {
    pub(super) uid: Uid,
    /// Claims, in the order of the pod's volumes.
    pub(super) claims: Vec<VolumeClaimRef>,
}

impl PodVolumeClaims {
    #[must_use]
    pub fn of(tree: &Tree) -> PodVolumeClaims {
        let want =
            |it: PodVolumeClaim| VolumeClaimRef { claim: it.claim, ephemeral: it.ephemeral_volume.is_some() };
        let claims: Vec<VolumeClaimRef> = pod::volume_claims(tree).map(want).collect();
        let uid = if claims.is_empty() { Uid::new() } else { meta::uid(tree) };
        PodVolumeClaims { uid, claims }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }
}

/// Why a volume plugin rejects a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VolumeFilterFailure {
    /// Another pod uses a `ReadWriteOncePod` claim.
    InUse,
    /// The volume limit of the node is reached.
    TooMany,
    /// The node does not match the node affinity of a bound volume.
    Reach,
    /// No available volume matches, and none can be provisioned.
    Nothing,
    /// A bound volume does not exist.
    Gone,
    /// A bound volume is in another zone.
    Zone,
}

impl VolumeFilterFailure {
    #[must_use]
    pub fn reason(self) -> Reason {
        Reason::Claims(Text::from(match self {
            VolumeFilterFailure::InUse => {
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
            }
            VolumeFilterFailure::TooMany => "node(s) exceed max volume count",
            VolumeFilterFailure::Reach => "node(s) didn't match PersistentVolume's node affinity",
            VolumeFilterFailure::Nothing => "node(s) didn't find available persistent volumes to bind",
            VolumeFilterFailure::Gone => {
                "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
            }
            VolumeFilterFailure::Zone => "node(s) had no available volume zone",
        }))
    }

    /// Whether preemption on the node may help.
    #[must_use]
    pub fn resolvable(self) -> bool {
        matches!(self, VolumeFilterFailure::InUse | VolumeFilterFailure::TooMany)
    }
}
