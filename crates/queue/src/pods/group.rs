//! What the pods of a group declare together.
//!
//! # Guarantees
//!
//! - Pods are ordered by creation time, then name. Of contradicting pods the first wins, unless an existing
//!   Workload decides.
//! - An invalid pod does not count, and a failed pod counts only if no other pod declares the group.

use std::collections::BTreeMap;

use muster_api::client::Uid;
use muster_api::pod::PodPhase;
use muster_api::queue::WorkloadFacts;
use muster_api::queue::consts::{MAIN, annotations};
use muster_tree::Text;

use super::declared_pod_sets::DeclaredPodSet;
use super::group_metadata::{GroupMode, PodGroupMetadata};
use super::queued_pod::QueuedPod;

/// The declared size of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupSize {
    /// `pod-group-total-count`: total pods, roles by role hash.
    Total(u32),
    /// `pod-group-count`: so many equal pods.
    Count(u32),
    Roles(u32),
    Sets(Vec<DeclaredPodSet>),
    /// As in the prebuilt Workload.
    Prebuilt,
    /// No pod declares it yet.
    Undeclared,
}

impl GroupSize {
    /// Whether roles are distinguished by role hash, with Kueue's rules for excess and replacement pods.
    #[must_use]
    pub fn is_total(&self) -> bool {
        matches!(self, GroupSize::Total(_))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupDeclaration {
    pub name: Text,
    pub size: GroupSize,
    pub queue: Text,
    /// `pod-group-total-count`; allowed beside other declarations.
    pub total: Option<u32>,
    /// `pod-group-fast-admission`: the Workload is created from the first pod alone.
    pub fast: bool,
    pub serving: bool,
    /// A prebuilt Workload: none is created.
    pub prebuilt: bool,
}

/// The resolved declaration of a group, with the pods that contradict it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupConsensus {
    pub group: GroupDeclaration,
    /// Whether the existing Workload has this size.
    pub fits: bool,
    /// Pods that contradict the declaration, with the message.
    pub disagreements: BTreeMap<Uid, String>,
}

/// Resolves the declaration of a group from its pods.
#[must_use]
pub fn resolve_group(name: &Text, pods: &[&QueuedPod], workload: Option<&WorkloadFacts>) -> GroupConsensus {
    let readable: Vec<&QueuedPod> =
        pods.iter().copied().filter(|pod| pod.validation_error.is_none()).collect();
    let is_failed = |pod: &QueuedPod| pod.phase == PodPhase::Failed;
    // Agreement with the Workload: size first, then queue.
    let rank = |pod: &QueuedPod| match workload {
        None => 0,
        Some(workload) if !matches_workload_size(workload, &pod.group_metadata) => 2,
        Some(workload) => u8::from(pod.queue != workload.queue),
    };
    // A failed pod counts only if no other pod declares the group.
    let best =
        |key: &dyn Fn(&QueuedPod) -> (bool, bool, u8)| readable.iter().copied().min_by_key(|pod| key(pod));
    let reference = best(&|pod| (!pod.group_metadata.declares(), is_failed(pod), rank(pod)));
    // While other pods run, a new pod with another size has to wait; the size is that of the Workload.
    let others_run = workload.is_some_and(WorkloadFacts::has_quota) && pods.iter().any(|pod| pod.may_run());
    let comes_late = |pod: &QueuedPod| {
        let is_total = pod.group_metadata.mode == GroupMode::Total;
        others_run
            && !is_total
            && workload.is_some_and(|workload| !matches_workload_size(workload, &pod.group_metadata))
    };
    let reference = reference.filter(|pod| !comes_late(pod));
    // The queue name is taken from a living pod even if only a failed one declares the size.
    let of_queue = best(&|pod| (is_failed(pod), !pod.group_metadata.declares(), rank(pod)));
    let mut dissent: BTreeMap<Uid, String> = pods
        .iter()
        .filter(|pod| !is_failed(pod))
        .filter_map(|pod| Some((pod.reference.uid.clone(), pod.validation_error.clone()?)))
        .collect();
    if let Some(of_queue) = of_queue {
        let mut of_role: BTreeMap<&str, &QueuedPod> = BTreeMap::new();
        let mut ranked: Vec<&QueuedPod> = readable.iter().copied().filter(|pod| !is_failed(pod)).collect();
        ranked.sort_by_key(|pod| rank(pod));
        for pod in ranked {
            let of_role =
                *of_role.entry(pod.group_metadata.role.as_deref().unwrap_or_default()).or_insert(pod);
            // Only the first difference of each pod is reported.
            let differs = queue_difference(of_queue, pod)
                .or_else(|| difference(reference?, pod))
                .or_else(|| role_difference(reference?, of_role, pod))
                .or_else(|| {
                    comes_late(pod).then(|| {
                        format!("pod '{}' declares another size than its workload", pod.reference.name)
                    })
                });
            dissent.extend(differs.map(|words| (pod.reference.uid.clone(), words)));
        }
    }
    let agreeing = || pods.iter().filter(|pod| !dissent.contains_key(&pod.reference.uid));
    let group = GroupDeclaration {
        name: name.clone(),
        size: reference.map_or(GroupSize::Undeclared, |pod| size(&pod.group_metadata)),
        queue: of_queue.map(|pod| pod.queue.clone()).unwrap_or_default(),
        total: reference.and_then(|pod| pod.group_metadata.total),
        // Contradicting pods have no influence on the options of the group.
        fast: agreeing().any(|pod| pod.group_metadata.fast),
        serving: agreeing().any(|pod| pod.group_metadata.serving),
        prebuilt: agreeing().any(|pod| pod.group_metadata.prebuilt.is_some()),
    };
    let fits = workload.is_none_or(|workload| {
        reference.is_none_or(|pod| matches_workload_size(workload, &pod.group_metadata))
    });
    GroupConsensus { group, fits, disagreements: dissent }
}

fn size(decl: &PodGroupMetadata) -> GroupSize {
    match decl.mode {
        GroupMode::Total => GroupSize::Total(decl.total.unwrap_or(1)),
        GroupMode::Count => GroupSize::Count(decl.count.unwrap_or(1)),
        GroupMode::Roles => GroupSize::Roles(decl.roles.unwrap_or(1)),
        GroupMode::Sets => GroupSize::Sets(decl.sets.clone().unwrap_or_default()),
        GroupMode::Prebuilt => GroupSize::Prebuilt,
        GroupMode::Member | GroupMode::Single => GroupSize::Undeclared,
    }
}

/// Whether a Workload has the size that a pod declares.
#[must_use]
pub fn matches_workload_size(workload: &WorkloadFacts, decl: &PodGroupMetadata) -> bool {
    let sets = &workload.pod_sets;
    let pods = || sets.iter().map(|set| u64::from(set.count)).sum::<u64>();
    match decl.mode {
        GroupMode::Total => decl.total.is_some_and(|total| u64::from(total) == pods()),
        GroupMode::Count => {
            matches!(&sets[..], [only] if only.name == MAIN && Some(only.count) == decl.count)
        }
        GroupMode::Roles => {
            let own = decl.role.as_deref().and_then(|role| workload.pod_set(role));
            decl.roles == u32::try_from(sets.len()).ok()
                && own.is_none_or(|set| set.count == decl.role_size())
        }
        GroupMode::Sets => {
            let declared = decl.sets.as_deref().unwrap_or_default();
            declared
                .iter()
                .map(|set| (&set.name, set.count))
                .eq(sets.iter().map(|set| (&set.name, set.count)))
        }
        GroupMode::Prebuilt | GroupMode::Member | GroupMode::Single => true,
    }
}

fn names(one: &QueuedPod, other: &QueuedPod) -> String {
    format!("pods '{}' and '{}' has different", one.reference.name, other.reference.name)
}

fn queue_difference(one: &QueuedPod, other: &QueuedPod) -> Option<String> {
    let words = || format!("{} queue names: {}!={}", names(one, other), one.queue, other.queue);
    (one.queue != other.queue).then(words)
}

/// The first contradiction between the declarations of two pods.
fn difference(one: &QueuedPod, other: &QueuedPod) -> Option<String> {
    let names = names(one, other);
    if !one.group_metadata.declares() || !other.group_metadata.declares() {
        return None;
    }
    let declared = |pod: &QueuedPod| {
        let decl = &pod.group_metadata;
        let number = |it: Option<u32>| it.map(|it| it.to_string()).unwrap_or_default();
        let sets = decl.sets.as_deref().map(pod_set_counts).unwrap_or_default();
        [number(decl.total), number(decl.count), number(decl.roles), sets]
    };
    let keys = [
        annotations::POD_GROUP_TOTAL_COUNT,
        annotations::POD_GROUP_COUNT,
        annotations::POD_GROUP_ROLES,
        annotations::POD_GROUP_SETS,
    ];
    let (a, b) = (declared(one), declared(other));
    let at = (0..keys.len()).find(|at| a[*at] != b[*at]);
    let differs = at.map(|at| format!("{names} '{}' values: {}!={}", keys[at], a[at], b[at]));
    let templates = || {
        let same = one.group_metadata.sets == other.group_metadata.sets;
        (!same).then(|| format!("{names} '{}' values: templates differ", annotations::POD_GROUP_SETS))
    };
    differs.or_else(templates)
}

fn pod_set_counts(sets: &[DeclaredPodSet]) -> String {
    sets.iter().map(|set| format!("{}x{}", set.name, set.count)).collect::<Vec<_>>().join(",")
}

/// A contradiction between a pod and its role.
fn role_difference(reference: &QueuedPod, first: &QueuedPod, pod: &QueuedPod) -> Option<String> {
    let key = annotations::POD_GROUP_ROLE_COUNT;
    let differs = |one: &QueuedPod, a: u32, b: u32| {
        let names = format!(
            "pods '{}' and '{}' has different '{key}' values",
            one.reference.name, pod.reference.name
        );
        (a != b).then(|| format!("{names}: {a}!={b}"))
    };
    match (&reference.group_metadata.mode, &reference.group_metadata.sets) {
        (GroupMode::Roles, _) if pod.group_metadata.mode == GroupMode::Roles => {
            differs(first, first.group_metadata.role_size(), pod.group_metadata.role_size())
        }
        (GroupMode::Sets, Some(sets)) => {
            let role = pod.group_metadata.role.as_deref()?;
            let at = super::group_metadata::set_of_role(role, sets.iter().map(|set| set.name.as_str()))?;
            differs(reference, sets[at].count, pod.group_metadata.role_count?)
        }
        _ => None,
    }
}

/// The pod set of a Workload that a pod belongs to; None if there is none.
#[must_use]
pub fn pod_set_of<'a>(
    group: &GroupDeclaration,
    workload: &'a WorkloadFacts,
    pod: &QueuedPod,
) -> Option<&'a Text> {
    let sets = &workload.pod_sets;
    match &group.size {
        GroupSize::Total(_) if group.fast => sets.first().map(|set| &set.name),
        GroupSize::Total(_) => sets.iter().find(|set| set.name == pod.hash).map(|set| &set.name),
        GroupSize::Count(_) => sets.first().map(|set| &set.name),
        GroupSize::Roles(_) | GroupSize::Sets(_) | GroupSize::Prebuilt | GroupSize::Undeclared => {
            let Some(role) = &pod.group_metadata.role else {
                return pod_set_without_role(group, workload, pod);
            };
            let at = super::group_metadata::set_of_role(role, sets.iter().map(|set| set.name.as_str()))?;
            Some(&sets[at].name)
        }
    }
}

/// A pod without a role belongs to the only pod set, or to the one that it declares itself.
fn pod_set_without_role<'a>(
    group: &GroupDeclaration,
    workload: &'a WorkloadFacts,
    pod: &QueuedPod,
) -> Option<&'a Text> {
    let sets = &workload.pod_sets;
    match (&group.size, &sets[..]) {
        (_, [only]) => Some(&only.name),
        (GroupSize::Sets(_), _) if pod.group_metadata.mode == GroupMode::Sets => {
            let own = super::group_metadata::own_set(&pod.group_metadata)?;
            sets.iter().find(|set| set.name == own.name).map(|set| &set.name)
        }
        _ => None,
    }
}
