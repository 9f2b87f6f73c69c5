//! Invalid input: every request gets a Status, and the server keeps serving.

use std::io::Write;

use super::harness::TestServer;

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

/// (case, media type, body, code, reason, part of the message)
type Case<'a> = (&'a str, &'a str, &'a [u8], u16, &'a str, &'a str);

#[test]
fn invalid_bodies() {
    let world = TestServer::new();
    let huge = vec![b' '; (3 << 20) + 1];
    let deep = format!("{}1{}", "{\"a\":".repeat(10_001), "}".repeat(10_001));
    let json = "application/json";
    let unrecognized = "the object provided is unrecognized (must be of type ConfigMap)";
    let cases: [Case<'_>; 12] = [
        ("truncated", json, b"{\"metadata\":{\"na", 400, "BadRequest", unrecognized),
        ("empty", json, b"", 400, "BadRequest", unrecognized),
        ("a list", json, b"[]", 400, "BadRequest", unrecognized),
        ("text", json, b"\"x\"", 400, "BadRequest", unrecognized),
        ("rubbish after the end", json, b"{} {}", 400, "BadRequest", unrecognized),
        ("huge", json, &huge, 413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728"),
        ("deep", json, deep.as_bytes(), 400, "BadRequest", unrecognized),
        (
            "not UTF-8 in a name",
            json,
            b"{\"metadata\":{\"name\":\"a\xff\"}}",
            422,
            "Invalid",
            "metadata.name",
        ),
        (
            "not UTF-8 in YAML",
            "application/yaml",
            b"metadata: {name: a\xff}",
            400,
            "BadRequest",
            unrecognized,
        ),
        (
            "an unknown media type",
            "text/plain",
            b"{}",
            415,
            "UnsupportedMediaType",
            "the body of the request was in an unknown format - accepted media types include: application/json",
        ),
        (
            "CBOR",
            "application/cbor",
            b"\xd9\xd9\xf7\xa0",
            415,
            "UnsupportedMediaType",
            "accepted media types",
        ),
        ("no protobuf", "application/vnd.kubernetes.protobuf", b"xx", 400, "BadRequest", unrecognized),
    ];
    for (says, media, body, code, reason, words) in cases {
        let answer = world.call("POST", CONFIGMAPS, &[("Content-Type", media)], body);
        answer.assert_refused(says, code, reason, words);
        assert_eq!(world.get("/healthz").text(), "ok", "alive after: {says}");
    }
}

#[test]
fn an_endless_body_is_cut_off_at_the_limit() {
    let world = TestServer::new();
    let mut stream = world.connect(false);
    let head = format!(
        "POST {CONFIGMAPS} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
        world.address, world.token
    );
    stream.write_all(head.as_bytes()).unwrap();
    let chunk = [b"10000\r\n".to_vec(), vec![b' '; 0x10000], b"\r\n".to_vec()].concat();
    let mut sent = 0;
    while sent < 64 && stream.write_all(&chunk).is_ok() {
        sent += 1;
    }
    assert!(sent >= 48, "three MiB may be sent");
    assert_eq!(world.get("/healthz").text(), "ok");
}

#[test]
fn a_disconnect_in_the_middle_of_a_request_is_harmless() {
    let world = TestServer::new();
    for _ in 0..20 {
        let mut stream = world.connect(false);
        let head = format!(
            "POST {CONFIGMAPS} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Length: 1000\r\n\r\n{{",
            world.address, world.token
        );
        stream.write_all(head.as_bytes()).unwrap();
    }
    let mut rubbish = std::net::TcpStream::connect(world.address).unwrap();
    rubbish.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!(world.get("/healthz").text(), "ok");
}

#[test]
fn field_validation_modes() {
    let world = TestServer::new();
    let body = r#"{"metadata":{"name":"a"},"foo":1,"data":{"k":"1","k":"2"}}"#;
    let path = |mode: &str| format!("{CONFIGMAPS}?dryRun=All&fieldValidation={mode}");
    let strict = world.json("POST", &path("Strict"), body);
    strict.assert_refused("strict", 400, "BadRequest", "strict decoding error: ");
    strict.assert_refused("strict", 400, "BadRequest", "unknown field \"foo\"");
    strict.assert_refused("strict", 400, "BadRequest", "duplicate field \"data.k\"");
    let warned = world.json("POST", &path("Warn"), body);
    assert_eq!(warned.code, 201);
    assert_eq!(warned.header("warning"), "299 - \"unknown field \\\"foo\\\"\"");
    let ignored = world.json("POST", &path("Ignore"), body);
    assert_eq!((ignored.code, ignored.header("warning")), (201, ""));
    assert_eq!(ignored.tree().get("foo"), None, "it is dropped in every mode");
}

#[test]
fn mismatched_names_and_namespaces() {
    let world = TestServer::new();
    let body = r#"{"metadata":{"name":"a","namespace":"other"}}"#;
    world.json("POST", CONFIGMAPS, body).assert_refused(
        "the body is for another namespace",
        400,
        "BadRequest",
        "the namespace of the provided object does not match the namespace sent on the request",
    );
    world
        .json("POST", "/api/v1/namespaces/nowhere/configmaps", r#"{"metadata":{"name":"a"}}"#)
        .assert_refused("the namespace is not there", 404, "NotFound", "namespaces \"nowhere\" not found");
    assert_eq!(world.json("POST", CONFIGMAPS, r#"{"metadata":{"name":"a"}}"#).code, 201);
    world.json("PUT", &format!("{CONFIGMAPS}/a"), r#"{"metadata":{"name":"b"}}"#).assert_refused(
        "the body has another name",
        400,
        "BadRequest",
        "the name of the object (b) does not match the name on the URL (a)",
    );
}

#[test]
fn invalid_patches() {
    let world = TestServer::new();
    assert_eq!(world.json("POST", CONFIGMAPS, r#"{"metadata":{"name":"a"}}"#).code, 201);
    let path = format!("{CONFIGMAPS}/a");
    let bad = "BadRequest";
    for (says, media, query, body, code, reason, words) in [
        ("no type", "application/json", "", "{}", 415, "UnsupportedMediaType", "415: Unsupported Media Type"),
        (
            "CBOR",
            "application/apply-patch+cbor",
            "",
            "{}",
            415,
            "UnsupportedMediaType",
            "Unsupported Media Type",
        ),
        ("half a patch", "application/merge-patch+json", "", "{", 400, bad, "invalid JSON patch"),
        ("a list to merge", "application/merge-patch+json", "", "[]", 400, bad, "error decoding patch"),
        (
            "an object of operations",
            "application/json-patch+json",
            "",
            "{}",
            400,
            bad,
            "error decoding patch",
        ),
        (
            "a list to merge",
            "application/strategic-merge-patch+json",
            "",
            "[]",
            400,
            bad,
            "cannot unmarshal array",
        ),
        (
            "half a configuration",
            "application/apply-patch+yaml",
            "?fieldManager=m",
            "{",
            400,
            bad,
            "error decoding",
        ),
        (
            "apply without a manager",
            "application/apply-patch+yaml",
            "",
            "{}",
            422,
            "Invalid",
            "fieldManager: Required value: is required for apply patch",
        ),
        (
            "force outside apply",
            "application/merge-patch+json",
            "?force=true",
            "{}",
            422,
            "Invalid",
            "force: Forbidden: may not be specified for non-apply patch",
        ),
    ] {
        let answer =
            world.call("PATCH", &format!("{path}{query}"), &[("Content-Type", media)], body.as_bytes());
        answer.assert_refused(says, code, reason, words);
    }
}

#[test]
fn invalid_options() {
    let world = TestServer::new();
    for (says, method, query, code, reason, words) in [
        ("a limit that is no number", "GET", "limit=x", 400, "BadRequest", "strconv.ParseInt: parsing \"x\""),
        ("a timeout that is no number", "GET", "timeoutSeconds=x", 400, "BadRequest", "strconv.ParseInt"),
        ("a timeout that is no duration", "GET", "timeout=x", 400, "BadRequest", "invalid timeout specified"),
        (
            "an illegal label selector",
            "GET",
            "labelSelector=a%20b%20c",
            400,
            "BadRequest",
            "unable to parse requirement",
        ),
        ("an illegal field selector", "GET", "fieldSelector=x", 400, "BadRequest", "invalid selector"),
        ("an unknown field", "GET", "fieldSelector=spec.x%3Dy", 400, "BadRequest", "spec.x"),
        ("a revision that is no number", "GET", "resourceVersion=x", 400, "BadRequest", "nvalid"),
        (
            "match without a version",
            "GET",
            "resourceVersionMatch=Exact",
            422,
            "Invalid",
            "resourceVersionMatch",
        ),
        ("a broken continue", "GET", "continue=%21", 400, "BadRequest", "continue key is not valid"),
        (
            "a grace that is no number",
            "DELETE",
            "gracePeriodSeconds=x",
            400,
            "BadRequest",
            "strconv.ParseInt",
        ),
        (
            "an unknown policy",
            "DELETE",
            "propagationPolicy=x",
            422,
            "Invalid",
            "propagationPolicy: Unsupported value",
        ),
        ("an unknown dry run", "DELETE", "dryRun=x", 422, "Invalid", "supported values: \"All\""),
    ] {
        let answer = world.call(method, &format!("{CONFIGMAPS}?{query}"), &[], b"");
        answer.assert_refused(says, code, reason, words);
    }
}

#[test]
fn unknown_paths_and_methods() {
    let world = TestServer::new();
    let unknown = "the server could not find the requested resource";
    let denied = "the server does not allow this method on the requested resource";
    for (method, path, code, reason, words) in [
        ("GET", "/api/v2/pods", 404, "NotFound", unknown),
        ("GET", "/api/v2", 404, "NotFound", unknown),
        ("GET", "/apis/batch/v9", 404, "NotFound", unknown),
        ("GET", "/api/v1/nosuch", 404, "NotFound", unknown),
        ("GET", "/api/v1/configmaps/a", 404, "NotFound", unknown),
        ("GET", "/api/v1/namespaces/default/nodes", 404, "NotFound", unknown),
        ("GET", "/api/v1/namespaces/default/configmaps/a/status", 404, "NotFound", unknown),
        ("GET", "/api/v1/namespaces/default/configmaps/a", 404, "NotFound", "configmaps \"a\" not found"),
        ("GET", "/apis/batch/v1/namespaces/default/jobs/a", 404, "NotFound", "jobs.batch \"a\" not found"),
        ("POST", "/api/v1/namespaces/default/configmaps/a", 405, "MethodNotAllowed", denied),
        ("PUT", "/api/v1/namespaces/default/configmaps", 405, "MethodNotAllowed", denied),
        ("DELETE", "/api/v1/configmaps", 405, "MethodNotAllowed", denied),
        ("POST", "/version", 405, "MethodNotAllowed", denied),
        ("OPTIONS", "/api/v1/pods", 405, "MethodNotAllowed", denied),
        ("BREW", "/api/v1/pods", 405, "MethodNotAllowed", denied),
        ("GET", "/api/v1/nodes/%ff", 400, "BadRequest", "percent-encoded"),
    ] {
        world.call(method, path, &[], b"").assert_refused(&format!("{method} {path}"), code, reason, words);
    }
    for path in ["/foo", "/apis/nosuch/v1/things", "/apis/nosuch", "/readyz/nosuch"] {
        let answer = world.get(path);
        assert_eq!((answer.code, answer.text()), (404, "404 page not found\n"), "{path}");
    }
    assert_eq!(world.call("HEAD", "/api/v1/namespaces/default", &[], b"").code, 405);
}

#[test]
fn unsupported_representations() {
    let world = TestServer::new();
    for (accept, words) in [
        ("text/html", "406: Not Acceptable"),
        ("application/json;as=Foo;v=v1;g=meta.k8s.io", "only the following media types are accepted"),
        ("application/cbor", "406: Not Acceptable"),
    ] {
        let answer = world.call("GET", CONFIGMAPS, &[("Accept", accept)], b"");
        answer.assert_refused(accept, 406, "NotAcceptable", words);
    }
    let one = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    world.call("GET", CONFIGMAPS, &[("Accept", one)], b"").assert_refused(
        "one of many",
        406,
        "NotAcceptable",
        "the requested object is a list",
    );
}

#[test]
fn oversized_headers_are_rejected() {
    let world = TestServer::new();
    let long = "x".repeat(2 << 20);
    let mut stream = world.connect(false);
    let head = format!("GET /version HTTP/1.1\r\nHost: localhost\r\nX-Long: {long}\r\n\r\n");
    let _ = stream.write_all(head.as_bytes());
    assert_eq!(world.get("/healthz").text(), "ok");
}
