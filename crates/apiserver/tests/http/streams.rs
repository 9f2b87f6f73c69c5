//! Pod log, exec, attach and port-forward, proxied to kubelets.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::TokioIo;
use muster_apiserver::http::kubelet_location::{KubeletBody, KubeletFuture, KubeletHandler};
use muster_apiserver::http::limits::RequestLimits;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use crate::harness::{TestServer, read_chunk, read_head};

const UPGRADE: [(&str, &str); 2] = [("Connection", "Upgrade"), ("Upgrade", "websocket")];

/// An in-process kubelet: reports the request, and echoes streams.
struct Echo;

fn says(code: u16, text: String) -> Response<KubeletBody> {
    let body = Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync();
    let mut answer = Response::new(body);
    *answer.status_mut() = StatusCode::from_u16(code).unwrap();
    answer
}

/// Sends one chunk and then blocks.
fn endless() -> Response<KubeletBody> {
    let first = futures::stream::once(async { Ok(Frame::data(Bytes::from_static(b"one\n"))) });
    let all = futures::StreamExt::chain(first, futures::stream::pending());
    Response::new(StreamBody::new(all).boxed_unsync())
}

impl KubeletHandler for Echo {
    fn has_node(&self, node: &str) -> bool {
        node == "here"
    }

    fn serve(&self, _node: &str, mut request: hyper::Request<Incoming>) -> KubeletFuture {
        Box::pin(async move {
            assert!(!request.headers().contains_key("authorization"), "tokens go no further");
            let asked = request.uri().to_string();
            if asked.contains("follow") {
                return endless();
            }
            if asked.contains("/bad") {
                let code = if asked.contains("/bad404") { 404 } else { 400 };
                return says(code, "the node's words".to_owned());
            }
            if !request.headers().contains_key("upgrade") {
                return says(200, asked);
            }
            let upgrade = hyper::upgrade::on(&mut request);
            tokio::spawn(async move {
                let mut stream = TokioIo::new(upgrade.await.unwrap());
                let (mut from, mut to) = tokio::io::split(&mut stream);
                let _ = tokio::io::copy(&mut from, &mut to).await;
            });
            let mut answer = says(101, String::new());
            answer.headers_mut().insert("connection", "Upgrade".parse().unwrap());
            answer.headers_mut().insert("upgrade", "websocket".parse().unwrap());
            answer
        })
    }
}

fn world() -> TestServer {
    TestServer::with(RequestLimits::default(), Some(Arc::new(Echo)))
}

