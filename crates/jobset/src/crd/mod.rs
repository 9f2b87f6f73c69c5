//! The definition of JobSets: what a server must know to serve them.
//!
//! The fields are said once, in `fields`, by the words of [`muster_api::definition`]. Types of Kubernetes stand there as references
//! (`$ref`) to components of the schema table; `cargo xtask crds` puts their fields in place and writes `crd.json`,
//! which is what is installed.
//!
//! # Invariants
//!
//! - `crd.json` is what `source` says: a test of `codegen` makes it anew and compares.
//! - It is structural: every server takes it, not ours alone.
//!
//! # Deliberately absent
//!
//! Prose, and rules that a schema cannot say: those are admission's.

mod fields;
mod lacks;

use std::sync::OnceLock;

use muster_api::definition::{Definition, Part};
use muster_api::kinds::JOBSETS;
use muster_tree::Tree;

pub use lacks::lacks;

/// The definition, as `cargo xtask crds` writes it.
const DEFINITION: &str = include_str!("../crd.json");

/// The definition, ready to be installed.
///
/// # Panics
/// Never: the file is part of the build and a test reads it.
#[must_use]
pub fn definition() -> Tree {
    static TREE: OnceLock<Tree> = OnceLock::new();
    TREE.get_or_init(|| Tree::parse(DEFINITION.as_bytes()).expect("crd.json is JSON")).clone()
}

/// The definition with types of Kubernetes still named instead of spelled out.
#[must_use]
pub fn source() -> Tree {
    let fields = fields::root();
    Definition {
        kind: &JOBSETS,
        word: "JobSet",
        singular: "jobset",
        has_status: true,
        columns: &COLUMNS,
        fields,
    }
    .source()
}

/// The fields of a JobSet's spec, for kinds that hold one.
#[must_use]
pub fn spec() -> Part {
    fields::spec()
}

/// Heading, type and path of what `kubectl get` shows.
const COLUMNS: [(&str, &str, &str); 5] = [
    ("TerminalState", "string", ".status.terminalState"),
    ("Restarts", "string", ".status.restarts"),
    ("Completed", "string", r#".status.conditions[?(@.type=="Completed")].status"#),
    ("Suspended", "string", ".spec.suspend"),
    ("Age", "date", ".metadata.creationTimestamp"),
];

#[cfg(test)]
mod tests;
