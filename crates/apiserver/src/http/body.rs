//! Bodies of requests: read within a bound, then decoded by their media type.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use muster_schema::spelled::json_word;
use muster_tree::{Duplicate, Tree};

use crate::request::{Body, Twice};
use crate::status::Status;

/// The largest body that is read.
pub const BODY_BYTES_MAX: usize = 3 << 20;
/// How much of a body that is too large is read before the connection is given up.
pub const DRAINED_BYTES_MAX: usize = 32 << 20;
/// How much of an unreadable body a message quotes.
const QUOTED_BYTES_MAX: usize = 30;
/// What the first look at a body reads, as messages of the real server name it.
const HEAD: &str =
    r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;

/// Media types a body may have, as messages list them.
const KNOWN: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
/// Those for custom resources, which have no protobuf form.
const KNOWN_CUSTOM: &str = "application/json, application/yaml";

/// The media type of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Media {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// The Kubernetes protobuf envelope.
    Protobuf,
}

/// Why a body could not be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undecodable(pub String);

/// Reads a whole body.
///
/// What is too long is read on to [`DRAINED_BYTES_MAX`] and thrown away: a client that is still sending would
/// otherwise see a broken connection instead of the refusal.
///
/// # Errors
/// 413 beyond [`BODY_BYTES_MAX`], 400 when the client stops sending.
pub async fn read(body: Incoming) -> Result<Bytes, Status> {
    read_within(body, BODY_BYTES_MAX).await
}

/// As [`read`], within another bound.
///
/// # Errors
/// 413 beyond the bound, 400 when the client stops sending.
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
        } else if length > DRAINED_BYTES_MAX {
            break;
        }
    }
    if length > bytes_max { Err(too_large(bytes_max)) } else { Ok(whole.freeze()) }
}

/// 413 with the limit.
#[must_use]
pub fn too_large(bytes_max: usize) -> Status {
    let message = format!("Request entity too large: limit is {bytes_max}");
    Status::new(413, "RequestEntityTooLarge", message)
}

/// The media type that a `Content-Type` names; without one it is JSON.
///
/// # Errors
/// 415 that lists the known ones.
pub fn media(content_type: Option<&str>, custom: bool) -> Result<Media, Status> {
    let essence = content_type.unwrap_or("").split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    match essence.as_str() {
        "" | "application/json" => Ok(Media::Json),
        "application/yaml" => Ok(Media::Yaml),
        "application/vnd.kubernetes.protobuf" if !custom => Ok(Media::Protobuf),
        _ => Err(unsupported(if custom { KNOWN_CUSTOM } else { KNOWN })),
    }
}

/// 415 that lists the media types an endpoint takes.
#[must_use]
pub fn unsupported(known: &str) -> Status {
    let message =
        format!("the body of the request was in an unknown format - accepted media types include: {known}");
    Status::new(415, "UnsupportedMediaType", message)
}

/// Decodes a body that should be an object.
///
/// # Errors
/// Says what is wrong with it, and how it begins.
pub fn decode(media: Media, bytes: &[u8]) -> Result<Body, Undecodable> {
    whole(media, bytes).map_err(|why| Undecodable(format!("{why} ({})", quoted(bytes))))
}

/// As [`decode`], without telling how the body begins.
///
/// # Errors
/// Says what is wrong with it.
pub fn whole(media: Media, bytes: &[u8]) -> Result<Body, String> {
    match media {
        Media::Json => json(bytes).map_err(|why| format!("{NO_HEAD}{why}")).and_then(object),
        Media::Yaml => yaml(bytes).map_err(|why| format!("yaml: {why}")).and_then(object),
        Media::Protobuf => decode_protobuf(bytes),
    }
}

const NO_HEAD: &str = "couldn't get version/kind; json parse error: ";

/// Reads JSON, whatever it holds.
///
/// # Errors
/// Says what is wrong with it.
pub fn json(bytes: &[u8]) -> Result<Body, String> {
    // Bytes that are not UTF-8 become the replacement character inside texts, as the real server reads them.
    let text = String::from_utf8_lossy(bytes);
    let (tree, duplicates) = Tree::parse_strict(text.as_bytes()).map_err(|e| e.to_string())?;
    let duplicates = duplicates.into_iter().map(|Duplicate(path)| Twice::Field(path)).collect();
    Ok(Body { tree, duplicates })
}

