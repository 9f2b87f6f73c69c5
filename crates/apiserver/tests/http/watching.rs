//! Watch streams over a real socket.

use std::io::{BufReader, Read, Write};

use muster_tree::Tree;

use super::harness::{TestServer, read_chunk, read_head};

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A watch that is read line by line.
struct Lines<R> {
    reader: R,
    text: Vec<u8>,
}

impl<R: std::io::BufRead> Lines<R> {
    fn next(&mut self) -> Option<Tree> {
        loop {
            if let Some(end) = self.text.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.text.drain(..=end).collect();
                return Some(Tree::parse(&line).unwrap());
            }
            self.text.extend(read_chunk(&mut self.reader)?);
        }
    }

    fn expect(&mut self, kind: &str, name: &str) -> Tree {
        let event = self.next().expect("the stream goes on");
        assert_eq!(event.str_at(&["type"]), kind, "{event}");
        if !name.is_empty() {
            assert_eq!(event.str_at(&["object", "metadata", "name"]), name, "{event}");
        }
        event
    }
}

fn watch(world: &TestServer, query: &str, accept: &str) -> Lines<impl std::io::BufRead + use<>> {
    let mut stream = world.connect(false);
    let head = format!(
        "GET {CONFIGMAPS}?watch=1&{query} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
         Accept: {accept}\r\nAccept-Encoding: gzip\r\n\r\n",
        world.token
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    let (code, headers) = read_head(&mut reader);
    assert_eq!(code, 200);
    assert!(headers.contains(&("content-type".to_owned(), "application/json".to_owned())), "{headers:?}");
    assert!(!headers.iter().any(|(name, _)| name == "content-encoding"), "a watch is never compressed");
    Lines { reader, text: Vec::new() }
}

fn make(world: &TestServer, name: &str, label: &str) {
    let body = format!(r#"{{"metadata":{{"name":"{name}","labels":{{"l":"{label}"}}}}}}"#);
    assert_eq!(world.json("POST", CONFIGMAPS, &body).code, 201);
}

#[test]
fn initial_objects_come_first_then_changes() {
    let world = TestServer::new();
    make(&world, "a", "x");
    let mut lines = watch(&world, "labelSelector=l%3Dx", "application/json");
    lines.expect("ADDED", "a");
    make(&world, "b", "x");
    make(&world, "other", "y");
    lines.expect("ADDED", "b");
    let merge = [("Content-Type", "application/merge-patch+json")];
    world.call("PATCH", &format!("{CONFIGMAPS}/a"), &merge, br#"{"data":{"k":"v"}}"#);
    lines.expect("MODIFIED", "a");
    world.call("PATCH", &format!("{CONFIGMAPS}/b"), &merge, br#"{"metadata":{"labels":{"l":"y"}}}"#);
    lines.expect("DELETED", "b");
    world.call("DELETE", &format!("{CONFIGMAPS}/a"), &[], b"");
    lines.expect("DELETED", "a");
}

#[test]
fn a_stream_ends_cleanly_at_its_timeout() {
    let world = TestServer::new();
    let mut lines = watch(&world, "timeoutSeconds=1&fieldSelector=metadata.name%3Dnone", "application/json");
    assert_eq!(lines.next(), None);
}

#[test]
fn a_streaming_list_ends_with_a_bookmark() {
    let world = TestServer::new();
    make(&world, "a", "x");
    let query =
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&labelSelector=l";
    let mut lines = watch(&world, query, "application/json");
    lines.expect("ADDED", "a");
    let end = lines.expect("BOOKMARK", "");
    let meta = end.at(&["object", "metadata"]).unwrap();
    assert_eq!(meta.str_at(&["annotations", "k8s.io/initial-events-end"]), "true");
    assert_eq!(meta.str_at(&["resourceVersion"]), world.engine.revision().to_string());
    assert_eq!(end.str_at(&["object", "kind"]), "ConfigMap");
}

#[test]
fn events_carry_tables_and_metadata() {
    let world = TestServer::new();
    make(&world, "a", "x");
    make(&world, "b", "x");
    let mut lines = watch(&world, "labelSelector=l", "application/json;as=Table;v=v1;g=meta.k8s.io");
    let first = lines.expect("ADDED", "");
    assert_eq!(first.str_at(&["object", "kind"]), "Table");
    assert!(!first.items_at(&["object", "columnDefinitions"]).is_empty());
    let second = lines.expect("ADDED", "");
    assert_eq!(
        second.at(&["object", "columnDefinitions"]),
        Some(&Tree::Null),
        "column definitions are sent once"
    );
    let accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let mut lines = watch(&world, "labelSelector=l", accept);
    let event = lines.expect("ADDED", "a");
    assert_eq!(event.str_at(&["object", "kind"]), "PartialObjectMetadata");
}

#[test]
fn an_expired_resource_version_is_an_error_event() {
    let world = TestServer::new();
    // More changes than history must keep, then a compaction.
    make(&world, "a", "x");
    let merge = [("Content-Type", "application/merge-patch+json")];
    for n in 0..300 {
        let patch = format!(r#"{{"data":{{"k":"{n}"}}}}"#);
        world.call("PATCH", &format!("{CONFIGMAPS}/a"), &merge, patch.as_bytes());
    }
    world.engine.store().compact();
    let mut lines = watch(&world, "resourceVersion=1", "application/json");
    let event = lines.expect("ERROR", "");
    assert_eq!(event.int_at(&["object", "code"]), Some(410));
    assert_eq!(event.str_at(&["object", "reason"]), "Expired");
    assert!(event.str_at(&["object", "message"]).contains("too old resource version: 1 ("), "{event}");
    assert_eq!(lines.next(), None);
}

#[test]
fn stopping_the_server_ends_the_streams() {
    let world = TestServer::new();
    let mut lines = watch(&world, "labelSelector=none", "application/json");
    drop(world);
    assert_eq!(lines.next(), None);
}

/// A frame of the server: opcode and payload. Server frames are not masked.
fn read_frame(reader: &mut impl Read) -> (u8, Vec<u8>) {
    let mut head = [0; 2];
    reader.read_exact(&mut head).unwrap();
    let mut length = u64::from(head[1]);
    if length == 126 {
        let mut more = [0; 2];
        reader.read_exact(&mut more).unwrap();
        length = u64::from(u16::from_be_bytes(more));
    }
    let mut payload = Vec::new();
    reader.take(length).read_to_end(&mut payload).unwrap();
    (head[0], payload)
}

const TEXT: u8 = 0x81;
const PONG: u8 = 0x8a;
const CLOSE: u8 = 0x88;

#[test]
fn a_websocket_watch_ends_when_the_client_closes_it() {
    let world = TestServer::new();
    make(&world, "a", "x");
    let mut stream = world.connect(false);
    let head = format!(
        "GET {CONFIGMAPS}?watch=1&labelSelector=l%3Dx HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
         Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nOrigin: https://localhost\r\n\r\n",
        world.token
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    let (code, headers) = read_head(&mut reader);
    assert_eq!(code, 101, "{headers:?}");
    let accept = ("sec-websocket-accept".to_owned(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=".to_owned());
    assert!(headers.contains(&accept), "{headers:?}");
    let expect = |reader: &mut BufReader<_>, name: &str| {
        let (kind, payload) = read_frame(reader);
        let event = Tree::parse(&payload).unwrap();
        assert_eq!((kind, event.str_at(&["object", "metadata", "name"])), (TEXT, name), "{event}");
        assert_eq!(payload.last(), Some(&b'\n'), "a line, as in a plain watch");
    };
    expect(&mut reader, "a");
    make(&world, "b", "x");
    expect(&mut reader, "b");
    // Client frames are masked; a zero mask changes nothing.
    reader.get_mut().write_all(&[0x89, 0x80, 0, 0, 0, 0]).unwrap();
    assert_eq!(read_frame(&mut reader).0, PONG, "a ping is answered");
    reader.get_mut().write_all(&[CLOSE, 0x82, 0, 0, 0, 0, 0x03, 0xe8]).unwrap();
    assert_eq!(read_frame(&mut reader), (CLOSE, vec![0x03, 0xe8]), "the close is confirmed");
}

#[test]
fn a_websocket_without_origin_or_key_is_rejected() {
    let world = TestServer::new();
    let all = [
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("Origin", "https://localhost"),
    ];
    let path = format!("{CONFIGMAPS}?watch=1");
    for (says, missing, code) in [
        ("no version", "Sec-WebSocket-Version", 400),
        ("no key", "Sec-WebSocket-Key", 400),
        ("no origin", "Origin", 403),
    ] {
        let headers: Vec<_> = all.iter().copied().filter(|(name, _)| *name != missing).collect();
        assert_eq!(world.call("GET", &path, &headers, b"").code, code, "{says}");
    }
    let two = [&all[..], &[("Sec-WebSocket-Protocol", "a, b")]].concat();
    assert_eq!(world.call("GET", &path, &two, b"").code, 400, "two subprotocols");
}

#[test]
fn protobuf_events_are_length_prefixed() {
    let world = TestServer::new();
    make(&world, "a", "x");
    let path = format!("{CONFIGMAPS}?watch=1&timeoutSeconds=1&labelSelector=l%3Dx");
    let accept = ("Accept", "application/vnd.kubernetes.protobuf");
    let answer = world.call("GET", &path, &[accept], b"");
    assert_eq!(answer.header("content-type"), "application/vnd.kubernetes.protobuf;stream=watch");
    let (length, event) = answer.body.split_at(4);
    assert_eq!(u32::from_be_bytes(length.try_into().unwrap()) as usize, event.len());
    let (kind, object) = muster_schema::proto::decode_event(event).unwrap();
    assert_eq!((kind.as_str(), object.tree.str_at(&["metadata", "name"])), ("ADDED", "a"));
}

#[test]
fn watches_do_not_support_yaml() {
    let world = TestServer::new();
    let answer = world.call("GET", &format!("{CONFIGMAPS}?watch=1"), &[("Accept", "application/yaml")], b"");
    assert_eq!(answer.code, 406);
    assert!(answer.text().contains("application/json;stream=watch"), "{}", answer.text());
}
