//! The pod sets of a group's Workload, made from its pods.
//!
//! # Invariants
//!
//! - Only pods that can still do their part lend templates: what has ended never causes a Workload.
//! - Sets stand in the order in which their roles were first seen, or as they were declared; those by fingerprint by
//!   name.

use std::collections::BTreeMap;
use std::fmt;

use muster_api::meta;
use muster_api::queue::PodSet;
use muster_api::queue::words::{MAIN, annotations, labels};
use muster_tree::{Text, Tree};

use super::decl::{CONFLICTING, Mode, own_set, set_of_role};
use super::group::{Group, Size};
use super::member::Member;
use super::sets::{DeclaredSet, SETS_MAX};
use crate::jobs::construct::{distinct_variables, template_of_pod};

/// Why no Workload can be made of the pods that are there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lack {
    /// So many pods of so many can run.
    Pods {
        /// That can run.
        have: u32,
        /// That were declared.
        want: u32,
    },
    /// So many roles were not seen yet.
    Roles(u32),
    /// These sets have neither a template nor a pod.
    Sets(Vec<Text>),
    /// Nobody says how big the group is.
    Declaration,
    /// More roles than were declared.
    TooManyRoles(u32),
    /// More sets than a Workload can have.
    TooManySets,
    /// Sizes contradict each other.
    Conflict {
        /// Which key.
        key: &'static str,
        /// The sum of all roles.
        sum: u64,
        /// What it says.
        says: u32,
    },
    /// The index of a pod is not one.
    Index {
        /// Which pod.
        pod: Text,
        /// Its label.
        key: Text,
        /// What stands there.
        value: Text,
        /// How many pods there are.
        below: u64,
    },
    /// The Workload is to be made by the user, and is not there.
    Prebuilt,
}

impl Lack {
    /// The words for an event about a group.
    #[must_use]
    pub fn words(&self, group: &str) -> String {
        match self {
            Lack::Pods { .. } => format!("'{group}' group has fewer runnable pods than expected"),
            Lack::Roles(more) => format!("waiting for pods of {more} more role(s) in group '{group}'"),
            Lack::Sets(names) => {
                let more = names.len();
                let names = names.iter().map(Text::as_str).collect::<Vec<_>>().join(", ");
                format!("waiting for pods of {more} more role(s) in group '{group}': {names}")
            }
            Lack::Declaration => format!("waiting for a pod that declares the size of group '{group}'"),
            Lack::TooManyRoles(most) => format!("pod group can't include more than {most} roles"),
            Lack::TooManySets => format!("pod group can't include more than {SETS_MAX} roles"),
            Lack::Conflict { key, sum, says } => {
                format!("{CONFLICTING}: '{key}' is {says}, roles add up to {sum}")
            }
            Lack::Index { pod, key, value, below } => {
                format!("pod '{pod}' has the label '{key}={value}': value should be less than {below}")
            }
            Lack::Prebuilt => format!("waiting for the prebuilt workload '{group}'"),
        }
    }

    /// Whether more pods would mend it: nothing is wrong yet.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        match self {
            Lack::Pods { .. } | Lack::Roles(_) | Lack::Sets(_) | Lack::Declaration | Lack::Prebuilt => true,
            Lack::TooManyRoles(_) | Lack::TooManySets | Lack::Conflict { .. } | Lack::Index { .. } => false,
        }
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words(""))
    }
}

/// The sets of a group's Workload; `pods` are those that can do their part, the oldest first.
///
/// # Errors
/// What is missing, or wrong.
pub fn compose(group: &Group, pods: &[&Member]) -> Result<Vec<PodSet>, Lack> {
    let sets = match &group.size {
        Size::Total(total) if group.fast => of_first(pods, *total)?,
        Size::Total(total) => of_hashes(pods, *total)?,
        Size::Count(count) => vec![set(MAIN, *count, first(pods)?)],
        Size::Roles(roles) => of_roles(group, pods, *roles)?,
        Size::Sets(declared) => of_declared(declared, pods)?,
        Size::Prebuilt => return Err(Lack::Prebuilt),
        Size::Unsaid => return Err(Lack::Declaration),
    };
    if sets.len() > SETS_MAX {
        return Err(Lack::TooManySets);
    }
    indexes(pods, sets.iter().map(|set| u64::from(set.count)).sum())?;
    Ok(sets)
}

fn set(name: &str, count: u32, pod: &Member) -> PodSet {
    made(&Text::from(name), count, template_of_pod(&pod.tree))
}

