//! The definitions: what a server must know to serve the kinds of training.
//!
//! The fields are said once, in `fields`; `cargo xtask crds` puts the fields of types of Kubernetes in place and writes
//! `crds/*.json`, which is what is installed.
//!
//! # Invariants
//!
//! - The files are what [`sources`] says: a test of `codegen` makes them anew and compares.
//! - Schemas and rules use nothing that Kubernetes 1.29 lacks.

use std::sync::OnceLock;

use muster_api::definition::Definition;
use muster_api::train::kinds::{self, Scope};
use muster_api::train::words::{CLUSTER_TRAINING_RUNTIME, TRAIN_JOB, TRAINING_RUNTIME};
use muster_tree::Tree;

use super::fields;

/// Heading, type and path of what `kubectl get` shows.
type Column = (&'static str, &'static str, &'static str);

const AGE: Column = ("Age", "date", ".metadata.creationTimestamp");
/// The first condition that holds: a job that was resumed is not shown as suspended.
const STATE: Column = ("State", "string", r#".status.conditions[?(@.status=="True")].type"#);

/// The texts, in the order of [`kinds::all`].
const TEXTS: [&str; 3] = [
    include_str!("crds/trainjobs.json"),
    include_str!("crds/trainingruntimes.json"),
    include_str!("crds/clustertrainingruntimes.json"),
];

/// All definitions, ready to be installed.
///
/// # Panics
/// Never: the files are part of the build and a test reads them.
#[must_use]
pub fn definitions() -> Vec<Tree> {
    static TREES: OnceLock<Vec<Tree>> = OnceLock::new();
    let parse = |text: &str| Tree::parse(text.as_bytes()).expect("definitions are JSON");
    TREES.get_or_init(|| TEXTS.into_iter().map(parse).collect()).clone()
}

/// All definitions with types of Kubernetes still named instead of spelled out, with their files.
#[must_use]
pub fn sources() -> Vec<(String, Tree)> {
    let job = Definition {
        kind: &kinds::TRAIN_JOBS,
        word: TRAIN_JOB,
        singular: "trainjob",
        has_status: true,
        columns: &[STATE, AGE],
        fields: fields::train_job(),
    };
    let runtime = |kind, word, singular| Definition {
        kind,
        word,
        singular,
        has_status: false,
        columns: &[AGE],
        fields: fields::runtime(),
    };
    let namespaced = runtime(&kinds::TRAINING_RUNTIMES, TRAINING_RUNTIME, "trainingruntime");
    let cluster =
        runtime(&kinds::CLUSTER_TRAINING_RUNTIMES, CLUSTER_TRAINING_RUNTIME, "clustertrainingruntime");
    let all = [job, namespaced, cluster].map(|it| (format!("{}.json", it.kind.plural), scoped(&it)));
    all.into()
}

/// A definition, living where the kinds say.
fn scoped(definition: &Definition) -> Tree {
    let is_cluster = kinds::all().iter().any(|it| it.0 == definition.kind && it.2 == Scope::Cluster);
    let source = definition.source();
    if is_cluster { source.with(&["spec", "scope"], "Cluster") } else { source }
}

#[cfg(test)]
mod tests {
    use muster_schema::crd::compile;
    use muster_schema::rules::Rules;

    use super::*;

    #[test]
    fn schemas_and_their_rules_compile() {
        for definition in definitions() {
            let name = definition.str_at(&["metadata", "name"]);
            for version in definition.items_at(&["spec", "versions"]) {
                let schema = version.at(&["schema", "openAPIV3Schema"]).unwrap();
                let compiled = compile(schema).unwrap_or_else(|wrong| panic!("{name}: {wrong:?}"));
                let rules = Rules::compile(&compiled).unwrap_or_else(|wrong| panic!("{name}: {wrong:?}"));
                assert!(!rules.is_empty(), "{name}");
            }
        }
    }

    #[test]
    fn beside_the_schema_they_are_what_the_source_says() {
        let plain = |tree: &Tree| {
            let versions = tree.items_at(&["spec", "versions"]).iter();
            let versions = Tree::list(versions.map(|it| it.without_key("schema")));
            tree.with(&["spec", "versions"], versions)
        };
        for (definition, (file, source)) in definitions().iter().zip(sources()) {
            assert_eq!(plain(definition), plain(&source), "{file}");
        }
    }
}