fn pod(world: &TestServer, name: &str, node: &str, containers: &[&str]) {
    let containers: Vec<String> =
        containers.iter().map(|c| format!(r#"{{"name":"{c}","image":"i"}}"#)).collect();
    let body = format!(
        r#"{{"metadata":{{"name":"{name}"}},"spec":{{"nodeName":"{node}","containers":[{}]}}}}"#,
        containers.join(",")
    );
    let made = world.json("POST", "/api/v1/namespaces/default/pods", &body);
    assert_eq!(made.code, 201, "{}", made.text());
}

fn node(world: &TestServer, name: &str, annotations: &str, status: &str) {
    let body = format!(r#"{{"metadata":{{"name":"{name}","annotations":{{{annotations}}}}}}}"#);
    assert_eq!(world.json("POST", "/api/v1/nodes", &body).code, 201);
    let patch = format!(r#"{{"status":{status}}}"#);
    let headers = [("Content-Type", "application/merge-patch+json")];
    let path = format!("/api/v1/nodes/{name}/status");
    assert_eq!(world.call("PATCH", &path, &headers, patch.as_bytes()).code, 200);
}

fn path(rest: &str) -> String {
    format!("/api/v1/namespaces/default/pods/{rest}")
}

#[test]
fn kubelet_paths_and_queries() {
    let world = world();
    pod(&world, "p", "here", &["a"]);
    let answer = world.get(&path("p/log?tailLines=3&timestamps=true"));
    assert_eq!((answer.code, answer.header("content-type")), (200, "text/plain"));
    assert_eq!(answer.text(), "/containerLogs/default/p/a?timestamps=true&tailLines=3");
}

#[test]
fn kubelet_errors_are_converted() {
    let world = world();
    pod(&world, "bad", "here", &["a"]);
    pod(&world, "bad404", "here", &["a"]);
    world.get(&path("bad/log")).assert_refused("400", 400, "BadRequest", "the node's words");
    let answer = world.get(&path("bad404/log"));
    let words = "the server could not find the requested resource ( pods/log bad404)";
    answer.assert_refused("404", 404, "NotFound", words);
    let answer = world.call("GET", &path("bad/exec?command=x"), &UPGRADE, b"");
    assert_eq!((answer.code, answer.text()), (400, "the node's words"), "handed on as it is");
}

#[test]
fn invalid_requests_are_rejected_before_the_kubelet_is_called() {
    let world = world();
    pod(&world, "one", "here", &["a"]);
    pod(&world, "two", "here", &["a", "b"]);
    pod(&world, "unplaced", "", &["a"]);
    pod(&world, "lost", "gone", &["a"]);
    pod(&world, "mute", "mute", &["a"]);
    pod(&world, "played", "played", &["a"]);
    node(&world, "mute", "", "{}");
    let addresses = r#"{"addresses":[{"type":"InternalIP","address":"10.9.8.7"}]}"#;
    node(&world, "played", r#""muster.dev/simulated":"x""#, addresses);
    for (asked, code, reason, words) in [
        ("missing/log", 404, "NotFound", "pods \"missing\" not found"),
        ("missing/log?tailLines=-1", 422, "Invalid", "tailLines: Invalid value: -1"),
        (
            "two/log",
            400,
            "BadRequest",
            "a container name must be specified for pod two, choose one of: [a b]",
        ),
        ("two/exec?container=c", 400, "BadRequest", "container c is not valid for pod two"),
        ("unplaced/exec?command=x", 400, "BadRequest", "pod unplaced does not have a host assigned"),
        ("lost/log", 404, "NotFound", "pods \"gone\" not found"),
        ("mute/log", 500, "", "no preferred addresses found; known addresses: []"),
        ("mute/exec", 500, "", "no preferred addresses found; known addresses: []"),
        ("one/exec?command=x", 400, "BadRequest", "Upgrade request required"),
        ("one/portforward", 400, "BadRequest", "Upgrade request required"),
        (
            "played/log",
            500,
            "",
            "Get \"https://10.9.8.7:10250/containerLogs/default/played/a\": dial tcp 10.9.8.7:10250: node played \
             is simulated: its pods run no processes",
        ),
    ] {
        world.get(&path(asked)).assert_refused(asked, code, reason, words);
    }
    let exec = world.call("GET", &path("played/exec?command=x"), &UPGRADE, b"");
    exec.assert_refused(
        "exec",
        500,
        "",
        "error dialing backend: dial tcp 10.9.8.7:10250: node played is simulated",
    );
    assert_eq!(world.get(&path("unplaced/log")).code, 204);
    assert_eq!(world.call("POST", &path("one/log"), &[], b"").code, 405);
}

/// Requests an upgrade; returns the upgraded connection.
fn upgraded(world: &TestServer, asked: &str) -> impl Read + Write + use<> {
    let mut stream = world.connect(true);
    let host = world.address;
    let head = format!(
        "GET {} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        path(asked)
    );
    stream.write_all(head.as_bytes()).unwrap();
    // Byte by byte: what follows the head belongs to the stream.
    let mut seen = Vec::new();
    while !seen.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        seen.push(byte[0]);
    }
    let (code, headers) = read_head(&mut seen.as_slice());
    assert_eq!(code, 101);
    assert!(headers.contains(&("upgrade".to_owned(), "websocket".to_owned())), "{headers:?}");
    stream
}

fn say_and_hear(stream: &mut (impl Read + Write)) {
    stream.write_all(b"hello").unwrap();
    let mut heard = [0; 5];
    stream.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"hello");
}

#[test]
fn a_stream_is_proxied_to_an_in_process_kubelet() {
    let world = world();
    pod(&world, "p", "here", &["a"]);
    say_and_hear(&mut upgraded(&world, "p/exec?command=x&stdin=true"));
}

#[test]
fn a_followed_log_holds_a_permit_and_ends_on_shutdown() {
    let mut world =
        TestServer::with(RequestLimits { streams: 1, ..RequestLimits::default() }, Some(Arc::new(Echo)));
    pod(&world, "p", "here", &["a"]);
    let mut stream = world.connect(true);
    let head = format!("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", path("p/log?follow=true"), world.address);
    stream.write_all(head.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    assert_eq!(read_head(&mut reader).0, 200);
    assert_eq!(read_chunk(&mut reader).as_deref(), Some(&b"one\n"[..]));
    let refused = world.get(&path("p/log"));
    refused.assert_refused("the only place is taken", 429, "TooManyRequests", "try again later");
    world.stop();
    assert_eq!(read_chunk(&mut reader), None, "a clean end");
}

/// A remote kubelet that serves one request: `answer`, then echoes.
fn away(authority: &str, answer: &'static str) -> (u16, JoinHandle<String>) {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["n".to_owned()]).unwrap().self_signed(&key).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let clients =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().unwrap();
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients)
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der())),
        )
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = std::thread::spawn(move || {
        let (socket, _) = listener.accept().unwrap();
        let tls = ServerConnection::new(Arc::new(config)).unwrap();
        serve_once(StreamOwned::new(tls, socket), answer)
    });
    (port, serving)
}

