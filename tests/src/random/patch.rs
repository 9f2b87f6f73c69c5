//! Random merge, strategic merge and JSON patches.

use std::collections::BTreeMap;

use muster_tree::{Tree, tree};

use super::rng::SeededRng;
use super::shape::{KeyedList, ValueShape, some_fields};

/// A merge patch (RFC 7386).
pub fn merge(shape: &ValueShape, rng: &mut SeededRng) -> Tree {
    match shape {
        ValueShape::Fields(fields) => {
            some_fields(
                fields,
                rng,
                |shape, rng| {
                    if rng.percent(15) { Tree::Null } else { merge(shape, rng) }
                },
            )
        }
        ValueShape::Map { .. } => with_nulls(&shape.value(rng), rng),
        whole => whole.value(rng),
    }
}

/// A strategic merge patch.
pub fn strategic(shape: &ValueShape, rng: &mut SeededRng) -> Tree {
    match shape {
        ValueShape::Fields(fields) => strategic_fields(fields, rng),
        ValueShape::Map { .. } => {
            let patch = with_nulls(&shape.value(rng), rng);
            if rng.percent(5) { patch.with_key("$patch", Tree::from("replace")) } else { patch }
        }
        ValueShape::Keyed(keyed) => strategic_items(keyed, rng),
        whole => whole.value(rng),
    }
}

fn strategic_fields(fields: &BTreeMap<String, ValueShape>, rng: &mut SeededRng) -> Tree {
    let mut patch =
        some_fields(
            fields,
            rng,
            |shape, rng| {
                if rng.percent(12) { Tree::Null } else { strategic(shape, rng) }
            },
        );
    let names: Vec<String> = patch.entries().iter().map(|(name, _)| name.to_string()).collect();
    for name in names {
        let own = patch.get(&name).cloned().unwrap_or_default();
        for (directive, value) in directives(&fields[&name], &own, rng) {
            patch = patch.with_key(&format!("{directive}/{name}"), value);
        }
    }
    match rng.below(100) {
        0..4 => patch.with_key("$patch", Tree::from("replace")),
        4..6 => tree!({"$patch": "delete"}),
        6..9 => {
            let kept: Vec<&String> = fields.keys().collect();
            patch.with_key("$retainKeys", Tree::list(rng.some(&kept, kept.len()).into_iter().copied()))
        }
        _ => patch,
    }
}

/// Generates directives for the list `own` of a strategic merge patch.
fn directives(shape: &ValueShape, own: &Tree, rng: &mut SeededRng) -> Vec<(&'static str, Tree)> {
    let mut found = Vec::new();
    match shape {
        ValueShape::Keyed(keyed) if rng.percent(25) => {
            let first = &keyed.by[0];
            let own = own
                .items()
                .iter()
                .filter_map(|item| Some(tree!({}).with_key(first, item.get(first)?.clone())));
            let others: Vec<Tree> = (0..1 + rng.below(3)).map(|_| first_key(keyed, rng)).collect();
            found.push(("$setElementOrder", order(own.collect(), others, rng)));
        }
        ValueShape::Set(pool) => {
            // kube-apiserver adds and deletes the same value in random order.
            let free: Vec<Tree> = pool.iter().filter(|value| !own.items().contains(value)).cloned().collect();
            if !free.is_empty() && rng.percent(30) {
                found.push(("$deleteFromPrimitiveList", Tree::list(rng.some(&free, 2))));
            }
            if rng.percent(20) {
                let others = rng.some(pool, 3).into_iter().cloned().collect();
                found.push(("$setElementOrder", order(own.items().to_vec(), others, rng)));
            }
        }
        _ => {}
    }
    found
}

/// Mostly the items of the patch followed by others; else only the others, which may contradict the patch.
fn order(own: Vec<Tree>, others: Vec<Tree>, rng: &mut SeededRng) -> Tree {
    let mut all = if rng.percent(75) { own } else { Vec::new() };
    for other in others {
        if !all.contains(&other) {
            all.push(other);
        }
    }
    Tree::list(all)
}

