//! Request bodies: read within a limit, then decoded by media type.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use muster_schema::spelled::json_word;
use muster_tree::{Duplicate, Tree};

use crate::request::{DuplicateKey, RequestBody};
use crate::status::Status;

/// Larger bodies are rejected with 413; kube-apiserver's limit.
pub const BODY_BYTES_MAX: usize = 3 << 20;
/// An oversized body is drained up to this limit before the connection is closed.
pub const DRAINED_BYTES_MAX: usize = 32 << 20;
/// Error messages quote at most this much of a malformed body.
const QUOTED_BYTES_MAX: usize = 30;
/// The Go type that kube-apiserver's messages name for the type metadata of a body.
const HEAD: &str =
    r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;

/// Accepted media types, as messages list them.
const KNOWN: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
/// Accepted media types for custom resources, which have no protobuf form.
const KNOWN_CUSTOM: &str = "application/json, application/yaml";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyMediaType {
    Json,
    Yaml,
    /// The Kubernetes protobuf envelope.
    Protobuf,
}

/// The reason why a body could not be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyDecodeError(pub String);

/// Reads a whole body. An oversized body is drained up to [`DRAINED_BYTES_MAX`]: a client that is still sending would
/// otherwise see a broken connection instead of the 413.
///
/// # Errors
/// 413 beyond [`BODY_BYTES_MAX`], 400 when the client stops sending.
pub async fn read(body: Incoming) -> Result<Bytes, Status> {
    read_within(body, BODY_BYTES_MAX).await
}

/// As [`read`], with another limit.
///
/// # Errors
/// 413 beyond the limit, 400 when the client stops sending.
pub async fn read_within(mut body: Incoming, bytes_max: usize) -> Result<Bytes, Status> {
    let mut whole = BytesMut::new();
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|e| Status::bad_request(format!("reading the body of the request: {e}")))?;
        let Ok(piece) = frame.into_data() else {
            continue;
        };
        length += piece.len();
        if length <= bytes_max {
            whole.extend_from_slice(&piece);
        // Past the limit bytes are counted and discarded, so memory stays bounded.
        } else if length > DRAINED_BYTES_MAX {
            break;
        }
    }
    if length > bytes_max { Err(too_large(bytes_max)) } else { Ok(whole.freeze()) }
}

/// 413 that names the limit.
#[must_use]
pub fn too_large(bytes_max: usize) -> Status {
    let message = format!("Request entity too large: limit is {bytes_max}");
    Status::new(413, "RequestEntityTooLarge", message)
}

/// Parses `Content-Type`; the default is JSON.
///
/// # Errors
/// 415 that lists the accepted media types.
pub fn media(content_type: Option<&str>, custom: bool) -> Result<BodyMediaType, Status> {
    let essence = content_type.unwrap_or("").split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    match essence.as_str() {
        "" | "application/json" => Ok(BodyMediaType::Json),
        "application/yaml" => Ok(BodyMediaType::Yaml),
        "application/vnd.kubernetes.protobuf" if !custom => Ok(BodyMediaType::Protobuf),
        _ => Err(unsupported(if custom { KNOWN_CUSTOM } else { KNOWN })),
    }
}

/// 415 that lists the accepted media types.
#[must_use]
pub fn unsupported(known: &str) -> Status {
    let message =
        format!("the body of the request was in an unknown format - accepted media types include: {known}");
    Status::new(415, "UnsupportedMediaType", message)
}

/// Decodes the body of an object.
///
/// # Errors
/// The parse error, and a quote of the body's beginning.
pub fn decode(media: BodyMediaType, bytes: &[u8]) -> Result<RequestBody, BodyDecodeError> {
    whole(media, bytes).map_err(|why| BodyDecodeError(format!("{why} ({})", quoted(bytes))))
}

/// As [`decode`], without the quote.
///
/// # Errors
/// The parse error.
pub fn whole(media: BodyMediaType, bytes: &[u8]) -> Result<RequestBody, String> {
    match media {
        BodyMediaType::Json => json(bytes).map_err(|why| format!("{NO_HEAD}{why}")).and_then(object),
        BodyMediaType::Yaml => yaml(bytes).map_err(|why| format!("yaml: {why}")).and_then(object),
        BodyMediaType::Protobuf => decode_protobuf(bytes),
    }
}

const NO_HEAD: &str = "couldn't get version/kind; json parse error: ";

/// Parses JSON of any type.
///
/// # Errors
/// The parse error.
pub fn json(bytes: &[u8]) -> Result<RequestBody, String> {
    // Invalid UTF-8 becomes the replacement character, as in Go's JSON decoder.
    let text = String::from_utf8_lossy(bytes);
    let (tree, duplicates) = Tree::parse_strict(text.as_bytes()).map_err(|e| e.to_string())?;
    let duplicates = duplicates.into_iter().map(|Duplicate(path)| DuplicateKey::Field(path)).collect();
    Ok(RequestBody { tree, duplicates })
}

/// Parses the first document of a YAML stream, of any type.
///
/// # Errors
/// The parse error.
pub fn yaml(bytes: &[u8]) -> Result<RequestBody, String> {
    let text = std::str::from_utf8(bytes).map_err(|e| e.to_string())?;
    // The parser's message continues with a drawing of the position; a Status has room for its first line.
    let first_line = |e: muster_tree::ParseError| e.to_string().lines().next().unwrap_or_default().to_owned();
    let (documents, repeated) = Tree::parse_yaml_lenient(text).map_err(first_line)?;
    // Further documents are ignored, as in kube-apiserver.
    let tree = documents.into_iter().next().unwrap_or(Tree::Null);
    let duplicates = repeated.into_iter().map(|twice| DuplicateKey::Line(twice.line, twice.key)).collect();
    Ok(RequestBody { tree, duplicates })
}

