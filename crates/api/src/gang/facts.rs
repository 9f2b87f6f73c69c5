//! What Workloads and groups say, in whichever form.

use std::time::Duration;

use muster_tree::{Text, Tree};

use super::Origin;
use crate::meta;
use crate::paths::{
    group_policy, group_template, group_terms, group_topology, meta as meta_path, pod_group, released_group,
    workload,
};
use crate::port::Uid;
use crate::words::gang as words;

/// Paths of forms that our own server does not have; the schema table cannot check them, tables of cases do.
mod path {
    /// The Workload of a group of 1.36.
    pub const EARLIER_WORKLOAD: &[&str] = &["spec", "podGroupTemplateRef", "workload", "workloadName"];
    /// Its template.
    pub const EARLIER_TEMPLATE: &[&str] =
        &["spec", "podGroupTemplateRef", "workload", "podGroupTemplateName"];
    /// So many pods of a group of coscheduling or Volcano, or none.
    pub const MIN_MEMBER: &[&str] = &["spec", "minMember"];
    /// When a group of coscheduling is late.
    pub const TIMEOUT: &[&str] = &["spec", "scheduleTimeoutSeconds"];
}

/// How many pods of a group are placed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Each for itself.
    Basic,
    /// So many, or none.
    Gang {
        /// How many.
        min: usize,
    },
}

impl Policy {
    /// Reads a policy; `None` for one that says nothing.
    #[must_use]
    pub fn of(tree: &Tree) -> Option<Policy> {
        if tree.at(group_policy::GANG).is_some() {
            let min = tree.int_at(group_policy::MIN).and_then(|min| usize::try_from(min).ok()).unwrap_or(0);
            return Some(Policy::Gang { min: min.max(1) });
        }
        tree.at(group_policy::BASIC).map(|_| Policy::Basic)
    }

    /// How many pods with nodes are enough.
    #[must_use]
    pub fn enough(self) -> usize {
        match self {
            Policy::Basic => 1,
            Policy::Gang { min } => min,
        }
    }
}

/// What goes when a pod of a group has to make room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disruption {
    /// That pod.
    Single,
    /// The whole group.
    All,
}

impl Disruption {
    /// Reads it in either spelling; `None` where it is not said.
    fn of(terms: &Tree) -> Option<Disruption> {
        match terms.str_at(group_terms::DISRUPTION) {
            "PodGroup" => return Some(Disruption::All),
            "Pod" => return Some(Disruption::Single),
            _ => {}
        }
        if terms.at(group_terms::DISRUPTION_ALL).is_some() {
            return Some(Disruption::All);
        }
        terms.at(group_terms::DISRUPTION_SINGLE).map(|_| Disruption::Single)
    }
}

/// What a template or a group says of how it is placed; each may be left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Terms {
    /// How many together.
    pub policy: Option<Policy>,
    /// Whether two policies are there and differ.
    pub torn: bool,
    /// Priority.
    pub priority: Option<i64>,
    /// Whether others may be evicted for it.
    pub preempts: Option<bool>,
    /// What goes when a pod of it goes.
    pub disruption: Option<Disruption>,
    /// The label whose value its nodes have in common.
    pub topology: Option<Text>,
}

impl Terms {
    /// Reads the spec of a group or a template; templates may call their policy by either name.
    #[must_use]
    pub fn of(tree: &Tree) -> Terms {
        let policies = [group_template::POLICY, group_template::SCHEDULING_POLICY];
        let mut policies = policies.into_iter().filter_map(|at| tree.at(at)).filter_map(Policy::of);
        let (policy, other) = (policies.next(), policies.next());
        let preempts = match tree.str_at(group_terms::PREEMPTION) {
            "Never" => Some(false),
            "" => None,
            _ => Some(true),
        };
        let topology = tree.items_at(group_terms::TOPOLOGY).first().map(|it| it.text_at(group_topology::KEY));
        Terms {
            torn: other.is_some() && other != policy,
            policy,
            priority: tree.int_at(group_terms::PRIORITY),
            preempts,
            disruption: Disruption::of(tree),
            topology: topology.filter(|key| !key.is_empty()),
        }
    }

