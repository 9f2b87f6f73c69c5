//! Validates a configuration before it is applied.
//!
//! Field ownership requires that every field has a name: an unknown field, a value of the wrong type or a list item with
//! a duplicate key is rejected before anything is merged.

use std::collections::BTreeSet;

use muster_tree::{Text, Tree};

use crate::fields::{self, key_of};
use crate::node::{ListKind, Node, Shape, View};

/// Checks a configuration.
///
/// # Errors
///
/// What is wrong, for the message `failed to create typed patch object (<namespace>/<name>; <group>/<version>,
/// Kind=<kind>): <this>` of a 500 answer.
pub fn check(view: View<'_>, applied: &Tree) -> Result<(), String> {
    let mut problems = Vec::new();
    check_value(view, applied, "", &mut problems);
    match &problems[..] {
        [] => Ok(()),
        [one] => Err(one.clone()),
        many => Err(format!("errors:\n  {}", many.join("\n  "))),
    }
}

fn check_value(view: View<'_>, value: &Tree, path: &str, problems: &mut Vec<String>) {
    if value.is_null() {
        return;
    }
    let node = view.node();
    match &node.shape {
        Shape::Fields(_) | Shape::Map(_) => check_map(view, value, path, problems),
        Shape::List(_) => check_list(view, value, path, problems),
        Shape::Any => {}
        _ => {
            if let Some(wanted) = wrong_scalar(node, value) {
                problems.push(format!("{path}: expected {wanted}, got {}", got(value)));
            }
        }
    }
}

/// The type that the schema requires instead of this value.
fn wrong_scalar(node: &Node, value: &Tree) -> Option<&'static str> {
    if node.int_or_string {
        return None;
    }
    match (&node.shape, value) {
        (Shape::Bool, Tree::Bool(_))
        | (Shape::Int | Shape::Number, Tree::Int(_) | Tree::Float(_))
        | (Shape::Text, Tree::Text(_)) => None,
        (Shape::Bool, _) => Some("boolean"),
        (Shape::Int | Shape::Number, _) => Some("numeric (int or float)"),
        _ => Some("string"),
    }
}

fn got(value: &Tree) -> String {
    match value {
        Tree::Text(_) => "string".into(),
        other => other.to_json(),
    }
}

fn check_map(view: View<'_>, value: &Tree, path: &str, problems: &mut Vec<String>) {
    if !value.is_map() {
        problems.push(format!("{path}: expected map, got {}", got(value)));
        return;
    }
    let is_free = view.node().preserve_unknown;
    for (key, inner) in value.entries() {
        let path = format!("{path}.{key}");
        match view.below(key) {
            Some(below) => check_value(below, inner, &path, problems),
            None if is_free => {}
            None => problems.push(format!("{path}: field not declared in schema")),
        }
    }
}

fn check_list(view: View<'_>, value: &Tree, path: &str, problems: &mut Vec<String>) {
    if !value.is_list() {
        problems.push(format!("{path}: expected list, got {}", got(value)));
        return;
    }
    let Some(item_view) = view.item() else { return };
    let mut seen: BTreeSet<Text> = BTreeSet::new();
    for (i, item) in value.items().iter().enumerate() {
        let element = match element(view, i, item) {
            Ok(Some(element)) => element,
            Ok(None) => {
                check_value(item_view, item, &format!("{path}[{i}]"), problems);
                continue;
            }
            Err(problem) => {
                problems.push(format!("{path}: {problem}"));
                continue;
            }
        };
        let shown = fields::paths(&Tree::map([(element.clone(), Tree::empty_map())])).concat();
        if !seen.insert(element) {
            problems.push(format!("{path}: duplicate entries for key {shown}"));
        }
        check_value(item_view, item, &format!("{path}{shown}"), problems);
    }
}

/// The path element of an item; `None` in an atomic list.
fn element(view: View<'_>, i: usize, item: &Tree) -> Result<Option<Text>, String> {
    match (&view.node().list, item) {
        (ListKind::Atomic, _) => Ok(None),
        (ListKind::Map(_), Tree::Null) => {
            Err(format!("element {i}: associative list with keys may not have a null element"))
        }
        (ListKind::Map(_), Tree::Map(_)) => Ok(Some(key_of(view, item))),
        (ListKind::Map(_), _) => {
            Err(format!("element {i}: associative list with keys may not have non-map elements"))
        }
        (ListKind::Set, _) => Ok(Some(key_of(view, item))),
    }
}
