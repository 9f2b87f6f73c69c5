//! Bodies of requests: read within a bound, then decoded by their media type.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use muster_tree::{Duplicate, Tree};

use crate::request::Body;
use crate::status::Status;

/// The largest body that is read.
pub const BODY_BYTES_MAX: usize = 3 << 20;
/// How much of a body that is too large is read before the connection is given up.
pub const DRAINED_BYTES_MAX: usize = 32 << 20;
/// How much of an unreadable body a message quotes.
const QUOTED_BYTES_MAX: usize = 32;

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
pub async fn read(mut body: Incoming) -> Result<Bytes, Status> {
    let mut whole = BytesMut::new();
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|e| Status::bad_request(format!("reading the body of the request: {e}")))?;
        let Ok(piece) = frame.into_data() else {
            continue;
        };
        length += piece.len();
        if length <= BODY_BYTES_MAX {
            whole.extend_from_slice(&piece);
        } else if length > DRAINED_BYTES_MAX {
            break;
        }
    }
    if length > BODY_BYTES_MAX { Err(too_large()) } else { Ok(whole.freeze()) }
}

/// 413 with the limit.
#[must_use]
pub fn too_large() -> Status {
    let message = format!("Request entity too large: limit is {BODY_BYTES_MAX}");
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

/// Decodes a body.
///
/// # Errors
/// Says what is wrong with it.
pub fn decode(media: Media, bytes: &[u8]) -> Result<Body, Undecodable> {
    match media {
        Media::Json => decode_json(bytes),
        Media::Yaml => decode_yaml(bytes),
        Media::Protobuf => decode_protobuf(bytes),
    }
}

fn decode_json(bytes: &[u8]) -> Result<Body, Undecodable> {
    // Bytes that are not UTF-8 become the replacement character inside texts, as the real server reads them.
    let text = String::from_utf8_lossy(bytes);
    let wrong = |e: muster_tree::ParseError| {
        let quoted = quoted(&text);
        Undecodable(format!("couldn't get version/kind; json parse error: {e} ({quoted})"))
    };
    let (tree, duplicates) = Tree::parse_strict(text.as_bytes()).map_err(wrong)?;
    let duplicates = duplicates.into_iter().map(|Duplicate(path)| path).collect();
    object(Body { tree, duplicates })
}

fn decode_yaml(bytes: &[u8]) -> Result<Body, Undecodable> {
    let text = std::str::from_utf8(bytes).map_err(|e| Undecodable(format!("yaml: {e}")))?;
    // The reader's message goes on with a drawing of the place; a Status has room for its first line.
    let first_line = |e: muster_tree::ParseError| {
        Undecodable(format!("yaml: {}", e.to_string().lines().next().unwrap_or_default()))
    };
    let documents = Tree::parse_yaml_documents(text).map_err(first_line)?;
    // Of several documents the first counts, as with the real server.
    let tree = documents.into_iter().next().unwrap_or(Tree::Null);
    object(Body { tree, duplicates: Vec::new() })
}

fn decode_protobuf(bytes: &[u8]) -> Result<Body, Undecodable> {
    let decoded = muster_schema::proto::decode(bytes).map_err(|e| Undecodable(e.to_string()))?;
    Ok(Body { tree: decoded.tree, duplicates: Vec::new() })
}

fn object(body: Body) -> Result<Body, Undecodable> {
    if body.tree.is_map() {
        return Ok(body);
    }
    let found = body.tree.type_word();
    Err(Undecodable(format!(
        "couldn't get version/kind; json parse error: expected an object, found {found}"
    )))
}

fn quoted(text: &str) -> String {
    if text.is_empty() {
        return "<empty>".to_owned();
    }
    let cut: String = text.chars().take(QUOTED_BYTES_MAX).collect();
    if cut.len() < text.len() { format!("{cut} ...") } else { cut }
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
        for (says, bytes, words) in [
            ("truncated", &b"{"[..], "json parse error"),
            ("empty", b"", "(<empty>)"),
            ("a list", b"[]", "found array"),
            ("a long one is cut", br#"{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa":}"#, " ...)"),
        ] {
            let refusal = decode(Media::Json, bytes).unwrap_err().status("ConfigMap");
            assert!(refusal.message.contains("must be of type ConfigMap"), "{says}");
            assert!(refusal.message.contains(words), "{says}: {}", refusal.message);
        }
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
