//! Shapes of values for random requests.
//!
//! A shape has few keys and few values, so that the writes of different managers conflict.

use std::collections::BTreeMap;

use muster_tree::{Text, Tree};
use serde::Deserialize;

use super::rng::SeededRng;

/// Maximum number of entries of a list or map.
const ENTRIES_MAX: usize = 3;

/// The values that a field may have.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ValueShape {
    /// One of these values.
    Value(Vec<Tree>),
    /// Generates a map with some of these fields.
    Fields(BTreeMap<String, ValueShape>),
    /// A map with arbitrary keys.
    Map {
        keys: Vec<String>,
        values: Vec<Tree>,
    },
    Keyed(KeyedList),
    /// A set of scalars.
    Set(Vec<Tree>),
    List(Box<ValueShape>),
}

/// A list with `x-kubernetes-list-type: map`.
#[derive(Debug, Clone, Deserialize)]
pub struct KeyedList {
    /// Key fields; strategic merge patches use only the first.
    pub by: Vec<String>,
    /// Required fields of an item.
    #[serde(default)]
    pub need: Vec<String>,
    /// Fields of an item, including the keys.
    pub item: BTreeMap<String, ValueShape>,
}

impl ValueShape {
    pub fn value(&self, rng: &mut SeededRng) -> Tree {
        match self {
            ValueShape::Value(pool) => rng.pick(pool).clone(),
            ValueShape::Fields(fields) => some_fields(fields, rng, ValueShape::value),
            ValueShape::Map { keys, values } => {
                let keys = rng.some(keys, ENTRIES_MAX);
                Tree::map(
                    keys.into_iter().map(|k| (k.as_str(), rng.pick(values).clone())).collect::<Vec<_>>(),
                )
            }
            ValueShape::Keyed(keyed) => {
                let n = if rng.percent(8) { 0 } else { 1 + rng.below(ENTRIES_MAX) };
                keyed.distinct((0..n).map(|_| keyed.whole(rng)).collect(), rng)
            }
            ValueShape::Set(pool) => Tree::list(rng.some(pool, ENTRIES_MAX)),
            ValueShape::List(item) => {
                let n = rng.below(ENTRIES_MAX);
                Tree::list((0..n).map(|_| item.value(rng)).collect::<Vec<_>>())
            }
        }
    }
}

impl KeyedList {
    /// Generates an item with its keys and required fields.
    fn whole(&self, rng: &mut SeededRng) -> Tree {
        let mut item = Tree::empty_map();
        for (name, shape) in &self.item {
            if self.by.contains(name) || self.need.contains(name) || rng.percent(35) {
                item = item.with_key(name, shape.value(rng));
            }
        }
        item
    }

    /// Generates the key fields of an item.
    pub fn key(&self, rng: &mut SeededRng) -> Tree {
        let fields = self.by.iter().filter_map(|name| Some((name, self.item.get(name)?)));
        fields.fold(Tree::empty_map(), |item, (name, shape)| item.with_key(name, shape.value(rng)))
    }

    /// Mostly removes items with duplicate keys, which servers reject.
    pub fn distinct(&self, items: Vec<Tree>, rng: &mut SeededRng) -> Tree {
        if rng.percent(4) {
            return Tree::list(items);
        }
        let mut seen: Vec<Vec<Option<Tree>>> = Vec::new();
        let mut kept = Vec::new();
        for item in items {
            let key: Vec<Option<Tree>> = self.by.iter().map(|name| item.get(name).cloned()).collect();
            if !seen.contains(&key) {
                seen.push(key);
                kept.push(item);
            }
        }
        Tree::list(kept)
    }
}

/// A map with some of these fields.
pub fn some_fields(
    fields: &BTreeMap<String, ValueShape>,
    rng: &mut SeededRng,
    mut make: impl FnMut(&ValueShape, &mut SeededRng) -> Tree,
) -> Tree {
    let all: Vec<(&String, &ValueShape)> = fields.iter().collect();
    let chosen = rng.some(&all, ENTRIES_MAX);
    let entries = chosen.into_iter().map(|(name, shape)| (Text::from(name.as_str()), make(shape, rng)));
    Tree::map(entries.collect::<Vec<_>>())
}
