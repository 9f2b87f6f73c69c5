//! How many pods of which sort are where: counts per term and domain, kept up to date pod by pod.
//!
//! A *counter* answers one question ("pods with these labels, by zone"); a *sort* is all that counters can see of
//! a pod: its namespace, whether it is on its way out, and those of its labels that some selector names. Which
//! counters count a sort is found once per sort.
//!
//! # Invariants
//!
//! - Counting is symmetric: what is added for a pod on a node is what is taken away.
//! - A node's labels change only while none of its pods are counted.

use std::collections::{BTreeSet, HashMap};

use muster_api::node::NodeFacts;
use muster_tree::Text;

use crate::counter::{Counter, Key};
pub use crate::counter::{CounterId, Spec};
use crate::label::Labels;
use crate::table::Row;
use crate::term::Term;

/// A sort of pods.
pub type SortId = u32;

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Traits {
    namespace: Text,
    labels: Labels,
    leaving: bool,
}

#[derive(Debug, Default)]
struct Sort {
    traits: Traits,
    users: u32,
    counted_by: Vec<CounterId>,
    /// Counters of terms that ask for it.
    asked_by: Vec<CounterId>,
}

/// All counters and sorts.
#[derive(Debug, Default)]
pub struct Counts {
    keys: Vec<Key>,
    counters: Vec<Option<Counter>>,
    free_counters: Vec<CounterId>,
    known: HashMap<Spec, CounterId>,
    sorts: Vec<Sort>,
    free_sorts: Vec<SortId>,
    sort_of: HashMap<Traits, SortId>,
    /// Labels that some selector names.
    named: BTreeSet<Text>,
    namespaces: HashMap<Text, Labels>,
}

impl Counts {
    /// Sets the labels of a namespace; whether sorts have to be found anew.
    pub fn set_namespace(&mut self, name: &Text, labels: Labels) -> bool {
        let changed = self.namespaces.get(name) != Some(&labels);
        self.namespaces.insert(name.clone(), labels);
        changed && self.counters.iter().flatten().any(|counter| counter.spec.looks_at_namespaces())
    }

    /// Names the labels a spec looks at; whether any is new, so that pods have to be sorted anew.
    pub fn name_labels(&mut self, spec: &Spec) -> bool {
        let before = self.named.len();
        spec.label_keys().into_iter().for_each(|key| {
            self.named.insert(key);
        });
        self.named.len() > before
    }

    /// The sort of a pod, with one user more.
    pub fn sort(&mut self, namespace: &Text, labels: &Labels, leaving: bool) -> SortId {
        let labels = labels.iter().filter(|(key, _)| self.named.contains(key)).cloned().collect();
        let traits = Traits { namespace: namespace.clone(), labels, leaving };
        if let Some(id) = self.sort_of.get(&traits) {
            self.sorts[*id as usize].users += 1;
            return *id;
        }
        let mut sort = Sort { traits: traits.clone(), users: 1, ..Sort::default() };
        for (id, counter) in (0..).zip(&self.counters) {
            if let Some(counter) = counter {
                self.join(&mut sort, id, counter);
            }
        }
        let id = self.free_sorts.pop().unwrap_or_else(|| {
            self.sorts.push(Sort::default());
            SortId::try_from(self.sorts.len() - 1).expect("fewer sorts than 2^32")
        });
        self.sorts[id as usize] = sort;
        self.sort_of.insert(traits, id);
        id
    }

    /// Gives a sort back.
    pub fn release_sort(&mut self, id: SortId) {
        let sort = &mut self.sorts[id as usize];
        sort.users -= 1;
        if sort.users == 0 {
            self.sort_of.remove(&sort.traits);
            *sort = Sort::default();
            self.free_sorts.push(id);
        }
    }

    /// Finds anew which counters count which sort. No pod may be counted while this happens.
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

