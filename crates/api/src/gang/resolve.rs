//! How a group is placed, from what it says and what its Workload says.

use std::time::Duration;

use muster_tree::Text;

use super::facts::{Disruption, GroupFacts, Policy, Terms, WorkloadFacts};
use super::member::Membership;

/// A group of which everything is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// How many together.
    pub policy: Policy,
    /// Priority of the group itself.
    pub priority: Option<i64>,
    /// Whether others may be evicted for the group itself.
    pub preempts: Option<bool>,
    /// What goes when a pod of it goes.
    pub disruption: Disruption,
    /// The label whose value its nodes have in common.
    pub topology: Option<Text>,
    /// How long after the first try it is late.
    pub deadline: Option<Duration>,
}

/// What is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// The Workload, or the one that is meant.
    Workload,
    /// The template in it, or a policy in that.
    Template,
}

/// What is known of how a group is placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolved {
    /// Everything.
    Settled(Settled),
    /// Something is missing or contradicts itself.
    Waits {
        /// What.
        missing: Missing,
        /// In words, for its pods.
        words: String,
    },
}

/// Puts a group and its Workload together. A policy of the group's own wins, and then the Workload need not be there.
#[must_use]
pub fn resolve(group: &GroupFacts, workload: Option<&WorkloadFacts>) -> Resolved {
    if group.terms.policy.is_some() {
        return settled(group.terms.clone(), group.deadline, "the pod group");
    }
    let Some(reference) = &group.reference else {
        return waits(Missing::Template, "the pod group has neither a policy nor a workload".to_owned());
    };
    let name = &reference.workload;
    if !reference.namespace.is_empty() && reference.namespace != group.namespace {
        let words = format!(
            "workload \"{name}\" is said to be in namespace \"{}\", but the pod group is in namespace \"{}\"",
            reference.namespace, group.namespace
        );
        return waits(Missing::Workload, words);
    }
    let Some(workload) = workload else { return no_workload(name) };
    if !reference.uid.is_empty() && reference.uid != workload.uid {
        let words =
            format!("workload \"{name}\" is not the one that the pod group means: its uid is another");
        return waits(Missing::Workload, words);
    }
    let Some(template) = workload.template(&reference.template) else {
        let words =
            format!("pod group template \"{}\" doesn't exist for a workload \"{name}\"", reference.template);
        return waits(Missing::Template, words);
    };
    let place = format!("template \"{}\" of workload \"{name}\"", reference.template);
    settled(group.terms.clone().or(template), group.deadline, &place)
}

/// A group that is an entry of its Workload.
#[must_use]
pub fn resolve_entry(workload: Option<&WorkloadFacts>, name: &str, entry: &str) -> Resolved {
    let Some(workload) = workload else { return no_workload(name) };
    match workload.template(entry) {
        Some(terms) => settled(terms.clone(), None, &format!("pod group \"{entry}\" of workload \"{name}\"")),
        None => {
            let words = format!("pod group \"{entry}\" doesn't exist for a workload \"{name}\"");
            waits(Missing::Template, words)
        }
    }
}

/// Why a pod cannot be placed with its group: both name a Workload, and not the same one.
#[must_use]
pub fn contradiction(pod: &Membership, group: &GroupFacts) -> Option<String> {
    let (mine, its) = (pod.workload.as_ref()?, &group.reference.as_ref()?.workload);
    (mine != its).then(|| {
        format!("the pod belongs to workload \"{mine}\", but its pod group belongs to workload \"{its}\"")
    })
}

fn no_workload(name: &str) -> Resolved {
    waits(Missing::Workload, format!("waiting for pods's workload \"{name}\" to appear in scheduling queue"))
}

fn waits(missing: Missing, words: String) -> Resolved {
    Resolved::Waits { missing, words }
}

fn settled(terms: Terms, deadline: Option<Duration>, place: &str) -> Resolved {
    if terms.torn {
        return waits(Missing::Template, format!("policy and schedulingPolicy of {place} differ"));
    }
    let Some(policy) = terms.policy else {
        return waits(Missing::Template, format!("{place} has no policy"));
    };
    Resolved::Settled(Settled {
        policy,
        priority: terms.priority,
        preempts: terms.preempts,
        disruption: terms.disruption.unwrap_or(Disruption::Single),
        topology: terms.topology,
        deadline,
    })
}
