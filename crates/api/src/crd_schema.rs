//! Builders of CustomResourceDefinition schemas: each function returns a [`FieldSchema`] or adds a rule to one.
//!
//! The fields of Muster's custom resources are declared with these builders; `cargo xtask crds` generates the CRDs that
//! are installed.
//!
//! # Guarantees
//!
//! - Every schema is structural, so that any API server accepts it.
//!
//! # Deliberately absent
//!
//! Types of Kubernetes: [`kubernetes`] is a reference to a component of the schema table, which the task resolves.

use muster_tree::{Tree, tree};

use crate::client::Kind;

/// The schema keyword of CEL rules.
const RULES: &str = "x-kubernetes-validations";

/// Pattern of condition reasons.
const REASON: &str = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";
/// Pattern of a qualified name: a name with an optional DNS prefix.
const QUALIFIED: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";
/// Pattern of a quantity: a number with an optional suffix or exponent.
pub const QUANTITY: &str =
    r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+))?$";
/// Pattern of a DNS label.
const LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
const LABEL_MAX: i64 = 63;
/// Pattern of a DNS subdomain.
const SUBDOMAIN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
const SUBDOMAIN_MAX: i64 = 253;

/// A namespaced custom resource of Muster, in one version.
pub struct CrdSource {
    /// Group, version and plural.
    pub kind: &'static Kind,
    /// The kind: `spec.names.kind` of the CRD.
    pub kind_name: &'static str,
    /// The singular name: `spec.names.singular` of the CRD.
    pub singular: &'static str,
    /// Serves the `status` subresource.
    pub has_status: bool,
    /// `additionalPrinterColumns` as name, type and JSON path.
    pub columns: &'static [(&'static str, &'static str, &'static str)],
    /// Schema of the object.
    pub fields: FieldSchema,
}

impl CrdSource {
    /// The CustomResourceDefinition, with `$ref`s to types of Kubernetes still unresolved.
    #[must_use]
    pub fn to_crd(&self) -> Tree {
        let Kind { group, version, plural } = self.kind;
        let column = |(name, kind, path): &(&str, &str, &str)| tree!({"name": *name, "type": *kind, "jsonPath": *path});
        let parts = if self.has_status { tree!({"subresources": {"status": {}}}) } else { tree!({}) };
        let version = tree!({
            "name": version,
            "served": true,
            "storage": true,
            "additionalPrinterColumns": Tree::list(self.columns.iter().map(column).collect::<Vec<_>>()),
            "schema": {"openAPIV3Schema": self.fields.tree()},
        });
        tree!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group,
                "names": {
                    "kind": self.kind_name,
                    "listKind": format!("{}List", self.kind_name),
                    "plural": plural,
                    "singular": self.singular,
                },
                "scope": "Namespaced",
                "versions": [(version.merge(&parts))],
            },
        })
    }
}

/// The OpenAPI schema of one field.
#[derive(Debug, Clone)]
pub struct FieldSchema(Tree);

/// A string without constraints.
#[must_use]
pub fn string() -> FieldSchema {
    of_type("string")
}

/// A string with a closed set of values.
#[must_use]
pub fn enumeration(words: &[&str]) -> FieldSchema {
    string().with("enum", Tree::list(words.iter().copied()))
}

/// A field of type `boolean`.
#[must_use]
pub fn boolean() -> FieldSchema {
    of_type("boolean")
}

/// An integer without a format.
#[must_use]
pub fn integer() -> FieldSchema {
    of_type("integer")
}

/// An integer of format `int32`.
#[must_use]
pub fn int32() -> FieldSchema {
    integer().with("format", "int32")
}

/// An integer of format `int64`.
#[must_use]
pub fn int64() -> FieldSchema {
    integer().with("format", "int64")
}

/// A map of strings, such as labels.
#[must_use]
pub fn string_map() -> FieldSchema {
    of_type("object").with("additionalProperties", string().0)
}

/// A string that is a DNS label.
#[must_use]
pub fn label() -> FieldSchema {
    string().length(1, LABEL_MAX).pattern(LABEL)
}

/// A string that is a DNS subdomain, such as an object name.
#[must_use]
pub fn subdomain() -> FieldSchema {
    string().length(1, SUBDOMAIN_MAX).pattern(SUBDOMAIN)
}

/// A string that is a label key.
#[must_use]
pub fn label_key() -> FieldSchema {
    string().length(1, LABEL_MAX + 1 + SUBDOMAIN_MAX).pattern(QUALIFIED)
}

