//! What may stand where in an object, as far as random requests are concerned.
//!
//! A shape is small on purpose: few keys and few values, so that what one manager wrote is soon met by another.

use std::collections::BTreeMap;

use muster_tree::{Text, Tree};
use serde::Deserialize;

use super::chance::Chance;

/// The most entries of a list or map.
const ENTRIES_MAX: usize = 3;

/// What may stand at one place.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// One of these.
    Value(Vec<Tree>),
    /// A map with these fields, each of them optional.
    Fields(BTreeMap<String, Shape>),
    /// A map of free keys.
    Map {
        /// The keys to draw from.
        keys: Vec<String>,
        /// The values to draw from.
        values: Vec<Tree>,
    },
    /// A list whose items are told apart by key fields.
    Keyed(Keyed),
    /// A list of different plain values.
    Set(Vec<Tree>),
    /// A list that is one whole.
    List(Box<Shape>),
}

/// A list whose items are told apart by key fields.
#[derive(Debug, Clone, Deserialize)]
pub struct Keyed {
    /// The key fields; strategic patches know the first only.
    pub by: Vec<String>,
    /// Fields that every whole item has.
    #[serde(default)]
    pub need: Vec<String>,
    /// The fields of an item, keys among them.
    pub item: BTreeMap<String, Shape>,
}

impl Shape {
    /// A whole value.
    pub fn value(&self, chance: &mut Chance) -> Tree {
        match self {
            Shape::Value(pool) => chance.pick(pool).clone(),
            Shape::Fields(fields) => some_fields(fields, chance, Shape::value),
            Shape::Map { keys, values } => {
                let keys = chance.some(keys, ENTRIES_MAX);
                Tree::map(
                    keys.into_iter().map(|k| (k.as_str(), chance.pick(values).clone())).collect::<Vec<_>>(),
                )
            }
            Shape::Keyed(keyed) => {
                let n = if chance.percent(8) { 0 } else { 1 + chance.below(ENTRIES_MAX) };
                keyed.distinct((0..n).map(|_| keyed.whole(chance)).collect(), chance)
            }
            Shape::Set(pool) => Tree::list(chance.some(pool, ENTRIES_MAX)),
            Shape::List(item) => {
                let n = chance.below(ENTRIES_MAX);
                Tree::list((0..n).map(|_| item.value(chance)).collect::<Vec<_>>())
            }
        }
    }
}

impl Keyed {
    /// An item with its keys and all it needs.
    fn whole(&self, chance: &mut Chance) -> Tree {
        let mut item = Tree::empty_map();
        for (name, shape) in &self.item {
            if self.by.contains(name) || self.need.contains(name) || chance.percent(35) {
                item = item.with_key(name, shape.value(chance));
            }
        }
        item
    }

    /// The key fields of some item.
    pub fn key(&self, chance: &mut Chance) -> Tree {
        let fields = self.by.iter().filter_map(|name| Some((name, self.item.get(name)?)));
        fields.fold(Tree::empty_map(), |item, (name, shape)| item.with_key(name, shape.value(chance)))
    }

    /// Mostly without items of the same key, which servers refuse.
    pub fn distinct(&self, items: Vec<Tree>, chance: &mut Chance) -> Tree {
        if chance.percent(4) {
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
    fields: &BTreeMap<String, Shape>,
    chance: &mut Chance,
    mut make: impl FnMut(&Shape, &mut Chance) -> Tree,
) -> Tree {
    let all: Vec<(&String, &Shape)> = fields.iter().collect();
    let chosen = chance.some(&all, ENTRIES_MAX);
    let entries = chosen.into_iter().map(|(name, shape)| (Text::from(name.as_str()), make(shape, chance)));
    Tree::map(entries.collect::<Vec<_>>())
}
