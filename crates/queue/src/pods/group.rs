//! What the pods of a group declare together.
//!
//! # Invariants
//!
//! - Pods come sorted by creation, then by name; of those that contradict each other the first is right, unless a
//!   Workload already says otherwise.
//! - A pod that cannot be understood has no say, and one that has failed only where nobody else has.

use std::collections::BTreeMap;

use muster_api::pod::Phase;
use muster_api::port::Uid;
use muster_api::queue::WorkloadFacts;
use muster_api::queue::words::{MAIN, annotations};
use muster_tree::Text;

use super::decl::{Decl, Mode};
use super::member::Member;
use super::sets::DeclaredSet;

/// How big a group is, and of what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Size {
    /// So many pods, of whatever roles they turn out to be.
    Total(u32),
    /// So many equal pods.
    Count(u32),
    /// So many roles.
    Roles(u32),
    /// These sets.
    Sets(Vec<DeclaredSet>),
    /// As the Workload says that the user made.
    Prebuilt,
    /// Nobody has said it yet.
    Unsaid,
}

impl Size {
    /// Whether roles are told by fingerprint, and the later rules hold.
    #[must_use]
    pub fn is_total(&self) -> bool {
        matches!(self, Size::Total(_))
    }
}

/// A group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: Text,
    /// Its size.
    pub size: Size,
    /// Its queue.
    pub queue: Text,
    /// `pod-group-total-count`, which may stand beside other declarations.
    pub total: Option<u32>,
    /// The Workload is made from the first pod alone.
    pub fast: bool,
    /// It never finishes.
    pub serving: bool,
    /// The Workload is made by the user: none is made here.
    pub prebuilt: bool,
}

/// What a group is, and who disagrees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agreement {
    /// What most rightfully holds.
    pub group: Group,
    /// Whether the Workload, where there is one, is as big as that.
    pub fits: bool,
    /// Pods that say something else, and what is wrong with them.
    pub dissent: BTreeMap<Uid, String>,
}

/// What the pods of a group say together.
#[must_use]
pub fn agree(name: &Text, pods: &[&Member], workload: Option<&WorkloadFacts>) -> Agreement {
    let readable: Vec<&Member> = pods.iter().copied().filter(|pod| pod.flaw.is_none()).collect();
    let is_failed = |pod: &Member| pod.phase == Phase::Failed;
    let rank = |pod: &Member| match workload {
        None => 0,
        Some(workload) if !fits(workload, &pod.decl) => 2,
        Some(workload) => u8::from(pod.queue != workload.queue),
    };
    // The first of the best. Failed ones are only heard where nobody else declares anything.
    let best =
        |key: &dyn Fn(&Member) -> (bool, bool, u8)| readable.iter().copied().min_by_key(|pod| key(pod));
    let reference = best(&|pod| (!pod.decl.declares(), is_failed(pod), rank(pod)));
    // Where others run already, whoever comes with another size waits; the size is then that of the Workload.
    let others_run = workload.is_some_and(WorkloadFacts::has_quota) && pods.iter().any(|pod| pod.at_large());
    let comes_late = |pod: &Member| {
        let is_total = pod.decl.mode == Mode::Total;
        others_run && !is_total && workload.is_some_and(|workload| !fits(workload, &pod.decl))
    };
    let reference = reference.filter(|pod| !comes_late(pod));
    let of_queue = best(&|pod| (is_failed(pod), !pod.decl.declares(), rank(pod)));
    let mut dissent: BTreeMap<Uid, String> = pods
        .iter()
        .filter(|pod| !is_failed(pod))
        .filter_map(|pod| Some((pod.this.uid.clone(), pod.flaw.clone()?)))
        .collect();
    if let Some(of_queue) = of_queue {
        let mut of_role: BTreeMap<&str, &Member> = BTreeMap::new();
        let mut ranked: Vec<&Member> = readable.iter().copied().filter(|pod| !is_failed(pod)).collect();
        ranked.sort_by_key(|pod| rank(pod));
        for pod in ranked {
            let of_role = *of_role.entry(pod.decl.role.as_deref().unwrap_or_default()).or_insert(pod);
            let differs = queue_difference(of_queue, pod)
                .or_else(|| difference(reference?, pod))
                .or_else(|| role_difference(reference?, of_role, pod))
                .or_else(|| {
                    comes_late(pod)
                        .then(|| format!("pod '{}' declares another size than its workload", pod.this.name))
                });
            dissent.extend(differs.map(|words| (pod.this.uid.clone(), words)));
        }
    }
    let agreeing = || pods.iter().filter(|pod| !dissent.contains_key(&pod.this.uid));
    let group = Group {
        name: name.clone(),
        size: reference.map_or(Size::Unsaid, |pod| size(&pod.decl)),
        queue: of_queue.map(|pod| pod.queue.clone()).unwrap_or_default(),
        total: reference.and_then(|pod| pod.decl.total),
        fast: agreeing().any(|pod| pod.decl.fast),
        serving: agreeing().any(|pod| pod.decl.serving),
        prebuilt: agreeing().any(|pod| pod.decl.prebuilt.is_some()),
    };
    let fits = workload.is_none_or(|workload| reference.is_none_or(|pod| fits(workload, &pod.decl)));
    Agreement { group, fits, dissent }
}

