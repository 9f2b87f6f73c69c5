//! Jobs in queues.

mod admit;
mod infos;
mod kinds;
mod plan;
mod requests;
mod same;
mod sequences;
mod trainjob;
mod world;

use muster_api::queue::{FlavorFacts, PodSet};
use muster_queue::jobs::priority::{Classes, PodClass};
use muster_tree::{Text, Tree, tree};

/// The cases of a table.
fn cases(text: &str) -> Vec<Tree> {
    let all = Tree::parse_yaml(text).unwrap_or_else(|why| panic!("{why}"));
    assert!(!all.items().is_empty(), "a table has cases");
    all.items().to_vec()
}

/// What a case says of itself.
fn says(case: &Tree) -> String {
    case.str_at(&["says"]).to_owned()
}

fn part<'a>(case: &'a Tree, key: &str) -> &'a Tree {
    case.get(key).unwrap_or(&Tree::Null)
}

/// Texts of a list.
fn texts(tree: &Tree) -> Vec<String> {
    tree.items().iter().map(|it| it.as_str().unwrap_or_default().to_owned()).collect()
}

/// The flavors of all tests: `spot` and `reserved`.
fn flavor(name: &str) -> Option<FlavorFacts> {
    let flavor = match name {
        "spot" => {
            tree!({"metadata": {"name": "spot"}, "spec": {"nodeLabels": {"pool": "spot", "arch": "arm"},
            "tolerations": [{"key": "spot", "operator": "Exists"}]}})
        }
        "reserved" => tree!({"metadata": {"name": "reserved"}, "spec": {"nodeLabels": {"pool": "reserved"}}}),
        _ => return None,
    };
    Some(FlavorFacts::of(&flavor))
}

/// The classes of all tests.
struct Known;

impl Classes for Known {
    fn of_queues(&self, name: &str) -> Option<i64> {
        [("gold", 100), ("silver", 50)].iter().find(|it| it.0 == name).map(|it| it.1)
    }

    fn of_pods(&self, name: &str) -> Option<i64> {
        (name == "high").then_some(10)
    }

    fn default_of_pods(&self) -> Option<PodClass> {
        None
    }
}

/// Pod sets as a Workload writes them.
fn pod_sets(tree: &Tree) -> Vec<PodSet> {
    tree.items().iter().map(PodSet::of).collect()
}

fn text(words: &str) -> Text {
    Text::from(words)
}
