//! AdmissionReviews as API servers send them, and the responses.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use muster_install::webhooks::{WEBHOOKS, Webhook};
use muster_jobset::admission::Answer;
use muster_schema::error::FieldError;
use muster_schema::json_patch;
use muster_tree::{Tree, tree};

use super::admission_review::{self, ReviewRequest};

fn hook(name: &str) -> &'static Webhook {
    WEBHOOKS.iter().find(|hook| hook.name == name).expect("there is such a hook")
}

fn set() -> Tree {
    tree!({"metadata": {"name": "a"}, "spec": {}})
}

fn request() -> Tree {
    tree!({
        "uid": "u",
        "operation": "CREATE",
        "namespace": "n",
        "resource": {"group": "jobset.x-k8s.io", "version": "v1alpha2", "resource": "jobsets"},
        "object": set(),
        "oldObject": null,
    })
}

fn review(request: &Tree) -> Tree {
    tree!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request.clone()})
}

fn question() -> ReviewRequest {
    admission_review::decode(&review(&request()).to_json_bytes(), hook("mjobset.kb.io")).unwrap()
}

fn response(name: &str, answer: &Answer) -> Tree {
    let told = admission_review::encode(&question(), hook(name), answer);
    assert_eq!(told.str_at(&["apiVersion"]), "admission.k8s.io/v1");
    assert_eq!(told.str_at(&["kind"]), "AdmissionReview");
    let response = told.get("response").cloned().unwrap();
    assert_eq!(response.str_at(&["uid"]), "u", "the response echoes the uid");
    response
}

#[test]
fn reviews_are_decoded() {
    let asked = question();
    assert_eq!((asked.namespace.as_str(), &asked.object, asked.old), ("n", &set(), None));
    let update = request().with(&["oldObject"], set().with(&["spec", "suspend"], true));
    let asked = admission_review::decode(&review(&update).to_json_bytes(), hook("vjobset.kb.io")).unwrap();
    assert_eq!(asked.old.unwrap().bool_at(&["spec", "suspend"]), Some(true));
}

#[test]
fn malformed_reviews_are_rejected() {
    let good = review(&request());
    for (body, words) in [
        (b"{".to_vec(), "the body is no JSON"),
        (b"\xff\xfe".to_vec(), "the body is no JSON"),
        (b"[]".to_vec(), "not AdmissionReview of admission.k8s.io/v1"),
        (
            good.with(&["apiVersion"], "admission.k8s.io/v1beta1").to_json_bytes(),
            "\"admission.k8s.io/v1beta1\"",
        ),
        (good.without(&["request"]).to_json_bytes(), "the review has no request"),
        (good.with(&["request"], 3).to_json_bytes(), "the review has no request"),
        (good.without(&["request", "uid"]).to_json_bytes(), "request.uid is missing"),
        (good.without(&["request", "object"]).to_json_bytes(), "request.object is missing"),
        (good.with(&["request", "object"], "text").to_json_bytes(), "request.object is missing"),
        (good.with(&["request", "resource", "resource"], "pods").to_json_bytes(), "answers for"),
    ] {
        let wrong = admission_review::decode(&body, hook("mjobset.kb.io")).unwrap_err();
        assert!(wrong.contains(words), "{wrong}");
    }
}

#[test]
fn mutations_become_a_json_patch() {
    let changed = set().with(&["spec", "suspend"], false).with(&["metadata", "labels"], tree!({"a/b": "c"}));
    let told = response("mjobset.kb.io", &Answer { changed: Some(changed.clone()), ..Answer::default() });
    assert_eq!((told.bool_at(&["allowed"]), told.str_at(&["patchType"])), (Some(true), "JSONPatch"));
    let patch = Tree::parse(&BASE64_STANDARD.decode(told.str_at(&["patch"])).unwrap()).unwrap();
    assert_eq!(json_patch::apply(&set(), &patch).unwrap(), changed);
    let same = response("mjobset.kb.io", &Answer { changed: Some(set()), ..Answer::default() });
    assert_eq!(same.get("patch"), None, "no change, no patch");
    let judge = response("vjobset.kb.io", &Answer { changed: Some(changed), ..Answer::default() });
    assert_eq!(judge.get("patch"), None, "a validating webhook returns no patch");
}

#[test]
fn denials_carry_causes_with_field_paths() {
    let problems = vec![
        FieldError::required("spec.a", ""),
        FieldError::invalid("spec.replicatedJobs[0].name", "x", "too long"),
    ];
    let answer =
        Answer { problems, changed: Some(tree!({})), warnings: vec!["w".into()], ..Answer::default() };
    let told = response("mjobset.kb.io", &answer);
    assert_eq!((told.bool_at(&["allowed"]), told.get("patch")), (Some(false), None));
    assert_eq!(told.items_at(&["warnings"]), [Tree::from("w")], "warnings are returned with a denial, too");
    let status = told.get("status").unwrap();
    assert_eq!((status.int_at(&["code"]), status.str_at(&["reason"])), (Some(422), "Invalid"));
    assert_eq!(
        status.str_at(&["message"]),
        "JobSet.jobset.x-k8s.io \"a\" is invalid: [spec.a: Required value, spec.replicatedJobs[0].name: Invalid value: \"x\": too long]"
    );
    let causes = status.items_at(&["details", "causes"]);
    let fields: Vec<&str> = causes.iter().map(|cause| cause.str_at(&["field"])).collect();
    assert_eq!(fields, ["spec.a", "spec.replicatedJobs[0].name"]);
    let told = response("vpod.kb.io", &Answer { refused: Some("not yet".into()), ..Answer::default() });
    let status = told.get("status").unwrap();
    assert_eq!(
        (status.int_at(&["code"]), status.str_at(&["reason"]), status.str_at(&["message"])),
        (Some(403), "Forbidden", "not yet")
    );
}
