//! Table tests of the reconcilers: objects, an event, and the expected writes.

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

/// Guards against a table that is not read.
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

/// A crash after any write, before its events are emitted, leads to the same Workload.
#[test]
fn a_crash_after_any_write_leads_to_the_same_workload() {
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

/// A converged Workload is not written again.
#[test]
fn converged_workload_is_not_written_again() {
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

/// A case is one step or a list of steps.
fn steps(case: &Tree) -> Vec<Tree> {
    match case.at(&["steps"]) {
        Some(steps) => steps.items().to_vec(),
        None => vec![case.clone()],
    }
}
