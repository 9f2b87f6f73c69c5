//! Builds HTTP requests from API requests.

use http::Request;
use http::header::{ACCEPT, CONTENT_TYPE};
use muster_api::client::{
    ApiError, ApiRequest, DeletionPropagation, Kind, Preconditions, RequestVerb, Subresource,
};
use muster_tree::{Tree, tree};

const JSON: &str = "application/json";

/// The HTTP request of an API request.
///
/// # Errors
/// A name that fits in no address.
pub fn build(call: &ApiRequest) -> Result<Request<Vec<u8>>, ApiError> {
    build_request(call, request_path(call))
}

/// As [`build`], with `dryRun=All`.
///
/// # Errors
/// A name that fits in no address.
pub fn build_dry_run(call: &ApiRequest) -> Result<Request<Vec<u8>>, ApiError> {
    let address = request_path(call);
    let and = if address.contains('?') { '&' } else { '?' };
    build_request(call, format!("{address}{and}dryRun=All"))
}

fn build_request(call: &ApiRequest, address: String) -> Result<Request<Vec<u8>>, ApiError> {
    let (method, media, body) = body_of(call);
    Request::builder()
        .method(method)
        .uri(address)
        .header(ACCEPT, JSON)
        .header(CONTENT_TYPE, media)
        .body(body.map(|tree| tree.to_json_bytes()).unwrap_or_default())
        .map_err(|e| ApiError::Invalid(format!("{:?} is no address: {e}", call.target)))
}

/// The path of a collection; cluster-wide if the namespace is empty.
#[must_use]
pub fn collection_path(kind: &Kind, namespace: &str) -> String {
    let group = if kind.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", kind.group) };
    let inside = if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
    format!("{group}/{}{inside}/{}", kind.version, kind.plural)
}

fn request_path(call: &ApiRequest) -> String {
    let mut path = collection_path(&call.target.kind, &call.target.namespace);
    if !(matches!(call.verb, RequestVerb::Create(_)) && call.target.subresource == Subresource::Main) {
        path = format!("{path}/{}", call.target.name);
    }
    match call.target.subresource {
        Subresource::Main => {}
        Subresource::Status => path += "/status",
        Subresource::Binding => path += "/binding",
        Subresource::Eviction => path += "/eviction",
        Subresource::Scale => path += "/scale",
        Subresource::Finalize => path += "/finalize",
        Subresource::Token => path += "/token",
    }
    let manager = format!("?fieldManager={}", call.field_manager);
    match &call.verb {
        RequestVerb::Get | RequestVerb::Delete { .. } => path,
        RequestVerb::Apply { force, .. } => format!("{path}{manager}&force={force}&fieldValidation=Strict"),
        _ => format!("{path}{manager}&fieldValidation=Strict"),
    }
}

fn body_of(call: &ApiRequest) -> (&'static str, &'static str, Option<Tree>) {
    match &call.verb {
        RequestVerb::Get => ("GET", JSON, None),
        RequestVerb::Create(tree) => ("POST", JSON, Some(call.create_body(tree))),
        RequestVerb::Apply { body, .. } => {
            ("PATCH", "application/apply-patch+yaml", Some(with_preconditions(body, &call.preconditions)))
        }
        // The finalize endpoint takes whole objects only.
        RequestVerb::MergePatch(tree) if call.target.subresource == Subresource::Finalize => {
            ("PUT", JSON, Some(with_preconditions(tree, &call.preconditions)))
        }
        RequestVerb::MergePatch(tree) => {
            ("PATCH", "application/merge-patch+json", Some(with_preconditions(tree, &call.preconditions)))
        }
        RequestVerb::StrategicMergePatch(tree) => (
            "PATCH",
            "application/strategic-merge-patch+json",
            Some(with_preconditions(tree, &call.preconditions)),
        ),
        RequestVerb::Delete { propagation_policy: cascade, grace_secs } => {
            ("DELETE", JSON, Some(delete_options(*cascade, *grace_secs, &call.preconditions)))
        }
    }
}

/// Adds preconditions to a patch: the server answers 409 where the UID or `resourceVersion` differs.
fn with_preconditions(tree: &Tree, guard: &Preconditions) -> Tree {
    let mut tree = tree.clone();
    if let Some(uid) = &guard.uid {
        tree = tree.with(&["metadata", "uid"], uid);
    }
    if let Some(revision) = guard.revision {
        tree = tree.with(&["metadata", "resourceVersion"], revision.to_string());
    }
    tree
}

