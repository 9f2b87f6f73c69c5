//! Serves requests without a connection: the same paths, queries, media types and bodies, on the caller's thread.
//!
//! # Guarantees
//!
//! - Paths, options and bodies are parsed by the functions that serve connections: errors have the same code and
//!   message.
//! - [`answer`] never blocks. A write to an in-memory store is answered at once; with any other store its reply is
//!   lost.
//!
//! # Deliberately absent
//!
//! Authentication, in-flight limits and timeouts; discovery; watches, logs and other streams; Tables, YAML and
//! compression.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method};
use muster_tree::{Text, Tree};

use super::pod_subresource::PodSubresource;
use super::query::QueryParams;
use super::read_handlers::RequestScope;
use super::request_info::{self, RequestInfo};
use super::response::quoted_warning;
use super::server_state::RequestHead;
use super::verb::{self, ApiVerb};
use super::{list_encoder, write_handlers};
use crate::engine::ApiEngine;
use crate::request::{ListReply, ReplyObject, ResourcePath, UserInfo, WriteReply, WriteRequest};
use crate::status::Status;
use crate::tables::ListMeta;

/// An HTTP request without a connection.
#[derive(Debug, Clone, Default)]
pub struct InProcessRequest<'a> {
    /// `GET`, `POST`, `PUT`, `PATCH` or `DELETE`.
    pub method: &'a str,
    /// The path, with its query.
    pub path: &'a str,
    /// `Content-Type`; JSON when empty.
    pub content_type: &'a str,
    /// `User-Agent`: the field manager of writes that name none.
    pub user_agent: &'a str,
    /// The encoded body; empty for reads.
    pub body: &'a [u8],
    pub user: UserInfo,
}

/// The response to an [`InProcessRequest`].
#[derive(Debug, Clone, PartialEq)]
pub struct InProcessResponse {
    pub code: u16,
    /// Values of `Warning` headers.
    pub warnings: Vec<String>,
    /// The object, the list, or the `Status`.
    pub body: Tree,
}

#[must_use]
pub fn answer(engine: &ApiEngine, raw: &InProcessRequest<'_>) -> InProcessResponse {
    let answered = request(raw).and_then(|(request, path)| match request_info::parse(path) {
        None => Err(Status::bad_request("the path of the request is not valid percent-encoded UTF-8")),
        Some(RequestInfo::Path(_)) => Err(Status::unknown_path()),
        Some(RequestInfo::Resource { target, watch_prefix }) => {
            resource(engine, &request, target, watch_prefix, raw.body)
        }
    });
    answered.unwrap_or_else(|status| InProcessResponse {
        code: status.code,
        warnings: status.warnings.iter().map(|text| quoted_warning(text)).collect(),
        body: status.to_tree(),
    })
}

/// The request without its body, and its path without the query.
fn request<'a>(raw: &InProcessRequest<'a>) -> Result<(RequestHead, &'a str), Status> {
    let (path, query) = raw.path.split_once('?').unwrap_or((raw.path, ""));
    let method = Method::from_bytes(raw.method.as_bytes()).map_err(|_| Status::method_not_allowed())?;
    let mut headers = HeaderMap::new();
    for (name, value) in [(CONTENT_TYPE, raw.content_type), (USER_AGENT, raw.user_agent)] {
        if !value.is_empty() {
            let value = HeaderValue::from_str(value).map_err(|e| Status::bad_request(e.to_string()))?;
            headers.insert(name, value);
        }
    }
    Ok((RequestHead { method, query: QueryParams::parse(query), headers, user: raw.user.clone() }, path))
}

fn resource(
    engine: &ApiEngine,
    request: &RequestHead,
    target: ResourcePath,
    watch_prefix: bool,
    body: &[u8],
) -> Result<InProcessResponse, Status> {
    let found = engine.registry().find(&target.group, &target.version, &target.resource);
    let (resource, version) = found.ok_or_else(Status::unknown_path)?;
    let watch = watch_prefix || (target.name.is_empty() && request.query.flag("watch").unwrap_or(false));
    let verb = ApiVerb::of(&request.method, &target, watch).ok_or_else(Status::method_not_allowed)?;
    verb::check(&resource, version, &target, verb)?;
    if verb == ApiVerb::Watch || PodSubresource::of(&target).is_some() {
        return Err(Status::bad_request("watches and streams are served over connections only"));
    }
    let place = RequestScope { resource, version };
    let (code, body, warnings) = match verb {
        ApiVerb::Get => {
            (200, shown(&place, engine.show(&target, &request.query.list_options()?)?), Vec::new())
        }
        ApiVerb::List => {
            (200, list(&place, engine.list(&target, &request.query.list_options()?)?), Vec::new())
        }
        _ => {
            let (act, options) =
                write_handlers::decode_action(request, &place, &target, verb, &Bytes::copy_from_slice(body))?;
            let user = request.user.clone();
            let reply = write(engine, WriteRequest { target, act, options, user })?;
            (reply.code, shown(&place, reply.shown), reply.warnings)
        }
    };
    let deprecation = &place.resource.versions[place.version].deprecation;
    let deprecation = Some(deprecation.as_str()).filter(|text| !text.is_empty());
    let warnings = warnings.iter().map(String::as_str).chain(deprecation).map(quoted_warning).collect();
    Ok(InProcessResponse { code, warnings, body })
}

