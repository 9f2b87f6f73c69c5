//! The definition as a whole; what its rules refuse is played on two servers (`tests/scenarios`).

use muster_schema::crd::compile;
use muster_schema::rules::Rules;

use super::{manifest, source};

/// Shows: 572-54.
#[test]
fn the_schema_and_its_rules_compile() {
    let definition = manifest();
    let schema = definition.items_at(&["spec", "versions"])[0].at(&["schema", "openAPIV3Schema"]).unwrap();
    let compiled = compile(schema).unwrap();
    let rules = Rules::compile(&compiled).unwrap();
    assert!(!rules.is_empty());
}

#[test]
fn apart_from_the_schema_it_equals_the_source() {
    let plain = |tree: muster_tree::Tree| {
        let versions = tree.items_at(&["spec", "versions"]);
        let version = versions[0].without_key("schema");
        tree.with(&["spec", "versions"], muster_tree::Tree::list([version]))
    };
    assert_eq!(plain(manifest()), plain(source()));
}
