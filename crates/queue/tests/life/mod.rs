//! The life of Workloads and queues, told as tables: what is there, what happens, and each line that follows from it.

mod laws;
mod lines;
mod queues;
mod world;

use muster_tree::Tree;
use world::{Crash, World};

const TABLES: &[(&str, &str)] = &[
    ("blocked", include_str!("blocked.yaml")),
    ("checks", include_str!("checks.yaml")),
    ("decisions", include_str!("decisions.yaml")),
    ("ends", include_str!("ends.yaml")),
    ("leaving", include_str!("leaving.yaml")),
    ("pods_ready", include_str!("pods_ready.yaml")),
    ("sequences", include_str!("sequences.yaml")),
];

/// The least number of cases; a table that is not read any more would go unnoticed.
const CASES_MIN: usize = 200;

fn cases(text: &str) -> Vec<Tree> {
    let all = Tree::parse_yaml(text).expect("a table is YAML");
    all.items().to_vec()
}

#[test]
fn tables() {
    let mut told = 0;
    let mut wrong = Vec::new();
    for (table, text) in TABLES {
        for case in cases(text) {
            let mut world = World::of(&case);
            for step in steps(&case) {
                told += 1;
                let got = world.play(&step, Crash::Never).join("\n");
                let want = step.str_at(&["want"]).trim_end();
                if got != want {
                    let says = case.str_at(&["says"]);
                    let what = step.at(&["do"]).map(Tree::to_json).unwrap_or_default();
                    wrong.push(format!("{table}: {says} {what}\n--- want\n{want}\n--- got\n{got}\n"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
    assert!(told >= CASES_MIN, "only {told} cases");
}

/// Whoever dies after any write, having said nothing of it, ends with the same Workload as one who did not.
#[test]
fn a_crash_after_any_write_changes_nothing_that_is_kept() {
    for (table, text) in TABLES {
        for case in cases(text) {
            let [mut calm, mut troubled] = [World::of(&case), World::of(&case)];
            for step in steps(&case) {
                calm.play(&step, Crash::Never);
                troubled.play(&step, Crash::AfterEachWrite);
                let says = case.str_at(&["says"]);
                assert_eq!(calm.workload, troubled.workload, "{table}: {says}");
            }
        }
    }
}

/// A steady world writes nothing: whatever was told is not told again.
#[test]
fn what_is_told_is_told_once() {
    for (table, text) in TABLES {
        for case in cases(text) {
            let mut world = World::of(&case);
            for step in steps(&case) {
                world.play(&step, Crash::Never);
                let writes = world.writes;
                world.settle(Crash::Never);
                assert_eq!(world.writes, writes, "{table}: {}", case.str_at(&["says"]));
            }
        }
    }
}

/// A case is a step of its own, or has several.
fn steps(case: &Tree) -> Vec<Tree> {
    match case.at(&["steps"]) {
        Some(steps) => steps.items().to_vec(),
        None => vec![case.clone()],
    }
}
