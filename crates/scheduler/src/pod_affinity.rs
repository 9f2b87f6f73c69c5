//! Requirements of a pod on other pods: pod affinity, anti-affinity and topology spread constraints.

use muster_api::paths::{pod, pod_preference, pod_term, spread};
use muster_tree::{Text, Tree};

use crate::label::{self, LabelSelector, Labels};

/// A pod affinity or anti-affinity term.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodAffinityTerm {
    namespaces: Vec<Text>,
    namespace_selector: Option<LabelSelector>,
    pub selector: LabelSelector,
    /// The API field `topologyKey`.
    pub key: Text,
}

/// A topology spread constraint.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TopologySpreadConstraint {
    pub skew: i64,
    /// The API field `topologyKey`.
    pub key: Text,
    pub selector: LabelSelector,
    pub namespace: Text,
    /// With fewer eligible domains the global minimum counts as 0.
    pub min_domains: i64,
    /// The API field `nodeAffinityPolicy: Honor`.
    pub honor_affinity: bool,
    /// The API field `nodeTaintsPolicy: Honor`.
    pub honor_taints: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct PodRequirements {
    /// Required affinity: all terms must match.
    pub affinity: Vec<PodAffinityTerm>,
    /// Required anti-affinity: no term may match.
    pub anti_affinity: Vec<PodAffinityTerm>,
    /// Preferred affinity with its weight; anti-affinity has a negative weight.
    pub preferred: Vec<(i64, PodAffinityTerm)>,
    /// `DoNotSchedule`.
    pub hard: Vec<TopologySpreadConstraint>,
    /// `ScheduleAnyway`.
    pub soft: Vec<TopologySpreadConstraint>,
}

impl PodAffinityTerm {
    /// Whether the term selects a pod with this namespace and these labels.
    #[must_use]
    pub fn selects(
        &self,
        namespace: &Text,
        namespace_labels: &[(Text, Text)],
        labels: &[(Text, Text)],
    ) -> bool {
        let home = self.namespaces.contains(namespace);
        let home =
            home || self.namespace_selector.as_ref().is_some_and(|it| it.matches_labels(namespace_labels));
        home && self.selector.matches_labels(labels)
    }

    #[must_use]
    pub fn looks_at_namespaces(&self) -> bool {
        self.namespace_selector.is_some()
    }
}

impl PodRequirements {
    #[must_use]
    pub fn of(tree: &Tree, namespace: &Text, labels: &Labels) -> PodRequirements {
        let terms = |path| tree.items_at(path).iter().map(|it| read_term(it, namespace, labels)).collect();
        let likes = |path, sign: i64| {
            let read = move |item: &Tree| {
                let weight = item.int_at(pod_preference::WEIGHT).unwrap_or(0) * sign;
                let term = item.at(pod_preference::TERM).unwrap_or(&Tree::Null);
                (weight, read_term(term, namespace, labels))
            };
            tree.items_at(path).iter().map(read)
        };
        let spreads = |when: &str| {
            let rules = tree.items_at(pod::SPREAD).iter().filter(|it| it.str_at(spread::WHEN) == when);
            rules.map(|it| read_spread(it, namespace, labels)).collect()
        };
        PodRequirements {
            affinity: terms(pod::POD_AFFINITY),
            anti_affinity: terms(pod::ANTI_AFFINITY),
            preferred: likes(pod::POD_PREFERENCES, 1).chain(likes(pod::ANTI_PREFERENCES, -1)).collect(),
            hard: spreads("DoNotSchedule"),
            soft: spreads("ScheduleAnyway"),
        }
    }
}

fn read_term(tree: &Tree, namespace: &Text, labels: &Labels) -> PodAffinityTerm {
    let mut selector = LabelSelector::of(tree.at(pod_term::SELECTOR));
    add_keys(&mut selector, tree.items_at(pod_term::MATCH_KEYS), labels, true);
    add_keys(&mut selector, tree.items_at(pod_term::MISMATCH_KEYS), labels, false);
    let mut namespaces = label::texts(tree.items_at(pod_term::NAMESPACES));
    let namespace_selector = tree.at(pod_term::NAMESPACE_SELECTOR).filter(|it| it.is_map());
    if namespaces.is_empty() && namespace_selector.is_none() {
        namespaces.push(namespace.clone());
    }
    let namespace_selector = namespace_selector.map(|tree| LabelSelector::of(Some(tree)));
    PodAffinityTerm { namespaces, namespace_selector, selector, key: tree.text_at(pod_term::TOPOLOGY_KEY) }
}

fn read_spread(tree: &Tree, namespace: &Text, labels: &Labels) -> TopologySpreadConstraint {
    let mut selector = LabelSelector::of(tree.at(spread::SELECTOR));
    add_keys(&mut selector, tree.items_at(spread::MATCH_KEYS), labels, true);
    TopologySpreadConstraint {
        skew: tree.int_at(spread::MAX_SKEW).unwrap_or(1),
        key: tree.text_at(spread::TOPOLOGY_KEY),
        selector,
        namespace: namespace.clone(),
        min_domains: tree.int_at(spread::MIN_DOMAINS).unwrap_or(1),
        honor_affinity: tree.str_at(spread::AFFINITY_POLICY) != "Ignore",
        honor_taints: tree.str_at(spread::TAINTS_POLICY) == "Honor",
    }
}

/// `matchLabelKeys` and `mismatchLabelKeys`: keys that the pod does not have are ignored.
fn add_keys(selector: &mut LabelSelector, keys: &[Tree], labels: &Labels, same: bool) {
    for key in keys.iter().filter_map(Tree::as_text) {
        if let Some(value) = label::find(labels, key) {
            selector.add(key, value, same);
        }
    }
}
