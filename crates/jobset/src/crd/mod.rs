//! The CRD of JobSets.
//!
//! `fields` declares every field once. Kubernetes types are references (`$ref`) to components of the schema table;
//! `cargo xtask crds` resolves them and writes `crd.json`, which is installed.
//!
//! # Invariants
//!
//! - `crd.json` equals the output of `source`: a test of `codegen` compares them.
//! - The schema is structural: every API server accepts it.
//!
//! # Deliberately absent
//!
//! Rules that a schema cannot express: those are in `admission`.

mod fields;
mod missing_fields;

use std::sync::OnceLock;

use muster_api::crd_schema::{CrdSource, FieldSchema};
use muster_api::kinds::JOBSETS;
use muster_tree::Tree;

pub use missing_fields::missing_fields;

/// The CRD that `cargo xtask crds` generates.
const DEFINITION: &str = include_str!("../crd.json");

/// The CRD manifest to install.
///
/// # Panics
/// Never: the file is part of the build and a test parses it.
#[must_use]
pub fn manifest() -> Tree {
    static TREE: OnceLock<Tree> = OnceLock::new();
    TREE.get_or_init(|| Tree::parse(DEFINITION.as_bytes()).expect("crd.json is JSON")).clone()
}

/// The CRD with unresolved references to Kubernetes types.
#[must_use]
pub fn source() -> Tree {
    let fields = fields::root();
    CrdSource {
        kind: &JOBSETS,
        kind_name: "JobSet",
        singular: "jobset",
        has_status: true,
        columns: &COLUMNS,
        fields,
    }
    .to_crd()
}

/// The schema of `spec`, for kinds that embed a JobSet.
#[must_use]
pub fn spec() -> FieldSchema {
    fields::spec()
}

/// Name, type and path of the printer columns.
const COLUMNS: [(&str, &str, &str); 5] = [
    ("TerminalState", "string", ".status.terminalState"),
    ("Restarts", "string", ".status.restarts"),
    ("Completed", "string", r#".status.conditions[?(@.type=="Completed")].status"#),
    ("Suspended", "string", ".spec.suspend"),
    ("Age", "date", ".metadata.creationTimestamp"),
];

#[cfg(test)]
mod tests;
