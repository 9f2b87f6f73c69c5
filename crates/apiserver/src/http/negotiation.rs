//! Content negotiation: the `Accept` header selects encoding and representation.
//!
//! Pure. Media types are tried in the client's order and the first that can be served wins, as in kube-apiserver;
//! quality values are ignored, as no Kubernetes client depends on them.

use crate::status::Status;

/// The encoding of a response body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Encoding {
    Json,
    Yaml,
    Protobuf,
}

/// The kind of object that a response carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Representation {
    /// The object or list itself.
    Whole,
    /// A Table in this version of `meta.k8s.io`.
    Table(MetaVersion),
    /// Metadata only, of an object or (in a watch) of each object.
    Partial(MetaVersion),
    /// Metadata only, of a list.
    PartialList(MetaVersion),
    /// An `APIGroupDiscoveryList` in this version of `apidiscovery.k8s.io`.
    Discovery(crate::discovery::DiscoveryVersion),
}

/// A version of `meta.k8s.io`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetaVersion {
    V1,
    V1Beta1,
}

impl MetaVersion {
    /// The `apiVersion` of Tables and metadata objects.
    #[must_use]
    pub fn api_version(self) -> &'static str {
        match self {
            MetaVersion::V1 => "meta.k8s.io/v1",
            MetaVersion::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// The result of the negotiation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NegotiatedMedia {
    pub encoding: Encoding,
    pub shape: Representation,
}

impl NegotiatedMedia {
    pub const JSON: NegotiatedMedia =
        NegotiatedMedia { encoding: Encoding::Json, shape: Representation::Whole };
}

/// What an endpoint can serve besides the object itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndpointRestrictions {
    Plain,
    /// Tables and metadata of one object.
    Objects,
    /// As `Objects`, of a collection, which can be watched, too.
    Collection,
    /// As `Objects`, of custom resources: no protobuf.
    Custom,
    /// Metadata of an object that is not stored (a review, a token, a binding). It has no columns.
    Ephemeral,
    /// Tables of virtual resources.
    Virtual,
    Discovery,
    /// JSON and YAML only.
    Text,
}

/// Media types of objects, as messages list them.
const KNOWN: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// Media types of watch streams, listed for collections of built-in kinds.
const STREAMS: &str = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
/// Media types of documents without a protobuf form.
const KNOWN_TEXT: &str = "application/json, application/yaml";

/// Negotiates a representation; without an `Accept` header it is JSON.
///
/// # Errors
/// 406 when no accepted media type can be served.
pub fn negotiate(accept: Option<&str>, offer: EndpointRestrictions) -> Result<NegotiatedMedia, Status> {
    let accept = accept.unwrap_or("").trim();
    if accept.is_empty() {
        return Ok(NegotiatedMedia::JSON);
    }
    let clauses = accept.split(',').map(str::trim);
    let found = clauses.clone().find_map(|clause| serve(clause, offer));
    found.ok_or_else(|| not_acceptable(clauses.filter_map(encoding_of).next().is_some(), offer))
}

/// Builds the 406. For built-in kinds kube-apiserver rejects unknown media types before the handler, with another
/// message; `known` says that a media type was known and only the representation was not.
fn not_acceptable(known: bool, offer: EndpointRestrictions) -> Status {
    let is_text = matches!(offer, EndpointRestrictions::Virtual | EndpointRestrictions::Text);
    let all = if is_text { KNOWN_TEXT } else { KNOWN };
    if known || is_text || matches!(offer, EndpointRestrictions::Custom | EndpointRestrictions::Discovery) {
        let message = format!("only the following media types are accepted: {all}");
        return Status::new(406, "NotAcceptable", message);
    }
    let streams =
        if offer == EndpointRestrictions::Collection { format!(", {STREAMS}") } else { String::new() };
    let message = format!("406: Not Acceptable\n\nAvailable representations: {all}{streams}");
    Status::general(406, "NotAcceptable", message)
}

/// Rejects encodings that have no stream form.
///
/// # Errors
/// 406 for YAML.
pub fn check_stream(answer: NegotiatedMedia) -> Result<(), Status> {
    if answer.encoding != Encoding::Yaml {
        return Ok(());
    }
    Err(Status::new(406, "NotAcceptable", format!("only the following media types are accepted: {STREAMS}")))
}

/// The encoding of one clause of the header.
fn encoding_of(clause: &str) -> Option<Encoding> {
    match clause.split(';').next()?.trim().to_ascii_lowercase().as_str() {
        "application/json" | "application/*" | "*/*" => Some(Encoding::Json),
        "application/yaml" => Some(Encoding::Yaml),
        PROTOBUF => Some(Encoding::Protobuf),
        _ => None,
    }
}

fn serve(clause: &str, offer: EndpointRestrictions) -> Option<NegotiatedMedia> {
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
    is_encoded(encoding, shape, offer).then_some(NegotiatedMedia { encoding, shape })
}

/// Whether an encoding supports this representation: protobuf has no Tables, no aggregated discovery, no `v1beta1`
/// metadata lists and no custom resources.
fn is_encoded(encoding: Encoding, shape: Representation, offer: EndpointRestrictions) -> bool {
    match shape {
        _ if encoding != Encoding::Protobuf => true,
        Representation::Whole => !matches!(
            offer,
            EndpointRestrictions::Custom | EndpointRestrictions::Virtual | EndpointRestrictions::Text
        ),
        Representation::Partial(_) => true,
        // The `v1beta1` list is another protobuf message; its descriptor is not published with the kinds.
        Representation::PartialList(of) => of == MetaVersion::V1,
        Representation::Table(_) | Representation::Discovery(_) => false,
    }
}

