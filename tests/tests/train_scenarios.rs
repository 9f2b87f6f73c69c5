//! Scenarios of TrainJobs, on the embedded server and on a real one.

use std::time::Duration;

use muster_tests::clients::{note, skip};
use muster_tests::plane::{Mortal, Plane};
use muster_tests::played::{Playground, left_out};
use muster_tests::real;
use muster_tests::trains::{self, Crowd, folder, judge, load};

/// Fewer scenarios than this show too little.
const SCENARIOS_MIN: usize = 200;

/// Plays some scenarios only, for people.
fn filter() -> String {
    std::env::var("MUSTER_TEST_TRAIN").unwrap_or_default()
}

fn play(ground: &Playground) {
    let scenarios = load(&folder()).unwrap();
    assert!(scenarios.len() >= SCENARIOS_MIN, "only {} scenarios", scenarios.len());
    let (count, wrong) = judge(ground, &scenarios, &filter());
    assert!(wrong.is_empty(), "{} of {count}\n{}\n{}", wrong.len(), wrong.join("\n\n"), ground.complaints());
    assert!(count > 0, "no scenario was played");
    note(&format!("trains: {count} scenarios as they should be on the plane {:?}", ground.place));
}

/// A hundred TrainJobs fail by their deadlines, none early, and vanish with all that they made.
fn a_hundred_with_both_fields(ground: &Playground) {
    let crowd =
        Crowd { server: &ground.server, namespace: "a-hundred", count: 100, deadline_secs: 5, ttl_secs: 3 };
    let late = crowd.live().unwrap_or_else(|why| panic!("{why}\n{}", ground.complaints()));
    note(&format!(
        "trains: of {} with both fields on the plane {:?}, the worst failed {} s after its deadline and was deleted {} s after \
         its time to live",
        crowd.count,
        ground.place,
        late.deadline.as_secs(),
        late.ttl.as_secs()
    ));
}

/// Whoever watches sees the end before the deletion, even if no time lies between them.
fn watchers_see_the_end(ground: &Playground) {
    let seen = trains::seen(&ground.server, "watched").unwrap();
    let end = seen.iter().position(|it| it.complete && !it.going && it.change == "MODIFIED");
    let gone = seen.iter().position(|it| it.change == "DELETED").unwrap();
    assert!(end.is_some_and(|end| end < gone), "{seen:?}");
}

/// Shows: 2899-13, 2899-39, 2899-47, 2899-62.
#[test]
fn train_jobs_on_the_embedded_server() {
    let ground = trains::embedded().unwrap();
    play(&ground);
    watchers_see_the_end(&ground);
    a_hundred_with_both_fields(&ground);
}

/// Shows: 2899-13, 2899-39, 2899-47, 2899-62.
#[test]
fn train_jobs_on_a_real_server() {
    if let Some(reason) = real::missing() {
        return skip("train_jobs_on_a_real_server", &reason);
    }
    let ground = trains::real().unwrap();
    play(&ground);
    watchers_see_the_end(&ground);
    a_hundred_with_both_fields(&ground);
    let absent = left_out(&load(&folder()).unwrap());
    note(&format!("trains: {} scenarios are not played there: {}", absent.len(), absent.join("; ")));
}

/// Nobody looks at these before they are stored.
const UNKNOWN: &str = "
name: a TrainJob whose runtime nobody knows fails, and goes by its time to live
runtime: none
job: {runtime: {name: r, kind: Recipe, apiGroup: acme.io}, ttl: 1, held: true}
steps:
- conditions: [[Failed, 'True', TrainingRuntimeNotSupported, 'unsupported runtime: Recipe.acme.io']]
- told: {reason: Failed, type: Warning, note: 'unsupported runtime: Recipe.acme.io', times: 1}
- deleted: {seconds: 1, after: Failed}
- released: {}
";
const MISSING: &str = "
name: a TrainJob waits for its runtime, but not beyond its deadline
runtime: none
steps:
- make: {name: waits, runtime: {name: later, kind: TrainingRuntime}}
- make: {name: fails, runtime: {name: never, kind: TrainingRuntime}, deadline: 2, ttl: 1, held: true}
- told: {name: waits, reason: TrainJobResourcesCreationFailed, type: Warning, says: ['TrainJob resources reconciliation failed: ', not found]}
- runtime: {name: later, run: 1}
- is: {of: waits, Complete: 'True'}
- deleted: {of: fails, seconds: 1, after: Failed}
- is: {of: fails, Failed: ['True', DeadlineExceeded]}
- released: {of: fails}
";

/// Shows: 2899-23.
#[test]
fn train_jobs_that_nobody_admitted() {
    let plane = Plane::start(&["--ephemeral", "--sim-nodes", "2", "--admission", "*,-trainer"]).unwrap();
    let server = plane.server().unwrap();
    for (space, text) in [("unknown", UNKNOWN), ("missing", MISSING)] {
        trains::play(&server, text, space).unwrap_or_else(|why| panic!("{space}: {why}"));
    }
}

/// What is under way when the server is killed.
const BEFORE: &str = "
name: before
runtime: {run: 1}
steps:
- runtime: {name: long}
- make: {name: late, runtime: {name: long, kind: TrainingRuntime}, deadline: 8, held: true}
- make: {name: in-time, runtime: {name: long, kind: TrainingRuntime}, deadline: 20, held: true}
- make: {name: over, ttl: 5, held: true}
- make: {name: waits, ttl: 20, held: true}
- make: {name: stays, ttl: 6000}
- is: {of: over, Complete: 'True'}
- is: {of: waits, Complete: 'True'}
- is: {of: stays, Complete: 'True'}
- until: {kind: TrainJob, name: late, has: {status: {jobsStatus: [{name: node, ready: 1}]}}}
- until: {kind: TrainJob, name: in-time, has: {status: {jobsStatus: [{name: node, ready: 1}]}}}
";
/// And what comes of it when it was away for longer than some of them had.
const AFTER: &str = "
name: after
runtime: none
steps:
- overdue: {of: late, seconds: 8}
- deleted: {of: over, seconds: 5, after: Complete}
- overdue: {of: in-time, seconds: 20}
- deleted: {of: waits, seconds: 20, after: Complete}
- until: {kind: TrainJob, name: stays, has: {status: {conditions: [{type: Complete, status: 'True'}]}, metadata: {deletionTimestamp: <none>}}}
";
/// For how long it is away.
const AWAY: Duration = Duration::from_secs(8);

/// Shows: 2899-28, 2899-62.
#[test]
fn deadlines_and_times_to_live_outlive_the_server() {
    let mut plane = Mortal::with(&["--sim-nodes", "2"]).unwrap();
    trains::play(&plane.server().unwrap(), BEFORE, "outlived").unwrap();
    plane.kill();
    std::thread::sleep(AWAY);
    plane.revive().unwrap();
    trains::play(&plane.server().unwrap(), AFTER, "outlived").unwrap();
}
