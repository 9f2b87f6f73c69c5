//! LimitRanges of a namespace, and validation of pod sets against them.

use std::collections::BTreeMap;
use std::fmt;

use muster_api::node::{amount, amounts};
use muster_api::paths::{container, limit_item, limit_range, pod};
use muster_api::pod_requests;
use muster_api::queue::{Amounts, PodSet};
use muster_schema::error::FieldError;
use muster_schema::quantities;
use muster_tree::{Text, Tree};

/// Bounds of one LimitRange type.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LimitRangeBounds {
    /// Most of each resource.
    pub max: Amounts,
    /// Least of each resource.
    pub min: Amounts,
}

/// All LimitRanges of a namespace merged: the tightest bounds, and the first default of each resource.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NamespaceLimits {
    pub container: LimitRangeBounds,
    pub pod: LimitRangeBounds,
    /// Default limits of containers.
    pub default_limits: Vec<(Text, Tree)>,
    /// Default requests of containers.
    pub default_requests: Vec<(Text, Tree)>,
}

impl NamespaceLimits {
    #[must_use]
    pub fn of<'a>(ranges: impl IntoIterator<Item = &'a Tree>) -> NamespaceLimits {
        let mut all = NamespaceLimits::default();
        for item in ranges.into_iter().flat_map(|range| range.items_at(limit_range::LIMITS)) {
            match item.str_at(limit_item::TYPE) {
                "Container" => {
                    all.container.narrow(item);
                    add_missing(&mut all.default_limits, item.entries_at(limit_item::DEFAULT));
                    add_missing(&mut all.default_requests, item.entries_at(limit_item::DEFAULT_REQUEST));
                }
                "Pod" => all.pod.narrow(item),
                // `PersistentVolumeClaim` bounds do not affect quota.
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

impl LimitRangeBounds {
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

/// Why a Workload is inadmissible.
#[derive(Debug, Clone, PartialEq)]
pub enum InvalidResources {
    /// The ClusterQueue's namespace selector does not match.
    NamespaceMismatch,
    /// Requests exceed limits, or a quantity is invalid.
    InvalidResources(Vec<FieldError>),
    /// Requests violate a LimitRange.
    OutOfBounds(Vec<FieldError>),
}

impl fmt::Display for InvalidResources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidResources::NamespaceMismatch => {
                f.write_str("workload namespace doesn't match ClusterQueue selector")
            }
            InvalidResources::InvalidResources(all) => {
                write!(f, "resources validation failed: {}", joined(all))
            }
            InvalidResources::OutOfBounds(all) => {
                write!(f, "resources didn't satisfy LimitRange constraints: {}", joined(all))
            }
        }
    }
}

fn joined(all: &[FieldError]) -> String {
    let words: Vec<String> = all.iter().map(ToString::to_string).collect();
    if words.len() == 1 { words[0].clone() } else { format!("[{}]", words.join(", ")) }
}

/// Validates adjusted pod sets: quantities, limits and LimitRanges.
///
/// # Errors
/// Why they are inadmissible.
pub fn validate(sets: &[PodSet], limits: &NamespaceLimits) -> Result<(), InvalidResources> {
    // An invalid quantity counts as unlimited; this reports it.
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
        return Err(InvalidResources::InvalidResources(invalid));
    }
    let containers =
        each_container(sets).flat_map(|(path, item)| limits.container.broken(&path, &extremes(item)));
    let pods = sets.iter().enumerate().flat_map(|(at, set)| {
        let requests = pod_requests::effective(&set.template, &[]);
        let both = requests.into_iter().map(|(name, amount)| (name, (amount, amount))).collect();
        limits.pod.broken(&set_path(at), &both)
    });
    let broken: Vec<FieldError> = containers.chain(pods).collect();
    if broken.is_empty() { Ok(()) } else { Err(InvalidResources::OutOfBounds(broken)) }
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

/// Requests above the limits of a container or pod.
fn above_own(path: &str, item: &Tree) -> Option<FieldError> {
    let limits = item.at(container::LIMITS)?;
    let is_above = |(name, asked): &&(Text, Tree)| {
        let limit = limits.get(name).and_then(|limit| amount(name, limit));
        limit.zip(amount(name, asked)).is_some_and(|(limit, asked)| asked > limit)
    };
    let names = item.entries_at(container::REQUESTS).iter().filter(is_above).map(|(name, _)| name.clone());
    broken(path, &names.collect::<Vec<_>>(), "requests must not exceed its limits")
}

/// The minimum and maximum over requests and limits, by resource.
fn extremes(item: &Tree) -> BTreeMap<Text, (i64, i64)> {
    let mut all: BTreeMap<Text, (i64, i64)> = BTreeMap::new();
    let values =
        [container::REQUESTS, container::LIMITS].into_iter().flat_map(|path| amounts(item.entries_at(path)));
    for (name, amount) in values {
        let (least, most) = all.entry(name).or_insert((amount, amount));
        (*least, *most) = ((*least).min(amount), (*most).max(amount));
    }
    all
}

impl LimitRangeBounds {
    /// Violations of these bounds; resources that are not requested are ignored.
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