fn delete_options(cascade: DeletionPropagation, grace_secs: Option<u32>, guard: &Preconditions) -> Tree {
    let policy = match cascade {
        DeletionPropagation::Background => "Background",
        DeletionPropagation::Foreground => "Foreground",
        DeletionPropagation::Orphan => "Orphan",
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
    use muster_api::client::{RequestTarget, Revision};
    use muster_api::kinds;
    use muster_tree::literal;

    use super::*;

    fn call(kind: &Kind, part: Subresource, act: RequestVerb, revision: Option<Revision>) -> ApiRequest {
        let on =
            RequestTarget { kind: kind.clone(), namespace: "n".into(), name: "a".into(), subresource: part };
        ApiRequest {
            field_manager: literal!("me"),
            target: on,
            preconditions: Preconditions { uid: Some("u".into()), revision },
            verb: act,
        }
    }

    #[test]
    fn rehearsals_keep_nothing() {
        let delete =
            RequestVerb::Delete { propagation_policy: DeletionPropagation::Background, grace_secs: None };
        for (act, want) in [
            (
                RequestVerb::Create(tree!({})),
                "/api/v1/namespaces/n/pods?fieldManager=me&fieldValidation=Strict&dryRun=All",
            ),
            (delete, "/api/v1/namespaces/n/pods/a?dryRun=All"),
        ] {
            let request = build_dry_run(&call(&kinds::PODS, Subresource::Main, act, None)).unwrap();
            assert_eq!(request.uri(), want);
        }
    }

    #[test]
    fn calls_on_the_wire() {
        let merge = RequestVerb::MergePatch(tree!({"spec": {"suspend": true}}));
        let delete =
            RequestVerb::Delete { propagation_policy: DeletionPropagation::Foreground, grace_secs: Some(0) };
        let apply = RequestVerb::Apply { body: tree!({"kind": "Job"}), force: true };
        let bound = RequestVerb::Create(tree!({"target": {"name": "node"}}));
        for (about, call, want) in [
            (
                "a read has no options",
                call(&kinds::JOBS, Subresource::Main, RequestVerb::Get, None),
                "GET /apis/batch/v1/namespaces/n/jobs/a ",
            ),
            (
                "a create goes to the collection, under the target's name, without a UID",
                call(&kinds::PODS, Subresource::Main, RequestVerb::Create(tree!({})), None),
                r#"POST /api/v1/namespaces/n/pods?fieldManager=me&fieldValidation=Strict {"metadata":{"name":"a"}}"#,
            ),
            (
                "a merge carries its guard",
                call(&kinds::JOBS, Subresource::Main, merge.clone(), Some(7)),
                r#"PATCH /apis/batch/v1/namespaces/n/jobs/a?fieldManager=me&fieldValidation=Strict {"metadata":{"resourceVersion":"7","uid":"u"},"spec":{"suspend":true}}"#,
            ),
            (
                "finalize takes whole objects",
                call(&kinds::NAMESPACES, Subresource::Finalize, RequestVerb::MergePatch(tree!({})), None),
                r#"PUT /api/v1/namespaces/n/namespaces/a/finalize?fieldManager=me&fieldValidation=Strict {"metadata":{"uid":"u"}}"#,
            ),
            (
                "an apply says whether it takes what others own",
                call(&kinds::JOBS, Subresource::Status, apply, None),
                r#"PATCH /apis/batch/v1/namespaces/n/jobs/a/status?fieldManager=me&force=true&fieldValidation=Strict {"kind":"Job","metadata":{"uid":"u"}}"#,
            ),
            (
                "a binding means one incarnation",
                call(&kinds::PODS, Subresource::Binding, bound, None),
                r#"POST /api/v1/namespaces/n/pods/a/binding?fieldManager=me&fieldValidation=Strict {"metadata":{"uid":"u"},"target":{"name":"node"}}"#,
            ),
            (
                "a delete names the UID",
                call(&kinds::PODS, Subresource::Main, delete, None),
                r#"DELETE /api/v1/namespaces/n/pods/a {"apiVersion":"v1","gracePeriodSeconds":0,"kind":"DeleteOptions","preconditions":{"uid":"u"},"propagationPolicy":"Foreground"}"#,
            ),
        ] {
            let request = build(&call).unwrap();
            let body = String::from_utf8(request.body().clone()).unwrap();
            assert_eq!(format!("{} {} {body}", request.method(), request.uri()), want, "{about}");
        }
    }
}
