//! Custom resources: from the schema in a CustomResourceDefinition to a [`SchemaRef`], and back for publication.
//!
//! A schema must be structural: every field has a type, and `allOf`, `anyOf`, `oneOf` and `not` only add value
//! validations.
//!
//! # Guarantees
//!
//! - A compiled schema does not reference the tree it was compiled from, except for shared values such as defaults.
//! - Every default is valid and has no unknown fields.
//!
//! # Deliberately absent
//!
//! The rest of a CustomResourceDefinition (names, versions, columns). CEL rules are kept as text here and compiled by
//! [`crate::rules`].

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

/// Path of the schema if all versions share it: upstream moves it there before validation, so errors have this path.
pub const BASE: &str = "spec.validation.openAPIV3Schema";

/// Compiles an `openAPIV3Schema`; adds `apiVersion`, `kind` and `metadata` to the root.
pub fn compile(schema: &Tree) -> Result<SchemaRef, Vec<FieldError>> {
    compile_at(BASE, schema)
}

/// As [`compile`], with a prefix of error paths, for example `spec.versions[1].schema.openAPIV3Schema`.
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