fn made(name: &Text, count: u32, template: Tree) -> PodSet {
    PodSet { name: name.clone(), template, count, min_count: None, topology: Tree::Null }
}

fn first<'a>(pods: &[&'a Member]) -> Result<&'a Member, Lack> {
    pods.first().copied().ok_or(Lack::Declaration)
}

fn of_first(pods: &[&Member], total: u32) -> Result<Vec<PodSet>, Lack> {
    let pod = pods.first().ok_or(Lack::Pods { have: 0, want: total })?;
    Ok(vec![set(&pod.hash, total, pod)])
}

/// One set for each fingerprint, by name.
fn of_hashes(pods: &[&Member], total: u32) -> Result<Vec<PodSet>, Lack> {
    let have = u32::try_from(pods.len()).unwrap_or(u32::MAX);
    if have < total {
        return Err(Lack::Pods { have, want: total });
    }
    let mut sets: BTreeMap<&Text, PodSet> = BTreeMap::new();
    for pod in pods {
        sets.entry(&pod.hash).or_insert_with(|| set(&pod.hash, 0, pod)).count += 1;
    }
    Ok(sets.into_values().collect())
}

/// One set for each role, in the order in which they were seen first.
fn of_roles(group: &Group, pods: &[&Member], roles: u32) -> Result<Vec<PodSet>, Lack> {
    let mut sets: Vec<PodSet> = Vec::new();
    for pod in pods.iter().filter(|pod| pod.decl.mode == Mode::Roles) {
        let role = pod.decl.role.as_deref().unwrap_or_default();
        if sets.iter().all(|set| set.name != role) {
            sets.push(set(role, pod.decl.role_size(), pod));
        }
    }
    let seen = u32::try_from(sets.len()).unwrap_or(u32::MAX);
    if seen > roles {
        return Err(Lack::TooManyRoles(roles));
    }
    if seen < roles {
        return Err(Lack::Roles(roles - seen));
    }
    let sum = sets.iter().map(|set| u64::from(set.count)).sum();
    match group.total {
        Some(says) if u64::from(says) != sum => {
            Err(Lack::Conflict { key: annotations::POD_GROUP_TOTAL_COUNT, sum, says })
        }
        Some(_) | None => Ok(sets),
    }
}

/// The declared sets; those without a template get that of their first pod.
fn of_declared(declared: &[DeclaredSet], pods: &[&Member]) -> Result<Vec<PodSet>, Lack> {
    let mut missing = Vec::new();
    let mut sets = Vec::with_capacity(declared.len());
    for one in declared {
        let template = match &one.template {
            Some(template) => Some(pod_template(template)),
            None => pods.iter().find(|pod| is_of(declared, one, pod)).map(|pod| template_of_pod(&pod.tree)),
        };
        match template {
            Some(template) => sets.push(made(&one.name, one.count, template)),
            None => missing.push(one.name.clone()),
        }
    }
    if !missing.is_empty() {
        return Err(Lack::Sets(missing));
    }
    if !pods.iter().any(|pod| pod.decl.mode == Mode::Sets) {
        return Err(Lack::Declaration);
    }
    Ok(sets)
}

/// Whether a pod belongs to one of the declared sets.
fn is_of(declared: &[DeclaredSet], one: &DeclaredSet, pod: &Member) -> bool {
    match &pod.decl.role {
        Some(role) => set_of_role(role, declared.iter().map(|set| set.name.as_str()))
            .is_some_and(|at| declared[at].name == one.name),
        None => own_set(&pod.decl).is_some_and(|own| own.name == one.name),
    }
}

/// What a declared template says of pods: its spec and, where it has them, labels and annotations.
fn pod_template(declared: &Tree) -> Tree {
    let metadata = declared.get("metadata").filter(|it| !it.is_empty()).cloned();
    let bare = Tree::map([("spec", declared.get("spec").cloned().unwrap_or_default())]);
    distinct_variables(&bare.with_option(&["metadata"], metadata))
}

/// Pods that have an index must have one below the number of pods.
fn indexes(pods: &[&Member], below: u64) -> Result<(), Lack> {
    for pod in pods {
        let key = labels::POD_GROUP_POD_INDEX;
        let Some(value) = meta::label(&pod.tree, key) else { continue };
        if value.parse::<u64>().ok().is_none_or(|index| index >= below) {
            let (pod, key, value) = (pod.this.name.clone(), Text::from(key), Text::from(value));
            return Err(Lack::Index { pod, key, value, below });
        }
    }
    Ok(())
}
