//! The schemas of the published OpenAPI v3 documents, without descriptions.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::read_json;

pub type Components = BTreeMap<String, Value>;

/// Keywords that are copied.
const ALLOWED_KEYWORDS: &[&str] = &[
    "type",
    "format",
    "required",
    "enum",
    "nullable",
    "oneOf",
    "x-kubernetes-group-version-kind",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-patch-merge-key",
    "x-kubernetes-patch-strategy",
];

/// Reads the schemas of all documents in a directory.
pub fn read(folder: &Path) -> Result<Components, String> {
    let mut all = Components::new();
    let files = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut paths: Vec<_> = files.flatten().map(|file| file.path()).collect();
    paths.sort();
    for path in paths.iter().filter(|path| path.extension().is_some_and(|e| e == "json")) {
        let document = read_json(path)?;
        for (name, schema) in document["components"]["schemas"].as_object().into_iter().flatten() {
            merge(all.entry(name.clone()).or_insert(Value::Null), stripped(schema));
        }
    }
    Ok(all)
}

/// Merges a schema that occurs in several documents: they differ only in the list of kinds.
fn merge(known: &mut Value, other: Value) {
    const KINDS: &str = "x-kubernetes-group-version-kind";
    let Some(kinds) = known.get_mut(KINDS).and_then(Value::as_array_mut) else {
        *known = other;
        return;
    };
    for kind in other[KINDS].as_array().into_iter().flatten() {
        if !kinds.contains(kind) {
            kinds.push(kind.clone());
        }
    }
}

/// Removes descriptions, simplifies references, and drops defaults that equal Go's zero values.
fn stripped(schema: &Value) -> Value {
    let mut out = Map::new();
    for keyword in ALLOWED_KEYWORDS {
        if let Some(value) = schema.get(*keyword) {
            out.insert((*keyword).to_owned(), value.clone());
        }
    }
    if let Some(name) = reference(schema) {
        out.insert("$ref".to_owned(), json!(name));
    }
    if let Some(default) = schema.get("default").filter(|value| !is_zero(value)) {
        out.insert("default".to_owned(), default.clone());
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(below) = schema.get(keyword) {
            out.insert(keyword.to_owned(), stripped(below));
        }
    }
    if let Some(fields) = schema["properties"].as_object() {
        let fields = fields.iter().map(|(name, field)| (name.clone(), stripped(field)));
        out.insert("properties".to_owned(), Value::Object(fields.collect()));
    }
    Value::Object(out)
}

/// Returns the component that a schema references, directly or as the only item of `allOf`.
fn reference(schema: &Value) -> Option<&str> {
    let whole = schema["$ref"].as_str().or_else(|| schema["allOf"][0]["$ref"].as_str())?;
    whole.strip_prefix("#/components/schemas/")
}

fn is_zero(value: &Value) -> bool {
    *value == json!({}) || *value == json!("") || *value == json!(0) || *value == json!(false)
}

/// Returns the schemas that the rows reference, directly or transitively.
pub fn reachable(all: &Components, rows: &[Value]) -> Components {
    let mut found = Components::new();
    let mut next: Vec<&str> =
        all.iter().filter(|(_, schema)| serves(schema, rows)).map(|(name, _)| name.as_str()).collect();
    while let Some(name) = next.pop() {
        if let Some(schema) = all.get(name)
            && found.insert(name.to_owned(), schema.clone()).is_none()
        {
            references(schema, &mut next);
        }
    }
    found
}

/// Whether a schema is that of a row's kind or of its list kind.
fn serves(schema: &Value, rows: &[Value]) -> bool {
    let kinds = schema["x-kubernetes-group-version-kind"].as_array();
    kinds.into_iter().flatten().any(|of| {
        rows.iter().any(|row| {
            row["group"] == of["group"]
                && row["version"] == of["version"]
                && (row["kind"] == of["kind"] || row["listKind"] == of["kind"])
        })
    })
}

fn references<'a>(schema: &'a Value, to: &mut Vec<&'a str>) {
    match schema {
        Value::Object(entries) => {
            to.extend(entries.get("$ref").and_then(Value::as_str));
            entries.values().for_each(|below| references(below, to));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, to)),
        _ => {}
    }
}
