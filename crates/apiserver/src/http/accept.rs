//! Which representation an answer takes.
//!
//! Pure: the `Accept` header becomes an [`Answer`]. Clauses are tried in the client's order and the first one
//! that can be served wins, as the real server does it; quality values do not matter to any Kubernetes client.

use crate::status::Status;

/// How the bytes of an answer are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Encoding {
    /// `application/json`.
    Json,
    /// `application/yaml`.
    Yaml,
    /// `application/vnd.kubernetes.protobuf`.
    Protobuf,
}

/// What an answer shows of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// The object or list itself.
    Whole,
    /// A Table in this version of `meta.k8s.io`.
    Table(MetaVersion),
    /// Metadata only, of an object or (in a watch) of each object.
    Partial(MetaVersion),
    /// Metadata only, of a list.
    PartialList(MetaVersion),
    /// Aggregated discovery in this version of `apidiscovery.k8s.io`.
    Discovery(crate::discovery::Form),
}

/// A version of `meta.k8s.io`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetaVersion {
    /// `v1`.
    V1,
    /// `v1beta1`.
    V1Beta1,
}

impl MetaVersion {
    /// The `apiVersion` of objects in it.
    #[must_use]
    pub fn api_version(self) -> &'static str {
        match self {
            MetaVersion::V1 => "meta.k8s.io/v1",
            MetaVersion::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// The representation that was agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Encoding.
    pub encoding: Encoding,
    /// Shape.
    pub shape: Shape,
}

impl Answer {
    /// Plain JSON.
    pub const JSON: Answer = Answer { encoding: Encoding::Json, shape: Shape::Whole };
}

/// What an endpoint can answer with besides the object itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// Nothing else.
    Plain,
    /// Tables and metadata, of one object.
    Objects,
    /// The same of a collection, which can be watched too.
    Collection,
    /// The same of custom resources.
    Custom,
    /// Metadata, of an object that is answered and not stored: a review, a token, a binding. It has no columns.
    Answered,
    /// Tables, of what is told.
    Told,
    /// Aggregated discovery.
    Discovery,
    /// Nothing else, and no protobuf.
    Text,
}

/// The media types of objects.
const KNOWN: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
/// The media type of protobuf.
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// What the collections of built-in kinds have besides.
const STREAMS: &str = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
/// Those of documents that have no protobuf form.
const KNOWN_TEXT: &str = "application/json, application/yaml";

/// Agrees on a representation; without a header that is JSON.
///
/// # Errors
/// 406 when nothing that the client accepts can be served.
pub fn negotiate(accept: Option<&str>, offer: Offer) -> Result<Answer, Status> {
    let accept = accept.unwrap_or("").trim();
    if accept.is_empty() {
        return Ok(Answer::JSON);
    }
    let clauses = accept.split(',').map(str::trim);
    let found = clauses.clone().find_map(|clause| serve(clause, offer));
    found.ok_or_else(|| not_acceptable(clauses.filter_map(encoding_of).next().is_some(), offer))
}

/// The answer 406. Where the path itself knows its media types (built-in kinds), it speaks first; `known` says that it was
/// content, and only the shape was not to be had.
fn not_acceptable(known: bool, offer: Offer) -> Status {
    let is_text = matches!(offer, Offer::Told | Offer::Text);
    let all = if is_text { KNOWN_TEXT } else { KNOWN };
    if known || is_text || matches!(offer, Offer::Custom | Offer::Discovery) {
        let message = format!("only the following media types are accepted: {all}");
        return Status::new(406, "NotAcceptable", message);
    }
    let streams = if offer == Offer::Collection { format!(", {STREAMS}") } else { String::new() };
    let message = format!("406: Not Acceptable\n\nAvailable representations: {all}{streams}");
    Status::general(406, "NotAcceptable", message)
}

/// 406 about a watch: the encodings of streams alone are to be had.
///
/// # Errors
/// Always, for an encoding that has no stream.
pub fn check_stream(answer: Answer) -> Result<(), Status> {
    if answer.encoding != Encoding::Yaml {
        return Ok(());
    }
    Err(Status::new(406, "NotAcceptable", format!("only the following media types are accepted: {STREAMS}")))
}

/// The encoding that a clause names.
fn encoding_of(clause: &str) -> Option<Encoding> {
    match clause.split(';').next()?.trim().to_ascii_lowercase().as_str() {
        "application/json" | "application/*" | "*/*" => Some(Encoding::Json),
        "application/yaml" => Some(Encoding::Yaml),
        PROTOBUF => Some(Encoding::Protobuf),
        _ => None,
    }
}

fn serve(clause: &str, offer: Offer) -> Option<Answer> {
    let encoding = encoding_of(clause)?;
    let parts = clause.split(';').skip(1).map(str::trim);
    let (mut as_, mut group, mut version) = ("", "", "");
    for (key, value) in parts.filter_map(|p| p.split_once('=')) {
        match key.trim() {
            "as" => as_ = value.trim(),
            "g" => group = value.trim(),
            "v" => version = value.trim(),
            _ => {}
        }
    }
    let shape = shape(as_, group, version, offer)?;
    is_encoded(encoding, shape, offer).then_some(Answer { encoding, shape })
}

