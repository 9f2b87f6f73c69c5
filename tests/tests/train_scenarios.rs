//! TrainJobs without admission, and across a restart of the server.

use std::time::Duration;

use muster_tests::embedded_server::{EmbeddedServer, RestartableServer};
use muster_tests::trainjobs;

/// No webhook validates these before they are stored.
const UNKNOWN: &str = "
name: a TrainJob whose runtime nobody knows fails, and goes by its time to live
runtime: none
job: {runtime: {name: r, kind: Recipe, apiGroup: acme.io}, ttl: 1, held: true}
steps:
- conditions: [[Failed, 'True', TrainingRuntimeNotSupported, 'unsupported runtime: Recipe.acme.io']]
- event: {reason: Failed, type: Warning, note: 'unsupported runtime: Recipe.acme.io', times: 1}
- deleted: {seconds: 1, after: Failed}
- released: {}
";
const MISSING: &str = "
name: a TrainJob waits for its runtime, but not beyond its deadline
runtime: none
steps:
- make: {name: waits, runtime: {name: later, kind: TrainingRuntime}}
- make: {name: fails, runtime: {name: never, kind: TrainingRuntime}, deadline: 2, ttl: 1, held: true}
- event: {name: waits, reason: TrainJobResourcesCreationFailed, type: Warning, says: ['TrainJob resources reconciliation failed: ', not found]}
- runtime: {name: later, run: 1}
- is: {of: waits, Complete: 'True'}
- deleted: {of: fails, seconds: 1, after: Failed}
- is: {of: fails, Failed: ['True', DeadlineExceeded]}
- released: {of: fails}
";

/// Shows: 2899-23.
#[test]
fn train_jobs_that_nobody_admitted() {
    let plane =
        EmbeddedServer::start(&["--ephemeral", "--sim-nodes", "2", "--admission", "*,-trainer"]).unwrap();
    let server = plane.server().unwrap();
    for (space, text) in [("unknown", UNKNOWN), ("missing", MISSING)] {
        trainjobs::run_scenario(&server, text, space).unwrap_or_else(|why| panic!("{space}: {why}"));
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
    let mut plane = RestartableServer::with_args(&["--sim-nodes", "2"]).unwrap();
    trainjobs::run_scenario(&plane.server().unwrap(), BEFORE, "outlived").unwrap();
    plane.kill();
    std::thread::sleep(AWAY);
    plane.restart().unwrap();
    trainjobs::run_scenario(&plane.server().unwrap(), AFTER, "outlived").unwrap();
}
