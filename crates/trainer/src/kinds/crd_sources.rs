//! The CRDs of Trainer.
//!
//! Fields are defined once, in `fields`; `cargo xtask crds` inlines the schemas of Kubernetes types and writes
//! `crds/*.json`, which are installed.
//!
//! # Guarantees
//!
//! - The files match [`sources`]: a test of `codegen` generates them again and compares.
//! - Schemas and CEL rules use no feature that Kubernetes 1.29 lacks.

use std::sync::OnceLock;

use muster_api::crd_schema::CrdSource;
use muster_api::train::consts::{CLUSTER_TRAINING_RUNTIME, TRAIN_JOB, TRAINING_RUNTIME};
use muster_api::train::kinds::{self, Scope};
use muster_tree::Tree;

use super::fields;

/// Heading, type and JSONPath of a printer column.
type Column = (&'static str, &'static str, &'static str);

const AGE: Column = ("Age", "date", ".metadata.creationTimestamp");
/// The first condition that is true: a resumed TrainJob is not shown as suspended.
const STATE: Column = ("State", "string", r#".status.conditions[?(@.status=="True")].type"#);

/// The files, in the order of [`kinds::all`].
const TEXTS: [&str; 3] = [
    include_str!("crds/trainjobs.json"),
    include_str!("crds/trainingruntimes.json"),
    include_str!("crds/clustertrainingruntimes.json"),
];

/// All CRDs, ready to be installed.
///
/// # Panics
/// Never: the files are part of the build and a test reads them.
#[must_use]
pub fn crds() -> Vec<Tree> {
    static TREES: OnceLock<Vec<Tree>> = OnceLock::new();
    let parse = |text: &str| Tree::parse(text.as_bytes()).expect("definitions are JSON");
    TREES.get_or_init(|| TEXTS.into_iter().map(parse).collect()).clone()
}

/// All CRDs by file name, with references to Kubernetes types that are not inlined yet.
#[must_use]
pub fn sources() -> Vec<(String, Tree)> {
    let job = CrdSource {
        kind: &kinds::TRAIN_JOBS,
        kind_name: TRAIN_JOB,
        singular: "trainjob",
        has_status: true,
        columns: &[STATE, AGE],
        fields: fields::train_job(),
    };
    let runtime = |kind, word, singular| CrdSource {
        kind,
        kind_name: word,
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

/// The CRD, with the scope of its kind.
fn scoped(definition: &CrdSource) -> Tree {
    let is_cluster = kinds::all().iter().any(|it| it.0 == definition.kind && it.2 == Scope::Cluster);
    let source = definition.to_crd();
    if is_cluster { source.with(&["spec", "scope"], "Cluster") } else { source }
}

#[cfg(test)]
mod tests {
    use muster_schema::crd::compile;
    use muster_schema::rules::Rules;

    use super::*;

    #[test]
    fn schemas_and_their_rules_compile() {
        for definition in crds() {
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
        for (definition, (file, source)) in crds().iter().zip(sources()) {
            assert_eq!(plain(definition), plain(&source), "{file}");
        }
    }
}