fn shape(as_: &str, group: &str, version: &str, offer: EndpointRestrictions) -> Option<Representation> {
    use crate::discovery::DiscoveryVersion;
    let meta = match version {
        "v1" => Some(MetaVersion::V1),
        "v1beta1" => Some(MetaVersion::V1Beta1),
        _ => None,
    };
    let objects = matches!(
        offer,
        EndpointRestrictions::Objects
            | EndpointRestrictions::Collection
            | EndpointRestrictions::Custom
            | EndpointRestrictions::Ephemeral
    );
    let columns =
        objects && offer != EndpointRestrictions::Ephemeral || offer == EndpointRestrictions::Virtual;
    match (as_, group, offer) {
        ("", ..) => Some(Representation::Whole),
        ("Table", "meta.k8s.io", _) if columns => meta.map(Representation::Table),
        ("PartialObjectMetadata", "meta.k8s.io", _) if objects => meta.map(Representation::Partial),
        ("PartialObjectMetadataList", "meta.k8s.io", _) if objects => meta.map(Representation::PartialList),
        ("APIGroupDiscoveryList", "apidiscovery.k8s.io", EndpointRestrictions::Discovery) => match version {
            "v2" => Some(Representation::Discovery(DiscoveryVersion::V2)),
            "v2beta1" => Some(Representation::Discovery(DiscoveryVersion::V2Beta1)),
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
        let json = |shape| Some(NegotiatedMedia { encoding: Encoding::Json, shape });
        let protobuf = |shape| Some(NegotiatedMedia { encoding: Encoding::Protobuf, shape });
        for (says, accept, offer, want) in [
            ("nothing asked is JSON", "", EndpointRestrictions::Plain, json(Representation::Whole)),
            ("anything is JSON", "*/*", EndpointRestrictions::Plain, json(Representation::Whole)),
            (
                "kubectl get",
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
                EndpointRestrictions::Objects,
                json(Representation::Table(V1)),
            ),
            (
                "a table is passed over where there is none",
                "application/json;as=Table;v=v1;g=meta.k8s.io, application/json",
                EndpointRestrictions::Plain,
                json(Representation::Whole),
            ),
            (
                "Go clients prefer protobuf and take JSON",
                "application/vnd.kubernetes.protobuf,application/json",
                EndpointRestrictions::Objects,
                protobuf(Representation::Whole),
            ),
            (
                "custom resources have no protobuf form",
                "application/vnd.kubernetes.protobuf,application/json",
                EndpointRestrictions::Custom,
                json(Representation::Whole),
            ),
            (
                "the metadata of custom resources has one",
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                EndpointRestrictions::Custom,
                protobuf(Representation::PartialList(V1)),
            ),
            (
                "tables have none",
                "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1,application/json",
                EndpointRestrictions::Collection,
                json(Representation::Whole),
            ),
            (
                "metadata in the old version",
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1beta1",
                EndpointRestrictions::Objects,
                json(Representation::Partial(V1Beta1)),
            ),
            (
                "aggregated discovery",
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json",
                EndpointRestrictions::Discovery,
                json(Representation::Discovery(crate::discovery::DiscoveryVersion::V2)),
            ),
            (
                "YAML",
                "application/yaml",
                EndpointRestrictions::Plain,
                Some(NegotiatedMedia { encoding: Encoding::Yaml, shape: Representation::Whole }),
            ),
            ("only what is unknown", "text/html", EndpointRestrictions::Objects, None),
            (
                "an unknown shape",
                "application/json;as=Foo;v=v1;g=meta.k8s.io",
                EndpointRestrictions::Objects,
                None,
            ),
        ] {
            assert_eq!(negotiate(Some(accept), offer).ok(), want, "{says}");
        }
    }

    #[test]
    fn not_acceptable_lists_the_media_types() {
        let all = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
        let path = format!("406: Not Acceptable\n\nAvailable representations: {all}");
        let streams = format!("{path}, {STREAMS}");
        let handler = format!("only the following media types are accepted: {all}");
        let text =
            "only the following media types are accepted: application/json, application/yaml".to_owned();
        for (says, accept, offer, want) in [
            ("an object", "image/png", EndpointRestrictions::Objects, path.clone()),
            ("a collection can be watched", "image/png", EndpointRestrictions::Collection, streams),
            (
                "an unknown shape",
                "application/json;as=Foo;v=v1;g=meta.k8s.io",
                EndpointRestrictions::Objects,
                handler.clone(),
            ),
            (
                "a table of a review",
                "application/json;as=Table;v=v1;g=meta.k8s.io",
                EndpointRestrictions::Ephemeral,
                handler.clone(),
            ),
            ("a custom resource", "image/png", EndpointRestrictions::Custom, handler.clone()),
            ("a custom resource in protobuf", PROTOBUF, EndpointRestrictions::Custom, handler),
            ("a document without a protobuf form", PROTOBUF, EndpointRestrictions::Text, text),
            ("discovery of one version", "image/png", EndpointRestrictions::Plain, path),
        ] {
            assert_eq!(negotiate(Some(accept), offer).unwrap_err().message, want, "{says}");
        }
    }
}
