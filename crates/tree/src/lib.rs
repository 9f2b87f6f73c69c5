//! Shared immutable JSON values: the one representation of API objects.
//!
//! Store, watch history, caches and the request pipeline all hold [`Tree`]s. Cloning increments a reference count,
//! comparing stops at a shared branch, and a change copies only the path from the root.
//!
//! # Guarantees
//!
//! - The entries of a map are sorted by key, without duplicates: equal trees have equal bytes.
//! - A tree is immutable. Modifying functions return a new tree that shares unchanged branches.
//! - Nothing nests deeper than [`DEPTH_MAX`]: recursion over a tree cannot overflow the stack of any thread.
//!
//! # Deliberately absent
//!
//! Any knowledge of Kubernetes. The meaning of fields is in the schema table.

#![deny(missing_docs)]

mod build;
mod de;
mod json;
mod merge;
mod share;
mod syntax_error;
mod yaml;

use std::hash::{Hash, Hasher};

pub use arcstr::ArcStr as Text;
pub use arcstr::literal;
pub use de::{ReadError, from_tree};
pub use json::{DEPTH_MAX, Duplicate, ParseError, escape_json};
pub use share::{Sharing, own_bytes};
use triomphe::ThinArc;
pub use yaml::{Lines, Repeated};

/// A JSON value. Cloning increments a reference count, comparing stops at a shared branch.
#[derive(Clone, Default)]
pub enum Tree {
    /// The JSON value `null`.
    #[default]
    Null,
    /// The JSON values `true` and `false`.
    Bool(bool),
    /// An integer that fits 64 bits.
    Int(i64),
    /// Any other JSON number.
    Float(f64),
    /// A JSON string, shared.
    Text(Text),
    /// A JSON array, shared.
    List(ThinArc<(), Tree>),
    /// A JSON object, shared; entries are sorted by key.
    Map(ThinArc<(), (Text, Tree)>),
}

/// Up to this many entries a linear scan is faster than a binary search, since most keys already differ in length.
const SCAN_MAX: usize = 16;

impl Tree {
    /// The value under `key`; `None` if this is not a map or lacks the key.
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

    /// The string at the end of a path; empty if absent or of another type.
    #[must_use]
    pub fn str_at(&self, path: &[&str]) -> &str {
        self.at(path).and_then(Tree::as_str).unwrap_or_default()
    }

    /// The shared string at the end of a path; empty if absent or of another type.
    #[must_use]
    pub fn text_at(&self, path: &[&str]) -> Text {
        self.at(path).and_then(Tree::as_text).cloned().unwrap_or_default()
    }

    /// The integer at the end of a path.
    #[must_use]
    pub fn int_at(&self, path: &[&str]) -> Option<i64> {
        self.at(path).and_then(Tree::as_int)
    }

    /// The boolean at the end of a path.
    #[must_use]
    pub fn bool_at(&self, path: &[&str]) -> Option<bool> {
        self.at(path).and_then(Tree::as_bool)
    }

    /// The items at the end of a path; empty if absent or not a list.
    #[must_use]
    pub fn items_at(&self, path: &[&str]) -> &[Tree] {
        self.at(path).map(Tree::items).unwrap_or_default()
    }

    /// The entries at the end of a path; empty if absent or not a map.
    #[must_use]
    pub fn entries_at(&self, path: &[&str]) -> &[(Text, Tree)] {
        self.at(path).map(Tree::entries).unwrap_or_default()
    }

    /// The items of a list; empty for any other value.
    #[must_use]
    pub fn items(&self) -> &[Tree] {
        match self {
            Tree::List(items) => &items.slice,
            _ => &[],
        }
    }

    /// The entries of a map in key order; empty for any other value.
    #[must_use]
    pub fn entries(&self) -> &[(Text, Tree)] {
        match self {
            Tree::Map(entries) => &entries.slice,
            _ => &[],
        }
    }

    /// The shared string, if this is a string.
    #[must_use]
    pub fn as_text(&self) -> Option<&Text> {
        match self {
            Tree::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The string slice, if this is a string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        self.as_text().map(Text::as_str)
    }

    /// The integer, if this is one.
    #[must_use]
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Tree::Int(n) => Some(*n),
            _ => None,
        }
    }

    /// The number as a float, if this is a number.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "numbers compare as JSON numbers do")]
    pub fn as_float(&self) -> Option<f64> {
        match self {
            Tree::Int(n) => Some(*n as f64),
            Tree::Float(n) => Some(*n),
            _ => None,
        }
    }

    /// The boolean, if this is one.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Tree::Bool(b) => Some(*b),
            _ => None,
        }
    }

    /// Returns whether this is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Tree::Null)
    }

    /// Returns whether this is a map.
    #[must_use]
    pub fn is_map(&self) -> bool {
        matches!(self, Tree::Map(_))
    }

    /// Returns whether this is a list.
    #[must_use]
    pub fn is_list(&self) -> bool {
        matches!(self, Tree::List(_))
    }

    /// Returns whether this is an empty map, list or string, or `null`.
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

    /// The JSON schema type: `null`, `boolean`, `integer`, `number`, `string`, `array` or `object`.
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

    /// The memory address of a map or list, equal for the same allocation; 0 for any other value.
    #[must_use]
    pub fn address(&self) -> usize {
        match self {
            Tree::List(items) => items.ptr() as usize,
            Tree::Map(entries) => entries.ptr() as usize,
            _ => 0,
        }
    }

    /// Returns whether both are the same allocation: a constant-time check that implies equality.
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

/// The index of `key` in sorted entries, or the index to insert it at.
fn find(entries: &[(Text, Tree)], key: &str) -> Result<usize, usize> {
    entries.binary_search_by(|(k, _)| k.as_str().cmp(key))
}

impl PartialEq for Tree {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Tree::Null, Tree::Null) => true,
            (Tree::Bool(a), Tree::Bool(b)) => a == b,
            (Tree::Int(a), Tree::Int(b)) => a == b,
            // By bits: equality must be reflexive for NaN and agree with the hash.
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

/// Formats the tree as compact JSON.
impl std::fmt::Display for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.to_json())
    }
}

/// Formats the tree as compact JSON, which is readable in test failures.
impl std::fmt::Debug for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.to_json())
    }
}
