//! The bounds of a namespace, and whether pod sets keep them.

use std::collections::BTreeMap;
use std::fmt;

use muster_api::node::{amount, amounts};
use muster_api::paths::{container, limit_item, limit_range, pod};
use muster_api::pod_requests;
use muster_api::queue::{Amounts, PodSet};
use muster_schema::error::FieldError;
use muster_schema::quantities;
use muster_tree::{Text, Tree};

/// Most and least of one sort of thing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bounds {
    /// Most of each resource.
    pub max: Amounts,
    /// Least of each resource.
    pub min: Amounts,
}

/// All LimitRanges of a namespace together: the narrowest bounds, and the first default of each resource.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Limits {
    /// Of each container.
    pub container: Bounds,
    /// Of each pod as a whole.
    pub pod: Bounds,
    /// Limits of containers that name none.
    pub default_limits: Vec<(Text, Tree)>,
    /// Requests of containers that name none.
    pub default_requests: Vec<(Text, Tree)>,
}

impl Limits {
    /// Reads the LimitRanges of a namespace.
    #[must_use]
    pub fn of<'a>(ranges: impl IntoIterator<Item = &'a Tree>) -> Limits {
        let mut all = Limits::default();
        for item in ranges.into_iter().flat_map(|range| range.items_at(limit_range::LIMITS)) {
            match item.str_at(limit_item::TYPE) {
                "Container" => {
                    all.container.narrow(item);
                    add_missing(&mut all.default_limits, item.entries_at(limit_item::DEFAULT));
                    add_missing(&mut all.default_requests, item.entries_at(limit_item::DEFAULT_REQUEST));
                }
                "Pod" => all.pod.narrow(item),
                // Claims to volumes are no business of quota.
                _ => {}
            }
        }
        all
    }
}

fn add_missing(to: &mut Vec<(Text, Tree)>, entries: &[(Text, Tree)]) {
    for entry in entries {
        if to.iter().all(|(name, _)| *name != entry.0) {
            to.push(entry.clone());
        }
    }
}

impl Bounds {
    fn narrow(&mut self, item: &Tree) {
        for (name, most) in amounts(item.entries_at(limit_item::MAX)) {
            let old = self.max.entry(name).or_insert(most);
            *old = most.min(*old);
        }
        for (name, least) in amounts(item.entries_at(limit_item::MIN)) {
            let old = self.min.entry(name).or_insert(least);
            *old = least.max(*old);
        }
    }
}

/// Why a Workload cannot be admitted as it stands.
#[derive(Debug, Clone, PartialEq)]
pub enum Inadmissible {
    /// Its namespace is not one of the queue's.
    NamespaceMismatch,
    /// Containers ask for more than their own limits, or for what is no quantity.
    InvalidResources(Vec<FieldError>),
    /// Containers or pods leave the bounds of the namespace.
    OutOfBounds(Vec<FieldError>),
}

impl fmt::Display for Inadmissible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Inadmissible::NamespaceMismatch => {
                f.write_str("workload namespace doesn't match ClusterQueue selector")
            }
            Inadmissible::InvalidResources(all) => write!(f, "resources validation failed: {}", joined(all)),
            Inadmissible::OutOfBounds(all) => {
                write!(f, "resources didn't satisfy LimitRange constraints: {}", joined(all))
            }
        }
    }
}

fn joined(all: &[FieldError]) -> String {
    let words: Vec<String> = all.iter().map(ToString::to_string).collect();
    if words.len() == 1 { words[0].clone() } else { format!("[{}]", words.join(", ")) }
}

