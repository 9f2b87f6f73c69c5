//! Random patches of the three types that are no apply.

use std::collections::BTreeMap;

use muster_tree::{Tree, tree};

use super::chance::Chance;
use super::shape::{Keyed, Shape, some_fields};

/// A merge patch (RFC 7386).
pub fn merge(shape: &Shape, chance: &mut Chance) -> Tree {
    match shape {
        Shape::Fields(fields) => {
            some_fields(
                fields,
                chance,
                |shape, chance| {
                    if chance.percent(15) { Tree::Null } else { merge(shape, chance) }
                },
            )
        }
        Shape::Map { .. } => with_nulls(&shape.value(chance), chance),
        whole => whole.value(chance),
    }
}

/// A strategic merge patch.
pub fn strategic(shape: &Shape, chance: &mut Chance) -> Tree {
    match shape {
        Shape::Fields(fields) => strategic_fields(fields, chance),
        Shape::Map { .. } => {
            let patch = with_nulls(&shape.value(chance), chance);
            if chance.percent(5) { patch.with_key("$patch", Tree::from("replace")) } else { patch }
        }
        Shape::Keyed(keyed) => strategic_items(keyed, chance),
        whole => whole.value(chance),
    }
}

fn strategic_fields(fields: &BTreeMap<String, Shape>, chance: &mut Chance) -> Tree {
    let mut patch =
        some_fields(
            fields,
            chance,
            |shape, chance| {
                if chance.percent(12) { Tree::Null } else { strategic(shape, chance) }
            },
        );
    let names: Vec<String> = patch.entries().iter().map(|(name, _)| name.to_string()).collect();
    for name in names {
        let own = patch.get(&name).cloned().unwrap_or_default();
        for (directive, value) in directives(&fields[&name], &own, chance) {
            patch = patch.with_key(&format!("{directive}/{name}"), value);
        }
    }
    match chance.below(100) {
        0..4 => patch.with_key("$patch", Tree::from("replace")),
        4..6 => tree!({"$patch": "delete"}),
        6..9 => {
            let kept: Vec<&String> = fields.keys().collect();
            patch.with_key("$retainKeys", Tree::list(chance.some(&kept, kept.len()).into_iter().copied()))
        }
        _ => patch,
    }
}

/// What may stand beside the list `own` in a strategic patch.
fn directives(shape: &Shape, own: &Tree, chance: &mut Chance) -> Vec<(&'static str, Tree)> {
    let mut found = Vec::new();
    match shape {
        Shape::Keyed(keyed) if chance.percent(25) => {
            let first = &keyed.by[0];
            let own = own
                .items()
                .iter()
                .filter_map(|item| Some(tree!({}).with_key(first, item.get(first)?.clone())));
            let others: Vec<Tree> = (0..1 + chance.below(3)).map(|_| first_key(keyed, chance)).collect();
            found.push(("$setElementOrder", order(own.collect(), others, chance)));
        }
        Shape::Set(pool) => {
            // Adding and deleting the same value: the real server does either first, by chance.
            let free: Vec<Tree> = pool.iter().filter(|value| !own.items().contains(value)).cloned().collect();
            if !free.is_empty() && chance.percent(30) {
                found.push(("$deleteFromPrimitiveList", Tree::list(chance.some(&free, 2))));
            }
            if chance.percent(20) {
                let others = chance.some(pool, 3).into_iter().cloned().collect();
                found.push(("$setElementOrder", order(own.items().to_vec(), others, chance)));
            }
        }
        _ => {}
    }
    found
}

/// Mostly what the patch itself lists and then others; else only the others, which may contradict the patch.
fn order(own: Vec<Tree>, others: Vec<Tree>, chance: &mut Chance) -> Tree {
    let mut all = if chance.percent(75) { own } else { Vec::new() };
    for other in others {
        if !all.contains(&other) {
            all.push(other);
        }
    }
    Tree::list(all)
}

