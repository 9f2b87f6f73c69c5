//! Composes the pod sets of a group's Workload from its pods.
//!
//! # Guarantees
//!
//! - Only active pods provide templates: a terminated pod never causes a Workload.
//! - Pod sets are in the order in which their roles were first observed, or as declared; those by role hash are
//!   sorted by name.

use std::collections::BTreeMap;
use std::fmt;

use muster_api::meta;
use muster_api::queue::PodSet;
use muster_api::queue::consts::{MAIN, annotations, labels};
use muster_tree::{Text, Tree};

use super::declared_pod_sets::{DeclaredPodSet, SETS_MAX};
use super::group::{GroupDeclaration, GroupSize};
use super::group_metadata::{CONFLICTING, GroupMode, own_set, set_of_role};
use super::queued_pod::QueuedPod;
use crate::jobs::construct::{distinct_variables, template_of_pod};

/// Why no Workload can be composed yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ComposeError {
    /// Fewer active pods than declared.
    Pods {
        have: u32,
        want: u32,
    },
    /// Number of roles without a pod.
    Roles(u32),
    /// Pod sets with neither a template nor a pod.
    Sets(Vec<Text>),
    /// No pod declares the size.
    Declaration,
    TooManyRoles(u32),
    /// More pod sets than a Workload can have.
    TooManySets,
    /// The declared sizes contradict each other.
    Conflict {
        key: &'static str,
        sum: u64,
        says: u32,
    },
    /// A pod index label is invalid.
    Index {
        pod: Text,
        key: Text,
        value: Text,
        below: u64,
    },
    /// The prebuilt Workload does not exist.
    Prebuilt,
}

impl ComposeError {
    #[must_use]
    pub fn words(&self, group: &str) -> String {
        match self {
            ComposeError::Pods { .. } => format!("'{group}' group has fewer runnable pods than expected"),
            ComposeError::Roles(more) => {
                format!("waiting for pods of {more} more role(s) in group '{group}'")
            }
            ComposeError::Sets(names) => {
                let more = names.len();
                let names = names.iter().map(Text::as_str).collect::<Vec<_>>().join(", ");
                format!("waiting for pods of {more} more role(s) in group '{group}': {names}")
            }
            ComposeError::Declaration => {
                format!("waiting for a pod that declares the size of group '{group}'")
            }
            ComposeError::TooManyRoles(most) => format!("pod group can't include more than {most} roles"),
            ComposeError::TooManySets => format!("pod group can't include more than {SETS_MAX} roles"),
            ComposeError::Conflict { key, sum, says } => {
                format!("{CONFLICTING}: '{key}' is {says}, roles add up to {sum}")
            }
            ComposeError::Index { pod, key, value, below } => {
                format!("pod '{pod}' has the label '{key}={value}': value should be less than {below}")
            }
            ComposeError::Prebuilt => format!("waiting for the prebuilt workload '{group}'"),
        }
    }

    /// Whether more pods can resolve it.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        match self {
            ComposeError::Pods { .. }
            | ComposeError::Roles(_)
            | ComposeError::Sets(_)
            | ComposeError::Declaration
            | ComposeError::Prebuilt => true,
            ComposeError::TooManyRoles(_)
            | ComposeError::TooManySets
            | ComposeError::Conflict { .. }
            | ComposeError::Index { .. } => false,
        }
    }
}

impl fmt::Display for ComposeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words(""))
    }
}

/// Composes the pod sets; `pods` are the active pods, oldest first.
///
/// # Errors
/// What is missing or invalid.
pub fn compose(group: &GroupDeclaration, pods: &[&QueuedPod]) -> Result<Vec<PodSet>, ComposeError> {
    let sets = match &group.size {
        GroupSize::Total(total) if group.fast => from_first_pod(pods, *total)?,
        GroupSize::Total(total) => from_role_hashes(pods, *total)?,
        GroupSize::Count(count) => vec![set(MAIN, *count, first(pods)?)],
        GroupSize::Roles(roles) => from_roles(group, pods, *roles)?,
        GroupSize::Sets(declared) => from_declared(declared, pods)?,
        GroupSize::Prebuilt => return Err(ComposeError::Prebuilt),
        GroupSize::Undeclared => return Err(ComposeError::Declaration),
    };
    if sets.len() > SETS_MAX {
        return Err(ComposeError::TooManySets);
    }
    validate_indexes(pods, sets.iter().map(|set| u64::from(set.count)).sum())?;
    Ok(sets)
}

fn set(name: &str, count: u32, pod: &QueuedPod) -> PodSet {
    pod_set(&Text::from(name), count, template_of_pod(&pod.tree))
}

fn pod_set(name: &Text, count: u32, template: Tree) -> PodSet {
    PodSet { name: name.clone(), template, count, min_count: None, topology: Tree::Null }
}