fn write(engine: &ApiEngine, request: WriteRequest) -> Result<WriteReply, Status> {
    // An in-memory store replies within `write`, so the slot is filled when it returns.
    let slot: Arc<Mutex<Option<Result<WriteReply, Status>>>> = Arc::default();
    let filled = slot.clone();
    let reply = move |result| *filled.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
    engine.write(request, Box::new(reply));
    let reply = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
    reply.unwrap_or_else(|| Err(Status::internal("the store did not reply at once")))
}

fn shown(place: &RequestScope, shown: ReplyObject) -> Tree {
    match shown {
        ReplyObject::Object(object) => place.resource.present(&object, place.version),
        ReplyObject::Objects(objects, revision) => {
            list(place, ListReply { objects, revision, continue_token: Text::new(), remaining: None })
        }
        ReplyObject::Tree(tree) => tree,
        ReplyObject::Status(status) => status.to_tree(),
    }
}

fn list(place: &RequestScope, reply: ListReply) -> Tree {
    let meta = ListMeta {
        resource_version: Text::from(reply.revision.to_string()),
        continue_token: reply.continue_token,
        remaining: reply.remaining,
        says_the_end: place.resource.custom,
    };
    list_encoder::whole(place, &reply.objects, &meta)
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;
    use crate::engine::tests::TestEngine;

    const MAPS: &str = "/api/v1/namespaces/default/configmaps";

    fn ask(
        engine: &ApiEngine,
        method: &str,
        path: &str,
        content_type: &str,
        body: &Tree,
    ) -> InProcessResponse {
        let body = body.to_json_bytes();
        let user = UserInfo { name: "me".into(), ..UserInfo::default() };
        answer(
            engine,
            &InProcessRequest { method, path, content_type, user_agent: "test/1", body: &body, user },
        )
    }

    #[test]
    fn an_object_is_created_read_patched_listed_and_deleted() {
        let engine = TestEngine::new().engine;
        let map = tree!({"metadata": {"name": "a", "labels": {"x": "y"}}, "data": {"k": "v"}});
        let made = ask(&engine, "POST", MAPS, "application/json", &map);
        assert_eq!((made.code, made.body.str_at(&["kind"])), (201, "ConfigMap"));
        let one = format!("{MAPS}/a");
        let merge = "application/merge-patch+json";
        let patched = ask(&engine, "PATCH", &one, merge, &tree!({"data": {"k": null, "l": "w"}}));
        assert_eq!((patched.code, patched.body.at(&["data"])), (200, Some(&tree!({"l": "w"}))));
        let patch = tree!([{"op": "add", "path": "/data/m", "value": "1"}]);
        let patched = ask(&engine, "PATCH", &one, "application/json-patch+json", &patch);
        assert_eq!(patched.body.at(&["data"]), Some(&tree!({"l": "w", "m": "1"})));
        let managers = patched.body.items_at(&["metadata", "managedFields"]);
        assert!(
            managers.iter().all(|it| it.str_at(&["manager"]) == "test"),
            "the user agent names the manager"
        );
        for (selector, count) in
            [("labelSelector=x%3Dy", 1), ("labelSelector=x%3Dz", 0), ("fieldSelector=metadata.name%3Da", 1)]
        {
            let listed = ask(&engine, "GET", &format!("{MAPS}?{selector}"), "", &Tree::Null);
            assert_eq!((listed.code, listed.body.str_at(&["kind"])), (200, "ConfigMapList"));
            assert_eq!(listed.body.items_at(&["items"]).len(), count, "{selector}");
        }
        let gone = ask(&engine, "DELETE", &one, "", &tree!({"propagationPolicy": "Background"}));
        assert_eq!((gone.code, gone.body.str_at(&["status"])), (200, "Success"));
        assert_eq!(ask(&engine, "GET", &one, "", &Tree::Null).code, 404);
    }

    #[test]
    fn errors_are_statuses_and_warnings_are_headers() {
        let engine = TestEngine::new().engine;
        let map = tree!({"metadata": {"name": "a"}, "nope": 1});
        let warned = ask(&engine, "POST", &format!("{MAPS}?dryRun=All"), "", &map);
        assert_eq!(
            (warned.code, warned.warnings),
            (201, vec![r#"299 - "unknown field \"nope\"""#.to_owned()])
        );
        for (says, method, path, code, reason) in [
            (
                "what a dry run made is not there",
                "GET",
                "/api/v1/namespaces/default/configmaps/a",
                404,
                "NotFound",
            ),
            (
                "a strict client is refused",
                "POST",
                "/api/v1/namespaces/default/configmaps?fieldValidation=Strict",
                400,
                "BadRequest",
            ),
            ("a kind that is not served", "GET", "/apis/a.b/v1/things", 404, "NotFound"),
            (
                "a verb that the path does not have",
                "POST",
                "/api/v1/namespaces/default/configmaps/a",
                405,
                "MethodNotAllowed",
            ),
            ("a watch", "GET", "/api/v1/namespaces/default/configmaps?watch=true", 400, "BadRequest"),
            (
                "a patch of no kind",
                "PATCH",
                "/api/v1/namespaces/default/configmaps/a",
                415,
                "UnsupportedMediaType",
            ),
        ] {
            let refused = ask(&engine, method, path, "", &map);
            assert_eq!((refused.code, refused.body.str_at(&["reason"])), (code, reason), "{says}");
            assert_eq!(refused.body.str_at(&["kind"]), "Status", "{says}");
        }
    }
}
