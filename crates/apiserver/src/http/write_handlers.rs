//! Handlers of mutating requests: body and options become a write request to the engine.

use bytes::Bytes;
use muster_schema::spelled::json_word;
use muster_tree::Tree;
use tokio::sync::oneshot;

use super::query::delete_options_of;
use super::read_handlers::{RequestScope, show};
use super::request_body;
use super::response::{self, HttpResponse};
use super::server_state::{RequestHead, ServerState};
use super::verb::ApiVerb;
use crate::engine::unregistered;
use crate::request::{
    DeleteOptions, Patch, RequestBody, ResourcePath, WriteAct, WriteOptions, WriteReply, WriteRequest,
};
use crate::status::Status;

const PATCHES_CUSTOM: &str =
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";

/// Handles create, update, patch and delete.
///
/// # Errors
/// An invalid body or option, or the engine's error.
pub async fn write(
    shared: &ServerState,
    request: &RequestHead,
    place: &RequestScope,
    target: ResourcePath,
    verb: ApiVerb,
    bytes: &Bytes,
) -> Result<HttpResponse, Status> {
    let agreed = request.negotiate(place.offer(request, &target))?;
    let (act, options) = decode_action(request, place, &target, verb, bytes)?;
    let user = request.user.clone();
    let reply = perform(shared, WriteRequest { target, act, options, user }).await?;
    let mut answer = show(shared, request, place, agreed, reply.code, &reply.shown)?;
    response::warn(&mut answer, reply.warnings.iter().map(String::as_str));
    Ok(answer)
}

/// The engine prepares the write on this task, which is short work; the reply comes when the write is durable.
async fn perform(shared: &ServerState, request: WriteRequest) -> Result<WriteReply, Status> {
    let (sender, reply) = oneshot::channel();
    shared.engine.write(
        request,
        Box::new(move |result| {
            // The client may have disconnected: the write stands.
            let _ = sender.send(result);
        }),
    );
    reply.await.unwrap_or_else(|_| Err(Status::internal("the reply of the write was lost")))
}

/// Decodes verb, query and body into an action of the engine.
///
/// # Errors
/// An invalid body or option.
pub(super) fn decode_action(
    request: &RequestHead,
    place: &RequestScope,
    target: &ResourcePath,
    verb: ApiVerb,
    bytes: &Bytes,
) -> Result<(WriteAct, WriteOptions), Status> {
    let agent = request.user_agent();
    match verb {
        ApiVerb::Create => {
            let options = request.query.write_options("CreateOptions", agent)?;
            Ok((WriteAct::Create(object(request, place, target, bytes)?), options))
        }
        ApiVerb::Update => {
            let options = request.query.write_options("UpdateOptions", agent)?;
            Ok((WriteAct::Update(object(request, place, target, bytes)?), options))
        }
        ApiVerb::Patch => patch(request, place, bytes),
        ApiVerb::DeleteCollection => {
            let (delete, options) = delete_options(request, bytes)?;
            Ok((WriteAct::DeleteCollection(delete, request.query.list_options()?), options))
        }
        ApiVerb::Delete | ApiVerb::Get | ApiVerb::List | ApiVerb::Watch => {
            let (delete, options) = delete_options(request, bytes)?;
            Ok((WriteAct::Delete(delete), options))
        }
    }
}

fn object(
    request: &RequestHead,
    place: &RequestScope,
    target: &ResourcePath,
    bytes: &Bytes,
) -> Result<RequestBody, Status> {
    let media = request_body::media(request.content_type(), place.resource.custom)?;
    let sub = place.resource.subresource(place.version, &target.subresource);
    let kind = sub.map_or(&place.resource.kind, |sub| &sub.response_kind.2);
    request_body::decode(media, bytes).map_err(|e| e.status(kind))
}

fn delete_options(request: &RequestHead, bytes: &Bytes) -> Result<(DeleteOptions, WriteOptions), Status> {
    let (delete, dry_run) = if bytes.is_empty() {
        request.query.delete_options()?
    } else {
        let media = request_body::media(request.content_type(), false)?;
        let body = request_body::whole(media, bytes).map_err(Status::bad_request)?;
        refuse_other_kinds(&body.tree)?;
        delete_options_of(&body.tree)?
    };
    let options = WriteOptions { dry_run, ..WriteOptions::default() };
    Ok((delete, options))
}

fn refuse_other_kinds(body: &Tree) -> Result<(), Status> {
    match body.str_at(&["kind"]) {
        "" | "DeleteOptions" => Ok(()),
        other => {
            let version = body.str_at(&["apiVersion"]);
            Err(Status::bad_request(unregistered(other, if version.is_empty() { "v1" } else { version })))
        }
    }
}

fn patch(
    request: &RequestHead,
    place: &RequestScope,
    bytes: &Bytes,
) -> Result<(WriteAct, WriteOptions), Status> {
    let media = request.content_type().unwrap_or("").split(';').next().unwrap_or("").trim();
    let apply = media == "application/apply-patch+yaml";
    let custom = place.resource.custom;
    let known = matches!(media, "application/json-patch+json" | "application/merge-patch+json")
        || (media == "application/strategic-merge-patch+json" && !custom);
    if !known && !apply {
        return Err(unsupported_patch(custom));
    }
    let (options, force) = request.query.patch_options(apply, request.user_agent())?;
    let patch = match media {
        "application/json-patch+json" => Patch::Json(changes(bytes)?),
        "application/merge-patch+json" => Patch::Merge(changes(bytes)?),
        "application/strategic-merge-patch+json" => Patch::Strategic(changes(bytes)?),
        _ => Patch::Apply { body: applied(bytes)?, force },
    };
    Ok((WriteAct::Patch(patch), options))
}

/// For built-in resources kube-apiserver rejects unknown patch types before the handler, with another message.
fn unsupported_patch(custom: bool) -> Status {
    if custom {
        return request_body::unsupported(PATCHES_CUSTOM);
    }
    Status::general(415, "UnsupportedMediaType", "415: Unsupported Media Type")
}

/// JSON of any type: the engine checks it.
fn changes(bytes: &Bytes) -> Result<RequestBody, Status> {
    request_body::json(bytes).map_err(|_| Status::bad_request("invalid JSON patch"))
}

/// Clients send JSON under the YAML type; parsing it as JSON is faster. With duplicate keys it is parsed as YAML, for
/// messages with line numbers.
fn applied(bytes: &Bytes) -> Result<RequestBody, Status> {
    // The first significant byte decides; a YAML flow map also begins with a brace and then falls back to YAML.
    let looks_like_json = bytes.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'{');
    let json = if looks_like_json { request_body::json(bytes).ok() } else { None };
    let body = match json.filter(|body| body.duplicates.is_empty()) {
        Some(body) => body,
        None => request_body::yaml(bytes).map_err(|why| {
            let words = if looks_like_json {
                "decoding patch: error converting YAML to JSON"
            } else {
                "encoding patch"
            };
            Status::bad_request(format!("error {words}: yaml: {why}"))
        })?,
    };
    match &body.tree {
        Tree::Map(_) => Ok(body),
        Tree::Null => Ok(RequestBody { tree: Tree::empty_map(), ..body }),
        other => {
            let (word, wanted) = (json_word(other), "Go value of type map[string]interface {}");
            Err(Status::bad_request(format!(
                "error decoding patch: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {word} into {wanted}"
            )))
        }
    }
}
