//! Shared immutable JSON trees: the one representation of every object.
//!
//! Store, history, caches and the request pipeline all hold [`Tree`]s. Cloning a tree is a counter, comparing
//! stops at a shared branch, and changing one copies only the path to the change.
//!
//! # Invariants
//!
//! - The entries of a map are sorted by key, without duplicates: equal trees have equal bytes.
//! - A tree never changes once made. "Changing" functions return a new tree that shares the rest.
//! - Nothing nests deeper than [`DEPTH_MAX`]: recursion over a tree is safe on any thread.
//!
//! # Deliberately absent
//!
//! Any knowledge of Kubernetes. What a field means is written in the schema table.

mod build;
mod de;
mod json;
mod merge;
mod mistake;
mod share;
mod yaml;

use std::hash::{Hash, Hasher};

pub use arcstr::ArcStr as Text;
pub use arcstr::literal;
pub use de::{ReadError, from_tree};
pub use json::{DEPTH_MAX, Duplicate, ParseError, escape_json};
pub use share::{Sharing, own_bytes};
use triomphe::ThinArc;
pub use yaml::{Lines, Repeated};

/// A JSON value. Cloning is a counter, comparing stops at a shared branch.
#[derive(Clone, Default)]
pub enum Tree {
    /// `null`.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number that fits 64 bits.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// Text.
    Text(Text),
    /// An array.
    List(ThinArc<(), Tree>),
    /// An object; entries sorted by key.
    Map(ThinArc<(), (Text, Tree)>),
}

/// In maps of up to this many entries looking at one after another is faster: most keys differ in length already.
const SCAN_MAX: usize = 16;

impl Tree {
    /// The value under `key`, if this is a map that has it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Tree> {
        let entries = self.entries();
        if entries.len() <= SCAN_MAX {
            return entries.iter().find(|(k, _)| k.as_str() == key).map(|(_, value)| value);
        }
        find(entries, key).ok().map(|i| &entries[i].1)
    }

    /// The value at the end of a path of map keys.
    #[must_use]
    pub fn at(&self, path: &[&str]) -> Option<&Tree> {
        path.iter().try_fold(self, |tree, key| tree.get(key))
    }

    /// The text at the end of a path; empty when absent or of another type.
    #[must_use]
    pub fn str_at(&self, path: &[&str]) -> &str {
        self.at(path).and_then(Tree::as_str).unwrap_or_default()
    }

    /// The shared text at the end of a path; empty when absent or of another type.
    #[must_use]
    pub fn text_at(&self, path: &[&str]) -> Text {
        self.at(path).and_then(Tree::as_text).cloned().unwrap_or_default()
    }

    /// The whole number at the end of a path.
    #[must_use]
    pub fn int_at(&self, path: &[&str]) -> Option<i64> {
        self.at(path).and_then(Tree::as_int)
    }

    /// The truth value at the end of a path.
    #[must_use]
    pub fn bool_at(&self, path: &[&str]) -> Option<bool> {
        self.at(path).and_then(Tree::as_bool)
    }

    /// The items at the end of a path; none when absent or not a list.
    #[must_use]
    pub fn items_at(&self, path: &[&str]) -> &[Tree] {
        self.at(path).map(Tree::items).unwrap_or_default()
    }

    /// The entries at the end of a path; none when absent or not a map.
    #[must_use]
    pub fn entries_at(&self, path: &[&str]) -> &[(Text, Tree)] {
        self.at(path).map(Tree::entries).unwrap_or_default()
    }

    /// The items of a list; none for anything else.
    #[must_use]
    pub fn items(&self) -> &[Tree] {
        match self {
            Tree::List(items) => &items.slice,
            _ => &[],
        }
    }

    /// The entries of a map in key order; none for anything else.
    #[must_use]
    pub fn entries(&self) -> &[(Text, Tree)] {
        match self {
            Tree::Map(entries) => &entries.slice,
            _ => &[],
        }
    }

    /// The text, if this is one.
    #[must_use]
    pub fn as_text(&self) -> Option<&Text> {
        match self {
            Tree::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The text, if this is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        self.as_text().map(Text::as_str)
    }

    /// The whole number, if this is one.
    #[must_use]
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Tree::Int(n) => Some(*n),
            _ => None,
        }
    }

    /// The number, whole or not.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "numbers compare as JSON numbers do")]
    pub fn as_float(&self) -> Option<f64> {
        match self {
            Tree::Int(n) => Some(*n as f64),
            Tree::Float(n) => Some(*n),
            _ => None,
        }
    }

    /// The truth value, if this is one.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Tree::Bool(b) => Some(*b),
            _ => None,
        }
    }

    /// Whether this is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Tree::Null)
    }

    /// Whether this is a map.
    #[must_use]
    pub fn is_map(&self) -> bool {
        matches!(self, Tree::Map(_))
    }

    /// Whether this is a list.
    #[must_use]
    pub fn is_list(&self) -> bool {
        matches!(self, Tree::List(_))
    }

    /// Whether this is a map or list with nothing in it, empty text, or `null`.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self {
            Tree::Null => true,
            Tree::Text(text) => text.is_empty(),
            Tree::List(items) => items.slice.is_empty(),
            Tree::Map(entries) => entries.slice.is_empty(),
            _ => false,
        }
    }

    /// The JSON word for the type: `null`, `boolean`, `integer`, `number`, `string`, `array` or `object`.
    #[must_use]
    pub fn type_word(&self) -> &'static str {
        match self {
            Tree::Null => "null",
            Tree::Bool(_) => "boolean",
            Tree::Int(_) => "integer",
            Tree::Float(_) => "number",
            Tree::Text(_) => "string",
            Tree::List(_) => "array",
            Tree::Map(_) => "object",
        }
    }

    /// Where a map or list lies in memory: the same for the very same branch. 0 for anything else.
    #[must_use]
    pub fn address(&self) -> usize {
        match self {
            Tree::List(items) => items.ptr() as usize,
            Tree::Map(entries) => entries.ptr() as usize,
            _ => 0,
        }
    }

    /// Whether both are the very same branch in memory: a cheap "surely equal".
    #[must_use]
    pub fn same_branch(&self, other: &Tree) -> bool {
        match (self, other) {
            (Tree::List(a), Tree::List(b)) => a.ptr() == b.ptr(),
            (Tree::Map(a), Tree::Map(b)) => a.ptr() == b.ptr(),
            (Tree::Text(a), Tree::Text(b)) => Text::ptr_eq(a, b),
            _ => false,
        }
    }
}

