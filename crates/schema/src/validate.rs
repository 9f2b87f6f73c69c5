//! Validation of values against their schema.
//!
//! Messages, their order and some oddities are upstream's, because clients compare them.
//!
//! # Guarantees
//!
//! - A value that is unchanged since the stored object is not reported (ratcheting), provided that the two can be
//!   correlated: through maps and map lists, not through other lists.
//! - A branch shared with the stored object is skipped.
//!
//! # Deliberately absent
//!
//! CEL rules ([`crate::rules`]), and rules about metadata that hold for every kind.

mod lists;
mod logic;
mod scalars;

use muster_tree::Tree;

pub(crate) use self::lists::correlate;
use crate::error::FieldError;
use crate::node::{Bounds, Field, Shape, View};
use crate::path::Path;

/// The path the real server gives to a failure that it cannot place.
const NOWHERE: &str = "<nil>";

/// Everything wrong with the values of `new`, except for what was already so in `old`.
#[must_use]
pub fn validate(view: View<'_>, new: &Tree, old: Option<&Tree>) -> Vec<FieldError> {
    validate_at("", view, new, old)
}

/// As [`validate`], with `base` in front of every path.
#[must_use]
pub fn validate_at(base: &str, view: View<'_>, new: &Tree, old: Option<&Tree>) -> Vec<FieldError> {
    let mut walk = Walk::new(true);
    walk.check(view, Level::Structure, new, old, &Path::Root(base));
    if !walk.lists.is_empty() && old.is_some_and(|old| has_duplicates(view, old)) {
        // An object that had duplicates keeps the right to have them: the whole object is the unit here.
        walk.lists.clear();
    }
    walk.errors.append(&mut walk.lists);
    walk.errors
}

/// As [`validate_at`] for a new value, without looking for duplicates in lists.
pub(crate) fn values_at(base: &str, view: View<'_>, new: &Tree) -> Vec<FieldError> {
    let mut walk = Walk::new(false);
    walk.check(view, Level::Structure, new, None, &Path::Root(base));
    walk.errors
}

fn has_duplicates(view: View<'_>, tree: &Tree) -> bool {
    let mut walk = Walk::new(true);
    walk.check(view, Level::Structure, tree, None, &Path::Root(""));
    !walk.lists.is_empty()
}

/// Whether a node says what a value is, or only adds to what another node says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    /// The type is checked.
    Structure,
    /// A clause of `allOf`, `anyOf`, `oneOf` or `not`: only scalar types are checked there.
    Clause,
}

/// One walk over an object and what it found.
struct Walk {
    errors: Vec<FieldError>,
    /// Duplicates in lists; apart, because they ratchet by the whole object.
    lists: Vec<FieldError>,
    looks_at_lists: bool,
    /// Number of values checked: selects the closest of several failed clauses, as upstream does.
    visits: usize,
}

impl Walk {
    fn new(looks_at_lists: bool) -> Self {
        Self { errors: Vec::new(), lists: Vec::new(), looks_at_lists, visits: 0 }
    }

    fn check(&mut self, view: View<'_>, level: Level, new: &Tree, old: Option<&Tree>, path: &Path<'_>) {
        if old.is_some_and(|old| is_surely_equal(old, new)) {
            return;
        }
        let before = self.errors.len();
        self.visits += 1;
        self.check_value(view, level, new, old, path);
        if self.errors.len() > before && old == Some(new) {
            self.errors.truncate(before);
        }
    }

    fn check_value(&mut self, view: View<'_>, level: Level, new: &Tree, old: Option<&Tree>, path: &Path<'_>) {
        let node = view.node();
        self.check_type(view, level, new, path);
        let Some(bounds) = node.bounds.as_deref() else {
            return self.check_inside(view, level, new, old, path);
        };
        if !new.is_null() {
            self.check_logic(view, bounds, new, path);
        }
        match new {
            Tree::Text(text) => self.check_text(bounds, text, path),
            Tree::Int(n) => self.check_int(bounds, *n, path),
            Tree::Float(n) => self.check_float(bounds, *n, path),
            _ => {}
        }
        self.check_enum(bounds, new, path);
        self.check_inside(view, level, new, old, path);
        self.check_sizes(bounds, new, path);
    }

