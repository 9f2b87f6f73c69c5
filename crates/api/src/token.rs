//! Tokens of service accounts, asked for on behalf of a pod.

use muster_tree::{Text, Tree, tree};

use crate::port::{Act, Call, Guard, Part, Target, Uid};
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

/// The token of the answer.
#[must_use]
pub fn of(answer: &Tree) -> Text {
    answer.text_at(&["status", "token"])
}
