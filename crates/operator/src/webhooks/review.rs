//! Questions and answers as a server sends and understands them: `AdmissionReview` of `admission.k8s.io/v1`.
//!
//! Pure: bytes in, a question or what is wrong with it out; an answer in, a review out.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use muster_apiserver::status::{Named, Status};
use muster_install::hooks::{Hook, Say};
use muster_jobset::admission::Answer;
use muster_schema::json_diff;
use muster_tree::{Text, Tree, tree};

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// What a server asks.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Question {
    /// Tells it from others.
    pub uid: Text,
    /// Namespace of the request.
    pub namespace: Text,
    /// The object as it would be.
    pub object: Tree,
    /// The object as it is.
    pub old: Option<Tree>,
    /// Whether nothing of it will be kept.
    pub is_dry_run: bool,
    /// Name of the request; empty where it is not known yet.
    pub name: Text,
    /// Who asks, as the server knows him.
    pub user: Tree,
}

/// Reads a question for this hook.
///
/// # Errors
/// What is wrong with it, for whoever sent it.
pub fn read(bytes: &[u8], hook: &Hook) -> Result<Question, String> {
    let review = Tree::parse(bytes).map_err(|e| format!("the body is no JSON: {e}"))?;
    let (version, kind) = (review.str_at(&["apiVersion"]), review.str_at(&["kind"]));
    if (version, kind) != (API_VERSION, KIND) {
        return Err(format!("the body is {kind:?} of {version:?}, not {KIND} of {API_VERSION}"));
    }
    let request = review.get("request").filter(|it| it.is_map()).ok_or("the review has no request")?;
    let uid = request.text_at(&["uid"]);
    if uid.is_empty() {
        return Err("request.uid is missing".to_owned());
    }
    let found = (request.str_at(&["resource", "group"]), request.str_at(&["resource", "resource"]));
    let want = (hook.kind.group.as_str(), hook.kind.plural.as_str());
    if found != want {
        return Err(format!("request.resource is {found:?}, and {} answers for {want:?}", hook.path));
    }
    let object = |key: &str| request.get(key).filter(|it| it.is_map()).cloned();
    Ok(Question {
        uid,
        namespace: request.text_at(&["namespace"]),
        object: object("object").ok_or("request.object is missing")?,
        old: object("oldObject"),
        is_dry_run: request.bool_at(&["dryRun"]) == Some(true),
        name: request.text_at(&["name"]),
        user: request.get("userInfo").cloned().unwrap_or_default(),
    })
}

/// The review that tells an answer.
#[must_use]
pub fn write(question: &Question, hook: &Hook, answer: &Answer) -> Tree {
    let mut response = match refusal(question, hook, answer) {
        Some(status) => tree!({"allowed": false, "status": status.to_tree()}),
        None => tree!({"allowed": true}),
    };
    let changed = answer.changed.as_ref().filter(|_| hook.say == Say::Change);
    if let (Some(changed), Some(true)) = (changed, response.bool_at(&["allowed"])) {
        let patch = json_diff::between(&question.object, changed);
        if !patch.is_empty() {
            let patch = BASE64_STANDARD.encode(patch.to_json_bytes());
            response = response.with(&["patchType"], "JSONPatch").with(&["patch"], patch);
        }
    }
    if !answer.warnings.is_empty() {
        response = response.with(&["warnings"], Tree::list(answer.warnings.iter().map(String::as_str)));
    }
    let response = response.with(&["uid"], &question.uid);
    tree!({"apiVersion": API_VERSION, "kind": KIND, "response": response})
}

/// What the client gets to see, if it is refused; the server puts the hook's name in front of the message.
fn refusal(question: &Question, hook: &Hook, answer: &Answer) -> Option<Status> {
    if !answer.problems.is_empty() {
        let name = match question.object.str_at(&["metadata", "name"]) {
            "" => question.name.as_str(),
            name => name,
        };
        let on = Named { group: &hook.kind.group, resource: hook.word, name };
        return Some(Status::invalid(on, &answer.problems));
    }
    answer.refused.as_ref().map(|why| Status::new(403, "Forbidden", why))
}
