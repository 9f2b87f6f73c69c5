//! ServiceAccount tokens: TokenRequests that a kubelet sends for a pod, and TokenReviews that verify a token.

use muster_tree::{Text, Tree, literal, tree};

use crate::client::{ApiRequest, Kind, Preconditions, RequestTarget, RequestVerb, Subresource, Uid};
use crate::consts::managers;
use crate::{kinds, meta};

/// Builds the TokenRequest for a token bound to a pod, and returns it with the pod's UID. An empty audience means the
/// API server's own.
#[must_use]
pub fn request(pod: &Tree, audience: &str, seconds: i64) -> (ApiRequest, Uid) {
    let uid = meta::uid(pod);
    let account = pod.text_at(&["spec", "serviceAccountName"]);
    let account = if account.is_empty() { Text::from("default") } else { account };
    let audiences = if audience.is_empty() { Vec::new() } else { vec![Tree::from(audience)] };
    let body = tree!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"audiences": Tree::list(audiences), "expirationSeconds": seconds,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": meta::name(pod), "uid": &uid}}});
    let on = RequestTarget {
        kind: kinds::SERVICE_ACCOUNTS.clone(),
        namespace: meta::namespace(pod),
        name: account,
        subresource: Subresource::Token,
    };
    (
        ApiRequest {
            field_manager: managers::KUBELET.clone(),
            target: on,
            preconditions: Preconditions::default(),
            verb: RequestVerb::Create(body),
        },
        uid,
    )
}

/// The resource to which TokenReviews are posted.
static REVIEWS: Kind = Kind {
    group: literal!("authentication.k8s.io"),
    version: literal!("v1"),
    plural: literal!("tokenreviews"),
};

/// Builds a TokenReview of a token for one audience.
#[must_use]
pub fn review(by: &Text, token: &str, audience: &str) -> ApiRequest {
    let body = tree!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "spec": {"token": token, "audiences": [audience]}});
    let on = RequestTarget {
        kind: REVIEWS.clone(),
        namespace: Text::new(),
        name: Text::new(),
        subresource: Subresource::Main,
    };
    ApiRequest {
        field_manager: by.clone(),
        target: on,
        preconditions: Preconditions::default(),
        verb: RequestVerb::Create(body),
    }
}

/// The authenticated user name in a reviewed TokenReview.
///
/// `None` also if `status.audiences` lacks the audience: a server that ignores audiences would accept a token that was
/// issued for another service.
#[must_use]
pub fn reviewed(answer: &Tree, audience: &str) -> Option<Text> {
    let good = answer.bool_at(&["status", "authenticated"]) == Some(true);
    let fits = answer.items_at(&["status", "audiences"]).iter().any(|it| it.as_str() == Some(audience));
    (good && fits).then(|| answer.text_at(&["status", "user", "username"]))
}

/// The token in the reply to a TokenRequest.
#[must_use]
pub fn issued_token(answer: &Tree) -> Text {
    answer.text_at(&["status", "token"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_for_another_audience_is_not_accepted() {
        let answer =
            tree!({"status": {"authenticated": true, "audiences": ["a"], "user": {"username": "u"}}});
        assert_eq!(reviewed(&answer, "a"), Some("u".into()));
        assert_eq!(reviewed(&answer, "b"), None, "for somebody else");
        assert_eq!(reviewed(&answer.without(&["status", "audiences"]), "a"), None, "nobody looked");
        assert_eq!(reviewed(&answer.with(&["status", "authenticated"], false), "a"), None);
        let asked = review(&"me".into(), "t", "a");
        let RequestVerb::Create(body) = &asked.verb else { panic!("a question is made") };
        assert_eq!(body.at(&["spec"]).unwrap().to_json(), r#"{"audiences":["a"],"token":"t"}"#);
    }
}
