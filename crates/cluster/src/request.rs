//! What a call is on the wire.

use http::Request;
use http::header::{ACCEPT, CONTENT_TYPE};
use muster_api::port::{Act, Call, Cascade, Guard, Kind, Part, Refusal};
use muster_tree::{Tree, tree};

const JSON: &str = "application/json";

/// The request of a call.
///
/// # Errors
/// A name that fits in no address.
pub fn of(call: &Call) -> Result<Request<Vec<u8>>, Refusal> {
    made(call, address(call))
}

/// The request of a call of which nothing is kept.
///
/// # Errors
/// A name that fits in no address.
pub fn rehearsal(call: &Call) -> Result<Request<Vec<u8>>, Refusal> {
    let address = address(call);
    let and = if address.contains('?') { '&' } else { '?' };
    made(call, format!("{address}{and}dryRun=All"))
}

fn made(call: &Call, address: String) -> Result<Request<Vec<u8>>, Refusal> {
    let (method, media, body) = body_of(call);
    Request::builder()
        .method(method)
        .uri(address)
        .header(ACCEPT, JSON)
        .header(CONTENT_TYPE, media)
        .body(body.map(|tree| tree.to_json_bytes()).unwrap_or_default())
        .map_err(|e| Refusal::Invalid(format!("{:?} is no address: {e}", call.on)))
}

/// Where the kind lives; inside a namespace unless that is empty.
#[must_use]
pub fn root(kind: &Kind, namespace: &str) -> String {
    let group = if kind.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", kind.group) };
    let inside = if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
    format!("{group}/{}{inside}/{}", kind.version, kind.plural)
}

fn address(call: &Call) -> String {
    let mut path = root(&call.on.kind, &call.on.namespace);
    if !(matches!(call.act, Act::Create(_)) && call.on.part == Part::Main) {
        path = format!("{path}/{}", call.on.name);
    }
    match call.on.part {
        Part::Main => {}
        Part::Status => path += "/status",
        Part::Binding => path += "/binding",
        Part::Eviction => path += "/eviction",
        Part::Scale => path += "/scale",
        Part::Finalize => path += "/finalize",
        Part::Token => path += "/token",
    }
    let manager = format!("?fieldManager={}", call.by);
    match &call.act {
        Act::Get | Act::Delete { .. } => path,
        Act::Apply { force, .. } => format!("{path}{manager}&force={force}&fieldValidation=Strict"),
        _ => format!("{path}{manager}&fieldValidation=Strict"),
    }
}

fn body_of(call: &Call) -> (&'static str, &'static str, Option<Tree>) {
    match &call.act {
        Act::Get => ("GET", JSON, None),
        Act::Create(tree) => ("POST", JSON, Some(call.made(tree))),
        Act::Apply { body, .. } => {
            ("PATCH", "application/apply-patch+yaml", Some(guarded(body, &call.guard)))
        }
        // The finalize endpoint takes whole objects only.
        Act::Merge(tree) if call.on.part == Part::Finalize => ("PUT", JSON, Some(guarded(tree, &call.guard))),
        Act::Merge(tree) => ("PATCH", "application/merge-patch+json", Some(guarded(tree, &call.guard))),
        Act::Strategic(tree) => {
            ("PATCH", "application/strategic-merge-patch+json", Some(guarded(tree, &call.guard)))
        }
        Act::Delete { cascade, grace_secs } => {
            ("DELETE", JSON, Some(delete_options(*cascade, *grace_secs, &call.guard)))
        }
    }
}

/// A patch that names the UID or revision it means is refused where they differ.
fn guarded(tree: &Tree, guard: &Guard) -> Tree {
    let mut tree = tree.clone();
    if let Some(uid) = &guard.uid {
        tree = tree.with(&["metadata", "uid"], uid);
    }
    if let Some(revision) = guard.revision {
        tree = tree.with(&["metadata", "resourceVersion"], revision.to_string());
    }
    tree
}

