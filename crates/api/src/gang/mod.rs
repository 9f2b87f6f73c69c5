//! Gangs: pods that are placed together or not at all, however a server spells them.
//!
//! Every form is read into the same facts: what a Workload offers ([`WorkloadFacts`]), what a group says
//! ([`GroupFacts`]), and to which group a pod belongs ([`Membership`]). [`resolve`] puts the first two together;
//! [`status`] writes back what each form knows to say.
//!
//! # Invariants
//!
//! - A pod belongs to at most one group, and names of groups of different forms never meet ([`Belongs::key`]).
//! - What contradicts itself or is not there is never guessed: the group waits, in words.
//!
//! # Deliberately absent
//!
//! Who makes these objects, and groups of groups.

mod facts;
mod kinds;
mod member;
mod resolve;
pub mod status;
#[cfg(test)]
mod tests;

pub use facts::{Disruption, GroupFacts, Policy, Reference, Terms, WorkloadFacts};
pub use kinds::{
    COSCHEDULING_GROUPS, EARLIER_GROUPS, EARLIER_WORKLOADS, OWN_GROUPS, OWN_WORKLOADS, RELEASED_GROUPS,
    RELEASED_WORKLOADS, VOLCANO_GROUPS,
};
pub use member::{Belongs, Membership, Reads};
pub use resolve::{Missing, Resolved, Settled, contradiction, resolve, resolve_entry};

use crate::kinds::{POD_GROUPS, WORKLOADS};
use crate::port::Kind;
use crate::words::finalizers;

/// How a server spells gangs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Form {
    /// As they were proposed, which is how our own server spells them: `scheduling.k8s.io/v1alpha1`.
    #[default]
    Proposal,
    /// As they were released with 1.37: `v1beta1`.
    Released,
    /// As in 1.36: `v1alpha2`.
    Earlier,
    /// As in 1.35: another `v1alpha1`, in which groups are entries of their Workload.
    Legacy,
    /// Our own definitions, `scheduling.muster.dev/v1alpha1`, where a server has none of these.
    Own,
}

impl Form {
    /// The kind of Workloads.
    #[must_use]
    pub fn workloads(&self) -> &'static Kind {
        match self {
            // The legacy form has the proposal's version and another shape.
            Form::Proposal | Form::Legacy => &WORKLOADS,
            Form::Released => &RELEASED_WORKLOADS,
            Form::Earlier => &EARLIER_WORKLOADS,
            Form::Own => &OWN_WORKLOADS,
        }
    }

    /// The kind of groups, where they are objects.
    #[must_use]
    pub fn groups(&self) -> Option<&'static Kind> {
        match self {
            Form::Proposal => Some(&POD_GROUPS),
            Form::Released => Some(&RELEASED_GROUPS),
            Form::Earlier => Some(&EARLIER_GROUPS),
            Form::Legacy => None,
            Form::Own => Some(&OWN_GROUPS),
        }
    }

    /// Whether a Workload has to be read to know how a group is placed. Later forms have it all in the group.
    #[must_use]
    pub fn reads_workloads(&self) -> bool {
        matches!(self, Form::Proposal | Form::Legacy | Form::Own)
    }

    /// What keeps groups that pods still name, where that is our business: released servers see to it themselves.
    #[must_use]
    pub fn protection(&self) -> Option<&'static str> {
        match self {
            Form::Proposal => Some(finalizers::GROUP_PROTECTION),
            Form::Own => Some(finalizers::OWN_GROUP_PROTECTION),
            Form::Released | Form::Earlier | Form::Legacy => None,
        }
    }
}

/// How a pod says to which group it belongs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Mark {
    /// By a field of its spec.
    #[default]
    Field,
    /// By annotations, where the server drops the field.
    Annotations,
}

/// How gangs are spelled here; controllers are told at their construction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Gangs {
    /// The objects.
    pub form: Form,
    /// The pods.
    pub mark: Mark,
}

/// Where a group comes from, which says how it is read and what is written to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// As they were proposed.
    Proposal,
    /// 1.37.
    Released,
    /// 1.36.
    Earlier,
    /// Our own definition.
    Own,
    /// `scheduling.x-k8s.io`.
    Coscheduling,
    /// `scheduling.volcano.sh`.
    Volcano,
}

impl Origin {
    /// Where groups of a kind come from.
    #[must_use]
    pub fn of(kind: &Kind) -> Option<Origin> {
        let all = [
            (&POD_GROUPS, Origin::Proposal),
            (&RELEASED_GROUPS, Origin::Released),
            (&EARLIER_GROUPS, Origin::Earlier),
            (&OWN_GROUPS, Origin::Own),
            (&COSCHEDULING_GROUPS, Origin::Coscheduling),
            (&VOLCANO_GROUPS, Origin::Volcano),
        ];
        all.into_iter().find(|(its, _)| *its == kind).map(|(_, origin)| origin)
    }

    /// How a group of this name stands for the pods that name it.
    #[must_use]
    pub fn belongs(self, name: &muster_tree::Text) -> Belongs {
        match self {
            Origin::Coscheduling => Belongs::Coscheduling(name.clone()),
            Origin::Volcano => Belongs::Volcano(name.clone()),
            _ => Belongs::Native(name.clone()),
        }
    }
}