/// Reads the first document of a YAML stream, whatever it holds.
///
/// # Errors
/// Says what is wrong with it.
pub fn yaml(bytes: &[u8]) -> Result<Body, String> {
    let text = std::str::from_utf8(bytes).map_err(|e| e.to_string())?;
    // The reader's message goes on with a drawing of the place; a Status has room for its first line.
    let first_line = |e: muster_tree::ParseError| e.to_string().lines().next().unwrap_or_default().to_owned();
    let (documents, repeated) = Tree::parse_yaml_lenient(text).map_err(first_line)?;
    // Of several documents the first counts, as with the real server.
    let tree = documents.into_iter().next().unwrap_or(Tree::Null);
    let duplicates = repeated.into_iter().map(|twice| Twice::Line(twice.line, twice.key)).collect();
    Ok(Body { tree, duplicates })
}

fn decode_protobuf(bytes: &[u8]) -> Result<Body, String> {
    let decoded = muster_schema::proto::decode(bytes).map_err(|e| e.to_string())?;
    Ok(Body { tree: decoded.tree, duplicates: Vec::new() })
}

/// An object whose kind can be read; nothing at all is an object that says nothing.
fn object(body: Body) -> Result<Body, String> {
    if body.tree.is_null() {
        return Ok(Body { tree: Tree::empty_map(), ..body });
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

/// How a body begins: an object as it is, anything else in hexadecimal digits.
fn quoted(bytes: &[u8]) -> String {
    let cut = &bytes[..bytes.len().min(QUOTED_BYTES_MAX)];
    let begin = match bytes.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(cut).into_owned(),
        Some(_) => cut.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    if cut.len() < bytes.len() { format!("{begin} ...") } else { begin }
}

impl Undecodable {
    /// 400 about a body that should have been an object of this kind.
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
        assert_eq!(media(None, false), Ok(Media::Json));
        assert_eq!(media(Some("application/json; charset=utf-8"), true), Ok(Media::Json));
        assert_eq!(media(Some("application/vnd.kubernetes.protobuf"), false), Ok(Media::Protobuf));
        let custom = media(Some("application/vnd.kubernetes.protobuf"), true).unwrap_err();
        assert_eq!(custom.code, 415, "custom resources have no protobuf form");
        let refusal = media(Some("text/plain"), false).unwrap_err();
        assert!(refusal.message.contains("unknown format - accepted media types include: application/json"));
    }

    #[test]
    fn bodies_that_are_no_objects_are_refused_with_a_quote() {
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
            let refusal = decode(Media::Json, bytes).unwrap_err().status("ConfigMap");
            let start = "the object provided is unrecognized (must be of type ConfigMap): ";
            assert_eq!(refusal.message, format!("{start}{words}"), "{says}");
        }
        assert_eq!(decode(Media::Json, b"null").unwrap().tree, tree!({}), "nothing says nothing");
    }

    #[test]
    fn keys_that_stand_twice_are_told_of() {
        let json = decode(Media::Json, br#"{"a":{"b":1,"b":2}}"#).unwrap();
        assert_eq!(json.duplicates, [Twice::Field("a.b".into())]);
        let yaml = decode(Media::Yaml, b"a:\n  b: 1\n  b: 2\n").unwrap();
        assert_eq!(yaml.duplicates, [Twice::Line(3, "b".into())]);
        assert_eq!((json.tree, yaml.tree), (tree!({"a": {"b": 2}}), tree!({"a": {"b": 2}})));
    }

    #[test]
    fn bytes_that_are_not_utf8_are_replaced_in_json_and_refused_in_yaml() {
        let bytes = b"{\"a\": \"x\xffy\"}";
        assert_eq!(decode(Media::Json, bytes).unwrap().tree, tree!({"a": "x\u{fffd}y"}));
        assert!(decode(Media::Yaml, bytes).is_err());
    }

    #[test]
    fn of_several_documents_the_first_counts() {
        assert_eq!(decode(Media::Yaml, b"a: 1\n---\nb: 2\n").unwrap().tree, tree!({"a": 1}));
    }
}
