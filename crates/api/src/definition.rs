//! Words to describe the fields of a kind of ours with: each makes a part of a schema, or adds a rule to one.
//!
//! A table of fields said in these words is the source of a definition; `cargo xtask crds` makes what is installed of it.
//!
//! # Invariants
//!
//! - Whatever these words make is structural: every server takes it, not ours alone.
//!
//! # Deliberately absent
//!
//! Types of Kubernetes. They stand as references ([`kubernetes`]) to components of the schema table, which only the task
//! knows.

use muster_tree::{Tree, tree};

use crate::port::Kind;

/// Where rules stand.
const RULES: &str = "x-kubernetes-validations";

/// Camel case words, as reasons of conditions are.
const REASON: &str = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";
/// A name, with or without a domain before it.
const QUALIFIED: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";
/// A quantity as text: a number, and a unit or an exponent.
pub const QUANTITY: &str =
    r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+))?$";
/// A DNS label.
const LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
const LABEL_MAX: i64 = 63;
/// A DNS subdomain.
const SUBDOMAIN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
const SUBDOMAIN_MAX: i64 = 253;

/// A namespaced kind of ours, in one version.
pub struct Definition {
    /// The kind as paths name it.
    pub kind: &'static Kind,
    /// As manifests name it.
    pub word: &'static str,
    /// The word for one on the command line.
    pub singular: &'static str,
    /// Whether a status is written apart.
    pub has_status: bool,
    /// Heading, type and path of what `kubectl get` shows.
    pub columns: &'static [(&'static str, &'static str, &'static str)],
    /// Its fields.
    pub fields: Part,
}

impl Definition {
    /// The definition with types of Kubernetes still named instead of spelled out.
    #[must_use]
    pub fn source(&self) -> Tree {
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
                    "kind": self.word,
                    "listKind": format!("{}List", self.word),
                    "plural": plural,
                    "singular": self.singular,
                },
                "scope": "Namespaced",
                "versions": [(version.merge(&parts))],
            },
        })
    }
}

/// What may stand in one place.
#[derive(Debug, Clone)]
pub struct Part(Tree);

/// Any string.
#[must_use]
pub fn text() -> Part {
    of_type("string")
}

/// One of these words.
#[must_use]
pub fn word(words: &[&str]) -> Part {
    text().with("enum", Tree::list(words.iter().copied()))
}

/// True or false.
#[must_use]
pub fn truth() -> Part {
    of_type("boolean")
}

/// A number of unsaid size.
#[must_use]
pub fn int() -> Part {
    of_type("integer")
}

/// A number that Go keeps in 32 bits.
#[must_use]
pub fn int32() -> Part {
    int().with("format", "int32")
}

/// A number that Go keeps in 64 bits.
#[must_use]
pub fn int64() -> Part {
    int().with("format", "int64")
}

/// Free keys, each with a string.
#[must_use]
pub fn labels() -> Part {
    of_type("object").with("additionalProperties", text().0)
}

/// A DNS label.
#[must_use]
pub fn label() -> Part {
    text().length(1, LABEL_MAX).pattern(LABEL)
}

/// A DNS subdomain, as names of objects are.
#[must_use]
pub fn subdomain() -> Part {
    text().length(1, SUBDOMAIN_MAX).pattern(SUBDOMAIN)
}

/// The name of a label of objects.
#[must_use]
pub fn label_key() -> Part {
    text().length(1, LABEL_MAX + 1 + SUBDOMAIN_MAX).pattern(QUALIFIED)
}

/// A quantity, as a number or as text.
#[must_use]
pub fn quantity() -> Part {
    Part(tree!({"anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": QUANTITY,
        "x-kubernetes-int-or-string": true}))
}

/// An instant.
#[must_use]
pub fn instant() -> Part {
    text().with("format", "date-time")
}

/// Free keys, each with the same.
#[must_use]
pub fn map(value: Part) -> Part {
    of_type("object").with("additionalProperties", value.0)
}

/// A list in which nothing stands twice.
#[must_use]
pub fn set(item: Part) -> Part {
    list(item).with("x-kubernetes-list-type", "set")
}

/// A standard condition.
#[must_use]
pub fn condition() -> Part {
    let time = kubernetes("io.k8s.apimachinery.pkg.apis.meta.v1.Time");
    object([
        ("type!", text().length(0, 316).pattern(QUALIFIED).about("What the condition is about.")),
        ("status!", word(&["True", "False", "Unknown"]).about("Whether it holds.")),
        ("reason!", text().length(1, 1024).pattern(REASON).about("Why, in one word for programs.")),
        ("message!", text().length(0, 32_768).about("Why, in words for people.")),
        ("lastTransitionTime!", time.about("When the status last changed.")),
        ("observedGeneration", int64().min(0).about("The generation of the object that it was found for.")),
    ])
}

/// These fields. Those whose name ends in `!` must be there.
#[must_use]
pub fn object<const N: usize>(fields: [(&str, Part); N]) -> Part {
    let required = Tree::list(fields.iter().filter_map(|(name, _)| name.strip_suffix('!')));
    let all = fields.into_iter().map(|(name, part)| (name.trim_end_matches('!'), part.0));
    of_type("object").with_some("properties", Tree::map(all)).with_some("required", required)
}

