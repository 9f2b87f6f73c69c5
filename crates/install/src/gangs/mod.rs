//! The kinds by which gangs are spelled on a cluster that has none of its own: `Workload` and `PodGroup` of
//! `scheduling.muster.dev`.
//!
//! They are the proposal's, under a group of ours: a definition in `scheduling.k8s.io` is taken by a real server but never
//! served, and spoils the group's discovery. Where the server has the kinds natively ours lie idle.
//!
//! # Invariants
//!
//! - The files are what `sources` says: a test of `codegen` makes them anew and compares.
//! - What can be checked without looking at another object is checked by the server itself; no webhook is asked.
//!
//! # Deliberately absent
//!
//! Defaults: whoever reads a PodGroup takes the name of its template from either field. And the rule that a PodGroup and
//! its Workload share a namespace: rules of a definition do not see it, so readers look.

mod fields;

use std::sync::OnceLock;

use muster_api::definition::Definition;
use muster_api::gang::{OWN_GROUPS, OWN_WORKLOADS};
use muster_tree::Tree;

/// The definitions, as `cargo xtask crds` writes them.
const DEFINITIONS: [&str; 2] = [include_str!("workloads.json"), include_str!("podgroups.json")];

/// The definitions, ready to be installed: what is referred to comes first.
///
/// # Panics
/// Never: the files are part of the build and a test reads them.
#[must_use]
pub fn definitions() -> [Tree; 2] {
    static TREES: OnceLock<[Tree; 2]> = OnceLock::new();
    let read = || DEFINITIONS.map(|text| Tree::parse(text.as_bytes()).expect("a definition is JSON"));
    TREES.get_or_init(read).clone()
}

/// The same with types of Kubernetes still named instead of spelled out, each with the name of its file.
#[must_use]
pub fn sources() -> [(&'static str, Tree); 2] {
    let workloads = Definition {
        kind: &OWN_WORKLOADS,
        word: "Workload",
        singular: "workload",
        has_status: false,
        columns: &[
            ("Controller", "string", ".spec.controllerRef.name"),
            ("Age", "date", ".metadata.creationTimestamp"),
        ],
        fields: fields::workload(),
    };
    let groups = Definition {
        kind: &OWN_GROUPS,
        word: "PodGroup",
        singular: "podgroup",
        has_status: true,
        columns: &[
            ("Workload", "string", ".spec.workloadRef.name"),
            ("Scheduled", "string", r#".status.conditions[?(@.type=="PodGroupScheduled")].status"#),
            ("Pods", "integer", ".status.scheduledPods"),
            ("Age", "date", ".metadata.creationTimestamp"),
        ],
        fields: fields::pod_group(),
    };
    [("workloads.json", workloads.source()), ("podgroups.json", groups.source())]
}

#[cfg(test)]
mod tests;
