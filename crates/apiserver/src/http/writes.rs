//! Writing objects: the body and the options become a request to the engine, its reply an answer.

use bytes::Bytes;
use muster_schema::spelled::json_word;
use muster_tree::Tree;
use tokio::sync::oneshot;

use super::answer::{self, Reply};
use super::body;
use super::context::{Request, Shared};
use super::query::delete_options_of;
use super::reads::{Place, show};
use super::verb::Verb;
use crate::engine::unregistered;
use crate::request::{Body, DeleteOptions, Patch, Target, WriteAct, WriteOptions, WriteReply, WriteRequest};
use crate::status::Status;

const PATCHES_CUSTOM: &str =
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";

/// Answers a write.
///
/// # Errors
/// What is wrong with the body or the options, and what the engine refuses.
pub async fn write(
    shared: &Shared,
    request: &Request,
    place: &Place,
    target: Target,
    verb: Verb,
    bytes: &Bytes,
) -> Result<Reply, Status> {
    let agreed = request.negotiate(place.offer(request, &target))?;
    let (act, options) = asked(request, place, &target, verb, bytes)?;
    let user = request.user.clone();
    let reply = perform(shared, WriteRequest { target, act, options, user }).await?;
    let mut answer = show(shared, request, place, agreed, reply.code, &reply.shown)?;
    answer::warn(&mut answer, reply.warnings.iter().map(String::as_str));
    Ok(answer)
}

/// The engine prepares on this task, which is short work; the reply comes when the change is durable.
async fn perform(shared: &Shared, request: WriteRequest) -> Result<WriteReply, Status> {
    let (sender, reply) = oneshot::channel();
    shared.engine.write(
        request,
        Box::new(move |result| {
            // Nobody waits any more: the write stands all the same.
            let _ = sender.send(result);
        }),
    );
    reply.await.unwrap_or_else(|_| Err(Status::internal("the reply of the write was lost")))
}

/// What the method, the query and the body of a request ask of the engine.
///
/// # Errors
/// What is wrong with the body or the options.
pub(super) fn asked(
    request: &Request,
    place: &Place,
    target: &Target,
    verb: Verb,
    bytes: &Bytes,
) -> Result<(WriteAct, WriteOptions), Status> {
    let agent = request.user_agent();
    match verb {
        Verb::Create => {
            let options = request.query.write_options("CreateOptions", agent)?;
            Ok((WriteAct::Create(object(request, place, target, bytes)?), options))
        }
        Verb::Update => {
            let options = request.query.write_options("UpdateOptions", agent)?;
            Ok((WriteAct::Update(object(request, place, target, bytes)?), options))
        }
        Verb::Patch => patch(request, place, bytes),
        Verb::DeleteCollection => {
            let (delete, options) = delete_options(request, bytes)?;
            Ok((WriteAct::DeleteCollection(delete, request.query.list_options()?), options))
        }
        Verb::Delete | Verb::Get | Verb::List | Verb::Watch => {
            let (delete, options) = delete_options(request, bytes)?;
            Ok((WriteAct::Delete(delete), options))
        }
    }
}

fn object(request: &Request, place: &Place, target: &Target, bytes: &Bytes) -> Result<Body, Status> {
    let media = body::media(request.content_type(), place.resource.custom)?;
    let sub = place.resource.subresource(place.version, &target.subresource);
    let kind = sub.map_or(&place.resource.kind, |sub| &sub.response_kind.2);
    body::decode(media, bytes).map_err(|e| e.status(kind))
}

fn delete_options(request: &Request, bytes: &Bytes) -> Result<(DeleteOptions, WriteOptions), Status> {
    let (delete, dry_run) = if bytes.is_empty() {
        request.query.delete_options()?
    } else {
        let media = body::media(request.content_type(), false)?;
        let body = body::whole(media, bytes).map_err(Status::bad_request)?;
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

fn patch(request: &Request, place: &Place, bytes: &Bytes) -> Result<(WriteAct, WriteOptions), Status> {
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

/// Built-in resources are refused before their handler is asked, in fewer words.
fn unsupported_patch(custom: bool) -> Status {
    if custom {
        return body::unsupported(PATCHES_CUSTOM);
    }
    Status::general(415, "UnsupportedMediaType", "415: Unsupported Media Type")
}

/// JSON of any shape: what it should have been is the engine's to say.
fn changes(bytes: &Bytes) -> Result<Body, Status> {
    body::json(bytes).map_err(|_| Status::bad_request("invalid JSON patch"))
}

/// Clients send JSON under the YAML type; reading it as JSON is faster. Keys that stand twice are told of by line.
fn applied(bytes: &Bytes) -> Result<Body, Status> {
    let looks_like_json = bytes.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'{');
    let json = if looks_like_json { body::json(bytes).ok() } else { None };
    let body = match json.filter(|body| body.duplicates.is_empty()) {
        Some(body) => body,
        None => body::yaml(bytes).map_err(|why| {
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
        Tree::Null => Ok(Body { tree: Tree::empty_map(), ..body }),
        other => {
            let (word, wanted) = (json_word(other), "Go value of type map[string]interface {}");
            Err(Status::bad_request(format!(
                "error decoding patch: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {word} into {wanted}"
            )))
        }
    }
}
