//! Resolves the effective scheduling fields of a group from the PodGroup and its Workload.

use std::time::Duration;

use muster_tree::Text;

use super::facts::{DisruptionMode, GangWorkloadFacts, GroupSchedulingSpec, PodGroupFacts, SchedulingPolicy};
use super::member::GroupMembership;

/// The effective scheduling fields of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedGroup {
    /// Basic or gang scheduling policy.
    pub policy: SchedulingPolicy,
    /// Priority of the group; `None` uses that of its pods.
    pub priority: Option<i64>,
    /// Whether the group may preempt; `None` uses the policy of its pods.
    pub preempts: Option<bool>,
    /// Unit of preemption; single pods by default.
    pub disruption: DisruptionMode,
    /// Node label; all nodes of the group have the same value.
    pub topology: Option<Text>,
    /// Scheduling timeout, from the first attempt.
    pub deadline: Option<Duration>,
}

/// What a group refers to and does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingReference {
    /// The Workload, or the one with the referenced UID.
    Workload,
    /// The template, or its policy.
    Template,
}

/// The outcome of [`resolve`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupResolution {
    /// The group can be scheduled.
    Resolved(ResolvedGroup),
    /// The group waits: a reference is missing or contradictory.
    Pending {
        /// The kind of reference.
        missing: MissingReference,
        /// In words, for its pods.
        message: String,
    },
}

/// Resolves a PodGroup. A policy of its own takes precedence, and then the Workload need not exist.
#[must_use]
pub fn resolve(group: &PodGroupFacts, workload: Option<&GangWorkloadFacts>) -> GroupResolution {
    if group.spec.policy.is_some() {
        return settled(group.spec.clone(), group.deadline, "the pod group");
    }
    let Some(reference) = &group.reference else {
        return waits(
            MissingReference::Template,
            "the pod group has neither a policy nor a workload".to_owned(),
        );
    };
    let name = &reference.workload;
    if !reference.namespace.is_empty() && reference.namespace != group.namespace {
        let words = format!(
            "workload \"{name}\" is said to be in namespace \"{}\", but the pod group is in namespace \"{}\"",
            reference.namespace, group.namespace
        );
        return waits(MissingReference::Workload, words);
    }
    let Some(workload) = workload else { return no_workload(name) };
    if !reference.uid.is_empty() && reference.uid != workload.uid {
        let words =
            format!("workload \"{name}\" is not the one that the pod group means: its uid is another");
        return waits(MissingReference::Workload, words);
    }
    let Some(template) = workload.template(&reference.template) else {
        let words =
            format!("pod group template \"{}\" doesn't exist for a workload \"{name}\"", reference.template);
        return waits(MissingReference::Template, words);
    };
    let place = format!("template \"{}\" of workload \"{name}\"", reference.template);
    settled(group.spec.clone().or(template), group.deadline, &place)
}

/// Resolves an inline PodGroup of a Workload.
#[must_use]
pub fn resolve_entry(workload: Option<&GangWorkloadFacts>, name: &str, entry: &str) -> GroupResolution {
    let Some(workload) = workload else { return no_workload(name) };
    match workload.template(entry) {
        Some(terms) => settled(terms.clone(), None, &format!("pod group \"{entry}\" of workload \"{name}\"")),
        None => {
            let words = format!("pod group \"{entry}\" doesn't exist for a workload \"{name}\"");
            waits(MissingReference::Template, words)
        }
    }
}

/// Why a pod cannot be scheduled with its group: both name a Workload, and the names differ.
#[must_use]
pub fn workload_mismatch(pod: &GroupMembership, group: &PodGroupFacts) -> Option<String> {
    let (mine, its) = (pod.workload.as_ref()?, &group.reference.as_ref()?.workload);
    (mine != its).then(|| {
        format!("the pod belongs to workload \"{mine}\", but its pod group belongs to workload \"{its}\"")
    })
}

fn no_workload(name: &str) -> GroupResolution {
    waits(
        MissingReference::Workload,
        format!("waiting for pods's workload \"{name}\" to appear in scheduling queue"),
    )
}

fn waits(missing: MissingReference, words: String) -> GroupResolution {
    GroupResolution::Pending { missing, message: words }
}

fn settled(terms: GroupSchedulingSpec, deadline: Option<Duration>, place: &str) -> GroupResolution {
    if terms.conflicting_policies {
        return waits(MissingReference::Template, format!("policy and schedulingPolicy of {place} differ"));
    }
    let Some(policy) = terms.policy else {
        return waits(MissingReference::Template, format!("{place} has no policy"));
    };
    GroupResolution::Resolved(ResolvedGroup {
        policy,
        priority: terms.priority,
        preempts: terms.preempts,
        disruption: terms.disruption.unwrap_or(DisruptionMode::Single),
        topology: terms.topology,
        deadline,
    })
}