/// A list that is owned and replaced as a whole.
#[must_use]
pub fn atoms(item: Part) -> Part {
    list(item).with("x-kubernetes-list-type", "atomic")
}

/// A list whose items are told apart by one field.
#[must_use]
pub fn keyed(key: &str, item: Part) -> Part {
    list(item).with("x-kubernetes-list-type", "map").with("x-kubernetes-list-map-keys", Tree::list([key]))
}

/// A list whose items are told apart by several fields.
#[must_use]
pub fn keyed_by(keys: &[&str], item: Part) -> Part {
    let keys = Tree::list(keys.iter().copied());
    list(item).with("x-kubernetes-list-type", "map").with("x-kubernetes-list-map-keys", keys)
}

/// A list about whose items nothing is said.
#[must_use]
pub fn list(item: Part) -> Part {
    of_type("array").with("items", item.0)
}

/// A type of Kubernetes, by its name in the schema table.
#[must_use]
pub fn kubernetes(component: &str) -> Part {
    Part(Tree::map([("$ref", component)]))
}

/// A schema that was said elsewhere.
#[must_use]
pub fn schema(tree: Tree) -> Part {
    Part(tree)
}

fn of_type(word: &str) -> Part {
    Part(Tree::map([("type", word)]))
}

impl Part {
    /// The schema.
    #[must_use]
    pub fn tree(&self) -> Tree {
        self.0.clone()
    }

    /// What this is, in a sentence or two for `kubectl explain`.
    #[must_use]
    pub fn about(self, words: &str) -> Part {
        self.with("description", words)
    }

    /// What stands here when the client says nothing.
    #[must_use]
    pub fn default(self, value: impl Into<Tree>) -> Part {
        self.with("default", value)
    }

    /// The smallest number.
    #[must_use]
    pub fn min(self, least: i64) -> Part {
        self.with("minimum", least)
    }

    /// The largest number.
    #[must_use]
    pub fn max(self, most: i64) -> Part {
        self.with("maximum", most)
    }

    /// The length of the shortest list.
    #[must_use]
    pub fn min_items(self, least: i64) -> Part {
        self.with("minItems", least)
    }

    /// The length of the longest list.
    #[must_use]
    pub fn max_items(self, most: i64) -> Part {
        self.with("maxItems", most)
    }

    /// The fewest entries of a map, or fields of an object.
    #[must_use]
    pub fn min_entries(self, least: i64) -> Part {
        self.with("minProperties", least)
    }

    /// The most entries of a map.
    #[must_use]
    pub fn max_entries(self, most: i64) -> Part {
        self.with("maxProperties", most)
    }

    /// A map that is owned and replaced as a whole.
    #[must_use]
    pub fn whole(self) -> Part {
        self.with("x-kubernetes-map-type", "atomic")
    }

    /// One more field. If its name ends in `!` it must be there.
    #[must_use]
    pub fn and(self, name: &str, part: Part) -> Part {
        let field = name.trim_end_matches('!');
        let required = self.0.items_at(&["required"]).iter().cloned();
        let required = Tree::list(required.chain(name.strip_suffix('!').map(Tree::from)));
        Part(self.0.with(&["properties", field], part.0)).with_some("required", required)
    }

    /// The most characters.
    #[must_use]
    pub fn max_length(self, most: i64) -> Part {
        self.with("maxLength", most)
    }

    /// The fewest and the most characters.
    #[must_use]
    pub fn length(self, least: i64, most: i64) -> Part {
        self.with("minLength", least).with("maxLength", most)
    }

    /// What the text looks like.
    #[must_use]
    pub fn pattern(self, pattern: &str) -> Part {
        self.with("pattern", pattern)
    }

    /// One more CEL rule, and what is said when it does not hold.
    #[must_use]
    pub fn rule(self, rule: &str, message: &str) -> Part {
        self.ruled(Tree::map([("rule", rule), ("message", message)]))
    }

    /// One more CEL rule that blames a field below.
    #[must_use]
    pub fn rule_about(self, field: &str, rule: &str, message: &str) -> Part {
        let path = format!(".{field}");
        self.ruled(Tree::map([("rule", rule), ("message", message), ("fieldPath", &path)]))
    }

    fn ruled(self, rule: Tree) -> Part {
        let all = self.0.items_at(&[RULES]).iter().cloned().chain([rule]);
        let all = Tree::list(all.collect::<Vec<_>>());
        self.with(RULES, all)
    }

    /// Once set, it stays as it is. Setting and removing it as a whole is not seen by such a rule.
    #[must_use]
    pub fn immutable(self) -> Part {
        self.rule("self == oldSelf", "Value is immutable")
    }

    fn with(self, key: &str, value: impl Into<Tree>) -> Part {
        Part(self.0.with_key(key, value.into()))
    }

    fn with_some(self, key: &str, value: Tree) -> Part {
        if value.is_empty() { self } else { self.with(key, value) }
    }
}

/// The fields that objects of `theirs` cannot have in this version and those of `ours` can, those nearest to the root
/// first: a server drops them without a word. Of a missing one nothing inside is named.
#[must_use]
pub fn lacks(ours: &Tree, theirs: &Tree, version: &str) -> Vec<String> {
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