fn first_key(keyed: &Keyed, chance: &mut Chance) -> Tree {
    let key = keyed.key(chance);
    let first = &keyed.by[0];
    tree!({}).with_key(first, key.get(first).cloned().unwrap_or_default())
}

fn strategic_items(keyed: &Keyed, chance: &mut Chance) -> Tree {
    let items: Vec<Tree> = (0..1 + chance.below(3)).map(|_| strategic_item(keyed, chance)).collect();
    let items = keyed.distinct(items, chance);
    if chance.percent(6) {
        let all = items.items().iter().cloned().chain([tree!({"$patch": "replace"})]);
        return Tree::list(all.collect::<Vec<_>>());
    }
    items
}

fn strategic_item(keyed: &Keyed, chance: &mut Chance) -> Tree {
    let key = if chance.percent(15) { first_key(keyed, chance) } else { keyed.key(chance) };
    if chance.percent(25) {
        return key.with_key("$patch", Tree::from("delete"));
    }
    let patch = strategic_fields(&keyed.item, chance);
    key.entries().iter().fold(patch, |patch, (name, value)| patch.with_key(name, value.clone()))
}

/// Some entries become `null`.
fn with_nulls(map: &Tree, chance: &mut Chance) -> Tree {
    map.map_entries(|_, value| Some(if chance.percent(25) { Tree::Null } else { value.clone() }))
}

/// A JSON patch (RFC 6902) of a few operations.
pub fn json(shape: &Shape, chance: &mut Chance) -> Tree {
    Tree::list((0..1 + chance.below(2)).map(|_| operation(shape, chance)).collect::<Vec<_>>())
}

fn operation(shape: &Shape, chance: &mut Chance) -> Tree {
    let (path, value) = place(shape, String::new(), chance);
    match chance.below(100) {
        0..50 => tree!({"op": "add", "path": path, "value": value}),
        50..70 => tree!({"op": "replace", "path": path, "value": value}),
        70..88 => tree!({"op": "remove", "path": path}),
        88..94 => tree!({"op": "test", "path": path, "value": value}),
        94..97 => tree!({"op": "copy", "from": place(shape, String::new(), chance).0, "path": path}),
        _ => tree!({"op": "move", "from": place(shape, String::new(), chance).0, "path": path}),
    }
}

/// A pointer to some place, and a value that may stand there.
fn place(shape: &Shape, so_far: String, chance: &mut Chance) -> (String, Tree) {
    if !so_far.is_empty() && chance.percent(30) {
        return (so_far, shape.value(chance));
    }
    let index = |chance: &mut Chance| chance.pick(&["0", "1", "2", "-"]).to_owned();
    match shape {
        Shape::Value(_) => (so_far, shape.value(chance)),
        Shape::Fields(fields) => one_of(fields, &so_far, chance),
        Shape::Map { keys, values } => {
            let key = chance.pick(keys).replace('/', "~1");
            (format!("{so_far}/{key}"), chance.pick(values).clone())
        }
        Shape::Keyed(keyed) => {
            let path = format!("{so_far}/{}", index(chance));
            if chance.percent(50) && !path.ends_with('-') {
                return one_of(&keyed.item, &path, chance);
            }
            (path, shape.value(chance).items().first().cloned().unwrap_or_else(|| keyed.key(chance)))
        }
        Shape::Set(pool) => (format!("{so_far}/{}", index(chance)), chance.pick(pool).clone()),
        Shape::List(item) => (format!("{so_far}/{}", index(chance)), item.value(chance)),
    }
}

fn one_of(fields: &BTreeMap<String, Shape>, so_far: &str, chance: &mut Chance) -> (String, Tree) {
    let all: Vec<(&String, &Shape)> = fields.iter().collect();
    let (name, shape) = chance.pick(&all);
    place(shape, format!("{so_far}/{name}"), chance)
}