    /// These, and what they leave out from others.
    #[must_use]
    pub fn or(self, others: &Terms) -> Terms {
        Terms {
            torn: self.policy.is_none() && others.torn,
            policy: self.policy.or(others.policy),
            priority: self.priority.or(others.priority),
            preempts: self.preempts.or(others.preempts),
            disruption: self.disruption.or(others.disruption),
            topology: self.topology.or_else(|| others.topology.clone()),
        }
    }
}

/// What is read of a Workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadFacts {
    /// UID.
    pub uid: Uid,
    /// Templates of groups, and groups without an object of their own, by name.
    pub templates: Vec<(Text, Terms)>,
}

impl WorkloadFacts {
    /// Reads a Workload of any form.
    #[must_use]
    pub fn of(tree: &Tree) -> WorkloadFacts {
        let lists = [tree.items_at(workload::TEMPLATES), tree.items_at(workload::ENTRIES)];
        let one = |it: &Tree| (it.text_at(group_template::NAME), Terms::of(it));
        WorkloadFacts { uid: meta::uid(tree), templates: lists.into_iter().flatten().map(one).collect() }
    }

    /// A template.
    #[must_use]
    pub fn template(&self, name: &str) -> Option<&Terms> {
        self.templates.iter().find(|(its, _)| its == name).map(|(_, terms)| terms)
    }
}

/// The template that a group was made from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reference {
    /// The Workload.
    pub workload: Text,
    /// The namespace in which it is said to be; empty for that of the group.
    pub namespace: Text,
    /// The incarnation of it that is meant; empty for any.
    pub uid: Uid,
    /// The template.
    pub template: Text,
}

/// What is read of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupFacts {
    /// Where it comes from.
    pub origin: Origin,
    /// Namespace.
    pub namespace: Text,
    /// UID.
    pub uid: Uid,
    /// How often its spec was changed.
    pub generation: Option<i64>,
    /// Its template, if it names one.
    pub reference: Option<Reference>,
    /// What it says itself.
    pub terms: Terms,
    /// How long after the first try it is late.
    pub deadline: Option<Duration>,
}

impl GroupFacts {
    /// Reads a group.
    #[must_use]
    pub fn of(origin: Origin, tree: &Tree) -> GroupFacts {
        let foreign = matches!(origin, Origin::Coscheduling | Origin::Volcano);
        GroupFacts {
            origin,
            namespace: meta::namespace(tree),
            uid: meta::uid(tree),
            generation: tree.int_at(meta_path::GENERATION),
            reference: reference(origin, tree),
            terms: if foreign { foreign_terms(tree) } else { native_terms(tree) },
            deadline: deadline(origin, tree),
        }
    }
}

fn reference(origin: Origin, tree: &Tree) -> Option<Reference> {
    let (workload, templates): (_, &[_]) = match origin {
        Origin::Proposal | Origin::Own => {
            (pod_group::WORKLOAD, &[pod_group::TEMPLATE, pod_group::TEMPLATE_NAME])
        }
        Origin::Released => (released_group::WORKLOAD, &[released_group::TEMPLATE]),
        Origin::Earlier => (path::EARLIER_WORKLOAD, &[path::EARLIER_TEMPLATE]),
        Origin::Coscheduling | Origin::Volcano => return None,
    };
    let workload = tree.text_at(workload);
    let template = templates.iter().map(|at| tree.text_at(at)).find(|name| !name.is_empty());
    (!workload.is_empty()).then(|| Reference {
        workload,
        namespace: tree.text_at(pod_group::WORKLOAD_NAMESPACE),
        uid: tree.text_at(pod_group::WORKLOAD_UID),
        template: template.unwrap_or_default(),
    })
}

fn native_terms(tree: &Tree) -> Terms {
    tree.get("spec").map(Terms::of).unwrap_or_default()
}

/// Groups of others are gangs and nothing else.
fn foreign_terms(tree: &Tree) -> Terms {
    let min = tree.int_at(path::MIN_MEMBER).and_then(|min| usize::try_from(min).ok()).unwrap_or(0);
    Terms { policy: Some(Policy::Gang { min: min.max(1) }), ..Terms::default() }
}

fn deadline(origin: Origin, tree: &Tree) -> Option<Duration> {
    let secs = match origin {
        Origin::Coscheduling => tree.int_at(path::TIMEOUT),
        _ => meta::annotation(tree, words::DEADLINE).and_then(|text| text.parse().ok()),
    };
    secs.and_then(|secs| u64::try_from(secs).ok()).filter(|secs| *secs > 0).map(Duration::from_secs)
}
