//! Gang scheduling: PodGroups and Workloads of every supported API, read into one model.
//!
//! A Workload becomes [`GangWorkloadFacts`], a PodGroup [`PodGroupFacts`], and the group that a pod names
//! [`GroupMembership`]. [`resolve`] combines the first two into the effective scheduling fields; [`status`] builds the
//! status that each API defines.
//!
//! # Guarantees
//!
//! - A pod belongs to at most one group, and keys of groups of different APIs never collide ([`GroupId::key`]).
//! - A missing or contradictory reference is never guessed: the group stays pending with a message.
//!
//! # Deliberately absent
//!
//! Creating these objects (see `gang_objects`), and composite PodGroups.

mod facts;
mod kinds;
mod member;
mod resolve;
pub mod status;
#[cfg(test)]
mod tests;

pub use facts::{
    DisruptionMode, GangWorkloadFacts, GroupSchedulingSpec, PodGroupFacts, SchedulingPolicy,
    TemplateReference,
};
pub use kinds::{
    COSCHEDULING_GROUPS, EARLIER_GROUPS, EARLIER_WORKLOADS, OWN_GROUPS, OWN_WORKLOADS, RELEASED_GROUPS,
    RELEASED_WORKLOADS, VOLCANO_GROUPS,
};
pub use member::{EnabledMarkers, GroupId, GroupMembership};
pub use resolve::{
    GroupResolution, MissingReference, ResolvedGroup, resolve, resolve_entry, workload_mismatch,
};

use crate::client::Kind;
use crate::consts::finalizers;
use crate::kinds::{POD_GROUPS, WORKLOADS};

/// The gang scheduling API that a server serves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum GangApi {
    /// `scheduling.k8s.io/v1alpha1` as proposed; served by the embedded API server.
    #[default]
    Proposal,
    /// Kubernetes 1.37 serves `v1beta1`.
    Released,
    /// Kubernetes 1.36 serves `v1alpha2`.
    Earlier,
    /// Kubernetes 1.35: another `v1alpha1`, with PodGroups inline in the Workload.
    Legacy,
    /// Muster's CRDs, `scheduling.muster.dev/v1alpha1`, for servers without any of these.
    Own,
}

impl GangApi {
    /// The Workload resource of this API.
    #[must_use]
    pub fn workloads(&self) -> &'static Kind {
        match self {
            // Kubernetes 1.35 has the proposal's group and version with another shape.
            GangApi::Proposal | GangApi::Legacy => &WORKLOADS,
            GangApi::Released => &RELEASED_WORKLOADS,
            GangApi::Earlier => &EARLIER_WORKLOADS,
            GangApi::Own => &OWN_WORKLOADS,
        }
    }

    /// The PodGroup resource; `None` where PodGroups are inline in the Workload.
    #[must_use]
    pub fn groups(&self) -> Option<&'static Kind> {
        match self {
            GangApi::Proposal => Some(&POD_GROUPS),
            GangApi::Released => Some(&RELEASED_GROUPS),
            GangApi::Earlier => Some(&EARLIER_GROUPS),
            GangApi::Legacy => None,
            GangApi::Own => Some(&OWN_GROUPS),
        }
    }

    /// Returns whether the scheduler needs the Workload to schedule a group; later APIs copy all fields into the PodGroup.
    #[must_use]
    pub fn reads_workloads(&self) -> bool {
        matches!(self, GangApi::Proposal | GangApi::Legacy | GangApi::Own)
    }

    /// The finalizer that protects PodGroups in use; `None` where the server's own controller does that.
    #[must_use]
    pub fn protection_finalizer(&self) -> Option<&'static str> {
        match self {
            GangApi::Proposal => Some(finalizers::GROUP_PROTECTION),
            GangApi::Own => Some(finalizers::OWN_GROUP_PROTECTION),
            GangApi::Released | GangApi::Earlier | GangApi::Legacy => None,
        }
    }
}

/// How pods name their PodGroup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum GroupMarker {
    /// By a field of the pod spec.
    #[default]
    Field,
    /// By annotations, where the server drops the field.
    Annotations,
}

/// Gang scheduling support of a cluster; detected once, then passed to controllers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct GangSupport {
    /// The API of Workloads and PodGroups.
    pub api: GangApi,
    /// How pods name their PodGroup.
    pub marker: GroupMarker,
}

/// The API of a PodGroup; decides how it is read and which status is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PodGroupApi {
    /// `scheduling.k8s.io/v1alpha1`, as proposed upstream.
    Proposal,
    /// The API of Kubernetes 1.37.
    Released,
    /// The API of Kubernetes 1.36.
    Earlier,
    /// The PodGroup of Muster's CRD.
    Own,
    /// `scheduling.x-k8s.io`, the coscheduling plugin.
    Coscheduling,
    /// `scheduling.volcano.sh`, the Volcano scheduler.
    Volcano,
}

impl PodGroupApi {
    /// The API of this PodGroup resource; `None` for any other resource.
    #[must_use]
    pub fn of(kind: &Kind) -> Option<PodGroupApi> {
        let all = [
            (&POD_GROUPS, PodGroupApi::Proposal),
            (&RELEASED_GROUPS, PodGroupApi::Released),
            (&EARLIER_GROUPS, PodGroupApi::Earlier),
            (&OWN_GROUPS, PodGroupApi::Own),
            (&COSCHEDULING_GROUPS, PodGroupApi::Coscheduling),
            (&VOLCANO_GROUPS, PodGroupApi::Volcano),
        ];
        all.into_iter().find(|(its, _)| *its == kind).map(|(_, origin)| origin)
    }

    /// The identity of a PodGroup of this name.
    #[must_use]
    pub fn group_id(self, name: &muster_tree::Text) -> GroupId {
        match self {
            PodGroupApi::Coscheduling => GroupId::Coscheduling(name.clone()),
            PodGroupApi::Volcano => GroupId::Volcano(name.clone()),
            _ => GroupId::Native(name.clone()),
        }
    }
}