fn first<'a>(pods: &[&'a QueuedPod]) -> Result<&'a QueuedPod, ComposeError> {
    pods.first().copied().ok_or(ComposeError::Declaration)
}

fn from_first_pod(pods: &[&QueuedPod], total: u32) -> Result<Vec<PodSet>, ComposeError> {
    let pod = pods.first().ok_or(ComposeError::Pods { have: 0, want: total })?;
    Ok(vec![set(&pod.hash, total, pod)])
}

/// One pod set per role hash, by name.
fn from_role_hashes(pods: &[&QueuedPod], total: u32) -> Result<Vec<PodSet>, ComposeError> {
    let have = u32::try_from(pods.len()).unwrap_or(u32::MAX);
    if have < total {
        return Err(ComposeError::Pods { have, want: total });
    }
    let mut sets: BTreeMap<&Text, PodSet> = BTreeMap::new();
    for pod in pods {
        sets.entry(&pod.hash).or_insert_with(|| set(&pod.hash, 0, pod)).count += 1;
    }
    Ok(sets.into_values().collect())
}

/// One pod set per role, in the order of first observation.
fn from_roles(
    group: &GroupDeclaration,
    pods: &[&QueuedPod],
    roles: u32,
) -> Result<Vec<PodSet>, ComposeError> {
    let mut sets: Vec<PodSet> = Vec::new();
    for pod in pods.iter().filter(|pod| pod.group_metadata.mode == GroupMode::Roles) {
        let role = pod.group_metadata.role.as_deref().unwrap_or_default();
        if sets.iter().all(|set| set.name != role) {
            sets.push(set(role, pod.group_metadata.role_size(), pod));
        }
    }
    let observed = u32::try_from(sets.len()).unwrap_or(u32::MAX);
    if observed > roles {
        return Err(ComposeError::TooManyRoles(roles));
    }
    if observed < roles {
        return Err(ComposeError::Roles(roles - observed));
    }
    let sum = sets.iter().map(|set| u64::from(set.count)).sum();
    match group.total {
        Some(says) if u64::from(says) != sum => {
            Err(ComposeError::Conflict { key: annotations::POD_GROUP_TOTAL_COUNT, sum, says })
        }
        Some(_) | None => Ok(sets),
    }
}

/// The declared pod sets; those without a template get the one of their first pod.
fn from_declared(declared: &[DeclaredPodSet], pods: &[&QueuedPod]) -> Result<Vec<PodSet>, ComposeError> {
    let mut missing = Vec::new();
    let mut sets = Vec::with_capacity(declared.len());
    for one in declared {
        let template = match &one.template {
            Some(template) => Some(pod_template(template)),
            None => pods.iter().find(|pod| is_of(declared, one, pod)).map(|pod| template_of_pod(&pod.tree)),
        };
        match template {
            Some(template) => sets.push(pod_set(&one.name, one.count, template)),
            None => missing.push(one.name.clone()),
        }
    }
    if !missing.is_empty() {
        return Err(ComposeError::Sets(missing));
    }
    // No active pod declares the pod sets any more: wait for a replacement.
    if !pods.iter().any(|pod| pod.group_metadata.mode == GroupMode::Sets) {
        return Err(ComposeError::Declaration);
    }
    Ok(sets)
}

/// Whether a pod belongs to this declared pod set.
fn is_of(declared: &[DeclaredPodSet], one: &DeclaredPodSet, pod: &QueuedPod) -> bool {
    match &pod.group_metadata.role {
        Some(role) => set_of_role(role, declared.iter().map(|set| set.name.as_str()))
            .is_some_and(|at| declared[at].name == one.name),
        None => own_set(&pod.group_metadata).is_some_and(|own| own.name == one.name),
    }
}

/// The pod template of a declaration: spec, and labels and annotations if present.
fn pod_template(declared: &Tree) -> Tree {
    let metadata = declared.get("metadata").filter(|it| !it.is_empty()).cloned();
    let bare = Tree::map([("spec", declared.get("spec").cloned().unwrap_or_default())]);
    distinct_variables(&bare.with_option(&["metadata"], metadata))
}

/// A pod index must be below the pod count.
fn validate_indexes(pods: &[&QueuedPod], below: u64) -> Result<(), ComposeError> {
    for pod in pods {
        let key = labels::POD_GROUP_POD_INDEX;
        let Some(value) = meta::label(&pod.tree, key) else { continue };
        if value.parse::<u64>().ok().is_none_or(|index| index >= below) {
            let (pod, key, value) = (pod.reference.name.clone(), Text::from(key), Text::from(value));
            return Err(ComposeError::Index { pod, key, value, below });
        }
    }
    Ok(())
}
