//! Proxies `log`, `exec`, `attach` and `portforward` of pods to the kubelet of their node.
//!
//! # Invariants
//!
//! - These requests have an in-flight limit of their own, hold their permit until the last byte, and end on shutdown.
//! - The kubelet sees the server's identity: credentials of clients are never forwarded.

use http::header::{AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, UPGRADE};
use http::{Response, Uri};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use muster_tree::Text;

use super::kubelet_client::StreamGuard;
use super::kubelet_location::{self, KubeletBody, KubeletConnection};
use super::limits::InFlightClass;
use super::pod_subresource::{PodStreamOptions, PodSubresource};
use super::response::{self, HttpResponse, ProxiedBody, ResponseBody};
use super::server_state::{RequestHead, ServerState};
use crate::request::{ListOptions, ResourcePath};
use crate::status::{Status, StatusDetails};

/// Maximum size of a kubelet's error body.
const REFUSAL_BYTES_MAX: usize = 50_000;

/// Serves a streaming pod subresource. `carrier` has the body and the connection of the request.
///
/// # Errors
/// As kube-apiserver; for `log` also the kubelet's errors.
pub async fn answer(
    shared: &ServerState,
    request: &RequestHead,
    target: &ResourcePath,
    part: PodSubresource,
    carrier: hyper::Request<Incoming>,
) -> Result<HttpResponse, Status> {
    let ask = PodStreamOptions::of(part, &target.name, &request.query)?;
    // The pod itself: options may name only its containers.
    let whole = ResourcePath { subresource: Text::new(), ..target.clone() };
    let pod = shared.engine.get(&whole, &ListOptions::default())?.tree;
    let location = ask.location(&pod)?;
    let node = pod.text_at(&["spec", "nodeName"]);
    if node.is_empty() {
        return unplaced(part, &target.name);
    }
    let road = kubelet_location::locate(shared, &node)?;
    // Checked after the lookups: kube-apiserver reports a missing pod or container first.
    if part != PodSubresource::Log && !upgrades(request) {
        return Err(Status::bad_request("Upgrade request required"));
    }
    // The permit moves into the response body or the splicing task and lives as long as the stream.
    let place = shared.limits.acquire(InFlightClass::Stream)?;
    let stay = StreamGuard { place, stop: shared.stop.clone() };
    let carrier = addressed(carrier, request, &location)?;
    let (response, stay) = match road {
        KubeletConnection::InProcess(door) => (door.serve(&node, carrier).await, Some(stay)),
        KubeletConnection::Remote(address) => {
            let asked = shared.dialer.request(&address, carrier, stay).await;
            asked.map_err(|why| unreached(part, &address.authority(), &location, &why))?
        }
        KubeletConnection::Unreachable(address, why) => {
            let why = format!("dial tcp {}: {why}", address.authority());
            return Err(unreached(part, &address.authority(), &location, &why));
        }
    };
    if part == PodSubresource::Log && !response.status().is_success() {
        return Err(refusal(response, &target.name).await);
    }
    Ok(handed_on(part, response, stay))
}

/// The response for an unscheduled pod: an empty log, an error for anything else.
fn unplaced(part: PodSubresource, pod: &str) -> Result<HttpResponse, Status> {
    if part != PodSubresource::Log {
        return Err(Status::bad_request(format!("pod {pod} does not have a host assigned")));
    }
    let mut reply = Response::new(ResponseBody::Full(None));
    *reply.status_mut() = http::StatusCode::NO_CONTENT;
    Ok(reply)
}

/// Whether the request asks for a protocol upgrade.
pub(super) fn upgrades(request: &RequestHead) -> bool {
    let words = request.headers.get_all(CONNECTION).into_iter().filter_map(|value| value.to_str().ok());
    let mut words = words.flat_map(|value| value.split(','));
    request.headers.contains_key(UPGRADE) && words.any(|word| word.trim().eq_ignore_ascii_case("upgrade"))
}

fn addressed(
    mut carrier: hyper::Request<Incoming>,
    request: &RequestHead,
    location: &str,
) -> Result<hyper::Request<Incoming>, Status> {
    let uri = location.parse::<Uri>().map_err(|error| Status::bad_request(error.to_string()))?;
    *carrier.uri_mut() = uri;
    *carrier.method_mut() = request.method.clone();
    *carrier.headers_mut() = request.headers.clone();
    carrier.headers_mut().remove(AUTHORIZATION);
    Ok(carrier)
}

/// The error of a failed kubelet connection, worded as by kube-apiserver.
fn unreached(part: PodSubresource, authority: &str, location: &str, why: &str) -> Status {
    let message = match part {
        PodSubresource::Log => format!("Get \"https://{authority}{location}\": {why}"),
        PodSubresource::Exec | PodSubresource::Attach | PodSubresource::PortForward => {
            format!("error dialing backend: {why}")
        }
    };
    Status::new(500, "", message)
}

/// Converts a kubelet's error response for a log to the `Status` that client-go would produce.
async fn refusal(response: Response<KubeletBody>, pod: &str) -> Status {
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
    let details =
        StatusDetails { name: pod.to_owned(), kind: "pods/log".to_owned(), ..StatusDetails::default() };
    Status { details, ..Status::new(code, reason, format!("{message} ( pods/log {pod})")) }
}

fn handed_on(
    part: PodSubresource,
    response: Response<KubeletBody>,
    stay: Option<StreamGuard>,
) -> HttpResponse {
    let mut reply = response.map(|body| ResponseBody::Proxied(Box::new(ProxiedBody::new(body, stay))));
    if part == PodSubresource::Log {
        let headers = reply.headers_mut();
        headers.remove(CONTENT_LENGTH);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        response::no_cache(&mut reply);
    }
    reply
}