fn delete_options(cascade: Cascade, grace_secs: Option<u32>, guard: &Guard) -> Tree {
    let policy = match cascade {
        Cascade::Background => "Background",
        Cascade::Foreground => "Foreground",
        Cascade::Orphan => "Orphan",
    };
    let mut options = tree!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy});
    if let Some(secs) = grace_secs {
        options = options.with(&["gracePeriodSeconds"], i64::from(secs));
    }
    if let Some(uid) = &guard.uid {
        options = options.with(&["preconditions", "uid"], uid);
    }
    if let Some(revision) = guard.revision {
        options = options.with(&["preconditions", "resourceVersion"], revision.to_string());
    }
    options
}

#[cfg(test)]
mod tests {
    use muster_api::kinds;
    use muster_api::port::{Revision, Target};
    use muster_tree::literal;

    use super::*;

    fn call(kind: &Kind, part: Part, act: Act, revision: Option<Revision>) -> Call {
        let on = Target { kind: kind.clone(), namespace: "n".into(), name: "a".into(), part };
        Call { by: literal!("me"), on, guard: Guard { uid: Some("u".into()), revision }, act }
    }

    #[test]
    fn rehearsals_keep_nothing() {
        let delete = Act::Delete { cascade: Cascade::Background, grace_secs: None };
        for (act, want) in [
            (
                Act::Create(tree!({})),
                "/api/v1/namespaces/n/pods?fieldManager=me&fieldValidation=Strict&dryRun=All",
            ),
            (delete, "/api/v1/namespaces/n/pods/a?dryRun=All"),
        ] {
            let request = rehearsal(&call(&kinds::PODS, Part::Main, act, None)).unwrap();
            assert_eq!(request.uri(), want);
        }
    }

    #[test]
    fn calls_on_the_wire() {
        let merge = Act::Merge(tree!({"spec": {"suspend": true}}));
        let delete = Act::Delete { cascade: Cascade::Foreground, grace_secs: Some(0) };
        let apply = Act::Apply { body: tree!({"kind": "Job"}), force: true };
        let bound = Act::Create(tree!({"target": {"name": "node"}}));
        for (about, call, want) in [
            (
                "a read has no options",
                call(&kinds::JOBS, Part::Main, Act::Get, None),
                "GET /apis/batch/v1/namespaces/n/jobs/a ",
            ),
            (
                "a create goes to the collection, under the target's name, without a UID",
                call(&kinds::PODS, Part::Main, Act::Create(tree!({})), None),
                r#"POST /api/v1/namespaces/n/pods?fieldManager=me&fieldValidation=Strict {"metadata":{"name":"a"}}"#,
            ),
            (
                "a merge carries its guard",
                call(&kinds::JOBS, Part::Main, merge.clone(), Some(7)),
                r#"PATCH /apis/batch/v1/namespaces/n/jobs/a?fieldManager=me&fieldValidation=Strict {"metadata":{"resourceVersion":"7","uid":"u"},"spec":{"suspend":true}}"#,
            ),
            (
                "finalize takes whole objects",
                call(&kinds::NAMESPACES, Part::Finalize, Act::Merge(tree!({})), None),
                r#"PUT /api/v1/namespaces/n/namespaces/a/finalize?fieldManager=me&fieldValidation=Strict {"metadata":{"uid":"u"}}"#,
            ),
            (
                "an apply says whether it takes what others own",
                call(&kinds::JOBS, Part::Status, apply, None),
                r#"PATCH /apis/batch/v1/namespaces/n/jobs/a/status?fieldManager=me&force=true&fieldValidation=Strict {"kind":"Job","metadata":{"uid":"u"}}"#,
            ),
            (
                "a binding means one incarnation",
                call(&kinds::PODS, Part::Binding, bound, None),
                r#"POST /api/v1/namespaces/n/pods/a/binding?fieldManager=me&fieldValidation=Strict {"metadata":{"uid":"u"},"target":{"name":"node"}}"#,
            ),
            (
                "a delete names the UID",
                call(&kinds::PODS, Part::Main, delete, None),
                r#"DELETE /api/v1/namespaces/n/pods/a {"apiVersion":"v1","gracePeriodSeconds":0,"kind":"DeleteOptions","preconditions":{"uid":"u"},"propagationPolicy":"Foreground"}"#,
            ),
        ] {
            let request = of(&call).unwrap();
            let body = String::from_utf8(request.body().clone()).unwrap();
            assert_eq!(format!("{} {} {body}", request.method(), request.uri()), want, "{about}");
        }
    }
}
