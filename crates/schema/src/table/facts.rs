//! Facts about Go's types that published schemas lack: zero values and protobuf names.

use std::collections::BTreeMap;

use muster_tree::Tree;

use super::Component;
use crate::node::{NodeId, Schema, Shape};

/// What becomes of a field's zero value (`0`, `""`, `false`, `{}`, `[]`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zero {
    /// It is a value like any other: the field is a pointer, and absence is something else.
    Kept,
    /// As above, and absence is written as `null`.
    KeptOrNull,
    /// It is the same as absence, and left out.
    Dropped,
    /// It is the same as absence, and written out.
    Written,
}

impl Zero {
    /// Whether the zero value is a value like any other.
    #[must_use]
    pub fn is_value(self) -> bool {
        matches!(self, Zero::Kept | Zero::KeptOrNull)
    }
}

/// The facts of one type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TypeFacts<'a>(&'a Tree);

impl<'a> TypeFacts<'a> {
    /// Reads facts; a type without any has only pointers.
    pub(super) fn of(facts: Option<&'a Tree>) -> Self {
        Self(facts.unwrap_or(&Tree::Null))
    }

    /// What becomes of the zero value of a field, named as in JSON.
    pub(crate) fn zero(self, field: &str) -> Zero {
        if self.has("dropped", field) {
            Zero::Dropped
        } else if self.has("written", field) {
            Zero::Written
        } else if self.has("null", field) {
            Zero::KeptOrNull
        } else {
            Zero::Kept
        }
    }

    /// Whether the fields of this field, named as in protobuf, stand in its parent.
    pub(crate) fn is_inline(self, field: &str) -> bool {
        self.has("inline", field)
    }

    /// The name in JSON of a field named as in protobuf.
    pub(crate) fn json_name<'b>(self, field: &'b str) -> &'b str
    where
        'a: 'b,
    {
        self.0.at(&["renamed", field]).and_then(Tree::as_str).unwrap_or(field)
    }

    fn has(self, list: &str, name: &str) -> bool {
        self.0.str_at(&[list]).split(' ').any(|one| one == name)
    }
}

/// What becomes of zero values, per component and field.
pub(super) fn zeros(schema: &Schema, components: &[Component], facts: &Tree) -> Vec<Box<[Zero]>> {
    let of = |component: &Component| match &schema.nodes[component.node.0 as usize].shape {
        Shape::Fields(fields) => {
            let facts = TypeFacts::of(facts.get(&component.name));
            fields.iter().map(|field| facts.zero(&field.name)).collect()
        }
        _ => Box::default(),
    };
    components.iter().map(of).collect()
}

/// Marks the fields of a component that are always serialized.
pub(super) fn put_always(schema: &mut Schema, named: &BTreeMap<NodeId, u32>, zeros: &[Box<[Zero]>]) {
    for (id, component) in named {
        let node = &mut schema.nodes[id.0 as usize];
        let Shape::Fields(fields) = &node.shape else { continue };
        let fields = fields.iter().zip(&zeros[*component as usize]);
        let is_there = |zero: &Zero| matches!(zero, Zero::Written | Zero::KeptOrNull);
        node.always =
            fields.filter(|(_, zero)| is_there(zero)).map(|(field, _)| field.name.clone()).collect();
    }
}