    fn check_inside(
        &mut self,
        view: View<'_>,
        level: Level,
        new: &Tree,
        old: Option<&Tree>,
        path: &Path<'_>,
    ) {
        match (&view.node().shape, new) {
            (Shape::Fields(fields), Tree::Map(_)) => self.check_fields(view, level, fields, new, old, path),
            (Shape::Map(values), Tree::Map(_)) => {
                let values = view.to(*values);
                for (key, value) in new.entries() {
                    self.check(values, level, value, old_below(view, old, key), &path.key(key));
                }
            }
            (Shape::List(item), Tree::List(_)) => {
                let item = view.to(*item);
                for (index, value) in new.items().iter().enumerate() {
                    let old = old.and_then(|old| correlate(view, old, value));
                    self.check(item, level, value, old, &path.item(index));
                }
                // Lists in metadata have rules of their own, which are not a matter of schemas.
                if self.looks_at_lists && !is_in_metadata(path) {
                    self.check_unique(view, new.items(), path);
                }
            }
            _ => {}
        }
    }

    fn check_fields(
        &mut self,
        view: View<'_>,
        level: Level,
        fields: &[Field],
        new: &Tree,
        old: Option<&Tree>,
        path: &Path<'_>,
    ) {
        let node = view.node();
        for (key, value) in new.entries() {
            if let Some(below) = view.below(key) {
                self.check(below, level, value, old_below(view, old, key), &path.key(key));
            }
        }
        for field in fields.iter().filter(|f| f.required) {
            self.check_required(&field.name, new, path);
        }
        if node.embedded_resource {
            self.check_embedded(new, path);
        }
    }

    fn check_required(&mut self, key: &str, new: &Tree, path: &Path<'_>) {
        if new.get(key).is_none() {
            self.errors.push(FieldError::required(path.key(key).to_string(), ""));
        }
    }

    /// Bounds on the number of items or keys, and required keys that are not fields.
    fn check_sizes(&mut self, bounds: &Bounds, new: &Tree, path: &Path<'_>) {
        let (count, min, max, what) = match new {
            Tree::List(_) => (new.items().len(), bounds.min_items, bounds.max_items, "items"),
            Tree::Map(_) => (new.entries().len(), bounds.min_properties, bounds.max_properties, "properties"),
            _ => return,
        };
        let size = count as u64;
        if let Some(min) = min.filter(|min| size < *min) {
            let detail = format!("{} in body should have at least {min} {what}", path.body());
            self.errors.push(FieldError::invalid(path.to_string(), Tree::from(size_tree(count)), detail));
        }
        if let Some(max) = max.filter(|max| size > *max) {
            let max = usize::try_from(max).unwrap_or(usize::MAX);
            self.errors.push(FieldError::too_many(path.to_string(), count, max));
        }
        if new.is_map() {
            for key in &bounds.required {
                self.check_required(key, new, path);
            }
        }
    }
}

fn is_in_metadata(path: &Path<'_>) -> bool {
    matches!(path, Path::Key(Path::Key(Path::Root(_), "metadata"), _))
}

fn size_tree(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The stored value under the same key; none when the map is one value.
fn old_below<'t>(view: View<'_>, old: Option<&'t Tree>, key: &str) -> Option<&'t Tree> {
    if view.node().atomic_map { None } else { old?.get(key) }
}

/// A cheap "nothing to see here".
fn is_surely_equal(old: &Tree, new: &Tree) -> bool {
    match new {
        Tree::List(_) | Tree::Map(_) => old.same_branch(new),
        _ => old == new,
    }
}

#[cfg(test)]
#[path = "validate/tests.rs"]
mod tests;
