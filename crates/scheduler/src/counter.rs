//! One counter: what it counts, and how many there are in each domain.

use std::collections::HashMap;

use muster_api::node::NodeFacts;
use muster_tree::Text;

use crate::label;
use crate::site::Site;
use crate::table::Row;
use crate::term::{Spread, Term};

/// A counter, by number.
pub type CounterId = u32;

/// The domain of a node that lacks the label.
const NOWHERE: u32 = u32::MAX;

/// What a counter counts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Spec {
    /// Pods that all of the terms ask for, by this label.
    Asked(Vec<Term>, Text),
    /// Pods that carry a term: how much they like the pods it asks for near; 0 for not at all.
    Carried(Term, i64),
    /// Pods that a rule of spreading counts, on nodes that have all labels and suit the pod.
    Spread(Spread, Site, Vec<Text>),
}

/// One counter.
#[derive(Debug)]
pub struct Counter {
    /// What it counts.
    pub spec: Spec,
    /// How many classes use it.
    pub users: u32,
    /// The number of its label.
    pub key: usize,
    /// By domain.
    pub counts: Vec<i32>,
    /// Over all domains.
    pub total: i64,
    /// For spreading: which nodes count, and how many of them each domain has.
    pub among: Option<(Vec<bool>, Vec<u32>)>,
}

/// The domains of one node label.
#[derive(Debug, Default)]
pub struct Key {
    /// The label.
    pub name: Text,
    domain_of: Vec<u32>,
    domains: HashMap<Text, u32>,
    /// By number of domain.
    pub values: Vec<Text>,
}

impl Spec {
    /// The label it goes by.
    pub fn key(&self) -> &Text {
        match self {
            Spec::Asked(_, key) => key,
            Spec::Carried(term, _) => &term.key,
            Spec::Spread(rule, ..) => &rule.key,
        }
    }

    /// The labels of pods it looks at.
    pub fn label_keys(&self) -> Vec<Text> {
        match self {
            Spec::Asked(terms, _) => terms.iter().flat_map(|term| term.selector.keys()).cloned().collect(),
            Spec::Carried(term, _) => term.selector.keys().cloned().collect(),
            Spec::Spread(rule, ..) => rule.selector.keys().cloned().collect(),
        }
    }

    /// Whether labels of namespaces matter.
    pub fn looks_at_namespaces(&self) -> bool {
        match self {
            Spec::Asked(terms, _) => terms.iter().any(Term::looks_at_namespaces),
            Spec::Carried(term, _) => term.looks_at_namespaces(),
            Spec::Spread(..) => false,
        }
    }
}

impl Key {
    /// A label whose domains are not known yet.
    pub fn new(name: &Text) -> Key {
        Key { name: name.clone(), ..Key::default() }
    }

    /// The domain of a node.
    pub fn domain(&self, row: Row) -> Option<u32> {
        self.domain_of.get(row as usize).copied().filter(|domain| *domain != NOWHERE)
    }

    /// Finds the domain of a node anew.
    pub fn place(&mut self, row: Row, facts: Option<&NodeFacts>) {
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
    /// One pod more on a node, or one less.
    pub fn bump(&mut self, key: &Key, row: Row, sign: i32) {
        let Some(domain) = key.domain(row) else { return };
        if self.among.as_ref().is_some_and(|(included, _)| !included[row as usize]) {
            return;
        }
        self.counts[domain as usize] += sign;
        self.total += i64::from(sign);
    }

    /// Decides whether a node counts, which was in the domain `former` so far.
    pub fn include(&mut self, key: &Key, row: Row, former: Option<u32>, facts: Option<&NodeFacts>) {
        let Spec::Spread(rule, site, keys) = &self.spec else { return };
        let Some((included, present)) = &mut self.among else { return };
        let suits = facts.is_some_and(|facts| {
            keys.iter().all(|key| label::find(&facts.labels, key).is_some())
                && (!rule.honor_affinity || site.matches(facts))
                && (!rule.honor_taints || site.accepts_taints(facts))
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
