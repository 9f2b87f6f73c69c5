//! TrainJobs of local processes, terminated by a deadline and deleted by a TTL: no process and no object remains.

use std::time::Duration;

use muster_tests::clients::{eventually, note};
use muster_tests::differential::{ApiClient, RequestStep};
use muster_tests::embedded_server::{EmbeddedServer, RestartableServer};
use muster_tests::muster_process::until;
use muster_tests::trainjob_fixture::{JOB_SETS, PODS, TRAIN_JOBS, create, holds, names, processes};
use muster_tree::{Tree, tree};

/// What a TrainJob owns, below `/apis/` or `/api/`.
const OWNED: [&str; 5] = [
    JOB_SETS,
    PODS,
    "/apis/batch/v1/namespaces/default/jobs",
    "/api/v1/namespaces/default/services",
    "/api/v1/namespaces/default/configmaps",
];
/// What is in a namespace anyway.
const NOT_OURS: [&str; 2] = ["kubernetes", "kube-root-ca.crt"];

/// A TrainJob of two nodes that run this.
fn job(name: &str, command: &str, more: &Tree) -> Tree {
    // Those that are deaf to requests are not waited for.
    let node = tree!({"name": "node", "template": {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 2}}}}});
    let patch = tree!({"template": {"spec": {"replicatedJobs": [node]}}});
    let spec = tree!({"runtimeRef": {"name": "local-process"},
        "runtimePatches": [{"manager": "tests.dev/grace", "trainingRuntimeSpec": patch}],
        "trainer": {"numNodes": 2, "command": ["sh", "-c", command]}});
    let spec = more.entries().iter().fold(spec, |spec, (key, value)| spec.with(&[key.as_str()], value));
    tree!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": name}, "spec": spec})
}

/// A word in the command lines of one test.
fn mark(what: &str) -> String {
    format!("{what}-{}", std::process::id())
}

/// What hangs, with children that would outlive it: in its group, in a session of their own, and one deaf to requests.
fn hanging(mark: &str) -> String {
    format!(
        "sleeper() {{ sh -c 'trap \"\" TERM; while true; do sleep 0.2; done # {mark}'; }}; \
         sleeper & setsid sh -c 'while true; do sleep 0.2; done # {mark}' & while true; do sleep 0.2; done"
    )
}

fn runs(server: &ApiClient, mark: &str, at_least: usize) {
    until(server, PODS, "its nodes run", |list| {
        let running =
            list.items_at(&["items"]).iter().filter(|it| it.str_at(&["status", "phase"]) == "Running");
        (running.count() == 2).then_some(())
    });
    eventually("its processes", || match processes(mark) {
        all if all.len() >= at_least => Ok(()),
        all => Err(all),
    });
}

fn gone(server: &ApiClient, path: &str) {
    until(server, path, "it is gone", |it| (it.str_at(&["reason"]) == "NotFound").then_some(()));
}

/// Waits until nothing that a TrainJob owns is there.
fn nothing_owned(server: &ApiClient) {
    for path in OWNED {
        eventually(path, || {
            let left: Vec<String> =
                names(server, path).into_iter().filter(|it| !NOT_OURS.contains(&it.as_str())).collect();
            if left.is_empty() { Ok(()) } else { Err(left) }
        });
    }
}

fn no_process(mark: &str) {
    eventually("the end of all processes", || match processes(mark) {
        all if all.is_empty() => Ok(()),
        all => Err(all),
    });
}

/// Shows: 2899-19, 2899-63, 2899-18, 2899-25.
#[test]
fn a_deadline_leaves_no_process() {
    for isolation in ["auto", "none"] {
        let plane = EmbeddedServer::start(&["--ephemeral", "--isolation", isolation]).unwrap();
        let server = plane.server().unwrap();
        let marker = mark(&format!("deadline-{isolation}"));
        create(&server, &job("hangs", &hanging(&marker), &tree!({"activeDeadlineSeconds": 15})));
        runs(&server, &marker, 4);
        let path = format!("{TRAIN_JOBS}/hangs");
        let failed = until(&server, &path, "it fails", |job| holds(job, "Failed"));
        assert_eq!(failed.str_at(&["reason"]), "DeadlineExceeded", "{isolation}");
        assert_eq!(failed.str_at(&["message"]), "TrainJob exceeded its active deadline", "{isolation}");
        gone(&server, &format!("{JOB_SETS}/hangs"));
        until(&server, PODS, "no pods", |list| list.items_at(&["items"]).is_empty().then_some(()));
        no_process(&marker);
        std::thread::sleep(Duration::from_secs(2));
        assert_eq!(names(&server, JOB_SETS), [""; 0], "{isolation}: nothing is made again");
        assert!(holds(&server.get(&path).unwrap().body, "Failed").is_some(), "the record stays");
    }
    note("TrainJobs: a deadline ends processes of this machine with all their children");
}

