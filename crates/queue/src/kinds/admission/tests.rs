//! Runs the table of validation cases.

use muster_tree::{Tree, tree};

use super::{WriteReview, mutate, validate};

const CASES: &str = include_str!("cases.yaml");

/// A case has a kind, an object (`old` for an update: the old object as a patch to `object`), and `wants`: the
/// reported errors, one per line.
#[test]
fn validation() {
    let cases = Tree::parse_yaml(CASES).unwrap();
    assert!(!cases.items().is_empty());
    for case in cases.items() {
        let says = case.str_at(&["says"]);
        let object = case.get("object").unwrap();
        let old = case.get("old").map(|patch| object.merge(patch));
        let asked = WriteReview { object, old: old.as_ref() };
        let answer = validate(case.str_at(&["kind"]), &asked);
        let told: Vec<String> = answer.problems.iter().map(ToString::to_string).collect();
        let want: Vec<&str> = case.items_at(&["wants"]).iter().filter_map(Tree::as_str).collect();
        assert_eq!(told, want, "{says}");
    }
}

#[test]
fn objects_in_use_get_a_finalizer() {
    let object = tree!({"metadata": {"name": "n"}});
    for (kind, old, want) in [
        ("ClusterQueue", false, true),
        ("ResourceFlavor", false, true),
        ("LocalQueue", false, false),
        ("ClusterQueue", true, false),
    ] {
        let asked = WriteReview { object: &object, old: old.then_some(&object) };
        let answer = mutate(kind, &asked);
        assert_eq!(answer.changed.is_some(), want, "{kind}");
        if let Some(changed) = answer.changed {
            let again = mutate(kind, &WriteReview { object: &changed, old: None });
            assert_eq!(again.changed, None, "{kind} twice");
        }
    }
}