/// A quantity: an integer or a string.
#[must_use]
pub fn quantity() -> FieldSchema {
    FieldSchema(tree!({"anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": QUANTITY,
        "x-kubernetes-int-or-string": true}))
}

/// A string of format `date-time`.
#[must_use]
pub fn date_time() -> FieldSchema {
    string().with("format", "date-time")
}

/// A map with values of this schema.
#[must_use]
pub fn map(value: FieldSchema) -> FieldSchema {
    of_type("object").with("additionalProperties", value.0)
}

/// A list of type `set`: items are unique.
#[must_use]
pub fn set(item: FieldSchema) -> FieldSchema {
    list(item).with("x-kubernetes-list-type", "set")
}

/// An object with the fields of `metav1.Condition`.
#[must_use]
pub fn condition() -> FieldSchema {
    let time = kubernetes("io.k8s.apimachinery.pkg.apis.meta.v1.Time");
    object([
        ("type!", string().length(0, 316).pattern(QUALIFIED).description("What the condition is about.")),
        ("status!", enumeration(&["True", "False", "Unknown"]).description("Whether it holds.")),
        ("reason!", string().length(1, 1024).pattern(REASON).description("Why, in one word for programs.")),
        ("message!", string().length(0, 32_768).description("Why, in words for people.")),
        ("lastTransitionTime!", time.description("When the status last changed.")),
        (
            "observedGeneration",
            int64().min(0).description("The generation of the object that it was found for."),
        ),
    ])
}

/// An object with these fields; a name that ends in `!` marks a required field.
#[must_use]
pub fn object<const N: usize>(fields: [(&str, FieldSchema); N]) -> FieldSchema {
    let required = Tree::list(fields.iter().filter_map(|(name, _)| name.strip_suffix('!')));
    let all = fields.into_iter().map(|(name, part)| (name.trim_end_matches('!'), part.0));
    of_type("object").with_some("properties", Tree::map(all)).with_some("required", required)
}

/// A list of type `atomic`: owned and replaced as a whole.
#[must_use]
pub fn atomic_list(item: FieldSchema) -> FieldSchema {
    list(item).with("x-kubernetes-list-type", "atomic")
}

/// A list of type `map` with one key field.
#[must_use]
pub fn map_list(key: &str, item: FieldSchema) -> FieldSchema {
    list(item).with("x-kubernetes-list-type", "map").with("x-kubernetes-list-map-keys", Tree::list([key]))
}

/// A list of type `map` with several key fields.
#[must_use]
pub fn map_list_by(keys: &[&str], item: FieldSchema) -> FieldSchema {
    let keys = Tree::list(keys.iter().copied());
    list(item).with("x-kubernetes-list-type", "map").with("x-kubernetes-list-map-keys", keys)
}

/// A list without a list type.
#[must_use]
pub fn list(item: FieldSchema) -> FieldSchema {
    of_type("array").with("items", item.0)
}

/// A reference to a type of Kubernetes, by its component name.
#[must_use]
pub fn kubernetes(component: &str) -> FieldSchema {
    FieldSchema(Tree::map([("$ref", component)]))
}

/// Wraps an existing OpenAPI schema.
#[must_use]
pub fn schema(tree: Tree) -> FieldSchema {
    FieldSchema(tree)
}

fn of_type(word: &str) -> FieldSchema {
    FieldSchema(Tree::map([("type", word)]))
}

impl FieldSchema {
    /// The schema as an API value.
    #[must_use]
    pub fn tree(&self) -> Tree {
        self.0.clone()
    }

    /// Sets the description, one or two sentences for `kubectl explain`.
    #[must_use]
    pub fn description(self, words: &str) -> FieldSchema {
        self.with("description", words)
    }

    /// Sets `default`, which the API server fills in.
    #[must_use]
    pub fn default(self, value: impl Into<Tree>) -> FieldSchema {
        self.with("default", value)
    }

    /// Sets the smallest number (`minimum`).
    #[must_use]
    pub fn min(self, least: i64) -> FieldSchema {
        self.with("minimum", least)
    }

    /// Sets the largest number (`maximum`).
    #[must_use]
    pub fn max(self, most: i64) -> FieldSchema {
        self.with("maximum", most)
    }

    /// Sets the shortest list (`minItems`).
    #[must_use]
    pub fn min_items(self, least: i64) -> FieldSchema {
        self.with("minItems", least)
    }

    /// Sets the longest list (`maxItems`), which bounds the cost of CEL rules.
    #[must_use]
    pub fn max_items(self, most: i64) -> FieldSchema {
        self.with("maxItems", most)
    }

