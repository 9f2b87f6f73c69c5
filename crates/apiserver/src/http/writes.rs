//! Writing objects: the body and the options become a request to the engine, its reply an answer.

use bytes::Bytes;
use muster_tree::{Duplicate, Tree};
use tokio::sync::oneshot;

use super::accept::Offer;
use super::answer::{self, Reply};
use super::body::{self, Media};
use super::context::{Request, Shared};
use super::query::delete_options_of;
use super::reads::{Place, show};
use super::verb::Verb;
use crate::request::{Body, DeleteOptions, Patch, Target, WriteAct, WriteOptions, WriteReply, WriteRequest};
use crate::status::Status;

const PATCHES: &str = "application/json-patch+json, application/merge-patch+json, \
     application/strategic-merge-patch+json, application/apply-patch+yaml";
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
    let agreed = request.negotiate(Offer::Objects)?;
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

fn asked(
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
        let body = body::decode(media, bytes).map_err(|e| Status::bad_request(e.0))?;
        refuse_other_kinds(&body.tree)?;
        delete_options_of(&body.tree)?
    };
    let options = WriteOptions { dry_run, ..WriteOptions::default() };
    Ok((delete, options))
}

fn refuse_other_kinds(body: &Tree) -> Result<(), Status> {
    match body.str_at(&["kind"]) {
        "" | "DeleteOptions" => Ok(()),
        other => Err(Status::bad_request(format!(
            "no kind {other:?} is registered for version \"meta.k8s.io/v1\": the body of a delete is DeleteOptions"
        ))),
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
        "application/json-patch+json" => Patch::Json(operations(bytes)?),
        "application/merge-patch+json" => Patch::Merge(patch_object(bytes)?),
        "application/strategic-merge-patch+json" => Patch::Strategic(patch_object(bytes)?),
        _ => Patch::Apply { body: applied(bytes)?, force },
    };
    Ok((WriteAct::Patch(patch), options))
}

fn unsupported_patch(custom: bool) -> Status {
    let mut status = body::unsupported(if custom { PATCHES_CUSTOM } else { PATCHES });
    status.message = format!("415: Unsupported Media Type: {}", status.message);
    status
}

fn operations(bytes: &Bytes) -> Result<Tree, Status> {
    let tree = Tree::parse(bytes).map_err(|e| undecodable(&e))?;
    if tree.is_list() {
        return Ok(tree);
    }
    let found = tree.type_word();
    Err(undecodable(&format!("expected a list of operations, found {found}")))
}

fn patch_object(bytes: &Bytes) -> Result<Body, Status> {
    let (tree, duplicates) = Tree::parse_strict(bytes).map_err(|e| undecodable(&e))?;
    if !tree.is_map() {
        return Err(undecodable(&format!("expected an object, found {}", tree.type_word())));
    }
    Ok(Body { tree, duplicates: duplicates.into_iter().map(|Duplicate(path)| path).collect() })
}

/// Clients send JSON under the YAML type; reading it as JSON is faster and finds duplicate keys.
fn applied(bytes: &Bytes) -> Result<Body, Status> {
    let looks_like_json = bytes.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'{');
    let json = if looks_like_json { body::decode(Media::Json, bytes).ok() } else { None };
    match json {
        Some(body) => Ok(body),
        None => body::decode(Media::Yaml, bytes).map_err(|e| undecodable(&e.0)),
    }
}

fn undecodable(why: &dyn std::fmt::Display) -> Status {
    Status::bad_request(format!("error decoding patch: {why}"))
}