/// Whether an encoding has a form for this shape: protobuf has none for tables, for aggregated discovery, for lists of
/// metadata in the older version and for objects of custom resources.
fn is_encoded(encoding: Encoding, shape: Shape, offer: Offer) -> bool {
    match shape {
        _ if encoding != Encoding::Protobuf => true,
        Shape::Whole => !matches!(offer, Offer::Custom | Offer::Told | Offer::Text),
        Shape::Partial(_) => true,
        // The list of the older version is another message, of which no descriptor is published with the kinds.
        Shape::PartialList(of) => of == MetaVersion::V1,
        Shape::Table(_) | Shape::Discovery(_) => false,
    }
}

fn shape(as_: &str, group: &str, version: &str, offer: Offer) -> Option<Shape> {
    use crate::discovery::Form;
    let meta = match version {
        "v1" => Some(MetaVersion::V1),
        "v1beta1" => Some(MetaVersion::V1Beta1),
        _ => None,
    };
    let objects = matches!(offer, Offer::Objects | Offer::Collection | Offer::Custom | Offer::Answered);
    let columns = objects && offer != Offer::Answered || offer == Offer::Told;
    match (as_, group, offer) {
        ("", ..) => Some(Shape::Whole),
        ("Table", "meta.k8s.io", _) if columns => meta.map(Shape::Table),
        ("PartialObjectMetadata", "meta.k8s.io", _) if objects => meta.map(Shape::Partial),
        ("PartialObjectMetadataList", "meta.k8s.io", _) if objects => meta.map(Shape::PartialList),
        ("APIGroupDiscoveryList", "apidiscovery.k8s.io", Offer::Discovery) => match version {
            "v2" => Some(Shape::Discovery(Form::V2)),
            "v2beta1" => Some(Shape::Discovery(Form::V2Beta1)),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_clause_that_can_be_served_wins() {
        use MetaVersion::{V1, V1Beta1};
        let json = |shape| Some(Answer { encoding: Encoding::Json, shape });
        let protobuf = |shape| Some(Answer { encoding: Encoding::Protobuf, shape });
        for (says, accept, offer, want) in [
            ("nothing asked is JSON", "", Offer::Plain, json(Shape::Whole)),
            ("anything is JSON", "*/*", Offer::Plain, json(Shape::Whole)),
            (
                "kubectl get",
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
                Offer::Objects,
                json(Shape::Table(V1)),
            ),
            (
                "a table is passed over where there is none",
                "application/json;as=Table;v=v1;g=meta.k8s.io, application/json",
                Offer::Plain,
                json(Shape::Whole),
            ),
            (
                "Go clients prefer protobuf and take JSON",
                "application/vnd.kubernetes.protobuf,application/json",
                Offer::Objects,
                protobuf(Shape::Whole),
            ),
            (
                "custom resources have no protobuf form",
                "application/vnd.kubernetes.protobuf,application/json",
                Offer::Custom,
                json(Shape::Whole),
            ),
            (
                "the metadata of custom resources has one",
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                Offer::Custom,
                protobuf(Shape::PartialList(V1)),
            ),
            (
                "tables have none",
                "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1,application/json",
                Offer::Collection,
                json(Shape::Whole),
            ),
            (
                "metadata in the old version",
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1beta1",
                Offer::Objects,
                json(Shape::Partial(V1Beta1)),
            ),
            (
                "aggregated discovery",
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json",
                Offer::Discovery,
                json(Shape::Discovery(crate::discovery::Form::V2)),
            ),
            (
                "YAML",
                "application/yaml",
                Offer::Plain,
                Some(Answer { encoding: Encoding::Yaml, shape: Shape::Whole }),
            ),
            ("only what is unknown", "text/html", Offer::Objects, None),
            ("an unknown shape", "application/json;as=Foo;v=v1;g=meta.k8s.io", Offer::Objects, None),
        ] {
            assert_eq!(negotiate(Some(accept), offer).ok(), want, "{says}");
        }
    }

    #[test]
    fn refusals_list_what_there_is() {
        let all = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
        let path = format!("406: Not Acceptable\n\nAvailable representations: {all}");
        let streams = format!("{path}, {STREAMS}");
        let handler = format!("only the following media types are accepted: {all}");
        let text =
            "only the following media types are accepted: application/json, application/yaml".to_owned();
        for (says, accept, offer, want) in [
            ("an object", "image/png", Offer::Objects, path.clone()),
            ("a collection can be watched", "image/png", Offer::Collection, streams),
            (
                "an unknown shape",
                "application/json;as=Foo;v=v1;g=meta.k8s.io",
                Offer::Objects,
                handler.clone(),
            ),
            (
                "a table of a review",
                "application/json;as=Table;v=v1;g=meta.k8s.io",
                Offer::Answered,
                handler.clone(),
            ),
            ("a custom resource", "image/png", Offer::Custom, handler.clone()),
            ("a custom resource in protobuf", PROTOBUF, Offer::Custom, handler),
            ("a document without a protobuf form", PROTOBUF, Offer::Text, text),
            ("discovery of one version", "image/png", Offer::Plain, path),
        ] {
            assert_eq!(negotiate(Some(accept), offer).unwrap_err().message, want, "{says}");
        }
    }
}
