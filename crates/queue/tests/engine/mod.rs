//! Table tests of the engine. A case lists objects, pending Workloads and the expected decisions of a cycle. After
//! every step the state is compared with a recount.

mod laws;
mod read;
mod world;

use muster_tree::Tree;

use world::World;

/// A case: a name and its steps.
struct Case {
    says: String,
    steps: Vec<Tree>,
}

fn cases(text: &str) -> Vec<Case> {
    let file = Tree::parse_yaml(text).expect("a file of cases is YAML");
    let case =
        |tree: &Tree| Case { says: tree.str_at(&["says"]).into(), steps: tree.items_at(&["do"]).to_vec() };
    file.items().iter().map(case).collect()
}

/// Runs all cases of a file and reports every difference. `least` guards against a parser that finds no cases.
fn run(name: &str, text: &str, least: usize) {
    let all = cases(text);
    assert!(all.len() >= least, "{name}: only {} cases were read", all.len());
    let mut wrong = Vec::new();
    for case in &all {
        assert!(!case.says.is_empty() && !case.steps.is_empty(), "{name}: a case says and does something");
        let mut world = World::default();
        for step in &case.steps {
            if let Err(problem) = world.step(step) {
                wrong.push(format!("{name}: {}\n{problem}", case.says));
                break;
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {} cases differ:\n\n{}", wrong.len(), all.len(), wrong.join("\n\n"));
}

macro_rules! tables {
    ($($test:ident $file:literal $least:literal,)+) => {$(
        #[test]
        fn $test() {
            run($file, include_str!(concat!($file, ".yaml")), $least);
        }
    )+};
}

tables! {
    quota_tree "quota_tree" 20,
    flavors "flavors" 20,
    fungibility "fungibility" 16,
    borrowing "borrowing" 16,
    lending "lending" 12,
    cohort_trees "cohort_trees" 16,
    within_queue "within_queue" 20,
    reclaim "reclaim" 20,
    while_borrowing "while_borrowing" 14,
    fair_preemption "fair_preemption" 16,
    fair_order "fair_order" 12,
    fifo "fifo" 20,
    requeue "requeue" 24,
    partial "partial" 14,
    stopped "stopped" 14,
    checks "checks" 12,
    messages "messages" 20,
    explanations "explanations" 16,
}
