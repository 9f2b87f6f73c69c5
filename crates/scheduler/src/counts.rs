//! Pods per affinity term and topology domain, updated pod by pod.
//!
//! A *counter* holds one count per domain ("pods with these labels, by zone"). A *label profile* is all that counters
//! can see of a pod: its namespace, whether it is terminating, and the labels that some selector uses. The counters
//! that match a profile are computed once per profile.
//!
//! # Invariants
//!
//! - Counting is symmetric: removing a pod subtracts exactly what adding it added.
//! - The labels of a node change only while none of its pods is counted.

use std::collections::{BTreeSet, HashMap};

use muster_api::node::NodeFacts;
use muster_tree::Text;

use crate::counter::{Counter, TopologyKey};
pub use crate::counter::{CounterId, CounterSpec};
use crate::label::Labels;
use crate::node_table::NodeRow;
use crate::pod_affinity::PodAffinityTerm;

/// Index of a label profile.
pub type LabelProfileId = u32;

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct ProfileKey {
    namespace: Text,
    labels: Labels,
    leaving: bool,
}

#[derive(Debug, Default)]
struct LabelProfile {
    traits: ProfileKey,
    users: u32,
    counted_by: Vec<CounterId>,
    /// Counters of the terms of placed pods that select it.
    asked_by: Vec<CounterId>,
}

#[derive(Debug, Default)]
pub struct TopologyCounts {
    keys: Vec<TopologyKey>,
    counters: Vec<Option<Counter>>,
    free_counters: Vec<CounterId>,
    known: HashMap<CounterSpec, CounterId>,
    sorts: Vec<LabelProfile>,
    free_sorts: Vec<LabelProfileId>,
    sort_of: HashMap<ProfileKey, LabelProfileId>,
    /// Pod label keys that some selector uses.
    named: BTreeSet<Text>,
    namespaces: HashMap<Text, Labels>,
}

impl TopologyCounts {
    /// Sets the labels of a namespace; whether profiles must be matched again.
    pub fn set_namespace(&mut self, name: &Text, labels: Labels) -> bool {
        let changed = self.namespaces.get(name) != Some(&labels);
        self.namespaces.insert(name.clone(), labels);
        changed && self.counters.iter().flatten().any(|counter| counter.spec.looks_at_namespaces())
    }

    /// Tracks the label keys of a counter; whether any is new, so that every pod needs a new profile.
    pub fn track_labels(&mut self, spec: &CounterSpec) -> bool {
        let before = self.named.len();
        spec.label_keys().into_iter().for_each(|key| {
            self.named.insert(key);
        });
        self.named.len() > before
    }

    /// The profile of a pod, with one more user.
    pub fn acquire_profile(&mut self, namespace: &Text, labels: &Labels, leaving: bool) -> LabelProfileId {
        let labels = labels.iter().filter(|(key, _)| self.named.contains(key)).cloned().collect();
        let traits = ProfileKey { namespace: namespace.clone(), labels, leaving };
        if let Some(id) = self.sort_of.get(&traits) {
            self.sorts[*id as usize].users += 1;
            return *id;
        }
        let mut sort = LabelProfile { traits: traits.clone(), users: 1, ..LabelProfile::default() };
        for (id, counter) in (0..).zip(&self.counters) {
            if let Some(counter) = counter {
                self.join(&mut sort, id, counter);
            }
        }
        let id = self.free_sorts.pop().unwrap_or_else(|| {
            self.sorts.push(LabelProfile::default());
            LabelProfileId::try_from(self.sorts.len() - 1).expect("fewer sorts than 2^32")
        });
        self.sorts[id as usize] = sort;
        self.sort_of.insert(traits, id);
        id
    }

    pub fn release_profile(&mut self, id: LabelProfileId) {
        let sort = &mut self.sorts[id as usize];
        sort.users -= 1;
        if sort.users == 0 {
            self.sort_of.remove(&sort.traits);
            *sort = LabelProfile::default();
            self.free_sorts.push(id);
        }
    }

    /// Matches all counters with all profiles again. No pod may be counted meanwhile.
    pub fn join_all(&mut self) {
        for at in 0..self.sorts.len() {
            let mut sort = std::mem::take(&mut self.sorts[at]);
            sort.counted_by.clear();
            sort.asked_by.clear();
            if sort.users > 0 {
                for (id, counter) in (0..).zip(&self.counters) {
                    if let Some(counter) = counter {
                        self.join(&mut sort, id, counter);
                    }
                }
            }
            self.sorts[at] = sort;
        }
    }

