//! A counter: the number of matching pods per topology domain.

use std::collections::HashMap;

use muster_api::node::NodeFacts;
use muster_tree::Text;

use crate::label;
use crate::node_affinity::NodeRequirements;
use crate::node_table::NodeRow;
use crate::pod_affinity::{PodAffinityTerm, TopologySpreadConstraint};

pub type CounterId = u32;

/// The domain of a node without the topology key.
const NOWHERE: u32 = u32::MAX;

/// What a counter counts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CounterSpec {
    /// Pods that match all of these terms, by this topology key.
    Matching(Vec<PodAffinityTerm>, Text),
    /// Placed pods that have this term, with its weight; 0 is required anti-affinity.
    PodsWithTerm(PodAffinityTerm, i64),
    /// Pods that a spread constraint counts, on nodes with all topology keys that the inclusion policies admit.
    Spread(TopologySpreadConstraint, NodeRequirements, Vec<Text>),
}

#[derive(Debug)]
pub struct Counter {
    pub spec: CounterSpec,
    pub users: u32,
    /// Index of its topology key.
    pub key: usize,
    pub counts: Vec<i32>,
    pub total: i64,
    /// For spread constraints: the eligible nodes, and how many of them each domain has.
    pub among: Option<(Vec<bool>, Vec<u32>)>,
}

/// The domains of one topology key.
#[derive(Debug, Default)]
pub struct TopologyKey {
    pub name: Text,
    domain_of: Vec<u32>,
    domains: HashMap<Text, u32>,
    /// Label values by domain.
    pub values: Vec<Text>,
}

impl CounterSpec {
    pub fn key(&self) -> &Text {
        match self {
            CounterSpec::Matching(_, key) => key,
            CounterSpec::PodsWithTerm(term, _) => &term.key,
            CounterSpec::Spread(rule, ..) => &rule.key,
        }
    }

    /// The pod label keys that its selectors use.
    pub fn label_keys(&self) -> Vec<Text> {
        match self {
            CounterSpec::Matching(terms, _) => {
                terms.iter().flat_map(|term| term.selector.keys()).cloned().collect()
            }
            CounterSpec::PodsWithTerm(term, _) => term.selector.keys().cloned().collect(),
            CounterSpec::Spread(rule, ..) => rule.selector.keys().cloned().collect(),
        }
    }

    /// Whether labels of namespaces matter.
    pub fn looks_at_namespaces(&self) -> bool {
        match self {
            CounterSpec::Matching(terms, _) => terms.iter().any(PodAffinityTerm::looks_at_namespaces),
            CounterSpec::PodsWithTerm(term, _) => term.looks_at_namespaces(),
            CounterSpec::Spread(..) => false,
        }
    }
}

impl TopologyKey {
    /// A topology key without domains.
    pub fn new(name: &Text) -> TopologyKey {
        TopologyKey { name: name.clone(), ..TopologyKey::default() }
    }

    /// The domain of a node.
    pub fn domain(&self, row: NodeRow) -> Option<u32> {
        self.domain_of.get(row as usize).copied().filter(|domain| *domain != NOWHERE)
    }

    /// Updates the domain of a node.
    pub fn place(&mut self, row: NodeRow, facts: Option<&NodeFacts>) {
        let at = row as usize;
        if self.domain_of.len() <= at {
            self.domain_of.resize(at + 1, NOWHERE);
        }
        let value = facts.and_then(|facts| label::find(&facts.labels, &self.name));
        self.domain_of[at] = value.map_or(NOWHERE, |value| {
            if let Some(domain) = self.domains.get(value) {
                return *domain;
            }
            let domain = u32::try_from(self.values.len()).expect("fewer domains than 2^32");
            self.values.push(value.clone());
            self.domains.insert(value.clone(), domain);
            domain
        });
    }
}

impl Counter {
    /// Adds or removes one pod on a node.
    pub fn bump(&mut self, key: &TopologyKey, row: NodeRow, sign: i32) {
        let Some(domain) = key.domain(row) else { return };
        if self.among.as_ref().is_some_and(|(included, _)| !included[row as usize]) {
            return;
        }
        self.counts[domain as usize] += sign;
        self.total += i64::from(sign);
    }

    /// Updates whether a node is eligible; `former` is the domain it was in.
    pub fn include(
        &mut self,
        key: &TopologyKey,
        row: NodeRow,
        former: Option<u32>,
        facts: Option<&NodeFacts>,
    ) {
        let CounterSpec::Spread(rule, site, keys) = &self.spec else { return };
        let Some((included, present)) = &mut self.among else { return };
        let suits = facts.is_some_and(|facts| {
            keys.iter().all(|key| label::find(&facts.labels, key).is_some())
                && (!rule.honor_affinity || site.matches(facts))
                && (!rule.honor_taints || site.tolerates_taints(facts))
        });
        let at = row as usize;
        if included.len() <= at {
            included.resize(at + 1, false);
        }
        present.resize(self.counts.len(), 0);
        if let Some(domain) = former.filter(|_| included[at]) {
            present[domain as usize] -= 1;
        }
        included[at] = suits;
        if let Some(domain) = key.domain(row).filter(|_| suits) {
            present[domain as usize] += 1;
        }
    }
}
