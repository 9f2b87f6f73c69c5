//! `cargo xtask crds`: makes the definition of JobSets from our table of its fields.
//!
//! The table names types of Kubernetes; here their fields take the place of the names. What a definition may not
//! hold (references, rules of strategic merge) is left out, and so are lists of allowed words: a template is checked
//! by the server that gets the Job, which may know more words than we do.
//!
//! # Invariants
//!
//! - Same table, same bytes: maps are sorted.
//! - An ordinary build never runs this; its result is checked in, and a test makes it anew.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use muster_tree::{Tree, tree};

/// The result, from the workspace's root.
const RESULT: &str = "crates/jobset/src/crd.json";
/// The schema table, from the workspace's root.
const TABLE: &str = "crates/schema/data/schema.json.lz4";

/// What is kept of a type of Kubernetes.
const KEPT: &[&str] = &[
    "additionalProperties",
    "default",
    "format",
    "items",
    "properties",
    "required",
    "type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
];

/// What templates may say of their own metadata.
const METADATA: &[&str] = &["annotations", "finalizers", "labels", "name", "namespace"];

/// A quantity as text: a number, and a unit or an exponent.
const QUANTITY: &str =
    r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+))?$";

/// Writes the definition.
pub fn task(_: &[String]) -> Result<(), String> {
    let path = root().join(RESULT);
    fs::write(&path, made()?).map_err(|e| format!("writing {}: {e}", path.display()))
}

/// The definition as it should be: one line.
fn made() -> Result<String, String> {
    let source = muster_jobset::crd::source();
    let expanded = Types { components: components()? }.expand(&source)?;
    Ok(expanded.to_json() + "\n")
}

fn components() -> Result<Tree, String> {
    let path = root().join(TABLE);
    let file = fs::File::open(&path).map_err(|e| format!("reading {}: {e}", path.display()))?;
    let mut bytes = Vec::new();
    lz4_flex::frame::FrameDecoder::new(file).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    let table = Tree::parse(&bytes).map_err(|e| e.to_string())?;
    table.get("components").cloned().ok_or_else(|| format!("{} has no components", path.display()))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The types that may be named.
struct Types {
    components: Tree,
}

impl Types {
    /// Spells out every type named below a tree.
    fn expand(&self, tree: &Tree) -> Result<Tree, String> {
        if let Some(name) = tree.get("$ref").and_then(Tree::as_str) {
            let beside = tree.without_key("$ref").map_entries(|key, value| kept(key, value));
            return Ok(self.named(name)?.merge(&beside));
        }
        let entries = tree.entries().iter();
        let entries: Result<Vec<_>, String> =
            entries.map(|(key, below)| Ok((key.clone(), self.expand(below)?))).collect();
        match tree {
            Tree::Map(_) => Ok(with_keys(&Tree::map(entries?))),
            Tree::List(_) => {
                let items: Result<Vec<_>, String> =
                    tree.items().iter().map(|item| self.expand(item)).collect();
                Ok(Tree::list(items?))
            }
            _ => Ok(tree.clone()),
        }
    }

    /// A type of Kubernetes.
    fn named(&self, name: &str) -> Result<Tree, String> {
        if let Some(special) = special(name) {
            return Ok(special);
        }
        let component = self.components.get(name).ok_or_else(|| format!("no type {name} in the table"))?;
        if name.ends_with(".ObjectMeta") {
            let fields = component.get("properties").cloned().unwrap_or_default();
            let fields =
                fields.map_entries(|key, field| METADATA.contains(&key.as_str()).then(|| field.clone()));
            return self.expand(&tree!({"type": "object", "properties": stripped_fields(&fields)}));
        }
        self.expand(&stripped(component))
    }
}

/// Types whose JSON form their published schema does not tell.
fn special(name: &str) -> Option<Tree> {
    let name = name.strip_prefix("io.k8s.apimachinery.")?;
    let number_or_text =
        tree!({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true});
    match name.rsplit('.').next()? {
        "Quantity" => Some(number_or_text.with_key("pattern", QUANTITY.into())),
        "IntOrString" => Some(number_or_text),
        "Time" | "MicroTime" => Some(tree!({"type": "string", "format": "date-time"})),
        "RawExtension" => Some(tree!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})),
        _ => None,
    }
}

/// A published schema without what definitions may not hold.
fn stripped(schema: &Tree) -> Tree {
    schema.map_entries(|key, value| match key.as_str() {
        "$ref" => Some(value.clone()),
        "properties" => Some(stripped_fields(value)),
        "items" | "additionalProperties" => Some(stripped(value)),
        _ => kept(key, value),
    })
}

fn stripped_fields(fields: &Tree) -> Tree {
    fields.map_entries(|_, field| Some(stripped(field)))
}

fn kept(key: &str, value: &Tree) -> Option<Tree> {
    KEPT.contains(&key).then(|| value.clone())
}

/// The keys of a list must be in every item: those that may be left out are empty by default.
fn with_keys(schema: &Tree) -> Tree {
    let mut schema = schema.clone();
    for key in schema.items_at(&["x-kubernetes-list-map-keys"]).to_vec() {
        let Some(key) = key.as_str() else { continue };
        let required = schema.items_at(&["items", "required"]).iter().any(|name| name.as_str() == Some(key));
        let default = ["items", "properties", key, "default"];
        if !required && schema.at(&default).is_none() {
            schema = schema.with(&default, "");
        }
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::{RESULT, made, root};

    /// Shows: 572-54.
    #[test]
    fn the_definition_is_up_to_date() {
        let there = std::fs::read_to_string(root().join(RESULT)).unwrap();
        assert!(there == made().unwrap(), "{RESULT} is out of date: run `cargo xtask crds`");
    }
}
