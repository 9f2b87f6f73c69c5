//! What a real server said about each value, and when it kept silent on updates.

use muster_tree::{Tree, tree};

use super::*;
use crate::node::SchemaRef;
use crate::{crd, structure};

/// A schema with one field per keyword.
fn probe() -> SchemaRef {
    let schema = Tree::parse(include_bytes!("../../fixtures/probe.json")).unwrap();
    crd::compile(&schema).unwrap()
}

fn rows(text: &str) -> Vec<Tree> {
    text.lines().map(|line| Tree::parse(line.as_bytes()).unwrap()).collect()
}

/// Errors as rows of reason, path and message, sorted: the real server has no order.
fn shown(errors: &[FieldError]) -> Vec<Vec<String>> {
    let row = |e: &FieldError| vec![e.problem.reason().to_owned(), e.path.clone(), e.message()];
    let mut all: Vec<_> = errors.iter().map(row).collect();
    all.sort();
    all
}

fn wanted(row: &Tree) -> Vec<Vec<String>> {
    let texts = |row: &Tree| row.items().iter().map(|t| t.as_str().unwrap().to_owned()).collect();
    let mut all: Vec<Vec<String>> = row.items_at(&["errors"]).iter().map(texts).collect();
    all.sort();
    all
}

#[test]
fn every_value_gets_the_answer_of_the_real_server() {
    let probe = probe();
    let mut wrong = Vec::new();
    for row in rows(include_str!("../../fixtures/probe-values.jsonl")) {
        let object = tree!({"apiVersion": "ops.example.com/v1", "kind": "Probe", "metadata": {"name": "p"}})
            .with_key("spec", row.get("spec").unwrap().clone());
        let object = structure::prune(probe.view(), &object, &mut Vec::new());
        let object = structure::default(probe.view(), &object);
        let (got, want) = (shown(&validate(probe.view(), &object, None)), wanted(&row));
        if got != want {
            wrong.push(format!("{}\n  got  {got:?}\n  want {want:?}", row.str_at(&["case"])));
        }
        if let Some(stored) = row.get("stored")
            && !same_numbers(object.get("spec").unwrap(), stored)
        {
            wrong.push(format!("{}\n  stored {object}\n  want   {stored}", row.str_at(&["case"])));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Equal, but for `1` and `1.0` being one number.
fn same_numbers(a: &Tree, b: &Tree) -> bool {
    match (a, b) {
        (Tree::Map(_), Tree::Map(_)) => {
            a.entries().len() == b.entries().len()
                && a.entries().iter().all(|(k, v)| b.get(k).is_some_and(|w| same_numbers(v, w)))
        }
        (Tree::List(_), Tree::List(_)) => {
            a.items().len() == b.items().len()
                && a.items().iter().zip(b.items()).all(|(v, w)| same_numbers(v, w))
        }
        _ => a == b || (a.as_float().is_some() && a.as_float() == b.as_float()),
    }
}

#[test]
fn unchanged_violations_are_not_reported() {
    let probe = probe();
    let old = tree!({"spec": {
        "need": "x", "min": 1, "obj": {"b": 1},
        "lmap": [{"name": "a", "port": 1, "v": 11}, {"name": "b", "port": 1, "v": 5}],
        "atom": [{"v": 11}], "set": ["a", "a"], "map": {"k": "text"},
    }});
    for (sentence, path, value, want) in [
        ("a change elsewhere", &["spec", "need"][..], tree!("y"), vec![]),
        ("the wrong value changes to another wrong one", &["spec", "min"], tree!(2), vec!["spec.min"]),
        ("a value beside it in the map", &["spec", "obj", "b"], tree!(2), vec!["spec.obj.a"]),
        (
            "another item of a keyed list, which also moved",
            &["spec", "lmap"],
            tree!([{"name": "b", "port": 1, "v": 6}, {"name": "a", "port": 1, "v": 11}]),
            vec![],
        ),
        (
            "the key of the item changed, so it is another item",
            &["spec", "lmap"],
            tree!([{"name": "c", "port": 1, "v": 11}]),
            vec!["spec.lmap[0].v"],
        ),
        (
            "a list without keys is one value",
            &["spec", "atom"],
            tree!([{"v": 11}, {"v": 1}]),
            vec!["spec.atom[0].v"],
        ),
        (
            "duplicates stay allowed where there were some",
            &["spec", "set"],
            tree!(["a", "a", "b", "b"]),
            vec![],
        ),
        ("one more key of a map", &["spec", "map"], tree!({"k": "text", "l": 1}), vec![]),
    ] {
        let new = old.with(path, value);
        let got: Vec<_> = validate(probe.view(), &new, Some(&old)).into_iter().map(|e| e.path).collect();
        assert_eq!(got, want, "{sentence}");
    }
}

#[test]
fn equal_but_separate_trees_ratchet_as_well() {
    let probe = probe();
    let make = || tree!({"spec": {"need": "x", "min": 1, "atom": [{"v": 11}]}});
    assert_eq!(validate(probe.view(), &make(), Some(&make())), vec![]);
    assert_eq!(validate(probe.view(), &make(), None).len(), 2);
}

#[test]
fn new_duplicates_are_reported_when_there_were_none() {
    let probe = probe();
    let old = tree!({"spec": {"need": "x", "set": ["a"]}});
    let new = old.with(&["spec", "set"], tree!(["a", "b", "b"]));
    let got = validate(probe.view(), &new, Some(&old));
    assert_eq!(got, vec![FieldError::duplicate("spec.set[2]", "b")]);
}

#[test]
fn long_lists_find_their_twins_too() {
    let probe = probe();
    let items = (0..100_i64).chain([50]).map(|n| format!("item {n}"));
    let object = tree!({"spec": {"need": "x"}}).with(&["spec", "set"], Tree::list(items));
    assert_eq!(
        validate(probe.view(), &object, None),
        vec![FieldError::duplicate("spec.set[100]", "item 50")]
    );
}
