//! What a pod wants of devices: its claims.

use muster_api::claim;
use muster_api::meta;
use muster_api::port::Uid;
use muster_tree::{Text, Tree};

use super::{Asker, ClaimKey};

/// What a pod wants of devices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wants {
    /// The pod's UID, for whom claims are reserved; empty when it wants nothing.
    pub uid: Uid,
    /// Its claims, in order.
    pub claims: Vec<Want>,
}

/// One claim of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Want {
    /// The claim of this name; one that was made for the pod must be the pod's.
    Claim {
        /// Name.
        name: Text,
        /// Whether it was made for the pod.
        owned: bool,
    },
    /// One that was not made yet.
    NotMade,
}

impl Wants {
    /// Reads a Pod.
    #[must_use]
    pub fn of(pod: &Tree) -> Wants {
        let named = claim::named(pod);
        if named.is_empty() {
            return Wants::default();
        }
        let want = |it: claim::Named| match it.claim {
            Some(name) => Want::Claim { name, owned: !it.template.is_empty() },
            None => Want::NotMade,
        };
        Wants { uid: meta::uid(pod), claims: named.into_iter().map(want).collect() }
    }

    /// Whether it wants nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }
}

impl Asker<'_> {
    /// The claims that have names, once each.
    pub(super) fn claim_keys(&self) -> Vec<ClaimKey> {
        let mut keys: Vec<ClaimKey> = Vec::with_capacity(self.wants.claims.len());
        for want in &self.wants.claims {
            if let Want::Claim { name, .. } = want
                && !keys.iter().any(|(_, it)| it == name)
            {
                keys.push((self.key.0.clone(), name.clone()));
            }
        }
        keys
    }
}