    /// The counter of a spec, with one more user. `nodes` are all rows, `placed` are all counted pods.
    pub fn counter<'a>(
        &mut self,
        spec: &CounterSpec,
        nodes: impl Iterator<Item = (NodeRow, Option<&'a NodeFacts>)> + Clone,
        placed: impl Iterator<Item = (NodeRow, LabelProfileId)>,
    ) -> CounterId {
        // Equal terms of different classes share one counter.
        if let Some(id) = self.known.get(spec) {
            self.counters[*id as usize].as_mut().expect("a known counter exists").users += 1;
            return *id;
        }
        let key = self.key(spec.key(), nodes.clone());
        let mut counter = Counter {
            among: matches!(spec, CounterSpec::Spread(..)).then(Default::default),
            spec: spec.clone(),
            users: 1,
            key,
            counts: vec![0; self.keys[key].values.len()],
            total: 0,
        };
        nodes.for_each(|(row, facts)| counter.include(&self.keys[key], row, None, facts));
        let id = self.free_counters.pop().unwrap_or_else(|| {
            self.counters.push(None);
            CounterId::try_from(self.counters.len() - 1).expect("fewer counters than 2^32")
        });
        for at in 0..self.sorts.len() {
            let mut sort = std::mem::take(&mut self.sorts[at]);
            if sort.users > 0 {
                self.join(&mut sort, id, &counter);
            }
            self.sorts[at] = sort;
        }
        for (row, sort) in placed {
            if self.sorts[sort as usize].counted_by.contains(&id) {
                counter.bump(&self.keys[key], row, 1);
            }
        }
        self.counters[id as usize] = Some(counter);
        self.known.insert(spec.clone(), id);
        id
    }

    pub fn release_counter(&mut self, id: CounterId) {
        let counter = self.counters[id as usize].as_mut().expect("a counter in use exists");
        counter.users -= 1;
        if counter.users == 0 {
            let spec = self.counters[id as usize].take().expect("just seen").spec;
            self.known.remove(&spec);
            for sort in &mut self.sorts {
                sort.counted_by.retain(|other| *other != id);
                sort.asked_by.retain(|other| *other != id);
            }
            self.free_counters.push(id);
        }
    }

    /// A Node was added, updated or deleted. None of its pods may be counted meanwhile.
    pub fn set_node(&mut self, row: NodeRow, facts: Option<&NodeFacts>) {
        let former: Vec<Option<u32>> = self.keys.iter().map(|key| key.domain(row)).collect();
        for key in &mut self.keys {
            key.place(row, facts);
        }
        for counter in self.counters.iter_mut().flatten() {
            counter.counts.resize(self.keys[counter.key].values.len(), 0);
            counter.include(&self.keys[counter.key], row, former[counter.key], facts);
        }
    }

    /// Adds (`sign` 1) or removes (-1) a pod with this profile and these terms.
    pub fn count(&mut self, row: NodeRow, sort: LabelProfileId, carried: &[CounterId], sign: i32) {
        let TopologyCounts { sorts, counters, keys, .. } = self;
        for id in sorts[sort as usize].counted_by.iter().chain(carried) {
            let counter = counters[*id as usize].as_mut().expect("a counter in use exists");
            counter.bump(&keys[counter.key], row, sign);
        }
    }

    pub fn counted_by(&self, sort: LabelProfileId) -> &[CounterId] {
        &self.sorts[sort as usize].counted_by
    }

    pub fn counts_profile(&self, id: CounterId, sort: LabelProfileId) -> bool {
        self.sorts[sort as usize].counted_by.contains(&id)
    }

