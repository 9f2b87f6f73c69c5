//! What a real server said about each schema.

use muster_tree::{Tree, tree};

use super::*;

fn rows() -> Vec<Tree> {
    let text = include_str!("../../fixtures/schemas.jsonl");
    text.lines().map(|line| Tree::parse(line.as_bytes()).unwrap()).collect()
}

#[test]
fn every_schema_gets_the_answer_of_the_real_server() {
    let mut wrong = Vec::new();
    for row in rows() {
        let errors = compile(row.get("schema").unwrap()).err().unwrap_or_default();
        let shown = errors.iter().map(|e| tree!([(e.problem.reason()), (e.path.as_str()), (e.message())]));
        let mut got: Vec<String> = shown.map(|row| row.to_json()).collect();
        let mut want: Vec<String> = row.items_at(&["errors"]).iter().map(Tree::to_json).collect();
        got.sort();
        want.sort();
        if got != want {
            wrong.push(format!("{}\n  got  {got:#?}\n  want {want:#?}", row.str_at(&["case"])));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// A schema without the metadata that publication adds: a client could not have sent it.
fn without_metadata(schema: &Tree) -> Tree {
    match schema {
        Tree::Map(_) => {
            schema.without(&["properties", "metadata"]).map_entries(|_, v| Some(without_metadata(v)))
        }
        Tree::List(_) => schema.map_items(|_, v| without_metadata(v)),
        other => other.clone(),
    }
}

#[test]
fn a_published_schema_compiles_to_the_same_nodes() {
    let probe = Tree::parse(include_bytes!("../../fixtures/probe.json")).unwrap();
    let rows = rows();
    let valid = rows.iter().filter(|row| row.items_at(&["errors"]).is_empty());
    for schema in valid.map(|row| row.get("schema").unwrap()).chain([&probe]) {
        let published = to_openapi(compile(schema).unwrap().view());
        let again = compile(&without_metadata(&published)).unwrap_or_else(|e| panic!("{published}\n{e:?}"));
        assert_eq!(to_openapi(again.view()), published);
    }
}

#[test]
fn a_path_can_name_the_version() {
    let errors =
        compile_at("spec.versions[1].schema.openAPIV3Schema", &tree!({"type": "array"})).unwrap_err();
    assert!(
        errors.iter().all(|e| e.path.starts_with("spec.versions[1].schema.openAPIV3Schema.")),
        "{errors:?}"
    );
}

#[test]
fn the_root_has_type_metadata() {
    let compiled = compile(&tree!({"type": "object", "properties": {"spec": {"type": "string"}}})).unwrap();
    for key in ["apiVersion", "kind", "metadata", "spec"] {
        assert!(compiled.view().below(key).is_some(), "{key}");
    }
    assert!(compiled.view().below("status").is_none());
}