fn size(decl: &Decl) -> Size {
    match decl.mode {
        Mode::Total => Size::Total(decl.total.unwrap_or(1)),
        Mode::Count => Size::Count(decl.count.unwrap_or(1)),
        Mode::Roles => Size::Roles(decl.roles.unwrap_or(1)),
        Mode::Sets => Size::Sets(decl.sets.clone().unwrap_or_default()),
        Mode::Prebuilt => Size::Prebuilt,
        Mode::Member | Mode::Single => Size::Unsaid,
    }
}

/// Whether a Workload is as big as a pod says.
#[must_use]
pub fn fits(workload: &WorkloadFacts, decl: &Decl) -> bool {
    let sets = &workload.pod_sets;
    let pods = || sets.iter().map(|set| u64::from(set.count)).sum::<u64>();
    match decl.mode {
        Mode::Total => decl.total.is_some_and(|total| u64::from(total) == pods()),
        Mode::Count => matches!(&sets[..], [only] if only.name == MAIN && Some(only.count) == decl.count),
        Mode::Roles => {
            let own = decl.role.as_deref().and_then(|role| workload.pod_set(role));
            decl.roles == u32::try_from(sets.len()).ok()
                && own.is_none_or(|set| set.count == decl.role_size())
        }
        Mode::Sets => {
            let declared = decl.sets.as_deref().unwrap_or_default();
            declared
                .iter()
                .map(|set| (&set.name, set.count))
                .eq(sets.iter().map(|set| (&set.name, set.count)))
        }
        Mode::Prebuilt | Mode::Member | Mode::Single => true,
    }
}

fn names(one: &Member, other: &Member) -> String {
    format!("pods '{}' and '{}' has different", one.this.name, other.this.name)
}

fn queue_difference(one: &Member, other: &Member) -> Option<String> {
    let words = || format!("{} queue names: {}!={}", names(one, other), one.queue, other.queue);
    (one.queue != other.queue).then(words)
}

/// What numbers of two pods of a group contradict each other.
fn difference(one: &Member, other: &Member) -> Option<String> {
    let names = names(one, other);
    if !one.decl.declares() || !other.decl.declares() {
        return None;
    }
    let said = |pod: &Member| {
        let decl = &pod.decl;
        let number = |it: Option<u32>| it.map(|it| it.to_string()).unwrap_or_default();
        let sets = decl.sets.as_deref().map(in_short).unwrap_or_default();
        [number(decl.total), number(decl.count), number(decl.roles), sets]
    };
    let keys = [
        annotations::POD_GROUP_TOTAL_COUNT,
        annotations::POD_GROUP_COUNT,
        annotations::POD_GROUP_ROLES,
        annotations::POD_GROUP_SETS,
    ];
    let (a, b) = (said(one), said(other));
    let at = (0..keys.len()).find(|at| a[*at] != b[*at]);
    let differs = at.map(|at| format!("{names} '{}' values: {}!={}", keys[at], a[at], b[at]));
    let templates = || {
        let same = one.decl.sets == other.decl.sets;
        (!same).then(|| format!("{names} '{}' values: templates differ", annotations::POD_GROUP_SETS))
    };
    differs.or_else(templates)
}

fn in_short(sets: &[DeclaredSet]) -> String {
    sets.iter().map(|set| format!("{}x{}", set.name, set.count)).collect::<Vec<_>>().join(",")
}

/// Where a pod contradicts what holds of its role.
fn role_difference(reference: &Member, first: &Member, pod: &Member) -> Option<String> {
    let key = annotations::POD_GROUP_ROLE_COUNT;
    let differs = |one: &Member, a: u32, b: u32| {
        let names = format!("pods '{}' and '{}' has different '{key}' values", one.this.name, pod.this.name);
        (a != b).then(|| format!("{names}: {a}!={b}"))
    };
    match (&reference.decl.mode, &reference.decl.sets) {
        (Mode::Roles, _) if pod.decl.mode == Mode::Roles => {
            differs(first, first.decl.role_size(), pod.decl.role_size())
        }
        (Mode::Sets, Some(sets)) => {
            let role = pod.decl.role.as_deref()?;
            let at = super::decl::set_of_role(role, sets.iter().map(|set| set.name.as_str()))?;
            differs(reference, sets[at].count, pod.decl.role_count?)
        }
        _ => None,
    }
}

/// The name of the set of a Workload that a pod belongs to; `None` when there is no such set.
#[must_use]
pub fn set_of<'a>(group: &Group, workload: &'a WorkloadFacts, pod: &Member) -> Option<&'a Text> {
    let sets = &workload.pod_sets;
    match &group.size {
        Size::Total(_) if group.fast => sets.first().map(|set| &set.name),
        Size::Total(_) => sets.iter().find(|set| set.name == pod.hash).map(|set| &set.name),
        Size::Count(_) => sets.first().map(|set| &set.name),
        Size::Roles(_) | Size::Sets(_) | Size::Prebuilt | Size::Unsaid => {
            let Some(role) = &pod.decl.role else { return without_role(group, workload, pod) };
            let at = super::decl::set_of_role(role, sets.iter().map(|set| set.name.as_str()))?;
            Some(&sets[at].name)
        }
    }
}

/// A pod that names no role: the one that carries the declaration, or a pod of the only set.
fn without_role<'a>(group: &Group, workload: &'a WorkloadFacts, pod: &Member) -> Option<&'a Text> {
    let sets = &workload.pod_sets;
    match (&group.size, &sets[..]) {
        (_, [only]) => Some(&only.name),
        (Size::Sets(_), _) if pod.decl.mode == Mode::Sets => {
            let own = super::decl::own_set(&pod.decl)?;
            sets.iter().find(|set| set.name == own.name).map(|set| &set.name)
        }
        _ => None,
    }
}