/// Shows: 2899-63, 2899-12, 2899-14, 2899-24.
#[test]
fn a_time_to_live_leaves_no_process() {
    let plane = EmbeddedServer::start(&["--ephemeral"]).unwrap();
    let server = plane.server().unwrap();
    let marker = mark("ttl");
    let leaves_a_child = format!("setsid sh -c 'while true; do sleep 0.2; done # {marker}' & sleep 1");
    create(&server, &job("done", &leaves_a_child, &tree!({"ttlSecondsAfterFinished": 3})));
    let path = format!("{TRAIN_JOBS}/done");
    until(&server, &path, "it completes", |job| holds(job, "Complete").map(drop));
    gone(&server, &path);
    nothing_owned(&server);
    no_process(&marker);
    // Both fields: the deadline fails it, and from then on its time to live counts.
    let marker = mark("both");
    let both = tree!({"activeDeadlineSeconds": 15, "ttlSecondsAfterFinished": 3});
    create(&server, &job("both", &hanging(&marker), &both));
    runs(&server, &marker, 4);
    let path = format!("{TRAIN_JOBS}/both");
    until(&server, &path, "it fails", |job| holds(job, "Failed").map(drop));
    gone(&server, &path);
    nothing_owned(&server);
    no_process(&marker);
    note("TrainJobs: a time to live leaves neither objects nor processes");
}

/// The server is killed while nodes run; their time runs out meanwhile.
///
/// Shows: 2899-28, 2899-48, 2899-63.
#[test]
fn what_is_due_while_nobody_serves_is_done_afterwards() {
    let mut mortal = RestartableServer::with_args(&[]).unwrap();
    let server = mortal.server().unwrap();
    let marker = mark("killed");
    create(&server, &job("hangs", &hanging(&marker), &tree!({"activeDeadlineSeconds": 15})));
    create(&server, &job("stays", "true", &tree!({"ttlSecondsAfterFinished": 12})));
    let stays = format!("{TRAIN_JOBS}/stays");
    until(&server, &stays, "it completes", |job| holds(job, "Complete").map(drop));
    eventually(
        "its processes",
        || if processes(&marker).len() >= 4 { Ok(()) } else { Err(processes(&marker)) },
    );
    mortal.kill();
    assert!(!processes(&marker).is_empty(), "nodes outlive a killed server");
    std::thread::sleep(Duration::from_secs(16));
    mortal.restart().unwrap();
    let server = mortal.server().unwrap();
    let hangs = format!("{TRAIN_JOBS}/hangs");
    let failed = until(&server, &hangs, "it fails", |job| holds(job, "Failed"));
    assert_eq!(failed.str_at(&["reason"]), "DeadlineExceeded");
    gone(&server, &stays);
    no_process(&marker);
    let answer = server.send("DELETE", &hangs, &RequestStep::default(), Vec::new()).unwrap();
    assert_eq!(answer.code, 200, "{}", answer.body);
    gone(&server, &hangs);
    nothing_owned(&server);
}

/// A deadline cannot be extended, nor taken away.
///
/// Shows: 2899-27.
#[test]
fn a_deadline_cannot_be_extended() {
    let plane = EmbeddedServer::start(&["--ephemeral", "--sim-nodes", "1"]).unwrap();
    let server = plane.server().unwrap();
    create(&server, &job("fixed", "true", &tree!({"activeDeadlineSeconds": 7200, "suspend": true})));
    let step = RequestStep { kind: "merge".to_owned(), ..RequestStep::default() };
    for spec in ["{\"activeDeadlineSeconds\": 14400}", "{\"activeDeadlineSeconds\": null}"] {
        let body = format!("{{\"spec\": {spec}}}").into_bytes();
        let answer = server.send("PATCH", &format!("{TRAIN_JOBS}/fixed"), &step, body).unwrap();
        assert_eq!(answer.code, 422, "{spec}: {}", answer.body);
        assert!(answer.body.str_at(&["message"]).contains("field is immutable"), "{}", answer.body);
    }
}