fn serve_once(stream: StreamOwned<ServerConnection, TcpStream>, answer: &str) -> String {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        reader.read_line(&mut head).unwrap();
    }
    reader.get_mut().write_all(answer.as_bytes()).unwrap();
    reader.get_mut().flush().unwrap();
    let mut bytes = [0; 5];
    while let Ok(read @ 1..) = reader.read(&mut bytes) {
        reader.get_mut().write_all(&bytes[..read]).unwrap();
        reader.get_mut().flush().unwrap();
    }
    head
}

fn at(port: u16) -> String {
    format!(
        r#"{{"addresses":[{{"type":"InternalIP","address":"127.0.0.1"}}],"daemonEndpoints":{{"kubeletEndpoint":{{"Port":{port}}}}}}}"#
    )
}

#[test]
fn logs_are_proxied_from_a_remote_kubelet() {
    let world = world();
    let (port, serving) = away(&world.authority, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlog\n");
    node(&world, "away", "", &at(port));
    pod(&world, "p", "away", &["a"]);
    let answer = world.get(&path("p/log?previous=true"));
    assert_eq!((answer.code, answer.text()), (200, "log\n"));
    let asked = serving.join().unwrap();
    assert!(asked.starts_with("GET /containerLogs/default/p/a?previous=true HTTP/1.1\r\n"), "{asked}");
    assert!(!asked.to_ascii_lowercase().contains("authorization"), "{asked}");
}

#[test]
fn a_stream_is_proxied_to_a_remote_kubelet() {
    let world = world();
    let switch = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let (port, serving) = away(&world.authority, switch);
    node(&world, "away", "", &at(port));
    pod(&world, "p", "away", &["a"]);
    let mut stream = upgraded(&world, "p/attach?stdout=true");
    say_and_hear(&mut stream);
    drop(stream);
    let asked = serving.join().unwrap();
    assert!(asked.starts_with("GET /attach/default/p/a?output=1 HTTP/1.1\r\n"), "{asked}");
}

#[test]
fn an_unreachable_kubelet() {
    let world = world();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    node(&world, "away", "", &at(port));
    pod(&world, "p", "away", &["a"]);
    let refused = format!("dial tcp 127.0.0.1:{port}: connect: connection refused");
    let words = format!("Get \"https://127.0.0.1:{port}/containerLogs/default/p/a\": {refused}");
    world.get(&path("p/log")).assert_refused("log", 500, "", &words);
    let answer = world.call("GET", &path("p/exec?command=x"), &UPGRADE, b"");
    answer.assert_refused("exec", 500, "", &format!("error dialing backend: {refused}"));
}
