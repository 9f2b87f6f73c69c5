//! Tests of the job integrations.

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
use muster_queue::jobs::priority::{PodPriorityClass, PriorityClassLister};
use muster_tree::{Text, Tree, tree};

fn cases(text: &str) -> Vec<Tree> {
    let all = Tree::parse_yaml(text).unwrap_or_else(|why| panic!("{why}"));
    assert!(!all.items().is_empty(), "a table has cases");
    all.items().to_vec()
}

/// The name of a case.
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

/// The flavors `spot` and `reserved`.
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

struct Known;

impl PriorityClassLister for Known {
    fn workload_priority_class(&self, name: &str) -> Option<i64> {
        [("gold", 100), ("silver", 50)].iter().find(|it| it.0 == name).map(|it| it.1)
    }

    fn priority_class(&self, name: &str) -> Option<i64> {
        (name == "high").then_some(10)
    }

    fn default_priority_class(&self) -> Option<PodPriorityClass> {
        None
    }
}

fn pod_sets(tree: &Tree) -> Vec<PodSet> {
    tree.items().iter().map(PodSet::of).collect()
}

fn text(words: &str) -> Text {
    Text::from(words)
}
