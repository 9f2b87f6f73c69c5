//! What a pod wants of volumes, and what may be wrong.

use muster_api::meta;
use muster_api::pod::{self, UsedClaim};
use muster_api::port::Uid;
use muster_tree::{Text, Tree};

use crate::reason::Reason;

/// One claim that a pod uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Want {
    /// Name of the claim.
    pub claim: Text,
    /// Whether it is made for this pod alone.
    pub ephemeral: bool,
}

/// What a pod wants of volumes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wants {
    /// The pod.
    pub(super) uid: Uid,
    /// Claims, in the order of the pod's volumes.
    pub(super) claims: Vec<Want>,
}

impl Wants {
    /// Reads a Pod.
    #[must_use]
    pub fn of(tree: &Tree) -> Wants {
        let want = |it: UsedClaim| Want { claim: it.claim, ephemeral: it.made_for.is_some() };
        let claims: Vec<Want> = pod::claims(tree).map(want).collect();
        let uid = if claims.is_empty() { Uid::new() } else { meta::uid(tree) };
        Wants { uid, claims }
    }

    /// Whether it wants nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }
}

/// What is wrong with a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// Another pod has the claim, and only one may.
    InUse,
    /// It has as many volumes as it may.
    TooMany,
    /// A volume cannot be reached from it.
    Reach,
    /// There is no volume there to be had, nor can one be made.
    Nothing,
    /// A volume of the pod is gone.
    Gone,
    /// A volume is in another zone.
    Zone,
}

impl Wrong {
    /// In words.
    #[must_use]
    pub fn reason(self) -> Reason {
        Reason::Claims(Text::from(match self {
            Wrong::InUse => {
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
            }
            Wrong::TooMany => "node(s) exceed max volume count",
            Wrong::Reach => "node(s) didn't match PersistentVolume's node affinity",
            Wrong::Nothing => "node(s) didn't find available persistent volumes to bind",
            Wrong::Gone => "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
            Wrong::Zone => "node(s) had no available volume zone",
        }))
    }

    /// Whether evicting pods there could help.
    #[must_use]
    pub fn resolvable(self) -> bool {
        matches!(self, Wrong::InUse | Wrong::TooMany)
    }
}