/// Whether the pod sets, adjusted, may be admitted at all: with readable quantities, within their own limits and within
/// the bounds.
///
/// # Errors
/// They may not, and why.
pub fn check(sets: &[PodSet], limits: &Limits) -> Result<(), Inadmissible> {
    // What is no quantity counts as the most there can be; this says why.
    let unreadable = sets
        .iter()
        .enumerate()
        .flat_map(|(at, set)| quantities::of_pod_spec(&set_path(at), set.template.get("spec")));
    let above = sets.iter().enumerate().flat_map(|(at, set)| {
        let whole =
            set.template.get("spec").and_then(|it| above_own(&format!("{}.resources", set_path(at)), it));
        containers_of(at, set).filter_map(|(path, item)| above_own(&path, item)).chain(whole)
    });
    let invalid: Vec<FieldError> = unreadable.chain(above).collect();
    if !invalid.is_empty() {
        return Err(Inadmissible::InvalidResources(invalid));
    }
    let containers =
        each_container(sets).flat_map(|(path, item)| limits.container.broken(&path, &extremes(item)));
    let pods = sets.iter().enumerate().flat_map(|(at, set)| {
        let asked = pod_requests::effective(&set.template, &[]);
        let both = asked.into_iter().map(|(name, amount)| (name, (amount, amount))).collect();
        limits.pod.broken(&set_path(at), &both)
    });
    let broken: Vec<FieldError> = containers.chain(pods).collect();
    if broken.is_empty() { Ok(()) } else { Err(Inadmissible::OutOfBounds(broken)) }
}

fn set_path(at: usize) -> String {
    format!("spec.podSets[{at}].template.spec")
}

fn each_container(sets: &[PodSet]) -> impl Iterator<Item = (String, &Tree)> {
    sets.iter().enumerate().flat_map(|(at, set)| containers_of(at, set))
}

fn containers_of(at: usize, set: &PodSet) -> impl Iterator<Item = (String, &Tree)> {
    let lists = [("initContainers", pod::INIT_CONTAINERS), ("containers", pod::CONTAINERS)];
    lists.into_iter().flat_map(move |(word, path)| {
        let items = set.template.items_at(path).iter().enumerate();
        items.map(move |(i, item)| (format!("{}.{word}[{i}]", set_path(at)), item))
    })
}

/// What a container, or a pod as a whole, asks for above its own limits.
fn above_own(path: &str, item: &Tree) -> Option<FieldError> {
    let limits = item.at(container::LIMITS)?;
    let is_above = |(name, asked): &&(Text, Tree)| {
        let limit = limits.get(name).and_then(|limit| amount(name, limit));
        limit.zip(amount(name, asked)).is_some_and(|(limit, asked)| asked > limit)
    };
    let names = item.entries_at(container::REQUESTS).iter().filter(is_above).map(|(name, _)| name.clone());
    broken(path, &names.collect::<Vec<_>>(), "requests must not exceed its limits")
}

/// The least and the most that a container says of each resource.
fn extremes(item: &Tree) -> BTreeMap<Text, (i64, i64)> {
    let mut all: BTreeMap<Text, (i64, i64)> = BTreeMap::new();
    let said =
        [container::REQUESTS, container::LIMITS].into_iter().flat_map(|path| amounts(item.entries_at(path)));
    for (name, amount) in said {
        let (least, most) = all.entry(name).or_insert((amount, amount));
        (*least, *most) = ((*least).min(amount), (*most).max(amount));
    }
    all
}

impl Bounds {
    /// What leaves these bounds; nothing is said of resources that nobody asks for.
    fn broken(&self, path: &str, said: &BTreeMap<Text, (i64, i64)>) -> Vec<FieldError> {
        let leaves = |bounds: &Amounts, is_out: &dyn Fn((i64, i64), i64) -> bool| -> Vec<Text> {
            let out =
                bounds.iter().filter(|(name, bound)| said.get(*name).is_some_and(|it| is_out(*it, **bound)));
            out.map(|(name, _)| name.clone()).collect()
        };
        let above = leaves(&self.max, &|(_, most), bound| most > bound);
        let below = leaves(&self.min, &|(least, _), bound| least < bound);
        let above = broken(path, &above, "requests must not be above the limitRange max");
        let below = broken(path, &below, "requests must not be below the limitRange min");
        above.into_iter().chain(below).collect()
    }
}

fn broken(path: &str, names: &[Text], why: &str) -> Option<FieldError> {
    let shown = Tree::list(names.iter()).to_json();
    (!names.is_empty()).then(|| FieldError::invalid_as(path, &shown, why))
}
