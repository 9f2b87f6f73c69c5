//! Logs, commands, attaching and ports of pods: found here, answered by the node.
//!
//! # Invariants
//!
//! - These requests have places of their own, and keep them until the last byte; when the server stops they end.
//! - The node sees who we are, not who asks: tokens of clients go no further.

use http::header::{AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, UPGRADE};
use http::{Response, Uri};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use muster_tree::Text;

use super::answer::{self, AnswerBody, Held, Reply};
use super::ask::{Ask, Part};
use super::away::Stay;
use super::context::{Request, Shared};
use super::limits::Load;
use super::nodes::{self, NodeBody, Road};
use crate::request::{ListOptions, Target};
use crate::status::{Details, Status};

/// The most that is read of a node's words when it refuses.
const REFUSAL_BYTES_MAX: usize = 50_000;

/// Answers a request about a part of a pod that streams. `carrier` has the body and the connection of the request.
///
/// # Errors
/// What a real server refuses, and what the node refuses about logs.
pub async fn answer(
    shared: &Shared,
    request: &Request,
    target: &Target,
    part: Part,
    carrier: hyper::Request<Incoming>,
) -> Result<Reply, Status> {
    let ask = Ask::of(part, &target.name, &request.query)?;
    let whole = Target { subresource: Text::new(), ..target.clone() };
    let pod = shared.engine.get(&whole, &ListOptions::default())?.tree;
    let location = ask.location(&pod)?;
    let node = pod.text_at(&["spec", "nodeName"]);
    if node.is_empty() {
        return unplaced(part, &target.name);
    }
    let road = nodes::road(shared, &node)?;
    if part != Part::Log && !upgrades(request) {
        return Err(Status::bad_request("Upgrade request required"));
    }
    let place = shared.limits.enter(Load::Stream)?;
    let stay = Stay { place, stop: shared.stop.clone() };
    let carrier = addressed(carrier, request, &location)?;
    let (response, stay) = match road {
        Road::Here(door) => (door.serve(&node, carrier).await, Some(stay)),
        Road::Away(address) => {
            let asked = shared.dialer.ask(&address, carrier, stay).await;
            asked.map_err(|why| unreached(part, &address.authority(), &location, &why))?
        }
        Road::Nowhere(address, why) => {
            let why = format!("dial tcp {}: {why}", address.authority());
            return Err(unreached(part, &address.authority(), &location, &why));
        }
    };
    if part == Part::Log && !response.status().is_success() {
        return Err(refusal(response, &target.name).await);
    }
    Ok(handed_on(part, response, stay))
}

/// A pod without a node has an empty log, and nothing to run commands in.
fn unplaced(part: Part, pod: &str) -> Result<Reply, Status> {
    if part != Part::Log {
        return Err(Status::bad_request(format!("pod {pod} does not have a host assigned")));
    }
    let mut reply = Response::new(AnswerBody::Full(None));
    *reply.status_mut() = http::StatusCode::NO_CONTENT;
    Ok(reply)
}

/// Whether a request wants its connection to change its protocol.
pub(super) fn upgrades(request: &Request) -> bool {
    let words = request.headers.get_all(CONNECTION).into_iter().filter_map(|value| value.to_str().ok());
    let mut words = words.flat_map(|value| value.split(','));
    request.headers.contains_key(UPGRADE) && words.any(|word| word.trim().eq_ignore_ascii_case("upgrade"))
}

fn addressed(
    mut carrier: hyper::Request<Incoming>,
    request: &Request,
    location: &str,
) -> Result<hyper::Request<Incoming>, Status> {
    let uri = location.parse::<Uri>().map_err(|error| Status::bad_request(error.to_string()))?;
    *carrier.uri_mut() = uri;
    *carrier.method_mut() = request.method.clone();
    *carrier.headers_mut() = request.headers.clone();
    carrier.headers_mut().remove(AUTHORIZATION);
    Ok(carrier)
}

/// As a real server says that it does not get through.
fn unreached(part: Part, authority: &str, location: &str, why: &str) -> Status {
    let message = match part {
        Part::Log => format!("Get \"https://{authority}{location}\": {why}"),
        Part::Exec | Part::Attach | Part::PortForward => format!("error dialing backend: {why}"),
    };
    Status::new(500, "", message)
}

/// What a node's refusal to show a log is to the client.
async fn refusal(response: Response<NodeBody>, pod: &str) -> Status {
    let code = response.status().as_u16();
    let body = Limited::new(response.into_body(), REFUSAL_BYTES_MAX).collect().await;
    let bytes = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (reason, message) = match code {
        400 => return Status::bad_request(text),
        500 => return Status::internal(text),
        401 => ("Unauthorized", "the server has asked for the client to provide credentials"),
        404 => ("NotFound", "the server could not find the requested resource"),
        422 => ("Invalid", "the server rejected our request due to an error in our request"),
        429 => (
            "TooManyRequests",
            "the server has received too many requests and has asked us to try again later",
        ),
        503 => ("ServiceUnavailable", "the server is currently unable to handle the request"),
        _ => ("InternalError", "the node has prevented the request from succeeding"),
    };
    let details = Details { name: pod.to_owned(), kind: "pods/log".to_owned(), ..Details::default() };
    Status { details, ..Status::new(code, reason, format!("{message} ( pods/log {pod})")) }
}

fn handed_on(part: Part, response: Response<NodeBody>, stay: Option<Stay>) -> Reply {
    let mut reply = response.map(|body| AnswerBody::Held(Box::new(Held::new(body, stay))));
    if part == Part::Log {
        let headers = reply.headers_mut();
        headers.remove(CONTENT_LENGTH);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        answer::no_cache(&mut reply);
    }
    reply
}