/// Where `key` is in sorted `entries`, or where it would go.
fn find(entries: &[(Text, Tree)], key: &str) -> Result<usize, usize> {
    entries.binary_search_by(|(k, _)| k.as_str().cmp(key))
}

impl PartialEq for Tree {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Tree::Null, Tree::Null) => true,
            (Tree::Bool(a), Tree::Bool(b)) => a == b,
            (Tree::Int(a), Tree::Int(b)) => a == b,
            // By bits, so that equality is an equivalence and agrees with the hash.
            (Tree::Float(a), Tree::Float(b)) => a.to_bits() == b.to_bits(),
            (Tree::Text(a), Tree::Text(b)) => Text::ptr_eq(a, b) || a == b,
            (Tree::List(a), Tree::List(b)) => a.ptr() == b.ptr() || a.slice == b.slice,
            (Tree::Map(a), Tree::Map(b)) => a.ptr() == b.ptr() || a.slice == b.slice,
            _ => false,
        }
    }
}

impl Eq for Tree {}

impl Hash for Tree {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Tree::Null => {}
            Tree::Bool(b) => b.hash(state),
            Tree::Int(n) => n.hash(state),
            Tree::Float(n) => n.to_bits().hash(state),
            Tree::Text(text) => text.as_str().hash(state),
            Tree::List(items) => items.slice.hash(state),
            Tree::Map(entries) => entries.slice.hash(state),
        }
    }
}

/// Prints compact JSON.
impl std::fmt::Display for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.to_json())
    }
}

/// Prints compact JSON: trees appear in test failures, where structure matters and enum names do not.
impl std::fmt::Debug for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.to_json())
    }
}
