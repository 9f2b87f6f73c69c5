//! Tests of the pod integration: table tests and scenarios.

mod gangs;
mod picture;
mod random;
mod stories;
mod tables;
mod world;

use muster_tree::Tree;

pub fn cases(text: &str) -> Vec<Tree> {
    let all = Tree::parse_yaml(text).expect("a table is YAML");
    assert!(!all.items().is_empty(), "a table has cases");
    all.items().to_vec()
}

pub fn texts(tree: &Tree, key: &str) -> Vec<String> {
    tree.items_at(&[key]).iter().map(|it| it.as_str().map_or_else(|| it.to_json(), str::to_owned)).collect()
}
