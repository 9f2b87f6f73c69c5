//! Strategic merge patches that a real API server answered.
//!
//! `data/strategic.json` holds one live object per kind and, for each patch, what it changed (as a merge patch on the
//! live object) or the code of the refusal.

#![allow(clippy::unwrap_used, reason = "a test may give up")]

mod common;

use std::path::Path;

use muster_schema::node::SchemaRef;
use muster_schema::{strategic, structure, table};
use muster_tree::Tree;

fn schema_of(object: &Tree) -> SchemaRef {
    let api_version = object.str_at(&["apiVersion"]);
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    table::builtin().root(group, version, object.str_at(&["kind"])).expect("a built-in kind")
}

fn replay(live: &Tree, case: &Tree) -> Result<(), String> {
    let patch = case.get("patch").ok_or("no patch")?;
    let schema = schema_of(live);
    // Every write is pruned: what a patch says of unknown fields is dropped there.
    let got = strategic::merge(schema.view(), live, patch)
        .map(|merged| structure::prune(schema.view(), &merged, &mut Vec::new()));
    match (got, case.get("change"), case.int_at(&["code"])) {
        (Ok(got), Some(change), _) => {
            let want = live.merge(change);
            common::same_values(live, &got, &want)
        }
        (Err(error), None, Some(code)) if i64::from(error.code()) == code => Ok(()),
        (got, _, code) => Err(format!("{got:?}, want code {code:?}")),
    }
}

#[test]
fn patches_match_a_real_server() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/strategic.json");
    let recorded = Tree::parse(&std::fs::read(path).expect("recorded cases")).expect("JSON");
    let cases = recorded.items_at(&["cases"]);
    let mut failures = Vec::new();
    for case in cases {
        let live = recorded.at(&["live", case.str_at(&["kind"])]).expect("a live object");
        if let Err(why) = replay(live, case) {
            failures.push(format!("{} {}: {why}", case.str_at(&["kind"]), case.str_at(&["says"])));
        }
    }
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), cases.len(), failures.join("\n"));
}
