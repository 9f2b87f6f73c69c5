//! Which representation an answer takes.
//!
//! Pure: the `Accept` header becomes an [`Answer`]. Clauses are tried in the client's order and the first one
//! that can be served wins, as the real server does it; quality values do not matter to any Kubernetes client.

use crate::status::Status;

/// The text form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Text {
    /// `application/json`.
    Json,
    /// `application/yaml`.
    Yaml,
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
    /// Text form.
    pub text: Text,
    /// Shape.
    pub shape: Shape,
}

impl Answer {
    /// Plain JSON.
    pub const JSON: Answer = Answer { text: Text::Json, shape: Shape::Whole };
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
    /// Tables, of what is told.
    Told,
    /// Aggregated discovery.
    Discovery,
}

/// The media types of objects.
const KNOWN: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
/// What the collections of built-in kinds have besides.
const STREAMS: &str = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
/// Those of custom resources, which have no protobuf form.
const KNOWN_CUSTOM: &str = "application/json, application/yaml";

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
    found.ok_or_else(|| not_acceptable(clauses.filter_map(text_of).next().is_some(), offer))
}

/// The answer 406. Where the path itself knows its media types (built-in kinds), it speaks first; `known` says that it was
/// content, and only the shape was not to be had.
fn not_acceptable(known: bool, offer: Offer) -> Status {
    let all = if matches!(offer, Offer::Custom | Offer::Told) { KNOWN_CUSTOM } else { KNOWN };
    if known || matches!(offer, Offer::Custom | Offer::Told | Offer::Discovery) {
        let message = format!("only the following media types are accepted: {all}");
        return Status::new(406, "NotAcceptable", message);
    }
    let streams = if offer == Offer::Collection { format!(", {STREAMS}") } else { String::new() };
    let message = format!("406: Not Acceptable\n\nAvailable representations: {all}{streams}");
    Status::general(406, "NotAcceptable", message)
}

/// The text form that a clause names.
fn text_of(clause: &str) -> Option<Text> {
    match clause.split(';').next()?.trim().to_ascii_lowercase().as_str() {
        "application/json" | "application/*" | "*/*" => Some(Text::Json),
        "application/yaml" => Some(Text::Yaml),
        _ => None,
    }
}

fn serve(clause: &str, offer: Offer) -> Option<Answer> {
    let text = text_of(clause)?;
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
    Some(Answer { text, shape: shape(as_, group, version, offer)? })
}

fn shape(as_: &str, group: &str, version: &str, offer: Offer) -> Option<Shape> {
    use crate::discovery::Form;
    let meta = match version {
        "v1" => Some(MetaVersion::V1),
        "v1beta1" => Some(MetaVersion::V1Beta1),
        _ => None,
    };
    let objects = matches!(offer, Offer::Objects | Offer::Collection | Offer::Custom);
    match (as_, group, offer) {
        ("", ..) => Some(Shape::Whole),
        ("Table", "meta.k8s.io", _) if objects || offer == Offer::Told => meta.map(Shape::Table),
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
        let json = |shape| Some(Answer { text: Text::Json, shape });
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
                Some(Answer { text: Text::Yaml, shape: Shape::Whole }),
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
        let custom =
            "only the following media types are accepted: application/json, application/yaml".to_owned();
        for (says, accept, offer, want) in [
            ("an object", "image/png", Offer::Objects, path.clone()),
            ("a collection can be watched", "image/png", Offer::Collection, streams),
            ("an unknown shape", "application/json;as=Foo;v=v1;g=meta.k8s.io", Offer::Objects, handler),
            ("a custom resource", "image/png", Offer::Custom, custom),
            ("discovery of one version", "image/png", Offer::Plain, path),
        ] {
            assert_eq!(negotiate(Some(accept), offer).unwrap_err().message, want, "{says}");
        }
    }
}
