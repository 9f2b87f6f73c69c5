//! Training progress reporting: the responses to reports, for the embedded server and for the operator's endpoint.

use muster_tree::{Tree, tree};

use crate::differential::{ApiClient, RequestStep};
use crate::muster_process::until;
use crate::trainjob_fixture::TRAIN_JOBS;

/// Sends a report: token, path, body; returns the status code and the response.
pub type PostReport<'a> = &'a dyn Fn(&str, &str, &str) -> (u16, Tree);

const FINE: &str = r#"{"trainerStatus":{"progressPercentage":5,"lastUpdatedTime":"2026-01-01T00:00:00Z","metrics":[{"name":"loss","value":"0.5"}]}}"#;
/// A later report without metrics.
const LATER: &str = r#"{"trainerStatus":{"progressPercentage":42,"lastUpdatedTime":"2026-01-01T00:01:00Z"}}"#;

/// Returns the path for reports of a TrainJob in the default namespace.
#[must_use]
pub fn path(name: &str) -> String {
    format!("{TRAIN_JOBS}/{name}/status")
}

/// Returns the audience of a token for reports of this TrainJob.
#[must_use]
pub fn audience(name: &str) -> String {
    format!("trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs/{name}/status")
}

/// Requests a token of the ServiceAccount `default` for this audience; creates the account where no controller does.
#[must_use]
pub fn token(server: &ApiClient, namespace: &str, audience: &str) -> String {
    let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
    let send = |path: &str, body: &Tree| {
        server.send("POST", path, &RequestStep::default(), body.to_json_bytes()).expect("the server answers")
    };
    let made = send(&accounts, &tree!({"metadata": {"name": "default"}}));
    assert!([201, 409].contains(&made.code), "{}", made.body);
    until(server, &format!("{accounts}/default"), "the ServiceAccount exists", |it| {
        (it.str_at(&["kind"]) == "ServiceAccount").then_some(())
    });
    let request = tree!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": [audience]}});
    let issued = send(&format!("{accounts}/default/token"), &request);
    assert_eq!(issued.code, 201, "{}", issued.body);
    issued.body.str_at(&["status", "token"]).to_owned()
}

/// Returns the stored `status.trainerStatus` of a TrainJob.
#[must_use]
pub fn stored(server: &ApiClient, name: &str) -> Option<Tree> {
    let job = server.get(&format!("{TRAIN_JOBS}/{name}")).expect("the server answers").body;
    job.at(&["status", "trainerStatus"]).cloned()
}

/// Checks the responses to reports of a suspended TrainJob of this runtime, and of one that does not exist.
pub fn check_responses(server: &ApiClient, runtime: &str, post: PostReport<'_>) {
    let make = |path: &str, object: &Tree| {
        let made = server.send("POST", path, &RequestStep::default(), object.to_json_bytes());
        let made = made.expect("the server answers");
        assert_eq!(made.code, 201, "{}", made.body);
    };
    make("/api/v1/namespaces", &tree!({"metadata": {"name": "other"}}));
    let job = tree!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": "a"},
        "spec": {"runtimeRef": {"name": runtime}, "suspend": true}});
    make(TRAIN_JOBS, &job);
    let good = token(server, "default", &audience("a"));
    check_response_table(server, &good, post);
    let trainer_status = |body: &str| {
        let body = Tree::parse(body.as_bytes()).expect("it is JSON");
        body.get("trainerStatus").cloned()
    };
    assert_eq!(stored(server, "a"), trainer_status(FINE), "rejected reports are not stored");
    assert_eq!(post(&good, &path("a"), LATER).0, 200);
    assert_eq!(stored(server, "a"), trainer_status(LATER), "fields missing from a later report are removed");
}

fn check_response_table(server: &ApiClient, good: &str, post: PostReport<'_>) {
    let missing = token(server, "default", &audience("missing"));
    let elsewhere = token(server, "other", &audience("a"));
    let ordinary = token(server, "default", "https://kubernetes.default.svc.cluster.local");
    let long = format!(r#"{{"trainerStatus":{{"note":"{}"}}}}"#, "x".repeat(65_536));
    let over = r#"{"trainerStatus":{"progressPercentage":101,"lastUpdatedTime":"2026-01-01T00:00:00Z"}}"#;
    let invalid = "TrainJob.trainer.kubeflow.org \"a\" is invalid";
    for (case, token, name, body, code, reason, words) in [
        ("a valid report", good, "a", FINE, 200, "", ""),
        ("an empty report", good, "a", "{}", 200, "", ""),
        ("no token", "", "a", FINE, 403, "Forbidden", "Forbidden"),
        ("an invalid token", "x.y.z", "a", FINE, 403, "Forbidden", "Forbidden"),
        ("a token for another job", &missing, "a", FINE, 403, "Forbidden", "Forbidden"),
        ("a token for the API", &ordinary, "a", FINE, 403, "Forbidden", "Forbidden"),
        ("a token of another namespace", &elsewhere, "a", FINE, 403, "Forbidden", "Forbidden"),
        ("a body over 64 KiB", good, "a", long.as_str(), 413, "RequestEntityTooLarge", "65536"),
        ("no JSON", good, "a", "progress: 5", 422, "Invalid", "Invalid payload"),
        ("a percentage over 100", good, "a", over, 422, "Invalid", invalid),
        ("no such job", &missing, "missing", FINE, 404, "NotFound", "Train job not found"),
    ] {
        let (status, answer) = post(token, &path(name), body);
        assert_eq!((status, answer.str_at(&["reason"])), (code, reason), "{case}: {answer}");
        if code == 200 {
            assert_eq!(answer, Tree::parse(body.as_bytes()).expect("it is JSON"), "{case}");
            continue;
        }
        assert!(answer.str_at(&["message"]).contains(words), "{case}: {answer}");
        assert_eq!(answer.int_at(&["code"]), Some(i64::from(code)), "{case}");
        assert_eq!(answer.str_at(&["status"]), "Failure", "{case}");
    }
}
