//! A pod with the claims that the volume or device plugin resolves.

use crate::cache::PodId;
use crate::pod::PodKey;

#[derive(Debug)]
pub struct ClaimingPod<'a, Wants> {
    pub id: PodId,
    /// Its namespace and name.
    pub key: &'a PodKey,
    pub claims: &'a Wants,
    /// `spec.nodeName` is set; otherwise the pod is pending or assumed.
    pub bound: bool,
}
