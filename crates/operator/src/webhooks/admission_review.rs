//! The codec of `AdmissionReview`, `admission.k8s.io/v1`.
//!
//! Pure: bytes to a request or an error message; a decision to a response.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use muster_apiserver::status::{Status, StatusObject};
use muster_install::webhooks::{Webhook, WebhookType};
use muster_jobset::admission::Answer;
use muster_schema::json_diff;
use muster_tree::{Text, Tree, tree};

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// The `request` of an AdmissionReview.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReviewRequest {
    /// Echoed in the response.
    pub uid: Text,
    pub namespace: Text,
    /// `object`: the new state.
    pub object: Tree,
    /// `oldObject`; absent on create.
    pub old: Option<Tree>,
    pub is_dry_run: bool,
    /// Name of the object; empty on create with `generateName`.
    pub name: Text,
    pub user: Tree,
}

/// Decodes the request of a call to this webhook.
///
/// # Errors
/// The review is malformed or for another resource; the message is for the client.
pub fn decode(bytes: &[u8], hook: &Webhook) -> Result<ReviewRequest, String> {
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
    Ok(ReviewRequest {
        uid,
        namespace: request.text_at(&["namespace"]),
        object: object("object").ok_or("request.object is missing")?,
        old: object("oldObject"),
        is_dry_run: request.bool_at(&["dryRun"]) == Some(true),
        name: request.text_at(&["name"]),
        user: request.get("userInfo").cloned().unwrap_or_default(),
    })
}

/// Encodes the response; mutations become a JSON patch.
#[must_use]
pub fn encode(question: &ReviewRequest, hook: &Webhook, answer: &Answer) -> Tree {
    let mut response = match refusal(question, hook, answer) {
        Some(status) => tree!({"allowed": false, "status": status.to_tree()}),
        None => tree!({"allowed": true}),
    };
    let changed = answer.changed.as_ref().filter(|_| hook.say == WebhookType::Mutating);
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

/// The `Status` of a denial; the API server puts the webhook's name in front of the message.
fn refusal(question: &ReviewRequest, hook: &Webhook, answer: &Answer) -> Option<Status> {
    if !answer.problems.is_empty() {
        let name = match question.object.str_at(&["metadata", "name"]) {
            "" => question.name.as_str(),
            name => name,
        };
        let on = StatusObject { group: &hook.kind.group, resource: hook.word, name };
        return Some(Status::invalid(on, &answer.problems));
    }
    answer.refused.as_ref().map(|why| Status::new(403, "Forbidden", why))
}
