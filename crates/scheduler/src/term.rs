//! What a pod asks of other pods: affinity, anti-affinity, spreading.

use muster_api::paths::{pod, pod_preference, pod_term, spread};
use muster_tree::{Text, Tree};

use crate::label::{self, Labels, Selector};

/// Pods that some other pod wants near, or not near.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Term {
    namespaces: Vec<Text>,
    namespace_selector: Option<Selector>,
    /// Which pods.
    pub selector: Selector,
    /// Near: the same value of this node label.
    pub key: Text,
}

/// One rule of spreading.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Spread {
    /// Largest difference.
    pub skew: i64,
    /// Over the values of this node label.
    pub key: Text,
    /// Which pods count.
    pub selector: Selector,
    /// Of this namespace.
    pub namespace: Text,
    /// With fewer domains the smallest count is taken to be none.
    pub min_domains: i64,
    /// Only nodes count that the pod's affinity matches.
    pub honor_affinity: bool,
    /// Only nodes count whose taints the pod tolerates.
    pub honor_taints: bool,
}

/// What a pod asks of other pods.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Company {
    /// Pods matching all of these must be near.
    pub near: Vec<Term>,
    /// Pods matching any of these must not be near.
    pub far: Vec<Term>,
    /// Better near (above zero) or better not.
    pub likes: Vec<(i64, Term)>,
    /// Spreading that must be.
    pub hard: Vec<Spread>,
    /// Spreading that would be nice.
    pub soft: Vec<Spread>,
}

impl Term {
    /// Whether it asks for a pod of this namespace with these labels.
    #[must_use]
    pub fn asks_for(
        &self,
        namespace: &Text,
        namespace_labels: &[(Text, Text)],
        labels: &[(Text, Text)],
    ) -> bool {
        let home = self.namespaces.contains(namespace);
        let home =
            home || self.namespace_selector.as_ref().is_some_and(|it| it.selects_labels(namespace_labels));
        home && self.selector.selects_labels(labels)
    }

    /// Whether labels of namespaces matter.
    #[must_use]
    pub fn looks_at_namespaces(&self) -> bool {
        self.namespace_selector.is_some()
    }
}

impl Company {
    /// Reads a Pod.
    #[must_use]
    pub fn of(tree: &Tree, namespace: &Text, labels: &Labels) -> Company {
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
        Company {
            near: terms(pod::POD_AFFINITY),
            far: terms(pod::ANTI_AFFINITY),
            likes: likes(pod::POD_PREFERENCES, 1).chain(likes(pod::ANTI_PREFERENCES, -1)).collect(),
            hard: spreads("DoNotSchedule"),
            soft: spreads("ScheduleAnyway"),
        }
    }
}

fn read_term(tree: &Tree, namespace: &Text, labels: &Labels) -> Term {
    let mut selector = Selector::of(tree.at(pod_term::SELECTOR));
    add_keys(&mut selector, tree.items_at(pod_term::MATCH_KEYS), labels, true);
    add_keys(&mut selector, tree.items_at(pod_term::MISMATCH_KEYS), labels, false);
    let mut namespaces = label::texts(tree.items_at(pod_term::NAMESPACES));
    let namespace_selector = tree.at(pod_term::NAMESPACE_SELECTOR).filter(|it| it.is_map());
    if namespaces.is_empty() && namespace_selector.is_none() {
        namespaces.push(namespace.clone());
    }
    let namespace_selector = namespace_selector.map(|tree| Selector::of(Some(tree)));
    Term { namespaces, namespace_selector, selector, key: tree.text_at(pod_term::TOPOLOGY_KEY) }
}

fn read_spread(tree: &Tree, namespace: &Text, labels: &Labels) -> Spread {
    let mut selector = Selector::of(tree.at(spread::SELECTOR));
    add_keys(&mut selector, tree.items_at(spread::MATCH_KEYS), labels, true);
    Spread {
        skew: tree.int_at(spread::MAX_SKEW).unwrap_or(1),
        key: tree.text_at(spread::TOPOLOGY_KEY),
        selector,
        namespace: namespace.clone(),
        min_domains: tree.int_at(spread::MIN_DOMAINS).unwrap_or(1),
        honor_affinity: tree.str_at(spread::AFFINITY_POLICY) != "Ignore",
        honor_taints: tree.str_at(spread::TAINTS_POLICY) == "Honor",
    }
}

/// Keys that the pod does not have are left out.
fn add_keys(selector: &mut Selector, keys: &[Tree], labels: &Labels, same: bool) {
    for key in keys.iter().filter_map(Tree::as_text) {
        if let Some(value) = label::find(labels, key) {
            selector.add(key, value, same);
        }
    }
}