fn decode_protobuf(bytes: &[u8]) -> Result<RequestBody, String> {
    let decoded = muster_schema::proto::decode(bytes).map_err(|e| e.to_string())?;
    Ok(RequestBody { tree: decoded.tree, duplicates: Vec::new() })
}

/// Checks that `apiVersion` and `kind` are strings; an empty body is an empty object.
fn object(body: RequestBody) -> Result<RequestBody, String> {
    if body.tree.is_null() {
        return Ok(RequestBody { tree: Tree::empty_map(), ..body });
    }
    let cannot = |found: &Tree, wanted: &str| {
        Err(format!("{NO_HEAD}json: cannot unmarshal {} into Go {wanted}", json_word(found)))
    };
    if !body.tree.is_map() {
        return cannot(&body.tree, &format!("value of type {HEAD}"));
    }
    for key in ["apiVersion", "kind"] {
        let value = body.tree.get(key).unwrap_or(&Tree::Null);
        if !matches!(value, Tree::Text(_) | Tree::Null) {
            return cannot(value, &format!("struct field .{key} of type string"));
        }
    }
    let version = body.tree.str_at(&["apiVersion"]);
    if version.matches('/').count() > 1 {
        return Err(format!("unexpected GroupVersion string: {version}"));
    }
    Ok(body)
}

/// Quotes the beginning of a body: an object as it is, anything else in hexadecimal.
fn quoted(bytes: &[u8]) -> String {
    let cut = &bytes[..bytes.len().min(QUOTED_BYTES_MAX)];
    let begin = match bytes.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(cut).into_owned(),
        Some(_) => cut.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    if cut.len() < bytes.len() { format!("{begin} ...") } else { begin }
}

impl BodyDecodeError {
    /// 400 for a body that is not an object of this kind.
    #[must_use]
    pub fn status(&self, kind: &str) -> Status {
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {}",
            self.0
        ))
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn media_types() {
        assert_eq!(media(None, false), Ok(BodyMediaType::Json));
        assert_eq!(media(Some("application/json; charset=utf-8"), true), Ok(BodyMediaType::Json));
        assert_eq!(media(Some("application/vnd.kubernetes.protobuf"), false), Ok(BodyMediaType::Protobuf));
        let custom = media(Some("application/vnd.kubernetes.protobuf"), true).unwrap_err();
        assert_eq!(custom.code, 415, "custom resources have no protobuf form");
        let refusal = media(Some("text/plain"), false).unwrap_err();
        assert!(refusal.message.contains("unknown format - accepted media types include: application/json"));
    }

    #[test]
    fn malformed_bodies_are_rejected_with_a_quote() {
        let head = |what: &str| format!("{NO_HEAD}json: cannot unmarshal {what}");
        for (says, bytes, words) in [
            ("truncated", &b"{"[..], format!("{NO_HEAD}unexpected end of JSON input ({{)")),
            ("empty", b"", format!("{NO_HEAD}unexpected end of JSON input (<empty>)")),
            ("a list", b"[]", head(&format!("array into Go value of type {HEAD} (5b5d)"))),
            ("words", b"ab", format!("{NO_HEAD}invalid character 'a' looking for beginning of value (6162)")),
            (
                "a kind that is a number",
                br#"{"kind":1}"#,
                head("number into Go struct field .kind of type string ({\"kind\":1})"),
            ),
            (
                "a long one is cut",
                br#"{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa":}"#,
                format!(
                    "{NO_HEAD}invalid character '}}' looking for beginning of value ({{\"{} ...)",
                    "a".repeat(28)
                ),
            ),
            (
                "a group with a slash",
                br#"{"apiVersion":"a/b/c"}"#,
                "unexpected GroupVersion string: a/b/c ({\"apiVersion\":\"a/b/c\"})".to_owned(),
            ),
        ] {
            let refusal = decode(BodyMediaType::Json, bytes).unwrap_err().status("ConfigMap");
            let start = "the object provided is unrecognized (must be of type ConfigMap): ";
            assert_eq!(refusal.message, format!("{start}{words}"), "{says}");
        }
        assert_eq!(decode(BodyMediaType::Json, b"null").unwrap().tree, tree!({}), "null is an empty object");
    }

    #[test]
    fn duplicate_keys_are_reported() {
        let json = decode(BodyMediaType::Json, br#"{"a":{"b":1,"b":2}}"#).unwrap();
        assert_eq!(json.duplicates, [DuplicateKey::Field("a.b".into())]);
        let yaml = decode(BodyMediaType::Yaml, b"a:\n  b: 1\n  b: 2\n").unwrap();
        assert_eq!(yaml.duplicates, [DuplicateKey::Line(3, "b".into())]);
        assert_eq!((json.tree, yaml.tree), (tree!({"a": {"b": 2}}), tree!({"a": {"b": 2}})));
    }

    #[test]
    fn bytes_that_are_not_utf8_are_replaced_in_json_and_refused_in_yaml() {
        let bytes = b"{\"a\": \"x\xffy\"}";
        assert_eq!(decode(BodyMediaType::Json, bytes).unwrap().tree, tree!({"a": "x\u{fffd}y"}));
        assert!(decode(BodyMediaType::Yaml, bytes).is_err());
    }

    #[test]
    fn only_the_first_yaml_document_is_decoded() {
        assert_eq!(decode(BodyMediaType::Yaml, b"a: 1\n---\nb: 2\n").unwrap().tree, tree!({"a": 1}));
    }
}