    /// The counter of a spec, with one user more. `nodes` are all rows, `placed` all pods that are counted.
    pub fn counter<'a>(
        &mut self,
        spec: &Spec,
        nodes: impl Iterator<Item = (Row, Option<&'a NodeFacts>)> + Clone,
        placed: impl Iterator<Item = (Row, SortId)>,
    ) -> CounterId {
        if let Some(id) = self.known.get(spec) {
            self.counters[*id as usize].as_mut().expect("a known counter exists").users += 1;
            return *id;
        }
        let key = self.key(spec.key(), nodes.clone());
        let mut counter = Counter {
            among: matches!(spec, Spec::Spread(..)).then(Default::default),
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

    /// Gives a counter back.
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

    /// A node came, changed or went. None of its pods may be counted while this happens.
    pub fn set_node(&mut self, row: Row, facts: Option<&NodeFacts>) {
        let former: Vec<Option<u32>> = self.keys.iter().map(|key| key.domain(row)).collect();
        for key in &mut self.keys {
            key.place(row, facts);
        }
        for counter in self.counters.iter_mut().flatten() {
            counter.counts.resize(self.keys[counter.key].values.len(), 0);
            counter.include(&self.keys[counter.key], row, former[counter.key], facts);
        }
    }

    /// A pod of this sort that carries these terms is on a node (`sign` 1), or no longer (-1).
    pub fn count(&mut self, row: Row, sort: SortId, carried: &[CounterId], sign: i32) {
        let Counts { sorts, counters, keys, .. } = self;
        for id in sorts[sort as usize].counted_by.iter().chain(carried) {
            let counter = counters[*id as usize].as_mut().expect("a counter in use exists");
            counter.bump(&keys[counter.key], row, sign);
        }
    }

    /// The counters that count a sort.
    pub fn counted_by(&self, sort: SortId) -> &[CounterId] {
        &self.sorts[sort as usize].counted_by
    }

    /// Whether a counter counts a sort.
    pub fn counts_sort(&self, id: CounterId, sort: SortId) -> bool {
        self.sorts[sort as usize].counted_by.contains(&id)
    }

    /// The counters of terms that ask for a sort and that some pod carries, with how much they like it.
    pub fn asked_by(&self, sort: SortId) -> impl Iterator<Item = (CounterId, i64)> + '_ {
        self.sorts[sort as usize].asked_by.iter().filter_map(|id| {
            let counter = self.counters[*id as usize].as_ref()?;
            let Spec::Carried(_, likes) = counter.spec else { return None };
            (counter.total > 0).then_some((*id, likes))
        })
    }

    /// The counters of terms that forbid a sort, whether some pod carries them or not.
    pub fn may_forbid(&self, sort: SortId) -> impl Iterator<Item = CounterId> + '_ {
        self.sorts[sort as usize].asked_by.iter().copied().filter(|id| self.forbids(*id))
    }

    /// Whether a counter is of a term that forbids pods.
    pub fn forbids(&self, id: CounterId) -> bool {
        matches!(self.counters[id as usize], Some(Counter { spec: Spec::Carried(_, 0), .. }))
    }

    /// Whether a rule of spreading sees a pod of this sort itself.
    pub fn spread_sees(&self, id: CounterId, sort: SortId) -> bool {
        let Some(Counter { spec: Spec::Spread(rule, ..), .. }) = &self.counters[id as usize] else {
            return false;
        };
        rule.selector.selects_labels(&self.sorts[sort as usize].traits.labels)
    }

    /// How many are in the domain of a node; `None` when the node has none.
    pub fn at(&self, id: CounterId, row: Row) -> Option<i32> {
        let counter = self.of(id);
        let domain = self.keys[counter.key].domain(row)?;
        Some(counter.counts[domain as usize])
    }

    /// The domain of a node.
    pub fn domain(&self, id: CounterId, row: Row) -> Option<u32> {
        self.keys[self.of(id).key].domain(row)
    }

    /// How many there are in all domains.
    pub fn total(&self, id: CounterId) -> i64 {
        self.of(id).total
    }

    /// The smallest count of a domain with nodes that count, and how many such domains there are.
    pub fn smallest(&self, id: CounterId) -> (i32, i64) {
        let counter = self.of(id);
        let Some((_, present)) = &counter.among else { return (0, 0) };
        let live =
            counter.counts.iter().zip(present).filter(|(_, nodes)| **nodes > 0).map(|(count, _)| *count);
        let (smallest, domains) = live.fold((i32::MAX, 0), |(min, n), count| (min.min(count), n + 1));
        (if domains == 0 { 0 } else { smallest }, domains)
    }

    /// Everything that is not zero, for comparing.
    pub fn picture(&self) -> Vec<String> {
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

    fn join(&self, sort: &mut Sort, id: CounterId, counter: &Counter) {
        let empty = Labels::new();
        let traits = &sort.traits;
        let home = self.namespaces.get(&traits.namespace).unwrap_or(&empty);
        let asks = |term: &Term| term.asks_for(&traits.namespace, home, &traits.labels);
        let list = match &counter.spec {
            Spec::Asked(terms, _) if terms.iter().all(asks) => &mut sort.counted_by,
            Spec::Carried(term, _) if asks(term) => &mut sort.asked_by,
            // A selector that asks for nothing counts nobody.
            Spec::Spread(rule, ..)
                if !traits.leaving
                    && rule.namespace == traits.namespace
                    && !rule.selector.is_everything()
                    && rule.selector.selects_labels(&traits.labels) =>
            {
                &mut sort.counted_by
            }
            _ => return,
        };
        list.push(id);
    }

    fn key<'a>(&mut self, name: &Text, nodes: impl Iterator<Item = (Row, Option<&'a NodeFacts>)>) -> usize {
        if let Some(at) = self.keys.iter().position(|key| key.name == *name) {
            return at;
        }
        let mut key = Key::new(name);
        nodes.for_each(|(row, facts)| key.place(row, facts));
        self.keys.push(key);
        self.keys.len() - 1
    }
}
