//! Scenarios of plain pods in queues, on the embedded server and on a real one.

use muster_tests::clients::{note, skip};
use muster_tests::queued::{Playground, folder, judge, left_out, load};
use muster_tests::real;

/// Fewer scenarios than this show too little.
const SCENARIOS_MIN: usize = 100;

/// Plays some scenarios only, for people.
fn filter() -> String {
    std::env::var("MUSTER_TEST_QUEUE").unwrap_or_default()
}

fn play(ground: &Playground) {
    let scenarios = load(&folder()).unwrap();
    assert!(scenarios.len() >= SCENARIOS_MIN, "only {} scenarios", scenarios.len());
    let (count, wrong) = judge(ground, &scenarios, &filter());
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n\n"), ground.complaints());
    assert!(count > 0, "no scenario was played");
    note(&format!("queues: {count} scenarios as they should be on the plane {:?}", ground.place));
}

/// Shows: 976-69.
#[test]
fn queued_pods_on_the_embedded_server() {
    play(&Playground::embedded().unwrap());
}

/// Shows: 976-69.
#[test]
fn queued_pods_on_a_real_server() {
    if let Some(reason) = real::missing() {
        return skip("queued_pods_on_a_real_server", &reason);
    }
    play(&Playground::real().unwrap());
    let absent = left_out(&load(&folder()).unwrap());
    note(&format!("queues: {} scenarios are not played there: {}", absent.len(), absent.join("; ")));
}