    /// The terms of placed pods that select a profile, with their weight.
    pub fn matching_terms(&self, sort: LabelProfileId) -> impl Iterator<Item = (CounterId, i64)> + '_ {
        self.sorts[sort as usize].asked_by.iter().filter_map(|id| {
            let counter = self.counters[*id as usize].as_ref()?;
            let CounterSpec::PodsWithTerm(_, likes) = counter.spec else { return None };
            (counter.total > 0).then_some((*id, likes))
        })
    }

    /// The required anti-affinity terms that select a profile, whether a placed pod has them or not.
    pub fn anti_affinity_terms(&self, sort: LabelProfileId) -> impl Iterator<Item = CounterId> + '_ {
        self.sorts[sort as usize].asked_by.iter().copied().filter(|id| self.is_anti_affinity(*id))
    }

    /// Whether a counter is of a required anti-affinity term.
    pub fn is_anti_affinity(&self, id: CounterId) -> bool {
        matches!(self.counters[id as usize], Some(Counter { spec: CounterSpec::PodsWithTerm(_, 0), .. }))
    }

    /// Whether a spread constraint selects the incoming pod itself (`selfMatch`).
    pub fn counts_itself(&self, id: CounterId, sort: LabelProfileId) -> bool {
        let Some(Counter { spec: CounterSpec::Spread(rule, ..), .. }) = &self.counters[id as usize] else {
            return false;
        };
        rule.selector.matches_labels(&self.sorts[sort as usize].traits.labels)
    }

    /// The count in the domain of a node; `None` if the node lacks the topology key.
    pub fn at(&self, id: CounterId, row: NodeRow) -> Option<i32> {
        let counter = self.of(id);
        let domain = self.keys[counter.key].domain(row)?;
        Some(counter.counts[domain as usize])
    }

    pub fn domain(&self, id: CounterId, row: NodeRow) -> Option<u32> {
        self.keys[self.of(id).key].domain(row)
    }

    pub fn total(&self, id: CounterId) -> i64 {
        self.of(id).total
    }

    /// The minimum count over the domains with eligible nodes, and the number of those domains.
    pub fn smallest(&self, id: CounterId) -> (i32, i64) {
        let counter = self.of(id);
        let Some((_, present)) = &counter.among else { return (0, 0) };
        // A domain without eligible nodes must not pull the minimum to 0.
        let live =
            counter.counts.iter().zip(present).filter(|(_, nodes)| **nodes > 0).map(|(count, _)| *count);
        let (smallest, domains) = live.fold((i32::MAX, 0), |(min, n), count| (min.min(count), n + 1));
        (if domains == 0 { 0 } else { smallest }, domains)
    }

    /// All counts that are not zero, for comparison in tests.
    pub fn dump(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for counter in self.counters.iter().flatten() {
            let values = &self.keys[counter.key].values;
            let mut counts: Vec<(&Text, i32)> =
                values.iter().zip(&counter.counts).filter(|(_, n)| **n != 0).map(|(v, n)| (v, *n)).collect();
            counts.sort();
            if !counts.is_empty() {
                lines.push(format!("{:?} {} {counts:?}", counter.spec, counter.total));
            }
        }
        lines.sort();
        lines
    }

    fn of(&self, id: CounterId) -> &Counter {
        self.counters[id as usize].as_ref().expect("a counter in use exists")
    }

    fn join(&self, sort: &mut LabelProfile, id: CounterId, counter: &Counter) {
        let empty = Labels::new();
        let traits = &sort.traits;
        let home = self.namespaces.get(&traits.namespace).unwrap_or(&empty);
        let asks = |term: &PodAffinityTerm| term.selects(&traits.namespace, home, &traits.labels);
        let list = match &counter.spec {
            CounterSpec::Matching(terms, _) if terms.iter().all(asks) => &mut sort.counted_by,
            CounterSpec::PodsWithTerm(term, _) if asks(term) => &mut sort.asked_by,
            // A constraint with an empty selector counts no pod.
            CounterSpec::Spread(rule, ..)
                if !traits.leaving
                    && rule.namespace == traits.namespace
                    && !rule.selector.is_everything()
                    && rule.selector.matches_labels(&traits.labels) =>
            {
                &mut sort.counted_by
            }
            _ => return,
        };
        list.push(id);
    }

    fn key<'a>(
        &mut self,
        name: &Text,
        nodes: impl Iterator<Item = (NodeRow, Option<&'a NodeFacts>)>,
    ) -> usize {
        if let Some(at) = self.keys.iter().position(|key| key.name == *name) {
            return at;
        }
        let mut key = TopologyKey::new(name);
        nodes.for_each(|(row, facts)| key.place(row, facts));
        self.keys.push(key);
        self.keys.len() - 1
    }
}
