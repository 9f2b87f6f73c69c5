//! Custom resources: from the schema in a CustomResourceDefinition to a [`SchemaRef`], and back for publication.
//!
//! A schema is taken only when it is structural: every place has a type, and what stands inside `allOf`, `anyOf`,
//! `oneOf` and `not` adds rules about values, never structure.
//!
//! # Invariants
//!
//! - A compiled schema has no reference to the tree it was made of, except for shared values such as defaults.
//! - Every default in it is valid and holds no unknown fields.
//!
//! # Deliberately absent
//!
//! The rest of a CustomResourceDefinition (names, versions, columns), and the CEL rules in it: they are kept here
//! as text and compiled by [`crate::rules`].

mod build;
mod check;
mod keywords;
mod publish;
mod structural;

use muster_tree::Tree;

pub(crate) use self::keywords::RULES;
pub use self::publish::to_openapi;
use crate::error::FieldError;
use crate::node::SchemaRef;

/// Where the schema stands when all versions have the same one; the real server moves it there before it looks.
pub const BASE: &str = "spec.validation.openAPIV3Schema";

/// Compiles an `openAPIV3Schema`. The root gets `apiVersion`, `kind` and `metadata`.
pub fn compile(schema: &Tree) -> Result<SchemaRef, Vec<FieldError>> {
    compile_at(BASE, schema)
}

/// As [`compile`], with `base` in front of every path, e.g. `spec.versions[1].schema.openAPIV3Schema`.
pub fn compile_at(base: &str, schema: &Tree) -> Result<SchemaRef, Vec<FieldError>> {
    let keywords = check::check(base, schema);
    let mut errors = Vec::new();
    if !keywords.iter().any(check::is_unsupported) {
        errors = structural::check(base, schema);
    }
    errors.extend(keywords);
    if !errors.is_empty() {
        return Err(errors);
    }
    build::build(base, schema)
}

#[cfg(test)]
#[path = "crd/tests.rs"]
mod tests;
