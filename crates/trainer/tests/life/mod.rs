//! The TrainJob controller, as tables: the objects, what changes, and the resulting lines.

mod lines;
mod stories;
mod world;

use muster_tree::Tree;
use world::{Crash, World};

pub use world::NothingThere;

const TABLES: &[(&str, &str)] = &[
    ("clocks", CLOCKS),
    ("deadline", DEADLINE),
    ("ends", ENDS),
    ("objects", OBJECTS),
    ("suspend", SUSPEND),
    ("ttl", TTL),
];
const CLOCKS: &str = include_str!("clocks.yaml");
const DEADLINE: &str = include_str!("deadline.yaml");
const ENDS: &str = include_str!("ends.yaml");
const OBJECTS: &str = include_str!("objects.yaml");
const SUSPEND: &str = include_str!("suspend.yaml");
const TTL: &str = include_str!("ttl.yaml");

/// The minimum number of steps: a table that is no longer read would go unnoticed.
const STEPS_MIN: usize = 90;

fn cases(text: &str) -> Vec<Tree> {
    Tree::parse_yaml(text).expect("a table is YAML").items().to_vec()
}

/// A case is a single step, or a sequence of steps.
fn steps(case: &Tree) -> Vec<Tree> {
    match case.at(&["steps"]) {
        Some(steps) => steps.items().to_vec(),
        None => vec![case.clone()],
    }
}

fn play(table: &str) {
    let mut wrong = Vec::new();
    for case in cases(table) {
        let mut world = World::of(&case);
        for step in steps(&case) {
            let got = world.play(&step, Crash::Never).join("\n");
            let want = step.str_at(&["want"]).trim_end();
            if got != want {
                let what = step.at(&["do"]).map(Tree::to_json).unwrap_or_default();
                wrong.push(format!("{} {what}\n--- want\n{want}\n--- got\n{got}\n", case.str_at(&["says"])));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn no_table_is_forgotten() {
    let told: usize = TABLES.iter().flat_map(|(_, text)| cases(text)).map(|case| steps(&case).len()).sum();
    assert!(told >= STEPS_MIN, "only {told} steps");
}

/// Shows: 2899-17, 2899-26.
#[test]
fn clocks() {
    play(CLOCKS);
}

/// Shows: 2899-18, 2899-20, 2899-21, 2899-22, 2899-23, 2899-68.
#[test]
fn deadline() {
    play(DEADLINE);
}

/// Shows: 2899-25, 2899-60.
#[test]
fn ends() {
    play(ENDS);
}

#[test]
fn objects() {
    play(OBJECTS);
}

#[test]
fn suspend() {
    play(SUSPEND);
}

/// Shows: 2899-08, 2899-09, 2899-10, 2899-11, 2899-29, 2899-68.
#[test]
fn time_to_live() {
    play(TTL);
}

/// A controller that crashes after any write, before the next step, leaves the same objects as one that does not: the
/// objects are the only state that counts.
#[test]
fn a_crash_after_any_write_changes_nothing_that_is_kept() {
    for (table, text) in TABLES {
        for case in cases(text) {
            let [mut calm, mut troubled] = [World::of(&case), World::of(&case)];
            for step in steps(&case) {
                calm.play(&step, Crash::Never);
                troubled.play(&step, Crash::AfterEachWrite);
                assert_eq!(calm.kept(), troubled.kept(), "{table}: {}", case.str_at(&["says"]));
            }
        }
    }
}

/// A converged cluster writes nothing, and emits no event again.
#[test]
fn what_is_told_is_told_once() {
    for (table, text) in TABLES {
        for case in cases(text) {
            let mut world = World::of(&case);
            for step in steps(&case).iter().filter(|it| it.get("refuse").is_none()) {
                world.play(step, Crash::Never);
                let writes = world.writes;
                world.settle(Crash::Never);
                assert_eq!(world.writes, writes, "{table}: {}", case.str_at(&["says"]));
            }
        }
    }
}
