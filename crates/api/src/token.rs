//! Tokens of service accounts: asked for on behalf of a pod, and asked about by whoever is shown one.

use muster_tree::{Text, Tree, literal, tree};

use crate::port::{Act, Call, Guard, Kind, Part, Target, Uid};
use crate::words::managers;
use crate::{kinds, meta};

/// The request for a token that is good while the pod lives, and the pod's UID. An empty audience is the API server.
#[must_use]
pub fn request(pod: &Tree, audience: &str, seconds: i64) -> (Call, Uid) {
    let uid = meta::uid(pod);
    let account = pod.text_at(&["spec", "serviceAccountName"]);
    let account = if account.is_empty() { Text::from("default") } else { account };
    let audiences = if audience.is_empty() { Vec::new() } else { vec![Tree::from(audience)] };
    let body = tree!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"audiences": Tree::list(audiences), "expirationSeconds": seconds,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": meta::name(pod), "uid": &uid}}});
    let on = Target {
        kind: kinds::SERVICE_ACCOUNTS.clone(),
        namespace: meta::namespace(pod),
        name: account,
        part: Part::Token,
    };
    (Call { by: managers::KUBELET.clone(), on, guard: Guard::default(), act: Act::Create(body) }, uid)
}

/// Questions about tokens.
static REVIEWS: Kind = Kind {
    group: literal!("authentication.k8s.io"),
    version: literal!("v1"),
    plural: literal!("tokenreviews"),
};

/// The question whose token this is, if it is good for this audience; asked by `by`.
#[must_use]
pub fn review(by: &Text, token: &str, audience: &str) -> Call {
    let body = tree!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "spec": {"token": token, "audiences": [audience]}});
    let on = Target { kind: REVIEWS.clone(), namespace: Text::new(), name: Text::new(), part: Part::Main };
    Call { by: by.clone(), on, guard: Guard::default(), act: Act::Create(body) }
}

/// The user whom the answer names. A server that says nothing about the audience has not looked at it.
#[must_use]
pub fn reviewed(answer: &Tree, audience: &str) -> Option<Text> {
    let good = answer.bool_at(&["status", "authenticated"]) == Some(true);
    let fits = answer.items_at(&["status", "audiences"]).iter().any(|it| it.as_str() == Some(audience));
    (good && fits).then(|| answer.text_at(&["status", "user", "username"]))
}

/// The token of the answer.
#[must_use]
pub fn of(answer: &Tree) -> Text {
    answer.text_at(&["status", "token"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_token_for_this_audience_is_somebodys() {
        let answer =
            tree!({"status": {"authenticated": true, "audiences": ["a"], "user": {"username": "u"}}});
        assert_eq!(reviewed(&answer, "a"), Some("u".into()));
        assert_eq!(reviewed(&answer, "b"), None, "for somebody else");
        assert_eq!(reviewed(&answer.without(&["status", "audiences"]), "a"), None, "nobody looked");
        assert_eq!(reviewed(&answer.with(&["status", "authenticated"], false), "a"), None);
        let asked = review(&"me".into(), "t", "a");
        let Act::Create(body) = &asked.act else { panic!("a question is made") };
        assert_eq!(body.at(&["spec"]).unwrap().to_json(), r#"{"audiences":["a"],"token":"t"}"#);
    }
}
