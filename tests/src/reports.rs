//! Training that tells how far it is: what is answered to it, wherever it is heard.

use muster_tree::{Tree, tree};

use crate::beside::until;
use crate::differential::{Server, Step};
use crate::training::TRAIN_JOBS;

/// How somebody reports: with this token, at this path, in these words; the code and the answer.
pub type Post<'a> = &'a dyn Fn(&str, &str, &str) -> (u16, Tree);

/// What is reported first.
const FINE: &str = r#"{"trainerStatus":{"progressPercentage":5,"lastUpdatedTime":"2026-01-01T00:00:00Z","metrics":[{"name":"loss","value":"0.5"}]}}"#;
/// What is reported later, with less in it.
const LATER: &str = r#"{"trainerStatus":{"progressPercentage":42,"lastUpdatedTime":"2026-01-01T00:01:00Z"}}"#;

/// The path at which a TrainJob of the default namespace is reported of.
#[must_use]
pub fn path(name: &str) -> String {
    format!("{TRAIN_JOBS}/{name}/status")
}

/// For whom a token must be made to report of it.
#[must_use]
pub fn audience(name: &str) -> String {
    format!("trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs/{name}/status")
}

/// A token of the default account of a namespace for this audience; the account is made where nobody does that.
#[must_use]
pub fn token(server: &Server, namespace: &str, audience: &str) -> String {
    let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
    let send = |path: &str, body: &Tree| {
        server.send("POST", path, &Step::default(), body.to_json_bytes()).expect("the server answers")
    };
    let made = send(&accounts, &tree!({"metadata": {"name": "default"}}));
    assert!([201, 409].contains(&made.code), "{}", made.body);
    until(server, &format!("{accounts}/default"), "the account is there", |it| {
        (it.str_at(&["kind"]) == "ServiceAccount").then_some(())
    });
    let request = tree!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": [audience]}});
    let asked = send(&format!("{accounts}/default/token"), &request);
    assert_eq!(asked.code, 201, "{}", asked.body);
    asked.body.str_at(&["status", "token"]).to_owned()
}

/// What is stored of the last report of a TrainJob.
#[must_use]
pub fn stored(server: &Server, name: &str) -> Option<Tree> {
    let job = server.get(&format!("{TRAIN_JOBS}/{name}")).expect("the server answers").body;
    job.at(&["status", "trainerStatus"]).cloned()
}

/// What is answered to reports of a TrainJob of this runtime that rests, and of one that there is not.
pub fn what_is_answered(server: &Server, runtime: &str, post: Post<'_>) {
    let make = |path: &str, object: &Tree| {
        let made = server.send("POST", path, &Step::default(), object.to_json_bytes());
        let made = made.expect("the server answers");
        assert_eq!(made.code, 201, "{}", made.body);
    };
    make("/api/v1/namespaces", &tree!({"metadata": {"name": "other"}}));
    let job = tree!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": "a"},
        "spec": {"runtimeRef": {"name": runtime}, "suspend": true}});
    make(TRAIN_JOBS, &job);
    let good = token(server, "default", &audience("a"));
    answers(server, &good, post);
    let told = |body: &str| {
        let body = Tree::parse(body.as_bytes()).expect("it is JSON");
        body.get("trainerStatus").cloned()
    };
    assert_eq!(stored(server, "a"), told(FINE), "only the first was kept");
    assert_eq!(post(&good, &path("a"), LATER).0, 200);
    assert_eq!(stored(server, "a"), told(LATER), "what a later report leaves out is gone");
}

fn answers(server: &Server, good: &str, post: Post<'_>) {
    let missing = token(server, "default", &audience("missing"));
    let elsewhere = token(server, "other", &audience("a"));
    let ordinary = token(server, "default", "https://kubernetes.default.svc.cluster.local");
    let long = format!(r#"{{"trainerStatus":{{"note":"{}"}}}}"#, "x".repeat(65_536));
    let over = r#"{"trainerStatus":{"progressPercentage":101,"lastUpdatedTime":"2026-01-01T00:00:00Z"}}"#;
    let invalid = "TrainJob.trainer.kubeflow.org \"a\" is invalid";
    for (says, token, name, body, code, reason, words) in [
        ("it is kept", good, "a", FINE, 200, "", ""),
        ("nothing is told", good, "a", "{}", 200, "", ""),
        ("no token", "", "a", FINE, 403, "Forbidden", "Forbidden"),
        ("no token of anybody", "x.y.z", "a", FINE, 403, "Forbidden", "Forbidden"),
        ("a token for another job", &missing, "a", FINE, 403, "Forbidden", "Forbidden"),
        ("a token for the API", &ordinary, "a", FINE, 403, "Forbidden", "Forbidden"),
        ("a token of another namespace", &elsewhere, "a", FINE, 403, "Forbidden", "Forbidden"),
        ("too long", good, "a", long.as_str(), 413, "RequestEntityTooLarge", "65536"),
        ("no JSON", good, "a", "progress: 5", 422, "Invalid", "Invalid payload"),
        ("more than everything", good, "a", over, 422, "Invalid", invalid),
        ("no such job", &missing, "missing", FINE, 404, "NotFound", "Train job not found"),
    ] {
        let (told, answer) = post(token, &path(name), body);
        assert_eq!((told, answer.str_at(&["reason"])), (code, reason), "{says}: {answer}");
        if code == 200 {
            assert_eq!(answer, Tree::parse(body.as_bytes()).expect("it is JSON"), "{says}");
            continue;
        }
        assert!(answer.str_at(&["message"]).contains(words), "{says}: {answer}");
        assert_eq!(answer.int_at(&["code"]), Some(i64::from(code)), "{says}");
        assert_eq!(answer.str_at(&["status"]), "Failure", "{says}");
    }
}