    /// Sets the smallest number of entries (`minProperties`).
    #[must_use]
    pub fn min_properties(self, least: i64) -> FieldSchema {
        self.with("minProperties", least)
    }

    /// Sets `maxProperties`, which bounds the cost of CEL rules.
    #[must_use]
    pub fn max_properties(self, most: i64) -> FieldSchema {
        self.with("maxProperties", most)
    }

    /// Makes a map atomic: owned and replaced as a whole.
    #[must_use]
    pub fn atomic_map(self) -> FieldSchema {
        self.with("x-kubernetes-map-type", "atomic")
    }

    /// Adds a field to an object; a name that ends in `!` marks it required.
    #[must_use]
    pub fn with_field(self, name: &str, part: FieldSchema) -> FieldSchema {
        let field = name.trim_end_matches('!');
        let required = self.0.items_at(&["required"]).iter().cloned();
        let required = Tree::list(required.chain(name.strip_suffix('!').map(Tree::from)));
        FieldSchema(self.0.with(&["properties", field], part.0)).with_some("required", required)
    }

    /// Sets the longest string in characters (`maxLength`).
    #[must_use]
    pub fn max_length(self, most: i64) -> FieldSchema {
        self.with("maxLength", most)
    }

    /// Sets `minLength` and `maxLength`.
    #[must_use]
    pub fn length(self, least: i64, most: i64) -> FieldSchema {
        self.with("minLength", least).with("maxLength", most)
    }

    /// Sets the regular expression (`pattern`).
    #[must_use]
    pub fn pattern(self, pattern: &str) -> FieldSchema {
        self.with("pattern", pattern)
    }

    /// Adds a CEL rule with the message of its violation.
    #[must_use]
    pub fn rule(self, rule: &str, message: &str) -> FieldSchema {
        self.with_rule(Tree::map([("rule", rule), ("message", message)]))
    }

    /// Adds a CEL rule that reports its violation at a field below (`fieldPath`).
    #[must_use]
    pub fn rule_at(self, field: &str, rule: &str, message: &str) -> FieldSchema {
        let path = format!(".{field}");
        self.with_rule(Tree::map([("rule", rule), ("message", message), ("fieldPath", &path)]))
    }

    fn with_rule(self, rule: Tree) -> FieldSchema {
        let all = self.0.items_at(&[RULES]).iter().cloned().chain([rule]);
        let all = Tree::list(all.collect::<Vec<_>>());
        self.with(RULES, all)
    }

    /// Rejects changes of the value. A transition rule does not run when the field is set or removed as a whole.
    #[must_use]
    pub fn immutable(self) -> FieldSchema {
        self.rule("self == oldSelf", "Value is immutable")
    }

    fn with(self, key: &str, value: impl Into<Tree>) -> FieldSchema {
        FieldSchema(self.0.with_key(key, value.into()))
    }

    fn with_some(self, key: &str, value: Tree) -> FieldSchema {
        if value.is_empty() { self } else { self.with(key, value) }
    }
}

/// Fields of our CRD that an installed CRD lacks in this version, shallow paths first; fields below a missing one are
/// not listed. The API server would prune them silently.
#[must_use]
pub fn missing_fields(ours: &Tree, theirs: &Tree, version: &str) -> Vec<String> {
    let Some(theirs) = fields_of(theirs, version) else { return vec![format!("version {version}")] };
    let mut missing = Vec::new();
    if let Some(ours) = fields_of(ours, version) {
        compare(ours, theirs, "", &mut missing);
    }
    missing.sort_by_key(|path| path.matches('.').count());
    missing
}

fn fields_of<'a>(definition: &'a Tree, version: &str) -> Option<&'a Tree> {
    let mut versions = definition.items_at(&["spec", "versions"]).iter();
    let version = versions.find(|it| it.str_at(&["name"]) == version)?;
    version.at(&["schema", "openAPIV3Schema"])
}

fn compare(ours: &Tree, theirs: &Tree, path: &str, missing: &mut Vec<String>) {
    if theirs.bool_at(&["x-kubernetes-preserve-unknown-fields"]) == Some(true) {
        return;
    }
    for (key, field) in ours.get("properties").map(Tree::entries).unwrap_or_default() {
        let path = if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
        match theirs.at(&["properties", key]) {
            Some(there) => compare(field, there, &path, missing),
            None => missing.push(path),
        }
    }
    if let Some(items) = ours.get("items") {
        compare(items, theirs.get("items").unwrap_or(&Tree::Null), &format!("{path}[]"), missing);
    }
}