fn first_key(keyed: &KeyedList, rng: &mut SeededRng) -> Tree {
    let key = keyed.key(rng);
    let first = &keyed.by[0];
    tree!({}).with_key(first, key.get(first).cloned().unwrap_or_default())
}

fn strategic_items(keyed: &KeyedList, rng: &mut SeededRng) -> Tree {
    let items: Vec<Tree> = (0..1 + rng.below(3)).map(|_| strategic_item(keyed, rng)).collect();
    let items = keyed.distinct(items, rng);
    if rng.percent(6) {
        let all = items.items().iter().cloned().chain([tree!({"$patch": "replace"})]);
        return Tree::list(all.collect::<Vec<_>>());
    }
    items
}

fn strategic_item(keyed: &KeyedList, rng: &mut SeededRng) -> Tree {
    let key = if rng.percent(15) { first_key(keyed, rng) } else { keyed.key(rng) };
    if rng.percent(25) {
        return key.with_key("$patch", Tree::from("delete"));
    }
    let patch = strategic_fields(&keyed.item, rng);
    key.entries().iter().fold(patch, |patch, (name, value)| patch.with_key(name, value.clone()))
}

/// Replaces some values by null.
fn with_nulls(map: &Tree, rng: &mut SeededRng) -> Tree {
    map.map_entries(|_, value| Some(if rng.percent(25) { Tree::Null } else { value.clone() }))
}

/// A JSON patch (RFC 6902) of a few operations.
pub fn json(shape: &ValueShape, rng: &mut SeededRng) -> Tree {
    Tree::list((0..1 + rng.below(2)).map(|_| operation(shape, rng)).collect::<Vec<_>>())
}

fn operation(shape: &ValueShape, rng: &mut SeededRng) -> Tree {
    let (path, value) = place(shape, String::new(), rng);
    match rng.below(100) {
        0..50 => tree!({"op": "add", "path": path, "value": value}),
        50..70 => tree!({"op": "replace", "path": path, "value": value}),
        70..88 => tree!({"op": "remove", "path": path}),
        88..94 => tree!({"op": "test", "path": path, "value": value}),
        94..97 => tree!({"op": "copy", "from": place(shape, String::new(), rng).0, "path": path}),
        _ => tree!({"op": "move", "from": place(shape, String::new(), rng).0, "path": path}),
    }
}

/// Generates a JSON pointer and a value for it.
fn place(shape: &ValueShape, so_far: String, rng: &mut SeededRng) -> (String, Tree) {
    if !so_far.is_empty() && rng.percent(30) {
        return (so_far, shape.value(rng));
    }
    let index = |rng: &mut SeededRng| rng.pick(&["0", "1", "2", "-"]).to_owned();
    match shape {
        ValueShape::Value(_) => (so_far, shape.value(rng)),
        ValueShape::Fields(fields) => one_of(fields, &so_far, rng),
        ValueShape::Map { keys, values } => {
            let key = rng.pick(keys).replace('/', "~1");
            (format!("{so_far}/{key}"), rng.pick(values).clone())
        }
        ValueShape::Keyed(keyed) => {
            let path = format!("{so_far}/{}", index(rng));
            if rng.percent(50) && !path.ends_with('-') {
                return one_of(&keyed.item, &path, rng);
            }
            (path, shape.value(rng).items().first().cloned().unwrap_or_else(|| keyed.key(rng)))
        }
        ValueShape::Set(pool) => (format!("{so_far}/{}", index(rng)), rng.pick(pool).clone()),
        ValueShape::List(item) => (format!("{so_far}/{}", index(rng)), item.value(rng)),
    }
}

fn one_of(fields: &BTreeMap<String, ValueShape>, so_far: &str, rng: &mut SeededRng) -> (String, Tree) {
    let all: Vec<(&String, &ValueShape)> = fields.iter().collect();
    let (name, shape) = rng.pick(&all);
    place(shape, format!("{so_far}/{name}"), rng)
}
