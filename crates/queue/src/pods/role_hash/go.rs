//! Parts of a pod spec as Go encodes them in JSON: fields in the order of k8s.io/api v0.36, with which Kueue v0.19
//! is built. Unknown fields are dropped, as Go's decoder drops them.

use muster_tree::Tree;

use self::Kind::{List, Pointer, Value};

/// A Go struct: its fields in declaration order.
pub(super) struct Struct(&'static [Field]);

/// A field of a struct.
pub(super) struct Field {
    name: &'static str,
    kind: Kind,
    omit_empty: bool,
}

enum Kind {
    /// String, number, list of strings, or map of strings; empty is omitted.
    Value,
    /// Pointer to a scalar; only `null` is omitted.
    Pointer,
    /// Struct or pointer to one; only `null` is omitted.
    Struct(&'static Struct),
    List(&'static Struct),
}

const fn field(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, omit_empty: true }
}

/// A field without `omitempty`.
const fn required(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, omit_empty: false }
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) const AFFINITY: Struct = Struct(&[
    field("nodeAffinity", Kind::Struct(&NODE_AFFINITY)),
    field("podAffinity", Kind::Struct(&POD_AFFINITY)),
    field("podAntiAffinity", Kind::Struct(&POD_AFFINITY)),
]);
const NODE_AFFINITY: Struct =
    Struct(&[field(REQUIRED, Kind::Struct(&NODE_SELECTOR)), field(PREFERRED, List(&PREFERRED_TERM))]);
const NODE_SELECTOR: Struct = Struct(&[required("nodeSelectorTerms", List(&NODE_TERM))]);
const NODE_TERM: Struct =
    Struct(&[field("matchExpressions", List(&REQUIREMENT)), field("matchFields", List(&REQUIREMENT))]);
const REQUIREMENT: Struct =
    Struct(&[required("key", Value), required("operator", Value), field("values", Value)]);
const PREFERRED_TERM: Struct =
    Struct(&[required("weight", Value), required("preference", Kind::Struct(&NODE_TERM))]);
/// Pod affinity and anti-affinity have the same fields.
const POD_AFFINITY: Struct =
    Struct(&[field(REQUIRED, List(&POD_TERM)), field(PREFERRED, List(&WEIGHTED_TERM))]);
const POD_TERM: Struct = Struct(&[
    field("labelSelector", Kind::Struct(&LABEL_SELECTOR)),
    field("namespaces", Value),
    required("topologyKey", Value),
    field("namespaceSelector", Kind::Struct(&LABEL_SELECTOR)),
    field("matchLabelKeys", Value),
    field("mismatchLabelKeys", Value),
]);
const WEIGHTED_TERM: Struct =
    Struct(&[required("weight", Value), required("podAffinityTerm", Kind::Struct(&POD_TERM))]);
const LABEL_SELECTOR: Struct =
    Struct(&[field("matchLabels", Value), field("matchExpressions", List(&REQUIREMENT))]);

pub(super) const TOLERATION: Struct = Struct(&[
    field("key", Value),
    field("operator", Value),
    field("value", Value),
    field("effect", Value),
    field("tolerationSeconds", Pointer),
]);

pub(super) const SPREAD_CONSTRAINT: Struct = Struct(&[
    required("maxSkew", Value),
    required("topologyKey", Value),
    required("whenUnsatisfiable", Value),
    field("labelSelector", Kind::Struct(&LABEL_SELECTOR)),
    field("minDomains", Pointer),
    field("nodeAffinityPolicy", Pointer),
    field("nodeTaintsPolicy", Pointer),
    field("matchLabelKeys", Value),
]);

pub(super) const CLAIM: Struct = Struct(&[
    required("name", Value),
    field("resourceClaimName", Pointer),
    field("resourceClaimTemplateName", Pointer),
]);

pub(super) const PORT: Struct = Struct(&[
    field("name", Value),
    field("hostPort", Value),
    required("containerPort", Value),
    field("protocol", Value),
    field("hostIP", Value),
]);

impl Struct {
    pub fn write(&self, tree: &Tree) -> String {
        if !tree.is_map() {
            return plain(&Tree::Null);
        }
        let fields = self.0.iter().filter_map(|field| Some((field.name, field.write(tree.get(field.name))?)));
        object(fields)
    }

    pub fn write_list(&self, tree: &Tree) -> String {
        if tree.is_list() {
            list(tree.items().iter().map(|item| self.write(item)))
        } else {
            plain(&Tree::Null)
        }
    }
}

impl Field {
    fn write(&self, value: Option<&Tree>) -> Option<String> {
        let value = value.unwrap_or(&Tree::Null);
        let is_empty = match self.kind {
            Value => is_zero(value),
            Pointer | Kind::Struct(_) => value.is_null(),
            List(_) => value.items().is_empty(),
        };
        if is_empty && self.omit_empty {
            return None;
        }
        Some(match self.kind {
            Value | Pointer => plain(value),
            // A missing struct without `omitempty` is encoded with its zero values.
            Kind::Struct(of) if value.is_null() => of.write(&Tree::empty_map()),
            Kind::Struct(of) => of.write(value),
            List(of) => of.write_list(value),
        })
    }
}

fn is_zero(value: &Tree) -> bool {
    match value {
        Tree::Null | Tree::Int(0) => true,
        Tree::Text(text) => text.is_empty(),
        Tree::List(_) | Tree::Map(_) => value.is_empty(),
        _ => false,
    }
}

/// A value without structs.
pub(super) fn plain(value: &Tree) -> String {
    escaped(value.to_json())
}

/// Go escapes HTML characters in JSON strings.
fn escaped(json: String) -> String {
    if !json.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return json;
    }
    let numbers = [('<', "003c"), ('>', "003e"), ('&', "0026"), ('\u{2028}', "2028"), ('\u{2029}', "2029")];
    numbers.iter().fold(json, |json, (from, to)| json.replace(*from, &format!("\\u{to}")))
}

pub(super) fn object<'a>(fields: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let fields: Vec<String> = fields.into_iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
    format!("{{{}}}", fields.join(","))
}

/// A list of these.
pub(super) fn list(items: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", items.into_iter().collect::<Vec<String>>().join(","))
}
