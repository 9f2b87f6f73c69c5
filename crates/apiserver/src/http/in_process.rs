//! Answers requests without a connection: the same paths, queries, media types and bodies, on the thread of the caller.
//!
//! # Guarantees
//!
//! - Paths, options and bodies are read by the functions that serve connections: a refusal has the same code and words.
//! - [`answer`] never waits. A write is answered at once by a store in memory; with any other store its reply is lost.
//!
//! # Deliberately absent
//!
//! Authentication, limits and deadlines; discovery; watches, logs and other streams; tables, YAML and compression.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method};
use muster_tree::{Text, Tree};

use super::answer::quoted_warning;
use super::ask::Part;
use super::context::Request;
use super::info::{self, Info};
use super::query::Query;
use super::reads::Place;
use super::verb::{self, Verb};
use super::{pieces, writes};
use crate::engine::Engine;
use crate::request::{ListReply, Shown, Target, User, WriteReply, WriteRequest};
use crate::status::Status;
use crate::tables::ListMeta;

/// A request as a client writes it.
#[derive(Debug, Clone, Default)]
pub struct Raw<'a> {
    /// `GET`, `POST`, `PUT`, `PATCH` or `DELETE`.
    pub method: &'a str,
    /// The path, with its query.
    pub path: &'a str,
    /// `Content-Type`; JSON when empty.
    pub content_type: &'a str,
    /// `User-Agent`: the field manager of writes that name none.
    pub user_agent: &'a str,
    /// The body.
    pub body: &'a [u8],
    /// The authenticated user.
    pub user: User,
}

/// An answer as a client reads it.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered {
    /// HTTP code.
    pub code: u16,
    /// Values of `Warning` headers.
    pub warnings: Vec<String>,
    /// The object, the list, or the `Status`.
    pub body: Tree,
}

/// Answers one request.
#[must_use]
pub fn answer(engine: &Engine, raw: &Raw<'_>) -> Answered {
    let answered = request(raw).and_then(|(request, path)| match info::parse(path) {
        None => Err(Status::bad_request("the path of the request is not valid percent-encoded UTF-8")),
        Some(Info::Path(_)) => Err(Status::unknown_path()),
        Some(Info::Resource { target, watch_prefix }) => {
            resource(engine, &request, target, watch_prefix, raw.body)
        }
    });
    answered.unwrap_or_else(|status| Answered {
        code: status.code,
        warnings: status.warnings.iter().map(|text| quoted_warning(text)).collect(),
        body: status.to_tree(),
    })
}

/// The request without its body, and its path without the query.
fn request<'a>(raw: &Raw<'a>) -> Result<(Request, &'a str), Status> {
    let (path, query) = raw.path.split_once('?').unwrap_or((raw.path, ""));
    let method = Method::from_bytes(raw.method.as_bytes()).map_err(|_| Status::method_not_allowed())?;
    let mut headers = HeaderMap::new();
    for (name, value) in [(CONTENT_TYPE, raw.content_type), (USER_AGENT, raw.user_agent)] {
        if !value.is_empty() {
            let value = HeaderValue::from_str(value).map_err(|e| Status::bad_request(e.to_string()))?;
            headers.insert(name, value);
        }
    }
    Ok((Request { method, query: Query::parse(query), headers, user: raw.user.clone() }, path))
}

fn resource(
    engine: &Engine,
    request: &Request,
    target: Target,
    watch_prefix: bool,
    body: &[u8],
) -> Result<Answered, Status> {
    let found = engine.registry().find(&target.group, &target.version, &target.resource);
    let (resource, version) = found.ok_or_else(Status::unknown_path)?;
    let watch = watch_prefix || (target.name.is_empty() && request.query.flag("watch").unwrap_or(false));
    let verb = Verb::of(&request.method, &target, watch).ok_or_else(Status::method_not_allowed)?;
    verb::check(&resource, version, &target, verb)?;
    if verb == Verb::Watch || Part::of(&target).is_some() {
        return Err(Status::bad_request("watches and streams are served over connections only"));
    }
    let place = Place { resource, version };
    let (code, body, warnings) = match verb {
        Verb::Get => (200, shown(&place, engine.show(&target, &request.query.list_options()?)?), Vec::new()),
        Verb::List => (200, list(&place, engine.list(&target, &request.query.list_options()?)?), Vec::new()),
        _ => {
            let (act, options) =
                writes::asked(request, &place, &target, verb, &Bytes::copy_from_slice(body))?;
            let user = request.user.clone();
            let reply = write(engine, WriteRequest { target, act, options, user })?;
            (reply.code, shown(&place, reply.shown), reply.warnings)
        }
    };
    let deprecation = &place.resource.versions[place.version].deprecation;
    let deprecation = Some(deprecation.as_str()).filter(|text| !text.is_empty());
    let warnings = warnings.iter().map(String::as_str).chain(deprecation).map(quoted_warning).collect();
    Ok(Answered { code, warnings, body })
}

fn write(engine: &Engine, request: WriteRequest) -> Result<WriteReply, Status> {
    let slot: Arc<Mutex<Option<Result<WriteReply, Status>>>> = Arc::default();
    let filled = slot.clone();
    let reply = move |result| *filled.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
    engine.write(request, Box::new(reply));
    let reply = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
    reply.unwrap_or_else(|| Err(Status::internal("the store did not reply at once")))
}

fn shown(place: &Place, shown: Shown) -> Tree {
    match shown {
        Shown::Object(object) => place.resource.present(&object, place.version),
        Shown::Objects(objects, revision) => {
            list(place, ListReply { objects, revision, continue_token: Text::new(), remaining: None })
        }
        Shown::Tree(tree) => tree,
        Shown::Status(status) => status.to_tree(),
    }
}

fn list(place: &Place, reply: ListReply) -> Tree {
    let meta = ListMeta {
        resource_version: Text::from(reply.revision.to_string()),
        continue_token: reply.continue_token,
        remaining: reply.remaining,
        says_the_end: place.resource.custom,
    };
    pieces::whole(place, &reply.objects, &meta)
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;
    use crate::engine::tests::World;

    const MAPS: &str = "/api/v1/namespaces/default/configmaps";

    fn ask(engine: &Engine, method: &str, path: &str, content_type: &str, body: &Tree) -> Answered {
        let body = body.to_json_bytes();
        let user = User { name: "me".into(), ..User::default() };
        answer(engine, &Raw { method, path, content_type, user_agent: "test/1", body: &body, user })
    }

    #[test]
    fn an_object_is_created_read_patched_listed_and_deleted() {
        let engine = World::new().engine;
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
    fn refusals_are_statuses_and_warnings_are_headers() {
        let engine = World::new().engine;
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
